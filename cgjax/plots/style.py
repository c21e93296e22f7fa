"""Common style of all figures: colours and sizes, new figures, atomic writing of files."""

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
from PIL import Image

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
    fig.savefig(content, format="png")
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
