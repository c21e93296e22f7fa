"""launch/local.sh with real processes: one is killed, the launcher reports it, the run resumes."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import processes
import pytest
import victim
from victim import assert_same_bits, newest

pytestmark = pytest.mark.faults
LOCAL = pathlib.Path(__file__).parents[2] / "launch/local.sh"
TIMEOUT_S = 5
TWO_DEVICES = "--xla_force_host_platform_device_count=2"


def environment(lab) -> dict:
    return {
        **os.environ,
        **processes.ENVIRONMENT,
        "PYTHON": sys.executable,
        "CGJAX_CACHE": str(lab / "cache"),
    }


def launch(workdir, lab, flags=victim.FLAGS) -> subprocess.Popen:
    words = ["--grace=60", "--", *flags, f"--host_timeout={TIMEOUT_S}", f"--workdir={workdir}"]
    return subprocess.Popen(
        [LOCAL, *words],
        cwd=lab,
        env=environment(lab),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def host(launcher: subprocess.Popen, index: int) -> int:
    """The process id of one of its hosts."""
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            parent = int(re.search(r"\) \S (\d+)", (path / "stat").read_text())[1])
        except OSError:  # it has ended
            continue
        if parent == launcher.pid and f"--host={index}".encode() in words:
            return int(path.name)
    raise AssertionError(f"host {index} does not run")


def lose(index: int, workdir, lab) -> None:
    """Starts two processes, kills one after a new save, and reads what the launcher says."""
    before, launcher = newest(workdir), launch(workdir, lab)
    try:
        assert processes.wait_until(launcher, lambda: newest(workdir) > before), (
            launcher.stderr.read()
        )
        os.kill(host(launcher, index), signal.SIGKILL)
        began = time.monotonic()
        out, err = launcher.communicate(timeout=120)
    finally:
        launcher.terminate()
    assert time.monotonic() - began < TIMEOUT_S + 10  # the launcher looks every 0.2 s
    assert f"process {index} of 2: exit code 137 (ended by SIGKILL)" in out
    assert f"process {1 - index} of 2: exit code 5 (another process was lost)" in out
    assert "the same command goes on, with any number of processes" in out
    assert f"cgjax: host {index} is lost" in err
    assert launcher.returncode in (5, 137)  # whichever was seen first


@pytest.fixture(scope="module")
def alone(lab):
    """An uninterrupted run in one process with two devices."""
    running = victim.start(lab / "alone", lab, XLA_FLAGS=TWO_DEVICES)
    assert running.code() == 0, running.err
    return lab / "alone"


def test_a_killed_process_is_told_and_the_run_goes_on_with_two_and_with_one(lab, alone, tmp_path):
    workdir = tmp_path / "run"
    lose(1, workdir, lab)
    lose(0, workdir, lab)
    before, launcher = newest(workdir), launch(workdir, lab)  # two again; stopped kindly
    assert processes.wait_until(launcher, lambda: newest(workdir) > before)
    launcher.send_signal(signal.SIGTERM)
    out, err = launcher.communicate(timeout=120)
    assert launcher.returncode == 3 and out.count("exit code 3 (stopped and saved)") == 2, err
    saved = newest(workdir)
    running = victim.start(workdir, lab, XLA_FLAGS=TWO_DEVICES)  # a single process resumes it
    assert running.code() == 0, running.err
    assert f"resumed at step {saved:,}" in running.out
    assert_same_bits(alone, workdir)


@pytest.mark.slow
def test_two_processes_finish_a_row_with_its_figures(lab, tmp_path):
    """The numbers and figures of one process; everything is written once."""
    flags = ("--config=kernels:smoke",)
    running = victim.start(tmp_path / "one", lab, flags, XLA_FLAGS=TWO_DEVICES)
    assert running.code(900) == 0, running.err
    launcher = launch(tmp_path / "two", lab, flags)
    out, err = launcher.communicate(timeout=900)
    assert launcher.returncode == 0, err
    assert out.count("compiling…") == running.out.count("compiling…")
    for path in (tmp_path / "one").rglob("*"):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert other.exists() or "checkpoints" in path.parts, other
    assert (
        victim.results(tmp_path / "one")["metrics"] == victim.results(tmp_path / "two")["metrics"]
    )
