"""Resistance: does gradient descent use what it should ignore? (anonymous, under review)

    python -m cgjax.main --config=configs/resistance.py                 plane and digits, A and B
    python -m cgjax.main --config=configs/resistance.py:<row>[,<size>]  one figure, or one question

Rows are listed in ROWS below. Sizes are default (minutes on two CPU cores), smoke, fast (for one
accelerator) and paper (the paper's lengths, with 20 seeds instead of its 5; SCAN has 5). The paper
claims orderings and prints no numbers, so every run ends with a paired test of each claim.
"""

from cgjax.config import split_variant
from cgjax.config.declare import Dotted, base, declare, declare_parts, declare_training, nested
from cgjax.data import sources
from cgjax.experiments.resistance import keys as known
from cgjax.published.claims import BY_ROW

# Steps of the panels of figure 5.
PANELS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

A_ONLY = {"data.settings": ("A",)}
# The paper's settings of each task.
MNIST = {
    "data.batch": 64, "optim.name": "adam", "optim.lrs": (1e-3,), "optim.loss": "categorical_hinge",
    "eval.early": 200,
}  # fmt: skip
PLANE = {
    "data.batch": 10, "optim.name": "sgd", "optim.lrs": (0.1,), "optim.loss": "cross_entropy",
    "eval.early": 2, "eval.at": PANELS, "train.epochs": 1024, "eval.epochs": 64,
}  # fmt: skip
FEW_EVALS = {"eval.at": (), "eval.keep": ()}
STEPS = {"train.steps": 200, "eval.every": 1, "eval.at": (0,)}
# Digits in rows that also train on the plane and count in the paper's steps.
DIGITS = {**MNIST, "train.epochs": 200, "eval.epochs": 5, "eval.at": (0,), "eval.keep": ()}
SHOWN = {**PLANE, "eval.keep": PANELS}
STARTS = {"model.scales": (1.0, 2.0, 3.0, 2.0, 3.0), "model.bias_stds": (0.0, 0.0, 0.0, 1.0, 1.0)}
NO_BIASES = {"model.scales": (2.0, 3.0), "model.bias_stds": (0.0, 0.0)}
RATES = {"optim.lrs": (1e-3, 1e-2, 1e-1, 1.0)}
CROSS = {**PLANE, **A_ONLY, **FEW_EVALS, "train.epochs": 400, "eval.epochs": 400, "eval.grid": 3}
# One update per epoch.
FULL = {"data.batch": 250, "train.epochs": 4000, "eval.epochs": 4000}
OPTIMISERS = {
    **{name: {"optim.name": name}
       for name in ("sgd", "momentum", "adagrad", "adadelta", "rmsprop", "adam", "sign")},
    "average": {"optim.name": "sgd", "optim.average": True},
    "gd": {"optim.name": "gd", **FULL},
    "gauss_newton": {"optim.name": "gd", "optim.gradient": "gauss_newton", "data.batch": 250,
                     "train.epochs": 400, "eval.epochs": 400},
    "evolution": {"optim.name": "sgd", "optim.gradient": "evolution"},
}  # fmt: skip

# row: (what it shows, study, changes). "parts" are trained one after another in sub-folders.
ROWS = {
    "demo": (
        "Plane and digits: X_2 predicts the target (A) or not (B, on the plane the control)",
        "both",
        {"parts": {"plane": SHOWN, "digits": {**DIGITS, "data.digits": "mnist"}}},
    ),
    "mnist": ("Figure 3a: two digits, A against B; dependence and information", "mnist",
              {**MNIST, **STEPS, "eval.inputs": ("train", "A", "B", "test")}),
    "architectures": (
        "Both networks that the text may mean, with two forms of the hinge loss",
        "mnist",
        {**MNIST, **STEPS,
         "parts": {f"{arch}_{loss}": {"model.arch": arch, "optim.loss": loss}
                   for arch in ("appendix", "three_conv")
                   for loss in ("categorical_hinge", "one_vs_rest_hinge")}},
    ),
    "scan": (
        "Figure 3b: SCAN's jump split, A against both interpretations of B",
        "scan",
        {"data.settings": ("A", "resample_slots", "replace_jump"), "train.steps": 2000,
         "eval.every": 25, "eval.at": tuple(range(51))},
    ),
    "plane": ("Figures 4, 5, 6: the boundary on the plane over training; 8 seeds drawn", "plane",
              SHOWN),
    "starts": (
        "The plane from other starts, with single updates, and as in the cited demo",
        "plane",
        {**PLANE,
         "parts": {
             "he": {"model.init": "he"},
             "updates": {"data.step_unit": "update", "eval.early": 50},
             "playground": {"model.init": "playground", "optim.loss": "half_squared"},
         }},
    ),
    "dose": (
        "Test accuracy by the share of samples in which X_2 predicts the target",
        "mnist",
        {**MNIST, **STEPS, "eval.every": 20, "data.widths": (2,),
         "data.rhos": (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)},
    ),
    "widths": ("Test accuracy by the number of labels of Y_2, from 1 to 10 (B)", "mnist",
               {**MNIST, **STEPS, "eval.every": 20, "data.widths": tuple(range(1, 11))}),
    "overlaid": (
        "Entangled digits, one upon the other: X_2 tells, with all pairs seen, or pairs are rare",
        "mnist",
        {**MNIST, **STEPS, "train.steps": 400, "eval.every": 40, "data.widths": (2,),
         "data.rhos": (0.0, 0.5, 0.9, 1.0), "data.absent": (0.5, 0.9),
         "parts": {"overlaid": {"data.overlaid": True}, "beside": {"data.overlaid": False}}},
    ),
    "heal": (
        "Does longer training repair it? Plane 8 times longer than the paper, digits 100 times",
        "both",
        {"parts": {"plane": {**PLANE, "train.epochs": 8192},
                   "digits": {**DIGITS, "train.epochs": 20_000, "eval.epochs": 200}}},
    ),
    "one_step": (
        "Propositions 3 and 4: does one small step raise the dependence on X_2?",
        "both",
        {"parts": {"plane": {**PLANE, "train.epochs": 256, "eval.at": PANELS[:10], "eval.early": 8},
                   "digits": {**DIGITS, "eval.epochs": 20, "eval.early": 20}}},
    ),
    "heads": (
        "Proposition 5: one head per component; do their updates cancel?",
        "both",
        {"model.heads": 2,
         "parts": {"plane": {**PLANE, "eval.early": 8}, "digits": {**DIGITS, "eval.early": 20}}},
    ),
    "remedies": (
        "Two remedies: towers with a gate, and a penalty on D_2 (which names X_2: an oracle)",
        "both",
        {"parts": {
            "plane_plain": {**PLANE, "model.towers": False, "reg.penalties": (0.0, 0.01, 0.1, 1.0)},
            "plane_towers": {**PLANE, "model.towers": True, "reg.penalties": (0.0, 0.1)},
            "digits_plain": {**DIGITS, "model.towers": False, "reg.penalties": (0.0, 0.01, 0.1)},
            "digits_towers": {**DIGITS, "model.towers": True, "reg.penalties": (0.0,)},
        }},
    ),
    "optimisers": (
        "Eleven optimisers at equal training loss, from one start",
        "crossing",
        {**CROSS, **RATES, "model.scales": (2.0,), "parts": OPTIMISERS},
    ),
    "control": (
        "The gradient-free control: SGD, guesses and walks in bands of loss, from five starts",
        "crossing",
        {**CROSS, **STARTS, "search.n_draws": 40_000_000,
         "parts": {"sgd": {}, "sgd_fixed_biases": {**NO_BIASES, "model.fixed_biases": True}}},
    ),
    "capacity": (
        "The control for narrow and wide networks, and at lower training losses",
        "crossing",
        {**CROSS, "model.scales": (2.0, 2.0), "model.bias_stds": (0.0, 1.0), "train.epochs": 1024,
         "eval.epochs": 1024, "eval.levels": (0.1, 0.05, 0.02, 0.005),
         "search.n_draws": 10_000_000, "search.walk_steps": (10_000, 40_000),
         "parts": {f"sgd_width_{w}": {"model.width": w} for w in (4, 8, 16, 32)}},
    ),
    "gradients": (
        "The same runs by forward mode and by finite differences",
        "gradients",
        {**PLANE, "train.epochs": 64, "eval.at": PANELS[:8],
         "parts": {name: {"optim.gradient": name} for name in ("reverse", "forward", "finite")}},
    ),
    "landscape": (
        "Figure 1: distances from the start to both solutions, and the barrier between them",
        "landscape",
        {**SHOWN, "eval.epochs": 1024},
    ),
    "first_step": ("Which cell sets the boundary: its angle after the first step, by cell",
                   "first_step", {**PLANE, **A_ONLY, "train.epochs": 1, "eval.at": (0, 1)}),
    "tangent": (
        "The early share of X_2, predicted from the tangent kernel at the start",
        "tangent",
        {**PLANE, "data.batch": 250, "optim.lrs": (0.02,), "model.width": 256,
         "train.epochs": 16, "eval.epochs": 1, "eval.at": (0,)},
    ),
}  # fmt: skip
CROSSING = known.PLANE | known.CROSSING
# study: (keys, whether it counts in the paper's steps).
STUDIES = {
    "both": (known.PAIRS | known.PLANE, True),
    "mnist": (known.PAIRS, False),
    "scan": (known.SCAN, False),
    "plane": (known.PLANE, True),
    "crossing": (CROSSING, True),
    "gradients": (known.PLANE | known.GRADIENTS, True),
    "landscape": (known.PLANE | known.LANDSCAPE, True),
    "first_step": (known.PLANE, True),
    "tangent": (known.PLANE | known.TANGENT, True),
}
MORE = {
    "one_step": known.ONE_STEP, "optimisers": known.OPTIMISERS, "control": known.SEARCH,
    "capacity": known.SEARCH,
}  # fmt: skip


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, study, changes = ROWS[row]
    study_keys, in_epochs = STUDIES[study]
    config = base("resistance")
    with config.unlocked():
        config.row, config.size, config.study = row, size, study
    declare_training(config, in_epochs)
    declare(config, study_keys | MORE.get(row, {}))
    changes = dict(changes)
    parts = {name: dict(part) for name, part in changes.pop("parts", {}).items()}
    config.update_from_flattened_dict(changes)
    if "epochs" in config.checkpoint:
        config.checkpoint.epochs = 100_000  # only at the end
    parts = resize(config, row, size, parts)
    declare_parts(config, {name: nested(part) for name, part in parts.items()})
    return config


# --- sizes ----------------------------------------------------------------------------------------

# Upper limits of values at the smaller sizes.
LIMITS = {
    "default": {
        "train.steps": 2000, "eval.n_samples": 300, "eval.n_information": 1000,
        "eval.n_whole": 1500, "eval.n_step": 256, "search.n_draws": 200_000,
        "search.batch": 1000,
    },
    "smoke": {
        "train.steps": 4, "train.epochs": 4, "eval.epochs": 2, "eval.every": 2, "data.batch": 8,
        "data.n_points": 24, "eval.n_points": 40, "eval.n_jacobian": 4, "eval.grid": 9,
        "eval.n_samples": 20, "eval.n_information": 20, "eval.n_step": 8, "eval.n_whole": 16,
        "eval.n_split": 4, "eval.early": 4, "model.hidden": 8, "model.embedding": 4,
        "model.encoder": 2, "model.width": 8, "search.n_draws": 1000, "search.n_sets": 1,
        "search.n_keep": 4, "search.batch": 500, "optim.n_pairs": 4, "eval.n_line": 5,
    },
}  # fmt: skip
OF_DIGITS = ("eval.n_samples", "eval.n_information", "eval.n_step")
SEEDS = {"scan": 5, "optimisers": 100, "control": 400, "capacity": 400, "gradients": 5, "mnist": 20}
# Parts that are trained at size default, on two CPU cores.
FEW = {
    "heal": ("plane",), "remedies": ("plane_plain", "plane_towers"), "heads": ("plane",),
    "one_step": ("plane",), "overlaid": ("overlaid",),
    "architectures": ("appendix_categorical_hinge", "three_conv_categorical_hinge"),
}  # fmt: skip
SOME = {
    "optimisers": ("average", "gauss_newton", "evolution"),
    "capacity": ("sgd_width_4", "sgd_width_8"),
}  # parts at size smoke
DEFAULT = {
    "demo": {"train.seeds": tuple(range(5))},
    "mnist": {"train.seeds": tuple(range(5)), "train.steps": 100, "eval.every": 20,
              "eval.inputs": ("train",)},
    "architectures": {"train.seeds": (0, 1), "train.steps": 100, "eval.every": 20},
    "scan": {"train.seeds": (0,), "eval.at": (0, 25, 50, 75), "eval.n_jacobian": 8,
             "eval.every": 100, "eval.n_samples": 256, "data.settings": ("A", "resample_slots")},
    "dose": {"train.seeds": (0, 1), "train.steps": 100, "eval.every": 50,
             "data.rhos": (0.0, 0.5, 0.9, 1.0)},
    "overlaid": {"train.seeds": (0,), "train.steps": 400, "eval.every": 400,
                 "data.rhos": (0.0, 0.9, 1.0), "data.absent": (0.9,)},
    "widths": {"train.seeds": (0, 1), "train.steps": 100, "eval.every": 50,
               "data.widths": (1, 2, 5, 10)},
    "gradients": {"train.seeds": tuple(range(5))},
}  # fmt: skip
# Parts with shorter training at size default: digits in rows that also have the plane, and the
# evolution strategy, which estimates a gradient from 256 losses.
SHORT = {
    "digits": {"train.epochs": 50, "eval.epochs": 10, "eval.n_jacobian": 32,
              "eval.n_information": 600},
    "evolution": {"train.epochs": 20, "eval.epochs": 20},
}  # fmt: skip


def resize(config, row: str, size: str, parts: dict) -> dict:
    """Changes the config to a size; returns the parts of that size.

    fast: five seeds at full length, with fewer evaluations; paper: all seeds.
    """
    config.train.seeds = tuple(range(SEEDS.get(row, 20) if size == "paper" else 5))
    flat = Dotted(config)
    if size in ("fast", "smoke") and "eval.every" in flat:
        flat["eval.every"] = max(flat["eval.every"], 20)
        flat["eval.at"] = (0,)
    if size == "smoke":
        config.train.seeds = (0, 1)
        parts = {name: parts[name] for name in SOME.get(row, parts)}
    if size == "default":
        config.train.seeds = tuple(range(20))
        config.update_from_flattened_dict(DEFAULT.get(row, {}))
        parts = {name: parts[name] for name in FEW.get(row, parts)}
        parts = {name: part | SHORT.get(name, {}) for name, part in parts.items()}
        if config.study == "mnist":
            flat["eval.n_jacobian"] = 32
        if row == "demo" and not sources.is_here("mnist"):
            parts["digits"]["data.digits"] = "synthetic"  # the first run needs no download
        if row == "overlaid" and not sources.is_here("mnist"):
            config.data.digits = "synthetic"
    if flat.get("search.walk_steps") and size != "paper":
        flat["search.walk_steps"] = (50,) if size == "smoke" else (1000,)
    if "search.n_sets" in flat:
        flat["search.n_sets"] = min(flat["search.n_sets"], len(config.train.seeds))
    limits = LIMITS.get(size, {})
    if size == "default" and config.study == "both" and "digits" not in parts:
        # Only the plane trains: it has its published size.
        limits = {name: value for name, value in limits.items() if name not in OF_DIGITS}
    for values in [flat, *parts.values()]:
        limit(values, limits)
        if size == "smoke" and "data.digits" in values:
            values["data.digits"] = "synthetic"  # nothing to download
    return parts


def limit(flat, largest: dict) -> None:
    """Applies the upper limits; evaluations after the end of training are left out."""
    for name in largest.keys() & flat.keys():
        flat[name] = min(flat[name], largest[name])
    end = largest.get("train.epochs", largest.get("train.steps"))
    for name in ("eval.at", "eval.keep"):
        if name in flat and "train.steps" in largest:
            last = flat.get("train.epochs", flat.get("train.steps", end))
            flat[name] = tuple(step for step in flat[name] if step <= last)
    if len(largest) > 10:  # smoke: only the ends of every sweep
        for name in ("data.rhos", "data.widths", "optim.lrs", "reg.penalties"):
            if name in flat:
                flat[name] = tuple(dict.fromkeys((flat[name][0], flat[name][-1])))
        if "eval.levels" in flat:
            flat["eval.levels"], flat["eval.band"] = (0.7, 0.1), 0.5


_REST = {"smoke": "seconds", "fast": "not measured"}
# Measured on two shared CPU cores.
_DEFAULT = {
    "two to five minutes": ("demo", "dose", "plane", "starts", "one_step", "heads", "gradients",
                            "overlaid", "landscape", "first_step", "control"),
    "five to twenty minutes": ("mnist", "scan", "architectures", "widths", "optimisers",
                               "capacity", "heal", "remedies", "tangent"),
}  # fmt: skip
_ON_GPU = ("demo", "mnist", "scan", "dose", "architectures", "control", "overlaid")  # recorded
_PAPER = {True: "1 to 5 minutes on one H200", False: "not measured"}
_TIMES = {
    row: {"default": f"{time} on two CPU cores", **_REST, "paper": _PAPER[row in _ON_GPU]}
    for time, rows in _DEFAULT.items()
    for row in rows
}


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        n = len(BY_ROW["resistance"].get(name, ()))
        expect = f"{n} claim{'s' * (n > 1)}" if n else ""
        yield {"name": name, "doc": doc, "times": _TIMES[name], "expect": expect}
