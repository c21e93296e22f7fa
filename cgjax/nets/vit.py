"""Vision transformers: a small one (Lippl and Stachenfeld 2025), and that of Dosovitskiy et al.

Lepori, Serre and Pavlick 2023 use the latter.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.core.errors import BadInput
from cgjax.nets.mlp import MLP, Dense
from cgjax.nets.transformer import NORMAL, TransformerLayer, attend, layer_norm


class ViT(nn.Module):
    """Patches, class token, pre-norm transformer, linear on the class token: x [B, H, W, c] -> [B].

    train=True: dropout after the embedding, attention and both layers of each MLP (random stream
    "dropout"). mask: unused; accepted for the interface of networks with batch statistics. tap:
    return this layer instead: 0 the input, 1 the embedding, then one for each block, the normalised
    class token, the output.
    """

    dim: int = 256
    depth: int = 4
    heads: int = 6
    head_dim: int = 64
    mlp_dim: int = 256
    patch: int = 8
    dropout: float = 0.1
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, train: bool = False, mask=None, tap: int | None = None):
        def drop(x):
            return nn.Dropout(self.dropout, deterministic=not train)(x)

        layers = [x.astype(self.dtype)]
        tokens = Dense(self.dim, self.dtype, name="embedding")(cut(layers[-1], self.patch))
        normal = nn.initializers.normal(1.0)
        first = self.param("class_token", normal, (1, 1, self.dim))
        first = jnp.broadcast_to(first, (len(tokens), 1, self.dim)).astype(tokens.dtype)
        tokens = jnp.concatenate([first, tokens], axis=1)
        positions = self.param("position_embedding", normal, (1, tokens.shape[1], self.dim))
        layers.append(drop(tokens + positions))
        for i in range(self.depth):
            tokens = layers[-1] + drop(self.attention(layers[-1], f"block_{i}"))
            layers.append(tokens + self.mlp(tokens, drop, f"block_{i}"))
        layers.append(self.normalise(layers[-1][:, 0], "norm"))
        layers.append(Dense(1, self.dtype, name="head")(layers[-1]))
        return layers[-1][:, 0] if tap is None else layers[tap]

    def normalise(self, x, name):
        return nn.LayerNorm(epsilon=1e-5, use_fast_variance=False, name=name)(x)

    def attention(self, x, name):
        """Softmax attention of all tokens to all tokens [B, n, dim]; no bias on q, k, v."""
        inner = self.heads * self.head_dim
        qkv = Dense(3 * inner, self.dtype, use_bias=False, name=f"{name}_qkv")(
            self.normalise(x, f"{name}_norm_1")
        )
        qkv = qkv.reshape(*x.shape[:2], 3, self.heads, self.head_dim).astype(self.dtype)
        return Dense(self.dim, self.dtype, name=f"{name}_out")(attend(qkv))

    def mlp(self, x, drop, name):
        """Two dense layers with GELU between them, token by token."""
        x = self.normalise(x, f"{name}_norm_2")
        x = Dense(self.mlp_dim, self.dtype, name=f"{name}_dense_1")(x)
        x = drop(nn.gelu(x, approximate=False))
        return drop(Dense(self.dim, self.dtype, name=f"{name}_dense_2")(x))


class VisionTransformer(nn.Module):
    """Pre-norm transformer, MLP on its class token: x [B, image, image, c] -> [B, head].

    Its layers have the names of `Bert`'s layers. head: outputs of the MLP on the class token, whose
    hidden layer is as wide as its input; 0: return the normalised class token itself. train, mask:
    as in `ViT`.
    """

    image: int = 128
    patch: int = 16
    hidden: int = 768
    layers: int = 12
    heads: int = 12
    intermediate: int = 3072
    eps: float = 1e-12
    head: int = 128
    dtype: Any = jnp.float32

    def setup(self):
        n_tokens = 1 + (self.image // self.patch) ** 2
        self.embedding = nn.Dense(self.hidden, dtype=self.dtype, kernel_init=NORMAL)
        self.class_token = self.param("class_token", NORMAL, (1, 1, self.hidden))
        self.position = self.param("position_embedding", NORMAL, (1, n_tokens, self.hidden))
        self.layer = [
            TransformerLayer(self.heads, self.intermediate, self.eps, True, self.dtype)
            for _ in range(self.layers)
        ]
        self.norm = layer_norm(self.eps)
        if self.head:
            self.readout = MLP(
                (self.head,), self.hidden, activation="relu", dtype=self.dtype, name="head"
            )

    def __call__(self, x, train: bool = False, mask=None):
        tokens = self.embed(x)
        for layer in self.layer[:-1]:
            tokens = layer(tokens)
        # The head reads only the class token.
        first = self.norm(self.layer[-1](tokens, n_wanted=1)[:, 0])
        return self.readout(first) if self.head else first

    def embed(self, x) -> jax.Array:
        """Class token and patches, with their positions: [B, n, hidden]."""
        if x.shape[1:3] != (self.image, self.image):
            height, width = x.shape[1:3]
            raise BadInput(
                f"images are {height} x {width}, but the network takes {self.image} x {self.image}"
            )
        patches = self.embedding(cut(x, self.patch))
        first = jnp.broadcast_to(self.class_token, (len(x), 1, self.hidden))
        return jnp.concatenate([first, patches], axis=1) + self.position


def cut(x: jax.Array, size: int) -> jax.Array:
    """Square patches of x [B, H, W, c], row by row: [B, patches, size * size * c]."""
    batch, height, width, channels = x.shape
    if height % size or width % size:
        raise ValueError(f"images of {height} x {width} are not divisible into patches of {size}")
    x = x.reshape(batch, height // size, size, width // size, size, channels)
    return jnp.swapaxes(x, 2, 3).reshape(batch, -1, size * size * channels)
