"""Rows of the kernels family beside its main ones: they can be built, and run end to end."""

import numpy as np
import pytest

from cgjax import config as configs
from cgjax.experiments.kernels import images, run

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
