"""Every published number we compare with, and where it stands; literals only.

`PUBLISHED[family][row][metric]` holds `mean` and `sd` as printed (sample standard deviation over
the seeds), `values` (the score of every seed in that mean, in seed order), `where`, and `left_out`
(scores of runs that were trained but are not in the mean). `SOURCES[family]` names the paper.
"""

from cgjax.published import images, kernels, sprites, support, vectors

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
}


def _read_off(rows: dict) -> dict:
    """`{row: {where: {metric: (number, its error)}}}` in the form of PUBLISHED."""
    return {
        row: {
            metric: {"mean": mean, "sd": error, "values": (), "where": where}
            for where, metrics in places.items()
            for metric, (mean, error) in metrics.items()
        }
        for row, places in rows.items()
    }


PUBLISHED = {
    "sprites": sprites.NUMBERS,
    "vectors": _read_off(vectors.READ_OFF),
    "support": _read_off(support.READ_OFF),
    "kernels": _read_off(kernels.READ_OFF | images.READ_OFF),
}
