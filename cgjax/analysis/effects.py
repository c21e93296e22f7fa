"""Effects of factors on outputs over combinations z = (z_1..z_C): sums and shares of variance.

Outputs are mean + a_1(z_1) + ... + a_C(z_C) + interaction. `additive_fit` fits the sum to all or
some of the combinations, and reports for which rows they determine it. `total_effects` is the share
of variance that remains when all factors but one are constant; it does not assume a sum.
`interactions` is the share that a sum does not explain, and how much of it each pair of factors
does. NumPy, float64.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis.arguments import checked, finite, integers, mask, whole

# Relative tolerance for singular values of a design; its root is that for its span.
TOLERANCE = 1e-9


class AdditiveFit(NamedTuple):
    """The nearest mean + a_1(z_1) + ... + a_C(z_C)."""

    mean: np.ndarray  # [D]
    terms: np.ndarray  # [C, n, D], each with mean 0 over the rows that were fitted
    determined: np.ndarray  # [n] whether the fitted rows determine the sum at this row


@checked
def combined(factors: whole("n C"), values: finite("n ...")) -> tuple[np.ndarray, np.ndarray]:
    """The distinct combinations [g, C] of factors, sorted, and mean values [g, ...]."""
    values = np.asarray(values, np.float64)
    combinations, place = np.unique(np.asarray(factors), axis=0, return_inverse=True)
    total = np.zeros((len(combinations), *values.shape[1:]))
    np.add.at(total, place.ravel(), values)
    counts = np.bincount(place.ravel())
    return combinations, total / counts.reshape(-1, *[1] * (total.ndim - 1))


@checked
def additive_fit(
    factors: whole("n C"), outputs: finite("n D>=0"), is_fitted: mask("n") = None
) -> AdditiveFit:
    """Least squares on the rows is_fitted, by default all; the result is for all rows.

    Of several solutions, the smallest coefficients.

    >>> outputs = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> is_fitted = [True, True, True, False]
    >>> additive_fit([[0, 0], [0, 1], [1, 0], [1, 1]], outputs, is_fitted).determined
    array([ True,  True,  True,  True])
    """
    factors, outputs = np.asarray(factors), np.asarray(outputs, np.float64)
    is_fitted = np.ones(len(factors), bool) if is_fitted is None else np.asarray(is_fitted)
    blocks = [_indicators(factors[:, [c]]) for c in range(factors.shape[1])]
    design = np.concatenate(blocks, axis=1).astype(np.float64)
    u, sigma, vt = np.linalg.svd(design[is_fitted], full_matrices=False)
    rank = np.sum(sigma > TOLERANCE * sigma[0])
    u, sigma, vt = u[:, :rank], sigma[:rank], vt[:rank]
    coefficients = vt.T @ ((u.T @ outputs[is_fitted]) / sigma[:, None])
    outside = design - design @ vt.T @ vt
    stops = np.cumsum([block.shape[1] for block in blocks])[:-1]
    terms = np.stack([b @ c for b, c in zip(blocks, np.split(coefficients, stops))])
    means = terms[:, is_fitted].mean(axis=1, keepdims=True)
    determined = np.abs(outside).max(axis=1) < TOLERANCE**0.5
    return AdditiveFit(means.sum(axis=(0, 1)), terms - means, determined)


@checked
def total_effects(
    factors: whole("n C"), outputs: finite("n D"), labels: integers("D") = None
) -> np.ndarray:
    """E[Var(y | all factors but c)] / Var(y), for outputs i and factors c: [rows, C].

    labels: the row of each output, by default one row per output; below 0: none. Each combination
    counts once, with the mean of its samples.

    On a full grid the effects of a sum add up to 1; with interactions they add up to more. The mean
    is over the sets of combinations that differ only in factor c; NaN if there is none, and for
    constant outputs.
    """
    combinations, outputs = combined(factors, outputs)
    rows, variance = _rows(outputs, labels)
    n_factors = combinations.shape[1]
    effects = [_within(combinations, outputs, c) @ rows / variance for c in range(n_factors)]
    return np.stack(effects, axis=1)


class Interactions(NamedTuple):
    """Shares of the variance of each row; NaN if the design has as many terms as combinations."""

    total: np.ndarray  # [rows] that no sum over factors explains
    pairs: np.ndarray  # [rows, C, C] that a function of factors i and j adds to such a sum
    higher: np.ndarray  # [rows] that no sum over pairs of factors explains


@checked
def interactions(
    factors: whole("n C"), outputs: finite("n D"), labels: integers("D") = None
) -> Interactions:
    """Departures from mean + a_1(z_1) + ... + a_C(z_C), in total and by pairs of factors.

    Arguments as in `total_effects`. On a full grid the shares of pairs and `higher` add up to
    `total`; on a part of it pairs may share what they explain.

    >>> factors = np.indices((2, 2, 2)).reshape(3, -1).T
    >>> a, b, c = factors.T
    >>> interactions(factors, (a * b + c)[:, None]).pairs[0].round(3)
    array([[  nan, 0.143, 0.   ],
           [0.143,   nan, 0.   ],
           [0.   , 0.   ,   nan]])
    """
    combinations, outputs = combined(factors, outputs)
    rows, variance = _rows(outputs, labels)
    n, n_factors = combinations.shape
    single = np.concatenate([_indicators(combinations[:, [c]]) for c in range(n_factors)], axis=1)
    basis = _basis(single)
    left = outputs - basis @ (basis.T @ outputs)

    def share(squares, rank):
        """[rows] of sums of squares [D]; with a term for each combination, nothing is known."""
        return squares @ rows / (n * variance) if rank < n else np.full(rows.shape[1], np.nan)

    total = share(np.sum(left**2, axis=0), basis.shape[1])
    pairs = np.full((rows.shape[1], n_factors, n_factors), np.nan)
    if n_factors == 2:
        pairs[:, 0, 1] = pairs[:, 1, 0] = total
        return Interactions(total, pairs, 0 * total)
    columns = []
    for i, j in itertools.combinations(range(n_factors), 2):
        columns.append(_indicators(combinations[:, [i, j]]))
        added = _basis(columns[-1] - basis @ (basis.T @ columns[-1]), len(single))
        explained = np.sum((added.T @ left) ** 2, axis=0)
        pairs[:, i, j] = pairs[:, j, i] = share(explained, basis.shape[1] + added.shape[1])
    every = _basis(np.concatenate(columns, axis=1))
    rest = outputs - every @ (every.T @ outputs)
    return Interactions(total, pairs, share(np.sum(rest**2, axis=0), every.shape[1]))


def _indicators(columns):
    """1 where a row has a value of the columns [n, k]: [n, number of values]."""
    values, place = np.unique(columns, axis=0, return_inverse=True)
    return np.eye(len(values))[place.ravel()]


def _basis(columns, scale=None):
    """An orthonormal basis [n, rank] of the columns' span; scale: of a norm that is not 0."""
    u, sigma, _ = np.linalg.svd(columns, full_matrices=False)
    return u[:, sigma > TOLERANCE * (sigma[0] if scale is None else scale**0.5)]


def _rows(outputs, labels):
    """Membership [D, rows] of outputs [n, D] in rows, and the rows' variance, NaN if constant."""
    labels = np.arange(outputs.shape[1]) if labels is None else np.asarray(labels)
    if labels.max() < 0:
        raise ValueError("labels are all below 0: give at least one output a row")
    rows = np.eye(labels.max() + 1)[labels] * (labels >= 0)[:, None]
    scale = np.sum(outputs**2, axis=0) @ rows / len(outputs)
    variance = np.var(outputs, axis=0) @ rows
    return rows, np.where(variance > 1e-12 * scale, variance, np.nan)


def _within(combinations, outputs, c):
    """Mean variance [D] of outputs while all factors but c are constant."""
    _, place = np.unique(np.delete(combinations, c, axis=1), axis=0, return_inverse=True)
    place = place.ravel()
    counts = np.bincount(place)
    sums = np.zeros((len(counts), outputs.shape[1]))
    np.add.at(sums, place, outputs)
    deviations = (outputs - (sums / counts[:, None])[place]) ** 2
    has_several = counts[place] > 1
    return (
        deviations[has_several].mean(axis=0)
        if has_several.any()
        else np.full(outputs.shape[1], np.nan)
    )
