"""Markdown of recorded runs: exponents, and scores on graphs that are not connected."""

import numpy as np

from cgjax.experiments.coverage.figures import ARCHITECTURES, TITLES, exponent_text, parts_of


def metrics_of(record: list[dict], size: str = "fast") -> dict:
    """Metrics of all recorded runs of one size together; tasks, and labels, are parts."""
    return {
        name: metric
        for entry in record
        if entry["size"] == size
        for name, metric in entry["metrics"].items()
    }


def of(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown), a table for each size that was recorded."""
    titles = []
    for size in dict.fromkeys(entry["size"] for entry in record):
        rows = standing(metrics_of(record, size))
        lines = [f"| {' | '.join(cells)} |" for cells in rows]
        titles.append(
            (
                f"coverage, size {size}",
                "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]),
            )
        )
    return titles


def standing(metrics: dict) -> list[tuple]:
    """Rows of cells with the header first: one row for each task and architecture."""
    rows = [
        ("task", "architecture", "exponent in n", "in width", "R2 0.5: in n", "R2 0.95: in n",
         "R2, two blocks", "one bridge", "most bridges", "targets permuted"),
    ]  # fmt: skip
    for task, parts in parts_of(metrics).items():
        for architecture, part in parts.items():
            exponents = [
                exponent_text(metrics, part, axis)
                for axis in ("n", "width", "n, R2 0.5", "n, R2 0.95")
            ]
            names = ("blocks, all known", "blocks, one bridge", "blocks, most bridges")
            medians = [
                median(metrics, f"{part}/{name}") for name in (*names, "permuted, all known")
            ]
            rows.append((TITLES[task], ARCHITECTURES[architecture], *exponents, *medians))
    return rows


def median(metrics: dict, name: str) -> str:
    """The median over seeds of held-out R2, and its least and greatest value."""
    if f"{name}: held-out R2" not in metrics:  # a run may have no bridges
        return "-"
    values = [np.nan if v is None else v for v in metrics[f"{name}: held-out R2"]["values"]]
    return f"{np.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
