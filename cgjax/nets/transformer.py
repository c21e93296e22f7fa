"""One layer of a transformer, shared by BERT (norm after the sum) and ViT (norm before)."""

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.core.errors import BadInput

NORMAL = nn.initializers.normal(0.02)


class TransformerLayer(nn.Module):
    """Attention, then two linear maps with exact GELU between them: [B, n, hidden] -> the same.

    Products have operands in `dtype`; the residual sums, norms and softmax are float32. Initial
    weights are N(0, 0.02), initial biases zero.
    """

    heads: int
    intermediate: int
    eps: float = 1e-12
    norm_first: bool = False
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x, bias=None, n_wanted: int | None = None):
        """bias: added to the scores [B, heads, n, n]. n_wanted: return the first n_wanted only."""
        norms = [layer_norm(self.eps, f"{name}_norm") for name in ("attention", "ffn")]
        before, after = (
            (norms, (_identity, _identity)) if self.norm_first else ((_identity, _identity), norms)
        )
        x = after[0](x[:, :n_wanted] + self.attention(before[0](x), bias, n_wanted))
        return after[1](x + self.ffn(before[1](x)))

    def attention(self, x, bias, n_wanted):
        hidden = x.shape[-1]
        if hidden % self.heads:
            raise BadInput(f"hidden size {hidden} is not divisible by {self.heads} heads")

        def per_head(name, x):
            return self.linear(hidden, name)(x).reshape(*x.shape[:2], self.heads, -1)

        query = per_head("query", x[:, :n_wanted])
        gathered = gather(query, per_head("key", x), per_head("value", x), bias)
        return self.linear(hidden, "attention_out")(gathered)

    def ffn(self, x):
        wide = nn.gelu(self.linear(self.intermediate, "ffn_in")(x), approximate=False)
        return self.linear(x.shape[-1], "ffn_out")(wide)

    def linear(self, features, name):
        return nn.Dense(features, dtype=self.dtype, kernel_init=NORMAL, name=name)


def layer_norm(eps: float, name: str | None = None) -> nn.LayerNorm:
    """Layer norm in float32; the variance is computed about the mean."""
    return nn.LayerNorm(epsilon=eps, use_fast_variance=False, dtype=jnp.float32, name=name)


def _identity(x):
    return x


# --- softmax attention of all tokens to all tokens, shared by all transformers --------------------


def attend(qkv: jax.Array, drop: Callable = lambda weights: weights) -> jax.Array:
    """Queries, keys and values [B, n, 3, heads, d] -> attention output [B, n, heads * d].

    drop: applied to the attention weights [B, heads, n, n].
    """
    return gather(*jnp.moveaxis(qkv, 2, 0), drop=drop)


def gather(query, key, value, bias=None, drop: Callable = lambda weights: weights) -> jax.Array:
    """Queries [B, q, heads, d], keys and values [B, k, heads, d] -> outputs [B, q, heads * d].

    bias: added to the scores [B, heads, q, k]; scores and softmax are float32 or wider. drop: as in
    `attend`.
    """
    sums = jnp.promote_types(query.dtype, jnp.float32)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key, preferred_element_type=sums)
    scores = scores / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias
    weights = drop(jax.nn.softmax(scores)).astype(value.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    return mixed.reshape(*query.shape[:2], -1)
