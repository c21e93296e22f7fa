"""Runs that differ in a number of their replicas, side by side in one program and each alone."""

import json
import os
import pathlib
import signal

import jax
import numpy as np
import optax
import pytest
import toy

from cgjax.core import checkpoint, together, train
from cgjax.core.errors import Diverged, Preempted
from cgjax.core.replicas import with_numbers

RATES = {"slow": 0.1, "fast": 0.2, "wild": 1e30}


@pytest.fixture(scope="module", autouse=True)
def one_device():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
        yield


def settings(rate: float):
    """One replica at a time: then a program of several has the bits of each alone."""
    config = toy.config(seeds=(0, 1), at_once=1)
    config.optim.lr = rate
    config.eval.keep = (4,)
    return config


def experiment(config, **changes):
    """A replica rests where its error falls below a quarter."""
    changes = {"tx": lambda replica: optax.adamw(replica["lr"]), **changes}
    return toy.experiment(
        config,
        replicas=with_numbers({"seed": np.array(config.train.seeds)}, lr=config.optim.lr),
        control=lambda scalars, best, step, lr_scale: (scalars["mse"] < 0.25, lr_scale),
        **changes,
    )


def handed_over(folder: pathlib.Path, rate: float, **changes):
    """What a run has to train, or None where it is trained."""
    config, token = settings(rate), train.HANDS_OVER.set(True)
    try:
        train.fit(experiment(config, **changes), config, folder)
    except train.HandedOver as found:
        return found.share
    finally:
        train.HANDS_OVER.reset(token)


def train_together(folder: pathlib.Path) -> list:
    (shares,) = together.alike([handed_over(folder / name, rate) for name, rate in RATES.items()])
    together.fit(shares)
    return shares


def written(folder: pathlib.Path) -> dict:
    """Every number that a run has left; not the seconds."""
    found = {"log": (folder / "metrics.jsonl").read_text().splitlines()}
    for path in sorted((folder / "checkpoints").rglob("seeds_*.json")):
        found[path.name] = json.loads(path.read_text())
        for step in checkpoint.steps(path.with_suffix("")):
            saved = checkpoint.read(path.with_suffix(""), step)
            meta = {key: value for key, value in saved.meta.items() if key != "wall_s"}
            found[str(step)] = {"meta": meta, **saved.leaves}
    for path in folder.glob("evals/*.npz"):
        with np.load(path) as arrays:
            found[path.name] = dict(arrays)
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    for name, rate in RATES.items():
        config = settings(rate)
        try:
            train.fit(experiment(config), config, folder / name)
        except Diverged as error:
            assert name == "wild" and "by step 2" in str(error)
    return {name: written(folder / name) for name in RATES}


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joined")
    return folder, train_together(folder)


def test_each_is_written_as_if_it_were_alone(alone, joined):
    """Also one that dies at once, and one that is done before the others."""
    folder, shares = joined
    for name in RATES:
        jax.tree.map(np.testing.assert_array_equal, written(folder / name), alone[name])
    ends = [[step for step in alone[name] if step.isdigit()] for name in RATES]
    assert ends == [["12", "8"], ["8", "4"], []]


def test_one_that_dies_says_so_and_the_others_read_what_was_trained(joined):
    folder, shares = joined
    assert [isinstance(share.error, Diverged) for share in shares] == [False, False, True]
    for name in ("slow", "fast"):
        assert handed_over(folder / name, RATES[name]) is None
    assert handed_over(folder / "wild", RATES["wild"]).step == 0  # to be trained again


def test_interrupted_and_resumed_gives_the_same_bits(alone, tmp_path, monkeypatch):
    original, calls = train.log_call, []

    def log_then_signal(*arguments):
        calls.append(0)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGUSR1)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(train, "log_call", log_then_signal)
        with pytest.raises(Preempted, match="SIGUSR1: saved at step"):
            train_together(tmp_path)
    shares = [handed_over(tmp_path / name, RATES[name]) for name in RATES]
    groups = together.alike(shares)
    assert [[share.step for share in group] for group in groups] == [[4, 4], [0]]
    together.fit(groups[0])
    for name in ("slow", "fast"):
        found = written(tmp_path / name)
        jax.tree.map(np.testing.assert_array_equal, found["log"], alone[name]["log"])


def test_what_is_another_program_is_not_put_together(tmp_path):
    """A constant that differs, other data, another period; not another learning rate."""

    def share(rate, **changes):
        return handed_over(tmp_path, rate, **changes)

    constant = {"tx": lambda replica: optax.adamw(0.2)}
    shares = [share(0.1), share(0.2), share(0.1, **constant), share(0.1, n=24)]
    shares.append(share(0.1))
    shares[-1].config.eval.every = 6
    groups = together.alike(shares)
    assert [len(group) for group in groups] == [2, 1, 1, 1] and groups[0] == shares[:2]
