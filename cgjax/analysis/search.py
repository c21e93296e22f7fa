"""Gradient-free searches for parameters whose loss lies in a band: guess and check, random walks.

They show the properties of solutions of a given loss, independently of gradient descent. So they
are the control for claims that gradient descent prefers some solutions. A band has two edges: if
solutions only had to be below a level, those of one search would lie further below it than those
of another.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks


def _bands(bands) -> jax.Array:
    """Checks bands [l, 2] of the loss."""
    checks.finite(bands=bands)
    bands = checks.real("bands", bands, 2, "l, 2")
    if bands.shape[1] != 2:
        raise ValueError(f"bands needs shape [l, 2]: lowest and highest loss, got {bands.shape}")
    return jnp.asarray(bands)


def _within(values, band):
    return (values >= band[..., 0]) & (values <= band[..., 1])


class Guesses(NamedTuple):
    """The parameters that guess and check accepts in each of l bands of the loss."""

    n_draws: int
    n_accepted: jax.Array  # [l]
    params: Any  # leaves [l, n_keep, ...]: the first n_keep accepted, then zeros
    losses: jax.Array  # [l, n_keep]; infinite for unfilled places


def guess_and_check(
    key: jax.Array,
    draw: Callable,
    loss: Callable,
    data: Any,
    bands: jax.Array,
    n_draws: int,
    n_keep: int = 100,
    batch: int = 1000,
) -> Guesses:
    """Draws parameters at random and keeps those whose loss lies in a band.

    draw: key -> params; loss: params, data -> number; bands [l, 2]: lowest and highest loss. batch:
    draws at a time, a divisor of n_draws; it bounds the memory.
    """
    bands = _bands(bands)
    for name, value in {"n_draws": n_draws, "n_keep": n_keep, "batch": batch}.items():
        checks.integer(name, value, 1)
    if n_draws % batch:
        raise ValueError(f"batch must divide n_draws = {n_draws}, got {batch}")
    return _guesses(key, draw, loss, data, bands, n_draws, n_keep, batch)


@functools.partial(jax.jit, static_argnames=("draw", "loss", "n_draws", "n_keep", "batch"))
def _guesses(key, draw, loss, data, bands, n_draws, n_keep, batch):
    shapes = jax.eval_shape(draw, key)
    empty = jax.tree.map(lambda a: jnp.zeros((len(bands), n_keep, *a.shape), a.dtype), shapes)
    most = min(n_keep, batch)

    def step(state, i):
        count, buffers, losses = state
        keys = jax.random.split(jax.random.fold_in(key, i), batch)
        params = jax.vmap(draw)(keys)
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


class Walk(NamedTuple):
    """The first points of a random walk whose loss lies in each of l bands."""

    params: Any  # leaves [l, ...]; the start for bands that the walk did not visit
    losses: jax.Array  # [l]; infinite for bands that it did not visit
    n_steps: jax.Array  # [l]; -1 for bands that it did not visit
    n_accepted: jax.Array  # of all steps


def metropolis(
    key: jax.Array, params: Any, loss: Callable, bands: jax.Array, n_steps: int, scale: float = 0.1
) -> Walk:
    """A random walk of standard normal params under a ceiling of the loss that falls.

    loss: params -> number; bands [l, 2]. A step replaces params by sqrt(1 - scale^2) params +
    scale N(0, 1), which leaves the standard normal distribution as it is. It is accepted if the new
    loss is at most the ceiling or, above the ceiling, if the loss does not rise. The ceiling falls
    in n_steps equal factors from the first loss to the lowest edge of the bands. So the slower it
    falls, the nearer the walk is to the standard normal distribution given the loss, from which
    guess and check draws. vmap over keys and params for many walks.
    """
    checks.finite_leaves(params=params)
    bands = _bands(bands)
    checks.bounded("bands", bands, 0, above=True)  # a ceiling of 0 would be reached at once
    checks.integer("n_steps", n_steps, 1)
    checks.bounded("scale", scale, 0, 1, above=True)
    vector, unravel = ravel_pytree(params)
    first, lowest = loss(params), jnp.min(bands)

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
        ceiling = first * (lowest / first) ** (n / n_steps)
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
