"""Training of the three tasks: seeds x settings are the replicas of one program.

A *setting* is everything that differs between the runs of one seed: A or B, a dose, a learning
rate, a scale. Runs of one seed start from the same key, so they can be compared as pairs.
"""

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np

from cgjax.core import checkpoint, parallel, train
from cgjax.core.replicas import names_of

IDENTITY = ("seed", "setting")


class Setting(NamedTuple):
    """One run of each seed."""

    name: str
    numbers: dict  # values of its replicas


class Trained(NamedTuple):
    """Networks after training; first axes of scores: times, seeds, settings."""

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    losses: dict  # from `loss`: "step" [n], and every metric [n, seeds, settings]
    scores: dict  # from `evaluate`: "step" [m], and every score [m, seeds, settings]
    params: Any  # leaves [seeds, settings, ...]
    extra: Any
    wall_s: float


def settings(axes: list[list[tuple[str, dict]]]) -> tuple[Setting, ...]:
    """The product of axes, each a list of (label, numbers); axes of length 1 add no label."""
    product = []
    for choice in itertools.product(*axes):
        parts_of_name = [label for (label, _), axis in zip(choice, axes) if len(axis) > 1]
        numbers = {name: value for _, values in choice for name, value in values.items()}
        product.append(Setting(", ".join(parts_of_name), numbers))
    return tuple(product)


def axis(word: str, name: str, values) -> list[tuple[str, dict]]:
    """An axis of one number, with labels such as "rate 0.1"."""
    return [(f"{word} {value:g}", {name: np.float32(value)}) for value in values]


def replicas(config, known: tuple[Setting, ...]) -> dict:
    """Seeds x settings; the settings of a seed are adjacent."""
    rows = [
        {"seed": seed, "setting": i, **setting.numbers}
        for seed in config.train.seeds
        for i, setting in enumerate(known)
    ]
    return {name: np.array([setting[name] for setting in rows]) for name in rows[0]}


def run(experiment, known, config, workdir, name: str = "", per_step: int = 1) -> Trained:
    """Trains, and returns arrays with axes of seeds and settings; per_step: updates per step."""
    state, history = train.fit(experiment, config, workdir, name)
    shape = len(experiment.replicas["seed"]) // len(known), len(known)

    def columns(history):
        rest = {k: v.reshape(-1, *shape) for k, v in history.items() if k != "step"}
        return {"step": history["step"] / per_step, **rest}

    def by_axes(leaf):
        return np.asarray(leaf).reshape(*shape, *np.shape(leaf)[1:])

    evals = history.pop("eval")
    wall_s = history.pop("wall_s")
    params, extra = jax.tree.map(by_axes, parallel.fetch((state.params, state.extra)))
    seeds = tuple(experiment.replicas["seed"][:: len(known)].tolist())
    return Trained(known, seeds, columns(history), columns(evals), params, extra, wall_s)


def read(config, known, folder, name: str, step=None) -> tuple[Any, np.ndarray]:
    """Parameters of one setting's networks, with a leading axis of seeds, and their steps."""
    names = [setting.name for setting in known]
    place = names.index(checkpoint.choose(name, names, folder))
    replica_names = names_of(replicas(config, known), IDENTITY)[place :: len(names)]
    params, _, steps = checkpoint.read_trained(folder, replica_names, step)
    return params, steps
