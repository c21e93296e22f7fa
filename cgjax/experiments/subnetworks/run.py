"""Runs one study of the subnetworks family: bases, masks, measures, figures."""

import pathlib
import re

from cgjax.experiments.subnetworks import figures as drawing
from cgjax.experiments.subnetworks import reading, study
from cgjax.published import PUBLISHED
from cgjax.published import tables as markdown
from cgjax.published.results import summary

HEADLINES = (
    "sub_diff", "abl_diff", "abl_diff beyond random removals", "full pattern",
    "alignment with own less other, subnetwork", "alignment with own less other, random",
)  # fmt: skip


def check(config) -> None:
    """Raises an error for combinations of keys that their ranges cannot exclude."""
    study.check(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    metrics, arrays = study.study(config, workdir)
    # A smoke run is not a measurement: it only checks that the program runs.
    known = {} if config.size == "smoke" else PUBLISHED["subnetworks"].get(config.row, {})
    results = {
        name: summary(values, seeds, known.get(name)) for name, (values, seeds) in metrics.items()
    }
    if figures:
        draw(config, arrays, workdir / "figures")
    return results, arrays, {"headlines": headlines(results)}


def headlines(results: dict) -> list[str]:
    """Metrics at the top of the closing table: rank correlations, then HEADLINES."""
    correlations = [name for name in results if name.startswith("tau") or "/tau" in name]
    return correlations + [
        name
        for name in results
        if re.sub(", (oracle|selected)$", "", name.split(": ")[-1]) in HEADLINES
    ]


def plan(config) -> dict:
    """The size of each part's base training."""
    return study.plan(config)


def load(config, workdir, part: str = "", step=None):
    """The bases of one part of a row, or their subnetworks; `reading` documents the names."""
    return reading.load(config, workdir, part, step)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The row's figures, from its saved arrays."""
    drawing.draw(config.study, arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: numbers beside the paper's, and the measures of each."""
    has_published = any(
        metric["paper"] is not None for entry in record for metric in entry["metrics"].values()
    )
    sections = [("subnetworks", markdown.metric_table(record))] if has_published else []
    if lines := [line for entry in record for line in _measures(entry)]:
        columns = ("row", "size", "network and subroutine", *SHOWN)
        head = ["| " + " | ".join(columns) + " |", "|---|---|---|" + "---:|" * len(SHOWN)]
        sections.append(("subnetworks: structure", "\n".join(head + lines)))
    return sections


SHOWN = ("sub_diff", "abl_diff", "abl_diff beyond random removals", "kept", "full pattern")


def _measures(entry: dict) -> list[str]:
    """A line for each network and subroutine of a recorded run."""
    metrics, lines = entry["metrics"], []
    for name in metrics:
        what, _, measure = name.rpartition(": ")
        if measure == SHOWN[0]:
            values = [metrics[f"{what}: {column}"]["ours"] for column in SHOWN]
            cells = ["-" if value is None else f"{value:.3f}" for value in values]
            lines.append(f"| {' | '.join([entry['row'], entry['size'], what, *cells])} |")
    return lines
