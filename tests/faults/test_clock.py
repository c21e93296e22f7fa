"""Two processes in one folder, and a clock that jumps: neither decides what a run believes."""

import datetime
import os
import random
import re
import signal
import time

import pytest
import victim
from processes import one_line, wait_until
from victim import assert_same_bits, newest

pytestmark = pytest.mark.faults
YEAR_S = 365 * 86400.0


def test_of_two_processes_in_one_workdir_one_runs(lab, tmp_path):
    """Both begin at once; then others come while it runs."""
    workdir = tmp_path / "run"
    both = [victim.start(workdir, lab) for _ in range(2)]
    assert wait_until(both[0], lambda: both[1].poll() is not None) or both[0].poll() == 2
    first, second = sorted(both, key=lambda one: one.poll() is not None)
    one_line(second, 2, f"in use by process {first.pid}", "choose another --workdir")
    assert first.poll() is None, "it ended before another could come"
    one_line(victim.start(workdir, lab), 2, f"in use by process {first.pid}")
    assert first.code() == 0, first.err
    assert_same_bits(lab / "whole", workdir)


def hop():
    """The clock of this process is decades ahead, and twenty years behind at every other look."""
    true, looks, moments = time.time, [0], random.Random(0)

    def now():
        looks[0] += 1
        return true() + (30 if looks[0] % 2 else -20) * YEAR_S + moments.uniform(-1e6, 1e6)

    class Hopping(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(now(), tz)

    time.time, time.time_ns = now, lambda: int(1e9 * now())
    datetime.datetime = Hopping


def test_a_clock_that_jumps_changes_nothing(lab, tmp_path):
    """Neither for the process, nor for the files: the newest checkpoint is that of most steps."""
    workdir, moments = tmp_path / "run", random.Random(1)
    running = victim.start(workdir, lab, before=hop)
    assert wait_until(running, lambda: newest(workdir) > 0)
    running.send(signal.SIGKILL)
    assert running.code() == -signal.SIGKILL
    saved = newest(workdir)
    for path in workdir.rglob("*"):
        when = time.time() + moments.choice((-40, 40)) * YEAR_S
        os.utime(path, (when, when))
    group = workdir / "checkpoints/seeds_0-1"
    for path in group.iterdir():  # the newest step looks oldest
        age = -30 if path.name == str(saved) else 30
        os.utime(path, (time.time() + age * YEAR_S,) * 2)
    running = victim.start(workdir, lab, before=hop)
    assert wait_until(running, lambda: newest(workdir) > saved)
    one_line(victim.start(workdir, lab, before=hop), 2, f"in use by process {running.pid}")
    assert running.code() == 0, running.err
    assert f"resumed at step {saved:,}" in running.out
    assert_same_bits(lab / "whole", workdir)
    for minutes in re.findall(r"ETA (-?\d+):", running.out):
        assert 0 <= int(minutes) < 60
    wall = victim.results(workdir)["wall_s"]
    assert 0 < wall < 600
