"""Checks that an experiment's functions return what the loop needs; one-line errors if not."""

import pathlib

import jax
import jax.numpy as jnp

from cgjax.core.checkpoint import Group
from cgjax.core.errors import BadInput


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


def check_saved(meta: dict, part: str, group: Group, folder: pathlib.Path) -> None:
    """Checks that a checkpoint belongs to the part and the replicas of its folder."""
    if meta["part"] != part or tuple(meta["replicas"]) != group.replicas:
        raise BadInput(
            f"'{folder}' holds a checkpoint of part '{meta['part']}', {meta['replicas'][0]} ..., "
            f"not of part '{part}', {group.replicas[0]} ...: restore a copy, or use --start_anew"
        )
