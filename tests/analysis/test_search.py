"""Searches without a gradient find what there is to find, and say what they did not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.analysis import search


def draw(key):
    return {"x": jax.random.uniform(key, (2,), minval=-1, maxval=1)}


def squares(params, data):
    return jnp.sum((params["x"] - data) ** 2)


def test_guess_and_check():
    """Discs of radius 1/2 and 1/20 hold pi/16 and pi/1600 of a square of side 2."""
    levels = jnp.array([0.25, 0.0025, 0.0])
    found = search.guess_and_check(
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
        return search.metropolis(
            key, params, lambda p: squares(p, 0.0), levels, most_steps, 0.05, 0.99
        )

    levels = np.array([1e-3, 0.1], np.float32)
    found = walks(keys, start, 5000)
    assert found.found.all() and (found.losses <= levels[None]).all()
    np.testing.assert_allclose(np.sum(found.params["x"] ** 2, axis=-1), found.losses, rtol=1e-5)
    assert found.n_steps[1, 0] == 0 and found.n_steps[0, 0] > 20
    # The higher level comes first, and what was there is kept.
    assert (found.n_steps[:, 1] <= found.n_steps[:, 0]).all() and found.losses[0, 1] > 1e-3
    assert (found.n_accepted <= found.n_steps[:, 0]).all()
    censored = walks(keys, start, 3)
    np.testing.assert_array_equal(censored.found, [[False] * 2, [True] * 2, [False] * 2])
    np.testing.assert_array_equal(censored.n_steps, [[3, 3], [0, 0], [3, 3]])
