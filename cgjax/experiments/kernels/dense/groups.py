"""Saved dense networks along one axis: the initial scale, from rich to lazy, or the depth."""

from typing import NamedTuple

import numpy as np

from cgjax import plots

RICH, LAZY = plots.COLOURS[1], plots.COLOURS[0]


class Group(NamedTuple):
    """Networks of one kind of task along one axis; a cell is (prefix of a part, scale index)."""

    name: str
    axis: str
    ticks: tuple[str, ...]
    cells: tuple[tuple[str, int], ...]
    tasks: tuple[str, ...]

    def colour(self, k: int) -> str:
        n = len(self.cells)
        if self.axis == "initial scale":
            return {0: RICH, max(n - 1, 1): LAZY}.get(k, plots.COLOURS[2])
        return plots.shades(n)[k]

    def label(self, k: int) -> str:
        if self.axis != "initial scale":
            return f"{self.ticks[k]} hidden layer{'s' * (self.ticks[k] != '1')}"
        labels = {"1e-06": "rich, σ = $10^{-6}$", "1": "lazy, σ = 1"}
        return labels.get(self.ticks[k], f"σ = {self.ticks[k]}")


def groups(arrays, kind: str) -> list[Group]:
    """One group per part with several scales; parts with one scale form one group, by depth."""
    by_axis, single = [], []
    for part in map(str, arrays["parts"]):
        prefix = f"{part}/" if part else ""
        tasks = tuple(map(str, arrays[f"{prefix}tasks"]))
        if tasks[0].split("_")[0] != kind:
            continue
        scales = arrays[f"{prefix}scales"]
        if len(scales) == 1:
            single.append((prefix, part, tasks))
            continue
        ticks = tuple(f"{scale:g}" for scale in scales)
        cells = tuple((prefix, j) for j in range(len(scales)))
        by_axis.append(Group(part, "initial scale", ticks, cells, tasks))
    if single:
        cells = tuple((prefix, 0) for prefix, *_ in single)
        depths = tuple(str(int(arrays[f"{prefix}depth"])) for prefix, *_ in single)
        name = "" if len(single) > 1 else single[0][1]
        by_axis.append(Group(name, "hidden layers", depths, cells, single[0][2]))
    return by_axis


def read(arrays, cell, key: str, task: int):
    """A saved array of one cell, or None where no network converged."""
    prefix, j = cell
    name = f"{prefix}{key}/{task}/{j}"
    return np.asarray(arrays[name]) if name in arrays else None
