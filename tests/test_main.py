"""The command line: every kind of bad input is one line and exit code 2."""

import fcntl
import json

import pytest

import cgjax
from cgjax import config as configs
from cgjax.core.errors import BadInput
from cgjax.main import main

SPRITES = "--config=configs/sprites.py"


@pytest.fixture(scope="module")
def finished(tmp_path_factory, monkeypatch_module):
    """The smoke demonstration, run once through main."""
    workdir = tmp_path_factory.mktemp("run") / "demo"
    assert main([SPRITES + ":smoke", f"--workdir={workdir}"]) == 0
    return workdir


@pytest.fixture(scope="module")
def monkeypatch_module(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CGJAX_CACHE", str(tmp_path_factory.getbasetemp() / "xla-cache"))
        yield patch


def one_line(capsys, *words):
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1, error
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([SPRITES + ":orthogonal_stat"], ["unknown row", "orthogonal_star"]),
        ([SPRITES + ":diagonal,papr"], ["unknown size", "paper"]),
        ([SPRITES + ":smoke", "--config.train.step=5"], ["'train.step'", "'train.steps'"]),
        ([SPRITES + ":smoke", "--config.train.steps=many"], ["a whole number", "'many'"]),
        ([SPRITES + ":smoke", "--config.train.steps=1.5"], ["a whole number"]),
        ([SPRITES + ":smoke", "--config.optim.lr=fast"], ["a number"]),
        ([SPRITES + ":smoke", "--config.train.steps"], ["has no value"]),
        ([SPRITES + ":smoke", "--config.eval.every=5"], ["must divide eval.every=5"]),
        ([SPRITES + ":smoke", "--config.model.composition=addd"], ["composition 'addd'"]),
        (
            [SPRITES + ":smoke", "--config.data.delta=2.0", "--config.data.support=diagonal"],
            ["delta"],
        ),
        (["--config=configs/nothing.py"], ["no config file"]),
        ([], ["--config=configs/sprites.py"]),
        (["--confg=x"], ["unknown argument", "--config"]),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, words, tmp_path, capsys):
    with_workdir = [*arguments, f"--workdir={tmp_path / 'w'}"]
    assert main(with_workdir) == 2
    one_line(capsys, *words)


def test_workdir_below_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main([SPRITES + ":smoke", f"--workdir={tmp_path / 'file' / 'run'}"]) == 2
    one_line(capsys, "cannot create workdir")


def test_two_processes_in_one_workdir(tmp_path, capsys):
    with open(tmp_path / ".lock", "w") as handle:  # another open file excludes like a process
        handle.write("4711")
        handle.flush()
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert main([SPRITES + ":smoke", f"--workdir={tmp_path}"]) == 2
    one_line(capsys, "in use by process 4711")


def test_changed_config_is_refused_with_the_difference(finished, capsys):
    flags = [SPRITES + ":smoke", f"--workdir={finished}", "--config.optim.lr=0.5"]
    assert main(flags) == 2
    one_line(capsys, "optim.lr: 0.001 -> 0.5", "--force_resume")


def test_seeds_cannot_be_taken_away(finished, capsys):
    assert main([SPRITES + ":smoke", f"--workdir={finished}", "--config.train.seeds=7"]) == 2
    one_line(capsys, "seeds can be added, not taken away")


def test_outputs(finished):
    names = {path.name for path in finished.iterdir()}
    assert {"config.json", "env.json", "results.json", "arrays.npz", "figures"} <= names
    for part in ("compositional", "monolithic"):
        assert (finished / part / "metrics.jsonl").exists()
        assert (finished / part / "checkpoints").is_dir()
    assert len(list((finished / "figures").glob("*.png"))) >= 8
    results = json.loads((finished / "results.json").read_text())
    entry = results["metrics"]["compositional/r2_all"]
    assert set(entry) == {"ours", "sd", "values", "seeds", "paper", "paper_sd", "where"}
    assert entry["seeds"] == [0] and entry["paper"] == 0.9509
    assert results["config_hash"] and results["wall_s"] > 0 and results["versions"]["jax"]


def test_a_finished_run_says_so_and_prints_its_table(finished, capsys):
    assert main([SPRITES + ":smoke", f"--workdir={finished}"]) == 0
    out = capsys.readouterr().out
    assert "already finished" in out and "compositional/r2_all" in out and "0.9509" in out


def test_load_returns_a_predictor(finished):
    run = cgjax.load(finished, "compositional")
    import jax
    import numpy as np

    params = jax.tree.map(lambda leaf: leaf[0], run.params)
    images = run.predict(params, np.full((2, 10), 0.5, np.float32))
    assert images.shape == (2, 64, 64, 3) and bool(np.isfinite(images).all())
    with pytest.raises(BadInput, match="compositional, monolithic"):
        cgjax.load(finished)
    with pytest.raises(BadInput, match="holds no run"):
        cgjax.load(finished / "figures")


def test_list_names_every_row(capsys):
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    sprites = configs.load_file("configs/sprites.py")
    for row in sprites.ROWS | sprites.BEYOND:
        assert f"configs/sprites.py:{row} " in out.replace("  ", " ")
    assert "0.9509" in out


def test_override_types():
    config = configs.load(
        "configs/sprites.py:smoke",
        {"train.seeds": "(3, 4)", "optim.lr": "1", "model.form": "direct", "train.steps": "24"},
    )
    assert config.train.seeds == (3, 4) and config.optim.lr == 1.0 and config.train.steps == 24
    assert configs.load("configs/sprites.py:smoke", {"train.seeds": "5"}).train.seeds == (5,)


def test_config_survives_json():
    config = configs.load("configs/sprites.py:orthogonal_gap,paper")
    again = configs.from_json(configs.to_json(config))
    assert configs.differences(config, again) == []
    assert again.data.planes == config.data.planes
    assert configs.fingerprint(again) == configs.fingerprint(config)
