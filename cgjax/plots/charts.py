"""Heat maps, scatters, learning curves, grids of images."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import EngFormatter, MaxNLocator

from cgjax.plots.style import (
    COLOURS,
    DPI,
    FAINT,
    GREY,
    GRID,
    HEADLINE,
    SMALL,
    headline,
    label_ends,
    last_point,
    legend_below,
    new_figure,
    r2_axis,
    styled,
    wrap,
)

# What lies behind a heat map.
MISSING = {"facecolor": "#e9ebee", "edgecolor": "#aab1b9", "hatch": "/////"}


def common_scale(matrices) -> tuple[float, float]:
    """Smallest and largest finite value of several arrays; (0, 1) if there is none."""
    values = np.concatenate([np.ravel(matrix) for matrix in matrices] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)


def heat_map(ax, matrix, extent, low, high) -> AxesImage:
    """One heat map, first row at the bottom; what lies behind shows where a value is not finite."""
    shown = np.ma.masked_invalid(np.asarray(matrix, float))
    options = {"origin": "lower", "aspect": "auto", "cmap": "viridis"}
    return ax.imshow(shown, extent=extent, vmin=low, vmax=high, **options)


@styled
def heat_maps(panels, extent, xlabel="", ylabel="", title="", scale_label="", ticks=None) -> Figure:
    """Heat maps side by side with a common colour scale.

    panels {title: matrix [ny, nx]}, row 0 at the bottom; extent (left, right, bottom, top).
    """
    n = len(panels)
    fig = new_figure(2.75 * n + 1.3, 3.2 + 0.35 * bool(title), layout="constrained")
    axes = fig.subplots(1, n, squeeze=False, sharey=True)[0]
    low, high = common_scale(panels.values())
    for ax, (name, matrix) in zip(axes, panels.items()):
        ax.patch.set(**MISSING)
        image = heat_map(ax, matrix, extent, low, high)
        ax.set(title=name, xlabel=xlabel, box_aspect=1)
        ax.spines[:].set_visible(False)
        if ticks is not None:
            ax.set(xticks=ticks, yticks=ticks)
    axes[0].set_ylabel(ylabel)
    bar = fig.colorbar(image, ax=list(axes), label=scale_label, fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    headline(fig, title)
    return fig


def thin_out(points, most) -> np.ndarray:
    """At most `most` of the points, drawn at random with a fixed seed."""
    return np.asarray(points)[np.random.default_rng(0).permutation(len(points))[:most]]


@styled
def scatter_panels(panels, xlabel="", ylabel="", title="", columns=5, most=1500) -> Figure:
    """One scatter per panel, with a headline and a short text below it.

    panels {headline: (points [m, 2], text)}, drawn on the unit square.
    """
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)
    width = max(2.1 * columns + 0.3, 4.2)  # a single panel needs room for its headline
    fig = new_figure(width, 2.65 * rows + 0.5, layout="constrained")
    fig.get_layout_engine().set(h_pad=0.07)
    texts = {name: wrap(text, 2.0, 7.5) for name, (_, text) in panels.items()}
    above = max(text.count("\n") + 1 if text else 0 for text in texts.values())
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
        ax.annotate(texts[name], *place, va="top", fontsize=7.5, color=GREY)
        if index + columns >= len(panels):
            ax.set_xlabel(xlabel)
            ax.tick_params(labelbottom=True)
    for ax in axes[:, 0]:
        ax.set_ylabel(ylabel)
    headline(fig, title)
    return fig


@styled
def learning_curves(
    panels, title="", xlabel="step", colours=None, log2_x=False, one_y=False, legend=False
) -> Figure:
    """Curves: thin for every replica, thick for their median; named at their right ends.

    panels {title: {"curves": {label: (x [r], y [r] or [r, replicas])}, "scale": "linear", "log" or
    "r2"}}. one_y: all panels have the same vertical axis. A curve's name is in the last panel that
    has it. If there is an axis of replicas, the headline gives the number of seeds. legend: names
    are below the figure, for more curves than fit at the right.
    """
    colours = dict(colours or {})
    names = dict.fromkeys(label for panel in panels.values() for label in panel["curves"])
    more = 0.1 * len(names) if legend else 0.0  # in two columns
    fig = new_figure(3.3 * len(panels) + 1.0, 2.9 + 0.3 * bool(title) + more, layout="constrained")
    headline(fig, title + _seeds(panels) if title else "")
    axes = fig.subplots(1, len(panels), squeeze=False, sharey=one_y)[0]
    ends = {}  # label: (axes, x, y, label, colour)
    for ax, (name, panel) in zip(axes, panels.items()):
        for label, (x, y) in panel["curves"].items():
            colour = colours.setdefault(label, COLOURS[len(colours) % len(COLOURS)])
            y = np.asarray(y, float).reshape(len(x), -1)
            y = np.where(np.isfinite(y) & ((y > 0) | (panel["scale"] != "log")), y, np.nan)
            marker = {"marker": "o", "markersize": 3} if len(x) < 12 else {}
            ax.plot(x, y, color=colour, linewidth=0.7, alpha=0.4)
            median = np.ma.median(np.ma.masked_invalid(y), axis=1).filled(np.nan)
            ax.plot(x, median, color=colour, linewidth=1.8, label=label, **marker)
            ends[label] = (ax, *last_point(x, median), label, colour)
        ax.set(title=name, xlabel=xlabel)
        ax.grid(axis="y", **GRID)
        _scale_x(ax, [x for x, _ in panel["curves"].values()], log2_x)
        if panel["scale"] == "r2":
            same_axis = panels.values() if one_y else (panel,)
            r2_axis(ax, [y for other in same_axis for _, y in other["curves"].values()])
        else:
            ax.set_yscale(panel["scale"])
    if legend:
        legend_below(fig, axes[0])
        return fig
    for ax in axes:
        label_ends(ax, [end for at, *end in ends.values() if at is ax])
    return fig


def _seeds(panels) -> str:
    """Text about the seeds for the headline; "" if curves have no replicas.

    A seed without a finite number in any curve is not drawn, and the median is not of it.
    """
    curves = [
        np.isfinite(np.asarray(y, float)).any(axis=0)
        for panel in panels.values()
        for _, y in panel["curves"].values()
        if np.ndim(y) == 2
    ]
    n = max(map(len, curves), default=0)
    drawn = sum(any(c[i] for c in curves if i < len(c)) for i in range(n))
    seeds = f"{n} seeds" if drawn == n else f"{drawn} of {n} seeds"
    return {0: "", 1: " (one seed)"}.get(n, f" ({seeds} thin, their median thick)")


def _scale_x(ax, values, log2):
    """Integers get integer ticks; large numbers get the suffixes k and M."""
    if not values:  # a panel without curves
        return
    values = np.unique(np.concatenate([np.ravel(np.asarray(x, float)) for x in values]))
    if log2:
        ax.set_xscale("log", base=2)
        shown = values[:: -(-len(values) // 5)]  # there is room for five
        ax.set_xticks(shown, [f"{value:,g}" for value in shown])
        return
    whole = bool((values == np.round(values)).all())
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=whole, min_n_ticks=1))
    if values.max() >= 1000:
        ax.xaxis.set_major_formatter(EngFormatter(sep=""))


# --- grids of images ------------------------------------------------------------------------------
# Every image pixel covers whole screen pixels.


def displayable(images) -> np.ndarray:
    """Images as RGB in [0, 1], ready to show.

    images [..., h, w, c]: integers 0-255 or floats, c = 1, 3 or 4. Values are clipped. RGBA images
    have a checkerboard as background. An image with a non-finite value becomes a grey cell with a
    red cross. Returns float [..., h, w, 3].
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


def tile(images, gap=1, scale=1, background=1.0) -> np.ndarray:
    """Images in rows and columns, joined to one image.

    images [rows, columns, h, w, c], each pixel enlarged to `scale` x `scale`, `gap` pixels between.
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

    `label` is drawn vertically at the left, `columns` are texts above the images, `notes`
    {row: text} are at the right.
    """

    rows: dict
    label: str = ""
    columns: tuple = ()
    notes: dict = {}


@styled
def image_grid(blocks, title="", width=1000, largest=96) -> Figure:
    """Blocks of rows of images; every image pixel covers whole screen pixels.

    Images are enlarged by an integer factor: up to `largest` pixels per side, and up to `width`
    pixels per row.
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
    title = wrap(title, (full - 24) / DPI, **HEADLINE)

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
    """Draw one block at height `start`; images start at `left`, notes follow `right`."""
    y, cell = start, 0
    for row, images in shown.items():
        strip = tile(images[None], gap=2, scale=scale)
        height, width, _ = strip.shape
        ax.imshow(strip, extent=(left, left + width, y + height, y), aspect="auto")
        ax.text(left - 10, y + height / 2, row, ha="right", va="center")
        note = block.notes.get(row, "")
        ax.text(right + 8, y + height / 2, note, va="center", color=GREY, **SMALL)
        y, cell = y + height + 2, images.shape[2] * scale
    # Texts wider than the images below them get a smaller font.
    widest = max((_text_size(text)[0] for text in block.columns), default=1)
    size = 9 * min(1.0, (cell - 6) / widest)
    for index, text in enumerate(block.columns):
        middle = left + index * (cell + 2) + cell / 2
        ax.text(middle, start - 6, text, ha="center", va="bottom", fontsize=size)
    if block.label:
        middle = (start + y) / 2
        ax.text(22, middle, block.label, rotation=90, ha="center", va="center", fontweight="bold")
        ax.plot((40, 40), (start, y - 2), color=FAINT, linewidth=1)
