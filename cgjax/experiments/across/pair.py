"""A pair: one model and one split of a family's data, as every theory can look at it.

What a theory needs and a pair does not have is a sentence instead: the reason, shown as "n/a".
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
    x_new: Any  # [m, ...] inputs off the split
    y_new: jax.Array
    grid: Any = None  # inputs of a full grid of two factors, the second one fastest


class Parts(NamedTuple):
    """Which part of the output needs which part of the input: equal labels belong together."""

    inputs: Any  # of x's entries, or [n, ...] where samples differ
    outputs: Any
    read: Callable = lambda outputs: outputs  # what of the outputs has the parts
    centred: bool = False  # logits, of which only differences count


class Pair(NamedTuple):
    """A model and a split before training."""

    experiment: program.Experiment
    settings: Any  # the family's config, counted in steps
    rows: tuple[int, ...]  # the replica of each seed
    f: Callable  # params, x -> outputs
    looks: tuple[Look, ...]  # one for each seed
    error: Callable  # y, outputs -> error: 0 is right, 1 as bad as knowing nothing
    loss: Callable  # y, outputs -> what is trained
    support: Callable | Reason  # () -> share of component values that no theorem vouches for
    layer: Callable | Reason  # params, x -> the representation [n, ...] of look.grid
    shape: tuple[int, ...]  # of that grid: values of both factors, after repetitions of it
    parts: Parts | Reason
    routines: dict[str, Callable] | Reason  # {routine: its loss, a function of params and look}
    join: Callable = lambda params, extra: params  # what f takes of a state


# --- errors and losses that families share --------------------------------------------------------


def share_missed(y, outputs) -> jax.Array:
    """Squared error over the targets' variance, 1 - R2 with all outputs together."""
    y, outputs = (jnp.asarray(a).reshape(len(a), -1) for a in (y, outputs))
    return 1 - metrics.r2_variance_weighted(y, outputs)


def squared(y, outputs) -> jax.Array:
    """Mean squared error."""
    return metrics.mse(jnp.asarray(y).reshape(outputs.shape), outputs)


def error_rate(y, outputs) -> jax.Array:
    """How often the largest output is wrong, over how often chance is; y as `signs` gives it."""
    wrong = jnp.mean(jnp.argmax(outputs, axis=-1) != jnp.argmax(y, axis=-1))
    return wrong / (1 - 1 / y.shape[-1])


def signs(labels, n_classes: int) -> jax.Array:
    """Targets of logits: 1 for the class, -1 for the others; labels [...]."""
    return 2 * jax.nn.one_hot(labels, n_classes) - 1


def some(n: int, most: int) -> np.ndarray:
    """At most so many of n rows, drawn once."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])
