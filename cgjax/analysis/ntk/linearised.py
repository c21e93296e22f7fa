"""A network linearised at its parameters and trained to convergence, without its tangent kernel.

The predictions are f0 + Theta(x_test, x_train) v with Theta(x_train, x_train) v = y - f0. For
images the kernel of all outputs has (n outputs)^2 entries, far too many. Conjugate gradients only
need its products with vectors (`ntk.kernel_vector_product`): one per iteration, at about the cost
of one step of training on all inputs.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.ntk import plan
from cgjax.analysis.ntk.vector import kernel_vector_product

TOLERANCE = 1e-3
MOST_ITERATIONS = 500
_dot = functools.partial(jnp.vdot, precision="highest")


class LinearisedFit(NamedTuple):
    """The predictions of the linearised network, and the state of its training."""

    predictions: jax.Array  # [n_test, outputs]
    dual: jax.Array  # [n, outputs], the v above
    residual: float  # |y - f| / |y - f0| on the training points, of f itself
    n_iterations: int
    converged: bool  # whether the residual reached the tolerance


def linearised_fit(
    f: Callable,
    params,
    x_train,
    y_train,
    x_test,
    tolerance: float = TOLERANCE,
    most_iterations: int = MOST_ITERATIONS,
    batch: int | None = None,
    precision: str = "highest",
) -> LinearisedFit:
    """f linearised at params and fitted to y_train [n, outputs] by conjugate gradients.

    f(params, x): [n, ...] -> [n, outputs], outputs of any shape. Stops if the residual is
    `tolerance` times the first, after `most_iterations`, or if rounding hides further progress.
    An early stop omits the directions that training learns last. batch: inputs at a time, as in
    `ntk.kernel_vector_product`. All results have the dtype of params.
    """
    checks.finite_leaves(params=params, x_train=x_train, x_test=x_test)
    checks.finite(y_train=y_train)
    checks.bounded("tolerance", tolerance, 0, np.nextafter(1, 0), above=True)
    checks.integer("most_iterations", most_iterations, 1)
    if batch is not None:
        checks.integer("batch", batch, 1)
    plan.check_samples(x_train=x_train, x_test=x_test)
    out = jax.eval_shape(f, params, x_train)
    flat = (out.shape[0], out.size // out.shape[0])
    if np.size(y_train) != out.size or np.shape(y_train)[:1] != out.shape[:1]:
        raise ValueError(f"y_train is {np.shape(y_train)}, but f gives {out.shape}")
    y = jnp.asarray(y_train, out.dtype).reshape(flat)
    stop = (tolerance, most_iterations)
    result = _fitted(f, params, x_train, y, x_test, stop, batch, precision)
    dual, predictions, residual, n = result
    residual = float(residual)
    # The recursion stops by its own residual, which rounding moves away from the true one.
    return LinearisedFit(predictions, dual, residual, int(n), residual <= 1.1 * tolerance)


@functools.partial(jax.jit, static_argnames=("f", "batch", "precision"))
def _fitted(f, params, x_train, y, x_test, stop, batch, precision):
    def product(v, x=None):
        x1, x2 = (x_train, None) if x is None else (x, x_train)
        return kernel_vector_product(f, params, x1, x2, v, batch, precision)

    def outputs(x):
        out = f(params, x)
        return out.reshape(len(out), -1)

    target = y - outputs(x_train)
    dual, n = _conjugate_gradients(product, target, *stop)
    first = jnp.linalg.norm(target)
    relative_residual = jnp.linalg.norm(target - product(dual)) / jnp.where(first > 0, first, 1)
    return dual, outputs(x_test) + product(dual, x_test), relative_residual, n


def _conjugate_gradients(product, target, tolerance, most_iterations):
    """The v for which product(v) is nearest to target, and the number of iterations.

    With K = JJ' these are conjugate gradients on |Ju - target|^2, u = J'v, one product each. The
    residual never grows, and a target outside the range of K gets its least-squares solution.
    Conjugate gradients on K v = target have neither property.
    """
    goal = tolerance**2 * _dot(target, target)

    def going_on(state):
        _, residual, _, _, slope, n = state
        return (_dot(residual, residual) > goal) & (slope > least) & (n < most_iterations)

    def step(state):
        v, residual, direction, moved, slope, n = state
        length = slope / _dot(moved, moved)
        v, residual = v + length * direction, residual - length * moved
        pulled = product(residual)
        new = _dot(residual, pulled)
        momentum = new / slope
        return v, residual, residual + momentum * direction, pulled + momentum * moved, new, n + 1

    moved = product(target)
    slope = _dot(target, moved)
    # The size of |J' residual|^2 after rounding: below it, no further progress is possible.
    least = (10 * jnp.finfo(target.dtype).eps) ** 2 * slope
    start = (jnp.zeros_like(target), target, target, moved, slope, 0)
    v, *_, n = jax.lax.while_loop(going_on, step, start)
    return v, n
