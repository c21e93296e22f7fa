"""The loop: replicas as an axis, devices, resuming, replicas that die, periods."""

import concurrent.futures
import os
import pathlib
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy

from cgjax import config as configs
from cgjax.config import ownership
from cgjax.core import checkpoint, parallel, program, train, tree
from cgjax.core.errors import BadInput, Diverged, Preempted

pytestmark = pytest.mark.usefixtures("one_device")


def run(settings, workdir, **options):
    return train.fit(toy.experiment(settings, **options), settings, workdir)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where `whole` was trained."""
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def whole(folder):
    """Three seeds, uninterrupted."""
    return run(toy.config(seeds=(0, 1, 2)), folder)


@pytest.fixture
def whole_copy(whole, folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "whole")


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """One seed, uninterrupted: (folder, state, history)."""
    folder = tmp_path_factory.mktemp("single")
    return folder, *run(toy.config(), folder)


@pytest.fixture
def single_copy(single, tmp_path):
    """A copy of it to be damaged."""
    return shutil.copytree(single[0], tmp_path / "single")


def equal(a, b):
    assert jax.tree.all(jax.tree.map(lambda x, y: bool(np.array_equal(x, y)), a, b))


def test_trains_and_counts(whole):
    state, history = whole
    assert history["loss"].shape == (12, 3)
    assert np.all(history["loss"][-1] < history["loss"][0])
    assert list(history["rows"][:4, 0]) == [8, 8, 4, 8]  # masked partial batch, once per epoch
    assert np.array_equal(state.extra["count"], [12, 12, 12])
    assert list(history["eval"]["step"]) == [4, 8, 12]
    assert int(state.step) == 12


def test_seeds_as_an_axis_equal_single_runs(whole, tmp_path):
    for seed in (0, 2):
        _, history = run(toy.config(seeds=(seed,)), tmp_path / str(seed))
        np.testing.assert_allclose(history["loss"][:, 0], whole[1]["loss"][:, seed], rtol=1e-4)


@pytest.mark.parametrize("own_data", [pytest.param(False, marks=pytest.mark.slow), True])
def test_seeds_in_turn_equal_seeds_together(own_data, tmp_path):
    runs = []
    for at_once in (0, 2):
        settings = toy.config(seeds=(0, 1, 2, 3), at_once=at_once)
        experiment = toy.experiment(settings)
        if own_data:
            each = jax.tree.map(
                lambda leaf: jnp.stack([leaf * k for k in range(1, 5)]), experiment.data
            )
            experiment = experiment._replace(data=each, own_data=True)
        state, history = train.fit(experiment, settings, tmp_path / str(at_once))
        runs.append((state.params["w"], history["loss"], history["eval"]["mse"]))
    for together, in_turn in zip(*runs):
        np.testing.assert_allclose(together, in_turn, rtol=1e-5)


def test_small_leaves_side_by_side_train_as_apart(whole, tmp_path, monkeypatch):
    """What an accelerator does: the same state, in its own leaves again after every call."""
    packing, packed = tree.packing, []

    def small(like, _):
        pack, unpack = packing(like, 4096)
        return lambda state: packed.append(pack(state)) or packed[-1], unpack

    monkeypatch.setattr(tree, "packing", small)
    state, history = run(toy.config(seeds=(0, 1, 2)), tmp_path)
    large, joined = packed[0]
    assert len(large) == 1 and {"float32", "int32", "bool"} <= set(joined)  # the step alone
    assert jax.tree.structure(state) == jax.tree.structure(whole[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), state, whole[0])
    np.testing.assert_allclose(history["loss"], whole[1]["loss"], rtol=1e-5)


def test_seeds_can_be_added_to_a_finished_run(whole, tmp_path):
    run(toy.config(seeds=(1,)), tmp_path)
    state, history = run(toy.config(seeds=(0, 1, 2)), tmp_path)
    np.testing.assert_allclose(history["loss"], whole[1]["loss"], rtol=1e-4)
    np.testing.assert_allclose(state.params["w"], whole[0].params["w"], rtol=1e-4)
    folders = sorted(p.name for p in (tmp_path / "checkpoints").iterdir() if p.is_dir())
    assert folders == ["seeds_0_2", "seeds_1"]


@pytest.mark.parametrize(
    "n_seeds, mesh",
    # Both axes of the mesh have several devices; the others have one axis of them.
    [
        (2, (2, 4)),
        pytest.param(1, (1, 8), marks=pytest.mark.slow),
        pytest.param(8, (8, 1), marks=pytest.mark.slow),
    ],
)
def test_eight_devices_agree_with_one(n_seeds, mesh, tmp_path, monkeypatch):
    settings = toy.config(seeds=tuple(range(n_seeds)))
    with monkeypatch.context() as patch:
        patch.setattr(jax, "devices", jax.local_devices)
        assert parallel.layout(n_seeds, 8).mesh.devices.shape == mesh
        state, eight = run(settings, tmp_path / "eight")
    assert len(state.params["w"].devices()) == 8
    _, one = run(settings, tmp_path / "one")
    np.testing.assert_allclose(eight["loss"], one["loss"], rtol=1e-5)
    opened, _ = run(settings, tmp_path / "eight")  # a checkpoint of eight devices, on one
    assert len(opened.params["w"].devices()) == 1
    equal(opened.params, state.params)


def test_interrupted_and_resumed_gives_the_same_bits(whole, tmp_path, monkeypatch):
    settings = toy.config(seeds=(0, 1, 2))
    original, calls = train.log_call, []

    def log_then_signal(*arguments):
        calls.append(0)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGUSR1)
        return original(*arguments)

    monkeypatch.setattr(train, "log_call", log_then_signal)
    with pytest.raises(Preempted, match="SIGUSR1: saved at step"):
        run(settings, tmp_path)
    monkeypatch.setattr(train, "log_call", original)
    state, history = run(settings, tmp_path)
    equal(state, whole[0])
    equal(history["loss"], whole[1]["loss"])


def test_a_finished_run_returns_without_compiling(whole, whole_copy, monkeypatch):
    monkeypatch.setattr(program.SetUp, "lowered_call", lambda *a: pytest.fail("compiled"))
    state, history = run(toy.config(seeds=(0, 1, 2)), whole_copy)
    equal(state, whole[0])
    equal(history["eval"], whole[1]["eval"])


def test_programs_compiled_ahead_train_alike_in_another_thread(
    whole, tmp_path, monkeypatch, capsys
):
    settings = toy.config(seeds=(0, 1, 2))
    experiment = toy.experiment(settings)
    zeros = experiment._replace(data=jax.tree.map(np.zeros_like, experiment.data))
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        ahead = thread.submit(program.traced(zeros, settings).compile_all)
        assert ahead.result().programs
        monkeypatch.setattr(program.SetUp, "lowered_call", lambda *a: pytest.fail("compiled"))
        fitted = thread.submit(train.fit, experiment, settings, tmp_path, "toy", ahead)
        state, history = fitted.result()
    equal(state, whole[0])
    equal(history["eval"], whole[1]["eval"])
    printed = capsys.readouterr().out
    assert "compiling" not in printed and "\ntoy: step" in printed


def test_the_compiler_is_given_the_options_of_an_experiment(tmp_path):
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        run(toy.config(seeds=(0,)), tmp_path, compiler_options={"xla_no_such_option": True})


def test_a_replica_that_turns_non_finite_is_frozen_and_named(whole, tmp_path, caplog):
    state, history = run(toy.config(seeds=(0, 1, 2)), tmp_path, poison=1)
    assert list(state.died_at) == [-1, 5, -1]
    assert bool(jnp.all(jnp.isfinite(state.params["w"])))
    assert state.extra["count"][1] == 5
    equal(state.params["w"][::2], whole[0].params["w"][::2])
    assert np.isnan(history["loss"][5:, 1]).all() and np.isfinite(history["loss"][:, ::2]).all()
    assert "seed 1 turned non-finite at step 5" in caplog.text


def test_all_replicas_dead_ends_the_run(tmp_path):
    with pytest.raises(Diverged, match="every replica"):
        run(toy.config(seeds=(1,)), tmp_path, poison=1)


def test_best_state_is_kept_per_replica(tmp_path):
    settings = toy.config(seeds=(0, 1))
    settings.optim.lr = 0.03  # so large that the error goes up and down
    state, history = run(settings, tmp_path)
    errors = history["eval"]["mse"]
    np.testing.assert_allclose(state.best.value, errors.min(0), rtol=1e-6)
    assert list(state.best.step) == list(history["eval"]["step"][errors.argmin(0)])


def test_control_stops_a_replica_and_scales_its_learning_rate(tmp_path):
    def control(scalars, best, step, lr_scale):
        return (scalars["mse"] < 1e9) & (step >= 8), lr_scale * 0.5

    state, history = run(toy.config(seeds=(0,)), tmp_path, control=control)
    assert bool(state.done[0]) and float(state.lr_scale[0]) == 0.25
    assert history["step"][-1] == 8
    again, _ = run(toy.config(seeds=(0,)), tmp_path, control=control)
    equal(again, state)


def test_zero_gradient_at_the_first_step_is_reported(tmp_path, caplog):
    settings = toy.config(seeds=(3,))
    experiment = toy.experiment(settings)

    def flat_loss(params, extra, *rest):
        return 0.0 * params["w"].sum(), (extra, {})

    train.fit(experiment._replace(loss=flat_loss), settings, tmp_path)
    assert "zero gradient at the first step, nothing will train: seed 3" in caplog.text


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("eval.every", 5, "must divide eval.every=5"),
        ("checkpoint.every", 3, "must divide checkpoint.every=3"),
        ("train.steps", 13, "must divide train.steps=13"),
        ("train.log_every", 3, "train.log_every=3 must divide"),
        ("eval.at", (3,), "must divide eval.at=3"),
        ("eval.at", (14,), "beyond train.steps=12"),
        ("eval.keep", (2,), "is not an evaluation"),
        ("checkpoint.keep", (14,), "beyond"),
        ("train.seeds", (1, 1), "twice"),
        ("train.seeds", (), "must not be empty"),
        ("train.seeds", (-1,), "at least 0"),
        ("train.seeds", (2**32,), "beyond 32 bits"),
        ("train.seeds", (0.5,), "a whole number"),
        ("train.seeds", (True,), "a whole number"),
        ("optim.lr", float("nan"), "finite"),
        ("optim.lr", -1.0, "above 0"),
    ],
)
def test_values_that_nothing_could_be_trained_with_are_refused(key, value, message):
    settings = toy.config()
    settings.update_from_flattened_dict({key: value})
    with pytest.raises(BadInput, match=message):
        configs.check_values(settings)


def test_batch_that_does_not_divide_over_devices_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "devices", jax.local_devices)
    settings = toy.config()
    settings.data.batch = 6
    with pytest.raises(BadInput, match="multiple of 8"):
        run(settings, tmp_path)


def flip_a_bit(folder: pathlib.Path):
    """Flips one bit in the middle of the largest file: the arrays themselves."""
    path = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def newest(workdir, group="seeds_0"):
    folder = workdir / "checkpoints" / group
    return max((p for p in folder.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))


@pytest.mark.parametrize("damage", ["flip", "remove"])
def test_a_damaged_newest_checkpoint_falls_back(damage, single, single_copy, caplog):
    _, state, history = single
    if damage == "flip":
        flip_a_bit(newest(single_copy) / "state")
    else:
        for path in (newest(single_copy) / "state").rglob("*"):
            path.is_file() and path.unlink()
    again, history_again = run(toy.config(), single_copy)
    assert "checkpoint 12 is damaged" in caplog.text
    equal(again, state)
    equal(history_again["loss"], history["loss"])


def test_no_sound_checkpoint_is_an_error_until_told_to_start_anew(single_copy):
    settings = toy.config()
    for path in (single_copy / "checkpoints/seeds_0").iterdir():
        if path.name.isdigit():
            flip_a_bit(path / "state")
    for _ in range(2):  # the same command again must not begin at step 0 either
        with pytest.raises(BadInput, match="--start_anew"):
            run(settings, single_copy)
    assert (ownership.start_anew(single_copy) / "checkpoints/damaged-seeds_0-12").is_dir()
    _, history = run(settings, single_copy)
    assert history["step"][-1] == 12


def test_only_two_checkpoints_are_kept(single):
    kept = [p.name for p in (single[0] / "checkpoints/seeds_0").iterdir() if p.name.isdigit()]
    assert sorted(kept) == ["12", "8"]


def test_trainings_in_two_threads_save_apart(tmp_path):
    def save_often(name):
        store = checkpoint.Checkpoints(tmp_path / name)
        for step in range(1, 13):
            store.save(step, {"step": np.array(step), "w": np.full(1000, step)}, {})
        store.close()
        return checkpoint.steps(tmp_path / name)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(save_often, ("one", "other"))) == [[12, 11]] * 2


def test_a_failed_save_of_another_training_does_not_end_this_one(tmp_path, monkeypatch):
    class Failed:
        def wait_until_finished(self):
            raise OSError("no space left")

    monkeypatch.setattr(checkpoint.Checkpoints, "_last_manager", Failed())
    store = checkpoint.Checkpoints(tmp_path)
    store.save(1, {"step": np.array(1)}, {})
    store.close()
    assert checkpoint.steps(tmp_path) == [1]


def test_logs_are_cut_back_to_the_restored_step(single, single_copy):
    _, _, history = single
    shutil.rmtree(newest(single_copy))  # as if killed between the checkpoints of steps 8 and 12
    with open(single_copy / "metrics.jsonl", "a") as handle:
        handle.write('{"kind": "train", "se')  # what a kill leaves
    _, again = run(toy.config(), single_copy)
    equal(history["loss"], again["loss"])


@pytest.mark.parametrize(
    "names, folder",
    [
        (("seed 0", "seed 1", "seed 2", "seed 7"), "seeds_0-2_7"),
        (("seed 7", "seed 0"), "seeds_0_7"),
        (("seed 0, lr 0.1", "seed 0, lr 0.2"), "seeds_0."),
        (tuple(f"seed {2 * i}" for i in range(999)), "seeds_0_2_4_"),
    ],
)
def test_group_names_are_short_and_tell_replicas_apart(names, folder):
    group = checkpoint.group_of(names)
    assert group.folder.startswith(folder) and len(group.folder) <= 80
    assert group.replicas == names
    assert checkpoint.group_of((*names, "seed 5000")).folder != group.folder
