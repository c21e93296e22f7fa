"""Decoders with one token per pixel and a code of the pixel's position (Liang et al. 2025).

One dense layer maps the input to a context vector, which is the same for all pixels. A fixed code
of the pixel's row and column is added. All pixels share the remaining layers: `PixelMLP` processes
each token separately, `PixelTransformer` uses attention between tokens.
"""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from cgjax.nets.mlp import Dense
from cgjax.nets.transformer import attend


def position_code(n: int, features: int) -> np.ndarray:
    """Sines and cosines of row and column of n x n pixels, row by row: float32 [n * n, features].

    Frequencies 10000^(-j / features), j = 0, 4, 8, ...; four channels for each: sin and cos of the
    row, sin and cos of the column.
    """
    if features % 4:
        raise ValueError(
            f"features must be a multiple of 4 for a code of two positions, got {features}"
        )
    frequency = 10000.0 ** (-np.arange(0, features, 4) / features)
    rows, columns = (index.reshape(-1, 1) * frequency for index in np.indices((n, n)))
    parts = [np.sin(rows), np.cos(rows), np.sin(columns), np.cos(columns)]
    return np.stack(parts, axis=-1).reshape(n * n, features).astype(np.float32)


class PReLU(nn.Module):
    """x where positive, else a learned slope times x; one slope for all units."""

    slope: float = 0.25

    @nn.compact
    def __call__(self, x):
        slope = self.param("slope", nn.initializers.constant(self.slope), ())
        return jnp.where(x > 0, x, slope.astype(x.dtype) * x)


class PixelMLP(nn.Module):
    """z [B, d] -> (image [B, n, n], activations): the same small MLP at every pixel.

    activations: [B, n * n, features] after each PReLU, then the image.
    """

    n: int = 28
    features: int = 256
    depth: int = 4
    background: float = 0.0

    @nn.compact
    def __call__(self, z):
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, got {self.depth}")
        context = Dense(self.features, name="context")(z)
        code = jnp.asarray(position_code(self.n, self.features))
        # The first layer is affine: it maps context and code separately, so nothing is tiled yet.
        first = Dense(self.features, name="dense_0")
        offset = first(jnp.zeros((1, self.features)))
        x = (first(context) - offset)[:, None] + first(code)[None]
        activations = [PReLU(name="prelu_0")(x)]
        for i in range(1, self.depth):
            x = Dense(self.features, name=f"dense_{i}")(activations[-1])
            activations.append(PReLU(name=f"prelu_{i}")(x))
        image = Dense(1, name="out")(activations[-1]).reshape(-1, self.n, self.n)
        image = image + self.background
        return image, [*activations, image]


class PixelTransformer(nn.Module):
    """z [B, d] -> (image [B, n, n], activations): post-norm transformer layers over all pixels.

    train=True: dropout of attention weights, of both sublayers and inside the feed-forward sublayer
    (random stream "dropout"). activations: [B, n * n, features] after each layer, then the image.
    """

    n: int = 28
    features: int = 128
    depth: int = 4
    heads: int = 4
    feed_forward: int = 2048
    dropout: float = 0.1
    background: float = 0.0

    @nn.compact
    def __call__(self, z, train: bool = False):
        def drop(x):
            return nn.Dropout(self.dropout, deterministic=not train)(x)

        def normalised(x, name):
            return nn.LayerNorm(epsilon=1e-5, use_fast_variance=False, name=name)(x)

        context = Dense(self.features, name="context")(z)
        x = context[:, None] + jnp.asarray(position_code(self.n, self.features))[None]
        activations = []
        for i in range(self.depth):
            x = normalised(x + drop(self.attention(x, drop, f"layer_{i}")), f"layer_{i}_norm_1")
            inner = drop(nn.relu(Dense(self.feed_forward, name=f"layer_{i}_dense_1")(x)))
            outer = drop(Dense(self.features, name=f"layer_{i}_dense_2")(inner))
            x = normalised(x + outer, f"layer_{i}_norm_2")
            activations.append(x)
        image = Dense(1, name="out")(x).reshape(-1, self.n, self.n) + self.background
        return image, [*activations, image]

    def attention(self, x, drop, name):
        """Softmax attention of all tokens to all tokens [B, tokens, features]."""
        if self.features % self.heads:
            raise ValueError(f"{self.heads} heads do not divide {self.features} features")
        qkv = Dense(3 * self.features, name=f"{name}_qkv")(x)
        qkv = qkv.reshape(*x.shape[:2], 3, self.heads, -1)
        return Dense(self.features, name=f"{name}_out")(attend(qkv, drop))
