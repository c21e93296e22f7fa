"""One figure: every theory's number against the error, and their rank correlations."""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.across.answers import Table
from cgjax.experiments.across.theories import THEORIES

AXES = {
    "support": "values without a guarantee",
    "tangent": "error of the linearised network",
    "factorization": "1 - F of the representation",
    "dependence": "first update's share of other inputs",
    "masks": "overlap of the routines' masks",
}
ENDS = (", low", ", high")
LEAST = 1e-4  # smallest error drawn on the logarithmic axis


def draw(table: Table, correlations: dict, folder: pathlib.Path) -> list:
    """Writes `theories.png`; correlations: those of the table, by `answers.over_pairs`."""
    return [plots.save(theories(table, correlations), folder / "theories.png")]


@plots.styled
def theories(table: Table, correlations: dict):
    """A panel of points for each theory, and one with the rank correlations."""
    fig = plots.new_figure(11, 7.2, layout="constrained")
    axes = fig.subplots(2, 3).ravel()
    families = list(dict.fromkeys(table.families))
    colours = dict(zip(families, plots.COLOURS))
    for ax, theory in zip(axes, THEORIES):
        _points(ax, table, theory, colours)
    for ax in axes[[0, 3]]:
        ax.set_ylabel(f"error after training (at least {LEAST:g})")
    _correlations(axes[5], correlations, colours)
    plots.headline(fig, "What five theories say before training, and the error on new combinations")
    plots.legend_below(fig, axes[1])
    return fig


def _points(ax, table: Table, theory: str, colours: dict) -> None:
    families, x, y = table.where(theory, "error")
    for family, colour in colours.items():
        in_family = families == family
        ax.plot(
            x[in_family],
            np.maximum(y[in_family], LEAST),
            "o",
            color=colour,
            label=family,
            ms=5,
            alpha=0.8,
        )
    ax.set_yscale("log")
    if theory == "tangent":
        ax.set_xscale("log")
    ax.set_title(theory)
    ax.set_xlabel(AXES[theory])


def _correlations(ax, correlations: dict, colours: dict) -> None:
    """tau within families with its interval, and tau of each family."""
    names = list(THEORIES)[::-1]
    for i, theory in enumerate(names):
        tau, low, high = (correlations.get(f"{theory}: tau{end}", np.nan) for end in ("", *ENDS))
        ax.plot([low, high], [i, i], color=plots.INK, lw=2)
        ax.plot(tau, i, "D", color=plots.INK, ms=6)
        for family, colour in colours.items():
            value = correlations.get(f"{theory}: tau, {family}", np.nan)
            ax.plot(value, i - 0.22, "o", color=colour, ms=4)
    ax.axvline(0, color=plots.GREY, lw=0.8)
    ax.set(
        xlim=(-1.05, 1.05),
        xticks=(-1, -0.5, 0, 0.5, 1),
        yticks=range(len(names)),
        yticklabels=names,
    )
    ax.set_title("rank correlation with the error")
    ax.set_xlabel("tau-b: within families (95 %), and of each")
