"""What benchmarks share: the quickest of a few calls, and tables of what they found."""

import contextlib
import functools
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

from cgjax.core import program, train


def fastest(fn: Callable, repeats: int = 3) -> float:
    """Seconds of the quickest of a few calls after a first one; the results are waited for."""
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(fn())
        times.append(time.perf_counter() - started)
    return min(times)


def torch_seconds(loss: Callable, optimiser, on_gpu: bool) -> tuple[float, float]:
    """Seconds per optimiser step of a PyTorch loss without arguments: eager and torch.compile."""
    calls, steps = torch_calls(loss, optimiser, on_gpu)
    eager, compiled = (fastest(call) / steps for call in calls)
    return eager, compiled


def torch_calls(loss: Callable, optimiser, on_gpu: bool) -> tuple[tuple, int]:
    """Functions that make some optimiser steps of a PyTorch loss, eager and compiled; how many."""
    import torch

    steps = 20 if on_gpu else 2

    def call(loss):
        for _ in range(steps):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
        if on_gpu:
            torch.cuda.synchronize()

    return tuple(functools.partial(call, own) for own in (loss, torch.compile(loss))), steps


def table(title: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
    """Rows of text under their columns, the first one flush left."""
    shown = rich.table.Table(title=title, box=None, title_justify="left")
    for i, column in enumerate(columns):
        shown.add_column(column, justify="right" if i else "left")
    for row in rows:
        shown.add_row(*row)
    rich.console.Console(width=100).print(shown)


def ratios(title: str, unit: str, rows: dict) -> None:
    """A table of times by form: the first row is ours, the others are divided by it."""
    ours = next(iter(rows.values()))
    lines = [(name, f"{value:.3f}", f"{value / ours:.2f} x") for name, value in rows.items()]
    table(title, ("form", unit, "ours is faster by"), lines)


def seconds_per_step(experiment: program.Experiment, config, steps: int) -> float:
    """Of all replicas, in the loop's own compiled call of so many steps; changes config.train."""
    return fastest(step_call(experiment, config, steps)) / steps


def step_call(experiment: program.Experiment, config, steps: int) -> Callable:
    """That call, compiled, as a function without arguments that goes on with its state."""
    config.train.update({"steps": steps, "steps_per_call": steps, "log_every": steps})
    set_up = program.SetUp(experiment, config)
    held = {"state": set_up.init()}
    data = set_up.data()
    rows = train.Plan(experiment, set_up.keys, steps, set_up.place).rows(0)
    call = set_up.compile_call(held["state"], data, rows)

    def once():
        held["state"], stats = call(held["state"], data, rows)
        jax.block_until_ready(stats)

    return once


# --- benchmarks whose ways each have a process of their own: they compile at once, and run in turn-
# A process answers each line that it reads with one line of JSON; the first answer says that it has
# compiled. One that takes too long is ended, and its answer is a few words instead.


LIMIT_S = 100  # of one answer


class Asked:
    """A process that runs `code`, and answers when it is asked."""

    def __init__(self, code: str, env: dict | None = None):
        root = str(pathlib.Path(__file__).parents[2])
        env = os.environ | (env or {})
        env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH")])])
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], env=env, text=True, stdin=pipe, stdout=pipe,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._is_late = False

    def _too_late(self):
        self._is_late = True
        self._process.kill()

    def ask(self) -> None:
        """Asks for an answer."""
        self._timer = threading.Timer(LIMIT_S, self._too_late)
        self._timer.start()
        with contextlib.suppress(BrokenPipeError):  # it has died: the answer says so
            self._process.stdin.write("\n")
            self._process.stdin.flush()

    def answer(self, show: Callable = lambda line: None) -> dict | str:
        """The next answer; show: what to do with other lines."""
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
        """Asks no more, which ends the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self) -> None:
        """Leaves the process, and waits until it has ended."""
        self.leave()
        self._process.wait()
        self._process.stdout.close()


def answers(work: Callable) -> None:
    """In the process: an answer, as `work()` gives it, for each line that comes in."""
    for _ in sys.stdin:
        print(json.dumps(work()), flush=True)
