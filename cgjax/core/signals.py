"""Signals: the run finishes the current call, saves and exits.

Inside `patiently` (the training loop) a signal only sets a flag, which the loop reads after each
call. Elsewhere inside `handled` (between parts, after a compilation, during plotting) the run ends
at once: the next start repeats this work.

Python's handlers wait until the main thread leaves compiled code, for example a call of the
training or a compilation. Meanwhile a thread says that a signal has come, and a second Ctrl-C ends
the process.

Models of one run train in several threads. Inside `stopping_together` the failure of one sets the
flag of the others, too.
"""

import contextlib
import contextvars
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

from cgjax.core.errors import Preempted

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
SILENT_S = 1.0  # a signal that waits longer gets a message
FORCED_S = 3.0  # a second Ctrl-C ends the process if the main thread does not answer for so long


class Stop:
    """A flag that is True once this process has received a signal to stop."""

    def __init__(self):
        self.number, self.waits = 0, 0  # waits: trainings that read the flag
        self._lock = threading.Lock()  # of waits: models of one run train in several threads

    @property
    def name(self) -> str:
        return name_of(self.number)

    def __bool__(self):
        return bool(self.number)

    def count(self, change: int) -> None:
        """Adds to the number of trainings that read the flag."""
        with self._lock:
            self.waits += change

    def poll(self) -> None:
        """Does nothing: the signal handler sets the flag. `hosts.Agreed` combines several hosts."""


def name_of(number: int) -> str:
    """The name of a signal: "SIGTERM" for 15; "" for 0."""
    return signal.Signals(number).name if number else ""


_handled: Stop | None = None  # of the outermost `handled` block


@contextlib.contextmanager
def handled():
    """Within the block a signal raises Preempted; the end restores the previous handlers."""
    global _handled
    # Only the main thread may install handlers. In other threads (such as a notebook's worker)
    # the existing handlers stay.
    if _handled is not None or threading.current_thread() is not threading.main_thread():
        yield Stop() if _handled is None else _handled
        return
    stop, unanswered = Stop(), _Unanswered()
    _handled = stop

    def receive(number, frame):
        unanswered.answered = time.monotonic()
        if _is_finaliser(frame):  # Python ignores exceptions in __del__: send the signal again
            timer = threading.Timer(0.01, os.kill, (os.getpid(), number))
            timer.daemon = True
            timer.start()
            return
        is_repeated = bool(stop)
        stop.number = number
        if is_repeated and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C ends the run at once
        if not stop.waits:
            raise Preempted(_stop_message(stop))

    previous = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        with unanswered.watched():
            yield stop
    finally:
        _handled = None
        for number, handler in previous.items():
            signal.signal(number, handler)


def _is_finaliser(frame) -> bool:
    """Whether this frame runs inside a `__del__` method."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def patiently():
    """Within the block signals only set the flag it yields; its end raises Preempted if set."""
    with handled() as stop:
        stop.count(+1)
        together = _together.get()
        try:
            yield stop if together is None else Either(stop, together)
        finally:
            stop.count(-1)
        if stop and not stop.waits:
            raise Preempted(_stop_message(stop))


def _stop_message(stop: Stop) -> str:
    return f"{stop.name}: stopped; what was trained is saved, run the same command to resume"


# --- signals that the main thread does not answer -------------------------------------------------


class _Unanswered:
    """Receives signals in a thread while the main thread is in compiled code."""

    def __init__(self):
        self.answered = -math.inf  # when the main thread last ran a handler

    @contextlib.contextmanager
    def watched(self):
        """Receives the signals of the block, unless another library does (asyncio)."""
        reader, writer = socket.socketpair()
        with reader, writer:
            writer.setblocking(False)
            other = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
            if other >= 0:
                signal.set_wakeup_fd(other)
                yield
                return
            thread = threading.Thread(target=self._watch, args=(reader,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                signal.set_wakeup_fd(-1)
                writer.shutdown(socket.SHUT_WR)  # ends the thread
                thread.join()

    def _watch(self, reader: socket.socket) -> None:
        unanswered, n_interrupts, is_announced = [], 0, False  # unanswered: (time, number)
        while True:
            reader.settimeout(0.1 if unanswered else None)
            with contextlib.suppress(TimeoutError):
                numbers = reader.recv(64)
                if not numbers:
                    return
                unanswered += [(time.monotonic(), n) for n in numbers if n in SIGNALS]
                n_interrupts += numbers.count(signal.SIGINT)
            # A handler may run shortly before this thread reads the signal.
            unanswered = [(when, n) for when, n in unanswered if when > self.answered + 0.5]
            if not unanswered:
                continue
            since, number = unanswered[0]
            waited = time.monotonic() - since
            if n_interrupts > 1 and waited > FORCED_S:
                _end_at_once()
            if waited > SILENT_S and not is_announced:
                is_announced = True
                _write_line(
                    f"{name_of(number)}: stops when the current call or compilation ends; a second"
                    " Ctrl-C ends the run without saving"
                )


def _end_at_once() -> None:
    """Ends the process, whatever the main thread does: the last checkpoint is kept."""
    _write_line(
        "SIGINT: ended without saving; run the same command to go on from the last checkpoint"
    )
    os._exit(Preempted.exit_code)


def _write_line(text: str) -> None:
    """Writes to stderr past Python's locks, which the main thread may hold; not if it is closed."""
    over_progress = "\r\x1b[K" if os.isatty(2) else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{over_progress}cgjax: {text}\n".encode())


def _after_fork() -> None:
    """A forked process has the parent's handlers, but must not write into its socket."""
    if _handled is not None:
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=_after_fork)


# --- trainings that stop together -----------------------------------------------------------------


class Together:
    """Trainings in several threads: if one fails, the others save and stop."""

    def __init__(self):
        self.failure: BaseException | None = None  # the first one

    def run(self, train: Callable, *arguments):
        """`train(*arguments)` in this thread; its `patiently` blocks also read `failure`."""
        token = _together.set(self)
        try:
            return train(*arguments)
        except BaseException as error:
            self.fail(error)
            raise
        finally:
            _together.reset(token)

    def fail(self, error: BaseException) -> None:
        """Stops all trainings; the first error is kept, since the others follow from it."""
        if self.failure is None:
            self.failure = error


class Either:
    """A flag that is True after a signal, or once a training of the same group has failed."""

    def __init__(self, stop: Stop, together: Together):
        self.stop, self.together = stop, together

    @property
    def number(self) -> int:
        return self.stop.number

    @property
    def name(self) -> str:
        return self.stop.name or "another model of the run failed"

    def __bool__(self):
        return bool(self.stop) or self.together.failure is not None

    def poll(self) -> None:
        """Does nothing, as in `Stop`."""


_together: contextvars.ContextVar[Together | None] = contextvars.ContextVar(
    "together", default=None
)


@contextlib.contextmanager
def stopping_together():
    """Yields a `Together`, whose trainings also stop if the block itself fails.

    If the block was stopped by the failure of another thread, that failure is raised.
    """
    together = Together()
    try:
        yield together
    except BaseException as error:
        together.fail(error)
        if isinstance(error, Preempted):
            raise together.failure from None
        raise
