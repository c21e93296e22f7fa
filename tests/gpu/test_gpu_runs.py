"""Whole runs on a GPU: every family's smoke run beside a CPU's, kill and resume, a shared GPU.

Runs are processes, as users start them. All smoke runs start at once, so that the GPU is shared.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import victim

from cgjax import experiments

pytestmark = pytest.mark.gpu
# Smoke runs train for a few steps, so float32 products keep the results of both machines together:
# their distance stays below this share of a metric, or of 1 if the metric is smaller.
DISTANCE = 0.02
# Not compared: accuracies of 48 problems after two steps of Adam, which turn the rounding of a
# gradient near 0 into a whole step. Two CPU programs that add in another order differ by 0.06.
CHAOTIC = {"subnetworks": "bert/"}
GPU = {
    "JAX_PLATFORMS": "cuda,cpu",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
CPU = {"JAX_PLATFORMS": "cpu"}
EXACT = GPU | {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}
LONG = (
    "--config=bumps:smoke", "--parts=mlp", "--no_figures", "--config.parts.mlp.train.steps=1000",
    "--config.eval.every=20", "--config.checkpoint.every=20", "--config.train.steps_per_call=10",
)  # fmt: skip


def start(workdir, flags, environment, **options):
    """`python -m cgjax.main`; what it prints goes to <workdir>.txt."""
    # The packages of this process, wherever they are.
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "XLA_FLAGS": ""}
    environ["CGJAX_CACHE"] = str(workdir.parent / "cache")
    command = [sys.executable, "-m", "cgjax.main", *flags, f"--workdir={workdir}"]
    with open(f"{workdir}.txt", "w") as output:
        return subprocess.Popen(
            command,
            cwd=workdir.parent,
            env=os.environ | environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            **options,
        )


def finish(process, workdir):
    printed = pathlib.Path(f"{workdir}.txt")
    assert process.wait(400) == 0, printed.read_text()[-3000:]
    return printed.read_text()


@pytest.fixture(scope="module")
def smoke_runs(tmp_path_factory):
    """{(family, machine): process and workdir}, all started."""
    folder = tmp_path_factory.mktemp("smoke")
    runs = {}
    for family in experiments.FAMILIES:
        for machine, environment in {"gpu": GPU, "cpu": CPU}.items():
            workdir = folder / f"{family}-{machine}"
            flags = [f"--config={family}:smoke"] + ["--no_figures"] * (machine == "cpu")
            runs[family, machine] = start(workdir, flags, environment), workdir
    yield runs
    for process, _ in runs.values():
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.parametrize("family", experiments.FAMILIES)
def test_smoke_run_is_near_that_of_a_cpu(family, smoke_runs):
    printed = finish(*smoke_runs[family, "gpu"])
    assert "NVIDIA" in printed and "Warning" not in printed, printed
    finish(*smoke_runs[family, "cpu"])
    metrics = {
        machine: json.loads((smoke_runs[family, machine][1] / "results.json").read_text())[
            "metrics"
        ]
        for machine in ("gpu", "cpu")
    }
    # Tests of masks exist only if a mask removes something.
    missing = metrics["gpu"].keys() ^ metrics["cpu"].keys()
    assert all(": p of " in name for name in missing), missing
    far = {}
    for name in metrics["cpu"].keys() - missing:
        if family in CHAOTIC and name.startswith(CHAOTIC[family]):
            continue
        ours, theirs = (metrics[machine][name]["ours"] for machine in ("gpu", "cpu"))
        ours, theirs = (np.nan if value is None else value for value in (ours, theirs))
        if not (np.isnan(ours) and np.isnan(theirs)):
            if not abs(ours - theirs) <= DISTANCE * max(abs(theirs), 1):
                far[name] = (ours, theirs)
    assert not far, far


def test_killed_and_resumed_runs_have_the_same_bits(tmp_path):
    """Two runs share the GPU, one of them is killed three times after a checkpoint."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    beside = start(whole, LONG, EXACT)
    last = 0
    for _ in range(3):
        process = start(killed, LONG, EXACT)
        deadline = time.monotonic() + 200
        while process.poll() is None and victim.newest(killed) <= last:
            assert time.monotonic() < deadline, pathlib.Path(f"{killed}.txt").read_text()[-2000:]
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before it was killed"
        last = victim.newest(killed)
    finish(start(killed, LONG, EXACT), killed)
    finish(beside, whole)
    victim.assert_same_bits(whole, killed)


def test_two_processes_on_one_gpu_have_the_bits_of_one(tmp_path):
    first, second, alone = (tmp_path / name for name in ("first", "second", "alone"))
    both = [(start(workdir, LONG, EXACT), workdir) for workdir in (first, second)]
    for process, workdir in both:
        finish(process, workdir)
    finish(start(alone, LONG, EXACT), alone)
    for workdir in (first, second):
        victim.assert_same_bits(alone, workdir)
