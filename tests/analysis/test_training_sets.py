"""Chosen training sets: scores against direct solves, closed forms, and what leaks less."""

import itertools

import numpy as np
import pytest

from cgjax.analysis import closed_forms, machines, salience
from cgjax.analysis import training_sets as sets

VALUES = np.arange(-2.0, 3.0)
X = np.indices((5, 5)).reshape(2, -1).T
Y = VALUES[X].sum(axis=1)
DIAGONAL = X[:, 0] == X[:, 1]


def kernel(s):
    return salience.overlap_kernel(X, X, [0, s, 1])


def anchored(*items):
    return np.isin(X, items).any(axis=1)


def fitted(k, y, train):
    """f on all combinations, with nothing but NumPy."""
    return k[:, train] @ np.linalg.solve(k[np.ix_(train, train)], y[train])


def error(rows, s=0.3):
    train = np.isin(np.arange(len(X)), rows)
    return np.mean((fitted(kernel(s), Y, train) - Y)[~train] ** 2)


def slope(k, y, train):
    return np.polyfit(y[~train], fitted(k, y, train)[~train], 1)[0]


@pytest.fixture(scope="module")
def path():
    return sets.greedy(kernel(0.3), Y, 12)


def test_scores_are_those_of_solves():
    k, trained = kernel(0.35), np.stack([anchored(0, 3), DIAGONAL])
    scores = sets.scores(k, Y, trained)
    assert scores.error.shape == scores.slope.shape == (2,)
    for i, train in enumerate(trained):
        f = fitted(k, Y, train)
        assert scores.error[i] == pytest.approx(np.mean((f - Y)[~train] ** 2), abs=1e-12)
        assert scores.slope[i] == pytest.approx(slope(k, Y, train), abs=1e-12)


def test_greedy_scores_without_a_solve_are_exact(path):
    rows = np.asarray(path.rows)
    assert len(set(rows.tolist())) == 12
    for n in range(12):
        assert path.error[n] == pytest.approx(error(rows[: n + 1]), abs=1e-12)
        train = np.isin(np.arange(len(X)), rows[: n + 1])
        assert path.slope[n] == pytest.approx(slope(kernel(0.3), Y, train), abs=1e-12)


def test_greedy_takes_the_best_next_one(path):
    before = np.asarray(path.rows)[:6]
    found = [error([*before, row]) for row in set(range(len(X))) - set(before.tolist())]
    assert path.error[6] == pytest.approx(min(found), abs=1e-12)


def test_greedy_by_slope_comes_nearest_to_one():
    start, k = [0, 6, 7, 12, 19, 20], kernel(0.3)
    found = sets.greedy(k, Y, 1, start, goal="slope").slope[0]
    others = set(range(len(X))) - set(start)
    slopes = [slope(k, Y, np.isin(np.arange(len(X)), [*start, row])) for row in others]
    assert abs(1 - found) == pytest.approx(np.abs(1 - np.array(slopes)).min(), abs=1e-12)


def test_exchange_ends_where_no_swap_helps():
    exchanged = sets.exchange(kernel(0.3), Y, np.flatnonzero(anchored(2)))
    assert exchanged.error[0] == pytest.approx(error(np.flatnonzero(anchored(2))))
    assert exchanged.error[-1] < 0.2 * exchanged.error[0]
    assert np.all(np.diff(exchanged.error) < 0)
    rows = np.asarray(exchanged.rows)
    assert exchanged.error[-1] == pytest.approx(error(rows), abs=1e-12)
    others = set(range(len(X))) - set(rows.tolist())
    swaps = [error([*np.delete(rows, i), into]) for i, into in itertools.product(range(9), others)]
    assert min(swaps) >= exchanged.error[-1] * (1 - 1e-6)


def test_known_combinations_change_nothing():
    # Without full conjunctions 9 pairs determine all others: the rest is free, and exact.
    found = sets.greedy(kernel(0.5), Y, 12)
    assert np.all(np.isfinite(found.error))
    np.testing.assert_allclose(found.error[9:], 0, atol=1e-15)
    assert len(set(np.asarray(found.rows).tolist())) == 12


def test_sums_of_any_values_are_stood_for_by_single_items():
    train, k, rng = anchored(1), kernel(0.3), np.random.default_rng(0)
    values = rng.normal(size=(4000, 2, 5))
    targets = values[:, 0, X[:, 0]] + values[:, 1, X[:, 1]]
    start = np.flatnonzero(train)[:-1]
    path = sets.greedy(k, sets.any_sum(X), 12, start)
    rows = [*start, int(path.rows[0])]
    trained = np.isin(np.arange(len(X)), rows)
    misses = [np.mean((fitted(k, y, trained) - y)[~trained] ** 2) for y in targets]
    assert np.mean(misses) == pytest.approx(10 * path.error[0], rel=0.03)  # of ten values one is 1


@pytest.mark.parametrize("bias, k0", [("none", 0.0), ("constant", 0.4)])
def test_best_anchors_are_found(bias, k0):
    best = sets.best_anchors(0.3, VALUES, 2, bias, k0)
    assert len(best.items) == 10
    assert np.all(np.diff(best.error) >= 0)
    for i, items in enumerate(best.items):
        train, k = anchored(*items), kernel(0.3) + k0
        f = fitted(k, Y, train)
        assert best.error[i] == pytest.approx(np.mean((f - Y)[~train] ** 2), abs=1e-10)
        assert best.slope[i] == pytest.approx(slope(k, Y, train), abs=1e-10)
    assert best.items[0].tolist() == [0, 4]  # the outermost: the rest is small


def test_regular_slope():
    s = 0.3
    assert slope(kernel(s), Y, DIAGONAL) == pytest.approx(sets.regular_slope(s, 1, 1))
    # Items on a circle, each with the two next ones as partners.
    ring, n = np.indices((8, 8)).reshape(2, -1).T, 8
    values = np.cos(2 * np.pi * np.arange(n) / n)
    train = np.isin((ring[:, 0] - ring[:, 1]) % n, [1, n - 1])
    k = salience.overlap_kernel(ring, ring, [0, s, 1])
    wanted = sets.regular_slope(s, 2, np.cos(2 * np.pi / n))
    assert slope(k, values[ring].sum(axis=1), train) == pytest.approx(wanted)
    assert sets.regular_slope(s, 3, 1) == pytest.approx(closed_forms.memorization_slope(s, 6))
    assert sets.regular_slope(s, 3, -1) == 0


def test_pairs_of_equal_value_leak_less_than_an_anchor():
    for s in (0.1, 0.25, 0.4):
        assert slope(kernel(s), Y, DIAGONAL) == pytest.approx(2 * s)
        assert slope(kernel(s), Y, anchored(2)) < 2 * s - 0.05


# --- kernels --------------------------------------------------------------------------------------


def test_reweighted_saliences():
    kappa = salience.kappa(salience.complete([0.2, 0.1]))
    found = salience.salience(sets.reweighted(kappa, [1.0, 2.0, 0.5]))
    wanted = np.array([0.2, 0.2, 0.05]) / (0.6 + 0.6 + 0.05)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(sets.reweighted(kappa, np.ones(3)), kappa, atol=1e-12)


def test_a_factor_on_full_conjunctions_is_a_ridge():
    s, train = 0.3, anchored(2)
    k, factors = kernel(s), np.array([0.1, 1.0, 4.0])
    penalty = (factors - 1) * (1 - 2 * s)
    # `machines.ridge` refuses a negative ridge, so it is added to the kernel.
    system = k[np.ix_(train, train)] + penalty[:, None, None] * np.eye(train.sum())
    ridge = machines.ridgeless(system, Y[train], k[:, train])[:, ~train]
    for f, factor in zip(ridge, factors):
        kappa = sets.reweighted([0, s, 1], [1, factor])
        k = salience.overlap_kernel(X, X, kappa)
        np.testing.assert_allclose(fitted(k, Y, train)[~train], f, atol=1e-10)
        slope = closed_forms.memorization_slope(salience.salience(kappa)[0], 1)
        np.testing.assert_allclose(f, slope * Y[~train], atol=1e-10)


def test_the_leak_goes_with_the_full_conjunctions():
    kappas = sets.reweighted([0, 0.2, 1], np.array([[1, t] for t in (1.0, 0.1, 0.01, 0.0)]))
    slopes = closed_forms.memorization_slope(salience.salience(kappas)[:, 0], 1)
    assert np.all(np.diff(slopes) > 0)
    assert slopes[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sets.greedy(kernel(0.3), Y[:-1], 3), "targets"),
        (lambda: sets.greedy(kernel(0.3), Y, 26), "n must be 1 to 25"),
        (lambda: sets.greedy(kernel(0.3), Y, 2, goal="speed"), "goal must be one of"),
        (lambda: sets.best_anchors(0.3, VALUES, 4), "n_anchors must be 1 to 3"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("goal", sets.GOALS)
def test_rounding_does_not_choose_among_exact_sets(goal):
    # From the tenth pair on every candidate is exact: the first one is taken in any unit.
    paths = [
        np.asarray(sets.greedy(kernel(0.5), unit * Y, 14, goal=goal).rows) for unit in (1, 3.7)
    ]
    np.testing.assert_array_equal(*paths)
    assert np.all(np.diff(paths[0][10:]) > 0)
    assert len(sets.exchange(kernel(0.5), 3.7 * Y, paths[0][:10]).error) == 1


def test_a_constant_target_has_no_leak_to_measure():
    train = np.arange(25) < 10
    y = np.where(train, Y, 0.1)
    assert y[~train].var() > 0  # rounding of the mean
    assert sets.scores(kernel(0.35), y, train).slope == 1
