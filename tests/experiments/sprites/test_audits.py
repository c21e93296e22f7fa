"""Audits of sprites: their points stand where the support puts them."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.experiments.sprites import audits, scenes, sets

TABLE = configs.load("configs/support.py:table,smoke")


def test_points_stand_where_the_support_puts_them():
    data = audits.support_data(TABLE, **sets.SUPPORTS["orthogonal"])
    found = audits.points(data, 1, jax.random.key(0), 3, 4, n_unseen=5)
    front, back = found.partners(1)
    expected = scenes.render(
        scenes.scale_latents(jnp.array([scenes.PLANES["O"], scenes.PLANES["H"]])), 16
    )
    np.testing.assert_array_equal(front, expected)
    np.testing.assert_array_equal(back, np.stack([found.images[1]] * 2))
    assert found.unseen(0)[0].shape == (5, 16, 16, 3)
    np.testing.assert_array_equal(found.covered, found.images.sum(-1) > 0)


def test_values_in_a_gap_have_no_partner():
    data = audits.support_data(TABLE, **sets.SUPPORTS["orthogonal_gap"])
    found = audits.points(data, 0, jax.random.key(0), 16, 4)
    inside = (found.raw[:, 0] >= 0.05) & (found.raw[:, 0] <= 0.45)
    assert 0 < inside.sum() < 16
    for i in range(16):
        assert len(found.partners(i)[0]) == (0 if inside[i] else 1)
