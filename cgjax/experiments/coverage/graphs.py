"""Combinations of values, the graph that they form, and the order in which training sets grow.

A combination is a set of values: one of each factor of a table, or any modules that are switched
on. Values are the nodes of a graph, and a combination joins its values. Where the target is a sum
of effects of the values of two factors, a connected set of known combinations determines all
others, and a set of two components leaves a constant open.
"""

from typing import NamedTuple

import numpy as np

GRAPHS = ("connected", "random", "blocks", "permuted")


def table(n: int, n_factors: int) -> np.ndarray:
    """Which values each combination of a table has: bool [n ** n_factors, n_factors * n]."""
    digits = np.indices((n,) * n_factors).reshape(n_factors, -1).T
    return (digits[:, :, None] == np.arange(n)).reshape(len(digits), -1)


def subsets(n: int) -> np.ndarray:
    """All subsets of n modules except the empty one: bool [2 ** n - 1, n]."""
    return (np.arange(1, 2**n)[:, None] >> np.arange(n)) % 2 == 1


def sides(n: int, n_factors: int | None) -> np.ndarray:
    """Which of two blocks each value belongs to: bool [nodes]; n_factors is None for subsets.

    Low values of the first factor share a block with high values of the second: sums of a block are
    all near the middle, so that they do not show how the blocks differ.
    """
    low = np.arange(n) < n // 2
    return (
        low if n_factors is None else np.concatenate([low ^ (k % 2 == 1) for k in range(n_factors)])
    )


def tree_first(order: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The same combinations; those that join components as they are read come first."""
    labels, joins = np.arange(members.shape[1]), np.zeros(len(order), bool)
    for i, combination in enumerate(order):
        joined = np.unique(labels[members[combination]])
        joins[i] = len(joined) > 1
        labels[np.isin(labels, joined)] = joined[0]
    return np.concatenate([order[joins], order[~joins]])


class Draw(NamedTuple):
    """Combinations in the order in which training sets grow, and those that are never trained."""

    order: np.ndarray  # int [m]: a training set is the first combinations of it
    held_out: np.ndarray  # int [h]
    truth: np.ndarray  # int [all]: the combination whose target each combination has


def draw(rng, members, side, graph: str, n_bridges: int = 0, share: float = 0.2) -> Draw:
    """A growing training set of one of GRAPHS.

    connected: a random spanning tree comes first; random: any order; permuted: as connected, but
    targets are those of other combinations; blocks: combinations within one of two blocks of values
    (`sides`), behind n_bridges combinations that join the blocks. A `share` of all combinations is
    held out; of blocks only combinations that join the blocks.
    """
    n = len(members)
    order, truth = rng.permutation(n), np.arange(n)
    n_held_out = max(2, round(share * n))
    if graph == "blocks":
        within = np.all(side[None] | ~members, axis=1) | np.all(~side[None] | ~members, axis=1)
        across, inside = order[~within[order]], order[within[order]]
        n_held_out = min(n_held_out, len(across) // 2)
        bridges = across[n_held_out : n_held_out + n_bridges]
        order = np.concatenate([bridges, tree_first(inside, members)])
        return Draw(order, across[:n_held_out], truth)
    if graph != "random":
        order = tree_first(order, members)
    if graph == "permuted":
        truth = rng.permutation(n)
    return Draw(order[:-n_held_out], order[-n_held_out:], truth)
