"""Studies of dense networks: a row's parts are trained and scored one after another."""

import itertools
import pathlib

from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, program
from cgjax.experiments.kernels.dense import networks
from cgjax.experiments.kernels.dense.scores import measure


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: its metrics {name: (values, seeds)}, and arrays to draw."""

    def one(name, settings):
        return measure(settings, networks.run(settings, pathlib.Path(workdir) / name, name))

    return over_parts(config, one)


def check(config) -> None:
    """Every part's training sets, scales and seeds together."""
    for _, settings in parts(config):
        networks.check(settings)


def plan(config) -> dict:
    """How large each part's training is."""
    return {
        name: program.training_size(
            networks.experiment(settings, networks.members(settings)), settings
        )
        for name, settings in parts(config)
    }


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks "<part>/<task>/<scale>", without the words that are the same for the whole row.

    `predict(params, x [n, features])` -> outputs [n]; params: leading axis seeds.
    """
    found = {}
    several = len(parts(config)) > 1
    for name, settings in parts(config):
        words = settings.data.tasks, settings.model.scales
        for task, scale in itertools.product(*words):
            place = [name] * several + [task] * (several or len(words[0]) > 1)
            place += [f"{scale:g}"] * (several or len(words[1]) > 1)
            found["/".join(place)] = (name, settings, task, scale)
    name, settings, task, scale = found[checkpoint.choose(part, found, workdir)]
    names = networks.names(settings, task, scale)
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, names, step)
    model = networks.network(settings)

    def predict(params, x):
        return model.apply({"params": params}, x)

    return checkpoint.Loaded(predict, {**extra, **params}, settings, steps)
