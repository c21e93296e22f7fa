"""The reproduction record: one small json per accelerator run."""

import datetime
import json
import math
import pathlib

from cgjax.core.errors import BadInput
from cgjax.core.logging import summary
from cgjax.core.workdir import read_json, write_atomic

RECORD = pathlib.Path(__file__).parent / "record"
KEPT = ("metrics", "config_hash", "wall_s", "python", "versions", "devices", "hosts", "commit")


def add(workdir, record: pathlib.Path = RECORD, label: str = "", note: str = "") -> pathlib.Path:
    """Writes the record of a finished run: config, seeds, hardware, numbers, date.

    Where other seeds of the same config are recorded already, these join them.
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
    if path.exists():
        entry = _joined(read_json(path), entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(entry, indent=1))
    return path


def _joined(old: dict, new: dict) -> dict:
    """Both entries' seeds under the newer one's hardware and date; the newer where they overlap.

    Seeds of one config are one experiment, whenever they ran: their values stand side by side, the
    mean is over all. Another config replaces what was there.
    """
    seeds = [tuple(entry["config"].get("train", {}).get("seeds", ())) for entry in (old, new)]
    same = _agrees(old["config"], new["config"])
    if not same or not all(seeds) or set(seeds[0]) & set(seeds[1]):
        return new
    if set(old["metrics"]) != set(new["metrics"]) or any(
        len(entry["metrics"][name]["values"]) != len(own)
        for entry, own in zip((old, new), seeds)
        for name in new["metrics"]
    ):
        raise BadInput(f"{new['row']}: seeds {seeds[0]} are recorded with other metrics")
    metrics = {}
    for name, entry in new["metrics"].items():
        before = old["metrics"][name]
        values = [math.nan if v is None else v for v in before["values"] + entry["values"]]
        found = summary(values, before["seeds"] + entry["seeds"], None)
        metrics[name] = entry | {key: found[key] for key in ("ours", "sd", "values", "seeds")}
    config = json.loads(json.dumps(new["config"]))
    config["train"]["seeds"] = [*seeds[0], *seeds[1]]
    earlier = {
        key: old[key]
        for key in ("date", "wall_s", "devices", "note", "commit", "models")
        if key in old
    }
    models = {}
    for kind, found in new["models"].items():  # numbers of every seed are lists
        before = old["models"].get(kind, {})
        models[kind] = {
            name: before[name] + value if isinstance(value, list) and name in before else value
            for name, value in found.items()
        }
    return new | {
        "metrics": metrics,
        "config": config,
        "models": models,
        "earlier": [*old.get("earlier", []), {"seeds": list(seeds[0]), **earlier}],
    }


def _agrees(old, new, path: str = "") -> bool:
    """Whether configs agree but for their seeds, in what the newer one declares.

    A row declares what it reads: a key that only an older config has was never read.
    """
    if isinstance(new, dict):
        return isinstance(old, dict) and all(
            name in old and _agrees(old[name], value, f"{path}.{name}")
            for name, value in new.items()
        )
    return path == ".train.seeds" or old == new


def entries(family: str, record: pathlib.Path = RECORD) -> list[dict]:
    """Every recorded run of a family, by size, row and label."""
    found = [read_json(path) for path in (record / family).glob("*.json")]
    return sorted(found, key=lambda entry: (entry["size"], entry["row"], entry["label"]))
