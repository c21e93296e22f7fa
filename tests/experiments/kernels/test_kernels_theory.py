"""Rows of the kernel theory: against known numbers, closed forms, and drawn."""

import numpy as np
import pytest

from cgjax import config as configs
from cgjax.analysis import closed_forms, salience
from cgjax.experiments.kernels import tasks, theory
from cgjax.experiments.kernels.theory.figures import FIGURES
from cgjax.published import PUBLISHED

NAMES = {
    "step": "step",
    "relu": "relu",
    "leaky_relu": "leaky_relu_0.1",
    "rectified_quadratic": "rect_quad",
    "gaussian": "gaussian_A1",
}


def config(row, **data):
    changes = {f"data.{name}": str(value) for name, value in data.items()}
    return configs.load(f"configs/kernels.py:{row},smoke", changes)


def drawn(row, arrays, folder):
    """Names of the figures that the row's arrays give."""
    FIGURES[row](arrays, folder)
    return {path.name for path in folder.glob("*.png")}


def test_tasks_are_the_published_ones(tmp_path):
    metrics, arrays = theory.masks(config("tasks"))
    for name, entry in PUBLISHED["kernels"]["tasks"].items():
        assert metrics[name] == entry["mean"], name
    assert arrays["cd_3/is_train"].shape == (2, 6, 6)
    assert np.all(np.isnan(np.diag(arrays["to_7/y"])))
    assert drawn("tasks", arrays, tmp_path) == {"tasks.png"}


def test_salience_of_four_and_of_unequal_components(golden, tmp_path):
    metrics, arrays = theory.salience(config("salience", depth=20))
    assert metrics["relu, depth 5: S(2;3)"] == pytest.approx(0.1038, abs=5e-5)
    reference = golden("kernels/layer_salience")
    for ours, theirs in NAMES.items():
        for n in (2, 3, 4):
            stored = reference[f"{theirs}_C{n}"]
            np.testing.assert_allclose(arrays[f"{ours}/{n}"], stored, atol=1e-10)
        for share in theory.SHARES:
            stored = reference[f"{theirs}_unequal_{share}"]
            np.testing.assert_allclose(arrays[f"{ours}/share_{share}"], stored, atol=1e-10)
    assert drawn("salience", arrays, tmp_path) == {"salience.png", "salience_more.png"}


def test_objectives_disagree_on_a_tenth_of_the_kernels():
    saliences = np.asarray(salience.salience(theory.phase_kernels(50)))
    margins = closed_forms.shortcut_bias(saliences[:, 0], saliences[:, 1])
    by_margin, by_regression = np.asarray(margins.svm) > 0, np.asarray(margins.regression) > 0
    assert by_margin.mean() == pytest.approx(0.479, abs=1e-3)
    assert by_regression.mean() == pytest.approx(0.583, abs=1e-3)
    assert np.mean(by_margin != by_regression) == pytest.approx(0.104, abs=1e-3)
    assert not np.any(by_margin & ~by_regression)


@pytest.mark.slow  # 5 s: a finding, not a function
def test_margins_of_unequal_components(tmp_path):
    # A context as large as a feature: the closed form of equal components.
    metrics, arrays = theory.context_share(config("context_share", n_saliences=3, depth=6))
    assert metrics.keys() == {
        f"{machine}, depth {n}: solved" for machine in ("svm", "regression") for n in (1, 3)
    }
    equal = np.repeat(np.asarray(salience.by_subset(np.arange(4) / 3))[None], 3, axis=0)
    tables = np.asarray(salience.layers(equal, salience.relu, 3))[:, 1:].reshape(9, 8)
    margins = theory.margins(tables, tasks.cd(3))
    s1, s2 = np.asarray(salience.salience(tables[:, [0, 1, 3, 7]]))[:, :2].T
    closed = closed_forms.shortcut_bias(s1, s2)
    for machine, wanted in (("svm", closed.svm), ("regression", closed.regression)):
        np.testing.assert_allclose(
            margins[machine], np.repeat(np.asarray(wanted)[:, None], 18, axis=1), atol=1e-6
        )
    assert margins["svm"][2, 0] == pytest.approx(-0.21669, abs=1e-5)  # Rep. 2
    assert drawn("context_share", arrays, tmp_path) == {"context_share.png"}


@pytest.mark.slow  # 5 s: a finding, not a function
def test_no_kernel_solves_equivalence_and_every_one_ordering(monkeypatch, tmp_path):
    monkeypatch.setattr(theory, "EQUIVALENCE", ("te_2_2", "te_3_5"))
    metrics, arrays = theory.transitive(config("transitive"))
    for machine in ("svm", "regression"):
        assert metrics[f"te_2_2, {machine}: largest |mean margin|"] < 1e-9
        assert metrics[f"te_3_5, {machine}: largest |mean margin|"] > 0.01  # unequal classes
        assert metrics[f"te_3_5, {machine}: largest interaction"] < 1e-9
        assert metrics[f"te_3_5, {machine}: best accuracy"] < 1
        assert metrics[f"to_7, {machine}: least accuracy"] == 1
    test = ~tasks.make("te_3_3").is_train.reshape(6, 6)
    np.testing.assert_allclose(arrays["te_3_3/f"][test], 0, atol=1e-10)
    np.testing.assert_allclose(arrays["te_3_3/f"][~test], arrays["te_3_3/y"][~test], atol=1e-10)
    assert np.all(np.diff(arrays["to_7/regression"], axis=1) > 0)  # the distance effect
    assert drawn("transitive", arrays, tmp_path) == {"transitive.png"}


def test_compositional_kernels_depart_in_nothing():
    task = tasks.make("addition_extrapolation")
    kappas = np.array([[0, 0.3, 1], [0.5, 0.8, 1.3]])
    departures = theory._departure(task, salience.overlap_kernel(task.x, task.x, kappas))
    np.testing.assert_allclose(departures["spread"], 0, atol=1e-12)
    np.testing.assert_allclose(departures["additivity"], 1, atol=1e-10)
    np.testing.assert_allclose(departures["slope"], departures["slope predicted"], atol=1e-10)


@pytest.mark.slow  # 3 s: a finding, not a function
def test_departures_shrink_with_width_and_with_dimensions(tmp_path):
    metrics, arrays = theory.perturbed(config("perturbed"))
    for kind, few, many in (("width", 100, 10000), ("codes", 4, 256)):
        for score, better in (("spread", -1), ("additivity", 1)):
            few_score, many_score = (metrics[f"{kind} {n}: {score}"] for n in (few, many))
            assert better * (many_score - few_score) > 0
        slope = metrics[f"{kind} {many}: slope"]
        assert slope == pytest.approx(metrics[f"{kind} {many}: slope predicted"], abs=0.02)
    assert drawn("perturbed", arrays, tmp_path) == {"perturbed.png"}


@pytest.mark.slow  # 13 s: a finding, not a function
def test_chosen_pairs_leak_less(monkeypatch, tmp_path):
    monkeypatch.setattr(theory, "PAIRS", (18,))
    metrics, arrays = theory.design(config("design"))
    for s in (0.2, 0.3, 0.4):
        anchors, chosen = (f"S={s}, anchors, 17 pairs: ", f"S={s}, chosen, 18 pairs: ")
        assert metrics[chosen + "slope"] > metrics[anchors + "slope"] + 0.2
        assert metrics[chosen + "test MSE"] < 0.15 * metrics[anchors + "test MSE"]
        assert metrics[f"S={s}, like values, 9 pairs: slope"] == pytest.approx(2 * s)
        assert arrays[f"{s}/mask"].sum() == 18
        # Without the values, the choice of pairs gains little.
        assert 0.8 < metrics[f"S={s}, values unknown, 18 pairs: error over dispersed"] < 1.01
    assert drawn("design", arrays, tmp_path) == {"design.png"}


@pytest.mark.parametrize("n, reported", [(3, (0, 25, 50)), (6, (0, 10, 20, 30, 40, 50))])
def test_errors_are_reported_at_saliences_that_were_computed(monkeypatch, n, reported):
    """A metric names its salience; on a coarse axis the nearest one has another error."""

    def outputs(k_train, y, k_test, *rest):
        return np.zeros((n, 81))

    for machine in ("svr", "ridgeless"):
        monkeypatch.setattr(theory.machines, machine, outputs)
    changes = {"data.n_saliences": str(n), "data.training_sets": "1"}
    metrics, _ = theory.dispersed(configs.load("kernels:dispersed", changes))
    names = [f"{m}, S={s / 100:.2f}: test MSE" for m in ("svr", "ridgeless") for s in reported]
    assert list(metrics) == names
