"""Kernels: additivity, memorization leak, shortcut bias (Lippl and Stachenfeld 2025).

    python -m cgjax.main --config=configs/kernels.py                 dense networks on addition
    python -m cgjax.main --config=configs/kernels.py:<row>[,<size>]  one study

Closed-form rows have one size and take seconds to minutes; network rows have the usual ones.
"""

from cgjax.config import SIZES, base, split_variant

ADDITION = tuple(
    f"addition_{name}" for name in ("extrapolation", "asymmetric", "interpolation", "both")
)
CD = ("cd_1", "cd_2", "cd_3")
SCALES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)

# row: (what it shows, study, changes)
ROWS = {
    "demo": (
        "Rich and lazy networks on addition: values of unseen items shrink, as the leak says",
        "dense",
        {"data.tasks": ADDITION, "model.scales": (1e-6, 1.0), "optim.lrs": (0.02, 2e-3)},
    ),
    "salience": ("Salience of conjunctions by depth of a wide random network", "salience", {}),
    "leak": ("Memorization leak in closed form: slope by salience and anchors", "leak", {}),
    "partial": ("Margins of invariance and partial exposure in closed form", "partial", {}),
    "phase": ("Which kernels solve CD-1, CD-2 and CD-3: shortcut bias", "phase", {}),
    "magnitudes": ("What the machine uses on CD: value by type of conjunction", "magnitudes", {}),
    "dispersed": ("Addition without anchors: error by salience, 50 training sets", "dispersed", {}),
    "addition_rich": (
        "Dense networks on addition from rich to lazy",
        "dense",
        {
            "data.tasks": ADDITION,
            "model.scales": SCALES,
            "optim.lrs": (0.02, 0.02, 0.02, 0.02, 0.02, 0.01, 2e-3),
        },
    ),
    "te_rich": (
        "Transitive equivalence: rich networks solve what no kernel can",
        "dense",
        {
            "data.tasks": ("te_2_2",),
            "model.scales": (1e-6, 1.0),
            "optim.lrs": (0.1, 1e-3),
            "optim.stop": 1e-6,
        },
    ),
}

TIMES = {
    "default": "minutes on two CPU cores",
    "smoke": "seconds",
    "fast": "as the default",
    "paper": "minutes: six seeds as published, or thirty for the lazy slopes",
}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, study, changes = ROWS[row]
    config = base("kernels")
    config.row, config.size = row, size
    declare(config)
    config.study = study
    config.update_from_flattened_dict(changes)
    if size == "paper":
        config.train.seeds = tuple(range(30))
    if size == "smoke":
        smoke(config)
    return config


def declare(config):
    """Every key of this family."""
    with config.unlocked():
        config.study = "dense"
        config.data.update(
            {
                "tasks": ADDITION,
                "depth": 20,  # layers of the random networks
                "n_grid": 50,  # kernels along each side of the phase map
                "n_saliences": 51,
                "training_sets": tuple(range(1, 51)),  # seeds of the dispersed ones
            }
        )
        # scales: of the initial weights, from rich to lazy; depth counts hidden layers
        config.model.update({"hidden": 1000, "depth": 1, "scales": (1.0,)})
        # A fixed rate for every scale that reaches the stop: the solution is analysed, not the path
        config.optim.update({"lrs": (2e-3,), "loss": "mse", "optimiser": "gd", "stop": 1e-4})
    config.train.update({"seeds": tuple(range(6)), "steps": 4000, "steps_per_call": 50})
    config.train.log_every = 50
    config.eval.every, config.checkpoint.every = 50, 1000


def smoke(config):
    """Seconds: few steps, few kernels."""
    config.data.update({"depth": 3, "n_grid": 6, "n_saliences": 3, "training_sets": (1, 2)})
    config.model.hidden = 20
    config.train.update({"seeds": (0, 1), "steps": 20, "steps_per_call": 10, "log_every": 10})
    config.eval.every, config.checkpoint.every = 10, 10


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        yield {
            "name": name,
            "doc": doc,
            "times": "; ".join(f"{size}: {TIMES[size]}" for size in SIZES),
            "expect": "see published.py for its numbers",
        }
