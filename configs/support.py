"""Support theory: does a training support identify every component? (Wiedemer et al. 2023)

    python -m cgjax.main --config=configs/support.py                 a small table of verdicts
    python -m cgjax.main --config=configs/support.py:<row>[,<size>]  one study

Nothing is trained. Sizes: default and paper audit at least 256 values of each component, fast 64;
smoke takes seconds.
"""

from cgjax.config import SIZES, base, split_variant

_ALL = (
    "random", "orthogonal", "orthogonal_star", "orthogonal_broad", "diagonal_broad", "diagonal",
    "diagonal_narrow", "orthogonal_gap",
)  # fmt: skip

# row: (what it shows, expected time at the default size, changes)
ROWS = {
    "demo": (
        "Which supports identify both sprites, and at which pixels they do not",
        "half a minute",
        {"supports": ("orthogonal", "orthogonal_star", "diagonal_narrow", "orthogonal_gap"),
         "n_values": 32},
    ),
    "table": (
        "Every support against hard, soft and alpha composition: share of values that pass",
        "2.5 minutes",
        {},
    ),
    "partners": (
        "The diagonal: its verdict by width and by number of partners",
        "45 seconds",
        {"n_values": 64},
    ),
    "predict": (
        "Audits of the recorded runs' supports against their scores: rank correlation",
        "2 minutes",
        {"n_values": 64},
    ),
    "design": (
        "Fewest planes that identify every slot, for two to four sprites",
        "20 seconds",
        {"image_size": 32, "n_values": 32},
    ),
    "relaxed": (
        "What C ignores need not be known: the condition that only asks about the rest",
        "40 seconds",
        {"image_size": 16, "n_values": 64, "n_partners": 1024, "n_unseen": 64},
    ),
    "opacity": (
        "Saturated opacities explain a trained alpha model (--config.data.run=<workdir>)",
        "a minute",
        {"n_values": 32, "run": "runs/sprites/orthogonal_rgba_cured", "part": "shared"},
    ),
    "certificate": (
        "Which premises of the theorem hold for a trained model (--config.data.run=<workdir>)",
        "a minute",
        {"n_values": 64},
    ),
}  # fmt: skip

TIMES = {"smoke": "seconds", "fast": "a quarter of the default", "paper": "as the default"}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    config = base("support")
    config.row, config.size = row, size
    declare(config)
    config.data.update(ROWS[row][2])
    if size == "fast":
        config.data.n_values = min(config.data.n_values, 64)
    if size == "smoke":
        smoke(config)
    return config


def declare(config):
    """Every key of this family."""
    with config.unlocked():
        config.data.update(
            {
                "image_size": 64,
                "supports": _ALL,
                "n_values": 256,  # values of z_k* per component
                "n_partners": 48,  # points of P' where the support is not made of planes
                "n_unseen": 64,  # points of Q per value, for the relaxed condition
                "deltas": (0.03, 0.05, 0.07, 0.1, 0.2),
                "partner_counts": (48, 512),
                "slot_counts": (2, 3, 4),
                "n_candidates": 24,  # planes to choose from
                "record": "",  # folder of recorded sprites runs; empty: the package's own
                "run": "runs/sprites/demo",  # a finished sprites run, and which of its models
                "part": "compositional",
                "softness": 1.0,  # pixels over which the certificate's sprites fade out
            }
        )
        config.model.update({"composition": "occlude_sigmoid"})
    # Nothing is trained: one step keeps the periods that all configs share valid.
    config.train.steps = 1


def smoke(config):
    """Seconds: few values of small images."""
    config.data.update({"image_size": 16, "n_values": 4, "n_partners": 4, "n_unseen": 4})
    config.data.update({"deltas": (0.05, 0.2), "partner_counts": (4, 8), "slot_counts": (2,)})
    config.data.update({"n_candidates": 6, "supports": config.data.supports[:3]})


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, time, _) in ROWS.items():
        times = {"default": f"{time} on two CPU cores", **TIMES}
        yield {
            "name": name,
            "doc": doc,
            "times": "; ".join(f"{size}: {times[size]}" for size in SIZES),
            "expect": "nothing is trained",
        }
