"""Figures from arrays: image grids, heat maps, pair matrices, scatters, learning curves.

Every function takes arrays and text and returns a `matplotlib.figure.Figure` that belongs to no
window and no global list; `save` writes it, and with its last name it is gone.
"""

import functools
import os
import pathlib
import textwrap
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

DPI = 160
INK, GREY, FAINT = "#22262b", "#59616a", "#8a929b"
# Okabe and Ito's palette: told apart by colour-blind readers, and in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
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


def styled(draw):
    """Run a drawing function under STYLE, leaving the caller's settings as they were."""

    @functools.wraps(draw)
    def wrapped(*args, **kwargs):
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return wrapped


@styled
def new_figure(width, height, **options):
    """An empty figure of `width` x `height` inches with its own canvas."""
    fig = Figure(figsize=(width, height), **options)
    FigureCanvasAgg(fig)
    return fig


@styled
def save(fig, path):
    """Write `fig` as PNG in one step, so no reader ever meets half a file; returns the path."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        fig.savefig(part, format="png")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def shades(n, low="#9ecae1", high="#08306b"):
    """n colours from light to dark, for lines along one quantity."""
    low, high = (np.array(to_rgb(end)) for end in (low, high))
    return [to_hex(low + share * (high - low)) for share in np.linspace(0, 1, max(n, 2))[:n]]


def wrap(text, width, size=9.5):
    """Break `text` into lines that fit `width` inches at `size` points."""
    characters = max(12, int(width * 72 / (0.56 * size)))
    return "\n".join(textwrap.fill(line, characters) for line in text.splitlines())


def displayable(images):
    """Images as RGB in [0, 1], ready to show.

    images [..., h, w, c]: integers 0-255 or floats, c = 1, 3 or 4; values are clipped, RGBA lies
    on a checkerboard, an image with a non-finite value becomes a grey cell with a red cross.
    Returns float [..., h, w, 3].
    """
    images = np.asarray(images)
    if images.ndim < 3 or images.shape[-1] not in (1, 3, 4):
        raise ValueError(f"images must be [..., h, w, 1, 3 or 4], got shape {images.shape}")
    integers = np.issubdtype(images.dtype, np.integer)
    images = images.astype(np.float32) / (255.0 if integers else 1.0)
    bad = ~np.isfinite(images).all(axis=(-3, -2, -1))
    images = np.clip(np.nan_to_num(images), 0.0, 1.0)
    height, width, channels = images.shape[-3:]
    row, column = np.mgrid[:height, :width]
    if channels == 4:
        side = max(1, height // 8)
        board = np.where((row // side + column // side) % 2, 0.62, 0.78)[..., None]
        alpha = images[..., 3:]
        images = alpha * images[..., :3] + (1 - alpha) * board
    images = np.broadcast_to(images, (*images.shape[:-1], 3)).copy()
    down, across = (row + 0.5) / height, (column + 0.5) / width
    thin = max(0.03, 0.6 / min(height, width))
    cross = (np.abs(down - across) < thin) | (np.abs(down + across - 1) < thin)
    images[bad] = np.where(cross[..., None], (0.80, 0.15, 0.15), (0.85, 0.85, 0.85))
    return images


def tile(images, gap=1, scale=1, background=1.0):
    """Images in rows and columns -> one image.

    images [rows, columns, h, w, c], each pixel shown `scale` x `scale`, `gap` pixels between.
    """
    rows, columns, height, width, channels = images.shape
    height, width = height * scale, width * scale
    whole = (rows * (height + gap) - gap, columns * (width + gap) - gap, channels)
    canvas = np.full(whole, background)
    for i, j in np.ndindex(rows, columns):
        top, left = i * (height + gap), j * (width + gap)
        enlarged = images[i, j].repeat(scale, axis=0).repeat(scale, axis=1)
        canvas[top : top + height, left : left + width] = enlarged
    return canvas


def _text_size(text, **font):
    """Width and height of a text in pixels."""
    fig = new_figure(1, 1)
    box = fig.text(0, 0, text or " ", **font).get_window_extent(fig.canvas.get_renderer())
    return box.width, box.height


def _pixel_figure(width, height):
    """A figure measured in pixels: one bare axes, y downward, (0, 0) at the top left."""
    width, height = int(np.ceil(width)), int(np.ceil(height))
    fig = new_figure(width / DPI, height / DPI)
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    ax.axis("off")
    return fig, ax


class Block(NamedTuple):
    """Rows of images that belong together: rows {label: images [n, h, w, c]}.

    `label` stands upright at the left, `columns` are texts above the images, `notes` {row: text}
    stand at the right.
    """

    rows: dict
    label: str = ""
    columns: tuple = ()
    notes: dict = {}


@styled
def image_grid(blocks, title="", width=1000, largest=96):
    """Blocks of rows of images; every image pixel covers whole screen pixels.

    Images are enlarged by whole factors up to `largest` pixels a side, as long as a row stays
    within `width` pixels.
    """
    shown = [{row: displayable(images) for row, images in block.rows.items()} for block in blocks]
    shapes = [images.shape for rows in shown for images in rows.values()]
    side, count = max(shape[2] for shape in shapes), max(shape[0] for shape in shapes)
    scale = max(1, min(largest // side, width // (count * side)))
    grid = count * (side * scale + 2) - 2
    left = 22 + max(_text_size(row)[0] for rows in shown for row in rows)
    left = round(left) + (40 if any(block.label for block in blocks) else 0)
    notes = [text for block in blocks for text in block.notes.values()]
    right = 12 + max((8 + _text_size(text, **SMALL)[0] for text in notes), default=0)
    full = max(left + grid + right, 4 * DPI)
    title = wrap(title, (full - 24) / DPI, HEADLINE["fontsize"])

    y = 12 + (round(_text_size(title, **HEADLINE)[1]) + 16 if title else 0)
    starts = []
    for block, rows in zip(blocks, shown):
        y += max((round(_text_size(text)[1]) + 10 for text in block.columns), default=0)
        starts.append(y)
        y += sum(images.shape[1] * scale + 2 for images in rows.values()) + 12
    fig, ax = _pixel_figure(full, y)
    ax.text(12, 12, title, va="top", **HEADLINE)
    for block, rows, start in zip(blocks, shown, starts):
        _draw_block(ax, block, rows, scale, start, left, left + grid)
    return fig


def _draw_block(ax, block, shown, scale, start, left, right):
    """One block at height `start`, its images from `left` on, its notes after `right`."""
    y, cell = start, 0
    for row, images in shown.items():
        strip = tile(images[None], gap=2, scale=scale)
        height, width, _ = strip.shape
        ax.imshow(strip, extent=(left, left + width, y + height, y), aspect="auto")
        ax.text(left - 10, y + height / 2, row, ha="right", va="center")
        note = block.notes.get(row, "")
        ax.text(right + 8, y + height / 2, note, va="center", color=GREY, **SMALL)
        y, cell = y + height + 2, images.shape[2] * scale
    for index, text in enumerate(block.columns):
        middle = left + index * (cell + 2) + cell / 2
        ax.text(middle, start - 6, text, ha="center", va="bottom")
    if block.label:
        middle = (start + y) / 2
        ax.text(22, middle, block.label, rotation=90, ha="center", va="center", fontweight="bold")
        ax.plot((40, 40), (start, y - 2), color=FAINT, linewidth=1)


def _common_scale(matrices):
    """Least and greatest finite value of several arrays; (0, 1) where there is none."""
    values = np.concatenate([np.ravel(matrix) for matrix in matrices] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def _heat_map(ax, matrix, extent, low, high):
    """One heat map, first row at the bottom; cells without a finite value are left hatched."""
    ax.patch.set(facecolor="#e9ebee", edgecolor="#aab1b9", hatch="/////")
    shown = np.ma.masked_invalid(np.asarray(matrix, float))
    options = {"origin": "lower", "aspect": "auto", "cmap": "viridis"}
    return ax.imshow(shown, extent=extent, vmin=low, vmax=high, **options)


@styled
def heat_maps(panels, extent, xlabel="", ylabel="", title="", scale_label="", ticks=None):
    """Heat maps side by side under one colour scale.

    panels {title: matrix [ny, nx]}, row 0 at the bottom; extent (left, right, bottom, top).
    """
    n = len(panels)
    fig = new_figure(2.75 * n + 1.3, 3.2 + 0.35 * bool(title), layout="constrained")
    axes = fig.subplots(1, n, squeeze=False, sharey=True)[0]
    low, high = _common_scale(panels.values())
    for ax, (name, matrix) in zip(axes, panels.items()):
        image = _heat_map(ax, matrix, extent, low, high)
        ax.set(title=name, xlabel=xlabel, box_aspect=1)
        ax.spines[:].set_visible(False)
        if ticks is not None:
            ax.set(xticks=ticks, yticks=ticks)
    axes[0].set_ylabel(ylabel)
    bar = fig.colorbar(image, ax=list(axes), label=scale_label, fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    fig.suptitle(wrap(title, 2.75 * n + 1.1, 10.5), x=0.01, ha="left")
    return fig


def _triangle(labels, limits, ticks, title, cell=0.95):
    """Axes of a lower triangle, outer ticks and labels only.

    limits [(low, high)] and ticks [[(position, text)]] for each of the variables.
    Returns the figure and {(row, column): axes}.
    """
    n, labels = len(labels), ["\n".join(label.rsplit(" ", 1)) for label in labels]
    left, bottom, right, top = 1.05, 0.75, 0.55, 0.25
    width, height = left + n * cell + right, bottom + n * cell + top
    fig = new_figure(width, height)
    step_x, step_y, share = cell / width, cell / height, 0.93
    axes = {}
    for i in range(n):
        for j in range(i + 1):
            corner = (left / width + j * step_x, bottom / height + (n - 1 - i) * step_y)
            ax = fig.add_axes((*corner, share * step_x, share * step_y))
            places, texts = zip(*ticks[j])
            ax.set(xlim=limits[j], xticks=places, xticklabels=texts if i == n - 1 else [])
            places, texts = zip(*ticks[i]) if i != j else ((), ())
            ax.set(yticks=places, yticklabels=texts if j == 0 else [])
            ax.tick_params(length=2, labelsize=7)
            # Texts at the ends of an axis stay inside it, clear of the neighbour's.
            for text, side in zip(ax.get_xticklabels(), ("left", "right")):
                text.set_horizontalalignment(side)
            for text, side in zip(ax.get_yticklabels(), ("bottom", "top")):
                text.set_verticalalignment(side)
            if i != j:
                ax.set_ylim(limits[i])
            axes[i, j] = ax
    for i in range(n):
        axes[n - 1, i].set_xlabel(labels[i])
        middle = (bottom + (n - 0.5 - i) * cell) / height
        fig.text(0.12 / width, middle, labels[i], va="center")
    fig.text(0.42, 1 - 0.3 / height, wrap(title, 0.54 * width, 11), va="top", **HEADLINE)
    return fig, axes


@styled
def pair_matrix(pairs, lines, labels, limits, ticks, title="", scale_label=""):
    """Lower triangle of heat maps, with one line plot per variable on the diagonal.

    pairs {(i, j): matrix [n_i, n_j]} for i > j, variable i upward; lines [(levels, values)] per
    variable; limits and ticks as the axes show them. One colour scale for all heat maps, one
    vertical axis for all lines.
    """
    fig, axes = _triangle(labels, limits, ticks, title)
    low, high = _common_scale(pairs.values())
    image = None
    for (i, j), matrix in pairs.items():
        image = _heat_map(axes[i, j], matrix, (*limits[j], *limits[i]), low, high)
        axes[i, j].spines[:].set_visible(False)
    bottom, top = _common_scale([values for _, values in lines])
    margin = 0.08 * (top - bottom) or 0.5
    for i, (levels, values) in enumerate(lines):
        axes[i, i].plot(levels, values, color=COLOURS[1], linewidth=1.4)
        axes[i, i].set_ylim(bottom - margin, top + margin)
        axes[i, i].yaxis.tick_right()
        axes[i, i].set(yticks=(bottom, top), yticklabels=(f"{bottom:.2g}", f"{top:.2g}"))
        axes[i, i].spines["left"].set_visible(False)
        axes[i, i].spines["right"].set_visible(True)
    if image is not None:
        place = fig.add_axes((0.6, 0.88, 0.34, 0.012))
        bar = fig.colorbar(image, cax=place, label=scale_label, orientation="horizontal")
        bar.outline.set_visible(False)
    return fig


def thin_out(points, most):
    """At most `most` of the points, picked at random but always the same ones."""
    return np.asarray(points)[np.random.default_rng(0).permutation(len(points))[:most]]


@styled
def scatter_matrix(points, labels, limits, ticks, title="", most=1500):
    """Lower triangle of scatters with a histogram of every variable on the diagonal.

    points [m, d]; at most `most` of them are drawn, all are counted.
    """
    fig, axes = _triangle(labels, limits, ticks, title)
    drawn = thin_out(points, most)
    for (i, j), ax in axes.items():
        if i == j:
            ax.hist(points[:, i], bins=20, range=limits[i], color=COLOURS[0])
            ax.spines["left"].set_visible(False)
        else:
            ax.plot(drawn[:, j], drawn[:, i], ".", color=COLOURS[0], markersize=1.2, alpha=0.5)
    return fig


@styled
def scatter_panels(panels, xlabel="", ylabel="", title="", columns=5, most=1500):
    """One scatter per panel, with a headline and a few words below it.

    panels {headline: (points [m, 2], words)}, drawn on the unit square.
    """
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)
    fig = new_figure(2.1 * columns + 0.3, 2.65 * rows + 0.5, layout="constrained")
    fig.get_layout_engine().set(h_pad=0.07)
    words = {name: wrap(text, 2.0, 7.5) for name, (_, text) in panels.items()}
    above = max(text.count("\n") + 1 if text else 0 for text in words.values())
    axes = fig.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for index, (ax, (name, (points, _))) in enumerate(zip(axes.flat, panels.items())):
        points = thin_out(points, most)
        ax.plot(points[:, 0], points[:, 1], ".", color=COLOURS[0], markersize=2, alpha=0.45)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), box_aspect=1)
        ax.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        ax.set_title(name, pad=7 + 9.5 * above)
        place = ((0, 1), (0, 5 + 9.5 * above), "axes fraction", "offset points")
        ax.annotate(words[name], *place, va="top", fontsize=7.5, color=GREY)
        if index + columns >= len(panels):
            ax.set_xlabel(xlabel)
            ax.tick_params(labelbottom=True)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    fig.suptitle(wrap(title, 2.1 * columns, 10.5), x=0.01, ha="left")
    return fig


@styled
def learning_curves(panels, title="", xlabel="step", colours=None):
    """Curves over training, thin for every replica and thick for their median.

    panels {title: {"curves": {label: (x [r], y [r] or [r, replicas])}, "log": bool, "floor": the
    lowest value shown, or None}}.
    """
    colours = dict(colours or {})
    fig = new_figure(3.3 * len(panels), 2.9 + 0.3 * bool(title), layout="constrained")
    axes = fig.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, panel) in zip(axes, panels.items()):
        for label, (x, y) in panel["curves"].items():
            colour = colours.setdefault(label, COLOURS[len(colours) % len(COLOURS)])
            y = np.asarray(y, float).reshape(len(x), -1)
            y = np.where(np.isfinite(y) & ((y > 0) | (not panel["log"])), y, np.nan)
            marker = {"marker": "o", "markersize": 3} if len(x) < 12 else {}
            ax.plot(x, y, color=colour, linewidth=0.7, alpha=0.4)
            median = np.ma.median(np.ma.masked_invalid(y), axis=1).filled(np.nan)
            ax.plot(x, median, color=colour, linewidth=1.8, label=label, **marker)
        ax.set(title=name, xlabel=xlabel, yscale="log" if panel["log"] else "linear")
        ax.grid(axis="y", color="#e3e6ea", linewidth=0.7)
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))
        low, high = ax.get_ylim()
        if panel["floor"] is not None and low < panel["floor"] < high:
            ax.set_ylim(bottom=panel["floor"])
    axes[0].legend()
    fig.suptitle(wrap(title, 3.3 * len(panels), 10.5), x=0.01, ha="left")
    return fig
