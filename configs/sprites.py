"""Sprites: compositional and monolithic renderers (Wiedemer et al. 2023, arXiv 2307.05596).

    python -m cgjax.main --config=configs/sprites.py                 the demonstration
    python -m cgjax.main --config=configs/sprites.py:<row>[,<size>]  one row of the paper's table

Rows are listed in ROWS and, beyond the paper, in BEYOND and UNSUPERVISED below; sizes are default
(a laptop), smoke, fast (200 epochs; 50 beyond the paper) and paper (2000 epochs, the published
scale). `python -m cgjax.main --list` prints times and numbers too.
"""

from cgjax.config import split_variant
from cgjax.config.declare import (
    base,
    declare,
    declare_schedule,
    declare_training,
    key,
    keys,
    leaves,
    names_in,
    undeclare,
)
from cgjax.experiments.sprites.options import (
    EIGHT,
    PLANES_BESIDE_GAPS,
    SUPPORT_KEYS,
    SUPPORTS,
    is_gap,
    is_plane,
    needed,
    orthogonal_planes,
)
from cgjax.published import PUBLISHED

COMPOSITIONS = names_in("experiments.sprites.compositions", "COMPOSITIONS")
DECODERS = names_in("experiments.sprites.models", "DECODERS")
DTYPES = names_in("experiments.sprites.models", "DTYPES")
KINDS = names_in("experiments.sprites.models", "KINDS")
LOSSES = names_in("experiments.sprites.models", "LOSSES")
PRODUCTS = names_in("experiments.sprites.models", "PRODUCTS")

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

# Compositions of the data, and those of trained models: the step itself has no gradient.
DATA_C = {name: f"occlude_{name}" for name in ("step", "sigmoid", "sigmoid_a10", "hardsigmoid")}
MODEL_C = {**DATA_C, "step": "occlude_sigmoid_ste"}

# Beyond the paper, in the same form. One seed; error by region and component recovery reported.
BEYOND = {
    # Matched and mismatched C. (Of true sprites, alpha and step make the same images:
    # orthogonal_rgba.)
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
    # C is learned, or changes during training.
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
    # Supports between sufficient and insufficient. The widest gap contains the published plane at
    # x = 0.5, which would remove a plane of the back sprite: here no gap contains a plane.
    **{
        f"gap_{wide}": (
            f"The gap, {wide} wide; all planes outside it",
            "orthogonal_gap",
            ("compositional",),
            {"data.gaps": ((0, 0.05, round(0.05 + wide, 2)),), "data.planes": PLANES_BESIDE_GAPS},
        )
        for wide in (0.1, 0.2, 0.4, 0.6, 0.8)
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
    # Statistics or identifiability? The same number of steps, more or fewer scenes.
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

# Images without latents: autoencoders with slots, all supports in one program. row: (what it shows,
# changes)
UNSUPERVISED = {
    "unsupervised_conv": (
        "No latents: slots of a convolutional autoencoder, by support, with consistency",
        {},
    ),
    "unsupervised_attention": (
        "No latents: the same with slot attention",
        # At 2e-3 the loss stays at its start.
        {
            "model.encoder": "attention",
            "model.hidden": 64,
            "model.kinds": ("slots",),
            "optim.lr": 4e-4,
        },
    ),
    "unsupervised_shared": (
        "No latents: the same with one decoder for both slots, and opacities",
        {"model.shared": True, "model.composition": "alpha_sigmoid"},
    ),
}
# Changes of single rows at default size: a smaller encoder leaves its first plateau in time.
DEFAULT = {
    "unsupervised_attention": {
        "data.supports": ("random", "diagonal"),
        "model.hidden": 32,
        "train.steps": 3000,
        "optim.lr": 1e-3,
    },
}

TIMES = {
    "default": "1 to 2 minutes on two CPU cores",
    "smoke": "half a minute, mostly compiling",
    "fast": "2 to 6 minutes for 3 seeds on one H200",
    "paper": "3 minutes a seed, five at once on one H200 (monolithic 9, from its measured step)",
}
BEYOND_TIMES = {**TIMES, "fast": "50 epochs: a minute for one seed on one H200 (up to 3)"}
UNSUPERVISED_TIMES = {
    "default": "150 s of CPU time; 190 s (attention)",
    "smoke": "half a minute, mostly compiling",
    "fast": "8 supports x 5 seeds: 5 minutes (attention) to 9 (conv, host cores busy) on one H200",
    "paper": "as fast",
}


# Keys of every row, then keys that only some choices read (see sprites.options).
KEYS = {
    "data.seed": key(0, "draws the training and evaluation scenes", low=0),
    "data.n_train": key(0, "training scenes", low=1),
    "data.batch": key(64, "scenes of one step", low=1),
    "data.n_slots": key(2, "sprites of a scene", low=2, high=8),
    "data.image_size": key(64, "pixels along each side", choices=(16, 32, 64, 128)),
    "data.support": key("random", "support of the training latents", choices=tuple(SUPPORT_KEYS)),
    # The paper's images have hard occlusion; its model has soft occlusion.
    "data.composition": key("occlude_step", "C of the images", choices=COMPOSITIONS),
    "model.kinds": key(("compositional",), "models to train", choices=KINDS, distinct=True),
    "model.dtype": key("float32", "of activations; parameters are float32", choices=DTYPES),
    "model.products": key("default", "precision: the device's, or float32", choices=PRODUCTS),
    "optim.lr": key(1e-3, "first learning rate", above=0, is_traced=True),
    "optim.lr_final": key(1e-5, "last learning rate, along a cosine", low=0, is_traced=True),
    "optim.lr_every": key(1, "steps at a constant rate: 1, or an epoch's length", low=1),
    "optim.weight_decay": key(1e-5, "of AdamW, on every parameter", low=0, is_traced=True),
    "optim.b2": key(0.999, "AdamW's decay of squared gradients", low=0, high=0.9999),
    "optim.loss": key("mse", "training loss", choices=LOSSES),
    "eval.n": key(0, "scenes of each evaluation set", low=1),
    "eval.batch": key(1000, "scenes over which one R2 is taken; divides eval.n", low=2),
    "eval.n_grid": key(0, "scenes of the error figures", low=1),
    "eval.n_traversal": key(5, "steps along each side of a traversal", low=2),
    "eval.regions": key(False, "error by region: overlap, outline, gap"),
    "eval.curve": key(False, "draw error outside against error inside, along training"),
}
OPTIONAL = {
    "data.planes": key((), "(slot, coordinates of the others): planes of the support",
                       test=is_plane, wanted="pairs (slot, coordinates)"),
    "data.gaps": key((), "(latent, from, to): bands missing from the support",
                     test=is_gap, wanted="triples (latent, from, to) in [0, 1]"),
    "data.delta": key(0.1, "half width of the diagonal band", above=0, high=1),
    "data.distribution": key("uniform", "of latents on a plane", choices=("uniform", "normal")),
    "data.mean": key(0.5, "of normal latents"),
    "data.std": key(1.0, "of normal latents", above=0),
    "model.composition": key("occlude_sigmoid", "C of the model",
                             choices=names_in("experiments.sprites.models", "NAMES")),
    "model.decoder": key("upsample", "of components", choices=DECODERS),
    "model.component.hidden": key(256, "width of a component's dense layers", low=1),
    "model.component.channels": key(32, "channels of a component's convolutions", low=1),
    "model.broadcast.hidden": key(48, "width of the pixel-by-pixel decoder", low=1),
    "model.broadcast.n_layers": key(5, "its layers", low=2),
    "model.monolith.hidden": key(320, "width of the monolithic network's dense layers", low=1),
    "model.monolith.channels": key(64, "channels of its convolutions", low=1),
    "model.alpha_init": key("reference", "bias of alpha; half: 0.5", choices=("reference", "half")),
    "model.anneal": key((1.0, 10.0), "first and last sharpness of C", above=0, length=2),
    "model.form": key("auto", "how upsampling and convolution are computed",
                      choices=names_in("nets.decoders", "FORMS")),
    "optim.loss_weight": key(1.0, "of the loss's second term", low=0, is_traced=True),
    "eval.n_columns": key(15, "scenes of the motivation figure", low=1),
    "eval.recovery": key(False, "how well each component alone matches its sprite"),
}  # fmt: skip

# Keys of the rows of UNSUPERVISED, beside those of `KEYS` that they share.
SHARED_KEYS = (
    "data.seed",
    "data.n_train",
    "data.batch",
    "data.composition",
    "optim.lr",
    "optim.lr_final",
    "eval.n",
)
UNSUPERVISED_KEYS = {
    "data.image_size": key(16, "pixels along each side", choices=(16, 32, 64)),
    "data.supports": key(EIGHT, "supports of the training images", choices=tuple(SUPPORTS),
                         distinct=True),
    "data.n_samples": key(200, "samples of P of the audit", low=8),
    "data.n_asked": key(200, "samples of Q of the audit", low=2),
    "data.n_pixels": key(4, "pixels along each side of the audit's grid", low=1),
    "data.lengths": key((0.7, 1.0), "over which components may be smooth, ascending", above=0),
    "data.noise": key(0.01, "relative error with which the audit knows f on P", above=0, high=1),
    "model.kinds": key(("slots", "monolithic"), "autoencoders to train; slots: a decoder each",
                       choices=names_in("experiments.sprites.unsupervised", "KINDS"),
                       distinct=True),
    "model.encoder": key("conv", "convolutions with a head per slot, or slot attention",
                         choices=names_in("nets.slots", "ENCODERS")),
    "model.composition": key("occlude_sigmoid", "C of the model", choices=COMPOSITIONS),
    "model.shared": key(False, "one decoder for all slots"),
    "model.slot_size": key(6, "numbers of a slot; the first two move its drawing", low=3),
    "model.channels": key(16, "channels of the encoder's first convolution", low=1),
    "model.hidden": key(128, "width of the encoder's dense layer", low=1),
    "model.drawing": key(32, "width of a decoder", low=1),
    "model.window": key(7, "pixels along each side of what a slot draws", low=1),
    "optim.consistency": key(0.3, "weight of consistency in the second arm", above=0),
    "optim.consistency_from": key(0.3, "share of training before it sets in", low=0, high=1),
    "optim.chunk": key(0, "recombined scenes that are decoded at a time; 0: all", low=0),
    "eval.batch": key(500, "scenes that are scored at a time; divides eval.n", low=1),
}  # fmt: skip


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    rows = ROWS | BEYOND
    row, size = split_variant(arg, rows | UNSUPERVISED)
    if row in UNSUPERVISED:
        return without_latents(row, size)
    _, support, kinds, changes = rows[row]
    config = base("sprites")
    config.row, config.size = row, size
    declare_training(config)
    declare(config, KEYS)
    declare_schedule(config)
    chosen = {f"data.{name}": value for name, value in SUPPORTS[support].items()}
    declare_choices(config, chosen | {"model.kinds": kinds, **changes})
    resize(config)
    return config


def without_latents(row, size):
    """The config of a row of UNSUPERVISED."""
    config = base("sprites")
    config.row, config.size = row, size
    declare_training(config)
    declare(config, {name: KEYS[name] for name in SHARED_KEYS} | UNSUPERVISED_KEYS)
    declare_schedule(config)
    config.optim.update({"lr": 2e-3, "lr_final": 2e-5})
    config.update_from_flattened_dict(UNSUPERVISED[row][1])
    if size == "smoke":
        config.data.update({"n_train": 40, "batch": 8, "supports": ("random", "orthogonal")})
        config.data.update({"n_samples": 24, "n_asked": 12, "n_pixels": 2, "lengths": (1.0,)})
        config.model.update({"channels": 4, "hidden": 16, "drawing": 8})
        config.train.update({"steps": 6, "steps_per_call": 3, "log_every": 1})
        config.optim.chunk = 4
        config.eval.update({"n": 40, "batch": 20})
        return config
    config.train.update({"steps_per_call": 50, "log_every": 50})
    config.eval.n = 1000
    if size == "default":
        config.data.update({"n_train": 10_000, "batch": 32, "n_samples": 100})
        config.data.supports = ("random", "orthogonal", "diagonal")
        config.train.steps = 1500
        config.update_from_flattened_dict(DEFAULT.get(row, {}))
    else:  # no paper has these rows: the size `paper` is that of `fast`
        config.data.update({"n_train": 50_000, "batch": 128, "n_samples": 300})
        config.train.update({"steps": 12_000, "seeds": (0, 1, 2, 3, 4)})
    config.eval.every = config.checkpoint.every = config.train.steps // 2
    return config


# Keys that decide which other keys exist: their overrides are applied first, then `adapt`.
CHOICES = (
    "data.support",
    "data.distribution",
    "data.n_slots",
    "model.kinds",
    "model.composition",
    "model.decoder",
    "optim.loss",
)


def adapt(config):
    """After an override of a choice: declares only the keys that it reads, at the row's size."""
    if config.row in UNSUPERVISED:
        return  # all of its keys exist, whatever the choices
    chosen = {name: value for name, value in leaves(config) if name in CHOICES}
    named = SUPPORTS.get(config.data.support, {})
    undeclare(config, OPTIONAL.keys() - needed(config))
    declare_choices(config, {f"data.{name}": value for name, value in named.items()} | chosen)
    undeclare(config, OPTIONAL.keys() - needed(config))
    resize(config)


def declare_choices(config, chosen):
    """Declares the keys that the row's choices read, and sets the choices."""
    config.update_from_flattened_dict({k: v for k, v in chosen.items() if k in KEYS})
    while missing := needed(config) - set(keys(config)):  # a choice may need another choice
        declare(config, {name: OPTIONAL[name] for name in missing})
        values = {name: value for name, value in chosen.items() if name in missing}
        config.update_from_flattened_dict(values)


def resize(config):
    """Sets the row's size, and the reports of all rows beyond the paper."""
    sizes = {"default": laptop, "smoke": smoke, "fast": fast, "paper": paper}
    (sizes if config.row in ROWS else {**sizes, "fast": short})[config.size](config)
    if config.row in BEYOND:
        beyond(config, BEYOND[config.row][-1])


def widths(config, sizes):
    """Sets the sizes of the networks that the row has."""
    for name, changes in sizes.items():
        if name in config.model:
            config.model[name].update(changes)


def laptop(config):
    """Minutes on two CPU cores: 12,800 scenes, batch 16, 1,000 steps, cosine over the run.

    Twice the published learning rate, so that so few scenes suffice (r2_all above 0.7).
    """
    config.data.update({"n_train": 12_800, "batch": 16})
    config.optim.lr = 2e-3
    # 32 and 4 take half the time of the defaults, 48 and 5.
    widths(config, {"broadcast": {"hidden": 32, "n_layers": 4}})
    config.train.update({"steps": 1000, "steps_per_call": 20, "log_every": 10})
    config.eval.update({"every": 500, "n": 2000, "n_grid": 1156})
    config.checkpoint.every = 200


def smoke(config):
    """Seconds: a tiny network, the whole path."""
    config.data.update({"n_train": 40, "batch": 16})
    small = {"hidden": 16, "channels": 4}
    widths(config, {"component": small, "monolith": small, "broadcast": {"hidden": 8}})
    config.train.update({"steps": 12, "steps_per_call": 3, "log_every": 1})
    config.eval.update({"every": 6, "n": 20, "batch": 10, "n_grid": 20, "n_traversal": 2})
    if "n_columns" in config.eval:
        config.eval.n_columns = 3
    config.checkpoint.every = 3


def paper(config, epochs=2000):
    """The published scale: 100,000 scenes, batch 512; the learning rate changes once per epoch."""
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
    """Reports of all rows beyond the paper; the row's own number of scenes, except in `smoke`."""
    config.eval.regions = True
    if "recovery" in config.eval:
        config.eval.recovery = True
    if config.eval.curve:  # once per epoch; more often in a run of only three epochs
        every = {"default": 100, "smoke": 3, "fast": 196, "paper": 196}
        config.eval.every = every[config.size]
    if config.size != "smoke":
        config.data.n_train = changes.get("data.n_train", config.data.n_train)


def describe_rows():
    """One line per row for `--list`: the paper's, then those beyond it."""
    number = {name: metrics["r2_all"]["mean"] for name, metrics in PUBLISHED["sprites"].items()}
    expect = {name: f"r2_all {value:.4f}" for name, value in number.items()}
    both = {kind: number[f"orthogonal_{kind}"] for kind in ("compositional", "monolithic")}
    expect["demo"] = ", ".join(f"{kind}/r2_all {value:.4f}" for kind, value in both.items())
    for name, (doc, *_) in (ROWS | BEYOND).items():
        times = TIMES if name in ROWS else BEYOND_TIMES
        yield {"name": name, "doc": doc, "times": times, "expect": expect.get(name, "")}
    for name, (doc, _) in UNSUPERVISED.items():
        yield {"name": name, "doc": doc, "times": UNSUPERVISED_TIMES, "expect": ""}
