"""Vectors: latents from stacked parts, the simulation beside Wiedemer et al. 2023 (2307.05596).

    python -m cgjax.main --config=configs/vectors.py                 the demonstration
    python -m cgjax.main --config=configs/vectors.py:<row>[,<size>]  one model on one support

Rows are listed in ROWS below; sizes are default, smoke, fast (50 rounds) and paper (500 rounds of
2048 samples, training sets of 1 to 4096). All seeds, supports and sizes of a model train at once.
Every seed draws a generator of its own: scores differ more between generators than between
initialisations, and the published curves show one generator.
"""

from cgjax.config import SIZES, base, split_variant
from cgjax.published import PUBLISHED

_SUPPORTS = ("random", "diagonal", "orthogonal")
_SEEN = {
    "random": "every combination is seen",
    "diagonal": "all parts share their latents",
    "orthogonal": "one part at a time is non-zero",
}
_REGULARISED = {"optim.regulariser": "block_contrast"}
# The reference computed the signed contrast without a graph, so that it never trained anything.
# With its gradient it has no lower bound, and every tanh saturates within a thousand steps.
_HESSIAN = {
    "model.activation": "tanh",
    "model.n_layers": 3,
    "data.batch": 64,
    "optim.regulariser": "signed_contrast",
    "optim.regulariser_gradient": False,
    "eval.measures": ("signed_contrast", "block_contrast", "hessian_offblock", "hessian_l0"),
}

# row: (what it shows, model kinds, supports, changes)
ROWS = {
    "demo": (
        "Both models on three supports: only the one with a network per part generalises",
        ("mlp", "compositional"),
        _SUPPORTS,
        {},
    ),
    **{f"mlp_{name}": (f"One network; {_SEEN[name]}", ("mlp",), (name,), {}) for name in _SUPPORTS},
    **{
        f"compositional_{name}": (
            f"A network per part; {_SEEN[name]}",
            ("compositional",),
            (name,),
            {},
        )
        for name in _SUPPORTS
    },
    **{
        f"regularised_{name}": (
            f"One network, block contrast in the loss; {_SEEN[name]}",
            ("mlp",),
            (name,),
            _REGULARISED,
        )
        for name in _SUPPORTS
    },
    **{
        f"hessian_{name}": (
            f"One tanh network of depth 3, its Hessian measured; {_SEEN[name]}",
            ("mlp",),
            (name,),
            _HESSIAN,
        )
        for name in _SUPPORTS
    },
}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, kinds, supports, changes = ROWS[row]
    config = base("vectors")
    config.row, config.size = row, size
    declare(config)
    config.model.kinds, config.data.supports = kinds, supports
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
                "n_parts": 4,
                "n_latents": 2,  # of each part
                "part_size": 10,  # numbers observed of each part
                "hidden": 50,  # of the generator
                "n_draws": 7500,  # of which each weight matrix is the best one
                "rule": "reference",  # what "best" means; or "conditioned"
                "generators": "per_seed",  # or "shared"
                "supports": ("random",),
                "sizes": (4096,),  # of training sets: the first rows of n_train
                "batch": 4,
            }
        )
        # hidden: of one network; those of the parts share it equally
        model.update({"kinds": ("mlp",), "hidden": 120, "n_layers": 2, "activation": "leaky_relu"})
        optim.update(
            {
                "momentum": 0.9,
                "restart_momentum": True,  # every round, as in the reference
                "regulariser": "none",
                "regulariser_weight": 0.5,
                "regulariser_gradient": True,
            }
        )
        config.train.round = 512  # steps, after which the momentum is forgotten
        # n test samples; the measures are taken on the first n_measured of them
        evaluation.update({"n": 1000, "n_measured": 64, "measures": ("block_contrast",)})
        config.optim.lr = 1e-3


def laptop(config):
    """120 rounds, three training-set sizes, two seeds."""
    rounds(config, 120)
    config.data.update({"n_train": 4096, "sizes": (16, 256, 4096)})
    config.train.seeds = (0, 1)


def smoke(config):
    """Seconds: a tiny network, the whole path."""
    config.data.update({"n_train": 16, "sizes": (4, 16), "n_draws": 20})
    config.model.hidden = 16
    config.train.update({"steps": 24, "steps_per_call": 8, "log_every": 4, "round": 8})
    config.eval.update({"every": 8, "n": 50, "n_measured": 8})
    config.checkpoint.every = 8


def rounds(config, n):
    """n rounds of 2048 samples each, drawn with replacement; 20 evaluations."""
    config.train.round = 2048 // config.data.batch
    steps = n * config.train.round
    config.train.update({"steps": steps, "steps_per_call": steps // 20, "log_every": steps // 20})
    config.eval.every = config.checkpoint.every = steps // 20


def paper(config, n=500):
    """The published scale: 500 rounds, training sets of 1, 2, 4 ... 4096; three seeds."""
    rounds(config, n)
    config.data.update({"n_train": 4096, "sizes": tuple(2**i for i in range(13))})
    config.train.seeds = (0, 1, 2)


def fast(config):
    """A tenth of the published length."""
    paper(config, 50)


TIMES = {
    "default": "under a minute on two CPU cores, the demonstration 2",
    "smoke": "seconds, mostly compiling",
    "fast": "under a minute on two CPU cores (regularised 2 minutes, demonstration 4)",
    "paper": "6 minutes on two CPU cores (regularised 20, demonstration 40)",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        number = PUBLISHED["vectors"].get(name, {}).get("r2_all")
        yield {
            "name": name,
            "doc": doc,
            "times": "; ".join(f"{size}: {TIMES[size]}" for size in SIZES),
            "expect": f"R2 all about {number['mean']:.2f} in the authors' plot"
            if number
            else "not in the authors' plots",
        }
