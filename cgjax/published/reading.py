"""Reads the tables of the families' modules; they hold literals only.

`PUBLISHED[family][row][metric]` holds `mean` and `sd`, `spread` (a key of SPREADS: what the sd is
the deviation or the error of) with `n` where it is over n seeds, `values` (the score of every seed
in that mean, in seed order), `where`, `left_out` (scores of runs that were trained but are not in
the mean), and `kind`, a key of KINDS.

Where the paper has a number and so have others, theirs is the entry `recomputed` in the paper's.
Where one number stands under several rows, `places` has all of them, (row, metric), the row that
shows it best last. `tolerance` (absolute) or `factor` (ours may be so many times more or less) are
there where `published.verdict` shall use these and not its usual tolerance, `floor` the least
number that counts by its factor, `scale` what 5 % are taken of, `runs` how many runs are behind a
number whose deviation over seeds is not stated. `only` says for which seeds a
number is defined, `computed` that it needs no seeds.
"""

from cgjax.published import (
    bumps,
    coverage,
    kernels,
    resistance,
    sprites,
    subnetworks,
    support,
    vectors,
)

MODULES = {
    "sprites": sprites,
    "vectors": vectors,
    "support": support,
    "kernels": kernels,
    "bumps": bumps,
    "resistance": resistance,
    "subnetworks": subnetworks,
    "coverage": coverage,
}
# How we know a number. The first three are the paper's.
KINDS = {
    "printed": "",
    "read": " (read off)",  # a figure
    "formula": " (formula)",  # or a count: ours is the same formula, in other code
    "recomputed": " (recomputed)",  # by other code with the paper's settings, or of its files
}
SPREADS = {
    "seeds": "deviation over seeds",
    "reading": "error of reading a plot",
    "rounding": "error of rounding",
    "sampling": "error of sampling",
    "epochs": "half the range over the last epochs of one run",
    "none": "not stated",
}
USUAL = {
    "printed": "rounding",
    "read": "reading",
    "formula": "rounding",
    "recomputed": "sampling",
}
STATED = ("runs", "tolerance", "factor", "floor", "scale", "only", "computed")


def read(module) -> dict:
    """The tables of a module in the form of PUBLISHED.

    A table has a `kind`, and `lines` {word: a cell for each of its `columns`}: a number with the
    table's `error`, (number, its error), (number, deviation, the score of each seed ...), or None
    where there is none. `metrics` {row: metric} says what a cell is, and `where` in the paper it
    stands, with {line} and {column} for its words. `left_out` {line: scores for each column} where
    there are such. Errors are those of USUAL, or of the table's `spread`; `n` seeds, or {line: n}
    with "" for all others, say that they are deviations over seeds. STATED as in PUBLISHED, by
    column where it is a dict; the `scale` "r2" is 1 - number.
    """
    rows = {}
    for table in module.TABLES:
        for line, cells in table["lines"].items():
            for column, cell in zip(table["columns"], cells, strict=True):
                if cell is None:
                    continue
                words = {"line": line, "column": column}
                entry = _entry(module.PAPER, table, line, column, cell)
                places = [
                    (row.format(**words), metric.format(**words))
                    for row, metric in table["metrics"].items()
                ]
                if len(places) > 1:
                    entry["places"] = tuple(places)
                for row, name in places:
                    metrics = rows.setdefault(row, {})
                    if name in metrics and table["kind"] == "recomputed":
                        metrics[name]["recomputed"] = dict(entry)
                    else:
                        metrics[name] = dict(entry)
    return rows


def _entry(paper: str, table: dict, line, column, cell) -> dict:
    mean, error, *values = cell if isinstance(cell, tuple) else (cell, table["error"])
    where = ", ".join(filter(None, (paper, table["where"].format(line=line, column=column))))
    entry = {
        "mean": mean,
        "sd": error,
        "values": tuple(values),
        "where": where + KINDS[table["kind"]],
        "kind": table["kind"],
        **_spread(table, error, len(values) or _of(table.get("n"), line)),
    }
    for name in STATED:
        if stated := _of(table.get(name), column):
            entry[name] = 1 - mean if stated == "r2" else stated
    if line in table.get("left_out", {}):
        entry["left_out"] = table["left_out"][line][table["columns"].index(column)]
    return entry


def _of(stated, word):
    """A value for all words, or a dict of them by word with "" for all others."""
    return stated.get(word, stated.get("")) if isinstance(stated, dict) else stated


def _spread(table: dict, error: float, n) -> dict:
    if n and not error and table["kind"] == "recomputed":  # by other code: 0 means unknown
        return {"spread": "none", "runs": n}
    if n:
        return {"spread": "seeds", "n": n}
    return {"spread": table.get("spread", USUAL[table["kind"]]) if error else "none"}


PUBLISHED = {family: read(module) for family, module in MODULES.items()}
