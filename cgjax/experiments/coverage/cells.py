"""Cells of a part: training sets and widths that are compared. A network of each seed has each."""

import functools
import re
from typing import NamedTuple

import numpy as np

from cgjax.experiments.coverage import graphs, tasks


class Cell(NamedTuple):
    """One training set and one width."""

    n: int  # values of each factor, or modules
    factors: int
    width: int
    graph: str  # of graphs.GRAPHS
    bridges: int  # combinations that join the blocks of the graph "blocks"
    size: int  # combinations in the training set

    @property
    def name(self) -> str:
        """The name of its metric."""
        values = ", ".join(f"{key} {value}" for key, value in self._asdict().items())
        return f"{values}: held-out R2"

    @classmethod
    def read(cls, name: str):
        """The cell of a metric's name; None for other metrics."""
        pattern = ", ".join(rf"{key} (\w+)" for key in cls._fields)
        match = re.fullmatch(f"{pattern}: held-out R2", name)
        return match and cls(*(int(word) if word.isdecimal() else word for word in match.groups()))


def of(config) -> list[Cell]:
    """Cells of the growth with values, factors and width, of the graphs, and of bridges."""
    data, widths = config.data, config.model.widths
    base, wide, fewest = data.base, max(widths), min(data.n_values)

    def along_sizes(n, factors, width, graph="connected"):
        tried = sizes(data.task, n, factors, graph, data.n_sizes)
        return [Cell(n, factors, width, graph, 0, size) for size in tried]

    cells = [cell for n in data.n_values for cell in along_sizes(n, 2, wide)]
    cells += [cell for factors in data.factors for cell in along_sizes(fewest, factors, wide)]
    cells += [cell for width in widths for cell in along_sizes(base, 2, width)]
    cells += [cell for graph in graphs.GRAPHS[1:] for cell in along_sizes(base, 2, wide, graph)]
    # Sets of one size, of which more and more combinations join the blocks.
    inside = along_sizes(base, 2, wide, "blocks")[-1]
    available = len(draw(data.task, inside._replace(bridges=base**2), 0).order) - inside.size
    most = min(available, inside.size - 1)
    cells += [inside._replace(bridges=b) for b in data.bridges if b <= most]
    cells += [inside._replace(width=width) for width in widths]
    return list(dict.fromkeys(cells))


@functools.cache  # drawing a set of thousands of combinations takes a second
def sizes(task: str, n: int, factors: int, graph: str, n_sizes: int) -> tuple[int, ...]:
    """Sizes of training sets, at equal ratios, from half of a tree to all that is not held out."""
    members = tasks.members(task, (n, factors))
    drawn = draw(task, Cell(n, factors, 0, graph, 0, 0), 0)
    tried = np.geomspace(members.shape[1] / 2, len(drawn.order), n_sizes)
    return tuple(np.unique(np.round(tried).astype(int)).tolist())


def draw(task: str, cell: Cell, *seed: int) -> graphs.Draw:
    """The growing training set of a cell, which depends on its values, factors and graph.

    Sets that differ in their bridges have the same other combinations and the same held-out ones.
    """
    case = (cell.n, cell.factors)
    rng = np.random.default_rng((*seed, *case, graphs.GRAPHS.index(cell.graph)))
    side = graphs.sides(cell.n, None if task == "teacher" else cell.factors)
    return graphs.draw(rng, tasks.members(task, case), side, cell.graph, cell.bridges)
