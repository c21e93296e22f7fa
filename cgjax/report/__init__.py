"""The reproduction record: one small json per run."""

import datetime
import json
import math
import pathlib
import re

from cgjax.config import differences, fingerprint, from_json
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json, write_atomic
from cgjax.published.results import read_results, summary
from cgjax.published.verdict import Verdict as Verdict
from cgjax.published.verdict import verdict as verdict  # the one rule, `report.verdict`

RECORD = pathlib.Path(__file__).parent / "record"
EARLIER = ("date", "wall_s", "devices", "note", "commit", "models")
KEPT = (
    "metrics", "claims", "reasons", "config_hash", "wall_s", "python", "versions", "devices",
    "hosts", "commit",
)  # fmt: skip


def add(
    workdir,
    record: pathlib.Path = RECORD,
    label: str = "",
    note: str = "",
    only: str = "",
    replace: bool = False,
) -> pathlib.Path:
    """Writes the record of a finished run: config, seeds, hardware, numbers, date.

    Where other seeds of the same config are recorded already, these join them.
    label: distinguishes a second run of the same row and size, e.g. "bfloat16".
    note: what a reader of its time should know, e.g. that runs shared the accelerator.
    only: a pattern; of a run with thousands of numbers those whose names it is found in are kept,
    and those that have another's beside them. How many are left out is recorded.
    replace: what is recorded under this name with another config gives way; else it is refused.
    """
    workdir = pathlib.Path(workdir)
    if not (workdir / "results.json").exists():
        raise BadInput(f"'{workdir}' holds no finished run: no results.json there")
    results = read_results(workdir / "results.json")
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
    if only:
        try:
            re.compile(only)
        except re.error as error:
            raise BadInput(f"only={only!r} is no pattern: {error}") from None
        kept = {
            name: metric
            for name, metric in results["metrics"].items()
            if re.search(only, name) or metric["paper"] is not None or "recomputed" in metric
        }
        entry |= {"metrics": kept, "left_out": len(results["metrics"]) - len(kept)}
    path = record / config["family"] / f"{name}.json"
    if path.exists():
        old = _recorded(path)
        changed = _changes(old, entry)
        if changed and not replace:
            raise BadInput(
                f"'{path.name}' is recorded with another config ({'; '.join(changed[:3])}"
                f"{' ...' if changed[3:] else ''}): keep both with a label (--label=<word>), or "
                "put this one in its place with --replace"
            )
        entry = entry if changed else _joined(old, entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text_of(entry))
    return path


def text_of(entry: dict) -> str:
    """An entry as json, lists of numbers on one line each."""
    text = json.dumps(entry, indent=1)
    return re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), text)


def _joined(old: dict, new: dict) -> dict:
    """Both entries' seeds under the newer one's hardware and date; the newer where they overlap.

    Seeds of one config are one experiment, whenever they ran: their values stand side by side, the
    mean is over all, the time is the sum.
    """
    before, now = (list(entry["config"].get("train", {}).get("seeds", ())) for entry in (old, new))
    kept = [seed for seed in before if seed not in now]
    if not now or not kept:
        return new
    metrics = {}
    for name in {**old["metrics"], **new["metrics"]}:  # some are of some seeds only
        parts = [(old, kept), (new, now)]
        found = [
            (seed, value)
            for entry, seeds in parts
            for seed, value in _by_seed(entry["metrics"].get(name)).items()
            if seed in seeds
        ]
        values = [math.nan if value is None else value for _, value in found]
        joined = summary(values, [seed for seed, _ in found], None)
        base = new["metrics"].get(name, old["metrics"].get(name))
        metrics[name] = base | {key: joined[key] for key in ("ours", "sd", "values", "seeds")}
    models = {}
    for kind, found in new["models"].items():  # numbers of every seed are lists
        one = old["models"].get(kind, {})
        models[kind] = {
            name: [one[name][before.index(seed)] for seed in kept] + value
            if isinstance(value, list) and len(one.get(name, ())) == len(before)
            else value
            for name, value in found.items()
        }
    config = json.loads(json.dumps(new["config"]))
    config["train"]["seeds"] = kept + now
    part = {key: old[key] for key in EARLIER if key in old}
    new = {key: value for key, value in new.items() if key != "claims"}  # of these seeds alone
    return new | {
        "metrics": metrics,
        "config": config,
        "config_hash": fingerprint(from_json(json.dumps(config))),
        "wall_s": old.get("wall_s", 0.0) + new.get("wall_s", 0.0),
        "models": models,
        "earlier": [*old.get("earlier", []), {"seeds": kept, **part}],
    }


def _by_seed(metric: dict | None) -> dict:
    return dict(zip(metric["seeds"], metric["values"])) if metric else {}


def _recorded(path: pathlib.Path) -> dict:
    """An entry of the record, with what joining it asks for."""
    entry = read_json(path)
    if not all(isinstance(entry.get(key), dict) for key in ("config", "metrics", "models")):
        raise BadInput(f"'{path}' is no recorded run: delete it to write it anew")
    return entry


def _changes(old: dict, new: dict) -> list[str]:
    """Where two entries' configs differ, but for seeds, in what the newer one declares.

    A row declares what it reads: a key that only an older config has was never read.
    """
    before, after = (from_json(json.dumps(entry["config"])) for entry in (old, new))
    found = [
        line for line in differences(before, after)
        if not line.startswith("train.seeds:") and not line.endswith("-> (absent)")
    ]  # fmt: skip
    # A part without values of its own has no key that could differ.
    parts = set(after.get("parts", ())) - set(before.get("parts", ()))
    return found + [f"parts.{name}: (absent) -> run" for name in sorted(parts)]


def families(record: pathlib.Path = RECORD) -> list[str]:
    """The families of which there are recorded runs; there are some."""
    found = sorted({path.parent.name for path in pathlib.Path(record).glob("*/*-*.json")})
    if not found:
        raise BadInput(f"'{record}' holds no recorded run: --add=<workdir> puts one there")
    return found


def entries(family: str, record: pathlib.Path = RECORD) -> list[dict]:
    """Every recorded run of a family, by size, row and label.

    A run's file is named <row>-<size>[-<label>].json. Other files are studies of several runs.
    """
    runs = [read_json(path) for path in (record / family).glob("*-*.json")]
    return sorted(runs, key=lambda entry: (entry["size"], entry["row"], entry["label"]))


def studies(family: str, record: pathlib.Path = RECORD) -> dict:
    """What is recorded of several runs together: {name: contents}."""
    paths = (record / family).glob("*.json")
    return {path.stem: read_json(path) for path in paths if "-" not in path.stem}
