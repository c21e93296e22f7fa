"""The plane: its points, the boundary over training (figures 4, 5, 6), and an animation."""

import numpy as np
from matplotlib.patches import Rectangle

from cgjax import plots
from cgjax.experiments.resistance.figures.curves import prefixes

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
