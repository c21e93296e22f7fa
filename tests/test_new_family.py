"""The README's way to add a family, typed in a folder outside the package and run from there."""

import importlib
import json
import pathlib
import re
import shutil

import jax
import numpy as np
import pytest
from front_door import blocks, one_line, write_family

import cgjax
from cgjax.main import main
from cgjax.report.__main__ import main as report_main


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices()[:1])
    return tmp_path


def test_the_family_of_the_readme_lists_runs_and_opens(here, capsys):
    assert len(blocks()[0].splitlines()) <= 54
    config = write_family(here, "mylab")
    assert main(["--list=mylab/"]) == 0
    out = capsys.readouterr().out
    assert "--config=mylab/config.py:<row>" in out and "few   A line from 16 points  [mse 0]" in out
    assert main([f"--config={config}:few,smoke", "--config.train.seeds=3,5"]) == 0
    out = capsys.readouterr().out
    assert "mylab.study · few-smoke · seeds 3, 5 → runs/mylab.study/few-smoke" in out
    workdir = here / "runs/mylab.study/few-smoke"
    results = json.loads((workdir / "results.json").read_text())
    assert results["metrics"]["mse"]["seeds"] == [3, 5] and results["figures"] == ["mse.png"]
    assert results["arrays"] == ["mse"] and (workdir / "arrays.npz").exists()
    run = cgjax.load(workdir)
    assert np.asarray(run.params["w"]).shape == (2, 3) and list(run.step) == [12, 12]
    params = jax.tree.map(lambda leaf: leaf[0], run.params)
    assert run.predict(params, np.ones((4, 3))).shape == (4,)


def test_a_dry_run_of_a_family_without_a_plan_does_not_say_that_nothing_is_trained(here, capsys):
    config = write_family(here, "planlesslab")
    assert main([f"--config={config}:few,smoke", "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "nothing is trained" not in out
    assert "not known, because family 'planlesslab.study' has no plan(config)" in out
    assert main(["--config=support:smoke", "--dry_run"]) == 0
    assert "nothing is trained" in capsys.readouterr().out


def test_a_newcomer_s_family_of_two_parts(here, capsys):
    """Written by the README alone, unlike its own: one file, two parts, fresh samples."""
    made = pathlib.Path(__file__).parent / "newcomer"
    assert len((made / "parity.py").read_text().splitlines()) < 80
    shutil.copytree(made, here / "newcomer", ignore=shutil.ignore_patterns("__pycache__"))
    assert main(["--list=newcomer/"]) == 0
    out = capsys.readouterr().out
    assert "--config=newcomer/parity.py:<row>" in out
    assert "demo  A sum, a product  [1]" in out
    assert main(["--config=newcomer/parity.py:smoke", "--config.train.seeds=0,1"]) == 0
    *_, head, product, added, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["metric", "ours", "paper", "diff"]
    assert product.split() == "product/accuracy 1.0000 ± 0.0000 1.0000 +0.0000".split()
    assert added.split()[0] == "sum/accuracy" and " 0.5000 " in added
    assert last.endswith("numbers in runs/newcomer.parity/demo-smoke/results.json")
    run = cgjax.load("runs/newcomer.parity/demo-smoke", "product")
    params = jax.tree.map(lambda leaf: leaf[1], run.params)
    assert run.predict(params, np.array([[1.0, -1.0]]))[0] < 0
    assert report_main(["--add", "runs/newcomer.parity/demo-smoke"]) == 0  # into ./record
    assert report_main(["--record=record"]) == 0
    out = capsys.readouterr().out
    assert "## newcomer.parity\n" in out and "beyond" not in out
    assert "| demo | smoke | product/accuracy | 1.000, 1.000 | 1.000 |" in out
    assert report_main(["--record=nowhere"]) == 2
    one_line(capsys, "'nowhere' holds no recorded run")


RETURNS = ', {"mse": mse}, {}\n'  # the second and third value of `run`
SLIPS = {
    "headline": ('("mse", "min")', '("r2", "max")', "headline 'r2' is not among"),
    "two values": (RETURNS, ", {}\n", "returned 2 values: it must return (metrics"),
    "a dict": ("def run(config", "def run(*_, **__):\n    return {}\n\n\ndef old(config",
               "returned dict: it must return (metrics, arrays, extra)"),
    "no entry": ("results.summary(mse[-1], config.train.seeds, published)", "float(mse[-1][0])",
                 "metric 'mse' of family 'LAB.study' is not an entry of results.json"),
    "no json": (RETURNS, ', {"mse": mse}, {"w": mse}\n', "are not json"),
    "objects": (RETURNS, ', {"mse": [fig, run]}, {}\n', "'mse' among the arrays"),
    "files": (RETURNS, ', {"mse": mse}, {"files": ["/tmp/a.csv"]}\n', "files in the workdir"),
    "loss": (", (extra, {})\n\n", "\n\n", "loss of the experiment returned"),
    "evaluate": ("** 2)}, {}),", "** 2)}),", "evaluate of the experiment returned dict"),
    "matrix": ('jnp.mean((d["x"] @ p["w"] - d["y"]) ** 2)', 'd["y"]', "'mse' of shape"),
    "init": ('({"w": jax.random.normal(key, (3,))}, {})', '{"w": jax.random.normal(key, (3,))}',
             "init of the experiment returned dict"),
    "no load": ("def load(", "def open(", "has no function load"),
    "no import": ("import numpy as np", "import numpyy as np", "No module named 'numpyy'"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_the_contract_is_one_line_and_leaves_nothing(slip, here, capsys):
    before, after, words = SLIPS[slip]
    lab = "lab_" + slip.replace(" ", "_")
    config = write_family(here, lab, lambda text: text.replace(before, after))
    assert main([f"--config={config}:few,smoke"]) == 2
    one_line(capsys, words.replace("LAB", lab))
    if slip in ("headline", "loss", "evaluate", "matrix", "init", "no load", "no import"):
        assert not (here / "runs").exists()


def test_a_file_without_descriptions_runs_and_does_not_hide_the_others(here, capsys):
    write_family(here, "lab_a")
    quiet = here / "lab_a/quiet.py"
    quiet.write_text(re.sub(r"\n\ndef describe_rows.*", "", blocks()[1], flags=re.S))
    (here / "lab_a/worse.py").write_text("def get_config(arg=''):\n    raise ValueError\n\n1 / 0\n")
    assert main(["--list=lab_a/"]) == 0
    out = capsys.readouterr().out
    assert "quiet.py: it has no describe_rows()" in out and "A line from 16 points" in out
    assert "worse.py', line 4: ZeroDivisionError" in out
    text = quiet.read_text().replace("mylab.study", "lab_a.study")
    quiet.write_text(text)
    assert main([f"--config={quiet}:few,smoke", "--dry_run"]) == 0
    assert "expected time: not known" in capsys.readouterr().out


def test_the_readme_names_what_there_is():
    text = pathlib.Path(cgjax.__file__).with_name("experiments").joinpath("README.md").read_text()
    for name in re.findall(r"`((?:core|published)\.\w+\.\w+)", text):
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(f"cgjax.{module}"), attribute), name
