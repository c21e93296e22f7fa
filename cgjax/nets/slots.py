"""Encoders from an image to K slots: convolutions with K heads, and slot attention.

Both take images [B, H, W, c], H = W = 16, 32 or 64, and return slots [B, K, size]. Slots have an
order: every slot has its own head or its own initial value, because a composition with occlusion
treats front and back differently.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.nets.broadcast import coordinates
from cgjax.nets.mlp import MLP, Dense
from cgjax.nets.vit import cut

EPSILON = 1e-8  # added to attention weights before they are normalised over tokens


class ConvSlots(nn.Module):
    """Convolutions of stride 2 down to 4 x 4, a dense layer, and a linear head for each slot."""

    n_slots: int = 2
    size: int = 8
    channels: int = 16
    hidden: int = 64

    @nn.compact
    def __call__(self, images):
        x = images
        for i in range(int(math.log2(images.shape[1] // 4))):
            x = nn.relu(_halved(x, self.channels * 2 ** min(i, 1), f"conv_{i}"))
        x = nn.relu(Dense(self.hidden, name="dense")(x.reshape(len(x), -1)))
        heads = Dense(self.n_slots * self.size, name="heads")(x)
        return heads.reshape(len(x), self.n_slots, self.size)


class AttentionSlots(nn.Module):
    """Slot attention (Locatello et al. 2020) over the positions of a convolution's output.

    The initial slots are parameters and not draws: slots have an order. A linear map reduces each
    slot from `hidden` to `size` numbers.
    """

    n_slots: int = 2
    size: int = 8
    channels: int = 16
    hidden: int = 64
    n_iterations: int = 3

    @nn.compact
    def __call__(self, images):
        x = nn.relu(_halved(images, self.channels, "conv_0"))
        x = nn.relu(_halved(x, 2 * self.channels, "conv_1"))
        tokens = x.reshape(len(x), -1, x.shape[-1])
        places = Dense(tokens.shape[-1], name="places")(coordinates(*x.shape[1:3]))
        tokens = nn.LayerNorm(name="norm_tokens")(tokens + places[None])
        mlp = MLP((self.hidden,), self.hidden, activation="relu", name="token_mlp")
        tokens = mlp(tokens.reshape(-1, tokens.shape[-1])).reshape(*tokens.shape[:2], -1)
        slots = self.param("slots", nn.initializers.normal(1.0), (self.n_slots, self.hidden))
        slots = jnp.broadcast_to(slots[None], (len(x), *slots.shape))
        slots = SlotAttention(self.n_iterations, name="attention")(tokens, slots)
        return Dense(self.size, name="head")(slots)


class SlotAttention(nn.Module):
    """tokens [B, n, d], initial slots [B, K, d] -> slots [B, K, d] after n_iterations.

    Slots compete for tokens: weights are a softmax over slots, then normalised over tokens. A GRU
    and a residual network with one hidden layer update the slots.
    """

    n_iterations: int = 3

    @nn.compact
    def __call__(self, tokens, slots):
        d = slots.shape[-1]
        project = {name: Dense(d, use_bias=False, name=name) for name in ("query", "key", "value")}
        norm, norm_mlp = nn.LayerNorm(name="norm_slots"), nn.LayerNorm(name="norm_mlp")
        gru, mlp = GRU(name="gru"), MLP((d,), 2 * d, activation="relu", name="mlp")
        tokens = nn.LayerNorm(name="norm_tokens")(tokens)
        key, value = project["key"](tokens), project["value"](tokens)
        for _ in range(self.n_iterations):
            query = project["query"](norm(slots)) / math.sqrt(d)
            weights = jax.nn.softmax(jnp.einsum("bkd,bnd->bkn", query, key), axis=1) + EPSILON
            weights = weights / jnp.sum(weights, axis=2, keepdims=True)
            slots = gru(slots, jnp.einsum("bkn,bnd->bkd", weights, value))
            change = mlp(norm_mlp(slots).reshape(-1, d))
            slots = slots + change.reshape(slots.shape)
        return slots


class GRU(nn.Module):
    """One step of a gated recurrent unit: state [..., d], inputs [..., d] -> state [..., d]."""

    @nn.compact
    def __call__(self, state, inputs):
        d = state.shape[-1]
        from_inputs = Dense(3 * d, name="inputs")(inputs)
        reset_i, update_i, new_i = jnp.split(from_inputs, 3, axis=-1)
        reset_s, update_s, new_s = jnp.split(Dense(3 * d, name="state")(state), 3, axis=-1)
        reset, update = jax.nn.sigmoid(reset_i + reset_s), jax.nn.sigmoid(update_i + update_s)
        return (1 - update) * jnp.tanh(new_i + reset * new_s) + update * state


def _halved(x, features, name):
    """A convolution of size 2 and stride 2: [B, H, W, c] -> [B, H / 2, W / 2, features].

    Its patches do not overlap, so it is a matrix product of the reshaped image: with many replicas
    a batched product, where a convolution would become grouped.
    """
    half = x.shape[1] // 2
    return Dense(features, name=name)(cut(x, 2)).reshape(len(x), half, half, features)


ENCODERS = {"conv": ConvSlots, "attention": AttentionSlots}
