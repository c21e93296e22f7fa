"""Figures of image networks, from saved arrays (Lippl and Stachenfeld 2025, Fig. 5 and others)."""

import pathlib

import numpy as np
from matplotlib.ticker import MaxNLocator

from cgjax import plots
from cgjax.analysis.additivity import TYPES, type_magnitudes
from cgjax.analysis.stats import mean_and_error
from cgjax.experiments.kernels.scores import short
from cgjax.experiments.kernels.tasks import RELEVANT, VALUES, title
from cgjax.plots.style import colours
from cgjax.published import PUBLISHED

SPLITS = {"train": "training samples", "in": "unseen images", "comp": "new combinations"}
PAPER = {"marker": "o", "mfc": "white", "ms": 6, "lw": 0, "mew": 1.3}


def draw(arrays, folder: pathlib.Path) -> None:
    """Draws every figure of the row's tasks; tasks of several kinds have a folder for each kind."""
    arrays = dict(arrays)  # an .npz archive reads the file at every access
    by_kind = {}  # kind -> task -> distances
    for key in arrays:
        if key.endswith("/coefficients"):
            task, _, distance = key.split("/")[0].rpartition("-d")
            cells = by_kind.setdefault(task.split("_")[0], {})
            cells.setdefault(task, []).append(int(distance))
    for kind, cells in by_kind.items():
        _draw_kind(arrays, kind, cells, folder / kind if len(by_kind) > 1 else folder)


def _draw_kind(arrays, kind: str, cells: dict, folder: pathlib.Path) -> None:
    published = PUBLISHED["kernels"].get(str(arrays["row"]), {})
    if kind == "addition":
        draw_values(arrays, cells, folder / "values.png")
        draw_slopes(arrays, cells, published, folder / "slopes.png")
        if any("/predicted slope" in key for key in arrays):
            draw_predicted(arrays, cells, folder / "predicted.png")
    else:
        draw_accuracy(arrays, cells, published, folder / "accuracy.png")
    if kind == "cd":
        draw_types(arrays, cells, published, folder / "types.png")
    draw_history(arrays, cells, "mse" if kind == "addition" else "accuracy", folder / "history.png")


def _panels(cells):
    """A figure with one panel per task."""
    fig = plots.new_figure(max(2.6 * len(cells) + 0.8, 4.8), 3.7, layout="constrained")
    return fig, fig.subplots(1, len(cells), squeeze=False, sharey=True)[0]


def _headline(fig, values, sentence: str, n_paper: int = 0) -> None:
    """Adds a headline with the number of seeds, the length of the first axis of `values`."""
    seeds = "one seed" if len(values) == 1 else f"mean of {len(values)} seeds"
    hollow = "; hollow: the paper" if n_paper else ""
    plots.headline(fig, f"{sentence} ({seeds}{hollow})")


def _first(arrays, cells, name: str):
    """One of the arrays of the first task and distance."""
    task, distances = next(iter(cells.items()))
    return arrays[f"{task}-d{distances[0]}/{name}"]


def _paper(ax, x, published, names, colour) -> int:
    """Draws the paper's numbers, where there are any, as hollow points; returns their count."""
    points = [
        (place, published[name]["mean"]) for place, name in zip(x, names) if name in published
    ]
    if points:
        ax.plot(*zip(*points), **PAPER, mec=colour)
    return len(points)


@plots.styled
def draw_values(arrays, cells, path) -> None:
    """The value of each unseen item to the networks, by distance."""
    fig, axes = _panels(cells)
    items = np.array(VALUES)
    for ax, (task, distances) in zip(axes, cells.items()):
        ax.plot(items, items, color=plots.FAINT, linestyle=":", label="true values")
        for colour, distance in zip(plots.shades(len(distances)), distances):
            name = f"{task}-d{distance}"
            unseen = ~arrays[f"{name}/is_anchor"]
            mean, error = mean_and_error(arrays[f"{name}/item values"])
            ax.errorbar(
                items[unseen],
                mean[unseen],
                error[unseen],
                marker="o",
                ms=3.5,
                lw=1.2,
                color=colour,
                label=f"{distance} pixels apart",
            )
        ax.set(title=title(task), xlabel="item", xticks=items[::2])
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("its value to the network")
    sentence = "What unseen items are worth to networks, by distance"
    _headline(fig, _first(arrays, cells, "coefficients"), sentence)
    plots.legend_below(fig, axes[0])
    plots.save(fig, path)


@plots.styled
def draw_slopes(arrays, cells, published, path) -> None:
    """Slope, additivity and salience by distance, or by training set; hollow: the paper's."""
    fig = plots.new_figure(8.8, 3.6, layout="constrained")
    axes = fig.subplots(1, 3)
    by_distance, n_paper = any(len(distances) > 1 for distances in cells.values()), 0
    for i, (task, distances) in enumerate(cells.items()):
        colour = colours(len(cells))[i]
        style = {"color": colour, "label": title(task), "marker": "o", "ms": 3.5}
        x = distances if by_distance else [i]
        for ax, metric in zip(axes, ("slope", "mean additivity", "salience")):
            points = [mean_and_error(arrays[f"{task}-d{d}/{metric}"]) for d in distances]
            ax.errorbar(x, *zip(*points), **style)
            names = [f"{short(task)}, d={d}: {metric}" for d in distances]
            n_paper += _paper(ax, x, published, names, colour)
            ax.set(title=metric)
            ax.grid(axis="y", **plots.GRID)
            if by_distance:
                ax.set(xlabel="distance (pixels)", xticks=distances)
            else:
                ax.set(xlim=(-0.5, len(cells) - 0.5), xticks=range(len(cells)))
                ax.set_xticklabels([title(task) for task in cells])
    axes[1].set_title("additivity, mean over splits")
    axes[2].set_title("S(1;2) before training,\n11 images, self-products included", fontsize=8)
    if by_distance:
        plots.legend_below(fig, axes[0])
    by = "distance of the images" if by_distance else "training set"
    sentence = f"Slope, additivity and salience by {by}"
    _headline(fig, _first(arrays, cells, "slope"), sentence, n_paper)
    plots.save(fig, path)


@plots.styled
def draw_predicted(arrays, cells, path) -> None:
    """Slope that the closed form gives for each layer's salience, against the network's."""
    fig = plots.new_figure(7.2, 4.3, layout="constrained")
    plots.headline(
        fig,
        "Slope of every network against the closed form with one layer's salience\n"
        "(11 images of each combination, self-products left out; dotted: equal)",
    )
    axes = fig.subplots(1, 2, sharex=True, sharey=True)
    layers = sorted({int(k.split("layer ")[1].split("/")[0]) for k in arrays if "/layer " in k})
    for ax, when in zip(axes, ("before", "after")):
        ax.plot((0, 1), (0, 1), color=plots.FAINT, linestyle=":")
        for colour, layer in zip(plots.shades(len(layers)), layers):
            x, y = [], []
            for task, distances in cells.items():
                for d in distances:
                    name = f"{task}-d{d}"
                    key = f"{name}/{when}/layer {layer}/predicted slope, no self-products"
                    if key in arrays:  # has anchors
                        x.append(arrays[key])
                        y.append(arrays[f"{name}/slope"])
            ax.plot(np.ravel(x), np.ravel(y), "o", ms=3.5, color=colour, label=f"layer {layer}")
        ax.set(title=f"salience {when} training", xlabel="slope in closed form")
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("slope of the network")
    plots.legend_below(fig, axes[0])
    plots.save(fig, path)


def draw_untrained(arrays, folder: pathlib.Path) -> None:
    """Predicted slope by number of images, with and without self-products."""
    cells = {}  # (task, distance) -> {estimate: {n: slopes [seeds]}}
    for key in arrays:
        cell, _, words = key.partition(": ")
        if words.startswith("predicted slope, "):
            _, n, *which = words.split(", ")
            estimate = which[0] if which else "self-products included"
            slopes = cells.setdefault(cell, {}).setdefault(estimate, {})
            slopes[int(n.split()[0])] = arrays[key]
    draw_estimates(cells, {}, folder / "estimates.png")


@plots.styled
def draw_estimates(cells: dict, trained: dict, path: pathlib.Path) -> pathlib.Path:
    """Slopes that the closed form predicts, by estimate of salience and number of images.

    cells: {panel: {estimate: {n: slopes [seeds]}}}; trained: {panel: slopes [seeds]} of trained
    networks, where they are known.
    """
    fig = plots.new_figure(max(plots.PAGE / 2 * len(cells), 4.8), 3.3, layout="constrained")
    axes = fig.subplots(1, len(cells), squeeze=False, sharey=True)[0]
    for ax, (name, estimates) in zip(axes, cells.items()):
        for colour, (estimate, slopes) in zip(plots.COLOURS, estimates.items()):
            n = np.repeat(list(slopes), [len(values) for values in slopes.values()])
            ax.plot(n, np.concatenate(list(slopes.values())), "o", ms=3, color=colour, alpha=0.5)
            means = [np.mean(values) for values in slopes.values()]
            ax.plot(list(slopes), means, color=colour, label=f"predicted, {estimate}")
        if name in trained:
            ax.axhline(np.mean(trained[name]), color=plots.INK, ls=":", label="trained networks")
        ax.set(title=name, xlabel="images of each combination", xscale="log", ylim=(0, 1.1))
        ax.set_xticks(list(slopes), list(map(str, slopes)))
        ax.set_xticks((), minor=True)
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("slope of new pairs")
    plots.legend_below(fig, axes[0])
    plots.headline(fig, "The slope that salience predicts depends on how salience is estimated")
    return plots.save(fig, path)


@plots.styled
def draw_accuracy(arrays, cells, published, path) -> None:
    """Accuracy by distance on training samples, unseen images and new combinations."""
    (fig, axes), n_paper = _panels(cells), 0
    for ax, (task, distances) in zip(axes, cells.items()):
        for colour, (split, label) in zip(plots.COLOURS, SPLITS.items()):
            points = [mean_and_error(arrays[f"{task}-d{d}/{split} accuracy"]) for d in distances]
            ax.errorbar(distances, *zip(*points), marker="o", ms=3.5, color=colour, label=label)
            names = [f"{task}, d={d}: {split} accuracy" for d in distances]
            n_paper += _paper(ax, distances, published, names, colour)
        ax.axhline(0.5, color=plots.FAINT, linestyle=":")
        ax.set(title=title(task), xlabel="distance (pixels)", xticks=distances, ylim=(0, 1.03))
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("accuracy")
    sentence = "Accuracy on known and new combinations"
    _headline(fig, _first(arrays, cells, "coefficients"), sentence, n_paper)
    plots.legend_below(fig, axes[0])
    plots.save(fig, path)


@plots.styled
def draw_types(arrays, cells, published, path) -> None:
    """Mean |value| by type of conjunction, at the largest distance."""
    (fig, axes), n_paper = _panels(cells), 0
    for ax, (task, distances) in zip(axes, cells.items()):
        name = f"{task}-d{max(distances)}"
        mean = arrays[f"{name}/coefficients"].mean(axis=0)
        magnitudes = type_magnitudes(arrays[f"{name}/labels"], mean, RELEVANT, "sum")
        ax.bar(range(len(TYPES)), [magnitudes[t] for t in TYPES], color=plots.COLOURS[: len(TYPES)])
        names = [f"{task}, d={max(distances)}: magnitude {t}" for t in TYPES]
        n_paper += _paper(ax, range(len(TYPES)), published, names, plots.INK)
        ax.set_xticks(range(len(TYPES)), TYPES, rotation=40, ha="right")
        ax.set(title=f"{title(task)}, {max(distances)} pixels apart", axisbelow=True)
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("mean |value|, relative")
    sentence = "What networks use, by type of conjunction"
    _headline(fig, _first(arrays, cells, "coefficients"), sentence, n_paper)
    plots.save(fig, path)


@plots.styled
def draw_history(arrays, cells, metric, path) -> None:
    """The score over training, on known and on new combinations of unseen images."""
    name = {"mse": "MSE"}.get(metric, metric)
    fig, axes = _panels(cells)
    for ax, (task, distances) in zip(axes, cells.items()):
        for colour, distance in zip(plots.shades(len(distances)), distances):
            history = f"{task}-d{distance}/history"
            # The ring is larger than the point, so that both are visible where they coincide.
            for split, line, inside, ms in (("in", ":", "white", 7), ("comp", "-", colour, 3.5)):
                label = f"{SPLITS[split]}, d = {distance}"
                scores = arrays[f"{history}/{split} {metric}"].mean(axis=1)
                style = {"color": colour, "marker": "o", "ms": ms, "mfc": inside, "ls": line}
                ax.plot(arrays[f"{history}/step"], scores, label=label, **style)
        ax.set(title=title(task), xlabel="step")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, min_n_ticks=1))
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel(name)
    if metric == "accuracy":
        axes[0].set_ylim(0, 1.03)
    _headline(
        fig, _first(arrays, cells, "coefficients"), f"Along training: {name} on unseen images"
    )
    plots.legend_below(fig, axes[0])
    plots.save(fig, path)
