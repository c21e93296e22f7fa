"""Sprites: compositional and monolithic renderers (Wiedemer et al. 2023, arXiv 2307.05596).

    python -m cgjax.main --config=configs/sprites.py                 the demonstration
    python -m cgjax.main --config=configs/sprites.py:<row>[,<size>]  one row of the paper's table

Rows are listed in ROWS below; sizes are default (a laptop), smoke, fast (200 epochs) and paper
(2000 epochs, the published scale). `python -m cgjax.main --list` prints times and numbers too.
"""

from cgjax.config import SIZES, base, split_variant
from cgjax.experiments.sprites.sets import SUPPORTS
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

TIMES = {
    "default": "up to 5 minutes on two CPU cores",
    "smoke": "about a minute, mostly compiling",
    "fast": "2 minutes for 3 seeds on one H200 (monolithic 4)",
    "paper": "6 minutes per seed on one H200 (monolithic 11), from the measured step",
}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, support, kinds, changes = ROWS[row]
    config = base("sprites")
    config.row, config.size = row, size
    declare(config)
    config.data.update(SUPPORTS[support])
    config.model.kinds = kinds
    config.update_from_flattened_dict(changes)
    {"default": laptop, "smoke": smoke, "fast": fast, "paper": paper}[size](config)
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
                "component": {"hidden": 256, "channels": 32},
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
        config.optim.lr, config.optim.lr_final, config.optim.weight_decay = 1e-3, 1e-5, 1e-5


def laptop(config):
    """Minutes on two CPU cores: 12,800 scenes, batch 32, 1,200 steps, cosine over the run."""
    config.data.update({"n_train": 12_800, "batch": 32})
    config.train.update({"steps": 1200, "steps_per_call": 20, "log_every": 10})
    config.eval.update({"every": 400, "n": 2000, "n_grid": 1156})
    config.checkpoint.every = 200


def smoke(config):
    """Seconds: a tiny network, the whole path."""
    config.data.update({"n_train": 40, "batch": 16})
    config.model.component.update({"hidden": 16, "channels": 4})
    config.model.monolith.update({"hidden": 16, "channels": 4})
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


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        number = PUBLISHED["sprites"].get(name, {}).get("r2_all")
        yield {
            "name": name,
            "doc": doc,
            "times": "; ".join(f"{size}: {TIMES[size]}" for size in SIZES),
            "expect": f"paper's R2 all {number['mean']:.4f}"
            if number
            else "not in the paper's table",
        }
