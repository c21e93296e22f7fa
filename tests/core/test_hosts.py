"""Several hosts: who takes part, and that two processes make one run, whatever ends one of them."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import toy

import cgjax
from cgjax.core import hosts, parallel, signals, train
from cgjax.core.errors import BadInput

TIMEOUT_S = 4
GIVEN = {"coordinator": "node1:5500", "hosts": "4", "host": "2"}
SLURM = {"SLURM_JOB_ID": "120007", "SLURM_NTASKS": "8", "SLURM_PROCID": "5",
         "SLURM_STEP_NODELIST": "gpu[007-009,012],big1"}  # fmt: skip


def found(environ=(), **given):
    names = ("coordinator", "hosts", "host", "host_timeout")
    flags = argparse.Namespace(**dict.fromkeys(names) | given)
    return hosts.find(flags, dict(environ))


# --- who takes part -------------------------------------------------------------------------------


def test_nothing_asked_is_one_process_also_within_an_allocation():
    assert found() is None
    assert found(SLURM) is None
    assert found(hosts="1") is None


def test_hosts_by_flags_by_our_variables_and_by_the_schedulers():
    assert found(**GIVEN) == hosts.Hosts("node1:5500", 4, 2, 60)
    ours = {f"CGJAX_{name.upper()}": value for name, value in GIVEN.items()}
    assert found(ours, host="3", host_timeout="7.5") == hosts.Hosts("node1:5500", 4, 3, 7.5)
    slurm = found({**SLURM, "CGJAX_DISTRIBUTED": "1"})
    assert slurm == hosts.Hosts("gpu007:20007", 8, 5, 60)
    assert found(SLURM, coordinator="10.0.0.1:9") == hosts.Hosts("10.0.0.1:9", 8, 5, 60)
    indexed = {"JOB_COMPLETION_INDEX": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert found(indexed, coordinator="job-0.pods:5500", hosts="2").index == 1
    # Nothing but the wish: JAX looks for a TPU pod.
    assert found({"CGJAX_DISTRIBUTED": "1"}) == hosts.Hosts(None, None, None, 60)


@pytest.mark.parametrize("nodes, first", [("n1", "n1"), ("n1,n2", "n1"), ("a-b[3,5]", "a-b3")])
def test_the_first_node_of_a_slurm_step(nodes, first):
    environ = {**SLURM, "SLURM_STEP_NODELIST": nodes, "CGJAX_DISTRIBUTED": "1"}
    assert found(environ).coordinator == f"{first}:20007"


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"host": None}, "--host missing"),
        ({"host": "4"}, "counted from 0"),
        ({"host": "-1"}, "--host=-1"),
        ({"hosts": "two"}, "--hosts=two"),
        ({"hosts": "2.5"}, "--hosts=2.5"),
        ({"coordinator": "node1"}, "a free port"),
        ({"coordinator": "a b:1"}, "a free port"),
        ({"host_timeout": "0"}, "--host_timeout=0"),
        ({"host_timeout": "nan"}, "--host_timeout=nan"),
    ],
)
def test_bad_hosts_are_one_line(changed, words):
    with pytest.raises(BadInput, match=words):
        found(**GIVEN | changed)


def test_alone_nothing_is_sent():
    stop, value = signals.Stop(), object()
    assert hosts.agreed(stop) is stop
    assert hosts.from_writer(lambda: value) is value
    assert hosts.is_writer() and not hosts.several()
    with hosts.joined(None):
        pass
    state = {"w": jax.numpy.ones(2)}
    assert parallel.to_own(state) is state


def test_strangers_at_the_port_are_no_hosts(monkeypatch):
    answers, group = {}, hosts.Hosts("localhost:1", 2, None, 60)

    def from_first(own):
        return answers["it"] if "it" in answers else answers.setdefault("it", own())

    monkeypatch.setattr(hosts, "from_writer", from_first)
    monkeypatch.setattr(hosts, "KNOCK_S", 0.2)
    first, second = (object.__new__(hosts.Watch) for _ in range(2))
    first.index, second.index, first.count, second.count = 0, 1, 2, 2
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(first._connect, group)
        while "it" not in answers:
            time.sleep(0.01)
        for word in (b"1\n", "\u00b2".encode(), b"\xff" * 100, b"GET / HTTP/1.1\r\n", b""):
            with socket.create_connection(answers["it"][:2]) as stranger:
                stranger.sendall(word)
        silent = socket.create_connection(answers["it"][:2])
        ours = second._connect(group)[0]
        (theirs,) = waiting.result(timeout=10).values()
    assert theirs.getpeername() == ours.getsockname()
    for line in (silent, ours, theirs):
        line.close()


def test_devices_that_repeat_work_are_named(tmp_path, caplog):
    settings = toy.config(steps=2, seeds=(0, 1, 2, 3))
    settings.eval.every = settings.checkpoint.every = 2
    made = toy.experiment(settings)

    def batch(data, indices, key, step):
        raise BadInput("far enough")

    with pytest.raises(BadInput, match="far enough"):
        train.fit(made._replace(plan=None, batch=batch), settings, tmp_path)
    (line,) = [record.message for record in caplog.records if "repeat" in record.message]
    names = [str(device) for device in jax.devices()]
    assert all((name in line) == (i % 2 == 1) for i, name in enumerate(names))


# --- two processes --------------------------------------------------------------------------------


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


def start(folder: pathlib.Path, *words, n=2, devices=1, apart=False) -> list:
    """n processes of one toy run in folder/run; `apart`: they do not share a disk."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environ = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    environ["PYTHONPATH"] = str(pathlib.Path(cgjax.__file__).parents[1])
    toy_host = pathlib.Path(toy.__file__).with_name("toy_host.py")
    port, processes = free_port(), []
    for host in range(n):
        workdir = folder / (f"elsewhere-{host}" if apart and host else "run")
        command = [sys.executable, toy_host, workdir, folder / f"{host}.npz"]
        if n > 1:
            command += [f"--coordinator=localhost:{port}", f"--hosts={n}", f"--host={host}",
                        f"--host_timeout={TIMEOUT_S}"]  # fmt: skip
        processes.append(
            subprocess.Popen(
                [*map(str, command), *words],
                env=environ,
                text=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        )
    return processes


def ended(processes, timeout=120) -> list[tuple[int, list[str]]]:
    """Exit code and the lines on stderr, of each."""
    try:
        said = [process.communicate(timeout=timeout)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text.splitlines()) for process, text in zip(processes, said)]


def finish(folder, *words, **how) -> list[dict]:
    """What every host has at the end."""
    for code, lines in ended(processes := start(folder, *words, **how)):
        assert code == 0, lines
    return [dict(np.load(folder / f"{host}.npz")) for host in range(len(processes))]


def after_a_save(folder, processes) -> None:
    """Waits until a checkpoint is there, and a little more was trained."""
    deadline = time.monotonic() + 90
    while not any(path.name.isdigit() for path in (folder / "run").glob("checkpoints/*/*")):
        assert time.monotonic() < deadline and all(one.poll() is None for one in processes)
        time.sleep(0.02)
    time.sleep(0.1)


def same(one: dict, other: dict) -> None:
    assert all(np.array_equal(one[name], other[name]) for name in one)


LONG = "--steps=1600"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict:
    """The long run as one process with two devices gives it."""
    return finish(tmp_path_factory.mktemp("whole"), LONG, n=1, devices=2)[0]


@pytest.mark.faults
@pytest.mark.parametrize("seeds", ["0,1", "0"])
def test_two_hosts_give_the_losses_of_one_process(seeds, tmp_path):
    """Two seeds: one on each host. One seed: each batch is split, so that sums are reordered."""
    for name in ("two", "one"):
        (tmp_path / name).mkdir()
    first, second = finish(tmp_path / "two", f"--seeds={seeds}", apart=True)
    (alone,) = finish(tmp_path / "one", f"--seeds={seeds}", n=1)
    same(first, second)
    for name in alone:
        np.testing.assert_allclose(first[name], alone[name], rtol=2e-5, atol=1e-6)
    files = [path.relative_to(tmp_path / "two") for path in (tmp_path / "two").rglob("*")]
    assert not any("elsewhere-1" in path.parts for path in files)  # the second wrote nothing
    lines = (tmp_path / "two/run/metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines if '"train"' in line]
    assert steps == list(range(1, 41))  # every line once
    assert (tmp_path / "two/run/evals/40.npz").exists()


@pytest.mark.faults
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("goes_on", [1, 2])
def test_a_killed_host_ends_the_other_and_the_run_goes_on(victim, goes_on, tmp_path, whole):
    processes = start(tmp_path, LONG)
    after_a_save(tmp_path, processes)
    processes[victim].kill()
    began = time.monotonic()
    code, lines = ended(processes)[1 - victim]
    assert time.monotonic() - began < TIMEOUT_S
    assert code == 5 and f"host {victim} is lost" in lines[-1], (code, lines[-3:])
    same(finish(tmp_path, LONG, n=goes_on, devices=2 // goes_on)[0], whole)


@pytest.mark.faults
def test_a_silent_host_ends_the_other_within_the_timeout(tmp_path):
    processes = start(tmp_path, LONG)
    after_a_save(tmp_path, processes)
    processes[1].send_signal(signal.SIGSTOP)
    began = time.monotonic()
    ((code, lines),) = ended(processes[:1])
    assert time.monotonic() - began < TIMEOUT_S + 3
    processes[1].kill()
    ended(processes[1:])
    assert code == 5 and f"host 1 is lost (silent for {TIMEOUT_S} s)" in lines[-1]


@pytest.mark.faults
@pytest.mark.parametrize("asked", [0, 1])
def test_a_signal_to_one_host_saves_and_ends_both(asked, tmp_path, whole):
    processes = start(tmp_path, LONG)
    after_a_save(tmp_path, processes)
    processes[asked].send_signal(signal.SIGTERM)
    began = time.monotonic()
    for code, lines in ended(processes):
        assert code == 3 and "SIGTERM: saved at step" in lines[-1], lines
    assert time.monotonic() - began < 10
    same(finish(tmp_path, LONG)[0], whole)


@pytest.mark.faults
def test_what_one_process_began_two_hosts_finish(tmp_path, whole):
    processes = start(tmp_path, LONG, n=1, devices=2)
    after_a_save(tmp_path, processes)
    processes[0].send_signal(signal.SIGTERM)
    assert ended(processes)[0][0] == 3
    first, second = finish(tmp_path, LONG)
    same(first, whole)
    same(second, whole)


@pytest.mark.faults
def test_an_error_of_one_host_ends_both_with_its_line(tmp_path):
    (tmp_path / "run").write_text("a file where the folder should be")
    for code, lines in ended(start(tmp_path)):
        assert code == 2 and "cannot create workdir" in lines[-1], lines


@pytest.mark.faults
def test_divergence_ends_both(tmp_path):
    for code, lines in ended(start(tmp_path, "--seeds=0", "--poison=0")):
        assert code == 4 and "every replica turned non-finite" in lines[-1], lines
