"""Scores of predictions against targets of the same shape: [n, outputs], or images."""

import jax
import jax.numpy as jnp
import numpy as np

# Sums of squares up to this value count as zero, as in the metric library that the papers use.
NEGLIGIBLE = 1e-4


def mse(y: jax.Array, yhat: jax.Array) -> jax.Array:
    """Mean squared error over all rows and outputs."""
    y, yhat = _pair(y, yhat)
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
    """(R2, tss), each [outputs]: R2 = 1 - rss / tss; 1 if rss is negligible, else 0 if tss is."""
    y, yhat = _pair(y, yhat)
    if y.ndim != 2:
        raise ValueError(f"R2 needs y and yhat [n, outputs], got {y.shape}")
    rss = jnp.sum(jnp.square(y - yhat), axis=0)
    apart = y - jnp.mean(y, axis=0, keepdims=True)  # else the squares of a large mean would cancel
    tss = jnp.sum(jnp.square(apart), axis=0) - jnp.square(jnp.sum(apart, axis=0)) / len(y)
    varies = ~(jnp.abs(tss) <= NEGLIGIBLE)  # True for NaN, so that its R2 is NaN, not 0
    score = jnp.where(varies, 1 - rss / jnp.where(varies, tss, 1), 0)
    return jnp.where(rss <= NEGLIGIBLE, 1, score), tss


def ssim(y: jax.Array, yhat: jax.Array, data_range: float = 1.0, window: int = 7) -> jax.Array:
    """Structural similarity of images [..., H, W], averaged over each image: [...].

    Means and unbiased variances and covariances are those of all square windows inside the image.
    The constants are (0.01 data_range)^2 and (0.03 data_range)^2 (Wang et al. 2004).
    """
    y, yhat = _pair(y, yhat)
    if y.ndim < 2 or window < 2 or min(y.shape[-2:]) < window:
        raise ValueError(
            f"y and yhat must be images of at least window x window, window >= 2: "
            f"got shape {y.shape}, window {window}"
        )
    if not data_range > 0:
        raise ValueError(f"data_range must be above 0, got {data_range}")
    dims = (1,) * (y.ndim - 2) + (window, window)

    def local_mean(x):
        total = jax.lax.reduce_window(x, 0.0, jax.lax.add, dims, (1,) * x.ndim, "VALID")
        return total / window**2

    # The mean of each pair of images is subtracted, so that squares are small and round less.
    level = jnp.mean((y + yhat) / 2, axis=(-2, -1), keepdims=True)
    y, yhat = y - level, yhat - level
    mean, mean_hat = local_mean(y), local_mean(yhat)
    unbiased = window**2 / (window**2 - 1)
    var = unbiased * (local_mean(y * y) - mean**2)
    var_hat = unbiased * (local_mean(yhat * yhat) - mean_hat**2)
    cov = unbiased * (local_mean(y * yhat) - mean * mean_hat)
    mean, mean_hat = mean + level, mean_hat + level
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    likeness = (2 * mean * mean_hat + c1) / (mean**2 + mean_hat**2 + c1)
    return jnp.mean(likeness * (2 * cov + c2) / (var + var_hat + c2), axis=(-2, -1))


def _pair(y, yhat):
    """Both in floating point, because differences of uint8 would wrap around. No broadcasting."""
    if y.shape != yhat.shape or y.size == 0:
        raise ValueError(
            f"y and yhat must have the same shape and not be empty: got {y.shape}, {yhat.shape}"
        )
    if any(jnp.issubdtype(a.dtype, jnp.complexfloating) for a in (y, yhat)):
        raise ValueError("y and yhat must be real: score real and imaginary parts separately")
    return [a if jnp.issubdtype(a.dtype, jnp.floating) else 1.0 * a for a in (y, yhat)]


def entries(name: str, array: jax.Array) -> dict[str, jax.Array]:
    """One named number per entry: `entries("D", matrix)` -> {"D[0,0]": ..., "D[0,1]": ...}.

    For `loss` and `evaluate` of an experiment, whose metrics must be single numbers.
    """
    array = jnp.asarray(array)
    return {f"{name}[{','.join(map(str, at))}]": array[at] for at in np.ndindex(array.shape)}
