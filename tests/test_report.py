"""The reproduction record: what goes in, and that the README shows what it holds."""

import json
import pathlib

import pytest

from cgjax import config as configs
from cgjax import report
from cgjax.core.errors import BadInput
from cgjax.core.logging import summary
from cgjax.report.__main__ import main


def test_a_finished_run_can_be_added(tmp_path):
    config = configs.load("configs/sprites.py:diagonal,fast")
    (tmp_path / "config.json").write_text(configs.to_json(config))
    published = {"mean": 0.9, "sd": 0.01, "where": "a table"}
    results = {"metrics": {"r2_all": summary([0.8, 0.9], (0, 1), published)}, "wall_s": 12.0}
    results |= {"devices": "1x test", "compositional": {"train_s": 11.0}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    path = report.add(tmp_path, record=tmp_path / "record", label="again")
    entry = json.loads(path.read_text())
    assert path.name == "diagonal-fast-again.json"
    assert entry["config"]["data"]["delta"] == 0.1 and entry["models"]["compositional"]
    table = report.headline_table("sprites", record=tmp_path / "record")
    assert "| diagonal (again) | fast | 0.800, 0.900 | 0.850 | 0.900 | -0.050 | 12 s |" in table
    assert report.by_row("sprites", "fast", "again", tmp_path / "record")["diagonal"]


def test_an_unfinished_run_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no finished run"):
        report.add(tmp_path)


def test_recorded_configs_are_still_known():
    """Keys may be added to a family; one that is gone would make a recorded run unrepeatable."""
    free = ("train.seeds", "model.dtype", "data.tasks", "data.distances")  # parts of a row
    for entry in report.entries("sprites") + report.entries("kernels"):
        path = f"configs/{entry['family']}.py"
        config = configs.load(f"{path}:{entry['row']},{entry['size']}")
        recorded = configs.from_json(json.dumps(entry["config"]))
        assert set(configs.keys(recorded)) <= set(configs.keys(config))
        changed = [
            line
            for line in configs.differences(recorded, config)
            if "(absent)" not in line and not line.startswith(free)
        ]
        assert not changed, (entry["row"], changed)


def test_the_readme_shows_the_record():
    readme = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
    assert report.headline_table("sprites") in readme
    assert report.metric_table("kernels", ("slope", "accuracy")) in readme


def test_the_report_prints_every_table(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert "## sprites, size fast" in printed
    assert "| gap_shift | fast | 0.933 | 0.929 |" in printed
