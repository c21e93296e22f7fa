"""Dense networks on symbolic inputs, from lazy to rich (Lippl and Stachenfeld 2025).

The scale of the initial weights sets the regime: at 1 the network behaves like its kernel, at 1e-6
it learns features. All scales, training sets and seeds are replicas of one compiled program. A
change of a shape or of the loss needs another part of the run, with its own sub-folder.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import optim, parallel, program, train
from cgjax.core.errors import BadInput
from cgjax.core.replicas import Grid
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.scores import LOSSES
from cgjax.nets.mlp import MLP


class Sweep(NamedTuple):
    """Every trained network; first axes: seeds, training sets, initial scales."""

    tasks: tuple[tasks.Task, ...]
    starts: np.ndarray  # [seeds, tasks, scales, N] outputs on the whole grid before training
    outputs: np.ndarray  # [seeds, tasks, scales, N] after training
    train_loss: np.ndarray  # [seeds, tasks, scales]
    history: dict  # step [n], and every score [n, seeds, tasks, scales]
    params: dict  # leaves [seeds, tasks, scales, ...]
    grams: np.ndarray  # [2, seeds, tasks, scales, N, N] last hidden layer, before and after


def run(config, workdir, name: str = "") -> Sweep:
    """Trains the whole sweep; networks that reach `optim.stop` stop while the others continue."""
    task_set = members(config)
    sweep = experiment(config, task_set)
    state, history = train.fit(sweep, config, workdir, name)
    start = train.initial(sweep, config)
    networks = [
        parallel.fetch({**state.extra, **state.params}) for state in (start, state)
    ]  # before and after
    (starts, before), (outputs, after) = (
        _evaluate_all(config, task_set, params) for params in networks
    )
    axes = grid(config)
    scores = axes.history(history["eval"])
    return Sweep(
        task_set,
        axes.by_axes(starts),
        axes.by_axes(outputs),
        scores["train_loss"][-1],
        scores,
        axes.by_axes(networks[1]),
        np.stack(axes.by_axes([before, after])),
    )


def members(config) -> tuple[tasks.Task, ...]:
    """The training sets of the sweep."""
    return tuple(tasks.make(task) for task in config.data.tasks)


def _evaluate_all(config, members, params):
    """Outputs [R, N] of all networks on the grid; Gram matrices [R, N, N] of their last layer."""
    model, encoded = network(config), jnp.asarray(inputs.one_hot(members[0].x, members[0].sizes))

    def evaluate_network(params):
        return model.apply({"params": params}, encoded), features(model, params, encoded)

    batched = jax.jit(lambda params: jax.lax.map(evaluate_network, params, batch_size=8))
    outputs, hidden = jax.tree.map(np.asarray, batched(params))
    # Rich features have few large directions: rounding of float32 products would hide the others.
    return outputs, np.stack([np.float64(layer) @ np.float64(layer).T for layer in hidden])


def check(config) -> None:
    """Checks that all training sets share one grid and that every scale has a learning rate."""
    task_set = members(config)
    if any(not np.array_equal(task.x, task_set[0].x) for task in task_set):
        raise BadInput(f"data.tasks={config.data.tasks} have different grids: run them separately")
    if len(config.optim.lrs) != len(config.model.scales):
        raise BadInput(
            f"optim.lrs has {len(config.optim.lrs)} learning rates for "
            f"{len(config.model.scales)} model.scales: give one for each"
        )
    largest = (2**32 - 1) // (len(task_set) * len(config.model.scales)) - 1
    if max(config.train.seeds) > largest:
        raise BadInput(
            f"train.seeds go up to {largest} here: seeds, tasks and scales share 32 bits"
        )


# --- the network ----------------------------------------------------------------------------------


def network(config, scale=1.0) -> MLP:
    """ReLU layers, one linear output; He-normal weights times the scale, which may be traced."""
    return MLP(
        (),
        config.model.hidden,
        config.model.depth + 1,
        "relu",
        weights="he_normal",
        init_scale=scale,
    )


def features(model: MLP, params, x):
    """Activations [n, hidden] of the last hidden layer."""
    last = f"dense_{model.n_layers - 2}"
    _, captured = model.apply(
        {"params": params},
        x,
        mutable="intermediates",
        capture_intermediates=lambda module, _: module.name == last,
    )
    return jax.nn.relu(captured["intermediates"][last]["__call__"][0])


def split(params, trained: str):
    """(trained, frozen) parameters: all layers are trained, or only the readout, from zero.

    With only the readout trained, f is a kernel machine on the random features of the last hidden
    layer.
    """
    if trained == "all":
        return params, {}
    *hidden, last = sorted(params)
    readout = jax.tree.map(jnp.zeros_like, params[last])
    return {last: readout}, {name: params[name] for name in hidden}


TRAINED = ("all", "readout")


# --- all networks as one experiment ---------------------------------------------------------------


def grid(config) -> Grid:
    """Seeds x training sets x initial scales."""
    return Grid(
        seed=config.train.seeds,
        task=range(len(config.data.tasks)),
        scale=np.float32(config.model.scales),
    )


def replicas(config) -> dict:
    """Every network of the sweep; "stream" gives each network its own random numbers."""
    networks = grid(config)
    rates = networks.along("scale", np.float32(config.optim.lrs))
    return networks.replicas() | {"stream": networks.streams(), "lr": rates}


def names(config, task: str, scale: float) -> list[str]:
    """The replicas of one training set and scale, one per seed."""
    return grid(config).names(
        task=config.data.tasks.index(task), scale=config.model.scales.index(scale)
    )


def arrays(members) -> dict:
    """One grid for all tasks; training rows of each task, padded to one length with weight 0."""
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


def experiment(config, members) -> program.Experiment:
    """Full-batch training of all networks at once."""
    model, value = network(config), LOSSES[config.optim.loss]

    def forward(params, extra, x):
        return model.apply({"params": {**extra, **params}}, x)

    def loss(params, extra, batch, key, step, replica):
        task = replica["task"]
        rows, weight = batch["rows"][task], batch["weight"][task]
        losses = value(batch["y"][task][rows], forward(params, extra, batch["x"][rows]))
        return jnp.sum(losses * weight) / jnp.sum(weight), (extra, {})

    def evaluate(params, extra, data, key, replica):
        y, is_train = data["y"][replica["task"]], data["is_train"][replica["task"]]
        f = forward(params, extra, data["x"])
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
        params = scaled.init(key, jnp.zeros((1, sum(members[0].sizes))))["params"]
        return split(params, config.model.trained)

    return program.Experiment(
        data=arrays(members),
        replicas=replicas(config),
        init=init,
        plan=None,
        batch=lambda data, indices, key, step: data,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name(config.optim.optimiser, replica["lr"]),
        headline=("train_loss", "min"),
        control=control,
        identity=grid(config).identity,
    )
