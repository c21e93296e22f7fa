"""The quadratic programs of support-vector machines, many at a time, by an interior-point method.

One problem is: minimise dual^T K dual / 2 + sum(costs * v) over 0 <= v <= box, where
dual = sum(signs * v, axis=0) and border @ dual = 0. `analysis.machines` builds these problems.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks

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


def central_path(
    k: jax.Array,
    signs: jax.Array,
    costs: jax.Array,
    box: jax.Array,
    mask: jax.Array,
    border: jax.Array,
) -> Path:
    """The end of the central path of every problem; vmap adds a leading axis to the batch.

    k: [..., n, n], zero where masked. signs, costs: [..., q, n]. box: [...]. mask: bool [..., n].
    border: [..., n], zero where masked; all zero for no such constraint. Not differentiable.

    On a CPU the problems are solved one after the other: each fits in the cache and stops when it
    has converged. On accelerators all problems take the first steps together, and the few slow
    ones continue in blocks.
    """
    checks.psd("k", k)
    checks.finite(signs=signs, costs=costs, border=border)
    checks.bounded("box", box, 0, above=True)
    checks.mask("mask", mask, k.shape[-1:])
    n, q = k.shape[-1], signs.shape[-2] if signs.ndim > 1 else 1
    arrays = {"k": (k, n), "signs": (signs, q), "costs": (costs, q), "mask": (mask,)}
    for name, (array, *rows) in (arrays | {"border": (border,)}).items():
        if array.shape != (*box.shape, *rows, n):
            raise ValueError(f"{name} must be {(*box.shape, *rows, n)}, got shape {array.shape}")
    if checks.known(signs) and np.any(np.abs(np.asarray(signs)) != 1):
        raise ValueError("signs must be -1 or 1")
    return _central_path(k, signs, costs, box, mask, border)


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
# On a CPU, LAPACK calls of jaxlib split a batch over XLA's threads and wait for them. Independent
# calls of one program run on those same threads: if every thread waits for parts that no free
# thread can run, the program deadlocks. A single matrix is not split, so on a CPU a batch is a loop
# over its matrices, which is as fast at these sizes.


def factorised(matrix: jax.Array) -> jax.Array:
    """The lower factor [n, n] of a positive definite matrix [n, n], NaN if it has none."""
    return _one_at_a_time(_factorised, matrix)


def solved(factor: jax.Array, sides: jax.Array) -> jax.Array:
    """x [n] or [n, k] with factor factor^T x = sides."""
    return _one_at_a_time(_solved, factor, sides)


def _factorised(matrix):
    return jnp.linalg.cholesky(matrix, symmetrize_input=False)


def _solved(factor, sides):
    return jax.scipy.linalg.cho_solve((factor, True), sides)


def _one_at_a_time(fn, *arrays):
    """fn(*arrays); under vmap a loop on a CPU, one call for the batch elsewhere."""
    if jax.default_backend() == "cpu":
        fn = jax.custom_batching.sequential_vmap(fn)
    return fn(*arrays)
