"""From an empty folder, with an installed wheel: run, list, load, add a seed, extend, read some."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from front_door import snapshot, write_family

ROOT = pathlib.Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The wheel in a separate folder; all other packages come from this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder, ROOT], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", folder / "site", wheel], check=True)
    return folder / "site"


@pytest.fixture(scope="module")
def shell(installed, tmp_path_factory):
    """Runs a command in an empty folder: `shell(word, ...) -> (exit code, what was said)`."""
    here = tmp_path_factory.mktemp("empty")
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment |= {"PYTHONPATH": str(installed), "CGJAX_CACHE": str(here.parent / "cache")}

    def run(*words):
        words = [sys.executable, *words] if words[0] != "cgjax" else words
        words = [installed / "bin" / "cgjax", *words[1:]] if words[0] == "cgjax" else words
        done = subprocess.run(
            words,
            cwd=here,
            env=environment,
            text=True,
            timeout=600,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    run.folder = here
    return run


def test_the_wheel_is_what_runs_and_carries_its_data(shell, installed):
    code, said = shell("-c", "import cgjax; print(cgjax.__file__)")
    assert code == 0 and said.strip() == str(installed / "cgjax" / "__init__.py")
    for name in (
        "configs/sprites.py",
        "report/record/sprites/diagonal-fast.json",
        "report/figures/motivation.png",
        "analysis/lenses/benchmark.json",
        "experiments/README.md",
    ):
        assert (installed / "cgjax" / name).is_file(), name
    assert not (installed / "configs").exists() and not (installed / "tests").exists()


def test_list_help_and_dry_run(shell):
    code, said = shell("cgjax", "--list=sprites")
    assert code == 0 and "--config=sprites:<row>" in said and "orthogonal_star" in said
    code, said = shell("-m", "cgjax.main", "--config=sprites", "--help")
    assert code == 0 and "--config.train.steps=1000" in said
    code, said = shell("cgjax", "--config=configs/sprites.py:paper", "--dry_run")
    assert code == 0 and "compositional: 554,950 parameters" in said
    assert not list(shell.folder.iterdir())


def test_a_run_its_seeds_and_its_extension(shell):
    def results():
        path = shell.folder / "runs/vectors/mlp_random-smoke/results.json"
        return json.loads(path.read_text())["metrics"]["r2_all"]

    flags = ("cgjax", "--config=vectors:mlp_random,smoke")
    code, said = shell(*flags)
    assert code == 0 and "runs/vectors/mlp_random-smoke" in said, said
    first = results()["values"]
    code, said = shell(*flags, "--config.train.seeds=0,1", "--no_figures")
    assert code == 0 and results()["values"][:1] == first, said
    code, said = shell(*flags, "--config.train.seeds=0,1", "--config.train.steps=32")
    assert code == 2 and "--extend" in said and len(said.splitlines()) == 1
    longer = (*flags, "--config.train.seeds=0,1", "--config.train.steps=32")
    code, said = shell(*longer, "--extend")
    assert code == 0 and results()["seeds"] == [0, 1], said
    before = snapshot(shell.folder)
    code, said = shell(*flags, "--config.train.seeds=1", "--config.train.steps=32")
    assert code == 0 and "nothing was written" in said, said
    code, said = shell(*longer)
    assert code == 0 and "already finished" in said
    code, said = shell(
        "-c",
        "import cgjax; run = cgjax.load('runs/vectors/mlp_random-smoke'); "
        "print(run.step, run.params['dense_0']['kernel'].shape)",
    )
    assert code == 0 and said.startswith("[32 32] (2, "), said
    after = snapshot(shell.folder)
    assert {k: v for k, v in after.items() if not k.endswith(".lock")} == {
        k: v for k, v in before.items() if not k.endswith(".lock")
    }


def test_a_family_of_ones_own(shell):
    config = write_family(shell.folder, "ownlab")
    code, said = shell("cgjax", "--list=ownlab/")
    assert code == 0 and "A line from 16 points" in said
    code, said = shell("cgjax", f"--config={config}:few,smoke")
    assert code == 0 and "runs/ownlab.study/few-smoke/results.json" in said, said
    code, said = shell("-c", "import cgjax; print(cgjax.load('runs/ownlab.study/few-smoke').step)")
    assert code == 0 and said.strip() == "[12]"
