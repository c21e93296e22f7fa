"""Common style of all figures: colours, sizes, labels, new figures, atomic writing of files."""

import functools
import io
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from PIL import Image
from scipy.sparse.csgraph import connected_components

from cgjax.core import hosts
from cgjax.core.logging import passing
from cgjax.core.workdir import disk_errors

DPI = 160
PAGE = 7.2  # inches: width of pictures in READMEs, where small text is 13 px high on a screen
INK, GREY, FAINT = "#22262b", "#59616a", "#8a929b"
# Okabe and Ito's palette: colour-blind readers can distinguish it, also in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GRID = {"color": "#e3e6ea", "linewidth": 0.7}
SMALL, HEADLINE = {"fontsize": 8}, {"fontsize": 10.5, "fontweight": "bold"}
TICKS = {"labelsize": 8, "color": FAINT, "labelcolor": INK, "major.width": 0.7}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{axis}tick.{name}": value for axis in "xy" for name, value in TICKS.items()},
    "text.color": INK,
    "figure.titlesize": 10.5,
    "figure.titleweight": "bold",
    "figure.dpi": DPI,
    "legend.frameon": False,
    "image.interpolation": "nearest",
    "hatch.linewidth": 0.5,
}


def styled(draw) -> Callable:
    """Run a drawing function under STYLE; the caller's settings do not change."""

    @functools.wraps(draw)
    def wrapped(*args, **kwargs):
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return wrapped


class _Figure(Figure):
    """A figure that notebooks display without pyplot and its list of figures."""

    def _repr_png_(self):
        content = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            self.savefig(content, format="png", dpi=DPI / 2)
        return content.getvalue()


@styled
def new_figure(width, height, **options) -> Figure:
    """An empty figure of `width` x `height` inches with its own canvas."""
    fig = _Figure(figsize=(width, height), **options)
    FigureCanvasAgg(fig)
    return fig


@styled
def save(fig, path) -> pathlib.Path:
    """Write `fig` as PNG atomically, so readers never see a partial file; returns the path."""
    content = io.BytesIO()  # drawn in memory first: drawing is slow, writing is fast
    fig.canvas.print_png(content)  # `savefig` draws a figure with a layout twice
    return _write(content, pathlib.Path(path))


@styled
def save_frames(fig, show, n, path, seconds=0.2) -> pathlib.Path:
    """Write a looping GIF atomically: `show(i)` turns `fig` into frame i of n."""
    frames = []
    for i in range(n):
        show(i)
        fig.canvas.draw()
        frames.append(Image.fromarray(np.asarray(fig.canvas.buffer_rgba())[..., :3]))
    # One palette for all frames: separate palettes would flicker and take space.
    # Every colour counts once in it, so that small coloured text does not turn grey.
    sample = np.concatenate([np.asarray(frame) for frame in frames[:: max(1, n // 4)]])
    # One integer per colour: numpy sorts rows of three as objects, ten times more slowly.
    numbers = np.unique(sample.astype(np.int32) @ [1 << 16, 1 << 8, 1])
    colours = np.stack([numbers >> 16, numbers >> 8 & 255, numbers & 255], axis=-1).astype(np.uint8)
    palette = Image.fromarray(colours[None]).quantize(128)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    content, times = io.BytesIO(), round(1000 * seconds)
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return _write(content, pathlib.Path(path))


_numbers = itertools.count(1)  # of the figures that this process writes


def _write(content, path):
    if not hosts.is_writer():
        return path
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "wb") as handle:
                handle.write(content.getbuffer())
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    passing(f"figure {next(_numbers)}: {path.name}")
    return path


def shades(n, low="#9ecae1", high="#08306b") -> list[str]:
    """n colours from light to dark, for lines ordered by a quantity; a single one is dark."""
    low, high = (np.array(to_rgb(end)) for end in (low, high))
    return [to_hex(high + share * (low - high)) for share in np.linspace(0, 1, n)[::-1]]


def headline(fig, text) -> None:
    """A sentence above the figure, left-aligned and wrapped."""
    fig.suptitle(wrap(text, 0.98 * fig.get_figwidth(), **HEADLINE), x=0.01, ha="left")


def wrap(text, width, fontsize=9.5, fontweight="normal") -> str:
    """Break `text` into lines that fit `width` inches; a longer word gets its own line."""
    font = FontProperties(family=STYLE["font.family"], size=fontsize, weight=fontweight)

    def fits(line):
        return _measure.get_text_width_height_descent(line, font, ismath=False)[0] <= 72 * width

    lines = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".strip()
            if line and not fits(longer):
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return "\n".join(lines)


_measure = TextToPath()


# --- shared by figures of dense networks and of networks on images --------------------------------


def colours(n_tasks: int) -> Sequence[str]:
    """One colour per task: COLOURS, or shades if there are more tasks than COLOURS."""
    return COLOURS if n_tasks <= len(COLOURS) else shades(n_tasks)


# --- labels ---------------------------------------------------------------------------------------
# Labels next to curves and points, in place of a legend; an axis for any range of R2.


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
