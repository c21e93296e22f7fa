"""Decoders from latents to images: upsampling (Wiedemer et al. 2023), transposed convolutions.

`UpsampleMLP` is the network of every reported sprites run. Its `form` selects the implementation of
"upsample, then convolve"; all forms give the same numbers up to rounding.
"""

from functools import cache, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cgjax.core import parallel
from cgjax.core.logging import say
from cgjax.nets import upsample
from cgjax.nets.conv import convolve
from cgjax.nets.mlp import activation_fn, dense_layers, uniform_fan_in
from cgjax.nets.pallas import upsample as upsample_kernel

STAGES = 4
START = 4
FORMS = ("auto", "direct", "reordered", "stencil", "stencil_vjp", "pallas")


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

    form: "direct", "reordered", "stencil", "stencil_vjp", "pallas" (GPU kernels), or "auto", the
    fastest for the backend; "stencil_vjp" and "pallas" have no forward-mode derivatives, and "auto"
    is never "stencil_vjp". dtype: of activations and operands after the head. Parameters, sums and
    the images [B, *out_shape] are float32; they are float64 if both the parameters and dtype are
    float64.
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
            "stencil_vjp": upsample.stencil_vjp,
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
    if form.startswith("stencil") and module.kernel != 2:
        raise ValueError(f"form '{form}' needs kernel 2, got {module.kernel}; use form 'auto'")
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


# --- transposed -----------------------------------------------------------------------------------
# A decoder of transposed convolutions, from one vector to an image (Liang et al. 2025).
#
# A strided transposed convolution has two forms with the same result. "direct" is XLA's own
# operation. "patches" is an ordinary 3x3 convolution with four times the outputs, one for each
# corner of a 2x2 block (`depth_to_space`). On a CPU "direct" is many times slower; "auto" selects
# "patches" there and "direct" elsewhere. Kernels [k, k, c, o] are correlated with the (dilated)
# image.


TRANSPOSED_FORMS = ("auto", "direct", "patches")
# Which tap of a 4-tap kernel of stride 2 reads the left neighbour, the pixel itself and the right
# neighbour, at even and at odd outputs: [2 outputs, 3 neighbours, 4 taps].
_TAPS = np.zeros((2, 3, 4), np.float32)
_TAPS[0, 0, 0] = _TAPS[0, 1, 2] = _TAPS[1, 1, 1] = _TAPS[1, 2, 3] = 1


def choose(form: str) -> str:
    """The form to run; "auto" is resolved for this backend."""
    if form not in TRANSPOSED_FORMS:
        raise ValueError(f"unknown form {form!r}; choose from {', '.join(TRANSPOSED_FORMS)}")
    if form != "auto":
        return form
    return "patches" if jax.default_backend() == "cpu" else "direct"


def double(x: jax.Array, kernel: jax.Array, bias: jax.Array, form: str = "auto") -> jax.Array:
    """Transposed convolution of size 4, stride 2, padding 1: x [B,n,n,c] -> [B,2n,2n,o]."""
    if choose(form) == "direct":
        return deconvolve(x, kernel, bias)
    features = kernel.shape[-1]
    taps = jnp.asarray(_TAPS, kernel.dtype)
    corners = jnp.einsum("aut,bvs,tsco->uvcabo", taps, taps, kernel)
    corners = corners.reshape(3, 3, kernel.shape[2], 4 * features)
    blocks = convolve(x, corners, padding=1, form="patches")
    return depth_to_space(blocks, 2) + bias.reshape(1, 1, 1, -1)


def depth_to_space(x: jax.Array, size: int) -> jax.Array:
    """Blocks of size x size pixels, [B, n, m, size * size * o] -> [B, size n, size m, o]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height, width, size, size, channels // size**2)
    return jnp.swapaxes(x, 2, 3).reshape(batch, size * height, size * width, -1)


def resize_nearest(x: jax.Array, n: int) -> jax.Array:
    """Images [B, h, w, c] resized to n x n; each pixel is the nearest to its upper left."""
    rows, columns = (np.arange(n) * size // n for size in x.shape[1:3])
    return x[:, rows][:, :, columns]


class TransposedDecoder(nn.Module):
    """z [B, d] -> (image [B, n, n], activations): transposed convolutions with ReLU between them.

    The first layer maps the vector to start x start pixels. n_hidden layers follow: the first of
    them double the side until it is n or more, the others keep it. The last layer gives the image,
    which nearest-neighbour resizing reduces to n x n if it is larger. activations: after each ReLU,
    then the image. Initialisation is PyTorch's, whose fan-in of a transposed convolution counts
    output channels. background: added to the image, as an initial value of the last bias.
    """

    n: int = 28
    hidden: int = 64
    n_hidden: int = 8
    start: int = 7
    background: float = 0.0
    form: str = "auto"

    @nn.compact
    def __call__(self, z):
        n_doublings = max(0, int(np.ceil(np.log2(self.n / self.start))))
        if self.n_hidden < n_doublings:
            raise ValueError(
                f"n_hidden is {self.n_hidden}, but doubling {self.start} to {self.n} pixels or "
                f"more takes {n_doublings} layers"
            )

        def layer(features, size, i, c_in):
            return Conv(features, size, features * size**2, name=f"conv_{i}")(c_in)

        # On one pixel it is a dense layer to start x start pixels, with one bias per channel.
        kernel, bias = layer(self.hidden, self.start, 0, z.shape[-1])
        x = jnp.einsum("bc,ijco->bijo", z, kernel) + bias.reshape(1, 1, 1, -1)
        activations = [nn.relu(x)]
        for i in range(1, self.n_hidden + 1):
            doubles = i <= n_doublings
            kernel, bias = layer(self.hidden, 4 if doubles else 3, i, self.hidden)
            x = activations[-1]
            x = double(x, kernel, bias, self.form) if doubles else self.same(x, kernel, bias)
            activations.append(nn.relu(x))
        kernel, bias = layer(1, 3, self.n_hidden + 1, self.hidden)
        image = resize_nearest(self.same(activations[-1], kernel, bias), self.n)[..., 0]
        image = image + self.background
        return image, [*activations, image]

    def same(self, x, kernel, bias):
        """Transposed convolution of size 3, stride 1, padding 1: a convolution for stride 1."""
        return convolve(x, kernel, padding=1, form=choose(self.form)) + bias.reshape(1, 1, 1, -1)
