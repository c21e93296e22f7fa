"""Pull-back metrics against closed forms and differences; ranks, probes, dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from cgjax.analysis import geometry

POLAR = np.array([[1.0, 0.3], [2.0, -1.0], [0.5, 2.0]])


pullback = jax.jit(geometry.pullback, static_argnames="f")


def polar(z):
    """The plane in polar coordinates: g = diag(1, r^2), area r."""
    return z[0] * jnp.stack([jnp.cos(z[1]), jnp.sin(z[1])])


def test_pullback_of_polar_coordinates():
    with jax.enable_x64(True):
        tensor = np.asarray(pullback(polar, POLAR))
    expected = np.stack([np.diag([1, r**2]) for r in POLAR[:, 0]])
    np.testing.assert_allclose(tensor, expected, atol=1e-14)
    np.testing.assert_allclose(geometry.volume_element(tensor), POLAR[:, 0])


def test_exact_metric_agrees_with_differences_of_a_quadratic():
    """Central differences of a quadratic are exact; those at the border are not."""

    def f(z):
        return jnp.stack([z[0] ** 2 - z[1], z[0] * z[1], 3 * z[1] ** 2])

    z = np.stack(np.meshgrid(np.arange(5.0), np.arange(6.0), indexing="ij"), axis=-1)
    z = z.reshape(-1, 2)
    with jax.enable_x64(True):
        exact = np.asarray(pullback(f, z)).reshape(5, 6, 2, 2)
    values = np.stack([z[:, 0] ** 2 - z[:, 1], z[:, 0] * z[:, 1], 3 * z[:, 1] ** 2], axis=1)
    tensor = geometry.grid_tensor(values.reshape(5, 6, 3))
    np.testing.assert_allclose(tensor[1:-1, 1:-1], exact[1:-1, 1:-1], atol=1e-10)
    assert np.abs(tensor - exact)[0].max() > 0.1


def test_volume_of_three_factors():
    rng = np.random.default_rng(0)
    jac = rng.normal(size=(4, 7, 3))
    volume = geometry.volume_element(np.einsum("noi,noj->nij", jac, jac))
    expected = [np.prod(np.linalg.svd(j, compute_uv=False)) for j in jac]
    np.testing.assert_allclose(volume, expected)


def test_ranks_where_a_layer_folds():
    """ReLU units: dead, one alive, two that see the same direction, two that do not."""
    kernel = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])

    def f(z):
        return jax.nn.relu(jnp.asarray(kernel, z.dtype) @ z)

    def nearly(z):
        return jnp.stack([z[0], z[0] + 1e-4 * z[1]])

    z = np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]], np.float32)
    ranks = jax.jit(geometry.rank_map, static_argnames=("f", "rtol"))
    np.testing.assert_array_equal(ranks(f, z), [0, 1, 1, 2])
    assert ranks(nearly, z[:1])[0] == 1
    assert ranks(nearly, z[:1], rtol=1e-6)[0] == 2


def test_probe_is_least_squares_with_an_intercept():
    rng = np.random.default_rng(0)
    features, noise = rng.normal(size=(40, 2, 3)), rng.normal(size=(40, 2))
    weights = rng.normal(size=(6, 2))
    targets = features.reshape(40, 6) @ weights + [5.0, -3] + 0.1 * noise
    probe = geometry.probe(features, targets)
    design = np.concatenate([features.reshape(40, 6), np.ones((40, 1))], axis=1)
    expected = np.linalg.lstsq(design, targets, rcond=None)[0]
    np.testing.assert_allclose(probe.weights, expected[:-1], atol=1e-10)
    np.testing.assert_allclose(probe.intercept, expected[-1], atol=1e-10)
    left = np.var(targets - design @ expected, axis=0) / np.var(targets, axis=0)
    np.testing.assert_allclose(probe.r2, 1 - left)
    assert np.isnan(probe.r2_held_out).all()


def test_probe_on_points_held_out():
    """Fitted where activations are linear in the target; outside they fold back."""
    x = np.arange(10.0)
    activations = np.where(x < 6, x, 12 - x)[:, None]
    probe = geometry.probe(activations, x[:, None], x < 6)
    np.testing.assert_allclose(probe.r2, 1)
    out = x[6:]
    wrong = np.sum((out - (12 - out)) ** 2) / np.sum((out - out.mean()) ** 2)
    np.testing.assert_allclose(probe.r2_held_out, 1 - wrong)
    for level in (1.0, 0.1):  # the mean of seven times 0.1 is rounded
        constant = geometry.probe(activations[:7], np.full((7, 1), level))
        assert np.isnan(constant.r2)


@pytest.mark.parametrize("shape", [(200, 8), (8, 200)])
def test_effective_rank_counts(shape):
    """Variances 1, 1/2, 1/100 and one below the threshold, whichever side is longer."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in shape)
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    variances = np.array([1, 0.5, 0.01, 5e-4])
    activations = left @ np.diag(np.sqrt((shape[0] - 1) * variances)) @ right.T + 7.0
    found = geometry.effective_rank(activations)
    np.testing.assert_allclose(found.eigenvalues[:4], variances, rtol=1e-8)
    assert found.n_above == 3 and found.n_components == 2  # 1.5 of 1.5105 is above 99 %
    assert geometry.effective_rank(activations, 1e-4, 0.9999).n_above == 4
    assert geometry.effective_rank(activations, 1e-4, 0.999).n_components == 3
    assert geometry.effective_rank(activations, share=1.0).n_components == 4
    assert geometry.effective_rank(np.ones(shape))[:2] == (0, 0)
    # The mean of seven times 0.1 is rounded, and float32 activations are rounded themselves.
    rounded = np.float32(0.1) + np.spacing(np.float32(0.1)) * rng.integers(-1, 2, (7, 3))
    for constant in (np.full((7, 3), 0.1), rounded.astype(np.float32)):
        assert geometry.effective_rank(constant)[:2] == (0, 0)


def test_principal_components_of_a_plane():
    """Points of a plane in many dimensions keep their distances; what is not there is 0."""
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(12, 2)) * (3, 1)
    axes = np.linalg.qr(rng.normal(size=(40, 2)))[0]
    components = geometry.principal_components(plane @ axes.T + 5)
    assert (
        components.shares.sum() == pytest.approx(1) and components.shares[0] > components.shares[1]
    )

    def distances(points):
        return np.linalg.norm(points[:, None] - points[None], axis=-1)

    np.testing.assert_allclose(distances(components.coordinates), distances(plane), atol=1e-10)
    alone = geometry.principal_components(np.array([[0.0], [2.0]]))
    np.testing.assert_allclose(alone.shares, [1, 0], atol=1e-12)
    np.testing.assert_array_equal(geometry.principal_components(np.full((7, 3), 0.1)).shares, 0)
    with pytest.raises(ValueError, match="n>=2"):
        geometry.principal_components(np.zeros((1, 3)))


# --- linear probes --------------------------------------------------------------------------------
# Linear probes against refitting without each row, and against scikit-learn's ridge.


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
    with pytest.raises(ValueError, match="D = 2 as in features"):
        geometry.kernel(np.ones((3, 2)), np.ones((3, 1)))
    with pytest.raises(ValueError, match="features"):
        geometry.kernel(np.full((3, 2), np.nan), np.ones((3, 2)))


@pytest.mark.parametrize("n", [3, 7])
def test_constants_have_no_direction_whatever_their_mean_rounds_to(n):
    same = np.full((n, 2), 0.1)  # NumPy's mean of three or seven of these is not 0.1
    assert np.any(same != same.mean(axis=0))
    rng = np.random.default_rng(0)
    varied, targets = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    assert geometry.effective_rank(same)[:2] == (0, 0)
    assert not geometry.principal_components(same).shares.any()
    assert np.isnan(geometry.probe(varied, same).r2).all()
    known = geometry.kernel(same, varied)
    mean = np.broadcast_to(targets.mean(), (n, 1))
    np.testing.assert_allclose(geometry.ridge(known, targets).new, mean)
    np.testing.assert_allclose(geometry.ridgeless(known, targets), mean)
    probe = geometry.probe(
        np.concatenate([same, varied]), np.tile(targets, (2, 1)), np.arange(2 * n) < n
    )
    assert not probe.weights.any()
