"""Audits of sprites: the tested points lie in the support."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.experiments.sprites import audits, scenes, sets

TABLE = configs.load("configs/support.py:table,smoke")


def test_points_stand_where_the_support_puts_them():
    data = audits.support_data(TABLE, **sets.SUPPORTS["orthogonal"])
    points = audits.points(data, 1, jax.random.key(0), 3, 4, n_unseen=5)
    front, back = points.partners(1)
    expected = scenes.render(
        scenes.scale_latents(jnp.array([scenes.PLANES["O"], scenes.PLANES["H"]])), 16
    )
    np.testing.assert_array_equal(front, expected)
    np.testing.assert_array_equal(back, np.stack([points.images[1]] * 2))
    assert points.unseen(0)[0].shape == (5, 16, 16, 3)
    np.testing.assert_array_equal(points.covered, points.images.sum(-1) > 0)


def test_values_in_a_gap_have_no_partner():
    data = audits.support_data(TABLE, **sets.SUPPORTS["orthogonal_gap"])
    points = audits.points(data, 0, jax.random.key(0), 16, 4)
    inside = (points.raw[:, 0] >= 0.05) & (points.raw[:, 0] <= 0.45)
    assert 0 < inside.sum() < 16
    for i in range(16):
        assert len(points.partners(i)[0]) == (0 if inside[i] else 1)


def test_partners_lie_in_the_support_they_are_drawn_from():
    """A gap removes planes and partners as well as audited values."""
    cases = {
        "swallowed": {**sets.SUPPORTS["orthogonal_gap"], "gaps": ((0, 0.05, 0.65),)},
        "half": sets.SUPPORTS["half"],
        "diagonal": sets.SUPPORTS["diagonal"],
        "three": {"support": "diagonal", "delta": 0.1, "n_slots": 3},
    }
    raw = np.asarray(jax.random.uniform(jax.random.key(0), (12, 5)))
    for name, keys in cases.items():
        data = audits.support_data(TABLE, **keys)
        for component in range(data.n_slots):
            found = sets.partners(data, component, raw, jax.random.key(1), 9)
            n_found = np.sum(~np.isnan(found).any(axis=2), axis=1)
            for value, others in zip(raw, found):
                others = others[~np.isnan(others).any(axis=1)]
                scenes = np.insert(others, [5 * component] * 5, value, axis=1)
                assert sets.contains(data, scenes).all(), name
            if name == "half":  # a value beside its gap has all its partners, one inside none
                kept = raw[:, 0] < 0.35 if component == 0 else raw[:, 0] > 0.65
                np.testing.assert_array_equal(n_found, np.where(kept, 9, 0))
            if name == "swallowed" and component == 1:
                np.testing.assert_array_equal(n_found, 1)  # x = 0.5 is gone, as in orthogonal*


def test_a_gap_that_swallows_a_plane_is_orthogonal_star():
    swallowed = {**sets.SUPPORTS["orthogonal_gap"], "gaps": ((0, 0.05, 0.65),)}
    gap_audit, star = (
        audits.audit(
            audits.support_data(TABLE, **keys),
            "occlude_step",
            1,
            jax.random.key(0),
            n_values=8,
            n_partners=4,
        )[0]
        for keys in (swallowed, sets.SUPPORTS["orthogonal_star"])
    )
    assert gap_audit.share == 0
    np.testing.assert_array_equal(gap_audit.where, star.where)
