"""The config keys that studies read, in addition to those of the loop, and the reduced sizes."""

from cgjax.config.declare import Dotted, key, names_in
from cgjax.experiments.bumps.regions import is_region

COMBINE = names_in("experiments.bumps.models", "COMBINE")
WITH_FIELDS = names_in("experiments.bumps.models", "WITH_FIELDS")
POLARITIES = names_in("experiments.bumps.sets", "INVERTED")
ENCODINGS = names_in("experiments.bumps.scenes", "ENCODINGS")
PIXEL_GRIDS = names_in("experiments.bumps.scenes", "PIXEL_GRIDS")
CONTENTS = names_in("experiments.bumps.scenes", "CONTENTS")
STRIPES = names_in("experiments.bumps.scenes", "STRIPES")
WEIGHTS = names_in("nets.mlp", "WEIGHTS")
IMAGES = names_in("experiments.bumps.sets", "SOURCES")
TURNED = names_in("experiments.bumps.studies.turning", "NETWORKS")
READ_OFF = names_in("experiments.bumps.studies.inverse", "READ_OFF")

DECODERS = ("mlp", "cnn", "embed", "pixel_mlp", "transformer", "product")
SHARED = {
    "data.n": key(28, "pixels along a side", low=8, high=200),
    "data.polarity": key(
        "inverted", "dark spot on white, or bright on black", choices=POLARITIES
    ),
    "data.encoding": key("bump", "code of x and y", choices=ENCODINGS),
    "data.width_multiplier": key(1.0, "factor on the variance of the bump code", above=0),
    "data.seed": key(0, "seed of training sets; -1: each seed draws its own sets", low=-1),
    "data.batch": key(32, "images per step", low=1),
    "model.name": key("mlp", "decoder", choices=DECODERS),
    "model.starts_at": key("background", "output before training; the release starts at zero",
                           choices=("background", "zero")),
    "optim.lr": key(1e-3, "learning rate", above=0, is_traced=True),
    "optim.weight_decay": key(0.01, "weight decay of AdamW", low=0, is_traced=True),
    "optim.stop": key(0.0, "ID nMSE at which training of a network stops; 0: never", low=0),
}  # fmt: skip
GRID = SHARED | {
    "data.sigmas": key((1.0,), "widths of the bumps; several widths add a third factor", above=0,
                       distinct=True),
    "data.pixel_grid": key("integer", "pixels at 0..n-1, or stretched to n", choices=PIXEL_GRIDS),
    "data.regions": key(("donut_6_22",), "held-out regions, from pixel to pixel", test=is_region,
                        wanted="like donut_6_22, cross_11_17, corner_14, wide_6_22 or whole",
                        distinct=True),
    "data.content": key("bump", "image at (x, y); a character at angle x", choices=CONTENTS),
    "data.degrees": key(0.0, "angle between the axis of x and the rows", low=0, high=90),
    "data.spacing": key(1.0, "pixels between neighbouring values of x", above=0, high=1),
    "data.stripes": key("none", "training images of a single factor", choices=STRIPES),
    "data.margin": key(0, "pixels of the canvas on each side of the image", low=0),
    "data.copies": key((0,), "copies of each stripe in a training set", low=0, distinct=True),
    "data.shares": key((1.0,), "shares of the bumps, lambda", above=0, high=1, distinct=True),
    "data.n_samples": key(0, "draws with replacement; 0: every image once", low=0),
    "eval.accounts": key(False, "R2 of sums, binary kernel and truth in the hole"),
    "eval.kernels": key(False, "kernels fitted to the networks' images"),
    "eval.tangent": key(False, "the networks' own tangent kernels (mlp and cnn)"),
    "eval.layers": key(False, "factorization, probes and ranks of each layer"),
    "eval.factors": key(False, "factorization F of each layer at every evaluation (mlp)"),
    "eval.words": key(False, "compositionality, factorization, disentanglement, modularity"),
    "eval.centres": key(0, "real-valued centres along a side, scored in addition; 0: none", low=0),
}  # fmt: skip
CONTINUOUS = SHARED | {
    "data.sigma": key(1.0, "width of the bumps", above=0),
    "data.holes": key((0.2,), "sides of the hole, as shares of the image", above=0, high=0.95,
                      distinct=True),
    "data.n_points": key(1000, "points drawn in an image without a hole", low=10),
}  # fmt: skip
NEEDED = SHARED | {
    "data.sigma": CONTINUOUS["data.sigma"],
    "data.hole": key(0.5, "side of the hole, as a share of the image", above=0, high=0.95),
    "data.bumps": key((1, 10), "numbers of bumps, at real-valued centres", low=1, distinct=True),
    "data.copies": GRID["data.copies"],
}
# Penalties are zipped: the i-th weights of all keys together define the i-th penalty.
PENALTIES = {
    "reg.lam_entropy": key((0.0,), "weight of the entropy of lam (embed)", low=0, is_traced=True),
    "reg.vec_variance": key(
        (0.0,), "weight of the variance of singular vectors (embed)", low=0, is_traced=True
    ),
    "reg.nuclear": key((0.0,), "weight of the nuclear norm of fields", low=0, is_traced=True),
    "reg.null_axis": key(
        (0.0,), "weight of the variance of fields along the null axis", low=0, is_traced=True
    ),
    "reg.rank_tail": key(
        (0.0,), "weight of the energy of fields outside rank one", low=0, is_traced=True
    ),
    "reg.factor_axis": key(
        (0.0,),
        "weight of the variance of fields along the factors' null axes",
        low=0,
        is_traced=True,
    ),
    "reg.fixed_axis": key(
        (0.0,),
        "weight of the variance of fields across the axes at reg.start",
        low=0,
        is_traced=True,
    ),
    "reg.learned_axis": key(
        (0.0,), "the same, but axes are learned after half of the training", low=0, is_traced=True
    ),
    "reg.start": key(
        (0.0,),
        "degrees from a random angle of each seed to the axis",
        low=0,
        high=180,
        is_traced=True,
    ),
    "reg.per_size": key(False, "weights hold for 32 pixels and are rescaled to n"),
}
SIZES_OF = {
    "mlp": {
        "model.mlp.width": key(256, "units of each hidden layer", low=1),
        "model.mlp.n_hidden": key(3, "hidden layers", low=1),
        "model.mlp.weights": key("uniform", "initialisation", choices=WEIGHTS),
        "model.mlp.batch_norm": key(False, "between dense layers and ReLU"),
    },
    "cnn": {
        "model.cnn.hidden": key(64, "channels", low=1),
        "model.cnn.n_hidden": key(8, "hidden layers after the first", low=1),
        "model.cnn.start": key(7, "pixels along a side after the first layer", low=1),
    },
    "embed": {
        "model.embed.hidden_layers": key(2, "hidden layers of the mixing network", low=0),
        "model.embed.rank": key(0, "rank of each field; 0: any", low=0),
        "model.embed.combine": key("cnn", "how fields combine to an image", choices=COMBINE),
        "model.embed.permuted": key(False, "whether pixels of the image are permuted"),
    },
    "pixel_mlp": {
        "model.pixel_mlp.features": key(256, "features of each pixel's token", low=4,
                                        test=lambda n: n % 4 == 0, wanted="a multiple of 4"),
        "model.pixel_mlp.depth": key(4, "layers", low=1),
    },
    "transformer": {
        "model.transformer.features": key(128, "features of each pixel's token", low=4,
                                          test=lambda n: n % 4 == 0, wanted="a multiple of 4"),
        "model.transformer.depth": key(4, "layers", low=1),
        "model.transformer.heads": key(4, "attention heads", low=1),
        "model.transformer.feed_forward": key(2048, "units of the dense layers", low=1),
        "model.transformer.dropout": key(0.1, "dropout rate in training", low=0, high=0.9),
    },
    "product": {
        "model.product.combine": key("product", "how fields combine", choices=COMBINE[1:]),
        "model.product.stripes": key(False, "fields that are flat by construction"),
        "model.product.rank": key(0, "rank of each field; 0: any", low=0),
        "model.product.permuted": key(False, "whether pixels of the image are permuted"),
        "model.product.scales": key((0.1,), "scales of the initial fields", above=0, distinct=True,
                                    is_traced=True),
    },
    # Decoders of the rotating digit, which also uses `pixel_mlp`.
    "rotation_cnn": {
        "model.rotation_cnn.channels": key((128, 64), "channels of its doublings", low=1, length=2),
    },
    "equivariant": {
        "model.equivariant.features": key(64, "features of each pixel", low=1),
        "model.equivariant.depth": key(3, "layers", low=1),
    },
}  # fmt: skip


TURNING = {
    "data.image": key("mnist", "first training images, or built-in glyphs", choices=IMAGES),
    "data.digits": key((4,), "digits that rotate; only the 4 has a gap", low=0, high=9,
                       distinct=True),
    "data.name_digit": key(False, "whether the input names the digit"),
    "data.n_angles": key(1000, "angles of each digit, from 0 to 360 degrees", low=10, high=36_000),
    "data.gap": key((160.0, 200.0), "held-out degrees, both ends included", low=0,
                    high=360, length=2),
    "data.seed": key(0, "seed that draws the validation views", low=0),
    "data.batch": key(32, "images per step", low=1),
    "model.name": key("rotation_cnn", "decoder", choices=TURNED),
    "optim.lr": key(1e-3, "learning rate", above=0),
    "optim.weight_decay": key(1e-4, "weight decay of AdamW", low=0, is_traced=True),
    "optim.l1": key(0.1, "weight of the absolute error, added to the squared error", low=0,
                    is_traced=True),
    "optim.clip": key(1.0, "largest norm of a gradient", above=0, is_traced=True),
    "optim.patience": key(5, "evaluations without a new best before the rate is halved", low=0),
}  # fmt: skip
INVERSE = {
    "data.n": SHARED["data.n"],
    "data.sigma": CONTINUOUS["data.sigma"],
    "data.regions": key(("donut_6_22",), "held-out region, from pixel to pixel", test=is_region,
                        wanted="like donut_6_22, cross_11_17 or corner_14", length=1),
    "data.encoding": key("bump", "code of x and y that the encoder predicts", choices=READ_OFF),
    "data.n_samples": key(2000, "images drawn with replacement", low=1),
    "data.seed": key(0, "seed of the training set", low=0),
    "data.batch": SHARED["data.batch"],
    "model.encoder.channels": key((32, 64, 128), "channels of convolutions of stride 2", low=1),
    "model.encoder.hidden": key(128, "units of the dense layer", low=1),
    "optim.lr": SHARED["optim.lr"],
}  # fmt: skip


def of_model(name: str) -> dict:
    """Keys of a decoder's sizes, and of its penalties if it has fields; none for encoders."""
    return SIZES_OF.get(name, {}) | (PENALTIES if name in WITH_FIELDS else {})


# --- keys of rows with several parts (flat dicts of changes) --------------------------------------


def decoder(part: dict, changes: dict) -> str:
    """The decoder that a part trains: its own if it names one, otherwise the row's."""
    return part.get("model.name") or changes.get("model.name", "")


def decoders(changes: dict, parts: dict) -> set[str]:
    """All decoders that a row trains."""
    every = [changes, *parts.values()]
    return {settings["model.name"] for settings in every if "model.name" in settings}


def of_other_models(names: set[str]) -> set[str]:
    """Keys for sizes and penalties that only decoders other than `names` have."""
    used, every = (
        {key_name for name in some for key_name in of_model(name)} for some in (names, SIZES_OF)
    )
    return every - used


def own_keys(part: dict, changes: dict) -> dict:
    """A part without the sizes and penalties that its own decoder does not have."""
    others = of_other_models({decoder(part, changes)})
    return {key_name: value for key_name, value in part.items() if key_name not in others}


def shadowed(changes: dict, parts: dict) -> set[str]:
    """Keys for sizes and penalties that every part whose decoder has them sets itself."""
    users = {}  # key: for each part that has it, whether the part sets it
    for part in parts.values():
        for key_name in of_model(decoder(part, changes)):
            users.setdefault(key_name, []).append(key_name in part)
    return {key_name for key_name, sets in users.items() if all(sets)}


# --- reduced sizes --------------------------------------------------------------------------------


# Upper limits of values at each reduced size.
LIMITS = {
    "default": {
        "data.n": 16, "data.n_samples": 400, "data.n_points": 400, "train.steps": 1000,
        "eval.every": 200, "checkpoint.every": 200, "eval.centres": 20, "model.cnn.hidden": 16,
        "model.cnn.n_hidden": 4, "model.cnn.start": 4, "model.pixel_mlp.features": 64,
        "model.pixel_mlp.depth": 2, "model.transformer.features": 32,
        "model.transformer.depth": 2, "model.transformer.feed_forward": 64,
        "model.rotation_cnn.channels": (16, 8), "model.equivariant.features": 32,
        "model.equivariant.depth": 2,
    },
    "smoke": {
        "data.n": 8, "data.n_samples": 40, "data.n_points": 100, "train.steps": 20,
        "train.steps_per_call": 10, "train.log_every": 10, "eval.every": 10,
        "checkpoint.every": 10, "eval.centres": 3, "model.mlp.width": 16, "model.mlp.n_hidden": 2,
        "model.cnn.hidden": 4, "model.cnn.n_hidden": 2, "model.cnn.start": 4,
        "model.pixel_mlp.features": 8, "model.pixel_mlp.depth": 1,
        "model.transformer.features": 8, "model.transformer.depth": 1,
        "model.transformer.heads": 2, "model.transformer.feed_forward": 16,
        "data.n_angles": 60, "model.rotation_cnn.channels": (4, 4), "model.equivariant.features": 8,
        "model.encoder.channels": (4, 4), "model.encoder.hidden": 16,
    },
}  # fmt: skip
# Decoders that train ten times slower on a laptop: their largest number of steps.
SLOW = {"cnn": 400, "transformer": 400}
# A laptop trains the first and last value of these sweeps, and only these parts of a row.
ENDS = ("data.regions", "data.copies", "data.shares", "data.holes", "data.bumps")
FEW = {
    "B2": ("mlp_3", "mlp_5", "cnn_2", "cnn_4"), "B3": ("width_1", "width_5"),
    "B4": ("depth_3", "depth_3_published"), "B10": ("bump_24", "bump_28"),
    "B11": ("pixel_2",), "B11_transformer": ("depth_2",), "needed": ("n_12", "n_16"),
    "percolation": ("middle",), "flatness": ("main", "angle_45"), "B5": ("cnn", "mlp"),
    "axes": ("angle_45", "characters"),
    "flatness_embed": ("main", "angle_45"), "entangling": ("depth_3_zero", "depth_3_background"),
    "ranks": ("bump", "ramp"), "B7": ("cnn", "equivariant"),
    "table": ("mlp", "cnn", "embed", "product"), "three": ("mlp", "pixel_mlp"),
}  # fmt: skip
OURS = ("axes", "axes_embed")  # no published size: `fast` and `paper` are the same
# Rows that compare image sizes: each part's size is divided by half of this number.
BY_SIZE = {"B10": {"default": 4, "smoke": 6}, "needed": {"default": 2, "smoke": 2}}
SEEDS = {
    "demo": 2,
    "long": 2,
    "B3": 2,
    "B11_transformer": 2,
    "needed": 3,
    "percolation": 3,
    "ranks": 3,
    "flatness": 20,
    "flatness_embed": 20,
}


def resize(config, row: str, size: str, parts: dict) -> dict:
    """Changes the config to a size; returns the parts that are trained at this size.

    default: images of 16 pixels, one seed, the ends of every sweep. fast: two seeds, and a tenth of
    the steps if there is no ID criterion. paper: as published, with five seeds unless SEEDS says
    otherwise; the rows OURS have this size at fast, too.
    """
    n_seeds = SEEDS.get(row, 5)
    if row in OURS and size == "fast":
        size = "paper"
    if size in ("fast", "paper") or (row == "demo" and size == "default"):
        config.train.seeds = tuple(range(n_seeds if size != "fast" else 2))
        for flat in [Dotted(config), *parts.values()] if size == "fast" else ():
            if "train.steps" in flat and not flat.get("optim.stop", config.optim.get("stop", 0)):
                flat["train.steps"] = max(400, flat["train.steps"] // 4000 * 400)
        return parts
    config.train.seeds = (0, 1) if size == "smoke" else (0,)
    if parts:
        names = FEW.get(row, tuple(parts))[: 2 if size == "smoke" else None]
        parts = {name: parts[name] for name in names}
    if "image" in config.data:
        config.data.image = "glyph"  # nothing to download
    n, largest = config.data.get("n", 0), dict(LIMITS[size])
    if row in OURS and size == "smoke":
        largest["data.n"] = 12  # axes are learned from derivatives away from the borders
    if row in BY_SIZE:  # parts keep different image sizes
        largest.pop("data.n")
        for part in parts.values():
            side = part["data.n"] * 2 // BY_SIZE[row][size]
            _move(part, side / part["data.n"])
            part["data.n"] = side
    row_keys = Dotted(config)
    for flat in (row_keys, *parts.values()):
        limit(flat, largest, n)
    for flat in (row_keys, *parts.values()):
        most = SLOW.get(
            flat.get("model.name") or row_keys.get("model.name"), largest["train.steps"]
        )
        if most < row_keys["train.steps"]:
            flat["train.steps"] = most
    return parts


def limit(settings, largest: dict, n: int = 28) -> None:
    """Limits all values; regions keep their relative place in an image that was n pixels wide."""
    flat = settings if isinstance(settings, (dict, Dotted)) else Dotted(settings)
    n = flat.get("data.n", n)
    _move(flat, min(n, largest.get("data.n", n)) / n if n else 1)
    for name in largest.keys() & flat.keys():
        flat[name] = min(flat[name], largest[name])
    for name in ENDS if largest else ():
        if name in flat:
            flat[name] = tuple(dict.fromkeys((flat[name][0], flat[name][-1])))


def _move(flat, share: float) -> None:
    """Scales regions with the image: "donut_6_22" of 28 pixels becomes "donut_3_13" of 16."""
    if "data.regions" in flat:
        split_names = (region.split("_") for region in flat["data.regions"])
        flat["data.regions"] = tuple(
            "_".join([name, *(str(round(int(number) * share)) for number in numbers)])
            for name, *numbers in split_names
        )
