"""Scores of painted images, always reported together: nMSE, position, peak height, similarity.

Images are [k, n, n], centres xy [k, 2]. nMSE is the error divided by that of a blank image: a
network that paints nothing has nMSE 1. An OOD MSE of 0.004 looks small and is nMSE 1.
"""

import functools

import jax
import jax.numpy as jnp

from cgjax.core import metrics
from cgjax.core.errors import BadInput


def image_mse(truth: jax.Array, painted: jax.Array) -> jax.Array:
    """Mean squared error [k] of each image."""
    _check_pair(truth, painted)
    return jnp.mean((truth - painted) ** 2, axis=(1, 2))


def blank_mse(truth: jax.Array, inverted: bool = True) -> jax.Array:
    """The error [k] of a blank image: about pi sigma^2 / n^2 for a bump inside the image."""
    return jnp.mean((truth - float(inverted)) ** 2, axis=(1, 2))


def extremum(painted: jax.Array, inverted: bool = True) -> jax.Array:
    """(x, y) [k, 2] of the brightest pixel (inverted: the darkest); of several, the first."""
    n = painted.shape[-1]
    flat = painted.reshape(len(painted), -1)
    place = jnp.argmin(flat, axis=1) if inverted else jnp.argmax(flat, axis=1)
    return jnp.stack([place % n, place // n], axis=1)


def position_error(painted: jax.Array, xy: jax.Array, inverted: bool = True) -> jax.Array:
    """Distance [k] in pixels between the extremum and the target."""
    return jnp.linalg.norm(extremum(painted, inverted) - jnp.asarray(xy), axis=1)


def is_placed(
    painted: jax.Array, xy: jax.Array, inverted: bool = True, within: float = 1.0
) -> jax.Array:
    """Whether the extremum of each image [k] is `within` pixels of the target, along both axes."""
    away = jnp.abs(extremum(painted, inverted) - jnp.asarray(xy))
    return jnp.all(away <= within, axis=1)


def peak_height(
    truth: jax.Array, painted: jax.Array, xy: jax.Array, inverted: bool = True
) -> jax.Array:
    """Height [k] above the background at the pixel nearest to the target, divided by the true one.

    1 is correct. xy are in pixels: on a stretched grid, centres times (n - 1) / n.
    """
    x, y = jnp.round(jnp.asarray(xy)).astype(int).T
    rows = jnp.arange(len(painted))
    ours, true = (images[rows, y, x] for images in (painted, truth))
    return (1 - ours) / (1 - true) if inverted else ours / true


def all_scores(
    truth: jax.Array,
    painted: jax.Array,
    xy: jax.Array,
    inverted: bool = True,
    where: jax.Array | None = None,
) -> dict:
    """All scores of one region, which are always reported together.

    where: boolean [k], the images of the region; by default all.
    """
    where = jnp.ones(len(truth), bool) if where is None else where
    return _all_scores(truth, painted, xy, where, inverted)


@functools.partial(jax.jit, static_argnames="inverted")
def _all_scores(truth, painted, xy, where, inverted):
    def mean(values):
        return jnp.sum(jnp.where(where, values, 0)) / jnp.sum(where)

    errors = image_mse(truth, painted)
    return {
        "mse": mean(errors),
        "median_mse": jnp.nanmedian(jnp.where(where, errors, jnp.nan)),
        "nmse": mean(errors) / mean(blank_mse(truth, inverted)),
        "position_error": mean(position_error(painted, xy, inverted)),
        "position_accuracy": mean(is_placed(painted, xy, inverted)),
        "exact_position": mean(is_placed(painted, xy, inverted, 0.5)),
        "peak_height": mean(peak_height(truth, painted, xy, inverted)),
        "ssim_error": 1 - mean(metrics.ssim(truth, painted)),
    }


def _check_pair(truth, painted):
    if truth.shape != painted.shape or truth.ndim != 3:
        raise BadInput(
            f"truth and painted must be [k, n, n], got {truth.shape} and {painted.shape}"
        )


# --- similarity of all pairs ----------------------------------------------------------------------


def cosine(images: jax.Array) -> jax.Array:
    """Cosine similarity [k, k] of images."""
    flat = images.reshape(len(images), -1)
    length = jnp.linalg.norm(flat, axis=1)
    return flat @ flat.T / (length[:, None] * length[None])


def distance(images: jax.Array) -> jax.Array:
    """Euclidean distance [k, k] of images."""

    def from_one(image):
        return jnp.sqrt(jnp.sum((images - image[None]) ** 2, axis=(1, 2)))

    # Image by image: the expanded square would lose the digits of small distances.
    return jax.lax.map(from_one, images)


def pixel_overlap(images: jax.Array, threshold: float = 0.3) -> jax.Array:
    """Share of pixels that are below the threshold in both of two inverted images: [k, k]."""
    dark = (images < threshold).reshape(len(images), -1).astype(images.dtype)
    return dark @ dark.T / dark.shape[1]
