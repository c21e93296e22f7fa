"""Keys that the chosen support, models and composition read: a row declares only those."""

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
