"""Runs tasks, each in its own process, with a bounded number of processes at a time."""

import collections
import os
import signal
import subprocess
import sys
import time

from cgjax.core import signals
from cgjax.core.logging import say
from cgjax.core.workdir import disk_errors
from cgjax.sweep.points import CLOSING, STOPPED, Point, Task, exit_code, logged, opening

POLL_S = 0.1
COMMAND = (sys.executable, "-m", "cgjax.main")
TOGETHER = (sys.executable, "-m", "cgjax.sweep.together")


class Child:
    """The process of one task; its output goes to the task's log."""

    def __init__(self, task: Task, more: list[str], environment: dict | None = None):
        self.task, self.started = task, time.monotonic()
        alone = len(task.points) == 1
        command = [*COMMAND, *task.points[0].arguments()] if alone else [*TOGETHER, str(task.file)]
        with disk_errors(task.log):
            task.log.parent.mkdir(parents=True, exist_ok=True)
            if not alone:
                task.file.write_text(task.describe())
            for log in {task.log, *(point.log for point in task.points)}:
                _append(log, opening(command))
            self.handle = open(task.log, "a")
        # Its own process group: a Ctrl-C on the terminal reaches it only once, through the sweep.
        self.process = subprocess.Popen(
            [*command, *more],
            stdin=subprocess.DEVNULL,
            stdout=self.handle,
            stderr=subprocess.STDOUT,
            process_group=0,
            env=environment,
        )

    def close(self) -> int:
        """Waits for the exit code and appends it to the logs; 128 + n for signal n."""
        code = self.process.wait()
        code = 128 - code if code < 0 else code
        self.handle.close()
        for log in {self.task.log, *(point.log for point in self.task.points)}:
            if exit_code(log) is None:  # a finished point of several has its exit code already
                _append(log, f"{CLOSING}{code}")
        return code

    def wait_unreaped(self) -> None:
        """Waits for the end but leaves the exit code for `close`; safe in a signal handler."""
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


def _append(log, line: str) -> None:
    with open(log, "a") as handle:
        print(line, file=handle)


def run_all(tasks: list[Task], jobs: int, more: list[str]) -> dict[str, int]:
    """{point's name: exit code}; after a signal, which is forwarded, no further task starts."""
    waiting, running, codes = collections.deque(tasks), [], {}
    total, started, forwarded = sum(len(task.points) for task in tasks), time.monotonic(), False
    with signals.patiently() as stop:
        try:
            while running or (waiting and not stop):
                while waiting and len(running) < jobs and not stop:
                    running.append(Child(waiting.popleft(), more))
                if stop and not forwarded:
                    n = sum(len(child.task.points) for child in running)
                    say(f"{stop.name}: waiting for {n} points to save")
                    for child in running:
                        child.process.send_signal(signal.Signals[stop.name])
                    forwarded = True
                for child in [child for child in running if child.process.poll() is not None]:
                    running.remove(child)
                    child.close()
                    for point in child.task.points:
                        codes[point.name] = exit_code(point.log)
                        left_s = (total - len(codes)) * (time.monotonic() - started) / len(codes)
                        _report(point, child.started, codes, total, left_s)
                time.sleep(POLL_S)
        finally:  # `running` is empty here except after a second Ctrl-C
            for child in running:
                child.process.kill()
                child.close()
    return codes


def _report(point: Point, started: float, codes: dict, total: int, left_s: float) -> None:
    code, seconds = codes[point.name], time.monotonic() - started
    status = "stopped" if code in STOPPED else f"failed ({code})" if code else "done"
    eta = f"  ETA {clock(left_s)}" if len(codes) < total else ""
    say(f"[{len(codes)}/{total}] {status}  {point.name}  {seconds:.0f} s{eta}")
    if status.startswith("failed"):
        say(f"    {logged(point).line}")


def clock(seconds: float) -> str:
    """`"1:05:09"`"""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
