"""The reproduction record: one small json per accelerator run, and the tables made from it."""

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
        "models": {k: results[k] for k in config["model"].get("kinds", ()) if k in results},
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


def by_row(family: str, size: str, label: str = "", record: pathlib.Path = RECORD) -> dict:
    """`{row: metrics}` of the recorded runs of one size."""
    return {
        entry["row"]: entry["metrics"]
        for entry in entries(family, record)
        if (entry["size"], entry["label"]) == (size, label)
    }


def headline_table(family: str, metric: str = "r2_all", record: pathlib.Path = RECORD) -> str:
    """One line per recorded run of the paper's: the headline metric of every seed, ours, theirs."""
    lines = [
        f"| row | size | {metric}, every seed | ours | paper | difference | time | hardware |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for entry in entries(family, record):
        name = entry["row"] + (f" ({entry['label']})" if entry["label"] else "")
        hardware = ", ".join(filter(None, (entry["devices"], entry.get("note"))))
        # The paper's mean leaves collapsed seeds out: those that live get a line of their own.
        for key, suffix in ((metric, ""), (f"{metric} (alive)", ", alive seeds")):
            if key not in entry["metrics"]:
                continue
            found = entry["metrics"][key]
            values = ", ".join(f"{v:.3f}" for v in found["values"])
            ours, paper = found["ours"], found["paper"]
            if paper is None:
                continue
            lines.append(
                f"| {name}{suffix} | {entry['size']} | {values} | {ours:.3f} | {paper:.3f} "
                f"| {ours - paper:+.3f} | {entry['wall_s']:.0f} s | {hardware} |"
            )
    return "\n".join(lines)


def metric_table(family: str, endings: tuple[str, ...], record: pathlib.Path = RECORD) -> str:
    """One line per recorded metric with a paper's number, whose name ends so."""
    lines = [
        "| row | size | metric | every seed | ours | paper | difference |",
        "|---|---|---|---|---:|---:|---:|",
    ]
    for entry in entries(family, record):
        for name, found in entry["metrics"].items():
            if found["paper"] is None or not name.endswith(endings):
                continue
            values = ", ".join(f"{v:.3f}" for v in found["values"])
            ours, paper = found["ours"], found["paper"]
            lines.append(
                f"| {entry['row']} | {entry['size']} | {name} | {values} | {ours:.3f} "
                f"| {paper:.3f} | {ours - paper:+.3f} |"
            )
    return "\n".join(lines)


def beyond_table(family: str, columns: tuple[str, ...], record: pathlib.Path = RECORD) -> str:
    """One line per recorded run that no paper has a number for: means over its seeds."""
    lines = ["| row | size | " + " | ".join(columns) + " |", "|---|---|" + "---:|" * len(columns)]
    for entry in entries(family, record):
        found = entry["metrics"]
        if any(metric["paper"] is not None for metric in found.values()):
            continue
        cells = (f"{found[c]['ours']:.3g}" if c in found else "-" for c in columns)
        lines.append(f"| {entry['row']} | {entry['size']} | {' | '.join(cells)} |")
    return "\n".join(lines)
