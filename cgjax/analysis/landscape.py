"""Solutions in parameter space: distances, barriers between two solutions, updates that cancel.

Arguments are trees of parameters; all their numbers have equal weight.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.analysis import checks
from cgjax.core import tree


def distance(a, b) -> jax.Array:
    """Euclidean distance between two trees of parameters."""
    _pair(a, b)
    return tree.norm(jax.tree.map(lambda x, y: x - y, a, b))


class Barrier(NamedTuple):
    """The loss on the straight line between two trees of parameters."""

    losses: jax.Array  # [n], from the first tree to the second
    height: jax.Array  # largest excess over the linear interpolation of the two losses; 0 if none


def barrier(loss: Callable, a, b, n: int = 25) -> Barrier:
    """loss: params -> number, at n equally spaced points from a to b, both included."""
    checks.integer("n", n, 2)
    _pair(a, b)
    share = jnp.linspace(0, 1, n)
    losses = jax.lax.map(
        lambda t: loss(jax.tree.map(lambda x, y: (1 - t) * x + t * y, a, b)), share
    )
    straight = (1 - share) * losses[0] + share * losses[-1]
    return Barrier(losses, jnp.max(losses - straight))


def matched(a: Sequence, b: Sequence, most_rounds: int = 100) -> list:
    """The dense network b with its hidden units permuted to be near to a.

    a, b: layers in order, each (kernel [in, out], bias [out]); the result computes the same
    function as b. Each layer in turn gets the best assignment given the others (Ainsworth et al.
    2023), until none changes: a local optimum. Runs on the host.
    """
    checks.integer("most_rounds", most_rounds, 1)
    a, b = (_layers(name, layers) for name, layers in {"a": a, "b": b}.items())
    if [k.shape for k, _ in a] != [k.shape for k, _ in b]:
        raise ValueError("b must have layers of the same shapes as a")
    for _ in range(most_rounds):
        changed = False
        for i in range(len(a) - 1):
            (kernel_a, bias_a), (kernel_b, bias_b) = a[i], b[i]
            likeness = (
                kernel_a.T @ kernel_b + np.outer(bias_a, bias_b) + a[i + 1][0] @ b[i + 1][0].T
            )
            order = _assigned(likeness)
            gain = likeness[np.arange(len(order)), order].sum() - np.trace(likeness)
            if gain <= 1e-9 * np.abs(likeness).sum():
                continue
            changed = True
            b[i] = (kernel_b[:, order], bias_b[order])
            b[i + 1] = (b[i + 1][0][order], b[i + 1][1])
        if not changed:
            break
    return b


def _layers(name, layers):
    checked = []
    for kernel, bias in layers:
        checks.finite(**{name: kernel})
        checks.finite(**{name: bias})
        kernel, bias = np.asarray(kernel, np.float64), np.asarray(bias, np.float64)
        if kernel.ndim != 2 or bias.shape != kernel.shape[1:]:
            raise ValueError(f"{name} needs layers (kernel [in, out], bias [out]): {kernel.shape}")
        if checked and checked[-1][0].shape[1] != kernel.shape[0]:
            raise ValueError(f"{name}: a layer's inputs must match the outputs of the one before")
        checked.append((kernel, bias))
    if len(checked) < 2:
        raise ValueError(f"{name} must have two or more layers: a single layer has no hidden units")
    return checked


def _assigned(likeness):
    """The column assigned to each row [n], for the largest sum."""
    rows, columns = optax.assignment.hungarian_algorithm(jnp.asarray(-likeness))
    return np.asarray(columns)[np.argsort(rows)]


class Cancellation(NamedTuple):
    """Whether the updates of several terms of a loss cancel."""

    ratio: jax.Array  # norm of the sum over the sum of the norms: 1 if aligned, 0 if they cancel
    cosines: jax.Array  # [k, k]


def cancellation(updates: Sequence) -> Cancellation:
    """For k trees of parameters, for example the gradients of k losses; NaN if one is zero."""
    if len(updates) < 2:
        raise ValueError(f"updates must be two trees or more, got {len(updates)}")
    for update in updates[1:]:
        _pair(updates[0], update, ("updates", "updates"))
    rows = jnp.stack(
        [jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(u)]) for u in updates]
    )
    norms = jnp.sqrt(jnp.sum(rows**2, axis=1))
    total = jnp.sqrt(jnp.sum(jnp.sum(rows, axis=0) ** 2))
    products = jnp.matmul(rows, rows.T, precision="highest")
    return Cancellation(total / jnp.sum(norms), products / (norms[:, None] * norms[None]))


def _pair(a, b, names=("a", "b")):
    checks.finite_leaves(**{names[0]: a})
    checks.finite_leaves(**{names[1]: b})
    shapes = [jax.tree.map(jnp.shape, params) for params in (a, b)]
    if jax.tree.structure(a) != jax.tree.structure(b) or shapes[0] != shapes[1]:
        raise ValueError(f"{names[1]} must be a tree with the structure and shapes of {names[0]}")
    if not jax.tree.leaves(a):
        raise ValueError(f"{names[0]} has no parameters")
