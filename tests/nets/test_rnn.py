"""Encoder and decoder: padding changes nothing, greedy decoding is its own teacher."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.analysis.ntk.functions import equations
from cgjax.nets import rnn

NET = rnn.Seq2Seq(n_words=15, n_symbols=8)
SMALL = rnn.Seq2Seq(n_words=6, n_symbols=5, embedding=4, encoder=3)
LIMIT = 7
# Every length from one word, the end alone, to ten.
LENGTHS = np.arange(1, 11)
RNG = np.random.default_rng(0)


def ended(lengths, width, high):
    symbols = RNG.integers(2, high, (len(lengths), width))
    at = np.arange(width)[None]
    found = np.where(at == lengths[:, None] - 1, rnn.END, symbols) * (at < lengths[:, None])
    return found.astype(np.int32)


COMMANDS = ended(LENGTHS, 10, 6)
SYMBOLS = ended(np.minimum(LENGTHS, LIMIT), LIMIT, 5)


@functools.cache
def params(seed=0):
    """Larger than initial ones, so that outputs are far from uniform."""
    shapes = jax.eval_shape(SMALL.init, jax.random.key(0), COMMANDS, SYMBOLS)["params"]
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)


WIDER = np.pad(COMMANDS, ((0, 0), (0, 3)))


@jax.jit
def outputs(params, commands, symbols):
    """States, and logits given the symbols."""
    variables = {"params": params}
    encoded = SMALL.apply(variables, commands, method="encode_commands")
    seen = rnn.previous(symbols, SMALL.n_symbols)
    return encoded, SMALL.apply(variables, commands, seen)


@functools.cache
def greedy():
    """Symbols [3, 10, LIMIT] of two seeds, and of a network that ends at once; one program."""
    always = jax.tree.map(np.zeros_like, params())
    always["readout"]["bias"][rnn.END] = 1.0
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), params(0), params(1), always)
    decode = jax.vmap(lambda params: rnn.greedy(SMALL, params, WIDER, LIMIT))
    return np.asarray(jax.jit(decode)(stacked))


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
    encoded = jax.eval_shape(
        lambda p, c: NET.apply({"params": p}, c, method="encode_commands"), shapes, words
    )
    assert [part.shape for part in encoded.start] == [(3, 64)] * 2  # [H_1 ; H_T], and cells
    assert shapes["symbols"]["embedding"].shape == (9, 32)  # the start symbol is an input


def test_padding_changes_nothing():
    short, logits = outputs(params(), COMMANDS, SYMBOLS)
    long, other_logits = outputs(params(), WIDER, np.pad(SYMBOLS, ((0, 0), (0, 3))))
    for a, b in zip(short.start, long.start):
        assert a.shape == (10, 12)
        np.testing.assert_allclose(a, b, atol=1e-6)
    short, long = (jax.tree.map(np.asarray, each) for each in (short, long))
    for row, n in enumerate(LENGTHS):  # [H_1 ; H_T], T the last real position
        ends = short.states[row, [0, n - 1]].ravel()
        np.testing.assert_array_equal(short.start[0][row], ends)
        np.testing.assert_allclose(short.states[row, :n], long.states[row, :n], atol=1e-6)
    np.testing.assert_allclose(logits, other_logits[:, :LIMIT], atol=1e-6)


def test_a_plain_loop_gives_the_same_states():
    """The recursion written out in NumPy, forwards and backwards, for each length on its own."""
    weights = jax.tree.map(np.asarray, params())

    def run(layer, x):
        h, c, states = np.zeros(3), np.zeros(3), []
        for row in x:
            total = row @ layer["kernel"]["kernel"] + h @ layer["recurrent"] + layer["bias"]
            i, f, g, o = np.split(total, 4)
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            h = np.tanh(c) / (1 + np.exp(-o))
            states.append(h)
        return np.stack(states)

    states = np.asarray(outputs(params(), COMMANDS, SYMBOLS)[0].states)
    for row, n in enumerate(LENGTHS):
        x = weights["words"]["embedding"][COMMANDS[row, :n]]
        both = [run(weights["forward"], x), run(weights["backward"], x[::-1])[::-1]]
        np.testing.assert_allclose(states[row, :n], np.concatenate(both, axis=1), atol=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_greedy_symbols_are_the_likeliest_given_themselves(seed):
    """Decoded from padded commands, several seeds at once; scored one by one without padding."""
    found = greedy()[seed]
    assert found.shape == (10, LIMIT)
    logits = np.asarray(outputs(params(seed), COMMANDS, found)[1])
    for symbols, scores in zip(found, logits):
        ends = np.flatnonzero(symbols == rnn.END)
        n = ends[0] + 1 if len(ends) else len(symbols)
        np.testing.assert_array_equal(symbols[:n], np.argmax(scores[:n], axis=-1))
        assert not symbols[n:].any()


def test_greedy_stops_at_end():
    np.testing.assert_array_equal(greedy()[2], [[1] + (LIMIT - 1) * [0]] * 10)


def test_initial_values():
    @jax.jit  # returning only some of them spares compiling the rest
    def init(key):
        found = SMALL.init(key, COMMANDS, SYMBOLS)["params"]
        return found["decoder"]["bias"], found["decoder"]["recurrent"], found["words"]["embedding"]

    bias, recurrent, words = map(np.asarray, init(quick_key(0)))
    np.testing.assert_array_equal(bias, np.repeat([0, 1, 0, 0], 12))  # the forget gate is open
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(12), atol=1e-5)
    assert 0.03 < np.abs(words).max() <= 0.05


@pytest.mark.slow
def test_replicas_factorise_their_first_weights_one_after_the_other():
    """On a CPU, a batch of factorisations in the programs of several devices does not end."""

    def init(key):
        return SMALL.init(key, COMMANDS, SYMBOLS)["params"]

    keys = jax.random.split(jax.random.key(0), 3)
    factorisations = [
        equation
        for equation in equations(jax.make_jaxpr(jax.vmap(init))(keys).jaxpr)
        if equation.primitive.name in ("qr", "geqrf", "householder_product")
    ]
    assert factorisations and all(each.invars[0].aval.ndim == 2 for each in factorisations)
    recurrent = jax.jit(jax.vmap(init))(keys)["decoder"]["recurrent"]
    products = recurrent @ recurrent.swapaxes(1, 2)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(12), (3, 12, 12)), atol=1e-5)
