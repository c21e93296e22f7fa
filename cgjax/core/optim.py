"""Optimisers and schedules as the papers use them, by name."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax


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

    patience: the number of evaluations without a new best; every: steps between evaluations. The
    headline must be (metric, sense), because the loop keeps the best state of the headline only.
    """

    def control(scalars, best, step, lr_scale):
        waited = (step - jnp.maximum(best.step, 0)) // every
        worse = scalars[metric] < best.value if sense == "max" else scalars[metric] > best.value
        falls = worse & (waited > 0) & (waited % patience == 0)
        return jnp.zeros((), bool), jnp.where(falls, lr_scale * factor, lr_scale)

    return control


def adamw(schedule, weight_decay: float, b2: float = 0.999) -> optax.GradientTransformation:
    """AdamW with betas (0.9, b2), eps 1e-8 outside the root, weight decay on every parameter.

    The parameters are flattened to one vector: with one update per leaf, kernel launches would
    dominate the time of small networks.
    """
    adamw = optax.adamw(schedule, b1=0.9, b2=b2, eps=1e-8, weight_decay=weight_decay)
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
