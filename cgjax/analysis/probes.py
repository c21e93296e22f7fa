"""Linear probes: ridge regression with an intercept, its strength chosen by leave-one-out.

Leaving one row out has a closed form: the residual of row i divided by 1 - H_ii, with H the matrix
that maps targets to fitted values. NumPy, float64.
"""

from typing import NamedTuple

import numpy as np

from cgjax.analysis import checks

# Strengths, relative to the mean eigenvalue of the features' kernel.
STRENGTHS = tuple(10.0**power for power in range(-6, 3))
ROUNDING = 1e-10  # an eigenvalue below it, relative to the largest, counts as zero


class Kernel(NamedTuple):
    """Centred features of known rows, as eigenvectors of their kernel; and those of new rows."""

    vectors: np.ndarray  # [n, n]
    values: np.ndarray  # [n]
    new: np.ndarray  # [m, n] products of new rows with known rows


class Fit(NamedTuple):
    """A probe of K targets."""

    strength: float
    outputs: np.ndarray  # [n, K] on the rows that it was fitted to
    left_out: np.ndarray  # [n, K] on each row, fitted without this row
    new: np.ndarray  # [m, K]


def kernel(features: np.ndarray, new: np.ndarray) -> Kernel:
    """The kernel of features [n, D], centred on their mean, with new features [m, D]."""
    checks.finite(features=features, new=new)
    features, new = (np.asarray(a, np.float64) for a in (features, new))
    if features.ndim != 2 or new.shape[1:] != features.shape[1:]:
        raise ValueError(f"features is [n, D], new is [m, D]: got {features.shape}, {new.shape}")
    centred, new = features - features.mean(axis=0), new - features.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values = np.where(values > ROUNDING * max(values[-1], 0), values, 0)
    return Kernel(vectors, values, new @ centred.T)


def ridge(kernel: Kernel, targets: np.ndarray, strengths=STRENGTHS) -> Fit:
    """The probe of targets [n, K] with the least squared error when each row is left out.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> fit = ridge(kernel(x, np.array([[2.0]])), 3 * x)
    >>> round(float(fit.new[0, 0]), 3)
    6.0
    """
    checks.finite(targets=targets)
    targets = np.asarray(targets, np.float64)
    fits = [_fit(kernel, targets, strength) for strength in strengths]
    errors = [np.sum((targets - fit.left_out) ** 2) for fit in fits]
    return fits[int(np.argmin(errors))]


def ridgeless(kernel: Kernel, targets: np.ndarray) -> np.ndarray:
    """Values [m, K] on the new rows of the smallest weights that fit the targets best."""
    checks.finite(targets=targets)
    targets = np.asarray(targets, np.float64)
    inverse = np.where(kernel.values > 0, 1 / np.where(kernel.values > 0, kernel.values, 1), 0)
    level = targets.mean(axis=0)
    dual = kernel.vectors @ (inverse[:, None] * (kernel.vectors.T @ (targets - level)))
    return level + kernel.new @ dual


def _fit(kernel, targets, strength) -> Fit:
    n, level = len(targets), targets.mean(axis=0)
    penalty = max(strength * kernel.values.mean(), np.finfo(float).tiny)
    along = kernel.vectors.T @ (targets - level)
    kept = kernel.values / (kernel.values + penalty)
    outputs = level + kernel.vectors @ (kept[:, None] * along)
    leverage = 1 / n + np.sum(kernel.vectors**2 * kept, axis=1)
    left_out = targets - (targets - outputs) / np.maximum(1 - leverage, ROUNDING)[:, None]
    dual = kernel.vectors @ (along / (kernel.values + penalty)[:, None])
    return Fit(strength, outputs, left_out, level + kernel.new @ dual)
