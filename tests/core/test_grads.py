"""Other gradients against value_and_grad; searches without one find what there is to find."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from torch_nets import quick_key

from cgjax.core import grads
from cgjax.core.errors import BadInput

PARAMS = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.array([0.3, -1.0])}
CURVATURE = jnp.array([1.0, 2.0, 0.5, 3.0, 1.5, 1.0])


def loss(params, extra, batch, key, step, replica):
    """A quadratic, with auxiliary values, in the form that the training loop calls."""
    vector = jnp.concatenate([params["b"], params["w"].ravel()])
    value = jnp.sum(CURVATURE * (vector - batch) ** 2)
    return value, (extra, {"length": jnp.sum(vector**2)})


ARGUMENTS = (PARAMS, {}, jnp.full(6, 0.7), quick_key(0), 0, {})


def of(way):
    """For two replicas at once, as the training loop has it."""
    replicas = jax.tree.map(lambda leaf: jnp.stack([leaf, 1 - leaf]), PARAMS)
    each = jax.vmap(way(loss, has_aux=True), in_axes=(0, *5 * [None]))
    return jax.jit(each)(replicas, *ARGUMENTS[1:])


@pytest.mark.parametrize(
    "way, atol", [(grads.forward_mode, 1e-6), (grads.finite_differences(0.05), 1e-3)]
)
def test_a_quadratic(way, atol):
    found, expected = of(way), of(jax.value_and_grad)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found[0], expected[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), found[1], expected[1])


def test_without_auxiliary_values():
    value, gradient = grads.forward_mode(jnp.sum)(jnp.arange(3.0))
    assert value == 3
    np.testing.assert_array_equal(gradient, np.ones(3))


def test_an_evolution_strategy_estimates_the_gradient():
    (value, _), found = of(grads.evolution(0.1, 1000))
    (expected_value, _), expected = of(jax.value_and_grad)
    np.testing.assert_array_equal(value, expected_value)
    found, expected = (ravel_pytree(each)[0] for each in (found, expected))
    cosine = found @ expected / (jnp.linalg.norm(found) * jnp.linalg.norm(expected))
    assert cosine > 0.98
    assert jnp.linalg.norm(found) == pytest.approx(float(jnp.linalg.norm(expected)), rel=0.15)


def draw(key):
    return {"x": jax.random.uniform(key, (2,), minval=-1, maxval=1)}


def squares(params, data):
    return jnp.sum((params["x"] - data) ** 2)


def test_guess_and_check():
    """Discs of radius 1/2 and 1/20 hold pi/16 and pi/1600 of a square of side 2."""
    levels = jnp.array([0.25, 0.0025, 0.0])
    found = grads.guess_and_check(
        quick_key(0), draw, squares, jnp.zeros(2), levels, n_draws=8000, n_keep=200, batch=400
    )
    shares = np.asarray(found.n_accepted) / found.n_draws
    np.testing.assert_allclose(shares, [np.pi / 16, np.pi / 1600, 0], rtol=0.5, atol=0)
    assert shares[0] == pytest.approx(np.pi / 16, abs=0.015)
    # As many as were asked for, as many as there were, none.
    losses, x = np.asarray(found.losses), np.asarray(found.params["x"])
    n = np.minimum(found.n_accepted, 200)
    assert n[0] == 200 > n[1] > 0 == n[2]
    for level in range(3):
        kept = losses[level, : n[level]]
        assert np.all(kept <= levels[level]) and np.isinf(losses[level, n[level] :]).all()
        assert len(np.unique(kept)) == n[level]  # different ones
        np.testing.assert_allclose(np.sum(x[level, : n[level]] ** 2, axis=-1), kept, rtol=1e-5)


def test_metropolis():
    start = {"x": jnp.array([[0.9, -0.8], [0.0, 0.01], [0.5, 0.5]])}
    keys = jax.random.split(quick_key(0), 3)

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0, None))
    def walks(key, params, most_steps):
        return grads.metropolis(
            key, params, lambda p: squares(p, 0.0), 1e-3, most_steps, 0.05, 0.99
        )

    found = walks(keys, start, 5000)
    assert found.found.all() and (found.loss <= 1e-3).all()
    assert found.n_steps[1] == 0 and found.n_steps[0] > 20
    assert (found.n_accepted <= found.n_steps).all()
    censored = walks(keys, start, 3)
    np.testing.assert_array_equal(censored.found, [False, True, False])
    np.testing.assert_array_equal(censored.n_steps, [3, 0, 3])


def test_nonsense_is_refused():
    for words, call in {
        "step": lambda: grads.finite_differences(0.0),
        "sigma": lambda: grads.evolution(-1.0),
        "batches of 3": lambda: grads.guess_and_check(
            quick_key(0), draw, squares, jnp.zeros(2), jnp.ones(1), 10, 2, 3
        ),
    }.items():
        with pytest.raises(BadInput, match=words):
            call()
