"""Sprites: compositional and monolithic renderers (Wiedemer et al. 2023, arXiv 2307.05596).

    python -m cgjax.main --config=configs/sprites.py                 the demonstration
    python -m cgjax.main --config=configs/sprites.py:<row>[,<size>]  one row of the paper's table

Rows are listed in ROWS and, beyond the paper, in BEYOND below; sizes are default (a laptop), smoke,
fast (200 epochs; 50 beyond the paper) and paper (2000 epochs, the published scale).
`python -m cgjax.main --list` prints times and numbers too.
"""

from cgjax.config import SIZES, base, split_variant
from cgjax.experiments.sprites.sets import SUPPORTS, orthogonal_planes
from cgjax.published import PUBLISHED

# row: (what it shows, support, model kind, changes)
ROWS = {
    "demo": (
        "Both models on the orthogonal support: only the compositional one generalises",
        "orthogonal",
        ("compositional", "monolithic"),
        {},
    ),
    "random_monolithic": ("Every combination seen, one network", "random", ("monolithic",), {}),
    "random_compositional": (
        "Every combination seen, one network per sprite",
        "random",
        ("compositional",),
        {},
    ),
    "orthogonal_monolithic": (
        "Three planes of the latent cube; one network fails outside them",
        "orthogonal",
        ("monolithic",),
        {},
    ),
    "orthogonal_compositional": (
        "Three planes are sufficient support: the whole cube is rendered",
        "orthogonal",
        ("compositional",),
        {},
    ),
    "orthogonal_normal": (
        "Orthogonal, latents normal with sd 1",
        "orthogonal_normal",
        ("compositional",),
        {},
    ),
    "orthogonal_concentrated": (
        "Orthogonal, latents normal with sd 0.4 (not in the paper's table)",
        "orthogonal_concentrated",
        ("compositional",),
        {},
    ),
    "orthogonal_broad": (
        "Orthogonal+: two planes per sprite",
        "orthogonal_broad",
        ("compositional",),
        {},
    ),
    "diagonal": ("Diagonal band, delta 0.1", "diagonal", ("compositional",), {}),
    "diagonal_broad": ("Diagonal band, delta 0.2", "diagonal_broad", ("compositional",), {}),
    "diagonal_narrow": (
        "Diagonal band, delta 0.05: the front sprite hides too much",
        "diagonal_narrow",
        ("compositional",),
        {},
    ),
    "orthogonal_gap": (
        "A band of sprite 1's x is missing: no compositional support",
        "orthogonal_gap",
        ("compositional",),
        {},
    ),
    "orthogonal_star": (
        "Orthogonal*: one plane too few, not sufficient",
        "orthogonal_star",
        ("compositional",),
        {},
    ),
    "orthogonal_rgba": (
        "Alpha compositing, one shared network: generalises though the condition cannot hold",
        "orthogonal",
        ("shared",),
        {"model.composition": "alpha"},
    ),
    "orthogonal_rgba_cured": (
        "The same with alpha's bias at 0.5: no initialisation is dead",
        "orthogonal",
        ("shared",),
        {"model.composition": "alpha", "model.alpha_init": "half"},
    ),
    "half": (
        "Additive composition, sprites that never overlap (not in the paper's table)",
        "half",
        ("compositional",),
        {"model.composition": "add", "data.composition": "add"},
    ),
}

# Compositions of the data, and those a model can be trained with: the step itself has no gradient.
DATA_C = {name: f"occlude_{name}" for name in ("step", "sigmoid", "sigmoid_a10", "hardsigmoid")}
MODEL_C = {**DATA_C, "step": "occlude_sigmoid_ste"}

# Beyond the paper, in the same form. One seed; error by region and component recovery reported.
BEYOND = {
    # Matched and mismatched C. (With true sprites alpha makes the images of step: orthogonal_rgba.)
    **{
        f"match_{data}_{model}": (
            f"Images composed by {data}, the model's C is {model}",
            "orthogonal",
            ("compositional",),
            {"data.composition": DATA_C[data], "model.composition": MODEL_C[model]},
        )
        for data in DATA_C
        for model in MODEL_C
    },
    # C unknown to the model, or changing.
    **{
        name: (doc, "orthogonal", ("compositional",), {"model.composition": composition})
        for name, composition, doc in (
            ("learned_mlp", "learned_mlp", "C is a pixel-wise network, learned with the sprites"),
            ("learned_sharpness", "learned_sharpness", "Sigmoid occlusion of learned sharpness"),
            ("learned_attention", "learned_attention", "C is a softmax over slots' learned scores"),
            ("annealed", "annealed_sharpness", "Sigmoid occlusion, sharpness from 1 to 10"),
        )
    },
    # Error on new combinations against error on the support, along training and over widths.
    "along_training": (
        "Evaluated every epoch: new combinations against known ones",
        "orthogonal",
        ("compositional",),
        {"eval.curve": True},
    ),
    **{
        f"width_{hidden}": (
            f"The same with components of width {hidden}",
            "orthogonal",
            ("compositional",),
            {
                "eval.curve": True,
                "model.component.hidden": hidden,
                "model.component.channels": hidden // 8,
            },
        )
        for hidden in (64, 128)
    },
    # Which inductive bias bridges a gap in sprite 1's x?
    "gap_shared": ("The gap, one network for both sprites", "orthogonal_gap", ("shared",), {}),
    **{
        f"gap_{decoder}": (doc, "orthogonal_gap", ("compositional",), {"model.decoder": decoder})
        for decoder, doc in (
            ("broadcast", "The gap, decoders that work pixel by pixel on coordinates"),
            ("shift", "The gap, decoders that draw in the middle and only move the drawing"),
        )
    },
    # Supports between sufficient and insufficient.
    **{
        f"gap_{wide}": (
            f"The gap, {wide} wide",
            "orthogonal_gap",
            ("compositional",),
            {"data.gaps": ((0, 0.05, round(0.05 + wide, 2)),)},
        )
        for wide in (0.1, 0.2, 0.6, 0.8)
    },
    **{
        f"delta_{delta}": (
            f"Diagonal band, delta {delta}",
            "diagonal",
            ("compositional",),
            {"data.delta": delta},
        )
        for delta in (0.02, 0.03, 0.07, 0.14, 0.3)
    },
    # Statistics or identifiability? As many steps, more or fewer scenes.
    **{
        f"narrow_{n}": (
            f"Diagonal band, delta 0.05, {n:,} scenes",
            "diagonal_narrow",
            ("compositional",),
            {"data.n_train": n},
        )
        for n in (1_000, 10_000, 100_000, 1_000_000)
    },
    **{
        f"slots_{n}": (
            f"{n} sprites, {2 * n - 1} planes",
            "orthogonal",
            ("compositional",),
            {"data.n_slots": n, "data.planes": orthogonal_planes(n)},
        )
        for n in (3, 4, 5)
    },
}

TIMES = {
    "default": "up to 5 minutes on two CPU cores",
    "smoke": "about a minute, mostly compiling",
    "fast": "2 minutes for 3 seeds on one H200 (monolithic 4)",
    "paper": "6 minutes per seed on one H200 (monolithic 11), from the measured step",
}
BEYOND_TIMES = {**TIMES, "fast": "50 epochs, one seed: half a minute on one H200"}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    rows = ROWS | BEYOND
    row, size = split_variant(arg, rows)
    _, support, kinds, changes = rows[row]
    config = base("sprites")
    config.row, config.size = row, size
    declare(config)
    config.data.update(SUPPORTS[support])
    config.model.kinds = kinds
    config.update_from_flattened_dict(changes)
    sizes = {"default": laptop, "smoke": smoke, "fast": fast, "paper": paper}
    (sizes if row in ROWS else {**sizes, "fast": short})[size](config)
    if row in BEYOND:
        beyond(config, changes)
    return config


def declare(config):
    """Every key of this family."""
    with config.unlocked():
        data, model, optim, evaluation = (
            config[name] for name in ("data", "model", "optim", "eval")
        )
        data.update(
            {
                "n_slots": 2,
                "image_size": 64,
                "support": "random",
                "planes": (),
                "gaps": (),
                "delta": 0.1,
                "distribution": "uniform",
                "mean": 0.5,
                "std": 1.0,
                # The paper's images were made with hard occlusion, its model composes softly.
                "composition": "occlude_step",
            }
        )
        model.update(
            {
                "kinds": ("compositional",),
                "composition": "occlude_sigmoid",
                "anneal": (1.0, 10.0),  # first and last sharpness of annealed_sharpness
                "decoder": "upsample",  # of components; or "broadcast", "shift"
                "component": {"hidden": 256, "channels": 32},
                "broadcast": {"hidden": 48, "n_layers": 5},
                "monolith": {"hidden": 320, "channels": 64},
                "alpha_init": "reference",  # or "half": bias 0.5
                "form": "auto",
                "dtype": "float32",  # of activations; parameters and optimiser are float32
            }
        )
        optim.update(
            {
                "loss": "mse",
                "loss_weight": 1.0,
                "lr_every": 1,  # steps at a constant learning rate: 1, or an epoch's length
            }
        )
        # n scenes per evaluation set, scored in batches; the rest sizes the figures
        evaluation.update({"n": 0, "batch": 1000, "n_columns": 15, "n_grid": 0, "n_traversal": 5})
        # reported too: error by region, component recovery, error outside against inside
        evaluation.update({"regions": False, "recovery": False, "curve": False})
        config.optim.lr, config.optim.lr_final, config.optim.weight_decay = 1e-3, 1e-5, 1e-5


def laptop(config):
    """Minutes on two CPU cores: 12,800 scenes, batch 32, 1,200 steps, cosine over the run."""
    config.data.update({"n_train": 12_800, "batch": 32})
    config.model.broadcast.update({"hidden": 32, "n_layers": 4})  # half the time of 48 and 5
    config.train.update({"steps": 1200, "steps_per_call": 20, "log_every": 10})
    config.eval.update({"every": 400, "n": 2000, "n_grid": 1156})
    config.checkpoint.every = 200


def smoke(config):
    """Seconds: a tiny network, the whole path."""
    config.data.update({"n_train": 40, "batch": 16})
    config.model.component.update({"hidden": 16, "channels": 4})
    config.model.monolith.update({"hidden": 16, "channels": 4})
    config.model.broadcast.hidden = 8
    config.train.update({"steps": 12, "steps_per_call": 3, "log_every": 1})
    config.eval.update({"every": 6, "n": 20, "batch": 10, "n_columns": 3, "n_grid": 20})
    config.eval.n_traversal = 2
    config.checkpoint.every = 3


def paper(config, epochs=2000):
    """The published scale: 100,000 scenes, batch 512, the rate changes once per epoch."""
    per_epoch = 196  # 195 full batches and one of 160 scenes
    config.data.update({"n_train": 100_000, "batch": 512})
    config.train.update({"steps": epochs * per_epoch})
    config.train.update({"steps_per_call": per_epoch, "log_every": per_epoch})
    config.optim.lr_every = per_epoch
    config.eval.update({"every": epochs // 20 * per_epoch, "n": 10_000, "n_grid": 10_000})
    config.checkpoint.every = epochs // 20 * per_epoch


def fast(config):
    """A tenth of the published length, the schedule shortened with it."""
    paper(config, epochs=200)


def short(config):
    """Beyond the paper: a fortieth of the published length."""
    paper(config, epochs=50)


def beyond(config, changes):
    """What all rows beyond the paper report; the row's own number of scenes, except in `smoke`."""
    config.eval.update({"regions": True, "recovery": True})
    if config.eval.curve:  # once per epoch, more often where a run is only three epochs long
        every = {"default": 100, "smoke": 3, "fast": 196, "paper": 196}
        config.eval.every = every[config.size]
    if config.size != "smoke":
        config.data.n_train = changes.get("data.n_train", config.data.n_train)


def describe_rows():
    """One line per row for `--list`: the paper's, then those beyond it."""
    for name, (doc, *_) in (ROWS | BEYOND).items():
        number = PUBLISHED["sprites"].get(name, {}).get("r2_all")
        times = TIMES if name in ROWS else BEYOND_TIMES
        yield {
            "name": name,
            "doc": doc,
            "times": "; ".join(f"{size}: {times[size]}" for size in SIZES),
            "expect": f"paper's R2 all {number['mean']:.4f}"
            if number
            else "not in the paper's table",
        }
