"""Every published number we compare with, and where it stands; the modules hold literals only.

`PUBLISHED[family][row][metric]` holds `mean` and `sd`, `spread` (a key of SPREADS: what that is the
deviation or the error of) with `n` where it is over n seeds, `values` (the score of every seed in
that mean, in seed order), `where`, `left_out` (scores of runs that were trained but are not in the
mean), and `kind`:

    printed     the paper says it, as a number or as a formula
    read        off one of its figures
    recomputed  by other code with the paper's settings: not the paper's word, and never shown as it

Where the paper has a number and so have others, theirs is the entry `recomputed` in the paper's.
Where one number stands under several rows, `places` has all of them, (row, metric), the row that
shows it best last. `tolerance` (absolute) or `factor` (ours may be so many times more or less) are
there where `published.verdict` shall use these and not its usual tolerance.
`SOURCES[family]` names the paper.

`CLAIMS[family][row]` are orderings that a paper states without numbers: `claim` (short), `sentence`
and `where` in the paper, the metric `left` that is compared with `right` (a metric or a number),
and the `direction`, "above" or "below", that is claimed.
"""

from cgjax.published import (
    bumps,
    images,
    kernels,
    resistance,
    sprites,
    subnetworks,
    support,
    vectors,
)

SOURCES = {
    "sprites": {
        "title": "Compositional Generalization from First Principles",
        "authors": "Wiedemer, Mayilvahanan, Bethge, Brendel",
        "venue": "NeurIPS 2023",
        "arxiv": "2307.05596",
    },
    "vectors": {
        "title": "Compositional Generalization from First Principles: notebooks beside the paper",
        "authors": "Wiedemer, Mayilvahanan, Bethge, Brendel",
        "venue": "NeurIPS 2023",
        "arxiv": "2307.05596",
    },
    "support": {
        "title": "Compositional Generalization from First Principles",
        "authors": "Wiedemer, Mayilvahanan, Bethge, Brendel",
        "venue": "NeurIPS 2023",
        "arxiv": "2307.05596",
    },
    "kernels": {
        "title": "When does compositional structure yield compositional generalization? "
        "A kernel theory",
        "authors": "Lippl, Stachenfeld",
        "venue": "ICLR 2025",
        "arxiv": "2405.16391",
    },
    "bumps": {
        "title": "Compositional Generalization via Forced Rendering of Disentangled Latents",
        "authors": "Liang, Qian, Ziyin, Fiete",
        "venue": "ICML 2025",
        "arxiv": "2501.18797",
    },
    "resistance": {
        "title": "Gradient Descent Resists Compositionality",
        "authors": "anonymous",
        "venue": "under review",
        "arxiv": "",
    },
    "subnetworks": {
        "title": "Break It Down: Evidence for Structural Compositionality in Neural Networks",
        "authors": "Lepori, Serre, Pavlick",
        "venue": "NeurIPS 2023",
        "arxiv": "2301.10884",
    },
}


KINDS = {"printed": "", "read": " (read off)", "recomputed": " (recomputed)"}
SPREADS = {
    "seeds": "deviation over seeds",
    "reading": "error of reading a plot",
    "rounding": "error of rounding",
    "sampling": "error of sampling",
    "epochs": "deviation over the last epochs of one run",
    "none": "none is told",
}
USUAL = {"printed": "rounding", "read": "reading", "recomputed": "sampling"}


def read(module) -> dict:
    """The tables of a module in the form of PUBLISHED, without the values of single seeds.

    A table has a `kind`, and `lines` {word: a cell for each of its `columns`}: a number with the
    table's `error`, (number, its own error), or None where there is none. `metrics` {row: metric}
    says what a cell is, and `where` in the paper it stands, with {line} and {column} for its words.
    `left_out` {line: scores} where there are such. Errors are those of USUAL, or of the table's
    `spread`; `n` seeds, or {line: n} with "" for all others, say that they are deviations over
    seeds. `tolerance` or `factor` as in PUBLISHED, by column where it is a dict.
    """
    found = {}
    for table in module.TABLES:
        for line, cells in table["lines"].items():
            for column, cell in zip(table["columns"], cells, strict=True):
                if cell is None:
                    continue
                words = {"line": line, "column": column}
                mean, error = cell if isinstance(cell, tuple) else (cell, table["error"])
                where = ", ".join(filter(None, (module.PAPER, table["where"].format(**words))))
                where += KINDS[table["kind"]]
                entry = {"mean": mean, "sd": error, "values": (), "where": where}
                entry |= {"kind": table["kind"], **_spread(table, line, error)}
                for name in ("tolerance", "factor"):
                    if stated := _of(table.get(name), column):
                        entry[name] = stated
                if line in table.get("left_out", {}):
                    entry["left_out"] = table["left_out"][line]
                places = [
                    (row.format(**words), metric.format(**words))
                    for row, metric in table["metrics"].items()
                ]
                if len(places) > 1:
                    entry["places"] = tuple(places)
                for row, name in places:
                    metrics = found.setdefault(row, {})
                    if name in metrics and table["kind"] == "recomputed":
                        metrics[name]["recomputed"] = dict(entry)
                    else:
                        metrics[name] = dict(entry)
    return found


def _of(stated, word):
    """A value for all words, or a dict of them by word with "" for all others."""
    return stated.get(word, stated.get("")) if isinstance(stated, dict) else stated


def _spread(table, line, error) -> dict:
    n = _of(table.get("n"), line)
    if n and (error or table["kind"] != "recomputed"):  # of other code, 0 was not told
        return {"spread": "seeds", "n": n}
    return {"spread": table.get("spread", USUAL[table["kind"]]) if error else "none"}


# In the words of a claim.
PARTS = {
    "": "", "mnist/": "digits: ", "plane/": "plane: ", "he/": "he: ", "updates/": "updates: ",
    "playground/": "demo: ",
    "appendix_categorical_hinge/": "appendix: ", "three_conv_categorical_hinge/": "three conv: ",
    "appendix_one_vs_rest_hinge/": "appendix, rest: ",
    "three_conv_one_vs_rest_hinge/": "three conv, rest: ",
}  # fmt: skip


def read_claims(module) -> dict:
    """The claims of a module in the form of CLAIMS, row by row.

    `rows` {row: prefixes}: where the claim is judged, and of which parts of that row. Where a claim
    holds {}, a prefix stands there and not in front.
    """
    found = {}
    for one in module.CLAIMS:
        for row, prefixes in one["rows"].items():
            for prefix in prefixes:
                sides = {side: _placed(prefix, one[side]) for side in ("left", "right")}
                words = {key: one[key] for key in ("sentence", "where", "direction")}
                word = PARTS.get(prefix, prefix)
                claim = {"claim": _placed(word, one["claim"]), **words, **sides}
                found.setdefault(row, []).append(claim)
    return {row: tuple(claims) for row, claims in found.items()}


def _placed(prefix, text):
    if not isinstance(text, str):
        return text
    return text.format(prefix) if "{}" in text else prefix + text


def read_seeds(module) -> dict:
    """The scores of a module, seed by seed, in the form of PUBLISHED."""
    found = {}
    for row, (title, metrics) in module.SEEDS.items():
        found[row] = {}
        for metric, (mean, sd, *values) in metrics.items():
            where = f"{module.PAPER}, {title}: {module.METRICS[metric]}"
            entry = {"mean": mean, "sd": sd, "values": tuple(values), "where": where}
            entry |= {"kind": "printed", "spread": "seeds", "n": len(values)}
            if metric in module.FACTORS:
                entry["factor"] = module.FACTORS[metric]
            if row in module.LEFT_OUT:
                entry["left_out"] = module.LEFT_OUT[row][metric]
            found[row][metric] = entry
    return found


PUBLISHED = {
    "sprites": read_seeds(sprites),
    "vectors": read(vectors),
    "support": read(support),
    "kernels": read(kernels) | read(images),
    "bumps": read(bumps),
    "resistance": read(resistance),
    "subnetworks": read(subnetworks),
}
CLAIMS = {"resistance": read_claims(resistance)}
