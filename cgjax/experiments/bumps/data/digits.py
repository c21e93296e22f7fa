"""Digits at all angles but a gap: the first of each in MNIST's training set, or built-in glyphs."""

import numpy as np

from cgjax.core.errors import BadInput
from cgjax.data import sources

SIDE = 28
GAP = (160.0, 200.0)  # degrees
SOURCES = ("mnist", "glyph")
# Strokes: (row, column) of both ends, in widths of a digit.
# WITHOUT: the strokes that a digit lacks.
STROKES = {
    "top": ((-1, -0.5), (-1, 0.5)), "middle": ((0, -0.5), (0, 0.5)),
    "bottom": ((1, -0.5), (1, 0.5)), "upper left": ((-1, -0.5), (0, -0.5)),
    "upper right": ((-1, 0.5), (0, 0.5)), "lower left": ((0, -0.5), (1, -0.5)),
    "lower right": ((0, 0.5), (1, 0.5)), "slanted": ((-1, 0), (0, -0.5)),
}  # fmt: skip
WITHOUT = {
    0: ("middle",), 2: ("upper left", "lower right"), 3: ("upper left", "lower left"),
    5: ("upper right", "lower left"), 6: ("upper right",), 8: (), 9: ("lower left",),
}  # fmt: skip
DIGITS = {digit: set(STROKES) - {"slanted", *absent} for digit, absent in WITHOUT.items()}
DIGITS[1] = {"upper right", "lower right"}
DIGITS[4] = {"slanted", "middle", "upper right", "lower right"}
DIGITS[7] = {"top", "upper right", "lower right"}


def glyph(digit: int, n: int = SIDE) -> np.ndarray:
    """A built-in digit, bright on 0, float [n, n]; every rotation stays inside the image."""
    return painted(DIGITS[digit], n)


def painted(strokes, n: int = SIDE) -> np.ndarray:
    """An image [n, n] of strokes, bright on 0, by their names in STROKES."""
    pixels = np.moveaxis(np.indices((n, n)), 0, -1) - (n - 1) / 2
    unit, half = 0.29 * n, 0.05 * n
    nearest = np.full((n, n), np.inf)
    for name in strokes:
        start, end = (unit * np.array(place) for place in STROKES[name])
        along = np.clip((pixels - start) @ (end - start) / np.sum((end - start) ** 2), 0, 1)
        away = pixels - start - along[..., None] * (end - start)
        nearest = np.minimum(nearest, np.linalg.norm(away, axis=-1))
    # Edges fade over one pixel, like pen strokes.
    return np.clip(half + 0.5 - nearest, 0, 1)


def characters(count: int, n: int = SIDE) -> np.ndarray:
    """Different built-in characters [count, n, n]: the digits, then other sets of strokes."""
    every = [frozenset(DIGITS[digit]) for digit in sorted(DIGITS)]
    names, rng = sorted(STROKES), np.random.default_rng(0)
    while len(every) < count:
        chosen = frozenset(name for name in names if rng.random() < 0.5)
        if len(chosen) >= 3 and chosen not in every:
            every.append(chosen)
    return np.stack([painted(strokes, n) for strokes in every[:count]])


def load(source: str, digits: tuple[int, ...]) -> np.ndarray:
    """One image of each digit, float [digits, 28, 28] from 0 to 1."""
    if source == "glyph":
        drawn = {"image": np.stack([glyph(digit) for digit in digits])}
        return sources.made_up(f"glyphs {', '.join(map(str, digits))}", drawn)["image"]
    mnist = sources.load("mnist", "train")
    first = [int(np.argmax(mnist["label"] == digit)) for digit in digits]
    return mnist["image"][first, :, :, 0] / 255


# --- angles ---------------------------------------------------------------------------------------


def rotated(image: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """The image [n, m] rotated about its middle by each of the angles [k]: [k, n, m].

    Interpolation is bilinear; pixels from outside the image are 0.
    """
    image = np.asarray(image, float)
    if image.ndim != 2:
        raise BadInput(f"image is [n, m], got shape {image.shape}")
    middle = (np.array(image.shape) - 1) / 2
    away = np.indices(image.shape).reshape(2, -1) - middle[:, None]
    angle = np.deg2rad(np.asarray(degrees, float))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    source = np.einsum("ijk,jp->kip", turn, away) + middle[:, None]
    last = np.array(image.shape)[:, None] - 1
    # Rounding must not move a border pixel outside.
    inside = np.all((source > -1e-9) & (source < last + 1e-9), axis=1)
    source = np.clip(source, 0, last)
    low = np.minimum(np.floor(source).astype(int), last - 1)
    share = source - low
    interpolated = 0
    for dy in (0, 1):
        for dx in (0, 1):
            weights = np.abs(1 - dy - share[:, 0]) * np.abs(1 - dx - share[:, 1])
            interpolated = interpolated + weights * image[low[:, 0] + dy, low[:, 1] + dx]
    return np.where(inside, interpolated, 0).reshape(-1, *image.shape)


def angles(n: int = 1000, gap: tuple[float, float] = GAP) -> tuple[np.ndarray, np.ndarray]:
    """n angles in degrees from 0 to 360, both included: (angles outside the gap, angles in it).

    With both ends, 888 of 1000 remain, as published; without the second end, 889 would remain.
    """
    # Rounding must not move an angle on the gap's edge out of the gap.
    every = np.round(np.linspace(0, 360, n), 9)
    held_out = (every >= gap[0]) & (every <= gap[1])
    if held_out.all() or not held_out.any():
        raise BadInput(f"gap {gap} leaves nothing inside or nothing outside of {n} angles")
    return every[~held_out], every[held_out]


def encode(degrees: np.ndarray) -> np.ndarray:
    """(cos, sin) [k, 2] of angles [k]."""
    angle = np.deg2rad(np.asarray(degrees, float))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
