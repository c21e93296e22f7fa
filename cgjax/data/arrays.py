"""On-device batching: the rows of batch t are a function of (key, t) alone."""

import jax
import jax.numpy as jnp


def n_batches(n: int, batch: int) -> int:
    """Batches in one pass over n rows; the last one may be partial."""
    return -(-n // batch)


def epochs(n: int, batch: int):
    """A plan that visits all n rows once per epoch, in an order drawn from the key.

    Returns `plan(key, epoch) -> (indices [steps, batch], mask [steps, batch])`; each epoch has its
    own key. The last batch is padded with rows of the same epoch, whose mask is 0.
    """
    steps = n_batches(n, batch)

    def plan(key: jax.Array, epoch):
        del epoch  # already in the key
        order = jax.random.permutation(key, n)
        padded = jnp.resize(order, (steps * batch,))
        mask = (jnp.arange(steps * batch) < n).astype(jnp.float32)
        return padded.reshape(steps, batch), mask.reshape(steps, batch)

    return plan


def strata(n: int, batch: int):
    """A plan for replicas whose training sets differ in size; n is the largest.

    Returns `plan(key, epoch) -> (places [steps, batch], mask)`: integers below n * parts(n), one in
    each of n equal intervals, in an order drawn from the key. `row_of` maps a place to a row of a
    set of any size up to n. In a set of n rows, each row occurs once per epoch. In a smaller set,
    all rows occur equally often, up to chance.
    """
    shuffled = epochs(n, batch)

    def plan(key: jax.Array, epoch):
        order, within = jax.random.split(key)
        interval, mask = shuffled(order, epoch)
        return interval * parts(n) + jax.random.randint(within, interval.shape, 0, parts(n)), mask

    return plan


def parts(n: int) -> int:
    """Number of parts in an interval of `strata`; small enough for products within 31 bits."""
    largest = (2**31 - 1) // n**2
    if not largest:
        raise ValueError(f"strata of {n} rows: more than 46,340 rows exceed 32 bits")
    return min(largest, 1024)


def row_of(place: jax.Array, n_rows: jax.Array, n: int) -> jax.Array:
    """The row, of n_rows <= n, for a place of `strata(n, ...)`."""
    return place * n_rows // (n * parts(n))
