"""One run of the vector simulation: parts, models, training, figures, results."""

import functools
import itertools
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax import plots
from cgjax.analysis import contrasts
from cgjax.core import checkpoint, metrics, parallel, program, rng, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.replicas import Grid, with_numbers
from cgjax.data import supports
from cgjax.nets.mlp import ACTIVATIONS, MLP, uniform_fan_in
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
from cgjax.published.results import summary


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Trains every model on every support and training-set size: (metrics, arrays, extra)."""
    workdir = pathlib.Path(workdir)
    data = make(config)
    span = f"{config.data.sizes[0]:,} to {config.data.sizes[-1]:,}"
    say(f"{config.data.n_parts} parts · {', '.join(config.data.supports)} · sets of {span}")
    results, arrays, extra = {}, {"n_train": np.array(config.data.sizes)}, {}
    for kind in config.model.kinds:
        folder = part(config, workdir, kind)
        state, history = train.fit(experiment(config, kind, data), config, folder, kind)
        scores = grid(config).history(history["eval"])
        arrays["step"] = scores["step"]
        numbers, curves = _collect(config, kind, scores)
        results, arrays = results | numbers, arrays | curves
        extra[kind] = {"train_s": history["wall_s"], "died_at": _deaths(config, state)}
    if figures:
        draw(arrays, workdir / "figures")
    return results, arrays, extra


def load(config, workdir: pathlib.Path, name: str = "", step=None) -> checkpoint.Loaded:
    """The model `kind/support`; `name` leaves out what the whole run shares (`part_name`).

    `predict(params, x [n, inputs])` -> latents; params: seeds, each trained on the largest set.
    """
    names = {
        part_name(config, kind, support): (kind, support)
        for kind in config.model.kinds
        for support in config.data.supports
    }
    kind, support = names[checkpoint.choose(name, names, workdir)]
    wanted = grid(config).names(support=config.data.supports.index(support), n_train=-1)
    params, _, steps = checkpoint.read_trained(
        part(config, pathlib.Path(workdir), kind), wanted, step
    )
    return checkpoint.Loaded(build(config, kind).predict, params, config, steps)


def plan(config) -> dict:
    """How large each model's training is."""
    return {
        kind: program.training_size(experiment(config, kind, {}), config)
        for kind in config.model.kinds
    }


def part(config, workdir: pathlib.Path, kind: str) -> pathlib.Path:
    """Folder of one model: the workdir itself if a run trains only one."""
    return workdir if len(config.model.kinds) == 1 else workdir / kind


def part_name(config, kind: str, support: str) -> str:
    """`"mlp/diagonal"`, without the parts that the whole run shares."""
    choices = (kind, config.model.kinds), (support, config.data.supports)
    return "/".join(choice for choice, options in choices if len(options) > 1)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs."""
    return [("vectors", markdown.metric_table(record, ("r2_all",)))]


# --- the experiment -------------------------------------------------------------------------------


def grid(config) -> Grid:
    """Seeds x supports x training-set sizes."""
    return Grid(
        seed=config.train.seeds,
        support=np.arange(len(config.data.supports), dtype="i4"),
        n_train=np.array(config.data.sizes, "i4"),
    )


def replicas(config) -> dict:
    """All replicas, which train at once; "stream" selects each replica's random numbers."""
    networks = grid(config)
    generators = np.arange(len(config.train.seeds), dtype="i4")
    generators *= config.data.generators == "per_seed"
    return networks.replicas() | {
        "stream": networks.streams(),
        "generator": networks.along("seed", generators),
    }


def experiment(config, kind: str, data: dict) -> program.Experiment:
    """One model's training, on all supports and sizes at once, as the training loop takes it."""
    model, optim = build(config, kind), config.optim
    regularise = contrasts.REGULARISERS[optim.regulariser]
    weight = optim.regulariser_weight if optim.regulariser != "none" else 0.0

    def measured(measure, params, x):
        return measure(lambda row: model.predict(params, row[None])[0], x, config.data.n_parts)

    def batch(data, indices, key, step):
        # The loss selects rows, because the training-set size is in its argument `replica`.
        return {"train": data["train"], "draw": jax.random.uniform(key, (config.data.batch,))}

    def loss(params, extra, batch, key, step, replica):
        rows = jnp.floor(batch["draw"] * replica["n_train"]).astype(jnp.int32)
        rows = jnp.minimum(rows, replica["n_train"] - 1)  # the product may be rounded up
        place = replica["generator"], replica["support"], rows
        x, z = batch["train"]["x"][place], batch["train"]["z"][place]
        error = metrics.mse(z, model.predict(params, x))
        penalty = measured(regularise, params, x)
        return error + replica["weight"] * penalty, (extra, {"mse": error})

    def evaluate(params, extra, data, key, replica):
        everything = tree.take(data["all"], replica["generator"])
        familiar = tree.take(data["id"], (replica["generator"], replica["support"]))
        scalars = {
            name: metrics.r2_uniform(rows["z"], model.predict(params, rows["x"]))
            for name, rows in (("r2_id", familiar), ("r2_all", everything))
        }
        for name in config.eval.measures:
            x = everything["x"][: config.eval.n_measured]
            scalars[name] = measured(contrasts.MEASURES[name], params, x)
        return scalars, {}

    return program.Experiment(
        data=data,
        replicas=with_numbers(
            replicas(config), lr=optim.lr, momentum=optim.momentum, weight=weight
        ),
        init=lambda key, replica: (model.init(key), {}),
        plan=None,
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: sgd(replica["lr"], replica["momentum"], config.train.round),
        headline=("r2_all", "max"),
        identity=grid(config).identity,
    )


def check(config) -> None:
    """Checks constraints between keys, which ranges of single keys cannot express."""
    data, hidden, measures = config.data, config.model.hidden, config.eval.measures
    n, rising = data.n_train, sorted(set(data.sizes))
    largest = (2**32 - 1) // (len(data.supports) * len(data.sizes)) - 1
    splits = "compositional" in config.model.kinds and hidden % data.n_parts
    n_measured = config.eval.n_measured if measures else 0
    for wrong, text in (
        (list(data.sizes) != rising, f"data.sizes must rise, not {data.sizes}"),
        (rising[-1] > n, f"data.sizes {data.sizes} go beyond data.n_train={n}"),
        (splits, f"model.hidden={hidden} must divide into data.n_parts={data.n_parts}"),
        (
            n_measured > config.eval.n,
            f"eval.n_measured={n_measured} must not exceed eval.n={config.eval.n}",
        ),
        (
            max(config.train.seeds) > largest,
            f"train.seeds go up to {largest} here: seed, support and size share 32 bits",
        ),
    ):
        if wrong:
            raise BadInput(text)


# --- results --------------------------------------------------------------------------------------


def _collect(config, kind: str, scores: dict) -> tuple[dict, dict]:
    """Final results of the largest set, and the arrays of the figures for each model and support.

    scores: {metric: [m, seeds, supports, sizes]}; final is [sizes, seeds], history [m, seeds].
    """
    results, arrays = {}, {}
    for index, support in enumerate(config.data.supports):
        row = config.row if config.row != "demo" else f"{kind}_{support}"
        published = PUBLISHED["vectors"].get(row, {})
        prefix = part_name(config, kind, support)
        for name in (*SCORES, *config.eval.measures):
            values = scores[name][:, :, index]
            arrays[f"final/{kind}/{support}/{name}"] = values[-1].T
            arrays[f"history/{kind}/{support}/{name}"] = values[:, :, -1]
            entry = summary(values[-1, :, -1], config.train.seeds, published.get(name))
            results[f"{prefix}/{name}" if prefix else name] = entry
    return results, arrays


def _deaths(config, state) -> dict:
    """`{"seed 0, diagonal, n 16": step}` of the replicas that turned non-finite."""
    names = itertools.product(config.train.seeds, config.data.supports, config.data.sizes)
    steps = zip(names, parallel.fetch(state.died_at))
    return {f"seed {s}, {support}, n {n}": int(t) for (s, support, n), t in steps if t >= 0}


# --- figures --------------------------------------------------------------------------------------


SCORES = {"r2_id": "R2 on its support", "r2_all": "R2 everywhere"}
KIND_NAMES = {"mlp": "one network", "compositional": "a network per part"}


def draw(arrays: dict, folder: pathlib.Path) -> list:
    """R2 against the size of the training set, and against steps for the largest set."""
    figures = []
    largest = f"{arrays['n_train'][-1]:,} samples"
    for stage, x, xlabel, log2_x, subtitle in (
        ("final", "n_train", "training-set size", True, "by size of the training set"),
        ("history", "step", "step", False, f"during training on {largest}"),
    ):
        panels = {}
        for name in (name for name in arrays if name.startswith(stage)):
            _, kind, support, score = name.split("/")
            if score in SCORES:
                panel = {"curves": {}, "scale": "r2"}
                panel = panels.setdefault(f"{KIND_NAMES.get(kind, kind)}:\n{SCORES[score]}", panel)
                panel["curves"][support] = (arrays[x], arrays[name])
        title = f"How well latents are recovered {subtitle}"
        # One axis without a fixed floor: small sets and new supports often score far below zero.
        fig = plots.learning_curves(panels, title, xlabel, log2_x=log2_x, one_y=True)
        figures.append(plots.save(fig, folder / f"r2_against_{x}.png"))
    return figures


# --- models ---------------------------------------------------------------------------------------
# They regress latents on stacked parts; SGD resets its momentum.


KINDS = ("mlp", "compositional")


class Model(NamedTuple):
    """Pure functions of (params, x [n, K * size])."""

    init: Callable  # key -> params
    predict: Callable  # params, x -> latents [n, K * latents]


def build(config, kind: str) -> Model:
    """One network for all parts, or one per part, whose input has the other parts set to zero."""
    data, model = config.data, config.model
    n_inputs = data.n_parts * data.part_size
    n_networks = 1 if kind == "mlp" else data.n_parts
    network = MLP(
        out_shape=(data.n_parts * data.n_latents // n_networks,),
        hidden=model.hidden // n_networks,
        n_layers=model.n_layers,
        activation=model.activation,
    )
    activate = ACTIVATIONS[model.activation]
    # Set to zero, not removed: the width of the input determines the scale of initial weights.
    masks = jnp.repeat(jnp.eye(n_networks), n_inputs // n_networks, axis=1)  # [networks, inputs]

    def init(key):
        keys = jax.random.split(key, n_networks)
        return jax.vmap(lambda key: network.init(key, jnp.zeros((1, n_inputs)))["params"])(keys)

    def predict(params, x):
        out = jax.vmap(lambda p, mask: network.apply({"params": p}, x * mask[None]))(params, masks)
        latents = jnp.moveaxis(out, 0, 1).reshape(len(x), -1)
        return activate(latents, jnp.float32)

    return Model(init, predict)


def sgd(lr: float, momentum: float, restart_every: int) -> optax.GradientTransformation:
    """SGD that resets its momentum every `restart_every` steps; 0: never."""
    inner = optax.flatten(optax.sgd(lr, momentum))  # one vector: small leaves cost a launch each
    if not restart_every:
        return inner

    def update(grads, state, params=None):
        count, state = state
        fresh = tree.where(count % restart_every == 0, inner.init(grads), state)
        updates, state = inner.update(grads, fresh, params)
        return updates, (count + 1, state)

    return optax.GradientTransformation(
        lambda params: (jnp.zeros((), jnp.int32), inner.init(params)), update
    )


# --- parts ----------------------------------------------------------------------------------------
# K random networks, and samples of their stack on every support.


SUPPORTS = ("random", "diagonal", "orthogonal")
RULES = ("reference", "conditioned")
GENERATORS = ("shared", "per_seed")
SLOPE = 0.2  # of the generator's leaky ReLUs


def quality(weights: jax.Array, rule: str) -> jax.Array:
    """The number that the chosen draw minimises, for each of the matrices [..., out, in].

    "reference": ||W||_F / ||pinv(W)||_F, which favours a large pseudo-inverse; "conditioned": the
    condition number sigma_max / sigma_min.
    """
    # sigma^2 from the smaller Gram matrix: accelerators decompose a batch of larger ones serially.
    tall = weights if weights.shape[-2] > weights.shape[-1] else jnp.swapaxes(weights, -1, -2)
    squares = jnp.einsum("...oi,...oj->...ij", tall, tall, precision="highest")
    squares = jnp.linalg.eigvalsh(squares)
    if rule == "conditioned":
        return jnp.sqrt(squares[..., -1] / squares[..., 0])
    return jnp.sqrt(jnp.sum(squares, axis=-1) / jnp.sum(1 / squares, axis=-1))


@functools.partial(jax.jit, static_argnames=("shape", "n_draws", "rule"))
def best_weight(key: jax.Array, shape: tuple, n_draws: int, rule: str) -> jax.Array:
    """The best of n_draws uniform matrices with rows of unit length."""
    draws = jax.random.uniform(key, (n_draws, *shape), minval=-1.0)
    draws /= jnp.linalg.norm(draws, axis=-1, keepdims=True)
    return draws[jnp.argmin(quality(draws, rule))]


def make_generator(key: jax.Array, data) -> list:
    """K random networks latents -> hidden -> size: a layer is (weights [K, out, in], biases).

    Weights are the best of many draws; biases are the first draw.
    """
    layers = []
    for i, shape in enumerate(((data.hidden, data.n_latents), (data.part_size, data.hidden))):
        # Part by part: a loop inside the compiled program is ten times slower on a CPU.
        keys = jax.random.split(jax.random.fold_in(key, i), (data.n_parts, 2))
        best = [best_weight(weight_key, shape, data.n_draws, data.rule) for weight_key, _ in keys]
        biases = jax.vmap(lambda k, s=shape: uniform_fan_in(s[1])(k, s[:1]))(keys[:, 1])
        layers.append((jnp.stack(best), biases))
    return layers


def generate(generator: list, z: jax.Array) -> jax.Array:
    """Stacked parts [n, K * size] of latents [n, K, latents]."""
    y = z
    for weights, biases in generator:
        y = jax.nn.leaky_relu(jnp.einsum("nki,koi->nko", y, weights) + biases[None], SLOPE)
    return y.reshape(len(z), -1)


def sample(key: jax.Array, n: int, support: str, n_parts: int, n_latents: int) -> jax.Array:
    """Latents [n, K, latents] in [0, 1]: random, (exactly) diagonal, or orthogonal."""
    if support == "diagonal":
        shared = supports.sample(key, n, "random", slots=(n_latents,))
        return jnp.broadcast_to(shared[:, None], (n, n_parts, n_latents))
    drawn = supports.sample(key, n, support, slots=(n_latents,) * n_parts)
    return drawn.reshape(n, n_parts, n_latents)


def make(config) -> dict:
    """`{"train", "id", "all"}`, each `{"x": [..., n, K * size], "z": [..., n, K * latents]}`.

    The first axis counts generators; "train" and "id" have the supports as a second one.
    """
    numbers = config.train.seeds if config.data.generators == "per_seed" else (0,)
    return _stacked([_sets(config, number) for number in numbers])


def _stacked(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _sets(config, number: int) -> dict:
    """The sets of one generator; they do not depend on the other generators."""
    data = config.data
    key = jax.random.fold_in(rng.stream(jax.random.key(data.seed), "data"), number)
    generator_key, all_key, id_key, train_key = jax.random.split(key, 4)
    generator = make_generator(generator_key, data)

    def draw(key, n, support):
        z = sample(key, n, support, data.n_parts, data.n_latents)
        return {"x": generate(generator, z), "z": z.reshape(n, -1)}

    def draw_each(key, n):
        # The key depends on the support, not on its position: single rows and the demonstration
        # draw the same samples.
        places = [(name, SUPPORTS.index(name)) for name in data.supports]
        return _stacked([draw(jax.random.fold_in(key, i), n, name) for name, i in places])

    return {
        "train": draw_each(train_key, data.n_train),
        "id": draw_each(id_key, config.eval.n),
        "all": draw(all_key, config.eval.n, "random"),
    }
