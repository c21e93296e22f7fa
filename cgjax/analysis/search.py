"""Searches for parameters that fit, without a gradient: guess and check, and a random walk.

What they find at a level of the loss is what such solutions are like, whoever looks for them: the
control of claims that gradient descent prefers some of them.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks


class Guesses(NamedTuple):
    """What guess and check found at each of l levels of the loss."""

    n_draws: int
    n_accepted: jax.Array  # [l]
    params: Any  # leaves [l, n_keep, ...]: the first n_keep accepted, zeros behind them
    losses: jax.Array  # [l, n_keep]; infinite where none was found


def guess_and_check(
    key: jax.Array,
    draw: Callable,
    loss: Callable,
    data: Any,
    levels: jax.Array,
    n_draws: int,
    n_keep: int = 100,
    batch: int = 1000,
) -> Guesses:
    """Parameters drawn at random, kept when their loss is at most a level.

    draw: key -> params; loss: params, data -> number; levels [l]. batch: draws at a time, which
    divides n_draws.
    """
    checks.finite(levels=levels)
    checks.real("levels", levels, 1, "l")
    for name, value in {"n_draws": n_draws, "n_keep": n_keep, "batch": batch}.items():
        checks.integer(name, value, 1)
    if n_draws % batch:
        raise ValueError(f"batch: {batch} draws at a time do not divide n_draws, {n_draws}")
    return _guesses(key, draw, loss, data, jnp.asarray(levels), n_draws, n_keep, batch)


@functools.partial(jax.jit, static_argnames=("draw", "loss", "n_draws", "n_keep", "batch"))
def _guesses(key, draw, loss, data, levels, n_draws, n_keep, batch):
    shapes = jax.eval_shape(draw, key)
    empty = jax.tree.map(lambda a: jnp.zeros((len(levels), n_keep, *a.shape), a.dtype), shapes)
    most = min(n_keep, batch)

    def step(found, i):
        count, kept, losses = found
        keys = jax.random.split(jax.random.fold_in(key, i), batch)
        params = jax.vmap(draw)(keys)
        values = jax.vmap(loss, in_axes=(0, None))(params, data)

        def at(level, count, kept, losses):
            accepted = values <= level
            (rows,) = jnp.nonzero(accepted, size=most, fill_value=batch)
            places = jnp.where(rows < batch, count + jnp.arange(most), n_keep)

            def put(buffer, new):
                return buffer.at[places].set(new.at[rows].get(mode="clip"), mode="drop")

            kept = jax.tree.map(put, kept, params)
            return count + jnp.sum(accepted), kept, put(losses, values)

        return jax.vmap(at)(levels, count, kept, losses), None

    start = (jnp.zeros(len(levels), int), empty, jnp.full((len(levels), n_keep), jnp.inf))
    (count, kept, losses), _ = jax.lax.scan(step, start, jnp.arange(n_draws // batch))
    return Guesses(n_draws, count, kept, losses)


class Walk(NamedTuple):
    """Where a random walk first was at most at each of l levels of the loss."""

    params: Any  # leaves [l, ...]; where it ended at levels that it did not reach
    losses: jax.Array  # [l]
    n_steps: jax.Array  # [l]
    n_accepted: jax.Array  # of all steps
    found: jax.Array  # [l]: whether the loss came down to the level; else the walk is censored


def metropolis(
    key: jax.Array,
    params: Any,
    loss: Callable,
    levels: jax.Array,
    most_steps: int,
    scale: float = 0.03,
    decay: float = 0.999,
) -> Walk:
    """A random walk with Gaussian steps from params, until the loss is at most all levels [l].

    loss: params -> number. A step of deviation `scale` is accepted when the loss does not rise
    above a ceiling, which falls from the first loss to the lowest level by `decay` a step; once the
    ceiling is below the loss, when the loss does not rise. vmap over keys and params for many.
    """
    checks.finite_leaves(params=params)
    checks.finite(levels=levels)
    levels = checks.real("levels", levels, 1, "l")
    checks.bounded("scale", scale, 0, above=True)
    checks.bounded("decay", decay, 0, 1, above=True)
    vector, unravel = ravel_pytree(params)
    first, lowest = loss(params), jnp.min(levels)

    def going_on(state):
        _, value, n, _, _ = state
        return (value > lowest) & (n < most_steps)

    def step(state):
        vector, value, n, n_accepted, kept = state
        move = jax.random.normal(jax.random.fold_in(key, n), vector.shape, vector.dtype)
        new = vector + scale * move
        new_value = loss(unravel(new))
        ceiling = lowest + (first - lowest) * decay**n
        accepted = new_value <= jnp.maximum(ceiling, value)
        vector = jnp.where(accepted, new, vector)
        value = jnp.where(accepted, new_value, value)
        return vector, value, n + 1, n_accepted + accepted, keep(kept, vector, value, n + 1)

    def keep(kept, vector, value, n):
        """The walk goes on with every level that it has not reached."""
        vectors, values, steps = kept
        ahead = values > levels
        vectors = jnp.where(ahead[:, None], vector[None], vectors)
        return vectors, jnp.where(ahead, value, values), jnp.where(ahead, n, steps)

    zero, n = jnp.zeros((), int), len(levels)
    kept = jnp.tile(vector, (n, 1)), jnp.broadcast_to(first, n), jnp.zeros(n, int)
    start = (vector, first, zero, zero, kept)
    *_, n_accepted, (vectors, values, steps) = jax.lax.while_loop(going_on, step, start)
    return Walk(jax.vmap(unravel)(vectors), values, steps, n_accepted, values <= levels)
