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
from cgjax.published.verdict import verdict as verdict  # used elsewhere as `report.verdict`

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

    If the same config is already recorded with other seeds, the entry then holds both.
    label: distinguishes a second run of the same row and size, e.g. "bfloat16".
    note: explains the wall time, e.g. that runs shared the accelerator.
    only: a regular expression for runs with thousands of metrics. Metrics whose names match are
    recorded, and so are those with a published or recomputed number. The entry counts the others.
    replace: overwrite an entry of the same name that has another config; without it, such an entry
    raises BadInput.
    """
    workdir = pathlib.Path(workdir)
    if not (workdir / "results.json").exists():
        raise BadInput(f"'{workdir}' holds no finished run: it has no results.json")
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
            raise BadInput(f"only={only!r} is not a regular expression: {error}") from None
        metrics = {
            name: metric
            for name, metric in results["metrics"].items()
            if re.search(only, name) or metric["paper"] is not None or "recomputed" in metric
        }
        entry |= {"metrics": metrics, "left_out": len(results["metrics"]) - len(metrics)}
    path = record / config["family"] / f"{name}.json"
    if path.exists():
        old = _read_entry(path)
        changed = changes(old, entry)
        if changed and not replace:
            raise BadInput(
                f"'{path.name}' is recorded with another config ({'; '.join(changed[:3])}"
                f"{' ...' if changed[3:] else ''}): keep both with --label=<name>, or overwrite "
                "the recorded one with --replace"
            )
        entry = entry if changed else _joined(old, entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text_of(entry))
    return path


def text_of(entry: dict) -> str:
    """An entry as json, with every list of numbers on one line."""
    text = json.dumps(entry, indent=1)
    return re.sub(r"\[[^\[\]{}\"]*\]", lambda match: " ".join(match[0].split()), text)


def _joined(old: dict, new: dict) -> dict:
    """One entry with the seeds of both; `new` gives hardware, date and the seeds they share.

    Seeds of one config are one experiment: the mean is over all of them, the wall time is the sum.
    """
    before, now = (list(entry["config"].get("train", {}).get("seeds", ())) for entry in (old, new))
    only_old = [seed for seed in before if seed not in now]
    if not now or not only_old:
        return new
    metrics = {}
    for name in {**old["metrics"], **new["metrics"]}:  # a metric may lack some seeds
        parts = [(old, only_old), (new, now)]
        pairs = [
            (seed, value)
            for entry, seeds in parts
            for seed, value in _by_seed(entry["metrics"].get(name)).items()
            if seed in seeds
        ]
        values = [math.nan if value is None else value for _, value in pairs]
        joined = summary(values, [seed for seed, _ in pairs], None)
        base = new["metrics"].get(name, old["metrics"].get(name))
        metrics[name] = base | {key: joined[key] for key in ("ours", "sd", "values", "seeds")}
    models = {}
    for kind, new_model in new["models"].items():  # a list has one number per seed
        old_model = old["models"].get(kind, {})
        models[kind] = {
            name: [old_model[name][before.index(seed)] for seed in only_old] + value
            if isinstance(value, list) and len(old_model.get(name, ())) == len(before)
            else value
            for name, value in new_model.items()
        }
    config = json.loads(json.dumps(new["config"]))
    config["train"]["seeds"] = only_old + now
    reasons = dict(old.get("reasons", {}))
    for name, columns in new.get("reasons", {}).items():
        reasons[name] = reasons.get(name, {}) | columns
    part = {key: old[key] for key in EARLIER if key in old}
    new = {key: value for key, value in new.items() if key != "claims"}  # of new seeds only
    return new | {
        "metrics": metrics,
        "config": config,
        "config_hash": fingerprint(from_json(json.dumps(config))),
        "wall_s": old.get("wall_s", 0.0) + new.get("wall_s", 0.0),
        "models": models,
        **({"reasons": reasons} if reasons else {}),
        "earlier": [*old.get("earlier", []), {"seeds": only_old, **part}],
    }


def _by_seed(metric: dict | None) -> dict:
    return dict(zip(metric["seeds"], metric["values"])) if metric else {}


def _read_entry(path: pathlib.Path) -> dict:
    """An entry of the record; BadInput if it lacks what `_joined` reads."""
    entry = read_json(path)
    if not all(isinstance(entry.get(key), dict) for key in ("config", "metrics", "models")):
        raise BadInput(f"'{path}' is not a recorded run: delete it to write it anew")
    return entry


def changes(old: dict, new: dict) -> list[str]:
    """Differences between two entries' configs, in keys that `new` declares, except for seeds.

    A row declares the keys that it reads, so a key that only `old` has does not matter.
    """
    before, after = (from_json(json.dumps(entry["config"])) for entry in (old, new))
    changed = [
        line
        for line in differences(before, after)
        if not line.startswith("train.seeds:") and not line.endswith("-> (absent)")
    ]
    # A part without its own values has no key that could differ.
    parts = set(after.get("parts", ())) - set(before.get("parts", ()))
    return changed + [f"parts.{name}: (absent) -> run" for name in sorted(parts)]


def families(record: pathlib.Path = RECORD) -> list[str]:
    """The families with recorded runs, sorted; BadInput if there are none."""
    names = sorted({path.parent.name for path in pathlib.Path(record).glob("*/*-*.json")})
    if not names:
        raise BadInput(f"'{record}' holds no recorded run: add one with --add=<workdir>")
    return names


def entries(family: str, record: pathlib.Path = RECORD) -> list[dict]:
    """Every recorded run of a family, sorted by size, row and label.

    The file of a run is <row>-<size>[-<label>].json. Other files are studies of several runs.
    """
    runs = [read_json(path) for path in (record / family).glob("*-*.json")]
    return sorted(runs, key=lambda entry: (entry["size"], entry["row"], entry["label"]))


def studies(family: str, record: pathlib.Path = RECORD) -> dict:
    """Recorded studies of several runs together: {name: contents}."""
    paths = (record / family).glob("*.json")
    return {path.stem: read_json(path) for path in paths if "-" not in path.stem}
