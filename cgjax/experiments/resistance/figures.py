"""Figures of each row of the resistance family, from saved arrays."""

import pathlib

import numpy as np
from matplotlib.patches import Rectangle

from cgjax import plots
from cgjax.analysis import stats

# --- curves ---------------------------------------------------------------------------------------
# Scores over training, of every part and setting: accuracy, dependence, information.


# Colours of figure 3: (train, test) of A and of B.
COLOURS = {"A": ("#1f4fd8", "#19b5c9"), "B": ("#d62728", "#8c564b")}
COLOURS["control"] = COLOURS["B"]


def prefixes(arrays) -> list[tuple[str, str]]:
    """(prefix of array names, title) of every part."""
    return [(f"{p}/" if p else "", str(p).replace("_", " ")) for p in arrays["parts"].tolist()]


def colours(names: list[str]) -> list[tuple[str, str]]:
    """(dark, light) colours of every setting; the paper's colours if there are only A and B."""
    if all(name in COLOURS for name in names):
        return [COLOURS[name] for name in names]
    return [
        (dark, plots.shades(3, "#ffffff", dark)[1])
        for dark in (plots.COLOURS * len(names))[: len(names)]
    ]


def band(ax, steps, values, colour, label, style="-"):
    """Mean over seeds with a band of one standard deviation; values [m, seeds].

    Steps at which no seed has a value are left out.
    """
    is_known = np.isfinite(values).any(axis=1)
    steps, values = np.asarray(steps)[is_known], np.asarray(values)[is_known]
    n = np.isfinite(values).sum(axis=1)
    mean, variance = np.nanmean(values, axis=1), np.nanvar(values, axis=1)
    sd = np.sqrt(variance * n / np.maximum(n - 1, 1))
    ax.plot(steps, mean, style, color=colour, linewidth=1.4, label=label)
    ax.fill_between(steps, mean - sd, mean + sd, color=colour, alpha=0.18, linewidth=0)


def step_axis(ax, steps) -> None:
    """Sets the axis of training steps; long runs get a logarithmic axis."""
    if steps[-1] > 200:
        ax.set_xscale("symlog", linthresh=1)
        ticks = [0, 1, 10, 100, 1000, 10_000]
        ax.set_xticks([t for t in ticks if t <= steps[-1]])
        ax.set_xticklabels([f"{t:,}" for t in ticks if t <= steps[-1]])
    ax.set_xlabel("training step")
    ax.set_xlim(0, steps[-1])


def _lines(arrays, folder, file, title, wanted, ylabel, limits=None):
    """One panel per part; wanted: [(score, start of label, line style)]."""
    parts = [
        (prefix, part_title)
        for prefix, part_title in prefixes(arrays)
        if any(f"{prefix}scores/{score}" in arrays for score, *_ in wanted)
    ]
    if not parts:
        return
    n = len(parts)
    columns = min(n, 3)
    rows = -(-n // columns)

    @plots.styled
    def figure():
        fig = plots.new_figure(4.2 * columns + 0.4, 3.1 * rows + 1.2, layout="constrained")
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, (prefix, part_title) in zip(axes, parts):
            names = arrays[f"{prefix}settings"].tolist()
            for i, (name, pair) in enumerate(zip(names, colours(names))):
                for k, (score, label_start, style) in enumerate(wanted):
                    if f"{prefix}scores/{score}" not in arrays:
                        continue
                    values = arrays[f"{prefix}scores/{score}"][:, :, i]
                    label = " ".join(filter(None, (label_start, name)))
                    shade = pair[k % 2] if len(wanted) > 1 else pair[0]
                    band(ax, arrays[f"{prefix}scores/step"], values, shade, label, style)
            step_axis(ax, arrays[f"{prefix}scores/step"])
            ax.set(title=part_title, ylabel=ylabel)
            if limits:
                ax.set_ylim(*limits)
        for ax in axes[n:]:
            ax.set_visible(False)
        plots.headline(fig, title)
        longest = max(axes[:n], key=lambda ax: len(ax.get_legend_handles_labels()[0]))
        plots.legend_below(fig, longest)
        return fig

    plots.save(figure(), folder / f"{file}.png")


def draw_accuracy(arrays, folder):
    """Figures 3a and 3b."""
    title = "Accuracy in training and in the test (mean, band of one standard deviation)"
    wanted = [("train accuracy", "train", "-"), ("test accuracy", "test", "-")]
    _lines(arrays, folder, "accuracy", title, wanted, "accuracy", (0, 1.02))


def draw_dependence(arrays, folder):
    """S_2 over training."""
    title = "Share of X_2 in the derivative of the answer"
    _lines(arrays, folder, "dependence", title, [("S_2", "", "-")], "S_2")


def draw_information(arrays, folder):
    """Information of the answer about Y_2."""
    title = "Information of the answer about Y_2: given Y_1, and when X_2 is drawn anew (nats)"
    wanted = [
        ("conditional information", "given Y_1,", "-"),
        ("interventional information", "X_2 drawn anew,", "--"),
    ]
    _lines(arrays, folder, "information", title, wanted, "nats")


def draw_matrix(arrays, folder):
    """Off-diagonal entries of D_ij over training, as shares."""
    title = "Shares of the other component in the derivative of each output"
    two = [
        ("S_2", "X_2 in head 1,", "-"),
        ("S_1 of head 2", "X_1 in head 2,", "--"),
        ("S of action words in structure", "action words in structure,", "-"),
        ("S of structure in actions", "structure in actions,", "--"),
    ]
    _lines(arrays, folder, "matrix", title, two, "share")


def draw_heads(arrays, folder):
    """Whether heads' updates cancel."""
    title = "Updates of two heads: norm of their sum over the sum of norms, and their cosine"
    wanted = [("heads: ratio of norms", "ratio,", "-"), ("heads: cosine", "cosine,", "--")]
    _lines(arrays, folder, "heads", title, wanted, "", (-1.05, 1.05))


def draw_one_step(arrays, folder):
    """Change of D_2 by one small step."""
    title = "Change of D_2 by one small step: X_2 predicts the target, or is drawn anew"
    wanted = [
        ("one step on A: D_2", "telling,", "-"),
        ("one step on re-drawn: D_2", "drawn anew,", "--"),
    ]
    _lines(arrays, folder, "one_step", title, wanted, "change of D_2")


# --- solutions ------------------------------------------------------------------------------------
# Figures of single questions: doses, remedies, solutions of equal loss, paths, angles, kernels.


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


WAYS = {"sgd": "SGD", "sgd_fixed_biases": "SGD, biases kept at 0", "guess": "guesses"}


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
                label=WAYS.get(way, way.replace("_", " ").replace("walk of", "walks of")),
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


# --- the plane ------------------------------------------------------------------------------------
# Its points, the boundary over training (figures 4, 5, 6), and an animation.


BLUE, ORANGE = "#1f4fd8", "#e8871e"
MOST_POINTS = 120


def _parts(arrays, name):
    return [(p, w) for p, w in prefixes(arrays) if f"{p}{name}" in arrays]


def _points(ax, x, y, size):
    for value, colour, marker in ((1, BLUE, "o"), (0, ORANGE, "^")):
        points = x[y[:, 0] == value]
        ax.scatter(*points.T, s=size, c=colour, marker=marker, linewidths=0.2, edgecolors="white")


def _plane(ax):
    ax.set(xlim=(-1, 1), ylim=(-1, 1), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    ax.add_patch(Rectangle((0, 0), 1, 1, fill=False, linestyle="--", linewidth=1, color=plots.INK))


def _panel(ax, shown, x, y, size=4):
    """P(Y_1 = 1) [g, g] behind training points, with its contour at 1/2."""
    extent = (-1, 1, -1, 1)
    image = ax.imshow(shown, origin="lower", extent=extent, vmin=0, vmax=1, cmap="PuOr", alpha=0.5)
    axis = np.linspace(-1, 1, len(shown))
    if shown.min() < 0.5 < shown.max():
        ax.contour(axis, axis, shown, levels=[0.5], colors=plots.INK, linewidths=1.2)
    _points(ax, x[:MOST_POINTS], y[:MOST_POINTS], size)
    _plane(ax)
    return image


@plots.styled
def _figure_4(x, y):
    fig = plots.new_figure(4.2, 4.4, layout="constrained")
    ax = fig.subplots()
    _points(ax, x, y, 14)
    _plane(ax)
    ax.set(xlabel="X_1", ylabel="X_2")
    ax.text(0.5, 0.5, "test", ha="center", va="center")
    plots.headline(fig, "Training points by target; the dashed square is shown in the test alone")
    return fig


def draw_points(arrays, folder):
    """Figure 4."""
    for prefix, _ in _parts(arrays, "points/x")[:1]:
        plots.save(
            _figure_4(arrays[f"{prefix}points/x"][0, 0], arrays[f"{prefix}points/y"][0, 0]),
            folder / "points.png",
        )


@plots.styled
def _panels(panels, titles, x, y, title, columns):
    """A grid of panels [n, g, g] with points x, y [n, m, 2]."""
    n = len(panels)
    rows = -(-n // columns)
    fig = plots.new_figure(1.75 * columns + 0.3, 1.95 * rows + 0.6, layout="constrained")
    axes = fig.subplots(rows, columns, squeeze=False).ravel()
    for i, ax in enumerate(axes):
        if i >= n:
            ax.set_visible(False)
            continue
        _panel(ax, panels[i], x[i], y[i])
        ax.set_title(titles[i])
        ax.tick_params(labelbottom=i >= n - columns, labelleft=i % columns == 0)
    plots.headline(fig, title)
    return fig


def draw_panels(arrays, folder):
    """Figure 5: the first seed, setting A."""
    for prefix, _ in _parts(arrays, "panels")[:1]:
        panels, steps = arrays[f"{prefix}panels"], arrays[f"{prefix}panel_steps"]
        x, y = (np.repeat(arrays[f"{prefix}points/{k}"][:1, 0], len(steps), axis=0) for k in "xy")
        title = "Decision on the plane after so many steps (setting A, first seed)"
        fig = _panels(panels[:, 0, 0], [f"step {s:,}" for s in steps], x, y, title, 6)
        plots.save(fig, folder / "panels.png")


def draw_seeds(arrays, folder):
    """Figure 6: the last panel of eight seeds."""
    for prefix, _ in _parts(arrays, "panels")[:1]:
        panels = arrays[f"{prefix}panels"][-1, :, 0]
        title = f"After {arrays[f'{prefix}panel_steps'][-1]:,} steps, {len(panels)} seeds"
        names = [f"seed {seed}" for seed in arrays[f"{prefix}points/seed"]]
        x, y = (arrays[f"{prefix}points/{k}"][:, 0] for k in "xy")
        plots.save(_panels(panels, names, x, y, title, 4), folder / "seeds.png")


def draw_film(arrays, folder):
    """A GIF of the boundary over training, all settings side by side, each with its points."""
    for prefix, _ in _parts(arrays, "panels")[:1]:
        panels, steps = arrays[f"{prefix}panels"][:, 0], arrays[f"{prefix}panel_steps"]
        names = arrays[f"{prefix}settings"].tolist()
        x, y = (arrays[f"{prefix}points/{k}"][0] for k in "xy")
        _film(panels, steps, names, x, y, folder / "boundary.gif")


@plots.styled
def _film(panels, steps, names, x, y, path):
    fig = plots.new_figure(3.1 * len(names), 3.6)
    axes = fig.subplots(1, len(names), squeeze=False)[0]
    fig.subplots_adjust(left=0.07, right=0.98, top=0.84, bottom=0.08)
    sentence = fig.text(0.02, 0.94, "", fontsize=10)

    def show(i):
        for k, (ax, name) in enumerate(zip(axes, names)):
            ax.clear()
            _panel(ax, panels[i, k], x[k], y[k], 6)
            ax.set_title(name)
        sentence.set_text(f"step {steps[i]:,}")

    plots.save_frames(fig, show, len(steps), path, 0.7)


PLANE = (
    draw_points,
    draw_panels,
    draw_seeds,
    draw_film,
)
# Row or study -> figures; the entry of a row replaces that of its study.
FIGURES = {
    "both": (*PLANE, draw_accuracy, draw_dependence, draw_information),
    "mnist": (draw_accuracy, draw_dependence, draw_information),
    "scan": (draw_accuracy, draw_matrix),
    "plane": (*PLANE, draw_accuracy, draw_dependence, draw_information),
    "heads": (draw_accuracy, draw_matrix, draw_heads),
    "one_step": (draw_accuracy, draw_one_step),
    "remedies": (draw_accuracy, draw_settings),
    "dose": (draw_accuracy, draw_dose),
    "overlaid": (draw_accuracy, draw_settings),
    "widths": (draw_accuracy, draw_dose),
    "crossing": (draw_solutions,),
    "gradients": (draw_accuracy, draw_apart),
    "landscape": (draw_panels, draw_paths),
    "first_step": (draw_turns,),
    "tangent": (draw_tangent,),
}


def draw(row: str, study: str, arrays, folder) -> None:
    """All figures of a row, one after another."""
    arrays = dict(arrays)  # an .npz archive reads the file at every access
    for draw_figure in FIGURES.get(row, FIGURES[study]):
        draw_figure(arrays, pathlib.Path(folder))
