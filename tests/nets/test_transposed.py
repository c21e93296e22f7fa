"""Transposed convolutions against their definition, and the decoder made of them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets import decoders
from cgjax.nets.decoders import TransposedDecoder


def scattered(x, kernel):
    """The definition, size 4, stride 2, padding 1: every input pixel paints 4 x 4 output pixels.

    The kernel is PyTorch's, [4, 4, c, o]: the flipped of the one that is correlated.
    """
    batch, n, _, _ = x.shape
    out = np.zeros((batch, 2 * n + 2, 2 * n + 2, kernel.shape[-1]))
    for i in range(n):
        for j in range(n):
            painted = np.einsum("bc,tsco->btso", x[:, i, j], kernel)
            out[:, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4] += painted
    return out[:, 1:-1, 1:-1]


@pytest.mark.parametrize("form", ["direct", "patches"])
def test_doubling_is_scattering(form):
    rng = np.random.default_rng(0)
    x, kernel, bias = (rng.normal(size=s) for s in ((2, 5, 5, 3), (4, 4, 3, 6), (6,)))
    expected = scattered(x, kernel[::-1, ::-1]) + bias
    arrays = (jnp.asarray(a, jnp.float32) for a in (x, kernel, bias))
    found = jax.jit(decoders.double, static_argnames="form")(*arrays, form=form)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_nearest_neighbours():
    """56 pixels at 32: the pixel at floor(i 56 / 32)."""
    x = np.arange(56.0)[None, :, None, None] * np.ones((1, 1, 3, 1))
    found = decoders.resize_nearest(x, 32)
    assert found.shape == (1, 32, 32, 1)
    np.testing.assert_array_equal(found[0, :, 0, 0], np.floor(np.arange(32) * 56 / 32))


def test_layers_of_the_main_cnn():
    """7, 14, 28 pixels, then 28."""
    module = TransposedDecoder(hidden=64, n_hidden=4)
    (image, activations), variables = outline(module, jnp.zeros((5, 56)))
    sizes = [(7, 56, 64), (4, 64, 64), (4, 64, 64), (3, 64, 64), (3, 64, 64), (3, 64, 1)]
    params = variables["params"]
    assert [params[f"conv_{i}"]["kernel"].shape for i in range(6)] == [
        (k, k, c, o) for k, c, o in sizes
    ]
    assert sum(a.size for a in jax.tree.leaves(params)) == sum(
        k * k * c * o + o for k, c, o in sizes
    )
    assert image.shape == (5, 28, 28)
    assert [a.shape for a in activations] == [
        (5, 7, 7, 64),
        (5, 14, 14, 64),
        *[(5, 28, 28, 64)] * 3,
        (5, 28, 28),
    ]


def outline(module, z):
    """Shapes of what the module gives, and of its parameters."""
    return jax.eval_shape(module.init_with_output, jax.random.key(0), z)


def test_overshooting_and_other_starts():
    shapes = {}
    for n, start, n_hidden in ((32, 7, 4), (16, 4, 4), (28, 7, 2)):
        (_, activations), _ = outline(TransposedDecoder(n, 2, n_hidden, start), jnp.zeros((1, 3)))
        shapes[n] = [a.shape[1] for a in activations]
    assert shapes == {32: [7, 14, 28, 56, 56, 32], 16: [4, 8, 16, 16, 16, 16], 28: [7, 14, 28, 28]}
    for module, words in (
        (TransposedDecoder(28, 2, 1), "n_hidden is 1"),
        (TransposedDecoder(form="fast"), "unknown form"),
    ):
        with pytest.raises(ValueError, match=words):
            outline(module, jnp.zeros((1, 3)))


@pytest.fixture(scope="module")
def small():
    module = TransposedDecoder(14, 5, 1, form="direct", background=1.0)
    z = np.random.default_rng(1).normal(size=(2, 6)).astype(np.float32)
    init = jax.jit(module.init, compiler_options={"xla_backend_optimization_level": 0})
    return module, init(jax.random.key(0), z), z


def test_forms_of_the_decoder_agree(small):
    module, params, z = small
    image, activations = jax.jit(module.apply)(params, z)
    other, _ = jax.jit(module.clone(form="patches", background=0.0).apply)(params, z)
    np.testing.assert_allclose(image, other + 1, atol=1e-5)
    assert all(np.min(a) == 0 < np.max(a) for a in activations[:-1])
    np.testing.assert_array_equal(activations[-1], image)


def test_initial_bounds(small):
    """PyTorch's fan-in of a transposed convolution counts output channels."""
    for layer in small[1]["params"].values():
        k, _, _, o = layer["kernel"].shape
        bound = 1 / math.sqrt(o * k * k)
        assert 0.9 * bound < np.abs(layer["kernel"]).max() <= bound
        assert np.abs(layer["bias"]).max() <= bound
