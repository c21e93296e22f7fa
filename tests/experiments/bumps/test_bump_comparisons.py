"""Analyses over all networks of a row: shares that are bounds, penalties at equal ID errors."""

import numpy as np
import pytest

from cgjax import config as configs
from cgjax.experiments.bumps.studies import comparisons


def test_a_share_outside_of_those_tried_is_told_as_a_bound():
    shares = (0.1, 0.2, 0.4)
    assert comparisons._half(shares, [0.0, 0.5, 1.0]) == ("", pytest.approx(0.2))
    assert comparisons._half(shares, [0.6, 0.8, 1.0]) == (", at most", 0.1)
    assert comparisons._half(shares, [0.0, 0.1, 0.4]) == (", more than", 0.4)


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
