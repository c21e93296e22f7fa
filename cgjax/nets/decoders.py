"""Decoders from latents to images (Wiedemer et al. 2023): MLP head, then four x2 upsamplings.

`UpsampleMLP` is the network of every reported sprites run. Its `form` selects the implementation of
"upsample, then convolve"; all forms give the same numbers up to rounding.
"""

from functools import cache, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.nets import upsample
from cgjax.nets.mlp import activation_fn, dense_layers, uniform_fan_in
from cgjax.nets.pallas import upsample as upsample_kernel

STAGES = 4
START = 4
FORMS = ("auto", "direct", "reordered", "stencil", "pallas")


class Conv(nn.Module):
    """Kernel [k, k, c_in, features] and bias [features] of a convolution; the caller applies it.

    The caller passes fan_in: PyTorch counts output channels for transposed convolutions.
    """

    features: int
    size: int
    fan_in: int

    @nn.compact
    def __call__(self, c_in):
        init = uniform_fan_in(self.fan_in)
        kernel = self.param("kernel", init, (self.size, self.size, c_in, self.features))
        return kernel, self.param("bias", init, (self.features,))


class UpsampleMLP(nn.Module):
    """MLP to [4, 4, channels], then 4 x (activation, bilinear x2, conv): z [B, d_in] -> images.

    form: "direct", "reordered", "stencil", "pallas" (GPU kernels; no forward-mode derivatives),
    or "auto", the fastest for the backend. dtype: of activations and operands after the head.
    Parameters, sums and the images [B, *out_shape] are float32; they are float64 if both the
    parameters and dtype are float64.
    """

    out_shape: tuple[int, int, int] = (64, 64, 3)
    hidden: int = 256
    channels: int = 32
    n_layers: int = 4
    kernel: int = 2
    activation: str = "elu"
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, z, stages_only: bool = False):
        """stages_only: return the inputs of the stages, x [B, 4, 4, channels] and convs."""
        check_size(self.out_shape)
        # The head computes positions and is a small part of the work: it runs in float32 or wider.
        sums = upsample.wide(self.dtype)
        x = dense_layers(
            z, self.hidden, START**2 * self.channels, self.n_layers, self.activation, sums
        )
        x = channels_last(activation_fn(self.activation)(x, self.dtype), self.channels)
        convs = []
        for i, features in enumerate(stage_channels(self.channels, self.out_shape)):
            fan_in = self.channels * self.kernel**2
            convs.append(Conv(features, self.kernel, fan_in, name=f"conv_{i}")(self.channels))
        if stages_only:
            return x, convs
        form = choose_form(self, len(x))
        if form == "pallas":
            return upsample_kernel.over_devices(x, convs)
        activate = partial(activation_fn(self.activation), dtype=self.dtype)
        conv = {
            "direct": upsample.direct,
            "reordered": upsample.reordered,
            "stencil": upsample.stencil,
        }[form]
        for kernel, bias in convs[:-1]:
            x = activate(conv(x, kernel, bias))
        return conv(x, *convs[-1])


class DeconvMLP(nn.Module):
    """MLP to [4, 4, channels], then 4 transposed 4x4 convolutions of stride 2: z -> images.

    batch_norm: normalise the inputs of hidden dense layers and of inner transposed convolutions
    (collection "batch_stats"; train=True uses the batch's statistics). final_sigmoid: outputs lie
    in (0, 1).
    """

    out_shape: tuple[int, int, int] = (64, 64, 3)
    hidden: int = 256
    channels: int = 32
    n_layers: int = 4
    kernel: int = 4
    activation: str = "elu"
    batch_norm: bool = False
    final_sigmoid: bool = False
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, z, train: bool = False):
        check_size(self.out_shape)
        if self.kernel % 2:
            raise ValueError(f"DeconvMLP needs an even kernel to double sizes, got {self.kernel}")

        def norm(x, name):
            if not self.batch_norm:
                return x
            layer = nn.BatchNorm(not train, momentum=0.9, epsilon=1e-5, name=name)
            return layer(x).astype(self.dtype)

        x = dense_layers(
            z,
            self.hidden,
            START**2 * self.channels,
            self.n_layers,
            self.activation,
            self.dtype,
            between=lambda x, i: norm(x, f"dense_norm_{i}"),
        )
        x = channels_last(x, self.channels)
        for i, features in enumerate(stage_channels(self.channels, self.out_shape)):
            x = activation_fn(self.activation)(x, self.dtype)
            if i < STAGES - 1:
                x = norm(x, f"conv_norm_{i}")
            fan_in = features * self.kernel**2
            kernel, bias = Conv(features, self.kernel, fan_in, name=f"conv_{i}")(self.channels)
            x = deconvolve(x, kernel, bias)
        return nn.sigmoid(x) if self.final_sigmoid else x


def deconvolve(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Transposed convolution of stride 2: x [B,n,n,c], kernel [k,k,c,o] -> float32 [B,2n,2n,o].

    The kernel is correlated with the dilated image: it is PyTorch's kernel, flipped.
    """
    pad = kernel.shape[0] // 2
    x, kernel = x.astype(jnp.float32), kernel.astype(x.dtype).astype(jnp.float32)
    y = lax.conv_general_dilated(
        x,
        kernel,
        (1, 1),
        [(pad, pad)] * 2,
        lhs_dilation=(2, 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return y + bias.reshape(1, 1, 1, -1)


def channels_last(x: jax.Array, channels: int) -> jax.Array:
    """Head output [B, 16 * channels], channel-major (reference code) -> [B, 4, 4, channels]."""
    return jnp.moveaxis(x.reshape(x.shape[0], channels, START, START), 1, -1)


def stage_channels(channels: int, out_shape) -> tuple[int, ...]:
    """Output channels of each stage."""
    return (channels,) * (STAGES - 1) + (out_shape[-1],)


def check_size(out_shape) -> None:
    """Raise an error unless out_shape is [64, 64, channels]: four doublings of 4 x 4."""
    size = START * 2**STAGES
    if tuple(out_shape[:2]) != (size, size) or len(out_shape) != 3:
        raise ValueError(f"out_shape must be ({size}, {size}, channels), got {tuple(out_shape)}")


def choose_form(module: UpsampleMLP, batch: int) -> str:
    """The form to run: "auto" is resolved for this backend; a form that cannot run is an error.

    The GPU kernels need a single GPU, or the mesh of a program compiled by the training loop.
    """
    form = module.form
    if form not in FORMS:
        raise ValueError(f"unknown form {form!r}; choose from {', '.join(FORMS)}")
    fits = upsample_kernel.supports(
        module.channels, module.out_shape[-1], module.kernel, module.activation
    )
    if form == "pallas" and not fits:
        raise ValueError(
            "form 'pallas' needs kernel 2, activation elu, channels 16, 32 or 64 and at most "
            "4 output channels; use form 'auto'"
        )
    if form == "stencil" and module.kernel != 2:
        raise ValueError(f"form 'stencil' needs kernel 2, got {module.kernel}; use form 'auto'")
    if form != "auto":
        return form
    if parallel.on_nvidia():
        if fits and upsample_kernel.splits(batch):
            return "pallas"
        _report_missing_kernels(batch, fits)
    return "stencil" if module.kernel == 2 and jax.default_backend() == "cpu" else "reordered"


def _report_missing_kernels(batch: int, fits: bool) -> None:
    """Print, once, why a training program for several GPUs runs without the faster kernels."""
    mesh = upsample_kernel.mesh_in_use()
    if mesh is not None and mesh.size > 1:
        n = mesh.shape["data"]
        reason = (
            f"a batch of {batch} does not divide over {n}"
            if fits
            else "unsupported sizes or activation"
        )
        _say_once(f"the decoder runs without GPU kernels on {mesh.size} GPUs: {reason}")


_say_once = cache(say)
