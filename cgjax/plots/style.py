"""One look for all figures: colours, sizes, a figure of its own, a file in one step."""

import functools
import os
import pathlib
import textwrap

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

DPI = 160
INK, GREY, FAINT = "#22262b", "#59616a", "#8a929b"
# Okabe and Ito's palette: told apart by colour-blind readers, and in grey.
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
    """n colours from light to dark, for lines along one quantity; a single one is dark."""
    low, high = (np.array(to_rgb(end)) for end in (low, high))
    return [to_hex(high + share * (low - high)) for share in np.linspace(0, 1, n)[::-1]]


def wrap(text, width, size=9.5):
    """Break `text` into lines that fit `width` inches at `size` points."""
    characters = max(12, int(width * 72 / (0.56 * size)))
    return "\n".join(textwrap.fill(line, characters) for line in text.splitlines())
