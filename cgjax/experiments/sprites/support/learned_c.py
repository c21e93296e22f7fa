"""What is identified when C is unknown, and how to train through a C that jumps.

Scenes are lines of N pixels with two bumps; a bump has a place and a brightness. C acts on each
pixel alone: the front bump hides the back one where it is bright.

C unknown (`unknown_c`): a network of two numbers replaces C. Then each component is determined at
most up to one function of one number, the same at all pixels, because C can undo it: the *gauge*.
Measured is how well a component matches the true one as it is, after the best affine map, and after
the best function. Known are the components' values at one point of the support: at no pixel, at
one, or at all (the theorem's initial point). C known is the control.

C a step (`step_c`): its derivative by the front bump's edge is zero. A straight-through estimator
has the value of the step and the slope of a sigmoid; a smoothed C is the sigmoid itself.
"""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import metrics, program, train, tree
from cgjax.core.logging import say
from cgjax.core.replicas import Grid
from cgjax.experiments.sprites.support.pairs import with_cosine
from cgjax.nets.mlp import MLP

N_PIXELS = 24
WIDTH = 0.12  # of a bump
EDGE = 0.25  # brightness from which the front bump hides what is behind it
SHARPNESS = 4.0  # of the true C where C is unknown
BINS = 48  # of the best function of one number
PLACES = ((0.5, 1.0), (0.15, 1.0), (0.85, 1.0))  # of the bumps that planes hold still: back, fronts
POINT = (0.5, 1.0, 0.5, 1.0)  # latents of the point at which components are known
SUPPORTS = ("everything", "planes")
KINDS = {"unknown_c": ("known", "learned"), "step_c": ("straight_through", "smoothed")}

# --- scenes ---------------------------------------------------------------------------------------


def bumps(latents: jax.Array) -> jax.Array:
    """True components: place and brightness [n, 2] in [0, 1] -> [n, N_PIXELS]."""
    pixels = (jnp.arange(N_PIXELS) + 0.5)[None, :] / N_PIXELS
    away = (pixels - latents[:, :1]) / WIDTH
    return (0.4 + 0.6 * latents[:, 1:]) * jnp.exp(-jnp.square(away))


def soft(front, back, sharpness):
    share = jax.nn.sigmoid(sharpness * (front - EDGE))
    return share * front + (1 - share) * back


def hard(front, back, sharpness):
    return jnp.where(front > EDGE, front, back)


def straight_through(front, back, sharpness):
    """The value of the step, the slope of `soft`."""
    smooth = soft(front, back, sharpness)
    return jax.lax.stop_gradient(hard(front, back, sharpness)) + (
        smooth - jax.lax.stop_gradient(smooth)
    )


def sample(support: str, n: int, seed: int) -> np.ndarray:
    """Latents [n, 4]: everything, or planes on which one bump varies."""
    rng = np.random.default_rng([seed, SUPPORTS.index(support)])
    latents = rng.uniform(size=(n, 4))
    if support == "planes":
        which = rng.integers(len(PLACES), size=n)
        latents[which == 0, 2:] = PLACES[0]
        for i in (1, 2):
            latents[which == i, :2] = PLACES[i]
    return latents.astype(np.float32)


# --- models ---------------------------------------------------------------------------------------


class Model(NamedTuple):
    init: Callable  # key -> params
    components: Callable  # params, latents [n, 4] -> front and back [n, N_PIXELS]
    compose: Callable  # params, front, back, sharpness -> [n, N_PIXELS]
    predict: Callable  # params, latents -> [n, N_PIXELS], at the sharpness of the data


def build(config, kind: str) -> Model:
    """Two networks and a composition."""
    net = MLP(out_shape=(N_PIXELS,), hidden=config.model.hidden, n_layers=3, activation="elu")
    pixel = MLP(out_shape=(1,), hidden=32, n_layers=3, activation="elu")

    def init(key):
        keys = jax.random.split(key, 3)
        blank = jnp.zeros((1, 2))
        params = {name: net.init(k, blank)["params"] for name, k in zip(("front", "back"), keys)}
        return params | ({"c": pixel.init(keys[2], blank)["params"]} if kind == "learned" else {})

    def components(params, latents):
        parts = zip(("front", "back"), jnp.split(latents, 2, axis=1))
        return tuple(net.apply({"params": params[name]}, 4 * z - 2) for name, z in parts)

    def learned(params, front, back, sharpness):
        pairs = jnp.stack([front, back], axis=-1).reshape(-1, 2)
        return pixel.apply({"params": params["c"]}, pairs).reshape(front.shape)

    fixed = {"known": soft, "straight_through": straight_through, "smoothed": soft}.get(kind)

    def compose(params, front, back, sharpness):
        return fixed(front, back, sharpness) if fixed else learned(params, front, back, sharpness)

    def predict(params, latents):
        return compose(params, *components(params, latents), SHARPNESS)

    return Model(init, components, compose, predict)


def true_scenes(config, latents):
    compose = hard if config.row == "step_c" else soft
    return compose(*(bumps(z) for z in jnp.split(latents, 2, axis=1)), SHARPNESS)


# --- training -------------------------------------------------------------------------------------


def grid(config) -> Grid:
    """Seeds x supports x pixels that are known at one point, or sharpness."""
    arms = {"n_known": np.array(config.data.n_known, "i4")} if config.row == "unknown_c" else {}
    arms = arms or {"sharpness": np.array(config.model.sharpness, np.float32)}
    return Grid(seed=config.train.seeds, support=np.arange(len(SUPPORTS), dtype="i4"), **arms)


def make(config) -> dict:
    """Latents of both supports for training and evaluation."""
    data, n = config.data, config.eval.n
    train_set, known = (
        np.stack([sample(name, size, seed) for name in SUPPORTS])
        for size, seed in ((data.n_train, data.seed), (n, data.seed + 1))
    )
    return {"train": train_set, "id": known, "all": sample("everything", n, data.seed + 2)}


def experiment(config, kind: str, data: dict) -> program.Experiment:
    """One kind of C on both supports, as the training loop takes it."""
    model, networks = build(config, kind), grid(config)
    point = jnp.array(POINT)[None]
    # Bright pixels first: the first one alone is the middle of both bumps.
    order = np.argsort(-np.asarray(bumps(point[:, :2]))[0], kind="stable")
    rank = np.argsort(order)

    def sharpness(replica):
        return replica.get("sharpness", SHARPNESS)

    def predict(params, latents, replica):
        return model.compose(params, *model.components(params, latents), sharpness(replica))

    def batch(data, indices, key, step):
        rows = jax.random.randint(key, (config.data.batch,), 0, config.data.n_train)
        return {"latents": data["train"][:, rows]}

    def loss(params, extra, batch, key, step, replica):
        latents = batch["latents"][replica["support"]]
        error = metrics.mse(true_scenes(config, latents), predict(params, latents, replica))
        total = error
        if "n_known" in replica:
            is_known = (jnp.asarray(rank) < replica["n_known"])[None]
            true = (bumps(z) for z in jnp.split(point, 2, axis=1))
            parts = zip(model.components(params, point), true)
            total += sum(jnp.mean(jnp.square(drawn - t) * is_known) for drawn, t in parts)
        return total, (extra, {"mse": error})

    def evaluate(params, extra, data, key, replica):
        known = data["id"][replica["support"]]
        scalars = {
            name: metrics.r2_variance_weighted(true_scenes(config, z), predict(params, z, replica))
            for name, z in (("r2_id", known), ("r2_all", data["all"]))
        }
        drawn = model.components(params, data["all"])
        if kind == "smoothed":
            true = true_scenes(config, data["all"])
            scalars["r2_all, with the step"] = metrics.r2_variance_weighted(true, hard(*drawn, 0.0))
        for name, d, z in zip(("front", "back"), drawn, jnp.split(data["all"], 2, axis=1)):
            scalars |= {f"{name}, {how}": r2 for how, r2 in matches(d, bumps(z)).items()}
        return scalars, {}

    return with_cosine(config, networks, model.init, data, batch, loss, evaluate)


def matches(drawn: jax.Array, true: jax.Array) -> dict[str, jax.Array]:
    """R2 of what a component draws [n, pixels] against the true one: as it is, after the best
    affine map, after the best function of one number (its mean in each of BINS quantiles)."""
    d, t = drawn.reshape(-1), true.reshape(-1)
    total = jnp.mean(jnp.square(t - jnp.mean(t)))
    centred = d - jnp.mean(d)
    spread = jnp.mean(jnp.square(centred))
    explained = jnp.square(jnp.mean(centred * t)) / jnp.maximum(spread, 1e-12)
    ordered = t[jnp.argsort(d)][: len(t) // BINS * BINS].reshape(BINS, -1)
    inside = jnp.mean(jnp.square(ordered - jnp.mean(ordered, axis=1, keepdims=True)))
    return {
        "as it is": 1 - jnp.mean(jnp.square(d - t)) / total,
        "affine": explained / total,
        "any function": 1 - inside / total,
    }


# --- the study ------------------------------------------------------------------------------------


def study(config, workdir):
    """Trains every kind of C; R2 of scenes and of components by support and arm."""
    networks, data = grid(config), make(config)
    arm = list(networks.axes)[-1]
    results, arrays, sentences = {}, {arm: networks.axes[arm]}, []
    for kind in config.model.kinds:
        folder = pathlib.Path(workdir) / kind
        state, history = train.fit(experiment(config, kind, data), config, folder, kind)
        curves = networks.history(history["eval"])  # {name: [m, seeds, supports, arms]}
        for i, support in enumerate(SUPPORTS):
            for j, value in enumerate(networks.axes[arm]):
                label = f"{kind}/{support}, {value:g} {'pixels known' if arm == 'n_known' else arm}"
                last = {name: v[-1, :, i, j] for name, v in curves.items() if name != "step"}
                results |= {f"{label}: {name}": values for name, values in last.items()}
                arrays |= {f"{label}: {name}": values for name, values in last.items()}
                sentences.append(
                    f"{label}: R2 on everything {np.mean(last['r2_all']):.3f}; front as it is "
                    f"{np.mean(last['front, as it is']):.2f}, by any function "
                    f"{np.mean(last['front, any function']):.2f}"
                )
                say(sentences[-1])
        if arm == "n_known":
            arrays |= gauges(config, kind, tree.take(networks.by_axes(state.params), 0))
    return results, arrays, sentences


def gauges(config, kind: str, params) -> dict:
    """What the front component draws against the true values, on the planes, for the figure:
    {"<kind>/<pixels known>": [2, n]} of the first seed."""
    model, latents = build(config, kind), sample("everything", 60, 0)
    true = bumps(latents[:, :2]).reshape(-1)
    each = {}
    for j, n_known in enumerate(config.data.n_known):
        replica = tree.take(params, (len(SUPPORTS) - 1, j))
        drawn = model.components(replica, latents)[0].reshape(-1)
        each[f"gauge/{kind}/{n_known}"] = np.stack([true, drawn])
    return each
