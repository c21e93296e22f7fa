"""What an experiment gives to the loop, and checks that its functions return the right form."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from cgjax.core.errors import BadInput


class Experiment(NamedTuple):
    """The definition of one experiment. All functions are pure and take one replica."""

    data: Any  # on the device, shared by all replicas; includes frozen weights
    replicas: dict  # {"seed": [R], any swept number: [R]}; "stream": [R] makes keys instead of seed
    init: Callable  # key, replica -> (params, extra)
    plan: Callable | None  # key, epoch -> (indices [steps, batch], mask); None: fresh samples
    batch: Callable  # data, indices, key, step -> dict; the loop adds the plan's "mask"
    loss: Callable  # params, extra, batch, key, step, replica -> (scalar, (extra, metrics))
    evaluate: Callable  # params, extra, data, key, replica -> (scalars, arrays)
    tx: Callable  # replica -> optax.GradientTransformation
    headline: tuple | None  # ("r2_all", "max"): defines `State.best`; None: no best state is kept
    control: Callable | None = None  # scalars, best, step, lr_scale -> (done, lr_scale)
    grads: Callable | None = None  # replaces jax.value_and_grad, same signature
    identity: tuple = ("seed",)  # keys of `replicas` that identify a replica uniquely
    own_data: bool = False  # data has a leading replica axis
    compiler_options: dict | None = None  # XLA options for the call of training steps


def pair(name: str, result, meaning: str) -> tuple:
    """The result of the experiment's function `name`, which must be a tuple of two values."""
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise BadInput(f"{name} of the experiment returned {got}: it must return {meaning}")
    return result


def checked_loss(loss):
    """The loss function with a check that it returns (scalar, (extra, metrics))."""

    def checked(*arguments):
        value, aux = pair("loss", loss(*arguments), "(scalar, (extra, metrics))")
        extra, metrics = pair("loss", aux, "(scalar, (extra, metrics))")
        if jnp.shape(value):
            raise BadInput(
                f"loss of the experiment has shape {jnp.shape(value)}: it must be one number"
            )
        _check_metrics("loss", metrics)
        return value, (extra, metrics)

    return checked


def evaluation(result, headline) -> tuple[dict, dict]:
    """(scalars, arrays) of `evaluate`; checks that the headline is one of the scalars."""
    scalars, arrays = pair("evaluate", result, "(scalars, arrays)")
    _check_metrics("evaluate", scalars)
    if headline and headline[0] not in scalars:
        raise BadInput(
            f"the headline '{headline[0]}' is not among the scalars that evaluate returns: "
            f"{', '.join(scalars)}"
        )
    return scalars, arrays


def _check_metrics(name: str, scalars) -> None:
    if not isinstance(scalars, dict):
        raise BadInput(
            f"{name} of the experiment returned {type(scalars).__name__} for its metrics: "
            "it must return a dict"
        )
    for key, value in scalars.items():
        if jnp.shape(value):
            raise BadInput(
                f"{name} returned '{key}' of shape {jnp.shape(value)}: a metric must be one number "
                "(core.metrics.entries splits a matrix into numbers)"
            )


def batch_size(plan) -> int | None:
    """The number of rows in one step of an epoch plan."""
    if plan is None:
        return None
    indices_and_mask = pair("plan", jax.eval_shape(plan, jax.random.key(0), 0), "(indices, mask)")
    return indices_and_mask[0].shape[-1]
