"""BERT (Devlin et al. 2019) without dropout: norm after the sum, exact GELU."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.core.errors import BadInput, shown
from cgjax.nets.transformer import NORMAL, TransformerLayer, layer_norm

# Our field -> key in the config.json of published BERT models.
SIZES = {
    "vocab": "vocab_size",
    "hidden": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate": "intermediate_size",
    "positions": "max_position_embeddings",
    "types": "type_vocab_size",
    "eps": "layer_norm_eps",
}
# An attention score that softmax maps to zero next to any other score.
NEVER = -1e9


class Encoded(NamedTuple):
    """BERT's outputs for a batch of sentences."""

    last: jax.Array  # [B, n, hidden]
    hidden: tuple[jax.Array, ...]  # the embeddings, then the output of each layer
    pooled: jax.Array | None  # [B, hidden]; None without a pooler


class Bert(nn.Module):
    """Token ids [B, n] and attention mask [B, n] (0: padding, ignored by attention) -> Encoded.

    The linear maps of layer i are layer_<i>/{query,key,value,attention_out,ffn_in,ffn_out}; dtype:
    as in `TransformerLayer`. Initial weights are N(0, 0.02). The defaults are BERT-small.
    """

    vocab: int = 30522
    hidden: int = 512
    layers: int = 4
    heads: int = 8
    intermediate: int = 2048
    positions: int = 512
    types: int = 2
    eps: float = 1e-12
    pooler: bool = False
    dtype: Any = jnp.float32

    @classmethod
    def from_config(cls, config: Mapping, **fields) -> "Bert":
        """The network of a published BERT config {"hidden_size": ...}; fields: of this class."""
        if missing := [name for name in SIZES.values() if name not in config]:
            raise BadInput(f"the BERT config lacks {', '.join(missing)}")
        fixed = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
        for name, value in fixed.items():
            if config.get(name, value) != value:
                got = shown(config[name])
                raise BadInput(f"the BERT config has {name} = {got}: only {value!r} is supported")
        return cls(**{ours: config[theirs] for ours, theirs in SIZES.items()} | fields)

    def setup(self):
        def table(rows):
            return nn.Embed(rows, self.hidden, embedding_init=NORMAL)

        self.word, self.position, self.type = map(table, (self.vocab, self.positions, self.types))
        self.norm = layer_norm(self.eps)
        self.layer = [
            TransformerLayer(self.heads, self.intermediate, self.eps, dtype=self.dtype)
            for _ in range(self.layers)
        ]
        if self.pooler:
            self.pool = nn.Dense(self.hidden, dtype=self.dtype, kernel_init=NORMAL, name="pooler")

    def __call__(self, ids, attention_mask=None, token_types=None) -> Encoded:
        hidden = [self.embed(ids, token_types)]
        for i in range(self.layers):
            hidden.append(self.encode(hidden[-1], attention_mask, i, i + 1))
        pooled = jnp.tanh(self.pool(hidden[-1][:, 0])) if self.pooler else None
        return Encoded(hidden[-1], tuple(hidden), pooled)

    def embed(self, ids, token_types=None) -> jax.Array:
        """Sum of the three embeddings, normalised: [B, n, hidden]."""
        n = ids.shape[1]
        if n > self.positions:
            raise BadInput(
                f"sentences have {n} tokens, but the network has {self.positions} positions"
            )
        token_types = jnp.zeros_like(ids) if token_types is None else token_types
        places = self.position(jnp.arange(n))[None]
        return self.norm(self.word(ids) + places + self.type(token_types))

    def encode(self, x, attention_mask=None, start: int = 0, stop: int | None = None) -> jax.Array:
        """Apply layers start .. stop - 1 to tokens x [B, n, hidden]; by default all layers."""
        bias = attention_bias(attention_mask)
        for layer in self.layer[start:stop]:
            x = layer(x, bias)
        return x

    def first_token(self, x, attention_mask=None, start: int = 0) -> jax.Array:
        """Output of `encode` for [CLS], [B, hidden]; the last layer computes no other token."""
        x = self.encode(x, attention_mask, start, self.layers - 1)
        return self.layer[-1](x, attention_bias(attention_mask), n_wanted=1)[:, 0]


def attention_bias(attention_mask) -> jax.Array | None:
    """Term [B, 1, 1, n] of the attention scores: NEVER at padded tokens, else 0."""
    if attention_mask is None:
        return None
    return jnp.where(attention_mask[:, None, None] > 0, 0.0, NEVER)
