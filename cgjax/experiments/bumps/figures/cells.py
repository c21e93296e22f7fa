"""The cells of a row as figures name and colour them: the same in all figures of the row."""

import re
from typing import NamedTuple

import numpy as np

from cgjax import plots

MOST = 16  # cells that have a line or a row of images of their own


class Cell(NamedTuple):
    """One cell of one part."""

    prefix: str  # of its arrays
    place: int  # along their axis of cells
    part: str
    label: str
    colour: str

    def of(self, arrays, name: str) -> np.ndarray:
        """The cell's own entry of an array [cells, ...]."""
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
        """Its mean over seeds."""
        return float(self.last(arrays, score).mean())

    def missed(self, arrays) -> bool:
        """Whether some seed never reached the ID criterion, where there is one."""
        stop = float(arrays.get(f"{self.prefix}criterion", 0.0))
        return bool(stop and (self.last(arrays, "id_nmse") >= stop).any())


def words(name: str) -> str:
    """Names of parts and cells as text: "donut_6_22, stripes x0" is "donut 6–22, no stripes"."""
    name = re.sub(r"(?<=[a-z]_)(\d+)_(\d+)", r"\1–\2", name)
    name = name.replace("stripes x0", "no stripes").replace("stripes x1", "stripes")
    return re.sub(r"stripes x(\d)", r"stripes ×\1", name).replace("_", " ")


def natural(name: str) -> list:
    """Sorts "cnn_10" after "cnn_2"."""
    return [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", str(name))]


# Of parts by how their names begin: decoders as in the table, widths by size.
ORDER = ("mlp", "cnn", "pixel", "transformer", "embed", "product", "narrow", "middle", "wide")


def parts(arrays) -> list[str]:
    """The row's parts, by decoder and by the numbers in their names."""

    def place(part):
        known = [i for i, name in enumerate(ORDER) if part.startswith(name)]
        return (*known, len(ORDER))[0], natural(part)

    return sorted((str(part) for part in arrays["parts"]), key=place)


def cells(arrays) -> list[Cell]:
    """Every cell of the row."""
    found = []
    for part in parts(arrays):
        prefix = f"{part}/" if part else ""
        for place, name in enumerate(arrays[f"{prefix}cells"]):
            label = ", ".join(words(word) for word in (part, str(name)) if word)
            label = label or words(str(arrays.get(f"{prefix}model", "the network")))
            found.append(Cell(prefix, place, part, label, ""))
    return [cell._replace(colour=colour) for cell, colour in zip(found, _colours(arrays, found))]


def _colours(arrays, found: list[Cell]) -> list[str]:
    """A colour for each; where there are too many, a hue for each kind of part, in shades.

    Where not all are shown, the shades are those of one region's cells, to be told apart.
    """
    if len(found) <= len(plots.COLOURS):
        return list(plots.COLOURS[: len(found)])
    kinds = [cell.part.split("_")[0] for cell in found]
    hues = dict(zip(dict.fromkeys(kinds), plots.COLOURS))
    if len(set(kinds)) == 1 or len(hues) < len(set(kinds)):
        return plots.shades(len(found))
    groups = {}
    for i, (kind, cell) in enumerate(zip(kinds, found)):
        regions = arrays.get(f"{cell.prefix}cell/region")
        region = str(regions[cell.place]) if regions is not None and len(found) > MOST else ""
        groups.setdefault((kind, region), []).append(i)
    colours = [""] * len(found)
    for (kind, _), places in groups.items():
        light, dark = (
            plots.shades(3, "#ffffff", hues[kind])[1],
            plots.shades(4, hues[kind], "#000")[1],
        )
        for i, colour in zip(places, plots.shades(len(places), light, dark)):
            colours[i] = colour
    return colours


def selected(arrays, most: int = MOST) -> list[Cell]:
    """All cells, or of too many those of the first region, or else each part's best and worst.

    With the first region goes the last, where there is room.
    """
    every = cells(arrays)
    if len(every) <= most:
        return every
    for ends in ((0, -1), (0,)):
        some = [cell for cell in every if _in_region(arrays, cell, ends)]
        if len(some) <= most:
            return some
    found = []
    for part in parts(arrays):
        own = [cell for cell in every if cell.part == part]
        own.sort(key=lambda cell: cell.mean(arrays, "ood_nmse"))
        picked = (own[0], own[-1]) if 2 * len(parts(arrays)) <= most else own[:1]
        found += [cell for cell in every if cell in picked]
    return found


def _in_region(arrays, cell: Cell, places: tuple) -> bool:
    """Whether a cell's region is one of these, by their places among the part's regions."""
    regions = arrays.get(f"{cell.prefix}cell/region")
    return regions is None or regions[cell.place] in [regions[place] for place in places]


def of_how_many(arrays, shown: list[Cell]) -> str:
    """Says so where a figure does not show all cells."""
    n = len(cells(arrays))
    return f"; {len(shown)} of {n} cells" if len(shown) < n else ""


def seeds(arrays, cell: Cell, several: str = "") -> str:
    """ "one seed", or with words before it "mean of 5 seeds"."""
    n = len(cell.last(arrays, "id_nmse"))
    return "one seed" if n == 1 else f"{several} {n} seeds".strip()


def number(value: float) -> str:
    """Two digits, without the zeros of an exponent: 0.93, 3e-11; a dash for none."""
    if not np.isfinite(value):
        return "–"
    text = f"{value:.2g}" if not 9.95 <= abs(value) < 1e4 else f"{value:,.0f}"
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", text).replace("e+", "e").replace("-", "−")
