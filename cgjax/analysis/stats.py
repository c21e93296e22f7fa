"""Statistics of small studies: intervals, rank correlation, resampling, clustered regressions.

Runs of one trained network are not independent: they form a cluster. The standard errors of
`clustered_glm` account for clusters, but are too small if there are few. `wild_cluster` and
`sign_flip_test` use the signs of the clusters; with G clusters their p is never below 2^(1-G).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, choice, finite, integer, labels, number, real

EXACT = 1 << 14  # up to this number of sign patterns, all are used; of more, this many are drawn


@checked
def mean_and_error(values: real("n ...")) -> tuple[np.ndarray, np.ndarray]:
    """Mean and two standard errors over the first axis; the error is 0 for one entry."""
    values = np.asarray(values, float)
    n = len(values)
    error = values.std(axis=0, ddof=1) / n**0.5 if n > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), 2 * error


def mean_and_interval(values) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half the 95 % interval (Student's t) over the first axis; 0 for one entry."""
    mean, errors = mean_and_error(values)
    return mean, errors / 2 * scipy.special.stdtrit(max(len(values) - 1, 1), 0.975)


@checked
def median_and_interval(
    values: finite("n"), level: number("(0, 1)") = 0.95
) -> tuple[float, float, float]:
    """Median of values, and the two values between which the true median lies.

    The interval assumes nothing about the distribution: the number of values below the true median
    is binomial. Its ends are NaN if n is too small for the level (below 6 at 95 %).
    """
    values = np.sort(np.asarray(values, float))
    n = len(values)
    # k is the largest number with P(fewer than k values are below the median) <= (1 - level) / 2.
    k = int(np.sum(scipy.special.bdtr(np.arange(n), n, 0.5) <= (1 - level) / 2))
    ends = (float(values[k - 1]), float(values[-k])) if k else (np.nan, np.nan)
    return float(np.median(values)), *ends


@checked
def largest_share(failures: integer(0), n: integer(1), level: number("(0, 1)") = 0.95) -> float:
    """Upper end of the exact one-sided interval for a share, from failures among n trials.

    Without a failure it is about 3 / n at 95 %.
    """
    checks.integer("failures", failures, 0, n)
    if failures == n:
        return 1.0
    return float(scipy.special.betaincinv(failures + 1, n - failures, level))


@checked
def share_interval(successes: int, n: int, level: number("(0, 1)") = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) two-sided interval for a share, from successes among n trials."""
    one_sided = (1 + level) / 2
    high = largest_share(successes, n, one_sided)
    return 1 - largest_share(n - successes, n, one_sided), high


@checked
def kendall_tau_b(x: finite("n>=2"), y: finite("n"), strata: labels("n") = None) -> float:
    """Rank correlation of x and y with correction for ties; nan if one of them is constant.

    strata: only pairs within a stratum are compared, so that scales may differ between strata.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    pairs = np.triu_indices(len(x), 1)
    dx, dy = (np.sign(v[:, None] - v[None, :])[pairs] for v in (x, y))
    if strata is not None:
        strata = np.asarray(strata)
        together = (strata[:, None] == strata[None, :])[pairs]
        dx, dy = dx * together, dy * together
    untied = np.sum(dx != 0) * np.sum(dy != 0)
    return float(np.sum(dx * dy) / np.sqrt(untied)) if untied else float("nan")


@checked
def bootstrap(
    statistic: Callable,
    *columns,
    n: integer(1) = 2000,
    level: number("(0, 1)") = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Interval of `statistic(*columns)` from its deviation over rows drawn with replacement.

    statistic +- t sd, with Student's t for one degree of freedom less than there are rows, and the
    deviation of n draws times sqrt(rows / (rows - 1)). Of a mean this is Student's interval; the
    percentiles of the draws would cover 77 % at 3 rows and 85 % at 5. Needs two rows or more. The
    interval may extend beyond the range of the statistic.
    """
    columns = [np.asarray(column) for column in columns]
    lengths = {len(column) if column.ndim else 0 for column in columns}
    if len(lengths) != 1 or min(lengths) < 2:
        raise ValueError(f"columns must have one length > 1: got lengths {sorted(lengths)}")
    for column in columns:
        if np.issubdtype(column.dtype, np.inexact):  # columns of names are allowed, too
            checks.finite(columns=column)
    rng = np.random.default_rng(seed)
    m = len(columns[0])
    draws = rng.integers(0, m, (n, m))
    values = np.array([statistic(*(column[rows] for column in columns)) for rows in draws])
    return deviation_interval(float(statistic(*columns)), values, m, level)


@checked
def deviation_interval(
    value: float, draws: real("n"), n_units: integer(1), level: number("[0, 1]") = 0.95
) -> tuple[float, float]:
    """value +- t sd of its bootstrap draws, for n_units independent units, as in `bootstrap`.

    Draws that are not finite are left out: draws of few units may have no correlation.
    """
    draws = np.asarray(draws, float)
    draws = draws[np.isfinite(draws)]
    if len(draws) < 2 or n_units < 2:
        return math.nan, math.nan
    error = float(draws.std(ddof=1)) * math.sqrt(n_units / (n_units - 1))
    half = error * float(scipy.special.stdtrit(n_units - 1, (1 + level) / 2))
    return value - half, value + half


@checked
def cluster_draws(
    clusters: labels("rows"), n: integer(1) = 2000, seed: integer(0) = 0
) -> np.ndarray:
    """How often each row occurs [n, rows] if clusters are drawn n times with replacement."""
    which = _numbered(clusters)
    n_clusters = which.max() + 1
    drawn = np.random.default_rng(seed).integers(0, n_clusters, (n, n_clusters))
    counts = np.zeros((n, n_clusters), int)
    np.add.at(counts, (np.arange(n)[:, None], drawn), 1)
    return counts[:, which]


@checked
def weighted_tau_b(
    x: finite("n"), y: finite("n"), weights: finite("draws n"), strata: labels("n") = None
) -> np.ndarray:
    """`kendall_tau_b` [draws] of rows that occur `weights` times; NaN where undefined."""
    x, y, weights = (np.asarray(v, float) for v in (x, y, weights))
    dx, dy = (np.sign(v[:, None] - v[None, :]) for v in (x, y))
    if strata is not None:
        strata = np.asarray(strata)
        together = strata[:, None] == strata[None, :]
        dx, dy = dx * together, dy * together

    def total(matrix):
        return np.sum((weights @ matrix) * weights, axis=1)

    untied = total(dx != 0) * total(dy != 0)
    is_defined = untied > 0
    tau = total(dx * dy) / np.sqrt(np.where(is_defined, untied, 1.0))
    return np.where(is_defined, tau, np.nan)


@checked
def jackknife(statistic: Callable, values: finite("n ...")) -> np.ndarray:
    """Jackknife pseudo-values [n, ...] of a pooled statistic of n draws.

    statistic(values [m, ...]) -> [...] pools draws. The mean of the pseudo-values is the statistic
    of all draws; their standard deviation over sqrt(n) is its jackknife error. So a pooled number
    has an interval like the mean of n numbers. A single draw has no error.
    """
    values = np.asarray(values, float)
    n, pooled = len(values), np.asarray(statistic(values), float)
    if n == 1:
        return pooled[None]
    without_one = np.stack([statistic(np.delete(values, i, axis=0)) for i in range(n)])
    return pooled + (n - 1) * (without_one.mean(axis=0) - without_one)


# --- regressions with clusters --------------------------------------------------------------------

SIDES = ("both", "below", "above")


class Wald(NamedTuple):
    """A test of a linear combination of coefficients against zero."""

    estimate: float
    error: float
    z: float  # its square is Wald's chi-squared with one degree of freedom
    p: float  # two-sided, normal; nan if the error is 0


def clustered_glm(y, design, clusters) -> tuple[np.ndarray, np.ndarray]:
    """Least squares: coefficients [k] and their cluster-robust standard errors [k].

    y, clusters [n]; design [n, k], including its column of ones.
    """
    coefficients, covariance = clustered_covariance(y, design, clusters)
    return coefficients, np.sqrt(np.diag(covariance))


@checked
def clustered_covariance(
    y: finite("n"), design: finite("n k"), clusters: labels("n")
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [k] and their covariance [k, k]; arguments as `clustered_glm`.

    (X'X)^-1 [sum_g (X_g'u_g)(X_g'u_g)'] (X'X)^-1 G / (G - 1), with residuals u and G clusters.
    """
    y, design, which = _regression(y, design, clusters)
    basis, inverse, coefficients = _least_squares(y, design)
    residuals = y - design @ coefficients
    # Residuals of an exact fit are rounding errors, not variance.
    summands = np.abs(y) + np.abs(design) @ np.abs(coefficients)
    residuals[np.abs(residuals) < 1e-12 * summands.max()] = 0
    scores = _by_cluster(basis * residuals[:, None], which) @ inverse.T
    correction = len(scores) / (len(scores) - 1)
    return coefficients, correction * scores.T @ scores


@checked
def wald(coefficients: finite("k"), covariance: finite("k k"), contrast: finite("k")) -> Wald:
    """z test of contrast'b = 0; for example, `Ablation + Intercept = 0` is contrast (1, 1)."""
    coefficients, covariance = (np.asarray(a, float) for a in (coefficients, covariance))
    contrast = _contrast(contrast)
    variance = float(contrast @ covariance @ contrast)
    size = np.abs(contrast)
    rounding = 1e-12 * size @ np.abs(covariance) @ size + (1e-12 * size @ np.abs(coefficients)) ** 2
    if variance < -rounding:
        raise ValueError(f"covariance gives the contrast a negative variance, {variance:.2g}")
    variance = variance if variance > rounding else 0.0
    estimate, error = float(contrast @ coefficients), math.sqrt(variance)
    z = estimate / error if error else math.nan
    return Wald(estimate, error, z, math.erfc(abs(z) / 2**0.5))


@checked
def interaction_design(ablation: finite("n"), random: finite("n")) -> np.ndarray:
    """Columns of `y ~ ablation * random` for 0/1 variables: ones, both, and their product.

    Trained versus random weights: contrast (0, 0, 1, 0) for subnetworks, (0, 0, 1, 1) for
    ablations.
    """
    given = {"ablation": ablation, "random": random}
    for name, values in given.items():
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"{name} must be 0 or 1 for each row, got other values")
    ablation, random = (np.asarray(values, float) for values in given.values())
    return np.stack([np.ones_like(ablation), ablation, random, ablation * random], axis=1)


@checked
def wild_cluster(
    y: finite("n"),
    design: finite("n k"),
    clusters: labels("n"),
    contrast: finite("k"),
    seed: integer(0) = 0,
) -> float:
    """Two-sided p of contrast'b = 0 by the wild cluster bootstrap, the null imposed on residuals.

    Uses all 2^G sign patterns of the clusters' residuals if they are at most EXACT, else draws.
    """
    y, design, which = _regression(y, design, clusters)
    contrast = _contrast(contrast)
    basis, inverse, coefficients = _least_squares(y, design)
    along = inverse.T @ contrast
    step = inverse @ along / (along @ along)
    restricted = design @ (coefficients - step * (contrast @ coefficients))
    signs = _signs(which.max() + 1, seed)[:, which]
    drawn = np.concatenate([y[None], restricted + signs * (y - restricted)])

    weights = basis @ along  # contrast'b = weights @ outcomes
    estimates = drawn @ weights
    residuals = drawn - drawn @ basis @ basis.T
    scores = _by_cluster((residuals * weights).T, which)
    errors = np.sqrt(np.sum(scores**2, axis=0))
    # Rounding errors are neither estimates nor errors: an exact fit has infinite z.
    tiny = 1e-12 * np.abs(y).max()
    is_exact = errors <= tiny * np.abs(weights).max()
    z = np.where(is_exact, np.inf, np.abs(estimates) / np.where(is_exact, 1.0, errors))
    z[np.abs(estimates) <= tiny * np.abs(weights).sum()] = 0
    return _share_as_large(z[1:], z[0])


def _regression(y, design, clusters):
    """y [n] and design [n, k] as floats, and the cluster index of each row."""
    y, design = np.asarray(y, float), np.asarray(design, float)
    units = np.linalg.norm(design, axis=0)
    if np.linalg.matrix_rank(design / np.where(units > 0, units, 1)) < design.shape[1]:
        raise ValueError("design has linearly dependent columns: remove them")
    return y, design, _numbered(clusters)


def _contrast(contrast):
    contrast = np.asarray(contrast, float)
    if not contrast.any():
        raise ValueError("contrast is zero everywhere: it compares nothing")
    return contrast


def _least_squares(y, design):
    """Q [n, k] with Q'Q = 1, A [k, k] with A A' = (X'X)^-1, coefficients A Q'y [k].

    X'X itself would lose the digits of columns that are nearly alike.
    """
    units = np.linalg.norm(design, axis=0)
    q, r = np.linalg.qr(design / units)
    inverse = np.linalg.inv(r) / units[:, None]
    return q, inverse, inverse @ (q.T @ y)


def _by_cluster(rows, which):
    """Sums of rows [n, ...] over each cluster."""
    sums = np.zeros((which.max() + 1, *rows.shape[1:]))
    np.add.at(sums, which, rows)
    return sums


# --- tests without a distribution -----------------------------------------------------------------


@checked
def sign_flip_test(values: finite("n"), clusters: labels("n"), seed: integer(0) = 0) -> float:
    """Two-sided p of mean 0, from the signs of the clusters' means.

    Uses all 2^G sign patterns if they are at most EXACT, else draws. With G clusters no p is below
    2^(1-G).
    """
    which = _numbered(clusters)
    means = np.bincount(which, np.asarray(values, float)) / np.bincount(which)
    means /= np.abs(means).max() or 1.0  # so that the rounding of sums has a known size
    return _share_as_large(_signs(len(means), seed) @ means, abs(means.sum()))


@checked
def null_p(observed: finite(""), null: finite("n"), side: choice(*SIDES) = "both") -> float:
    """p of a number, from a sample of the null: (1 + number as extreme) / (1 + n).

    side: "below", "above", or "both", which doubles the smaller of the two.
    """
    null = np.asarray(null, float)
    slack = 1e-12 * max(np.abs(null).max(), abs(observed))
    below = (1 + np.sum(null <= observed + slack)) / (1 + len(null))
    above = (1 + np.sum(null >= observed - slack)) / (1 + len(null))
    return float({"below": below, "above": above, "both": min(1, 2 * min(below, above))}[side])


def _numbered(clusters):
    """The index of each row's cluster."""
    which = np.unique(np.asarray(clusters), return_inverse=True)[1]
    if which.max() == 0:
        raise ValueError("clusters are all the same: two independent clusters or more are needed")
    return which


def _signs(n, seed):
    """All 2^n rows of signs, or EXACT of them after the row of ones."""
    if 2**n <= EXACT:
        return 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    drawn = np.random.default_rng(seed).integers(0, 2, (EXACT, n)) * 2.0 - 1
    return np.concatenate([np.ones((1, n)), drawn])


def _share_as_large(values, observed):
    """The share of values at least as far from zero as the observed one, up to rounding."""
    return float(np.mean(np.abs(values) >= observed * (1 - 1e-9) - 1e-12))
