"""Replicas as a product of axes: values, streams, names, and arrays with an axis for each."""

import numpy as np
import pytest

from cgjax.core.replicas import Grid


def test_the_last_axis_varies_fastest():
    grid = Grid(seed=(7, 5), task=range(2), scale=np.float32([1, 0.5, 0.25]))
    replicas = grid.replicas()
    assert grid.shape == (2, 2, 3) and grid.identity == ("seed", "task", "scale")
    assert replicas["seed"].tolist() == 6 * [7] + 6 * [5]
    assert replicas["task"].tolist() == 2 * [0, 0, 0, 1, 1, 1]
    assert replicas["scale"].tolist() == 4 * [1, 0.5, 0.25]
    assert replicas["scale"].dtype == np.float32
    assert grid.along("task", [True, False]).tolist() == 2 * [True, True, True, False, False, False]


def test_streams_do_not_depend_on_the_other_seeds():
    few = Grid(seed=(2, 0), scale=(1.0, 0.5, 0.25)).streams()
    more = Grid(seed=(0, 1, 2), scale=(1.0, 0.5, 0.25)).streams()
    assert few.tolist() == [6, 7, 8, 0, 1, 2] and more.tolist() == list(range(9))
    assert Grid(seed=(2**32 - 1, 3)).streams().tolist() == [2**32 - 1, 3]


def test_names_at_positions():
    grid = Grid(seed=(0, 3), scale=np.float32([1, 1e-6]))
    assert grid.names() == [
        "seed 0, scale 1",
        "seed 0, scale 9.99999997e-07",
        "seed 3, scale 1",
        "seed 3, scale 9.99999997e-07",
    ]
    assert grid.names(scale=0) == ["seed 0, scale 1", "seed 3, scale 1"]
    assert grid.names(seed=1, scale=-1) == ["seed 3, scale 9.99999997e-07"]
    with pytest.raises(ValueError, match="no axis 'scales': there are seed, scale"):
        grid.names(scales=0)


def test_arrays_by_axes():
    grid = Grid(seed=(0, 1), cell=range(3))
    rows = np.arange(12).reshape(6, 2)
    by_axes = grid.by_axes({"w": rows})["w"]
    assert by_axes.shape == (2, 3, 2) and by_axes[1, 0].tolist() == rows[3].tolist()
    history = grid.history({"step": np.array([4, 8]), "mse": rows.T})
    assert history["step"].tolist() == [4, 8] and history["mse"].shape == (2, 2, 3)
    assert history["mse"][1, 1, 2] == rows[5, 1]
