"""Fully connected networks, with initialisations of PyTorch, He et al. and LeCun et al."""

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
    """The activation function `name`: (x, dtype) -> array of that dtype."""
    if name not in ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}; choose from {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def uniform_fan_in(fan_in: int, scale=1.0):
    """Initialiser scale * U(-1/sqrt(fan_in), 1/sqrt(fan_in)); with scale 1, PyTorch's."""
    bound = 1 / math.sqrt(fan_in)

    def init(key, shape, dtype=jnp.float32):
        return scale * jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def he_normal(fan_in: int, scale=1.0):
    """Initialiser scale * N(0, 2/fan_in)."""

    def init(key, shape, dtype=jnp.float32):
        return scale * math.sqrt(2 / fan_in) * jax.random.normal(key, shape, dtype)

    return init


def he_uniform(fan_in: int, scale=1.0):
    """Initialiser scale * U(-sqrt(6/fan_in), sqrt(6/fan_in)), of variance 2/fan_in."""
    return uniform_fan_in(fan_in, math.sqrt(6) * scale)


def lecun_normal(fan_in: int, scale=1.0):
    """Initialiser scale * N(0, 1/fan_in)."""
    return he_normal(fan_in, math.sqrt(1 / 2) * scale)


# Initialisers of kernels; biases are always uniform.
WEIGHTS = {
    "uniform": uniform_fan_in,
    "he_normal": he_normal,
    "he_uniform": he_uniform,
    "lecun_normal": lecun_normal,
}


class Dense(nn.Module):
    """Affine map [..., d_in] -> [..., features], operands in `dtype`, sums at least float32.

    weights: initialisation of the kernel, one of WEIGHTS. init_scale: factor on every initial
    value; it may be a traced value, so that one program serves a sweep over it.
    """

    features: int
    dtype: Any = jnp.float32
    precision: str | None = None  # None: `jax.default_matmul_precision` of the context
    weights: str = "uniform"
    init_scale: Any = 1.0
    use_bias: bool = True

    @nn.compact
    def __call__(self, x):
        fan_in = x.shape[-1]
        init = WEIGHTS[self.weights](fan_in, self.init_scale)
        kernel = self.param("kernel", init, (fan_in, self.features))
        x, kernel = x.astype(self.dtype), kernel.astype(self.dtype)
        sums = jnp.promote_types(self.dtype, jnp.float32)
        y = jnp.matmul(x, kernel, precision=self.precision, preferred_element_type=sums)
        if not self.use_bias:
            return y
        bias = self.param("bias", uniform_fan_in(fan_in, self.init_scale), (self.features,))
        return y + bias.reshape((1,) * (y.ndim - 1) + (-1,)).astype(sums)


class MLP(nn.Module):
    """Dense layers with an activation between them: z [B, d_in] -> float32 [B, *out_shape].

    weights, init_scale: as in `Dense`, for all layers.
    """

    out_shape: tuple[int, ...]
    hidden: int = 10
    n_layers: int = 2
    activation: str = "tanh"
    dtype: Any = jnp.float32
    weights: str = "uniform"
    init_scale: Any = 1.0

    @nn.compact
    def __call__(self, z):
        y = dense_layers(
            z,
            self.hidden,
            math.prod(self.out_shape),
            self.n_layers,
            self.activation,
            self.dtype,
            weights=self.weights,
            init_scale=self.init_scale,
        )
        return y.reshape(z.shape[0], *self.out_shape)


def dense_layers(x, hidden, features, n_layers, activation, dtype, between=lambda x, i: x, **init):
    """Layers dense_0 .. dense_{n_layers-1} of the calling module; no activation after the last.

    between(x, i) is applied to the input of hidden layer i, after the activation. init: `weights`
    and `init_scale` of all layers.
    """
    if n_layers < 2:
        raise ValueError(f"n_layers must be at least 2, got {n_layers}")
    activate = activation_fn(activation)
    # Inputs are exact coordinates: rounding to bfloat16 would move a sprite by a quarter of a
    # pixel. The layer is so small that full precision costs nothing.
    first = jnp.promote_types(dtype, jnp.float32)
    x = Dense(hidden, first, "highest", name="dense_0", **init)(x)
    for i in range(1, n_layers - 1):
        x = Dense(hidden, dtype, name=f"dense_{i}", **init)(between(activate(x, dtype), i))
    return Dense(features, dtype, name=f"dense_{n_layers - 1}", **init)(activate(x, dtype))
