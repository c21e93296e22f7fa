"""A run stopped anywhere and started again gives the same bits as one left in peace."""

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
from cgjax.core.errors import BadInput

pytestmark = pytest.mark.faults
# Two seeds, two training sets each; a small network, because most of the time goes into starting.
CONFIG = "--config=configs/vectors.py:compositional_random,smoke"
LONG = ("--config.train.steps=4800", "--config.checkpoint.every=96", "--config.eval.every=96")
FLAGS = (CONFIG, *LONG, "--config.train.seeds=(0,1)", "--no_figures")


def start(workdir, cache, flags=FLAGS):
    """The command as a person gives it; what it says goes to <workdir>.out."""
    environment = {**os.environ, "XLA_FLAGS": "", "CGJAX_CACHE": str(cache)}
    command = [sys.executable, "-m", "cgjax.main", *flags, f"--workdir={workdir}"]
    with open(f"{workdir}.out", "w") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.PIPE)


def said(workdir) -> str:
    return pathlib.Path(f"{workdir}.out").read_text()


def ends_with(process, code, *words, timeout=120):
    """The exit code, and one line on stderr with these words."""
    _, errors = process.communicate(timeout=timeout)
    lines = [line for line in errors.decode().splitlines() if not line.startswith("WARNING")]
    assert process.returncode == code, errors.decode()[-2000:]
    assert len(lines) == 1 and all(word in lines[0] for word in words), lines


def finish(workdir, cache, flags=FLAGS):
    process = start(workdir, cache, flags)
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
    return any("tmp" in path.name for path in workdir.glob("checkpoints/seeds_*/*"))


def assert_same_bits(a, b):
    first, second = cgjax.load(a), cgjax.load(b)
    for x, y in zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params)):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert (a / "metrics.jsonl").read_text() == (b / "metrics.jsonl").read_text()


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_a_polite_signal_saves_and_exits_3(number, whole, tmp_path):
    workdir = tmp_path / "run"
    process = start(workdir, whole / "cache")
    assert wait_until(process, lambda: logged_steps(workdir) >= 20)
    process.send_signal(number)
    ends_with(process, 3, "saved at step")
    with pytest.raises(BadInput, match="not finished: it stands at step"):
        cgjax.load(workdir)
    assert cgjax.load(workdir, step="latest").step[0] >= 20
    finish(workdir, whole / "cache")
    assert_same_bits(whole / "run", workdir)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_compiling_ends_the_run(number, whole, tmp_path):
    workdir = tmp_path / "run"
    process = start(workdir, tmp_path / "empty cache")
    assert wait_until(process, lambda: "compiling" in said(workdir))
    process.send_signal(number)
    ends_with(process, 3, signal.Signals(number).name, "run the same command")
    finish(workdir, whole / "cache")
    assert_same_bits(whole / "run", workdir)


def test_a_signal_between_parts_and_while_drawing(whole, tmp_path):
    workdir, flags = tmp_path / "run", ("--config=sprites:smoke",)
    process = start(workdir, whole / "cache", flags)
    assert wait_until(process, lambda: "compositional: drawing" in said(workdir))
    process.send_signal(signal.SIGTERM)
    ends_with(process, 3, "SIGTERM", "run the same command")
    assert not (workdir / "monolithic/checkpoints").exists()
    process = start(workdir, whole / "cache", flags)
    assert wait_until(process, lambda: "monolithic: drawing" in said(workdir))
    process.send_signal(signal.SIGINT)
    ends_with(process, 3, "SIGINT")
    finish(workdir, whole / "cache", flags)
    assert (workdir / "results.json").exists() and list((workdir / "figures").glob("*.png"))


def test_a_live_run_can_be_read_and_is_left_alone(whole, tmp_path):
    workdir = tmp_path / "run"
    process = start(workdir, whole / "cache")
    assert wait_until(process, lambda: logged_steps(workdir) >= 20)
    seen = []
    while process.poll() is None:
        try:
            seen.append(int(cgjax.load(workdir, step="latest").step[0]))
        except BadInput as error:  # before the first, or between two: said, not hidden
            assert "no checkpoint yet" in str(error) or "changes while" in str(error)
    process.communicate()  # closes its pipes
    assert process.returncode == 0 and len(seen) > 1 and seen == sorted(seen)
    assert_same_bits(whole / "run", workdir)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own that can be full: `small_disk(kilobytes)` sets its size."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(kilobytes, *options):
        words = ["mount", "-t", "tmpfs", "-o", ",".join((*options, f"size={kilobytes}k"))]
        return subprocess.run([*words, "tmpfs", str(place)], capture_output=True).returncode

    if mount(100):
        pytest.skip("mounting a small disk needs root")
    yield place, lambda kilobytes: mount(kilobytes, "remount")
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kilobytes", [4, 24, 60, 120, 180, 260, 340])
def test_a_full_disk_is_one_line_and_loses_nothing(kilobytes, small_disk, whole):
    place, resize = small_disk
    resize(kilobytes)
    out = place.parent / "run.out"
    environment = {**os.environ, "XLA_FLAGS": "", "CGJAX_CACHE": str(whole / "cache")}
    command = [sys.executable, "-m", "cgjax.main", *FLAGS, f"--workdir={place / 'run'}"]
    with open(out, "w") as handle:
        process = subprocess.Popen(command, env=environment, stdout=handle, stderr=subprocess.PIPE)
        ends_with(process, 2, "No space left on device", "run the same command again")
        assert resize(50_000) == 0
        process = subprocess.Popen(command, env=environment, stdout=handle, stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()[-2000:]
    assert_same_bits(whole / "run", place / "run")
