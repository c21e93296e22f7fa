"""Scores of predictions [n, outputs] against targets of the same shape."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

# Sums of squares up to this count as zero, as in the metric library the papers used.
NEGLIGIBLE = 1e-4


def mse(y: jax.Array, yhat: jax.Array) -> jax.Array:
    """Mean squared error over everything."""
    return jnp.mean(jnp.square(y - yhat))


def r2_variance_weighted(y: jax.Array, yhat: jax.Array) -> jax.Array:
    """R2 of each output, weighted by its variance; NaN where no output varies.

    Errors on an output that never varies do not count.
    """
    score, tss = _r2_per_output(y, yhat)
    return jnp.sum(tss * score) / jnp.sum(tss)


def r2_uniform(y: jax.Array, yhat: jax.Array) -> jax.Array:
    """R2 averaged over outputs; dominated by outputs that hardly vary."""
    return jnp.mean(_r2_per_output(y, yhat)[0])


def _r2_per_output(y, yhat):
    """1 - rss / tss and tss, each [outputs]; 1 where rss vanishes, else 0 where tss does."""
    if y.ndim != 2 or y.shape != yhat.shape:
        raise ValueError(f"R2 needs two arrays [n, outputs], got {y.shape} and {yhat.shape}")
    rss = jnp.sum(jnp.square(y - yhat), axis=0)
    tss = jnp.sum(jnp.square(y), axis=0) - jnp.square(jnp.sum(y, axis=0)) / len(y)
    varies = jnp.abs(tss) > NEGLIGIBLE
    score = jnp.where(varies, 1 - rss / jnp.where(varies, tss, 1), 0)
    return jnp.where(rss <= NEGLIGIBLE, 1, score), tss


def batched(metric: Callable, y: jax.Array, yhat: jax.Array, batch: int) -> jax.Array:
    """Mean of `metric` over consecutive batches of rows: how the papers report R2."""
    if batch < 1 or len(y) % batch:
        raise ValueError(f"batches of {batch} do not divide {len(y)} rows")
    pairs = [a.reshape(-1, batch, *a.shape[1:]) for a in (y, yhat)]
    return jnp.mean(jax.lax.map(lambda pair: metric(*pair), tuple(pairs)))
