"""Products of an empirical NTK with vectors, and the linearised network that they train.

Neither needs the kernel, which for images has (n outputs)^2 entries, far too many. A network that
is linearised at its parameters and trained to convergence predicts f0 + Theta(x_test, x_train) v
with Theta(x_train, x_train) v = y - f0. Conjugate gradients need one product per iteration, at
about the cost of one step of training on all inputs.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, finite, finite_tree, integer, number
from cgjax.analysis.ntk import functions
from cgjax.core import tree

TOLERANCE = 1e-3
MOST_ITERATIONS = 500
_dot = functools.partial(jnp.vdot, precision="highest")


@checked
def kernel_vector_product(
    f: Callable, params, x1, x2, v, batch: integer(1) = None, precision: str = "highest"
) -> jax.Array:
    """sum_jb Theta(x1, x2)_ijab v_jb without the kernel: [n1, outputs] from v [n2, outputs].

    x2 None: x1. v may be [n2] if f has one output. batch: samples at a time, if all at once need
    too much memory.
    """
    v = checks.real("v", v)
    product = _kernel_vector_product(f, params, x1, x2, v, batch=batch, precision=precision)
    return checks.finite_result(product, params=params, x1=x1, x2=x2, v=v)


@functions.jit
def _kernel_vector_product(f, params, x1, x2, v, *, batch, precision):
    x2 = x1 if x2 is None else x2
    checks.samples(x1=x1, x2=x2)
    out = jax.eval_shape(f, params, x2)
    functions.check_outputs(out, jax.eval_shape(f, params, x1))
    if not is_of(v.shape, out.shape):
        raise ValueError(f"v needs shape {out.shape}, as f(params, x2) has; got {v.shape}")
    v = v.reshape(functions.length(x2), -1)
    free, merge = functions.floats(params)

    def outputs(free, x):
        return f(merge(free), x).reshape(functions.length(x), -1)

    def pulled(total, batch):
        x, v = batch
        out, pull = jax.vjp(lambda free: outputs(free, x), free)
        return jax.tree.map(jnp.add, total, pull(v.astype(out.dtype))[0]), None

    def pushed(x):
        return jax.jvp(lambda free: outputs(free, x), (free,), (direction,))[1]

    with functions.digits(precision):
        total = [jnp.zeros_like(leaf) for leaf in free]
        # The last batch is padded with repeated samples; with v = 0 they add nothing.
        parts = (_batches(x2, batch), _batches(v, batch, pad_with_zeros=True))
        direction, _ = jax.lax.scan(pulled, total, parts)
        result = jax.lax.map(pushed, _batches(x1, batch))
    return result.reshape(-1, result.shape[-1])[: functions.length(x1)]


def is_of(shape, outputs):
    """Whether arrays of this shape hold one number for each of f's outputs [n, ...]."""
    flat = (outputs[0], math.prod(outputs[1:]))
    return shape in (outputs, flat) or (flat[1] == 1 and shape == flat[:1])


def _batches(x, batch, pad_with_zeros=False):
    """[n, ...] as [n_batches, batch, ...]; the last batch is padded."""
    n = functions.length(x)
    batch = n if batch is None else min(batch, n)
    missing = -n % batch
    mode = "constant" if pad_with_zeros else "edge"

    def cut(a):
        a = jnp.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1), mode=mode)
        return a.reshape(-1, batch, *a.shape[1:])

    return jax.tree.map(cut, x)


# --- the linearised network -----------------------------------------------------------------------


class LinearisedFit(NamedTuple):
    """The predictions of the linearised network, and the state of its training."""

    predictions: jax.Array  # [n_test, outputs]
    dual: jax.Array  # [n, outputs], the v above
    residual: float  # |y - f| / |y - f0| on the training points, of f itself
    n_iterations: int
    converged: bool  # whether the residual reached the tolerance


@checked
def linearised_fit(
    f: Callable,
    params: finite_tree,
    x_train: finite_tree,
    y_train: finite(),
    x_test: finite_tree,
    tolerance: number("(0, 1)") = TOLERANCE,
    most_iterations: integer(1) = MOST_ITERATIONS,
    batch: integer(1) = None,
    precision: str = "highest",
) -> LinearisedFit:
    """f linearised at params and fitted to y_train [n, outputs] by conjugate gradients.

    f(params, x): [n, ...] -> [n, outputs], outputs of any shape. Stops if the residual is
    `tolerance` times the first, after `most_iterations`, or if rounding hides further progress.
    An early stop omits the directions that training learns last. batch: inputs at a time, as in
    `ntk.kernel_vector_product`. All results have the dtype of params.
    """
    checks.samples(x_train=x_train, x_test=x_test)
    out = jax.eval_shape(f, params, x_train)
    flat = (out.shape[0], out.size // out.shape[0])
    if np.size(y_train) != out.size or np.shape(y_train)[:1] != out.shape[:1]:
        raise ValueError(f"y_train is {np.shape(y_train)}, but f gives {out.shape}")
    y = jnp.asarray(y_train, out.dtype).reshape(flat)
    dual, predictions, residual, n = _fitted(
        f,
        params,
        x_train,
        y,
        x_test,
        (tolerance, most_iterations),
        batch=batch,
        precision=precision,
    )
    residual = float(residual)
    # The recursion stops by its own residual, which rounding moves away from the true one.
    return LinearisedFit(predictions, dual, residual, int(n), residual <= 1.1 * tolerance)


@functions.jit
def _fitted(f, params, x_train, y, x_test, stop, *, batch, precision):
    def product(v, x=None):
        x1, x2 = (x_train, None) if x is None else (x, x_train)
        return kernel_vector_product(f, params, x1, x2, v, batch, precision)

    def outputs(x):
        out = f(params, x)
        return out.reshape(len(out), -1)

    target = y - outputs(x_train)
    dual, n = _conjugate_gradients(product, target, *stop)
    size = tree.magnitude(target)
    first = jnp.linalg.norm(target / size)
    left = jnp.linalg.norm((target - product(dual)) / size)
    relative_residual = left / jnp.where(first > 0, first, 1)
    return dual, outputs(x_test) + product(dual, x_test), relative_residual, n


def _conjugate_gradients(product, target, tolerance, most_iterations):
    """The v for which product(v) is nearest to target, and the number of iterations.

    With K = JJ' these are conjugate gradients on |Ju - target|^2, u = J'v, one product each. The
    residual never grows, and a target outside the range of K gets its least-squares solution.
    Conjugate gradients on K v = target have neither property.
    """
    # Squares of the target and of the kernel's entries may leave the range of float32.
    target_size = tree.magnitude(target)
    target = target / target_size
    moved = product(target)
    kernel_size = tree.magnitude(moved)
    moved = moved / kernel_size
    goal = tolerance**2 * _dot(target, target)

    def going_on(state):
        _, residual, _, _, slope, n = state
        return (_dot(residual, residual) > goal) & (slope > least) & (n < most_iterations)

    def step(state):
        v, residual, direction, moved, slope, n = state
        length = slope / _dot(moved, moved)
        v, residual = v + length * direction, residual - length * moved
        pulled = product(residual) / kernel_size
        new = _dot(residual, pulled)
        momentum = new / slope
        return v, residual, residual + momentum * direction, pulled + momentum * moved, new, n + 1

    slope = _dot(target, moved)
    # The size of |J' residual|^2 after rounding: below it, no further progress is possible.
    least = (10 * jnp.finfo(target.dtype).eps) ** 2 * slope
    start = (jnp.zeros_like(target), target, target, moved, slope, 0)
    v, *_, n = jax.lax.while_loop(going_on, step, start)
    return v / kernel_size * target_size, n
