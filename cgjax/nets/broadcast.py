"""Decoders with explicit pixel positions: spatial broadcast, and shifted drawings.

All take z [B, d]. Its first two entries are the position: x (to the right) and y (up), in units of
the image's side.
"""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.nets.decoders import UpsampleMLP
from cgjax.nets.mlp import MLP, Dense, activation_fn, uniform_fan_in

# Coordinates, and latents of known range, lie in [-REACH, REACH]. At initialisation the units of
# the first layer then bend within an eighth of the image. With [-1, 1] a narrow network fits worse.
REACH = 4.0


class BroadcastMLP(nn.Module):
    """Spatial broadcast: z and the coordinates at every pixel, then 1x1 convolutions.

    z [B, d_in] -> float32 [B, *out_shape]. hidden: width of each of the n_layers - 1 hidden layers.
    ranges: (lowest, highest) of every latent, mapped to -REACH and REACH like the coordinates; a
    narrow network hardly learns from latents of very different spread.
    """

    out_shape: tuple[int, int, int] = (64, 64, 3)
    hidden: int = 48
    n_layers: int = 5
    activation: str = "elu"
    ranges: tuple[tuple[float, float], ...] = ()
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, z):
        if self.n_layers < 2:
            raise ValueError(f"n_layers must be at least 2, got {self.n_layers}")
        if self.ranges:
            low, high = np.float32(self.ranges).T[:, None]
            z = REACH * (2 * z - (low + high)) / (high - low)
        activate = partial(activation_fn(self.activation), dtype=self.dtype)
        x = activate(Broadcast(self.hidden, name="dense_0")(z, coordinates(*self.out_shape[:2])))
        for i in range(1, self.n_layers - 1):
            x = activate(Dense(self.hidden, self.dtype, name=f"dense_{i}")(x))
        x = Dense(self.out_shape[-1], self.dtype, name=f"dense_{self.n_layers - 1}")(x)
        return x.reshape(len(z), *self.out_shape)


class Broadcast(nn.Module):
    """First 1x1 convolution on tiled latents z [B, d] and coordinates [P, 2] -> [B, P, features].

    The layer is affine: latents and pixels are mapped separately and added, so nothing is tiled.
    """

    features: int

    @nn.compact
    def __call__(self, z, pixels):
        d, c = z.shape[-1], pixels.shape[-1]
        init = uniform_fan_in(d + c)
        kernel = self.param("kernel", init, (d + c, self.features))
        bias = self.param("bias", init, (self.features,))
        # Full precision for exact coordinates, as in the first layer of the other decoders.
        product = partial(jnp.matmul, precision="highest")
        per_image = product(z, kernel[:d]) + bias[None]
        return per_image[:, None] + product(pixels, kernel[d:])[None]


def coordinates(height: int, width: int) -> jax.Array:
    """x (to the right) and y (up) of every pixel in [-REACH, REACH], rows from the top: [P, 2]."""
    up, right = np.linspace(REACH, -REACH, height), np.linspace(-REACH, REACH, width)
    y, x = np.meshgrid(up, right, indexing="ij")
    return jnp.asarray(np.stack([x.ravel(), y.ravel()], axis=1), jnp.float32)


class ShiftMLP(nn.Module):
    """Shift-equivariant: an `UpsampleMLP` draws z[:, 2:] in the centre; x and y shift the image.

    z [B, d_in] -> float32 [B, *out_shape]; fields as in `UpsampleMLP`.
    """

    out_shape: tuple[int, int, int] = (64, 64, 3)
    hidden: int = 256
    channels: int = 32
    form: str = "auto"
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, z):
        canvas = UpsampleMLP(
            self.out_shape,
            self.hidden,
            self.channels,
            form=self.form,
            dtype=self.dtype,
            name="canvas",
        )
        return shift(canvas(z[:, 2:]), z[:, 0] - 0.5, z[:, 1] - 0.5)


class WindowMLP(nn.Module):
    """A small window drawn from z[:, 2:] and shifted by z[:, :2]: z [B, d_in] -> [B, *out_shape].

    Outside the window every pixel has the colour `background`, a parameter: one network can draw
    only what fits into one window. The position is counted from the image's centre, in units of a
    quarter of its side.
    """

    out_shape: tuple[int, int, int] = (16, 16, 3)
    window: int = 7
    hidden: int = 32

    @nn.compact
    def __call__(self, z):
        height, width, channels = self.out_shape
        shape = (self.window, self.window, channels)
        drawing = MLP(shape, self.hidden, activation="elu", name="drawing")(z[:, 2:])
        background = self.param("background", nn.initializers.zeros_init(), (channels,))
        background = background.reshape(1, 1, 1, -1)
        # Bilinear weights of each pixel of the window in each row and column of the image.
        rows = _place_matrix(height, self.window, -z[:, 1] * height / 4)  # row 0 is the top
        columns = _place_matrix(width, self.window, z[:, 0] * width / 4)
        product = partial(jnp.einsum, precision="highest")
        placed = product("bjq,bpqc->bpjc", columns, drawing - background)
        return product("bip,bpjc->bijc", rows, placed) + background


def _place_matrix(n, window, offset):
    """Weights [B, n, window]: pixel j of a window in the middle of n, moved by `offset`, at i."""
    place = jnp.arange(window) + (n - window) / 2
    at = jnp.arange(n, dtype=offset.dtype)[None, :, None]
    return jnp.maximum(0, 1 - jnp.abs(at - place[None, None] - offset[:, None, None]))


def shift(images: jax.Array, right: jax.Array, up: jax.Array) -> jax.Array:
    """Images [B, H, W, C] shifted by `right` and `up` [B], in units of the image's side.

    Bilinear between pixels. Pixels from outside repeat the border and are not zero: under soft
    occlusion an empty front pixel has a negative colour, and zero would hide half of the back.
    """
    height, width = images.shape[1:3]
    rows = _shift_matrix(height, up * height)  # row 0 is the top
    columns = _shift_matrix(width, -right * width)
    # Full precision: rounded weights would shift the image.
    product = partial(jnp.einsum, precision="highest")
    return product("bip,bpqc->biqc", rows, product("bjq,bpqc->bpjc", columns, images))


def _shift_matrix(n, offset):
    """Weights [B, n, n]: output i is the input at i + offset, clipped to the axis."""
    i = jnp.arange(n, dtype=offset.dtype)
    source = jnp.clip(i[None] + offset[:, None], 0, n - 1)
    return jnp.maximum(0, 1 - jnp.abs(source[:, :, None] - i[None, None]))
