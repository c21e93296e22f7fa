"""Figures from arrays: image grids, heat maps, pair matrices, scatters, learning curves.

Every function takes arrays and text and returns a `matplotlib.figure.Figure`. `save` writes it. The
figure is not in a window or in pyplot's global list, so it is freed with its last reference.
"""

from cgjax.plots.charts import (
    heat_maps,
    learning_curves,
    pair_matrix,
    scatter_matrix,
    scatter_panels,
)
from cgjax.plots.grids import Block, displayable, image_grid, tile
from cgjax.plots.labels import (
    label_ends,
    label_points,
    last_point,
    legend_below,
    r2_axis,
    seeds,
    spread,
)
from cgjax.plots.lenses import lenses
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
    new_figure,
    save,
    save_frames,
    shades,
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
