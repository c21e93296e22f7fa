"""Signals: inside the loop they wait, elsewhere they end the run, afterwards they are as before."""

import os
import signal
import sys
import threading
import time

import pytest

from cgjax.core import signals
from cgjax.core.errors import Preempted


def send(number=signal.SIGUSR1):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", signals.SIGNALS)
def test_the_loop_hears_of_a_signal_and_ends_in_its_own_time(number):
    done = []
    with signals.handled():  # as `main` does around the loop
        with pytest.raises(Preempted, match=signal.Signals(number).name):
            with signals.patiently() as stop:
                assert not stop
                send(number)
                assert stop and stop.name == signal.Signals(number).name
                done.append("the call that runs is finished")
    assert done


def test_what_the_loop_raises_is_not_replaced():
    with signals.handled(), pytest.raises(Preempted, match="saved at step 7"):
        with signals.patiently():
            send()
            raise Preempted("saved at step 7")


def test_outside_the_loop_a_signal_ends_the_run_at_once():
    with signals.handled(), pytest.raises(Preempted, match="run the same command"):
        send(signal.SIGTERM)
        pytest.fail("went on")


def test_a_signal_while_an_object_is_deleted_is_neither_lost_nor_printed(monkeypatch):
    """Python swallows what is raised there, and prints it."""

    class Dying:
        def __del__(self):
            send(signal.SIGTERM)

    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with signals.handled(), pytest.raises(Preempted, match="SIGTERM"):
        Dying()
        time.sleep(10)
        pytest.fail("went on")
    assert not printed


def test_the_second_interrupt_does_not_wait():
    with pytest.raises(KeyboardInterrupt):
        with signals.handled(), signals.patiently():
            send(signal.SIGINT)
            send(signal.SIGINT)


def test_old_handlers_come_back():
    before = [signal.getsignal(number) for number in signals.SIGNALS]
    with signals.handled(), signals.patiently():
        pass
    with pytest.raises(ValueError), signals.handled():
        raise ValueError
    assert [signal.getsignal(number) for number in signals.SIGNALS] == before


def test_another_thread_leaves_handlers_alone():
    stops = []

    def work():
        with signals.patiently() as stop:
            stops.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert stops == [False]
