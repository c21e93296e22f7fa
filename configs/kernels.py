"""Kernels: additivity, memorization leak, shortcut bias (Lippl and Stachenfeld 2025).

    python -m cgjax.main --config=configs/kernels.py                 dense networks, rich and lazy
    python -m cgjax.main --config=configs/kernels.py:<row>[,<size>]  one study

Closed-form rows have one size and take seconds to minutes; network rows have the usual ones.

The demonstration is the paper's claim on dense networks in one command (thirty seeds; a minute and
a half on two CPU cores). Slope of lazy networks 0.744 on extrapolation, 0.851 on interpolation
(paper 0.746, 0.848); of rich ones 0.763, 0.998, and 0.366 on asymmetric (0.761, 0.994, 0.368).
Accuracy on transitive equivalence: rich 1, lazy 0.50.
"""

from cgjax.config import SIZES, base, split_variant
from cgjax.experiments.kernels import image_rows
from cgjax.experiments.kernels.tasks import ADDITION_SETS as ADDITION
from cgjax.experiments.kernels.tasks import CD_SETS as CD

SCALES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)

# A fixed rate for every scale that reaches the stop: the solution is analysed, not the path.
ADDITION_LRS = (0.04,) * 5 + (0.02, 5e-3)
RICH_AND_LAZY = {"model": {"scales": (1e-6, 1.0)}}
ADDITION_PART = {"data": {"tasks": ADDITION}, "optim": {"lrs": (0.04, 5e-3)}, **RICH_AND_LAZY}
EQUIVALENCE_PART = {
    "data": {"tasks": ("te_2_2",)},
    "optim": {"lrs": (0.1, 1e-3), "stop": 1e-6},
    "train": {"steps_per_call": 10, "log_every": 10},
    "eval": {"every": 10},
    **RICH_AND_LAZY,
}
# Depth changes the program: one part for each. All else as published.
DEPTHS = {f"depth_{depth}": {"model": {"depth": depth}} for depth in (1, 2, 3, 4)}
DEEP = {
    "parts": DEPTHS,
    "model.hidden": 100,
    "model.scales": (0.1,),
    "optim.optimiser": "adam",
    "optim.lrs": (1e-4,),
    "train.steps": 20_000,
    "train.steps_per_call": 100,
    "train.log_every": 100,
    "eval.every": 100,
    "checkpoint.every": 5000,
}

# row: (what it shows, study, changes); "parts" of a dense study are trained one after another, each
# with keys of its own, in a sub-folder of its name
ROWS = {
    "demo": (
        "Thirty rich and thirty lazy networks on each training set of addition, and on transitive "
        "equivalence: slopes as the leak says, and what only rich networks solve",
        "dense",
        {
            "parts": {"addition": ADDITION_PART, "equivalence": EQUIVALENCE_PART},
            "train.seeds": tuple(range(30)),
        },
    ),
    "tasks": ("The tasks: which combinations are trained, and their targets", "tasks", {}),
    "salience": ("Salience of conjunctions by depth of a wide random network", "salience", {}),
    "leak": ("Memorization leak in closed form: slope by salience and anchors", "leak", {}),
    "partial": ("Margins of invariance and partial exposure in closed form", "partial", {}),
    "phase": ("Which kernels solve CD-1, CD-2 and CD-3: shortcut bias", "phase", {}),
    "context_share": (
        "Shortcut bias where the context is a larger or smaller part of the input than a feature",
        "context_share",
        {"data.n_saliences": 45},
    ),
    "transitive": ("Transitive equivalence: no kernel; ordering: every kernel", "transitive", {}),
    "perturbed": (
        "Kernels that are not quite compositional: additivity and slope by how far they depart",
        "perturbed",
        {},
    ),
    "design": (
        "Training pairs and saliences chosen so that less leaks, against the paper's training sets",
        "design",
        {},
    ),
    "magnitudes": ("What the machine uses on CD: value by type of conjunction", "magnitudes", {}),
    "dispersed": ("Addition without anchors: error by salience, 50 training sets", "dispersed", {}),
    "addition_rich": (
        "Dense networks on addition from rich to lazy",
        "dense",
        {"data.tasks": ADDITION, "model.scales": SCALES, "optim.lrs": ADDITION_LRS},
    ),
    "addition_deep": (
        "Dense networks on addition by depth",
        "dense",
        {**DEEP, "data.tasks": ADDITION},
    ),
    "cd_rich": (
        "Context dependence from rich to lazy: regression solves CD-3, the logistic loss takes the "
        "shortcut",
        "dense",
        {
            "data.tasks": CD,
            "model.scales": SCALES,
            "train.steps": 5000,
            "train.seeds": (0, 1, 2),
            "parts": {
                "mse": {"optim": {"loss": "mse", "lrs": (0.1,) * 5 + (0.05, 5e-3)}},
                "logistic": {
                    "optim": {"loss": "logistic", "lrs": (1.0,) * 5 + (0.5, 0.2), "stop": 1e-3}
                },
            },
        },
    ),
    "cd_deep": (
        "Context dependence by depth: memorization grows",
        "dense",
        {**DEEP, "data.tasks": CD, "optim.loss": "logistic"},
    ),
    "te_rich": (
        "Transitive equivalence: rich networks solve what no kernel can",
        "dense",
        {
            "parts": {
                "mse": EQUIVALENCE_PART,
                "logistic": EQUIVALENCE_PART
                | {"optim": {"loss": "logistic", "lrs": (0.5, 0.15), "stop": 1e-3}},
            }
        },
    ),
    "te_deep": (
        "Transitive equivalence by depth",
        "dense",
        {
            **DEEP,
            "data.tasks": ("te_2_2",),
            "optim.loss": "logistic",
            "train.steps_per_call": 10,
            "train.log_every": 10,
            "eval.every": 10,
        },
    ),
    "frozen": (
        "Frozen features: readouts of initial features are kernel machines, those of trained ones "
        "generalise as their networks do",
        "dense",
        {
            "eval.frozen": True,
            "parts": {
                "addition": ADDITION_PART,
                "equivalence": EQUIVALENCE_PART,
                "readout": {
                    "data": {"tasks": ADDITION},
                    "model": {"trained": "readout"},
                    "optim": {"lrs": (5e-3,), "stop": 1e-6},
                },
            },
        },
    ),
}

TIMES = {
    "default": "minutes on two CPU cores",
    "smoke": "seconds",
    "fast": "as the default",
    "paper": "as the default; cd_rich with six seeds instead of three",
}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    rows = ROWS | image_rows.ROWS
    row, size = split_variant(arg, rows)
    _, study, changes = rows[row]
    config = base("kernels")
    config.row, config.size = row, size
    declare(config)
    image_rows.declare(config)
    config.study = study
    for name, keys in changes.get("parts", {}).items():
        with config.unlocked():
            config.parts[name] = keys
    config.update_from_flattened_dict({k: v for k, v in changes.items() if k != "parts"})
    if study == "images":
        image_rows.resize(config, size)
        return config
    if size == "paper" and row == "cd_rich":
        config.train.seeds = tuple(range(6))
    if size == "smoke":
        smoke(config)
    return config


def declare(config):
    """Every key of this family."""
    with config.unlocked():
        config.study = "dense"
        config.parts = {}
        config.data.update(
            {
                "tasks": ADDITION,
                "depth": 20,  # layers of the random networks
                "n_grid": 50,  # kernels along each side of the phase map
                "n_saliences": 51,
                "training_sets": tuple(range(1, 51)),  # seeds of the dispersed ones
            }
        )
        # scales: of the initial weights, from rich to lazy; depth counts hidden layers;
        # trained: all layers, or the readout alone, from zero
        config.model.update({"hidden": 1000, "depth": 1, "scales": (1.0,), "trained": "all"})
        config.optim.update({"lrs": (2e-3,), "loss": "mse", "optimiser": "gd", "stop": 1e-4})
        # converged: networks whose final training loss is above it are left out, as in the paper;
        # frozen: also solve for the readout of each network's features before and after training
        config.eval.update({"converged": 1e-3, "frozen": False})
    config.train.update({"seeds": tuple(range(6)), "steps": 4000, "steps_per_call": 50})
    config.train.log_every = 50
    config.eval.every, config.checkpoint.every = 50, 1000


def smoke(config):
    """Seconds: few steps, few kernels."""
    config.data.update({"depth": 3, "n_grid": 6, "n_saliences": 3, "training_sets": (1, 2)})
    config.model.hidden = 20
    config.train.update({"seeds": (0, 1), "steps": 20, "steps_per_call": 10, "log_every": 10})
    config.eval.update({"every": 10, "converged": 1e9})
    config.checkpoint.every = 10
    for part in config.parts.values():
        with part.unlocked():
            for name in ("train", "eval"):
                if name in part:
                    del part[name]


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in (ROWS | image_rows.ROWS).items():
        yield {
            "name": name,
            "doc": doc,
            "times": "; ".join(f"{size}: {TIMES[size]}" for size in SIZES),
            "expect": "see published.py for its numbers",
        }
