"""Closed forms against stored arrays and against the machines they describe."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cgjax.analysis import closed_forms, machines, salience

examples = settings(max_examples=20, deadline=None, derandomize=True, database=None)
N = 5  # items of the small addition task


def grid(*sizes):
    return np.array(list(itertools.product(*(range(size) for size in sizes))))


# --- symbolic addition ----------------------------------------------------------------------------


def test_stored_addition(golden):
    arrays = golden("kernels/closed_forms")
    values = arrays["add_values"]
    rows = arrays["add_params_Widx_S_mode_k0_m_mn_c_d_b"]
    for row, expected in zip(rows, arrays["add_pred_unseen_items"]):
        is_anchor = np.isin(np.arange(9), [int(i) for i in arrays["add_W"][int(row[0])].split(",")])
        bias = closed_forms.BIASES[int(row[2])]
        found = closed_forms.addition(row[1], values, is_anchor, bias, row[3])
        np.testing.assert_allclose(found, row[4:], atol=1e-9)
        item = closed_forms.item_values(found, values, np.zeros(9, bool))
        np.testing.assert_allclose(item[:, None] + item, expected, atol=1e-9)


def test_slopes_of_the_paper():
    s = np.array([0.3, 0.35, 0.4, 0.45, 0.5])
    expected = [0.4286, 0.5385, 0.6667, 0.8182, 1]
    np.testing.assert_allclose(closed_forms.memorization_slope(s, 1), expected, atol=5e-5)
    np.testing.assert_allclose(closed_forms.memorization_slope(s, 2), 2 * s, atol=1e-15)
    # The lazy network of one hidden layer, by its readout's kernel.
    np.testing.assert_allclose(closed_forms.memorization_slope(0.4316, 1), 0.7593, atol=1e-4)
    values, is_anchor = np.arange(-4, 5), np.arange(9) == 0
    lazy = closed_forms.addition(0.4316, values, is_anchor, "constant", 0.5569)
    asymmetric = [-2.964, -2.204, -1.445, -0.686, 0.074, 0.833, 1.592, 2.351]
    items = closed_forms.item_values(lazy, values, is_anchor)
    np.testing.assert_allclose(items[1:], asymmetric, atol=2e-3)


def test_thousands_of_kernels_at_once():
    """The last axis holds 2,100 kernels of two components: no binomial of 2,100 is a float."""
    values, is_anchor = np.arange(-4, 5), np.arange(9) == 0
    s = np.linspace(0.3, 0.4, 2100)
    machine = closed_forms.addition(s, values, is_anchor, "constant", np.full((2, 2100), 0.5))
    alone = closed_forms.addition(s[-1], values, is_anchor, "constant", 0.5)
    np.testing.assert_allclose(machine.slope[0, -1], alone.slope, rtol=1e-12)
    np.testing.assert_allclose(closed_forms.memorization_slope(s, 1)[-1], 2 / 3, rtol=1e-12)


@examples
@given(
    st.floats(0, 0.48),
    st.lists(st.floats(-3, 3), min_size=N, max_size=N),
    st.sets(st.integers(0, N - 1), min_size=1, max_size=N - 1),
    st.sampled_from(closed_forms.BIASES),
    st.floats(0.05, 1),
)
def test_addition_is_what_the_machine_does(s, values, anchors, bias, k0):
    values, is_anchor = np.array(values), np.isin(np.arange(N), list(anchors))
    x = grid(N, N)
    is_train = is_anchor[x].any(axis=1)
    kappa = np.array([0, s, 1]) + (k0 if bias == "constant" else 0)
    kernel = salience.overlap_kernel(x, x, kappa)
    target = values[x].sum(axis=1)
    f = machines.ridgeless(kernel, target, kernel, bias == "free", is_train).reshape(N, N)
    found = closed_forms.addition(s, values, is_anchor, bias, k0)
    item = closed_forms.item_values(found, values, is_anchor)
    expected = item[:, None] + item[None]
    unseen = ~is_anchor[:, None] & ~is_anchor[None]
    np.testing.assert_allclose(expected[unseen], f[unseen], atol=1e-8)


def test_addition_takes_batches_of_saliences():
    values, is_anchor = np.arange(-2.0, 3), np.arange(5) == 0
    s = np.array([[0.0, 0.1], [0.2, 0.5]])
    found = closed_forms.addition(s, values, is_anchor, "constant", 0.3)
    items = closed_forms.item_values(found, values, is_anchor)
    assert items.shape == (2, 2, 5) and np.all(np.isfinite(items))
    single = closed_forms.addition(0.2, values, is_anchor, "constant", 0.3)
    one = closed_forms.item_values(single, values, is_anchor)
    np.testing.assert_allclose(items[1, 0], one, atol=1e-13)
    with pytest.raises(ValueError, match="one of none, free, constant"):
        closed_forms.addition(s, values, is_anchor, "some")


# --- invariance and partial exposure --------------------------------------------------------------


@pytest.mark.parametrize("task", ["invariance", "partial_exposure"])
def test_two_by_two_tasks(golden, task):
    arrays = golden("kernels/closed_forms")
    x, y = arrays[f"{task}_x"], arrays[f"{task}_y"]
    margin = getattr(closed_forms, f"{task}_margin")
    stored = arrays[f"{task}_closed_form_test_item_11"]
    np.testing.assert_allclose(margin(arrays[f"{task}_k"]), stored, atol=1e-12)
    k = np.linspace(0, 0.5, 21)
    kernel = salience.overlap_kernel(x, x, np.stack([0 * k, k, 0 * k + 1], axis=1))
    f = machines.ridgeless(kernel, y, kernel, mask=arrays[f"{task}_is_train"])
    np.testing.assert_allclose(margin(k), f[:, 3], atol=1e-10)
    np.testing.assert_allclose(f[10], arrays[f"{task}_pred_minnorm"][1], atol=1e-10)  # k = 0.25


# --- context dependence ---------------------------------------------------------------------------


def cd3(n_values):
    """Combinations, targets and training set with r values of each feature in each class."""
    x = grid(2, 2 * n_values, 2 * n_values)
    classes = np.where(x[:, 1:] < n_values, -1.0, 1.0)
    y = classes[np.arange(len(x)), x[:, 0]]
    return x, y, ~((classes[:, 0] < 0) & (classes[:, 1] > 0))


def test_stored_shortcut_bias(golden):
    arrays = golden("kernels/closed_forms")
    rows = arrays["cd3_r_s1_s2_marginReg_marginSVM_branch_numericReg_numericSVC"]
    for r, s1, s2, regression, svm, branch, _, numeric in rows:
        found = closed_forms.shortcut_bias(s1, s2, int(r))
        np.testing.assert_allclose((found.regression, found.svm), (regression, svm), atol=1e-9)
        np.testing.assert_allclose(found.svm, numeric, atol=1e-6)
        assert found.all_support == (branch == 1)


def test_the_shortcut_wins_for_the_svm_alone():
    """Rep. 2 of the paper."""
    found = closed_forms.shortcut_bias(0.20350064, 0.09423825)
    np.testing.assert_allclose(found[:2], (0.52231, -0.21669), atol=1e-5)
    found = closed_forms.shortcut_bias(0.10100758, 0.13911539)
    np.testing.assert_allclose(found[:2], (0.35322, 0.18754), atol=1e-5)


@examples
@given(st.integers(0, 2**32 - 1))
def test_shortcut_bias_is_what_the_machines_do(seed):
    """Six kernels at once. Hard margins on the smallest task, filled up to a shape that other tests
    compile, too; those of larger ones are stored."""
    s = np.random.default_rng(seed).dirichlet(np.ones(3), 6)[:, :2] * 0.32 + 0.002
    kappa = salience.kappa(salience.complete(s))
    for r, size in ((1, 12), (2, 32)):
        x, y, is_train = (np.pad(a, [(0, size - len(a))] + [(0, 0)] * (a.ndim - 1)) for a in cd3(r))
        kernel = salience.overlap_kernel(x, x, kappa)
        bias = closed_forms.shortcut_bias(*s.T, r)
        test = ~is_train & (y != 0)
        margin = (y * machines.ridgeless(kernel, y, kernel, mask=is_train))[:, test]
        np.testing.assert_allclose(margin.T, [bias.regression] * test.sum(), atol=1e-8)
        if r == 1:
            margin = (y * machines.svc(kernel, y, kernel, 1e10, mask=is_train))[:, test]
            np.testing.assert_allclose(margin.T, [bias.svm] * test.sum(), atol=1e-7)


@pytest.mark.parametrize("machine", ["svm", "regression"])
def test_margins_change_sign_at_the_boundary(machine):
    s1 = np.linspace(0.001, 1 / 3, 60)
    for r in (1, 2, 3, 4):
        s2 = closed_forms.shortcut_boundary(s1, machine, r)
        at, above, below = (
            getattr(closed_forms.shortcut_bias(s1, s2 + shift, r), machine)
            for shift in (0, 1e-6, -1e-6)
        )
        inside = 1 - 3 * s1 - 3 * s2 > 1e-3
        assert inside.sum() > 20
        np.testing.assert_allclose(at[inside], 0, atol=1e-10)
        assert np.all(above[inside] > 0) and np.all(below[inside] < 0)
    with pytest.raises(ValueError, match="one of svm, regression"):
        closed_forms.shortcut_boundary(s1, "ridge")


def test_all_saliences_of_a_kernel_are_not_taken_for_several():
    values, is_anchor = np.arange(-2.0, 3), np.arange(5) == 2
    with pytest.raises(ValueError, match=r"S\(1..3; 3\) of one kernel"):
        closed_forms.addition(salience.salience([0, 0.2, 0.5, 1]), values, is_anchor)
    several = np.array([0.2, 0.1, 0.1])  # S(1; 2) that happen to sum so
    found = closed_forms.addition(several[:, None], values, is_anchor)
    single = [closed_forms.addition(s, values, is_anchor).slope for s in several]
    np.testing.assert_allclose(found.slope[:, 0], single)
