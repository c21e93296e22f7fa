"""The scripts of launch/: what they would start, and what they do when a process ends."""

import ast
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from front_door import write_family

LAUNCH = pathlib.Path(__file__).parents[1] / "launch"
SCRIPTS = sorted(LAUNCH.glob("*.sh"))
# Stands for Python: what each host does is in HOST_<i>; a sweep has six points.
FAKE = """#!/usr/bin/env bash
for word in "$@"; do
    [[ $word == --count ]] && echo 6
    [[ $word == --host=* ]] && host=${word#--host=}
done
name=HOST_${host:-}
trap 'exit 3' TERM
eval "${!name:-}"
"""


@pytest.fixture
def fake(tmp_path):
    path = tmp_path / "python"
    path.write_text(FAKE)
    path.chmod(0o755)
    return str(path)


def call(name, *words, python="python", **environment):
    return subprocess.run(
        [LAUNCH / name, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHON": python, **environment},
    )


def test_the_scripts_are_there():
    names = [path.name for path in SCRIPTS]
    assert names == [
        "local.sh",
        "sky_sweep.sh",
        "slurm_array.sh",
        "slurm_nodes.sh",
        "slurm_one_node.sh",
        "tpu_pod.sh",
    ]
    readme = (LAUNCH / "README.md").read_text()
    assert all(name in readme for name in [*names, "skypilot.yaml"])


def test_every_row_of_the_table_of_faults_names_its_tests():
    section = (LAUNCH / "README.md").read_text().partition("## Faults")[2]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    tests = LAUNCH.parent / "tests"
    for row in rows:
        fault, _, _, cell = row.strip("| ").split(" | ")
        names = re.findall(r"`([\w/]+\.py)::(\w+)`", cell)
        assert names, fault
        for path, name in names:
            tree = ast.parse((tests / path).read_text())
            found = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
            assert name in found, (fault, path, name)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shellcheck():
    found = subprocess.run(["shellcheck", *SCRIPTS], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_usage_and_refusal(path):
    usage = call(path.name, "--help")
    assert usage.returncode == 0 and f"launch/{path.name} [--dry-run]" in usage.stdout
    assert "SBATCH" not in usage.stdout and "set -" not in usage.stdout
    refused = call(path.name)
    assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
    assert refused.stderr.startswith(f"{path.name}: ")


def test_a_dry_run_prints_the_commands(fake):
    out = call(
        "slurm_array.sh",
        "--dry-run",
        "--at-once=2",
        "--time=60",
        "--",
        "--config=sprites:*,fast",
        "--sweep.optim.lr=1,2",
        python=fake,
    ).stdout
    assert shlex.split(out) == [
        "sbatch",
        "--export=ALL",
        "--array=0-5%2",
        "--time=60",
        str(LAUNCH / "slurm_array.sh"),
        "--config=sprites:*,fast",
        "--sweep.optim.lr=1,2",
    ]
    out = call("slurm_nodes.sh", "--dry-run", "--nodes=2", "--gpus=4", "--", "--config=x y").stdout
    assert shlex.split(out) == [
        "sbatch",
        "--export=ALL,CGJAX_IN_JOB=1",
        "--nodes=2",
        "--gres=gpu:4",
        "--ntasks-per-node=4",
        str(LAUNCH / "slurm_nodes.sh"),
        "--config=x y",
    ]
    out = call("local.sh", "--dry-run", "--processes=2", "--gpus", "--port=5", "--", "--config=x")
    hosts = [
        [
            "env",
            f"JAX_LOCAL_DEVICE_IDS={i}",
            "python",
            "-m",
            "cgjax.main",
            "--config=x",
            "--coordinator=localhost:5",
            "--hosts=2",
            f"--host={i}",
        ]
        for i in (0, 1)
    ]
    assert list(map(shlex.split, out.stdout.splitlines())) == hosts
    out = call("tpu_pod.sh", "--dry-run", "--name=n", "--zone=z", "--", "--config=a b").stdout
    *words, remote = shlex.split(out)
    assert words[-3:] == ["n", "--zone=z", "--worker=all"]
    shell, option, remote = shlex.split(remote.removeprefix("--command="))
    assert (shell, option) == ("bash", "-c")
    assert shlex.split(remote)[-4:] == ["python", "-m", "cgjax.main", "--config=a b"]
    out = call("tpu_pod.sh", "--dry-run", "--install", "--name=n", "--zone=z", "--", "--config=a")
    assert [line.split()[0] for line in out.stdout.splitlines()] == ["tar"] + 3 * ["gcloud"]


def test_a_dry_run_of_slurm_writes_nothing(tmp_path):
    out = call("slurm_one_node.sh", "--dry-run", "--cpus=3", "start", str(tmp_path / "s")).stdout
    assert "CPUs=3" in out and f"StateSaveLocation={tmp_path}/s/state" in out
    assert not list(tmp_path.iterdir())


def test_each_process_has_the_environment_and_the_data_folders(tmp_path):
    """Of local.sh, and of what the two scripts of Slurm run inside a job."""
    (tmp_path / "activate").write_text(f"export PATH={tmp_path}:$PATH\n")
    (tmp_path / "data").mkdir()
    programs = {
        "python": f'printf "%s\\n" "$CGJAX_DATA_DIR $CGJAX_RAW_DIR $*" >>{tmp_path}/seen',
        "srun": 'while [[ $1 == --* ]]; do shift; done; SLURM_PROCID=0 SLURM_LOCALID=0 exec "$@"',
        "squeue": "echo COMPLETING", "scontrol": "echo here",
        # Slurm runs a copy of the script in another folder, with the variables of the caller.
        "sbatch": f'while [[ $1 == --* ]]; do shift; done; cp "$1" {tmp_path}/copy; shift; '
                  f'CGJAX_IN_JOB=1 SLURM_ARRAY_TASK_ID=4 SLURM_JOB_ID=1 SLURM_JOB_NODELIST=here '
                  f'SLURM_NTASKS=1 bash {tmp_path}/copy "$@"',
    }  # fmt: skip
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python").write_text(
        (tmp_path / "python").read_text() + '[[ "$*" == *--count* ]] && echo 6; exit 0\n'
    )
    given = [f"--activate={tmp_path}/activate", f"--data={tmp_path}/data", f"--raw={tmp_path}"]
    slurm = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for name in ("local.sh", "slurm_array.sh", "slurm_nodes.sh"):
        (tmp_path / "seen").unlink(missing_ok=True)
        done = call(name, *given, "--", "--config=x", **({} if name == "local.sh" else slurm))
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / "seen").read_text().splitlines()
        assert all(line.startswith(f"{tmp_path}/data {tmp_path} -m cgjax.") for line in lines)
        assert len(lines) == 1 if name == "slurm_nodes.sh" else 2
        refused = call(name, "--data=/nowhere/at/all", "--", "--config=x")
        assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1
        assert "--data=/nowhere/at/all: there is no such" in refused.stderr


def heed_interrupts():
    """Tests that run in the background inherit a Ctrl-C that is ignored; bash cannot trap it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_reaches_the_run_on_every_worker_of_a_pod(fake, tmp_path):
    """gcloud stands for ssh to two workers, which are folders here."""
    gcloud = tmp_path / "gcloud"
    gcloud.write_text(f"""#!/usr/bin/env bash
command=${{@: -1}}
for worker in {tmp_path}/one {tmp_path}/two; do
    (cd $worker && exec bash -c "${{command#--command=}}") &
done
code=0
for child in $(jobs -p); do wait $child || code=$?; done
exit $code
""")
    gcloud.chmod(0o755)
    for worker in ("one", "two"):
        (tmp_path / worker / "cgjax").mkdir(parents=True)
        (tmp_path / worker / "cgjax/activate").write_text(f"export PATH={tmp_path}:$PATH\n")
    wait = "touch started; sleep 8 >/dev/null 2>&1 & wait"
    process = subprocess.Popen(
        [LAUNCH / "tpu_pod.sh", "--name=n", "--zone=z", "--activate=activate", "--", "--config=x"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOST_": wait},
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    started = [tmp_path / worker / "cgjax/started" for worker in ("one", "two")]
    until(lambda: all(path.exists() for path in started), 20)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == 3


def cloud_yaml():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((LAUNCH / "skypilot.yaml").read_text())


def test_the_cloud_yaml_can_be_read():
    found = cloud_yaml()
    assert {"resources", "setup", "run", "envs", "num_nodes"} <= set(found)
    assert subprocess.run(["bash", "-n"], input=found["run"], text=True).returncode == 0


def test_a_sweep_through_skypilot_is_a_job_for_each_point(fake, tmp_path):
    words = ["--config=sprites:diag*,fast", "--sweep.optim.lr=1e-3,3e-4"]
    out = call(
        "sky_sweep.sh",
        "--dry-run",
        "--bucket=b",
        "--data=/d",
        "--gpus=H100:1",
        "--",
        *words,
        python=fake,
    ).stdout
    commands = [shlex.split(line) for line in out.splitlines()]
    assert len(commands) == 6 and commands[3][:5] == [
        "sky",
        "jobs",
        "launch",
        "--yes",
        "--detach-run",
    ]
    environment = dict(
        word.split("=", 1) for flag, word in zip(commands[3], commands[3][1:]) if flag == "--env"
    )
    assert environment["INDEX"] == "3" and environment["BUCKET"] == "b"
    # The machine's commands, with a Python that prints its words.
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").write_text(f"export PATH={tmp_path}:$PATH\n")
    (tmp_path / "python").write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    run = cloud_yaml()["run"].replace("/runs", str(tmp_path / "bucket"))
    environment = {**os.environ, "RAW": "", **environment}
    done = subprocess.run(
        ["bash", "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["-m", "cgjax.sweep", *words, "--index=3"], done.stderr


def test_local_processes_end_together(fake):
    words = ("local.sh", "--processes=2", "--grace=1", "--", "--config=x")
    assert call(*words, python=fake).returncode == 0
    lost = call(*words, python=fake, HOST_0="sleep 8 >/dev/null 2>&1 & wait", HOST_1="exit 7")
    assert lost.returncode == 7 and "process 1 of 2: exit code 7" in lost.stdout
    assert "1 processes still run 1 s after one has failed: killed" in lost.stdout
    assert "process 0 of 2: exit code 137" in lost.stdout


def test_a_signal_reaches_every_local_process(fake, tmp_path):
    wait = f"touch {tmp_path}/$host; sleep 8 >/dev/null 2>&1 & wait"
    process = subprocess.Popen(
        [LAUNCH / "local.sh", "--", "--config=x"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHON": fake, "HOST_0": wait, "HOST_1": wait},
    )
    until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), 20)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 3 and out.count("exit code 3") == 2


def until(is_so, seconds: float):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


# --- a real Slurm ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("slurmctld"), reason="Slurm is not installed")
def test_slurm_preempts_queues_again_and_ends_with_the_same_bits(tmp_path):
    write_family(tmp_path, "slurmlab")
    environment = {
        **os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(LAUNCH.parent), "XLA_FLAGS": "",
        "SLURM_CONF": str(tmp_path / "slurm/slurm.conf"),
    }  # fmt: skip

    def run(*words):
        found = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    sweep = ["--config=slurmlab/config.py:few,smoke", "--sweep.optim.lr=1e-4,2e-5",
             "--config.train.steps=40000", "--config.checkpoint.every=400",
             "--no_figures"]  # fmt: skip
    run(sys.executable, "-m", "cgjax.sweep", *sweep, "--runs=whole", "--together=1")
    run(LAUNCH / "slurm_one_node.sh", "start", tmp_path / "slurm")
    try:
        run(LAUNCH / "slurm_array.sh", "--at-once=1", "--", *sweep, "--runs=parts")
        logs = [
            f"parts/sweeps/slurmlab.study/few-smoke/{path.name}"
            for path in sorted(tmp_path.glob("whole/**/*.log"))
        ]
        assert len(logs) == 2
        until(lambda: any("step 4/" in read(tmp_path / log) for log in logs), 120)
        run("sbatch", "-p", "high", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
        until(lambda: not run("squeue", "--noheader"), 400)
    finally:
        run(LAUNCH / "slurm_one_node.sh", "stop", tmp_path / "slurm")
    texts = [read(tmp_path / log) for log in logs]
    for text in texts + [read(path) for path in tmp_path.glob("slurm-*.out")]:
        print(text)  # for the record: -s
    assert sum("SIGTERM: saved at step" in text for text in texts) == 1
    assert all(text.endswith("exit code 0\n") for text in texts)
    for path in tmp_path.glob("whole/**/results.json"):
        other = tmp_path / "parts" / path.relative_to(tmp_path / "whole")
        assert metrics(path) == metrics(other)
        # Every step of the log, too.
        assert read(path.with_name("metrics.jsonl")) == read(other.with_name("metrics.jsonl"))


def read(path) -> str:
    return path.read_text() if path.exists() else ""


def metrics(path) -> dict:
    return json.loads(path.read_text())["metrics"]
