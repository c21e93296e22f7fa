"""Random keys as a function of (seed, stream, step): no key is stored in a checkpoint."""

import jax

STREAMS = {"init": 0, "data": 1, "plan": 2, "train": 3, "eval": 4}


def stream(key: jax.Array, name: str) -> jax.Array:
    """The independent stream `name` of a run's key."""
    return jax.random.fold_in(key, STREAMS[name])


def at(key: jax.Array, name: str, step) -> jax.Array:
    """The key of one step (or epoch) of a stream."""
    return jax.random.fold_in(stream(key, name), step)
