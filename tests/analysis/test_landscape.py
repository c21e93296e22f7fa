"""Distances, barriers, matched units, cancelling updates; the tangent kernel's split."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import quick_key

from cgjax.analysis import dependence, landscape
from cgjax.core import tree

A, B = {"w": jnp.array([1.0, 0.0])}, {"w": jnp.array([-1.0, 0.0])}


def test_distance_and_barrier():
    assert landscape.distance(A, B) == 2

    def double_well(params):
        return jnp.sum((params["w"] ** 2 - jnp.array([1.0, 0.0])) ** 2)

    found = landscape.barrier(double_well, A, B, 5)
    np.testing.assert_allclose(found.losses, [0, 0.5625, 1, 0.5625, 0], atol=1e-6)
    assert found.height == 1
    slope = landscape.barrier(lambda params: params["w"][0], A, B)
    assert slope.height == pytest.approx(0, abs=1e-6)


def test_units_in_another_order_are_found_again():
    rng = np.random.default_rng(0)
    sizes = (2, 5, 5, 3)
    a = [(rng.normal(size=s), rng.normal(size=s[1])) for s in itertools.pairwise(sizes)]
    b = list(a)
    for i, n in enumerate(sizes[1:-1]):
        order = rng.permutation(n)
        b[i] = (b[i][0][:, order], b[i][1][order])
        b[i + 1] = (b[i + 1][0][order], b[i + 1][1])
    assert landscape.distance(a, b) > 1
    found = landscape.matched(a, b)
    assert landscape.distance(a, found) == 0

    def run(layers, x):
        for kernel, bias in layers[:-1]:
            x = np.maximum(x @ kernel + bias, 0)
        return x @ layers[-1][0] + layers[-1][1]

    other = [(rng.normal(size=k.shape), rng.normal(size=c.shape)) for k, c in a]
    found = landscape.matched(a, other)
    assert landscape.distance(a, found) <= landscape.distance(a, other)
    x = rng.normal(size=(7, 2))
    np.testing.assert_allclose(run(found, x), run(other, x))


def test_cancellation():
    found = landscape.cancellation([A, B])
    assert found.ratio == 0
    np.testing.assert_allclose(found.cosines, [[1, -1], [-1, 1]])
    aside = {"w": jnp.array([0.0, 1.0])}
    found = landscape.cancellation([A, aside])
    assert found.ratio == pytest.approx(2**-0.5) and found.cosines[0, 1] == 0
    zero = jax.tree.map(jnp.zeros_like, A)
    found = landscape.cancellation([A, zero])
    assert found.ratio == 1 and np.isnan(found.cosines[0, 1]) and found.cosines[0, 0] == 1
    assert np.isnan(landscape.cancellation([zero, zero]).ratio)


def test_units_of_parameters_do_not_matter_in_float32():
    """Their squares leave its range; elsewhere distances keep the bits of `tree.norm`."""

    @jax.jit
    def found(a, b, c):
        return landscape.distance(a, b), landscape.cancellation([a, b, c])

    half = 2**-0.5
    for unit in np.float32([1, 1e-30, 1e-37, 1e30, 1e38]):
        a, b, c = ({"w": row} for row in np.float32([[unit, unit], [-unit, unit], [1e-30, 0]]))
        length, (ratio, cosines) = found(a, b, c)
        assert length == 2 * unit
        assert unit < 1e-29 or ratio == pytest.approx(2**-0.5)
        expected = [[1, 0, half], [0, 1, -half], [half, -half, 1]]
        np.testing.assert_allclose(cosines, expected, atol=1e-6)
    assert tree.scaled_norm(X) == tree.norm(X)


# --- the tangent kernel ---------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
PLANE = np.array([0, 1])
W = jnp.array([[1.0], [2.0]])


def linear(w, x):
    return x @ w


def product(w, x):
    return w[0, 0] * (x[:, :1] * x[:, 1:])


def test_recombined():
    grid = dependence.recombined(X, PLANE)
    np.testing.assert_array_equal(grid[2, 4], [X[2, 0], X[4, 1]])


def test_the_kernel_of_a_linear_model_is_a_sum():
    """Theta(x, x') = x_1 x_1' + x_2 x_2': no part is carried by both."""
    found = dependence.tangent_split(linear, W, X, PLANE)
    parts = [np.var(X[:, k]) * np.sum(X[:, k] ** 2) for k in (0, 1)]
    np.testing.assert_allclose(found, [*parts / np.sum(parts), 0], atol=1e-5)
    # The update a residual asks for is x . (X' r).
    residuals = np.linspace(-1, 1, 6)[:, None]
    found = dependence.tangent_split(linear, W, X, PLANE, residuals)
    parts = np.var(X, axis=0) * (X.T @ residuals)[:, 0] ** 2
    np.testing.assert_allclose(found, [*parts / np.sum(parts), 0], atol=1e-5)


def test_a_product_of_centred_inputs_is_carried_by_both():
    x = X - X.mean(axis=0)
    found = dependence.tangent_split(product, W, x, PLANE)
    np.testing.assert_allclose(found, [0, 0, 1], atol=1e-5)


def test_early_dependence_is_that_of_one_small_step():
    def net(w, x):
        return jnp.tanh(x @ w) @ w.T

    w, update = jax.random.normal(quick_key(0), (2, 2, 3))

    @jax.jit
    def compared(w, update):
        found = dependence.early_dependence(net, w, update, X, PLANE, [0.0, 1e-3])
        ends = (w, w + 1e-3 * update)
        return found, [dependence.gradient_dependence(net, end, X, PLANE) for end in ends]

    found, (now, then) = compared(w, update)
    np.testing.assert_allclose(found[0], now, rtol=1e-5)
    np.testing.assert_allclose(found[1], then, rtol=1e-4)
    assert np.abs(then - now).max() > 1e-4


# --- searches -------------------------------------------------------------------------------------
# Searches without a gradient find what there is to find, and say what they did not.


def draw(key):
    """Uniform in [-1, 1]: a key's numbers are random, and quick to compile."""
    return {"x": jax.random.key_data(key) / 2.0**31 - 1}


def squares(params, data):
    return jnp.sum((params["x"] - data) ** 2)


def test_guess_and_check():
    """A ring holds pi (high - low) / 4 of a square of side 2, if its edges are squared radii."""
    bands = np.array([[0.05, 0.3], [0.0, 0.0025], [0.0, 0.0]], np.float32)
    key = jax.random.key(0)

    def guess(batch):
        return landscape.guess_and_check(
            key, draw, squares, jnp.zeros(2), bands, n_draws=12_000, n_keep=200, batch=batch
        )

    guesses = guess(400)
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
    # The draws are the same if more are made at a time: here more than half of a block of keys.
    jax.tree.map(np.testing.assert_array_equal, guesses, guess(6000))
    # The draws of recorded runs, of a block at a time.
    same = draw(jax.random.split(jax.random.fold_in(key, 1), 3)[2])["x"]
    np.testing.assert_array_equal(draw(landscape._draw_key(key, 10_002))["x"], same)


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


def test_walks_from_below_the_bands_are_refused():
    """The ceiling falls, so a walk from below would stay below. Under jit it visits no band."""

    def walk(first):
        def loss(params):
            return jnp.where(params["x"][0] == 1, first, squares(params, 0.0) / 100)

        start, bands = {"x": jnp.ones(2)}, np.float32([[0.9, 1.0]])
        return landscape.metropolis(quick_key(0), start, loss, bands, 20)

    compiled = jax.jit(walk)
    for first in (0.0, 0.5, jnp.inf, jnp.nan):
        with pytest.raises(ValueError, match=f"params have the loss {first:g}, .* 0.9: start at"):
            walk(first)
        walked = compiled(first)
        assert (walked.n_steps < 0).all() and (walked.n_accepted > 0) == (first < 0.9)
