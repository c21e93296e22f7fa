"""Numbers of one part: combinations needed, exponents, and scores on graphs that are not connected.

Growth is fitted on logarithms, for values of each factor ("n"), "factors" and "width".
"""

import numpy as np

from cgjax.analysis.data_needed import censored_slope, data_needed, exponent_of_medians

AXES = {"n": "n", "factors": "n_factors", "width": "width"}


def of_part(config, cells: list, r2: np.ndarray, r2_train: np.ndarray) -> tuple[dict, dict]:
    """({name: (values, seeds)}, arrays) of R2 [seeds, cells] on held-out and on trained sets."""
    seeds, base, wide = list(config.train.seeds), config.data.base, max(config.model.widths)
    numbers, arrays = {}, {"base": np.array(base), "threshold": np.array(config.eval.threshold)}
    table = {name: np.array([getattr(cell, name) for cell in cells]) for name in cells[0]._fields}
    least = min(config.data.n_values)

    def where(**values):
        return np.flatnonzero(np.all([table[name] == value for name, value in values.items()], 0))

    connected = {"graph": "connected"}
    sweeps = {
        "n": where(n_factors=2, width=wide, **connected),
        "factors": where(n=least, width=wide, **connected),
        "width": where(n=base, n_factors=2, **connected),
    }
    for axis, rows in sweeps.items():
        values = table[AXES[axis]][rows]
        if len(np.unique(values)) < 2:
            continue
        curves = {v: rows[values == v] for v in np.unique(values).tolist()}
        for threshold in (config.eval.threshold, *config.eval.other_thresholds):
            fit = growth(curves, table["size"], r2, threshold)
            if threshold == config.eval.threshold:
                prefix = f"{axis}: "
                arrays |= {f"{axis}/{name}": value for name, value in fit["arrays"].items()}
                for v, needed in zip(curves, fit["arrays"]["needed"]):
                    numbers[f"{axis} {v}: needed"] = ([needed], [0])
                numbers[f"{axis}: exponent of each seed"] = (fit["of_seeds"], seeds)
            else:
                prefix = f"{axis}, R2 {threshold:g}: "
            numbers |= {prefix + name: ([value], [0]) for name, value in fit["numbers"].items()}
    names = {
        "random": where(graph="random"),
        "permuted": where(graph="permuted"),
        "connected": where(n=base, n_factors=2, width=wide, **connected),
        "blocks": where(graph="blocks", width=wide, n_bridges=0),
    }
    for graph, rows in names.items():
        arrays |= {f"{graph}/size": table["size"][rows], f"{graph}/r2": r2[:, rows]}
        needed = data_needed(
            table["size"][rows], np.median(r2[:, rows], axis=0), config.eval.threshold
        )
        numbers[f"{graph}: needed"] = ([needed], [0])
        numbers[f"{graph}, all known: held-out R2"] = (r2[:, rows[-1]], seeds)
    all_inside = table["size"][names["blocks"][-1]]
    for axis, rows in (
        ("bridges", where(graph="blocks", width=wide, size=all_inside)),
        ("width", where(graph="blocks", n_bridges=0, size=all_inside)),
    ):
        places = table["n_bridges" if axis == "bridges" else "width"][rows]
        rows = rows[np.argsort(places)]
        arrays |= {f"blocks {axis}/{axis}": np.sort(places), f"blocks {axis}/r2": r2[:, rows]}
        for place, row in zip(np.sort(places).tolist(), rows):
            numbers[f"blocks, {axis} {place}: held-out R2"] = (r2[:, row], seeds)
    trained = np.median(r2_train, axis=0)
    numbers["cells"] = ([len(cells)], [0])
    numbers["cells with training R2 below 0.9"] = ([int(np.sum(trained < 0.9))], [0])
    return numbers, arrays | {"r2_train": r2_train, "r2": r2} | {
        f"cells/{name}": column for name, column in table.items()
    }


def growth(curves: dict, size: np.ndarray, r2: np.ndarray, threshold: float) -> dict:
    """Numbers needed by value, and their exponent; curves: {value: rows of its cells}."""
    n = np.array(list(curves), float)
    sizes = [size[rows] for rows in curves.values()]
    fit, needed, ends = exponent_of_medians(
        n, sizes, [r2[:, rows].T for rows in curves.values()], threshold
    )
    limits = np.array([(tried[0], tried[-1]) for tried in sizes], float)
    of_seeds = [
        censored_slope(
            n,
            np.array(
                [data_needed(m, row[rows], threshold) for m, rows in zip(sizes, curves.values())]
            ),
            limits,
        )
        for row in r2
    ]
    numbers = {
        "exponent": fit.slope,
        "exponent, 2.5 %": fit.low,
        "exponent, 97.5 %": fit.high,
        "never reached": fit.n_censored,
        "reached by the smallest set": fit.n_enough,
    }
    arrays = {
        "values": n,
        "needed": needed,
        "ends": ends,
        "limits": limits,
        "exponent": np.array([fit.slope, fit.low, fit.high]),
    }
    return {"numbers": numbers, "arrays": arrays, "of_seeds": of_seeds}
