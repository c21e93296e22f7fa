"""Figures from arrays: image grids, heat maps, pair matrices, scatters, learning curves.

Every function takes arrays and text and returns a `matplotlib.figure.Figure`. `save` writes it. The
figure is not in a window or in pyplot's global list, so it is freed with its last reference.
"""

from cgjax.plots.charts import (
    Block,
    displayable,
    heat_maps,
    image_grid,
    learning_curves,
    scatter_panels,
    tile,
)
from cgjax.plots.lenses import lenses
from cgjax.plots.matrices import pair_matrix, scatter_matrix
from cgjax.plots.style import (
    COLOURS,
    DPI,
    FAINT,
    GREY,
    GRID,
    HEADLINE,
    INK,
    PAGE,
    headline,
    label_ends,
    label_points,
    last_point,
    legend_below,
    new_figure,
    r2_axis,
    save,
    save_frames,
    seeds,
    shades,
    spread,
    styled,
    wrap,
)

__all__ = [
    "Block",
    "COLOURS",
    "DPI",
    "FAINT",
    "GREY",
    "GRID",
    "HEADLINE",
    "INK",
    "PAGE",
    "displayable",
    "headline",
    "heat_maps",
    "image_grid",
    "label_ends",
    "label_points",
    "last_point",
    "learning_curves",
    "legend_below",
    "lenses",
    "new_figure",
    "pair_matrix",
    "r2_axis",
    "save",
    "save_frames",
    "seeds",
    "scatter_matrix",
    "scatter_panels",
    "shades",
    "spread",
    "styled",
    "tile",
    "wrap",
]
