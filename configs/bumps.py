"""Bumps: why decoders superpose instead of composing, and what makes them compose (Liang et al.).

    python -m cgjax.main --config=configs/bumps.py                 failure and remedy side by side
    python -m cgjax.main --config=configs/bumps.py:<row>[,<size>]  one figure or further study

ROWS below lists the rows. Sizes are default (images of 16 pixels on a laptop; 28 for the
demonstration), smoke, fast (for one accelerator; a tenth of the published length, or up to the
criterion) and paper. If `optim.stop` is set, networks train until their ID error is that share of a
blank image's error: an OOD error means nothing before the ID error is small.
"""

from cgjax.config import split_variant
from cgjax.config.declare import (
    base,
    declare,
    declare_parts,
    declare_training,
    names_in,
    nested,
    remove,
    undeclare,
)
from cgjax.experiments.bumps import keys
from cgjax.experiments.bumps.keys import LIMITS, limit, resize
from cgjax.published import PUBLISHED

PENALTIES = names_in("experiments.bumps.training", "PENALTIES")
CRITERION = {"optim.stop": 0.05}
ONE_HOT = {"data.encoding": "onehot", "data.polarity": "positive"}
CODES = {
    "onehot": {"data.encoding": "onehot"},
    "bump": {"data.encoding": "bump"},
    # The paper's networks on the raw ramp are half as wide.
    "ramp": {"data.encoding": "ramp", "model.mlp.width": 128},
}
DRAWN = {"data.n_samples": 2000, **CRITERION, "train.steps": 8000}
MLP, CNN = {"model.name": "mlp"}, {"model.name": "cnn"}
# The release's start of training, and no ID criterion.
RELEASED = {"model.starts_at": "zero", "optim.stop": 0.0}
STRIPES = {"data.stripes": "null_stripe"}


def _weights(name, *weights):
    """Penalties of one kind: one dict per weight."""
    return [{name: weight} for weight in weights]


def _zipped(penalties):
    """The reg.* columns of a list of penalties, with "no penalty" first."""
    every = [{}, *penalties]
    return {f"reg.{name}": tuple(one.get(name, 0.0) for one in every) for name in PENALTIES}


PUBLISHED_PENALTY = {"lam_entropy": 0.1, "vec_variance": 0.01}
REMEDY, FLATNESS = _zipped([PUBLISHED_PENALTY]), _zipped(_weights("null_axis", 1e-3))
LONG = {
    **CNN, "model.cnn.hidden": 256, "model.cnn.n_hidden": 10, "data.regions": ("donut_10_18",),
    "data.n_samples": 1000, "optim.weight_decay": 1e-3, "train.steps": 8000,
}  # fmt: skip
PIXELS = {
    "model.name": "pixel_mlp", **ONE_HOT, "data.regions": ("corner_14",),
    "data.pixel_grid": "stretched", "optim.weight_decay": 1e-4, "train.steps": 38_000,
}  # fmt: skip
REMEDY_A = {
    "model.name": "embed", **ONE_HOT, "data.n": 32, "data.sigmas": (1.5,),
    "data.regions": ("corner_12",), "optim.weight_decay": 1e-4, "train.steps": 20_000, **REMEDY,
}  # fmt: skip
EVERYWHERE = ("donut_6_22", "corner_14", "cross_11_17")
CANVAS = {"data.margin": 6, "data.copies": (1,)}
# 200 epochs of 25 steps for 800 views; the learning rate is adjusted after each epoch. With ten
# digits an epoch has 28 steps for 885 views; the rate is adjusted after every 25 steps as well.
TURNED = {"train.steps": 5000, "train.steps_per_call": 25, "train.log_every": 25, "eval.every": 25}
DIGITS = {
    **TURNED, "data.digits": tuple(range(10)), "data.n_angles": 100, "data.gap": (140.0, 200.0),
    "train.steps": 5600,
}  # fmt: skip
TURNING_CNN, EQUIVARIANT = {"model.name": "rotation_cnn"}, {"model.name": "equivariant"}


ABLATION = _zipped([
    *_weights("lam_entropy", 0.01, 0.1, 1.0), *_weights("vec_variance", 1e-3, 0.01, 0.1),
    PUBLISHED_PENALTY, *_weights("null_axis", 1e-4, 1e-3, 0.01),
])  # fmt: skip
NUCLEAR = _zipped(_weights("nuclear", 1e-6, 1e-5, 1e-4))
FIELDS = _zipped(_weights("null_axis", 1e-5, 1e-3, 0.01) + _weights("nuclear", 3e-7, 3e-6))
RANKS = {f"rank_{rank}": {"model.embed.rank": rank} for rank in (1, 2, 4)}
# Penalties in the same units at the same weights: deviation from a stripe (along the pixel axes, or
# the factors' own), and from rank one.
MATCHED = (1e-5, 1e-4, 1e-3, 1e-2)
STRAIGHT = _weights("null_axis", *MATCHED) + _weights("rank_tail", *MATCHED)
TURNED_AXES = STRAIGHT + _weights("factor_axis", *MATCHED)
# Angles are compared at one spacing, at which the grid fits into the image at every angle.
ANGLES = {
    f"angle_{degrees:.0f}": {"data.degrees": degrees, "data.spacing": 0.7}
    for degrees in (0.0, 22.5, 45.0)
}
# Axes from twelve starts: kept (control: a basis drawn at random), or learned.
KEPT, LEARNED = (
    [{name: 1e-3, "start": 15.0 * start} for start in range(12)]
    for name in ("fixed_axis", "learned_axis")
)
KNOWN = _weights("null_axis", 1e-3) + _weights("factor_axis", 1e-3)
# The embedding network is ten times slower: the weights that were best with five seeds.
EMBEDDED = _zipped([
    *_weights("lam_entropy", 0.1), *_weights("vec_variance", 1e-3), PUBLISHED_PENALTY,
    *_weights("null_axis", 1e-4, 1e-3), *_weights("rank_tail", 1e-4, 1e-3),
])  # fmt: skip
EMBEDDED_45 = _zipped(
    _weights("null_axis", 1e-3) + _weights("rank_tail", 1e-3) + _weights("factor_axis", 1e-4, 1e-3)
)


# row: (what it shows, study, changes). "parts" are trained one after another, each with its own
# keys and in a sub-folder of its name. Sizes below `paper` reduce a row, see `resize`.
ROWS = {
    "demo": (
        "An MLP superposes in the hole; fields that must be flat compose there",
        "decoders",
        {
            **ONE_HOT, "train.steps": 2400, "eval.every": 200, "eval.accounts": True,
            "parts": {
                "mlp": {**MLP, "optim.lr": 2e-3, "train.steps": 1200},
                "product": {"model.name": "product", "optim.lr": 0.01, "optim.weight_decay": 0.0,
                            **FLATNESS},
            },
        },
    ),
    "B1": (
        "Failure: MLP and CNN on three codes fit the frame, not the hole",
        "decoders",
        {
            **DRAWN, "eval.accounts": True,
            "parts": {
                f"{net['model.name']}_{code}": {**net, **changes}
                for net in (MLP, CNN) for code, changes in CODES.items()
            },
        },
    ),
    "B2": (
        "No depth helps: MLP of 3 to 7 layers, CNN of 2 to 10",
        "decoders",
        {
            **DRAWN,
            "parts": {f"mlp_{n}": {**MLP, "model.mlp.n_hidden": n} for n in (3, 4, 5, 6, 7)}
            | {f"cnn_{n}": {**CNN, "model.cnn.n_hidden": n} for n in range(2, 11)},
        },
    ),
    "B3": (
        "Wider bumps in the code lower the OOD error",
        "decoders",
        {
            **LONG,
            "parts": {f"width_{m}": {"data.width_multiplier": float(m)} for m in range(1, 12, 2)},
        },
    ),
    "B4": (
        "Factorization by layer, at the published length and once ID is learned",
        "decoders",
        {
            **MLP, **DRAWN, "eval.layers": True,
            "parts": {f"depth_{n}": {"model.mlp.n_hidden": n} for n in (3, 5, 7)}
            | {f"depth_{n}_published": {"model.mlp.n_hidden": n, "train.steps": 1200,
                                        "optim.stop": 0.0} for n in (3, 5, 7)},
        },
    ),
    "B5": (
        "Kernels beside networks: binary, factorised, radial, additive, the networks' own",
        "decoders",
        {
            **DRAWN, "data.n_samples": 1500, "eval.accounts": True, "eval.kernels": True,
            "parts": {
                "cnn": {**CNN, **CODES["ramp"]},
                "mlp": {**MLP, **ONE_HOT, "data.n_samples": 0, "eval.tangent": True},
                # 15 epochs of 47 steps.
                "cnn_published": {**CNN, **CODES["ramp"], **RELEASED, "train.steps": 700},
            },
        },
    ),
    "B6": (
        "Superposition: are images in the hole sums of training images?",
        "decoders",
        {
            # 20 epochs of 625 steps.
            **CNN, "data.n_samples": 20_000, "train.steps": 12_500, **RELEASED,
            "eval.kernels": True, "eval.accounts": True,
            "parts": {"ramp": CODES["ramp"], "bump": CODES["bump"]},
        },
    ),
    "B7": (
        "A digit at all angles but a gap: rotated through it, or cross-faded",
        "turning",
        {
            **TURNED,
            "parts": {"cnn": TURNING_CNN, "pixel_mlp": {"model.name": "pixel_mlp"},
                      "equivariant": EQUIVARIANT},
        },
    ),
    "B7_digits": (
        "Ten digits turned, a gap in the angles of one: unnamed as published, and named",
        "turning",
        {
            **DIGITS,
            "parts": {"unnamed": {**TURNING_CNN, "data.name_digit": False},
                      "named": {**TURNING_CNN, "data.name_digit": True},
                      "named_equivariant": {**EQUIVARIANT, "data.name_digit": True}},
        },
    ),
    "B8": (
        "Remedy A: embeddings regularised to stripes compose, free ones do not",
        "decoders",
        {**REMEDY_A, "eval.accounts": True},
    ),
    "B9": (
        "Remedy B: stripes among the training images",
        "decoders",
        {
            **CNN, **DRAWN, "eval.accounts": True,
            "parts": {
                "null_stripe": {**STRIPES, "data.copies": (0, 1)},
                **{kind: {"data.stripes": kind, **CANVAS}
                   for kind in ("canvas_stripe", "canvas_crop", "canvas_sos")},
            },
        },
    ),
    "B10": (
        "OOD error over size of image and of hole, real-valued centres",
        "continuous",
        {
            **CNN, "model.cnn.hidden": 128, "data.holes": (0.2, 0.3, 0.4, 0.5, 0.6),
            "train.steps": 400,
            "parts": {f"{code}_{n}": {"data.n": n, "data.encoding": code}
                      for code in ("bump", "ramp") for n in (24, 28, 32, 36, 40)},
        },
    ),
    "B11": (
        "The pixel-token MLP, of 2 and 4 layers, composes",
        "decoders",
        {**PIXELS, "parts": {f"pixel_{n}": {"model.pixel_mlp.depth": n} for n in (2, 4)}},
    ),
    "B11_transformer": (
        "Transformers of 2 to 5 layers on the same tokens",
        "decoders",
        {
            **DRAWN, "model.name": "transformer", "train.steps": 1200, "optim.stop": 0.0,
            "parts": {f"depth_{n}": {"model.transformer.depth": n} for n in (2, 3, 4, 5)},
        },
    ),
    "B12": (
        "The inverse task: an encoder reads the place off the image",
        "inverse",
        {
            # 20 epochs of 2000 draws, 63 steps each.
            "train.steps": 1260, "train.steps_per_call": 20, "train.log_every": 20,
            "eval.every": 420, "checkpoint.every": 420,
            "parts": {code: {"data.encoding": code} for code in ("bump", "ramp")},
        },
    ),
    "long": (
        "The long demonstration: a CNN of 256 channels and 10 layers, also between pixels",
        "decoders",
        {**LONG, "model.starts_at": "zero", "eval.centres": 50, "eval.accounts": True},
    ),
    "table": (
        "48 cells on one budget: six decoders, two remedies and both, three regions",
        "table",
        {
            **ONE_HOT, **STRIPES, "data.copies": (0, 1), "data.regions": EVERYWHERE,
            **CRITERION, "train.steps": 8000, "eval.accounts": True, "eval.words": True,
            "reg.per_size": True,
            "parts": {
                "mlp": MLP, "cnn": CNN, "pixel_mlp": {"model.name": "pixel_mlp"},
                "transformer": {"model.name": "transformer", "model.transformer.depth": 2,
                                "train.seeds": (0, 1), "train.at_once": 1},
                "embed": {"model.name": "embed", **REMEDY},
                "product": {"model.name": "product", **FLATNESS},
            },
        },
    ),
    "ablation": (
        "Which penalty makes fields compose: rank or flatness, at several strengths",
        "decoders",
        {
            **ONE_HOT, "optim.lr": 2e-3, "optim.weight_decay": 1e-4, "train.steps": 8000,
            "reg.per_size": True,
            "parts": {
                "embed": {"model.name": "embed", **ABLATION},
                "embed_nuclear": {"model.name": "embed", **NUCLEAR},
                **{name: {"model.name": "embed", **rank, **_zipped([])}
                   for name, rank in RANKS.items()},
                "product": {"model.name": "product", "optim.lr": 0.01,
                            "model.product.scales": (0.1, 0.3), **FIELDS},
                "profiles": {"model.name": "product", "optim.lr": 0.03,
                             "model.product.stripes": True, **_zipped([])},
            },
        },
    ),
    "flatness": (
        "Flat or of rank one: product fields by penalty, weight, angle of the factors' axes",
        "flatness",
        {
            **ONE_HOT, "model.name": "product", "optim.lr": 0.01, "optim.weight_decay": 1e-4,
            "train.steps": 8000, "eval.every": 100, "checkpoint.every": 4000, "reg.per_size": True,
            "parts": {
                "main": _zipped(STRAIGHT),
                **{name: {**angle, **_zipped(TURNED_AXES if angle["data.degrees"] else STRAIGHT)}
                   for name, angle in ANGLES.items()},
                "permuted": {"model.product.permuted": True, **_zipped(STRAIGHT)},
                "rank_1": {"model.product.rank": 1, **_zipped([])},
                "profiles": {"optim.lr": 0.03, "model.product.stripes": True, **_zipped([])},
            },
        },
    ),
    "flatness_embed": (
        "Flat or of rank one: the embedding network by penalty, weight and angle",
        "flatness",
        {
            **ONE_HOT, "model.name": "embed", "optim.lr": 2e-3, "optim.weight_decay": 1e-4,
            "train.steps": 5000, "eval.every": 200, "checkpoint.every": 1000, "reg.per_size": True,
            "parts": {
                "main": EMBEDDED,
                "angle_45": {**ANGLES["angle_45"], **EMBEDDED_45},
                "rank_1": {"model.embed.rank": 1, **_zipped([])},
            },
        },
    ),
    "axes": (
        "Product fields that are flat along learned axes: turned factors, sprites, characters",
        "axes",
        {
            **ONE_HOT, "model.name": "product", "optim.lr": 0.01, "optim.weight_decay": 1e-4,
            "train.steps": 4000, "eval.every": 500, "checkpoint.every": 4000, "reg.per_size": True,
            **_zipped(KNOWN + KEPT + LEARNED),
            "parts": {
                **ANGLES, "permuted": {"model.product.permuted": True},
                **{f"{content}_45": {**ANGLES["angle_45"], "data.content": content}
                   for content in ("square", "disc")},
                "characters": {"data.content": "character"},
            },
        },
    ),
    "axes_embed": (
        "The paper's embedding network, flat along learned axes: factors at 45 degrees",
        "axes",
        {
            **ONE_HOT, "model.name": "embed", "optim.lr": 2e-3, "optim.weight_decay": 1e-4,
            "train.steps": 4000, "eval.every": 500, "checkpoint.every": 4000, "reg.per_size": True,
            **_zipped(KNOWN + LEARNED), "parts": {"angle_45": ANGLES["angle_45"]},
        },
    ),
    "entangling": (
        "Factorization by layer, from both starts and along training: lost, or not yet learned?",
        "entangling",
        {
            # 2000 draws are 63 steps: 20 epochs, the published length, are 1260.
            **MLP, "data.n_samples": 2000, "eval.factors": True, "train.steps": 20_160,
            "train.steps_per_call": 20, "train.log_every": 20, "eval.every": 1260,
            "checkpoint.every": 5040,
            "parts": {f"depth_{n}_{start}": {"model.mlp.n_hidden": n, "model.starts_at": start}
                      for n in (3, 5, 7) for start in ("zero", "background")},
        },
    ),
    "needed": (
        "How many bumps it takes to place those in the hole, with and without stripes",
        "needed",
        {
            **CNN, "data.polarity": "positive", "data.copies": (0, 1), "data.seed": -1,
            "data.hole": 0.5, "data.bumps": tuple(3**i for i in range(9)),
            "model.cnn.hidden": 32, "model.cnn.n_hidden": 6, "train.steps": 3000, "optim.lr": 2e-3,
            "checkpoint.every": 1000,
            "parts": {f"n_{n}": {"data.n": n, "model.cnn.start": n // 4}
                      for n in (12, 16, 20, 24, 32)},
        },
    ),
    "phase": (
        "Memorise, misshape or compose, by size of the hole and number of stripes",
        "phase",
        {
            **CNN, **ONE_HOT, **STRIPES, "data.n": 16, "model.cnn.hidden": 16,
            "model.cnn.n_hidden": 4, "model.cnn.start": 4, "data.copies": (0, 1, 2, 4, 8),
            "data.regions": tuple(f"donut_{lb}_{15 - lb}" for lb in (6, 5, 4, 3, 2)),
            "train.steps": 4000, "optim.lr": 2e-3, "eval.layers": True,
        },
    ),
    "percolation": (
        "Placing bumps by the share of them that is kept, beside percolation of what is kept",
        "percolation",
        {
            **CNN, **ONE_HOT, **STRIPES, "data.n": 20, "data.copies": (1,), "data.seed": -1,
            "data.regions": ("donut_5_14",), "model.cnn.hidden": 32, "model.cnn.n_hidden": 6,
            "model.cnn.start": 5,
            "data.shares": (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0), "train.steps": 4000,
            "optim.lr": 2e-3,
            "parts": {name: {"data.sigmas": (sigma,)}
                      for name, sigma in (("narrow", 0.6), ("middle", 1.0), ("wide", 1.5))},
        },
    ),
    "ranks": (
        "Ranks by layer of ten layers with batch normalisation, nothing held out",
        "decoders",
        {
            **MLP, "data.regions": ("whole",), "data.n_samples": 2000, "model.mlp.width": 1024,
            "model.mlp.n_hidden": 10, "model.mlp.weights": "he_uniform",
            "model.mlp.batch_norm": True, "train.steps": 6300, "eval.layers": True,
            "parts": {code: {"data.encoding": code} for code in ("bump", "ramp")}
            | {f"{code}_published": {"data.encoding": code, **RELEASED}
               for code in ("bump", "ramp")},
        },
    ),
    "three": (
        "A third factor, the width: held out at all widths, or at the larger ones",
        "decoders",
        {
            **ONE_HOT, **STRIPES, "data.copies": (0, 1), "data.sigmas": (0.7, 1.0, 1.4, 2.0),
            "data.regions": ("donut_6_22", "wide_6_22"), **CRITERION, "train.steps": 8000,
            "parts": {"mlp": MLP, "cnn": CNN, "pixel_mlp": {"model.name": "pixel_mlp"}},
        },
    ),
}  # fmt: skip
STUDIES = dict.fromkeys(
    ("decoders", "table", "phase", "percolation", "flatness", "axes", "entangling"), keys.GRID
)
STUDIES |= {"needed": keys.NEEDED, "continuous": keys.CONTINUOUS}
STUDIES |= {"turning": keys.TURNING, "inverse": keys.INVERSE}


def get_config(arg=""):
    """`arg` is "", "<row>", "<size>" or "<row>,<size>"."""
    row, size = split_variant(arg, ROWS)
    _, study, changes = ROWS[row]
    config = base("bumps")
    with config.unlocked():
        config.row, config.size, config.study = row, size, study
    declare_training(config)
    declare(config, STUDIES[study])
    config.train.update({"seeds": tuple(range(5)), "steps_per_call": 100, "log_every": 100})
    config.eval.every = config.checkpoint.every = 400
    changes = dict(changes)
    parts = {name: dict(part) for name, part in changes.pop("parts", {}).items()}
    for name in sorted(keys.decoders(changes, parts)):
        declare(config, keys.of_model(name))
    config.update_from_flattened_dict(changes)
    parts = {name: keys.own_keys(part, changes) for name, part in parts.items()}
    parts = resize(config, row, size, parts)
    if parts:  # remove keys of decoders that only other sizes train
        undeclare(
            config, keys.of_other_models({keys.decoder(part, changes) for part in parts.values()})
        )
    remove(config, keys.shadowed(changes, parts))
    declare_parts(config, {name: nested(part) for name, part in parts.items()})
    return config


CHOICES = ("model.name",)


def adapt(config):
    """Declares the sizes of another decoder, and penalties if it has fields."""
    for name in keys.SIZES_OF:
        undeclare(config, keys.of_model(name))
    declare(config, keys.of_model(config.model.name))
    limit(config, LIMITS.get(config.size, {}))


_MINUTES = {"default": "minutes on two CPU cores (the demonstration 1)", "smoke": "seconds",
            "fast": "not measured; about a tenth of `paper`",
            "paper": "2 to 5 minutes on one H200 where measured (B1, B2, B5, B8, B9, B11, long, "
            "ablation); beside other runs entangling 4, flatness 6, B4 8, table 21"}  # fmt: skip
# The number that represents a row in `--list`, if it is not the first published one.
EXPECT = {
    "B8": "lam_entropy 0.1 + vec_variance 0.01: ood mse", "long": "ood mse, between pixels",
}  # fmt: skip


def describe_rows():
    """One line per row for `--list`."""
    for name, (doc, *_) in ROWS.items():
        numbers = PUBLISHED["bumps"].get(name, {})
        first = EXPECT.get(name, next(iter(numbers), ""))
        expect = f"{first} {numbers[first]['mean']:g}" if first else ""
        expect += " (recomputed)" if first and numbers[first]["kind"] == "recomputed" else ""
        yield {"name": name, "doc": doc, "times": _MINUTES, "expect": expect}
