"""Two figures: combinations needed by number of values, and what the graph of combinations does.

Both read metrics as results.json and the record hold them.
"""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.coverage.scores import ENDS, Part

TITLES = {
    "addition": "addition tables",
    "bumps": "bumps",
    "sprites": "sprites",
    "teacher": "hypernetwork teacher",
}
GRAPHS = {
    "connected": "a tree first, then any",
    "random": "any combinations",
    "blocks": "two blocks, not joined",
    "permuted": "targets permuted",
}


def draw(metrics: dict, threshold: float, folder: pathlib.Path) -> list:
    """Writes `needed.png` and `graphs.png`."""
    return [
        plots.save(needed(metrics), folder / "needed.png"),
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


def exponent_text(metrics: dict, part: str, axis: str = "n") -> str:
    """`1.25 (1.10 to 1.40)`, or why there is none."""
    slope, low, high = (metrics[f"{part}/{axis}: exponent{end}"]["ours"] for end in ("", *ENDS))
    never = metrics[f"{part}/{axis}: never reached"]["ours"]
    if slope is None:
        return f"none: {never:.0f} not reached"
    note = f", {never:.0f} not reached" if never else ""
    interval = "" if low is None else f" ({low:.2f} to {high:.2f})"
    return f"{slope:.2f}{interval}{note}"


@plots.styled
def needed(metrics: dict):
    """Combinations needed against the number of values, on logarithmic axes, a panel per task."""
    by_task = parts_of(metrics)
    fig = plots.new_figure(3.1 * len(by_task) + 0.4, 3.9, layout="constrained")
    for ax, (task, parts) in zip(np.ravel(fig.subplots(1, len(by_task))), by_task.items()):
        part = Part.read(metrics, next(iter(parts.values())))
        values = np.array(list(part.along("n")), float)
        limits = np.array([(size[0], size[-1]) for size, _ in part.along("n").values()], float)
        style = {"color": plots.FAINT, "lw": 1, "zorder": 0}
        ax.plot(values, limits[:, 1], "--", **style, label="all but the held-out ones")
        tree = values if task == "teacher" else 2 * values - 1
        ax.plot(values, tree, ":", **style, label="as many as a tree, or as there are modules")
        for i, (architecture, name) in enumerate(parts.items()):
            _draw_needed(ax, metrics, name, architecture, values * (1 + 0.02 * i), limits, i)
        ax.set(title=TITLES[task], xscale="log", yscale="log")
        ax.set_xlabel("modules" if task == "teacher" else "values of each factor, n")
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.minorticks_off()
        ax.grid(axis="y", **plots.GRID)
        ax.legend(loc="upper left", fontsize=7, frameon=False, title="exponent", title_fontsize=7)
    fig.axes[0].set_ylabel("combinations needed")
    plots.headline(fig, "Combinations needed for composition (dashed: all that can be trained)")
    return fig


def _draw_needed(ax, metrics, part, architecture, places, limits, i):
    """Medians with intervals of one architecture; open triangles where none was enough."""
    colour, values = plots.COLOURS[i], [name for name in Part.read(metrics, part).along("n")]
    columns = [
        np.array([number(metrics, f"{part}/n {value}: needed{end}") for value in values])
        for end in ("", *ENDS)
    ]
    middle, low, high = columns
    known = np.isfinite(middle) & (middle > 0)
    label = f"{architecture} {exponent_text(metrics, part)}"
    ax.plot(places[known], middle[known], "o-", color=colour, ms=4.5, lw=1.5, label=label)
    if not known.any():
        ax.plot([], [], "^", color=colour, mfc="none", label=label)
    for place, bottom, top, limit in zip(places, low, high, limits):
        if np.isfinite(bottom):
            ax.plot([place] * 2, [max(bottom, limit[0]), min(top, limit[1])], color=colour, lw=1)
    never = np.isinf(middle)
    ax.plot(places[never], limits[never, 1], "^", color=colour, mfc="none", ms=7)
    ax.plot(places[middle == 0], limits[middle == 0, 0], "v", color=colour, mfc="none", ms=7)


@plots.styled
def graphs(metrics: dict, threshold: float):
    """Held-out R2 by size for each graph, and by combinations that join two blocks."""
    by_task = parts_of(metrics)
    rows = list(dict.fromkeys(name for parts in by_task.values() for name in parts))
    n = len(rows)
    fig = plots.new_figure(3.1 * len(by_task) + 0.4, 2.5 * (n + 1) + 0.6, layout="constrained")
    axes = fig.subplots(n + 1, len(by_task), squeeze=False, sharey=True)
    for column, (task, parts) in zip(axes.T, by_task.items()):
        for ax, architecture in zip(column, rows):
            ax.set_title(f"{TITLES[task]}, {architecture}")
            if architecture in parts:
                _draw_sizes(ax, Part.read(metrics, parts[architecture]), threshold)
            else:
                ax.axis("off")
        for i, (architecture, name) in enumerate(parts.items()):
            bridges, r2 = Part.read(metrics, name).of_blocks("bridges")
            _draw_curve(column[-1], np.maximum(bridges, 0.5), r2, plots.COLOURS[i], architecture)
        column[-1].set(xscale="log", xlabel="combinations that join the blocks", title=TITLES[task])
        column[-1].set_xticks(np.maximum(bridges, 0.5), [f"{b:g}" for b in bridges])
        column[-1].minorticks_off()
        column[-1].axhline(threshold, color=plots.FAINT, lw=0.8)
        column[-1].legend(loc="lower right", fontsize=7, frameon=False)
    for ax in axes[:, 0]:
        ax.set_ylabel("held-out R2")
        ax.set_ylim(-0.55, 1.05)
    plots.headline(fig, "Held-out R2 by graph and size; below, sets of one size with more bridges")
    plots.legend_below(fig, axes[0, 0])
    return fig


def _draw_sizes(ax, part: Part, threshold: float) -> None:
    for i, (graph, label) in enumerate(GRAPHS.items()):
        _draw_curve(ax, *part.by_graph(graph), plots.COLOURS[i], label)
    ax.axhline(threshold, color=plots.FAINT, lw=0.8)
    ax.set(xscale="log", xlabel="known combinations")


def _draw_curve(ax, x, r2, colour, label) -> None:
    """A thin line for each seed, a thick one for their median; R2 below -0.5 is at the edge."""
    shown = np.maximum(r2, -0.5)
    ax.plot(x, shown.T, color=colour, lw=0.5, alpha=0.5)
    ax.plot(x, np.median(shown, axis=0), "o-", color=colour, lw=1.6, ms=3.5, label=label)
