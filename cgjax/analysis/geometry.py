"""The geometry of a representation over the space of factors: lengths, areas, ranks, probes.

A layer maps factors z (for images of a spot: its centre) to activations. The pullback of the
Euclidean metric of the activations is g = J'J with J = dA/dz. `pullback` computes it exactly, by
forward derivatives. `grid_tensor` computes it by finite differences of activations on a grid, for
codes of the factors without a derivative (one-hot). The volume element sqrt(|det g|) is the area
that the layer gives to a unit of the factors' plane. Derivatives of f use JAX and the dtype of f;
functions of arrays, which run once per layer, use NumPy in float64.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, contrasts, support
from cgjax.analysis.arguments import checked, finite, floating, integer, mask, number

# A singular value of a Jacobian, or an eigenvalue of a covariance, counts if it is above this share
# of the largest.
RTOL = 1e-3
# Coordinates of activations differentiated at once.
CHUNK = 4096


# --- the metric tensor ----------------------------------------------------------------------------


@checked
def pullback(f: Callable, z: floating("n d")) -> jax.Array:
    """g = J'J at every row of z: [n, d, d]; f maps one row [d] to activations [D].

    >>> pullback(lambda z: 3 * z, jnp.ones((5, 2)))[0]
    Array([[9., 0.],
           [0., 9.]], dtype=float32)
    """
    jac = contrasts.jacobians(f, z)
    return jnp.einsum("noi,noj->nij", jac, jac, precision="highest")


@checked
def grid_tensor(activations: finite("n_y>=2 n_x>=2 D ...")) -> np.ndarray:
    """g by finite differences of activations on a grid of spacing 1.

    Returns [n_y, n_x, 2, 2], axis 0 (y) first. Differences are central inside, one-sided at the
    border; all further axes (channels, pixels) are one vector.
    """
    array = np.asarray(activations)
    flat = array.reshape(*array.shape[:2], -1)
    tensor = np.zeros((*flat.shape[:2], 2, 2))
    # Squares of differences add up over coordinates; in float64 only a chunk fits in memory.
    for start in range(0, flat.shape[-1], CHUNK):
        slopes = np.gradient(flat[..., start : start + CHUNK].astype(np.float64), axis=(0, 1))
        for i, j in ((0, 0), (0, 1), (1, 1)):
            tensor[..., i, j] += np.einsum("yxd,yxd->yx", slopes[i], slopes[j])
    tensor[..., 1, 0] = tensor[..., 0, 1]
    return tensor


@checked
def volume_element(tensor: finite("... d d")) -> np.ndarray:
    """sqrt(|det g|) [...] of metric tensors g."""
    tensor = np.asarray(tensor, np.float64)
    if tensor.shape[-1] != 2:
        return np.sqrt(np.abs(np.linalg.det(tensor)))
    across = tensor[..., 0, 1] * tensor[..., 1, 0]
    return np.sqrt(np.abs(tensor[..., 0, 0] * tensor[..., 1, 1] - across))


@checked
def rank_map(f: Callable, z: floating("n d"), rtol: number("[0, 1)") = RTOL) -> jax.Array:
    """Rank [n] of dA/dz at every row of z: singular values above rtol of the largest.

    The rank is 1 where a layer maps the plane of factors to a line, and 0 where it ignores both
    factors.
    """
    ranks, _ = support.jacobian_rank(contrasts.jacobians(f, z), rtol, 0.0)
    return ranks


# --- probes and ranks -----------------------------------------------------------------------------


class Probe(NamedTuple):
    """A linear read-out of activations, and its R2 for each target."""

    r2: np.ndarray  # [targets] on the fitted points
    r2_held_out: np.ndarray  # [targets] on the others, relative to their mean; NaN if none
    weights: np.ndarray  # [D, targets]
    intercept: np.ndarray  # [targets]


@checked
def probe(
    activations: finite("n D ..."), targets: finite("n targets"), is_fitted: mask("n") = None
) -> Probe:
    """Ordinary least squares with an intercept, from activations to targets.

    is_fitted: the points to fit; the others are held out. By default all are fitted,
    and R2 is that of the fitted points: with as many activations as points it is always 1. Of
    several least-squares solutions, the smallest is returned.
    """
    x, y = np.asarray(activations, np.float64), np.asarray(targets, np.float64)
    is_fitted = np.ones(len(x), bool) if is_fitted is None else np.asarray(is_fitted)
    x = x.reshape(len(x), -1)
    centre, level = x[is_fitted].mean(axis=0), y[is_fitted].mean(axis=0)
    weights = np.linalg.lstsq(_centred(x[is_fitted]), y[is_fitted] - level, rcond=None)[0]
    intercept = level - centre @ weights
    yhat, negligible = x @ weights + intercept, checks.rounding(targets)
    scores = [_r2(y[rows], yhat[rows], negligible) for rows in (is_fitted, ~is_fitted)]
    return Probe(*scores, weights, intercept)


def _centred(x):
    """x [n, D] around its mean; exactly 0 for a constant column, whose mean may be rounded."""
    return np.where(np.ptp(x, axis=0) > 0, x - x.mean(axis=0), 0)


def _r2(y, yhat, negligible):
    """R2 [targets]; NaN for constant targets and without points."""
    if not len(y):
        return np.full(y.shape[1], np.nan)
    total = np.sum(_centred(y) ** 2, axis=0)
    unexplained = np.sum((y - yhat) ** 2, axis=0)
    varies = total > negligible * np.sum(y**2, axis=0)
    return np.where(varies, 1 - unexplained / np.where(varies, total, 1), np.nan)


class Rank(NamedTuple):
    """The number of directions in which activations vary."""

    n_above: int  # eigenvalues of their covariance above rtol of the largest
    n_components: int  # principal components that hold `share` of the variance
    eigenvalues: np.ndarray  # [min(n, D)] of the covariance, descending


@checked
def effective_rank(
    activations: finite("n>=2 D ..."),
    rtol: number("[0, 1)") = RTOL,
    share: number("(0, 1]") = 0.99,
) -> Rank:
    """Numerical rank of activations around their mean, by both counts of `Rank`.

    The eigenvalues are those of the covariance of all coordinates; pass a subset of the columns to
    reproduce studies that draw 1500 of them.
    """
    x = np.asarray(activations, np.float64)
    x = x.reshape(len(x), -1)
    values = np.linalg.svd(_centred(x), compute_uv=False) ** 2 / (len(x) - 1)
    total = np.sum(values)
    if total * (len(x) - 1) <= checks.rounding(activations) * np.sum(x**2):  # constant
        return Rank(0, 0, values)
    # Rounding may keep the last sum below the total.
    reached = np.cumsum(values) >= share * total * (1 - 1e-12)
    return Rank(int(np.sum(values > rtol * values[0])), int(np.argmax(reached)) + 1, values)


class Components(NamedTuple):
    """Principal components of points."""

    coordinates: np.ndarray  # [n, components] around their mean
    shares: np.ndarray  # [components] of the variance


@checked
def principal_components(
    activations: finite("n>=2 D ..."), components: integer(1) = 2
) -> Components:
    """Coordinates of points along the directions of largest variance, for figures.

    A direction's sign is arbitrary; components beyond the number of points are 0, and all shares of
    constant points.
    """
    x = np.asarray(activations, np.float64)
    x = x.reshape(len(x), -1)
    negligible = checks.rounding(activations) * np.sum(x**2)
    x = _centred(x)
    # Uses the points' inner products, because layers have many more units than points.
    values, vectors = np.linalg.eigh(x @ x.T)
    values = np.maximum(values[::-1][:components], 0)
    coordinates = np.zeros((len(x), components))
    coordinates[:, : len(values)] = vectors[:, ::-1][:, :components] * np.sqrt(values)
    total = np.sum(x**2)
    shares = np.zeros(components)
    shares[: len(values)] = values / total if total > negligible else 0
    return Components(coordinates, shares)


# --- linear probes --------------------------------------------------------------------------------
# Ridge regression with an intercept, its strength chosen by leave-one-out. Leaving one row out has
# a closed form: the residual of row i divided by 1 - H_ii, with H the matrix that maps targets to
# fitted values. NumPy, float64.


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


@checked
def kernel(features: finite("n D"), new: finite("m D")) -> Kernel:
    """The kernel of features, centred on their mean, with new features."""
    features, new = (np.asarray(a, np.float64) for a in (features, new))
    centred, new = _centred(features), new - features.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values = np.where(values > ROUNDING * max(values[-1], 0), values, 0)
    return Kernel(vectors, values, new @ centred.T)


@checked
def ridge(kernel: Kernel, targets: finite("n K"), strengths=STRENGTHS) -> Fit:
    """The probe of targets with the least squared error when each row is left out.

    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> fit = ridge(kernel(x, np.array([[2.0]])), 3 * x)
    >>> round(float(fit.new[0, 0]), 3)
    6.0
    """
    targets = np.asarray(targets, np.float64)
    fits = [_fit(kernel, targets, strength) for strength in strengths]
    errors = [np.sum((targets - fit.left_out) ** 2) for fit in fits]
    return fits[int(np.argmin(errors))]


@checked
def ridgeless(kernel: Kernel, targets: finite("n K")) -> np.ndarray:
    """Values [m, K] on the new rows of the smallest weights that fit the targets best."""
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
