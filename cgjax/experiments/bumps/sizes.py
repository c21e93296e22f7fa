"""The reduced sizes of the rows of the bumps family."""

from cgjax.config.declare import Dotted

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
        "data.n": 8, "data.n_samples": 40, "data.n_points": 80, "train.steps": 20,
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
ENDS = ("data.regions", "data.copies", "data.shares", "data.holes")
FEW = {
    "B2": ("mlp_3", "mlp_5", "cnn_2", "cnn_4"), "B3": ("width_1", "width_5"),
    "B4": ("depth_3", "depth_3_published"), "B10": ("bump_24", "bump_28"),
    "B11": ("pixel_2",), "B11_transformer": ("depth_2",), "needed": ("n_12", "n_16"),
    "percolation": ("middle",), "B7": ("cnn", "equivariant"),
    "table": ("mlp", "cnn", "embed", "product"), "three": ("mlp", "pixel_mlp"),
}  # fmt: skip
# Rows that compare image sizes: each part's size is divided by half of this number.
BY_SIZE = {"B10": {"default": 4, "smoke": 6}, "needed": {"default": 2, "smoke": 3}}
SEEDS = {"demo": 2, "long": 2, "B3": 2, "B11_transformer": 2, "needed": 3, "percolation": 3}


def resize(config, row: str, size: str, parts: dict) -> dict:
    """Changes the config to a size; returns the parts that are trained at this size.

    default: images of 16 pixels, one seed, the ends of every sweep. fast: two seeds, and a tenth of
    the steps if there is no ID criterion. paper: as published, with five seeds unless SEEDS says
    otherwise.
    """
    n_seeds = SEEDS.get(row, 5)
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
