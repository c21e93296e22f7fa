"""Sums over factors and shares of variance, against what is known of sums and products."""

import numpy as np
import pytest

from cgjax.analysis.effects import additive_fit, combined, interactions, total_effects

GRID = np.indices((4, 3)).reshape(2, -1).T
A, B = np.array([-3.0, -1, 1, 3]), np.array([-1.0, 0, 1])


def test_samples_of_one_combination_are_averaged():
    factors, means = combined(np.repeat(GRID[::-1], 2, axis=0), np.arange(24.0)[:, None])
    np.testing.assert_array_equal(factors, GRID)
    np.testing.assert_array_equal(means[:, 0], np.arange(22.5, 0, -2))


def test_the_sum_and_its_terms():
    y = 7 + A[GRID[:, 0]] + B[GRID[:, 1]]
    fit = additive_fit(GRID, np.stack([y, A[GRID[:, 0]] * B[GRID[:, 1]]], axis=1))
    np.testing.assert_allclose(fit.mean, [7, 0], atol=1e-12)
    np.testing.assert_allclose(fit.terms[0, :, 0], A[GRID[:, 0]], atol=1e-12)
    np.testing.assert_allclose(fit.terms[1, :, 0], B[GRID[:, 1]], atol=1e-12)
    np.testing.assert_allclose(fit.terms[..., 1], 0, atol=1e-12)  # a product of means 0


def test_a_sum_goes_on_where_training_ties_values_together():
    y = (A[GRID[:, 0]] + B[GRID[:, 1]])[:, None]
    cross = (GRID[:, 0] == 0) | (GRID[:, 1] == 0)
    fit = additive_fit(GRID, np.where(cross[:, None], y, 99), cross)
    assert fit.determined.all()
    np.testing.assert_allclose(fit.mean + fit.terms.sum(axis=0), y, atol=1e-12)
    diagonal = GRID[:, 0] == GRID[:, 1]  # each value with one partner: any constant may move
    np.testing.assert_array_equal(additive_fit(GRID, y, diagonal).determined, diagonal)


@pytest.mark.parametrize(
    "y, effects",
    [
        (A[GRID[:, 0]] + B[GRID[:, 1]], [5 / (5 + 2 / 3), (2 / 3) / (5 + 2 / 3)]),
        (A[GRID[:, 0]] * B[GRID[:, 1]], [1, 1]),  # all of it goes, whichever is held
        (A[GRID[:, 0]], [1, 0]),
        (np.ones(12), [np.nan, np.nan]),
    ],
    ids=["sum", "product", "one", "none"],
)
def test_effects_in_closed_form(y, effects):
    np.testing.assert_allclose(total_effects(GRID, y[:, None])[0], effects, atol=1e-12)


def test_rows_of_several_outputs():
    y = np.stack([A[GRID[:, 0]], B[GRID[:, 1]], B[GRID[:, 1]]], axis=1)
    np.testing.assert_allclose(total_effects(GRID, y, np.array([0, 1, -1])), np.eye(2), atol=1e-12)
    with pytest.raises(ValueError, match="labels must be integers, got"):
        total_effects(GRID, y, np.array([0.0, 1, 1]))


def test_no_effect_without_two_combinations_that_differ_in_it():
    found = total_effects(GRID[GRID[:, 1] == GRID[:, 0] % 3], A[:, None])
    assert np.isnan(found[0, 1]) and found[0, 0] > 0  # (0, 0), (1, 1), (2, 2), (3, 0)


CUBE = np.indices((3, 4, 2)).reshape(3, -1).T
P, Q, R = np.array([-1.0, 0, 1])[CUBE[:, 0]], A[CUBE[:, 1]], np.array([-1.0, 1])[CUBE[:, 2]]


@pytest.mark.parametrize(
    "y, pairs, higher",
    [
        (P + Q + R, [0, 0, 0], 0),
        (P * Q + R, [(10 / 3) / (10 / 3 + 1), 0, 0], 0),
        (P * R + Q * R, [0, (2 / 3) / (2 / 3 + 5), 5 / (2 / 3 + 5)], 0),
        (P * Q * R, [0, 0, 0], 1),
    ],
    ids=["sum", "one pair", "two pairs", "triple"],
)
def test_interactions_of_pairs_in_closed_form(y, pairs, higher):
    shares = interactions(np.repeat(CUBE, 2, axis=0), np.repeat(5 + y, 2)[:, None])
    np.testing.assert_allclose(shares.pairs[0][np.triu_indices(3, 1)], pairs, atol=1e-12)
    np.testing.assert_allclose(shares.higher, higher, atol=1e-12)
    np.testing.assert_allclose(shares.total, sum(pairs) + higher, atol=1e-12)


def test_interactions_on_a_part_of_the_grid_are_least_squares():
    """The share of a pair is the fall of the residual when its indicators join the design."""
    rng = np.random.default_rng(0)
    factors, y = CUBE[rng.permutation(24)[:17]], rng.normal(size=(17, 3))
    pair = factors[:, 0] * 4 + factors[:, 1]
    columns = [*factors.T, pair]
    single, joint = (
        np.concatenate([c[:, None] == np.unique(c) for c in cs], axis=1).astype(float)
        for cs in (columns[:3], columns)
    )
    left = [np.sum((y - d @ np.linalg.lstsq(d, y)[0]) ** 2, axis=0) for d in (single, joint)]
    shares = interactions(factors, y)
    variance = 17 * np.var(y, axis=0)
    np.testing.assert_allclose(shares.total, left[0] / variance, atol=1e-12)
    np.testing.assert_allclose(shares.pairs[:, 0, 1], (left[0] - left[1]) / variance, atol=1e-12)


def test_interactions_of_two_factors_and_of_designs_that_fit_everything():
    shares = interactions(GRID, (A[GRID[:, 0]] * B[GRID[:, 1]])[:, None])
    np.testing.assert_allclose([shares.total[0], shares.pairs[0, 1, 0]], 1)
    few = interactions(GRID[[0, 1, 3]], np.array([[1.0], [5], [2]]))
    assert np.isnan(few.total).all()  # three combinations, and sums have three terms
