"""Latents as a support audit sees them: continuous, periodic or categorical columns of numbers.

A *space* holds each latent's kind and unit. From it come distances, covariances of functions of
some latents, and a selection of rows that spreads over a sample.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg

from cgjax.analysis import checks
from cgjax.analysis.arguments import check_axes, checked, finite

KINDS = ("continuous", "periodic", "categorical")
LEVELS = 64  # different whole numbers up to which a column counts as categories
PERIODS = (1.0, 2 * np.pi, 360.0)  # of a periodic latent: the first that holds its range
SAME = 1e-6  # rows that differ by less, in units of each latent, count as repeated
RESIDUE = 1e-8  # variance that features of a covariance may leave out
FEW = 0.02  # share of Q that may be out of reach or stay open: the ends of a distribution
DENSITY = 1.5  # times the distance between samples of Q: P may be sparser than Q in places
CHUNK = 256  # rows of distances held at once


class Space(NamedTuple):
    """Kind and unit of each of D latents; P and Q lie in it."""

    kinds: tuple[str, ...]
    units: np.ndarray  # [D] spread on Q, period of a periodic latent, 1 of a category
    ambiguous: tuple[int, ...]  # latents whose kind is a guess that a user should confirm

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows [n, D] in units of each latent; categories stay as they are."""
        return rows / self.units


@checked
def space(p: finite("n D"), q: finite("m D"), kinds: Sequence | None = None) -> Space:
    """The space of samples of P and Q.

    kinds: one entry per latent, of KINDS or None (detected); `("periodic", 24.0)` names a period.
    Detected: whole numbers with at most LEVELS different values are categories, other latents are
    continuous. Whole numbers with more values are *ambiguous*: they may be numbered categories.
    The unit of a continuous latent is its 5-to-95 % range on q, divided by 0.9.
    """
    p, q = np.asarray(p), np.asarray(q)
    n_latents = q.shape[1]
    kinds = [None] * n_latents if kinds is None else list(kinds)
    if len(kinds) != n_latents:
        raise ValueError(f"kinds names {len(kinds)} latents of {n_latents}: one entry for each")
    names, units, ambiguous = [], [], []
    for d, kind in enumerate(kinds):
        period = None
        if isinstance(kind, tuple | list) and len(kind) == 2 and kind[0] == "periodic":
            kind, period = kind
            checks.bounded("period", period, "(0, inf)")
        if kind is not None and kind not in KINDS:
            raise ValueError(f"kind {kind!r} of latent {d}: one of {', '.join(KINDS)} or None")
        column = np.concatenate([p[:, d], q[:, d]])
        if kind is None:
            is_whole, n_values = np.all(column == np.round(column)), len(np.unique(column))
            kind = "categorical" if is_whole and n_values <= LEVELS else "continuous"
            ambiguous += [d] if is_whole and n_values > LEVELS else []
        names.append(kind)
        units.append(_unit(kind, column, q[:, d], period))
    return Space(tuple(names), np.array(units), tuple(ambiguous))


def _unit(kind, column, on_q, period):
    if kind == "categorical":
        return 1.0
    if kind == "periodic":
        width = np.ptp(column)
        return period or next((one for one in PERIODS if width <= one * (1 + 1e-9)), width)
    low, high = np.quantile(on_q, [0.05, 0.95])
    return (high - low) / 0.9 or np.ptp(on_q) or np.ptp(column) or 1.0


def as_categories(given: Space) -> Space:
    """The same space with ambiguous latents as categories."""
    kinds = ["categorical" if d in given.ambiguous else kind for d, kind in enumerate(given.kinds)]
    units = np.where(np.array(kinds) == "categorical", 1.0, given.units)
    return Space(tuple(kinds), units, ())


def distances(given: Space, columns, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, m] between values a [n, d] and b [m, d] of some latents, in their units.

    Infinite between different categories; of angles, a multiple of the chord.
    """
    squares = np.zeros((len(a), len(b)))
    for i, d in enumerate(columns):
        apart = (a[:, i, None] - b[None, :, i]) / given.units[d]
        if given.kinds[d] == "categorical":
            squares[apart != 0] = np.inf
        else:
            apart = np.sin(np.pi * apart) / np.pi if given.kinds[d] == "periodic" else apart
            squares += apart**2
    return np.sqrt(squares)


def covariance(given: Space, columns, a: np.ndarray, b: np.ndarray, length: float) -> np.ndarray:
    """Prior covariance [n, m] of a function of some latents between values a [n, d] and b [m, d]:
    Gaussian of this length in their distance."""
    return np.exp(-((distances(given, columns, a, b) / length) ** 2) / 2)


class Changes(NamedTuple):
    """Changes of one component: features whose inner products are their prior covariance."""

    kernel: np.ndarray  # [u, u] covariance of the component's u different values
    features: np.ndarray  # [u, r]; features @ features.T is the kernel but for RESIDUE
    residues: np.ndarray  # [r] largest variance that features before this one leave out
    evaluate: Callable  # weights [r, M], values [n, d] -> changes [n, M]

    def cut(self, residue: float) -> "Changes":
        """The same with as few features as leave out at most this variance: the first ones."""
        rank = max(int(np.sum(self.residues > residue)), 1)
        return self._replace(features=self.features[:, :rank])


def changes(given: Space, columns, rows: np.ndarray, length: float):
    """Changes of a component, and the place of each row [n, D] among its values, [n]."""
    values, places = np.unique(rows[:, columns], axis=0, return_inverse=True)
    kernel = covariance(given, columns, values, values, length)
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(kernel, tol=RESIDUE, lower=1)
    features = np.empty((len(values), rank))
    features[order - 1] = np.tril(factor)[:, :rank]
    pivots = order[:rank] - 1

    def evaluate(weights, at):
        across = covariance(given, columns, at, values[pivots], length)
        return across @ np.linalg.solve(features[pivots].T, weights)

    residues = np.diag(factor)[:rank] ** 2
    return Changes(kernel, features, residues, evaluate), places.ravel()


# --- rows -----------------------------------------------------------------------------------------


def distinct(given: Space, rows: np.ndarray) -> np.ndarray:
    """Indices of rows [n, D] that differ by more than SAME in some latent; order by value.

    So a sample in another order, or with rows repeated, has the same distinct rows.
    """
    rounded = np.round(given.scaled(rows) / SAME)
    return np.unique(rounded, axis=0, return_index=True)[1]


def spread_out(given: Space, rows: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` of the rows [n, D], each the farthest from those before it.

    Categories that differ are one unit apart.
    """
    checks.integer("most", most, 1)
    check_axes("rows", rows.shape, "_ D", {"D": (len(given.units), "given.units")})
    if len(rows) <= most:
        return np.arange(len(rows))
    scaled = given.scaled(rows)

    def squares(i):
        apart = scaled - scaled[i]
        for d, kind in enumerate(given.kinds):
            if kind == "categorical":
                apart[:, d] = apart[:, d] != 0
            elif kind == "periodic":
                apart[:, d] = np.sin(np.pi * apart[:, d]) / np.pi
        return np.sum(apart**2, axis=1)

    centre = np.sum((scaled - np.median(scaled, axis=0)) ** 2, axis=1)
    chosen = [int(np.argmin(centre))]
    nearest = squares(chosen[0])
    while len(chosen) < most:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, squares(chosen[-1]))
    return np.sort(chosen)


def some_of_each(columns, rows: np.ndarray, most: int) -> np.ndarray:
    """Indices of about `most` rows [n, D] in which every value of every component occurs.

    Rows are drawn at random; first come those that show a value most rarely drawn so far.
    """
    if len(rows) <= most:
        return np.arange(len(rows))
    order = np.random.default_rng(0).permutation(len(rows))
    ranks = []
    for each in columns:
        _, value = np.unique(rows[order][:, each], axis=0, return_inverse=True)
        by_value = np.argsort(value.ravel(), kind="stable")
        starts = np.searchsorted(value.ravel()[by_value], np.arange(value.max() + 1))
        rank = np.empty(len(rows), int)  # how often the value occurs in rows before this one
        rank[by_value] = np.arange(len(rows)) - starts[value.ravel()[by_value]]
        ranks.append(rank)
    least = np.min(ranks, axis=0)
    n_needed = max(most, int(np.sum(least == 0)))
    return np.sort(order[np.argsort(least, kind="stable")[:n_needed]])


# --- reach ----------------------------------------------------------------------------------------


class Coverage(NamedTuple):
    """Compositional support (Def. 2): does P reach every component value that Q has?"""

    share: np.ndarray  # [K] of Q's values that have a value of P within the radius
    radius: np.ndarray  # [K] in units of the latents
    gaps: tuple  # (latent, low, high): range of the values that P misses, where they are too many
    holds: bool


def coverage(given: Space, columns, p, q, length: float, names: Sequence = ()) -> Coverage:
    """Compositional support of rows p [n, D] with respect to q [m, D], component by component.

    The radius is half of `length` times the root of the number of latents, so a gap in one latent
    counts if it is longer than `length`; or DENSITY times the distance within which as many samples
    of q itself have a neighbour (all but FEW of them), whichever is larger. Samples of many latents
    lie far apart, so each latent is tested by itself too.
    """
    names = tuple(names) or tuple(range(q.shape[1]))
    shares, radii, gaps = [], [], []
    for each in columns:
        tested = [each] + [[d] for d in each if len(each) > 1]
        radius = [_radius(given, some, len(p), q, length) for some in tested]
        parts = zip(tested, radius)
        is_far = [nearest(given, some, q, p)[0] > limit for some, limit in parts]
        shares.append(1 - max(far.mean() for far in is_far))
        radii.append(radius[0])
        for some, far in reversed(list(zip(tested, is_far))):
            is_named = any(gap[0] in [names[d] for d in some] for gap in gaps)
            if far.mean() > few(given, some, len(p)) and not is_named:
                ends = [(names[d], float(q[far, d].min()), float(q[far, d].max())) for d in some]
                gaps += [end for end in ends if end[1] < end[2]] or ends
    return Coverage(np.array(shares), np.array(radii), tuple(gaps), not gaps)


def few(given: Space, columns, n: int) -> float:
    """Share of Q that may be out of reach of n samples: FEW and two standard errors of it.

    0 where all latents are categories: they have no tails.
    """
    if all(given.kinds[d] == "categorical" for d in columns):
        return 0.0
    return FEW + 2 * np.sqrt(FEW / n)


def _radius(given, columns, n, q, length):
    if not few(given, columns, n):
        return 0.0
    first, second = halves(len(q), n)
    own = nearest(given, columns, q[second], q[first])[0]
    own = np.quantile(own[np.isfinite(own)], 1 - FEW) if np.isfinite(own).any() else 0.0
    return max(length / 2 * np.sqrt(len(columns)), DENSITY * float(own))


def halves(n: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Two parts of n rows, the same in every call; the first has at most `most`."""
    order = np.random.default_rng(0).permutation(n)
    first = max(min(n // 2, most), 1)
    return np.sort(order[:first]), np.sort(order[first:] if n > 1 else order)


def nearest(given: Space, columns, rows, samples) -> tuple[np.ndarray, np.ndarray]:
    """[n] distance of each row's values of some latents from the nearest sample (inf: none), and
    its index."""
    rows, samples = rows[:, columns], samples[:, columns]
    chunks = [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
    apart = [distances(given, columns, part, samples) for part in chunks]
    return np.concatenate([x.min(1) for x in apart]), np.concatenate([x.argmin(1) for x in apart])


def within(given: Space, columns, value, rows, radius: float) -> np.ndarray:
    """Indices of rows [n, D] whose values of some latents are within a radius of those of one row
    [D], nearest first."""
    apart = distances(given, columns, value[None, columns], rows[:, columns])[0]
    near = np.flatnonzero(apart <= radius)
    return near[np.argsort(apart[near], kind="stable")]
