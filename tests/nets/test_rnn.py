"""Encoder and decoder: padding changes nothing, greedy decoding is its own teacher."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets import rnn

NET = rnn.Seq2Seq(n_words=15, n_symbols=8)
SMALL = rnn.Seq2Seq(n_words=6, n_symbols=5, embedding=4, encoder=3)
LENGTHS = (1, 3, 2, 4)
COMMANDS = np.array([[1, 0, 0, 0], [2, 3, 1, 0], [5, 1, 0, 0], [4, 2, 3, 1]])
SYMBOLS = np.array([[2, 3, 1, 0], [4, 4, 4, 1], [1, 0, 0, 0], [3, 1, 0, 0]])


@functools.cache
def params(seed=0):
    init = jax.jit(SMALL.init, compiler_options={"xla_backend_optimization_level": 0})
    found = init(jax.random.key(seed), COMMANDS, SYMBOLS)["params"]
    return jax.tree.map(lambda leaf: 2 * leaf, found)  # far from uniform outputs


def padded(array, n):
    return np.pad(array, ((0, 0), (0, n)))


@jax.jit
def logits(params, commands, symbols):
    seen = rnn.previous(symbols, SMALL.n_symbols)
    return SMALL.apply({"params": params}, commands, seen)


greedy = jax.jit(lambda params, commands: rnn.greedy(SMALL, params, commands, limit=7))


def test_sizes():
    """Those of the paper's appendix: H of 32, a decoder of 64, eight output symbols."""
    words = jax.ShapeDtypeStruct((3, 10), jnp.int32)
    out, shapes = jax.eval_shape(NET.init_with_output, jax.random.key(0), words, words)
    assert out.shape == (3, 10, 8)
    shapes = shapes["params"]
    assert shapes["attention"].shape == (64, 32)
    assert shapes["attended"]["kernel"].shape == (96, 64)
    assert shapes["forward"]["recurrent"].shape == (16, 64)
    assert shapes["decoder"]["kernel"]["kernel"].shape == (32, 256)
    assert shapes["words"]["embedding"].shape == (15, 32)
    assert shapes["symbols"]["embedding"].shape == (9, 32)  # the start symbol is an input


@pytest.mark.parametrize("more", [1, 6])
def test_padding_changes_nothing(more):
    encode = functools.partial(SMALL.apply, {"params": params()}, method="encode_commands")
    short, long = encode(COMMANDS), encode(padded(COMMANDS, more))
    for a, b in zip(short.start, long.start):
        assert a.shape == (4, 12)
        np.testing.assert_allclose(a, b, atol=1e-6)
    for row, n in enumerate(LENGTHS):  # [H_1 ; H_T], T the last real position; each length alone
        ends = short.states[row, jnp.array([0, n - 1])].ravel()
        np.testing.assert_array_equal(short.start[0][row], ends)
        np.testing.assert_allclose(short.states[row, :n], long.states[row, :n], atol=1e-6)
        alone = encode(COMMANDS[row : row + 1, :n])
        np.testing.assert_allclose(short.states[row, :n], alone.states[0], atol=1e-6)
    found = logits(params(), COMMANDS, SYMBOLS)
    other = logits(params(), padded(COMMANDS, more), padded(SYMBOLS, more))
    np.testing.assert_allclose(found, other[:, : SYMBOLS.shape[1]], atol=1e-6)
    np.testing.assert_array_equal(
        greedy(params(), COMMANDS), greedy(params(), padded(COMMANDS, more))
    )


def test_a_plain_loop_gives_the_same_states():
    """The recursion written out in NumPy, forwards and backwards."""
    own = jax.tree.map(np.asarray, params())
    x = own["words"]["embedding"][COMMANDS[3]]

    def run(layer, x):
        h, c, found = np.zeros(3), np.zeros(3), []
        for row in x:
            total = row @ layer["kernel"]["kernel"] + h @ layer["recurrent"] + layer["bias"]
            i, f, g, o = np.split(total, 4)
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            h = np.tanh(c) / (1 + np.exp(-o))
            found.append(h)
        return np.stack(found)

    encoded = SMALL.apply({"params": params()}, COMMANDS, method="encode_commands")
    states = np.concatenate([run(own["forward"], x), run(own["backward"], x[::-1])[::-1]], axis=1)
    np.testing.assert_allclose(encoded.states[3], states, atol=1e-6)


def test_greedy_symbols_are_the_likeliest_given_themselves():
    found = np.asarray(greedy(params(), COMMANDS))
    assert found.shape == (4, 7)
    likeliest = np.argmax(logits(params(), COMMANDS, found), axis=-1)
    for row, symbols in enumerate(found):
        ends = np.flatnonzero(symbols == rnn.END)
        n = ends[0] + 1 if len(ends) else len(symbols)
        np.testing.assert_array_equal(symbols[:n], likeliest[row, :n])
        assert not symbols[n:].any()


def test_greedy_stops_at_end():
    always = jax.tree.map(jnp.zeros_like, params())
    always["readout"]["bias"] = always["readout"]["bias"].at[rnn.END].set(1.0)
    np.testing.assert_array_equal(greedy(always, COMMANDS), [[1, 0, 0, 0, 0, 0, 0]] * 4)


def test_seeds_as_an_axis():
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), params(0), params(1))
    together = jax.jit(jax.vmap(greedy, in_axes=(0, None)))(stacked, COMMANDS)
    for row, seed in enumerate((0, 1)):
        np.testing.assert_array_equal(together[row], greedy(params(seed), COMMANDS))


def test_the_forget_gate_starts_open():
    layer = params()["decoder"]
    bias = np.asarray(layer["bias"]) / 2
    np.testing.assert_array_equal(bias, np.repeat([0, 1, 0, 0], 12))
    recurrent = np.asarray(layer["recurrent"]) / 2
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(12), atol=1e-5)
    assert np.abs(params()["words"]["embedding"]).max() <= 0.1
