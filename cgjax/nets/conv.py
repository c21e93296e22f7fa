"""Convolutions, the ConvNet of Lippl and Stachenfeld 2025, and the convolutions of VGG16.

A convolution has three forms with the same result. "direct" is XLA's own operation. "patches" is
one matrix product with the patch at each position. "kernel" uses the GPU kernels of
`nets.pallas.conv` if they can run; these have no forward-mode derivatives. Inside `lax.scan` on a
CPU, "direct" is many times slower than "patches"; "auto" selects one of these two by backend.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cgjax.nets.mlp import WEIGHTS, Dense, uniform_fan_in
from cgjax.nets.norm import BatchNorm
from cgjax.nets.pallas import conv as conv_kernel

FORMS = ("auto", "direct", "patches")  # with reverse-mode and forward-mode derivatives


def convolve(
    x: jax.Array,
    kernel: jax.Array,
    stride: int = 1,
    padding: int = 0,
    form: str = "auto",
    passes_on: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """x [B, H, W, c], kernel [k, k, c, o] -> [B, H', W', o]; the image is padded with zeros.

    passes_on: also return x for other layers that read it; the GPU kernel then adds up the
    gradients of x.
    """
    if form not in (*FORMS, "kernel"):
        raise ValueError(f"unknown form {form!r}; choose from {', '.join(FORMS)}, kernel")
    if form == "kernel" and conv_kernel.supports(*kernel.shape[2:]):
        return conv_kernel.convolve(x, kernel, conv_kernel.Settings(stride, padding, passes_on))
    if passes_on:
        return convolve(x, kernel, stride, padding, form), x
    if form in ("auto", "kernel"):
        # A 1x1 kernel is a matrix product on every backend, but only with stride 1: on a GPU the
        # pixels of a larger stride need a look-up.
        matrix = jax.default_backend() == "cpu" or len(kernel) == stride == 1
        form = "patches" if matrix else "direct"
    if form == "direct":
        return lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            [(padding, padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
    inputs = patches(x, kernel.shape[0], stride, padding)
    return inputs @ kernel.reshape(-1, kernel.shape[-1])


def patches(x: jax.Array, size: int, stride: int = 1, padding: int = 0) -> jax.Array:
    """The size x size patch at each position of a kernel: [B, H', W', size * size * c]."""
    if padding:
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    if size == 1 and (stride == 1 or jax.default_backend() == "cpu"):
        return x[:, ::stride, ::stride]
    batch, height, width, channels = x.shape
    rows, columns = (
        stride * np.arange((n - size) // stride + 1)[:, None] + np.arange(size)
        for n in (height, width)
    )
    # One look-up by position: concatenated slices take five times as long to compile. On GPUs also
    # for 1x1 kernels: XLA takes a slice with a stride into the Triton kernel of the product that
    # reads it, and where another product made the sliced array, that aborts the process ("Check
    # failed" in triton_tiling_propagation.cc; JAX 0.11.2). A look-up stays outside of the kernel.
    position = rows[:, None, :, None] * width + columns[:, None]
    pixels = jnp.take(x.reshape(batch, -1, channels), position.ravel(), axis=1, mode="clip")
    return pixels.reshape(batch, len(rows), len(columns), -1)


class Conv(nn.Module):
    """Convolution x [B, H, W, c] -> [B, H', W', features]; x and result in `dtype`.

    weights: initialisation of the kernel, one of WEIGHTS, scaled by the fan-in or, with fan_out, by
    the fan-out. The bias is uniform.
    """

    features: int
    size: int
    stride: int = 1
    padding: int = 0
    use_bias: bool = True
    weights: str = "uniform"
    fan_out: bool = False
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, apart: bool = False, passes_on: bool = False):
        """apart: return (result without bias, bias [features]); passes_on: as in `convolve`."""
        shape = (self.size, self.size, x.shape[-1], self.features)
        fan_in, fan_out = (self.size**2 * n for n in shape[2:])
        fan = fan_out if self.fan_out else fan_in
        kernel = self.param("kernel", WEIGHTS[self.weights](fan), shape)
        x, kernel = x.astype(self.dtype), kernel.astype(self.dtype)
        result = convolve(x, kernel, self.stride, self.padding, self.form, passes_on)
        y, *passed = result if passes_on else (result,)
        if self.use_bias:
            bias = self.param("bias", uniform_fan_in(fan_in), (self.features,))
            y = (y, bias) if apart else y + bias.reshape(1, 1, 1, -1).astype(self.dtype)
        return (y, *passed) if passed else y


def max_pool(x: jax.Array) -> jax.Array:
    """Largest of each 2 x 2 block: [B, H, W, c] -> [B, H // 2, W // 2, c]."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    rows = jnp.maximum(x[:, :height:2, :width], x[:, 1:height:2, :width])
    return jnp.maximum(rows[:, :, ::2], rows[:, :, 1::2])


class ConvNet(nn.Module):
    """4 x (conv 5x5, ReLU, BatchNorm), max-pool, dense 512, 1024, 1: x [B, H, W, c] -> [B].

    Initial weights are N(0, 2/fan_in). train, mask [B]: as in `BatchNorm`. form: of the
    convolutions, as in `convolve`; "kernel" applies to the norms too. tap: return the output of
    module number `tap` instead: 0 the input; 1, 2, 3 conv, ReLU, BatchNorm of block 1; ... 10, 11,
    12 block 4; 13 pool; 14 flatten; 15 to 19 alternate dense and ReLU (with the default depths).
    """

    channels: tuple[int, ...] = (32, 32, 64, 64)
    hidden: tuple[int, ...] = (512, 1024)
    kernel: int = 5
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None, tap: int | None = None):
        modules = [x.astype(self.dtype)]
        for i, features in enumerate(self.channels):
            conv = Conv(
                features,
                self.kernel,
                weights="he_normal",
                form=self.form,
                dtype=self.dtype,
                name=f"conv_{i}",
            )
            norm = BatchNorm(form=self.form, name=f"norm_{i}")
            y, bias = conv(modules[-1], apart=True)
            modules.append(y + bias.reshape(1, 1, 1, -1).astype(self.dtype))
            modules.append(nn.relu(modules[-1]))
            if self.form == "kernel":  # in one pass; the two above are unused unless tapped
                modules.append(norm(y, train, mask, before=bias))
            else:
                modules.append(norm(modules[-1], train, mask))
        modules.append(max_pool(modules[-1]))
        # Channel-major, as in the reference code.
        modules.append(jnp.moveaxis(modules[-1], -1, 1).reshape(x.shape[0], -1))
        for i, features in enumerate((*self.hidden, 1)):
            if i:
                modules.append(nn.relu(modules[-1]))
            dense = Dense(features, self.dtype, weights="he_normal", name=f"dense_{i}")
            modules.append(dense(modules[-1]))
        return modules[-1][:, 0] if tap is None else modules[tap]


# --- VGG ------------------------------------------------------------------------------------------
# The convolutions of VGG16 (Simonyan and Zisserman 2015), without its dense layers.


class VGG(nn.Module):
    """Images [B, H, W, 3] -> output of each stage, before the 2 x 2 max-pool that follows it.

    Stage i has stages[i][0] convolutions of 3x3 with stages[i][1] channels, each with a ReLU.
    """

    stages: tuple[tuple[int, int], ...] = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))

    @nn.compact
    def __call__(self, x) -> tuple[jax.Array, ...]:
        outputs, number = [], 0
        for n_convs, features in self.stages:
            x = max_pool(x) if outputs else x
            for _ in range(n_convs):
                conv = Conv(features, 3, padding=1, weights="he_normal", name=f"conv_{number}")
                x, number = nn.relu(conv(x)), number + 1
            outputs.append(x)
        return tuple(outputs)
