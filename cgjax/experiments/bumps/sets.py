"""The images of a row, and its training sets, which index these images.

A set is defined by its region, the number of copies of each stripe, and the share of bumps that are
kept. All sets of a row index the same images, so that networks trained on different sets are
replicas of one program. Bumps of several widths have a third factor, coded one-hot.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.data import sources
from cgjax.experiments.bumps import scenes
from cgjax.experiments.bumps.regions import parse

INVERTED = {"inverted": True, "positive": False}
UNTURNED = {"degrees": 0, "spacing": 1}


class Set(NamedTuple):
    """One training set; the masks are over the scored points."""

    rows: np.ndarray  # int32 [n], indices of images; may repeat
    is_id: np.ndarray  # bool [P], scored as in distribution
    is_ood: np.ndarray  # bool [P], held out


class Scenes(NamedTuple):
    """The images of a row, its training sets, and the scored points."""

    images: np.ndarray  # float32 [M, n, n]
    codes: np.ndarray  # float32 [M, d]
    labels: scenes.Labels  # xy [M, 2], shown [M, 2]
    points: np.ndarray  # [P] indices of images; on a grid all n * n, row by row, width by width
    inverted: bool
    to_pixels: Callable  # xy [k, 2] -> centres in pixels [k, 2]
    has_absent: bool  # whether an absent factor has an all-zero code
    axes: dict  # name -> values; there is a set for each combination
    sets: dict  # (seed, *combination) -> Set; seed -1 if all seeds share their sets

    @property
    def truth(self) -> np.ndarray:
        """True images [P, n, n] at the scored points."""
        return self.images[self.points]

    @property
    def xy(self) -> np.ndarray:
        """Centres [P, 2] of the scored points."""
        return self.labels.xy[self.points]

    @property
    def place(self) -> np.ndarray:
        """Centres of the scored points in pixels [P, 2]."""
        return self.to_pixels(self.xy)

    def of(self, seed: int, combination: tuple) -> Set:
        """The training set of a seed and a combination."""
        return self.sets.get((seed, *combination)) or self.sets[(-1, *combination)]


# --- all sets of a row ----------------------------------------------------------------------------


def check(config) -> None:
    """Raises an error unless every set of the row can be made."""
    _of_kind(config, _check_grid, _check_holes, _check_hole)(config)


def make(config) -> Scenes:
    """The images and sets of a row: centres on the grid, or anywhere outside a hole."""
    return _of_kind(config, _on_grid, _between_pixels, _by_number)(config)


def _of_kind(config, on_grid, between_pixels, by_number):
    """The function for the row's kind of sets; each kind has its own key."""
    kinds = {"holes": between_pixels, "hole": by_number}
    return next((kinds[name] for name in kinds if name in config.data), on_grid)


# --- sets on the grid -----------------------------------------------------------------------------


def _check_grid(config) -> None:
    """Raises an error unless regions fit, stripes have a code, and only a canvas has a margin."""
    data = config.data
    for region in data.regions:
        parse(region, data.n, len(data.sigmas))
    on_canvas = data.stripes.startswith("canvas")
    if on_canvas != bool(data.margin):
        raise BadInput(
            f"data.margin={data.margin} with data.stripes={data.stripes}: a canvas has a margin "
            "above 0, other kinds of stripes have margin 0"
        )
    if (data.stripes == "none") != (max(data.copies) == 0):
        raise BadInput(
            f"data.copies={data.copies} with data.stripes={data.stripes}: stripes are shown once "
            "or more; without stripes, data.copies=(0,)"
        )
    if data.stripes == "null_stripe" and data.encoding not in ("bump", "onehot"):
        raise BadInput(
            f"data.encoding={data.encoding} has no code for an absent factor: use bump or onehot"
        )
    if data.content != "bump" and (
        data.stripes != "none" or data.pixel_grid != "integer" or len(data.sigmas) > 1
    ):
        raise BadInput(
            f"data.content={data.content} needs data.stripes=none, data.pixel_grid=integer and one "
            "width in data.sigmas"
        )
    turn = {"degrees": data.degrees, "spacing": data.spacing}
    if turn != UNTURNED:
        corner = scenes.turned([[0, 0], [0, data.n - 1]], data.n, **turn)
        if corner.min() < -1e-6 or corner.max() > data.n - 1 + 1e-6:
            raise BadInput(
                f"data.degrees={data.degrees:g} with data.spacing={data.spacing:g} puts centres "
                "outside the image: reduce data.spacing"
            )
        if data.stripes != "none" or data.pixel_grid != "integer" or config.eval.centres:
            raise BadInput(
                "data.degrees and data.spacing need data.stripes=none, data.pixel_grid=integer and "
                "eval.centres=0"
            )


def _on_grid(config) -> Scenes:
    """The images and sets of a row whose centres are on the grid."""
    data = config.data
    labels, canvas = _all_labels(data)
    inverted = INVERTED[data.polarity]
    painted, to_pixels = labels, np.asarray
    turn = {"degrees": data.degrees, "spacing": data.spacing}
    if data.pixel_grid == "stretched":
        to_pixels = functools.partial(np.multiply, (data.n - 1) / data.n)
    elif turn != UNTURNED:
        to_pixels = functools.partial(scenes.turned, n=data.n, **turn)
        painted = labels._replace(xy=to_pixels(labels.xy))
    if data.content == "bump":
        images = [
            scenes.images(painted, data.n, sigma, data.stripes, canvas, inverted, data.pixel_grid)
            for sigma in data.sigmas
        ]
    elif data.content == "character":
        images = [turned_characters(labels.xy, data.n, inverted)]
    else:
        radius = 2 * data.sigmas[0]
        images = [scenes.sprites(painted.xy, data.n, radius, data.content, data.degrees, inverted)]
    # On a canvas, places outside the image have ordinary codes.
    shown = labels.shown if data.stripes == "null_stripe" else None
    codes = scenes.encode(
        labels.xy, canvas or data.n, data.encoding, data.sigmas[0], data.width_multiplier, shown
    )
    labels = labels._replace(xy=labels.xy - data.margin)
    n_widths = len(data.sigmas)
    row_scenes = Scenes(
        np.concatenate(images).astype(np.float32),
        _with_width(np.asarray(codes, np.float32), n_widths),
        scenes.Labels(*(np.concatenate([part] * n_widths) for part in labels)),
        np.flatnonzero(np.tile(labels.shown.all(axis=1), n_widths)),
        inverted,
        to_pixels,
        data.stripes == "null_stripe",
        {"region": data.regions, "copies": data.copies, "share": data.shares},
        {},
    )
    for seed, cell in draws(config, row_scenes):
        region, copies, share = cell
        # Sets that differ in stripes only share their bumps, so their comparison is paired.
        rng = np.random.default_rng((max(seed, data.seed), data.regions.index(region)))
        held_out = parse(region, data.n, n_widths).reshape(-1)
        row_scenes.sets[(seed, *cell)] = _set(data, row_scenes, held_out, copies, share, rng)
    return row_scenes


def turned_characters(xy: np.ndarray, n: int, inverted: bool) -> np.ndarray:
    """Images [k, n, n]: x is the angle of a character, in n-ths of a turn, y says which it is."""
    every = np.stack(
        [rotated(image, 360 / n * np.arange(n)) for image in characters(n, n)]
    )  # [characters, angles, n, n]
    positive = every[xy[:, 1], xy[:, 0]]
    return 1 - positive if inverted else positive


def _with_width(codes, n_widths):
    """Codes of all widths, one after another; several widths add a one-hot code of the width."""
    if n_widths == 1:
        return codes
    width = np.eye(n_widths, dtype=codes.dtype)
    return np.concatenate([np.tile(codes, (n_widths, 1)), width.repeat(len(codes), axis=0)], axis=1)


def draws(config, row_scenes: Scenes):
    """(seed, combination) of every set; with `data.seed` -1 each seed has its own sets."""
    seeds = config.train.seeds if config.data.seed < 0 else (-1,)
    return itertools.product(seeds, itertools.product(*row_scenes.axes.values()))


def _all_labels(data) -> tuple[scenes.Labels, int | None]:
    """Every label that a set may contain, and the size of the canvas (None without canvas)."""
    nowhere = np.zeros((data.n, data.n), bool)
    if data.stripes.startswith("canvas"):
        canvas = data.n + 2 * data.margin
        return scenes.canvas_labels(nowhere, canvas), canvas
    if data.stripes == "none":
        return scenes.bump_labels(scenes.centres(~nowhere)), None
    return _grid_and_stripes(data.n), None


def _grid_and_stripes(n: int) -> scenes.Labels:
    """Bumps at all points of the grid, every stripe, and the blank image."""
    bumps = scenes.bump_labels(scenes.centres(np.ones((n, n), bool)))
    blank = scenes.Labels(np.zeros((1, 2), int), np.zeros((1, 2), bool))
    together = zip(bumps, scenes.null_stripes(n), blank)
    return scenes.Labels(*(np.concatenate(parts) for parts in together))


def _set(data, row_scenes: Scenes, held_out, copies: int, share: float, rng) -> Set:
    """Bumps outside the region, and `copies` of every image that is not a bump."""
    bumps, others = row_scenes.points[~held_out], np.ones(len(row_scenes.images), bool)
    others[row_scenes.points] = False
    # For one seed, smaller shares are subsets of larger ones.
    chosen = rng.permutation(bumps)[: max(1, round(share * len(bumps)))]
    rows = np.concatenate([np.sort(chosen), *[np.flatnonzero(others)] * copies])
    if data.n_samples:
        rows = rng.choice(rows, data.n_samples)
    return Set(rows.astype(np.int32), ~held_out, held_out)


# --- sets between pixels: centres anywhere in [0, n)^2, outside a square hole in the middle -------


def _check_holes(config) -> None:
    """Raises an error unless every hole leaves points inside and outside."""
    for hole in config.data.holes:
        if not min(scenes.continuous_sizes(config.data.n, hole, config.data.n_points)):
            raise BadInput(
                f"data.holes={hole:g} of {config.data.n} pixels leaves nothing on one side: "
                f"increase data.n_points={config.data.n_points} or change the hole"
            )


def _between_pixels(config) -> Scenes:
    """One set per hole; each set is scored at its own points, trained and held out."""
    data, everywhere, drawn_sets = config.data, [], {}
    inverted = INVERTED[data.polarity]
    axes = {"hole": data.holes}
    shown = Scenes(None, None, None, None, inverted, np.asarray, False, axes, drawn_sets)
    ends = 0
    for seed, (hole,) in draws(config, shown):
        rng = np.random.default_rng((max(seed, data.seed), round(hole * 1e6)))
        sizes = scenes.continuous_sizes(data.n, hole, data.n_points)
        parts = [
            scenes.continuous(rng, size, data.n, hole, held_out)
            for size, held_out in zip(sizes, (False, True))
        ]
        rows = np.split(ends + np.arange(sum(sizes)), sizes[:1])
        everywhere, ends = everywhere + parts, ends + sum(sizes)
        drawn_sets[(seed, hole)] = rows
    labels = scenes.bump_labels(np.concatenate(everywhere))
    for key, (trained, held_out) in drawn_sets.items():
        masks = [np.isin(np.arange(ends), rows) for rows in (trained, held_out)]
        drawn_sets[key] = Set(trained.astype(np.int32), *masks)
    images = scenes.images(labels, data.n, data.sigma, inverted=inverted)
    codes = scenes.encode(labels.xy, data.n, data.encoding, data.sigma, data.width_multiplier)
    return shown._replace(
        images=np.asarray(images, np.float32),
        codes=np.asarray(codes, np.float32),
        labels=labels,
        points=np.arange(ends),
    )


# --- sets by number of bumps: centres anywhere outside a hole, scored on the grid -----------------


def _check_hole(config) -> None:
    """Raises an error unless the hole is centred on the grid and codes exist for any centre."""
    data = config.data
    side = scenes.hole_side(data.n, data.hole)
    if not 0 < side < data.n or (data.n - side) % 2:
        raise BadInput(
            f"data.hole={data.hole:g} of {data.n} pixels has side {side}: it must be above 0 and "
            "leave an even number of pixels"
        )
    if data.encoding != "bump":
        raise BadInput(f"data.encoding={data.encoding}: real-valued centres need the bump code")


def _by_number(config) -> Scenes:
    """Sets of increasing numbers of bumps, with and without stripes.

    Held-out points of the grid are at least half a pixel from the trained area. For one seed,
    smaller sets are subsets of larger ones.
    """
    data, inverted = config.data, INVERTED[config.data.polarity]
    n, most = data.n, max(data.bumps)
    seeds = config.train.seeds if data.seed < 0 else (-1,)
    drawn = [
        scenes.continuous(np.random.default_rng(max(seed, data.seed)), most, n, data.hole, False)
        for seed in seeds
    ]
    fixed = _grid_and_stripes(n)
    bumps = scenes.bump_labels(np.concatenate(drawn) - 0.5)
    labels = scenes.Labels(*(np.concatenate(parts) for parts in zip(fixed, bumps)))
    images = scenes.images(labels, n, data.sigma, "null_stripe", None, inverted)
    codes = scenes.encode(
        labels.xy, n, data.encoding, data.sigma, data.width_multiplier, labels.shown
    )
    points = np.arange(n * n)
    side = scenes.hole_side(n, data.hole)
    held_out = np.all(np.abs(labels.xy[points] - (n - 1) / 2) < side / 2, axis=1)
    stripes = np.arange(n * n, len(fixed.xy))
    sets = {}
    for i, seed in enumerate(seeds):
        for copies, number in itertools.product(data.copies, data.bumps):
            first = len(fixed.xy) + i * most
            rows = np.concatenate([np.arange(first, first + number), *[stripes] * copies])
            sets[seed, copies, number] = Set(rows.astype(np.int32), ~held_out, held_out)
    return Scenes(
        np.asarray(images, np.float32),
        np.asarray(codes, np.float32),
        labels,
        points,
        inverted,
        np.asarray,
        True,
        {"copies": data.copies, "bumps": data.bumps},
        sets,
    )


# --- summaries of sets ----------------------------------------------------------------------------


def n_never_lit(row_scenes: Scenes, train_set: Set) -> int:
    """Number of pixels that no training image makes brighter than `scenes.LIT`."""
    shown = row_scenes.images[np.unique(train_set.rows)]
    return scenes.n_never_lit(1 - shown if row_scenes.inverted else shown)


def tell(row_scenes: Scenes, names: dict) -> None:
    """Prints a line for each set of the first seed; names: {combination: name}."""
    first = next(iter(row_scenes.sets))[0]
    for cell, name in names.items():
        train_set = row_scenes.sets[(first, *cell)]
        n_bumps = int(row_scenes.labels.shown[train_set.rows].all(axis=1).sum())
        n_others, n_dark = len(train_set.rows) - n_bumps, n_never_lit(row_scenes, train_set)
        say(
            f"{name}: {n_bumps:,} bumps and {n_others:,} other images trained, "
            f"{train_set.is_ood.sum():,} held out; {n_dark} of {row_scenes.images[0].size} "
            f"pixels never lit (above {scenes.LIT:g})"
        )


def stacked(row_scenes: Scenes, seeds) -> tuple[dict, np.ndarray]:
    """Sets padded to one length, and the index of the set of each seed and combination.

    Returns {"rows" [sets, most], "count" [sets], "is_id", "is_ood" [sets, P]} and the indices
    [seeds, combinations].
    """
    order = {key: i for i, key in enumerate(row_scenes.sets)}
    all_sets = list(row_scenes.sets.values())
    most = max(len(train_set.rows) for train_set in all_sets)
    arrays = {
        "rows": np.stack(
            [np.pad(train_set.rows, (0, most - len(train_set.rows))) for train_set in all_sets]
        ),
        "count": np.array([len(train_set.rows) for train_set in all_sets], np.int32),
        "is_id": np.stack([train_set.is_id for train_set in all_sets]),
        "is_ood": np.stack([train_set.is_ood for train_set in all_sets]),
    }
    cells = list(itertools.product(*row_scenes.axes.values()))
    which = [[order.get((seed, *cell), order.get((-1, *cell))) for cell in cells] for seed in seeds]
    return jax.tree.map(np.asarray, arrays), np.array(which)


# --- digits ---------------------------------------------------------------------------------------
# Digits at all angles but a gap: the first of each in MNIST's training set, or built-in glyphs.


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
