"""Two processes in one folder, and a clock that jumps: neither decides what a run believes."""

import datetime
import importlib
import itertools
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


def set_clock(offset) -> None:
    """From here on this process sees the time `offset()` seconds from now."""
    importlib.import_module("cgjax.run")  # its compiled packages need the real datetime
    true = time.time

    class Wrong(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

    time.time = lambda: true() + offset()
    time.time_ns = lambda: int(1e9 * time.time())
    datetime.datetime = Wrong


def unsteady():
    """Thirty years ahead, with a random offset of up to two minutes at every call."""
    moments = random.Random(0)
    set_clock(lambda: 30 * YEAR_S + moments.uniform(-120, 120))


def leap():
    """A jump of fifty years between any two looks."""
    looks = itertools.count()
    set_clock(lambda: (30 if next(looks) % 2 else -20) * YEAR_S)


def test_a_wrong_and_unsteady_clock_changes_nothing(lab, tmp_path):
    """Neither that of the process nor that of files: the newest checkpoint has most steps."""
    workdir, moments = tmp_path / "run", random.Random(1)
    running = victim.start(workdir, lab, before=unsteady)
    assert wait_until(running, lambda: newest(workdir) > 0)
    running.send(signal.SIGKILL)
    assert running.code() == -signal.SIGKILL
    saved = newest(workdir)
    for path in workdir.rglob("*"):
        # The newest step looks oldest.
        years = -45 if str(saved) in path.parts else moments.choice((-40, 40))
        os.utime(path, (time.time() + years * YEAR_S,) * 2)
    running = victim.start(workdir, lab, before=unsteady)
    assert wait_until(running, lambda: newest(workdir) > saved)
    one_line(victim.start(workdir, lab, before=leap), 2, f"in use by process {running.pid}")
    assert running.code() == 0, running.err
    assert f"resumed at step {saved:,}" in running.out
    assert_same_bits(lab / "whole", workdir)
    for minutes in re.findall(r"ETA (-?\d+):", running.out):
        assert 0 <= int(minutes) < 60
    assert 0 < victim.results(workdir)["wall_s"] < 600


def test_a_clock_that_leaps_during_a_save_costs_that_save(lab, tmp_path):
    """Orbax gives up what seems to take years; what was saved before stands."""
    workdir = tmp_path / "run"
    running = victim.start(workdir, lab)
    assert wait_until(running, lambda: newest(workdir) > 0)
    running.send(signal.SIGTERM)
    one_line(running, 3, "saved at step")
    saved = newest(workdir)
    one_line(victim.start(workdir, lab, before=leap), 2, "the clock was changed", "goes on from")
    running = victim.finish(workdir, lab)
    assert int(re.search(r"resumed at step ([\d,]+)", running.out)[1].replace(",", "")) >= saved
    assert_same_bits(lab / "whole", workdir)
