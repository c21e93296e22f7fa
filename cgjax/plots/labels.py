"""Labels next to curves and points, in place of a legend; an axis for any range of R2."""

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from scipy.sparse.csgraph import connected_components

from cgjax.plots.style import FAINT, SMALL


def spread(places, gap, low, high) -> np.ndarray:
    """Places moved as little as possible so that they are `gap` apart between `low` and `high`.

    places [n] in any order; their order does not change. With too little room they start at `low`.
    """
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(len(order))
    blocks = []  # (mean, count): neighbours that touch move together
    for place in np.asarray(places, float)[order] - steps:
        mean, count = place, 1
        while blocks and blocks[-1][0] > mean:
            other, n = blocks.pop()
            mean, count = (mean * count + other * n) / (count + n), count + n
        blocks.append((mean, count))
    moved = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    room = max(low, high - (steps[-1] if len(steps) else 0))
    result = np.empty(len(order))
    result[order] = np.clip(moved, low, room) + steps
    return result


def label_ends(ax, ends, side="right", fontsize=SMALL["fontsize"]) -> None:
    """Write the name of each curve next to its end, in the curve's colour, without overlaps.

    ends [(x, y, text, colour)] in data coordinates; y is NaN for a curve without finite points.
    side "right": right of the axes; "left": inside them, left of the points, which needs room.
    Limits and scales of the axes must be final, because the positions depend on them.
    """
    if not ends:
        return
    fig, box = ax.get_figure(), _window_extent(ax)
    at = np.array([ax.transData.transform((x, y)) for x, y, *_ in ends])
    at = np.nan_to_num(at, nan=box.y0)
    at[:, 1] = np.clip(at[:, 1], box.y0, box.y1)
    line = fontsize * fig.dpi / 72
    heights = spread(at[:, 1], 1.25 * line, box.y0 + 0.4 * line, box.y1)
    pixels = ax.transAxes.inverted()
    for (_, y, text, colour), (px, py), height in zip(ends, at, heights):
        where = box.x1 + 0.9 * line if side == "right" else px - 1.1 * line
        line_to = {"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.6}
        line_to |= {"shrinkA": 1, "shrinkB": 3}
        ax.annotate(
            text if np.isfinite(y) else f"{text} (nothing finite)",
            pixels.transform((px, py)),
            pixels.transform((where, height)),
            "axes fraction",
            "axes fraction",
            color=colour,
            fontsize=fontsize,
            va="center",
            ha="left" if side == "right" else "right",
            arrowprops=line_to,
            annotation_clip=False,
        )


def _window_extent(ax):
    """Current position of the axes in the figure; runs the layout engine, which moves them."""
    fig = ax.get_figure()
    if (engine := fig.get_layout_engine()) is not None:
        engine.execute(fig)
    ax.apply_aspect()
    return ax.get_window_extent()


def label_points(ax, x, y, texts, fontsize=7) -> None:
    """Write a short text to the right of each point; texts of close points are moved apart.

    x, y [n] in data coordinates; limits and scales of the axes must be final.
    """
    box, line = _window_extent(ax), fontsize * ax.get_figure().dpi / 72
    at = ax.transData.transform(np.stack([x, y], axis=1))
    pixels = ax.transAxes.inverted()
    # Texts that would overlap form a column; 0.6: width of a letter over its height.
    widths = line * np.array([2 + 0.6 * len(text) for text in texts])
    right, up = (at[None, :, d] - at[:, None, d] for d in range(2))
    touch = (right >= 0) & (right < widths[:, None]) & (np.abs(up) < 1.2 * line)
    n_columns, column_of = connected_components(touch, directed=False)
    columns = [np.flatnonzero(column_of == k) for k in range(n_columns)]
    for column in columns:
        heights = spread(at[column, 1], 1.2 * line, box.y0 + 0.5 * line, box.y1)
        for i, height in zip(column, heights):
            alone = abs(height - at[i, 1]) < 1
            where = (at[i, 0] if alone else at[column, 0].max()) + 1.2 * line
            line_to = {"arrowstyle": "-", "color": FAINT, "lw": 0.5, "shrinkA": 0, "shrinkB": 2}
            ax.annotate(
                texts[i],
                pixels.transform(at[i]),
                pixels.transform((where, height)),
                "axes fraction",
                "axes fraction",
                fontsize=fontsize,
                va="center",
                arrowprops=line_to,
                annotation_clip=False,
            )


def legend_below(fig, ax) -> None:
    """The legend of one axes below the whole figure, in as many columns as fit."""
    handles, labels = ax.get_legend_handles_labels()
    columns = max(1, int(fig.get_figwidth() / (0.9 + 0.06 * max(map(len, labels), default=0))))
    fig.legend(handles, labels, loc="outside lower center", ncols=columns, **SMALL)


def seeds(ax, place, values, colour, label=None, paper=None, size=4) -> None:
    """A dot for every seed at one place of the x axis; beside them a hollow one, the paper's."""
    style = {"ms": size, "color": colour, "label": label, "alpha": 0.7, "mew": 0}
    ax.plot(np.full(len(values), place), values, "o", **style)
    if paper is not None:
        ax.plot(place + 0.1, paper, "o", ms=6, mfc="none", mec=colour)


def last_point(x, y) -> tuple:
    """(x, y) of a curve's last finite point; (last x, NaN) if there is none."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    (finite,) = np.nonzero(np.isfinite(y))
    return (x[finite[-1]], y[finite[-1]]) if len(finite) else (x[-1], np.nan)


def r2_axis(ax, values) -> None:
    """Make y an axis of R2 for both very bad and very good values: linear in log(1 - R2).

    values: every R2 in the plot. 0.99, 0.9, 0, -9, -99 are equally spaced.
    """
    values = np.concatenate([np.zeros(0), *(np.ravel(np.asarray(y, float)) for y in values)])
    left = 1 - values[np.isfinite(values)]
    powers = np.log10(np.clip(left, 1e-6, None)) if left.size else np.array([-1.0, 0.0])
    low, high = powers.min(), powers.max()
    margin = 0.06 * (high - low) + 0.2 * (high - low < 0.5)
    ax.set_yscale(
        "function",
        functions=(lambda r: -np.log10(np.clip(1 - r, 1e-7, None)), lambda t: 1 - 10.0**-t),
    )
    ax.set_ylim(1 - 10 ** (high + margin), 1 - 10 ** (low - margin))
    width = high - low
    between = (1, 1.5, 2, 3, 5, 7) if width < 1 else (1, 2, 5) if width < 3 else (1,)
    powers = range(int(np.floor(low)), int(np.ceil(high)) + 1)
    ticks = [1 - n * 10.0**k for k in powers for n in between]
    bottom, top = ax.get_ylim()
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if bottom <= tick <= top]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:.6g}".replace("-", "−")))
