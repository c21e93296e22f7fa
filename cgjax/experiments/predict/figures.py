"""One figure: every predictor's number against the outcome, and their rank correlations."""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.predict.standing import ENDS, Table, sign_of
from cgjax.experiments.predict.tables import ranked

COLUMNS = 4


def draw(table: Table, numbers: dict, folder: pathlib.Path) -> list:
    """Writes `predictors.png` and `standing.png`; numbers: the table's, by `standing.of`."""
    return [
        plots.save(predictors(table), folder / "predictors.png"),
        plots.save(standing(table, numbers), folder / "standing.png"),
    ]


@plots.styled
def predictors(table: Table):
    """A panel of points for each predictor: its number and the outcome of every counted pair."""
    names = list(table.numbers)
    n_rows = -(-len(names) // COLUMNS)
    fig = plots.new_figure(plots.PAGE, 2.2 * n_rows + 0.8, layout="constrained")
    axes = fig.subplots(n_rows, COLUMNS, squeeze=False).ravel()
    for ax in axes[len(names) :]:
        ax.axis("off")
    for ax, p in zip(axes, names):
        for block, colour in colours_of(table).items():
            rows = (table.blocks == block) & table.counted & np.isfinite(table.numbers[p])
            shown = rows & ~table.held_out
            style = {"color": colour, "ms": 3, "alpha": 0.7}
            ax.plot(table.numbers[p][shown], table.outcome[shown], "o", label=block, **style)
            hidden = rows & table.held_out
            ax.plot(table.numbers[p][hidden], table.outcome[hidden], "o", mfc="none", **style)
        direction = "composes" if sign_of(p) > 0 else "does not compose"
        ax.set_title(p, fontsize=9)
        ax.set_xlabel(f"larger: {direction}", fontsize=8)
        ax.set_ylim(-1.08, 1.08)
    for ax in axes[::COLUMNS]:
        ax.set_ylabel("outcome")
    plots.headline(fig, "Each predictor's number and the outcome (open: held-out pairs)")
    plots.legend_below(fig, axes[0])
    return fig


@plots.styled
def standing(table: Table, numbers: dict):
    """tau of every predictor with its interval, on held-out pairs, and in each block."""
    names = [p for p in ranked(table, numbers) if np.isfinite(numbers.get(f"{p}: tau", np.nan))]
    fig = plots.new_figure(plots.PAGE, 0.36 * len(names) + 1.8, layout="constrained")
    ax = fig.subplots()
    for i, p in enumerate(reversed(names)):
        tau, low, high = (numbers.get(f"{p}: tau{end}", np.nan) for end in ("", *ENDS))
        ax.plot(np.clip([low, high], -1, 1), [i, i], color=plots.INK, lw=2)
        ax.plot(tau, i, "D", color=plots.INK, ms=6, label="all blocks, 95 %" if i == 0 else None)
        held_out = numbers.get(f"held out, {p}: tau", np.nan)
        label = "held-out pairs" if i == 0 else None
        ax.plot(held_out, i, "D", mfc="none", color=plots.INK, ms=6, label=label)
        for block, colour in colours_of(table).items():
            value = numbers.get(f"{p}: tau, {block}", np.nan)
            ax.plot(value, i - 0.22, "o", color=colour, ms=4, label=block if i == 0 else None)
    ax.axvline(0, color=plots.GREY, lw=0.8)
    ax.set(xlim=(-1.05, 1.05), yticks=range(len(names)), yticklabels=names[::-1])
    ax.set_xlabel("Kendall's tau-b of number and outcome; 1: the number orders all pairs")
    plots.headline(fig, "Which number tells what composes?")
    plots.legend_below(fig, ax)
    return fig


def colours_of(table: Table) -> dict:
    """A colour for each block, in the order of their names."""
    return dict(zip(sorted(set(table.blocks)), plots.COLOURS))
