"""Kernel and superposition accounts of what decoders paint for held-out pairs (x, y).

The binary factorised kernel is fitted to the training images, like the network. All other kernels
are fitted to the network's own images at its training points, as in the paper. Points are those of
the grid.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cgjax.analysis import factorization, machines, ntk
from cgjax.experiments.bumps import sets

K2S = (0.1, 0.3, 1.0, 3.0, 10.0)  # values of k2 for the binary kernel; k1 = 1
LENGTHS = (0.5, 1.0, 2.0, 4.0)  # length scales of the smooth kernels
PENALTY = 1e-6  # added to the diagonal: smooth kernels are nearly singular


def binary(shown: sets.Scenes, train_set: sets.Set, k2: float = 1.0) -> np.ndarray:
    """Images [P, n, n] that the binary factorised kernel predicts at every point.

    The kernel is fitted to the set's images. An absent factor matches nothing: its code is zero.
    """
    rows = np.unique(train_set.rows)
    k_train, k_points = (_matches(shown, some, rows, k2) for some in (rows, shown.points))
    background = float(shown.inverted)
    y = shown.images[rows].reshape(len(rows), -1) - background
    predicted = _regression(k_train, y, k_points, 0.0)
    return predicted.reshape(-1, *shown.images.shape[1:]) + background


def _matches(shown, rows, others, k2):
    """The binary kernel [x = x'] + [y = y'] + k2 [x = x'][y = y'] between labels."""
    xy, is_coded = shown.labels.xy, shown.labels.shown | (not shown.has_absent)
    same = (xy[rows][:, None] == xy[others][None]) & is_coded[rows][:, None] & is_coded[others]
    return same.sum(axis=-1) + k2 * same.all(axis=-1)


def _regression(k_train, y, k_test, penalty=PENALTY):
    return np.asarray(machines.ridge(k_train, y, k_test, penalty, outputs=True))


# --- one network ----------------------------------------------------------------------------------


def superposition(
    shown: sets.Scenes, train_set: sets.Set, painted: np.ndarray, kernels: dict[float, np.ndarray]
) -> dict:
    """R2 with which sums, binary kernels and the truth explain a network's images in the hole.

    painted: [P, n, n]. kernels: {k2: predictions of `binary`}; k2 = 1 must be among them.
    """
    grid, where = (
        values.reshape(_side(shown), _side(shown), *values.shape[1:])
        for values in (painted, train_set.is_ood)
    )
    truth = shown.truth.reshape(grid.shape)
    by_k2 = {
        k2: factorization.explained(grid, predicted.reshape(grid.shape), where)
        for k2, predicted in kernels.items()
    }
    r2 = factorization.superposition(grid, truth, kernels[1.0].reshape(grid.shape), where)
    best = max(by_k2, key=by_k2.get)
    return {
        "additive R2": r2.additive,
        "binary kernel R2": r2.kernel,
        "binary kernel R2, best k2": by_k2[best],
        "best k2": best,
        "truth R2": r2.truth,
        "composition R2": r2.composition,
    }


def _side(shown: sets.Scenes) -> int:
    """Number of points along a side of the grid."""
    return shown.images.shape[-1]


class Fit(NamedTuple):
    """A kernel fitted to a network's images; errors compare the kernel with the network."""

    lengths: tuple  # lx, ly
    total: float
    id: float
    ood: float
    predicted: np.ndarray  # [P, n, n]


def kernel_fits(shown: sets.Scenes, train_set: sets.Set, painted: np.ndarray) -> dict[str, Fit]:
    """For each kind of kernel, the fit whose lengths (or k2) give the least error at all points.

    With lx = ly the factorised kernel equals the radial one, so by construction it is never worse.
    The background is subtracted before the fit, because smooth kernels decay to zero far from
    training points.
    """
    is_trained = np.isin(shown.points, train_set.rows)
    background = float(shown.inverted)
    z, images = shown.xy, painted.reshape(len(painted), -1) - background
    pairs = [(lx, ly) for lx in LENGTHS for ly in LENGTHS]
    kinds = {
        "factorised": (factorization.factorised, pairs),
        "radial": (factorization.radial, [(length,) for length in LENGTHS]),
        "additive": (factorization.additive, pairs),
        "binary": (lambda a, b, k2: factorization.binary(a, b, 1.0, k2), [(k2,) for k2 in K2S]),
    }
    fits = {}
    for name, (kernel, settings) in kinds.items():
        for setting in settings:
            k = kernel(z, z[is_trained], *setting)
            predicted = _regression(k[is_trained], images[is_trained], k)
            errors = np.mean((predicted - images) ** 2, axis=1)
            parts = [np.mean(errors[w]) for w in (slice(None), train_set.is_id, train_set.is_ood)]
            if name not in fits or parts[0] < fits[name].total:
                predicted = predicted.reshape(painted.shape) + background
                fits[name] = Fit(setting, *parts, predicted)
    return fits


# --- the network's own tangent kernel -------------------------------------------------------------


def tangent(f, params, shown: sets.Scenes, train_set: sets.Set, most_iterations: int = 500) -> dict:
    """Images at all points predicted by the tangent kernel of f(params, codes) -> [B, n * n].

    Two solutions: "all outputs" solves for all pixels jointly by conjugate gradients, which stop
    early and report their residual; "mean over pixels" solves every pixel exactly with the kernel
    averaged over pixels.
    """
    rows = np.unique(train_set.rows)
    x, x_points = jnp.asarray(shown.codes[rows]), jnp.asarray(shown.codes[shown.points])
    y = shown.images[rows].reshape(len(rows), -1)
    fit = ntk.linearised_fit(f, params, x, y, x_points, most_iterations=most_iterations)
    both = jnp.concatenate([x, x_points])
    kernel = np.asarray(ntk.empirical(f, params, both, form="mean_trace"), float)
    start = np.asarray(f(params, both), float)
    n = len(rows)
    # The size to which float32 rounding perturbs eigenvalues that are zero.
    penalty = 1e-6 * np.trace(kernel[:n, :n]) / n
    change = _regression(kernel[:n, :n], y - start[:n], kernel[n:, :n], penalty)
    shape = (len(shown.points), *shown.images.shape[1:])
    return {
        "all outputs": np.asarray(fit.predictions).reshape(shape),
        "residual": fit.residual,
        "iterations": fit.n_iterations,
        "mean over pixels": (start[n:] + change).reshape(shape),
    }
