"""Which keys a choice of support, models and composition reads: a row declares those, no others."""

SUPPORT_KEYS = {
    "random": (),
    "random_gap": ("gaps",),
    "orthogonal": ("planes", "distribution"),
    "orthogonal_gap": ("planes", "gaps"),
    "diagonal": ("delta",),
}
WEIGHTED = ("mse_sparsity", "mse_objectness")  # losses of two terms


def needed(config) -> set[str]:
    """Keys that only the config's support, slots, kinds of model, composition, loss ... read."""
    data, model = config.data, config.model
    found = {f"data.{name}" for name in SUPPORT_KEYS[data.support]}
    if data.n_slots == 2:  # the figure shows the scenes that each keep one of two sprites
        found.add("eval.n_columns")
    if config.optim.loss in WEIGHTED:
        found.add("optim.loss_weight")
    if data.support == "orthogonal" and data.get("distribution") == "normal":
        found |= {"data.mean", "data.std"}
    decoders = set()
    if "monolithic" in model.kinds:
        found |= {"model.monolith.hidden", "model.monolith.channels"}
        decoders.add("upsample")
    if set(model.kinds) - {"monolithic"}:
        found |= {"model.composition", "model.decoder", "eval.recovery"}
        decoders |= {model.decoder} if "decoder" in model else set()
        if model.get("decoder") in ("upsample", "shift"):
            found |= {"model.component.hidden", "model.component.channels"}
    if "broadcast" in decoders:
        found |= {"model.broadcast.hidden", "model.broadcast.n_layers"}
    if decoders - {"broadcast"}:
        found.add("model.form")
    if model.get("composition") == "alpha":
        found.add("model.alpha_init")
    if model.get("composition") == "annealed_sharpness":
        found.add("model.anneal")
    return found
