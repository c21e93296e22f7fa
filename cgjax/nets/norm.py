"""Batch normalisation in PyTorch's convention."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class BatchNorm(nn.Module):
    """Normalises the last axis of x [B, ..., features] over all others; same shape and dtype.

    train=True: with the batch's mean and variance, which move the running ones ("batch_stats") by
    `momentum`; the running variance is the unbiased one. train=False: with the running ones.
    mask [B]: rows with 0 do not count in the batch's statistics, as if they were not there.
    """

    momentum: float = 0.1
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        features = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (features,))
        bias = self.param("bias", nn.initializers.zeros, (features,))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, (features,))
        running_var = self.variable("batch_stats", "var", jnp.ones, (features,))
        mean, var = running_mean.value, running_var.value
        if train:
            mean, var, count = moments(x, mask)
            if not self.is_initializing():
                unbiased = var * count / jnp.maximum(count - 1, 1)
                for running, now in ((running_mean, mean), (running_var, unbiased)):
                    running.value += self.momentum * (now - running.value)
        # One product and one sum for each value.
        factor = scale / jnp.sqrt(var + self.epsilon)
        shape = (1,) * (x.ndim - 1) + (-1,)
        y = x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)
        return y.astype(x.dtype)


def moments(x: jax.Array, mask=None) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mean and (biased) variance [features] over all axes but the last, and how many values."""
    axes = tuple(range(x.ndim - 1))
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if mask is None:
        mask = jnp.ones(x.shape[0], x.dtype)
    weights = mask.astype(x.dtype).reshape((-1,) + (1,) * (x.ndim - 1))
    count = jnp.sum(mask.astype(x.dtype)) * (x[0].size // x.shape[-1])
    mean = jnp.sum(weights * x, axes) / count
    # Around the mean: the difference of two large squares would lose the digits of a small one.
    centred = x - mean.reshape((1,) * (x.ndim - 1) + (-1,))
    return mean, jnp.sum(weights * centred**2, axes) / count, count
