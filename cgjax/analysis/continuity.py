"""Jumps of a function, found by refinement: halve a step again and again, keep the worse half.

Where f is Lipschitz, its change over the step shrinks with the step. Over a jump it stays. Kinks,
as of ReLU, change no value and are not found.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis import checks

HALVINGS = 14  # steps end 16,384 times shorter than they began
LEFT = 0.05  # of its largest change: what a step keeps when it hides a jump


class Continuity(NamedTuple):
    """What refinement found on n steps."""

    holds: bool
    share: float  # of steps that hide a jump, or a slope 800 times that of the whole step
    left: float  # the largest part of a step's change that no halving took away
    n: int


def continuity(f: Callable, starts, stops, halvings: int = HALVINGS) -> Continuity:
    """Whether f jumps on the straight lines from starts to stops: trees of arrays [n, ...].

    f maps such a tree to one array [n, ...]. A jump that lies between no start and its stop goes
    unseen, as does the smaller one of two on the same line.
    """
    checks.integer("halvings", halvings, 1)
    checks.finite_leaves(starts=starts, stops=stops)
    starts, stops = jax.tree.map(np.asarray, (starts, stops))
    shapes = [[leaf.shape for leaf in jax.tree.leaves(tree)] for tree in (starts, stops)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"stops are of the shapes of starts, got {shapes[1]} for {shapes[0]}")
    if not all(len(shape) and shape[0] for shape in shapes[0]):
        raise ValueError(f"starts are [n, ...] with n > 0, got {shapes[0]}")
    low, high = _values(f, starts), _values(f, stops)
    largest = change = _sizes(high - low)
    for _ in range(halvings):
        middles = jax.tree.map(lambda a, b: (a + b) / 2, starts, stops)
        middle = _values(f, middles)
        before, after = _sizes(middle - low), _sizes(high - middle)
        later = after > before
        starts = jax.tree.map(functools.partial(_pick, later), middles, starts)
        stops = jax.tree.map(functools.partial(_pick, later), stops, middles)
        low, high = _pick(later, middle, low), _pick(later, high, middle)
        change = np.maximum(before, after)
        largest = np.maximum(largest, change)
    left = change / np.where(largest > 0, largest, 1)
    jumps = ~(left <= LEFT)  # NaN, where f is not defined on the way, is no continuity
    return Continuity(not jumps.any(), float(jumps.mean()), float(left.max()), len(left))


def _values(f, tree):
    return np.asarray(f(tree))


def _sizes(change):
    """The largest change of any output: a jump of one of many is not averaged away."""
    return np.abs(change).reshape(len(change), -1).max(axis=1)


def _pick(later, a, b):
    return np.where(later.reshape(-1, *[1] * (a.ndim - 1)), a, b)
