"""Runs points, each a process of its own, a bounded number at a time."""

import collections
import os
import signal
import subprocess
import sys
import time

from cgjax.core import signals
from cgjax.core.logging import say
from cgjax.core.workdir import disk_errors
from cgjax.sweep.points import CLOSING, STOPPED, Point, logged, opening

POLL_S = 0.1
COMMAND = (sys.executable, "-m", "cgjax.main")


class Child:
    """The process of one point; what it says goes to the point's log."""

    def __init__(self, point: Point, more: list[str], environment: dict | None = None):
        self.point, self.started = point, time.monotonic()
        with disk_errors(point.log):
            point.log.parent.mkdir(parents=True, exist_ok=True)
            self.handle = open(point.log, "a")
            print(opening(point), file=self.handle, flush=True)
        # A group of its own: a Ctrl-C on the terminal reaches it once, through us.
        self.process = subprocess.Popen(
            [*COMMAND, *point.arguments(), *more],
            stdin=subprocess.DEVNULL, stdout=self.handle, stderr=subprocess.STDOUT,
            process_group=0, env=environment,
        )  # fmt: skip

    def close(self) -> int:
        """The exit code, also as the last line of the log; 128 + n for signal n."""
        code = self.process.wait()
        code = 128 - code if code < 0 else code
        with self.handle:
            print(f"{CLOSING}{code}", file=self.handle)
        return code

    def wait_unreaped(self) -> None:
        """Waits and leaves the exit code to `close`; safe in a signal handler."""
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


def run_all(points: list[Point], jobs: int, more: list[str]) -> dict[str, int]:
    """{point's name: exit code}; a signal is handed on, and what was not begun stays open."""
    waiting, running, codes = collections.deque(points), [], {}
    started, asked = time.monotonic(), False
    with signals.patiently() as stop:
        try:
            while running or (waiting and not stop):
                while waiting and len(running) < jobs and not stop:
                    running.append(Child(waiting.popleft(), more))
                if stop and not asked:
                    say(f"{stop.name}: waiting for {len(running)} points to save")
                    for child in running:
                        child.process.send_signal(signal.Signals[stop.name])
                    asked = True
                for child in [one for one in running if one.process.poll() is not None]:
                    running.remove(child)
                    codes[child.point.name] = child.close()
                    left = len(points) - len(codes)
                    _report(child, codes, len(points), left * (time.monotonic() - started))
                time.sleep(POLL_S)
        finally:  # empty, but for a second Ctrl-C
            for child in running:
                child.process.kill()
                child.close()
    return codes


def _report(child: Child, codes: dict, total: int, left_s: float) -> None:
    code, seconds = codes[child.point.name], time.monotonic() - child.started
    word = "stopped" if code in STOPPED else f"failed ({code})" if code else "done"
    eta = f"  ETA {clock(left_s / len(codes))}" if len(codes) < total else ""
    say(f"[{len(codes)}/{total}] {word}  {child.point.name}  {seconds:.0f} s{eta}")
    if word.startswith("failed"):
        say(f"    {logged(child.point).line}")


def clock(seconds: float) -> str:
    """`"1:05:09"`"""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
