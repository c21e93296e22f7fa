"""Norms in one pass over memory keep their digits and have the derivatives of two passes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets.norm import BatchNorm, moments, some_value, standardise

AXES = (0, 1, 2)


def values(mean, shape=(6, 5, 4, 3)):
    return (mean + np.random.default_rng(0).normal(size=shape)).astype(np.float32)


@pytest.mark.parametrize("mean", [0.0, 30.0, 1e4])
def test_variance_keeps_its_digits(mean):
    x = jnp.asarray(values(mean))
    near = some_value(x, AXES)
    found_mean, found_var, count = moments(x - near)
    exact = np.asarray(x, float)
    assert count == 120
    np.testing.assert_allclose(near.ravel() + found_mean, exact.mean(AXES), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found_var, exact.var(AXES), rtol=1e-5)


def test_about_zero_the_digits_would_be_lost():
    """What the value that is subtracted is for."""
    x = values(1e4)
    _, found, _ = moments(jnp.asarray(x))
    assert np.max(np.abs(found / x.astype(float).var(AXES) - 1)) > 0.1


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_first_batch_far_from_zero_keeps_its_digits(is_masked):
    """Its running mean is still zero, and rows that do not count may lie elsewhere."""
    x = values(1e4)
    mask = np.array([0, 1, 1, 0, 1, 1], np.float32) if is_masked else None
    if is_masked:
        x[[0, 3]] = 0.0
    norm = BatchNorm()
    variables = norm.init(jax.random.key(0), x)
    y, changed = norm.apply(variables, x, True, mask, mutable=["batch_stats"])
    rows = np.flatnonzero(np.ones(6) if mask is None else mask)
    exact = x[rows].astype(float)
    expected = (exact - exact.mean(AXES)) / np.sqrt(exact.var(AXES) + 1e-5)
    np.testing.assert_allclose(y[rows], expected, atol=1e-4)
    unbiased = exact.var(AXES) * exact[..., 0].size / (exact[..., 0].size - 1)
    found = changed["batch_stats"]["var"]
    np.testing.assert_allclose(found, 0.9 + 0.1 * unbiased, rtol=1e-5)


def around_the_mean(x, axes, weights):
    """(x - mean) / sqrt(var + epsilon) in two passes, float64."""
    count = jnp.sum(weights * jnp.ones_like(x), axes, keepdims=True)
    centred = x - jnp.sum(weights * x, axes, keepdims=True) / count
    var = jnp.sum(weights * centred**2, axes, keepdims=True) / count
    return centred / jnp.sqrt(var + 1e-5)


@pytest.mark.parametrize("kind", ["batch", "instance"])
def test_derivatives_are_those_around_the_mean(kind):
    """Reverse and forward mode, and the gradient of a gradient's length."""
    x, seen = values(30.0), np.random.default_rng(1).normal(size=(6, 5, 4, 3))
    mask = np.array([1, 1, 0, 1, 1, 0], np.float32)
    norm = BatchNorm()
    variables = norm.init(jax.random.key(0), x)
    variables["batch_stats"]["mean"] += 29.0

    def ours(x):
        if kind == "instance":
            return standardise(x, (1, 2), 1e-5)
        return norm.apply(variables, x, True, mask, mutable=["batch_stats"])[0]

    def reference(x):
        if kind == "instance":
            return around_the_mean(x, (1, 2), 1.0)
        return around_the_mean(x, AXES, mask.astype(float).reshape(-1, 1, 1, 1))

    def derivatives(f):
        def loss(x):
            return jnp.sum(jnp.sin(f(x) * seen))

        @jax.jit
        def all_of(x):
            slope = jax.grad(loss)
            return (
                f(x),
                slope(x),
                jax.jvp(f, (x,), (jnp.cos(x),))[1],
                jax.grad(lambda x: jnp.sum(slope(x) ** 2))(x),
            )

        return all_of

    found = derivatives(ours)(x)
    with jax.enable_x64(True):
        expected = derivatives(reference)(jnp.asarray(x, jnp.float64))
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, atol=2e-5 * np.max(np.abs(other)))


def test_bfloat16_is_normalised_in_float32():
    x = jnp.asarray(values(30.0), jnp.bfloat16)
    norm = BatchNorm()
    variables = norm.init(jax.random.key(0), x)
    y, changed = norm.apply(variables, x, True, mutable=["batch_stats"])
    exact = np.asarray(x, float)
    expected = (exact - exact.mean(AXES)) / np.sqrt(exact.var(AXES) + 1e-5)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(y, float), expected, atol=0.01)  # of its rounding
    np.testing.assert_allclose(changed["batch_stats"]["mean"], 0.1 * exact.mean(AXES), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(standardise(x, AXES, 1e-5), float), expected, atol=0.01)
