"""The contract of an experiment: what its functions return, said in one line where they do not."""

import pathlib

import jax
import jax.numpy as jnp

from cgjax.core.checkpoint import Group
from cgjax.core.errors import BadInput


def pair(name: str, found, meaning: str) -> tuple:
    """The two values that a function of the experiment returned."""
    if not isinstance(found, tuple) or len(found) != 2:
        got = f"{len(found)} values" if isinstance(found, tuple) else type(found).__name__
        raise BadInput(f"{name} of the experiment returned {got}: it must return {meaning}")
    return found


def checked_loss(loss):
    """The loss, refused where it does not return (scalar, (extra, metrics))."""

    def checked(*arguments):
        value, aux = pair("loss", loss(*arguments), "(scalar, (extra, metrics))")
        extra, metrics = pair("loss", aux, "(scalar, (extra, metrics))")
        if jnp.shape(value):
            raise BadInput(
                f"loss of the experiment has shape {jnp.shape(value)}: it must be one number"
            )
        _numbers("loss", metrics)
        return value, (extra, metrics)

    return checked


def evaluation(found, headline) -> tuple[dict, dict]:
    """(scalars, arrays) of `evaluate`; the headline is one of the scalars."""
    scalars, arrays = pair("evaluate", found, "(scalars, arrays)")
    _numbers("evaluate", scalars)
    if headline and headline[0] not in scalars:
        raise BadInput(
            f"the headline '{headline[0]}' is not among what evaluate returns: {', '.join(scalars)}"
        )
    return scalars, arrays


def _numbers(name: str, scalars) -> None:
    if not isinstance(scalars, dict):
        raise BadInput(
            f"{name} of the experiment returned {type(scalars).__name__} for its metrics"
        )
    for key, value in scalars.items():
        if jnp.shape(value):
            raise BadInput(
                f"{name} returned '{key}' of shape {jnp.shape(value)}: a metric is one number "
                "(core.metrics.entries names those of a matrix)"
            )


def batch_size(plan) -> int | None:
    """Rows of one step of an epoch plan."""
    if plan is None:
        return None
    found = pair("plan", jax.eval_shape(plan, jax.random.key(0), 0), "(indices, mask)")
    return found[0].shape[-1]


def check_saved(meta: dict, part: str, group: Group, folder: pathlib.Path) -> None:
    """A checkpoint belongs to the part and the replicas in whose folder it lies."""
    if meta["part"] != part or tuple(meta["replicas"]) != group.replicas:
        raise BadInput(
            f"'{folder}' holds a checkpoint of part '{meta['part']}', {meta['replicas'][0]} ...: "
            f"it was not trained as part '{part}', {group.replicas[0]} ..."
        )
