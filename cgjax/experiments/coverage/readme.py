"""Tables, sentences and pictures of the README, from the record.

record: the recorded runs; studies: recorded studies of several runs, of which this family has none.
"""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.coverage import figures, tables
from cgjax.experiments.coverage.figures import TITLES, exponent_text, parts_of

THRESHOLD = 0.8


def read(record: list[dict]) -> dict:
    """Metrics of the rows at size `fast`."""
    return tables.metrics_of(record, "fast")


def exponents(record: list[dict], studies: dict) -> str:
    """Exponents in the number of values, with their intervals, by task."""
    metrics, words = read(record), []
    for task, parts in parts_of(metrics).items():
        listed = (f"{name} {exponent_text(metrics, part)}" for name, part in parts.items())
        words.append(f"{TITLES[task]}: {', '.join(listed)}")
    return "; ".join(words)


def factors(record: list[dict], studies: dict) -> str:
    """Combinations of addition needed with two, three and four factors."""
    metrics, words = read(record), []
    for architecture, part in parts_of(metrics)["addition"].items():
        values = [k for k in (2, 3, 4) if f"{part}/factors {k}: needed" in metrics]
        listed = [f"{figures.number(metrics, f'{part}/factors {k}: needed'):.0f}" for k in values]
        words.append(f"{' / '.join(listed)} ({architecture})")
    return " and ".join(words)


def widths(record: list[dict], studies: dict) -> str:
    """The least and the greatest exponent in the width, of those that are defined."""
    metrics = read(record)
    known = {
        name: metric["ours"]
        for name, metric in metrics.items()
        if name.endswith("/width: exponent") and metric["ours"] is not None
    }
    apart = [
        name.partition("/")[0]
        for name in known
        if metrics[f"{name}, 2.5 %"]["ours"] > 0 or metrics[f"{name}, 97.5 %"]["ours"] < 0
    ]
    text = f"{min(known.values()):+.2f} to {max(known.values()):+.2f}"
    return f"{text}; the interval excludes 0 for {', '.join(apart) or 'none'}"


def spread(name: str):
    """A sentence part: the least and the greatest median over seeds among all parts."""

    def text(record: list[dict], studies: dict) -> str:
        medians = [
            np.median([np.nan if value is None else value for value in metric["values"]])
            for key, metric in read(record).items()
            if key.endswith(f"/{name}: held-out R2")
        ]
        return f"{min(medians):.2f} to {max(medians):.2f}"

    return text


def bridges(record: list[dict], studies: dict) -> str:
    """Bridges needed for the threshold, by task and architecture."""
    metrics, words = read(record), []
    for task, parts in parts_of(metrics).items():
        listed = []
        for architecture, part in parts.items():
            needed = figures.number(metrics, f"{part}/bridges needed")
            most = max(cell.bridges for cell in figures.Part.read(metrics, part).cells)
            text = f"more than {most}" if np.isinf(needed) else f"{max(needed, 1):.0f}"
            listed.append(f"{architecture} {text}")
        words.append(f"{TITLES[task]} {', '.join(listed)}")
    return "; ".join(words)


def unfit(record: list[dict], studies: dict) -> str:
    """How many cells do not fit their training set."""
    metrics = read(record)
    total, failed = (
        sum(metric["ours"] for name, metric in metrics.items() if name.endswith(f"/{ending}"))
        for ending in ("cells", "cells that do not fit")
    )
    return f"{failed:.0f} of {total:.0f}"


def needed_table(record: list[dict], studies: dict) -> list:
    """Combinations needed by number of values, beside all that can be trained."""
    metrics = read(record)
    rows = [
        (
            "task",
            "architecture",
            "combinations needed (95 % interval) by n, of those that can be trained",
        )
    ]
    for task, parts in parts_of(metrics).items():
        for architecture, part in parts.items():
            curves = figures.Part.read(metrics, part).along("n")
            cells = []
            for n, (sizes, _) in curves.items():
                names = (f"{part}/n {n}: needed{end}" for end in ("", *figures.ENDS))
                middle, low, high = (_shown(figures.number(metrics, name), sizes) for name in names)
                cells.append(f"{n}: {middle} ({low} to {high}) of {sizes[-1]}")
            rows.append((TITLES[task], architecture, "; ".join(cells)))
    return rows


def _shown(needed: float, sizes) -> str:
    """A number of combinations, or the bound that a censored cell gives."""
    if np.isinf(needed):
        return f"> {sizes[-1]}"
    return f"{needed:.0f}" if needed else f"< {sizes[0]}"


def standing_table(record: list[dict], studies: dict) -> list:
    """Exponents and scores of every part."""
    return tables.standing(read(record))


def draw_needed(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Combinations needed against the number of values."""
    return plots.save(figures.needed(read(record)), path)


def draw_graphs(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Held-out R2 by graph."""
    return plots.save(figures.graphs(read(record), THRESHOLD), path)


TABLES = {
    "exponents": exponents,
    "factors": factors,
    "widths": widths,
    "blocks": spread("blocks, all known"),
    "narrow_blocks": spread("blocks, least width"),
    "one_bridge": spread("blocks, one bridge"),
    "most_bridges": spread("blocks, most bridges"),
    "permuted": spread("permuted, all known"),
    "bridges": bridges,
    "unfit": unfit,
    "needed": needed_table,
    "standing": standing_table,
}
PICTURES = {"coverage_needed.png": draw_needed, "coverage_graphs.png": draw_graphs}
