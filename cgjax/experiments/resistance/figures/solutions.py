"""Figures of single questions: doses, remedies, solutions of equal loss, paths, angles, kernels."""

import numpy as np

from cgjax import plots
from cgjax.analysis import stats
from cgjax.experiments.resistance.figures.curves import band, colours, prefixes, step_axis

SEARCHES = ("guess", "walk")  # starts of the names of ways without a gradient


def dots(ax, rows, xlabel):
    """A row of dots per entry of {row name: values [n]}, the first on top; bars are means."""
    for i, (row_name, values) in enumerate(rows.items()):
        values = np.asarray(values, float)
        values = values[np.isfinite(values)]
        y = len(rows) - 1 - i
        jitter = np.random.default_rng(0).uniform(-0.22, 0.22, len(values))
        colour = plots.COLOURS[1 if row_name.startswith(SEARCHES) else 0]
        ax.scatter(values, y + jitter, s=12, color=colour, alpha=0.6, linewidths=0)
        if len(values):  # behind the dots, which are on the bar where seeds agree
            ax.plot([values.mean()] * 2, [y - 0.36, y + 0.36], color=plots.INK, lw=1.2, zorder=0)
        else:
            ax.text(
                0.02, y, "none", transform=ax.get_yaxis_transform(), va="center", color=plots.GREY
            )
    ax.set_yticks(range(len(rows)), [w.replace("_", " ") for w in rows][::-1])
    ax.set(xlabel=xlabel, ylim=(-0.6, len(rows) - 0.4))


@plots.styled
def _dot_panels(panels, title):
    """A figure with one panel of dots per entry of {xlabel: rows}."""
    n = max(len(rows) for rows in panels.values())
    fig = plots.new_figure(2.9 * len(panels) + 1.8, 0.3 * n + 1.5, layout="constrained")
    axes = fig.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for ax, (xlabel, rows) in zip(axes, panels.items()):
        dots(ax, rows, xlabel)
    plots.headline(fig, title)
    return fig


def draw_solutions(arrays, folder):
    """Every way to a solution: all scores at one loss, and test accuracy at every loss."""
    levels = arrays["levels"]
    names = list(dict.fromkeys(n.split("/")[1] for n in arrays if n.startswith("solutions/")))
    names.sort(key=lambda name: name.split(", ", 1)[1])  # rows of one start are adjacent
    level = levels.tolist().index(arrays["level"])
    panels = {
        score: {n: arrays[f"solutions/{n}/{score}"][level] for n in names}
        for score in ("test accuracy", "S_2", "interventional information", "norm")
    }
    title = f"Solutions at training loss {levels[level]:g}, by training set; bars are means"
    plots.save(_dot_panels(panels, title), folder / "solutions.png")
    plots.save(_by_level(arrays, levels, names), folder / "levels.png")


@plots.styled
def _by_level(arrays, levels, names):
    """Test accuracy by training loss, one panel per start."""
    starts = {}
    for name in names:
        way, start = name.split(", ", 1)
        starts.setdefault(start, {})[way] = arrays[f"solutions/{name}/test accuracy"]
    columns = 2 if len(starts) == 4 else min(len(starts), 3)
    rows = -(-len(starts) // columns)
    width = max(3.4 * columns + 1.9, 7.6)  # wide enough for the headline
    fig = plots.new_figure(width, 2.9 * rows + 0.7, layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for ax, (start, ways) in zip(axes, starts.items()):
        loss_curves(ax, levels, ways)
        ax.set(title=start, ylabel="test accuracy")
    for ax in axes[len(starts) :]:
        ax.set_visible(False)
    plots.headline(fig, "Test accuracy by training loss (mean, 95 % interval over training sets)")
    most = max(axes[: len(starts)], key=lambda ax: len(ax.lines))
    fig.legend(*most.get_legend_handles_labels(), loc="outside right upper", fontsize=7)
    return fig


def loss_curves(ax, levels, ways: dict) -> None:
    """Means and 95 % intervals over training sets at each loss; ways: {label: [levels, sets]}.

    A mean of fewer than half of the training sets is left out.
    """
    descents = [way for way in ways if not way.startswith(SEARCHES)]
    shades = iter(plots.shades(max(len(descents), 2), "#08306b", "#9ecae1"))
    styles = {}
    for way in ways:
        is_search = way.startswith(SEARCHES)
        n_before = sum(other.startswith(SEARCHES) for other in styles)
        colour = plots.COLOURS[1 + n_before] if is_search else next(shades)
        styles[way] = {"color": colour, "linestyle": "--" if is_search else "-"}
    for k, (way, values) in enumerate(ways.items()):
        known = [row[np.isfinite(row)] for row in np.asarray(values, float)]
        points = [
            (x * 1.05 ** (k - len(ways) / 2), *stats.mean_and_interval(row))
            for x, row in zip(levels, known)
            if len(row) > 1 and 2 * len(row) >= np.shape(values)[1]
        ]
        if points:
            ax.errorbar(
                *np.array(points).T[:2],
                yerr=np.array(points).T[2],
                marker="o",
                markersize=3.5,
                linewidth=1.2,
                label=way.replace("_", " "),
                **styles[way],
            )
    if not ax.containers:
        ax.text(0.5, 0.5, "no solutions", transform=ax.transAxes, ha="center", color=plots.GREY)
    ax.set(xscale="log", xlabel="training loss")
    ax.set_xticks(levels, [f"{x:g}" for x in levels])
    ax.minorticks_off()
    ax.set_xlim(1.25 * max(levels), min(levels) / 1.25)  # losses fall to the right


def draw_settings(arrays, folder):
    """Test accuracy and S_2 of every part and setting after training."""
    rows = {}
    for prefix, part_title in prefixes(arrays):
        for i, name in enumerate(arrays[f"{prefix}settings"].tolist()):
            rows[f"{part_title}: {name}"] = (prefix, i)
    panels = {
        score: {w: arrays[f"{p}scores/{score}"][-1, :, i] for w, (p, i) in rows.items()}
        for score in ("test accuracy", "S_2", "interventional information")
    }
    plots.save(
        _dot_panels(panels, "After training, every seed; bars are means"), folder / "settings.png"
    )


def draw_dose(arrays, folder):
    """Test accuracy and S_2 by dose or width."""
    name = "rho" if len(set(arrays["setting/rho"].tolist())) > 1 else "width"
    plots.save(_dose(arrays, name), folder / "dose.png")


@plots.styled
def _dose(arrays, name):
    fig = plots.new_figure(7.4, 3.3, layout="constrained")
    x = arrays[f"setting/{name}"]
    order = np.argsort(x)
    labels = {"rho": "share of samples in which X_2 predicts Y_1", "width": "labels Y_2 may have"}
    for ax, score in zip(fig.subplots(1, 2), ("test accuracy", "S_2")):
        band(ax, x[order], arrays[f"scores/{score}"][-1].T[order], plots.COLOURS[0], score)
        ax.set(xlabel=labels[name], ylabel=score)
    plots.headline(fig, "After training: test accuracy, and the share of X_2 in the derivative")
    return fig


@plots.styled
def _over_steps(steps, lines, title, ylabel, log=False):
    """Curves over training steps of {label: values [m, seeds]}."""
    fig = plots.new_figure(5.4, 3.6, layout="constrained")
    ax = fig.subplots()
    for colour, (label, values) in zip(plots.COLOURS * 2, lines.items()):
        band(ax, steps, values, colour, label)
    step_axis(ax, steps)
    ax.set_ylabel(ylabel)
    if log:
        ax.set_yscale("log")
    plots.headline(fig, title)
    plots.legend_below(fig, ax)
    return fig


def draw_apart(arrays, folder):
    """Differences between runs by other gradients and by reverse mode."""
    steps = arrays["reverse/scores/step"]
    lines = {
        f"{name.split('/')[1]}: {name.split('/')[2]}": np.maximum(values, 1e-9)
        for name, values in arrays.items()
        if name.startswith("apart/") and not name.endswith("train accuracy")
    }
    title = "Difference from the runs by reverse mode"
    plots.save(_over_steps(steps, lines, title, "largest difference", True), folder / "apart.png")


def draw_paths(arrays, folder):
    """Figure 1: distances along the paths, and the loss between the ends."""
    plots.save(_paths(arrays), folder / "paths.png")


@plots.styled
def _paths(arrays):
    fig = plots.new_figure(8.6, 3.7, layout="constrained")
    left, right = fig.subplots(1, 2)
    steps = arrays["path/step"]
    labels = {"A to control": "A's path to control's end", "control to A": "control's to A's end"}
    for (name, label), colour in zip(labels.items(), ("#1f4fd8", "#d62728")):
        band(left, steps, arrays[f"path/{name}"], colour, label)
    step_axis(left, steps)
    left.set_ylabel("distance")
    left.legend(fontsize=7)
    share = np.linspace(0, 1, arrays["line/before"].shape[1])
    for (name, label), colour in zip(
        {"before": "as trained", "after": "hidden units matched"}.items(), plots.COLOURS
    ):
        band(right, share, arrays[f"line/{name}"].T, colour, label)
    right.set(xlabel="from A's end (0) to control's end (1)", ylabel="training loss of A")
    right.legend(fontsize=7)
    plots.headline(fig, "Distances between paths and solutions, and the loss on the line between")
    return fig


def draw_turns(arrays, folder):
    """Tilt of the boundary after the first step, and its turn, by the cell of the gradient."""
    cells = sorted(name.split("/")[1] for name in arrays if name.startswith("tilt/"))
    panels = {
        "degrees from the line X_1 = 0": {w: arrays[f"tilt/{w}"] for w in cells},
        "degrees turned": {w: arrays.get(f"turn/{w}", ()) for w in cells},
    }
    title = "The boundary after the first step, by the cell whose gradient is used"
    plots.save(_dot_panels(panels, title), folder / "turns.png")


def draw_tangent(arrays, folder):
    """S_2, measured and predicted by the linearised network."""
    plots.save(_tangent(arrays), folder / "tangent.png")


@plots.styled
def _tangent(arrays):
    names, steps = arrays["settings"].tolist(), arrays["tangent/step"]
    fig = plots.new_figure(8.2, 3.6, layout="constrained")
    left, right = fig.subplots(1, 2)
    for name, (dark, light) in zip(names, colours(names)):
        measured, predicted = (arrays[f"tangent/{name}/{k}"] for k in ("measured", "predicted"))
        band(left, steps, measured.T, dark, f"{name}, measured")
        band(left, steps, predicted.T, light, f"{name}, predicted", "--")
        change = [curve[:, -1] - curve[:, 0] for curve in (predicted, measured)]
        right.scatter(*change, s=14, color=dark, label=name)
    step_axis(left, steps)
    left.set_ylabel("S_2")
    left.legend(fontsize=7)
    right.axline((0, 0), slope=1, color=plots.FAINT, linewidth=1)
    right.set(xlabel="predicted change of S_2", ylabel="measured change")
    right.legend(fontsize=7)
    plots.headline(fig, "The early share of X_2, and what the tangent kernel at the start predicts")
    return fig
