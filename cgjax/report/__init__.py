"""The reproduction record: one small json per accelerator run, and the tables made from it."""

import datetime
import json
import pathlib

from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json, write_atomic

RECORD = pathlib.Path(__file__).parent / "record"
KEPT = ("metrics", "config_hash", "wall_s", "python", "versions", "devices", "hosts", "commit")


def add(workdir, record: pathlib.Path = RECORD, label: str = "") -> pathlib.Path:
    """Writes the record of a finished run: config, seeds, hardware, numbers, date.

    label: distinguishes a second run of the same row and size, e.g. "float32".
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
        "date": datetime.date.today().isoformat(),
        **{key: results[key] for key in KEPT if key in results},
        "models": {kind: results[kind] for kind in config["model"]["kinds"] if kind in results},
        "config": config,
    }
    path = record / config["family"] / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(entry, indent=1))
    return path


def entries(family: str, size: str, label: str = "", record: pathlib.Path = RECORD) -> dict:
    """`{row: metrics}` of every recorded run of one size."""
    found = {}
    for path in sorted((record / family).glob("*.json")):
        entry = read_json(path)
        if entry["size"] == size and entry["label"] == label:
            found[entry["row"]] = entry["metrics"]
    return found
