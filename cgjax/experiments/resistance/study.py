"""Studies: trains and scores a row's parts one after another, then compares them.

Metrics are named "<part>/<setting>: <score>" and have one value per seed, after training. "early
<score>" is the mean over evaluations up to `eval.early`, "late <score>" over the others, "mean
<score>" over all.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.config import over_parts, parts, prefixes
from cgjax.core import checkpoint, program, rng, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.resistance import analyses, control, training
from cgjax.experiments.resistance.training import pairs as of_pairs
from cgjax.experiments.resistance.training import plane as of_plane
from cgjax.experiments.resistance.training import scan as of_scan

TASKS = {"mnist": of_pairs, "digits": of_pairs, "plane": of_plane, "scan": of_scan}
MOST_SHOWN = 8  # seeds whose panels are saved
# Starts of the names of scores whose mean, early and late means are metrics, too.
MEANS = ("one step", "heads")
# Scores whose early mean is a metric; the untrained network does not count.
EARLY = ("train accuracy", "accuracy on the bare word", "accuracy on the rest")


def task_of(config, part: str):
    """The module that trains a part: that of the study, or of the first word of the part's name."""
    if config.study in TASKS:
        return TASKS[config.study]
    return TASKS[part.split("_")[0]] if config.study == "both" else of_plane


def tasks(config) -> list[tuple]:
    """(name, config, task) of every part."""
    return [(name, part_config, task_of(config, name)) for name, part_config in parts(config)]


def made_up(config) -> tuple[str, ...]:
    """Prefixes of the metrics of synthetic digits."""
    return prefixes(
        config,
        lambda name, part: task_of(config, name) is of_pairs and part.data.digits == "synthetic",
    )


def check(config) -> None:
    """Checks every part separately."""
    for name, part_config, task in tasks(config):
        try:
            task.check(part_config)
        except BadInput as error:
            raise BadInput(f"part '{name}': {error}" if name else str(error)) from None
    if config.study == "crossing":
        control.check(config)


def plan(config) -> dict:
    """Size of each part's training."""
    return {
        name: program.training_size(task.experiment(part_config), task.in_steps(part_config))
        for name, part_config, task in tasks(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks "<part>/<setting>", one per seed."""
    choices = {
        "/".join(filter(None, (name, variant.name))): (name, part_config, task, variant.name)
        for name, part_config, task in tasks(config)
        for variant in task.settings(part_config)
    }
    name, part_config, task, setting = choices[checkpoint.choose(part, choices, workdir)]
    return task.load(part_config, pathlib.Path(workdir) / name, setting, step)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays for figures."""
    trained_parts = {}

    def train_part(name, part_config):
        task, folder = task_of(config, name), pathlib.Path(workdir) / name
        trained = task.run(part_config, folder, name)
        trained_parts[name] = (part_config, trained, folder)
        metrics, arrays = analyse(part_config, task, trained, folder)
        # The networks of interest are those in the bands of loss, not those after training.
        return ({} if config.study == "crossing" else metrics), arrays

    metrics, arrays = over_parts(config, train_part)
    afterwards = (analyses.AFTERWARDS | {"crossing": control.compare}).get(config.study)
    if afterwards:
        more = afterwards(config, trained_parts)
        metrics, arrays = metrics | more[0], arrays | more[1]
    return metrics, arrays


def analyse(config, task, trained: training.Trained, folder) -> tuple[dict, dict]:
    """Metrics {name: (values, seeds)} of one part, and arrays for figures."""
    metrics, steps = {}, trained.scores["step"]
    numbers = {name: values[-1] for name, values in trained.scores.items() if name != "step"}
    is_early = steps <= config.eval.early
    after_start = is_early & (steps > 0)
    after_start = after_start if after_start.any() else steps == steps[-1]
    for name, values in trained.scores.items():
        if name.startswith(MEANS):
            numbers[f"mean {name}"] = values.mean(axis=0)
            numbers[f"early {name}"] = values[is_early].mean(axis=0)
            if not is_early.all():
                numbers[f"late {name}"] = values[~is_early].mean(axis=0)
        if name in EARLY:
            numbers[f"early {name}"] = values[after_start].mean(axis=0)
    if task is of_scan:
        numbers |= of_scan.whole(config, trained)
    if task is of_pairs and config.eval.n_information:
        numbers |= information(config, trained)
    for name, values in numbers.items():
        for i, setting in enumerate(trained.settings):
            prefix = f"{setting.name}: " if setting.name else ""
            metrics[prefix + name] = (values[:, i], list(trained.seeds))
    arrays = {f"scores/{name}": values for name, values in trained.scores.items()}
    arrays |= {f"losses/{name}": values for name, values in trained.losses.items()}
    arrays["settings"] = np.array([setting.name for setting in trained.settings])
    for name in trained.settings[0].numbers:
        arrays[f"setting/{name}"] = np.array(
            [setting.numbers[name] for setting in trained.settings]
        )
    if task is of_plane:
        arrays |= panels(config, trained, folder)
    for i, setting in enumerate(trained.settings):
        mean = {k: numbers[k][:, i].mean() for k in ("train accuracy", "test accuracy")}
        share = f", S_2 {numbers['S_2'][:, i].mean():.3f}" if "S_2" in numbers else ""
        say(
            f"{setting.name or 'all'}: train {mean['train accuracy']:.3f}, "
            f"test {mean['test accuracy']:.3f}{share}"
        )
    return metrics, arrays


def panels(config, trained, folder) -> dict:
    """P(Y_1 = 1) on a grid at the steps of `eval.keep`, and training points [seeds, settings]."""
    n_shown = min(MOST_SHOWN, len(trained.seeds))
    draw = jax.vmap(lambda seed, control: of_plane.draw(config, seed, control)["train"], (None, 0))
    seeds = np.asarray(trained.seeds[:n_shown])
    controls = jnp.array([setting.numbers["control"] for setting in trained.settings])
    points = jax.jit(jax.vmap(draw, (0, None)))(jnp.asarray(seeds.astype(np.uint32)), controls)
    arrays = {"points/x": np.asarray(points.x), "points/y": np.asarray(points.y)}
    arrays["points/seed"] = seeds
    if not config.eval.keep:
        return arrays
    steps, probabilities = of_plane.kept(config, trained, folder, "shown")
    arrays["panels"], arrays["panel_steps"] = (
        probabilities[:, :n_shown].astype(np.float32),
        np.array(steps),
    )
    return arrays


def information(config, trained) -> dict:
    """Information about Y_2 on `eval.n_information` samples after training, with permutation tests.

    Returns {name: [seeds, settings]} of the conditional and the interventional information; p tests
    against no information.
    """
    data = jax.tree.map(jnp.asarray, of_pairs.digits(config))
    c = of_pairs.C

    @jax.jit
    def test_network(params, replica, data):
        drawn = of_pairs.sets(config, data, replica, config.eval.n_information)
        train_pairs, do_pairs = drawn["train"], drawn["do"]
        yhat = of_pairs.answers(config, params, data, {"train": train_pairs, "do": do_pairs})
        keys = jax.random.split(rng.stream(jax.random.key(replica["seed"]), "eval"))
        tested = {
            "conditional information": dependence.permutation_test(
                keys[0], train_pairs.y2, yhat["train"], train_pairs.y1, sizes=(c, c, c)
            ),
            "interventional information": dependence.permutation_test(
                keys[1], do_pairs.y2, yhat["do"], sizes=(c, c)
            ),
        }
        scores = {}
        for name, value in tested.items():
            scores |= {name: value.value, f"{name}, p": value.p, f"{name}, null": value.high}
        return scores

    rows = []
    for s, seed in enumerate(trained.seeds):
        for i, setting in enumerate(trained.settings):
            params = tree.take(trained.params, (s, i))
            rows.append(test_network(params, {"seed": np.uint32(seed), **setting.numbers}, data))
    shape = len(trained.seeds), len(trained.settings)
    return {name: np.array([row[name] for row in rows], float).reshape(shape) for name in rows[0]}
