"""Linear probes against refitting without each row, and against scikit-learn's ridge."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from cgjax.analysis import geometry


@pytest.mark.parametrize("n, d", [(12, 4), (10, 30)])
def test_leaving_out_is_refitting(n, d):
    rng = np.random.default_rng(0)
    x, y, new = rng.normal(size=(n, d)) + 3, rng.normal(size=(n, 2)), rng.normal(size=(5, d))
    kernel = geometry.kernel(x, new)
    for strength in (1e-4, 1.0):
        fit = geometry.ridge(kernel, y, [strength])
        alpha = strength * kernel.values.mean()
        whole = Ridge(alpha).fit(x, y)
        np.testing.assert_allclose(fit.outputs, whole.predict(x), atol=1e-8)
        np.testing.assert_allclose(fit.new, whole.predict(new), atol=1e-8)
        for i in range(n):
            rest = np.arange(n) != i
            refitted = Ridge(alpha).fit(x[rest], y[rest]).predict(x[[i]])[0]
            np.testing.assert_allclose(fit.left_out[i], refitted, atol=1e-6)


def test_strength_follows_the_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 60))
    signal = x @ rng.normal(size=(60, 1))
    kernel = geometry.kernel(x, x[:1])
    clean = geometry.ridge(kernel, signal).strength
    noisy = geometry.ridge(kernel, rng.normal(size=(40, 1))).strength
    assert noisy >= 1 > clean


def test_ridgeless_interpolates():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 30)), rng.normal(size=(10, 3))
    np.testing.assert_allclose(geometry.ridgeless(geometry.kernel(x, x), y), y, atol=1e-9)
    same = np.ones((4, 2))  # features that say nothing
    np.testing.assert_allclose(
        geometry.ridgeless(geometry.kernel(same, same), y[:4]), y[:4].mean(0)[None].repeat(4, 0)
    )


def test_bad_input():
    with pytest.raises(ValueError, match="features is"):
        geometry.kernel(np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="features"):
        geometry.kernel(np.full((3, 2), np.nan), np.ones((3, 2)))
