"""Programs: models of a family on splits of its data, in the form that every predictor takes.

One program trains all seeds of several pairs at once. A field that a pair cannot provide is a
sentence with the reason; tables show it as "n/a".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import support
from cgjax.core import metrics, program

Reason = str


class Data(NamedTuple):
    """The data of one seed; inputs may be trees of arrays. A user's predictor sees no new ones."""

    x: Any  # [n, ...] training inputs
    y: jax.Array  # [n, ...] their targets
    factors: np.ndarray  # [k, C] known combinations
    inputs: Any  # [k, ...] an input for each of them
    targets: jax.Array  # [k, ...]
    asked: np.ndarray  # [m, C] unseen combinations
    x_new: Any = None  # [m', ...] inputs of unseen combinations
    y_new: jax.Array | None = None


class Parts(NamedTuple):
    """Which part of the output needs which part of the input: equal labels belong together."""

    inputs: Any  # labels of x's entries, or [n, ...] where samples differ
    outputs: Any  # labels of the entries of `read(outputs)`
    read: Callable = lambda outputs: outputs  # outputs -> the quantities that the labels are of
    centred: bool = False  # True for logits, of which only differences matter


class Model(NamedTuple):
    """One network before and after training."""

    f: Callable  # params, x -> outputs [n, ...]
    layer: Callable  # params, x -> a representation [n, ...]
    start: Any  # parameters before training
    params: Any  # after training


class Subject(NamedTuple):
    """A pair: one model on one task."""

    task: str
    model: str
    rows: tuple[int, ...]  # the replica of each seed
    f: Callable
    layer: Callable
    data: tuple[Data, ...]  # one for each seed
    score: Callable  # y, outputs -> 1 is perfect
    parts: Parts | Reason
    chance: float = 0.0  # score of a constant answer
    unknown: Callable | None = None  # data -> share that stays open, if the model has the data's C


class Contents(NamedTuple):
    """What a program trains, and the pairs that it trains."""

    experiment: program.Experiment  # with its data
    subjects: tuple[Subject, ...]


class Program(NamedTuple):
    """What is trained at once."""

    experiment: program.Experiment  # of the right size; its data may be missing
    settings: Any  # the family's config, with durations in steps
    make: Callable  # () -> Contents; reads and draws data, which a dry run does not need
    join: Callable = lambda params, extra: params  # params and extra of a state -> params of f
    block: str = ""  # of its pairs, if it is not named as the family


def captured(net, name: str, variables, x) -> jax.Array:
    """Outputs [n, units] of the linen modules of a name, of all modules side by side."""
    _, state = net.apply(
        variables,
        x,
        mutable="intermediates",
        capture_intermediates=lambda module, _: module.name == name,
    )
    return jnp.concatenate(jax.tree.leaves(state["intermediates"]), axis=-1)


# --- scores ---------------------------------------------------------------------------------------


def r2(y, outputs) -> float:
    """R2 with all outputs together."""
    y, outputs = (jnp.asarray(a).reshape(len(a), -1) for a in (y, outputs))
    return float(metrics.r2_variance_weighted(y, outputs))


def accuracy(y, outputs) -> float:
    """Share of right answers; y as `signs` returns it."""
    return float(jnp.mean(jnp.argmax(outputs, axis=-1) == jnp.argmax(y, axis=-1)))


def first_head_accuracy(y, outputs) -> float:
    """`accuracy` of the first head, which names the target; arrays [n, classes] have one head."""
    return accuracy(*(a if a.ndim == 2 else a[:, 0] for a in (y, outputs)))


def signs(labels, n_classes: int) -> jax.Array:
    """Targets of logits: 1 for the class, -1 for the others; labels [...]."""
    return 2 * jax.nn.one_hot(labels, n_classes) - 1


def some(n: int, most: int) -> np.ndarray:
    """At most `most` of n rows, drawn with a fixed seed."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


# --- support --------------------------------------------------------------------------------------


def left_open(composition: Callable, tables: list) -> Callable:
    """data -> `unknown` of `support.identify`, for factors whose values have these outputs.

    tables: for each factor, the true component outputs of its values, [values, ...].
    """

    def component(table):
        return lambda z: jnp.asarray(table)[z[:, 0].astype(int)]

    components = [component(table) for table in tables]

    def unknown(data: Data) -> float:
        answer = support.identify(
            composition,
            components,
            data.factors.astype(float),
            data.asked.astype(float),
            kinds=["categorical"] * len(tables),
        )
        return float(answer.unknown[list(answer.lengths).index(answer.length)])

    return unknown
