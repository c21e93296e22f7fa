"""What dense networks and networks on images share: losses, scores on new inputs, a closed form."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import additivity, closed_forms, salience, stats
from cgjax.experiments.kernels import tasks

LOSSES = {
    "mse": lambda y, f: jnp.square(f - y),
    "logistic": lambda y, f: jax.nn.softplus(-y * f),
}


def short(name: str) -> str:
    """The task's name in tables: that of an addition task is its training set."""
    return name.removeprefix("addition_")


def scores_of(task: tasks.Task, outputs: np.ndarray) -> dict:
    """Of outputs [networks, N] on the test inputs: slope and error, or accuracy and margin."""
    test = ~task.is_train
    y, f = task.y[test], outputs[:, test]
    if tasks.is_classification(task):
        return {"accuracy": np.mean(np.sign(f) == y, axis=1), "margin": np.mean(y * f, axis=1)}
    return {"slope": slope(y, f), "test MSE": np.mean((f - y) ** 2, axis=1)}


def slope(y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Of the least-squares line through (y [n], f [..., n]): [...]."""
    centred = y - y.mean()
    return f @ centred / np.sum(centred**2)


class Pooled(NamedTuple):
    """One number of all networks together, told by what each makes of it (the jackknife)."""

    each: np.ndarray  # [networks], no score of a network; their mean is the number


def entry(value, seeds) -> tuple:
    """A metric as studies return it: (values, seeds), without seeds where networks are pooled."""
    if isinstance(value, Pooled):
        return value.each, []
    return (value, seeds) if np.ndim(value) == 1 else ([value], [])


def as_array(value) -> np.ndarray:
    """A score as figures read it."""
    return np.asarray(value.each if isinstance(value, Pooled) else value)


def type_shares(labels: np.ndarray, coefficients: np.ndarray) -> dict[str, Pooled]:
    """Shares of each type of conjunction, from coefficients [networks, ...].

    Values are averaged over networks first, as in the paper: what they share remains.
    """

    def shares(some):
        return additivity.type_magnitudes(labels, some.mean(axis=0), tasks.RELEVANT, "sum")

    each = stats.jackknife(lambda some: np.array(list(shares(some).values())), coefficients)
    return dict(zip(shares(coefficients), map(Pooled, each.T), strict=True))


def closed_form(kappa: np.ndarray, task: tasks.Task) -> closed_forms.Addition:
    """The machine on addition that a kernel's values by overlap [..., 3] lead to."""
    s = np.asarray(salience.salience(kappa))[..., 0]
    constant = kappa[..., 0] / (kappa[..., -1] - kappa[..., 0])
    return closed_forms.addition(s, tasks.VALUES, tasks.anchors(task), "constant", constant)
