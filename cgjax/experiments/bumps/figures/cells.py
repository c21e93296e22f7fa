"""Names and colours of a row's cells, the same in all figures of the row."""

import re
from typing import NamedTuple

import numpy as np

from cgjax import plots

MOST = 16  # most cells with a separate line or row of images


class Cell(NamedTuple):
    """One cell of one part."""

    prefix: str  # of the names of its arrays
    place: int  # index along the cell axis of these arrays
    part: str
    label: str
    colour: str

    def of(self, arrays, name: str) -> np.ndarray:
        """The cell's entry of an array [cells, ...]."""
        return arrays[self.prefix + name][self.place]

    def key(self, analysis: str, name: str) -> str:
        """The name of an array of one analysis."""
        return f"{self.prefix}{analysis}/{self.place}/{name}"

    def history(self, arrays, score: str) -> tuple[np.ndarray, np.ndarray]:
        """Steps [m] and a score [m, seeds]."""
        steps = arrays[f"{self.prefix}history/step"]
        return steps, arrays[f"{self.prefix}history/{score}"][:, :, self.place]

    def last(self, arrays, score: str) -> np.ndarray:
        """A score after training [seeds]."""
        return self.history(arrays, score)[1][-1]

    def mean(self, arrays, score: str) -> float:
        """Mean over seeds of a score after training."""
        return float(self.last(arrays, score).mean())

    def missed(self, arrays) -> bool:
        """Whether some seed never reached the ID criterion; False without a criterion."""
        stop = float(arrays.get(f"{self.prefix}criterion", 0.0))
        return bool(stop and (self.last(arrays, "id_nmse") >= stop).any())


def words(name: str) -> str:
    """Readable names: "donut_6_22, stripes x0" is "donut 6–22, no stripes"."""
    name = re.sub(r"(?<=[a-z]_)(\d+)_(\d+)", r"\1–\2", name)
    name = name.replace("stripes x0", "no stripes").replace("stripes x1", "stripes")
    return re.sub(r"stripes x(\d)", r"stripes ×\1", name).replace("_", " ")


def natural(name: str) -> list:
    """Sort key that puts "cnn_10" after "cnn_2"."""
    return [int(piece) if piece.isdigit() else piece for piece in re.split(r"(\d+)", str(name))]


# Order of parts by the beginning of their names: decoders as in the table, widths by size.
ORDER = ("mlp", "cnn", "pixel", "transformer", "embed", "product", "narrow", "middle", "wide")


def parts(arrays) -> list[str]:
    """The row's parts, sorted by decoder and by the numbers in their names."""

    def place(part):
        known = [i for i, name in enumerate(ORDER) if part.startswith(name)]
        return (*known, len(ORDER))[0], natural(part)

    return sorted((str(part) for part in arrays["parts"]), key=place)


def cells(arrays) -> list[Cell]:
    """Every cell of the row."""
    cell_list = []
    for part in parts(arrays):
        prefix = f"{part}/" if part else ""
        for place, name in enumerate(arrays[f"{prefix}cells"]):
            label = ", ".join(words(word) for word in (part, str(name)) if word)
            label = label or words(str(arrays.get(f"{prefix}model", "the network")))
            cell_list.append(Cell(prefix, place, part, label, ""))
    return [
        cell._replace(colour=colour) for cell, colour in zip(cell_list, _colours(arrays, cell_list))
    ]


def _colours(arrays, cell_list: list[Cell]) -> list[str]:
    """One colour per cell; with too many cells, one hue per kind of part, in shades.

    If figures show only some cells, shades are assigned within each region, so that the cells shown
    are distinguishable.
    """
    if len(cell_list) <= len(plots.COLOURS):
        return list(plots.COLOURS[: len(cell_list)])
    kinds = [cell.part.split("_")[0] for cell in cell_list]
    hues = dict(zip(dict.fromkeys(kinds), plots.COLOURS))
    if len(set(kinds)) == 1 or len(hues) < len(set(kinds)):
        return plots.shades(len(cell_list))
    groups = {}
    for i, (kind, cell) in enumerate(zip(kinds, cell_list)):
        regions = arrays.get(f"{cell.prefix}cell/region")
        region = str(regions[cell.place]) if regions is not None and len(cell_list) > MOST else ""
        groups.setdefault((kind, region), []).append(i)
    colours = [""] * len(cell_list)
    for (kind, _), places in groups.items():
        light, dark = (
            plots.shades(3, "#ffffff", hues[kind])[1],
            plots.shades(4, hues[kind], "#000")[1],
        )
        for i, colour in zip(places, plots.shades(len(places), light, dark)):
            colours[i] = colour
    return colours


def selected(arrays, most: int = MOST) -> list[Cell]:
    """All cells if there are at most `most`, otherwise a selection.

    The selection is the cells of the first and last region, or of the first region, or the best and
    worst (or only the best) cell of each part: the first of these that fits.
    """
    every = cells(arrays)
    if len(every) <= most:
        return every
    for ends in ((0, -1), (0,)):
        some = [cell for cell in every if _in_region(arrays, cell, ends)]
        if len(some) <= most:
            return some
    chosen = []
    for part in parts(arrays):
        of_part = [cell for cell in every if cell.part == part]
        of_part.sort(key=lambda cell: cell.mean(arrays, "ood_nmse"))
        picked = (of_part[0], of_part[-1]) if 2 * len(parts(arrays)) <= most else of_part[:1]
        chosen += [cell for cell in every if cell in picked]
    return chosen


def _in_region(arrays, cell: Cell, places: tuple) -> bool:
    """Whether a cell's region is among those at `places` in the part's list of regions."""
    regions = arrays.get(f"{cell.prefix}cell/region")
    return regions is None or regions[cell.place] in [regions[place] for place in places]


def of_how_many(arrays, shown: list[Cell]) -> str:
    """Text for a title if a figure does not show all cells; otherwise empty."""
    n = len(cells(arrays))
    return f"; {len(shown)} of {n} cells" if len(shown) < n else ""


def seeds(arrays, cell: Cell, several: str = "") -> str:
    """ "one seed", or with `several` as prefix: "mean of 5 seeds"."""
    n = len(cell.last(arrays, "id_nmse"))
    return "one seed" if n == 1 else f"{several} {n} seeds".strip()


def number(value: float) -> str:
    """Two digits, without zeros in the exponent: 0.93, 3e-11; a dash if not finite."""
    if not np.isfinite(value):
        return "–"
    text = f"{value:.2g}" if not 9.95 <= abs(value) < 1e4 else f"{value:,.0f}"
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", text).replace("e+", "e").replace("-", "−")
