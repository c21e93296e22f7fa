"""Commands as separate processes, for tests that kill or disturb them.

They are forks of a server that has imported everything and has no device yet: that saves seconds
at every start.
"""

import contextlib
import multiprocessing
import os
import pathlib
import sys
import time

import cgjax

ROOT = pathlib.Path(cgjax.__file__).parents[1]
# What a process would otherwise take over from the tests: eight devices, and their cache.
ENVIRONMENT = {"XLA_FLAGS": "", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}


def _forks():
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["cgjax.main"])
    return found


FORKS = _forks()


def _work(module, words, said, here, environment, before) -> None:
    """In the new process: `python -m module words`, typed in the folder `here`."""
    os.environ.update(environment)
    os.chdir(here)
    # On every level: XLA and Orbax write past Python.
    for name, number in (("out", 1), ("err", 2)):
        handle = os.open(f"{said}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    sys.stdout, sys.stderr = open(1, "w"), open(2, "w", buffering=1)
    if before:
        before()
    main = __import__(module, fromlist=["main"]).main
    code = main(words)
    sys.stdout.flush()
    os._exit(code or 0)


class Running:
    """A forked command; what it says goes to <said>.out and <said>.err."""

    def __init__(self, module, words, said, here, environment, before):
        words, self.said = [str(word) for word in words], said
        arguments = (module, words, str(said), str(here), ENVIRONMENT | environment, before)
        self.process = FORKS.Process(target=_work, args=arguments)
        self.process.start()
        self.pid = self.process.pid

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        return self.process.exitcode

    def code(self, timeout: float = 300) -> int:
        """Waits; the exit code, negative for a signal."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
            raise AssertionError(f"it did not end within {timeout:g} s: {self.out[-500:]}")
        return self.process.exitcode

    @property
    def out(self) -> str:
        return _read(f"{self.said}.out")

    @property
    def err(self) -> str:
        return _read(f"{self.said}.err")


def _read(path) -> str:
    path = pathlib.Path(path)
    return path.read_text(errors="replace") if path.exists() else ""


def start(words, said, here=ROOT, module="cgjax.main", before=None, **environment) -> Running:
    """`python -m <module> <words>`, begun; environment variables by name.

    before: a function of a module, called first in the new process.
    """
    return Running(module, words, said, here, environment, before)


def one_line(running: Running, code: int, *words) -> str:
    """It ends with this exit code and one line on stderr with these words.

    Beside it there may be warnings, and the line of a signal that waits for a long call: whether a
    call is long depends on the machine.
    """
    found = running.code()
    lines = [
        line
        for line in running.err.splitlines()
        if not line.startswith("WARNING") and "stops when the current call" not in line
    ]
    assert found == code, (found, running.err[-2000:])
    assert len(lines) == 1 and lines[0].startswith("cgjax: "), lines
    assert all(word in lines[0] for word in words), lines
    return lines[0]


def wait_until(running, condition, seconds: float = 180) -> bool:
    """True once the condition holds, False where the process ended first."""
    deadline = time.monotonic() + seconds
    while running.poll() is None:
        if condition():
            return True
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.0005)
    return False
