"""Training sets and kernels with a smaller leak (after Lippl and Stachenfeld 2025, Prop. 5.1).

The predictions of a kernel machine for new combinations are too small: the full conjunction absorbs
a part of every target. The size of this leak depends on the training combinations and on the
salience of full conjunctions; this module chooses both.

A training set is a mask over the N combinations of `kernel` [N, N]; `targets` is [N], or [T, N]
for several tasks at once. Errors are then the mean over tasks; slopes are fitted to all tasks
together. All results are in float64, as in `analysis.salience`.
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, closed_forms, machines
from cgjax.analysis import salience as structure
from cgjax.analysis.arguments import (
    checked,
    choice,
    finite,
    indices,
    integer,
    mask,
    number,
    psd,
    whole,
)
from cgjax.analysis.salience import float64

# Arguments of several functions.
GOALS = ("error", "slope")
KERNEL, TARGETS, GOAL = psd("N N"), finite("... N"), choice(*GOALS)

# If its remaining variance, relative to the largest, is below this, a combination is determined.
_KNOWN = 1e-10
# Scores within this relative gap are ties; the first wins, so that rounding does not decide.
_TIE = 1e-9
# Residuals, and deviations of targets from their mean, below these shares of the largest target are
# rounding: exact sets are ties, and a constant target has none.
_EXACT, _CONSTANT = 1e-10, 1e-13


class Scores(NamedTuple):
    """Scores of ridgeless regression on the test combinations, each field [...]."""

    error: jax.Array  # mean squared error
    slope: jax.Array  # of predictions against targets: 1 if there is no leak


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


@checked
@float64
def scores(kernel: KERNEL, targets: TARGETS, is_train: mask("... N")) -> Scores:
    """Error and slope of the given training sets, each from its own solve."""
    kernel, targets = _problem(kernel, targets)
    if checks.known(is_train) and np.any(np.all(np.asarray(is_train), axis=-1)):
        raise ValueError("is_train is True everywhere: leave at least one combination to test")
    is_train = jnp.asarray(is_train, bool)[..., None, :]
    predictions = machines.ridgeless(kernel, targets, kernel, mask=is_train)
    targets = jnp.broadcast_to(targets, predictions.shape)
    return Scores(*_judged(targets - predictions, targets, is_train))


@jax.jit
def _judged(residual, targets, is_train):
    """Error and slope [...] on the test combinations, from residuals [..., T, N]."""
    largest = jnp.max(jnp.abs(targets), axis=(-2, -1), keepdims=True)
    residual = jnp.where(jnp.abs(residual) > _EXACT * largest, residual, 0)
    test = jnp.broadcast_to(~is_train, residual.shape)
    count = jnp.maximum(jnp.sum(test, axis=(-2, -1)), 1)
    error = jnp.sum(jnp.where(test, jnp.square(residual), 0), axis=(-2, -1)) / count
    n_test = jnp.maximum(jnp.sum(test, axis=-1, keepdims=True), 1)
    mean = jnp.sum(jnp.where(test, targets, 0), axis=-1, keepdims=True) / n_test
    centred = jnp.where(test & (jnp.abs(targets - mean) > _CONSTANT * largest), targets - mean, 0)
    total = jnp.sum(jnp.square(centred), axis=(-2, -1))
    lost = jnp.sum(centred * residual, axis=(-2, -1))
    return error, 1 - lost / jnp.where(total > 0, total, 1)


# --- one combination after the other --------------------------------------------------------------


@checked
@float64
def greedy(
    kernel: KERNEL,
    targets: TARGETS,
    n: integer(1),
    start: indices("N") = (),
    goal: GOAL = "error",
) -> Path:
    """n combinations, chosen one by one; each improves the score most.

    start: rows that are trained in any case, not counted in n. goal: "error", or "slope" for the
    slope nearest to 1 regardless of the error.

    Training one more combination c changes the residuals by a multiple of one column, so that every
    candidate is scored exactly and without a solve: with R the kernel conditioned on the
    combinations trained so far, r -> r - R[:, c] r[c] / R[c, c].
    """
    kernel, targets = _problem(kernel, targets)
    n_left = len(kernel) - len(start)
    if n > n_left:
        raise ValueError(f"n must be 1 to {n_left}, the combinations outside start: got {n}")
    return Path(*_greedy(kernel, targets, jnp.asarray(start, int), n, goal))


@checked
@float64
def exchange(
    kernel: KERNEL,
    targets: TARGETS,
    rows: indices("N"),
    goal: GOAL = "error",
    most: integer(0) = 100,
) -> Path:
    """Improves a training set by swaps of one combination, each the best, until none helps.

    Returns the final rows [n], and the scores of the given rows and after each swap (at most
    `most` swaps).
    """
    kernel, targets = _problem(kernel, targets)
    if not 0 < len(rows) < len(kernel):
        raise ValueError(f"rows must be 1 to {len(kernel) - 1} combinations, got {len(rows)}")
    rows = jnp.asarray(rows, int)
    history = [_after(kernel, targets, rows)]
    for _ in range(most):
        swapped, score = _swap(kernel, targets, rows, goal)
        if not _merit(score, goal) < _merit(history[-1], goal) * (1 - _TIE):
            break
        rows, history = swapped, [*history, score]
    return Path(rows, *(jnp.stack(column) for column in zip(*history)))


def _merit(score, goal):
    error, slope = score
    return error if goal == "error" else jnp.abs(1 - slope)


@jax.jit
def _after(kernel, targets, rows):
    """Error and slope after training on the rows."""
    _, residual, is_train = _condition(kernel, targets, rows)
    return _judged(residual, targets, is_train[None])


def _condition(kernel, targets, rows, left_out=-1):
    """After training on rows [n]: the conditioned kernel [N, N], residuals [T, N] and the mask.

    left_out: the place in `rows` of a combination that is skipped.
    """

    def train(state, row_and_place):
        row, place = row_and_place
        return _trained(kernel, state, row, place != left_out), None

    state = (kernel, targets, jnp.zeros(len(kernel), bool))
    return jax.lax.scan(train, state, (rows, jnp.arange(len(rows))))[0]


def _trained(kernel, state, row, is_used=True):
    """The state after one more combination."""
    conditioned, residual, is_train = state
    column = jnp.where(is_used, _column(conditioned, jnp.diag(kernel), row), 0)
    conditioned = conditioned - jnp.outer(column, conditioned[row])
    residual = residual - residual[:, row, None] * column[None]
    return conditioned, residual, is_train.at[row].set(is_used)


def _column(conditioned, diagonal, row):
    """R[:, c] / R[c, c]; zero if c is already determined."""
    is_new = conditioned[row, row] > _KNOWN * jnp.max(diagonal)
    return jnp.where(is_new, conditioned[:, row] / jnp.where(is_new, conditioned[row, row], 1), 0)


def _candidates(kernel, targets, state, goal):
    """Merit, error and slope [N] after training each combination in addition."""
    conditioned, residual, is_train = state

    def score_candidate(row):
        column = _column(conditioned, jnp.diag(kernel), row)
        left = residual - residual[:, row, None] * column[None]
        return _judged(left, targets, is_train.at[row].set(True)[None])

    error, slope = jax.vmap(score_candidate)(jnp.arange(len(kernel)))
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
    """The rows after the best swap of one of them for another combination, and their score."""

    def without(i):
        return _candidates(kernel, targets, _condition(kernel, targets, rows, i), goal)

    merit, error, slope = jax.vmap(without)(jnp.arange(len(rows)))  # [n, N]
    best = _first_best(merit.ravel())
    out, into = jnp.unravel_index(best, merit.shape)
    return rows.at[out].set(into), (error[out, into], slope[out, into])


def _problem(kernel, targets):
    """kernel [N, N] and targets [T, N] in float64."""
    kernel, targets = (jnp.asarray(a, jnp.float64) for a in (kernel, targets))
    return kernel, targets.reshape(-1, len(kernel))


@checked
def any_sum(x: whole("N C")) -> np.ndarray:
    """Targets [T, N] whose mean error is that of sums with independent random values of all items.

    x: combinations. There is one target per item of each component, 1 where the
    item occurs. The error is quadratic in the values, so these targets represent all independent
    values.
    """
    x = np.asarray(x)
    targets = [x[:, c] == item for c in range(x.shape[1]) for item in np.unique(x[:, c])]
    return np.stack(targets).astype(np.float64)


# --- in closed form -------------------------------------------------------------------------------


@checked
@float64
def regular_slope(salience: jax.Array, n_partners: int, likeness: finite() = 0.0) -> jax.Array:
    """m = k (1 + r) S / (1 - 2 S + k (1 + r) S) of a sum of two, without anchors.

    salience: S(1; 2) [...]. n_partners: k, the number of items of the other component with which
    each item is trained. likeness: r, the mean value of an item's partners over its own value. The
    formula is exact if r is the same for all items and values average to zero. Partners of equal
    value (r = 1) are as good as 2 k anchors; partners of opposite value have no effect.
    """
    checks.salience(salience, n_partners, "n_partners")
    salience = jnp.asarray(salience, jnp.float64)
    weight = n_partners * (1 + jnp.asarray(likeness, jnp.float64)) * salience
    return weight / (1 - 2 * salience + weight)


@checked
def best_anchors(
    salience: finite(""),
    values: finite("n"),
    n_anchors: integer(1),
    bias: str = "none",
    k0: finite() = 0.0,
) -> Anchors:
    """All sets of p anchors, sorted by the error on pairs without an anchor, the best first.

    salience: S(1; 2). values: of both components. bias, k0: as in `closed_forms.addition`.
    """
    values = np.asarray(values, np.float64)
    n = len(values)
    checks.salience(salience, n)
    if n_anchors >= n - 1:
        raise ValueError(
            f"n_anchors must be 1 to {n - 2} for {n} items: two items must remain for the slope"
        )
    items = np.array(list(itertools.combinations(range(n), n_anchors)))
    is_anchor = np.any(items[:, :, None] == np.arange(n), axis=1)
    with jax.enable_x64(True):
        anchor_scores = [_anchor_scores(salience, values, mask, bias, k0) for mask in is_anchor]
    error, slope = np.array(anchor_scores, np.float64).T
    order = np.argsort(error, kind="stable")
    return Anchors(items[order], error[order], slope[order])


@functools.partial(jax.jit, static_argnames="bias")
def _anchor_scores(salience, values, is_anchor, bias, k0):
    """Error and slope of one set of anchors, bool [n]; sets of all sizes share one program."""
    machine = closed_forms.addition(salience, values, is_anchor, bias, k0)
    learned_values = closed_forms.item_values(machine, values, is_anchor)
    is_trained = (is_anchor[:, None] | is_anchor[None]).reshape(1, -1)
    targets, predictions = ((v[:, None] + v[None]).reshape(1, -1) for v in (values, learned_values))
    return _judged(targets - predictions, targets, is_trained)


# --- the kernel instead of the training set -------------------------------------------------------


@checked
@float64
def reweighted(kappa: jax.Array, factors: number("[0, inf)", "... C")) -> jax.Array:
    """kappa(0..C) [..., C + 1] with the salience of conjunctions of k components times a factor.

    factors: [..., C], for k = 1..C. A last factor of 0 removes the full conjunction, which stores
    combinations, and so removes the leak. A first factor of 0 removes the shortcut by single
    components. On combinations that occur once, a last factor t equals ridge regression with the
    penalty (t - 1) s_C: a positive penalty leaks more, and no leak needs a negative penalty.

    >>> structure.salience(reweighted([0, 0.3, 1], [1, 0]))
    array([0.5, 0. ])
    """
    weights, factors = structure.salience(kappa), jnp.asarray(factors, jnp.float64)
    if factors.shape[-1:] != weights.shape[-1:]:
        raise ValueError(f"factors must be [..., {weights.shape[-1]}], got {factors.shape}")
    shape = jnp.broadcast_shapes(weights.shape, factors.shape)
    weights = jnp.broadcast_to(weights, shape) * jnp.broadcast_to(factors, shape)
    total = weights @ checks.binomials(weights.shape[-1])[1:]
    if checks.known(total) and np.any(np.asarray(total) == 0):
        raise ValueError("factors leave no salience: at least one must be positive")
    return structure.kappa(weights / total[..., None])
