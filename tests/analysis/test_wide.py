"""Infinitely wide networks: stored kernels, all pairs of positions, networks that are wide."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import ntk, wide

ROWS = 20  # of the stored inputs; others come as many, since every shape is compiled

# --- MLP ------------------------------------------------------------------------------------------


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

    kernel = jax.jit(lambda key: ntk.empirical(f, draw(key), x, form="mean_trace", verbose=False))
    found = np.stack([kernel(key) for key in jax.random.split(jax.random.key(0), 16)])
    error = np.std(found, axis=0, ddof=1) / 4
    _, expected = wide.relu_mlp(np.resize(x, (ROWS, 3)), None, 2, 1.8, 0.1)
    expected = expected[:4, :4]
    assert np.all(error < 0.05 * expected)
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - expected), 4 * error)


# --- ConvNet --------------------------------------------------------------------------------------


def all_positions(x, n_blocks, kernel, pool, n_dense, weight_var, bias_var):
    """The kernels with the covariance of every pair of positions: [i, j, y, x, y', x']."""
    n = len(x)
    cov = np.einsum("ihwc,jyxc->ijhwyx", x, x) / x.shape[-1]
    tangent = np.zeros_like(cov)

    def convolve(k):
        size = k.shape[2] - kernel + 1
        window = [(slice(a, a + size), slice(b, b + size)) for a, b in np.ndindex(kernel, kernel)]
        return weight_var * sum(k[:, :, a, b, a, b] for a, b in window) / kernel**2

    def relu(k, norm, own):
        c = np.where(own, 1, np.clip(k / norm, -1, 1))
        angle = np.arccos(c)
        slope = (np.pi - angle) / (2 * np.pi)
        return norm * (np.sin(angle) / (2 * np.pi) + slope * c), slope

    for _ in range(n_blocks):
        cov = convolve(cov) + bias_var
        tangent = cov + convolve(tangent)
        shape, size = cov.shape, n * cov.shape[2] ** 2
        flat = cov.transpose(0, 2, 3, 1, 4, 5).reshape(size, size)
        root = np.sqrt(np.diag(flat))
        flat, slope = relu(flat, np.outer(root, root), np.eye(size, dtype=bool))
        turned = (n, *shape[2:4], n, *shape[4:])
        cov, slope = (a.reshape(turned).transpose(0, 3, 1, 2, 4, 5) for a in (flat, slope))
        features = np.einsum("ijyxyx->ij", cov) / shape[2] ** 2
        cov, tangent = cov / (1 + 1e-5), slope * tangent / (1 + 1e-5)

    def pooled(k):
        m = k.shape[2] // pool
        k = k[(np.s_[:], np.s_[:], *[np.s_[: m * pool]] * 4)]
        k = k.reshape(n, n, m, pool, m, pool, m, pool, m, pool)
        return np.einsum("ijyaxbycxd->ij", k) / (m**2 * pool**4)

    cov = weight_var * pooled(cov) + bias_var
    tangent = cov + weight_var * pooled(tangent)
    for _ in range(n_dense):
        root = np.sqrt(np.diag(cov))
        cov, slope = relu(cov, np.outer(root, root), np.eye(n, dtype=bool))
        cov = weight_var * cov + bias_var
        tangent = cov + weight_var * slope * tangent
    return cov, tangent, features


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).normal(size=(3, 9, 9, 2))


@pytest.mark.parametrize("settings", [(2, 3, 2, 2, 2.0, 0.1), (2, 2, 3, 1, 1.7, 0.0)])
def test_convnet_follows_from_all_pairs_of_positions(images, settings):
    """Odd sizes after the convolutions: 5 pooled by 2, 7 pooled by 3."""
    expected = all_positions(images, *settings)
    for found, right in zip(wide.convnet(images, None, *settings), expected):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, right, atol=1e-12)


def test_convnet_in_chunks_between_two_sets_of_images(images):
    """A chunk that does not divide the pairs, and an image that both sides have."""
    settings = (2, 3, 2, 2, 2.0, 0.1)
    expected = all_positions(images, *settings)
    for found, right in zip(wide.convnet(images[:2], images[1:], *settings, chunk=3), expected):
        np.testing.assert_allclose(found, right[:2, 1:], atol=1e-12)


@pytest.mark.slow  # 9 s: closed forms have golden values
def test_average_pooling_of_sampled_networks_agrees(images):
    small = images.astype(np.float32)
    options = {"weight_var": 2.0, "bias_var": 0.1}
    exact = wide.convnet(small, n_blocks=2, kernel=3, n_dense=1, **options)
    shape = {"filters": (128, 128), "dense": (256,), "kernel": 3, "n_draws": 24}
    sampled = wide.sampled_convnet(jax.random.key(0), small, pooling="average", **shape, **options)
    for found, error, right in (
        (sampled.nngp, sampled.nngp_error, exact.nngp),
        (sampled.ntk, sampled.ntk_error, exact.ntk),
    ):
        assert np.all(error < 0.1 * np.abs(right))
        np.testing.assert_array_less(np.abs(found - right), 4 * error + 0.02 * np.abs(right))
    # The largest of four is larger than their mean.
    largest = wide.sampled_convnet(jax.random.key(0), small, small[:1], **shape, **options)
    assert largest.ntk.shape == (3, 1)
    assert np.all(largest.nngp > sampled.nngp[:, :1] + 4 * largest.nngp_error)


def test_what_cannot_be_done_is_said(images):
    with pytest.raises(ValueError, match="use images of 18 x 18"):
        wide.convnet(images)
    with pytest.raises(ValueError, match="'max' or 'average'"):
        wide.sampled_convnet(jax.random.key(0), jnp.asarray(images), pooling="mean")
    with pytest.raises(ValueError, match="two draws or more"):
        wide.sampled_convnet(jax.random.key(0), jnp.asarray(images), n_draws=1)
