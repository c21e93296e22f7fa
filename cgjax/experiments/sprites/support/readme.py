"""Numbers and a picture of the README, from the record.

record: the recorded runs of this family; studies: not needed.
"""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.analysis.stats import kendall_tau_b
from cgjax.experiments.sprites.support import figures, openness, studies
from cgjax.published.results import by_row


def openness_arrays(record: list[dict]) -> dict:
    """The arrays of the study `openness` at `paper`.

    What stays open and the amplifications are of its record; they depend on the supports alone. The
    recorded ratios are of the sprites runs as they are now, some of which are newer.
    """
    metrics = by_row(record, "paper")["openness"]

    def of(names, what):
        return np.array([metrics[f"{name}: {what}"]["ours"] for name in names])

    ratios = openness.ratios(studies.recorded(studies.RECORD))
    return {
        "supports": np.array(list(openness.ROWS)),
        "unknown": of(openness.ROWS, "unknown"),
        "r2": np.array([openness.published_r2(row)[0] for row in openness.ROWS.values()]),
        "rows": np.array(list(ratios)),
        "amplification": of(ratios, "amplification"),
        "ratio": np.array([mean for _, mean, _ in ratios.values()]),
        "spread": np.array([spread for _, _, spread in ratios.values()]),
    }


def amplification(record: list[dict], studies: dict) -> str:
    """The order of recorded ratios by the predicted amplification, and how many exceed it."""
    arrays = openness_arrays(record)
    predicted, ratio = arrays["amplification"], arrays["ratio"]
    above = np.sum(ratio > predicted + arrays["spread"])
    return (
        f"Its tau-b with the recorded ratios of {len(ratio)} supports is "
        f"{kendall_tau_b(predicted, ratio):.2f}. {above} of these ratios exceed it by more than "
        "the sd of their seeds"
    )


def slack(record: list[dict], studies: dict) -> str:
    """How many times the recorded ratio the predicted amplification is."""
    arrays = openness_arrays(record)
    times = arrays["amplification"] / arrays["ratio"]
    return f"{times.min():.1f} to {times.max():.0f}"


def draw_openness(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Openness and amplification before training against scores after it."""
    return plots.save(figures.openness_figure(openness_arrays(record)), path)


TABLES = {"amplification": amplification, "slack": slack}
PICTURES = {"support_openness.png": draw_openness}
