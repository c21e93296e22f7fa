"""Figures of image networks, from saved arrays (Lippl and Stachenfeld 2025, Fig. 5 and others)."""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.analysis.additivity import TYPES, type_magnitudes
from cgjax.analysis.stats import mean_and_error
from cgjax.experiments.kernels.dense_scores import short
from cgjax.experiments.kernels.tasks import RELEVANT, VALUES, title
from cgjax.published import PUBLISHED

SPLITS = {"train": "training samples", "in": "unseen images", "comp": "new combinations"}
PAPER = {"marker": "o", "mfc": "white", "ms": 6, "lw": 0, "mew": 1.3}


def draw(arrays, folder: pathlib.Path) -> None:
    """Every figure that the row's tasks call for."""
    arrays = dict(arrays)  # an archive reads an array anew each time it is asked for
    cells = {}  # task -> distances
    for key in arrays:
        if key.endswith("/coefficients"):
            task, _, distance = key.split("/")[0].rpartition("-d")
            cells.setdefault(task, []).append(int(distance))
    published = PUBLISHED["kernels"].get(str(arrays["row"]), {})
    kind = next(iter(cells)).split("_")[0]
    if kind == "addition":
        draw_values(arrays, cells, folder / "values.png")
        draw_slopes(arrays, cells, published, folder / "slopes.png")
        draw_predicted(arrays, cells, folder / "predicted.png")
    else:
        draw_accuracy(arrays, cells, published, folder / "accuracy.png")
    if kind == "cd":
        draw_types(arrays, cells, published, folder / "types.png")
    draw_history(arrays, cells, "mse" if kind == "addition" else "accuracy", folder / "history.png")


def _panels(cells, headline=""):
    """A figure with one panel per task and a headline that fits its width."""
    width = 2.6 * len(cells) + 0.8
    fig = plots.new_figure(width, 3.1, layout="constrained")
    if headline:
        fig.suptitle(plots.wrap(headline, width - 0.5, 10.5), x=0.01, ha="left")
    return fig, fig.subplots(1, len(cells), squeeze=False, sharey=True)[0]


def _paper(ax, x, published, names, colour) -> None:
    """The paper's numbers, where it has them, as hollow points."""
    points = [
        (place, published[name]["mean"]) for place, name in zip(x, names) if name in published
    ]
    if points:
        ax.plot(*zip(*points), **PAPER, mec=colour)


@plots.styled
def draw_values(arrays, cells, path) -> None:
    """What each unseen item is worth to the networks, by distance."""
    fig, axes = _panels(cells, "Values of unseen items")
    items = np.array(VALUES)
    for ax, (task, distances) in zip(axes, cells.items()):
        ax.plot(items, items, color=plots.FAINT, linestyle=":", label="true values")
        for colour, distance in zip(plots.shades(len(distances)), distances):
            name = f"{task}-d{distance}"
            unseen = ~arrays[f"{name}/is_anchor"]
            mean, error = mean_and_error(arrays[f"{name}/item values"])
            ax.errorbar(items[unseen], mean[unseen], error[unseen], marker="o", ms=3.5, lw=1.2,
                        color=colour, label=f"{distance} pixels apart")  # fmt: skip
        ax.set(title=title(task), xlabel="item", xticks=items[::2])
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("its value to the network")
    axes[0].legend(fontsize=7)
    plots.save(fig, path)


@plots.styled
def draw_slopes(arrays, cells, published, path) -> None:
    """Slope, additivity and salience by distance, or by training set; hollow: the paper's."""
    fig = plots.new_figure(8.8, 3.2, layout="constrained")
    axes = fig.subplots(1, 3)
    by_distance = any(len(distances) > 1 for distances in cells.values())
    for i, (task, distances) in enumerate(cells.items()):
        style = {"color": plots.COLOURS[i], "label": title(task), "marker": "o", "ms": 3.5}
        x = distances if by_distance else [i]
        for ax, metric in zip(axes, ("slope", "mean additivity", "salience")):
            found = [mean_and_error(arrays[f"{task}-d{d}/{metric}"]) for d in distances]
            ax.errorbar(x, *zip(*found), **style)
            names = [f"{short(task)}, d={d}: {metric}" for d in distances]
            _paper(ax, x, published, names, plots.COLOURS[i])
            ax.set(title=metric)
            ax.grid(axis="y", **plots.GRID)
            if by_distance:
                ax.set(xlabel="distance (pixels)", xticks=distances)
            else:
                ax.set(xlim=(-0.5, len(cells) - 0.5), xticks=range(len(cells)))
                ax.set_xticklabels([title(task) for task in cells])
    axes[1].set_title("additivity, mean over splits")
    axes[2].set_title("S(1;2) before training")
    said = "By training set"
    if by_distance:
        axes[0].legend(fontsize=7.5)
        said = "Further apart: more salient, less leak"
    fig.suptitle(f"{said} (hollow: the paper)", x=0.01, ha="left")
    plots.save(fig, path)


@plots.styled
def draw_predicted(arrays, cells, path) -> None:
    """Slope that the closed form gives for each layer's salience, against the network's."""
    fig = plots.new_figure(7.2, 3.6, layout="constrained")
    axes = fig.subplots(1, 2, sharex=True, sharey=True)
    layers = sorted({int(k.split("layer ")[1].split("/")[0]) for k in arrays if "/layer " in k})
    for ax, when in zip(axes, ("before", "after")):
        ax.plot((0, 1), (0, 1), color=plots.FAINT, linestyle=":")
        for colour, layer in zip(plots.shades(len(layers)), layers):
            x, y = [], []
            for task, distances in cells.items():
                for d in distances:
                    name = f"{task}-d{d}"
                    x.append(arrays[f"{name}/{when}/layer {layer}/predicted slope"])
                    y.append(arrays[f"{name}/slope"])
            ax.plot(np.ravel(x), np.ravel(y), "o", ms=3.5, color=colour, label=f"layer {layer}")
        ax.set(title=f"salience {when} training", xlabel="slope in closed form")
        ax.grid(**plots.GRID)
    axes[0].set_ylabel("slope of the network")
    axes[0].legend(fontsize=7, loc="upper left")
    plots.save(fig, path)


@plots.styled
def draw_accuracy(arrays, cells, published, path) -> None:
    """Accuracy by distance on training samples, unseen images and new combinations."""
    fig, axes = _panels(cells, "Known and new combinations (hollow: the paper)")
    for ax, (task, distances) in zip(axes, cells.items()):
        for colour, (split, label) in zip(plots.COLOURS, SPLITS.items()):
            found = [mean_and_error(arrays[f"{task}-d{d}/{split} accuracy"]) for d in distances]
            ax.errorbar(distances, *zip(*found), marker="o", ms=3.5, color=colour, label=label)
            names = [f"{task}, d={d}: {split} accuracy" for d in distances]
            _paper(ax, distances, published, names, colour)
        ax.axhline(0.5, color=plots.FAINT, linestyle=":")
        ax.set(title=title(task), xlabel="distance (pixels)", xticks=distances, ylim=(0, 1.03))
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7, loc="lower left")
    plots.save(fig, path)


@plots.styled
def draw_types(arrays, cells, published, path) -> None:
    """What networks use, by type of conjunction, at the largest distance."""
    fig, axes = _panels(cells, "Value by type of conjunction (hollow: the paper)")
    for ax, (task, distances) in zip(axes, cells.items()):
        name = f"{task}-d{max(distances)}"
        mean = arrays[f"{name}/coefficients"].mean(axis=0)
        found = type_magnitudes(arrays[f"{name}/labels"], mean, RELEVANT, "sum")
        ax.bar(range(len(TYPES)), [found[t] for t in TYPES], color=plots.COLOURS[: len(TYPES)])
        names = [f"{task}, d={max(distances)}: magnitude {t}" for t in TYPES]
        _paper(ax, range(len(TYPES)), published, names, plots.INK)
        ax.set_xticks(range(len(TYPES)), TYPES, rotation=40, ha="right")
        ax.set(title=f"{title(task)}, {max(distances)} pixels apart", axisbelow=True)
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel("mean |value|, relative")
    plots.save(fig, path)


@plots.styled
def draw_history(arrays, cells, metric, path) -> None:
    """The score along training, on known and on new combinations of unseen images."""
    fig, axes = _panels(cells)
    for ax, (task, distances) in zip(axes, cells.items()):
        for colour, distance in zip(plots.shades(len(distances)), distances):
            name = f"{task}-d{distance}/history"
            for split, line in (("in", ":"), ("comp", "-")):
                label = f"{SPLITS[split]}, d = {distance}"
                scores = arrays[f"{name}/{split} {metric}"].mean(axis=1)
                ax.plot(arrays[f"{name}/step"], scores, f".{line}", color=colour, label=label)
        ax.set(title=title(task), xlabel="step")
        ax.grid(axis="y", **plots.GRID)
    axes[0].set_ylabel({"mse": "MSE"}.get(metric, metric))
    axes[0].legend(fontsize=6.5)
    plots.save(fig, path)
