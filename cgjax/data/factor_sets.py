"""Images and sentences of two crossed factors, and splits that hold combinations out.

Every set has each value of the first factor with each value of the second, `repeats` times. What
differs between repeats (place, exemplar, stroke, subject) is the same for all combinations.
"""

import colorsys
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from cgjax.core.errors import BadInput, one_of
from cgjax.data import sources

SUPERSAMPLED = 4  # drawn at this multiple of the side, then averaged, for smooth edges
GREY = (128, 128, 128)
DIGITS = (2, 3, 4, 5, 6, 7)  # no rotation of one looks like another
ANGLES = (-75, -45, -15, 15, 45, 75)  # degrees
STROKES = (-1, 0, 1)  # thinner, as written, thicker
CLASSES = ("airplane", "automobile", "cat", "frog", "horse", "ship")
WORDS = ("basket", "hammer", "violin", "horse", "bridge", "jacket", "candle", "river")
TEMPLATES = (
    "{} saw the {} yesterday .",
    "did {} ever mention a {} ?",
    "without a {1} , {0} would be lost .",
    "{} wrote a poem about the {} .",
    "the {1} that {0} wanted was gone .",
    "if only {} had found the {} !",
    "{} told us : every {} is different .",
    "nobody but {} cares about this {} .",
)
SUBJECTS = ("anna", "the teacher", "my uncle", "he", "the old man", "she", "paul", "our guest")


class FactorSet(NamedTuple):
    """Inputs with their values of two factors."""

    inputs: np.ndarray  # images uint8 [n, side, side, 3], or sentences [n]
    factors: np.ndarray  # int [n, 2]
    names: tuple[str, str]

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of values of each factor."""
        return tuple(int(n) for n in self.factors.max(axis=0) + 1)


def make(name: str, side: int = 96, repeats: int = 6) -> FactorSet:
    """A set of SETS; the same arguments give the same arrays."""
    one_of("factor set", name, SETS)
    names, sizes, build = SETS[name]
    element = build(side, repeats, np.random.default_rng(0))
    rows = list(itertools.product(*map(range, sizes), range(repeats)))
    inputs = np.stack([element(a, b, r) for a, b, r in rows])
    return FactorSet(inputs, np.array(rows)[:, :2], names)


def known(sizes: tuple[int, int], k: int, draw: int) -> np.ndarray:
    """Known combinations, bool [sizes]: k values of the second factor with each of the first.

    They are drawn at random until as many values of the second factor are known as k allows. k is
    at most the number of values less 2.
    """
    first, second = sizes
    if not 1 <= k <= second - 2:
        raise BadInput(f"k={k} of {second} values: choose from 1 to {second - 2}")
    rng = np.random.default_rng([draw, k, first, second])
    while True:
        order = np.argsort(rng.random((first, second)), axis=1)
        is_known = order < k
        if np.count_nonzero(is_known.any(axis=0)) == min(second, first * k):
            return is_known


# --- shapes ---------------------------------------------------------------------------------------


def _outlines() -> dict[str, np.ndarray]:
    """Polygons [vertices, 2] of area 1 about their centre; y points down."""

    def around(n, radii=(1.0,), first=-math.pi / 2):
        angles = first + 2 * math.pi * np.arange(n) / n
        return np.resize(radii, n)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    t = np.linspace(0, 2 * math.pi, 60, endpoint=False)
    heart = np.stack(
        [
            16 * np.sin(t) ** 3,
            -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)),
        ],
        axis=1,
    )
    corners = [(1, 3), (1, 1), (3, 1), (3, -1), (1, -1), (1, -3)]
    cross = np.array([*corners, *((-x, -y) for x, y in corners)], float)
    outlines = {
        "triangle": around(3),
        "square": around(4, first=math.pi / 4),
        "circle": around(60),
        "star": around(10, (1.0, 0.4)),
        "cross": cross,
        "heart": heart,
    }
    return {name: _of_area_one(outline) for name, outline in outlines.items()}


def _of_area_one(outline):
    x, y = outline.T
    area = abs(np.sum(x * np.roll(y, 1) - y * np.roll(x, 1))) / 2
    return (outline - outline.mean(axis=0)) / math.sqrt(area)


OUTLINES = _outlines()
SPRITES = ("triangle", "square", "circle")  # of Wiedemer et al. 2023


def drawn(outline, hue, centre, width, degrees, side) -> np.ndarray:
    """A filled outline on grey, uint8 [side, side, 3]; centre and width as shares of the side."""
    angle, scale = math.radians(degrees), SUPERSAMPLED * side
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    corners = scale * (np.array(centre) + width * outline @ turn.T)
    colour = tuple(round(255 * v) for v in colorsys.hsv_to_rgb(hue, 1, 1))
    image = Image.new("RGB", (scale, scale), GREY)
    ImageDraw.Draw(image).polygon([tuple(corner) for corner in corners], fill=colour)
    return np.asarray(image.resize((side, side), Image.Resampling.BOX))


def _shapes(side, repeats, rng):
    """6 shapes x 8 hues; repeats: placements."""
    outlines = list(OUTLINES.values())
    centres, widths = rng.uniform(0.35, 0.65, (repeats, 2)), rng.uniform(0.25, 0.4, repeats)
    angles = rng.uniform(-20, 20, repeats)
    return lambda a, b, r: drawn(outlines[a], b / 8, centres[r], widths[r], angles[r], side)


def _sprites(side, repeats, rng):
    """6 hues x 6 positions; repeats: shapes and angles."""
    angles = rng.uniform(0, 120, repeats)

    def element(a, b, r):
        centre = ((0.2, 0.5, 0.8)[b % 3], (0.3, 0.7)[b // 3])
        return drawn(OUTLINES[SPRITES[r % 3]], a / 6, centre, 0.24, angles[r], side)

    return element


# --- photographs and handwriting ------------------------------------------------------------------


def _digits(side, repeats, rng):
    """6 digits x 6 rotations; repeats: strokes and exemplars."""
    mnist = sources.load("mnist", "train")
    exemplars = [np.flatnonzero(mnist["label"] == digit) for digit in DIGITS]

    def element(a, b, r):
        pixels = mnist["image"][exemplars[a][r // len(STROKES)], :, :, 0]
        image = Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)
        stroke = STROKES[r % len(STROKES)]
        if stroke:
            width = 2 * max(side // 56, 1) + 1
            change = ImageFilter.MaxFilter if stroke > 0 else ImageFilter.MinFilter
            image = image.filter(change(width))
        image = image.rotate(ANGLES[b], Image.Resampling.BICUBIC)
        return np.repeat(np.asarray(image)[..., None], 3, axis=2)

    return element


def _objects(side, repeats, rng):
    """6 classes of CIFAR-10 x 6 textures; repeats: exemplars, cut out as discs."""
    cifar = sources.load("cifar10", "train")
    labels = [sources.raw.CIFAR_CLASSES.index(name) for name in CLASSES]
    exemplars = [np.flatnonzero(cifar["label"] == label) for label in labels]
    y, x = (np.indices((side, side)) + 0.5) / side
    textures = _textures(x, y, rng)
    # 1 inside the disc, 0 outside, with an edge of two hundredths of the side.
    inside = np.clip((0.36 - np.hypot(x - 0.5, y - 0.5)) / 0.02 + 0.5, 0, 1)[..., None]

    def element(a, b, r):
        image = Image.fromarray(cifar["image"][exemplars[a][r]])
        pixels = np.asarray(image.resize((side, side), Image.Resampling.BICUBIC), float)
        mixed = inside * pixels + (1 - inside) * 255 * textures[b][..., None]
        return np.round(mixed).astype(np.uint8)

    return element


def _textures(x, y, rng) -> list[np.ndarray]:
    """Six grey textures of x and y from 0 to 1."""
    turn = 16 * math.pi
    noise = Image.fromarray((255 * rng.random((12, 12))).astype(np.uint8))
    patches = np.asarray(noise.resize(x.shape[::-1], Image.Resampling.BICUBIC)) / 255
    waves = [np.sin(turn * x), np.sin(turn * y), np.sin(turn * (x + y) / math.sqrt(2))]
    waves += [np.sin(turn * x) * np.sin(turn * y), np.sin(turn * np.hypot(x - 0.5, y - 0.5))]
    return [*((1 + np.sign(wave)) / 2 for wave in waves), patches]


# --- sentences ------------------------------------------------------------------------------------


def _words(side, repeats, rng):
    """8 words x 8 templates; repeats: subjects."""
    if repeats > len(SUBJECTS):
        raise BadInput(f"words has at most {len(SUBJECTS)} repeats, got {repeats}")
    return lambda a, b, r: np.array(TEMPLATES[b].format(SUBJECTS[r], WORDS[a]))


# name: (factors, their numbers of values, function of side, repeats and generator)
SETS: dict[str, tuple[tuple[str, str], tuple[int, int], Callable]] = {
    "shapes": (("shape", "hue"), (6, 8), _shapes),
    "sprites": (("hue", "position"), (6, 6), _sprites),
    "digits": (("digit", "rotation"), (len(DIGITS), len(ANGLES)), _digits),
    "objects": (("object", "background"), (len(CLASSES), 6), _objects),
    "words": (("word", "template"), (len(WORDS), len(TEMPLATES)), _words),
}
TEXT = ("words",)
NEEDS = {"digits": "mnist", "objects": "cifar10"}  # data sets
