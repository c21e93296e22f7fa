"""Digits to rotate: the first of each in MNIST's training set, or built-in glyphs."""

import numpy as np

from cgjax.data import sources

SIDE = 28
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
    pixels = np.moveaxis(np.indices((n, n)), 0, -1) - (n - 1) / 2
    unit, half = 0.29 * n, 0.05 * n
    nearest = np.full((n, n), np.inf)
    for name in DIGITS[digit]:
        start, end = (unit * np.array(place) for place in STROKES[name])
        along = np.clip((pixels - start) @ (end - start) / np.sum((end - start) ** 2), 0, 1)
        away = pixels - start - along[..., None] * (end - start)
        nearest = np.minimum(nearest, np.linalg.norm(away, axis=-1))
    # Edges fade over one pixel, like pen strokes.
    return np.clip(half + 0.5 - nearest, 0, 1)


def load(source: str, digits: tuple[int, ...]) -> np.ndarray:
    """One image of each digit, float [digits, 28, 28] from 0 to 1."""
    if source == "glyph":
        return np.stack([glyph(digit) for digit in digits])
    mnist = sources.load("mnist", "train")
    first = [int(np.argmax(mnist["label"] == digit)) for digit in digits]
    return mnist["image"][first, :, :, 0] / 255
