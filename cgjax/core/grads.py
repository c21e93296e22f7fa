"""Other ways to a gradient, and searches without one.

For `Experiment.grads`: called as jax.value_and_grad, `grads(fn, has_aux=True)`, they give a
function of fn's arguments that returns ((value, aux), gradient of the first). `forward_mode` is
exact; central differences are, up to their error; an evolution strategy estimates the gradient of a
smoothed loss, so it is no search without gradients. `guess_and_check` and `metropolis` are.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from cgjax.core.errors import BadInput

# Parameters, or directions, at a time.
CHUNK = 256


def forward_mode(fn: Callable, has_aux: bool = False) -> Callable:
    """The gradient by one forward derivative for each parameter."""

    def directions(value, vector, key):
        del key

        def along(i):
            one = jnp.zeros_like(vector).at[i].set(1)
            return jax.jvp(value, (vector,), (one,))[1]

        return jax.lax.map(along, jnp.arange(vector.size), batch_size=min(CHUNK, vector.size))

    return _as_value_and_grad(fn, has_aux, directions)


def finite_differences(step: float = 1e-2) -> Callable:
    """`grads` by (L(theta + h e_i) - L(theta - h e_i)) / 2h for each parameter, h = step.

    In float32 the rounding of L costs 1e-7 L / h, the third derivative h^2 / 6 of it.
    """
    if not step > 0:
        raise BadInput(f"the step of a finite difference is above 0, got {step}")

    def directions(value, vector, key):
        del key

        def along(i):
            up, down = (value(vector.at[i].add(h)) for h in (step, -step))
            return (up - down) / (2 * step)

        return jax.lax.map(along, jnp.arange(vector.size), batch_size=min(CHUNK, vector.size))

    return lambda fn, has_aux=False: _as_value_and_grad(fn, has_aux, directions)


def evolution(sigma: float = 0.02, n_pairs: int = 128, key_argument: int = 3) -> Callable:
    """`grads` by an evolution strategy: mean of (L(theta + s e) - L(theta - s e)) e / 2s.

    e ~ N(0, 1), n_pairs of them, s = sigma. key_argument: which of fn's arguments is the random
    key, that of `Experiment.loss` by default.
    """
    if not sigma > 0 or n_pairs < 1:
        raise BadInput(f"an evolution strategy needs sigma > 0 and pairs, got {sigma}, {n_pairs}")

    def directions(value, vector, key):
        def along(key):
            e = jax.random.normal(key, vector.shape, vector.dtype)
            up, down = (value(vector + s * e) for s in (sigma, -sigma))
            return (up - down) / (2 * sigma) * e

        keys = jax.random.split(jax.random.fold_in(key, 1), n_pairs)
        return jnp.mean(jax.lax.map(along, keys, batch_size=min(CHUNK, n_pairs)), axis=0)

    return lambda fn, has_aux=False: _as_value_and_grad(fn, has_aux, directions, key_argument)


def _as_value_and_grad(fn, has_aux, directions, key_argument=None):
    """directions: (value, vector, key) -> gradient; value a function of the parameters' vector."""

    def value_and_grad(params, *rest):
        vector, unravel = ravel_pytree(params)
        key = None if key_argument is None else (params, *rest)[key_argument]

        def value(vector):
            found = fn(unravel(vector), *rest)
            return found[0] if has_aux else found

        return fn(params, *rest), unravel(directions(value, vector, key))

    return value_and_grad


# --- without a gradient ---------------------------------------------------------------------------


class Guesses(NamedTuple):
    """What guess and check found at each of l levels of the loss."""

    n_draws: int
    n_accepted: jax.Array  # [l]
    params: Any  # leaves [l, n_keep, ...]: the first n_keep accepted, zeros behind them
    losses: jax.Array  # [l, n_keep]; infinite where none was found


@functools.partial(jax.jit, static_argnames=("draw", "loss", "n_draws", "n_keep", "batch"))
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
    if n_draws < 1 or batch < 1 or n_draws % batch:
        raise BadInput(f"batches of {batch} do not divide {n_draws} draws")
    levels = jnp.asarray(levels)
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
    """Where a random walk ended."""

    params: Any
    loss: jax.Array
    n_steps: jax.Array
    n_accepted: jax.Array
    found: jax.Array  # whether the loss came down to the level; else the walk is censored


def metropolis(
    key: jax.Array,
    params: Any,
    loss: Callable,
    level: float,
    most_steps: int,
    scale: float = 0.03,
    decay: float = 0.999,
) -> Walk:
    """A random walk with Gaussian steps from params, until the loss is at most `level`.

    loss: params -> number. A step of deviation `scale` is accepted when the loss does not rise
    above a ceiling, which falls from the first loss to the level by `decay` a step; once the
    ceiling is below the loss, when the loss does not rise. vmap over keys and params for many.
    """
    vector, unravel = ravel_pytree(params)
    first = loss(params)

    def going_on(state):
        _, value, n, _ = state
        return (value > level) & (n < most_steps)

    def step(state):
        vector, value, n, n_accepted = state
        move = jax.random.normal(jax.random.fold_in(key, n), vector.shape, vector.dtype)
        new = vector + scale * move
        new_value = loss(unravel(new))
        ceiling = level + (first - level) * decay**n
        accepted = new_value <= jnp.maximum(ceiling, value)
        vector = jnp.where(accepted, new, vector)
        return vector, jnp.where(accepted, new_value, value), n + 1, n_accepted + accepted

    start = (vector, first, jnp.zeros((), int), jnp.zeros((), int))
    vector, value, n, n_accepted = jax.lax.while_loop(going_on, step, start)
    return Walk(unravel(vector), value, n, n_accepted, value <= level)
