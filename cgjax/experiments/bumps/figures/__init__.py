"""Figures of the bumps family, from saved arrays: what each row draws."""

import pathlib

from cgjax.experiments.bumps.figures import curves, grids, pictures
from cgjax.experiments.bumps.figures.cells import cells, parts, words


def _all(*draws):
    """One function that draws several figures."""

    def draw(arrays, folder) -> None:
        arrays = dict(arrays)  # an archive reads an array anew each time it is asked for
        for one in draws:
            one(arrays, pathlib.Path(folder))

    return draw


# What every row shows whose centres are on the grid.
USUAL = (pictures.draw_examples, pictures.draw_errors, curves.draw_training)
KERNELS = (pictures.draw_kernels, pictures.draw_similarity, pictures.draw_kernel_examples)


def _ranks(arrays, folder):
    curves.draw_layers(arrays, folder, curves.RANKS)


def _by_share(arrays, folder):
    """One place in the hole as it is painted after training on more and more bumps."""
    rows, shares = {}, ()
    for cell in cells(arrays):
        share, copies = cell.of(arrays, "cell/share"), cell.of(arrays, "cell/copies")
        region = str(cell.of(arrays, "cell/region"))
        if cell.part not in (parts(arrays)[0], parts(arrays)[-1]) and len(parts(arrays)) > 3:
            continue
        label = f"{words(cell.part)}, {words(region)}\n{'with stripes' if copies else 'no stripes'}"
        rows.setdefault(label, []).append(cell)
        shares = tuple(dict.fromkeys((*shares, f"{share:g}")))
    title = "One held-out place, by share of the trained bumps that are kept (first seed)"
    pictures.draw_matrix(arrays, folder, rows, shares, title)


def _by_copies(arrays, folder):
    """One place in the hole for every side of the hole and number of stripes."""
    rows = {}
    for cell in cells(arrays):
        rows.setdefault(words(str(cell.of(arrays, "cell/region"))), []).append(cell)
    copies = tuple(f"stripes ×{n}" if n else "no stripes" for n in arrays["phase/copies"])
    title = "One held-out place, by hole and copies of stripes (first seed)"
    pictures.draw_matrix(arrays, folder, rows, copies, title)


def _by_hole(arrays, folder):
    """One place in each hole, by code and side of the image."""
    rows = {}
    for cell in cells(arrays):
        rows.setdefault(words(cell.part), []).append(cell)
    holes = [cell.of(arrays, "cell/hole") for cell in next(iter(rows.values()))]
    title = "One held-out place, by code, side of the image and hole (first seed)"
    pictures.draw_matrix(arrays, folder, rows, tuple(f"hole {hole:g}" for hole in holes), title)


# Row or study -> what draws its figures; a row's own come before its study's.
DRAW = {
    "decoders": _all(*USUAL),
    "demo": _all(*USUAL, pictures.draw_fields, pictures.draw_sweep),
    "B2": _all(*USUAL, curves.draw_depth),
    "B3": _all(*USUAL, curves.draw_code_width),
    "B4": _all(*USUAL, curves.draw_layers, curves.draw_volume),
    "B5": _all(*USUAL, *KERNELS),
    "B6": _all(*USUAL, pictures.draw_kernels, pictures.draw_superposition),
    "B8": _all(*USUAL, pictures.draw_fields, pictures.draw_sweep),
    "table": _all(*USUAL, pictures.draw_fields, curves.draw_layers, grids.draw_table,
                  grids.draw_words),
    "ablation": _all(*USUAL, pictures.draw_fields, curves.draw_ablation),
    "ranks": _all(*USUAL, _ranks, curves.draw_volume),
    "three": _all(*USUAL, curves.draw_by_width),
    "continuous": _all(_by_hole, curves.draw_training, grids.draw_scaling),
    "needed": _all(_by_share, curves.draw_training, curves.draw_needed, curves.draw_accuracy),
    "phase": _all(_by_copies, pictures.draw_errors, curves.draw_training, grids.draw_phase),
    "percolation": _all(_by_share, curves.draw_training, curves.draw_percolation),
}  # fmt: skip
