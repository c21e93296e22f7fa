"""Matrix products of an NTK: their precision, by symmetry, and as loops of small programs."""

import math

import jax
import jax.numpy as jnp

_WORTH_BLOCKS = 1e11  # operations of a product; below, one call is faster
_N_BLOCKS = 8  # of rows, in a symmetric product


def digits(precision: str):
    """A context in which matrix products have this precision."""
    try:
        return jax.default_matmul_precision(precision)
    except ValueError:
        raise ValueError(
            f"unknown precision '{precision}': use one of JAX's, such as 'highest'"
        ) from None


def product(a: jax.Array, b: jax.Array, loops: bool = False) -> jax.Array:
    """a b^T of [n1, k] and [n2, k]; if b is a, by symmetry; loops: see `in_loops`."""
    if loops:
        return in_loops(a, b, ((1,), (1,)))
    if b is not a or 2 * len(b) * a.size < _WORTH_BLOCKS:
        return a @ b.T
    return _in_blocks(a)


def _in_blocks(a):
    """a a^T from the blocks of its upper triangle, all of one size: one product is compiled."""
    n, size = len(a), math.ceil(len(a) / _N_BLOCKS)
    starts = [min(i * size, n - size) for i in range(math.ceil(n / size))]
    total = jnp.zeros((n, n), a.dtype)
    for place, i in enumerate(starts):
        for j in starts[place:]:
            block = a[i : i + size] @ a[j : j + size].T
            total = total.at[j : j + size, i : i + size].set(block.T)
            total = total.at[i : i + size, j : j + size].set(block)
    return total


def in_loops(a: jax.Array, b: jax.Array, contracted: tuple) -> jax.Array:
    """The result of `lax.dot_general` over these axes of a and b, as a loop without a call.

    The compiler fuses the loop with the operations that follow.
    """
    (k1, k2), sides = contracted, []
    for x, axes in ((a, k1), (b, k2)):
        free = [axis for axis in range(x.ndim) if axis not in axes]
        sides.append(x.transpose(*free, *axes).reshape(*(x.shape[i] for i in free), -1))
    a, b = sides
    a, b = (
        jnp.expand_dims(a, range(a.ndim - 1, a.ndim + b.ndim - 2)),
        jnp.expand_dims(b, range(a.ndim - 1)),
    )
    return jnp.sum(a * b, axis=-1)
