"""A linear regression on random data: the smallest experiment that uses every part of the loop."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cgjax.config.declare import base, declare, declare_training, key
from cgjax.core.program import Experiment
from cgjax.data import arrays


def config(**train):
    """20 rows in batches of 8: the last batch of an epoch is half full."""
    settings = base("toy")
    declare_training(settings)
    declare(settings, {"data.batch": key(8, "rows"), "optim.lr": key(1e-3, "rate", above=0)})
    settings.train.update({"steps": 12, "steps_per_call": 2, "log_every": 1, **train})
    settings.eval.every = 4
    settings.checkpoint.every = 4
    return settings


def experiment(settings, n=20, poison=99, **changes):
    """`poison`: the seed whose loss turns NaN at step 5."""
    inputs = jax.random.normal(jax.random.key(7), (n, 3))
    data = {"x": inputs, "y": inputs @ jnp.array([1.0, -2.0, 0.5])}

    def init(key, replica):
        return {"w": jax.random.normal(key, (3,))}, {"count": jnp.zeros(())}

    def batch(data, indices, key, step):
        return jax.tree.map(lambda leaf: leaf[indices], data)

    def loss(params, extra, batch, key, step, replica):
        errors = (batch["x"] @ params["w"] - batch["y"]) ** 2
        value = jnp.sum(batch["mask"] * errors) / jnp.sum(batch["mask"])
        value = jnp.where((replica["seed"] == poison) & (step >= 5), jnp.nan, value)
        return value, ({"count": extra["count"] + 1}, {"rows": jnp.sum(batch["mask"])})

    def evaluate(params, extra, data, key, replica):
        predicted = data["x"] @ params["w"]
        return {"mse": jnp.mean((predicted - data["y"]) ** 2)}, {"predicted": predicted}

    made = Experiment(
        data=data,
        replicas={"seed": np.array(settings.train.seeds)},
        init=init,
        plan=arrays.epochs(n, settings.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optax.adamw(settings.optim.lr * 100),
        headline=("mse", "min"),
    )
    return made._replace(**changes)
