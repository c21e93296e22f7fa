"""Runs that differ in a number of their replicas, side by side in one program and each alone."""

import json
import os
import pathlib
import signal
from unittest.mock import Mock

import jax
import numpy as np
import optax
import pytest
import toy

from cgjax.core import checkpoint, train
from cgjax.core.errors import Diverged, Preempted
from cgjax.core.replicas import replica_names, with_numbers
from cgjax.core.train import Share
from cgjax.sweep import together

pytestmark = pytest.mark.usefixtures("one_device")
RATES = {"slow": 0.1, "fast": 0.2, "wild": 1e30}


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


def share_of(folder: pathlib.Path, rate: float, **changes) -> Share:
    """The replicas of a run, with what is saved of them."""
    config = settings(rate)
    made = experiment(config, **changes)
    names = replica_names(made)
    (group,) = checkpoint.groups(folder / "checkpoints", names)
    return Share(made, config, folder, "", group, names)


def shares_of(folder: pathlib.Path) -> list[Share]:
    return [share_of(folder / name, rate) for name, rate in RATES.items()]


def written(folder: pathlib.Path) -> dict:
    """Every number that a run has left; not the seconds."""
    numbers = {"log": (folder / "metrics.jsonl").read_text().splitlines()}
    for path in sorted((folder / "checkpoints").rglob("seeds_*.json")):
        group = json.loads(path.read_text())
        group.pop("trained_with", None)  # says that it was not alone
        numbers[path.name] = group
        for step in checkpoint.steps(path.with_suffix("")):
            saved = checkpoint.read(path.with_suffix(""), step)
            meta = {key: value for key, value in saved.meta.items() if key not in ("wall_s", "crc")}
            numbers[str(step)] = {"meta": meta, **saved.leaves}
    for path in folder.glob("evals/*.npz"):
        with np.load(path) as arrays:
            numbers[path.name] = dict(arrays)
    return numbers


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    for name in ("slow", "fast"):
        config = settings(RATES[name])
        train.fit(experiment(config), config, folder / name)
    return {name: written(folder / name) for name in ("slow", "fast")}


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """Stopped after the second call, and gone on with."""
    folder, original, calls = tmp_path_factory.mktemp("joined"), train.log_call, []

    def log_then_signal(*arguments):
        calls.append(0)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGUSR1)
        return original(*arguments)

    (shares,) = together.alike(shares_of(folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "log_call", log_then_signal)
        with pytest.raises(Preempted, match="SIGUSR1: saved at step 4"):
            train.train_shares(shares)
    again = shares_of(folder)
    assert [share.step for share in again] == [4, 4, 0]
    train.train_shares(again[:2])
    return folder, shares


def test_each_is_written_as_if_it_were_alone(alone, joined):
    """Also one that is done before another; a stop on the way or a death changes nothing."""
    for name in ("slow", "fast"):
        jax.tree.map(np.testing.assert_array_equal, written(joined[0] / name), alone[name])
    ends = [[step for step in found if step.isdigit()] for found in alone.values()]
    assert ends == [["12", "8"], ["8", "4"]]


def test_one_that_dies_says_so_and_the_others_read_what_was_trained(joined):
    folder, shares = joined
    assert [isinstance(share.error, Diverged) for share in shares] == [False, False, True]
    assert "by step 2" in str(shares[2].error) and len(written(folder / "wild")["log"]) == 2
    for name in ("slow", "fast"):
        assert share_of(folder / name, RATES[name]).is_trained()
    assert share_of(folder / "wild", RATES["wild"]).step == 0  # to be trained again


def test_a_share_that_has_ended_gets_no_error_of_the_last_one(monkeypatch):
    """The last one in training diverges: the program ends with its error, the other is done."""
    members = [Mock(share=Mock(error=None)) for _ in range(2)]

    def last_one_diverges(shares):
        shares[1].error = Diverged("every replica turned non-finite")
        raise shares[1].error

    monkeypatch.setattr(together, "alike", lambda shares: [shares])
    monkeypatch.setattr(train, "train_shares", last_one_diverges)
    together.train_all(members)
    assert members[0].share.error is None
    assert isinstance(members[1].share.error, Diverged)


def test_what_is_another_program_is_not_put_together(tmp_path):
    """A constant that differs, other data; not another learning rate."""

    def share(rate, **changes):
        return share_of(tmp_path, rate, **changes)

    constants = [{"tx": lambda replica, rate=rate: optax.adamw(rate)} for rate in (0.1, 0.2)]
    shares = [share(0.1, **one) for one in constants] + [share(0.1, n=24, **constants[1])]
    assert [len(group) for group in together.alike(shares)] == [1, 1, 1]
