"""What a network learns first of each component of its input, from its tangent kernel at the start.

To first order a gradient step adds u(x) = sum_i Theta(x, x_i) r_i to the network, Theta its tangent
kernel at initialisation, r_i = -dL/df(x_i). As a function of two components, u (and the kernel
itself) is a part carried by X_1, one by X_2, and one by both: an analysis of variance over inputs
that were put together anew. `early_dependence` is the same step's effect on D_ij.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, dependence, factorization, ntk


class Split(NamedTuple):
    """Shares of the variance over all pairs of an X_1 and an X_2; they sum to 1."""

    first: float  # carried by X_1 alone
    second: float
    both: float  # by neither alone


def recombined(x, inputs) -> np.ndarray:
    """Every X_1 with every X_2: [n, n, ...] of x [n, ...], X_1 from the first index.

    inputs: labels [*x.shape[1:]] of x's entries, 0 for X_1 and 1 for X_2.
    """
    checks.finite(x=x)
    x = np.asarray(x)
    if x.ndim < 2 or len(x) < 2 or x.size == 0:
        raise ValueError(f"x is [n, ...] with two samples or more, got shape {x.shape}")
    labels = np.asarray(checks.real("inputs", inputs))
    if labels.shape != x.shape[1:] or set(np.unique(labels).tolist()) != {0, 1}:
        raise ValueError(f"inputs is a label 0 or 1, both there, for each entry {x.shape[1:]}")
    return np.where(labels == 0, x[:, None], x[None])


def tangent_split(f: Callable, params, x, inputs, residuals=None, **options) -> Split:
    """The tangent kernel of f(params, x) on x [n, ...], split; or the first update it makes.

    inputs: as in `recombined`. residuals: r [n, outputs], the update's; None: the kernel's columns
    Theta(., x_i), all together. options: of `ntk.empirical`. The kernel has n^3 outputs^2 entries:
    some 30 inputs will do.
    """
    grid = recombined(x, inputs)
    n = len(grid)
    if residuals is not None:
        checks.finite(residuals=residuals)
        residuals = np.asarray(residuals, np.float64)
        out = jax.eval_shape(f, params, jnp.asarray(x))
        if residuals.shape != out.shape or options.get("form", "full") != "full":
            raise ValueError(f"residuals is {out.shape}, of a full kernel: got {residuals.shape}")
    points = jnp.asarray(grid.reshape(n * n, *grid.shape[2:]))
    options = {"verbose": False, **options}
    kernel = ntk.empirical(f, params, points, jnp.asarray(x), **options)
    carried = np.asarray(kernel, np.float64).reshape(n, n, n, *kernel.shape[2:])
    if residuals is not None:
        carried = np.einsum("abiok,ik->abo", carried, residuals)
    sums = factorization.two_way(carried)
    parts = np.array([np.sum(sums.y), np.sum(sums.x), np.sum(sums.interaction)])
    if not np.sum(parts) > 0:
        raise ValueError("f, or its first update, does not vary over x: there is nothing to split")
    return Split(*(parts / np.sum(parts)).tolist())


def early_dependence(
    f: Callable, params, update, x: jax.Array, inputs, rates, **options
) -> jax.Array:
    """D_ij after a step of each rate, f linearised at params: [rates, outputs, inputs].

    update: a tree as params, minus the gradient of the loss for gradient descent; rates [k]. x,
    inputs, options: of `dependence.gradient_dependence`.
    """
    checks.finite_leaves(update=update)
    checks.finite(rates=rates)
    rates = jnp.asarray(rates, jnp.result_type(float))
    if rates.ndim != 1 or rates.size == 0:
        raise ValueError(f"rates is [k], one or more, got shape {rates.shape}")
    if jax.tree.structure(update) != jax.tree.structure(params):
        raise ValueError("update is a tree of the structure of params")

    def at(rate):
        def linearised(params, x):
            y, slope = jax.jvp(lambda params: f(params, x), (params,), (update,))
            return y + rate * slope

        return dependence.gradient_dependence(linearised, params, x, inputs, **options)

    return jax.lax.map(at, rates)
