"""Optimisers and schedules as the papers use them."""

import jax.numpy as jnp
import optax


def cosine(lr: float, lr_final: float, steps: int, every: int):
    """lr_final + (lr - lr_final)(1 + cos(pi e / n)) / 2 with e = step // every, n = steps / every.

    every: steps at a constant rate; an epoch's length gives the schedule "per epoch".
    """
    n_levels = steps / every

    def schedule(step):
        level = step // every
        return lr_final + (lr - lr_final) * (1 + jnp.cos(jnp.pi * level / n_levels)) / 2

    return schedule


def adamw(schedule, weight_decay: float) -> optax.GradientTransformation:
    """AdamW with betas (0.9, 0.999), eps 1e-8 outside the root, decay on every parameter.

    The moments are one vector: leaf by leaf, small networks spend their time starting kernels.
    """
    adamw = optax.adamw(schedule, b1=0.9, b2=0.999, eps=1e-8, weight_decay=weight_decay)
    return optax.flatten(adamw)
