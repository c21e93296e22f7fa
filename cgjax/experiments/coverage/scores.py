"""Numbers of one part: combinations needed, exponents, and scores on graphs that are not connected.

*Needed* is the smallest number of combinations at which the median over seeds of held-out R2 passes
the threshold. Everything here is computed from held-out R2 of every cell and seed.
"""

from typing import NamedTuple

import numpy as np

from cgjax.analysis.data_needed import censored_slope, data_needed, exponent_of_medians
from cgjax.experiments.coverage.cells import Cell

AXES = ("n", "factors", "width")  # along which needed combinations may grow
ENDS = (", 2.5 %", ", 97.5 %")


class Part(NamedTuple):
    """Held-out R2 of one architecture on one task."""

    cells: list[Cell]
    r2: np.ndarray  # [seeds, cells]
    seeds: list[int]

    @classmethod
    def read(cls, metrics: dict, name: str):
        """The part `name` of recorded metrics."""
        recorded = {
            cell: metric
            for key, metric in metrics.items()
            if key.startswith(f"{name}/") and (cell := Cell.read(key.removeprefix(f"{name}/")))
        }
        r2 = np.array([metric["values"] for metric in recorded.values()], float).T
        return cls(list(recorded), r2, next(iter(recorded.values()))["seeds"])

    def curve(self, along: str, **fixed):
        """(values of a field in rising order, R2 [seeds, values]) of cells with these fields."""
        rows = [
            i
            for i, cell in enumerate(self.cells)
            if all(getattr(cell, key) == value for key, value in fixed.items())
        ]
        rows.sort(key=lambda i: getattr(self.cells[i], along))
        return np.array([getattr(self.cells[i], along) for i in rows]), self.r2[:, rows]

    @property
    def base(self) -> Cell:
        """The cell of two blocks with all their combinations, at the greatest width."""
        blocks = [cell for cell in self.cells if cell.graph == "blocks"]
        return max(blocks, key=lambda cell: (cell.width, cell.size))._replace(bridges=0)

    def by_graph(self, graph: str):
        """(sizes, R2 [seeds, sizes]) where graphs are compared."""
        n, factors, width, *_ = self.base
        return self.curve("size", n=n, factors=factors, width=width, graph=graph, bridges=0)

    def of_blocks(self, along: str):
        """(values, R2) of sets of one size by "bridges" between blocks, or by "width" without."""
        return self.curve(along, **{k: v for k, v in self.base._asdict().items() if k != along})

    def along(self, axis: str) -> dict:
        """{value: (sizes, R2 [seeds, sizes])} of connected sets that differ along one of AXES."""
        n, width = self.base.n, self.base.width
        fixed = {
            "n": {"factors": 2, "width": width},
            "factors": {"n": min(cell.n for cell in self.cells), "width": width},
            "width": {"n": n, "factors": 2},
        }[axis] | {"graph": "connected"}
        values = {getattr(cell, axis) for cell in self.cells}
        curves = {v: self.curve("size", **fixed, **{axis: v}) for v in sorted(values)}
        return {v: curve for v, curve in curves.items() if len(curve[0])}


def numbers(part: Part, threshold: float, other_thresholds=()) -> dict:
    """{name: (values, seeds)} of one part."""
    results = {}
    for axis in AXES:
        curves = part.along(axis)
        if len(curves) > 1:
            results |= growth(part, curves, axis, threshold, with_needed=True)
            for level in other_thresholds:
                results |= growth(part, curves, f"{axis}, R2 {level:g}", level)
    for graph in ("connected", "random", "permuted", "blocks"):
        size, r2 = part.by_graph(graph)
        results[f"{graph}: needed"] = ([data_needed(size, np.median(r2, 0), threshold)], [0])
        results[f"{graph}, all known: held-out R2"] = (r2[:, -1], part.seeds)
    bridges, r2 = part.of_blocks("bridges")
    if len(bridges) > 1:
        needed = data_needed(bridges[1:], np.median(r2[:, 1:], 0), threshold)
        results["bridges needed"] = ([needed], [0])
        if bridges[1] == 1:
            results["blocks, one bridge: held-out R2"] = (r2[:, 1], part.seeds)
        results["blocks, most bridges: held-out R2"] = (r2[:, -1], part.seeds)
    _, r2 = part.of_blocks("width")
    results["blocks, least width: held-out R2"] = (r2[:, 0], part.seeds)
    return results


def growth(part: Part, curves: dict, name: str, threshold: float, with_needed=False) -> dict:
    """Exponent of the combinations needed, with its interval; curves: {value: (sizes, R2)}."""
    values = np.array(list(curves), float)
    sizes, r2 = zip(*curves.values())
    fit, needed, ends = exponent_of_medians(values, sizes, [each.T for each in r2], threshold)
    limits = np.array([(tried[0], tried[-1]) for tried in sizes], float)
    of_seeds = [
        censored_slope(
            values, np.array([data_needed(*c, threshold) for c in zip(sizes, rows)]), limits
        )
        for rows in zip(*r2)
    ]
    results = {
        f"{name}: exponent": ([fit.slope], [0]),
        f"{name}: exponent{ENDS[0]}": ([fit.low], [0]),
        f"{name}: exponent{ENDS[1]}": ([fit.high], [0]),
        f"{name}: exponent of each seed": (of_seeds, part.seeds),
        f"{name}: never reached": ([fit.n_censored], [0]),
        f"{name}: reached by the smallest set": ([fit.n_enough], [0]),
    }
    if with_needed:
        for value, number, interval in zip(curves, needed, ends):
            results[f"{name} {value}: needed"] = ([number], [0])
            results |= {
                f"{name} {value}: needed{end}": ([limit], [0]) for end, limit in zip(ENDS, interval)
            }
    return results
