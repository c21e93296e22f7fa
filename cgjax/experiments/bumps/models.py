"""The decoders, and the encoder, of the bump experiments (Liang et al. 2025).

Every decoder maps codes [B, d] to (image [B, n, n], activations): the tensors after each
nonlinearity, in order, and the image last. Decoders that are not specific to this paper are in
`cgjax.nets`.

Two decoders have a *field* in pixel space for each value of each factor: the embedding network
(remedy A) mixes the fields of x and y with a small convolutional network, the product field
multiplies them. They take one-hot codes. With `absent`, the all-zero code of an absent factor has
its own field, initialised to 1, because a field of zeros would paint nothing. With `permuted`, the
pixels of the image are a fixed random permutation of those of the fields.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core.errors import BadInput, one_of
from cgjax.nets.conv import Conv, convolve
from cgjax.nets.decoders import Conv as Kernel
from cgjax.nets.decoders import TransposedDecoder, choose, double
from cgjax.nets.mlp import Dense
from cgjax.nets.norm import BatchNorm
from cgjax.nets.pixel_tokens import PixelMLP, PixelTransformer, PReLU

COMBINE = ("cnn", "product", "sum")


class MLPDecoder(nn.Module):
    """Dense(width) and ReLU, n_hidden times, then Dense(n * n).

    weights: initialisation of the kernels, one of `nets.mlp.WEIGHTS`. batch_norm: batch
    normalisation between dense layer and ReLU (`train`, `mask` as in `nets.norm.BatchNorm`).
    background: added to the image, equivalent to an initial last bias of that value.
    """

    n: int = 28
    width: int = 256
    n_hidden: int = 3
    weights: str = "uniform"
    batch_norm: bool = False
    background: float = 0.0

    @nn.compact
    def __call__(self, codes, train: bool = False, mask=None):
        x, activations = codes, []
        for i in range(self.n_hidden):
            x = Dense(self.width, weights=self.weights, name=f"dense_{i}")(x)
            if self.batch_norm:
                x = BatchNorm(name=f"norm_{i}")(x, train, mask)
            x = nn.relu(x)
            activations.append(x)
        out = Dense(self.n**2, weights=self.weights, name=f"dense_{self.n_hidden}")(x)
        image = out.reshape(-1, self.n, self.n) + self.background
        return image, [*activations, image]


# --- fields in pixel space ------------------------------------------------------------------------


def values(codes: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
    """x and y [B] of one-hot codes [B, 2n]; n if the factor is absent (its half is all zero)."""
    if codes.ndim != 2 or codes.shape[1] != 2 * n:
        raise BadInput(f"fields of {n} values take one-hot codes [B, {2 * n}], got {codes.shape}")
    halves = codes.reshape(len(codes), 2, n)
    indices = jnp.where(jnp.any(halves != 0, axis=-1), jnp.argmax(halves, axis=-1), n)
    return indices[:, 0], indices[:, 1]


def _picked(tables, codes, n):
    """The fields [B, n, n] of x and of y; tables [n or n + 1, n, n]."""
    # Without a field for absent factors, their index is beyond the table and the field is NaN.
    return [
        jnp.take(table, value, axis=0, mode="fill")
        for table, value in zip(tables, values(codes, n))
    ]


class EmbeddingNetwork(nn.Module):
    """The regularised embedding network (remedy A): fields L diag(lam) R, mixed by a small CNN.

    The forward pass normalises columns of L and rows of R but does not orthogonalise them, so lam
    resembles singular values. rank: number of columns of L (0: n, any rank). combine: "cnn", or the
    pixelwise "product" or "sum" of the two fields. activations: the two fields, the output of each
    hidden layer after PReLU, the image.
    """

    n: int = 32
    hidden_layers: int = 2
    rank: int = 0
    combine: str = "cnn"
    absent: bool = False
    permuted: bool = False
    form: str = "auto"

    def setup(self):
        one_of("combine", self.combine, COMBINE)
        n, rank = self.n, self.rank or self.n
        normal = nn.initializers.normal
        for f in ("x", "y"):
            self._add(f"lam_{f}", normal(1 / math.sqrt(n)), (n, rank))
            self._add(f"left_{f}", _unit_normal(-2), (n, n, rank))
            self._add(f"right_{f}", _unit_normal(-1), (n, rank, n))
            if self.absent:
                self._add(f"absent_{f}", nn.initializers.ones, (1, n, n))
        if self.combine == "cnn":
            self.slopes = [PReLU() for _ in range(self.hidden_layers + 1)]
            features = [2] * self.hidden_layers + [1]
            # PyTorch's fan-in of transposed convolutions counts output channels.
            self.convs = [Kernel(o, 3, 9 * o) for o in features]

    def _add(self, name, init, shape):
        setattr(self, name, self.param(name, init, shape))

    def fields(self):
        """Emb_x and Emb_y [n, n, n] (n + 1 with `absent`): one matrix in pixel space per value."""
        tables = []
        for f in ("x", "y"):
            left, right = (
                _unit(getattr(self, f"left_{f}"), -2),
                _unit(getattr(self, f"right_{f}"), -1),
            )
            field = jnp.einsum("vik,vk,vkj->vij", left, getattr(self, f"lam_{f}"), right)
            if self.absent:
                field = jnp.concatenate([field, getattr(self, f"absent_{f}")])
            tables.append(field)
        return tables

    def __call__(self, codes):
        pair = jnp.stack(_picked(self.fields(), codes, self.n), axis=-1)
        activations = [pair]
        if self.combine == "cnn":
            x = pair
            for slope, conv in zip(self.slopes, self.convs):
                x = slope(x)
                activations.append(x)
                kernel, bias = conv(x.shape[-1])
                x = convolve(x, kernel, padding=1, form=self.form) + bias.reshape(1, 1, 1, -1)
            image = x[..., 0]
        else:
            image = _combined(pair, self.combine)
        image = _permuted(image) if self.permuted else image
        return image, [*activations, image]


def _permuted(images):
    """Images [B, n, n] with the same permutation of the n * n pixels for every image."""
    order = np.random.default_rng(0).permutation(images[0].size)
    return images.reshape(len(images), -1)[:, order].reshape(images.shape)


def _unit(values, axis):
    return values / jnp.linalg.norm(values, axis=axis, keepdims=True)


def _unit_normal(axis):
    def init(key, shape, dtype=jnp.float32):
        return _unit(jax.random.normal(key, shape, dtype), axis)

    return init


def _combined(pair, combine):
    return pair[..., 0] * pair[..., 1] if combine == "product" else pair[..., 0] + pair[..., 1]


class ProductField(nn.Module):
    """Two free tables of fields, A[x] and B[y]; the image is A[x] * B[y], pixel by pixel.

    combine: "product" or "sum". stripes: A[x] is a profile along the columns that repeats in every
    row, and B[y] a profile along the rows that repeats in every column: flat by construction.
    rank: each field is a product of two matrices [n, rank] and [rank, n] (0: any rank). scale:
    standard deviation of the initial values. activations: the two fields, the image.
    """

    n: int = 28
    combine: str = "product"
    stripes: bool = False
    rank: int = 0
    absent: bool = False
    permuted: bool = False
    scale: float = 0.1

    def setup(self):
        one_of("combine", self.combine, COMBINE[1:])
        n, normal = self.n, nn.initializers.normal(self.scale)
        if self.rank:
            # The product of two such matrices has entries with standard deviation `scale`.
            half = nn.initializers.normal((self.scale / self.rank**0.5) ** 0.5)
            self.a, self.b = (
                self.param(f"{name}_left", half, (n, n, self.rank))
                @ self.param(f"{name}_right", half, (n, self.rank, n))
                for name in "ab"
            )
        else:
            self.a = self.param("a", normal, (n, 1, n) if self.stripes else (n, n, n))
            self.b = self.param("b", normal, (n, n, 1) if self.stripes else (n, n, n))
        if self.absent:
            ones = nn.initializers.ones
            self.absent_a = self.param("absent_a", ones, (1, *self.a.shape[1:]))
            self.absent_b = self.param("absent_b", ones, (1, *self.b.shape[1:]))

    def fields(self):
        """A and B [n, n, n] (n + 1 with `absent`), rows before columns."""
        tables = [self.a, self.b]
        if self.absent:
            pairs = zip(tables, (self.absent_a, self.absent_b))
            tables = [jnp.concatenate(pair) for pair in pairs]
        return [jnp.broadcast_to(table, (len(table), self.n, self.n)) for table in tables]

    def __call__(self, codes):
        pair = jnp.stack(_picked(self.fields(), codes, self.n), axis=-1)
        image = _combined(pair, self.combine)
        image = _permuted(image) if self.permuted else image
        return image, [pair, image]


# --- the rotating digit ---------------------------------------------------------------------------


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
        # The same rotation as in `sets.rotated`.
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


# --- the inverse task -----------------------------------------------------------------------------


class Encoder(nn.Module):
    """image [B, n, n] -> (code [B, features], activations): convolutions, then two dense layers."""

    features: int = 56
    channels: tuple[int, ...] = (32, 64, 128)
    hidden: int = 128
    form: str = "auto"

    @nn.compact
    def __call__(self, images):
        x, activations = images[..., None], []
        for i, channels in enumerate(self.channels):
            conv = Conv(channels, 3, stride=2, padding=1, form=self.form, name=f"conv_{i}")
            x = nn.relu(conv(x))
            activations.append(x)
        x = nn.relu(Dense(self.hidden, name="dense_0")(x.reshape(len(x), -1)))
        code = Dense(self.features, name="dense_1")(x)
        return code, [*activations, x, code]


MODELS = {
    "mlp": MLPDecoder,
    "cnn": TransposedDecoder,
    "embed": EmbeddingNetwork,
    "pixel_mlp": PixelMLP,
    "transformer": PixelTransformer,
    "product": ProductField,
    "encoder": Encoder,
}
# Decoders with a field for each value; penalties on fields apply to them.
WITH_FIELDS = ("embed", "product")
