"""Infinitely wide networks: stored kernels, rounding, networks that are wide."""

import math

import jax
import numpy as np
import pytest

from cgjax.analysis import ntk, wide

ROWS = 20  # of the stored inputs; others come as many, since every shape is compiled


@pytest.mark.parametrize("depth", (1, 2, 3, 4))
@pytest.mark.parametrize("name", ("ntk_mlp", "ntk_mlp_bias"))
def test_golden_kernels(golden, name, depth):
    arrays = golden(f"kernels/{name}")
    x, variances = arrays["X"], (float(arrays["W_std"]) ** 2, float(arrays["b_std"]) ** 2)
    nngp, tangent = wide.relu_mlp(x, None, depth, *variances)
    assert nngp.dtype == tangent.dtype == np.float64
    np.testing.assert_allclose(nngp, arrays[f"nngp_{depth}"], atol=1e-10)
    np.testing.assert_allclose(tangent, arrays[f"ntk_{depth}"], atol=1e-10)
    # The library smooths arccos near 1.
    np.testing.assert_allclose(nngp, arrays[f"nngp_{depth}_library"], atol=1e-13)
    np.testing.assert_allclose(tangent, arrays[f"ntk_{depth}_library"], atol=1e-6)
    # A copy is recognised, and so is an input that both sides have.
    for shift in (0, 3):
        _, tangent = wide.relu_mlp(x, np.roll(x, shift, axis=0), depth, *variances)
        expected = np.roll(arrays[f"ntk_{depth}"], shift, axis=1)
        np.testing.assert_allclose(tangent, expected, atol=1e-10)


def test_self_correlation_is_one_whatever_the_rounding():
    """Long inputs of tiny values: the kernel's diagonal is known in closed form."""
    x = 1e-3 * np.random.default_rng(0).normal(size=(ROWS, 3001))
    nngp, tangent = wide.relu_mlp(x, None, depth=6)
    variance = 2 * np.mean(x * x, axis=1)
    np.testing.assert_allclose(np.diag(nngp), variance, rtol=1e-12)
    np.testing.assert_allclose(np.diag(tangent), 7 * variance, rtol=1e-12)


def test_an_input_of_zeros_has_kernel_zero():
    x = np.repeat([[0.0], [1.0]], (1, ROWS - 1), axis=0) * np.ones(3)
    nngp, tangent = wide.relu_mlp(x, None, depth=2)
    np.testing.assert_array_equal(nngp[0], 0)
    np.testing.assert_array_equal(tangent[0], 0)
    assert np.all(nngp[1:, 1:] > 0) and np.all(tangent[1:, 1:] > 0)


def test_empirical_kernels_of_wide_networks_scatter_around_it():
    """Two hidden layers of 500 units in NTK parameterisation, ten outputs, sixteen draws."""
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    sizes = (3, 500, 500, 10)

    def draw(key):
        shapes = [[(a, b), (1, b)] for a, b in zip(sizes, sizes[1:])]
        keys = jax.random.split(key, (3, 2))
        return [
            [jax.random.normal(k, shape) for k, shape in zip(*pair)] for pair in zip(keys, shapes)
        ]

    def f(params, x):
        for i, (weight, bias) in enumerate(params):
            x = jax.nn.relu(x) if i else x
            x = x @ weight * math.sqrt(1.8 / len(weight)) + math.sqrt(0.1) * bias
        return x

    kernel = jax.jit(lambda key: ntk.empirical(f, draw(key), x, form="mean_trace"))
    kernels = np.stack([kernel(key) for key in jax.random.split(jax.random.key(0), 16)])
    error = np.std(kernels, axis=0, ddof=1) / 4
    _, expected = wide.relu_mlp(np.resize(x, (ROWS, 3)), None, 2, 1.8, 0.1)
    expected = expected[:4, :4]
    assert np.all(error < 0.05 * expected)
    np.testing.assert_array_less(np.abs(kernels.mean(axis=0) - expected), 4 * error)
