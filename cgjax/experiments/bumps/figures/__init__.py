"""Figures of the bumps family, drawn from saved arrays; FIGURES lists those of each row."""

import pathlib

from cgjax.experiments.bumps.figures import cells, curves, pictures

# Figures of every row whose centres are on the grid.
USUAL = (pictures.draw_examples, pictures.draw_errors, curves.draw_training)
KERNELS = (pictures.draw_kernels, pictures.draw_similarity, pictures.draw_kernel_examples)


def _ranks(arrays, folder):
    curves.draw_layers(arrays, folder, curves.RANKS)


def _by_data(axis, title):
    """One held-out place as painted after training on increasing amounts of data."""

    def draw(arrays, folder):
        rows, amounts, every = {}, (), cells.parts(arrays)
        for cell in cells.cells(arrays):
            if cell.part not in (every[0], every[-1]) and len(every) > 3:
                continue
            stripes = "with stripes" if cell.of(arrays, "cell/copies") else "no stripes"
            rows.setdefault(f"{cells.words(cell.part)}\n{stripes}", []).append(cell)
            amounts = tuple(dict.fromkeys((*amounts, f"{cell.of(arrays, axis):g}")))
        title_of_row = f"One held-out place, by {title} (first seed)"
        pictures.draw_matrix(arrays, folder, rows, amounts, title_of_row)

    return draw


def _by_copies(arrays, folder):
    """One held-out place for every side of the hole and number of stripes."""
    rows = {}
    for cell in cells.cells(arrays):
        rows.setdefault(cells.words(str(cell.of(arrays, "cell/region"))), []).append(cell)
    copies = tuple(f"stripes ×{n}" if n else "no stripes" for n in arrays["phase/copies"])
    title = "One held-out place, by hole and copies of stripes (first seed)"
    pictures.draw_matrix(arrays, folder, rows, copies, title)


def _by_hole(arrays, folder):
    """One held-out place in each hole, by code and side of the image."""
    rows = {}
    for cell in cells.cells(arrays):
        rows.setdefault(cells.words(cell.part), []).append(cell)
    holes = [cell.of(arrays, "cell/hole") for cell in next(iter(rows.values()))]
    title = "One held-out place, by code, side of the image and hole (first seed)"
    pictures.draw_matrix(arrays, folder, rows, tuple(f"hole {hole:g}" for hole in holes), title)


# Row or study -> its figures; an entry for a row replaces that of its study.
FIGURES = {
    "decoders": USUAL,
    "demo": (*USUAL, pictures.draw_fields, pictures.draw_sweep),
    "B2": (*USUAL, curves.draw_depth),
    "B3": (*USUAL, curves.draw_code_width),
    "B4": (*USUAL, curves.draw_layers, curves.draw_volume),
    "B5": (*USUAL, *KERNELS),
    "B6": (*USUAL, pictures.draw_kernels, pictures.draw_superposition),
    "B8": (*USUAL, pictures.draw_fields, pictures.draw_sweep),
    "B11": (*USUAL, curves.draw_depth),
    "B11_transformer": (*USUAL, curves.draw_depth),
    "table": (*USUAL, pictures.draw_fields, cells.draw_table, cells.draw_words),
    "ablation": (*USUAL, pictures.draw_fields, curves.draw_ablation),
    "ranks": (*USUAL, _ranks, curves.draw_volume),
    "three": (*USUAL, curves.draw_by_width),
    "continuous": (_by_hole, curves.draw_training, cells.draw_scaling),
    "needed": (
        _by_data("cell/bumps", "number of bumps"),
        curves.draw_training,
        curves.draw_needed,
        curves.draw_criteria,
    ),
    "flatness": (*USUAL, pictures.draw_fields, curves.draw_ablation),
    "axes": (pictures.draw_fields, curves.draw_axes),
    "entangling": (*USUAL, curves.draw_entangling),
    "phase": (_by_copies, pictures.draw_errors, curves.draw_training, cells.draw_phase),
    "percolation": (
        _by_data("cell/share", "share of the trained bumps that are kept"),
        curves.draw_training,
        curves.draw_percolation,
    ),
    "turning": (pictures.draw_turning,),
    "inverse": (pictures.draw_inverse,),
}


def _draw(draws):
    """A function that draws all figures of a row."""

    def draw(arrays, folder) -> None:
        arrays = dict(arrays)  # an npz archive reads an array from disk at every access
        for draw_figure in draws:
            draw_figure(arrays, pathlib.Path(folder))

    return draw


DRAW = {name: _draw(draws) for name, draws in FIGURES.items()}
