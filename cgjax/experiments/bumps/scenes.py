"""Bumps, stripes, their codes and the held-out regions (Liang et al. 2025).

x is the column of a bump's centre, y its row: `image[row, column] = image[y, x]`. Pixels are at
0..n-1. A bump is the product of two bells, one along each axis; a stripe is a single bell. Images
are *positive* (bright on background 0) or *inverted* (1 minus that).

A label is a pair (x, y) and a flag for each factor that says whether the image shows it. On a
*canvas* larger than the image, a factor is shown if its value falls inside the image. Without a
canvas the training set decides, and an absent factor's half of the code is zero.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput, one_of
from cgjax.experiments.bumps.regions import region as region

ENCODINGS = ("bump", "onehot", "ramp", "ramp01", "coords")
PIXEL_GRIDS = ("integer", "stretched")
CONTENTS = ("bump", "square", "disc", "character")
STRIPES = ("none", "canvas_stripe", "canvas_crop", "canvas_sos", "null_stripe")
# A pixel counts as never lit if no training image makes it brighter than this.
LIT = 0.05


# --- images ---------------------------------------------------------------------------------------


def bump(
    xy: jax.Array, n: int, sigma: float, inverted: bool = True, pixel_grid: str = "integer"
) -> jax.Array:
    """Images [k, n, n] of bumps of width sigma at xy [k, 2]; centres may lie between pixels.

    pixel_grid: pixels at 0..n-1 ("integer") or at `linspace(0, n, n)` ("stretched").

    >>> bump([[3, 5]], n=28, sigma=1.0, inverted=False)[0, 5, 3]
    Array(1., dtype=float32)
    """
    xy = _pairs("xy", xy)
    return images(Labels(xy, None), n, sigma, "none", None, inverted, pixel_grid)


def _bell(centre, positions, variance):
    """Gaussian bells [k, n] around centres [k] at positions [n]."""
    away = jnp.asarray(positions, centre.dtype)[None] - centre[:, None]
    return jnp.exp(-(away**2) / (2 * variance))


class Labels(NamedTuple):
    """Contents of images; on a canvas, xy are canvas coordinates."""

    xy: np.ndarray  # [k, 2]
    shown: np.ndarray | None  # bool [k, 2]; None is allowed for "none", "canvas_crop", "canvas_sos"


def images(
    labels: Labels,
    n: int,
    sigma: float,
    stripes: str = "none",
    canvas: int | None = None,
    inverted: bool = True,
    pixel_grid: str = "integer",
) -> jax.Array:
    """Images [k, n, n] of labels: a bump if both factors are shown, a stripe if only one is.

    stripes: "none", bumps only; "null_stripe" and "canvas_stripe", the bell of the shown factor,
    constant along the other axis, and a blank image if no factor is shown; "canvas_crop" and
    "canvas_sos", the image's part of the bump, or of the sum of both stripes, on the canvas: bells
    centred outside the image still contribute their tails.
    canvas: the size of the canvas, for kinds that have one; the image is the middle of the canvas.
    """
    _check_stripes(stripes, n, canvas)
    _check_positive("sigma", sigma)
    one_of("pixel_grid", pixel_grid, PIXEL_GRIDS)
    margin = (canvas - n) // 2 if stripes.startswith("canvas") else 0
    pixels = np.arange(n) if pixel_grid == "integer" else np.linspace(0, n, n)
    positive = _painted(_pairs("xy", labels.xy), labels.shown, pixels + margin, sigma, stripes)
    return 1 - positive if inverted else positive


@functools.partial(jax.jit, static_argnames="stripes")
def _painted(xy, shown, pixels, sigma, stripes):
    vertical = _bell(xy[:, 0], pixels, sigma**2)[:, None, :]
    horizontal = _bell(xy[:, 1], pixels, sigma**2)[:, :, None]
    if stripes == "canvas_sos":
        return vertical + horizontal
    if stripes in ("none", "canvas_crop"):
        return vertical * horizontal
    x_shown, y_shown = (shown[:, i, None, None] for i in range(2))
    bells = jnp.where(x_shown, vertical, 1) * jnp.where(y_shown, horizontal, 1)
    return jnp.where(x_shown | y_shown, bells, 0)


def sprites(
    xy: np.ndarray, n: int, radius: float, shape: str, degrees: float = 0.0, inverted: bool = True
) -> np.ndarray:
    """Images [k, n, n] of squares or discs at xy [k, 2] in pixels; edges fade over one pixel.

    radius: of the disc, and half of a square's side. degrees: angle between a square's sides and
    the rows. A square is a product of two stripes, a disc is not.
    """
    rows, columns = np.indices((n, n))
    right, down = (at - xy[:, i, None, None] for i, at in enumerate((columns[None], rows[None])))
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    if shape == "disc":
        positive = np.clip(radius + 0.5 - np.hypot(right, down), 0, 1)
    else:
        sides = (cos * right + sin * down, cos * down - sin * right)
        positive = np.prod([np.clip(radius + 0.5 - np.abs(side), 0, 1) for side in sides], axis=0)
    return 1 - positive if inverted else positive


def _check_stripes(stripes, n, canvas):
    one_of("stripes", stripes, STRIPES)
    if stripes.startswith("canvas") and (canvas is None or canvas < n or (canvas - n) % 2):
        raise BadInput(
            f"stripes '{stripes}' need a canvas of {n} plus an even margin, got {canvas}"
        )


def turned(xy: np.ndarray, n: int, degrees: float = 0.0, spacing: float = 1.0) -> np.ndarray:
    """Centres [k, 2] in pixels of values xy whose grid is turned around the image's middle.

    degrees: angle between the axis of x and the rows of the image. spacing: pixels between
    neighbouring values.
    """
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    middle = (n - 1) / 2
    return middle + spacing * (np.asarray(xy) - middle) @ np.array([[cos, sin], [-sin, cos]])


# --- codes ----------------------------------------------------------------------------------------


def encode(
    xy: jax.Array,
    n: int,
    kind: str,
    sigma: float = 1.0,
    width_multiplier: float = 1,
    shown: jax.Array | None = None,
) -> jax.Array:
    """Codes [k, d] of centres xy [k, 2] with coordinates 0..n-1: e(x) concatenated with e(y).

    kind: "bump", a bell over n units whose variance is width_multiplier sigma^2 (d = 2n);
    "onehot", for whole numbers (d = 2n); "ramp" or "coords", the coordinates themselves (d = 2);
    "ramp01", the coordinates divided by n - 1 (d = 2). shown: boolean [k, 2]; the code of an absent
    factor is zero. Ramps have no such code: their zero is a position. On a canvas, n is its size.
    """
    one_of("encoding", kind, ENCODINGS)
    xy = _pairs("xy", xy)
    if kind in ("ramp", "coords", "ramp01"):
        if shown is not None and not np.all(shown):
            raise BadInput(
                f"encoding '{kind}' has no code for an absent factor: use bump or onehot"
            )
        return xy / (n - 1) if kind == "ramp01" else xy
    _check_positive("width_multiplier", width_multiplier)
    _check_positive("sigma", sigma)
    if kind == "onehot":
        _check_whole(xy, n)
    return _coded(xy, shown, n, kind, width_multiplier * sigma**2)


@functools.partial(jax.jit, static_argnames=("n", "kind"))
def _coded(xy, shown, n, kind, variance):
    if kind == "onehot":
        codes = jax.nn.one_hot(xy.astype(int), n, dtype=xy.dtype)
    else:
        codes = jax.vmap(lambda pair: _bell(pair, np.arange(n), variance))(xy)
    if shown is not None:
        codes = jnp.where(shown[..., None], codes, 0)
    return codes.reshape(len(xy), -1)


def _pairs(name, xy):
    """[k, 2] in floating point."""
    xy = jnp.asarray(xy)
    if xy.ndim != 2 or xy.shape[1] != 2:
        raise BadInput(f"{name} are pairs [k, 2], got shape {xy.shape}")
    return xy if jnp.issubdtype(xy.dtype, jnp.floating) else xy.astype(float)


def _check_positive(name, value):
    if not isinstance(value, jax.core.Tracer) and not value > 0:
        raise BadInput(f"{name} must be above 0, got {value}")


def _check_whole(xy, n):
    if isinstance(xy, jax.core.Tracer):
        return
    values = np.asarray(xy)
    if np.any(values != np.round(values)) or np.any((values < 0) | (values >= n)):
        raise BadInput(f"encoding 'onehot' takes whole numbers from 0 to {n - 1}")


# --- regions --------------------------------------------------------------------------------------


def centres(mask: np.ndarray) -> np.ndarray:
    """Grid points (x, y) [k, 2] where the mask [y, x] is True, row by row."""
    y, x = np.nonzero(mask)
    return np.stack([x, y], axis=1)


def hole_side(n: int, p: float) -> int:
    """K = floor(p n), the side of the hole of the continuous donut."""
    # In floating point, a product that should be whole may be slightly smaller.
    return math.floor(round(p * n, 9))


def continuous_sizes(n: int, p: float, total: int = 1000) -> tuple[int, int]:
    """Numbers of training and held-out points, int(total (n - K)^2 / n^2), int(total K^2 / n^2)."""
    side = hole_side(n, p)
    return total * (n - side) ** 2 // n**2, total * side**2 // n**2


def continuous(
    rng: np.random.Generator, n_points: int, n: int, p: float, held_out: bool
) -> np.ndarray:
    """Centres uniform in [0, n)^2 outside (or, held_out, inside) the hole of side K in the middle.

    The hole is n/2 - K/2 <= x < n/2 + K/2, the same for y. Returns [n_points, 2].
    """
    side = hole_side(n, p)
    if not 0 < side < n:
        raise BadInput(f"a hole of {p} of {n} pixels has side {side}; it must be from 1 to {n - 1}")
    low, high = (n - side) / 2, (n + side) / 2
    where = rng.random((n_points, 2))
    if held_out:
        return low + side * where
    # The frame is two whole columns beside the hole and two pieces above and below it.
    starts = np.array([[0, 0], [high, 0], [low, 0], [low, high]])
    sizes = np.array([[low, n], [low, n], [side, low], [side, low]])
    area = np.prod(sizes, axis=1)
    which = rng.choice(4, n_points, p=area / np.sum(area))
    return starts[which] + sizes[which] * where


# --- training sets --------------------------------------------------------------------------------


def bump_labels(xy: np.ndarray) -> Labels:
    """Labels of bumps: both factors are shown."""
    xy = np.asarray(xy)
    return Labels(xy, np.ones(xy.shape, bool))


def null_stripes(n: int) -> Labels:
    """Every vertical and every horizontal stripe once [2n]; the absent coordinate is 0."""
    values, nothing = np.arange(n), np.zeros(n, int)
    xy = np.concatenate([np.stack([values, nothing], 1), np.stack([nothing, values], 1)])
    return Labels(xy, np.repeat(np.array([[True, False], [False, True]]), n, axis=0))


def canvas_labels(held_out: np.ndarray, canvas: int) -> Labels:
    """All cells of the canvas except the hole; held_out [n, n] is a mask of the central image."""
    n = len(held_out)
    _check_stripes("canvas_crop", n, canvas)
    margin = (canvas - n) // 2
    xy = centres(~np.pad(held_out, margin))
    return Labels(xy, (xy >= margin) & (xy < margin + n))


# --- pixels that training images light ------------------------------------------------------------


def largest_brightness(positive: jax.Array) -> jax.Array:
    """Maximum [n, n] of each pixel over positive images [k, n, n]."""
    return jnp.max(jnp.asarray(positive), axis=0)


def n_never_lit(positive: jax.Array, level: float = LIT) -> int:
    """Number of pixels that no image makes brighter than `level`.

    If output weights are separate for each pixel, no image trains those of such a pixel, whatever
    the hidden layers represent. Only weights shared between pixels, or a penalty that ties them,
    can light it.
    """
    return int(jnp.sum(largest_brightness(positive) <= level))
