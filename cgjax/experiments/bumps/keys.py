"""The keys that each kind of study reads, beside those of the training loop."""

from cgjax.config.declare import key
from cgjax.experiments.bumps.glyphs import SOURCES
from cgjax.experiments.bumps.inverse import READ_OFF
from cgjax.experiments.bumps.models import COMBINE, WITH_FIELDS
from cgjax.experiments.bumps.scenes import ENCODINGS, PIXEL_GRIDS, STRIPES
from cgjax.experiments.bumps.sets import INVERTED, is_region
from cgjax.experiments.bumps.turning import NETWORKS
from cgjax.nets.mlp import WEIGHTS

DECODERS = ("mlp", "cnn", "embed", "pixel_mlp", "transformer", "product")
SHARED = {
    "data.n": key(28, "pixels along a side", low=8, high=200),
    "data.polarity": key(
        "inverted", "dark spot on white, or bright on black", choices=tuple(INVERTED)
    ),
    "data.encoding": key("bump", "of x and y", choices=ENCODINGS),
    "data.width_multiplier": key(1.0, "of the bump code's variance", above=0),
    "data.seed": key(0, "draws training sets; -1: anew for each seed", low=-1),
    "data.batch": key(32, "images of one step", low=1),
    "model.name": key("mlp", "which decoder", choices=DECODERS),
    "optim.lr": key(1e-3, "learning rate", above=0, is_traced=True),
    "optim.weight_decay": key(0.01, "of AdamW", low=0, is_traced=True),
    "optim.stop": key(0.0, "ID nMSE at which a network rests; 0: never", low=0),
}
GRID = SHARED | {
    "data.sigmas": key((1.0,), "widths of the bumps; several are a third factor", above=0,
                       distinct=True),
    "data.pixel_grid": key("integer", "pixels at 0..n-1, or stretched to n", choices=PIXEL_GRIDS),
    "data.regions": key(("donut_6_22",), "held out, from pixel to pixel", test=is_region,
                        wanted="like donut_6_22, cross_11_17, corner_14, wide_6_22 or whole",
                        distinct=True),
    "data.stripes": key("none", "images of one factor alone", choices=STRIPES),
    "data.margin": key(0, "pixels of the canvas on each side of the image", low=0),
    "data.copies": key((0,), "times each stripe is in a training set", low=0, distinct=True),
    "data.shares": key((1.0,), "of the bumps, lambda", above=0, high=1, distinct=True),
    "data.n_samples": key(0, "drawn with replacement; 0: every image once", low=0),
    "eval.accounts": key(False, "R2 of sums, of the binary kernel and of the truth in the hole"),
    "eval.kernels": key(False, "kernels fitted to the networks' images"),
    "eval.tangent": key(False, "the networks' own tangent kernels (mlp and cnn)"),
    "eval.layers": key(False, "factorization, probes and ranks layer by layer"),
    "eval.words": key(False, "four words on the last hidden layer, of the first seed"),
    "eval.centres": key(0, "also real-valued centres, so many along a side; 0: none", low=0),
}  # fmt: skip
CONTINUOUS = SHARED | {
    "data.sigma": key(1.0, "width of the bumps", above=0),
    "data.holes": key((0.2,), "sides of the hole, as shares of the image", above=0, high=0.95,
                      distinct=True),
    "data.n_points": key(1000, "points of an image without a hole", low=10),
}  # fmt: skip
# Penalties are zipped: the first weights of all keys are one penalty, the second ones another.
PENALTIES = {
    "reg.lam_entropy": key((0.0,), "of lam, towards rank one (embed)", low=0, is_traced=True),
    "reg.vec_variance": key(
        (0.0,), "of singular vectors, towards flat ones (embed)", low=0, is_traced=True
    ),
    "reg.nuclear": key((0.0,), "norm of the fields", low=0, is_traced=True),
    "reg.null_axis": key(
        (0.0,), "variance of fields along the other factor's axis", low=0, is_traced=True
    ),
    "reg.per_size": key(False, "weights are those of 32 pixels, whatever n is"),
}
SIZES_OF = {
    "mlp": {
        "model.mlp.width": key(256, "units of each hidden layer", low=1),
        "model.mlp.n_hidden": key(3, "hidden layers", low=1),
        "model.mlp.weights": key("uniform", "initialisation", choices=tuple(WEIGHTS)),
        "model.mlp.batch_norm": key(False, "between dense layers and ReLU"),
    },
    "cnn": {
        "model.cnn.hidden": key(64, "channels", low=1),
        "model.cnn.n_hidden": key(8, "layers after the first", low=1),
        "model.cnn.start": key(7, "pixels along a side after the first layer", low=1),
    },
    "embed": {
        "model.embed.hidden_layers": key(2, "of the network that mixes the fields", low=0),
        "model.embed.rank": key(0, "of each field; 0: any", low=0),
        "model.embed.combine": key("cnn", "how fields become an image", choices=COMBINE),
    },
    "pixel_mlp": {
        "model.pixel_mlp.features": key(256, "of each pixel's token", low=4,
                                        test=lambda n: n % 4 == 0, wanted="a multiple of 4"),
        "model.pixel_mlp.depth": key(4, "layers", low=1),
    },
    "transformer": {
        "model.transformer.features": key(128, "of each pixel's token", low=4,
                                          test=lambda n: n % 4 == 0, wanted="a multiple of 4"),
        "model.transformer.depth": key(4, "layers", low=1),
        "model.transformer.heads": key(4, "of attention", low=1),
        "model.transformer.feed_forward": key(2048, "units of the dense layers", low=1),
        "model.transformer.dropout": key(0.1, "while training", low=0, high=0.9),
    },
    "product": {
        "model.product.combine": key("product", "of the fields", choices=COMBINE[1:]),
        "model.product.stripes": key(False, "fields that are flat by construction"),
        "model.product.scales": key((0.1,), "of the initial fields", above=0, distinct=True,
                                    is_traced=True),
    },
    # Of the digit that turns; it has `pixel_mlp` too.
    "rotation_cnn": {
        "model.rotation_cnn.channels": key((128, 64), "of its two doublings", low=1, length=2),
    },
    "equivariant": {
        "model.equivariant.features": key(64, "of each pixel", low=1),
        "model.equivariant.depth": key(3, "layers", low=1),
        "model.equivariant.frequencies": key(5, "of each coordinate's code", low=1),
    },
}  # fmt: skip


TURNING = {
    "data.image": key("mnist", "first training images, or built-in glyphs", choices=SOURCES),
    "data.digits": key((4,), "that turn; the gap is that of the 4 alone", low=0, high=9,
                       distinct=True),
    "data.name_digit": key(False, "whether the input says which digit is meant"),
    "data.n_angles": key(1000, "of each digit, from 0 to 360 degrees", low=10),
    "data.gap": key((160.0, 200.0), "degrees that are held out, both ends included", low=0,
                    high=360, length=2),
    "data.validation": key(0.1, "share of the views that decides the rate", above=0, high=0.5),
    "data.seed": key(0, "draws the views for validation", low=0),
    "data.batch": key(32, "images of one step", low=1),
    "model.name": key("rotation_cnn", "which decoder", choices=tuple(NETWORKS)),
    "optim.lr": key(1e-3, "learning rate", above=0),
    "optim.weight_decay": key(1e-4, "of AdamW", low=0, is_traced=True),
    "optim.l1": key(0.1, "weight of the absolute error beside the squared one", low=0,
                    is_traced=True),
    "optim.clip": key(1.0, "largest norm of a gradient", above=0, is_traced=True),
    "optim.patience": key(5, "evaluations without a new best before the rate is halved", low=0),
    "optim.floor": key(1e-6, "rate below which it is not halved", above=0),
}  # fmt: skip
INVERSE = {
    "data.n": SHARED["data.n"],
    "data.sigma": CONTINUOUS["data.sigma"],
    "data.regions": key(("donut_6_22",), "held out, from pixel to pixel", test=is_region,
                        wanted="like donut_6_22, cross_11_17 or corner_14", length=1),
    "data.encoding": key("bump", "of x and y, what is read off", choices=READ_OFF),
    "data.n_samples": key(2000, "drawn with replacement", low=1),
    "data.seed": key(0, "draws the training set", low=0),
    "data.batch": SHARED["data.batch"],
    "model.encoder.channels": key((32, 64, 128), "of the convolutions, each of stride 2", low=1),
    "model.encoder.hidden": key(128, "units of the dense layer", low=1),
    "optim.lr": SHARED["optim.lr"],
}  # fmt: skip


def of_model(name: str) -> dict:
    """The sizes of a decoder, and its penalties where it has fields; an encoder has neither."""
    return SIZES_OF.get(name, {}) | (PENALTIES if name in WITH_FIELDS else {})


# --- whose key is it, in a row of several parts (flat dicts of changes) ---------------------------


def decoder(part: dict, changes: dict) -> str:
    """The one that a part trains: its own, or the row's."""
    return part.get("model.name") or changes.get("model.name", "")


def decoders(changes: dict, parts: dict) -> set[str]:
    """Those that a row trains."""
    every = [changes, *parts.values()]
    return {one["model.name"] for one in every if "model.name" in one}


def of_other_models(names: set[str]) -> set[str]:
    """Sizes and penalties of decoders that are none of these."""
    own, every = ({word for name in some for word in of_model(name)} for some in (names, SIZES_OF))
    return every - own


def own_keys(part: dict, changes: dict) -> dict:
    """A part without the sizes and penalties of other decoders than its own."""
    others = of_other_models({decoder(part, changes)})
    return {word: value for word, value in part.items() if word not in others}


def shadowed(changes: dict, parts: dict) -> set[str]:
    """Sizes and penalties that every part whose decoder has them sets itself."""
    users = {}  # key: whether each part that has it sets it
    for part in parts.values():
        for word in of_model(decoder(part, changes)):
            users.setdefault(word, []).append(word in part)
    return {word for word, sets in users.items() if all(sets)}
