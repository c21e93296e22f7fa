"""The geometry of a representation over the space of factors: lengths, areas, ranks, probes.

A layer maps factors z (for images of a spot: its centre) to activations. The Euclidean metric of
the activations, pulled back, is g = J'J with J = dA/dz: `pullback` has it exactly, by forward
derivatives; `grid_tensor` by finite differences from activations on a grid, where the code of the
factors (one-hot) has no derivative. The volume element sqrt(|det g|) is the area that the layer
gives to a unit of the factors' plane. Derivatives of f are JAX's, in its dtype; what is done with
arrays, once for each layer, is NumPy's, in float64.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, contrasts, support

# A singular value of a Jacobian, or an eigenvalue of a covariance, counts from this share of the
# largest on.
RTOL = 1e-3
# Coordinates of activations differentiated at once.
CHUNK = 4096


# --- the metric tensor ----------------------------------------------------------------------------


def pullback(f: Callable, z: jax.Array) -> jax.Array:
    """g = J'J at every row of z [n, d]: [n, d, d]; f maps one row [d] to activations [D].

    >>> pullback(lambda z: 3 * z, jnp.ones((5, 2)))[0]
    Array([[9., 0.],
           [0., 9.]], dtype=float32)
    """
    jac = _jacobians(f, z)
    return jnp.einsum("noi,noj->nij", jac, jac, precision="highest")


def grid_tensor(activations: np.ndarray) -> np.ndarray:
    """g by finite differences of activations [n_y, n_x, ...] on a grid of spacing 1.

    Returns [n_y, n_x, 2, 2], axis 0 (y) first. Differences are central inside, one-sided at the
    border; all further axes (channels, pixels) are one vector.
    """
    checks.finite(activations=activations)
    array = np.asarray(activations)
    if array.ndim < 3 or array.size == 0 or min(array.shape[:2]) < 2:
        raise ValueError(
            "activations are [n_y, n_x, ...] with 2 points or more each way, got shape "
            f"{array.shape}"
        )
    flat = array.reshape(*array.shape[:2], -1)
    tensor = np.zeros((*flat.shape[:2], 2, 2))
    # Squares of differences add up over coordinates; a few at a time, in float64, fit in memory.
    for start in range(0, flat.shape[-1], CHUNK):
        slopes = np.gradient(flat[..., start : start + CHUNK].astype(np.float64), axis=(0, 1))
        for i, j in ((0, 0), (0, 1), (1, 1)):
            tensor[..., i, j] += np.einsum("yxd,yxd->yx", slopes[i], slopes[j])
    tensor[..., 1, 0] = tensor[..., 0, 1]
    return tensor


def volume_element(tensor: np.ndarray) -> np.ndarray:
    """sqrt(|det g|) [...] of metric tensors g [..., d, d]."""
    checks.matrices("tensor", tensor)
    checks.finite(tensor=tensor)
    tensor = np.asarray(tensor, np.float64)
    if tensor.shape[-1] != 2:
        return np.sqrt(np.abs(np.linalg.det(tensor)))
    across = tensor[..., 0, 1] * tensor[..., 1, 0]
    return np.sqrt(np.abs(tensor[..., 0, 0] * tensor[..., 1, 1] - across))


def rank_map(f: Callable, z: jax.Array, rtol: float = RTOL) -> jax.Array:
    """Rank [n] of dA/dz at every row of z [n, d]: singular values above rtol of the largest.

    A plane of factors that a layer folds into a line has rank 1 there, a layer that ignores both
    has rank 0.
    """
    ranks, _ = support.jacobian_rank(_jacobians(f, z), rtol, 0.0)
    return ranks


def _jacobians(f, z):
    """dA/dz [n, D, d], by forward derivatives where factors are fewer than activations."""
    checks.finite(z=z)
    checks.real("z", z, 2, "n, d")
    if not jnp.issubdtype(jnp.result_type(z), jnp.floating):
        raise ValueError(f"z must be floating point to be differentiated, got {z.dtype}")
    return contrasts.jacobians(f, z)


# --- probes and ranks -----------------------------------------------------------------------------


class Probe(NamedTuple):
    """How well a linear read-out of activations gives each target."""

    r2: np.ndarray  # [targets] on the points it was fitted to
    r2_held_out: np.ndarray  # [targets] on the others, about their own mean; NaN without any
    weights: np.ndarray  # [D, targets]
    intercept: np.ndarray  # [targets]


def probe(activations, targets, is_fitted=None) -> Probe:
    """Ordinary least squares with an intercept, from activations [n, ...] to targets [n, targets].

    is_fitted: boolean [n], the points to fit; the others are held out. By default all are fitted,
    and R2 is that of the points the probe was fitted to: with as many activations as points it is
    1 whatever they are. Of several least-squares solutions, the smallest.
    """
    checks.finite(activations=activations, targets=targets)
    x, y = np.asarray(activations, np.float64), np.asarray(targets, np.float64)
    if x.ndim < 2 or y.ndim != 2 or len(x) != len(y) or x.size == 0 or y.size == 0:
        raise ValueError(
            f"activations are [n, ...] and targets [n, targets], got {x.shape} and {y.shape}"
        )
    is_fitted = np.ones(len(x), bool) if is_fitted is None else is_fitted
    checks.mask("is_fitted", is_fitted, (len(x),))
    is_fitted, x = np.asarray(is_fitted), x.reshape(len(x), -1)
    centre, level = x[is_fitted].mean(axis=0), y[is_fitted].mean(axis=0)
    weights = np.linalg.lstsq(x[is_fitted] - centre, y[is_fitted] - level, rcond=None)[0]
    intercept = level - centre @ weights
    scores = [_r2(y[rows], x[rows] @ weights + intercept) for rows in (is_fitted, ~is_fitted)]
    return Probe(*scores, weights, intercept)


def _r2(y, yhat):
    """[targets]; NaN where there is nothing to explain."""
    if not len(y):
        return np.full(y.shape[1], np.nan)
    total = np.sum((y - y.mean(axis=0)) ** 2, axis=0)
    left = np.sum((y - yhat) ** 2, axis=0)
    return np.where(total > 0, 1 - left / np.where(total > 0, total, 1), np.nan)


class Rank(NamedTuple):
    """How many directions activations use."""

    n_above: int  # eigenvalues of their covariance above rtol of the largest
    n_components: int  # principal components that hold `share` of the variance
    eigenvalues: np.ndarray  # [min(n, D)] of the covariance, descending


def effective_rank(activations, rtol: float = RTOL, share: float = 0.99) -> Rank:
    """Numerical rank of activations [n, ...] around their mean, by either count.

    The eigenvalues are those of the covariance of all coordinates; pass some of the columns to
    follow studies that draw 1500 of them.
    """
    checks.finite(activations=activations)
    checks.tolerances(rtol, 0.0)
    checks.bounded("share", share, 0, 1, above=True)
    x = np.asarray(activations, np.float64)
    if x.ndim < 2 or len(x) < 2 or x.size == 0:
        raise ValueError(f"activations are [n, ...] with 2 points or more, got shape {x.shape}")
    x = x.reshape(len(x), -1)
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2 / (len(x) - 1)
    total = np.sum(values)
    if total == 0:
        return Rank(0, 0, values)
    # Rounding may leave the last sum below 1.
    reached = np.cumsum(values) >= share * total * (1 - 1e-12)
    return Rank(int(np.sum(values > rtol * values[0])), int(np.argmax(reached)) + 1, values)


class Components(NamedTuple):
    """Principal components of points."""

    coordinates: np.ndarray  # [n, components] around their mean
    shares: np.ndarray  # [components] of the variance


def principal_components(activations, components: int = 2) -> Components:
    """The points [n, ...] along the directions of their largest variance, for pictures.

    A direction's sign is arbitrary; components beyond the points' own are 0.
    """
    checks.finite(activations=activations)
    checks.integer("components", components, 1)
    x = np.asarray(activations, np.float64)
    if x.ndim < 2 or len(x) < 2 or x.size == 0:
        raise ValueError(f"activations are [n, ...] with 2 points or more, got shape {x.shape}")
    x = x.reshape(len(x), -1)
    x = x - x.mean(axis=0)
    # By the points' inner products: layers have many more units than there are points.
    values, vectors = np.linalg.eigh(x @ x.T)
    values = np.maximum(values[::-1][:components], 0)
    found = np.zeros((len(x), components))
    found[:, : len(values)] = vectors[:, ::-1][:, :components] * np.sqrt(values)
    total = np.sum(x**2)
    shares = np.zeros(components)
    shares[: len(values)] = values / total if total else 0
    return Components(found, shares)
