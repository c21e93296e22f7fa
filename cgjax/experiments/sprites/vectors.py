"""The vector-valued simulation beside Wiedemer et al. 2023: recover latents from stacked parts.

K parts, each made from its own latents z_k by a random network g_k; the observation is their
stack x = (g_1(z_1), ..., g_K(z_K)). A model regresses z on x, is trained where the latents are
random, diagonal (all parts share them) or orthogonal (one part at a time is non-zero), and is
tested on random ones. One network fails off its support; one network per part does not.
"""

import functools
import itertools
import pathlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax import plots
from cgjax.analysis import contrasts
from cgjax.config import fingerprint
from cgjax.core import metrics, parallel, rng, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say, summary, write_arrays, write_results
from cgjax.data import supports
from cgjax.nets.mlp import ACTIVATIONS, MLP, uniform_fan_in
from cgjax.published import PUBLISHED

KINDS = ("mlp", "compositional")
SUPPORTS = ("random", "diagonal", "orthogonal")
SCORES = {"r2_id": "R2 on its support", "r2_all": "R2 everywhere"}
SLOPE = 0.2  # of the generator's leaky ReLUs


def run(config, workdir, figures: bool = True) -> dict:
    """Trains every model on every support and training-set size, and writes all outputs."""
    started, workdir = time.monotonic(), pathlib.Path(workdir)
    check(config)
    data = make(config)
    sizes = f"{config.data.sizes[0]:,} to {config.data.sizes[-1]:,}"
    say(f"{config.data.n_parts} parts · {', '.join(config.data.supports)} · sets of {sizes}")
    results, arrays, extra = {}, {"n_train": np.array(config.data.sizes)}, {}
    for kind in config.model.kinds:
        folder = part(config, workdir, kind)
        folder.mkdir(exist_ok=True)
        state, history = train.fit(experiment(config, kind, data), config, folder, kind)
        arrays["step"] = history["eval"].pop("step")
        found = {name: v.reshape(-1, *axes(config)) for name, v in history["eval"].items()}
        numbers, curves = _collect(config, kind, found)
        results, arrays = results | numbers, arrays | curves
        extra[kind] = {"train_s": history["wall_s"], "died_at": _deaths(config, state)}
    write_arrays(workdir / "arrays.npz", arrays)
    if figures:
        draw(arrays, workdir / "figures")
    extra["wall_s"] = time.monotonic() - started
    return write_results(workdir / "results.json", results, fingerprint(config), extra)


class Loaded(NamedTuple):
    """A finished run, opened: `predict(params, x [n, inputs])` -> latents, for one replica."""

    predict: Any
    params: Any  # leading axis: seeds, each trained on the largest set
    config: Any


def load(config, workdir: pathlib.Path, name: str = "") -> Loaded:
    """The model `kind/support` (words needed only where the run trained several)."""
    workdir = pathlib.Path(workdir)
    names = {
        part_name(config, kind, support): (kind, support)
        for kind in config.model.kinds
        for support in config.data.supports
    }
    if name not in names:
        raise BadInput(f"'{workdir}' holds {', '.join(names)}: name one of them as part")
    if not (workdir / "results.json").exists():
        raise BadInput(f"the run in '{workdir}' is not finished: run its command again first")
    kind, support = names[name]
    parts = experiment(config, kind, {})  # a finished fit only reads its checkpoints back
    state, _ = train.fit(parts, config, part(config, workdir, kind), kind)
    rows = np.arange(np.prod(axes(config))).reshape(axes(config))
    params = tree.take(state.params, rows[:, config.data.supports.index(support), -1])
    return Loaded(build(config, kind).predict, params, config)


def part(config, workdir: pathlib.Path, kind: str) -> pathlib.Path:
    """Folder of one model: its own only where a run trains several."""
    return workdir if len(config.model.kinds) == 1 else workdir / kind


def part_name(config, kind: str, support: str) -> str:
    """`"mlp/diagonal"`, without the words that are the same for the whole run."""
    words = (kind, config.model.kinds), (support, config.data.supports)
    return "/".join(word for word, several in words if len(several) > 1)


# --- data -----------------------------------------------------------------------------------------


def quality(weights: jax.Array, rule: str) -> jax.Array:
    """What the chosen draw has the least of, for each of the matrices [..., out, in].

    "reference": ||W||_F / ||pinv(W)||_F, which favours a large pseudo-inverse; "conditioned": the
    condition number sigma_max / sigma_min.
    """
    sigma = jnp.linalg.svd(weights, compute_uv=False)
    if rule == "conditioned":
        return sigma[..., 0] / sigma[..., -1]
    return jnp.sqrt(jnp.sum(sigma**2, axis=-1) / jnp.sum(sigma**-2.0, axis=-1))


@functools.partial(jax.jit, static_argnames=("shape", "n_draws", "rule"))
def best_weight(key: jax.Array, shape: tuple, n_draws: int, rule: str) -> jax.Array:
    """The best of n_draws uniform matrices with rows of unit length."""
    draws = jax.random.uniform(key, (n_draws, *shape), minval=-1.0)
    draws /= jnp.linalg.norm(draws, axis=-1, keepdims=True)
    return draws[jnp.argmin(quality(draws, rule))]


def make_generator(key: jax.Array, data) -> list:
    """K random networks latents -> hidden -> size: a layer is (weights [K, out, in], biases).

    Of many draws the best weights are kept, while the biases are the first ones drawn.
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
    """The sets of one generator, whatever others there are."""
    data = config.data
    key = jax.random.fold_in(rng.stream(jax.random.key(data.seed), "data"), number)
    generator_key, all_key, id_key, train_key = jax.random.split(key, 4)
    generator = make_generator(generator_key, data)

    def draw(key, n, support):
        z = sample(key, n, support, data.n_parts, data.n_latents)
        return {"x": generate(generator, z), "z": z.reshape(n, -1)}

    def draw_each(key, n):
        # Keyed by the support, not by its place: a row alone sees what the demonstration sees.
        places = [(name, SUPPORTS.index(name)) for name in data.supports]
        return _stacked([draw(jax.random.fold_in(key, i), n, name) for name, i in places])

    return {
        "train": draw_each(train_key, data.n_train),
        "id": draw_each(id_key, config.eval.n),
        "all": draw(all_key, config.eval.n, "random"),
    }


# --- models ---------------------------------------------------------------------------------------


class Model(NamedTuple):
    """Pure functions of (params, x [n, K * size])."""

    init: Callable  # key -> params
    predict: Callable  # params, x -> latents [n, K * latents]


def build(config, kind: str) -> Model:
    """One network for all parts, or one for each that sees the input with the others zeroed."""
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
    # The others are zeroed, not cut away: the width of the input sets the initial weights.
    seen = jnp.repeat(jnp.eye(n_networks), n_inputs // n_networks, axis=1)  # [networks, inputs]

    def init(key):
        keys = jax.random.split(key, n_networks)
        return jax.vmap(lambda key: network.init(key, jnp.zeros((1, n_inputs)))["params"])(keys)

    def predict(params, x):
        out = jax.vmap(lambda p, own: network.apply({"params": p}, x * own[None]))(params, seen)
        latents = jnp.moveaxis(out, 0, 1).reshape(len(x), -1)
        return activate(latents, jnp.float32)

    return Model(init, predict)


def sgd(lr: float, momentum: float, restart_every: int) -> optax.GradientTransformation:
    """SGD whose momentum is forgotten every so many steps; 0: never."""
    inner = optax.flatten(optax.sgd(lr, momentum))  # one vector: small leaves cost a start each
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


# --- the experiment -------------------------------------------------------------------------------


def axes(config) -> tuple[int, int, int]:
    """Replicas are seeds x supports x training-set sizes."""
    return len(config.train.seeds), len(config.data.supports), len(config.data.sizes)


def replicas(config) -> dict:
    """Everything that is trained at once; "seed" numbers the replica, so that each has its own."""
    _, n_supports, n_sizes = axes(config)
    found = [
        {
            "seed": (seed * n_supports + support) * n_sizes + size,
            "generator": index if config.data.generators == "per_seed" else 0,
            "support": support,
            "n_train": config.data.sizes[size],
        }
        for index, seed in enumerate(config.train.seeds)
        for support in range(n_supports)
        for size in range(n_sizes)
    ]
    return {name: np.array([one[name] for one in found], np.int32) for name in found[0]}


def experiment(config, kind: str, data: dict) -> train.Experiment:
    """The pieces of one model's training, on all supports and sizes at once."""
    model, optim = build(config, kind), config.optim
    # Without its gradient it trains nothing; its value is among the measures.
    regularise = contrasts.REGULARISERS[optim.regulariser if optim.regulariser_gradient else "none"]

    def measured(measure, params, x):
        return measure(lambda one: model.predict(params, one[None])[0], x, config.data.n_parts)

    def batch(data, indices, key, step):
        # Which rows there are to choose from only the loss knows, which sees the replica.
        return {"train": data["train"], "draw": jax.random.uniform(key, (config.data.batch,))}

    def loss(params, extra, batch, key, step, replica):
        rows = jnp.floor(batch["draw"] * replica["n_train"]).astype(jnp.int32)
        rows = jnp.minimum(rows, replica["n_train"] - 1)  # the product may be rounded up
        place = replica["generator"], replica["support"], rows
        x, z = batch["train"]["x"][place], batch["train"]["z"][place]
        error = metrics.mse(z, model.predict(params, x))
        penalty = measured(regularise, params, x)
        return error + optim.regulariser_weight * penalty, (extra, {"mse": error})

    def evaluate(params, extra, data, key, replica):
        everything = tree.take(data["all"], replica["generator"])
        own = tree.take(data["id"], (replica["generator"], replica["support"]))
        scalars = {
            name: metrics.r2_uniform(rows["z"], model.predict(params, rows["x"]))
            for name, rows in (("r2_id", own), ("r2_all", everything))
        }
        x = everything["x"][: config.eval.n_measured]
        for name in config.eval.measures:
            scalars[name] = measured(contrasts.MEASURES[name], params, x)
        return scalars, {}

    restart_every = config.train.round if optim.restart_momentum else 0
    return train.Experiment(
        data=data,
        replicas=replicas(config),
        init=lambda key, replica: (model.init(key), {}),
        plan=None,
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: sgd(optim.lr, optim.momentum, restart_every),
        headline=("r2_all", "max"),
    )


def check(config) -> None:
    """Words and numbers that would only fail later, or not at all."""
    data = config.data
    for key, words, known in (
        ("data.supports", data.supports, SUPPORTS),
        ("model.kinds", config.model.kinds, KINDS),
        ("model.activation", (config.model.activation,), ACTIVATIONS),
        ("optim.regulariser", (config.optim.regulariser,), contrasts.REGULARISERS),
        ("eval.measures", config.eval.measures, contrasts.MEASURES),
        ("data.rule", (data.rule,), ("reference", "conditioned")),
        ("data.generators", (data.generators,), ("shared", "per_seed")),
    ):
        for word in words:
            if word not in known:
                raise BadInput(f"unknown {key} '{word}': one of {', '.join(known)}")
    n, hidden, rising = data.n_train, config.model.hidden, sorted(set(data.sizes))
    for wrong, text in (
        (list(data.sizes) != rising or min(rising, default=0) < 1,
         f"data.sizes must rise from 1 or more, not {data.sizes}"),
        (max(rising, default=0) > n, f"data.sizes {data.sizes} go beyond data.n_train={n}"),
        (hidden % data.n_parts, f"model.hidden={hidden} must divide into {data.n_parts} parts"),
        (config.model.n_layers < 2, "model.n_layers must be 2 or more"),
        (data.seed < 0, "data.seed must be 0 or more; data.generators=per_seed draws new ones"),
    ):  # fmt: skip
        if wrong:
            raise BadInput(text)


# --- results --------------------------------------------------------------------------------------


def _collect(config, kind: str, found: dict) -> tuple[dict, dict]:
    """Results of the largest set at the end, and per model and support the arrays of the figures.

    found: {metric: [m, seeds, supports, sizes]}; final is [sizes, seeds], history [m, seeds].
    """
    results, arrays = {}, {}
    for index, support in enumerate(config.data.supports):
        row = config.row if config.row != "demo" else f"{kind}_{support}"
        published = PUBLISHED["vectors"].get(row, {})
        prefix = part_name(config, kind, support)
        for name in (*SCORES, *config.eval.measures):
            values = found[name][:, :, index]
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


def draw(arrays: dict, folder: pathlib.Path) -> list:
    """R2 against the size of the training set, and against steps for the largest one."""
    figures = []
    for stage, x, xlabel, title in (
        ("final", "n_train", "training-set size", "Latents from parts: each seed, and the median"),
        ("history", "step", "step", f"During training, {arrays['n_train'][-1]:,} samples"),
    ):
        panels = {}
        for name in (name for name in arrays if name.startswith(stage)):
            _, kind, support, score = name.split("/")
            if score in SCORES:
                panel = {"curves": {}, "log": False, "floor": None}
                panel = panels.setdefault(f"{kind}: {SCORES[score]}", panel)
                panel["curves"][support] = (arrays[x], arrays[name])
        fig = plots.learning_curves(panels, title, xlabel)
        for ax in fig.axes:
            ax.set_ylim(-1.0, 1.05)  # the same everywhere; what is worse is wrong enough
            if stage == "final":
                ax.set_xscale("log", base=2)
        figures.append(plots.save(fig, folder / f"r2_against_{x}.png"))
    return figures
