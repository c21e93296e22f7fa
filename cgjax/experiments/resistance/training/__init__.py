"""Training of the three tasks: seeds x settings are the replicas of one program.

A *setting* is all in which the runs of one seed differ: A or B, a dose, a learning rate, a scale.
Runs of one seed start from the same key, so they are compared pair by pair.
"""

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np

from cgjax.core import checkpoint, parallel, train
from cgjax.core.replicas import names_of

IDENTITY = ("seed", "setting")


class Setting(NamedTuple):
    """One of the runs of a seed."""

    name: str
    numbers: dict  # of its replicas


class Trained(NamedTuple):
    """Networks after training; first axes of scores: times, seeds, settings."""

    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    losses: dict  # what `loss` says: "step" [n], and every metric [n, seeds, settings]
    scores: dict  # what `evaluate` says: "step" [m], and every score [m, seeds, settings]
    params: Any  # leaves [seeds, settings, ...]
    extra: Any
    wall_s: float


def settings(axes: list[list[tuple[str, dict]]]) -> tuple[Setting, ...]:
    """The product of axes, each a list of (word, numbers); a single choice without a word."""
    found = []
    for choice in itertools.product(*axes):
        words = [word for (word, _), axis in zip(choice, axes) if len(axis) > 1]
        numbers = {name: value for _, one in choice for name, value in one.items()}
        found.append(Setting(", ".join(words), numbers))
    return tuple(found)


def axis(word: str, name: str, values) -> list[tuple[str, dict]]:
    """An axis of one number: "rate 0.1" and so on."""
    return [(f"{word} {value:g}", {name: np.float32(value)}) for value in values]


def replicas(config, known: tuple[Setting, ...]) -> dict:
    """Seeds x settings, the settings of a seed side by side."""
    found = [
        {"seed": seed, "setting": i, **one.numbers}
        for seed in config.train.seeds
        for i, one in enumerate(known)
    ]
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def run(experiment, known, config, workdir, name: str = "", per_step: int = 1) -> Trained:
    """Fits, and puts seeds and settings on axes of their own; per_step: updates of one step."""
    state, history = train.fit(experiment, config, workdir, name)
    shape = len(experiment.replicas["seed"]) // len(known), len(known)

    def columns(found):
        rest = {k: v.reshape(-1, *shape) for k, v in found.items() if k != "step"}
        return {"step": found["step"] / per_step, **rest}

    def by_axes(leaf):
        return np.asarray(leaf).reshape(*shape, *np.shape(leaf)[1:])

    evals = history.pop("eval")
    wall_s = history.pop("wall_s")
    params, extra = jax.tree.map(by_axes, parallel.fetch((state.params, state.extra)))
    seeds = tuple(experiment.replicas["seed"][:: len(known)].tolist())
    return Trained(known, seeds, columns(history), columns(evals), params, extra, wall_s)


def read(config, known, folder, name: str, step=None) -> tuple[Any, np.ndarray]:
    """Parameters of one setting's networks, a leading axis of seeds, and their steps."""
    names = [one.name for one in known]
    place = names.index(checkpoint.choose(name, names, folder))
    wanted = names_of(replicas(config, known), IDENTITY)[place :: len(names)]
    params, _, steps = checkpoint.read_trained(folder, wanted, step)
    return params, steps
