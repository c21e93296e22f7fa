"""Tables, sentences and pictures of the README, from the record.

record: the recorded runs; studies: recorded studies of several runs, of which this family has none.
"""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.analysis.data_needed import exponent_of_medians
from cgjax.experiments.coverage import figures, tables
from cgjax.experiments.coverage.figures import ARCHITECTURES, TITLES, exponent_text, parts_of

THRESHOLD = 0.8


def read(record: list[dict]) -> dict:
    """Metrics of the rows at size `fast`."""
    return tables.metrics_of(record, "fast")


def exponent(part: str, axis: str = "n"):
    """A field: the exponent of a part with its interval."""
    return lambda record, studies: exponent_text(read(record), part, axis)


def across_blocks(part: str):
    """A field: least and greatest R2 across two blocks over sizes of the set, medians of seeds."""

    def text(record, studies):
        _, r2 = figures.Part.read(read(record), part).by_graph("blocks")
        medians = np.median(r2, axis=0)
        return f"{medians.min():.2f} to {medians.max():.2f}"

    return text


def without_unfit(record: list[dict], studies: dict) -> str:
    """The exponent of bumps at R2 0.5 without the greatest n, whose largest sets are not fitted."""
    curves = figures.Part.read(read(record), "bumps_mlp").along("n")
    n = sorted(curves)[:-1]
    sizes, r2 = zip(*(curves[value] for value in n))
    fit, *_ = exponent_of_medians(n, sizes, [each.T for each in r2], figures.LOWER)
    return f"{fit.slope:.2f} ({fit.low:.2f} to {fit.high:.2f})"


def unfit(record: list[dict], studies: dict) -> str:
    """How many cells do not fit their training set, by part."""
    metrics, words = read(record), []
    for parts in parts_of(metrics).values():
        for part in parts.values():
            failed, cells = (
                metrics[f"{part}/{name}"]["ours"] for name in ("cells that do not fit", "cells")
            )
            words.append(f"{part} {failed:.0f} of {cells:.0f}")
    return ", ".join(words)


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
            rows.append((TITLES[task], ARCHITECTURES[architecture], "; ".join(cells)))
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
    return plots.save(figures.needed(read(record), THRESHOLD), path)


def draw_graphs(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Held-out R2 by graph."""
    return plots.save(figures.graphs(read(record), THRESHOLD), path)


TABLES = {
    "addition_mlp": exponent("addition_mlp"),
    "addition_transformer": exponent("addition_transformer"),
    "sprites_mlp": exponent("sprites_mlp"),
    "teacher_mlp": exponent("teacher_mlp"),
    "teacher_transformer": exponent("teacher_transformer"),
    "bumps_half": exponent("bumps_mlp", "n, R2 0.5"),
    "addition_mlp_width": exponent("addition_mlp", "width"),
    "addition_transformer_width": exponent("addition_transformer", "width"),
    "sprites_width": exponent("sprites_mlp", "width"),
    "teacher_width": exponent("teacher_mlp", "width"),
    "addition_mlp_factors": exponent("addition_mlp", "factors"),
    "addition_transformer_factors": exponent("addition_transformer", "factors"),
    "addition_mlp_across": across_blocks("addition_mlp"),
    "addition_transformer_across": across_blocks("addition_transformer"),
    "teacher_mlp_across": across_blocks("teacher_mlp"),
    "teacher_transformer_across": across_blocks("teacher_transformer"),
    "unfit": unfit,
    "without_unfit": without_unfit,
    "needed": needed_table,
    "standing": standing_table,
}
PICTURES = {"coverage_needed.png": draw_needed, "coverage_graphs.png": draw_graphs}
