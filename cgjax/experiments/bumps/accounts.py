"""Accounts of what decoders paint for pairs they never saw: kernels and sums beside every network.

The binary factorised kernel is fitted to the training images, as the network was; other kernels to
the network's own images at its training points, as the paper does. Points are those of the grid.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cgjax.analysis import factorization, machines, ntk
from cgjax.experiments.bumps import sets

K2S = (0.1, 0.3, 1.0, 3.0, 10.0)  # of the binary kernel, k1 = 1
LENGTHS = (0.5, 1.0, 2.0, 4.0)
PENALTY = 1e-6  # on the diagonal of smooth kernels, which are nearly singular


def binary(shown: sets.Scenes, one: sets.Set, k2: float = 1.0) -> np.ndarray:
    """What the binary factorised kernel, fitted to the set's images, paints at every point.

    A factor that is absent matches nothing: its code is zero. Returns [P, n, n].
    """
    rows = np.unique(one.rows)
    k_train, k_points = (_matches(shown, some, rows, k2) for some in (rows, shown.points))
    background = float(shown.inverted)
    y = shown.images[rows].reshape(len(rows), -1) - background
    found = _regression(k_train, y, k_points, 0.0)
    return found.reshape(-1, *shown.images.shape[1:]) + background


def _matches(shown, rows, others, k2):
    """[x = x'] + [y = y'] + k2 [x = x'][y = y'] of labels."""
    xy, is_coded = shown.labels.xy, shown.labels.shown | (not shown.has_absent)
    same = (xy[rows][:, None] == xy[others][None]) & is_coded[rows][:, None] & is_coded[others]
    return same.sum(axis=-1) + k2 * same.all(axis=-1)


def _regression(k_train, y, k_test, penalty=PENALTY):
    return np.asarray(machines.ridge(k_train, y, k_test, penalty, outputs=True))


# --- one network ----------------------------------------------------------------------------------


def superposition(
    shown: sets.Scenes, one: sets.Set, painted: np.ndarray, kernels: dict[float, np.ndarray]
) -> dict:
    """R2 of a network's images [P, n, n] in the hole by sums, binary kernels and the truth.

    kernels: {k2: predictions of `binary`}; k2 = 1 is among them.
    """
    grid, where = (values.reshape(_side(shown), _side(shown), *values.shape[1:])
                   for values in (painted, one.is_ood))  # fmt: skip
    truth = shown.truth.reshape(grid.shape)
    by_k2 = {
        k2: factorization.explained(grid, predicted.reshape(grid.shape), where)
        for k2, predicted in kernels.items()
    }
    found = factorization.superposition(grid, truth, kernels[1.0].reshape(grid.shape), where)
    best = max(by_k2, key=by_k2.get)
    return {
        "additive R2": found.additive,
        "binary kernel R2": found.kernel,
        "binary kernel R2, best k2": by_k2[best],
        "best k2": best,
        "truth R2": found.truth,
        "composition R2": found.composition,
    }


def _side(shown: sets.Scenes) -> int:
    """Points along a side of the grid."""
    return shown.images.shape[-1]


class Fit(NamedTuple):
    """A kernel fitted to what a network paints; errors are of kernel against network."""

    lengths: tuple  # lx, ly
    total: float
    id: float
    ood: float
    predicted: np.ndarray  # [P, n, n]


def kernel_fits(shown: sets.Scenes, one: sets.Set, painted: np.ndarray) -> dict[str, Fit]:
    """Of each kind of kernel the one, over LENGTHS, with the least error at all points.

    With lx = ly the factorised kernel is the radial one: it is never worse, by construction. What
    is fitted is above the background, to which smooth kernels without training points near fall.
    """
    is_trained = np.isin(shown.points, one.rows)
    background = float(shown.inverted)
    z, images = shown.xy, painted.reshape(len(painted), -1) - background
    pairs = [(lx, ly) for lx in LENGTHS for ly in LENGTHS]
    kinds = {
        "factorised": (factorization.factorised, pairs),
        "radial": (factorization.radial, [(length,) for length in LENGTHS]),
        "additive": (factorization.additive, pairs),
        "binary": (lambda a, b, k2: factorization.binary(a, b, 1.0, k2), [(k2,) for k2 in K2S]),
    }
    found = {}
    for name, (kernel, settings) in kinds.items():
        for setting in settings:
            k = kernel(z, z[is_trained], *setting)
            predicted = _regression(k[is_trained], images[is_trained], k)
            errors = np.mean((predicted - images) ** 2, axis=1)
            parts = [np.mean(errors[w]) for w in (slice(None), one.is_id, one.is_ood)]
            if name not in found or parts[0] < found[name].total:
                predicted = predicted.reshape(painted.shape) + background
                found[name] = Fit(setting, *parts, predicted)
    return found


# --- the network's own tangent kernel -------------------------------------------------------------


def tangent(f, params, shown: sets.Scenes, one: sets.Set, most_iterations: int = 500) -> dict:
    """Images at all points by the tangent kernel of f(params, codes) -> [B, n * n] at params.

    Two ways: all outputs together by conjugate gradients, which stop early, with the residual they
    reached; and every pixel by the kernel's mean over pixels, solved exactly.
    """
    rows = np.unique(one.rows)
    x, x_points = jnp.asarray(shown.codes[rows]), jnp.asarray(shown.codes[shown.points])
    y = shown.images[rows].reshape(len(rows), -1)
    fit = ntk.linearised_fit(f, params, x, y, x_points, most_iterations=most_iterations)
    both = jnp.concatenate([x, x_points])
    kernel = np.asarray(ntk.empirical(f, params, both, form="mean_trace", verbose=False), float)
    start = np.asarray(f(params, both), float)
    n = len(rows)
    # What rounding of float32 leaves of zero eigenvalues.
    penalty = 1e-6 * np.trace(kernel[:n, :n]) / n
    found = _regression(kernel[:n, :n], y - start[:n], kernel[n:, :n], penalty)
    shape = (len(shown.points), *shown.images.shape[1:])
    return {
        "all outputs": np.asarray(fit.predictions).reshape(shape),
        "residual": fit.residual,
        "iterations": fit.n_iterations,
        "mean over pixels": (start[n:] + found).reshape(shape),
    }
