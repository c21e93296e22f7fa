"""Several hosts: who they are, what only host 0 does, and how one of them learns of another's end.

Every host runs the same program on the same config. Together they hold one ("seed", "data") mesh in
`core.train.fit`; what follows a training (scores, analyses, figures) each computes for itself, on
its own devices. Host 0 alone reads and writes the workdir: the others are told what it found, and
need not see its disk. Data files are another matter: each host reads its own copy.

A second connection, beside JAX's own, tells the hosts of each other's end (`Watch`). A host that
fails says why, and the others end with the same line and exit code; one that is killed, or silent
for longer than the time-out, ends them with exit code 5. What is not supported: going on without a
lost host (start the command again, with any number of hosts), `--profile` and `--debug_nans` on
other hosts than the first, and a time-out shorter than what Python code may take without a break.
A host 0 that is killed is also noticed by JAX, which ends the process with a core dump (exit code
134): ours is the quicker of the two as a rule, and not by contract.
"""

import atexit
import contextlib
import inspect
import logging
import os
import pickle
import re
import secrets
import socket
import sys
import threading
import time
from typing import NamedTuple

import jax
import numpy as np

from cgjax.core import signals
from cgjax.core.errors import BadInput, Lost, Preempted, RunError, first_line

GRACE_S = 5.0  # for a host to end by itself, after another has said that it ends
START_S = 300  # for all hosts to appear
KNOCK_S = 5  # for whoever connects to say who it is


class Hosts(NamedTuple):
    """Which of the hosts this process is."""

    coordinator: str | None  # "address:port" of host 0; None: JAX finds out
    count: int | None
    index: int | None
    timeout_s: float


# --- who takes part -------------------------------------------------------------------------------


def find(flags, environ=os.environ) -> Hosts | None:
    """The hosts that flags and environment ask for; None: this process alone.

    A scheduler's variables complete what was asked for and ask for nothing themselves: within its
    allocation a single process is a usual thing. CGJAX_DISTRIBUTED=1 asks by itself.
    """

    def given(name):
        value = getattr(flags, name)
        return value if value is not None else environ.get(f"CGJAX_{name.upper()}") or None

    coordinator, count, index = given("coordinator"), given("hosts"), given("host")
    timeout_s = _number("--host_timeout", given("host_timeout") or 60, least=1)
    explicit = (coordinator, count, index) != (None, None, None)
    if environ.get("CGJAX_DISTRIBUTED") != "1" and not explicit:
        return None
    if count is None:
        count = _scheduler(environ, "SLURM_NTASKS")
    if index is None:
        index = _scheduler(environ, "SLURM_PROCID", "JOB_COMPLETION_INDEX")
    if count is not None and _number("--hosts", count, least=1) == 1:
        return None
    coordinator = coordinator or environ.get("JAX_COORDINATOR_ADDRESS") or _first_node(environ)
    found = {"--coordinator": coordinator, "--hosts": count, "--host": index}
    missing = [name for name, value in found.items() if value is None]
    if missing and explicit:
        raise BadInput(f"{' and '.join(missing)} missing: several hosts need all of {_ALL}")
    if missing:  # JAX knows TPU pods, MPI and, with its package, Kubernetes
        return Hosts(None, None, None, timeout_s)
    count, index = _number("--hosts", count, least=1), _number("--host", index, least=0)
    if index >= count:
        raise BadInput(f"--host={index:g} of --hosts={count:g}: hosts are counted from 0")
    if not re.fullmatch(r"[^\s:]+:\d{1,5}|\[[0-9a-fA-F:.]+\]:\d{1,5}", coordinator):
        raise BadInput(f"--coordinator={coordinator}: give the address of host 0 and a free port, "
                       "such as node1:5500")  # fmt: skip
    return Hosts(coordinator, int(count), int(index), timeout_s)


_ALL = "--coordinator=address:port, --hosts=N and --host=i"


def _number(name: str, value, least: int) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number < 1e6 or (name != "--host_timeout" and number != int(number)):
        raise BadInput(f"{name}={value}: give a number of {least} or more")
    return number


def _scheduler(environ, *names) -> str | None:
    return next((environ[name] for name in names if environ.get(name)), None)


def _first_node(environ) -> str | None:
    """The first node of a Slurm step ("n[007-009,012],m1": n007), and a port of the job's own."""
    nodes = _scheduler(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    job = environ.get("SLURM_JOB_ID", "")
    if not nodes or not job.isdigit():
        return None
    prefix, number = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes).groups()
    return f"{prefix}{number or ''}:{20000 + int(job) % 10000}"


# --- joining and leaving --------------------------------------------------------------------------


@contextlib.contextmanager
def joined(found: Hosts | None):
    """Within the block this process is one of the hosts; without any, nothing happens here.

    Host 0 speaks for all; the others print errors alone.
    """
    if found is None:
        yield
        return
    _initialize(found)
    watch = Watch(found)
    with contextlib.ExitStack() as stack:
        if jax.process_index():
            stack.enter_context(contextlib.redirect_stdout(open(os.devnull, "w")))
            logging.getLogger("cgjax").setLevel(logging.ERROR)
        try:
            yield
        except RunError as error:
            watch.leave(error.exit_code, " ".join(str(error).split()))
            raise
        except KeyboardInterrupt:
            watch.leave(Preempted.exit_code, "SIGINT: stopped")
            raise
        except BaseException as error:
            # A lost host shows here first, as a failed transfer: the watch knows the reason.
            time.sleep(GRACE_S)
            watch.leave(1, first_line(error))
            raise
        watch.leave(0)


def _initialize(found: Hosts) -> None:
    """jax.distributed, before anything asks for a device."""
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    with contextlib.suppress(AttributeError):  # it would take SIGTERM away from us
        jax.config.update("jax_enable_preemption_service", False)
    known = inspect.signature(jax.distributed.initialize).parameters
    # JAX's own watch comes second: it ends a process without a word for the person who waits.
    options = {"initialization_timeout": START_S, "shutdown_timeout_seconds": int(found.timeout_s),
               "heartbeat_timeout_seconds": int(2 * found.timeout_s + 10)}  # fmt: skip
    options = {name: value for name, value in options.items() if name in known}
    try:
        jax.distributed.initialize(found.coordinator, found.count, found.index, **options)
    except (RuntimeError, ValueError) as error:
        raise BadInput(f"cannot join the other hosts: {first_line(error)}") from None


def several() -> bool:
    """Whether this process is one of several; asks for no device where it is not."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_writer() -> bool:
    """Host 0 writes; every host computes the same plan."""
    return not several() or jax.process_index() == 0


# --- what all agree on ----------------------------------------------------------------------------


def from_writer(found):
    """What `found()` returns on host 0, on every host; all of them must come here.

    Where it raises, host 0 leaves and its line ends the others.
    """
    if not several():
        return found()
    from jax.experimental import multihost_utils

    # Between processes of one command, which trust each other: nothing here was read from a file.
    text = pickle.dumps(found()) if is_writer() else b""
    # As bytes: numbers of 64 bits are cut in half on their way through a device.
    length = np.frombuffer(np.int64(len(text)).tobytes(), np.uint8)
    length = np.asarray(multihost_utils.broadcast_one_to_all(length)).view(np.int64).item()
    padded = np.zeros(1 << max(length - 1, 1).bit_length(), np.uint8)  # few shapes: few programs
    padded[: len(text)] = np.frombuffer(text, np.uint8)
    sent = np.asarray(multihost_utils.broadcast_one_to_all(padded))
    return pickle.loads(sent[:length].tobytes())


def meet() -> None:
    """Waits until every host is here."""
    from_writer(lambda: None)


class Agreed:
    """A stop signal that any host was sent, one call late: no device waits for a host."""

    def __init__(self, stop):
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self.stop, self.name, self.asked = stop, "", None
        mesh = Mesh(np.array(jax.devices()), ("device",))
        self.each = NamedSharding(mesh, PartitionSpec("device"))
        everywhere = NamedSharding(mesh, PartitionSpec())
        self.highest = jax.jit(lambda numbers: numbers.max(), out_shardings=everywhere)

    def __bool__(self):
        return bool(self.name)

    def poll(self) -> None:
        """Once after each call, by every host."""
        before, own = self.asked, np.array([self.stop.number], np.int32)
        numbers = jax.make_array_from_callback((jax.device_count(),), self.each, lambda _: own)
        self.asked = self.highest(numbers)
        if before is not None and (number := int(before.addressable_data(0))):
            self.name = signals.name_of(number)


def agreed(stop):
    """The signal flag of this process, or of all."""
    return Agreed(stop) if several() else stop


# --- the watch ------------------------------------------------------------------------------------


class Watch:
    """A line between host 0 and every other host; each says a word now and then.

    "alive"; "bye <exit code> <reason>"; "lost <host>", which host 0 tells the others.
    """

    def __init__(self, found: Hosts):
        self.timeout_s, self.index = found.timeout_s, jax.process_index()
        self.code = None  # of this process, once it leaves
        self.parted, self.gone = set(), set()  # hosts that said "bye 0"; whose line is closed
        self.lines = self._connect(found)
        for host, line in self.lines.items():
            threading.Thread(target=self._listen, args=(host, line), daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()
        atexit.register(self._exit)  # before JAX's own, which would wait for hosts that are gone

    def _connect(self, found: Hosts) -> dict[int, socket.socket]:
        server = socket.create_server(("", 0), backlog=512) if self.index == 0 else None
        address = (found.coordinator or "").rpartition(":")[0].strip("[]") or socket.gethostname()
        secret = secrets.token_hex(8)  # others may knock at the port, too
        address, port, secret = from_writer(lambda: (address, server.getsockname()[1], secret))
        if self.index:
            line = socket.create_connection((address, port), timeout=START_S)
            line.sendall(f"{secret} {self.index}\n".encode())
            return {0: line}
        names = {f"{secret} {host}": host for host in range(1, jax.process_count())}
        lines = {}
        server.settimeout(START_S)
        with server:
            while len(lines) < jax.process_count() - 1:
                line, _ = server.accept()
                line.settimeout(KNOCK_S)
                try:
                    word = line.recv(64).decode(errors="replace").strip()
                except OSError:
                    word = ""
                if word in names:
                    lines[names[word]] = line
                else:
                    line.close()
        return lines

    def leave(self, code: int, reason: str = "") -> None:
        """Says goodbye; after a run without fault, waits until everybody has."""
        self.code = code
        if code:
            self._send(f"bye {code} {reason}")
            return
        if self.index:
            self._send("bye 0")
        while self.lines.keys() - self.parted:
            time.sleep(0.02)
        if not self.index:
            self._send("bye 0")

    def _beat(self) -> None:
        while True:
            time.sleep(min(1.0, self.timeout_s / 4))
            self._send("alive")

    def _send(self, word: str) -> None:
        for line in self.lines.values():
            with contextlib.suppress(OSError):  # the listener meets the same end of the line
                line.sendall(f"{word}\n".encode())

    def _listen(self, host: int, line: socket.socket) -> None:
        line.settimeout(self.timeout_s)
        try:
            for words in line.makefile("r", errors="replace"):
                word, *rest = words.split(maxsplit=2)
                if word == "bye" and int(rest[0]):
                    self._follow(host, int(rest[0]), " ".join(rest[1:]).strip())
                elif word == "bye":
                    self.parted.add(host)
                elif word == "lost":
                    self._end(Lost.exit_code, _lost(int(rest[0])))
            why = "its connection closed"
        except TimeoutError:
            why = f"silent for {self.timeout_s:g} s"
        except OSError as error:
            why = first_line(error)
        self.gone.add(host)
        if host not in self.parted and not self.code:
            if not self.index:
                self._send(f"lost {host}")
            self._end(Lost.exit_code, _lost(host, why))

    def _follow(self, host: int, code: int, reason: str) -> None:
        """Another host has failed, or was stopped: so does this one, if it does not by itself."""
        deadline = time.monotonic() + GRACE_S
        while not self.code and time.monotonic() < deadline:
            time.sleep(0.02)
        if not self.code:
            if not self.index:
                self._send(f"bye {code} {reason}")
            self._end(code, f"host {host} has ended: {reason}")

    def _end(self, code: int, text: str) -> None:
        """Ends this process from a thread: the main one may wait for a host that is gone."""
        os.write(2, f"cgjax: {text}\n".encode())
        os._exit(code)

    def _exit(self) -> None:
        """After a fault, ends without JAX's farewell: it would wait for all hosts."""
        if not self.code:
            return
        deadline = time.monotonic() + GRACE_S + 1
        # JAX's service lives in host 0: the others leave first, or they are aborted.
        while not self.index and self.lines.keys() - self.gone and time.monotonic() < deadline:
            time.sleep(0.02)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.code)


def _lost(host: int, why: str = "") -> str:
    reason = f" ({why})" if why else ""
    return f"host {host} is lost{reason}: run the same command to go on from the last checkpoint"
