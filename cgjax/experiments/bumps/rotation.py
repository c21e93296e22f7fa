"""One image at all angles but a gap: does a decoder rotate through the gap, or cross-fade?

Inputs are (cos, sin) of the angle. In the gap, the decoder's images are compared with the true
rotation, with the cross-fade between the images at the gap's two edges, and with the best mixture
of these two images.
"""

import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput
from cgjax.nets.conv import convolve
from cgjax.nets.mlp import Dense
from cgjax.nets.norm import BatchNorm
from cgjax.nets.transposed import choose, double

GAP = (160.0, 200.0)


def rotated(image: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """The image [n, m] rotated about its middle by each of the angles [k]: [k, n, m].

    Interpolation is bilinear; pixels from outside the image are 0.
    """
    image = np.asarray(image, float)
    if image.ndim != 2:
        raise BadInput(f"image is [n, m], got shape {image.shape}")
    middle = (np.array(image.shape) - 1) / 2
    away = np.indices(image.shape).reshape(2, -1) - middle[:, None]
    angle = np.deg2rad(np.asarray(degrees, float))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    source = np.einsum("ijk,jp->kip", turn, away) + middle[:, None]
    last = np.array(image.shape)[:, None] - 1
    # Rounding must not move a border pixel outside.
    inside = np.all((source > -1e-9) & (source < last + 1e-9), axis=1)
    source = np.clip(source, 0, last)
    low = np.minimum(np.floor(source).astype(int), last - 1)
    share = source - low
    interpolated = 0
    for dy in (0, 1):
        for dx in (0, 1):
            weights = np.abs(1 - dy - share[:, 0]) * np.abs(1 - dx - share[:, 1])
            interpolated = interpolated + weights * image[low[:, 0] + dy, low[:, 1] + dx]
    return np.where(inside, interpolated, 0).reshape(-1, *image.shape)


def angles(n: int = 1000, gap: tuple[float, float] = GAP) -> tuple[np.ndarray, np.ndarray]:
    """n angles in degrees from 0 to 360, both included: (angles outside the gap, angles in it).

    With both ends, 888 of 1000 remain, as published; without the second end, 889 would remain.
    """
    # Rounding must not move an angle on the gap's edge out of the gap.
    every = np.round(np.linspace(0, 360, n), 9)
    held_out = (every >= gap[0]) & (every <= gap[1])
    if held_out.all() or not held_out.any():
        raise BadInput(f"gap {gap} leaves nothing inside or nothing outside of {n} angles")
    return every[~held_out], every[held_out]


def encode(degrees: np.ndarray) -> np.ndarray:
    """(cos, sin) [k, 2] of angles [k]."""
    angle = np.deg2rad(np.asarray(degrees, float))
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def faded(degrees: np.ndarray, edges: np.ndarray, gap=GAP) -> np.ndarray:
    """The linear cross-fade [k, ...] between the images at the gap's two edges [2, ...]."""
    share = (np.asarray(degrees, float) - gap[0]) / (gap[1] - gap[0])
    share = share.reshape(-1, *[1] * (np.ndim(edges) - 1))
    return (1 - share) * edges[:1] + share * edges[1:]


class CrossFade(NamedTuple):
    """R2 of three predictions of the images in the gap, relative to their mean image."""

    fade: float  # the pixelwise linear cross-fade between the edges
    mixture: float  # for each image, the best mixture of the two edges
    truth: float  # the true rotations


def cross_fade(
    painted: np.ndarray, truth: np.ndarray, degrees: np.ndarray, edges: np.ndarray, gap=GAP
) -> CrossFade:
    """Whether images painted in the gap [k, n, m] superpose its two edges [2, n, m], or rotate."""
    painted, truth, edges = (
        np.asarray(a, float).reshape(len(a), -1) for a in (painted, truth, edges)
    )
    if painted.shape != truth.shape or len(degrees) != len(painted) or len(edges) != 2:
        raise BadInput(
            f"need one angle per image and two edges, got {painted.shape}, {truth.shape}"
        )
    fade = faded(degrees, edges, gap)
    mixture = painted @ np.linalg.pinv(edges) @ edges
    total = np.sum((painted - painted.mean(axis=0)) ** 2)
    if not total > 0:
        return CrossFade(*[float("nan")] * 3)
    accounts = (fade, mixture, truth)
    return CrossFade(*(float(1 - np.sum((painted - a) ** 2) / total) for a in accounts))


def kaiming_fan_out(fan_out: int):
    """Initialiser N(0, 2 / fan_out)."""
    return nn.initializers.normal(math.sqrt(2 / fan_out))


class RotationDecoder(nn.Module):
    """z [B, d] -> (image [B, 28, 28] in (0, 1), activations): dense, two doublings, a convolution.

    Batch normalisation and ReLU follow each doubling; train, mask as in `nets.norm.BatchNorm`.
    activations: the dense layer, the output of each doubling after ReLU, the image.
    """

    channels: tuple[int, int] = (128, 64)
    start: int = 7
    form: str = "auto"

    @nn.compact
    def __call__(self, z, train: bool = False, mask=None):
        first, zeros = self.channels[0], nn.initializers.zeros
        size = self.start**2 * first
        kernel = self.param("dense_kernel", kaiming_fan_out(size), (z.shape[-1], size))
        x = jnp.matmul(z, kernel) + self.param("dense_bias", zeros, (size,))[None]
        activations = [x.reshape(-1, self.start, self.start, first)]
        for i, features in enumerate(self.channels):
            x = activations[-1]
            # PyTorch's fan-out counts input channels here: it stores transposed kernels swapped.
            init = kaiming_fan_out(16 * x.shape[-1])
            kernel = self.param(f"conv_{i}_kernel", init, (4, 4, x.shape[-1], features))
            x = double(x, kernel, self.param(f"conv_{i}_bias", zeros, (features,)), self.form)
            activations.append(jax.nn.relu(BatchNorm(name=f"norm_{i}")(x, train, mask)))
        x = activations[-1]
        kernel = self.param("out_kernel", kaiming_fan_out(9), (3, 3, x.shape[-1], 1))
        x = convolve(x, kernel, padding=1, form=choose(self.form))
        image = jax.nn.sigmoid(x[..., 0] + self.param("out_bias", zeros, ()))
        return image, [*activations, image]


class EquivariantDecoder(nn.Module):
    """z [B, 2 + d] -> (image [B, n, n] in (0, 1), activations): an MLP of rotated coordinates.

    z: cos and sin of the angle, and d more numbers. The MLP's input at a pixel is the place that
    the rotation maps to it, coded by sines and cosines. Images at other angles are therefore
    rotated images for any weights: this control must succeed in the gap. activations:
    [B, n * n, features] after each ReLU, then the image.
    """

    n: int = 28
    features: int = 64
    depth: int = 3
    frequencies: int = 5

    @nn.compact
    def __call__(self, z):
        cos, sin = z[:, :1], z[:, 1:2]
        row, column = (
            (np.indices((self.n, self.n)).reshape(2, 1, -1) - (self.n - 1) / 2) * 2 / self.n
        )
        # The same rotation as in `rotated`.
        place = jnp.stack([cos * row + sin * column, cos * column - sin * row], axis=-1)
        # Half a wave over the image, then twice the frequency each time.
        waves = np.pi / 2 * 2.0 ** np.arange(self.frequencies)
        phase = (place[..., None] * waves.reshape(1, 1, 1, -1)).reshape(len(z), self.n**2, -1)
        x = jnp.concatenate([jnp.sin(phase), jnp.cos(phase)], axis=-1)
        x = Dense(self.features, name="dense_0")(x)
        if z.shape[1] > 2:
            x = x + Dense(self.features, name="context")(z[:, 2:])[:, None]
        activations = [nn.relu(x)]
        for i in range(1, self.depth):
            activations.append(nn.relu(Dense(self.features, name=f"dense_{i}")(activations[-1])))
        x = Dense(1, name="out")(activations[-1])
        image = jax.nn.sigmoid(x.reshape(-1, self.n, self.n))
        return image, [*activations, image]
