"""Signals: finish the call that runs, save, leave."""

import contextlib
import signal
import threading


class StopRequest:
    """True once SIGTERM or SIGUSR1 has arrived."""

    def __init__(self):
        self.name = ""

    def __bool__(self):
        return bool(self.name)


@contextlib.contextmanager
def stop_request(signals=(signal.SIGTERM, signal.SIGUSR1)):
    """Within the block the signals only set a flag; the old handlers come back afterwards."""
    request = StopRequest()
    # Only the main thread may install handlers; elsewhere (a notebook's worker) signals keep
    # their usual meaning.
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def remember(number, frame):
        request.name = signal.Signals(number).name

    previous = {number: signal.signal(number, remember) for number in signals}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
