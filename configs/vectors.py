"""Vectors: latents from stacked parts; accompanies Wiedemer et al. 2023 (arXiv 2307.05596).

    python -m cgjax.main --config=configs/vectors.py                 the demonstration
    python -m cgjax.main --config=configs/vectors.py:<row>[,<size>]  one model on one support

Rows are listed in ROWS below; sizes are default, smoke, fast (50 rounds) and paper (500 rounds of
2048 samples, training sets of 1 to 4096). All seeds, supports and sizes of a model train at once.
Every seed draws its own generator: scores differ more between generators than between
initialisations, and the published curves show one generator.
"""

from cgjax.config import split_variant
from cgjax.config.declare import base, declare, declare_training, key, keys, names_in, undeclare
from cgjax.published import PUBLISHED

_SUPPORTS = names_in("experiments.vectors.run", "SUPPORTS")

_SEEN = {
    "random": "every combination is seen",
    "diagonal": "all parts share their latents",
    "orthogonal": "one part at a time is non-zero",
}
_REGULARISED = {"optim.regulariser": "block_contrast"}
# The reference code adds the signed contrast to the loss but computes it without a gradient, so it
# does not train the network. Here it is only measured. As a regulariser it has no lower bound, and
# every tanh saturates within a thousand steps.
_HESSIAN = {
    "model.activation": "tanh",
    "model.n_layers": 3,
    "data.batch": 64,
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


KEYS = {
    "data.seed": key(0, "draws generators and samples", low=0),
    "data.n_parts": key(4, "stacked parts", low=1),
    "data.n_latents": key(2, "latents of each part", low=1),
    "data.part_size": key(10, "numbers observed of each part", low=1),
    "data.hidden": key(50, "width of the generator", low=1),
    "data.n_draws": key(7500, "draws, of which each weight matrix is the best", low=1),
    "data.rule": key("reference", 'what "best" means',
                     choices=names_in("experiments.vectors.run", "RULES")),
    "data.generators": key("per_seed", "one per seed, or one for all",
                           choices=names_in("experiments.vectors.run", "GENERATORS")),
    "data.supports": key(("random",), "supports of training latents", choices=_SUPPORTS,
                         distinct=True),
    "data.sizes": key((4096,), "of training sets: the first rows of n_train", low=1),
    "data.n_train": key(0, "samples of each support", low=1),
    "data.batch": key(4, "samples of one step", low=1),
    "model.kinds": key(("mlp",), "models to train", distinct=True,
                       choices=names_in("experiments.vectors.run", "KINDS")),
    "model.hidden": key(120, "width of one network; networks per part divide it equally", low=1),
    "model.n_layers": key(2, "layers of each network", low=2),
    "model.activation": key("leaky_relu", "after every layer",
                            choices=names_in("nets.mlp", "ACTIVATIONS")),
    "optim.lr": key(1e-3, "learning rate", above=0, is_traced=True),
    "optim.momentum": key(0.9, "of SGD", low=0, high=1, is_traced=True),
    "optim.regulariser": key("none", "added to the loss",
                             choices=names_in("analysis.contrasts", "REGULARISERS")),
    "train.round": key(512, "steps after which the momentum is reset; 0: never", low=0),
    "eval.n": key(1000, "test samples", low=2),
    "eval.measures": key(("block_contrast",), "of the networks", distinct=True, may_be_empty=True,
                         choices=names_in("analysis.contrasts", "MEASURES")[1:]),
}  # fmt: skip
REGULARISED_KEYS = {
    "optim.regulariser_weight": key(0.5, "of the regulariser", low=0, is_traced=True)
}
MEASURED_KEYS = {"eval.n_measured": key(64, "test samples of the measures", low=1)}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, kinds, supports, changes = ROWS[row]
    config = base("vectors")
    config.row, config.size = row, size
    declare_training(config)
    declare(config, KEYS)
    config.optim.regulariser = changes.get("optim.regulariser", "none")
    adapt(config)
    config.model.kinds, config.data.supports = kinds, supports
    config.update_from_flattened_dict(changes)
    {"default": laptop, "smoke": smoke, "fast": fast, "paper": paper}[size](config)
    return config


CHOICES = ("optim.regulariser", "eval.measures")


def adapt(config):
    """Declares the weight of a regulariser and the samples of measures, if the row has them."""
    for is_read, names in (
        (config.optim.regulariser != "none", REGULARISED_KEYS),
        (bool(config.eval.measures), MEASURED_KEYS),
    ):
        if is_read and not names.keys() <= set(keys(config)):
            declare(config, names)
        elif not is_read:
            undeclare(config, names)
    if config.size == "smoke" and config.eval.measures:
        config.eval.n_measured = 8


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
    config.eval.update({"every": 8, "n": 50})
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
    "default": "a minute on two CPU cores (demonstration 2)",
    "smoke": "seconds, mostly compiling",
    "fast": "a minute (regularised 2, demonstration 4)",
    "paper": "1 to 3 minutes for 20 seeds on one H200",
}


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        number = PUBLISHED["vectors"].get(name, {}).get("r2_all")
        expect = f"r2_all about {number['mean']:.2f}" if number else ""
        yield {"name": name, "doc": doc, "times": TIMES, "expect": expect}
