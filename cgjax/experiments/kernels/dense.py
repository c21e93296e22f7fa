"""Dense networks on symbolic inputs, from lazy to rich (Lippl and Stachenfeld 2025).

The scale of the initial weights decides the regime: at 1 the network behaves like its kernel, at
1e-6 it learns features. All scales, training sets and seeds are replicas of one compiled program.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.core import parallel, train
from cgjax.core.errors import BadInput
from cgjax.experiments.kernels import inputs, tasks
from cgjax.nets.mlp import MLP


class Sweep(NamedTuple):
    """Outputs of every trained network; first axes: seeds, training sets, initial scales."""

    tasks: tuple[tasks.Task, ...]
    outputs: np.ndarray  # [seeds, tasks, scales, N] on the whole grid
    train_loss: np.ndarray  # [seeds, tasks, scales]
    history: dict  # step [n], and every score [n, seeds, tasks, scales]
    params: dict  # leaves [seeds, tasks, scales, ...]


def run(config, workdir, name: str = "") -> Sweep:
    """Trains the whole sweep; networks that reach `optim.stop` rest while the others go on."""
    members = tuple(tasks.make(task) for task in config.data.tasks)
    check(config, members)
    state, history = train.fit(experiment(config, members), config, workdir, name)
    axes = len(config.train.seeds), len(members), len(config.model.scales)
    model, encoded = network(config), jnp.asarray(inputs.one_hot(members[0].x, members[0].sizes))
    predict = jax.jit(jax.vmap(lambda params: model.apply({"params": params}, encoded)))
    outputs = parallel.fetch(predict(state.params)).reshape(*axes, -1)
    scores = {k: v.reshape(-1, *axes) for k, v in history["eval"].items() if k != "step"}
    params = jax.tree.map(
        lambda leaf: np.asarray(leaf).reshape(*axes, *leaf.shape[1:]), parallel.fetch(state.params)
    )
    last = scores["train_loss"][-1]
    return Sweep(members, outputs, last, {"step": history["eval"]["step"], **scores}, params)


def check(config, members) -> None:
    """All training sets of a sweep share one grid; a learning rate for every scale."""
    if any(not np.array_equal(task.x, members[0].x) for task in members):
        raise BadInput(f"data.tasks={config.data.tasks} have different grids: sweep them apart")
    if len(config.optim.lrs) != len(config.model.scales):
        raise BadInput(
            f"optim.lrs has {len(config.optim.lrs)} learning rates for "
            f"{len(config.model.scales)} model.scales: give one for each"
        )
    if config.optim.loss not in LOSSES:
        raise BadInput(f"unknown optim.loss '{config.optim.loss}': one of {', '.join(LOSSES)}")
    if config.optim.optimiser not in OPTIMISERS:
        names = ", ".join(OPTIMISERS)
        raise BadInput(f"unknown optim.optimiser '{config.optim.optimiser}': one of {names}")


def network(config, scale=1.0) -> MLP:
    """ReLU layers, one linear output; He-normal weights times the scale, which may be traced."""
    return MLP(
        (), config.model.hidden, config.model.depth + 1, "relu", weights="he_normal",
        init_scale=scale,
    )  # fmt: skip


LOSSES = {
    "mse": lambda y, f: jnp.square(f - y),
    "logistic": lambda y, f: jax.nn.softplus(-y * f),
}
OPTIMISERS = {"gd": optax.sgd, "adam": optax.adam}


def replicas(config) -> dict:
    """Every network of the sweep: "seed" numbers it, the rest says what it is."""
    n_tasks, n_scales = len(config.data.tasks), len(config.model.scales)
    found = [
        {
            "seed": (seed * n_tasks + task) * n_scales + i,
            "task": task,
            "scale": np.float32(config.model.scales[i]),
            "lr": np.float32(config.optim.lrs[i]),
        }
        for seed in config.train.seeds
        for task in range(n_tasks)
        for i in range(n_scales)
    ]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def arrays(members) -> dict:
    """The grid once; for each task its training rows, padded to one length with weight 0."""
    encoded = inputs.one_hot(members[0].x, members[0].sizes)
    most = max(int(task.is_train.sum()) for task in members)
    rows = np.stack(
        [np.pad(np.flatnonzero(t.is_train), (0, most - t.is_train.sum())) for t in members]
    )
    return {
        "x": jnp.asarray(encoded, jnp.float32),
        "y": jnp.asarray(np.stack([task.y for task in members]), jnp.float32),
        "is_train": jnp.asarray(np.stack([task.is_train for task in members])),
        "rows": jnp.asarray(rows, jnp.int32),
        "weight": jnp.asarray(
            np.stack([np.arange(most) < task.is_train.sum() for task in members]), jnp.float32
        ),
    }


def experiment(config, members) -> train.Experiment:
    """Full-batch training of all networks at once."""
    model, value = network(config), LOSSES[config.optim.loss]

    def forward(params, x):
        return model.apply({"params": params}, x)

    def loss(params, extra, batch, key, step, replica):
        task = replica["task"]
        rows, weight = batch["rows"][task], batch["weight"][task]
        found = value(batch["y"][task][rows], forward(params, batch["x"][rows]))
        return jnp.sum(found * weight) / jnp.sum(weight), (extra, {})

    def evaluate(params, extra, data, key, replica):
        y, is_train = data["y"][replica["task"]], data["is_train"][replica["task"]]
        f = forward(params, data["x"])
        scores = {"loss": value(y, f), "mse": jnp.square(f - y), "margin": y * f}
        scores["accuracy"] = (jnp.sign(f) == jnp.sign(y)).astype(jnp.float32)
        parts = {"train": is_train, "test": ~is_train}
        return {
            f"{part}_{name}": jnp.sum(jnp.where(mask, score, 0)) / jnp.sum(mask)
            for part, mask in parts.items()
            for name, score in scores.items()
        }, {}

    def control(scalars, best, step, lr_scale):
        return scalars["train_loss"] < config.optim.stop, lr_scale

    def init(key, replica):
        scaled = network(config, replica["scale"])
        return scaled.init(key, jnp.zeros((1, sum(members[0].sizes))))["params"], {}

    return train.Experiment(
        data=arrays(members),
        replicas=replicas(config),
        init=init,
        plan=None,
        batch=lambda data, indices, key, step: data,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optax.flatten(OPTIMISERS[config.optim.optimiser](replica["lr"])),
        headline=("train_loss", "min"),
        control=control,
    )
