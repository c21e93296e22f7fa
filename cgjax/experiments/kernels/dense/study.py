"""Studies of dense networks: a row's parts are trained and scored one after another."""

import itertools
import pathlib

from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, program
from cgjax.experiments.kernels.dense import networks
from cgjax.experiments.kernels.dense.scores import measure


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays for figures."""

    def train_part(name, settings):
        return measure(settings, networks.run(settings, pathlib.Path(workdir) / name, name))

    return over_parts(config, train_part)


def check(config) -> None:
    """Checks that the training sets, scales and seeds of every part agree."""
    for _, settings in parts(config):
        networks.check(settings)


def plan(config) -> dict:
    """Size of each part's training."""
    return {
        name: program.training_size(
            networks.experiment(settings, networks.members(settings)), settings
        )
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
    names = networks.names(settings, task, scale)
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, names, step)
    model = networks.network(settings)

    def predict(params, x):
        return model.apply({"params": params}, x)

    return checkpoint.Loaded(predict, {**extra, **params}, settings, steps)
