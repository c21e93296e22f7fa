"""Scores against the reference's values and against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core import metrics


@pytest.fixture(scope="module")
def arrays(golden):
    return golden("sprites/metrics")


@pytest.mark.parametrize(
    "metric, name, per_batch, rtol",
    [
        (metrics.mse, "MSE", "mse_per_batch", 1e-5),
        (metrics.r2_variance_weighted, "R2ScoreVW", "r2_vw_per_batch", 1e-5),
        # Ill-conditioned on columns that hardly vary.
        (metrics.r2_uniform, "R2Score", "r2_ua_per_batch", 1e-3),
    ],
)
def test_golden(arrays, metric, name, per_batch, rtol):
    y, yhat, batch = arrays["target"], arrays["pred"], int(arrays["batch_size"])
    metric = jax.jit(metric)
    values = [metric(y[i : i + batch], yhat[i : i + batch]) for i in range(0, len(y), batch)]
    np.testing.assert_allclose(values, arrays[per_batch], rtol=rtol)
    np.testing.assert_allclose(np.mean(values), arrays[name], rtol=rtol)


def test_r2_of_perfect_mean_and_worse_predictions():
    y = np.random.default_rng(0).normal(size=(200, 7)) * np.arange(1.0, 8.0)
    y = y.astype(np.float32)
    mean = np.broadcast_to(np.mean(y, axis=0, keepdims=True), y.shape)
    for r2 in map(jax.jit, (metrics.r2_variance_weighted, metrics.r2_uniform)):
        assert r2(y, y) == 1
        np.testing.assert_allclose(r2(y, mean), 0, atol=1e-5)
        np.testing.assert_allclose(r2(y, 2 * mean - y), -3, rtol=1e-4)


def test_r2_of_targets_far_from_zero():
    """In float32 the sum of squares of such targets has fewer digits than their variance needs."""
    rng = np.random.default_rng(1)
    y = (1000 + rng.normal(0, 0.1, size=(200, 7))).astype(np.float32)
    yhat = (y + rng.normal(0, 0.03, size=y.shape)).astype(np.float32)
    exact, error = y.astype(float), y.astype(float) - yhat
    rss, tss = np.sum(error**2, axis=0), np.sum((exact - exact.mean(axis=0)) ** 2, axis=0)
    for r2, expected in (
        (metrics.r2_variance_weighted, 1 - rss.sum() / tss.sum()),
        (metrics.r2_uniform, np.mean(1 - rss / tss)),
    ):
        np.testing.assert_allclose(jax.jit(r2)(y, yhat), expected, rtol=1e-5)


def test_outputs_that_never_vary():
    y = np.zeros((10, 3), np.float32)
    y[:, 0] = np.arange(10)
    yhat = y + np.float32([0, 0.5, 0])  # wrong on a constant output, right on the other
    assert jax.jit(metrics.r2_variance_weighted)(y, yhat) == 1
    np.testing.assert_allclose(jax.jit(metrics.r2_uniform)(y, yhat), 2 / 3, rtol=1e-6)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"\[n, outputs\]"):
        metrics.r2_uniform(jnp.zeros((4, 2, 2)), jnp.zeros((4, 2, 2)))
