"""Predictors of composition on models whose answers are known."""

import numpy as np
import pytest

from cgjax.analysis import effects, predictors
from cgjax.analysis.predictors import (
    additive_share,
    connected_share,
    decodability,
    homomorphism_error,
    linearity,
    orthogonality,
    partner_share,
    right_angles,
    unit_overlap,
    unknown_of_sum,
)

K = 8
GRID = np.indices((K, K)).reshape(2, -1).T
RNG = np.random.default_rng(0)
KNOWN = RNG.permutation(K * K) < 44
FACTORS, ASKED = GRID[KNOWN], GRID[~KNOWN]
A, B = RNG.normal(size=(2, K, 20))
FIRST, SECOND = FACTORS.T
MODELS = {
    "additive": A[FIRST] + B[SECOND],
    "modular": np.concatenate([A[FIRST], B[SECOND]], axis=1),
    "ignoring": A[FIRST],
    "product": ((1 + A[FIRST])[:, :6, None] * (1 + B[SECOND])[:, None, :6]).reshape(len(FIRST), -1),
    "memoriser": RNG.normal(size=(len(FIRST), 40)),
}


def of(measure):
    return {name: measure(FACTORS, features) for name, features in MODELS.items()}


@pytest.mark.parametrize("measure", [additive_share, linearity])
def test_sums_are_additive_products_partly_and_memories_not(measure):
    share = of(measure)
    for name in ("additive", "modular", "ignoring"):
        assert share[name] == pytest.approx(1, abs=1e-9)
    assert 0.2 < share["product"] < 0.9
    assert abs(share["memoriser"]) < 0.15  # adjusted: no structure is 0, not terms / n


def test_linearity_does_not_depend_on_the_units_of_a_direction_and_additivity_does():
    scaled = np.concatenate([100 * MODELS["modular"], MODELS["memoriser"]], axis=1)
    assert additive_share(FACTORS, scaled) > 0.999
    stretch = np.linspace(0.1, 10, 20)
    assert linearity(FACTORS, MODELS["additive"] * stretch) == pytest.approx(1, abs=1e-9)


def test_right_angles_of_modules_and_of_one_line():
    angles = of(right_angles)
    assert angles["modular"] == pytest.approx(1) and angles["ignoring"] == pytest.approx(1)
    line = np.indices((5, 5)).reshape(2, -1).T
    assert right_angles(line, line.sum(axis=1, keepdims=True)) == pytest.approx(0.5)
    assert angles["memoriser"] < angles["product"] < 1  # neighbours share the combination itself


def test_units_overlap_except_in_modules():
    overlap = of(unit_overlap)
    assert overlap["modular"] == pytest.approx(0, abs=1e-12) and np.isnan(overlap["ignoring"])
    assert overlap["memoriser"] > overlap["additive"] > 0.3
    assert unit_overlap(GRID, (GRID[:, 0] + GRID[:, 1])[:, None]) == pytest.approx(1)


def test_values_are_read_beside_new_partners():
    read = of(decodability)
    assert read["modular"] == 1 and read["additive"] > 0.7
    assert abs(read["memoriser"]) < 0.15
    assert 0.35 < read["ignoring"] < 0.6  # the factor that it shows, and chance for the other
    shown = decodability(FACTORS, np.eye(K)[FIRST])
    assert shown == pytest.approx(0.5, abs=0.1)


def test_directions_of_modules_are_orthogonal_after_whitening():
    squares = np.indices((4, 4)).reshape(2, -1).T
    i, j = squares.T
    concatenated = np.concatenate([A[i, :3], B[j, :3]], axis=1)
    assert orthogonality(squares, concatenated) == pytest.approx(1, abs=1e-6)
    shared = A[i, :3] + A[j, :3]  # the same three directions for both factors
    assert orthogonality(squares, shared) < 0.7
    assert np.isnan(orthogonality(FACTORS, MODELS["ignoring"]))


def test_an_operator_predicts_sums_and_products_but_not_memories():
    error = of(homomorphism_error)
    for name in ("additive", "modular", "ignoring"):
        assert error[name] == pytest.approx(0, abs=1e-9)
    assert error["memoriser"] > 0.9
    features = MODELS["product"]
    sums = []
    for row in range(len(features)):
        fitted = np.arange(len(features)) != row
        fit = effects.additive_fit(FACTORS, features, fitted)
        sums.append(features[row] - fit.mean - fit.terms[:, row].sum(axis=0))
    by_sums = np.sum(np.square(sums)) / np.sum((features - features.mean(axis=0)) ** 2)
    assert error["product"] < 0.8 * by_sums  # products of parts are learned


def test_graph_and_partners():
    block = (GRID[:, 0] < 4) == (GRID[:, 1] < 4)
    assert connected_share(GRID[block], GRID[~block]) == 0
    assert partner_share(GRID[block], GRID[~block]) == 0.5
    assert unknown_of_sum(GRID[block], GRID[~block], GRID[block] @ [[1.0], [1.0]]) == 1
    cross = (GRID == 0).any(axis=1)
    assert connected_share(GRID[cross], GRID[~cross]) == 1
    assert unknown_of_sum(GRID[cross], GRID[~cross], GRID[cross] @ [[1.0], [1.0]]) == 0
    assert unknown_of_sum(FACTORS, ASKED, MODELS["additive"]) == pytest.approx(0, abs=1e-9)
    assert unknown_of_sum(FACTORS, ASKED, MODELS["memoriser"]) > 0.85
    # A third factor: (0, 0, 0) and (1, 1, 1) do not join the values of (0, 1, 0).
    assert connected_share([[0, 0, 0], [1, 1, 1]], [[0, 1, 0]]) == 0


def test_what_known_combinations_cannot_say_is_nan():
    cross = GRID[(GRID == 0).any(axis=1)]
    noise = RNG.normal(size=(len(cross), 5))
    assert np.isnan(additive_share(cross, noise))  # as many terms as combinations
    assert np.isnan(additive_share(FACTORS, np.ones((len(FACTORS), 3))))
    diagonal = np.stack([np.arange(K)] * 2, axis=1)
    for measure in (right_angles, unit_overlap, decodability, homomorphism_error):
        assert np.isnan(measure(diagonal, A))
    constant = np.ones((len(FACTORS), 3))
    for measure in (right_angles, unit_overlap, orthogonality, homomorphism_error):
        assert np.isnan(measure(FACTORS, constant))


def test_repeated_inputs_of_a_combination_are_averaged():
    twice = np.concatenate([FACTORS, FACTORS])
    noise = RNG.normal(size=MODELS["additive"].shape)
    features = np.concatenate([MODELS["additive"] + noise, MODELS["additive"] - noise])
    assert additive_share(twice, features) == pytest.approx(1)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: partner_share(FACTORS, FACTORS[:1]), "known combination"),
        (lambda: additive_share(FACTORS[:, :1], A[FIRST]), "C>=2"),
        (lambda: additive_share(FACTORS, A[FIRST][:-1]), "values"),
        (lambda: decodability(FACTORS, np.full((len(FIRST), 2), np.nan)), "features"),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_view_names_what_is_known():
    view = predictors.View(
        FACTORS, ASKED, MODELS["additive"], A[FIRST] + B[SECOND], A[FIRST] + B[SECOND]
    )
    assert view._fields == ("factors", "asked", "features", "outputs", "targets")


def test_decodability_does_not_depend_on_units():
    features = np.random.default_rng(0).normal(size=(len(FIRST), 4))
    assert decodability(FACTORS, 1e-9 * features) == decodability(FACTORS, features)
