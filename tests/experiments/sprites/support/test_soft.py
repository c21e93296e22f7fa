"""Soft sprites: close to the hard ones, and differentiable."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.support import soft


def test_soft_sprites_are_close_to_hard_ones_and_differentiable():
    scaled = scenes.scale_latents(jax.random.uniform(jax.random.key(0), (40, 5)))
    hard = np.asarray(scenes.render(scaled)).sum(-1) > 0
    shown = jax.jit(lambda scaled: soft.opacity(scaled, softness=0.5))(scaled)
    wrong = np.sum((shown > 0.5) != hard, axis=(1, 2))
    assert wrong.mean() < 4 and hard.sum((1, 2)).mean() > 100
    colours = scenes.colours(scaled[:, 4]) / 255
    np.testing.assert_allclose(soft.colour(scaled[:, 4]), colours, atol=1 / 255 + 1e-6)
    scene = jnp.concatenate([scaled[:1], scaled[1:2]], axis=1)
    slopes = jax.jit(jax.jacfwd(lambda z: soft.scene(z[None])[0]))(scene[0])
    assert np.all(np.isfinite(slopes))
    moves = np.abs(slopes).max(axis=(0, 1, 2)) > 0
    np.testing.assert_array_equal(moves, [True, True, False, True, True] * 2)
