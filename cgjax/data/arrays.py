"""On-device batching: which rows make up batch t is a function of (key, t) alone."""

import jax
import jax.numpy as jnp


def n_batches(n: int, batch: int) -> int:
    """Batches in one pass over n rows; the last one may be partial."""
    return -(-n // batch)


def epochs(n: int, batch: int):
    """A plan that visits all n rows once per epoch, in an order drawn from the key.

    Returns `plan(key, epoch) -> (indices [steps, batch], mask [steps, batch])`; the key is the
    epoch's own. The last batch is padded with rows of the same epoch, whose mask is 0.
    """
    steps = n_batches(n, batch)

    def plan(key: jax.Array, epoch):
        del epoch  # already in the key
        order = jax.random.permutation(key, n)
        padded = jnp.resize(order, (steps * batch,))
        mask = (jnp.arange(steps * batch) < n).astype(jnp.float32)
        return padded.reshape(steps, batch), mask.reshape(steps, batch)

    return plan
