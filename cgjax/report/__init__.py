"""The reproduction record: one small json per accelerator run."""

import datetime
import json
import pathlib

from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json, write_atomic

RECORD = pathlib.Path(__file__).parent / "record"
KEPT = ("metrics", "config_hash", "wall_s", "python", "versions", "devices", "hosts", "commit")


def add(workdir, record: pathlib.Path = RECORD, label: str = "", note: str = "") -> pathlib.Path:
    """Writes the record of a finished run: config, seeds, hardware, numbers, date.

    label: distinguishes a second run of the same row and size, e.g. "bfloat16".
    note: what a reader of its time should know, e.g. that runs shared the accelerator.
    """
    workdir = pathlib.Path(workdir)
    if not (workdir / "results.json").exists():
        raise BadInput(f"'{workdir}' holds no finished run: no results.json there")
    results = read_json(workdir / "results.json")
    config = read_json(workdir / "config.json")
    name = "-".join(filter(None, (config["row"], config["size"], label)))
    entry = {
        "family": config["family"],
        "row": config["row"],
        "size": config["size"],
        "label": label,
        "note": note,
        "date": datetime.date.today().isoformat(),
        **{key: results[key] for key in KEPT if key in results},
        "models": {k: results[k] for k in config.get("model", {}).get("kinds", ()) if k in results},
        "config": config,
    }
    path = record / config["family"] / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(entry, indent=1))
    return path


def entries(family: str, record: pathlib.Path = RECORD) -> list[dict]:
    """Every recorded run of a family, by size, row and label."""
    found = [read_json(path) for path in (record / family).glob("*.json")]
    return sorted(found, key=lambda entry: (entry["size"], entry["row"], entry["label"]))
