"""Several hosts: their settings, the work that only host 0 does, and the detection of failures.

Every host runs the same program on the same config. In `core.train.fit` they share one
("seed", "data") mesh. After training, each host computes scores, analyses and figures on its own
devices. Only host 0 reads and writes the workdir; it sends the contents to the other hosts, so they
need no access to its disk. Data files are different: each host reads its own copy.

Commands that train nothing use this module too, so JAX is imported where it is needed.

`Watch` is a second connection between the hosts, in addition to JAX's own. If a host fails, it
sends the reason, and the others end with the same message and exit code. If a host is killed, or
silent for longer than the timeout, the others end with exit code 5. JAX also detects that host 0
was killed and then aborts the process with a core dump (exit code 134); `Watch` is usually faster,
but this is not guaranteed.

Not supported: continuing without a lost host (run the command again, with any number of hosts);
`--profile` and `--debug_nans` on hosts other than host 0; a timeout that is shorter than the
longest Python code that holds the interpreter without a break.
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

import numpy as np

from cgjax.core import signals
from cgjax.core.errors import BadInput, Lost, Preempted, RunError, first_line

GRACE_S = 5.0  # time for a host to end by itself after another host has ended
START_S = 300  # time for all hosts to connect
KNOCK_S = 5  # time for a new connection to identify itself


class Hosts(NamedTuple):
    """The hosts of a run, and the index of this process among them."""

    coordinator: str | None  # "address:port" of host 0; None: JAX detects it
    count: int | None
    index: int | None
    timeout_s: float


# --- settings -------------------------------------------------------------------------------------


def find(flags, environ=os.environ) -> Hosts | None:
    """The hosts that flags and environment variables request; None: a single process.

    A flag or CGJAX_DISTRIBUTED=1 requests several hosts. A scheduler's variables only fill in what
    is missing: they do not request several hosts, because a single process is common inside an
    allocation.
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
    settings = {"--coordinator": coordinator, "--hosts": count, "--host": index}
    missing = [name for name, value in settings.items() if value is None]
    if missing and explicit:
        raise BadInput(f"{' and '.join(missing)} missing: several hosts need all of {_ALL}")
    if missing:  # JAX detects TPU pods, MPI and, with its package, Kubernetes
        return Hosts(None, None, None, timeout_s)
    count, index = _number("--hosts", count, least=1), _number("--host", index, least=0)
    if index >= count:
        raise BadInput(f"--host={index:g} is not below --hosts={count:g}: hosts are counted from 0")
    if not re.fullmatch(r"[^\s:]+:\d{1,5}|\[[0-9a-fA-F:.]+\]:\d{1,5}", coordinator):
        raise BadInput(
            f"--coordinator={coordinator}: give the address of host 0 and a free port, "
            "such as node1:5500"
        )
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
    """The address of host 0 in a Slurm step: its first node, and a port derived from the job id.

    The first node of "n[007-009,012],m1" is n007.
    """
    nodes = _scheduler(environ, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    job = environ.get("SLURM_JOB_ID", "")
    if not nodes or not job.isdigit():
        return None
    prefix, number = re.match(r"([^,\[]+)(?:\[(\d+))?", nodes).groups()
    return f"{prefix}{number or ''}:{20000 + int(job) % 10000}"


# --- joining and leaving --------------------------------------------------------------------------


@contextlib.contextmanager
def joined(hosts: Hosts | None):
    """Within the block this process is one of the hosts; None: a single process, no effect.

    Host 0 prints for all; the other hosts print only errors.
    """
    if hosts is None:
        yield
        return
    _initialize(hosts)
    watch = Watch(hosts)
    with contextlib.ExitStack() as stack:
        if watch.index:
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
            # A lost host may show first as a failed transfer. The watch then ends this process
            # with the reason, within the grace time.
            time.sleep(GRACE_S)
            watch.leave(1, first_line(error))
            raise
        watch.leave(0)


def _initialize(hosts: Hosts) -> None:
    """Starts jax.distributed; must run before any access to a device."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    with contextlib.suppress(AttributeError):  # this service would take over SIGTERM
        jax.config.update("jax_enable_preemption_service", False)
    known = inspect.signature(jax.distributed.initialize).parameters
    # JAX's heartbeat ends a process without a message, so its timeout is longer than the watch's.
    options = {
        "initialization_timeout": START_S,
        "shutdown_timeout_seconds": int(hosts.timeout_s),
        "heartbeat_timeout_seconds": int(2 * hosts.timeout_s + 10),
    }
    options = {name: value for name, value in options.items() if name in known}
    try:
        jax.distributed.initialize(hosts.coordinator, hosts.count, hosts.index, **options)
    except (RuntimeError, ValueError) as error:
        raise BadInput(f"cannot join the other hosts: {first_line(error)}") from None


def several() -> bool:
    """Whether this process is one of several hosts; a single process initialises no device here."""
    jax = sys.modules.get("jax")  # a process without JAX is a single one
    return jax is not None and jax.distributed.is_initialized() and jax.process_count() > 1


def is_writer() -> bool:
    """Whether this process writes files: host 0, or a single process."""
    return not several() or sys.modules["jax"].process_index() == 0


# --- agreement between hosts ----------------------------------------------------------------------


def from_writer(compute):
    """Calls `compute()` on host 0 and returns its result on every host. All hosts must call this.

    If `compute` raises, host 0 ends, and its message ends the others.
    """
    if not several():
        return compute()
    from jax.experimental import multihost_utils

    # Pickle is safe here: the bytes come from another process of this command, never from a file.
    message = pickle.dumps(compute()) if is_writer() else b""
    # As bytes, because a device truncates 64-bit numbers to 32 bits.
    length = np.frombuffer(np.int64(len(message)).tobytes(), np.uint8)
    length = np.asarray(multihost_utils.broadcast_one_to_all(length)).view(np.int64).item()
    # A power of two, so that few different shapes are compiled.
    padded = np.zeros(1 << max(length - 1, 1).bit_length(), np.uint8)
    padded[: len(message)] = np.frombuffer(message, np.uint8)
    sent = np.asarray(multihost_utils.broadcast_one_to_all(padded))
    return pickle.loads(sent[:length].tobytes())


def meet() -> None:
    """A barrier: waits until every host has called this."""
    from_writer(lambda: None)


class Agreed:
    """True once any host has received a stop signal.

    All hosts see it at the same call, one call late, so that no device waits for a host.
    """

    def __init__(self, stop):
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self.stop, self.name, self.pending = stop, "", None
        mesh = Mesh(np.array(jax.devices()), ("device",))
        self.per_device = NamedSharding(mesh, PartitionSpec("device"))
        everywhere = NamedSharding(mesh, PartitionSpec())
        self.highest = jax.jit(lambda numbers: numbers.max(), out_shardings=everywhere)
        self.spread = lambda local: jax.make_array_from_callback(
            (jax.device_count(),), self.per_device, lambda _: local
        )

    def __bool__(self):
        return bool(self.name)

    def poll(self) -> None:
        """Every host calls this once after each call of training steps."""
        previous, local = self.pending, np.array([self.stop.number], np.int32)
        self.pending = self.highest(self.spread(local))
        if previous is not None and (number := int(previous.addressable_data(0))):
            self.name = signals.name_of(number)


def agreed(stop):
    """The stop flag of this process, or with several hosts the flag that they agree on."""
    return Agreed(stop) if several() else stop


# --- the watch ------------------------------------------------------------------------------------


class Watch:
    """A connection between host 0 and every other host, with regular heartbeats.

    The messages are "alive"; "bye <exit code> <reason>"; and "lost <host>", from host 0 only.
    """

    def __init__(self, hosts: Hosts):
        import jax

        self.timeout_s = hosts.timeout_s
        self.index, self.count = jax.process_index(), jax.process_count()
        self.code = None  # exit code of this process, once it leaves
        self.parted, self.gone = set(), set()  # hosts that sent "bye 0"; hosts that disconnected
        self.lines = self._connect(hosts)
        for host, line in self.lines.items():
            threading.Thread(target=self._listen, args=(host, line), daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()
        atexit.register(self._exit)  # runs before JAX's handler, which would wait for lost hosts

    def _connect(self, hosts: Hosts) -> dict[int, socket.socket]:
        """The open sockets by host: host 0 has one to each other host, these have one to host 0."""
        server = socket.create_server(("", 0), backlog=512) if self.index == 0 else None
        address = (hosts.coordinator or "").rpartition(":")[0].strip("[]") or socket.gethostname()
        secret = secrets.token_hex(8)  # distinguishes the hosts from other programs on the network
        address, port, secret = from_writer(lambda: (address, server.getsockname()[1], secret))
        if self.index:
            line = socket.create_connection((address, port), timeout=START_S)
            line.sendall(f"{secret} {self.index}\n".encode())
            return {0: line}
        greetings = {f"{secret} {host}": host for host in range(1, self.count)}
        lines = {}
        server.settimeout(START_S)
        with server:
            while len(lines) < self.count - 1:
                line, _ = server.accept()
                line.settimeout(KNOCK_S)
                try:
                    greeting = line.recv(64).decode(errors="replace").strip()
                except OSError:
                    greeting = ""
                if greeting in greetings:
                    lines[greetings[greeting]] = line
                else:
                    line.close()
        return lines

    def leave(self, code: int, reason: str = "") -> None:
        """Sends "bye"; after a run without error, waits until every host has sent it."""
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

    def _send(self, message: str) -> None:
        for line in self.lines.values():
            with contextlib.suppress(OSError):  # `_listen` handles a closed connection
                line.sendall(f"{message}\n".encode())

    def _listen(self, host: int, line: socket.socket) -> None:
        line.settimeout(self.timeout_s)
        try:
            for message in line.makefile("r", errors="replace"):
                kind, *rest = message.split(maxsplit=2)
                if kind == "bye" and int(rest[0]):
                    self._follow(host, int(rest[0]), " ".join(rest[1:]).strip())
                elif kind == "bye":
                    self.parted.add(host)
                elif kind == "lost":
                    self._end(Lost.exit_code, _lost_message(int(rest[0])))
            cause = "its connection closed"
        except TimeoutError:
            cause = f"silent for {self.timeout_s:g} s"
        except OSError as error:
            cause = first_line(error)
        self.gone.add(host)
        if host not in self.parted and not self.code:
            if not self.index:
                self._send(f"lost {host}")
            self._end(Lost.exit_code, _lost_message(host, cause))

    def _follow(self, host: int, code: int, reason: str) -> None:
        """Ends this process because another host ended, unless it ends by itself in GRACE_S."""
        deadline = time.monotonic() + GRACE_S
        while not self.code and time.monotonic() < deadline:
            time.sleep(0.02)
        if not self.code:
            if not self.index:
                self._send(f"bye {code} {reason}")
            self._end(code, f"host {host} has ended: {reason}")

    def _end(self, code: int, message: str) -> None:
        """Ends this process from a thread: the main thread may be waiting for a lost host."""
        os.write(2, f"cgjax: {message}\n".encode())
        os._exit(code)

    def _exit(self) -> None:
        """After an error, exits without JAX's shutdown, which would wait for all hosts."""
        if not self.code:
            return
        deadline = time.monotonic() + GRACE_S + 1
        # Host 0 runs JAX's service: if it exited first, JAX would abort the other hosts.
        while not self.index and self.lines.keys() - self.gone and time.monotonic() < deadline:
            time.sleep(0.02)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(self.code)


def _lost_message(host: int, cause: str = "") -> str:
    reason = f" ({cause})" if cause else ""
    return f"host {host} is lost{reason}: run the same command to resume from the last checkpoint"
