"""Signals: finish the call that runs, save, leave.

Inside `patiently` (the training loop) a signal only sets a flag, which the loop reads after each
call. Anywhere else inside `handled` (between parts, after a compilation, while drawing) nothing is
under way that another start would not repeat: the run ends there and then.
"""

import contextlib
import os
import signal
import threading

from cgjax.core.errors import Preempted

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Stop:
    """True once a signal has asked this process to stop."""

    def __init__(self):
        self.number, self.waits = 0, 0

    @property
    def name(self) -> str:
        return name_of(self.number)

    def __bool__(self):
        return bool(self.number)

    def poll(self) -> None:
        """Nothing to ask: the signal handler has set the flag. See `hosts.Agreed`."""


def name_of(number: int) -> str:
    """ "SIGTERM" for 15; nothing for 0."""
    return signal.Signals(number).name if number else ""


_handled: Stop | None = None  # of the outermost `handled` block


@contextlib.contextmanager
def handled():
    """Within the block signals end the run with one line; old handlers come back afterwards."""
    global _handled
    # Only the main thread may install handlers; elsewhere (a notebook's worker) signals keep
    # their usual meaning.
    if _handled is not None or threading.current_thread() is not threading.main_thread():
        yield Stop() if _handled is None else _handled
        return
    stop = _handled = Stop()

    def receive(number, frame):
        if _is_finaliser(frame):  # what is raised there is swallowed: the signal comes again
            again = threading.Timer(0.01, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        asked_before = bool(stop)
        stop.number = number
        if asked_before and number == signal.SIGINT:
            raise KeyboardInterrupt  # the second Ctrl-C does not wait
        if not stop.waits:
            raise Preempted(_words(stop))

    previous = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        yield stop
    finally:
        _handled = None
        for number, handler in previous.items():
            signal.signal(number, handler)


def _is_finaliser(frame) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def patiently():
    """Within the block signals only set the flag it yields; the end of the block heeds it."""
    with handled() as stop:
        stop.waits += 1
        try:
            yield stop
        finally:
            stop.waits -= 1
        if stop and not stop.waits:
            raise Preempted(_words(stop))


def _words(stop: Stop) -> str:
    return f"{stop.name}: stopped; what was trained is saved, run the same command to go on"
