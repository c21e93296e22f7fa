"""A run killed anywhere and started again gives the same bits as one left in peace."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import cgjax

FLAGS = (
    "--config=configs/sprites.py:orthogonal_compositional,smoke",
    "--config.train.steps=240",
    "--config.train.seeds=(0,1)",
)


def start(workdir, cache):
    environment = {**os.environ, "XLA_FLAGS": "", "CGJAX_CACHE": str(cache)}
    command = [sys.executable, "-m", "cgjax.main", *FLAGS, f"--workdir={workdir}"]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def finish(workdir, cache):
    process = start(workdir, cache)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()[-2000:]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The uninterrupted run, and a warm compilation cache for the others."""
    folder = tmp_path_factory.mktemp("whole")
    finish(folder / "run", folder / "cache")
    return folder


def logged_steps(workdir: pathlib.Path) -> int:
    path = workdir / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def wait_until(process, condition):
    """True once the condition holds, False if the process ended first."""
    while process.poll() is None:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def is_writing(workdir: pathlib.Path) -> bool:
    """Orbax writes a step under a temporary name and renames it when it is whole."""
    folder = workdir / "checkpoints" / "seeds_0-1"
    try:
        return any("tmp" in name for name in os.listdir(folder))
    except FileNotFoundError:
        return False


def assert_same_bits(a, b):
    first, second = cgjax.load(a), cgjax.load(b)
    for x, y in zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params)):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert (a / "metrics.jsonl").read_text() == (b / "metrics.jsonl").read_text()


@pytest.mark.faults
def test_sigkill_at_random_moments_and_during_a_write(whole, tmp_path):
    workdir = tmp_path / "run"
    moments = random.Random(0)
    killed_writing = 0
    for attempt in range(5):
        process = start(workdir, whole / "cache")
        if attempt == 2:
            reached = wait_until(process, lambda: is_writing(workdir))
            killed_writing += reached
        else:
            target = logged_steps(workdir) + moments.randint(5, 60)
            reached = wait_until(process, lambda goal=target: logged_steps(workdir) >= goal)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert reached, "the run ended before it could be killed"
    assert killed_writing == 1
    finish(workdir, whole / "cache")
    assert_same_bits(whole / "run", workdir)


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_polite_signal_saves_and_exits_3(number, whole, tmp_path):
    workdir = tmp_path / "run"
    process = start(workdir, whole / "cache")
    assert wait_until(process, lambda: logged_steps(workdir) >= 20)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3 and b"saved at step" in errors
    finish(workdir, whole / "cache")
    assert_same_bits(whole / "run", workdir)


@pytest.mark.faults
def test_a_full_disk_is_one_line_and_loses_nothing(whole, tmp_path):
    """/dev/full stands for the disk: the log cannot grow, the checkpoints stay readable."""
    workdir = tmp_path / "run"
    process = start(workdir, whole / "cache")
    assert wait_until(process, lambda: logged_steps(workdir) >= 20)
    (workdir / "metrics.jsonl").rename(workdir / "kept.jsonl")
    (workdir / "metrics.jsonl").symlink_to("/dev/full")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"No space left on device" in errors and b"Traceback" not in errors
    (workdir / "metrics.jsonl").unlink()
    (workdir / "kept.jsonl").rename(workdir / "metrics.jsonl")
    finish(workdir, whole / "cache")
    first, second = cgjax.load(whole / "run"), cgjax.load(workdir)
    for x, y in zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params)):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
