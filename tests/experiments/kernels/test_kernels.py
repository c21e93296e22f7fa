"""The kernels study: closed-form rows against known numbers, and what the command line says."""

import numpy as np
import optax
import pytest

from cgjax import config as configs
from cgjax.analysis import salience
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json
from cgjax.experiments.kernels import images, run, tasks, theory
from cgjax.experiments.kernels.scores import LOSSES
from cgjax.main import main
from cgjax.published import PUBLISHED

pytestmark = pytest.mark.usefixtures("one_device")


def config(row, *changes):
    return configs.load(f"configs/kernels.py:{row}", dict(changes))


def test_closed_form_rows_give_the_published_numbers():
    for row in ("leak", "partial"):
        metrics, _ = theory.STUDIES[row](config(row))
        for name, entry in PUBLISHED["kernels"][row].items():
            assert metrics[name] == pytest.approx(entry["mean"], abs=5e-5), name


@pytest.mark.slow  # 7 s: a map of many machines
def test_phase_kernels_are_the_positive_ones(golden):
    kappas = theory.phase_kernels(50)
    stored = golden("kernels/cd_phase_and_dispersed")
    (name,) = [key for key in stored.files if key.startswith("cd_phase")]
    stored = stored[name]
    assert len(kappas) == len(stored) == 1728
    ours = np.asarray(salience.salience(kappas))[:, :2]  # the same kernels, in another order
    for column in (0, 1):
        np.testing.assert_allclose(np.sort(ours[:, column]), np.sort(stored[:, column]), atol=1e-9)
    # The same number as in the row's smoke, so that both share one compiled program.
    some = stored[np.linspace(0, len(stored) - 1, len(theory.phase_kernels(6)), dtype=int)]
    chosen = salience.kappa(salience.complete(some[:, :2]))
    for k in (2, 3):
        margins = theory.margins(chosen, tasks.cd(k))
        for machine, column in (("svm", 1 + k), ("regression", 4 + k)):
            solved, wanted = np.all(margins[machine] > 0, axis=1), some[:, column] == 1
            decided = np.abs(margins[machine]).min(axis=1) > 1e-6  # f = 0 where S1 = S2 = 0
            np.testing.assert_array_equal(solved[decided], wanted[decided])
            assert decided.sum() > 12


@pytest.mark.slow  # 5 s: recomputes published numbers
def test_labels_have_the_magnitudes_of_the_figure_and_decision_values_the_recomputed_ones():
    metrics, _ = theory.magnitudes(config("magnitudes"))
    published = PUBLISHED["kernels"]["magnitudes"]
    assert {entry["kind"] for entry in published.values()} == {"read", "recomputed"}
    for name, entry in published.items():
        assert metrics[name] == pytest.approx(entry["mean"], abs=6e-4), name


# --- whole rows -----------------------------------------------------------------------------------


# phase, 14 s: the map has tests of its own in tests/analysis
@pytest.mark.parametrize("row", ["dispersed", pytest.param("phase", marks=pytest.mark.slow)])
def test_row_runs_and_draws(row, tmp_path):
    assert main([f"--config=configs/kernels.py:{row},smoke", f"--workdir={tmp_path}"]) == 0
    assert (tmp_path / "arrays.npz").exists()
    assert len(list((tmp_path / "figures").glob("*.png"))) == 1
    assert "metrics" in read_json(tmp_path / "results.json")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"study": "phase"}, "'study' belongs to the row"),
        ({"parts.addition.optim.lrs": "(0.1,)"}, "one for each"),
        ({"parts.addition.data.tasks": "('addition_both', 'cd_1')"}, "different grids"),
        ({"parts.addition.data.tasks": "('addition_bth',)"}, "did you mean 'addition_both'"),
        ({"optim.lrs": "(1.0, 2.0)"}, "set parts.addition.optim.lrs"),
        ({"optim.stop": "0.1"}, "set by part 'equivalence' itself"),
        ({"train.seeds": "(2147483648,)"}, "train.seeds go up to"),
    ],
)
def test_values_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(BadInput, match=message):
        run.check(config("smoke", *changes.items()))


def test_a_part_takes_any_key_of_its_row():
    changed = config("smoke", ("parts.addition.optim.stop", "0.5"))
    stops = {name: settings.optim.stop for name, settings in configs.parts(changed)}
    assert stops == {"addition": 0.5, "equivalence": 1e-6}


# --- rows -----------------------------------------------------------------------------------------
# Rows of the kernels family beside its main ones: they can be built, and run end to end.


ROWS = (
    "addition_mnist_dispersed", "addition_mnist_anchors", "cd_mnist_mse", "te_mnist_mse",
    "distances_cifar_resnet", "distances_cifar_vit", "te_mnist",
)  # fmt: skip


@pytest.mark.parametrize("size", ["fast", "paper"])
@pytest.mark.parametrize("row", ROWS)
def test_every_task_and_distance_can_be_built(row, size):
    config = configs.load(f"kernels:{row},{size}")
    run.check(config)
    assert config.data.distances[0] == 0 and len(config.data.distances) > 1
    assert config.optim.loss == ("logistic" if row == "te_mnist" else "mse")


def test_what_fast_leaves_out():
    tasks = {
        row: configs.load(f"kernels:{row},fast").data.tasks
        for row in ("cd_cifar_resnet", "te_mnist", "addition_mnist_dispersed")
    }
    assert tasks["cd_cifar_resnet"] == ("cd_1", "cd_2", "cd_3")
    assert tasks["te_mnist"] == ("te_5_5_hubs_1", "te_5_5_hubs_4")
    assert len(tasks["addition_mnist_dispersed"]) == 3


@pytest.mark.slow
def test_dispersed_sets_have_slopes_and_no_closed_form(tmp_path):
    config = configs.load("kernels:addition_mnist_dispersed,smoke")
    metrics, arrays, _ = run.run(config, tmp_path)
    assert len(metrics["dispersed_0, d=0: slope"]["values"]) == 2
    assert not any("predicted slope" in name for name in [*metrics, *arrays])
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"values.png", "slopes.png", "history.png"}


def test_accuracy_is_pooled_over_hubs_by_seed():
    config = configs.load("kernels:te_mnist,fast", {"data.distances": "(0,)"})
    metrics = {
        f"te_5_5_hubs_{hubs}, d=0: {split} accuracy": (np.array(values), [0, 1])
        for hubs, values in ((1, [0.4, 0.6]), (4, [0.8, 1.0]))
        for split in ("train", "in", "comp")
    }
    averaged = images.pooled(config, metrics)
    np.testing.assert_allclose(averaged["all hubs, d=0: comp accuracy"][0], [0.6, 0.8])
    one_task = configs.load("kernels:te_mnist,fast", {"data.tasks": "('te_5_5_hubs_4',)"})
    assert images.pooled(one_task, metrics) == {}


@pytest.mark.slow
def test_anchors_of_dense_networks(tmp_path):
    metrics, _, _ = run.run(configs.load("kernels:addition_anchors,smoke"), tmp_path)
    for name in ("extrapolation", "extrapolation_4", "interpolation_3"):
        assert f"{name}, sigma 1: slope" in metrics


def test_cross_entropy_is_that_of_two_opposite_logits():
    y, f = np.array([1.0, -1.0, 1.0]), np.array([0.3, 2.0, -1.5])
    logits = np.stack([f, -f], axis=-1)
    wanted = optax.softmax_cross_entropy_with_integer_labels(logits, (y < 0).astype(int))
    np.testing.assert_allclose(LOSSES["cross_entropy"](y, f), wanted, rtol=1e-6)
