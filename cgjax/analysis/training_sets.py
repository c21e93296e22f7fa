"""Training sets and kernels that leak less (after Lippl and Stachenfeld 2025, Prop. 5.1).

A kernel machine shrinks what it knows of new combinations: part of every target is remembered by
the full conjunction. How much depends on which combinations are trained and on how salient full
conjunctions are; here both are chosen.

A training set is a mask over the N combinations of `kernel` [N, N]; `targets` is [N], or [T, N]
for several tasks at once: errors are then their mean, slopes those of all tasks together. Precision
as in `analysis.salience`.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, closed_forms, machines
from cgjax.analysis import salience as structure
from cgjax.analysis.salience import float64

GOALS = ("error", "slope")
# A combination whose variance, relative to the largest, is below this is known already.
_KNOWN = 1e-10
# Scores this close are ties, which go to the first: rounding must not choose the training set.
_TIE = 1e-9


class Scores(NamedTuple):
    """Ridgeless regression on the combinations that are not trained, each field [...]."""

    error: jax.Array  # mean squared error
    slope: jax.Array  # of predictions against targets: 1 without a leak


class Path(NamedTuple):
    """Combinations in the order of choice, and the scores after each one."""

    rows: jax.Array  # [n]
    error: jax.Array  # [n]
    slope: jax.Array  # [n]


class Anchors(NamedTuple):
    """All sets of p anchors, the best first; k sets."""

    items: np.ndarray  # [k, p]
    error: np.ndarray  # [k] on pairs of two other items
    slope: np.ndarray  # [k]


@float64
def scores(kernel: jax.Array, targets: jax.Array, is_train: jax.Array) -> Scores:
    """Error and slope of given training sets, bool [..., N], by solving each one."""
    kernel, targets = _problem(kernel, targets)
    checks.mask("is_train", is_train, (len(kernel),))
    if checks.known(is_train) and np.any(np.all(is_train, axis=-1)):
        raise ValueError("is_train is True everywhere: nothing is left to test")
    is_train = jnp.asarray(is_train, bool)[..., None, :]
    found = machines.ridgeless(kernel, targets, kernel, mask=is_train)
    targets = jnp.broadcast_to(targets, found.shape)
    return Scores(*_judged(targets - found, targets, is_train))


@jax.jit
def _judged(residual, targets, is_train):
    """Error and slope [...] on the untrained of residuals [..., T, N]."""
    test = jnp.broadcast_to(~is_train, residual.shape)
    count = jnp.maximum(jnp.sum(test, axis=(-2, -1)), 1)
    error = jnp.sum(jnp.where(test, jnp.square(residual), 0), axis=(-2, -1)) / count
    each = jnp.maximum(jnp.sum(test, axis=-1, keepdims=True), 1)
    mean = jnp.sum(jnp.where(test, targets, 0), axis=-1, keepdims=True) / each
    centred = jnp.where(test, targets - mean, 0)
    total = jnp.sum(jnp.square(centred), axis=(-2, -1))
    lost = jnp.sum(centred * residual, axis=(-2, -1))
    return error, 1 - lost / jnp.where(total > 0, total, 1)


# --- one combination after the other --------------------------------------------------------------


@float64
def greedy(
    kernel: jax.Array,
    targets: jax.Array,
    n: int,
    start: Sequence[int] = (),
    goal: str = "error",
) -> Path:
    """n combinations, each the one whose training brings the score down most.

    start: rows that are trained anyhow, not counted in n. goal: "error", or "slope" to come as
    near to slope 1 as can be, whatever the error.

    Training one more combination c changes what the machine does not know by a multiple of one
    column, so that every candidate is judged exactly and without a solve: with R the kernel given
    the combinations trained so far, r -> r - R[:, c] r[c] / R[c, c].
    """
    kernel, targets = _problem(kernel, targets)
    checks.indices("start", start, len(kernel))
    checks.integer("n", n, 1)
    n_left = len(kernel) - len(start)
    if not 0 < n <= n_left:
        raise ValueError(f"{n_left} combinations are left to choose from: n is between 1 and that")
    _check_goal(goal)
    return Path(*_greedy(kernel, targets, jnp.asarray(start, int), n, goal))


@float64
def exchange(
    kernel: jax.Array,
    targets: jax.Array,
    rows: Sequence[int],
    goal: str = "error",
    most: int = 100,
) -> Path:
    """A training set improved by swaps of one combination, the best first, until none helps.

    Returns the rows [n] reached and their scores after each of the swaps (at most `most`), the
    scores of the rows given being the first.
    """
    kernel, targets = _problem(kernel, targets)
    _check_goal(goal)
    checks.indices("rows", rows, len(kernel))
    checks.integer("most", most, 0)
    if not 0 < len(rows) < len(kernel):
        raise ValueError(f"rows leave nothing to swap: give 1 to {len(kernel) - 1}")
    rows = jnp.asarray(rows, int)
    found = [_after(kernel, targets, rows)]
    for _ in range(most):
        swapped, score = _swap(kernel, targets, rows, goal)
        if not _merit(score, goal) < _merit(found[-1], goal) * (1 - _TIE):
            break
        rows, found = swapped, [*found, score]
    return Path(rows, *(jnp.stack(column) for column in zip(*found)))


def _merit(score, goal):
    error, slope = score
    return error if goal == "error" else jnp.abs(1 - slope)


@jax.jit
def _after(kernel, targets, rows):
    """Error and slope once the rows are trained."""
    _, residual, is_train = _condition(kernel, targets, rows)
    return _judged(residual, targets, is_train[None])


def _condition(kernel, targets, rows, left_out=-1):
    """What is not known after training on rows [n]: kernel [N, N] and residuals [T, N]; mask.

    left_out: the place in `rows` of one that is not trained.
    """

    def train(state, row_and_place):
        row, place = row_and_place
        return _trained(kernel, state, row, place != left_out), None

    state = (kernel, targets, jnp.zeros(len(kernel), bool))
    return jax.lax.scan(train, state, (rows, jnp.arange(len(rows))))[0]


def _trained(kernel, state, row, is_used=True):
    """The state after one more combination."""
    known, residual, is_train = state
    column = jnp.where(is_used, _column(known, jnp.diag(kernel), row), 0)
    known = known - jnp.outer(column, known[row])
    residual = residual - residual[:, row, None] * column[None]
    return known, residual, is_train.at[row].set(is_used)


def _column(known, diagonal, row):
    """R[:, c] / R[c, c]; zero where c is known."""
    is_new = known[row, row] > _KNOWN * jnp.max(diagonal)
    return jnp.where(is_new, known[:, row] / jnp.where(is_new, known[row, row], 1), 0)


def _candidates(kernel, targets, state, goal):
    """Merit, error and slope [N] of training each combination in addition."""
    known, residual, is_train = state

    def try_one(row):
        column = _column(known, jnp.diag(kernel), row)
        left = residual - residual[:, row, None] * column[None]
        return _judged(left, targets, is_train.at[row].set(True)[None])

    error, slope = jax.vmap(try_one)(jnp.arange(len(kernel)))
    merit = jnp.where(is_train, jnp.inf, _merit((error, slope), goal))
    return merit, error, slope


def _first_best(merit):
    best = jnp.min(merit)
    return jnp.argmax(merit <= best + _TIE * jnp.abs(best))


@functools.partial(jax.jit, static_argnames=("n", "goal"))
def _greedy(kernel, targets, start, n, goal):
    def choose(state, _):
        merit, error, slope = _candidates(kernel, targets, state, goal)
        best = _first_best(merit)
        return _trained(kernel, state, best), (best, error[best], slope[best])

    return jax.lax.scan(choose, _condition(kernel, targets, start), None, length=n)[1]


@functools.partial(jax.jit, static_argnames="goal")
def _swap(kernel, targets, rows, goal):
    """The best swap of one of the rows for another combination, and its score."""

    def without(i):
        return _candidates(kernel, targets, _condition(kernel, targets, rows, i), goal)

    merit, error, slope = jax.vmap(without)(jnp.arange(len(rows)))  # [n, N]
    best = _first_best(merit.ravel())
    out, into = jnp.unravel_index(best, merit.shape)
    return rows.at[out].set(into), (error[out, into], slope[out, into])


def _problem(kernel, targets):
    """kernel [N, N] and targets [T, N], checked."""
    checks.psd("kernel", kernel)
    checks.finite(targets=targets)
    kernel, targets = (jnp.asarray(a, jnp.float64) for a in (kernel, targets))
    n = len(kernel) if kernel.ndim else 0
    if kernel.shape != (n, n) or targets.ndim not in (1, 2) or targets.shape[-1] != n or n == 0:
        raise ValueError(
            f"kernel is [N, N] and targets [N] or [T, N]: got {kernel.shape} and {targets.shape}"
        )
    return kernel, targets.reshape(-1, n)


def _check_goal(goal):
    if goal not in GOALS:
        raise ValueError(f"unknown goal '{goal}': one of {', '.join(GOALS)}")


def any_sum(x: np.ndarray) -> np.ndarray:
    """Targets [T, N] whose mean error is that of sums with random values of all items.

    x: combinations, integers [N, C]. One target for each item of each component, 1 where it is
    shown: an error is quadratic in the values, so these stand for all independent ones.
    """
    checks.combinations("x", x)
    x = np.asarray(x)
    targets = [x[:, c] == item for c in range(x.shape[1]) for item in np.unique(x[:, c])]
    return np.stack(targets).astype(np.float64)


# --- in closed form -------------------------------------------------------------------------------


@float64
def regular_slope(salience: jax.Array, n_partners: int, likeness: jax.Array = 0.0) -> jax.Array:
    """m = k (1 + r) S / (1 - 2 S + k (1 + r) S) of a sum of two, without anchors.

    salience: S(1; 2) [...]. n_partners: k, with how many items of the other component each item is
    trained. likeness: r, the mean value of an item's partners over its own. It is exact where that
    is one number for all items, and values average to zero: partners of equal value (r = 1) do the
    work of 2 k anchors, partners of opposite value none.
    """
    checks.salience(salience, n_partners, "n_partners")
    checks.finite(likeness=likeness)
    salience = jnp.asarray(salience, jnp.float64)
    weight = n_partners * (1 + jnp.asarray(likeness, jnp.float64)) * salience
    return weight / (1 - 2 * salience + weight)


def best_anchors(
    salience: float, values: np.ndarray, n_anchors: int, bias: str = "none", k0: float = 0.0
) -> Anchors:
    """Every set of p items as anchors, by the error on pairs without one: the best first.

    salience: S(1; 2). values: [n], of both components. bias, k0: as in `closed_forms.addition`.
    """
    checks.finite(values=values, k0=k0)
    values = np.asarray(checks.real("values", values, 1, "n"), np.float64)
    n = len(values)
    checks.salience(checks.real("salience", salience, 0, ""), n)
    checks.integer("n_anchors", n_anchors, 1)
    if not 0 < n_anchors < n - 1:
        raise ValueError(
            f"{n} items allow 1 to {n - 2} anchors, so that a slope is left to measure"
        )
    items = np.array(list(itertools.combinations(range(n), n_anchors)))
    is_anchor = np.any(items[:, :, None] == np.arange(n), axis=1)
    with jax.enable_x64(True):
        found = [_anchor_scores(salience, values, mask, bias, k0) for mask in is_anchor]
    error, slope = np.array(found, np.float64).T
    order = np.argsort(error, kind="stable")
    return Anchors(items[order], error[order], slope[order])


@functools.partial(jax.jit, static_argnames="bias")
def _anchor_scores(salience, values, is_anchor, bias, k0):
    """Error and slope of one set of anchors, bool [n]: one program for sets of every size."""
    machine = closed_forms.addition(salience, values, is_anchor, bias, k0)
    worth = closed_forms.item_values(machine, values, is_anchor)
    is_trained = (is_anchor[:, None] | is_anchor[None]).reshape(1, -1)
    targets, found = ((v[:, None] + v[None]).reshape(1, -1) for v in (values, worth))
    return _judged(targets - found, targets, is_trained)


# --- the kernel instead of the training set -------------------------------------------------------


@float64
def reweighted(kappa: jax.Array, factors: jax.Array) -> jax.Array:
    """kappa(0..C) [..., C + 1] with the salience of conjunctions of k components times a factor.

    factors: [..., C], for k = 1..C. With a last one of 0 nothing is left to remember combinations
    with, and the leak is gone; S(1; C) alone at 0 takes away the shortcut by single components.
    On combinations that occur once, a last factor t is ridge regression with the penalty
    (t - 1) s_C: a ridge leaks more, and no leak takes a negative one.

    >>> structure.salience(reweighted([0, 0.3, 1], [1, 0]))
    array([0.5, 0. ])
    """
    checks.bounded("factors", factors, 0)
    weights, factors = structure.salience(kappa), jnp.asarray(factors, jnp.float64)
    if factors.shape[-1:] != weights.shape[-1:]:
        raise ValueError(f"factors are [..., {weights.shape[-1]}], got {factors.shape}")
    shape = jnp.broadcast_shapes(weights.shape, factors.shape)
    weights = jnp.broadcast_to(weights, shape) * jnp.broadcast_to(factors, shape)
    n_components = weights.shape[-1]
    counts = np.array([math.comb(n_components, k + 1) for k in range(n_components)], float)
    total = weights @ counts
    if checks.known(total) and np.any(np.asarray(total) == 0):
        raise ValueError("factors leave no salience at all: one of them has to be positive")
    return structure.kappa(weights / total[..., None])
