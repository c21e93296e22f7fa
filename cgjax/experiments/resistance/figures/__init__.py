"""Figures of the resistance family, from saved arrays: what each row draws."""

import pathlib

from cgjax.experiments.resistance.figures import boundaries, curves, solutions

PLANE = (boundaries.draw_points, boundaries.draw_panels, boundaries.draw_seeds,
         boundaries.draw_film)  # fmt: skip
# Row or study -> what is drawn; a row's own come before its study's.
FIGURES = {
    "both": (*PLANE, curves.draw_accuracy, curves.draw_dependence, curves.draw_information),
    "mnist": (curves.draw_accuracy, curves.draw_dependence, curves.draw_information),
    "scan": (curves.draw_accuracy, curves.draw_matrix),
    "plane": (*PLANE, curves.draw_accuracy, curves.draw_dependence, curves.draw_information),
    "heads": (curves.draw_accuracy, curves.draw_matrix, curves.draw_heads),
    "one_step": (curves.draw_accuracy, curves.draw_one_step),
    "remedies": (curves.draw_accuracy, solutions.draw_settings),
    "dose": (curves.draw_accuracy, solutions.draw_dose),
    "widths": (curves.draw_accuracy, solutions.draw_dose),
    "crossing": (solutions.draw_solutions,),
    "gradients": (curves.draw_accuracy, solutions.draw_apart),
    "landscape": (boundaries.draw_panels, solutions.draw_paths),
    "first_step": (solutions.draw_turns,),
    "tangent": (solutions.draw_tangent,),
}


def draw(row: str, study: str, arrays, folder) -> None:
    """All figures of a row, one after another."""
    arrays = dict(arrays)  # an archive reads an array anew each time it is asked for
    for one in FIGURES.get(row, FIGURES[study]):
        one(arrays, pathlib.Path(folder))
