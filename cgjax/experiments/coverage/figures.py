"""Two figures: combinations needed by number of values, and what the graph of combinations does.

Both read metrics as results.json and the record hold them.
"""

import pathlib

import numpy as np
from matplotlib.ticker import NullLocator

from cgjax import plots
from cgjax.analysis.data_needed import data_needed
from cgjax.experiments.coverage.scores import ENDS, Part

TITLES = {
    "addition": "addition",
    "bumps": "bumps",
    "sprites": "sprites",
    "teacher": "teacher",
}
ARCHITECTURES = {"mlp": "MLP", "transformer": "transformer"}
GRAPHS = {
    "connected": "a tree first, then any",
    "random": "any combinations",
    "blocks": "two blocks, not joined",
    "permuted": "targets permuted",
}


def draw(metrics: dict, threshold: float, folder: pathlib.Path) -> list:
    """Writes `needed.png` and `graphs.png`."""
    return [
        plots.save(needed(metrics, threshold), folder / "needed.png"),
        plots.save(graphs(metrics, threshold), folder / "graphs.png"),
    ]


def parts_of(metrics: dict) -> dict:
    """{task: {architecture: name of the part}}, in the order of TITLES."""
    names = sorted({name.partition("/")[0] for name in metrics})
    by_task = {}
    for task in TITLES:
        parts = {name.rpartition("_")[2]: name for name in names if name.startswith(f"{task}_")}
        if parts:
            by_task[task] = parts
    return by_task


def number(metrics: dict, name: str) -> float:
    """A recorded number; inf or 0 mark censored cells, of which only 0 is a number in json."""
    value = metrics[name]["ours"]
    return np.inf if value is None else value


def fits(metrics: dict, part: str) -> bool:
    """Whether most networks of a part fit their training set."""
    unfit, cells = (metrics[f"{part}/cells{end}"]["ours"] for end in (" that do not fit", ""))
    return unfit < cells / 2


def exponent_text(metrics: dict, part: str, axis: str = "n") -> str:
    """`1.25 (1.10 to 1.40)`, or why there is none."""
    if f"{part}/{axis}: exponent" not in metrics:  # a run may have one width, or one threshold
        return "-"
    if not fits(metrics, part):
        return "none: does not fit"
    slope, low, high = (metrics[f"{part}/{axis}: exponent{end}"]["ours"] for end in ("", *ENDS))
    never = metrics[f"{part}/{axis}: never reached"]["ours"]
    if slope is None:
        return f"none: {never:.0f} not reached"
    note = f", {never:.0f} not reached" if never else ""
    interval = "" if low is None else f" ({low:.2f} to {high:.2f})"
    return f"{slope:.2f}{interval}{note}"


LOWER = 0.5  # a second threshold, drawn with thin lines


@plots.styled
def needed(metrics: dict, threshold: float):
    """Combinations needed against the number of values, on logarithmic axes, a panel per task."""
    by_task = parts_of(metrics)
    n_rows = -(-len(by_task) // 2)  # two panels in a row, so that text stays readable in READMEs
    fig = plots.new_figure(plots.PAGE, 3.5 * n_rows + 0.5, layout="constrained")
    axes = fig.subplots(n_rows, 2, squeeze=False)
    for ax in axes.ravel()[len(by_task) :]:
        ax.axis("off")
    for ax, (task, parts) in zip(axes.ravel(), by_task.items()):
        curves = Part.read(metrics, next(iter(parts.values()))).along("n")
        values = np.array(list(curves), float)
        limits = np.array([(size[0], size[-1]) for size, _ in curves.values()], float)
        handles = []
        for i, (architecture, name) in enumerate(parts.items()):
            line = _draw_needed(ax, metrics, name, values * (1 + 0.02 * i), limits, i)
            line.set_label(
                f"{ARCHITECTURES[architecture]} {exponent_text(metrics, name)}\n"
                f"   R2 {LOWER:g}: {exponent_text(metrics, name, f'n, R2 {LOWER:g}')}"
            )
            handles.append(line)
        style = {"color": plots.GREY, "lw": 1, "zorder": 0}
        ax.plot(values, limits[:, 1], "--", **style, label="all but the held-out ones")
        tree = values if task == "teacher" else 2 * values - 1
        ax.plot(values, tree, ":", **style, label="a tree (2n - 1), or as many as modules")
        ax.set(title=TITLES[task], xscale="log", yscale="log", ylim=(None, 4 * limits[-1, 1]))
        ax.set_xlabel("modules" if task == "teacher" else "values of each factor, n")
        _plain_ticks(ax, values)
        ax.grid(axis="y", **plots.GRID)
        ax.legend(handles=handles, loc="upper left", fontsize=7.5, frameon=False)
    for ax in axes[:, 0]:
        ax.set_ylabel("combinations needed")
    lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")][-2:]
    fig.legend(handles=lines, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    note = f"thin: for R2 {LOWER:g}; open triangles: never reached"
    plots.headline(
        fig, f"Combinations needed for held-out R2 {threshold:g}, with exponents ({note})"
    )
    return fig


def _plain_ticks(ax, values) -> None:
    """Ticks at these values only, as plain numbers."""
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.xaxis.set_minor_locator(NullLocator())


def _draw_needed(ax, metrics, part, places, limits, i):
    """Medians with intervals of one architecture; open triangles where none was enough."""
    colour, curves = plots.COLOURS[i], Part.read(metrics, part).along("n")
    middle, low, high = (
        np.array([number(metrics, f"{part}/n {value}: needed{end}") for value in curves])
        for end in ("", *ENDS)
    )
    lower = [data_needed(sizes, np.median(r2, axis=0), LOWER) for sizes, r2 in curves.values()]
    lower = np.where(np.isfinite(lower) & (np.array(lower) > 0), lower, np.nan)
    ax.plot(places, lower, ".-", color=colour, ms=3, lw=0.7)
    for place, bottom, top, limit in zip(places, low, high, limits):
        if np.isfinite(bottom):
            ax.plot([place] * 2, [max(bottom, limit[0]), min(top, limit[1])], color=colour, lw=1)
    never, enough = np.isinf(middle), middle == 0
    ax.plot(places[never], limits[never, 1], "^", color=colour, mfc="none", ms=7)
    ax.plot(places[enough], limits[enough, 0], "v", color=colour, mfc="none", ms=7)
    shown = np.where(never | enough, np.nan, middle)
    return ax.plot(places, shown, "o-", color=colour, ms=4.5, lw=1.6)[0]


@plots.styled
def graphs(metrics: dict, threshold: float):
    """Held-out R2 by size for each graph, and by combinations that join two blocks.

    A row for each task: a panel for each architecture, then one of the bridges.
    """
    by_task = parts_of(metrics)
    columns = list(dict.fromkeys(name for parts in by_task.values() for name in parts))
    colours = dict(zip(columns, (plots.INK, plots.COLOURS[4])))  # graphs have the other colours
    shape = len(by_task), len(columns) + 1
    fig = plots.new_figure(plots.PAGE, 2.1 * shape[0] + 0.9, layout="constrained")
    axes = fig.subplots(*shape, squeeze=False, sharey=True)
    for row, (task, parts) in zip(axes, by_task.items()):
        for ax, architecture in zip(row, columns):
            if architecture in parts:
                ax.set_title(f"{TITLES[task]}, {ARCHITECTURES[architecture]}", fontsize=9)
                _draw_sizes(ax, Part.read(metrics, parts[architecture]), threshold)
            else:
                ax.axis("off")
        ax = row[-1]
        for architecture, name in parts.items():
            bridges, r2 = Part.read(metrics, name).of_blocks("bridges")
            label = ARCHITECTURES[architecture]
            _draw_curve(ax, np.maximum(bridges, 0.5), r2, colours[architecture], label)
        ax.set(xscale="log")
        ax.set_title(f"{TITLES[task]}, bridges", fontsize=9)
        _plain_ticks(ax, np.maximum(bridges, 0.5))
        ax.set_xticklabels([f"{b:g}" for b in bridges])
        ax.axhline(threshold, color=plots.FAINT, lw=0.8)
        row[0].set(ylabel="held-out R2", ylim=(-0.55, 1.05))
    for ax in axes[-1]:
        ax.set_xlabel("known combinations")
    axes[-1, -1].set_xlabel("bridges between blocks")
    plots.headline(fig, "Held-out R2 by graph and size; right: sets of one size, by bridges")
    drawn = [*axes[0, 0].get_lines(), *axes[0, -1].get_lines()]
    handles = [line for line in drawn if not line.get_label().startswith("_")]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return fig


def _draw_sizes(ax, part: Part, threshold: float) -> None:
    for i, (graph, label) in enumerate(GRAPHS.items()):
        _draw_curve(ax, *part.by_graph(graph), plots.COLOURS[i], label)
    ax.axhline(threshold, color=plots.FAINT, lw=0.8)
    ax.set(xscale="log")
    _plain_ticks(ax, part.by_graph("connected")[0][::2])


def _draw_curve(ax, x, r2, colour, label) -> None:
    """A thin line for each seed, a thick one for their median; R2 below -0.5 is at the edge."""
    shown = np.maximum(r2, -0.5)
    ax.plot(x, shown.T, color=colour, lw=0.5, alpha=0.5)
    ax.plot(x, np.median(shown, axis=0), "o-", color=colour, lw=1.6, ms=3.5, label=label)
