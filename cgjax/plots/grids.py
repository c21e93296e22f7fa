"""Grids of images: every image pixel covers whole screen pixels."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from cgjax.plots.style import DPI, FAINT, GREY, HEADLINE, SMALL, new_figure, styled, wrap


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
