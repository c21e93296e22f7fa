"""Searches without a gradient find what there is to find, and say what they did not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.analysis import landscape


def draw(key):
    return {"x": jax.random.uniform(key, (2,), minval=-1, maxval=1)}


def squares(params, data):
    return jnp.sum((params["x"] - data) ** 2)


def test_guess_and_check():
    """A ring holds pi (high - low) / 4 of a square of side 2, if its edges are squared radii."""
    bands = np.array([[0.05, 0.3], [0.0, 0.0025], [0.0, 0.0]], np.float32)
    guesses = landscape.guess_and_check(
        quick_key(0), draw, squares, jnp.zeros(2), bands, n_draws=8000, n_keep=200, batch=400
    )
    shares = np.asarray(guesses.n_accepted) / guesses.n_draws
    np.testing.assert_allclose(shares, [np.pi / 16, np.pi / 1600, 0], rtol=0.5, atol=0)
    assert shares[0] == pytest.approx(np.pi / 16, abs=0.015)
    # As many as were asked for, as many as there were, none.
    losses, x = np.asarray(guesses.losses), np.asarray(guesses.params["x"])
    n = np.minimum(guesses.n_accepted, 200)
    assert n[0] == 200 > n[1] > 0 == n[2]
    for level in range(3):
        kept = losses[level, : n[level]]
        assert np.all((kept >= bands[level, 0]) & (kept <= bands[level, 1]))
        assert np.isinf(losses[level, n[level] :]).all()
        assert len(np.unique(kept)) == n[level]  # different ones
        np.testing.assert_allclose(np.sum(x[level, : n[level]] ** 2, axis=-1), kept, rtol=1e-5)


@functools.partial(jax.jit, static_argnames="n_steps")
@functools.partial(jax.vmap, in_axes=(0, None, None))
def walks(key, bands, n_steps):
    start = {"x": jax.random.normal(key, (2,))}
    return landscape.metropolis(key, start, lambda p: squares(p, 2.0), bands, n_steps, 0.5)


def test_metropolis():
    """Slow walks reach a ring around (2, 2) as draws do: more often on its side to the origin."""
    bands = np.array([[0.9, 1.0], [4.0, 6.0], [99.0, 100.0]], np.float32)
    keys = jax.random.split(quick_key(0), 400)
    visits = walks(keys, bands, 2000)
    losses, n_steps = np.asarray(visits.losses), np.asarray(visits.n_steps)
    reached = n_steps >= 0
    assert reached[:, 0].mean() > 0.9 and reached[:, 1].mean() > 0.8 and not reached[:, 2].any()
    np.testing.assert_array_equal(reached, (losses >= bands[:, 0]) & (losses <= bands[:, 1]))
    x = np.asarray(visits.params["x"])
    expected = np.sum((x - 2) ** 2, axis=-1)
    np.testing.assert_allclose(expected[reached], losses[reached], rtol=1e-4, atol=1e-5)
    # The band is a thin ring, on which the density depends on the angle alone.
    angles = np.linspace(-np.pi, np.pi, 2001)
    on_edge = 2 + np.stack([np.cos(angles), np.sin(angles)])
    density = np.exp(-np.sum(on_edge**2, axis=0) / 2)
    mean = np.sum(on_edge[0] * density) / np.sum(density)
    assert x[reached[:, 0], 0, 0].mean() == pytest.approx(mean, abs=0.1)
    both = reached[:, 0] & reached[:, 1]
    assert (n_steps[both, 1] < n_steps[both, 0]).mean() > 0.9  # the higher band comes first
    short = walks(keys, bands, 2)
    assert (short.n_steps[:, 0] < 0).mean() > 0.9 and (short.n_accepted <= 2).all()
