"""Random keys as a function of (seed, stream, step): no key is stored in a checkpoint.

In JAX's default generator `split(key, n)[i]` and `fold_in(key, i)` are the same key. A function
that folds numbers into a key must not pass the same key to a function that splits it.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

STREAMS = {"init": 0, "data": 1, "plan": 2, "train": 3, "eval": 4}


def quick_options() -> dict | None:
    """Compiler options of random draws: full optimisation takes a CPU four times as long."""
    return {"xla_backend_optimization_level": 1} if jax.default_backend() == "cpu" else None


def drawn(sampler: Callable, key: jax.Array, shape: tuple, dtype=jnp.float32) -> jax.Array:
    """`sampler(key, shape, dtype)`, such as `jax.random.uniform`; not for use inside `jax.jit`."""
    return _compiled(sampler, dtype)(key, shape)


@functools.cache
def _compiled(sampler, dtype):
    draw = functools.partial(sampler, dtype=dtype)
    return jax.jit(draw, static_argnums=1, compiler_options=quick_options())


def stream(key: jax.Array, name: str) -> jax.Array:
    """The independent stream `name` of a run's key."""
    return jax.random.fold_in(key, STREAMS[name])


def at(key: jax.Array, name: str, step) -> jax.Array:
    """The key of one step (or epoch) of a stream."""
    return jax.random.fold_in(stream(key, name), step)
