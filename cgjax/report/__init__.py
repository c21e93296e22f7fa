"""The reproduction record: one small json per run; the readers of records and of finished runs."""

import datetime
import json
import math
import pathlib
import re

import ml_collections

from cgjax import experiments
from cgjax.config import check_name, check_names, differences, fingerprint, from_json, to_json
from cgjax.config.ownership import read_config
from cgjax.core.errors import BadInput, first_line, shown
from cgjax.core.workdir import disk_errors, read_json, write_atomic
from cgjax.published import results as markdown
from cgjax.published.results import is_entry, is_number, read_results, summary
from cgjax.published.verdict import Verdict as Verdict
from cgjax.published.verdict import verdict as verdict  # used elsewhere as `report.verdict`

RECORD = pathlib.Path(__file__).parent / "record"  # the package's own
USERS = pathlib.Path("record")  # in the current folder
EARLIER = ("date", "wall_s", "devices", "note", "commit", "models")
KEPT = (
    "metrics", "claims", "reasons", "data", "made_up", "config_hash", "wall_s", "python",
    "versions", "devices", "hosts", "commit", "rules", "pairs",
)  # fmt: skip
LARGEST = 1e100  # of a metric: squares of larger numbers overflow
# Ends of metrics that a run has only if some of its seeds collapsed: of the others, and which did.
ALIVE, COLLAPSED = " (alive)", "collapsed"
COLUMNS = 6  # of the table of a family outside the package
# What tables and page read of an entry besides its metrics, with the value if there is none.
TEXTS = {"label": "", "note": "", "date": "", "devices": "", "commit": ""}
LISTS = ("claims", "earlier", "made_up")
SECTIONS = ("metrics", "models", "reasons", "data", "pairs")


def add(
    workdir,
    record: pathlib.Path = USERS,
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
    (path,) = add_all([workdir], record, label, note, only, replace)
    return path


def add_all(
    workdirs,
    record: pathlib.Path = USERS,
    label: str = "",
    note: str = "",
    only: str = "",
    replace: bool = False,
) -> list[pathlib.Path]:
    """`add` for several finished runs, which are all checked before the first entry is written.

    Runs of one config with several seeds join one entry. Runs of one row and size with several
    configs raise BadInput, with `replace` too: the last would overwrite the others.
    """
    if label:
        check_name("label", label)
    to_write, came_from = {}, {}  # by path
    for workdir in workdirs:
        entry = _new_entry(workdir, label, note, only)
        name = "-".join(filter(None, (entry["row"], entry["size"], label)))
        path = pathlib.Path(record) / entry["family"] / f"{name}.json"
        old = to_write.get(path) or (_read_entry(path) if path.exists() else None)
        changed = changes(old, entry) if old else []
        some = f"{'; '.join(changed[:3])}{' ...' if changed[3:] else ''}"
        if changed and path in to_write:
            raise BadInput(
                f"'{came_from[path]}' and '{workdir}' are both '{path.name}', with different "
                f"configs ({some}): add each in a command of its own, one with --label=<name>"
            )
        if changed and not replace:
            raise BadInput(
                f"'{path.name}' is recorded with another config ({some}): keep both with "
                "--label=<name>, or overwrite the recorded one with --replace"
            )
        to_write[path] = _joined(old, entry) if old and not changed else entry
        came_from[path] = workdir
    for path, entry in to_write.items():
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, text_of(entry))
    return list(to_write)


def _new_entry(workdir, label: str, note: str, only: str) -> dict:
    """The entry of one finished run; arguments as in `add`."""
    entry = read_run(workdir)
    entry |= {"label": label, "note": note, "date": datetime.date.today().isoformat()}
    if not only:
        return entry
    try:
        re.compile(only)
    except re.error as error:
        raise BadInput(f"only={only!r} is not a regular expression: {error}") from None
    metrics = {
        name: metric
        for name, metric in entry["metrics"].items()
        if re.search(only, name) or metric["paper"] is not None or "recomputed" in metric
    }
    return entry | {"metrics": metrics, "left_out": len(entry["metrics"]) - len(metrics)}


# --- readers --------------------------------------------------------------------------------------


def read_run(workdir) -> dict:
    """A finished run as an entry of a record; BadInput if its files are not those of one run."""
    workdir = pathlib.Path(workdir)
    path = workdir / "results.json"
    if not path.exists():
        raise BadInput(f"'{workdir}' holds no finished run: it has no results.json")
    config, results = read_config(workdir), read_results(path)
    if results["config_hash"] != fingerprint(config):
        raise BadInput(
            f"'{workdir / 'config.json'}' is not the config of results.json beside it: run the "
            "command of the run again, or restore a copy"
        )
    settings = json.loads(to_json(config))
    entry = {name: settings[name] for name in ("family", "row", "size")} | TEXTS
    entry |= {name: results[name] for name in KEPT if name in results}
    kinds = settings.get("model", {}).get("kinds", ())
    entry["models"] = {kind: results[kind] for kind in kinds if kind in results}
    return _checked(entry | {"config": settings}, path)


def _read_entry(path: pathlib.Path) -> dict:
    """An entry of a record; BadInput if it is not a recorded run of its folder's family."""
    entry = _checked(read_json(path), path)
    if entry["family"] != path.parent.name:
        raise BadInput(f"'{path}' is a run of {entry['family']}: move it to that folder")
    return entry


def _checked(entry: dict, path: pathlib.Path) -> dict:
    """The entry, if tables, page and verdicts can use all of its values; else BadInput.

    A record or a workdir may come from other people. Nothing that it names is imported.
    """
    mend = "delete it to write it anew"
    try:
        config = from_json(json.dumps(entry.get("config")))
        check_names(config, path)
        sections = [config.get(name, {}) for name in ("train", "data", "model")]
        if not all(isinstance(section, ml_collections.ConfigDict | dict) for section in sections):
            raise ValueError("a section of its config is a value")
        seeds = sections[0].get("seeds", ())
        if not (isinstance(seeds, tuple) and all(isinstance(seed, int) for seed in seeds)):
            raise ValueError("train.seeds of its config is not a tuple of integers")
    except (BadInput, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"'{path}' is not a recorded run ({first_line(error)}): {mend}") from None
    for name in ("family", "row", "size"):
        if entry.get(name) != config[name]:
            raise BadInput(f"'{path}' has another {name} than its config: {mend}")
    if entry.get("config_hash", fingerprint(config)) != fingerprint(config):
        raise BadInput(f"'{path}': its config is not the one that config_hash names: {mend}")
    entry |= {name: str(entry.get(name) or default) for name, default in TEXTS.items()}
    if entry["label"]:
        check_name("label", entry["label"], f"'{path}'")
    wrong = [name for name in LISTS if not isinstance(entry.get(name, []), list)]
    wrong += [name for name in SECTIONS if not isinstance(entry.get(name, {}), dict)]
    wrong += [
        name
        for name in ("models", "reasons")
        if name not in wrong
        and not all(isinstance(value, dict) for value in entry.get(name, {}).values())
    ]
    wrong += [] if is_number(entry.get("wall_s", 0.0), LARGEST) else ["wall_s"]
    if "earlier" not in wrong and not all(map(_is_earlier_run, entry.get("earlier", []))):
        wrong.append("earlier")
    if wrong or "metrics" not in entry:
        raise BadInput(f"'{path}' has no sound {wrong[0] if wrong else 'metrics'}: {mend}")
    if bad := [name for name, value in entry["metrics"].items() if not is_entry(value, LARGEST)]:
        raise BadInput(f"'{path}': metric {shown(bad[0])} cannot be read: {mend}")
    return entry


def _is_earlier_run(run) -> bool:
    return (
        isinstance(run, dict)
        and isinstance(run.get("seeds"), list)
        and all(isinstance(seed, int) for seed in run["seeds"])
        and is_number(run.get("wall_s"), LARGEST)
    )


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
        base = new["metrics"].get(name, old["metrics"].get(name))
        if any(_is_of_all(entry, name) for entry in (old, new)):
            metrics[name] = base if _is_shared(old, new, name) else base | _summed({})
            continue
        values = {
            seed: value
            for entry, seeds in ((old, only_old), (new, now))
            for seed, value in _by_seed(entry, name).items()
            if seed in seeds
        }
        metrics[name] = base | _summed(values)
    models = {}
    for kind in {**old.get("models", {}), **new["models"]}:
        then, later = (entry.get("models", {}).get(kind, {}) for entry in (old, new))
        models[kind] = {**then, **later}
        for name in models[kind]:  # a list has one number per seed; seeds without one have None
            pair = then.get(name, [None] * len(before)), later.get(name, [None] * len(now))
            if all(isinstance(x, list) and len(x) == len(y) for x, y in zip(pair, (before, now))):
                models[kind][name] = [pair[0][before.index(seed)] for seed in only_old] + pair[1]
    config = json.loads(json.dumps(new["config"]))
    config["train"]["seeds"] = only_old + now
    reasons = dict(old.get("reasons", {}))
    for name, columns in new.get("reasons", {}).items():
        reasons[name] = reasons.get(name, {}) | columns
    new = {key: value for key, value in new.items() if key != "claims"}  # of new seeds only
    return new | {
        "metrics": metrics,
        "config": config,
        "config_hash": fingerprint(from_json(json.dumps(config))),
        "wall_s": old.get("wall_s", 0.0) + new.get("wall_s", 0.0),
        "models": models,
        **({"reasons": reasons} if reasons else {}),
        "earlier": _earlier(old, only_old),
    }


def _earlier(old: dict, only_old: list) -> list[dict]:
    """The runs of an entry, each with its own time; seeds: those of it that are in `only_old`."""
    runs = old.get("earlier", [])
    trained = {seed for run in runs for seed in run["seeds"]}
    last = {key: old[key] for key in EARLIER if key in old}
    last |= {
        "seeds": [seed for seed in old["config"]["train"]["seeds"] if seed not in trained],
        "wall_s": old.get("wall_s", 0.0) - sum(run["wall_s"] for run in runs),
        "models": {
            # Lists have one number per seed: those of all seeds are in the entry itself.
            kind: {name: value for name, value in model.items() if not isinstance(value, list)}
            for kind, model in old.get("models", {}).items()
        },
    }
    return [
        run | {"seeds": [seed for seed in run["seeds"] if seed in only_old]}
        for run in [*runs, last]
    ]


def _summed(by_seed: dict) -> dict:
    """What a metric says of its seeds; no numbers if there are none."""
    values = [math.nan if value is None else value for value in by_seed.values()]
    joined = summary(values, by_seed, None)
    return {key: joined[key] for key in ("ours", "sd", "values", "seeds")}


def _by_seed(entry: dict, name: str) -> dict:
    """{seed: value} of a metric.

    A run in which no seed collapsed says so by the absence of what it would have said of them.
    """
    metrics = entry["metrics"]
    if name not in metrics and name.endswith(COLLAPSED):
        return dict.fromkeys(entry["config"]["train"]["seeds"], 0.0)
    metric = metrics.get(name, metrics.get(name.removesuffix(ALIVE)))
    return dict(zip(metric["seeds"], metric["values"])) if metric else {}


def _is_of_all(entry: dict, name: str) -> bool:
    """Whether a metric is one number, or several, of all trained seeds together.

    Its seeds are then none, or 0 alone, whatever was trained.
    """
    metric, trained = entry["metrics"].get(name), entry["config"]["train"]["seeds"]
    if metric is None or metric["seeds"] not in ([], [0]) or name.endswith(ALIVE):
        return False
    return not metric["seeds"] or list(trained) != [0]


def _is_shared(old: dict, new: dict, name: str) -> bool:
    """Whether both entries have the same values of a metric."""
    both = [entry["metrics"].get(name, {}).get("values") for entry in (old, new)]
    return both[0] == both[1]


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
    runs = [_read_entry(path) for path in (pathlib.Path(record) / family).glob("*-*.json")]
    return sorted(runs, key=lambda entry: (entry["size"], entry["row"], entry["label"]))


def studies(family: str, record: pathlib.Path = RECORD) -> dict:
    """Recorded studies of several runs together: {name: contents}."""
    paths = (record / family).glob("*.json")
    return {path.stem: read_json(path) for path in paths if "-" not in path.stem}


def tables(family: str, entries: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: by the family's function `tables`.

    Families outside the package get the usual tables: their module is not imported.
    """
    if family in experiments.FAMILIES:
        module = experiments.family(family)
        return module.tables(entries) if entries and hasattr(module, "tables") else []
    names = dict.fromkeys(name for entry in entries for name in entry["metrics"])
    beyond = markdown.beyond_table(entries, tuple(names)[:COLUMNS])
    sections = (family, markdown.metric_table(entries)), (f"{family}, beyond the paper", beyond)
    return [(title, text) for title, text in sections if text.count("\n") > 1]
