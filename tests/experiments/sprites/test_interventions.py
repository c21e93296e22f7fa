"""Training continued with another optimiser before a jump of the loss."""

import json
from typing import NamedTuple

import numpy as np
import pytest

from cgjax import report
from cgjax.bench.__main__ import main
from cgjax.experiments.sprites import interventions, jumps, sets
from cgjax.experiments.sprites.interventions import INTERVENTIONS, Intervention, Start

MEANS = np.array([[4.0, 4.0, 4.0], [2.0, 5.0, 3.0], [1.0, 3.0, 2.0], [1.5, 2.0, 1.9],
                  [3.0, 2.1, 1.8], [1.0, 2.5, 1.7]])  # fmt: skip


def test_predictions_follow_from_limit_and_noise():
    """38 / rate at b1 = 0.9 (Cohen et al. 2022); 78 and 18 at 0.95 and 0.8."""
    limits = [Intervention(b1=b1).limit * 38 for b1 in (0.9, 0.95, 0.8)]
    np.testing.assert_allclose(limits, [38, 78, 18])
    assert Intervention(rate=0.5).limit == pytest.approx(2)
    predicted = {name: (c.if_limit, c.if_noise) for name, c in INTERVENTIONS.items()}
    assert predicted == {
        "none": ("as before", "as before"),
        "half the rate": ("no jump", "no jump"),
        "b1 0.95": ("no jump", "no jump"),
        "twice the rate": ("jump", "jump"),
        "b1 0.8": ("jump", "jump"),
        "4 x the batch": ("as before", "no jump"),
        "1/4 of the batch": ("as before", "jump"),
        "4 x the batch, twice the rate": ("jump", "as before"),
        "1/4 of the batch, half the rate": ("no jump", "as before"),
        "other batches": ("as before", "as before"),
    }


def test_only_the_batch_changes_the_noise_and_not_the_limit():
    """Noise: that of an average of gradients with weights (1 - b1) b1^k, times the rate."""
    weights = {b1: (1 - b1) * b1 ** np.arange(500) for b1 in (0.9, 0.95, 0.8)}
    spread = {b1: np.sqrt(np.sum(values**2)) for b1, values in weights.items()}
    noise = {name: change.noise for name, change in INTERVENTIONS.items()}
    assert noise["b1 0.95"] == pytest.approx(spread[0.95] / spread[0.9])
    assert noise["b1 0.8"] == pytest.approx(spread[0.8] / spread[0.9])
    assert (noise["half the rate"], noise["twice the rate"]) == (0.5, 2.0)
    assert (noise["4 x the batch"], noise["1/4 of the batch"]) == (0.5, 2.0)
    alone = [name for name, c in INTERVENTIONS.items() if c.limit == 1 and c.noise != 1]
    assert alone == ["4 x the batch", "1/4 of the batch"]


def test_starts_lie_an_epoch_before_the_first_jump(monkeypatch):
    """Seed 1 rises above its first epoch too early to have a start, and then once more."""

    def trained(config, how, n, data, keep):
        assert keep
        for epoch in range(n):
            yield f"before epoch {epoch}", MEANS[epoch] + np.array([[-0.5], [0.5]])

    monkeypatch.setattr(jumps, "epochs", trained)
    begun = interventions.starts(None, len(MEANS), None)
    assert begun == [
        Start(0, 2, True, 2.0, "before epoch 2"),
        Start(1, 4, True, 2.0, "before epoch 4"),
        Start(2, 3, False, 2.0, "before epoch 3"),
    ]


class State(NamedTuple):
    params: np.ndarray
    lr_scale: np.ndarray


def test_rises_are_of_the_changed_rate_and_momentum(monkeypatch):
    """A program whose loss is the rate, doubled for each epoch, and infinite at b1 = 0.95."""
    compiled, later = [], []

    def compile_program(config, how, length, data):
        compiled.append((how.b1, config.data.batch))

        def call(state, epoch):
            later.append(epoch >= interventions.LATER)
            epoch %= interventions.LATER
            scale = state.lr_scale * 2.0 ** (epoch - 3) * (np.inf if how.b1 == 0.95 else 1.0)
            return state, {"loss": np.tile(scale, (length, 1))}

        return jumps.Program(None, call, lambda step: step // length, length)

    monkeypatch.setattr(jumps, "compile_program", compile_program)
    config = jumps.configure((0, 1))
    state = State(np.zeros(2), np.array([1.0, 3.0], np.float32))
    begun = [Start(0, 3, True, 4.0, state), Start(1, 3, False, 4.0, state)]
    largest = interventions.rises(config, begun, None)
    assert compiled == [(0.9, 512), (0.95, 512), (0.8, 512), (0.9, 2048), (0.9, 128)]
    assert config.data.batch == 512
    assert sum(later) == 2  # epochs with other batches
    np.testing.assert_array_equal(largest["other batches"], largest["none"])
    np.testing.assert_allclose(largest["none"], [1.0, 1.0])  # 1, 2 after 4; 3, 6 after 4
    np.testing.assert_allclose(largest["twice the rate"], [1.0, 2.0])  # 2, 4; 6, 12 after 4
    np.testing.assert_allclose(largest["half the rate"], [1.0, 1.0])
    assert np.isinf(largest["b1 0.95"]).all()
    rows = interventions.table_rows(begun, largest | {"half the rate": np.zeros(2)})
    assert rows[0][5:] == ("1 of 1", "1 of 1", "100, 100")
    assert rows[1][1:] == ("2.00", "0.50", "no jump", "no jump", "0 of 1", "0 of 1", "0, 0")


def test_the_recorded_outcomes_are_those_that_the_readme_states():
    """Changes of rate and momentum: all predictions hold. Of the batch: neither cause explains all.

    The limit alone predicts no change. The noise alone predicts no jump with four times the batch,
    and more jumps with a quarter of it.
    """
    path = report.RECORD / "sprites" / "optimiser.json"
    study = json.loads(path.read_text())["interventions"]
    before = np.array([start["jumps"] for start in study["starts"]])
    expected = {"as before": before, "no jump": np.zeros(8, bool), "jump": np.ones(8, bool)}
    is_jump = {name: np.array(rises) > jumps.JUMP for name, rises in study["largest_rise"].items()}
    for name in ("none", "half the rate", "b1 0.95", "twice the rate", "b1 0.8"):
        np.testing.assert_array_equal(is_jump[name], expected[INTERVENTIONS[name].if_limit])
    assert 0 < is_jump["4 x the batch"].sum() < before.sum()
    assert before.sum() < is_jump["1/4 of the batch"].sum() < 8
    assert is_jump.keys() == INTERVENTIONS.keys() - {
        "other batches",
        "4 x the batch, twice the rate",
        "1/4 of the batch, half the rate",
    }  # the controls that have not run


@pytest.mark.slow
def test_without_a_change_training_goes_on_as_before():
    config = jumps.configure((0, 1))
    jumps.shorten(config, 40, 16)
    config.model.component.update({"hidden": 8, "channels": 4})
    data = sets.make(config)
    kept = list(jumps.epochs(config, jumps.IMPLEMENTATIONS["kernels"], 4, data, keep=True))
    means = np.stack([losses.mean(axis=0) for _, losses in kept])
    begun = [Start(seed, 2, False, 1e-6, kept[2][0]) for seed in (0, 1)]
    largest = interventions.rises(config, begun, data)
    np.testing.assert_allclose(largest["none"], means[2:].max(axis=0) / 1e-6 - 1, rtol=1e-5)
    for name in INTERVENTIONS:
        assert name == "none" or not np.isclose(largest[name], largest["none"], rtol=1e-6).any()
    sharpness = jumps.sharpness_fn(config, data, 16, 3)
    assert 0 < interventions.share_of_limit(config, begun[0], sharpness) < 10


def test_one_epoch_has_no_jump(capsys):
    assert main(["interventions", "--steps=1"]) == 2
    assert "set at least 2" in capsys.readouterr().err
