"""Softmax attention of all tokens to all tokens, as the transformers here share it."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp


def attend(qkv: jax.Array, drop: Callable = lambda weights: weights) -> jax.Array:
    """Queries, keys and values [B, n, 3, heads, d] -> what each token gathers [B, n, heads * d].

    drop: applied to the attention weights [B, heads, n, n].
    """
    return gather(*jnp.moveaxis(qkv, 2, 0), drop=drop)


def gather(query, key, value, bias=None, drop: Callable = lambda weights: weights) -> jax.Array:
    """What queries [B, q, heads, d] gather from keys, values [B, k, heads, d]: [B, q, heads * d].

    bias: added to the scores [B, heads, q, k]; scores and softmax are at least float32. drop: as in
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
