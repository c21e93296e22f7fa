"""Jumps of the training loss: counts, replays, and their record."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import like

from cgjax import report
from cgjax.bench import sprites
from cgjax.bench.__main__ import main
from cgjax.core.workdir import read_json
from cgjax.experiments.sprites import jumps, models, sets
from cgjax.experiments.sprites.models import first_doubling, largest_rise, recorded_curve
from cgjax.nets import convert
from cgjax.nets.decoders import UpsampleMLP


@pytest.fixture(scope="module")
def tiny():
    config = jumps.configure((0, 1))
    jumps.shorten(config, 40, 16)
    config.model.component.update({"hidden": 8, "channels": 4})
    return config, sets.make(config)


def test_weights_for_pytorch_come_back_through_the_converter():
    module = UpsampleMLP()
    params = like(jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 5)))["params"])
    back = convert.from_torch(module, jumps.state_dict(params))
    jax.tree.map(np.testing.assert_array_equal, back, params)


def test_rates_are_the_published_schedule():
    config = jumps.configure((0,))
    expected = 1e-5 + (1e-3 - 1e-5) * (1 + np.cos(np.pi * np.array([0, 30, 199]) / 200)) / 2
    np.testing.assert_allclose(
        [jumps.rate_of(config, e) for e in (0, 30, 199)], expected, rtol=1e-5
    )


def test_a_jump_is_a_rise_above_the_least_epoch_before_it():
    means = np.array([[4.0, 4.0], [2.0, 3.0], [2.4, 2.0], [1.0, 1.0]])
    np.testing.assert_allclose(largest_rise(means), [0.2, 0.0])
    entry = {"implementation": "x", "seeds": [0, 1], "largest_rise": [0.2, 0.0]}
    assert jumps.count(entry) == ("x", "2", "1", "0.01 to 0.99")


def test_one_loud_batch_is_not_a_doubling():
    losses = np.ones(100)
    losses[50] = 9.0
    assert first_doubling(losses, 20) == -1
    losses[70:] = 2.5
    assert first_doubling(losses, 20) == 68  # the loss is high in three of five steps


def test_a_recorded_curve_holds_epochs_and_their_largest_rise():
    losses = np.linspace(2.0, 1.0, 800)[:, None] * np.ones((1, 2))  # two logged means an epoch
    losses[600:602, 1] = 3.0
    curve = recorded_curve(losses, steps_each=5, steps_per_epoch=10)
    assert curve["curve_epochs"] == 2 and np.shape(curve["curve"]) == (2, 200)
    least = losses[598:600, 1].mean()
    assert curve["largest_rise"] == [0.0, pytest.approx(3 / least - 1, abs=1e-4)]
    assert recorded_curve(losses, steps_each=7, steps_per_epoch=10)["curve"] is None
    shorter = recorded_curve(losses[:3], steps_each=5, steps_per_epoch=20)  # than one epoch
    assert shorter["largest_rise"] is None and shorter["curve"] == [[], []]


@pytest.mark.slow
def test_all_forms_begin_the_same_training(tiny):
    """Same weights, same batches: three epochs agree, whatever the form and precision."""
    config, data = tiny
    losses = [
        np.concatenate([loss for _, loss in jumps.epochs(config, how, 3, data)])
        for how in (jumps.Implementation(), jumps.Implementation("reordered", "highest"))
    ]
    assert losses[0].shape == (9, 2)
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_the_epoch_that_rises_most_is_found(monkeypatch):
    """An epoch is compared with the least loss before it; seeds with NaN never count."""
    means = np.array([[4.0, 4.0], [2.0, 3.0], [3.0, 3.1], [3.4, np.nan], [1.0, np.nan]])
    seen = []

    def trained(config, how, n, data, keep, program):
        assert how == jumps.IMPLEMENTATIONS["kernels"] and keep
        for epoch in range(n):
            seen.append(epoch)
            yield f"before epoch {epoch}", means[epoch] + np.array([[-0.5], [0.5]])

    monkeypatch.setattr(jumps, "epochs", trained)
    rise = jumps.largest_epoch(None, 5, None)
    assert rise == (3, 0, pytest.approx(0.7), "before epoch 3") and seen == list(range(5))
    assert jumps.largest_epoch(None, 2, None)[:3] == (1, 1, pytest.approx(-0.25))


@pytest.mark.slow
def test_the_benchmark_replays_an_epoch(tiny, monkeypatch, capsys):
    """Its tables at a tiny size: errors and growth of every leaf, sharpness along the epoch."""
    config, data = tiny
    one_step = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], 1, data)
    rise = jumps.largest_epoch(config, 3, data, one_step)
    replay, sharpness = sprites.replayed(config, rise, data, 16, 3, one_step)
    length = config.optim.lr_every
    assert [step for step, *_ in sharpness] == [rise.epoch * length + i for i in range(length)]
    rate = jumps.rate_of(config, rise.epoch)
    for _, value, share in sharpness:
        assert value > 0 and share == pytest.approx(value * rate / 38)
    rows = sprites.replay_rows(replay)
    assert len(rows) == 32 and rows[0][0] == "back/conv_0/bias"
    assert max(float(row[2]) for row in rows) < 1e-4
    assert all(float(cell.removesuffix(" x")) >= 1 for row in rows for cell in row[4:])
    with monkeypatch.context() as patch:
        patch.setattr(jumps, "configure", lambda _: config.copy_and_resolve_references())
        patch.setattr(jumps, "shorten", lambda config, n, batch: None)
        patch.setattr(jumps, "compile_program", lambda *_: one_step)
        patch.setattr(jumps, "largest_epoch", lambda *_: rise)
        patch.setattr(sprites, "replayed", lambda *_: (replay, sharpness))
        assert main(["replay", "--steps=3"]) == 0
    said = capsys.readouterr().out
    assert f"epoch {rise.epoch}: mean loss" in said and "front/dense_3/kernel" in said


def test_one_epoch_cannot_be_compared(capsys):
    assert main(["replay", "--steps=1"]) == 2
    assert "set at least 2" in capsys.readouterr().err


@pytest.mark.slow
def test_a_replay_repeats_the_epoch_and_its_gradients_are_exact(tiny):
    config, data = tiny
    how = jumps.IMPLEMENTATIONS["kernels"]
    kept = list(jumps.epochs(config, how, 3, data, keep=True))
    before, losses = kept[2]
    seen = []
    again = jumps.replay(config, before, 2, 1, data, lambda i, *_: seen.append(i))
    np.testing.assert_allclose(again.loss, losses[:, 1], rtol=1e-5)
    np.testing.assert_allclose(again.loss, again.exact_loss, rtol=1e-5)
    assert seen == [0, 1, 2] and len(again.error) == 32  # two slots, eight layers, two leaves
    assert max(map(np.max, again.error.values())) < 1e-4
    assert max(map(np.max, again.plain_error.values())) < 1e-4


@pytest.mark.slow  # 11 s: `test_upsample_loss` compares these gradients without the loop
def test_gradients_of_the_loop_s_program_equal_the_plain_form_s(tiny, monkeypatch):
    config, data = tiny
    compiled = functools.cache(functools.partial(jumps.compile_program, config, data=data))
    monkeypatch.setattr(
        jumps, "compile_program", lambda _, how, n_steps, data: compiled(how, n_steps)
    )
    errors = sprites.gradient_errors(config, data, 3)
    assert len(errors) == 32 and {values.shape for values in errors.values()} == {(3, 2)}
    assert max(values.max() for values in errors.values()) < 1e-4
    assert sprites.different_repeats(config, data, 1, 1) == 0


@pytest.mark.slow
def test_a_wrong_gradient_is_seen_in_its_leaf(tiny):
    config, data = tiny
    model = models.build(config, "compositional")
    params = jax.device_get(model.init(jax.random.key(0)))
    batch = {**{k: v[:16] for k, v in data["train"].items()}, "mask": jnp.ones(16)}
    _, gradient = jumps.gradient_fn(config, "float64")(params, batch)
    wrong = jax.tree.map(np.copy, gradient)
    wrong["conv_2"]["kernel"][1] *= 1.01
    errors = jumps.relative_errors(wrong, gradient)
    assert errors.pop("back/conv_2/kernel") == pytest.approx(0.01)
    assert set(errors.values()) == {0.0}


@pytest.mark.slow
def test_sharpness_is_the_largest_eigenvalue_of_the_preconditioned_hessian(tiny):
    """Against the whole matrix of the last convolution; elsewhere P is so large that H vanishes."""
    config, data = tiny
    model = models.build(config, "compositional")
    params = model.init(jax.random.key(0))
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    is_free = jax.tree.map(jnp.zeros_like, params)
    is_free["conv_3"] = jax.tree.map(jnp.ones_like, params["conv_3"])
    free = np.flatnonzero(jax.flatten_util.ravel_pytree(is_free)[0])
    second_moment = np.full(flat.size, 1e12, np.float32)
    second_moment[free] = np.linspace(0.5, 2.0, len(free)) ** 2 * (1 - jumps.B2**7)
    rows = {name: leaf[:16] for name, leaf in data["train"].items()}

    def loss(values):
        drawn = model.predict(unravel(flat.at[free].set(values)), rows["latents"])
        return jnp.mean((drawn - sets.images(rows, config.data.composition)) ** 2)

    hessian = np.asarray(jax.hessian(loss)(flat[free]), np.float64)
    scale = np.sqrt(np.linspace(0.5, 2.0, len(free)))
    expected = np.linalg.eigvalsh(hessian / scale[:, None] / scale)[-1]
    sharpness = jumps.sharpness_fn(config, data, 16, 100)
    start = np.random.default_rng(0).standard_normal(flat.size).astype(np.float32)
    value, _ = sharpness(params, second_moment, 7.0, start)
    assert value == pytest.approx(expected, rel=1e-3)


def test_the_record_says_that_every_implementation_jumps():
    study = read_json(report.RECORD / "sprites" / "optimiser.json")
    counted = {e["implementation"]: e for e in study["jumps"]["implementations"]}
    assert {"kernels", "kernels_in_order", "first_kernels", "reordered", "pytorch"} <= set(counted)
    for entry in counted.values():
        assert len(entry["seeds"]) == len(entry["largest_rise"]) >= 6
        means = np.array(entry["epoch_loss"]).T
        assert means.shape == (60, len(entry["seeds"]))
        np.testing.assert_allclose(largest_rise(means), entry["largest_rise"], atol=2e-3)
        assert sum(rise > jumps.JUMP for rise in entry["largest_rise"]) >= 3
        rises = dict(zip(entry["seeds"], entry["largest_rise"]))
        assert min(rises[0], rises[1]) > jumps.JUMP and rises.get(7, 0) < jumps.JUMP


def test_the_record_says_that_replayed_gradients_are_as_exact_as_the_plain_form():
    """Largest and median errors of the kernels' gradients against the plain form in TF32."""
    study = read_json(report.RECORD / "sprites" / "optimiser.json")
    for recorded in study["replays"]:
        assert len(recorded["gradient"]) == 32
        for leaf in recorded["gradient"].values():
            assert leaf["error_median"] <= 1.1 * leaf["plain_error_median"]
            assert leaf["error_largest"] <= 1.2 * leaf["plain_error_largest"]
        growth = [
            leaf["norm_largest"] / leaf["norm_median"]
            for name, leaf in recorded["gradient"].items()
            if name.startswith("front/")
        ]
        assert np.median(growth) > 10
        # Training runs at AdamW's limit of stability long before the jump.
        before = [
            value / limit
            for step, value, limit in recorded["sharpness"]
            if step < recorded["doubling_step"]
        ]
        assert 0.8 < min(before) and np.median(before) > 0.9
