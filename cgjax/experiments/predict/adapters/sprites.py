"""Small sprites: every pair of a front and a back sprite is a combination, some are known.

The paper's latents are continuous. Here each slot has VALUES sprites, so that supports are sets of
combinations, and networks are small enough to train in seconds: renderers are dense networks of the
latents, joined by the paper's composition, by a learned one, or a single network.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import optim
from cgjax.core.contract import Experiment
from cgjax.core.replicas import Grid
from cgjax.experiments.predict.model import (
    Contents,
    Data,
    Program,
    Subject,
    captured,
    left_open,
    r2,
)
from cgjax.experiments.sprites import models, scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS
from cgjax.nets.mlp import MLP

VALUES = 10  # sprites of each slot
N_LAYERS = 3  # of each network
NO_PARTS = "every pixel may show both sprites: no output belongs to one slot"


def supports(n: int = VALUES) -> dict[str, np.ndarray]:
    """Known combinations [n, n] of n front and n back sprites; every value occurs in each."""
    i, j = np.indices((n, n))
    draw, eye = np.random.default_rng(0).random((n, n)), i == j
    return {
        "random_half": (draw < 0.5) | eye,
        "random_quarter": (draw < 0.2) | eye,
        "cross": (i == 0) | (j == 0),
        "cross_2": (i < 2) | (j < 2),
        "band": (j - i) % n < 3,
        "corner": (i < n // 2) | (j < n // 2),
        "blocks": (i < n // 2) == (j < n // 2),
        "diagonal": eye,
    }


def program(config, settings) -> Program:
    """One model on every support."""
    (kind,), size = settings.model.kinds, settings.data.image_size
    known, seeds = supports(), settings.train.seeds
    axes = Grid(seed=seeds, support=range(len(known)))
    factors = np.argwhere(np.ones((VALUES, VALUES)))
    init, f, layer = networks(settings, kind, size)

    def loss(params, extra, batch, key, step, replica):
        errors = jnp.mean((f(params, batch["z"]) - batch["images"]) ** 2, axis=(1, 2, 3))
        weights = batch["masks"][replica["support"]]
        return jnp.sum(weights * errors) / jnp.sum(weights), (extra, {})

    def evaluate(params, extra, data, key, replica):
        return {"loss": loss(params, extra, data, key, 0, replica)[0]}, {}

    experiment = Experiment(
        data={},
        replicas=axes.replicas() | {"stream": axes.streams()},
        init=lambda key, replica: (init(key), {}),
        plan=None,
        batch=lambda data, indices, key, step: data,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("adam", settings.optim.lr),
        headline=None,
        identity=axes.identity,
    )

    def make():
        raw = np.random.default_rng(settings.data.seed).random((2, VALUES, 5), np.float32)
        raw[..., 3] = 0.5 + raw[..., 3] / 2  # larger sprites: images are small
        latents = scenes.scale_latents(raw)
        drawn = scenes.render(latents.reshape(-1, 5), size).reshape(2, VALUES, size, size, 3)
        slots = [drawn[k][factors[:, k]] for k in (0, 1)]
        images = COMPOSITIONS[settings.data.composition](slots)
        z = jnp.concatenate([latents[k][factors[:, k]] for k in (0, 1)], axis=1)
        masks = jnp.asarray(np.stack([mask.ravel() for mask in known.values()]), jnp.float32)
        replicas = np.arange(len(seeds) * len(known)).reshape(len(seeds), -1)
        model = kind if settings.model.get("composition") in (None, *COMPOSITIONS) else "learned"
        unknown = None
        if model == "compositional":
            unknown = left_open(COMPOSITIONS[settings.model.composition], list(drawn))
        subjects = []
        for i, (name, mask) in enumerate(known.items()):
            is_known = mask.ravel()
            x, y = z[is_known], images[is_known]
            data = Data(
                x, y, factors[is_known], x, y, factors[~is_known], z[~is_known], images[~is_known]
            )
            subjects.append(
                Subject(
                    task=name,
                    model=model,
                    rows=tuple(replicas[:, i].tolist()),
                    f=f,
                    layer=layer,
                    data=(data,) * len(seeds),
                    score=r2,
                    parts=NO_PARTS,
                    unknown=unknown,
                )
            )
        data = {"z": z, "images": images, "masks": masks}
        return Contents(experiment._replace(data=data), tuple(subjects))

    return Program(experiment, settings, make)


def networks(settings, kind: str, size: int):
    """(init, f, layer) of a renderer; the layer is the last hidden one, of all slots together."""
    if kind == "monolithic":
        net = MLP((size, size, 3), settings.model.monolith.hidden, N_LAYERS, "elu")
        return (
            lambda key: net.init(key, jnp.zeros((1, 10)))["params"],
            lambda params, z: net.apply({"params": params}, z),
            lambda params, z: hidden(net, params, z),
        )
    composition = models.composition_named(settings.model.composition)
    net = MLP((size, size, composition.channels), settings.model.component.hidden, N_LAYERS, "elu")

    def init(key):
        keys = jax.random.split(key, 3)
        slots = [net.init(k, jnp.zeros((1, 5)))["params"] for k in keys[:2]]
        return {"slots": slots, "composition": composition.init(keys[2], 2)}

    def f(params, z):
        slots = [net.apply({"params": p}, z[:, 5 * k : 5 * k + 5]) for k, p in slots_of(params)]
        return composition.compose(params["composition"], slots)

    def layer(params, z):
        units = [hidden(net, p, z[:, 5 * k : 5 * k + 5]) for k, p in slots_of(params)]
        return jnp.concatenate(units, axis=1)

    return init, f, layer


def slots_of(params):
    """The parameters of each slot's network, numbered."""
    return enumerate(params["slots"])


def hidden(net, params, z):
    """Activations [n, hidden] of the last hidden layer, before its activation function."""
    return captured(net, f"dense_{N_LAYERS - 2}", {"params": params}, z)
