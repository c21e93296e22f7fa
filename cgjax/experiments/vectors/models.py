"""Models that regress latents on stacked parts, and SGD that resets its momentum."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from cgjax.core import tree
from cgjax.nets.mlp import ACTIVATIONS, MLP

KINDS = ("mlp", "compositional")


class Model(NamedTuple):
    """Pure functions of (params, x [n, K * size])."""

    init: Callable  # key -> params
    predict: Callable  # params, x -> latents [n, K * latents]


def build(config, kind: str) -> Model:
    """One network for all parts, or one per part, whose input has the other parts set to zero."""
    data, model = config.data, config.model
    n_inputs = data.n_parts * data.part_size
    n_networks = 1 if kind == "mlp" else data.n_parts
    network = MLP(
        out_shape=(data.n_parts * data.n_latents // n_networks,),
        hidden=model.hidden // n_networks,
        n_layers=model.n_layers,
        activation=model.activation,
    )
    activate = ACTIVATIONS[model.activation]
    # Set to zero, not removed: the width of the input determines the scale of initial weights.
    masks = jnp.repeat(jnp.eye(n_networks), n_inputs // n_networks, axis=1)  # [networks, inputs]

    def init(key):
        keys = jax.random.split(key, n_networks)
        return jax.vmap(lambda key: network.init(key, jnp.zeros((1, n_inputs)))["params"])(keys)

    def predict(params, x):
        out = jax.vmap(lambda p, mask: network.apply({"params": p}, x * mask[None]))(params, masks)
        latents = jnp.moveaxis(out, 0, 1).reshape(len(x), -1)
        return activate(latents, jnp.float32)

    return Model(init, predict)


def sgd(lr: float, momentum: float, restart_every: int) -> optax.GradientTransformation:
    """SGD that resets its momentum every `restart_every` steps; 0: never."""
    inner = optax.flatten(optax.sgd(lr, momentum))  # one vector: small leaves cost a launch each
    if not restart_every:
        return inner

    def update(grads, state, params=None):
        count, state = state
        fresh = tree.where(count % restart_every == 0, inner.init(grads), state)
        updates, state = inner.update(grads, fresh, params)
        return updates, (count + 1, state)

    return optax.GradientTransformation(
        lambda params: (jnp.zeros((), jnp.int32), inner.init(params)), update
    )
