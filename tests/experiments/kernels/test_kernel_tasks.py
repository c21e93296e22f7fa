"""Tasks of the kernel theory against the reference, and their stated sizes."""

import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.experiments.kernels import tasks

CASES = {
    "add_extrap_S30": "addition_extrapolation",
    "add_extrap_S45": "addition_extrapolation",
    "add_both_S35": "addition_both",
    "add_interp_S25": "addition_interpolation",
    "add_asym_S40": "addition_asymmetric",
    "add_asym_S40_k0_0.5": "addition_asymmetric",
    "add_dispersed_seed1_S40": "addition_dispersed_1",
    "add_dispersed_seed3_S20": "addition_dispersed_3",
    "cd1_rep1": "cd_1",
    "cd1_rep2": "cd_1",
    "cd2_rep1": "cd_2",
    "cd2_rep2": "cd_2",
    "cd3_rep1": "cd_3",
    "cd3_rep2": "cd_3",
    "cd_stimulus_composition_2": "stimulus_composition_2",
    "cd_context_substitution": "context_substitution",
    "te_2_2": "te_2_2",
    "te_5_5_items4": "te_5_5_hubs_4",
    "to_7": "to_7",
}


def test_golden(golden):
    arrays = golden("kernels/task_kernel_predictions")
    assert set(CASES) == set(arrays["case_names"])
    for case, name in CASES.items():
        task = tasks.make(name)
        for field in ("x", "y", "is_train"):
            np.testing.assert_array_equal(getattr(task, field), arrays[f"{case}/{field}"], case)
        assert task.sizes == tuple(arrays[f"{case}/x"].max(0) + 1) and task.name == name


@pytest.mark.parametrize(
    "name, n_train, n_test",
    [
        ("addition_extrapolation", 17, 64),
        ("addition_asymmetric", 17, 64),
        ("addition_interpolation", 32, 49),
        ("addition_both", 32, 49),
        ("addition_extrapolation_4", 56, 25),
        ("addition_dispersed_0", 18, 63),
        ("invariance", 2, 2),
        ("partial_exposure", 3, 1),
        ("cd_1", 70, 2),
        ("cd_2", 64, 8),
        ("cd_3", 54, 18),
        ("stimulus_composition", 6, 2),
        ("te_2_2", 12, 4),
        ("te_3_3", 20, 16),
        ("te_5_5_hubs_1", 36, 64),
        ("te_5_5_hubs_4", 96, 4),
        ("to_7", 12, 30),
    ],
)
def test_counts(name, n_train, n_test):
    task = tasks.make(name)
    assert (task.is_train.sum(), (~task.is_train).sum()) == (n_train, n_test)


def test_anchors_average_to_zero_where_they_should():
    for name, anchors in tasks.ANCHORS.items():
        mean = np.mean([tasks.VALUES[i] for i in anchors])
        assert mean == (-4 if name == "asymmetric" else 0)


def test_mean_squared_targets():
    expected = {
        "extrapolation": (7.06, 15.0),
        "interpolation": (21.5, 8.0),
        "both": (11.0, 14.9),
        "asymmetric": (20.2, 11.5),
    }
    for name, values in expected.items():
        task = tasks.make(f"addition_{name}")
        squares = [np.mean(task.y[rows] ** 2) for rows in (task.is_train, ~task.is_train)]
        np.testing.assert_allclose(squares, values, atol=0.05)


def test_dispersed_uses_every_item_as_often():
    for seed, per_item in ((0, 2), (5, 3)):
        task = tasks.addition_dispersed(seed, per_item=per_item)
        trained = task.is_train.reshape(9, 9)
        assert (trained.sum(0) == per_item).all() and (trained.sum(1) == per_item).all()
    seeds = [tasks.addition_dispersed(seed).is_train for seed in (0, 1)]
    assert not np.array_equal(*seeds)


def test_two_by_two():
    # Order of the grid: (-1, -1), (-1, 1), (1, -1), (1, 1).
    np.testing.assert_array_equal(tasks.invariance().y, [-1, -1, 1, 1])
    np.testing.assert_array_equal(tasks.invariance().is_train, [True, False, True, False])
    np.testing.assert_array_equal(tasks.partial_exposure().is_train, [True, True, True, False])


def test_addition_of_three_components_and_other_values():
    task = tasks.addition((1,), values=(0.5, 1.5, 4.0), n_components=3)
    assert task.sizes == (3, 3, 3) and task.is_train.sum() == 27 - 8
    row = int(np.flatnonzero((task.x == [0, 2, 1]).all(1))[0])
    assert task.y[row] == 6.0 and task.is_train[row]


def test_features_of_unequal_size():
    task = tasks.context_dependence(
        (2, 3), (1, 0, 1), ((-1, 1), (-1, 1, 1)), ({0: (2,), 1: (0,)},), "uneven"
    )
    assert task.sizes == (3, 2, 3) and (~task.is_train).sum() == 3
    by_x = {tuple(x): y for x, y in zip(task.x, task.y)}
    assert by_x[0, 0, 2] == 1 and by_x[1, 0, 2] == -1 and by_x[2, 1, 0] == -1


def test_ordering_with_an_exception():
    task = tasks.transitive_ordering(6, exceptions=[(1, 4), (4, 1)])
    rows = {tuple(x): (y, t) for x, y, t in zip(task.x, task.y, task.is_train)}
    assert rows[1, 4] == (-1, True) and rows[4, 1] == (1, True)
    assert rows[2, 3] == (1, True)  # trained, though enclosed
    assert (1, 3) not in rows and (4, 2) not in rows  # enclosed and untrained
    assert rows[0, 4] == (1, False) and rows[5, 1] == (-1, False)
    assert len(rows) == 30 - 4  # (1, 3), (2, 4) and their mirrors


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tasks.make("addition_extrapolate"), "did you mean 'addition_extrapolation'"),
        (lambda: tasks.addition((9,)), "anchors must be indices of the 9 values, 0 to 8"),
        (lambda: tasks.addition(()), "anchors must be indices"),
        (lambda: tasks.addition_dispersed(0, per_item=0), "per_item must lie between 1 and"),
        (lambda: tasks.cd(4), "there is no CD-4"),
        (lambda: tasks.transitive_equivalence((2, 2), (3, 1)), "at most the class sizes"),
        (lambda: tasks.transitive_ordering(4, exceptions=[(0, 4)]), "distinct items below 4"),
        (
            lambda: tasks.context_dependence((2,), (0,), ((1, -1, 1),), ()),
            "one entry per value of each feature",
        ),
        (
            lambda: tasks.context_dependence((2,), (1,), ((1, -1),), ()),
            "contexts must map to features 0 to 0",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(BadInput, match=message):
        call()
