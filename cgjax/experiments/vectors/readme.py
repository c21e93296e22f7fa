"""Tables and pictures of the README, from the record.

record: the recorded runs; studies: recorded studies of several runs, of which this family has none.
"""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.vectors.run import KIND_NAMES, SUPPORTS
from cgjax.published import PUBLISHED
from cgjax.published import verdict as verdicts
from cgjax.published.results import by_row

MODELS = {**KIND_NAMES, "regularised": "one network, regularised"}
FIRST = 20  # seeds that every row had before more were added
READ = {"marker": "o", "mfc": "none", "ms": 6, "lw": 1, "color": plots.INK}


def metrics_of(record: list[dict]) -> dict:
    """{(model, support): metrics} of the runs at the published length."""
    runs = by_row(record, "paper")
    return {(name, part): runs[f"{name}_{part}"] for name in MODELS for part in SUPPORTS}


def compared(record: list[dict]) -> list[tuple]:
    """(model, support, our R2 on random latents, the published number, verdict) of each run."""
    rows = []
    for (model, support), metrics in metrics_of(record).items():
        score, published = metrics["r2_all"], PUBLISHED["vectors"][f"{model}_{support}"]["r2_all"]
        verdict = verdicts.verdict(score["values"], published)
        rows.append((model, support, score, published, verdict))
    return rows


def scores_table(record: list[dict], studies: dict) -> list:
    """R2 on random latents beside the numbers read off the plots."""
    rows = [
        ("model", "trained on", "ours, mean ± sd", "read off", "difference", "tolerance", "verdict")
    ]
    for model, support, score, published, verdict in compared(record):
        low, high = (published["mean"] + 2 * sign * published["sd"] for sign in (-1, 1))
        numbers = (f"{score['ours']:.3f} ± {score['sd']:.3f}", f"{low:.2f} to {high:.2f}")
        numbers += (f"{verdict.difference:+.3f}", f"{verdict.tolerance:.3f}")
        rows.append((MODELS[model], support, *numbers, verdict.word))
    return rows


def seeds(record: list[dict], studies: dict) -> str:
    """The least and the greatest number of seeds."""
    counts = [len(metrics["r2_all"]["values"]) for metrics in metrics_of(record).values()]
    return f"{min(counts)} to {max(counts)}"


def scatter_sentence(record: list[dict], studies: dict) -> str:
    """How many underpowered comparisons scatter by more than the tolerance, and the others."""
    rows = [row for row in compared(record) if row[4].word == "underpowered"]
    wide = [score for _, _, score, _, verdict in rows if score["sd"] > verdict.tolerance]
    gaps = [
        verdict.difference for *_, score, _, verdict in rows if score["sd"] <= verdict.tolerance
    ]
    return (
        f"{len(wide)} of the {len(rows)} underpowered cases single runs scatter by more than the "
        f"tolerance, so a published curve of one run decides nothing. In the other {len(gaps)} the "
        f"difference, {min(gaps):.3f} to {max(gaps):.3f}, is just above the tolerance"
    )


def added(record: list[dict], studies: dict) -> str:
    """The rows that have more than the FIRST seeds, and how many of them are still open."""
    rows = [row for row in compared(record) if len(row[2]["values"]) > FIRST]
    counts = sorted((len(score["values"]) for _, _, score, *_ in rows), reverse=True)
    n_open = sum(verdict.word == "underpowered" for *_, verdict in rows)
    return (
        f"{len(rows)} rows have more than {FIRST} seeds ({', '.join(map(str, counts))}): they were "
        f"added after a look at the first {FIRST}, which is optional stopping. {n_open} of them "
        "stay underpowered"
    )


def regulariser(support: str):
    """A field: what the regulariser changes on a support, seed by seed."""

    def sentence(record: list[dict], studies: dict) -> str:
        metrics = metrics_of(record)
        with_it, without = (metrics[model, support]["r2_all"] for model in ("regularised", "mlp"))
        if with_it["seeds"] != without["seeds"]:
            raise ValueError(f"{support}: the runs have other seeds with the regulariser")
        change = np.subtract(with_it["values"], without["values"])
        width = verdicts.half_width(change)
        return f"{change.mean():+.3f} ± {width:.3f} (95 %, {len(change)} pairs of seeds)"

    return sentence


def correlations(support: str):
    """A field: over seeds, R2 on a support with R2 on random latents, with and without."""

    def sentence(record: list[dict], studies: dict) -> str:
        metrics, r = metrics_of(record), []
        for model in ("regularised", "mlp"):
            scores = metrics[model, support]
            r.append(np.corrcoef(scores["r2_id"]["values"], scores["r2_all"]["values"])[0, 1])
        return f"{r[0]:.2f} with the regulariser, {r[1]:.2f} without"

    return sentence


@plots.styled
def draw_scores(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """R2 on random latents of every seed, with the interval that was read off the plot."""
    fig = plots.new_figure(plots.PAGE, 3.4, layout="constrained")
    ax = fig.subplots()
    for (model, support), metrics in metrics_of(record).items():
        i, k = list(MODELS).index(model), SUPPORTS.index(support)
        values = metrics["r2_all"]["values"]
        published = PUBLISHED["vectors"][f"{model}_{support}"]["r2_all"]
        place, label = k + 0.27 * (i - 1), MODELS[model] if k == 0 else None
        plots.seeds(ax, place - 0.03, values, plots.COLOURS[i], label, size=3)
        label = "read off the plot, one run" if i == k == 0 else None
        ax.errorbar(place + 0.06, published["mean"], 2 * published["sd"], label=label, **READ)
    ax.axhline(0, color=plots.FAINT, lw=0.8)
    ax.set_xticks(range(len(SUPPORTS)), [f"trained on {support}" for support in SUPPORTS])
    ax.set_ylabel("R2 on random latents")
    ax.grid(axis="y", **plots.GRID)
    plots.legend_below(fig, ax)
    words = "Only a network per part generalises beyond diagonal and orthogonal"
    plots.headline(fig, words)
    return plots.save(fig, path)


@plots.styled
def draw_regulariser(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """R2 on the support and everywhere, with and without the regulariser, every seed."""
    fig = plots.new_figure(plots.PAGE, 3.6, layout="constrained")
    axes = fig.subplots(1, len(SUPPORTS), sharex=True, sharey=True)
    metrics = metrics_of(record)
    for ax, support in zip(axes, SUPPORTS):
        for i, model in ((0, "mlp"), (2, "regularised")):
            points = [metrics[model, support][name]["values"] for name in ("r2_id", "r2_all")]
            style = {"color": plots.COLOURS[i], "label": MODELS[model]}
            ax.plot(*points, "o", ms=3.5, alpha=0.7, **style)
        ax.plot((0.7, 1), (0.7, 1), color=plots.FAINT, lw=0.8, label="as good as on the support")
        without, with_it = (
            metrics[model, support]["block_contrast"]["ours"] for model in ("mlp", "regularised")
        )
        note = f"block contrast {without:.1f},\nregularised {with_it:.2f}"
        ax.set(title=f"trained on {support}", xlabel=f"R2 on the support\n{note}")
        ax.set_xticks((0.7, 0.8, 0.9, 1))
        ax.grid(**plots.GRID)
    plots.legend_below(fig, axes[0])
    axes[0].set_ylabel("R2 on random latents")
    plots.headline(
        fig, "The block contrast costs fit on the support and is not shown to help off it"
    )
    return plots.save(fig, path)


TABLES = {
    "scores": scores_table,
    "seeds": seeds,
    "scatter": scatter_sentence,
    "added": added,
    "regulariser orthogonal": regulariser("orthogonal"),
    "regulariser diagonal": regulariser("diagonal"),
    "correlations orthogonal": correlations("orthogonal"),
    "correlations diagonal": correlations("diagonal"),
}
PICTURES = {"vectors_scores.png": draw_scores, "vectors_regulariser.png": draw_regulariser}
