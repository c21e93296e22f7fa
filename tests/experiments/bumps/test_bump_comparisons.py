"""Data needed and its exponent: known laws are recovered, and censored points are counted."""

import numpy as np
import pytest

from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.experiments.bumps.studies import comparisons

SIZES = np.array([10, 20, 40, 80])


def test_data_needed():
    needed = comparisons.data_needed
    np.testing.assert_allclose(needed(SIZES, [0, 0.2, 1, 1]), 20 * 2**0.5)  # halfway between logs
    assert needed(SIZES, [0, 0.6, 0.7, 1]) == pytest.approx(20)
    assert needed(SIZES, [0.8, 0.9, 1, 1]) == 0  # 10 are enough, perhaps fewer
    assert needed(SIZES, [0, 0.1, 0.2, 0.59]) == np.inf
    assert needed(SIZES, [0, 0.7, 0.5, 0.9]) < 20  # first, though it falls again
    assert needed(SIZES, [0, 0.2, 1, 1], threshold=0.2) == pytest.approx(20)


def test_a_share_outside_of_those_tried_is_told_as_a_bound():
    shares = (0.1, 0.2, 0.4)
    assert comparisons._half(shares, [0.0, 0.5, 1.0]) == ("", pytest.approx(0.2))
    assert comparisons._half(shares, [0.6, 0.8, 1.0]) == (", at most", 0.1)
    assert comparisons._half(shares, [0.0, 0.1, 0.4]) == (", more than", 0.4)


def test_exponents_of_known_laws():
    n = np.array([12, 16, 20, 24, 28, 32])
    noise = np.exp(0.1 * np.random.default_rng(0).normal(size=(6, 5)))
    for power in (1, 3):
        exact = comparisons.exponent(n, np.tile(2.0 * n[:, None] ** power, (1, 5)))
        np.testing.assert_allclose(exact[:3], power, atol=1e-9)
        found = comparisons.exponent(n, n[:, None] ** power * noise, draws=400)
        assert found.low < power < found.high and 0 < found.high - found.low < 0.5
        assert (found.n_points, found.n_censored) == (30, 0)


def test_censored_points_are_left_out_and_counted():
    n = np.array([12, 16, 20])
    needed = np.tile(3.0 * n[:, None] ** 2, (1, 2))
    needed[2, 1] = np.inf
    found = comparisons.exponent(n, needed, draws=100)
    np.testing.assert_allclose(found[:3], 2, atol=1e-9)
    assert (found.n_points, found.n_censored) == (5, 1)
    # If the smallest set suffices at every size, the data needed have no exponent.
    enough = comparisons.exponent(n, np.zeros((3, 2)), draws=10)
    assert np.isnan(enough.slope) and (enough.n_points, enough.n_enough) == (0, 6)
    needed[:2] = np.inf
    assert np.isnan(comparisons.exponent(n, needed, draws=10)[:3]).all()


def test_bad_studies_are_refused():
    for words, call in {
        "sizes and accuracy": lambda: comparisons.data_needed(SIZES, [0, 1]),
        "increase": lambda: comparisons.data_needed(SIZES[::-1], [0, 0, 0, 1]),
        "needed .sizes, seeds.": lambda: comparisons.exponent([12, 16], [1.0, 2.0]),
        "positive": lambda: comparisons.exponent([12, 16], [[1.0], [-2.0]]),
    }.items():
        with pytest.raises(BadInput, match=words):
            call()


def test_starts_are_chosen_by_training_errors():
    """The start with the least ID error counts, whatever its OOD error; axes have no sign."""
    config = configs.load("bumps:axes,smoke", {"train.seeds": "0,1"})
    arrays, last = {}, {
        "id_nmse": [[0.5, 0.1, 0.2], [0.5, 0.3, 0.01]], "axis_x": [[0, 46, 45], [0, 9, -135]],
        "ood_nmse": [[1, 5, 0.01], [1, 6, 0.02]], "axis_y": [[0, -44, 9], [0, 9, 130]],
    }  # fmt: skip
    for part, _ in configs.parts(config):
        arrays[f"{part}/cells"] = np.array(["no penalty", *("learned_axis" + s for s in " +")])
        for name, values in last.items():
            arrays[f"{part}/history/{name}"] = np.array([values, values], float)
    numbers, more = comparisons.axes(config, {}, arrays)
    for name, expected in (
        ("no penalty: ood nmse", [1, 1]),
        ("learned axes: ood nmse", [5, 0.02]),
        ("learned axes: id nmse", [0.1, 0.01]),
        ("learned axes: axis error", [1, 5]),
        ("learned axes: share of starts that compose", [0.5, 0.5]),
    ):
        np.testing.assert_allclose(numbers[f"angle_45/{name}"][0], expected)
    np.testing.assert_array_equal(more["axes/angle_45/learned axes/ood_nmse"], [5, 0.02])


def test_penalties_are_compared_at_equal_id_errors():
    """The first evaluation below the level counts; a seed that never reaches it does not."""
    config = configs.load("bumps:flatness,smoke")
    arrays = {}
    for part, _ in configs.parts(config):
        arrays[f"{part}/cells"] = np.array(["free", "flat"])
        errors = np.array([[1.0, 1.0], [0.04, 0.3], [0.009, 0.2]])  # [steps, seeds]
        arrays[f"{part}/history/id_nmse"] = np.stack([errors, errors[:, ::-1]], axis=-1)
        arrays[f"{part}/history/ood_nmse"] = np.arange(12.0).reshape(3, 2, 2)
    numbers, _ = comparisons.flatness(config, {}, arrays)
    for name, expected in (
        ("free: ood nmse at id nmse 0.05", [4, np.nan]),
        ("free: ood nmse at id nmse 0.01", [8, np.nan]),
        ("flat: ood nmse at id nmse 0.05", [np.nan, 7]),
        ("flat: reached id nmse 0.01", [0, 1]),
        ("flat: ood nmse, median", [10]),
    ):
        np.testing.assert_array_equal(numbers[f"main/{name}"][0], expected)
