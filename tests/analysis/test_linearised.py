"""Conjugate gradients on the tangent kernel against the Jacobian, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis.ntk import linearised

X, X_TEST = np.split(np.random.default_rng(0).normal(size=(13, 3)), [8])
Y = np.random.default_rng(1).normal(size=(8, 2))


def mlp(params, x):
    return jnp.tanh(x @ params["in"]) @ params["out"]


@pytest.fixture(scope="module")
def params():
    rng = np.random.default_rng(2)
    return {"in": rng.normal(size=(3, 20)), "out": rng.normal(size=(20, 2)) / 4}


@pytest.fixture(scope="module")
def expected(params):
    """By the Jacobian with all parameters side by side: the smallest change that fits."""
    every = np.concatenate([X, X_TEST])
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.jit(jax.jacobian(mlp))(params, every))
        jac = np.concatenate([np.asarray(a).reshape(len(every) * 2, -1) for a in leaves], axis=1)
        start = np.asarray(mlp(params, every))
    n = len(X) * 2
    change = np.linalg.lstsq(jac[:n], (Y - start[: len(X)]).ravel(), rcond=None)[0]
    return start[len(X) :] + (jac[n:] @ change).reshape(-1, 2)


@pytest.mark.parametrize("batch", [None, 3])
def test_fit_is_the_smallest_change_that_fits(params, expected, batch):
    with jax.enable_x64(True):
        found = linearised.linearised_fit(mlp, params, X, Y, X_TEST, 1e-9, batch=batch)
        np.testing.assert_allclose(np.asarray(found.predictions), expected, atol=1e-6)
    assert found.converged and found.residual <= 1e-9
    assert 1 < found.n_iterations <= 3 * Y.size


def test_residual_is_that_of_the_fit(params):
    """In float32, at the default tolerance: on the training points f is off by what is reported."""
    params = jax.tree.map(np.float32, params)
    x, y = np.float32(X), np.float32(Y)
    fit = linearised.linearised_fit(mlp, params, x, y, x)
    first = y - np.asarray(mlp(params, x))
    left = np.linalg.norm(y - np.asarray(fit.predictions)) / np.linalg.norm(first)
    assert fit.converged and 0 < fit.residual < 1.1e-3
    np.testing.assert_allclose(fit.residual, left, rtol=0.01)
    cut = linearised.linearised_fit(mlp, params, x, y, x, most_iterations=3)
    assert cut.n_iterations == 3 and not cut.converged
    assert 10 * fit.residual < cut.residual < 1


def test_targets_out_of_reach():
    """One weight for two inputs that differ: the fit is least squares, and says how far off."""

    def line(params, x):
        return x * params

    x, y = np.array([[1.0], [2.0]], np.float32), np.array([[1.0], [1.0]], np.float32)
    found = linearised.linearised_fit(line, np.float32(0), x, y, x, most_iterations=50)
    assert not found.converged and found.n_iterations < 50
    np.testing.assert_allclose(found.predictions, [[0.6], [1.2]], rtol=1e-4)
    np.testing.assert_allclose(found.residual, np.sqrt(0.2 / 2), rtol=1e-4)
    at_once = linearised.linearised_fit(line, np.float32(3), x, 3 * x, x)
    assert at_once.n_iterations == 0 and at_once.converged and at_once.residual == 0


@pytest.mark.parametrize("target, size", [(1e-25, 1), (1e25, 1), (1, 1e-12), (1, 1e10)])
def test_units_of_targets_and_outputs_do_not_matter_in_float32(target, size):
    """Their squares leave the range of float32."""
    x, w = np.float32(X), np.float32([[1.0], [2.0], [3.0]])
    params = {"w": np.zeros((3, 1), np.float32)}
    fit = linearised.linearised_fit(
        lambda params, x: size * (x @ params["w"]), params, x, np.float32(target) * (x @ w), x
    )
    assert fit.converged and fit.n_iterations > 0 and fit.residual < 1e-3
    np.testing.assert_allclose(fit.predictions / np.float32(target), x @ w, atol=1e-2)
