"""Replicas by name, and groups of them that were trained at different times put side by side."""

import logging

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput

log = logging.getLogger("cgjax")


def replica_names(experiment) -> list[str]:
    """`["seed 0, scale 1e-06", ...]`: how replicas are named in files and warnings."""
    names = names_of(experiment.replicas, experiment.identity)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"two replicas are '{twice}': Experiment.identity must tell them apart")
    return names


def names_of(replicas: dict, identity: tuple) -> list[str]:
    """The replicas' names, from the numbers that tell them apart."""
    columns = [np.asarray(replicas[key]) for key in identity]
    form = ["{} {:.9g}" if column.dtype.kind == "f" else "{} {}" for column in columns]
    return [
        ", ".join(text.format(key, value) for text, key, value in zip(form, identity, row))
        for row in zip(*columns)
    ]


def with_numbers(replicas: dict, **numbers: float) -> dict:
    """Replicas, and numbers that all of them share: {"seed": [R], "lr": [R]}.

    A number of the config that is no shape becomes an argument of the program. Another value then
    finds the program in the cache, and runs that differ in it can be trained side by side; its key
    says so by `is_traced`.
    """
    n = len(replicas["seed"])
    return replicas | {name: np.full(n, value, np.float32) for name, value in numbers.items()}


def report_deaths(died_at, names: list[str]) -> None:
    """Warns of the replicas that turned non-finite; died_at [R]: the step, or -1."""
    for name, step in zip(names, died_at):
        if step >= 0:
            log.warning("%s turned non-finite at step %d and was frozen there", name, step)


def history_of(metrics, wall_s: float, rows=slice(None)) -> dict:
    """What a log holds of these replicas."""

    def take(column):
        return column[:, rows] if column.ndim > 1 else column  # the steps themselves

    return {**jax.tree.map(take, metrics.history()), "wall_s": wall_s}


def merge(states, histories, order):
    """Groups side by side, replicas in the order in which they were asked for."""
    if len(states) == 1 and np.array_equal(order, np.arange(len(order))):
        return states[0], histories[0]
    step = states[0].step
    joined = tree.concatenate([state._replace(step=jnp.zeros(1)) for state in states])
    state = tree.take(joined._replace(step=order), order)._replace(step=step)
    walls = sum(history.pop("wall_s") for history in histories)
    evals = _join([history.pop("eval") for history in histories], order)
    return state, {**_join(histories, order), "eval": evals, "wall_s": walls}


def _join(columns: list[dict], order) -> dict:
    """`{"step": [n], metric: [n, R]}` of all groups; those that stopped early stay as they were."""
    steps = max((one["step"] for one in columns), key=len)
    if any(not np.array_equal(one["step"], steps[: len(one["step"])]) for one in columns):
        raise BadInput(
            "these replicas were logged or evaluated at different steps (the run was extended "
            "between them): ask for those that were trained together"
        )

    def padded(values):
        rest = np.repeat(values[-1:], len(steps) - len(values), axis=0)
        return np.concatenate([values, rest])

    names = [name for name in columns[0] if name != "step"]
    joined = {name: np.concatenate([padded(one[name]) for one in columns], 1) for name in names}
    return {"step": steps, **{name: values[:, order] for name, values in joined.items()}}


def in_turn(several, at_once: int, state, data, data_axis, *each):
    """`several(state, data, *each)` of some replicas after others; at_once divides their number.

    The first axis of everything is the replicas, but for `state.step` and, unless data_axis is 0,
    the data, which are shared; of what comes back too.
    """

    def some(group):
        part, own, *rest = group
        found, stats = several(
            part._replace(step=state.step), data if data_axis is None else own, *rest
        )
        return found.step, (found._replace(step=None), stats)

    groups = (state._replace(step=None), None if data_axis is None else data, *each)
    groups = jax.tree.map(lambda leaf: leaf.reshape(-1, at_once, *leaf.shape[1:]), groups)
    steps, found = jax.lax.map(some, groups)
    found, stats = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)
    return found._replace(step=steps[0]), stats


def swapped(each):
    """[replicas, steps, ...] as [steps, replicas, ...], and back."""
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), each)
