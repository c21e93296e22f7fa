"""Losses, test scores and a closed form, shared by dense networks and networks on images."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import additivity, closed_forms, salience, stats
from cgjax.experiments.kernels import tasks

LOSSES = {
    "mse": lambda y, f: jnp.square(f - y),
    "logistic": lambda y, f: jax.nn.softplus(-y * f),
    "cross_entropy": lambda y, f: jax.nn.softplus(-2 * y * f),  # of two classes with logits f, -f
}


def short(name: str) -> str:
    """The task's name in tables; for addition, the name of its training set."""
    return name.removeprefix("addition_")


def scores_of(task: tasks.Task, outputs: np.ndarray) -> dict:
    """Test scores of outputs [networks, N]: slope and error, or accuracy and margin."""
    test = ~task.is_train
    y, f = task.y[test], outputs[:, test]
    if tasks.is_classification(task):
        return {"accuracy": np.mean(np.sign(f) == y, axis=1), "margin": np.mean(y * f, axis=1)}
    return {"slope": slope(y, f), "test MSE": np.mean((f - y) ** 2, axis=1)}


def slope(y: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Slope [...] of the least-squares line through (y [n], f [..., n])."""
    centred = y - y.mean()
    return f @ centred / np.sum(centred**2)


class Pooled(NamedTuple):
    """A number computed from several networks together.

    each: one value per group of networks, or jackknife pseudo-values, one per network. Their mean
    is the number; no entry is the score of one network.
    """

    each: np.ndarray


def entry(value, seeds) -> tuple:
    """A metric as studies return it: (values, seeds); pooled metrics have no seeds."""
    if isinstance(value, Pooled):
        return value.each, []
    return (value, seeds) if np.ndim(value) == 1 else ([value], [])


def as_array(value) -> np.ndarray:
    """A score as an array for figures."""
    return np.asarray(value.each if isinstance(value, Pooled) else value)


def type_shares(labels: np.ndarray, coefficients: np.ndarray) -> dict[str, Pooled]:
    """Shares of each type of conjunction in the sum of `type_means`."""
    return _type_magnitudes(labels, coefficients, "sum")


def type_means(labels: np.ndarray, coefficients: np.ndarray) -> dict[str, Pooled]:
    """Mean |value| of each type of conjunction, from coefficients [networks, ...].

    Coefficients are averaged over networks first, as in the paper, so that only what the networks
    have in common remains.
    """
    return _type_magnitudes(labels, coefficients, None)


def _type_magnitudes(labels, coefficients, relative_to):
    def magnitudes(sample):
        return additivity.type_magnitudes(labels, sample.mean(axis=0), tasks.RELEVANT, relative_to)

    pseudo_values = stats.jackknife(
        lambda sample: np.array(list(magnitudes(sample).values())), coefficients
    )
    return dict(zip(magnitudes(coefficients), map(Pooled, pseudo_values.T), strict=True))


def closed_form(kappa: np.ndarray, task: tasks.Task) -> closed_forms.Addition:
    """Closed-form kernel machine on addition, from a kernel's values by overlap [..., 3]."""
    s = np.asarray(salience.salience(kappa))[..., 0]
    constant = kappa[..., 0] / (kappa[..., -1] - kappa[..., 0])
    return closed_forms.addition(s, tasks.VALUES, tasks.anchors(task), "constant", constant)
