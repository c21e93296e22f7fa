"""How much data a score needs to pass a threshold, and the power with which that amount grows.

A score is measured for several training-set sizes. The data needed is the smallest size whose score
reaches the threshold. Two results mark *censored* cases: inf if no size reaches it (more than the
largest size is needed), 0 if the smallest size already does.
"""

from typing import NamedTuple

import numpy as np
import scipy.special

from cgjax.analysis.arguments import checked, finite, integer, number


@checked
def data_needed(sizes: finite("m"), accuracy: finite("m"), threshold: finite("") = 0.6) -> float:
    """The training-set size at which accuracy first reaches the threshold; inf or 0 if censored.

    sizes: increasing. Accuracy is interpolated linearly in the logarithm of the
    size.
    """
    sizes, accuracy = np.asarray(sizes, float), np.asarray(accuracy, float)
    if np.any(np.diff(sizes) <= 0) or sizes[0] <= 0:
        raise ValueError("sizes must be positive and must increase")
    reached = accuracy >= threshold
    if not reached.any():
        return float("inf")
    i = int(np.argmax(reached))
    if i == 0:
        return 0.0
    share = (threshold - accuracy[i - 1]) / (accuracy[i] - accuracy[i - 1])
    low, high = np.log(sizes[i - 1 : i + 1])
    return float(np.exp(low + share * (high - low)))


class Exponent(NamedTuple):
    """The slope of log(needed) on log(n), with its interval over seeds."""

    slope: float
    low: float
    high: float
    n_points: int  # in the fit: pairs (n, seed), or values of n for `exponent_of_medians`
    n_censored: int  # threshold never reached
    n_enough: int  # the smallest size suffices


@checked
def exponent(
    n: number("(0, inf)", "sizes"),
    needed: number("[0, inf]", "sizes seeds"),
    level: number("[0, 1]") = 0.95,
    draws: integer(1) = 2000,
    seed: integer(0) = 0,
) -> Exponent:
    """The power with which `needed`, inf where it is never reached, grows with image sizes n.

    Least squares on logarithms. The interval is slope +- t sd, from draws of seeds with
    replacement, independent for each image size. sd is their deviation times sqrt(seeds / (seeds -
    1)); t has (seeds - 1) degrees of freedom for each size that carries the slope. The slope is NaN
    if fewer than two sizes have a point, the interval if there is one seed. Censored points (inf
    and 0) are left out; this makes the slope too small if large images are the ones that fail, so
    read it together with n_censored and n_enough.
    """
    n, needed = np.asarray(n, float), np.asarray(needed, float)
    rng = np.random.default_rng(seed)
    picks = rng.integers(needed.shape[1], size=(draws, *needed.shape))
    slopes = [_slope(n, np.take_along_axis(needed, pick, axis=1)) for pick in picks]
    n_points = np.sum(_is_known(needed), axis=1)
    slope, half = _slope(n, needed), _half_width(n, slopes, needed.shape[1], level, n_points)
    return Exponent(slope, slope - half, slope + half, *_counts(needed))


def _half_width(n, slopes, n_seeds, level, n_points) -> float:
    """Half of the interval; n_points [sizes]: the numbers of each size that carry the slope."""
    known = np.array([slope for slope in slopes if np.isfinite(slope)])
    more = n_seeds - 1
    if len(known) < 2 or not more or len(np.unique(n[n_points > 0])) < 2:
        return np.nan
    # Sizes at the ends carry most of the slope, those in the middle hardly any.
    pull = n_points * (np.log(n) - np.average(np.log(n), weights=n_points)) ** 2
    degrees = more * pull.sum() ** 2 / np.sum(pull**2)
    half = known.std(ddof=1) * np.sqrt(1 + 1 / more)
    return half * scipy.special.stdtrit(degrees, (1 + level) / 2)


def _counts(needed) -> tuple[int, int, int]:
    """How many values are known, never reached, and reached by the smallest size."""
    n_censored, n_enough = int(np.sum(np.isinf(needed))), int(np.sum(needed == 0))
    return needed.size - n_censored - n_enough, n_censored, n_enough


def _is_known(needed):
    return np.isfinite(needed) & (needed > 0)


def _slope(n, needed):
    points = _is_known(needed)
    x = np.broadcast_to(np.log(n)[:, None], needed.shape)[points]
    y = np.log(needed[points])
    if len(x) == 0 or np.ptp(x) == 0:
        return float("nan")
    x = x - x.mean()
    return float(x @ y / (x @ x))


# --- needed by the median over seeds, with censored sizes in the fit ------------------------------


def exponent_of_medians(
    n: np.ndarray,
    sizes: list,
    scores: list,
    threshold: float,
    level: float = 0.95,
    draws: int = 500,
    seed: int = 0,
) -> tuple[Exponent, np.ndarray, np.ndarray]:
    """The power with which the data needed by the median score of all seeds grows with n.

    n: [cells]. sizes: training-set sizes [m] of each cell. scores: [m, seeds] of each cell. Returns
    the exponent, needed [cells], and the ends of its intervals [cells, 2].

    Censored cells count as bounds (`censored_slope`). Both intervals come from draws of seeds with
    replacement, independent for each cell: that of the slope as in `exponent`, those of `needed`
    are percentiles, inf or 0 where draws are censored.
    """
    n = np.asarray(n, float)
    limits = np.array([(cell[0], cell[-1]) for cell in sizes], float)

    def needed_by(picks, of_cell=data_needed.__wrapped__):
        medians = [np.median(cell[:, pick], axis=1) for cell, pick in zip(scores, picks)]
        return np.array([of_cell(*cell, threshold) for cell in zip(sizes, medians)])

    if len({np.shape(cell)[1:] for cell in scores}) > 1:
        raise ValueError(f"scores need the same seeds in every cell: {[*map(np.shape, scores)]}")
    n_seeds = scores[0].shape[1]
    needed = needed_by([np.arange(n_seeds)] * len(n), data_needed)  # its checks hold for all draws
    picks = np.random.default_rng(seed).integers(n_seeds, size=(draws, len(n), n_seeds))
    drawn = np.array([needed_by(pick) for pick in picks])
    slope, is_carrying = _censored_fit(n, needed, limits)
    slopes = [censored_slope(n, row, limits) for row in drawn]
    half = _half_width(n, slopes, n_seeds, level, is_carrying)
    tails = (1 - level) / 2, (1 + level) / 2
    ends = np.quantile(drawn, tails, axis=0, method="inverted_cdf").T
    return Exponent(slope, slope - half, slope + half, *_counts(needed)), needed, ends


def censored_slope(n: np.ndarray, needed: np.ndarray, limits: np.ndarray) -> float:
    """The slope of log(needed) on log(n) [cells]; cells without a number bound the line.

    limits: smallest and largest size tried [cells, 2]. A cell that never reaches the threshold has
    an error only if the line lies below its largest size, a cell whose smallest size suffices only
    if the line lies above that size. Least squares; NaN if fewer than two n have a number.
    """
    return _censored_fit(n, needed, limits)[0]


def _censored_fit(n, needed, limits):
    """The slope, and the cells that carry it: those with a number, and bounds that are violated."""
    x, known = np.log(n), _is_known(needed)
    if len(np.unique(x[known])) < 2:
        return float("nan"), known
    above = np.isinf(needed)
    y = np.log(np.where(known, needed, np.where(above, limits[:, 1], limits[:, 0])))
    counts = known
    # Newton's method on a convex, piecewise quadratic error: which bounds does the line violate?
    for _ in range(4 * len(x)):
        slope, intercept = np.polyfit(x[counts], y[counts], 1)
        line = slope * x + intercept
        violated = np.where(above, line < y, line > y)
        if np.array_equal(known | violated, counts):
            break
        counts = known | violated
    return float(slope), counts
