"""Runs tasks, each in its own process: a bounded number at a time here, or jobs of a cluster."""

import collections
import os
import pathlib
import signal
import subprocess
import sys
import time

from cgjax.core import signals
from cgjax.core.errors import BadInput, first_line
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


# --- clusters -------------------------------------------------------------------------------------
# Through submitit: its local executor or Slurm.


# Seconds from the warning to the time-out: the current call ends, then a checkpoint is saved.
SAVE_S = 120
MOST_TIME_OUTS = 1000
MOST_GRACE_S = 900


class Job:
    """A callable for submitit: runs one task; at the time limit it saves and is queued again."""

    def __init__(self, task: Task, more: list[str], visible: str | None):
        # The config holds functions, which cannot be pickled: the process loads it again.
        points = tuple(point._replace(config=None) for point in task.points)
        self.task, self.more, self.visible = Task(points), more, visible
        self.child = None

    def __call__(self) -> int:
        environment = dict(os.environ)
        if self.visible is not None:  # the local executor hides all GPUs
            environment["CUDA_VISIBLE_DEVICES"] = self.visible
        elif os.environ.get("SUBMITIT_EXECUTOR") == "local":
            environment.pop("CUDA_VISIBLE_DEVICES", None)
        with signals.patiently() as stop:
            self.child, forwarded = Child(self.task, self.more, environment), False
            try:
                while self.child.process.poll() is None:
                    if stop and not forwarded:
                        self.child.process.send_signal(signal.Signals[stop.name])
                        forwarded = True
                    time.sleep(POLL_S)
            finally:
                code = self.child.close()
            if stop and os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
                # Slurm requeues a pre-empted job only if it is still running when the grace time
                # ends.
                time.sleep(MOST_GRACE_S)
        return code

    def checkpoint(self):
        """Called by submitit, in its signal handler, before a time-out or a pre-emption."""
        import submitit

        if self.child is not None and self.child.process.returncode is None:
            # The process stays a zombie until `close`, so its pid is not reused.
            os.kill(self.child.process.pid, signal.SIGTERM)
            self.child.wait_unreaped()
        return submitit.helpers.DelayedSubmission(Job(self.task, self.more, self.visible))


def submit(
    tasks: list[Task],
    cluster: str,
    jobs: int,
    minutes: int,
    more: list[str],
    slurm: dict,
    folder: pathlib.Path,
) -> None:
    """Submits every task; with "local" it waits until all end, at most `jobs` at once."""
    try:
        import submitit
    except ImportError:
        raise BadInput("--submit needs submitit: pip install 'cgjax[launch]'") from None
    try:
        limit = {f"{cluster}_max_num_timeout": MOST_TIME_OUTS}
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster, **limit)
        executor.update_parameters(name="cgjax", timeout_min=minutes)
        if cluster == "slurm":
            options = {f"slurm_{name}": value for name, value in slurm.items()}
            options = {"slurm_signal_delay_s": SAVE_S, "slurm_array_parallelism": jobs, **options}
            executor.update_parameters(**options)
    except (NameError, RuntimeError, TypeError, ValueError) as error:
        raise BadInput(f"submitit refuses --submit={cluster}: {first_line(error)}") from None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") if cluster == "local" else None
    calls = [Job(task, more, visible) for task in tasks]
    if cluster == "slurm":
        with executor.batch():  # one array
            submitted = [executor.submit(call) for call in calls]
        job_id = submitted[0].job_id.split("_")[0]
        say(f"submitted {len(submitted)} tasks as {job_id}; logs in {folder}")
        say("the same command with --dry_run prints their status")
        return
    _run_local(executor, calls, jobs)


def _run_local(executor, calls: list[Job], jobs: int) -> None:
    """Submits a task when another ends: submitit's local executor starts all tasks at once."""
    running, n_ended = [], 0
    with signals.patiently() as stop:
        try:
            for call in calls:
                while len(running) >= jobs and not stop:
                    running = [job for job in running if not job.done()]
                    time.sleep(POLL_S)
                if stop:
                    break
                running.append(executor.submit(call))
                n_ended = calls.index(call) + 1 - len(running)
                say(f"[{n_ended}/{len(calls)}] started  {call.task.name}")
            while any(not job.done() for job in running) and not stop:
                time.sleep(POLL_S)
        finally:
            if stop:
                _stop(running)


def _stop(running) -> None:
    for job in running:  # job_id is the pid of the process that forwards signals
        if not job.done():
            os.kill(int(job.job_id), signal.SIGTERM)
    while any(not job.done() for job in running):
        time.sleep(POLL_S)
