"""Signals: inside the loop they wait, elsewhere they end the run, afterwards they are as before."""

import concurrent.futures
import ctypes
import os
import pathlib
import signal
import socket
import sys
import threading
import time

import numpy as np
import pytest
import toy

from cgjax.core import checkpoint, signals, train
from cgjax.core.errors import Diverged, Preempted


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


def in_compiled_code(until, meanwhile=lambda: None):
    """Keeps this thread out of Python, where no handler runs, until `until()` is true."""
    library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)

    def release():
        time.sleep(0.1)  # by then this function's thread waits
        meanwhile()
        deadline = time.monotonic() + 20
        while not until() and time.monotonic() < deadline:
            time.sleep(0.01)
        library.pthread_mutex_unlock(mutex)

    library.pthread_mutex_lock(mutex)
    thread = threading.Thread(target=release)
    thread.start()
    library.pthread_mutex_lock(mutex)  # a second time: waits for the thread
    thread.join()
    assert until()


@pytest.fixture
def ends(monkeypatch):
    """How often the process would have been ended while the main thread did not answer."""
    ends = []
    monkeypatch.setattr(signals, "SILENT_S", 0.05)
    monkeypatch.setattr(signals, "FORCED_S", 0.2)
    monkeypatch.setattr(signals, "_end_at_once", lambda: ends.append(1))
    return ends


@pytest.mark.parametrize("number", signals.SIGNALS)
def test_a_signal_that_waits_for_compiled_code_is_announced(number, ends, monkeypatch):
    lines = []
    monkeypatch.setattr(signals, "_write_line", lines.append)
    with signals.handled(), pytest.raises(Preempted), signals.patiently() as stop:
        in_compiled_code(lambda: lines, lambda: send(number))
        assert stop
    name = signal.Signals(number).name
    assert lines == [
        f"{name}: stops when the current call or compilation ends; a second Ctrl-C ends the run "
        "without saving"
    ]
    assert not ends


def test_the_second_interrupt_does_not_wait_for_compiled_code(ends):
    def send_twice():
        send(signal.SIGINT)
        time.sleep(0.3)
        assert not ends
        send(signal.SIGINT)

    with signals.handled(), pytest.raises(Preempted), signals.patiently():
        in_compiled_code(lambda: ends, send_twice)


def test_the_second_interrupt_ends_a_process_whose_stderr_is_closed(monkeypatch):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    kept = os.dup(2)
    try:
        os.close(2)
        signals._end_at_once()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert codes == [Preempted.exit_code]


def test_signals_that_python_answers_end_nothing(ends, monkeypatch):
    lines = []
    monkeypatch.setattr(signals, "_write_line", lines.append)
    with pytest.raises(KeyboardInterrupt):
        with signals.handled(), signals.patiently():
            send(signal.SIGINT)
            time.sleep(0.4)
            send(signal.SIGINT)
    assert not ends and not lines


def test_a_library_that_receives_signals_goes_on_receiving_them():
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    with reader, writer:
        before = signal.set_wakeup_fd(writer.fileno())
        try:
            with signals.handled(), pytest.raises(Preempted), signals.patiently():
                send(signal.SIGTERM)
            assert reader.recv(1) == bytes([signal.SIGTERM])
            assert signal.set_wakeup_fd(writer.fileno()) == writer.fileno()
        finally:
            signal.set_wakeup_fd(before)


def test_old_handlers_come_back():
    before = [signal.getsignal(number) for number in signals.SIGNALS]
    with signals.handled(), signals.patiently():
        pass
    with pytest.raises(ValueError), signals.handled():
        raise ValueError
    assert [signal.getsignal(number) for number in signals.SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_another_thread_leaves_handlers_alone():
    stops = []

    def work():
        with signals.patiently() as stop:
            stops.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert stops == [False]


@pytest.mark.usefixtures("one_device")
# The failing model in the main thread, without checkpoints: sprites/test_run.
@pytest.mark.parametrize("in_main", ["healthy", pytest.param("diverging", marks=pytest.mark.slow)])
def test_a_model_beside_one_that_failed_saves_and_stops(in_main, tmp_path, monkeypatch):
    """Either may be the one in the main thread; the error is that of the model that failed."""
    settings = toy.config(seeds=(3,))
    experiments = {
        "healthy": toy.experiment(settings),
        "diverging": toy.experiment(settings, poison=3),
    }
    log_call = train.log_call
    (other,) = experiments.keys() - {in_main}

    def log_after_the_failure(members, *rest):
        deadline = time.monotonic() + 60
        while members[0].name == "healthy" and together.failure is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        log_call(members, *rest)

    def fit(name):
        return together.run(train.fit, experiments[name], settings, tmp_path / name, name)

    with concurrent.futures.ThreadPoolExecutor(1) as thread, monkeypatch.context() as patch:
        patch.setattr(train, "log_call", log_after_the_failure)
        with pytest.raises(Diverged, match="every replica turned non-finite by step"):
            with signals.stopping_together() as together:
                beside = thread.submit(fit, other)
                fit(in_main)
        assert isinstance(beside.exception(), Preempted if other == "healthy" else Diverged)
    (group,) = filter(pathlib.Path.is_dir, (tmp_path / "healthy/checkpoints").iterdir())
    assert 0 < checkpoint.steps(group)[0] < settings.train.steps
    resumed, _ = train.fit(experiments["healthy"], settings, tmp_path / "healthy", "healthy")
    whole, _ = train.fit(experiments["healthy"], settings, tmp_path / "whole", "healthy")
    np.testing.assert_array_equal(resumed.params["w"], whole.params["w"])


def test_a_failure_elsewhere_in_the_block_stops_its_trainings():
    def wait():
        with signals.patiently() as stop:
            while not stop:
                time.sleep(0.01)
            raise Preempted(stop.name)

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        with pytest.raises(ValueError, match="a figure"):
            with signals.stopping_together() as together:
                training = thread.submit(together.run, wait)
                raise ValueError("a figure")
        with pytest.raises(Preempted, match="another model of the run failed"):
            training.result(60)
    with signals.patiently() as stop:
        assert not stop


def test_a_signal_stops_all_trainings_of_a_group():
    def wait():
        with signals.patiently() as stop:
            waiting.set()
            while not stop:
                time.sleep(0.01)
            raise Preempted(stop.name)

    waiting = threading.Event()
    with signals.handled(), concurrent.futures.ThreadPoolExecutor(1) as thread:
        with pytest.raises(Preempted, match="SIGTERM"), signals.stopping_together() as together:
            training = thread.submit(together.run, wait)
            assert waiting.wait(60)
            send(signal.SIGTERM)
            training.result(60)
