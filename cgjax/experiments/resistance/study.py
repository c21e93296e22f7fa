"""Studies: a row's parts are trained one after another, scored, and looked at together.

Names of metrics: "<part>/<setting>: <score>", one value for each seed, after training. "early train
accuracy" is the mean over evaluations up to `eval.early`, "mean <score>" that over all of them.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, program, rng, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.resistance import analyses, control, training
from cgjax.experiments.resistance.training import pairs as of_pairs
from cgjax.experiments.resistance.training import plane as of_plane
from cgjax.experiments.resistance.training import scan as of_scan

TASKS = {"mnist": of_pairs, "plane": of_plane, "scan": of_scan}
MOST_SHOWN = 8  # seeds whose panels are kept
# Scores that change along training and whose mean is a metric too.
MEANS = ("one step", "heads")


def task_of(config, part: str):
    """The module that trains a part: that of its study, or named by the part's first word."""
    if config.study in TASKS:
        return TASKS[config.study]
    return TASKS[part.split("_")[0]] if config.study == "both" else of_plane


def tasks(config) -> list[tuple]:
    """(name, settings, task) of every part."""
    return [(name, own, task_of(config, name)) for name, own in parts(config)]


def check(config) -> None:
    """Every part on its own."""
    for name, own, task in tasks(config):
        try:
            task.check(own)
        except BadInput as error:
            raise BadInput(f"part '{name}': {error}" if name else str(error)) from None
    if config.study == "crossing":
        control.check(config)


def plan(config) -> dict:
    """How large each part's training is."""
    return {
        name: program.training_size(task.experiment(own), task.in_steps(own))
        for name, own, task in tasks(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks "<part>/<setting>", one for each seed."""
    found = {
        "/".join(filter(None, (name, one.name))): (name, own, task, one.name)
        for name, own, task in tasks(config)
        for one in task.settings(own)
    }
    name, own, task, setting = found[checkpoint.choose(part, found, workdir)]
    return task.load(own, pathlib.Path(workdir) / name, setting, step)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays to draw."""
    found = {}

    def one(name, own):
        task, folder = task_of(config, name), pathlib.Path(workdir) / name
        trained = task.run(own, folder, name)
        found[name] = (own, trained, folder)
        return analyse(own, task, trained, folder)

    metrics, arrays = over_parts(config, one)
    afterwards = (analyses.AFTERWARDS | {"crossing": control.compare}).get(config.study)
    if afterwards:
        more = afterwards(config, found)
        metrics, arrays = metrics | more[0], arrays | more[1]
    return metrics, arrays


def analyse(config, task, trained: training.Trained, folder) -> tuple[dict, dict]:
    """One part: metrics {name: (values, seeds)}, and what figures need."""
    metrics, steps = {}, trained.scores["step"]
    numbers = {name: values[-1] for name, values in trained.scores.items() if name != "step"}
    numbers |= {
        f"mean {name}": values.mean(axis=0)
        for name, values in trained.scores.items()
        if name.startswith(MEANS)
    }
    early = (steps > 0) & (steps <= config.eval.early)
    early = early if early.any() else steps == steps[-1]
    numbers["early train accuracy"] = trained.scores["train accuracy"][early].mean(axis=0)
    if task is of_scan:
        numbers |= of_scan.whole(config, trained)
    if task is of_pairs and config.eval.n_information:
        numbers |= told(config, trained)
    for name, values in numbers.items():
        for i, one in enumerate(trained.settings):
            prefix = f"{one.name}: " if one.name else ""
            metrics[prefix + name] = (values[:, i], list(trained.seeds))
    arrays = {f"scores/{name}": values for name, values in trained.scores.items()}
    arrays |= {f"losses/{name}": values for name, values in trained.losses.items()}
    arrays["settings"] = np.array([one.name for one in trained.settings])
    for name in trained.settings[0].numbers:
        arrays[f"setting/{name}"] = np.array([one.numbers[name] for one in trained.settings])
    if task is of_plane:
        arrays |= panels(config, trained, folder)
    for i, one in enumerate(trained.settings):
        mean = {k: numbers[k][:, i].mean() for k in ("train accuracy", "test accuracy")}
        share = f", S_2 {numbers['S_2'][:, i].mean():.3f}" if "S_2" in numbers else ""
        say(f"{one.name or 'all'}: train {mean['train accuracy']:.3f}, "
            f"test {mean['test accuracy']:.3f}{share}")  # fmt: skip
    return metrics, arrays


def panels(config, trained, folder) -> dict:
    """P(Y_1 = 1) on a grid at the steps of `eval.keep`, and the training points of each seed."""
    shown = min(MOST_SHOWN, len(trained.seeds))
    draw = jax.jit(jax.vmap(lambda seed: of_plane.draw(config, seed, False)["train"]))
    points = draw(jnp.asarray(np.asarray(trained.seeds[:shown], np.uint32)))
    arrays = {"points/x": np.asarray(points.x), "points/y": np.asarray(points.y)}
    if not config.eval.keep:
        return arrays
    steps, found = of_plane.kept(config, trained, folder, "shown")
    arrays["panels"], arrays["panel_steps"] = found[:, :shown].astype(np.float32), np.array(steps)
    return arrays


def told(config, trained) -> dict:
    """Information on `eval.n_information` samples after training, and its p against none.

    {name: [seeds, settings]}; the conditional and the interventional one, each by permutations.
    """
    data = jax.tree.map(jnp.asarray, of_pairs.digits(config))
    c = of_pairs.C

    @jax.jit
    def one(params, replica, data):
        drawn = of_pairs.sets(config, data, replica, config.eval.n_information)
        own, do = drawn["train"], drawn["do"]
        yhat = of_pairs.answers(config, params, data, {"train": own, "do": do})
        keys = jax.random.split(rng.stream(jax.random.key(replica["seed"]), "eval"))
        tested = {
            "conditional information": dependence.permutation_test(
                keys[0], own.y2, yhat["train"], own.y1, sizes=(c, c, c)
            ),
            "interventional information": dependence.permutation_test(
                keys[1], do.y2, yhat["do"], sizes=(c, c)
            ),
        }
        found = {}
        for name, value in tested.items():
            found |= {name: value.value, f"{name}, p": value.p, f"{name}, null": value.high}
        return found

    rows = []
    for s, seed in enumerate(trained.seeds):
        for i, setting in enumerate(trained.settings):
            params = tree.take(trained.params, (s, i))
            rows.append(one(params, {"seed": np.uint32(seed), **setting.numbers}, data))
    shape = len(trained.seeds), len(trained.settings)
    return {name: np.array([row[name] for row in rows], float).reshape(shape) for name in rows[0]}
