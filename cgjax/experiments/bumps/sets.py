"""What a row shows its networks: all its images once, and training sets that point at them.

A set is a choice of region, of how often each stripe is shown, and of the share of bumps that are
kept. The sets of a row are rows of the same images, so that networks trained on different sets are
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
    """One training set; the masks are over the points that are scored."""

    rows: np.ndarray  # int32 [n] of the images, some perhaps several times
    is_id: np.ndarray  # bool [P], scored as in distribution
    is_ood: np.ndarray  # bool [P], held out


class Scenes(NamedTuple):
    """The images of a row, its training sets, and the points at which networks are scored."""

    images: np.ndarray  # float32 [M, n, n]
    codes: np.ndarray  # float32 [M, d]
    labels: scenes.Labels  # xy [M, 2] in pixels, shown [M, 2]
    points: np.ndarray  # [P] rows of the images; of a grid all n * n, row by row, width by width
    inverted: bool
    spacing: float  # pixels for one unit of x
    has_absent: bool  # whether a factor that is not shown has no code
    axes: dict  # name -> values; a set for each combination
    sets: dict  # (seed, *combination) -> Set; seed -1 where all seeds share their sets

    @property
    def truth(self) -> np.ndarray:
        """The right images [P, n, n] at the points that are scored."""
        return self.images[self.points]

    @property
    def xy(self) -> np.ndarray:
        """Their centres [P, 2]."""
        return self.labels.xy[self.points]

    @property
    def place(self) -> np.ndarray:
        """Where their spots are, in pixels [P, 2]."""
        return self.xy * self.spacing

    def of(self, seed: int, combination: tuple) -> Set:
        """The set that a network is trained on."""
        return self.sets.get((seed, *combination)) or self.sets[(-1, *combination)]


# --- regions by name ------------------------------------------------------------------------------


def parse(word: str, n: int, n_widths: int = 1) -> np.ndarray:
    """Which points are held out: boolean [n_widths, n, n], rows before columns.

    "donut_<lb>_<ub>", "cross_<lb>_<ub>" and "corner_<corner>" at every width; "wide_<lb>_<ub>" is
    the donut at the larger half of the widths alone, where every pair of factors is trained;
    "whole" holds nothing out.
    """
    if word == "whole":
        return np.zeros((n_widths, n, n), bool)
    name, *numbers = word.split("_")
    values = [int(number) for number in numbers]
    if name == "corner":
        (corner,) = values
        held_out = scenes.region(name, n, corner=corner)
    else:
        lb, ub = values
        held_out = scenes.region("donut" if name == "wide" else name, n, lb, ub)
    widths = np.arange(n_widths) >= (-(-n_widths // 2) if name == "wide" else 0)
    if not widths.any():
        raise BadInput(f"region '{word}' is of several widths: give more than one data.sigmas")
    return widths[:, None, None] & held_out


def is_region(word: str) -> bool:
    """Whether it names a region, of an image that is large enough."""
    try:
        parse(word, 2**10, 2)
    except (BadInput, ValueError):  # no such name, other numbers, or none
        return False
    return True


# --- sets on the grid -----------------------------------------------------------------------------


def check(config) -> None:
    """Whether regions fit the image, stripes have a code, and a canvas its margin."""
    data = config.data
    for word in data.regions:
        parse(word, data.n, len(data.sigmas))
    on_canvas = data.stripes.startswith("canvas")
    if on_canvas != bool(data.margin):
        raise BadInput(
            f"data.margin={data.margin} with data.stripes={data.stripes}: a canvas has a margin, "
            "the others have none"
        )
    if (data.stripes == "none") != (max(data.copies) == 0):
        raise BadInput(
            f"data.copies={data.copies} with data.stripes={data.stripes}: stripes are shown once "
            "or more, none are not"
        )
    if data.stripes == "null_stripe" and data.encoding not in ("bump", "onehot"):
        raise BadInput(
            f"data.encoding={data.encoding} has no code for an absent factor: bump and onehot do"
        )


def make(config) -> Scenes:
    """The images and sets of a row whose centres are all points of the grid."""
    data = config.data
    labels, canvas = _all_labels(data)
    inverted = INVERTED[data.polarity]
    images = [
        scenes.images(labels, data.n, sigma, data.stripes, canvas, inverted, data.pixel_grid)
        for sigma in data.sigmas
    ]
    # On a canvas a place outside the image has a code like any other.
    shown = labels.shown if data.stripes == "null_stripe" else None
    codes = scenes.encode(
        labels.xy, canvas or data.n, data.encoding, data.sigmas[0], data.width_multiplier, shown
    )
    labels = labels._replace(xy=labels.xy - data.margin)
    n_widths = len(data.sigmas)
    found = Scenes(
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
    for seed, cell in draws(config, found):
        region, copies, share = cell
        # Whatever else differs, the bumps are the same: what stripes add is a paired comparison.
        rng = np.random.default_rng((max(seed, data.seed), data.regions.index(region)))
        held_out = parse(region, data.n, n_widths).reshape(-1)
        found.sets[(seed, *cell)] = _set(data, found, held_out, copies, share, rng)
    return found


def _with_width(codes, n_widths):
    """Codes of all widths, one after another; more than one width has a one-hot code."""
    if n_widths == 1:
        return codes
    width = np.eye(n_widths, dtype=codes.dtype)
    return np.concatenate([np.tile(codes, (n_widths, 1)), width.repeat(len(codes), axis=0)], axis=1)


def draws(config, found: Scenes):
    """(seed, combination) of every set: drawn anew for each seed where `data.seed` is -1."""
    seeds = config.train.seeds if config.data.seed < 0 else (-1,)
    return itertools.product(seeds, itertools.product(*found.axes.values()))


def _all_labels(data) -> tuple[scenes.Labels, int | None]:
    """Every label that a set may hold, and the size of the canvas where there is one."""
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


def _set(data, found: Scenes, held_out, copies: int, share: float, rng) -> Set:
    """Bumps outside the region, and `copies` of everything that is no bump."""
    bumps, others = found.points[~held_out], np.ones(len(found.images), bool)
    others[found.points] = False
    # Of one seed, a smaller share is part of a larger one.
    kept = rng.permutation(bumps)[: max(1, round(share * len(bumps)))]
    rows = np.concatenate([np.sort(kept), *[np.flatnonzero(others)] * copies])
    if data.n_samples:
        rows = rng.choice(rows, data.n_samples)
    return Set(rows.astype(np.int32), ~held_out, held_out)


# --- what is said of a set ------------------------------------------------------------------------


def n_never_lit(found: Scenes, one: Set) -> int:
    """Pixels that no training image makes brighter than `scenes.LIT`."""
    shown = found.images[np.unique(one.rows)]
    return scenes.n_never_lit(1 - shown if found.inverted else shown)


def tell(found: Scenes, words: dict) -> None:
    """One line for each set of the first seed; words {combination: its name}."""
    first = next(iter(found.sets))[0]
    for cell, word in words.items():
        one = found.sets[(first, *cell)]
        n_bumps = int(np.isin(one.rows, found.points).sum())
        say(
            f"{word}: {n_bumps:,} bumps and {len(one.rows) - n_bumps:,} other images trained, "
            f"{one.is_ood.sum():,} held out; {n_never_lit(found, one)} of {found.images[0].size} "
            f"pixels never lit (above {scenes.LIT:g})"
        )


def stacked(found: Scenes, seeds) -> tuple[dict, np.ndarray]:
    """Sets as arrays of one length, and which of them each seed and combination has.

    Returns {"rows" [sets, most], "count" [sets], "is_id", "is_ood" [sets, P]} and the number
    [seeds, combinations] of each set.
    """
    order = {key: i for i, key in enumerate(found.sets)}
    ones = list(found.sets.values())
    most = max(len(one.rows) for one in ones)
    arrays = {
        "rows": np.stack([np.pad(one.rows, (0, most - len(one.rows))) for one in ones]),
        "count": np.array([len(one.rows) for one in ones], np.int32),
        "is_id": np.stack([one.is_id for one in ones]),
        "is_ood": np.stack([one.is_ood for one in ones]),
    }
    cells = list(itertools.product(*found.axes.values()))
    which = [[order.get((seed, *cell), order.get((-1, *cell))) for cell in cells] for seed in seeds]
    return jax.tree.map(np.asarray, arrays), np.array(which)
