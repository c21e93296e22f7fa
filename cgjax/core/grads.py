"""Other ways to a gradient.

For `Experiment.grads`: called as jax.value_and_grad, `grads(fn, has_aux=True)`, they give a
function of fn's arguments that returns ((value, aux), gradient of the first). `forward_mode` is
exact; central differences are, up to their error; an evolution strategy estimates the gradient of a
smoothed loss, so it is no search without gradients: `analysis.search` has those.
"""

from collections.abc import Callable

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
