"""Gradient-free searches for parameters with a low loss: guess and check, and a random walk.

They show the properties of solutions at a level of the loss, independently of gradient descent. So
they are the control for claims that gradient descent prefers some solutions.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks


class Guesses(NamedTuple):
    """The accepted parameters of guess and check at each of l levels of the loss."""

    n_draws: int
    n_accepted: jax.Array  # [l]
    params: Any  # leaves [l, n_keep, ...]: the first n_keep accepted, then zeros
    losses: jax.Array  # [l, n_keep]; infinite for unfilled places


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
    """Draws parameters at random and keeps those whose loss is at most a level.

    draw: key -> params; loss: params, data -> number; levels [l]. batch: draws at a time, a divisor
    of n_draws.
    """
    checks.finite(levels=levels)
    checks.real("levels", levels, 1, "l")
    for name, value in {"n_draws": n_draws, "n_keep": n_keep, "batch": batch}.items():
        checks.integer(name, value, 1)
    if n_draws % batch:
        raise ValueError(f"batch must divide n_draws = {n_draws}, got {batch}")
    return _guesses(key, draw, loss, data, jnp.asarray(levels), n_draws, n_keep, batch)


@functools.partial(jax.jit, static_argnames=("draw", "loss", "n_draws", "n_keep", "batch"))
def _guesses(key, draw, loss, data, levels, n_draws, n_keep, batch):
    shapes = jax.eval_shape(draw, key)
    empty = jax.tree.map(lambda a: jnp.zeros((len(levels), n_keep, *a.shape), a.dtype), shapes)
    most = min(n_keep, batch)

    def step(state, i):
        count, buffers, losses = state
        keys = jax.random.split(jax.random.fold_in(key, i), batch)
        params = jax.vmap(draw)(keys)
        values = jax.vmap(loss, in_axes=(0, None))(params, data)

        def store_accepted(level, count, buffers, losses):
            accepted = values <= level
            (rows,) = jnp.nonzero(accepted, size=most, fill_value=batch)
            places = jnp.where(rows < batch, count + jnp.arange(most), n_keep)

            def put(buffer, new):
                return buffer.at[places].set(new.at[rows].get(mode="clip"), mode="drop")

            buffers = jax.tree.map(put, buffers, params)
            return count + jnp.sum(accepted), buffers, put(losses, values)

        return jax.vmap(store_accepted)(levels, count, buffers, losses), None

    start = (jnp.zeros(len(levels), int), empty, jnp.full((len(levels), n_keep), jnp.inf))
    (count, buffers, losses), _ = jax.lax.scan(step, start, jnp.arange(n_draws // batch))
    return Guesses(n_draws, count, buffers, losses)


class Walk(NamedTuple):
    """The first points of a random walk with a loss of at most each of l levels."""

    params: Any  # leaves [l, ...]; the end of the walk for levels that it did not reach
    losses: jax.Array  # [l]
    n_steps: jax.Array  # [l]
    n_accepted: jax.Array  # of all steps
    found: jax.Array  # [l]: whether the walk reached the level; if not, it is censored


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

    loss: params -> number. Steps have standard deviation `scale`. A step is accepted if the new
    loss is at most a ceiling, which decays from the first loss to the lowest level by the factor
    `decay` per step; or, if the ceiling is below the current loss, if the loss does not rise. vmap
    over keys and params for many walks.
    """
    checks.finite_leaves(params=params)
    checks.finite(levels=levels)
    levels = checks.real("levels", levels, 1, "l")
    checks.bounded("most_steps", most_steps, 1)
    checks.bounded("scale", scale, 0, above=True)
    checks.bounded("decay", decay, 0, 1, above=True)
    vector, unravel = ravel_pytree(params)
    first, lowest = loss(params), jnp.min(levels)

    def going_on(state):
        _, value, n, _, _ = state
        return (value > lowest) & (n < most_steps)

    def step(state):
        vector, value, n, n_accepted, reached = state
        move = jax.random.normal(jax.random.fold_in(key, n), vector.shape, vector.dtype)
        new = vector + scale * move
        new_value = loss(unravel(new))
        ceiling = lowest + (first - lowest) * decay**n
        accepted = new_value <= jnp.maximum(ceiling, value)
        vector = jnp.where(accepted, new, vector)
        value = jnp.where(accepted, new_value, value)
        return (
            vector,
            value,
            n + 1,
            n_accepted + accepted,
            update_reached(reached, vector, value, n + 1),
        )

    def update_reached(reached, vector, value, n):
        """Updates the record of every level that the walk has not reached yet."""
        vectors, values, steps = reached
        not_reached = values > levels
        vectors = jnp.where(not_reached[:, None], vector[None], vectors)
        return vectors, jnp.where(not_reached, value, values), jnp.where(not_reached, n, steps)

    zero, n = jnp.zeros((), int), len(levels)
    reached = jnp.tile(vector, (n, 1)), jnp.broadcast_to(first, n), jnp.zeros(n, int)
    start = (vector, first, zero, zero, reached)
    *_, n_accepted, (vectors, values, steps) = jax.lax.while_loop(going_on, step, start)
    return Walk(jax.vmap(unravel)(vectors), values, steps, n_accepted, values <= levels)
