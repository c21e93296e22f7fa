"""NT-Xent against reference arrays; views against what they do to images one can check."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.experiments.subnetworks.vision import simclr

SHAPE = (6, 2, 16, 16, 3)  # of all pixels here, so that one program serves


@pytest.fixture(scope="module")
def view():
    return jax.jit(simclr.view)


def test_nt_xent(golden):
    wanted = golden("subnetworks/simclr")
    temperature = float(wanted["temperature"])

    @jax.jit
    @functools.partial(jax.value_and_grad, has_aux=True)
    def loss(features):
        contrast = simclr.nt_xent(features, temperature)
        return contrast.nll.mean(), contrast

    (mean, contrast), grad = loss(jnp.asarray(wanted["features"]))
    np.testing.assert_allclose(contrast.nll, wanted["nll"], atol=1e-5)
    np.testing.assert_allclose(mean, wanted["loss"], atol=1e-5)
    np.testing.assert_allclose(grad, wanted["grad"], atol=1e-5)
    np.testing.assert_array_equal(contrast.rank, wanted["rank_of_positive"])
    for k in (1, 5):
        np.testing.assert_allclose(simclr.top(contrast.rank, k), wanted[f"top{k}"], atol=1e-6)


def test_warp():
    images = jnp.arange(2 * 6 * 6 * 3, dtype=jnp.float32).reshape(2, 6, 6, 3)
    warp, still = jax.jit(simclr.warp), jnp.zeros(2)
    np.testing.assert_array_equal(warp(images, jnp.eye(2), still), images)
    quarter = jnp.array([[0.0, 1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(jax.jit(simclr.inverse_affine)(90.0), quarter, atol=1e-6)
    turned = warp(images, quarter, still)
    np.testing.assert_array_equal(turned, jnp.rot90(images, -1, (1, 2)))
    moved = warp(images, jnp.eye(2), jnp.array([2.0, -1.0]))  # two to the right, one up
    np.testing.assert_array_equal(moved[:, :-1, 2:], images[:, 1:, :-2])
    assert (moved[:, -1] == 1).all() and (moved[:, :, :2] == 1).all()
    smaller = warp(images, 2 * jnp.eye(2), still)
    assert (smaller[:, 0] == 1).all() and not (smaller[:, 2:4, 2:4] == 1).any()


def test_affine():
    angle, scale, shear = 25.0, 0.9, -15.0
    a, slope = np.deg2rad(angle), np.tan(np.deg2rad(shear))
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    forward = scale * turn @ np.array([[1, -slope], [0, 1]])
    found = jax.jit(simclr.inverse_affine)(angle, scale, shear)
    np.testing.assert_allclose(found, np.linalg.inv(forward), atol=1e-6)


def test_jitter():
    key = jax.random.key(3)
    images = jax.random.uniform(jax.random.key(0), (2, 5, 5, 3), minval=0.4, maxval=0.6)
    contrast, saturation = np.asarray(
        jax.random.uniform(jax.random.fold_in(key, 1), (2,), minval=0.5, maxval=1.5)
    )
    weights = np.array(simclr.GRAY)
    jittered, images = np.asarray(jax.jit(simclr.jittered)(key, images)), np.asarray(images)
    gray = (images @ weights).mean((1, 2))[:, None, None, None]
    changed = contrast * images + (1 - contrast) * gray
    wanted = saturation * changed + (1 - saturation) * (changed @ weights)[..., None]
    np.testing.assert_allclose(jittered, np.clip(wanted, 0, 1), atol=1e-5)


def test_images_of_a_problem_share_their_view(view):
    one = jax.random.uniform(jax.random.key(0), (16, 16, 3))
    pixels = jnp.broadcast_to(one, SHAPE)
    views = np.asarray(view(jax.random.key(1), pixels))
    np.testing.assert_array_equal(views[:, 0], views[:, 1])
    assert all((views[i] != views[0]).any() for i in range(1, 6))
    assert (views != np.asarray(view(jax.random.key(2), pixels))).any()
    assert views.min() >= 0 and views.max() <= 1


def test_white_stays_white(view):
    found = view(jax.random.key(0), jnp.ones(SHAPE))
    np.testing.assert_allclose(found, 1.0, atol=1e-3)  # the weights of gray sum to 0.9999


def test_grayscale_as_often_as_said(view):
    pixels = jnp.broadcast_to(jnp.array([0.9, 0.2, 0.1]), SHAPE)
    found = np.stack([view(jax.random.key(i), pixels) for i in range(60)])[:, :, 0, 8, 8]
    is_gray = np.ptp(found, axis=-1) < 1e-6
    assert 0.12 < is_gray.mean() < 0.28  # of 360: 0.2, four standard errors


def test_two_views_for_the_loss(monkeypatch):
    monkeypatch.setattr(simclr, "view", lambda key, pixels: pixels + jax.random.uniform(key))
    pixels = jnp.arange(6, dtype=jnp.float32).reshape(3, 2, 1, 1, 1)
    views = simclr.views(jax.random.key(1), pixels).reshape(2, 6)
    first, second = (float(jax.random.uniform(key)) for key in jax.random.split(jax.random.key(1)))
    np.testing.assert_allclose(0.1 * views[0] + 0.9, np.arange(6) + first, atol=1e-5)
    np.testing.assert_allclose(0.1 * views[1] + 0.9, np.arange(6) + second, atol=1e-5)
