"""Softmax attention of all tokens to all tokens, as the transformers here share it."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp


def attend(qkv: jax.Array, drop: Callable = lambda weights: weights) -> jax.Array:
    """Queries, keys and values [B, n, 3, heads, d] -> what each token gathers [B, n, heads * d].

    drop: applied to the attention weights [B, heads, n, n].
    """
    query, key, value = jnp.moveaxis(qkv, 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1])
    mixed = jnp.einsum("bhqk,bkhd->bqhd", drop(jax.nn.softmax(scores)), value)
    return mixed.reshape(*qkv.shape[:2], -1)
