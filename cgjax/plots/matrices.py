"""Lower triangles of small panels, one for each pair of variables and one for each variable.

All panels lie in one pair of axes, whose unit is an inch: matplotlib needs five times as long to
make and draw 55 pairs of axes.
"""

from collections.abc import Iterable

import numpy as np
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from cgjax.plots.charts import MISSING, common_scale, heat_map, thin_out
from cgjax.plots.style import COLOURS, FAINT, HEADLINE, new_figure, styled, wrap

CELL, SIDE = 0.95, 0.88  # inches: from panel to panel, and of a panel
LEFT, BOTTOM, RIGHT, TOP = 1.05, 0.75, 0.55, 0.25  # inches around the triangle
TICK = 0.03  # inches
BINS = 20


@styled
def pair_matrix(pairs, lines, labels, limits, ticks, title="", scale_label="") -> Figure:
    """Lower triangle of heat maps, with one line plot per variable on the diagonal.

    pairs {(i, j): matrix [n_i, n_j]} for i > j, variable i upward; lines [(levels, values)] per
    variable; limits [(low, high)] and ticks [[(position, text)]] of the variables. All heat maps
    have one colour scale, all lines one vertical axis.
    """
    triangle = _Triangle(labels, limits, ticks, title)
    low, high = common_scale(pairs.values())
    image = None
    for (i, j), matrix in pairs.items():
        x, y = triangle.corner(i, j)
        if not np.all(np.isfinite(matrix)):
            behind = Rectangle((x, y), SIDE, SIDE, linewidth=0, zorder=-1, **MISSING)
            triangle.ax.add_patch(behind)
        image = heat_map(triangle.ax, matrix, (x, x + SIDE, y, y + SIDE), low, high)
    bottom, top = common_scale([values for _, values in lines])
    margin = 0.08 * (top - bottom) or 0.5
    for i, (levels, values) in enumerate(lines):
        x = triangle.inside(i, i, 0, levels, limits[i])
        y = triangle.inside(i, i, 1, values, (bottom - margin, top + margin))
        triangle.ax.plot(x, y, color=COLOURS[1], linewidth=1.4)
        triangle.frame(i, i, ("right", "bottom"))
        for value in (bottom, top):
            triangle.right_tick(i, value, (bottom - margin, top + margin))
    triangle.finish()
    if image is not None:
        place = triangle.fig.add_axes((0.6, min(0.88, triangle.below), 0.34, 0.012))
        options = {"label": scale_label, "orientation": "horizontal"}
        triangle.fig.colorbar(image, cax=place, **options).outline.set_visible(False)
    return triangle.fig


@styled
def scatter_matrix(points, labels, limits, ticks, title="", most=1500) -> Figure:
    """Lower triangle of scatters with a histogram of every variable on the diagonal.

    points [m, d]; scatters show at most `most` of them, histograms count all.
    """
    triangle = _Triangle(labels, limits, ticks, title)
    drawn, bars = thin_out(points, most), []
    for i, j in triangle.cells:
        triangle.frame(i, j, ("bottom",) if i == j else ("left", "bottom"))
        if i == j:
            bars += triangle.bars(i, points[:, i])
            continue
        x = triangle.inside(i, j, 0, drawn[:, j], limits[j])
        y = triangle.inside(i, j, 1, drawn[:, i], limits[i])
        shown = triangle.holds(i, j, x, y)
        options = {"color": COLOURS[0], "markersize": 1.2, "alpha": 0.5}
        triangle.ax.plot(x[shown], y[shown], ".", **options)
    triangle.ax.add_collection(PatchCollection(bars, facecolor=COLOURS[0], linewidth=0))
    triangle.finish()
    return triangle.fig


class _Triangle:
    """A figure with labels and outer ticks, and the places of its panels."""

    def __init__(self, labels, limits, ticks, title):
        n, self.limits, self.ticks = len(labels), limits, ticks
        # The title needs room next to the first panel, even with few panels.
        self.width = max(LEFT + n * CELL + RIGHT, 6.0)
        self.height = BOTTOM + n * CELL + TOP
        self.n, self.lines = n, []
        self.cells = [(i, j) for i in range(n) for j in range(i + 1)]
        self.fig = new_figure(self.width, self.height)
        self.ax = self.fig.add_axes((0, 0, 1, 1))
        self.ax.set_axis_off()
        for i, label in enumerate(labels):
            label = "\n".join(label.rsplit(" ", 1))
            x, y = self.corner(i, i)
            self.ax.text(x + SIDE / 2, BOTTOM - 0.23, label, ha="center", va="top")
            self.ax.text(0.12, y + SIDE / 2, label, va="center")
            self.outer_ticks(i)
        title = wrap(title, 0.54 * self.width, **HEADLINE)
        self.fig.text(0.42, 1 - 0.3 / self.height, title, va="top", **HEADLINE)
        # The height of the free space below the title, as a share of the figure.
        self.below = 1 - (0.55 + 0.2 * len(title.splitlines())) / self.height

    def corner(self, i: int, j: int) -> tuple[float, float]:
        """The lower left corner of the panel in row i and column j."""
        return LEFT + j * CELL, BOTTOM + (self.n - 1 - i) * CELL

    def inside(self, i: int, j: int, axis: int, values, limits) -> np.ndarray:
        """Places of values along an axis of a panel: 0 to the right, 1 upward."""
        low, high = limits
        return self.corner(i, j)[axis] + SIDE * (np.asarray(values, float) - low) / (high - low)

    def holds(self, i: int, j: int, x, y) -> np.ndarray:
        """Whether places lie in the panel: points beyond its limits would lie in the next one."""
        left, bottom = self.corner(i, j)
        return (x >= left) & (x <= left + SIDE) & (y >= bottom) & (y <= bottom + SIDE)

    def outer_ticks(self, i: int) -> None:
        """Ticks and texts of variable i: below the last row, and left of the first column.

        Texts at the ends of an axis stay inside it and do not touch the neighbour's texts.
        """
        last, sides = self.n - 1, (("left", "bottom"), ("right", "top"))
        for (value, text), (horizontal, vertical) in zip(self.ticks[i], sides):
            x = self.inside(last, i, 0, value, self.limits[i])
            self.lines.append([(x, BOTTOM), (x, BOTTOM - TICK)])
            self.ax.text(x, BOTTOM - 0.07, text, ha=horizontal, va="top", fontsize=7)
            if i > 0:
                y = self.inside(i, 0, 1, value, self.limits[i])
                self.lines.append([(LEFT, y), (LEFT - TICK, y)])
                self.ax.text(LEFT - 0.07, y, text, ha="right", va=vertical, fontsize=7)

    def right_tick(self, i: int, value: float, limits) -> None:
        """A tick with its number, right of the panel of variable i."""
        x, y = self.corner(i, i)[0] + SIDE, self.inside(i, i, 1, value, limits)
        self.lines.append([(x, y), (x + TICK, y)])
        self.ax.text(x + 0.07, y, f"{value:.2g}", va="center", fontsize=7)

    def frame(self, i: int, j: int, sides: Iterable[str]) -> None:
        """Lines along sides of a panel."""
        x, y = self.corner(i, j)
        ends = {
            "left": [(x, y), (x, y + SIDE)],
            "right": [(x + SIDE, y), (x + SIDE, y + SIDE)],
            "bottom": [(x, y), (x + SIDE, y)],
        }
        self.lines += [ends[side] for side in sides]

    def bars(self, i: int, values) -> list[Rectangle]:
        """A histogram of a variable; the highest bar almost fills the panel."""
        counts, edges = np.histogram(values, BINS, self.limits[i])
        heights = 0.95 * SIDE * counts / max(counts.max(), 1)
        places, y = self.inside(i, i, 0, edges, self.limits[i]), self.corner(i, i)[1]
        width = SIDE / BINS
        return [Rectangle((x, y), width, height) for x, height in zip(places, heights)]

    def finish(self) -> None:
        """Draws the lines; the limits of the axes are the figure's, whatever was drawn."""
        options = {"colors": FAINT, "linewidths": 0.7, "capstyle": "projecting"}
        self.ax.add_collection(LineCollection(self.lines, **options))
        self.ax.set(xlim=(0, self.width), ylim=(0, self.height))
