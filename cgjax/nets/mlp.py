"""Fully connected networks, with PyTorch's default initialisation written out."""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.nets.upsample import elu

ACTIVATIONS = {
    "elu": elu,
    "relu": lambda x, dtype: nn.relu(x).astype(dtype),
    "tanh": lambda x, dtype: jnp.tanh(x).astype(dtype),
    "leaky_relu": lambda x, dtype: nn.leaky_relu(x, 0.2).astype(dtype),
    "sigmoid": lambda x, dtype: nn.sigmoid(x).astype(dtype),
}


def activation_fn(name: str):
    """The function x, dtype -> activation of that name."""
    if name not in ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}; choose from {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def uniform_fan_in(fan_in: int):
    """Initialiser U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's default for kernels and biases."""
    bound = 1 / math.sqrt(fan_in)

    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


class Dense(nn.Module):
    """Affine map [..., d_in] -> float32 [..., features], operands in `dtype`."""

    features: int
    dtype: Any = jnp.float32
    precision: str = "default"

    @nn.compact
    def __call__(self, x):
        init = uniform_fan_in(x.shape[-1])
        kernel = self.param("kernel", init, (x.shape[-1], self.features))
        bias = self.param("bias", init, (self.features,))
        x, kernel = x.astype(self.dtype), kernel.astype(self.dtype)
        y = jnp.matmul(x, kernel, precision=self.precision, preferred_element_type=jnp.float32)
        return y + bias.reshape((1,) * (y.ndim - 1) + (-1,))


class MLP(nn.Module):
    """Dense layers with an activation between them: z [B, d_in] -> float32 [B, *out_shape]."""

    out_shape: tuple[int, ...]
    hidden: int = 10
    n_layers: int = 2
    activation: str = "tanh"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, z):
        y = dense_layers(
            z, self.hidden, math.prod(self.out_shape), self.n_layers, self.activation, self.dtype
        )
        return y.reshape(z.shape[0], *self.out_shape)


def dense_layers(x, hidden, features, n_layers, activation, dtype, between=lambda x, i: x):
    """Layers dense_0 .. dense_{n_layers-1} inside the calling module; no activation at the end.

    between(x, i) is applied after the activation in front of hidden layer i.
    """
    if n_layers < 2:
        raise ValueError(f"n_layers must be at least 2, got {n_layers}")
    activate = activation_fn(activation)
    # Inputs are exact coordinates: rounded to bfloat16, a sprite's position would be off by a
    # quarter of a pixel. The layer is so small that full precision costs nothing.
    x = Dense(hidden, jnp.float32, "highest", name="dense_0")(x)
    for i in range(1, n_layers - 1):
        x = Dense(hidden, dtype, name=f"dense_{i}")(between(activate(x, dtype), i))
    return Dense(features, dtype, name=f"dense_{n_layers - 1}")(activate(x, dtype))
