"""Cholesky factors of many small matrices, safe beside others of their kind in one program.

On a CPU, LAPACK calls of jaxlib split a batch over XLA's threads and wait for them. Independent
calls of one program run on those same threads: as soon as each thread waits for parts that no
thread is left to take up, the program never returns. A single matrix is not split, so on a CPU a
batch is a loop over its matrices, which at these sizes is as fast.
"""

import jax
import jax.numpy as jnp


def factorised(matrix: jax.Array) -> jax.Array:
    """The lower factor [n, n] of a positive definite matrix [n, n], NaN where there is none."""
    return _one_at_a_time(_factorised, matrix)


def solved(factor: jax.Array, sides: jax.Array) -> jax.Array:
    """x [n] or [n, k] with factor factor^T x = sides."""
    return _one_at_a_time(_solved, factor, sides)


def _factorised(matrix):
    return jnp.linalg.cholesky(matrix, symmetrize_input=False)


def _solved(factor, sides):
    return jax.scipy.linalg.cho_solve((factor, True), sides)


def _one_at_a_time(fn, *arrays):
    """fn(*arrays); under vmap a loop on a CPU, one call for the batch elsewhere."""
    if jax.default_backend() == "cpu":
        fn = jax.custom_batching.sequential_vmap(fn)
    return fn(*arrays)
