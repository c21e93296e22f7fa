"""Optimisers and schedules as the papers use them, by name; gradients without backpropagation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from cgjax.core.errors import BadInput


def constant(lr):
    """The same rate at every step."""
    return lambda step: lr


def cosine(lr: float, lr_final: float, steps: int, every: int):
    """lr_final + (lr - lr_final)(1 + cos(pi e / n)) / 2 with e = step // every, n = steps / every.

    every: the rate changes every so many steps; the length of an epoch gives a schedule per epoch.
    From `steps` on the rate is lr_final.
    """
    n_levels = steps / every

    def schedule(step):
        level = jnp.minimum(step // every, n_levels)
        return lr_final + (lr - lr_final) * (1 + jnp.cos(jnp.pi * level / n_levels)) / 2

    return schedule


def plateau(metric: str, sense: str, factor: float, patience: int, every: int) -> Callable:
    """An `Experiment.control` that scales the rate by `factor` when `metric` stops improving.

    patience: the number of evaluations without a new best; every: steps between evaluations, other
    evaluations (`eval.at`) do not count. The headline must be (metric, sense), because the loop
    keeps the best state of the headline only.
    """

    def control(scalars, best, step, lr_scale):
        waited = step // every - jnp.maximum(best.step, 0) // every
        value = scalars[metric]
        stands = value <= best.value if sense == "max" else value >= best.value
        falls = stands & (step % every == 0) & (waited > 0) & (waited % patience == 0)
        return jnp.zeros((), bool), jnp.where(falls, lr_scale * factor, lr_scale)

    return control


def adamw(
    schedule, weight_decay: float, b2: float = 0.999, b1: float = 0.9
) -> optax.GradientTransformation:
    """AdamW with betas (b1, b2), eps 1e-8 outside the root, weight decay on every parameter.

    The parameters are flattened to one vector: with one update per leaf, kernel launches would
    dominate the time of small networks.
    """
    adamw = optax.adamw(schedule, b1=b1, b2=b2, eps=1e-8, weight_decay=weight_decay)
    return optax.flatten(adamw)


def sign(lr) -> optax.GradientTransformation:
    """Sign descent: every parameter moves by lr against the sign of its gradient, or by 0."""
    return optax.chain(
        optax.stateless(lambda grads, params: jax.tree.map(jnp.sign, grads)),
        optax.scale_by_learning_rate(lr),
    )


# name -> (rate or schedule, **options) -> optax.GradientTransformation
OPTIMISERS = {
    "gd": optax.sgd,
    "sgd": optax.sgd,
    "momentum": lambda lr, momentum=0.9: optax.sgd(lr, momentum),
    "adam": lambda lr, eps=1e-8: optax.adam(lr, eps=eps),
    "adamw": lambda lr, weight_decay=0.01: optax.adamw(lr, weight_decay=weight_decay),
    "adagrad": optax.adagrad,
    "adadelta": optax.adadelta,
    "rmsprop": optax.rmsprop,
    "sign": sign,
}


def by_name(name: str, lr, **options) -> optax.GradientTransformation:
    """The optimiser `name` at a rate or schedule `lr`, on all parameters as one vector."""
    return optax.flatten(OPTIMISERS[name](lr, **options))


# --- gradients without backpropagation ------------------------------------------------------------
# For `Experiment.grads`, with the signature of jax.value_and_grad: `grads(fn, has_aux=True)` is a
# function of fn's arguments that returns ((value, aux), gradient with respect to the first
# argument). `forward_mode` is exact. `finite_differences` have a truncation and a rounding error.
# `evolution` estimates the gradient of a smoothed loss, so it is not a gradient-free search;
# `analysis.landscape` has those.


CHUNK = 256  # parameters, or random directions, that are evaluated at a time


def forward_mode(fn: Callable, has_aux: bool = False) -> Callable:
    """The gradient by one forward-mode derivative (JVP) per parameter."""

    def directions(value, vector, key):
        del key

        def along(i):
            unit_vector = jnp.zeros_like(vector).at[i].set(1)
            return jax.jvp(value, (vector,), (unit_vector,))[1]

        return jax.lax.map(along, jnp.arange(vector.size), batch_size=min(CHUNK, vector.size))

    return _as_value_and_grad(fn, has_aux, directions)


def finite_differences(step: float = 1e-2) -> Callable:
    """`grads` by (L(theta + h e_i) - L(theta - h e_i)) / 2h for each parameter, h = step.

    In float32 the rounding error is 1e-7 L / h; the truncation error is h^2 / 6 times the third
    derivative.
    """
    if not step > 0:
        raise BadInput(f"the step of a finite difference must be above 0, got {step}")

    def directions(value, vector, key):
        del key

        def along(i):
            up, down = (value(vector.at[i].add(h)) for h in (step, -step))
            return (up - down) / (2 * step)

        return jax.lax.map(along, jnp.arange(vector.size), batch_size=min(CHUNK, vector.size))

    return lambda fn, has_aux=False: _as_value_and_grad(fn, has_aux, directions)


def evolution(sigma: float = 0.02, n_pairs: int = 128, key_argument: int = 3) -> Callable:
    """`grads` by an evolution strategy: mean of (L(theta + s e) - L(theta - s e)) e / 2s.

    The mean is over n_pairs directions e ~ N(0, 1); s = sigma. key_argument: the position of the
    random key among fn's arguments, by default that of `Experiment.loss`.
    """
    if not sigma > 0 or n_pairs < 1:
        raise BadInput(
            f"an evolution strategy needs sigma > 0 and n_pairs >= 1, got {sigma}, {n_pairs}"
        )

    def directions(value, vector, key):
        def along(key):
            e = jax.random.normal(key, vector.shape, vector.dtype)
            up, down = (value(vector + s * e) for s in (sigma, -sigma))
            return (up - down) / (2 * sigma) * e

        keys = jax.random.split(jax.random.fold_in(key, 1), n_pairs)
        return jnp.mean(jax.lax.map(along, keys, batch_size=min(CHUNK, n_pairs)), axis=0)

    return lambda fn, has_aux=False: _as_value_and_grad(fn, has_aux, directions, key_argument)


def _as_value_and_grad(fn, has_aux, directions, key_argument=None):
    """directions: (value, vector, key) -> gradient; value: a function of the parameter vector."""

    def value_and_grad(params, *rest):
        vector, unravel = ravel_pytree(params)
        key = None if key_argument is None else (params, *rest)[key_argument]

        def value(vector):
            result = fn(unravel(vector), *rest)
            return result[0] if has_aux else result

        return fn(params, *rest), unravel(directions(value, vector, key))

    return value_and_grad
