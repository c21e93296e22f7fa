"""The plane, and networks on it: X_i = Y_i - U[0, 1], target Y_1; the test square is Y = (1, 1).

Training points fill the other three unit squares of [-1, 1]^2. Each square is a *cell*. The
compositional boundary is the line X_1 = 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax import config as configs
from cgjax.analysis import dependence, landscape
from cgjax.core import checkpoint, optim, program, rng, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import read_kept
from cgjax.core.metrics import entries
from cgjax.data import arrays
from cgjax.experiments.resistance import models, training

# (Y_1, Y_2)
TRAIN_CELLS = ((0, 0), (0, 1), (1, 0))
TEST_CELLS = ((1, 1),)


class Points(NamedTuple):
    """Points and both labels."""

    x: jax.Array  # float32 [n, 2]
    y: jax.Array  # int32 [n, 2]; the target is y[:, 0]


def draw(key: jax.Array, n: int, cells=TRAIN_CELLS, control=False) -> Points:
    """n points, uniform on the cells.

    control: X_2 is an independent U[-1, 1], and Y_2 is 1 if X_2 > 0; control may be traced. Cells
    and X_1 are the same with and without control.
    """
    cell_key, noise_key, control_key = jax.random.split(key, 3)
    y = jnp.asarray(cells)[jax.random.randint(cell_key, (n,), 0, len(cells))]
    x = y - jax.random.uniform(noise_key, (n, 2))
    free = jax.random.uniform(control_key, (n,), minval=-1, maxval=1)
    second = jnp.where(control, free, x[:, 1])
    x = jnp.stack([x[:, 0], second], axis=1)
    y2 = jnp.where(control, second > 0, y[:, 1])
    return Points(x, jnp.stack([y[:, 0], y2.astype(y.dtype)], axis=1))


def in_cell(points: Points, cell) -> jax.Array:
    """Whether each point belongs to the cell (Y_1, Y_2): boolean [n]."""
    return jnp.all(points.y == jnp.asarray(cell)[None], axis=1)


def grid(n: int = 101) -> np.ndarray:
    """Points [n, n, 2] of [-1, 1]^2; rows start at X_2 = -1, columns at X_1 = -1."""
    axis = np.linspace(-1, 1, n, dtype=np.float32)
    x1, x2 = np.meshgrid(axis, axis)
    return np.stack([x1, x2], axis=-1)


def boundary_angle(slopes: jax.Array) -> jax.Array:
    """Angle of the boundary to the line X_1 = 0, in degrees from -180 to 180.

    slopes: d(logit of 1 minus logit of 0)/dX at points [n, 2]. Their mean is the boundary's normal.
    The angle is 0 if the normal points along X_1, and positive if it leans towards X_2.
    """
    normal = jnp.mean(slopes, axis=0)
    return jnp.degrees(jnp.arctan2(normal[1], normal[0]))


def tilt(angle):
    """Degrees from 0 to 90 between the boundary, as a line, and X_1 = 0; angle: `boundary_angle`.

    It ignores which side of the boundary is class 1, so it does not jump where the angle wraps.
    """
    return abs((angle + 90) % 180 - 90)


# --- training -------------------------------------------------------------------------------------
# Setting A and its control, by any optimiser, to any length.
#
# The paper's "step" is a pass over 250 fixed points (`data.step_unit=epoch`) or one update on fresh
# points; `config.train.epochs` counts these steps. Training accuracy is measured on fresh points of
# A in all settings.


INPUTS = np.array([0, 1])
SETTINGS = ("A", "control")
DAMPING = 0.01  # of Gauss-Newton


def network(config):
    """The row's network: x [B, 2] -> logits [B, 2], or [B, heads, 2]."""
    model, factored = config.model, config.model.towers
    tanh = config.optim.loss == "half_squared"
    net = models.PlaneNet(model.heads, model.width, model.n_hidden, tanh)
    return models.Towers(net, 1) if factored else net


def outputs_of(heads: int, classes: int):
    """Labels of logits' entries by head, for `gradient_dependence`."""
    return np.zeros(classes, int) if heads == 1 else np.arange(heads)[:, None] + [0] * classes


def settings(config) -> tuple[training.Setting, ...]:
    """A and control, at every initial scale, learning rate and penalty of the part."""
    data_settings = [(name, {"control": name == "control"}) for name in config.data.settings]
    priors = [
        (f"scale {s:g}, biases {b:g}", {"scale": np.float32(s), "bias_std": np.float32(b)})
        for s, b in zip(config.model.scales, config.model.bias_stds, strict=True)
    ]
    product = training.settings(
        [
            data_settings,
            priors,
            training.axis("rate", "lr", config.optim.lrs),
            training.axis("penalty", "penalty", config.reg.penalties),
        ]
    )
    return product


def check(config) -> None:
    """Raises BadInput for values that are valid one by one but not together."""
    if len(config.model.scales) != len(config.model.bias_stds):
        raise BadInput(
            "model.scales and model.bias_stds are zipped: give one of each for every start"
        )
    if not config.eval.n_jacobian:
        raise BadInput("eval.n_jacobian=0: scores on the plane need derivatives at 1 point or more")
    if config.data.batch > config.data.n_points:
        raise BadInput(f"data.batch={config.data.batch} is more than data.n_points")
    if config.optim.get("gradient") == "gauss_newton" and (
        config.model.heads > 1 or config.optim.loss != "cross_entropy"
    ):
        raise BadInput(
            "optim.gradient=gauss_newton needs model.heads=1 and optim.loss=cross_entropy"
        )
    if config.model.heads > 1 and config.model.towers:
        raise BadInput("model.towers has one target: set model.heads=1")


def per_step(config) -> int:
    """Updates per step of the paper."""
    if config.data.step_unit == "update":
        return 1
    return arrays.n_batches(config.data.n_points, config.data.batch)


# --- data -----------------------------------------------------------------------------------------


def draw_sets(config, seed, control) -> dict:
    """All points of one run: training points, and fresh points for evaluation.

    "fresh" points are from A, "test" points from the unseen square. "do" points are "fresh" points
    with a free X_2.
    """
    keys = jax.random.split(rng.stream(jax.random.key(seed), "data"), 3)
    n = config.eval.n_points
    return {
        "train": draw(keys[0], config.data.n_points, control=control),
        "fresh": draw(keys[1], n),
        "do": draw(keys[1], n, control=True),
        "test": draw(keys[2], n, TEST_CELLS),
    }


def targets(config, points):
    """[n] for one head, else [n, heads]."""
    return points.y[:, 0] if config.model.heads == 1 else points.y


# --- loss and scores ------------------------------------------------------------------------------


def predictor(config):
    """f(params, x [n, 2]) -> logits."""
    net = network(config)
    return lambda params, x: net.apply({"params": params}, x)


def head_losses(config, params, points, weights=None):
    """The mean loss of each head [heads], over points with weights [n]."""
    losses = models.LOSSES[config.optim.loss](
        predictor(config)(params, points.x), targets(config, points)
    )
    losses = losses.reshape(len(losses), -1)
    if weights is None:
        return jnp.mean(losses, axis=0)
    return jnp.sum(weights[:, None] * losses, axis=0) / jnp.sum(weights)


def whole_loss(config, params, points):
    """The training loss on all points, heads summed."""
    return jnp.sum(head_losses(config, params, points))


def _first(logits):
    """Logits of the first head."""
    return logits if logits.ndim == 2 else logits[:, 0]


def measure(config, params, data) -> dict:
    """Accuracies, dependence and information of one network."""
    f = predictor(config)
    yhat = {
        name: jnp.argmax(_first(f(params, data[name].x)), axis=-1)
        for name in ("fresh", "test", "do")
    }
    right = {name: jnp.mean(yhat[name] == data[name].y[:, 0]) for name in ("fresh", "test")}
    n = min(config.eval.n_jacobian, config.eval.n_points)
    matrix = dependence.gradient_dependence(
        f, params, data["fresh"].x[:n], INPUTS, outputs_of(config.model.heads, 2), chunk=n
    )
    shares = dependence.shares(matrix)
    y1, y2 = data["fresh"].y.T
    scores = {
        "train accuracy": right["fresh"],
        "test accuracy": right["test"],
        "gap": right["fresh"] - right["test"],
        "S_2": shares[0, 1],
        "information": dependence.information(y2, yhat["fresh"], (2, 2)),
        "information of the target": dependence.information(y1, yhat["fresh"], (2, 2)),
        "conditional information": dependence.conditional_information(
            y2, yhat["fresh"], y1, (2, 2, 2)
        ),
        "interventional information": dependence.information(
            data["do"].y[:, 1], yhat["do"], (2, 2)
        ),
        "swap rate": jnp.mean(yhat["fresh"] != yhat["do"]),
        "angle": boundary_angle(slopes(config, params, data["fresh"].x)),
        "norm": tree.norm(params),
        "training loss": whole_loss(config, params, data["train"]),
        **entries("D", matrix),
    }
    if config.model.heads > 1:
        scores["S_1 of head 2"] = shares[1, 0]
        scores |= cancelling(lambda p, h: head_losses(config, p, data["train"])[h], params)
    return scores


def slopes(config, params, x):
    """d(logit of 1 minus logit of 0)/dX [n, 2]."""
    f = predictor(config)

    def difference(point):
        logits = _first(f(params, point[None]))[0]
        return logits[1] - logits[0]

    return jax.vmap(jax.grad(difference))(x)


def cancelling(loss, params) -> dict:
    """Whether the updates of two heads cancel; loss: params, head -> number."""
    cancellation = landscape.cancellation([jax.grad(loss)(params, h) for h in (0, 1)])
    return {
        "heads: ratio of norms": cancellation.ratio,
        "heads: cosine": cancellation.cosines[0, 1],
    }


def stepped(config, params, data) -> dict:
    """Changes by one small step on setting A, and on the same points with a free X_2."""

    def measures(params):
        scores = measure(config, params, data)
        names = {
            "D_2": "D[0,1]",
            "S_2": "S_2",
            "I_do": "interventional information",
            "I of the target": "information of the target",
        }
        measured = {short_name: scores[name] for short_name, name in names.items()}
        return measured | {"D_1 + D_2": scores["D[0,0]"] + scores["D[0,1]"]}

    changes = {}
    for distribution, points in (("A", data["fresh"]), ("re-drawn", data["do"])):
        step = dependence.one_step(
            lambda p, points=points: whole_loss(config, p, points),
            measures,
            params,
            config.eval.one_step,
        )
        changes |= {
            f"one step on {distribution}: {name}": value for name, value in step.change.items()
        }
    return changes


# --- visits of bands of the training loss ---------------------------------------------------------


def bands(config) -> np.ndarray:
    """Lowest and highest training loss of each band [levels, 2]."""
    levels = np.array(config.eval.levels, np.float32)
    return np.stack([(1 - config.eval.band) * levels, levels], axis=1)


def set_of(config, seed):
    """The training set of a seed: `search.n_sets` of them, each for several seeds, or one each."""
    return seed % config.search.n_sets if "search" in config else seed


def no_visit(config, params) -> dict:
    """Initial extra state: parameters and step of the first visit of each band, empty."""
    if not config.eval.get("levels"):
        return {}
    n = len(config.eval.levels)
    params_of_visits = jax.tree.map(lambda leaf: jnp.zeros((n, *leaf.shape), leaf.dtype), params)
    extra = {"params": params_of_visits, "step": jnp.full(n, -1, jnp.int32)}
    return extra | ({"mean": params} if config.optim.average else {})


def visited(config, params, extra, points, step) -> dict:
    """The extra state with the visits of this step; `optim.average`: of the mean iterate."""
    if not config.eval.get("levels"):
        return extra
    if config.optim.average:
        mean = jax.tree.map(lambda m, p: m + (p - m) / (step + 1), extra["mean"], params)
        extra, params = {**extra, "mean": mean}, mean
    value = whole_loss(config, params, points)
    low, high = bands(config).T
    is_first = (low <= value) & (value <= high) & (extra["step"] < 0)
    repeated = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (len(is_first), *leaf.shape)), params
    )
    params_of_visits = tree.where(is_first, repeated, extra["params"])
    updated = {
        **extra,
        "params": params_of_visits,
        "step": jnp.where(is_first, step, extra["step"]),
    }
    return jax.lax.stop_gradient(updated)


# --- the experiment -------------------------------------------------------------------------------


def gauss_newton(config):
    """`Experiment.grads`: the gradient times the inverse of J' H J + damping, of one batch."""
    f = predictor(config)

    def as_value_and_grad(fn, has_aux=True):
        def value_and_grad(params, extra, batch, key, step, replica):
            value_and_aux, gradient = jax.value_and_grad(fn, has_aux=has_aux)(
                params, extra, batch, key, step, replica
            )
            vector, unravel = ravel_pytree(params)
            points = _points(config, batch, key, replica)

            # One point at a time: with all points, each derivative would run over all of them.
            def jacobian_at(x):
                return jax.jacrev(lambda v: f(unravel(v), x[None])[0])(vector)

            jacobian = jax.vmap(jacobian_at)(points.x)  # [n, 2, P]
            p = jax.nn.softmax(f(params, points.x))
            weights = batch.get("mask", jnp.ones(len(p)))
            weighted = p[..., None] * (jacobian - jnp.einsum("nc,ncp->np", p, jacobian)[:, None])
            weighted *= weights[:, None, None]
            curvature = jnp.einsum("ncp,ncq->pq", jacobian, weighted) / jnp.sum(weights)
            curvature += DAMPING * jnp.eye(len(vector))
            return value_and_aux, unravel(jnp.linalg.solve(curvature, ravel_pytree(gradient)[0]))

        return value_and_grad

    return as_value_and_grad


def gradient_of(config):
    """The replacement for jax.value_and_grad, or None for reverse mode."""
    name = config.optim.get("gradient", "reverse")
    if name == "reverse":
        return None
    if name == "forward":
        return optim.forward_mode
    if name == "gauss_newton":
        return gauss_newton(config)
    if name == "finite":
        return optim.finite_differences(config.optim.difference)
    return optim.evolution(config.optim.difference, config.optim.n_pairs)


def _points(config, batch, key, replica):
    if config.data.step_unit == "epoch":
        return batch["points"]
    return draw(key, config.data.batch, control=replica["control"])


def points_of(config) -> dict:
    """The sets of every replica, as `draw_sets` returns them."""
    replicas = training.replicas(config, settings(config))
    seeds = jnp.asarray(np.asarray(replicas["seed"], np.uint32))
    draw_all = jax.vmap(lambda seed, control: draw_sets(config, set_of(config, seed), control))
    return program.jitted(draw_all, config)(seeds, replicas["control"])


def experiment(config, data=None) -> program.Experiment:
    """Points, network and optimiser of a part; its config counts in updates (`in_steps`).

    data: as `points_of` returns them, which is called if they are None.
    """
    data = points_of(config) if data is None else data
    replicas = training.replicas(config, settings(config))
    net, f = network(config), predictor(config)
    shapes = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 2)))["params"]
    fixed = config.data.step_unit == "epoch"
    penalised = any(config.reg.penalties)

    def init(key, replica):
        start = models.initial(
            key, shapes, config.model.init, replica["scale"], replica["bias_std"]
        )
        return start, no_visit(config, start)

    def batch(data, indices, key, step):
        if not fixed:
            return {"all": data["train"]}
        points = jax.tree.map(lambda leaf: leaf[indices], data["train"])
        return {"points": points, "all": data["train"]}

    def loss(params, extra, batch, key, step, replica):
        points = _points(config, batch, key, replica)
        if config.model.get("fixed_biases"):
            params = models.with_fixed_biases(params)
        value = jnp.sum(head_losses(config, params, points, batch.get("mask")))
        weights = batch.get("mask", jnp.ones(len(points.x)))
        if penalised:
            # Rows that pad the batch belong to no component.
            inputs = jnp.where(weights[:, None] > 0, INPUTS[None], -1)
            value += replica["penalty"] * models.gradient_penalty(f, params, points.x, inputs)
        is_right = jnp.argmax(_first(f(params, points.x)), axis=-1) == points.y[:, 0]
        accuracy = jnp.sum(weights * is_right) / jnp.sum(weights)
        extra = visited(config, params, extra, batch["all"], step)
        return value, (extra, {"accuracy": accuracy})

    def evaluate(params, extra, data, key, replica):
        scores = measure(config, params, data)
        if config.eval.get("one_step"):
            scores |= stepped(config, params, data)
        points = jnp.asarray(grid(config.eval.grid))
        logits = _first(predictor(config)(params, points.reshape(-1, 2)))
        shown = jax.nn.softmax(logits)[:, 1].reshape(points.shape[:2])
        return scores, {"shown": shown, "params": ravel_pytree(params)[0]}

    return program.Experiment(
        data=data,
        replicas=replicas,
        init=init,
        plan=arrays.epochs(config.data.n_points, config.data.batch) if fixed else None,
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name(config.optim.name, replica["lr"]),
        headline=None,
        grads=gradient_of(config),
        identity=training.IDENTITY,
        own_data=True,
    )


def in_steps(config):
    """The part's config counted in updates."""
    return configs.in_steps(config, per_step(config))


def run(config, workdir, name: str = "") -> training.Trained:
    """Trains all runs of a part."""
    experiment_of_part = experiment(config)
    return training.run(
        experiment_of_part, settings(config), in_steps(config), workdir, name, per_step(config)
    )


def kept(config, trained: training.Trained, folder, name: str) -> tuple[list, np.ndarray]:
    """(steps, array [steps, seeds, settings, ...]) that `evaluate` returned at `eval.keep`."""
    grid = training.grid(config, trained.settings)
    steps, by_step = sorted(config.eval.keep), []
    for step in steps:
        saved = read_kept(folder / "evals" / f"{step * per_step(config)}.npz")
        order = [saved["replicas"].tolist().index(replica_name) for replica_name in grid.names()]
        by_step.append(grid.by_axes(saved[name][order]))
    return steps, np.stack(by_step)


def load(config, folder, setting: str, step=None) -> checkpoint.Loaded:
    """`predict(params, x [n, 2])` -> logits of one setting's networks."""
    at = None if step is None else step * per_step(config)
    params, steps = training.read(config, settings(config), folder, setting, at)
    return checkpoint.Loaded(predictor(config), params, config, steps)
