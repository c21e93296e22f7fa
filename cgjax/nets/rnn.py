"""Sequence to sequence: a bidirectional LSTM encoder and an LSTM decoder with attention.

Sequences are integers [B, T], padded with PAD after END. Padding does not change the result: states
do not change at padded positions, and attention ignores them. The decoder's input is the previous
symbol (teacher forcing: the true one) without the attention's context, so all steps can be scored
at once.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from cgjax.core import parallel

PAD, END = 0, 1


class LSTM(nn.Module):
    """x [B, T, d] -> (states, cells), each [B, T, features].

    is_real: boolean [B, T]; where it is false, state and cell do not change. start: (state, cell),
    each [B, features], zeros by default. reverse: from the last position to the first. Gates are in
    the order input, forget, cell, output. Initialisation: Glorot-uniform kernel, orthogonal
    recurrent kernel, bias 1 for the forget gate and 0 otherwise.
    """

    features: int
    reverse: bool = False

    def setup(self):
        self.recurrent = self.param("recurrent", _orthogonal, (self.features, 4 * self.features))
        self.bias = self.param("bias", _forget_bias_one, (4 * self.features,))
        self.kernel = nn.Dense(
            4 * self.features, use_bias=False, kernel_init=nn.initializers.glorot_uniform()
        )

    def __call__(self, x, is_real, start=None):
        if start is None:
            zeros = jnp.zeros((x.shape[0], self.features), x.dtype)
            start = (zeros, zeros)
        # The inputs of all positions are multiplied by the kernel in one product.
        driven = self.kernel(x) + self.bias[None, None]

        def step(carry, inputs):
            drive, real = inputs
            new = _gates(drive + carry[0] @ self.recurrent, carry[1])
            carry = tuple(jnp.where(real[:, None], a, b) for a, b in zip(new, carry))
            return carry, carry

        inputs = (jnp.swapaxes(driven, 0, 1), jnp.swapaxes(is_real, 0, 1))
        _, carries = jax.lax.scan(step, start, inputs, reverse=self.reverse)
        return tuple(jnp.swapaxes(states, 0, 1) for states in carries)

    def step(self, carry, x):
        """One position: (state, cell) and x [B, d] -> (state, cell)."""
        return _gates(self.kernel(x) + self.bias[None] + carry[0] @ self.recurrent, carry[1])


def _orthogonal(key, shape, dtype=jnp.float32):
    """Orthogonal rows; a QR factorisation of each replica, one after the other on a CPU."""
    draw = nn.initializers.orthogonal()
    return parallel.one_at_a_time(lambda key: draw(key, shape, dtype))(key)


def _forget_bias_one(key, shape, dtype=jnp.float32):
    del key
    return jnp.zeros(shape, dtype).at[shape[0] // 4 : shape[0] // 2].set(1)


def _gates(total, cell):
    i, f, g, o = jnp.split(total, 4, axis=-1)
    cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
    return nn.sigmoid(o) * jnp.tanh(cell), cell


class Encoded(NamedTuple):
    """An encoded command, the decoder's input."""

    states: jax.Array  # H [B, T, 2 encoder]: forward and backward at each position
    start: tuple  # state and cell [B, 4 encoder] of the decoder: first and last real position
    is_real: jax.Array  # boolean [B, T]


class Seq2Seq(nn.Module):
    """Commands [B, T] and previous symbols [B, L] -> logits [B, L, n_symbols].

    n_words: number of command symbols, n_symbols: of output symbols; both include PAD and END. The
    start symbol, n_symbols, is only an input. encoder: state size of each direction; the decoder's
    is four times as large, because its initial state is [H_1 ; H_T].
    """

    n_words: int
    n_symbols: int
    embedding: int = 32
    encoder: int = 16

    def setup(self):
        features = 4 * self.encoder
        small = _uniform(0.05)
        self.words = nn.Embed(self.n_words, self.embedding, embedding_init=small)
        self.symbols = nn.Embed(self.n_symbols + 1, self.embedding, embedding_init=small)
        self.forward, self.backward = LSTM(self.encoder), LSTM(self.encoder, reverse=True)
        self.decoder = LSTM(features)
        glorot = nn.initializers.glorot_uniform()
        self.attention = self.param("attention", glorot, (features, 2 * self.encoder))
        self.attended = nn.Dense(features, use_bias=False, kernel_init=glorot)
        self.readout = nn.Dense(self.n_symbols, kernel_init=glorot)

    def __call__(self, commands, previous):
        return self.logits(self.embed(commands), commands != PAD, previous)

    def embed(self, commands):
        """Embeddings [B, T, embedding] of command symbols."""
        return self.words(commands)

    def logits(self, words, is_real, previous):
        """As `__call__`, from embeddings [B, T, embedding], so that gradients by them exist."""
        encoded = self.encode(words, is_real)
        # Later symbols do not affect earlier ones, so no mask is needed.
        everywhere = jnp.ones(previous.shape, bool)
        states, _ = self.decoder(self.symbols(previous), everywhere, encoded.start)
        return self._read(states, encoded)

    def encode(self, words, is_real) -> Encoded:
        """Encode embeddings [B, T, embedding]; is_real: boolean [B, T]."""
        forward, backward = self.forward(words, is_real), self.backward(words, is_real)
        both = [jnp.concatenate(pair, axis=-1) for pair in zip(forward, backward)]
        last = jnp.maximum(jnp.sum(is_real, axis=1) - 1, 0)[:, None, None]
        ends = (jnp.take_along_axis(x, last, axis=1)[:, 0] for x in both)
        start = tuple(jnp.concatenate([x[:, 0], end], axis=-1) for x, end in zip(both, ends))
        return Encoded(both[0], start, is_real)

    def encode_commands(self, commands) -> Encoded:
        """Encode command symbols [B, T]."""
        return self.encode(self.embed(commands), commands != PAD)

    def decode(self, carry, symbol, encoded):
        """One step: (state, cell) and symbol [B] -> (state, cell), logits [B, n_symbols]."""
        carry = self.decoder.step(carry, self.symbols(symbol))
        return carry, self._read(carry[0][:, None], encoded)[:, 0]

    def _read(self, queries, encoded):
        """score(q, H_s) = q' W H_s; tanh(W_c [q ; context]); linear."""
        scores = jnp.einsum("blq,bsq->bls", queries @ self.attention, encoded.states)
        lowest = jnp.finfo(scores.dtype).min  # not -inf: a row without a real position would be NaN
        weights = nn.softmax(jnp.where(encoded.is_real[:, None], scores, lowest))
        context = jnp.einsum("bls,bsq->blq", weights, encoded.states)
        return self.readout(jnp.tanh(self.attended(jnp.concatenate([queries, context], axis=-1))))


def _uniform(bound):
    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def previous(symbols: jax.Array, start: int) -> jax.Array:
    """The decoder's inputs for symbols [B, L]: the start symbol, then all symbols but the last."""
    first = jnp.full_like(symbols[:, :1], start)
    return jnp.concatenate([first, symbols[:, :-1]], axis=1)


def greedy(net: Seq2Seq, params: Any, commands: jax.Array, limit: int = 50) -> jax.Array:
    """The likeliest symbol at each step, up to END or `limit` symbols: [B, limit], PAD after END.

    Stops when all commands of the batch have ended.
    """
    variables = {"params": params}
    encoded = net.apply(variables, commands, method="encode_commands")
    n = commands.shape[0]

    def is_running(state):
        i, _, _, ended, _ = state
        return (i < limit) & ~jnp.all(ended)

    def step(state):
        i, carry, symbol, ended, outputs = state
        carry, logits = net.apply(variables, carry, symbol, encoded, method="decode")
        symbol = jnp.where(ended, PAD, jnp.argmax(logits, axis=-1).astype(jnp.int32))
        outputs = jax.lax.dynamic_update_slice(outputs, symbol[:, None], (0, i))
        return i + 1, carry, symbol, ended | (symbol == END), outputs

    symbol = jnp.full(n, net.n_symbols, jnp.int32)
    outputs = jnp.full((n, limit), PAD, jnp.int32)
    start = (0, encoded.start, symbol, jnp.zeros(n, bool), outputs)
    return jax.lax.while_loop(is_running, step, start)[-1]
