"""Benchmarks whose ways each have a process of their own: they compile at once, and run in turns.

A process answers each line that it reads with one line of JSON; the first answer says that it has
compiled. One that takes too long is ended, and its answer is a few words instead.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable

LIMIT_S = 100  # of one answer


class Asked:
    """A process that runs `code`, and answers when it is asked."""

    def __init__(self, code: str, env: dict | None = None):
        root = str(pathlib.Path(__file__).parents[3])
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
