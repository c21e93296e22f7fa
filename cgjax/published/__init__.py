"""Every published number and claim, one file a family; how ours compare is in `verdict`.

`PUBLISHED[family][row][metric]` are the numbers (layout in `reading`), `claims.CLAIMS` every claim
by id, `claims.BY_ROW[family][row]` those that a run judges for itself, `SOURCES[family]` the
papers. Import claims where they are needed: building all of them takes 0.1 s of CPU time.
"""

from cgjax.published.reading import KINDS as KINDS
from cgjax.published.reading import PUBLISHED as PUBLISHED
from cgjax.published.reading import SPREADS as SPREADS
from cgjax.published.reading import read as read

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
    "coverage": {
        "title": "Scaling of coverage: a question that the papers leave open",
        "authors": "",
        "venue": "",
        "arxiv": "",
    },
}
