"""Solutions in parameter space: distances, barriers, updates that cancel, gradient-free searches.

Arguments are trees of parameters; all their numbers have equal weight.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, finite, finite_tree, integer, number
from cgjax.core import tree


def distance(a, b) -> jax.Array:
    """Euclidean distance between two trees of parameters."""
    _pair(a, b)
    return tree.scaled_norm(jax.tree.map(lambda x, y: x - y, a, b))


class Barrier(NamedTuple):
    """The loss on the straight line between two trees of parameters."""

    losses: jax.Array  # [n], from the first tree to the second
    height: jax.Array  # largest excess over the linear interpolation of the two losses; 0 if none


@checked
def barrier(loss: Callable, a, b, n: integer(2) = 25) -> Barrier:
    """loss: params -> number, at n equally spaced points from a to b, both included."""
    _pair(a, b)
    share = jnp.linspace(0, 1, n)
    losses = jax.lax.map(
        lambda t: loss(jax.tree.map(lambda x, y: (1 - t) * x + t * y, a, b)), share
    )
    straight = (1 - share) * losses[0] + share * losses[-1]
    return Barrier(losses, jnp.max(losses - straight))


@checked
def matched(a: Sequence, b: Sequence, most_rounds: integer(1) = 100) -> list:
    """The dense network b with its hidden units permuted to be near to a.

    a, b: layers in order, each (kernel [in, out], bias [out]); the result computes the same
    function as b. Each layer in turn gets the best assignment given the others (Ainsworth et al.
    2023), until none changes: a local optimum. Runs on the host.
    """
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
    checks.finite_leaves(**{name: layers})
    arrays = []
    for kernel, bias in layers:
        kernel, bias = np.asarray(kernel, np.float64), np.asarray(bias, np.float64)
        if kernel.ndim != 2 or bias.shape != kernel.shape[1:]:
            raise ValueError(f"{name} needs layers (kernel [in, out], bias [out]): {kernel.shape}")
        if arrays and arrays[-1][0].shape[1] != kernel.shape[0]:
            raise ValueError(f"{name}: a layer's inputs must match the outputs of the one before")
        arrays.append((kernel, bias))
    if len(arrays) < 2:
        raise ValueError(f"{name} must have two or more layers: a single layer has no hidden units")
    return arrays


def _assigned(likeness):
    """The column assigned to each row [n], for the largest sum."""
    rows, columns = optax.assignment.hungarian_algorithm(jnp.asarray(-likeness))
    return np.asarray(columns)[np.argsort(rows)]


class Cancellation(NamedTuple):
    """Whether the updates of several terms of a loss cancel."""

    ratio: jax.Array  # norm of the sum over the sum of the norms: 1 if aligned, 0 if they cancel
    cosines: jax.Array  # [k, k]


def cancellation(updates: Sequence) -> Cancellation:
    """For k trees of parameters, for example the gradients of k losses.

    Cosines with a tree of zeros are NaN; the ratio is NaN if all trees are zero.
    """
    if len(updates) < 2:
        raise ValueError(f"updates must be two trees or more, got {len(updates)}")
    for update in updates[1:]:
        _pair(updates[0], update, ("updates", "updates"))
    rows = jnp.stack([tree.joined(update) for update in updates])
    # The ratio has one unit, the cosines have one for each row.
    units = jnp.stack([tree.magnitude(row) for row in rows])
    unit, rows = jnp.max(units), rows / units[:, None]
    norms = jnp.sqrt(jnp.sum(rows**2, axis=1))
    shares = units / unit
    total = jnp.sqrt(jnp.sum(jnp.sum(rows * shares[:, None], axis=0) ** 2))
    products = jnp.matmul(rows, rows.T, precision="highest")
    cosines = products / (norms[:, None] * norms[None])
    return Cancellation(total / jnp.sum(norms * shares), cosines)


def _pair(a, b, names=("a", "b")):
    checks.finite_leaves(**{names[0]: a})
    checks.finite_leaves(**{names[1]: b})
    shapes = [jax.tree.map(jnp.shape, params) for params in (a, b)]
    if jax.tree.structure(a) != jax.tree.structure(b) or shapes[0] != shapes[1]:
        raise ValueError(f"{names[1]} must be a tree with the structure and shapes of {names[0]}")
    if not jax.tree.leaves(a):
        raise ValueError(f"{names[0]} has no parameters")


# --- searches -------------------------------------------------------------------------------------
# For parameters whose loss lies in a band: guess and check, random walks.
#
# They show the properties of solutions of a given loss, independently of gradient descent. So they
# are the control for claims that gradient descent prefers some solutions. A band has two edges: if
# solutions only had to be below a level, those of one search would lie further below it than those
# of another.


BLOCK = 10_000  # draws that share the first of two keys; another size gives other draws


def _within(values, band):
    return (values >= band[..., 0]) & (values <= band[..., 1])


class Guesses(NamedTuple):
    """The parameters that guess and check accepts in each of l bands of the loss."""

    n_draws: int
    n_accepted: jax.Array  # [l]
    params: Any  # leaves [l, n_keep, ...]: the first n_keep accepted, then zeros
    losses: jax.Array  # [l, n_keep]; infinite for unfilled places


@checked
def guess_and_check(
    key: jax.Array,
    draw: Callable,
    loss: Callable,
    data: Any,
    bands: finite("l 2"),
    n_draws: integer(1),
    n_keep: integer(1) = 100,
    batch: integer(1) = 1000,
) -> Guesses:
    """Draws parameters at random and keeps those whose loss lies in a band.

    draw: key -> params; loss: params, data -> number; bands: lowest and highest loss. batch:
    draws at a time, a divisor of n_draws; it bounds the memory. Each draw has its own key, so
    the draws do not depend on it (with the default kind of keys; under vmap, others depend on it).
    """
    checks.integer("n_draws", n_draws, 1, np.iinfo(np.int32).max)
    if n_draws % batch:
        raise ValueError(f"batch must divide n_draws = {n_draws}, got {batch}")
    return _guesses(key, draw, loss, data, jnp.asarray(bands), n_draws, n_keep, batch)


@functools.partial(jax.jit, static_argnames=("draw", "loss", "n_draws", "n_keep", "batch"))
def _guesses(key, draw, loss, data, bands, n_draws, n_keep, batch):
    shapes = jax.eval_shape(draw, key)
    empty = jax.tree.map(lambda a: jnp.zeros((len(bands), n_keep, *a.shape), a.dtype), shapes)
    most = min(n_keep, batch)

    def step(state, i):
        count, buffers, losses = state
        params = jax.vmap(lambda n: draw(_draw_key(key, n)))(i * batch + jnp.arange(batch))
        values = jax.vmap(loss, in_axes=(0, None))(params, data)

        def store_accepted(band, count, buffers, losses):
            accepted = _within(values, band)
            (rows,) = jnp.nonzero(accepted, size=most, fill_value=batch)
            places = jnp.where(rows < batch, count + jnp.arange(most), n_keep)

            def put(buffer, new):
                return buffer.at[places].set(new.at[rows].get(mode="clip"), mode="drop")

            buffers = jax.tree.map(put, buffers, params)
            return count + jnp.sum(accepted), buffers, put(losses, values)

        return jax.vmap(store_accepted)(bands, count, buffers, losses), None

    start = (jnp.zeros(len(bands), int), empty, jnp.full((len(bands), n_keep), jnp.inf))
    (count, buffers, losses), _ = jax.lax.scan(step, start, jnp.arange(n_draws // batch))
    return Guesses(n_draws, count, buffers, losses)


def _draw_key(key, n):
    """The key of draw n; those of a block are `split(fold_in(key, block), BLOCK)`."""
    return jax.random.fold_in(jax.random.fold_in(key, n // BLOCK), n % BLOCK)


class Walk(NamedTuple):
    """The first points of a random walk whose loss lies in each of l bands."""

    params: Any  # leaves [l, ...]; the start for bands that the walk did not visit
    losses: jax.Array  # [l]; infinite for bands that it did not visit
    n_steps: jax.Array  # [l]; -1 for bands that it did not visit
    n_accepted: jax.Array  # of all steps


@checked
def metropolis(
    key: jax.Array,
    params: finite_tree,
    loss: Callable,
    bands: number("(0, inf)", "l 2"),
    n_steps: integer(1),
    scale: number("(0, 1]") = 0.1,
) -> Walk:
    """A random walk of standard normal params under a ceiling of the loss that falls.

    loss: params -> number, for the given params finite and not below the bands: the walk would not
    rise into them. A step replaces params by sqrt(1 - scale^2) params + scale N(0, 1),
    which leaves the standard normal distribution as it is. It is accepted if the new loss is at
    most the ceiling or, above the ceiling, if the loss does not rise. The ceiling falls
    in n_steps equal factors from the first loss to the lowest edge of the bands. So the slower it
    falls, the nearer the walk is to the standard normal distribution given the loss, from which
    guess and check draws. vmap over keys and params for many walks.
    """
    bands = jnp.asarray(bands)
    vector, unravel = ravel_pytree(params)
    first, lowest = loss(params), jnp.min(bands)
    if checks.known(first, lowest) and not lowest <= first < jnp.inf:
        raise ValueError(
            f"params have the loss {first:g}, but the walk only falls to the lowest band, which "
            f"begins at {lowest:g}: start at a finite loss that is not below it"
        )
    # Under jit, where no error can be raised, a walk from below moves but visits no band.
    highest = jnp.maximum(first, lowest)

    def visit(visited, vector, value, n):
        vectors, values, steps = visited
        is_first = _within(value, bands) & (steps < 0)
        vectors = jnp.where(is_first[:, None], vector[None], vectors)
        return vectors, jnp.where(is_first, value, values), jnp.where(is_first, n, steps)

    def step(state, n):
        vector, value, n_accepted, visited = state
        move = jax.random.normal(jax.random.fold_in(key, n), vector.shape, vector.dtype)
        new = jnp.sqrt(1 - scale**2) * vector + scale * move
        new_value = loss(unravel(new))
        ceiling = highest * (lowest / highest) ** (n / n_steps)
        accepted = new_value <= jnp.maximum(ceiling, value)
        vector, value = jnp.where(accepted, new, vector), jnp.where(accepted, new_value, value)
        return (vector, value, n_accepted + accepted, visit(visited, vector, value, n)), None

    n = len(bands)
    nowhere = jnp.tile(vector, (n, 1)), jnp.full(n, jnp.inf, first.dtype), jnp.full(n, -1)
    start = (vector, first, jnp.zeros((), int), visit(nowhere, vector, first, 0))
    (*_, n_accepted, (vectors, values, steps)), _ = jax.lax.scan(
        step, start, 1 + jnp.arange(n_steps)
    )
    return Walk(jax.vmap(unravel)(vectors), values, steps, n_accepted)
