"""The study's supports by name, and the keys that a row's choices read. Imports no JAX."""

SUPPORT_KEYS = {
    "random": (),
    "random_gap": ("gaps",),
    "orthogonal": ("planes", "distribution"),
    "orthogonal_gap": ("planes", "gaps"),
    "diagonal": ("delta",),
}
WEIGHTED = ("mse_sparsity", "mse_objectness")  # losses of two terms


def needed(config) -> set[str]:
    """Optional keys that the config's support, slots, models, composition and loss read."""
    data, model = config.data, config.model
    names = {f"data.{name}" for name in SUPPORT_KEYS[data.support]}
    if data.n_slots == 2:  # the motivation figure is about two sprites
        names.add("eval.n_columns")
    if config.optim.loss in WEIGHTED:
        names.add("optim.loss_weight")
    if data.support == "orthogonal" and data.get("distribution") == "normal":
        names |= {"data.mean", "data.std"}
    decoders = set()
    if "monolithic" in model.kinds:
        names |= {"model.monolith.hidden", "model.monolith.channels"}
        decoders.add("upsample")
    if set(model.kinds) - {"monolithic"}:
        names |= {"model.composition", "model.decoder", "eval.recovery"}
        decoders |= {model.decoder} if "decoder" in model else set()
        if model.get("decoder") in ("upsample", "shift"):
            names |= {"model.component.hidden", "model.component.channels"}
    if "broadcast" in decoders:
        names |= {"model.broadcast.hidden", "model.broadcast.n_layers"}
    if decoders - {"broadcast"}:
        names.add("model.form")
    if model.get("composition") == "alpha":
        names.add("model.alpha_init")
    if model.get("composition") == "annealed_sharpness":
        names.add("model.anneal")
    return names


# --- supports by name -----------------------------------------------------------------------------

# Raw latents of the slot that is fixed on a plane of the orthogonal supports.
PLANES = {
    "O": (0.0, 0.0, 0.0, 0.0, 0.0),
    "A": (1.0, 1.0, 1.0, 0.0, 1.0),
    "H": (0.5, 0.5, 0.5, 0.0, 0.5),
    "A7": (0.7, 0.7, 0.7, 0.0, 0.7),
    "H3": (0.3, 0.3, 0.3, 0.0, 0.3),
}

_O, _A, _H, _A7, _H3 = (PLANES[name] for name in ("O", "A", "H", "A7", "H3"))
_ORTHOGONAL = ((0, _A), (1, _O), (1, _H))
# The same with the front sprite's second place at x = 0.95, outside every gap in [0.05, 0.85].
PLANES_BESIDE_GAPS = ((0, _A), (1, _O), (1, (0.95, *_H[1:])))

# Keys of `config.data` for each support. Plane (i, coords): slot i varies, the other is at coords.
SUPPORTS = {
    "random": {"support": "random"},
    "orthogonal": {"support": "orthogonal", "planes": _ORTHOGONAL},
    "orthogonal_normal": {
        "support": "orthogonal",
        "planes": _ORTHOGONAL,
        "distribution": "normal",
        "std": 1.0,
    },
    "orthogonal_concentrated": {
        "support": "orthogonal",
        "planes": _ORTHOGONAL,
        "distribution": "normal",
        "std": 0.4,
    },
    "orthogonal_broad": {
        "support": "orthogonal",
        "planes": ((0, _A), (0, _A7), (1, _O), (1, _H3)),
    },
    "orthogonal_star": {"support": "orthogonal", "planes": ((0, _A), (1, _O))},
    "orthogonal_gap": {
        "support": "orthogonal_gap",
        "planes": _ORTHOGONAL,
        "gaps": ((0, 0.05, 0.45),),
    },
    "diagonal": {"support": "diagonal", "delta": 0.1},
    "diagonal_broad": {"support": "diagonal", "delta": 0.2},
    "diagonal_narrow": {"support": "diagonal", "delta": 0.05},
    # Sprites that never overlap: slot 0 stays on the left, slot 1 on the right.
    "half": {"support": "random_gap", "gaps": ((0, 0.35, 1.0), (5, 0.0, 0.65))},
}
# Supports of the studies that compare several, from every combination to one with a gap.
EIGHT = (
    "random",
    "orthogonal",
    "orthogonal_star",
    "orthogonal_broad",
    "diagonal_broad",
    "diagonal",
    "diagonal_narrow",
    "orthogonal_gap",
)


def is_plane(plane) -> bool:
    """Whether `(slot, coordinates)` has the form of a plane; `supports` checks it against K."""
    slot, coords = plane
    return type(slot) is int and slot >= 0 and all(0 <= c <= 1 for c in coords)


def is_gap(gap) -> bool:
    """Whether `(latent, from, to)` is a band of one latent."""
    latent, start, stop = gap
    return type(latent) is int and latent >= 0 and 0 <= start <= stop <= 1


def orthogonal_planes(n_slots: int) -> tuple:
    """The orthogonal support for K slots, 2 K - 1 planes; for two slots the published three.

    Slots in front of slot k hide it. On its first plane they are all at O, on its second at H. The
    two places do not overlap, so each pixel of slot k is visible on one of the planes. The slots
    behind it hide nothing and stay at A. The front slot needs one plane.
    """
    planes = [(0, _A * (n_slots - 1))]
    for k in range(1, n_slots):
        planes += [(k, front * k + _A * (n_slots - 1 - k)) for front in (_O, _H)]
    return tuple(planes)
