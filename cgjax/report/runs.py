"""One's own finished runs, read for the page: what cannot be read is named, and nothing is run.

A folder may hold anything, and files that others wrote: an entry is taken only if the rule for
claims and the page can use all of it, and its config is compared with those of the package alone.
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

MEND = "run it again, or leave it out of the folder"
WORDS = ("devices", "commit", "config_hash")  # of results.json, shown where they are there
LARGEST = 1e100  # beyond it squares overflow
NUMBERS = ("ours", "sd", "paper", "paper_sd")  # of a metric


class Runs(NamedTuple):
    entries: list[dict]  # as `standing.entry_of` makes them, with the `workdir` they are from
    unreadable: list[str]  # a line for each run that cannot be shown


def read(folder) -> Runs:
    """Every finished run in a folder of workdirs, or in a workdir itself."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise BadInput(f"'{folder}' is no folder: name one that holds workdirs, such as runs")
    found = Runs([], [])
    for path in sorted(folder.rglob("results.json")):
        if any(part.startswith(ASIDE) for part in path.relative_to(folder).parts):
            continue
        try:
            found.entries.append(entry(path.parent))
        except BadInput as error:
            found.unreadable.append(str(error))
    if not found.entries and not found.unreadable:
        raise BadInput(f"'{folder}' holds no finished run: there is no results.json in it")
    return found


def entry(workdir: pathlib.Path) -> dict:
    """A finished run in the form of the record's entries; refuses what the page could not use."""
    path = workdir / "results.json"
    settings = ownership.read_config(workdir)
    results = read_json(path, MEND)
    if settings.size not in config.SIZES or not _is_config(settings):
        raise BadInput(f"'{workdir / 'config.json'}' is no config of a run: {MEND}")
    metrics = results.get("metrics")
    if not isinstance(metrics, dict) or not all(map(_is_metric, metrics.values())):
        raise BadInput(f"'{path}' has metrics that cannot be read: {MEND}")
    if not _are_claims(results.get("claims", [])):
        raise BadInput(f"'{path}' has claims that cannot be read: {MEND}")
    found = standing.entry_of(workdir)
    words = {name: str(results[name]) for name in WORDS if results.get(name)}
    wall = results.get("wall_s")
    return {
        **{name: found[name] for name in ("family", "row", "size", "label", "config")},
        **words,
        "metrics": metrics,
        "claims": results.get("claims", []),
        "wall_s": wall if _is_number(wall) else None,
        "date": datetime.date.fromtimestamp(path.stat().st_mtime).isoformat(),
        "note": f"in {workdir}",
        "workdir": workdir,
    }


def _is_config(settings) -> bool:
    """Whether all that the rule and the page ask of a config has an answer."""
    try:
        if settings.family in PUBLISHED:  # of others nobody asks, and no file of theirs is opened
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


def _are_claims(claims) -> bool:
    """Whether `standing` can take over what a run says of its own claims."""
    return isinstance(claims, list) and all(
        isinstance(one, dict)
        and {"claim", "left", "right", "verdict", "p"} <= set(one)
        and all(map(_is_plain, one.values()))
        and one["verdict"] in standing.OWN_WORDS
        and (one["p"] is None or _is_number(one["p"]))
        for one in claims
    )


def _is_plain(value) -> bool:
    return value is None or isinstance(value, (str, bool)) or _is_number(value)


def _is_number(value) -> bool:
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return is_real and abs(value) < LARGEST and math.isfinite(value)
