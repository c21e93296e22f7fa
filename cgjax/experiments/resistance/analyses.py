"""What is made of a row's networks on the plane, part by part or together.

Each maps (config, found), found = {part: (its config, trained, folder)}, to metrics {name: (values,
seeds)} and arrays.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence, landscape
from cgjax.core import train, tree
from cgjax.experiments.resistance import models, plane
from cgjax.experiments.resistance.training import plane as of_plane

CURVES = ("train accuracy", "test accuracy", "S_2")
SOON = 16  # steps after which rounding has had time to grow


def start(config):
    """Parameters before training, leaves [seeds, settings, ...]."""
    found = train.initial(of_plane.experiment(config), of_plane.in_steps(config)).params
    n = len(of_plane.settings(config))
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, n, *leaf.shape[1:]), found)


def points_of(config, control: bool):
    """All points of every seed, leaves [seeds, ...]."""
    seeds = jnp.asarray(np.asarray(config.train.seeds, np.uint32))
    return jax.jit(jax.vmap(lambda seed: of_plane.draw(config, seed, control)))(seeds)


def _only(found) -> tuple:
    (only,) = found.values()
    return only


# --- other ways to a gradient ---------------------------------------------------------------------


def gradients(config, found):
    """Largest difference of each curve from that of reverse mode, over all steps and the first."""
    numbers, arrays = {}, {}
    reverse = found["reverse"][1]
    seeds = list(reverse.seeds)
    soon = reverse.scores["step"] <= SOON
    for name, (_, trained, _) in found.items():
        if name == "reverse":
            continue
        for curve in CURVES:
            apart = np.abs(trained.scores[curve] - reverse.scores[curve]).max(axis=2)
            arrays[f"apart/{name}/{curve}"] = apart
            word = f"{name}: largest difference of {curve}"
            numbers[f"{word}, {SOON} steps"] = (apart[soon].max(axis=0), seeds)
            numbers[word] = (apart.max(axis=0), seeds)
    return numbers, arrays


# --- figure 1 -------------------------------------------------------------------------------------


def layers(params) -> list:
    """(kernel, bias) of a dense network's layers, in order."""
    net = params["net"]
    return [(net[name]["kernel"], net[name]["bias"]) for name in sorted(net)]


def from_layers(found: list) -> dict:
    """Inverse of `layers`."""
    return {
        "net": {
            f"dense_{i}": {
                "kernel": jnp.asarray(k, jnp.float32),
                "bias": jnp.asarray(b, jnp.float32),
            }
            for i, (k, b) in enumerate(found)
        }
    }


def distances(config, found):
    """How far solutions of A and of the control lie from the start, from each other's path, and
    how high the loss of A rises between them, before and after hidden units are matched.
    """
    own, trained, folder = _only(found)
    names = [one.name for one in trained.settings]
    a, b = names.index("A"), names.index("control")
    first, points, seeds = start(own), points_of(own, False), list(trained.seeds)
    steps, path = of_plane.kept(own, trained, folder, "params")  # [times, seeds, settings, P]
    ends = path[-1]
    away = np.linalg.norm(path[:, :, a] - ends[None, :, b], axis=-1)
    back = np.linalg.norm(path[:, :, b] - ends[None, :, a], axis=-1)

    @jax.jit
    def line(one, other, points):
        def loss(params):
            return of_plane.whole_loss(own, params, points)

        return landscape.barrier(loss, one, other, own.eval.n_line)

    rows = {"before": [], "after": [], "apart": [], "matched": [], "A": [], "control": []}
    curves = {"before": [], "after": []}
    for s in range(len(seeds)):
        at = {i: tree.take(trained.params, (s, i)) for i in (a, b)}
        zero = tree.take(first, (s, a))
        near = from_layers(landscape.matched(layers(at[a]), layers(at[b])))
        some = tree.take(points["train"], s)
        for word, other in (("before", at[b]), ("after", near)):
            between = line(at[a], other, some)
            rows[word].append(between.height)
            curves[word].append(between.losses)
        rows["apart"].append(landscape.distance(at[a], at[b]))
        rows["matched"].append(landscape.distance(at[a], near))
        rows["A"].append(landscape.distance(zero, at[a]))
        rows["control"].append(landscape.distance(zero, at[b]))
    words = {
        "A": "distance from start to A", "control": "distance from start to control",
        "apart": "distance between A and control", "matched": "distance when matched",
        "before": "barrier", "after": "barrier when matched",
    }  # fmt: skip
    numbers = {words[key]: (np.array(values, float), seeds) for key, values in rows.items()}
    numbers["A's start nearer to control's end by"] = (away[0] - away[-1], seeds)
    arrays = {"path/step": np.array(steps), "path/A to control": away, "path/control to A": back}
    arrays |= {f"line/{word}": np.array(values, float) for word, values in curves.items()}
    return numbers, arrays


# --- the first step -------------------------------------------------------------------------------


def first_step(config, found):
    """How the boundary's angle changes in the first step when one cell's gradient is used alone.

    The updates of one step, on all points at once; other cells' points count with weight 0.
    """
    own, trained, _ = _only(found)
    first, points, seeds = start(own), points_of(own, False), list(trained.seeds)
    n, rate = of_plane.per_step(own), own.optim.lrs[0]

    def moved(params, points, weights):
        def loss(params):
            each = of_plane.head_losses(own, params, points["train"], weights)
            return jnp.sum(each) * jnp.mean(weights)

        def angle(params):
            return plane.boundary_angle(of_plane.slopes(own, params, points["fresh"].x))

        def update(params, _):
            step = jax.grad(loss)(params)
            return jax.tree.map(lambda p, g: p - rate * g, params, step), None

        after, _ = jax.lax.scan(update, params, length=n)
        turn = angle(after) - angle(params)
        return jnp.mod(turn + 180, 360) - 180, angle(params), angle(after)

    program = jax.jit(jax.vmap(moved))
    params = jax.tree.map(lambda leaf: leaf[:, 0], first)
    numbers, arrays = {}, {}
    for cell in (None, *plane.TRAIN_CELLS):
        weights = jnp.ones(points["train"].x.shape[:2])
        if cell is not None:
            weights = jax.vmap(lambda one, cell=cell: plane.in_cell(one, cell))(points["train"])
        turn, before, after = map(np.asarray, program(params, points, weights.astype(jnp.float32)))
        word = "all cells" if cell is None else f"cell {cell}"
        numbers[f"{word}: turn of the boundary"] = (turn, seeds)
        numbers[f"{word}: angle after the first step"] = (after, seeds)
        numbers[f"{word}: tilt after the first step"] = (plane.tilt(after), seeds)
        numbers[f"{word}: change of tilt"] = (plane.tilt(after) - plane.tilt(before), seeds)
        arrays |= {f"turn/{word}": turn, f"tilt/{word}": plane.tilt(after)}
    arrays |= {"angle/start": before, "tilt/at the start": plane.tilt(before)}
    return numbers, arrays


# --- tangent kernels ------------------------------------------------------------------------------


def tangent(config, found):
    """S_2 after the first updates, predicted by the linearised network, beside the measured one.

    And the tangent kernel at the start, split: what of it X_1 and X_2 carry, and of the update that
    training data ask for.
    """
    own, trained, _ = _only(found)
    first, seeds, rate = start(own), list(trained.seeds), own.optim.lrs[0]
    steps = trained.scores["step"] * of_plane.per_step(own)
    f, numbers, arrays = of_plane.predictor(own), {}, {"tangent/step": trained.scores["step"]}

    @jax.jit
    def predicted(params, points):
        update = jax.grad(lambda p: -of_plane.whole_loss(own, p, points["train"]))(params)
        x = points["fresh"].x[: own.eval.n_jacobian]
        found = dependence.early_dependence(
            f, params, update, x, of_plane.INPUTS, rate * steps, chunk=len(x)
        )
        return dependence.shares(found)[:, 0, 1]

    @jax.jit
    def residuals(params, points):
        def loss(logits):
            return jnp.mean(models.LOSSES[own.optim.loss](logits, points.y[:, 0]))

        return -jax.grad(loss)(f(params, points.x))

    for i, setting in enumerate(trained.settings):
        points = points_of(own, setting.numbers["control"])
        guess, splits = [], []
        for s in range(len(seeds)):
            params = tree.take(first, (s, i))
            own_points = tree.take(points, s)
            guess.append(np.asarray(predicted(params, own_points)))
            some = tree.take(own_points["train"], slice(own.eval.n_split))
            kernel = dependence.tangent_split(f, params, some.x, of_plane.INPUTS)
            asked = dependence.tangent_split(
                f, params, some.x, of_plane.INPUTS, residuals(params, some)
            )
            splits.append((*kernel, *asked))
        guess, splits = np.array(guess), np.array(splits)  # [seeds, times], [seeds, 6]
        measured = trained.scores["S_2"][:, :, i].T
        prefix = f"{setting.name}: "
        names = [f"{of}: share of {part}" for of in ("kernel", "first update")
                 for part in ("X_1", "X_2", "both")]  # fmt: skip
        for name, values in zip(names, splits.T):
            numbers[prefix + name] = (values, seeds)
        change, expected = measured[:, -1] - measured[:, 0], guess[:, -1] - guess[:, 0]
        numbers[prefix + "change of S_2, measured"] = (change, seeds)
        numbers[prefix + "change of S_2, predicted"] = (expected, seeds)
        if len(seeds) > 2:
            of_both = np.corrcoef(change, expected)[0, 1]
            numbers[prefix + "correlation of both over seeds"] = ([of_both], [0])
        arrays |= {f"tangent/{setting.name}/predicted": guess,
                   f"tangent/{setting.name}/measured": measured}  # fmt: skip
    return numbers, arrays


AFTERWARDS = {
    "gradients": gradients, "landscape": distances, "first_step": first_step, "tangent": tangent,
}  # fmt: skip
