"""Reads the user's finished runs for the page. Runs that cannot be read are listed; no code runs.

A folder may contain any file, also files from other people. A run is shown only if verdicts and
page can use all of its values, and its config is compared only with configs of the package.
"""

import datetime
import math
import numbers
import pathlib
from typing import NamedTuple

from cgjax import config, experiments
from cgjax.config import ownership
from cgjax.core.errors import BadInput
from cgjax.core.workdir import ASIDE, read_json
from cgjax.published import PUBLISHED
from cgjax.report import standing

MEND = "run it again, or move it out of the folder"
WORDS = ("devices", "commit", "config_hash")  # keys of results.json that are shown if present
LARGEST = 1e100  # squares of larger numbers overflow
NUMBERS = ("ours", "sd", "paper", "paper_sd")  # keys of a metric


class Runs(NamedTuple):
    entries: list[dict]  # as `standing.entry_of` makes them, and their `workdir`
    unreadable: list[str]  # one line per run that cannot be shown


def read(folder) -> Runs:
    """Every finished run in a folder of workdirs, or in a workdir itself."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise BadInput(f"'{folder}' is not a folder: name a folder of workdirs, such as runs")
    runs = Runs([], [])
    for path in sorted(folder.rglob("results.json")):
        if any(part.startswith(ASIDE) for part in path.relative_to(folder).parts):
            continue
        try:
            runs.entries.append(entry(path.parent))
        except BadInput as error:
            runs.unreadable.append(str(error))
    if not runs.entries and not runs.unreadable:
        raise BadInput(f"'{folder}' holds no finished run: it contains no results.json")
    return runs


def entry(workdir: pathlib.Path) -> dict:
    """A finished run as an entry of the record; BadInput if the page cannot show it."""
    path = workdir / "results.json"
    settings = ownership.read_config(workdir)
    results = read_json(path, MEND)
    if settings.size not in config.SIZES or not _is_config(settings):
        raise BadInput(f"'{workdir / 'config.json'}' is not a run's config.json: {MEND}")
    metrics = results.get("metrics")
    if not isinstance(metrics, dict) or not all(map(_is_metric, metrics.values())):
        raise BadInput(f"'{path}' has metrics that cannot be read: {MEND}")
    raw = standing.entry_of(workdir)
    texts = {name: str(results[name]) for name in WORDS if results.get(name)}
    wall = results.get("wall_s")
    return {
        **{name: raw[name] for name in ("family", "row", "size", "label", "config")},
        **texts,
        "metrics": metrics,
        "wall_s": wall if _is_number(wall) else None,
        "date": datetime.date.fromtimestamp(path.stat().st_mtime).isoformat(),
        "note": f"in {workdir}",
        "workdir": workdir,
    }


def _is_config(settings) -> bool:
    """Whether the functions that verdicts and page call on a config work for this one."""
    try:
        if settings.family in PUBLISHED:  # for other families it would run their config file
            config.is_published(settings)
        config.is_drawn(settings)
        return isinstance(settings.get("train", {}).get("seeds", ()), tuple)
    except (AttributeError, LookupError, TypeError, ValueError):
        return False


def _is_metric(metric) -> bool:
    return (
        isinstance(metric, dict)
        and all(metric.get(name) is None or _is_number(metric[name]) for name in NUMBERS)
        and experiments.is_entry(metric)
        and all(value is None or _is_number(value) for value in metric["values"])
        and all(map(_is_plain, metric["seeds"]))
    )


def _is_plain(value) -> bool:
    return value is None or isinstance(value, (str, bool)) or _is_number(value)


def _is_number(value) -> bool:
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and abs(value) < LARGEST and math.isfinite(value)
