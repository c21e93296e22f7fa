"""Kernel machines on a given kernel: ridgeless and ridge regression, support-vector machines.

`k_train` is [..., n, n], `y` [..., n], `k_test` [..., m, n]. Leading axes broadcast and are solved
together; vmap over these functions is the same as a leading axis. `mask`, bool [..., n], selects
the training points, so that training sets of several sizes fit in one call. Predictions are
[..., m]. All computations are in float64, as in `analysis.salience`.

A primal-dual interior-point method solves the support-vector problems. Then a linear system on the
support vectors gives the final solution. Derivatives go through that system: they are those of the
machine as long as its support vectors do not change. The only condition on the kernel is that it is
positive semi-definite. `solve_svc` and `solve_svr` report whether they converged, and `svc` and
`svr` predict NaN where they did not.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, finite, flag, mask, number, psd, real
from cgjax.analysis.salience import float64
from cgjax.core import parallel

# Dual coefficients above this, for a kernel of mean diagonal one, are beyond float64's precision.
LARGEST = 1e6
# From this number of entries of k_train on, the check for an indefinite kernel takes notable time.
_MANY = 2**20


class Interpolation(NamedTuple):
    """f = k_test @ dual + bias."""

    dual: jax.Array  # [..., n], zero where masked
    bias: jax.Array  # [...]
    residual: jax.Array  # [...] largest |f + penalty * dual - y| of a training point


class SupportVectors(NamedTuple):
    """f = k_test @ dual + bias, and how well the optimality conditions hold."""

    dual: jax.Array  # [..., n]; for classes it includes the label
    bias: jax.Array  # [...]
    support: jax.Array  # [..., n] whether the point is a support vector
    margin: jax.Array  # [...] over training points, the least y f (svc) or epsilon - |y - f| (svr)
    separable: jax.Array  # [...] whether all training points have margin 1 (svc) or 0 (svr)
    converged: jax.Array  # [...] whether the optimality conditions hold
    residual: jax.Array  # [...] the largest violation of these conditions
    n_steps: jax.Array  # [...] Newton steps


# --- regression -----------------------------------------------------------------------------------


@float64
def ridgeless(
    k_train: jax.Array,
    y: jax.Array,
    k_test: jax.Array,
    bias: bool = False,
    mask: jax.Array | None = None,
    outputs: bool = False,
) -> jax.Array:
    """Minimum-norm interpolation, the limit of gradient descent from zero on fixed features.

    bias: adds a free, unpenalised bias. A singular kernel gets the pseudo-inverse: a point that
    occurs twice with two targets gets their mean, and `solve_ridge` reports the residual.
    outputs: y is [..., n, outputs], predictions are [..., m, outputs]; the kernel is factorised
    once for all outputs.
    """
    return ridge(k_train, y, k_test, 0.0, bias, mask, outputs)


@checked
@float64
def ridge(
    k_train: real("... n n"),
    y: jax.Array,
    k_test: finite("... m n"),
    penalty: jax.Array,
    bias: bool = False,
    mask: jax.Array | None = None,
    outputs: bool = False,
) -> jax.Array:
    """Least squares with `penalty` [...] times the squared norm of the weights.

    outputs: as in `ridgeless`.
    """
    _check_lead(k_test, np.shape(k_train)[:-2])
    return predict(solve_ridge(k_train, y, penalty, bias, mask, outputs), k_test, outputs)


@checked
@float64
def solve_ridge(
    k_train: real("... n n"),
    y: finite(),
    penalty: number("[0, inf)") = 0.0,
    bias: flag = False,
    mask: mask("... n") = None,
    outputs: flag = False,
) -> Interpolation:
    """The dual coefficients and the bias of `ridge`, or without a penalty of `ridgeless`.

    outputs: for y [..., n, outputs] dual is [..., n, outputs], bias and residual [..., outputs].
    """
    lead, problem = _flat(k_train, y, bias, mask, outputs, penalty=penalty)
    return _unflat(lead, _checked(_solve_ridge, k_train, mask, *problem, bool(bias)))


@functools.partial(jax.jit, static_argnames="has_bias")
def _solve_ridge(k, y, mask, penalty, has_bias):
    def solve(k, y, mask, penalty):
        k = k + penalty * jnp.eye(len(k))
        dual, bias = interpolate(k, y, mask, has_bias)
        errors = jnp.abs(k @ dual + bias[None] - y)
        residual = jnp.max(jnp.where(rows(mask, y), errors, 0), axis=0)
        return Interpolation(dual, bias, residual)

    return jax.vmap(solve)(k, y, mask, penalty)


# --- support-vector machines ----------------------------------------------------------------------


@checked
@float64
def svc(
    k_train: real("... n n"),
    y: jax.Array,
    k_test: finite("... m n"),
    c: jax.Array,
    bias: bool = True,
    mask: jax.Array | None = None,
) -> jax.Array:
    """Decision values of a support-vector classifier, labels -1 and +1, slack at price c [...].

    A large c (inf, or the 1e10 of the paper) is the hard margin, to which gradient descent on the
    logistic loss converges in direction. NaN where `solve_svc` did not converge: this needs a set
    that is not separable, a singular kernel and repeated inputs.
    """
    return _predicted(k_test, solve_svc, k_train, y, c, bias, mask)


@checked
@float64
def svr(
    k_train: real("... n n"),
    y: jax.Array,
    k_test: finite("... m n"),
    c: jax.Array,
    epsilon: jax.Array,
    bias: bool = True,
    mask: jax.Array | None = None,
) -> jax.Array:
    """Support-vector regression: residuals up to epsilon [...] are free, the excess costs c.

    NaN where `solve_svr` did not converge.
    """
    return _predicted(k_test, solve_svr, k_train, y, c, epsilon, bias, mask)


@checked
@float64
def solve_svc(
    k_train: real("... n n"),
    y: finite("... n"),
    c: number("(0, inf]"),
    bias: flag = True,
    mask: mask("... n") = None,
) -> SupportVectors:
    """The support vectors of `svc`.

    A training set whose dual coefficients exceed LARGEST / mean(diag K) is not separable in
    float64: it gets the soft margin with c at that bound, and `separable` is False.
    """
    lead, problem = _flat(k_train, y, bias, mask, c=c)
    _check_labels(*problem[1:3], bias)
    return _unflat(lead, _checked(_solve_svc, k_train, mask, *problem, bool(bias)))


@checked
@float64
def solve_svr(
    k_train: real("... n n"),
    y: finite("... n"),
    c: number("(0, inf]"),
    epsilon: number("(0, inf)"),
    bias: flag = True,
    mask: mask("... n") = None,
) -> SupportVectors:
    """The support vectors of `svr`; c as in `solve_svc`. Without a tube, use `ridgeless`."""
    lead, problem = _flat(k_train, y, bias, mask, c=c, epsilon=epsilon)
    return _unflat(lead, _checked(_solve_svr, k_train, mask, *problem, bool(bias)))


def _check_labels(y, mask, both):
    """Labels -1 and +1 in y [..., n] where mask [..., n] is True; both: each must occur."""
    if not checks.known(y, mask):
        return
    y, mask = np.asarray(y), np.asarray(mask)
    if np.any(np.abs(y[mask]) != 1):
        raise ValueError("y: svc needs labels -1 and +1")
    if both and not np.all(np.any(mask & (y > 0), axis=-1) & np.any(mask & (y < 0), axis=-1)):
        raise ValueError("y: svc needs training points of both classes")


@functools.partial(jax.jit, static_argnames="has_bias")
def _solve_svc(k, y, mask, c, has_bias):
    def solve(k, y, mask, c):
        return _solve(k, y[None], -jnp.ones_like(y)[None], mask, c, has_bias)

    return jax.vmap(solve)(k, y, mask, c)


@functools.partial(jax.jit, static_argnames="has_bias")
def _solve_svr(k, y, mask, c, epsilon, has_bias):
    def solve(k, y, mask, c, epsilon):
        # The solver's tolerances are absolute, so the targets are scaled to largest value 1.
        unit = jax.lax.stop_gradient(jnp.max(jnp.where(mask, jnp.abs(y), 0)))
        unit = jnp.where(unit > 0, unit, 1)
        signs = jnp.stack([jnp.ones_like(y), -jnp.ones_like(y)])
        machine = _solve(k, signs, (epsilon - signs * y[None]) / unit, mask, c / unit, has_bias)
        scaled = {name: unit * getattr(machine, name) for name in ("dual", "bias", "margin")}
        return machine._replace(**scaled)

    return jax.vmap(solve)(k, y, mask, c, epsilon)


def _solve(k, signs, costs, mask, c, has_bias):
    """Solves one machine: min b^T K b / 2 + costs v over 0 <= v <= c, b = sum of signs * v.

    signs, costs: [q, n]; q = 1 for classes, 2 for regression. With a bias, b sums to zero.
    """
    unit = jax.lax.stop_gradient(jnp.sum(jnp.where(mask, jnp.diag(k), 0)) / jnp.sum(mask))
    unit = jnp.where(unit > 0, unit, 1)
    k = jnp.where(mask[:, None] & mask[None], k / unit, 0)
    box = jnp.minimum(c * unit, LARGEST)
    border = mask * jnp.asarray(has_bias, k.dtype)
    path = central_path(*jax.lax.stop_gradient((k, signs, costs, box, mask, border)))
    polished = _polished(k, signs, costs, box, mask, has_bias, path)
    duals, biases = (jnp.stack(pair) for pair in zip(polished, (path.dual, path.bias)))
    violation = functools.partial(_violation, k, signs, costs, box, mask, border)
    residuals = jax.vmap(violation)(duals, biases)
    best = jnp.where(residuals[0] <= jnp.maximum(residuals[1], 1e-9), 0, 1)
    dual, bias, residual = duals[best], biases[best], residuals[best]
    slack = -(signs * (k @ dual + bias)[None] + costs)  # 1 - y f, or |y - f| - epsilon
    slack = jnp.max(jnp.where(mask[None], slack, -jnp.inf))
    return SupportVectors(
        dual=dual / unit,
        bias=bias,
        support=jnp.any(path.points[0] > path.points[2], axis=0) & mask,
        margin=(1.0 if len(signs) == 1 else 0.0) - slack,
        separable=slack < 1e-6,
        # f is at most as precise as its largest summand.
        converged=residual < 1e-6 + 1e-10 * jnp.max(jnp.abs(dual)),
        residual=residual,
        n_steps=path.n_steps,
    )


def _polished(k, signs, costs, box, mask, has_bias, path):
    """Dual and bias for known support vectors: f is known at those inside the box.

    The interior point has the correct support vectors, and the other values to about 1e-7. Only the
    remaining difference is solved for: if the kernel is singular on the support vectors, many duals
    give this f, and one near the interior point stays inside the box.
    """
    v, w, z, t = path.points
    is_upper = (w < t) & mask[None]
    is_free = (v > z) & ~is_upper & mask[None]
    fixed = jnp.sum(jnp.where(is_upper, signs * box, 0), axis=0)
    target = jnp.sum(jnp.where(is_free, -signs * costs, 0), axis=0)
    inside = jnp.any(is_free, axis=0) & ~jnp.any(is_upper, axis=0)
    near = fixed + jnp.where(inside, path.dual, 0)
    rest = target - k @ near
    correction, bias = interpolate(k, rest, inside, has_bias, -jnp.sum(near))
    if has_bias:
        # Without a free support vector, every bias of an interval is optimal: take its middle.
        tight = -signs * costs - (k @ fixed)[None]
        is_below = (is_upper == (signs < 0)) & mask[None]
        low = jnp.max(jnp.where(is_below, tight, -jnp.inf))
        high = jnp.min(jnp.where(~is_below & mask[None], tight, jnp.inf))
        bias = jnp.where(jnp.any(inside), bias, (low + high) / 2)
    return near + correction, bias


def _violation(k, signs, costs, box, mask, border, dual, bias):
    """Violation of the optimality conditions: the largest change in a projected gradient step."""
    v = signs * dual[None]
    v = jnp.maximum(v, 0) if len(signs) == 2 else v
    gradient = signs * (k @ dual + bias)[None] + costs
    moves = jnp.where(mask[None], v - jnp.clip(v - gradient, 0, box), 0)
    return jnp.maximum(jnp.max(jnp.abs(moves)), jnp.abs(jnp.sum(border * dual)))


# --- arguments ------------------------------------------------------------------------------------


@checked
@float64
def predict(
    machine: Interpolation | SupportVectors, k_test: finite("... m n"), outputs: flag = False
) -> jax.Array:
    """f = K a + b [..., m] on the inputs of k_test; outputs: [..., m, outputs]."""
    *lead, n = np.shape(machine.dual)[:-1] if outputs else np.shape(machine.dual)
    if np.shape(k_test)[-1] != n:
        raise ValueError(f"k_test must be [..., m, {n}], got shape {np.shape(k_test)}")
    _check_lead(k_test, lead)
    dual, bias, k_test = (jnp.asarray(a, jnp.float64) for a in (machine.dual, machine.bias, k_test))
    return _affine(dual, bias, k_test, bool(outputs))


@functools.partial(jax.jit, static_argnames="outputs")
def _affine(dual, bias, k_test, outputs):
    if outputs:
        f = jnp.einsum("...mn,...no->...mo", k_test, dual)
        return f + jnp.broadcast_to(bias[..., None, :], f.shape)
    f = jnp.einsum("...mn,...n->...m", k_test, dual)
    return f + jnp.broadcast_to(bias[..., None], f.shape)


def _predicted(k_test, solve, k_train, *arguments):
    """`predict` of the solved machine; k_test is checked before the machine is solved."""
    _check_lead(k_test, np.shape(k_train)[:-2])
    machine = solve(k_train, *arguments)
    f = predict(machine, k_test)
    return _sound(f, machine.converged) if isinstance(machine, SupportVectors) else f


@jax.jit
def _sound(f, converged):
    """f, with NaN where the machine did not converge: a number would look valid."""
    return jnp.where(jnp.broadcast_to(converged[..., None], f.shape), f, jnp.nan)


def _check_lead(k_test, lead):
    """Checks that the leading axes of k_test fit those of the machines."""
    checks.broadcast(k_test=np.shape(k_test)[:-2], k_train=tuple(lead))


def _flat(k_train, y, bias, mask, outputs=False, **numbers):
    """The leading axes, and k, y, mask and the numbers with these merged into one axis."""
    n = np.shape(k_train)[-1]
    k, y = jnp.asarray(k_train, jnp.float64), jnp.asarray(y, jnp.float64)
    axis, axes = (-2, "[..., n, outputs]") if outputs else (-1, "[..., n]")
    if y.ndim < -axis or y.shape[axis] != n or y.size == 0:
        raise ValueError(f"k_train must be [..., n, n] and y {axes}: got {k.shape} and {y.shape}")
    mask = np.ones(n, bool) if mask is None else mask
    arrays = {"k_train": (k, 2), "y": (y, -axis), "mask": (jnp.asarray(mask), 1)}
    arrays |= {name: (jnp.asarray(number, jnp.float64), 0) for name, number in numbers.items()}
    lead = checks.broadcast(
        **{name: a.shape[: a.ndim - rank] for name, (a, rank) in arrays.items()}
    )
    full = [jnp.broadcast_to(a, (*lead, *a.shape[a.ndim - rank :])) for a, rank in arrays.values()]
    return lead, [a.reshape(-1, *a.shape[len(lead) :]) for a in full]


def _checked(solve, k_train, mask, *problem):
    """solve(*problem), after or during a check that k_train is positive semi-definite."""
    if np.size(k_train) < _MANY:
        checks.psd("k_train", k_train, mask)
        return solve(*problem)
    solution = solve(*problem)
    checks.psd("k_train", k_train, mask)  # the host checks while the device solves
    return solution


def _unflat(lead, solution):
    return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), solution)


# --- the linear system of kernel machines: dual and bias with K dual + bias = target --------------
# Singular kernels are common here, and get the pseudo-inverse. One kernel, float64; batch by vmap.


# Eigenvalues at or below this, relative to the kernel's norm, count as zero.
_RIDGE = 1e-12


def interpolate(k, target, mask, has_bias, total=0.0) -> tuple[jax.Array, jax.Array]:
    """Dual [n] and bias, with K dual + bias = target [n] on the masked-in points.

    Targets may be [n, outputs]: then so is the dual, and the bias is [outputs].

    total: the sum of the dual; only used with a bias, whose optimality condition it is. If the
    kernel is singular, the result is the smallest such dual.
    """
    inside = mask.astype(k.dtype)
    count = jnp.maximum(jnp.sum(inside), 1)
    k = k * (inside[:, None] * inside[None])
    level = jax.lax.stop_gradient(jnp.trace(k)) / count
    fill = jnp.diag(1 - inside)
    row_weights = rows(inside, target)
    start, system, rest = jnp.zeros_like(target), k, row_weights * target
    if has_bias:
        # Centred features need no bias; the constant direction, now zero, is filled.
        start = row_weights * (total / count)
        rest = _centred(rest - k @ start, row_weights, count)
        system = jax.vmap(lambda row: _centred(row, inside, count))(k)
        system = jax.vmap(lambda row: _centred(row, inside, count))(system.T)
        fill = fill + inside[:, None] * inside[None] / count
    system = system + jnp.where(level > 0, level, 1) * fill
    dual = start + row_weights * _pseudo_solve(system, rest)
    mean = jnp.sum(row_weights * (target - k @ dual), axis=0) / count
    return dual, mean if has_bias else jnp.zeros_like(mean)


def rows(points, values) -> jax.Array:
    """points [n], shaped to go with values [n] or [n, outputs]."""
    return points.reshape(-1, *(1,) * (values.ndim - 1))


def _centred(values, inside, count):
    return inside * (values - jnp.sum(inside * values, axis=0, keepdims=True) / count)


def _pseudo_solve(system, target):
    """The pseudo-inverse of a positive semi-definite system [n, n] times target [n] or [n, k].

    It avoids eigenvectors, which are slow for batches of small matrices. With M the system plus a
    small ridge r, R = r / M is 1 on the null space and about r / l for eigenvalues l > 0. The
    solution is (1 + R) / M up to (r / l)^2, after 1 - R^2 has removed the null space.
    """
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(system), axis=0)))

    def with_ridge(ridge):
        return factorised(system + ridge * jnp.eye(len(system)))

    def solve(_, target):
        # An indefinite "kernel" has no Cholesky factor: the ridge grows until there is one.
        ridge, factor = jax.lax.while_loop(
            lambda state: jnp.isnan(state[1][-1, -1]) & (state[0] < norm),
            lambda state: (100 * state[0], with_ridge(100 * state[0])),
            (_RIDGE * norm, with_ridge(_RIDGE * norm)),
        )
        # Each round removes the null space up to the rounding error of a solve with r, 1e-4.
        is_singular = jnp.min(jnp.diag(factor)) ** 2 < 1e-8 * norm
        n_rounds = jnp.where(is_singular, 4, 0)

        def shrunk(x):
            return solved(factor, ridge * x)

        def without_null(x):
            return jax.lax.fori_loop(0, n_rounds, lambda _, x: x - shrunk(shrunk(x)), x)

        x = shrunk(without_null(target)) / ridge
        return without_null(x + shrunk(x))

    return jax.lax.custom_linear_solve(lambda x: system @ x, target, solve, symmetric=True)


# --- quadratic programs, many at a time, by an interior-point method ------------------------------
# One problem is: minimise dual^T K dual / 2 + sum(costs * v) over 0 <= v <= box, where
# dual = sum(signs * v, axis=0) and border @ dual = 0. `svr` and `svc` build these problems.


# Newton steps: most problems need 4 to 8. On accelerators the others continue in blocks.
_STEPS, _FIRST_STEPS = 100, 8


class Path(NamedTuple):
    """A point on the central path v z = w t = mu, which ends at the solution, mu = 0."""

    points: jax.Array  # [..., 4, q, n]: v; w = box - v; z, t, the multipliers of v >= 0 and w >= 0
    bias: jax.Array  # [...] the multiplier of the border
    dual: jax.Array  # [..., n]
    gradient: jax.Array  # [..., q, n] of the Lagrangian
    mu: jax.Array  # [...]
    wrong: jax.Array  # [...] the largest of |gradient| and |border @ dual|, zero at the solution
    size: jax.Array  # [...] 1 + largest v, the scale of rounding errors
    n_steps: jax.Array  # [...]
    is_done: jax.Array  # [...] converged, or no further progress is possible


@checked
@float64
def central_path(
    k: psd("*lead n n"),
    signs: finite("*lead q n"),
    costs: finite("*lead q n"),
    box: number("(0, inf)", "*lead"),
    mask: mask("*lead n"),
    border: finite("*lead n"),
) -> Path:
    """The end of the central path of every problem; vmap adds a leading axis to the batch.

    k: zero where masked. border: zero where masked; all zero for no such constraint. Not
    differentiable.

    On a CPU the problems are solved one after the other: each fits in the cache and stops when it
    has converged. On accelerators all problems take the first steps together, and the few slow
    ones continue in blocks.
    """
    if checks.known(signs) and np.any(np.abs(np.asarray(signs)) != 1):
        raise ValueError("signs must be -1 or 1")
    k, signs, costs, box, border = (
        jnp.asarray(a, jnp.float64) for a in (k, signs, costs, box, border)
    )
    return _central_path(k, signs, costs, box, jnp.asarray(mask), border)


@jax.custom_batching.custom_vmap
def _central_path(k, signs, costs, box, mask, border):
    lead = box.shape
    problems = [a.reshape(-1, *a.shape[len(lead) :]) for a in (k, signs, costs, mask, border)]
    n = math.prod(lead)

    def follow(paths, index, n_steps):
        chosen = jax.tree.map(lambda a: a[index], (paths, *problems))
        return jax.vmap(functools.partial(_follow, n_steps))(*chosen)

    paths = jax.vmap(_start)(box.reshape(-1), *problems)
    if jax.default_backend() == "cpu":
        ends = jax.lax.map(lambda problem: _follow(_STEPS, *problem), (paths, *problems))
    else:
        ends = follow(paths, jnp.arange(n), _FIRST_STEPS)
        ends = _finished(ends, follow, max(1, n // 32))
    return jax.tree.map(lambda a: a.reshape(*lead, *a.shape[1:]), ends)


@_central_path.def_vmap
def _(size, is_batched, *problems):
    problems = [
        a if batched else jnp.broadcast_to(a, (size, *a.shape))
        for a, batched in zip(problems, is_batched)
    ]
    return _central_path(*problems), Path(*[True] * len(Path._fields))


def _finished(paths, follow, block):
    """Continues the problems that are not done, block by block, until all are."""
    n = len(paths.is_done)
    # The last block is filled with problem 0: continuing from its end changes nothing.
    (waiting,) = jnp.nonzero(~paths.is_done, size=n + block, fill_value=0)
    n_waiting = jnp.sum(~paths.is_done)

    def step(state):
        i, paths = state
        index = jax.lax.dynamic_slice(waiting, (i,), (block,))
        ends = follow(paths, index, _STEPS)
        return i + block, jax.tree.map(lambda a, b: a.at[index].set(b), paths, ends)

    return jax.lax.while_loop(lambda state: state[0] < n_waiting, step, (0, paths))[1]


# --- one problem ----------------------------------------------------------------------------------


def _start(box, k, signs, costs, mask, border):
    v = jnp.full_like(costs, 1) * jnp.minimum(1, box / 2)
    points = jnp.stack([v, box - v, jnp.ones_like(v), v / (box - v)])
    return _path(points, jnp.zeros_like(box), 0, k, signs, costs, mask, border)


def _follow(n_steps, path, *problem):
    return jax.lax.while_loop(
        lambda path: ~path.is_done & (path.n_steps < n_steps),
        lambda path: _newton(path, *problem),
        path,
    )


def _path(points, bias, n_steps, k, signs, costs, mask, border):
    v, _, z, t = points
    dual = jnp.sum(mask[None] * signs * v, axis=0)
    gradient = mask[None] * (signs * (k @ dual + bias)[None] + costs - z + t)
    mu = _mu(points, mask)
    size = 1 + jnp.max(mask[None] * v)
    wrong = jnp.maximum(jnp.max(jnp.abs(gradient)), jnp.abs(border @ dual))
    is_done = (mu < 1e-14 * size) & (wrong < 1e-10 * size)
    return Path(points, bias, dual, gradient, mu, wrong, size, n_steps, is_done)


def _mu(points, mask):
    products = mask[None, None] * points[:2] * points[2:]
    return jnp.sum(products) / (2 * points.shape[1] * jnp.sum(mask))


def _newton(path, k, signs, costs, mask, border):
    """A step towards the end of the path: Mehrotra's predictor-corrector, one factorisation."""
    primal, multipliers = path.points[:2], path.points[2:]
    v, w = primal
    weights = jnp.sum(multipliers / primal, axis=0)
    # Eliminating all but the dual leaves one n x n system; masked points are rows of the identity.
    # The last summand matters only where the kernel is singular on the support vectors.
    diagonal = jnp.where(mask, 1 / jnp.sum(1 / weights, axis=0), 1)
    factor = factorised(k + jnp.diag(diagonal + 1e-14))

    def direction(targets):
        """The change of v, w, z, t and the bias that changes v z and w t by the targets."""
        right = targets[0] / v - targets[1] / w - path.gradient
        reduced = mask * diagonal * jnp.sum(signs * right / weights, axis=0)
        both = jnp.stack([reduced, border], axis=1)
        inner, outer = solved(factor, both).T
        curvature = border @ outer
        d_bias = border @ (inner + path.dual) / jnp.where(curvature > 0, curvature, 1)
        d_dual = inner - d_bias * outer
        d_v = (right - signs * (reduced - diagonal * d_dual)[None]) / weights
        d_primal = jnp.stack([d_v, -d_v])
        step = jnp.concatenate([d_primal, (targets - multipliers * d_primal) / primal])
        return mask[None, None] * step, d_bias

    def longest(step):
        """The longest step for which all points stay positive."""
        return 1 / jnp.maximum(jnp.max(-step / path.points), 1e-30)

    predictor, _ = direction(-primal * multipliers)
    mu = _mu(path.points + jnp.minimum(longest(predictor), 1) * predictor, mask)
    goal = path.mu * (mu / path.mu) ** 3
    step, d_bias = direction(goal - primal * multipliers - predictor[:2] * predictor[2:])
    length = jnp.minimum(longest(step) * jnp.maximum(0.995, 1 - path.mu), 1)
    points, bias = path.points + length * step, path.bias + length * d_bias
    new = _path(points, bias, path.n_steps + 1, k, signs, costs, mask, border)
    # A step of length l reduces `wrong` by the share l; if it grew, only rounding errors are left.
    is_better = jnp.isfinite(new.mu) & (new.wrong <= 2 * path.wrong + 1e-12 * new.size)
    stuck = path._replace(n_steps=new.n_steps, is_done=True)
    return jax.tree.map(lambda a, b: jnp.where(is_better, a, b), new, stuck)


# --- cholesky factors of many small matrices, safe if several calls are in one program ------------


def factorised(matrix: jax.Array) -> jax.Array:
    """The lower factor [n, n] of a positive definite matrix [n, n], NaN if it has none."""
    return parallel.one_at_a_time(_factorised)(matrix)


def solved(factor: jax.Array, sides: jax.Array) -> jax.Array:
    """x [n] or [n, k] with factor factor^T x = sides."""
    return parallel.one_at_a_time(_solved)(factor, sides)


def _factorised(matrix):
    return jnp.linalg.cholesky(matrix, symmetrize_input=False)


def _solved(factor, sides):
    return jax.scipy.linalg.cho_solve((factor, True), sides)
