"""Tables and pictures of the README, from the record."""

import numpy as np

from cgjax import plots
from cgjax.experiments.sprites.support import openness, studies
from cgjax.experiments.sprites.support.figures import NAMES
from cgjax.experiments.sprites.support.figures import openness as figure
from cgjax.published import PUBLISHED


def _metrics(record) -> dict:
    (entry,) = (one for one in record if (one["row"], one["size"]) == ("openness", "default"))
    return {name: metric["ours"] for name, metric in entry["metrics"].items()}


def openness_table(record: list[dict], studies: dict) -> str:
    """What each support leaves open beside the paper's R2, from the least to the most."""
    metrics = _metrics(record)
    lines = ["| support | share of f that stays open | times random | paper's R2 on all |"]
    lines += ["|---|---:|---:|---:|"]
    for name in sorted(openness.ROWS, key=lambda name: metrics[f"{name}: unknown"]):
        r2 = PUBLISHED["sprites"][openness.ROWS[name]]["r2_all"]["mean"]
        unknown, times = (metrics[f"{name}: {what}"] for what in ("unknown", "times the floor"))
        lines.append(f"| {NAMES.get(name, name)} | {unknown:.3f} | {times:.2f} | {r2:.3f} |")
    return "\n".join(lines)


def draw_openness(record: list[dict], _, path):
    """The row's figure, from its recorded numbers."""
    metrics = _metrics(record)
    ratios = openness.ratios(studies.recorded(studies.RECORD))
    means, spreads = np.array(list(ratios.values())).T
    paper = [PUBLISHED["sprites"][row]["r2_all"]["mean"] for row in openness.ROWS.values()]
    arrays = {
        "supports": list(openness.ROWS),
        "unknown": np.array([metrics[f"{name}: unknown"] for name in openness.ROWS]),
        "r2": np.array(paper),
        "rows": list(ratios),
        "amplification": np.array([metrics[f"{row}: amplification"] for row in ratios]),
        "ratio": means,
        "spread": spreads,
    }
    return plots.save(figure(arrays), path)


TABLES = {"openness": openness_table}
PICTURES = {"openness.png": draw_openness}
