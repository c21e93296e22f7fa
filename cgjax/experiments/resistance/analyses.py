"""Analyses of a row's networks on the plane, of one part or of all parts together.

Each analysis maps (config, trained_parts) to metrics {name: (values, seeds)} and arrays;
trained_parts is {part: (its config, trained, folder)}.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence, landscape
from cgjax.core import train, tree
from cgjax.experiments.resistance import models, plane
from cgjax.experiments.resistance.training import plane as of_plane

CURVES = ("train accuracy", "test accuracy", "S_2")
SOON = 16  # steps; after these, rounding differences can grow


def start(config):
    """Parameters before training, leaves [seeds, settings, ...]."""
    params = train.initial(of_plane.experiment(config), of_plane.in_steps(config)).params
    n = len(of_plane.settings(config))
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, n, *leaf.shape[1:]), params)


def points_of(config, control: bool):
    """All points of every seed, leaves [seeds, ...]."""
    seeds = jnp.asarray(np.asarray(config.train.seeds, np.uint32))
    return jax.jit(jax.vmap(lambda seed: of_plane.draw(config, seed, control)))(seeds)


def _only(trained_parts) -> tuple:
    (only,) = trained_parts.values()
    return only


# --- gradients by other methods -------------------------------------------------------------------


def gradients(config, trained_parts):
    """Largest difference of each curve from reverse mode, over the first and over all steps."""
    numbers, arrays = {}, {}
    reverse = trained_parts["reverse"][1]
    seeds = list(reverse.seeds)
    soon = reverse.scores["step"] <= SOON
    for name, (_, trained, _) in trained_parts.items():
        if name == "reverse":
            continue
        for curve in CURVES:
            difference = np.abs(trained.scores[curve] - reverse.scores[curve]).max(axis=2)
            arrays[f"apart/{name}/{curve}"] = difference
            metric = f"{name}: largest difference of {curve}"
            numbers[f"{metric}, {SOON} steps"] = (difference[soon].max(axis=0), seeds)
            numbers[metric] = (difference.max(axis=0), seeds)
    return numbers, arrays


# --- figure 1 -------------------------------------------------------------------------------------


def layers(params) -> list:
    """(kernel, bias) of a dense network's layers, in order."""
    net = params["net"]
    return [(net[name]["kernel"], net[name]["bias"]) for name in sorted(net)]


def from_layers(kernels_and_biases: list) -> dict:
    """Inverse of `layers`."""
    return {
        "net": {
            f"dense_{i}": {
                "kernel": jnp.asarray(k, jnp.float32),
                "bias": jnp.asarray(b, jnp.float32),
            }
            for i, (k, b) in enumerate(kernels_and_biases)
        }
    }


def distances(config, trained_parts):
    """Distances between the start, both paths and both solutions (A and control), and barriers.

    A barrier is the rise of A's loss on the line between both solutions, before and after hidden
    units are matched.
    """
    part_config, trained, folder = _only(trained_parts)
    names = [setting.name for setting in trained.settings]
    a, b = names.index("A"), names.index("control")
    initial, points, seeds = start(part_config), points_of(part_config, False), list(trained.seeds)
    steps, path = of_plane.kept(
        part_config, trained, folder, "params"
    )  # [times, seeds, settings, P]
    final = path[-1]
    away = np.linalg.norm(path[:, :, a] - final[None, :, b], axis=-1)
    back = np.linalg.norm(path[:, :, b] - final[None, :, a], axis=-1)

    @jax.jit
    def line(from_params, to_params, points):
        def loss(params):
            return of_plane.whole_loss(part_config, params, points)

        return landscape.barrier(loss, from_params, to_params, part_config.eval.n_line)

    rows = {"before": [], "after": [], "apart": [], "matched": [], "A": [], "control": []}
    curves = {"before": [], "after": []}
    for s in range(len(seeds)):
        solutions = {i: tree.take(trained.params, (s, i)) for i in (a, b)}
        zero = tree.take(initial, (s, a))
        matched = from_layers(landscape.matched(layers(solutions[a]), layers(solutions[b])))
        train_points = tree.take(points["train"], s)
        for case, other in (("before", solutions[b]), ("after", matched)):
            between = line(solutions[a], other, train_points)
            rows[case].append(between.height)
            curves[case].append(between.losses)
        rows["apart"].append(landscape.distance(solutions[a], solutions[b]))
        rows["matched"].append(landscape.distance(solutions[a], matched))
        rows["A"].append(landscape.distance(zero, solutions[a]))
        rows["control"].append(landscape.distance(zero, solutions[b]))
    metric_names = {
        "A": "distance from start to A",
        "control": "distance from start to control",
        "apart": "distance between A and control",
        "matched": "distance when matched",
        "before": "barrier",
        "after": "barrier when matched",
    }
    numbers = {metric_names[key]: (np.array(values, float), seeds) for key, values in rows.items()}
    numbers["A's start nearer to control's end by"] = (away[0] - away[-1], seeds)
    arrays = {"path/step": np.array(steps), "path/A to control": away, "path/control to A": back}
    arrays |= {f"line/{case}": np.array(values, float) for case, values in curves.items()}
    return numbers, arrays


# --- the first step -------------------------------------------------------------------------------


def first_step(config, trained_parts):
    """Change of the boundary's angle in the first step if only one cell's gradient is used.

    Each update of the step uses all points at once; points of other cells have weight 0.
    """
    part_config, trained, _ = _only(trained_parts)
    initial, points, seeds = start(part_config), points_of(part_config, False), list(trained.seeds)
    n, rate = of_plane.per_step(part_config), part_config.optim.lrs[0]

    def moved(params, points, weights):
        def loss(params):
            losses = of_plane.head_losses(part_config, params, points["train"], weights)
            return jnp.sum(losses) * jnp.mean(weights)

        def angle(params):
            return plane.boundary_angle(of_plane.slopes(part_config, params, points["fresh"].x))

        def update(params, _):
            step = jax.grad(loss)(params)
            return jax.tree.map(lambda p, g: p - rate * g, params, step), None

        after, _ = jax.lax.scan(update, params, length=n)
        turn = angle(after) - angle(params)
        return jnp.mod(turn + 180, 360) - 180, angle(params), angle(after)

    program = jax.jit(jax.vmap(moved))
    params = jax.tree.map(lambda leaf: leaf[:, 0], initial)
    numbers, arrays = {}, {}
    for cell in (None, *plane.TRAIN_CELLS):
        weights = jnp.ones(points["train"].x.shape[:2])
        if cell is not None:
            weights = jax.vmap(lambda drawn, cell=cell: plane.in_cell(drawn, cell))(points["train"])
        turn, before, after = map(np.asarray, program(params, points, weights.astype(jnp.float32)))
        cell_name = "all cells" if cell is None else f"cell {cell}"
        numbers[f"{cell_name}: turn of the boundary"] = (turn, seeds)
        numbers[f"{cell_name}: angle after the first step"] = (after, seeds)
        numbers[f"{cell_name}: tilt after the first step"] = (plane.tilt(after), seeds)
        numbers[f"{cell_name}: change of tilt"] = (plane.tilt(after) - plane.tilt(before), seeds)
        arrays |= {f"turn/{cell_name}": turn, f"tilt/{cell_name}": plane.tilt(after)}
    arrays |= {"angle/start": before, "tilt/at the start": plane.tilt(before)}
    return numbers, arrays


# --- tangent kernels ------------------------------------------------------------------------------


def tangent(config, trained_parts):
    """S_2 after the first updates, measured and predicted by the linearised network.

    The shares of X_1 and X_2 in the initial tangent kernel, and in the first update on the training
    data, are metrics too.
    """
    part_config, trained, _ = _only(trained_parts)
    initial, seeds, rate = start(part_config), list(trained.seeds), part_config.optim.lrs[0]
    steps = trained.scores["step"] * of_plane.per_step(part_config)
    f, numbers, arrays = (
        of_plane.predictor(part_config),
        {},
        {"tangent/step": trained.scores["step"]},
    )

    @jax.jit
    def predicted(params, points):
        update = jax.grad(lambda p: -of_plane.whole_loss(part_config, p, points["train"]))(params)
        x = points["fresh"].x[: part_config.eval.n_jacobian]
        early = dependence.early_dependence(
            f, params, update, x, of_plane.INPUTS, rate * steps, chunk=len(x)
        )
        return dependence.shares(early)[:, 0, 1]

    @jax.jit
    def residuals(params, points):
        def loss(logits):
            return jnp.mean(models.LOSSES[part_config.optim.loss](logits, points.y[:, 0]))

        return -jax.grad(loss)(f(params, points.x))

    for i, setting in enumerate(trained.settings):
        points = points_of(part_config, setting.numbers["control"])
        predictions, splits = [], []
        for s in range(len(seeds)):
            params = tree.take(initial, (s, i))
            points_of_seed = tree.take(points, s)
            predictions.append(np.asarray(predicted(params, points_of_seed)))
            split_points = tree.take(points_of_seed["train"], slice(part_config.eval.n_split))
            kernel_split = dependence.tangent_split(f, params, split_points.x, of_plane.INPUTS)
            update_split = dependence.tangent_split(
                f, params, split_points.x, of_plane.INPUTS, residuals(params, split_points)
            )
            splits.append((*kernel_split, *update_split))
        predictions, splits = np.array(predictions), np.array(splits)  # [seeds, times], [seeds, 6]
        measured = trained.scores["S_2"][:, :, i].T
        prefix = f"{setting.name}: "
        names = [
            f"{of}: share of {part}"
            for of in ("kernel", "first update")
            for part in ("X_1", "X_2", "both")
        ]
        for name, values in zip(names, splits.T):
            numbers[prefix + name] = (values, seeds)
        change, expected = measured[:, -1] - measured[:, 0], predictions[:, -1] - predictions[:, 0]
        numbers[prefix + "change of S_2, measured"] = (change, seeds)
        numbers[prefix + "change of S_2, predicted"] = (expected, seeds)
        if len(seeds) > 2:
            correlation = np.corrcoef(change, expected)[0, 1]
            numbers[prefix + "correlation of both over seeds"] = ([correlation], [0])
        arrays |= {
            f"tangent/{setting.name}/predicted": predictions,
            f"tangent/{setting.name}/measured": measured,
        }
    return numbers, arrays


AFTERWARDS = {
    "gradients": gradients, "landscape": distances, "first_step": first_step, "tangent": tangent,
}  # fmt: skip
