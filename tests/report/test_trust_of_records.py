"""What a record or a workdir says is not believed: its hash, its names, the code that it names."""

import contextlib
import json
import pathlib
import shutil
import sys

import pytest
from front_door import finish, one_line, snapshot

import cgjax
from cgjax import config as configs
from cgjax import report
from cgjax.core.errors import BadInput
from cgjax.published.results import summary
from cgjax.report.__main__ import main

ROW = "configs/sprites.py:diagonal,fast"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder where commands are typed; nothing beside it may change."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    package = {path: path.stat().st_mtime_ns for path in report.RECORD.rglob("*")}
    yield tmp_path / "here"
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert package == {path: path.stat().st_mtime_ns for path in report.RECORD.rglob("*")}


def run(folder, **names) -> pathlib.Path:
    config = configs.load(str(pathlib.Path(cgjax.__file__).parents[1] / ROW))
    with config.unlocked():
        config.update(names)
    return finish(folder, config, {"r2_all": summary([0.5], (0,), None)})


@pytest.mark.parametrize("change", [{"optim": {"lr": 0.5}}, {"size": "paper"}, {"row": "random"}])
def test_an_edited_config_is_neither_recorded_nor_loaded(change, here, capsys):
    workdir = run(here / "run")
    config = json.loads((workdir / "config.json").read_text())
    for name, value in change.items():
        config[name] = config[name] | value if isinstance(value, dict) else value
    (workdir / "config.json").write_text(json.dumps(config))
    assert main(["--add", "run"]) == 2
    one_line(capsys, "is not the config of results.json")
    with pytest.raises(BadInput, match="was changed since it was written"):
        cgjax.load(workdir)
    assert not (here / "record").exists()


def test_a_users_record_is_in_the_current_folder(here, capsys):
    run(here / "run")
    assert main(["--add", "run"]) == 0
    assert "wrote record/sprites/diagonal-fast.json" in capsys.readouterr().out
    entry = json.loads((here / "record/sprites/diagonal-fast.json").read_text())
    entry["config"]["optim"]["lr"] = 0.5
    (here / "record/sprites/diagonal-fast.json").write_text(json.dumps(entry))
    assert main(["--record=record"]) == 2
    one_line(capsys, "its config is not the one that config_hash names")


def test_a_foreign_family_breaks_nothing_and_is_not_imported(here, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(here))
    (here / "foreign.py").write_text("open('imported', 'w')\n")
    (here / "configs").mkdir()
    (here / "configs/foreign.py").write_text("open('imported', 'w')\n")
    for family in ("foreign", "sprites"):
        run(here / family, family=family)
        assert main(["--add", family]) == 0
    assert main(["--record=record"]) == main(["foreign", "--record=record", "--out=page"]) == 0
    assert "## foreign, beyond the paper" in capsys.readouterr().out
    assert not (here / "imported").exists() and "foreign" not in sys.modules
    # An entry of a known family that names another one.
    path = here / "record/sprites/diagonal-fast.json"
    shutil.copy(here / "record/foreign/diagonal-fast.json", path)
    assert main(["--record=record"]) == 2
    one_line(capsys, "is a run of foreign")


NAMES = ["../../../x", "/tmp/x", "a/b", "..", ".", "a\x00b", "a\nb", "-a", "x" * 300]


@pytest.mark.parametrize("field", ["family", "row", "size", "label", "parts"])
def test_every_name_that_becomes_a_path_has_one_pattern(field, here, capsys):
    workdir = run(here / "run")
    config = json.loads((workdir / "config.json").read_text())
    for name in NAMES + ["", 3, None] * (field in ("family", "row", "size")):
        changed = config | ({"parts": {name: {}}} if field == "parts" else {field: name})
        if field != "label":
            with contextlib.suppress(ValueError):  # a section's name has no dots
                finish(workdir, configs.from_json(json.dumps(changed)), {})
            (workdir / "config.json").write_text(json.dumps(changed))
            with pytest.raises(BadInput):
                cgjax.load(workdir)
        before = snapshot(here)
        assert main(["--add", "run", *([f"--label={name}"] * (field == "label"))]) == 2
        one_line(capsys)
        assert snapshot(here) == before
