"""Does the support condition predict which unseen pairs of pictures are drawn right?

Before training, `support.identify`'s first order gives for every pair of identities the share of f
that a support leaves open (`unknown`), over that of as many samples of everything (the floor).
After training, each pair has an error, over that of the same model trained on everything. Pairs
that a support never shows are compared, over all supports. A pair counts as drawn right if its
error is at most RIGHT times that of the model that has seen everything.

Models: `network`, a learned vector for each identity and a dense network per picture; `table`, a
learned picture for each identity, moved as the true ones are; and, as a control, `monolithic`, one
network for both pictures, about which the theory says nothing.
"""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import stats
from cgjax.analysis.support import identification
from cgjax.core import metrics, optim, program, train, tree
from cgjax.core.logging import say
from cgjax.core.replicas import Grid, with_numbers
from cgjax.experiments.sprites.support import pictures
from cgjax.experiments.sprites.support.pictures import EVERYTHING, N_IDS, N_LATENTS, PAIRS
from cgjax.nets.mlp import MLP

RIGHT = 2.0  # times the error of the model that has seen everything
CLOSED = 2.0  # times the floor: what a support leaves open of a pair that it determines
BOUND = 5.0  # a ratio of errors is near its bound if it is at most so many times below it
NOTHING = 1e-12  # variance
N_CODE = 16  # numbers of an identity's learned vector
LOGITS = 10.0  # by which a table's parameters are multiplied: they move as fast as a network's
SHARPNESS = 10.0  # of a table's outlines


class Model(NamedTuple):
    init: Callable  # key -> params
    predict: Callable  # params, latents [n, 10] -> scenes [n, size, size, 3]


def build(config, kind: str) -> Model:
    """A model of two pictures."""
    size, hidden = config.data.image_size, config.model.hidden
    if kind == "monolithic":
        return _monolithic(size, 2 * hidden)
    init, draw = {"network": _network, "table": _table}[kind](size, hidden)

    def predict(params, latents):
        front, back = jnp.split(latents, 2, axis=1)
        return pictures.compose([draw(params["front"], front), draw(params["back"], back)])

    def init_both(key):
        return dict(zip(("front", "back"), map(init, jax.random.split(key))))

    return Model(init_both, predict)


def _features(latents):
    """Continuous latents of one picture [n, 5] as inputs [n, 5] of a network."""
    angle = 2 * jnp.pi * latents[:, 4:]
    return jnp.concatenate([4 * latents[:, 1:4] - 2, jnp.cos(angle), jnp.sin(angle)], axis=1)


def _inputs(codes, latents):
    return jnp.concatenate([codes[latents[:, 0].astype(jnp.int32)], _features(latents)], axis=1)


def _network(size, hidden):
    net = MLP(out_shape=(size, size, 4), hidden=hidden, n_layers=3, activation="relu")

    def init(key):
        codes = jax.random.normal(key, (N_IDS, N_CODE))
        return {"codes": codes, "net": net.init(key, jnp.zeros((1, N_CODE + 5)))["params"]}

    def draw(params, latents):
        return jax.nn.sigmoid(
            net.apply({"params": params["net"]}, _inputs(params["codes"], latents))
        )

    return init, draw


def _table(size, hidden):
    def init(key):
        shape = (N_IDS, pictures.SIDE, pictures.SIDE, 4)
        return {"logits": 0.1 * jax.random.normal(key, shape) / LOGITS}

    def draw(params, latents):
        cut_outs = jax.nn.sigmoid(LOGITS * params["logits"])

        def one(z):
            canvas = pictures.placed(cut_outs[z[0].astype(jnp.int32)], *pictures.geometry(z), size)
            opacity = jax.nn.sigmoid(SHARPNESS * (canvas[..., 3:] - 0.5))
            return jnp.concatenate([canvas[..., :3] * pictures.tint(z[4])[None, None], opacity], -1)

        return jax.vmap(one)(latents)

    return init, draw


def _monolithic(size, hidden):
    net = MLP(out_shape=(size, size, 3), hidden=hidden, n_layers=3, activation="relu")

    def init(key):
        codes = jax.random.normal(key, (2, N_IDS, N_CODE))
        return {"codes": codes, "net": net.init(key, jnp.zeros((1, 2 * N_CODE + 10)))["params"]}

    def predict(params, latents):
        parts = zip(params["codes"], jnp.split(latents, 2, axis=1))
        inputs = jnp.concatenate([_inputs(codes, z) for codes, z in parts], axis=1)
        return jax.nn.sigmoid(net.apply({"params": params["net"]}, inputs))

    return Model(init, predict)


# --- before training ------------------------------------------------------------------------------


def grey_component(config, cut_outs: np.ndarray) -> Callable:
    """Identity and place [n, 3] -> brightness and opacity [n, 1, pixels, 2] of a true picture.

    At the middle size and hue: supports differ in nothing else, and samples of fewer latents
    resolve more. At a random sample of pixels, because C acts pixel by pixel.
    """
    size = config.data.image_size
    rng = np.random.default_rng(config.data.seed)
    at = rng.choice(size**2, config.data.n_pixels, replace=False)

    @jax.jit
    def component(latents):
        rows = jnp.pad(jnp.asarray(latents, jnp.float32), ((0, 0), (0, 2)), constant_values=0.5)
        drawn = pictures.pictures(cut_outs, rows, size).reshape(len(rows), 1, -1, 4)[:, :, at]
        return jnp.stack([jnp.mean(drawn[..., :3], axis=-1), drawn[..., 3]], axis=-1)

    return component


def grey_compose(slots):
    """`pictures.compose` of pictures without colour [..., 2] -> [..., 1]."""
    (front, opacity), (back, behind) = (jnp.moveaxis(slot, -1, 0) for slot in slots)
    return (opacity * front + (1 - opacity) * behind * back)[..., None]


def audit(config, component: Callable, support: str) -> tuple[np.ndarray, float]:
    """Share of each pair's f that a support leaves open, [100], and the amplification: the squared
    error on everything over that on the support. By `support.identify`'s first order."""
    data = config.data
    say(f"{support}: auditing")
    kept = [d for d in range(2 * N_LATENTS) if d % N_LATENTS < 3]
    on_p = pictures.sample(support, data.n_samples, data.seed)[:, kept]
    on_q = pictures.of_each_pair(data.n_asked, data.seed)[:, kept]
    kinds = pictures.KINDS[:3] * 2
    left = identification.leftover(
        grey_compose, [component] * 2, on_p, on_q, data.length, (data.noise,), kinds
    )
    parts = (left.on_q[0], left.prior)
    variance, prior = (x.reshape(data.n_pixels, len(PAIRS), -1).mean((0, 2)) for x in parts)
    # Of a pair that no tested pixel shows nothing stays open.
    unknown = np.sqrt(np.maximum(variance, NOTHING) / np.maximum(prior, NOTHING))
    return unknown, float(left.on_q.mean() / left.on_p.mean())


# --- training -------------------------------------------------------------------------------------


def names(config) -> tuple[str, ...]:
    """All supports; the first is the one that shows everything."""
    return (EVERYTHING, *config.data.pair_supports)


def grid(config) -> Grid:
    """Seeds x supports, which train at once."""
    return Grid(seed=config.train.seeds, support=np.arange(len(names(config)), dtype="i4"))


def make(config, cut_outs: np.ndarray) -> dict:
    """Scenes of all supports as latents; each step draws them."""
    data, n = config.data, config.eval.n
    draws = ((data.n_train, data.seed), (len(PAIRS) * n, data.seed + 1))
    train_set, known = (
        np.stack([pictures.sample(name, n, seed) for name in names(config)]) for n, seed in draws
    )
    pairs = pictures.of_each_pair(n, data.seed + 1).reshape(len(PAIRS), n, -1)
    return {"cut_outs": cut_outs, "train": train_set, "id": known, "pairs": pairs}


def experiment(config, kind: str, data: dict) -> program.Experiment:
    """One model on all supports, as the training loop takes it."""
    model, networks = build(config, kind), grid(config)

    def batch(data, indices, key, step):
        # The loss selects rows, because the support is in its argument `replica`.
        rows = jax.random.randint(key, (config.data.batch,), 0, config.data.n_train)
        return {"latents": data["train"][:, rows], "cut_outs": data["cut_outs"]}

    def error(params, latents, cut_outs):
        target = pictures.scenes(cut_outs, latents, config.data.image_size)
        return jnp.mean(jnp.square(model.predict(params, latents) - target))

    def loss(params, extra, batch, key, step, replica):
        latents = batch["latents"][replica["support"]]
        return error(params, latents, batch["cut_outs"]), (extra, {})

    def evaluate(params, extra, data, key, replica):
        def of_pair(latents):
            return error(params, latents, data["cut_outs"])

        by_pair = jax.lax.map(of_pair, data["pairs"])
        known = data["id"][replica["support"]].reshape(data["pairs"].shape)
        each = metrics.entries("pair", by_pair)
        means = {"mse_id": jnp.mean(jax.lax.map(of_pair, known)), "mse_all": jnp.mean(by_pair)}
        return means | each, {}

    return with_cosine(config, networks, model.init, data, batch, loss, evaluate)


def with_cosine(config, networks: Grid, init, data, batch, loss, evaluate) -> program.Experiment:
    """An experiment of networks that are trained by AdamW, along a cosine to a rate of 0."""

    def tx(replica):
        return optim.adamw(optim.cosine(replica["lr"], 0.0, config.train.steps, 1), 0.0)

    numbers = networks.replicas() | {"stream": networks.streams()}
    return program.Experiment(
        data=data,
        replicas=with_numbers(numbers, lr=config.optim.lr),
        init=lambda key, replica: (init(key), {}),
        plan=None,
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        headline=None,
        identity=networks.identity,
    )


# --- scores ---------------------------------------------------------------------------------------


def shown(latents: np.ndarray) -> np.ndarray:
    """Share of training scenes [n, 10] that show the rarer picture of each pair, [100]."""
    in_front, behind = (
        np.bincount(latents[:, d].astype(int), minlength=N_IDS) / len(latents)
        for d in (0, N_LATENTS)
    )
    return np.minimum(in_front[PAIRS[:, 0]], behind[PAIRS[:, 1]])


def scores(left_open, share_shown, ratio, support) -> dict[str, float]:
    """Of unseen pairs [n]: what stays open over the floor, and the share of scenes that show their
    rarer picture, against their error over that of the model that has seen everything. support:
    its number [n]."""
    is_closed, is_right = left_open <= CLOSED, ratio <= RIGHT
    alike = np.round(share_shown, 2)
    return {
        "tau-b(open, error)": stats.kendall_tau_b(left_open, ratio),
        "tau-b(open, error) among pairs shown alike": stats.kendall_tau_b(left_open, ratio, alike),
        "tau-b(not shown, error)": stats.kendall_tau_b(-share_shown, ratio),
        "wrong pairs more open within supports": concordance(left_open, ~is_right, support),
        "wrong pairs shown less within supports": concordance(-alike, ~is_right, support),
        "determined pairs drawn right": np.mean(is_right[is_closed]) if is_closed.any() else np.nan,
        "open pairs drawn right": np.mean(is_right[~is_closed]) if not is_closed.all() else np.nan,
    }


def concordance(values, is_wrong, support) -> float:
    """How often a wrong pair has a greater value [n] than a right one of the same support; ties
    count half. NaN where no support has both. Unlike tau it leaves out pairs that are all drawn
    right, whose errors differ by noise."""
    both = is_wrong[:, None] & ~is_wrong[None, :] & (support[:, None] == support[None, :])
    signs = np.sign(values[:, None] - values[None, :])[both]
    return float(np.mean((1 + signs) / 2)) if signs.size else np.nan


def bound(amplification, mse_id, mse_all) -> dict[str, float]:
    """Of evaluations [m, S]: how many ratios of errors exceed the amplification [S], and how many
    are at most BOUND times below it."""
    slack = amplification[None] / (mse_all / mse_id)
    return {
        "evaluations above the amplification": np.mean(slack < 1),
        f"evaluations within a factor {BOUND:g}": np.mean((slack >= 1) & (slack <= BOUND)),
    }


# --- the study ------------------------------------------------------------------------------------


def study(config, workdir):
    """What each support leaves open of each pair, against errors of the models after training."""
    data, networks = config.data, grid(config)
    cut_outs = pictures.cut_outs(data.images, data.is_made_up)
    component = grey_component(config, cut_outs)
    audits = [audit(config, component, name) for name in names(config)]
    unknown, amplification = map(np.array, zip(*audits))
    left_open = unknown / unknown[:1]
    unseen = np.array([pictures.unseen(name) for name in names(config)])
    sets = make(config, cut_outs)
    share_shown = np.stack([shown(latents) for latents in sets["train"]])[unseen]
    results, sentences = {"unseen pairs": np.sum(unseen)}, []
    for name, is_unseen, value in zip(names(config)[1:], unseen[1:], left_open[1:]):
        results[f"{name}: open over the floor"] = np.median(value[is_unseen])
        say(f"{name}: leaves {np.median(value[is_unseen]):.3g} times the floor open")
    arrays = {"supports": np.array(names(config)), "unseen": unseen, "open": left_open}
    arrays["images"] = np.array(data.images)
    arrays |= {"amplification": amplification} | examples(config, cut_outs, unseen, left_open)
    for kind in config.model.kinds:
        folder = pathlib.Path(workdir) / kind
        state, history = train.fit(experiment(config, kind, sets), config, folder, kind)
        curves = networks.history(history["eval"])  # {name: [m, seeds, supports]}
        errors = np.stack([curves[f"pair[{i}]"][-1] for i in range(len(PAIRS))], axis=-1)
        ratio = errors / errors[:, :1]
        arrays |= {"step": curves["step"], f"{kind}/ratio": ratio}
        arrays |= {f"{kind}/{name}": curves[name] for name in ("mse_id", "mse_all")}
        numbers = [
            scores(left_open[unseen], share_shown, each[unseen], np.nonzero(unseen)[0])
            | bound(amplification, curves["mse_id"][:, i], curves["mse_all"][:, i])
            | {
                f"{name}: error of unseen pairs": np.median(each[k][unseen[k]])
                for k, name in enumerate(names(config))
                if k
            }
            for i, each in enumerate(ratio)
        ]
        by_seed = {name: [each[name] for each in numbers] for name in numbers[0]}
        results |= {f"{kind}/{name}": values for name, values in by_seed.items()}
        model, params = build(config, kind), tree.take(networks.by_axes(state.params), 0)
        drawn = [
            model.predict(tree.take(params, k + 1), latents[None])[0]
            for k, latents in enumerate(arrays["examples"])
        ]
        arrays[f"{kind}/drawn"] = np.stack(drawn)
        tau, closed, left = (
            np.mean(by_seed[name])
            for name in (
                "tau-b(open, error)",
                "determined pairs drawn right",
                "open pairs drawn right",
            )
        )
        sentences.append(
            f"{kind}: tau-b of what stays open with the error of {unseen.sum()} unseen pairs "
            f"{tau:.2f}; of determined pairs {closed:.0%} are drawn right, of open ones {left:.0%}"
        )
        say(sentences[-1])
    return results, arrays, sentences


def examples(config, cut_outs, unseen, left_open) -> dict:
    """One scene for each support, of the unseen pair that it leaves open most."""
    everywhere = pictures.of_each_pair(1, config.data.seed + 2)
    chosen = [int(np.argmax(np.where(u, x, 0))) for u, x in zip(unseen[1:], left_open[1:])]
    latents = everywhere[chosen]
    true = pictures.scenes(cut_outs, jnp.asarray(latents), config.data.image_size)
    return {"examples": latents, "true": np.asarray(true)}
