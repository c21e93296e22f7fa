"""Training of the three tasks: seeds x settings are the replicas of one program.

A *setting* is everything that differs between the runs of one seed: A or B, a dose, a learning
rate, a scale. Runs of one seed start from the same key, so they can be compared as pairs.
"""

import itertools
from typing import Any, NamedTuple

import numpy as np

from cgjax.core import checkpoint, parallel, train
from cgjax.core.replicas import Grid

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


def grid(config, known: tuple[Setting, ...]) -> Grid:
    """Seeds x settings."""
    return Grid(seed=config.train.seeds, setting=range(len(known)))


def replicas(config, known: tuple[Setting, ...]) -> dict:
    """Seeds x settings, with the numbers of each setting."""
    runs = grid(config, known)
    return runs.replicas() | {
        name: runs.along("setting", [setting.numbers[name] for setting in known])
        for name in known[0].numbers
    }


def run(experiment, known, config, workdir, name: str = "", per_step: int = 1) -> Trained:
    """Trains, and returns arrays with axes of seeds and settings; per_step: updates per step."""
    state, history = train.fit(experiment, config, workdir, name)
    runs, evals, wall_s = grid(config, known), history.pop("eval"), history.pop("wall_s")
    losses, scores = (
        runs.history({**columns, "step": columns["step"] / per_step})
        for columns in (history, evals)
    )
    params, extra = runs.by_axes(parallel.fetch((state.params, state.extra)))
    return Trained(known, tuple(config.train.seeds), losses, scores, params, extra, wall_s)


def read(config, known, folder, name: str, step=None) -> tuple[Any, np.ndarray]:
    """Parameters of one setting's networks, with a leading axis of seeds, and their steps."""
    names = [setting.name for setting in known]
    place = names.index(checkpoint.choose(name, names, folder))
    replica_names = grid(config, known).names(setting=place)
    params, _, steps = checkpoint.read_trained(folder, replica_names, step)
    return params, steps
