"""A task: the problems of one rule, and a network that embeds their inputs.

A `Task` holds everything about language or vision that bases and masks need.

A *cell* says which subroutines an input obeys: (True, False) obeys only the first. The cells of its
three rule inputs and those of the odd one define a set of problems:

    compositional   all obeyed                 one of them broken
    mask_<a>        a obeyed, others free      a broken
    test_<a>        all obeyed                 a alone broken

In language rules of two subroutines, "free" means that the odd one obeys the other subroutine and
half of the rule inputs obey it, as in the paper; no input breaks both. In rules of three, all other
subroutines are free, for rule inputs and for the odd one.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.experiments.subnetworks import odd_one_out

CHUNK = 100  # problems per forward pass outside training
DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
PARTS = ("train", "val", "test")


class Sets(NamedTuple):
    """All problems of one rule."""

    subroutines: tuple[str, ...]
    table: dict  # arrays [inputs, ...]: the inputs of the network
    rows: dict  # {part: {set: [n, 4]}}, the odd one last


class Task(NamedTuple):
    """One rule and one network."""

    sets: Sets
    init: Callable  # key -> params
    embed: Callable  # params, inputs {name: [n, ...]} -> embeddings [n, D]
    layer_of: Callable  # name of a leaf -> its layer, or None if it is never masked
    dtype: Any = jnp.float32  # of frozen weights

    @property
    def subroutines(self) -> tuple[str, ...]:
        return self.sets.subroutines


# --- sets of problems -----------------------------------------------------------------------------


def broken(n: int, place: int) -> tuple[bool, ...]:
    """The cell that breaks one subroutine of n."""
    return tuple(i != place for i in range(n))


def cells(n: int) -> dict[str, tuple]:
    """{set: (cells of rule inputs, cells of the odd one)} of a rule of n subroutines.

    Sets of one subroutine carry its number: mask_0, test_0 ...
    """
    whole = (True,) * n
    by_set = {"compositional": ((whole,), tuple(broken(n, i) for i in range(n)))}
    for i in range(n):
        if n == 2:
            rule, odd = (whole, broken(n, 1 - i)), (broken(n, i),)
        else:
            every = tuple(itertools.product((True, False), repeat=n))
            rule = tuple(cell for cell in every if cell[i])
            odd = tuple(cell for cell in every if not cell[i])
        by_set[f"mask_{i}"] = (rule, odd)
    return by_set | {f"test_{i}": ((whole,), (broken(n, i),)) for i in range(n)}


def sizes(config, n: int) -> dict:
    """{set: {part: problems}}; tests have training problems only if the objective needs them."""
    data = config.data
    full = dict(zip(PARTS, (data.n_train, data.n_val, data.n_test)))
    needed = config.get("masks", {}).get("objective", "target") != "target"
    tests = {"train": data.n_train * needed, "val": data.n_val, "test": data.n_eval}
    by_set = {name: full for name in cells(n) if not name.startswith("test")}
    return by_set | {f"test_{i}": tests for i in range(n)}


# --- answers --------------------------------------------------------------------------------------


def shown(table: dict, rows) -> dict:
    """The inputs of problems [n, 4], problem by problem: {name: [4n, ...]}."""
    return jax.tree.map(lambda leaf: leaf[rows.ravel()], table)


def answers(task: Task, params, table, rows) -> tuple[jax.Array, jax.Array]:
    """(losses [n], shares solved [n]) of problems [n, 4], in chunks; input order has no effect."""
    n = len(rows)
    chunk = min(CHUNK, n)
    padded = jnp.resize(rows, (math.ceil(n / chunk), chunk, odd_one_out.N))
    labels = jnp.full(chunk, odd_one_out.N - 1)

    def answer_chunk(chunk_rows):
        embedded = task.embed(params, shown(table, chunk_rows))
        return odd_one_out.each_loss(embedded, labels), odd_one_out.share_right(embedded, labels)

    losses, right = jax.lax.map(answer_chunk, padded)
    return losses.ravel()[:n], right.ravel()[:n]


def accuracies(task: Task, params, table, sets: dict) -> dict:
    """{set: accuracy}; the compiled program contains one forward pass for all sets."""
    ends = np.cumsum([len(rows) for rows in sets.values()])
    right = answers(task, params, table, jnp.concatenate(list(sets.values())))[1]
    return {name: jnp.mean(solved) for name, solved in zip(sets, jnp.split(right, ends[:-1]))}


def layer_sets(task: Task, params, firsts: tuple[int, ...]) -> dict[str, np.ndarray]:
    """{leaf: 0 or 1 for each layer set}; a set masks all layers from its first one on."""
    layers = {name: task.layer_of(name) for name in tree.flat(params)}
    known = {name: layer for name, layer in layers.items() if layer is not None}
    for first in firsts:
        if all(layer < first for layer in known.values()):
            raise BadInput(
                f"masks.layers: no layer from {first} on; the last layer is {max(known.values())}"
            )
    return {
        name: np.array([layer >= first for first in firsts], np.float32)
        for name, layer in known.items()
    }
