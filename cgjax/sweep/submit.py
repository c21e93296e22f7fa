"""Hands tasks to submitit: its local executor on one machine, Slurm elsewhere."""

import os
import pathlib
import signal
import time

from cgjax.core import signals
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import say
from cgjax.sweep.points import Task
from cgjax.sweep.processes import POLL_S, Child

SAVE_S = 120  # from the warning to the time-out: the call that runs ends, then a checkpoint
MOST_TIME_OUTS = 1000
MOST_GRACE_S = 900


class Job:
    """What submitit runs: one task, which saves and is queued again when its time is over."""

    def __init__(self, task: Task, more: list[str], visible: str | None):
        # The config holds functions, which no pickle takes: the process reads it anew.
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
            self.child, asked = Child(self.task, self.more, environment), False
            try:
                while self.child.process.poll() is None:
                    if stop and not asked:
                        self.child.process.send_signal(signal.Signals[stop.name])
                        asked = True
                    time.sleep(POLL_S)
            finally:
                code = self.child.close()
            if stop and os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
                # Slurm queues a pre-empted job again if it is still there when its grace is over.
                time.sleep(MOST_GRACE_S)
        return code

    def checkpoint(self):
        """Called by submitit, in its signal handler, before a time-out or a pre-emption."""
        import submitit

        if self.child is not None and self.child.process.returncode is None:
            os.kill(self.child.process.pid, signal.SIGTERM)  # a zombie until `close`, never reused
            self.child.wait_unreaped()
        return submitit.helpers.DelayedSubmission(Job(self.task, self.more, self.visible))


def submit(tasks: list[Task], cluster: str, jobs: int, minutes: int, more: list[str],
           slurm: dict, folder: pathlib.Path) -> None:  # fmt: skip
    """Submits every task; on one machine it stays until they are done, at most `jobs` at once."""
    try:
        import submitit
    except ImportError:
        raise BadInput("--submit needs submitit: pip install 'cgjax[launch]'") from None
    try:
        limit = {f"{cluster}_max_num_timeout": MOST_TIME_OUTS}
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster, **limit)
        executor.update_parameters(name="cgjax", timeout_min=minutes)
        if cluster == "slurm":
            own = {f"slurm_{name}": value for name, value in slurm.items()}
            own = {"slurm_signal_delay_s": SAVE_S, "slurm_array_parallelism": jobs, **own}
            executor.update_parameters(**own)
    except (NameError, RuntimeError, TypeError, ValueError) as error:
        raise BadInput(f"submitit refuses --submit={cluster}: {first_line(error)}") from None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") if cluster == "local" else None
    calls = [Job(task, more, visible) for task in tasks]
    if cluster == "slurm":
        with executor.batch():  # one array
            found = [executor.submit(call) for call in calls]
        say(f"submitted {len(found)} tasks as {found[0].job_id.split('_')[0]}; logs in {folder}")
        say("the same command with --dry_run says how they stand")
        return
    _run_local(executor, calls, jobs)


def _run_local(executor, calls: list[Job], jobs: int) -> None:
    """submitit's local executor starts everything at once: hand it tasks as others end."""
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
    for job in running:  # its id is the process that hands signals on
        if not job.done():
            os.kill(int(job.job_id), signal.SIGTERM)
    while any(not job.done() for job in running):
        time.sleep(POLL_S)
