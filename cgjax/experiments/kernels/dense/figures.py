"""Figures of the dense networks, from saved arrays (Lippl and Stachenfeld 2025, Fig. 4).

Networks are compared along one axis: the initial scale, from rich to lazy, or the depth.
"""

import pathlib
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import FuncFormatter

from cgjax import plots
from cgjax.analysis.additivity import TYPES
from cgjax.analysis.stats import mean_and_error
from cgjax.experiments.kernels.dense import TIMES
from cgjax.experiments.kernels.tasks import VALUES, title
from cgjax.plots.style import colours

RICH, LAZY = plots.COLOURS[1], plots.COLOURS[0]


class Group(NamedTuple):
    """Networks of one kind of task along one axis; a cell is (prefix of a part, scale index)."""

    name: str
    axis: str
    ticks: tuple[str, ...]
    cells: tuple[tuple[str, int], ...]
    tasks: tuple[str, ...]

    def colour(self, k: int) -> str:
        n = len(self.cells)
        if self.axis == "initial scale":
            return {0: RICH, max(n - 1, 1): LAZY}.get(k, plots.COLOURS[2])
        return plots.shades(n)[k]

    def label(self, k: int) -> str:
        if self.axis != "initial scale":
            return f"{self.ticks[k]} hidden layer{'s' * (self.ticks[k] != '1')}"
        labels = {"1e-06": "rich, σ = $10^{-6}$", "1": "lazy, σ = 1"}
        return labels.get(self.ticks[k], f"σ = {self.ticks[k]}")


def groups(arrays, kind: str) -> list[Group]:
    """One group per part with several scales; parts with one scale form one group, by depth."""
    by_axis, single = [], []
    for part in map(str, arrays["parts"]):
        prefix = f"{part}/" if part else ""
        tasks = tuple(map(str, arrays[f"{prefix}tasks"]))
        if tasks[0].split("_")[0] != kind:
            continue
        scales = arrays[f"{prefix}scales"]
        if len(scales) == 1:
            single.append((prefix, part, tasks))
            continue
        ticks = tuple(f"{scale:g}" for scale in scales)
        cells = tuple((prefix, j) for j in range(len(scales)))
        by_axis.append(Group(part, "initial scale", ticks, cells, tasks))
    if single:
        cells = tuple((prefix, 0) for prefix, *_ in single)
        depths = tuple(str(int(arrays[f"{prefix}depth"])) for prefix, *_ in single)
        name = "" if len(single) > 1 else single[0][1]
        by_axis.append(Group(name, "hidden layers", depths, cells, single[0][2]))
    return by_axis


def read(arrays, cell, key: str, task: int):
    """A saved array of one cell, or None where no network converged."""
    prefix, j = cell
    name = f"{prefix}{key}/{task}/{j}"
    return np.asarray(arrays[name]) if name in arrays else None


# --- figures --------------------------------------------------------------------------------------


def draw(arrays, folder: pathlib.Path) -> None:
    """Draws every figure of the row's tasks."""
    arrays = dict(arrays)  # an .npz archive reads the file at every access
    drawings = {
        "addition": {"items": draw_items, "slopes": draw_sweep, "similarity": draw_similarity},
        "cd": {"types": draw_types, "shortcut": draw_shortcut},
        "te": {"accuracy": draw_accuracy, "signatures": draw_signatures},
    }
    for kind, functions in drawings.items():
        for group in groups(arrays, kind):
            for name, function in functions.items():
                file = "_".join(filter(None, (name, group.name)))
                function(arrays, group, folder / f"{file}.png")
    if groups(arrays, "addition"):
        draw_predicted(arrays, folder / "predicted.png")
    if any(arrays[key] for key in arrays if key.split("/")[-1] == "frozen"):
        draw_frozen(arrays, folder / "frozen.png")


# --- addition -------------------------------------------------------------------------------------


def _shown(group: Group) -> list[int]:
    """Indices of the drawn cells: all of up to four, else those where results change."""
    n = len(group.cells)
    return list(range(n)) if n <= 4 else [0, n - 2, n - 1]


@plots.styled
def draw_items(arrays, group: Group, path: pathlib.Path) -> None:
    """The value of each item to the networks, and in closed form from their initial features."""
    n = len(group.tasks)
    fig = plots.new_figure(2.55 * n, 3.5, layout="constrained")
    axes = fig.subplots(1, n, squeeze=False, sharey=True)[0]
    items = np.array(VALUES)
    for i, (ax, task) in enumerate(zip(axes, group.tasks)):
        ax.plot(items, items, color=plots.FAINT, linestyle=":", label="the true values")
        is_anchor = None
        for k in _shown(group):
            values = read(arrays, group.cells[k], "items", i)
            if values is None:
                continue
            mean, error = mean_and_error(values)
            is_anchor = read(arrays, group.cells[k], "is_anchor", i)
            unseen = np.ones(len(items), bool) if is_anchor is None else ~is_anchor
            style = {"fmt": "o", "ms": 4, "color": group.colour(k), "lw": 1}
            ax.errorbar(items[unseen], mean[unseen], error[unseen], label=group.label(k), **style)
            line = read(arrays, group.cells[k], "closed form", i)
            if line is None or (group.axis == "initial scale" and k < len(group.cells) - 1):
                continue  # initial features are the same at every scale
            colour = plots.INK if group.axis == "initial scale" else group.colour(k)
            label = "closed form, initial features" * (k == _shown(group)[-1])
            ax.plot(items[unseen], line.mean(axis=0)[unseen], color=colour, lw=1.1, label=label)
        if is_anchor is not None:
            for anchor in items[is_anchor]:
                ax.axvline(anchor, color=plots.FAINT, lw=5, alpha=0.25)
        ax.set(title=title(task), xlabel="item", xticks=items[::2])
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("its value to the network")
    plots.legend_below(fig, axes[0])
    headline = (
        f"What unseen items (not the grey anchors) are worth: {_networks(arrays, group, 'items')}"
    )
    plots.headline(fig, headline)
    plots.save(fig, path)


def _networks(arrays, group: Group, key: str, errors: str = ", two standard errors") -> str:
    """A phrase with the number of networks behind each mean, counted from the score `key`."""
    scores = (read(arrays, cell, key, i) for cell in group.cells for i in range(len(group.tasks)))
    counts = {len(np.atleast_1d(values)) for values in scores if values is not None}
    if not counts or counts == {1}:
        return "no network converged" if not counts else "one network each"
    least, most = min(counts), max(counts)
    n = f"{most}" if least == most else f"{least} to {most}"
    return f"means of {n} networks{errors}" + f" ({group.name})" * bool(group.name)


def _by_axis(ax, arrays, group: Group, key: str, task: int, shift: float = 0.0, **style):
    """Mean and two standard errors of a score along the group's axis, shifted by `shift`."""
    points = [(k, read(arrays, cell, key, task)) for k, cell in enumerate(group.cells)]
    points = [(k + shift, *mean_and_error(np.atleast_1d(f))) for k, f in points if f is not None]
    if points:
        ax.errorbar(*zip(*points), **style)


def _axis(ax, group: Group) -> None:
    ticks = group.ticks
    if group.axis == "initial scale":
        powers = {f"{10.0**-k:g}": f"$10^{{-{k}}}$" for k in range(2, 10)}
        ticks = [powers.get(tick, tick) for tick in ticks]
    ax.set_xticks(np.arange(len(ticks)), ticks)
    ax.set(xlabel=group.axis, xlim=(-0.4, len(ticks) - 0.6))
    ax.grid(axis="y", **plots.GRID)


@plots.styled
def draw_sweep(arrays, group: Group, path: pathlib.Path) -> None:
    """Slope and additivity along the axis, one line per training set."""
    if len(group.cells) < 2:
        return
    fig = plots.new_figure(7.6, 3.2, layout="constrained")
    left, right = fig.subplots(1, 2)
    for i, task in enumerate(group.tasks):
        style = {"color": colours(len(group.tasks))[i], "marker": "o", "ms": 4, "lw": 1.4}
        _by_axis(left, arrays, group, "slope", i, label=title(task), **style)
        thin = style | {"marker": "", "lw": 1, "linestyle": ":"}
        _by_axis(left, arrays, group, "predicted slope before", i, **thin)
        _by_axis(right, arrays, group, "additivity", i, label=title(task), **style)
    left.set(ylabel="slope", title="slope (dotted: closed form)")
    right.set(ylabel="$R^2$ on new pairs", title="conjunction-wise additivity")
    for ax in (left, right):
        _axis(ax, group)
    plots.legend_below(fig, right)
    plots.headline(fig, f"Addition by {group.axis}: {_networks(arrays, group, 'slope')}")
    plots.save(fig, path)


@plots.styled
def draw_similarity(arrays, group: Group, path: pathlib.Path) -> None:
    """Similarity of features by overlap, before and after training, on the first training set."""
    if group.axis != "initial scale":
        return
    shown = [0, len(group.cells) - 1]
    fig = plots.new_figure(2.4 * len(shown) + 0.9, 4.2, layout="constrained")
    axes = fig.subplots(2, len(shown), squeeze=False, sharex=True)
    for column, k in enumerate(shown):
        counts = read(arrays, group.cells[k], "similarities", 0)
        bins = np.asarray(arrays[f"{group.cells[k][0]}bins"])
        for row, time in enumerate(TIMES):
            ax = axes[row, column]
            for o in range(0 if counts is None else counts.shape[1]):
                share = counts[row, o] / max(counts[row, o].sum(), 1)
                style = {"color": plots.COLOURS[o], "alpha": 0.6, "label": f"{o} components shared"}
                ax.stairs(share, bins, fill=True, **style)
            ax.set(title="" if row else group.label(k), xlabel="normalised similarity" * row)
            ax.set(ylabel=f"{time} training" if column == 0 else "", yticks=())
            ax.spines["left"].set_visible(False)
    plots.legend_below(fig, axes[0, 0])
    plots.headline(fig, f"Similarity of hidden features, {title(group.tasks[0])}")
    plots.save(fig, path)


PREDICTIONS = {
    "predicted slope before": "closed form, initial features",
    "predicted slope after": "closed form, trained features",
    "predicted slope, kernel": "its own kernel and start",
}


@plots.styled
def draw_predicted(arrays, path: pathlib.Path) -> None:
    """Slope of every network against the prediction from its features; equal on the diagonal."""
    fig = plots.new_figure(9.6, 4.2, layout="constrained")
    rest = "against what its features predict (line: equal; filled: lazy)"
    plots.headline(fig, f"Slope of every network {rest}")
    axes = fig.subplots(1, len(PREDICTIONS), sharey=True)
    named, ends = set(), [0.7, 1.0]
    for ax, (key, panel_title) in zip(axes, PREDICTIONS.items()):
        off = {"lazy": [], "others": []}
        for group in groups(arrays, "addition"):
            for i, k in np.ndindex(len(group.tasks), len(group.cells)):
                observed = read(arrays, group.cells[k], "slope", i)
                predicted = read(arrays, group.cells[k], key, i)
                if predicted is None:
                    continue
                prefix, j = group.cells[k]
                is_lazy = arrays[f"{prefix}scales"][j] == 1
                colour = colours(len(group.tasks))[i]
                style = {"color": colour, "ms": 4, "mew": 0.7, "alpha": 0.8}
                style["markerfacecolor"] = colour if is_lazy else "none"
                label = None if group.tasks[i] in named else title(group.tasks[i])
                if ax is axes[0] and label and k == len(group.cells) - 1:
                    named.add(group.tasks[i])
                    style["label"] = label
                ax.plot(predicted, observed, "o", **style)
                ends += [*predicted, *observed]
                off["lazy" if is_lazy else "others"] += [*np.abs(predicted - observed)]
        means = (f"{np.mean(values):.3f} ({name})" for name, values in off.items() if values)
        panel_title += "\noff by " + (", ".join(means) or "nothing: no network")
        ax.set(xlabel="predicted slope", title=panel_title, box_aspect=1)
        ax.grid(**plots.GRID)
    ends = (max(min(ends) - 0.03, -0.1), min(max(ends) + 0.03, 1.3))
    for ax in axes:
        ax.plot(ends, ends, color=plots.FAINT, lw=1, zorder=0)
        ax.set(xlim=ends, ylim=ends)
    axes[0].set_ylabel("slope of the network")
    plots.legend_below(fig, axes[0])
    plots.save(fig, path)


# --- context dependence ---------------------------------------------------------------------------


@plots.styled
def draw_types(arrays, group: Group, path: pathlib.Path) -> None:
    """Mean |value| by type of conjunction along the axis, one panel per task."""
    n = len(group.tasks)
    fig = plots.new_figure(2.7 * n + 0.3, 3.3, layout="constrained")
    axes = fig.subplots(1, n, squeeze=False, sharey=True)[0]
    for i, (ax, task) in enumerate(zip(axes, group.tasks)):
        for t, kind in enumerate(TYPES):
            style = {"color": plots.COLOURS[t], "marker": "o", "ms": 4, "lw": 1.4}
            _by_axis(ax, arrays, group, kind, i, label=kind, **style)
        _axis(ax, group)
        ax.set_title(title(task))
    axes[0].set_ylim(bottom=0)  # shared by all panels: set after the last is drawn
    axes[0].set_ylabel("mean |value|")
    plots.legend_below(fig, axes[0])
    networks = _networks(arrays, group, "accuracy", "")
    plots.headline(fig, f"What networks use, by type of conjunction: {networks}")
    plots.save(fig, path)


@plots.styled
def draw_shortcut(arrays, group: Group, path: pathlib.Path) -> None:
    """Accuracy along the axis, and the margin on CD-3 against its closed form."""
    fig = plots.new_figure(7.6, 3.2, layout="constrained")
    left, right = fig.subplots(1, 2)
    for i, task in enumerate(group.tasks):
        style = {"color": colours(len(group.tasks))[i], "marker": "o", "ms": 4, "lw": 1.4}
        _by_axis(left, arrays, group, "accuracy", i, 0.08 * (i - 1), label=title(task), **style)
        if task == "cd_3":
            _by_axis(right, arrays, group, "relative margin", i, label="networks", **style)
            thin = {"color": plots.INK, "linestyle": ":", "label": "closed form, initial features"}
            _by_axis(right, arrays, group, "predicted margin", i, lw=1, **thin)
    left.set(ylabel="accuracy on new inputs", ylim=(-0.05, 1.05), title="generalization")
    low, high = right.get_ylim()
    right.set(ylabel="margin / least training margin", ylim=(min(low, -1.15), max(high, 1.15)))
    right.set_title("CD-3: shortcut below zero")
    right.axhline(0, color=plots.FAINT, lw=1)
    for ax in (left, right):
        _axis(ax, group)
        handles, labels = ax.get_legend_handles_labels()
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "ncols": len(labels)}
        ax.legend(handles, labels, fontsize=7.5, **below)
    networks = _networks(arrays, group, "accuracy")
    plots.headline(fig, f"Context dependence by {group.axis}: {networks}")
    plots.save(fig, path)


# --- transitive equivalence -----------------------------------------------------------------------


@plots.styled
def draw_accuracy(arrays, group: Group, path: pathlib.Path) -> None:
    """Fig. 4a: accuracy on trained and new pairs by step, one panel per cell."""
    n = len(group.cells)
    fig = plots.new_figure(2.6 * n + 0.3, 3.4, layout="constrained")
    axes = fig.subplots(1, n, squeeze=False, sharey=True)[0]
    for k, (ax, (prefix, j)) in enumerate(zip(axes, group.cells)):
        converged = arrays[f"{prefix}converged"][:, 0, j]
        steps = arrays[f"{prefix}history/step"]
        for c, (part, label) in enumerate((("train", "trained pairs"), ("test", "new pairs"))):
            curves = arrays[f"{prefix}history/{part}_accuracy"][:, converged, 0, j]
            if curves.shape[1] == 0:
                continue
            mean, error = mean_and_error(curves.T)
            # The line of trained pairs is wider, so that it is visible where both lines coincide.
            ax.plot(steps, mean, color=plots.COLOURS[c], label=label, lw=3 if c == 0 else 1.4)
            ax.fill_between(
                steps, mean - error, mean + error, color=plots.COLOURS[c], alpha=0.2, lw=0
            )
        ax.axhline(0.5, color=plots.FAINT, lw=1, linestyle=":")
        ax.set(title=group.label(k), xlabel="step", xscale="log", ylim=(0, 1.05))
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("accuracy")
    plots.legend_below(fig, axes[0])
    networks = _networks(arrays, group, "accuracy")
    plots.headline(fig, f"Transitive equivalence along training: {networks}")
    plots.save(fig, path)


@plots.styled
def draw_signatures(arrays, group: Group, path: pathlib.Path) -> None:
    """Fig. 4b, c: readout-weighted incoming weights of every hidden unit of one network."""
    cells = [k for k, c in enumerate(group.cells) if read(arrays, c, "weighted", 0) is not None]
    if not cells:
        return
    fig = plots.new_figure(8.4, 2.9 * len(cells), layout="constrained")
    axes = fig.subplots(len(cells), 3, squeeze=False)
    for row, k in zip(axes, cells):
        weighted = read(arrays, group.cells[k], "weighted", 0)  # [2, items, units]
        positive = read(arrays, group.cells[k], "readout", 0) > 0
        n = weighted.shape[1]  # two classes of equal size; the last item of each is not a hub
        first, other, hub = n // 2 - 1, n - 1, 0
        contrast = weighted[:, first] - weighted[:, other]
        panels = (
            ("A - D, component 1", "A - D, component 2", contrast[0], contrast[1]),
            ("A, component 1", "B (equivalent)", weighted[0, first], weighted[0, hub]),
            ("A, component 1", "D (not equivalent)", weighted[0, first], weighted[0, other]),
        )
        for ax, (xlabel, ylabel, x, y) in zip(row, panels):
            ends = np.array([-1.08, 1.08]) * max(np.abs(x).max(), np.abs(y).max())
            ax.plot(ends, np.stack([ends, -ends], axis=1), color=plots.FAINT, lw=0.7, zorder=0)
            for units, colour, label in (
                (positive, LAZY, "positive readout"),
                (~positive, RICH, "negative readout"),
            ):
                ax.plot(x[units], y[units], ".", ms=4, alpha=0.6, color=colour, label=label)
            ax.set(xlabel=xlabel, ylabel=ylabel, xlim=ends, ylim=ends, box_aspect=1)
            ax.locator_params(nbins=4)
            for axis in (ax.xaxis, ax.yaxis):  # an offset text such as 1e-3 would cover the label
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
        row[0].set_title(group.label(k))
    plots.legend_below(fig, axes[0, 0])
    plots.headline(
        fig,
        "Readout times incoming weight of every hidden unit, of one network each.\n"
        "A and B are one class, D is of the other; pairs of A and D are new, B is a hub",
    )
    plots.save(fig, path)


# --- frozen features ------------------------------------------------------------------------------


@plots.styled
def draw_frozen(arrays, path: pathlib.Path) -> None:
    """Networks beside ridgeless readouts of their own features, before and after training."""
    panels = [
        (group, k, score)
        for kind, score in (("addition", "slope"), ("te", "accuracy"), ("cd", "accuracy"))
        for group in groups(arrays, kind)
        for k in range(len(group.cells))
        if group.axis == "initial scale"
    ]
    if not panels:  # all networks have one scale, or the axis is depth
        return
    widths = [len(group.tasks) + 0.6 for group, *_ in panels]
    fig = plots.new_figure(0.85 * sum(widths) + 0.6, 3.2, layout="constrained")
    axes = fig.subplots(1, len(panels), squeeze=False, width_ratios=widths)[0]
    for ax, (group, k, score) in zip(axes, panels):
        names = (score, *(f"{score}, features {time}" for time in TIMES))
        for b, (key, label) in enumerate(
            zip(names, ("network", "readout of initial features", "readout of trained features"))
        ):
            for i in range(len(group.tasks)):
                values = read(arrays, group.cells[k], key, i)
                if values is None:
                    continue
                mean, error = mean_and_error(values)
                ax.bar(
                    i + 0.27 * (b - 1),
                    mean,
                    0.25,
                    yerr=error,
                    color=plots.COLOURS[b],
                    label=label if i == 0 else None,
                    error_kw={"lw": 1},
                )
        ax.set_xticks(range(len(group.tasks)), [title(task) for task in group.tasks], fontsize=7)
        ax.set(title=group.label(k), ylabel=score, ylim=(0, 1.1))
        ax.grid(axis="y", **plots.GRID)
        ax.set_axisbelow(True)
    plots.headline(
        fig, "Networks beside ridgeless readouts of their features before and after training"
    )
    plots.legend_below(fig, axes[0])
    plots.save(fig, path)
