"""The images of a row, and its training sets, which index these images.

A set is defined by its region, the number of copies of each stripe, and the share of bumps that are
kept. All sets of a row index the same images, so that networks trained on different sets are
replicas of one program. Bumps of several widths have a third factor, coded one-hot.
"""

import itertools
from typing import NamedTuple

import jax
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.bumps import scenes

INVERTED = {"inverted": True, "positive": False}


class Set(NamedTuple):
    """One training set; the masks are over the scored points."""

    rows: np.ndarray  # int32 [n], indices of images; may repeat
    is_id: np.ndarray  # bool [P], scored as in distribution
    is_ood: np.ndarray  # bool [P], held out


class Scenes(NamedTuple):
    """The images of a row, its training sets, and the scored points."""

    images: np.ndarray  # float32 [M, n, n]
    codes: np.ndarray  # float32 [M, d]
    labels: scenes.Labels  # xy [M, 2] in pixels, shown [M, 2]
    points: np.ndarray  # [P] indices of images; on a grid all n * n, row by row, width by width
    inverted: bool
    spacing: float  # pixels per unit of x
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
        return self.xy * self.spacing

    def of(self, seed: int, combination: tuple) -> Set:
        """The training set of a seed and a combination."""
        return self.sets.get((seed, *combination)) or self.sets[(-1, *combination)]


# --- regions by name ------------------------------------------------------------------------------


def parse(region: str, n: int, n_widths: int = 1) -> np.ndarray:
    """Mask [n_widths, n, n] of the held-out points, rows before columns.

    "donut_<lb>_<ub>", "cross_<lb>_<ub>" and "corner_<corner>" apply at every width.
    "wide_<lb>_<ub>" is the donut at the larger half of the widths only, so that every pair of
    factors is trained. "whole" holds nothing out.
    """
    if region == "whole":
        return np.zeros((n_widths, n, n), bool)
    name, *numbers = region.split("_")
    values = [int(number) for number in numbers]
    if name == "corner":
        (corner,) = values
        held_out = scenes.region(name, n, corner=corner)
    else:
        lb, ub = values
        held_out = scenes.region("donut" if name == "wide" else name, n, lb, ub)
    widths = np.arange(n_widths) >= (-(-n_widths // 2) if name == "wide" else 0)
    if not widths.any():
        raise BadInput(f"region '{region}' needs several widths: set more than one of data.sigmas")
    return widths[:, None, None] & held_out


def is_region(region: str) -> bool:
    """Whether `region` is a valid name of a region in a large enough image."""
    try:
        parse(region, 2**10, 2)
    except (BadInput, ValueError):  # unknown name, or wrong or missing numbers
        return False
    return True


# --- all sets of a row ----------------------------------------------------------------------------


def check(config) -> None:
    """Raises an error unless every set of the row can be made."""
    (_check_holes if "holes" in config.data else _check_grid)(config)


def make(config) -> Scenes:
    """The images and sets of a row: centres on the grid, or anywhere outside a hole."""
    return (_between_pixels if "holes" in config.data else _on_grid)(config)


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


def _on_grid(config) -> Scenes:
    """The images and sets of a row whose centres are on the grid."""
    data = config.data
    labels, canvas = _all_labels(data)
    inverted = INVERTED[data.polarity]
    images = [
        scenes.images(labels, data.n, sigma, data.stripes, canvas, inverted, data.pixel_grid)
        for sigma in data.sigmas
    ]
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
        (data.n - 1) / data.n if data.pixel_grid == "stretched" else 1.0,
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
    bumps = scenes.bump_labels(scenes.centres(~nowhere))
    if data.stripes == "none":
        return bumps, None
    blank = scenes.Labels(np.zeros((1, 2), int), np.zeros((1, 2), bool))
    together = zip(bumps, scenes.null_stripes(data.n), blank)
    return scenes.Labels(*(np.concatenate(parts) for parts in together)), None


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
    shown = Scenes(None, None, None, None, inverted, 1.0, False, {"hole": data.holes}, drawn_sets)
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
        n_bumps = int(np.isin(train_set.rows, row_scenes.points).sum())
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
