"""Figures of each row of the resistance family, from saved arrays."""

import pathlib

from cgjax.experiments.resistance.figures import boundaries, curves, solutions

PLANE = (
    boundaries.draw_points,
    boundaries.draw_panels,
    boundaries.draw_seeds,
    boundaries.draw_film,
)
# Row or study -> figures; the entry of a row replaces that of its study.
FIGURES = {
    "both": (*PLANE, curves.draw_accuracy, curves.draw_dependence, curves.draw_information),
    "mnist": (curves.draw_accuracy, curves.draw_dependence, curves.draw_information),
    "scan": (curves.draw_accuracy, curves.draw_matrix),
    "plane": (*PLANE, curves.draw_accuracy, curves.draw_dependence, curves.draw_information),
    "heads": (curves.draw_accuracy, curves.draw_matrix, curves.draw_heads),
    "one_step": (curves.draw_accuracy, curves.draw_one_step),
    "remedies": (curves.draw_accuracy, solutions.draw_settings),
    "dose": (curves.draw_accuracy, solutions.draw_dose),
    "overlaid": (curves.draw_accuracy, solutions.draw_settings),
    "widths": (curves.draw_accuracy, solutions.draw_dose),
    "crossing": (solutions.draw_solutions,),
    "gradients": (curves.draw_accuracy, solutions.draw_apart),
    "landscape": (boundaries.draw_panels, solutions.draw_paths),
    "first_step": (solutions.draw_turns,),
    "tangent": (solutions.draw_tangent,),
}


def draw(row: str, study: str, arrays, folder) -> None:
    """All figures of a row, one after another."""
    arrays = dict(arrays)  # an .npz archive reads the file at every access
    for draw_figure in FIGURES.get(row, FIGURES[study]):
        draw_figure(arrays, pathlib.Path(folder))
