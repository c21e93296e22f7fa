"""Batch, instance and group normalisation with PyTorch's conventions."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.core.errors import BadInput, one_of
from cgjax.nets.pallas import norm


class BatchNorm(nn.Module):
    """Normalises each feature of x [B, ..., features] over all other axes; same shape and dtype.

    train=True: uses the batch's mean and variance and updates the running statistics
    ("batch_stats") with `momentum`; the running variance is unbiased. train=False: uses the running
    statistics. mask [B]: rows with 0 are left out of the batch's statistics. before [features]:
    ReLU(x + before) is normalised instead of x. added: like x, added to the result. rectify: apply
    a ReLU at the end. form: "kernel" trains on images with the GPU kernels of `nets.pallas.norm` if
    they can run; these have no forward-mode derivatives.
    """

    momentum: float = 0.1
    epsilon: float = 1e-5
    form: str = "auto"

    @nn.compact
    def __call__(
        self, x, train: bool = False, mask=None, before=None, added=None, rectify: bool = False
    ):
        features = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (features,))
        bias = self.param("bias", nn.initializers.zeros, (features,))
        running_mean = self.variable("batch_stats", "mean", jnp.zeros, (features,))
        running_var = self.variable("batch_stats", "var", jnp.ones, (features,))

        def update_running(mean, var, count):
            if not self.is_initializing():
                unbiased = var * count / jnp.maximum(count - 1, 1)
                for running, new in ((running_mean, mean), (running_var, unbiased)):
                    running.value += self.momentum * (new - running.value)

        if train and self.form == "kernel" and norm.supports(x.shape):
            settings = norm.Settings(rectify, self.epsilon)
            mask = jnp.ones(len(x)) if mask is None else mask
            y, *statistics = norm.normalise(x, before, scale, bias, mask, added, settings)
            update_running(*jax.lax.stop_gradient(statistics))
            return y
        dtype, shape = x.dtype, (1,) * (x.ndim - 1) + (-1,)
        x = x if before is None else nn.relu(x + before.reshape(shape).astype(dtype))
        mean, var = running_mean.value, running_var.value
        if train:
            counted = x if mask is None else jax.lax.dynamic_slice_in_dim(x, jnp.argmax(mask), 1)
            near = some_value(counted, tuple(range(x.ndim - 1)))
            x = x.astype(wide(x)) - near
            mean, var, count = moments(x, mask)
            update_running(near.ravel() + mean, var, count)
        # Scale and bias are merged with mean and variance: one product and one sum per value.
        factor = scale / jnp.sqrt(var + self.epsilon)
        y = (x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)).astype(dtype)
        y = y if added is None else y + added
        return nn.relu(y) if rectify else y


def moments(apart: jax.Array, mask=None) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mean and (biased) variance [features] over all axes except the last; number of values.

    apart: values minus a number near them, float32 or wider. mask: as in `BatchNorm`.
    """
    if mask is None:
        mask = jnp.ones(apart.shape[0])
    mask = mask.astype(apart.dtype)
    count = jnp.sum(mask) * (apart[0].size // apart.shape[-1])
    mean, var = _moments(apart, tuple(range(apart.ndim - 1)), count, mask)
    return mean.ravel(), var.ravel(), count


class InstanceNorm(nn.Module):
    """Each channel of each image of x [B, H, W, c] to mean 0, variance 1; no parameters.

    train, mask: accepted for the interface of `BatchNorm`, and unused: images are independent.
    """

    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        if x.shape[1] * x.shape[2] == 1:
            raise BadInput(
                "instance norm of one pixel is always zero: use larger images, or another norm"
            )
        return standardise(x, (1, 2), self.epsilon)


class GroupNorm(nn.Module):
    """Each of `groups` groups of channels of each image to mean 0, variance 1; then scale and bias.

    x [B, H, W, c]; train, mask: as in `InstanceNorm`.
    """

    groups: int = 32
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None):
        features = x.shape[-1]
        if features % self.groups:
            raise BadInput(f"{features} channels are not divisible into {self.groups} groups")
        scale = self.param("scale", nn.initializers.ones, (features,))
        bias = self.param("bias", nn.initializers.zeros, (features,))
        grouped = x.reshape(*x.shape[:3], self.groups, -1)
        y = standardise(grouped, (1, 2, 4), self.epsilon).reshape(x.shape)
        return (y * scale.reshape(1, 1, 1, -1) + bias.reshape(1, 1, 1, -1)).astype(x.dtype)


NORMS = {"instance": InstanceNorm, "batch": BatchNorm, "group": GroupNorm}


def norm_of(kind: str):
    """The class of norm `kind`: a linen module called with (x, train, mask)."""
    one_of("norm", kind, NORMS)
    return NORMS[kind]


def standardise(x: jax.Array, axes: tuple[int, ...], epsilon: float) -> jax.Array:
    """(x - mean) / sqrt(variance + epsilon) over `axes`, in float32 or wider; result dtype: x's."""
    apart = x.astype(wide(x)) - some_value(x, axes)
    mean, var = _moments(apart, axes, math.prod(x.shape[axis] for axis in axes))
    return ((apart - mean) * jax.lax.rsqrt(var + epsilon)).astype(x.dtype)


# --- mean and variance in one pass ----------------------------------------------------------------
# Computing the mean, then the variance about the mean, takes two passes over memory, and three in
# the gradient. Moments about a fixed number take one pass each, but a small variance then loses its
# digits as the difference of two large squares. The fixed number is therefore one of the values
# that count.


def some_value(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """The value in the middle of `axes`, which keep length 1, in float32 or wider."""
    for axis in axes:
        x = jax.lax.slice_in_dim(x, x.shape[axis] // 2, x.shape[axis] // 2 + 1, axis=axis)
    # The barrier stops XLA from fusing this into a matrix product, which aborts its GPU compiler.
    return jax.lax.optimization_barrier(jax.lax.stop_gradient(x.astype(wide(x))))


def _moments(apart, axes, count, weights=None):
    """Mean and variance over `axes`, which keep length 1; weights: along the first axis."""
    weighted = apart
    if weights is not None:
        weighted = apart * weights.reshape((-1,) + (1,) * (apart.ndim - 1))
    mean = jnp.sum(weighted, axes, keepdims=True) / count
    square = jnp.sum(weighted * apart, axes, keepdims=True) / count
    return mean, jnp.maximum(square - mean**2, 0)


def wide(x: jax.Array):
    """The dtype of sums: the dtype of x, or float32 if that is wider."""
    return jnp.promote_types(x.dtype, jnp.float32)
