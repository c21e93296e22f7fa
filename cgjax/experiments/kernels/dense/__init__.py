"""Scores of dense networks on new inputs, and the theory's predictions from their features.

Computes scores of each network of a sweep, and the arrays for figures. The theory uses only the
saliences of the features: it predicts slopes on addition and margins on context dependence.
"""

import itertools
import pathlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import additivity, closed_forms, machines, salience
from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, optim, parallel, program, train
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.replicas import Grid
from cgjax.experiments.kernels import inputs, tasks
from cgjax.experiments.kernels.scores import (
    LOSSES,
    Pooled,
    as_array,
    closed_form,
    entry,
    scores_of,
    short,
    type_means,
    type_shares,
)
from cgjax.nets.mlp import MLP

BINS = np.linspace(-0.5, 1.5, 81)  # of normalised similarities: 0 distinct, 1 identical
TIMES = ("before", "after")  # training
PAPER_NETWORKS = 6  # in each of the paper's curves of dense networks


class Cell(NamedTuple):
    """The networks that converged at one initial scale on one training set."""

    task: tasks.Task
    loss: str
    starts: np.ndarray  # [networks, N] outputs before training
    outputs: np.ndarray  # [networks, N]
    grams: np.ndarray  # [2, networks, N, N] of the last hidden layer, before and after
    params: dict  # leaves [networks, ...]
    history: dict  # step [n], and every score [n, networks]
    account: additivity.Additivity
    kappa: np.ndarray  # [2, networks, C + 1] similarity by overlap, before and after


def measure(config, sweep) -> tuple[dict, dict]:
    """({name: (values, seeds)}, arrays): every score of every network that converged."""
    seeds, metrics = np.array(config.train.seeds), {}
    # A network with the same output for every input has no salience.
    varies = np.ptp(sweep.grams, axis=(-2, -1)).min(axis=0) > 0
    arrays = {
        "outputs": sweep.outputs,
        "train_loss": sweep.train_loss,
        "scales": np.array(config.model.scales),
        "tasks": np.array(config.data.tasks),
        "depth": np.array(config.model.depth),
        "converged": (sweep.train_loss <= config.eval.converged) & varies,
        "frozen": np.array(config.eval.frozen),
        "bins": BINS,
        **{f"history/{name}": values for name, values in sweep.history.items()},
    }
    for i, task in enumerate(sweep.tasks):
        for j, scale in enumerate(config.model.scales):
            converged = arrays["converged"][:, i, j]
            many = len(config.model.scales) > 1
            name = short(task.name) + (f", sigma {scale:g}" if many else "")
            if not converged.all():
                failed = f"{np.sum(~converged)} of {len(converged)} networks"
                say(f"{name}: {failed} did not converge: left out")
            if not converged.any():
                continue
            scores, saved = _measure_cell(config, cell(config, sweep, converged, i, j))
            for score, values in scores.items():
                metrics[f"{name}: {score}"] = entry(values, seeds[converged])
                arrays[f"{score}/{i}/{j}"] = as_array(values)
            arrays |= {f"{key}/{i}/{j}": values for key, values in saved.items()}
    return metrics, arrays


def cell(config, sweep, selected, i: int, j: int) -> Cell:
    """Networks `selected` [seeds] of task i and scale j."""
    task, outputs = sweep.tasks[i], sweep.outputs[selected, i, j]
    grams = sweep.grams[:, selected, i, j]
    similar = additivity.similarity_of_gram(task.x, grams)
    return Cell(
        task,
        config.optim.loss,
        sweep.starts[selected, i, j],
        outputs,
        grams,
        {
            name: {key: leaf[selected, i, j] for key, leaf in layer.items()}
            for name, layer in sweep.params.items()
        },
        {
            "step": sweep.history["step"],
            **{
                name: values[:, selected, i, j]
                for name, values in sweep.history.items()
                if name != "step"
            },
        },
        additivity.additivity(task.x, outputs, task.is_train),
        additivity.structure(similar).kappa,
    )


def _measure_cell(config, cell: Cell) -> tuple[dict, dict]:
    scores = {"additivity": cell.account.r2_test, **scores_of(cell.task, cell.outputs)}
    saved = {
        "coefficients": cell.account.coefficients,
        "labels": cell.account.labels,
        "kappa": cell.kappa,
        "similarities": similarities(cell),
    }
    kind = cell.task.name.split("_")[0]
    if kind in KINDS:
        more_scores, more_saved = KINDS[kind](cell)
        scores, saved = {**scores, **more_scores}, {**saved, **more_saved}
    if config.eval.frozen:
        scores |= frozen(cell, config.model.trained == "readout")
    return scores, saved


# --- features -------------------------------------------------------------------------------------


def similarities(cell: Cell) -> np.ndarray:
    """Counts [2, C + 1, bins] of normalised similarities by overlap, before and after training."""
    x = cell.task.x
    overlap = np.sum(x[:, None] == x[None], axis=-1)
    low, high = cell.kappa[..., :1, None], cell.kappa[..., -1:, None]
    values = (cell.grams - low) / (high - low)
    return np.array(
        [
            [np.histogram(similarity[:, overlap == o], BINS)[0] for o in range(x.shape[1] + 1)]
            for similarity in values
        ]
    )


def frozen(cell: Cell, is_readout: bool) -> dict:
    """Scores of a ridgeless readout on the features before and after training.

    A network whose readout alone was trained, from zero, is such a machine: its trained bias is one
    more feature, which is always 1.
    """
    train, all_scores = cell.task.is_train, {}
    for time, gram in zip(TIMES, cell.grams + 1.0 * is_readout):
        k_all = gram[:, :, train]
        f = np.asarray(machines.ridgeless(k_all[:, train], cell.task.y[train], k_all))
        scores = scores_of(cell.task, f)
        scores["additivity"] = additivity.additivity(cell.task.x, f, train).r2_test
        all_scores |= {f"{name}, features {time}": values for name, values in scores.items()}
        if is_readout:
            gap = np.sqrt(np.mean((f - cell.outputs)[:, ~train] ** 2, axis=1))
            return {**all_scores, "distance to the machine": gap}
    return all_scores


def linearised(cell: Cell) -> np.ndarray:
    """Outputs [networks, N] of each network if only its readout is trained from its random start.

    This is the prediction for a lazy network: f0 plus the machine on y - f0.
    """
    train, start = cell.task.is_train, cell.starts
    k_all = cell.grams[0][:, :, train]
    residual = cell.task.y[train] - start[:, train]
    return start + np.asarray(machines.ridgeless(k_all[:, train], residual, k_all))


# --- by kind of task ------------------------------------------------------------------------------


def _addition(cell: Cell) -> tuple[dict, dict]:
    """Closed-form slopes from the measured saliences; the value of each item to the network."""
    saliences = np.asarray(salience.salience(cell.kappa))[..., 0]
    scores = {f"S(1;2) {time}": saliences[k] for k, time in enumerate(TIMES)}
    # The paper's figures of dense networks show this mean, where R2 is 1 on trained pairs.
    scores["mean additivity"] = (cell.account.r2_test + cell.account.r2_train) / 2
    labels, coefficients = cell.account.labels, cell.account.coefficients
    items = [additivity.item_values(labels, coefficients, c)[1] for c in (0, 1)]
    saved = {"items": np.mean(items, axis=0)}
    is_anchor = tasks.anchors(cell.task)
    if not is_anchor.any():  # dispersed training sets have no closed form
        return scores, saved
    machine = closed_form(cell.kappa, cell.task)
    for k, time in enumerate(TIMES):
        scores[f"predicted slope {time}"] = np.asarray(machine.slope)[k]
    scores["predicted slope, kernel"] = scores_of(cell.task, linearised(cell))["slope"]
    predicted = np.asarray(closed_forms.item_values(machine, tasks.VALUES, is_anchor))
    return scores, {**saved, "closed form": predicted[0], "is_anchor": is_anchor}


def _context(cell: Cell) -> tuple[dict, dict]:
    """Mean |value| by type of conjunction; on CD-3 also the margin in closed form."""
    labels, coefficients = cell.account.labels, cell.account.coefficients
    shares, means = type_shares(labels, coefficients), type_means(labels, coefficients)
    scores = {f"{kind} share": share for kind, share in shares.items()}
    scores |= {f"mean |value|, {kind}": mean for kind, mean in means.items()}
    magnitudes = additivity.type_magnitudes(labels, coefficients, tasks.RELEVANT)
    saved = {"types": np.array(list(magnitudes)), "magnitudes": np.array(list(magnitudes.values()))}
    saved |= additivity.type_magnitudes(labels, coefficients.mean(axis=0), tasks.RELEVANT)
    if cell.task.name == "cd_3":
        scores |= _shortcut(cell)
    return scores, saved


def _shortcut(cell: Cell) -> dict:
    """The margin on CD-3, measured and in closed form from the initial features' saliences."""
    saliences = np.asarray(salience.salience(cell.kappa))[0]
    closed = closed_forms.shortcut_bias(saliences[:, 0], saliences[:, 1])
    is_logistic = cell.loss != "mse"
    margin, train = cell.task.y * cell.outputs, cell.task.is_train
    # Logistic outputs grow without bound, so margins are in units of the least training margin, as
    # for a support-vector machine.
    unit = margin[:, train].min(axis=1) if is_logistic else 1.0
    return {
        "S(1;3) before": saliences[:, 0],
        "S(2;3) before": saliences[:, 1],
        "relative margin": margin[:, ~train].mean(axis=1) / unit,
        "predicted margin": np.asarray(closed.svm if is_logistic else closed.regression),
    }


def _equivalence(cell: Cell) -> tuple[dict, dict]:
    """First step with all pairs correct, and the signatures of the hidden units' weights."""
    scores, steps = {}, cell.history["step"]
    for part in ("train", "test"):
        means = group_means(cell.history[f"{part}_accuracy"])
        first = [steps[mean == 1][0] if np.any(mean == 1) else np.nan for mean in means]
        scores[f"first all right, {part}"] = Pooled(np.array(first, float))
    scores["lowest mean accuracy"] = Pooled(means.min(axis=1))
    if set(cell.params) != {"dense_0", "dense_1"}:
        return scores, {}
    weighted, readout = weighted_inputs(cell.params, cell.task)
    scores |= signatures(weighted, readout, cell.task)
    return scores, {"weighted": weighted[0], "readout": readout[0]}


def group_means(curves: np.ndarray) -> np.ndarray:
    """Means [groups, steps] of curves [steps, networks] over groups of PAPER_NETWORKS networks.

    The lowest and the first value of a mean curve depend on the number of networks, so each group
    has as many as the paper's. The jackknife does not suit such extremes: with six networks its
    95 % interval covers the largest value in 75 % of cases. Networks beyond the last full group do
    not count; fewer than PAPER_NETWORKS are one group.
    """
    n = curves.shape[1]
    size = min(n, PAPER_NETWORKS)
    full = curves[:, : n // size * size]
    return full.reshape(len(curves), -1, size).mean(axis=2).T


def weighted_inputs(params: dict, task: tasks.Task) -> tuple[np.ndarray, np.ndarray]:
    """(readout times incoming weights [networks, 2, items, units], readout) of one hidden layer."""
    readout = params["dense_1"]["kernel"][..., 0]
    kernel = params["dense_0"]["kernel"]
    weights = kernel.reshape(len(kernel), len(task.sizes), task.sizes[0], -1)
    return readout[:, None, None] * weights, readout


def new_items(task: tasks.Task) -> tuple[int, int]:
    """Two items, one of each class, whose pairs with each other are new: A and D in the paper."""
    n = task.sizes[0]
    is_new = ~task.is_train.reshape(n, n).diagonal()
    first = int(np.flatnonzero(is_new)[0])
    other = int(np.flatnonzero(is_new & (task.y.reshape(n, n)[first] < 0))[0])
    return first, other


def signatures(weighted: np.ndarray, readout: np.ndarray, task: tasks.Task) -> dict:
    """Cosines [networks] over hidden units: 1 or -1 if the weights encode only the class.

    weighted: [networks, 2, items, units]. Units with a positive readout respond to pairs of one
    class: the contrast A minus D has the same sign for both components. Units with a negative
    readout respond to mixed pairs. Equivalent items have equal weights, other items opposite ones.
    """
    first, other = new_items(task)
    contrast = weighted[:, :, first] - weighted[:, :, other]
    scores = {}
    for name, units in (("positive", readout > 0), ("negative", readout < 0)):
        chosen = contrast * units[:, None]
        scores[f"weights, {name} units"] = _cosine(chosen[:, 0], chosen[:, 1])
    n = task.sizes[0]
    same = task.y.reshape(n, n) > 0
    rows, columns = np.triu_indices(n, 1)
    cosines = _cosine(weighted[:, :, rows], weighted[:, :, columns]).mean(axis=1)
    is_same = same[rows, columns]
    scores["weights, equivalent items"] = cosines[:, is_same].mean(axis=1)
    scores["weights, other items"] = cosines[:, ~is_same].mean(axis=1)
    return scores


def _cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    size = np.sqrt(np.sum(a**2, -1) * np.sum(b**2, -1))
    return np.sum(a * b, -1) / np.where(size > 0, size, 1)


KINDS = {"addition": _addition, "cd": _context, "te": _equivalence}

# --- studies: a row's parts are trained and scored one after another ------------------------------


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays for figures."""

    def train_part(name, settings):
        return measure(settings, run(settings, pathlib.Path(workdir) / name, name))

    return over_parts(config, train_part)


def check(config) -> None:
    """Checks that the training sets, scales and seeds of every part agree."""
    for _, settings in parts(config):
        check_networks(settings)


def plan(config) -> dict:
    """Size of each part's training."""
    return {
        name: program.training_size(experiment(settings, members(settings)), settings)
        for name, settings in parts(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks "<part>/<task>/<scale>".

    A row with one part omits <part>, and <task> or <scale> if there is only one.
    `predict(params, x [n, features])` -> outputs [n]; params: leading axis seeds.
    """
    choices = {}
    several = len(parts(config)) > 1
    for name, settings in parts(config):
        axes = settings.data.tasks, settings.model.scales
        for task, scale in itertools.product(*axes):
            place = [name] * several + [task] * (several or len(axes[0]) > 1)
            place += [f"{scale:g}"] * (several or len(axes[1]) > 1)
            choices["/".join(place)] = (name, settings, task, scale)
    name, settings, task, scale = choices[checkpoint.choose(part, choices, workdir)]
    names = replica_names(settings, task, scale)
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, names, step)
    model = network(settings)

    def predict(params, x):
        return model.apply({"params": params}, x)

    return checkpoint.Loaded(predict, {**extra, **params}, settings, steps)


# --- networks -------------------------------------------------------------------------------------
# Dense networks on symbolic inputs, from lazy to rich (Lippl and Stachenfeld 2025).
#
# The scale of the initial weights sets the regime: at 1 the network behaves like its kernel, at
# 1e-6 it learns features. All scales, training sets and seeds are replicas of one compiled program.
# A change of a shape or of the loss needs another part of the run, with its own sub-folder.


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


def check_networks(config) -> None:
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
    *hidden, last = (f"dense_{i}" for i in range(len(params)))
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


def replica_names(config, task: str, scale: float) -> list[str]:
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
