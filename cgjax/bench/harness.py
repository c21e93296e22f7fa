"""Shared by all benchmarks: timers, tables, and processes that are timed in turn."""

import contextlib
import functools
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import jax
import rich.console
import rich.table

from cgjax.core import program
from cgjax.core.logging import passing


def fastest(fn: Callable, repeats: int = 3) -> float:
    """Seconds of the quickest of `repeats` calls, after a first call that compiles.

    A call ends when its results are computed.
    """
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(fn())
        times.append(time.perf_counter() - started)
    passing(f"measurement {next(_numbers)}: {min(times):.3g} s")
    return min(times)


_numbers = itertools.count(1)  # of the measurements of this process


def torch_seconds(loss: Callable, optimiser, on_gpu: bool) -> tuple[float, float]:
    """Seconds per optimiser step of a PyTorch loss without arguments: eager and torch.compile."""
    calls, steps = torch_calls(loss, optimiser, on_gpu)
    eager, compiled = (fastest(call) / steps for call in calls)
    return eager, compiled


def torch_calls(loss: Callable, optimiser, on_gpu: bool) -> tuple[tuple, int]:
    """Two functions that make optimiser steps, eager and compiled; the number of these steps."""
    import torch

    steps = 20 if on_gpu else 2

    def call(loss):
        for _ in range(steps):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        if on_gpu:
            torch.cuda.synchronize()

    return tuple(functools.partial(call, form) for form in (loss, torch.compile(loss))), steps


def table(title: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
    """Prints rows of text; the first column is aligned left, the others right."""
    printed = rich.table.Table(title=title, box=None, title_justify="left")
    for i, column in enumerate(columns):
        printed.add_column(column, justify="right" if i else "left")
    for row in rows:
        printed.add_row(*row)
    rich.console.Console(width=100).print(printed)


def ratios(title: str, unit: str, rows: dict) -> None:
    """Prints times by form {name: value}, and their ratios to the first one, which is ours."""
    ours = next(iter(rows.values()))
    lines = [(name, f"{value:.3f}", f"{value / ours:.2f} x") for name, value in rows.items()]
    table(title, ("form", unit, "ours is faster by"), lines)


def seconds_per_step(experiment: program.Experiment, config, steps: int) -> float:
    """Seconds per step of all replicas, in the loop's compiled call of `steps` steps.

    Changes config.train.
    """
    return fastest(step_call(experiment, config, steps)) / steps


def step_call(experiment: program.Experiment, config, steps: int) -> Callable:
    """The loop's compiled call as a function without arguments; each call continues training."""
    config.train.update({"steps": steps, "steps_per_call": steps, "log_every": steps})
    set_up = program.SetUp(experiment, config)
    current = {"state": set_up.init()}
    data = set_up.data()
    rows = set_up.plan.rows(0)
    call = set_up.compile_call(current["state"], data, rows)

    def train_call():
        current["state"], stats = call(current["state"], data, rows)
        jax.block_until_ready(stats)

    return train_call


# --- benchmarks with one process per form: all compile at the same time, then run in turn ---------
# A process answers each line on stdin with one line of JSON on stdout. Its first answer comes after
# compilation. A process that exceeds LIMIT_S is killed, and its answer is a short text instead.


LIMIT_S = 100  # seconds for one answer


class Asked:
    """A process that runs `code` and sends an answer after each `ask`."""

    def __init__(self, code: str, env: dict | None = None):
        root = str(pathlib.Path(__file__).parents[2])
        env = os.environ | (env or {})
        env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH")])])
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=env,
            text=True,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
        )
        self._is_late = False

    def _kill_late(self):
        self._is_late = True
        self._process.kill()

    def ask(self) -> None:
        """Requests an answer, and starts its time limit."""
        self._timer = threading.Timer(LIMIT_S, self._kill_late)
        self._timer.start()
        with contextlib.suppress(BrokenPipeError):  # the process is dead: `answer` reports it
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def answer(self, show: Callable = lambda line: None) -> dict | str:
        """Waits for the answer: its JSON object, or a text that says why there is none.

        show: called with every other line of stdout.
        """
        for line in self._process.stdout:
            if line.startswith("{"):
                self._timer.cancel()
                answer = json.loads(line)
                return answer.get("failed", answer)
            show(line.rstrip())
        code = self._process.wait()
        self._timer.cancel()
        if self._is_late:
            return f"over {LIMIT_S} s"
        return f"out of memory? (signal {-code})" if code < 0 else f"failed (exit {code})"

    def leave(self) -> None:
        """Closes stdin, so that the process ends."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        """Closes stdin and waits until the process has ended."""
        self.leave()
        self._process.wait()
        self._process.stdout.close()


def answers(work: Callable) -> None:
    """Runs in the process: prints `work()` as JSON for each line on stdin."""
    for _ in sys.stdin:
        print(json.dumps(work()), flush=True)
