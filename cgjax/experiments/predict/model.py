"""A pair: one model and one split of a family's data, in the form that every theory takes.

A field that a pair cannot provide is a sentence with the reason; tables show it as "n/a".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import metrics, program

Reason = str


class Look(NamedTuple):
    """The data of one seed; x may be a tree of arrays."""

    x: Any  # [n, ...] some of the training inputs
    y: jax.Array  # [n, outputs]
    x_new: Any  # [m, ...] inputs outside the training split
    y_new: jax.Array
    grid: Any = None  # inputs of a full grid of two factors, the second one fastest


class Parts(NamedTuple):
    """Which part of the output needs which part of the input: equal labels belong together."""

    inputs: Any  # labels of x's entries, or [n, ...] where samples differ
    outputs: Any  # labels of the entries of `read(outputs)`
    read: Callable = lambda outputs: outputs  # outputs -> the quantities that the labels are of
    centred: bool = False  # True for logits, of which only differences matter


class Pair(NamedTuple):
    """A model and a split before training."""

    experiment: program.Experiment
    settings: Any  # the family's config, with durations in steps
    rows: tuple[int, ...]  # the replica of each seed
    f: Callable  # params, x -> outputs
    looks: tuple[Look, ...]  # one for each seed
    error: Callable  # y, outputs -> error: 0 is perfect, 1 is chance or a constant prediction
    loss: Callable  # y, outputs -> training loss
    support: Callable | Reason  # () -> share of component values without a theorem's guarantee
    layer: Callable | Reason  # params, x -> the representation [n, ...] of look.grid
    shape: tuple[int, ...]  # values of both factors on the grid; repetitions of the grid come first
    parts: Parts | Reason
    routines: dict[str, Callable] | Reason  # {routine: its loss, a function of params and look}
    join: Callable = lambda params, extra: params  # params and extra of a state -> params of f


# --- errors and losses that families share --------------------------------------------------------


def share_missed(y, outputs) -> jax.Array:
    """Squared error over the targets' variance, 1 - R2 with all outputs together."""
    y, outputs = (jnp.asarray(a).reshape(len(a), -1) for a in (y, outputs))
    return 1 - metrics.r2_variance_weighted(y, outputs)


def squared(y, outputs) -> jax.Array:
    """Mean squared error."""
    return metrics.mse(jnp.asarray(y).reshape(outputs.shape), outputs)


def error_rate(y, outputs) -> jax.Array:
    """Share of wrong answers over the share that chance gets wrong; y as `signs` returns it."""
    wrong = jnp.mean(jnp.argmax(outputs, axis=-1) != jnp.argmax(y, axis=-1))
    return wrong / (1 - 1 / y.shape[-1])


def signs(labels, n_classes: int) -> jax.Array:
    """Targets of logits: 1 for the class, -1 for the others; labels [...]."""
    return 2 * jax.nn.one_hot(labels, n_classes) - 1


def some(n: int, most: int) -> np.ndarray:
    """At most `most` of n rows, drawn with a fixed seed."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])
