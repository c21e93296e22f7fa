"""Submits tasks through submitit: to its local executor or to Slurm."""

import os
import pathlib
import signal
import time

from cgjax.core import signals
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import say
from cgjax.sweep.points import Task
from cgjax.sweep.processes import POLL_S, Child

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
