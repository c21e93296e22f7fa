"""Statistics of small studies: intervals, rank correlation, resampling."""

import math
from collections.abc import Callable

import numpy as np

from cgjax.analysis import checks

EXACT = 1 << 14  # as many arrangements are all gone through; of more, so many are drawn


def mean_and_error(values) -> tuple[np.ndarray, np.ndarray]:
    """Mean and two standard errors over the first axis; no error where it has one entry."""
    values = np.asarray(checks.real("values", values), float)
    if values.ndim == 0 or len(values) == 0:
        raise ValueError(f"values are [n, ...] with n > 0, got shape {values.shape}")
    n = len(values)
    error = values.std(axis=0, ddof=1) / n**0.5 if n > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), 2 * error


# Two-sided 95 % points of Student's t, by degrees of freedom from 1 on.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def mean_and_interval(values) -> tuple[np.ndarray, np.ndarray]:
    """Mean and half the 95 % interval (Student's t) over the first axis; no interval for one entry.

    Beyond ten entries t is that of ten, a little too large.
    """
    mean, errors = mean_and_error(values)
    return mean, errors / 2 * T95[min(max(len(values) - 2, 0), len(T95) - 1)]


def largest_share(failures: int, n: int, level: float = 0.95) -> float:
    """Upper end of the exact one-sided interval for a share, from failures among n trials.

    Without a failure it is about 3 / n at 95 %: what a sample that shows nothing leaves possible.
    """
    checks.integer("n", n, 1)
    checks.integer("failures", failures, 0, n)
    checks.bounded("level", level, 0, np.nextafter(1, 0), above=True)
    if failures == n:
        return 1.0
    k = np.arange(failures + 1)
    counts = np.array([math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in k])

    def chance(share):  # of so few failures, if the true share is this
        return np.sum(np.exp(counts + k * math.log(share) + (n - k) * math.log1p(-share)))

    low, high = failures / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > 1 - level else (low, middle)
    return high


def kendall_tau_b(x, y) -> float:
    """Rank correlation of x and y [n] that allows for ties; nan where one of them is constant."""
    checks.finite(x=x, y=y)
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise ValueError(f"tau needs two sequences of one length n > 1, got {x.shape}, {y.shape}")
    pairs = np.triu_indices(len(x), 1)
    dx, dy = (np.sign(v[:, None] - v[None, :])[pairs] for v in (x, y))
    untied = np.sum(dx != 0) * np.sum(dy != 0)
    return float(np.sum(dx * dy) / np.sqrt(untied)) if untied else float("nan")


def bootstrap(
    statistic: Callable, *columns, n: int = 2000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of `statistic(*columns)`, rows drawn with replacement."""
    columns = [np.asarray(column) for column in columns]
    lengths = {len(column) if column.ndim else 0 for column in columns}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"columns are one or more of one length, not empty: got {sorted(lengths)}")
    for column in columns:
        if np.issubdtype(column.dtype, np.inexact):  # names may stand beside numbers
            checks.finite(columns=column)
    checks.integer("n", n, 1)
    checks.bounded("level", level, 0, np.nextafter(1, 0), above=True)
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, len(columns[0]), (n, len(columns[0])))
    found = np.array([statistic(*(column[rows] for column in columns)) for rows in draws])
    tail = 100 * (1 - level) / 2
    low, high = np.nanpercentile(found, [tail, 100 - tail])
    return float(low), float(high)


# --- tests without a distribution -----------------------------------------------------------------


def sign_flip_test(values, clusters, seed: int = 0) -> float:
    """Two-sided p of mean 0, from the signs of the clusters' means; values, clusters [n].

    All 2^G signs where they are few, else draws. With G clusters no p is below 2^(1-G).
    """
    checks.finite(values=values)
    values = np.asarray(checks.real("values", values, 1, "n"), float)
    which = _numbered(clusters, len(values))
    checks.integer("seed", seed, 0)
    means = np.bincount(which, values) / np.bincount(which)
    return _share_as_large(_signs(len(means), seed) @ means, abs(means.sum()))


def _numbered(clusters, n):
    clusters = np.asarray(clusters)
    if clusters.shape != (n,):
        raise ValueError(f"clusters are [{n}], one for each of y: got shape {clusters.shape}")
    which = np.unique(clusters, return_inverse=True)[1]
    if which.max() == 0:
        raise ValueError("clusters are all the same: nothing was drawn independently")
    return which


def _signs(n, seed):
    """All 2^n rows of signs, or EXACT of them after the row of ones."""
    if 2**n <= EXACT:
        return 1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    drawn = np.random.default_rng(seed).integers(0, 2, (EXACT, n)) * 2.0 - 1
    return np.concatenate([np.ones((1, n)), drawn])


def _share_as_large(values, observed):
    """How many are at least as far from zero as what was seen, but for rounding."""
    return float(np.mean(np.abs(values) >= observed * (1 - 1e-9) - 1e-12))
