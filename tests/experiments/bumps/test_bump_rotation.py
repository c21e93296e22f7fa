"""Rotations against SciPy, cross-fades against models that only fade or only rotate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from cgjax.core.errors import BadInput
from cgjax.experiments.bumps import models, sets
from cgjax.experiments.bumps.studies import turning

GLYPH = np.pad(np.random.default_rng(0).random((9, 8)), ((2, 2), (3, 3)))


def test_rotation_is_that_of_scipy():
    """Away from multiples of 90 degrees, where rounding decides what is outside."""
    degrees = np.array([13.0, 37.5, 95, 160, 200, 301])
    image = np.random.default_rng(1).random((9, 10))
    for turned, angle in zip(sets.rotated(image, degrees), degrees):
        expected = ndimage.rotate(image, angle, reshape=False, order=1)
        np.testing.assert_allclose(turned, expected, atol=1e-12)


def test_quarter_turns_are_exact():
    image = np.arange(25.0).reshape(5, 5)
    found = sets.rotated(image, [0, 90, 180, 360])
    expected = [image, np.rot90(image), np.rot90(image, 2), image]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_angles_of_the_paper():
    train, held_out = sets.angles()
    assert len(train) == 888 and len(train) + len(held_out) == 1000
    assert held_out.min() >= 160 and held_out.max() <= 200 and train.max() == 360
    code = sets.encode([0, 90])
    np.testing.assert_allclose(code, [[1, 0], [0, 1]], atol=1e-15)
    with pytest.raises(BadInput, match="leaves nothing"):
        sets.angles(10, (41, 42))


def test_fading_and_rotating():
    degrees = np.linspace(162, 198, 7)
    truth, edges = sets.rotated(GLYPH, degrees), sets.rotated(GLYPH, sets.GAP)
    share = ((degrees - 160) / 40)[:, None, None]
    faded = (1 - share) * edges[:1] + share * edges[1:]
    r2 = turning.cross_fade(faded, truth, degrees, edges)
    np.testing.assert_allclose(r2[:2], 1)
    assert r2.truth < 0.5
    r2 = turning.cross_fade(truth, truth, degrees, edges)
    assert r2.truth == 1 and r2.fade <= r2.mixture < 0.9
    # A mixture that is twice as bright is still a mixture.
    bright = turning.cross_fade(2 * faded, truth, degrees, edges)
    assert bright.fade < 0.5 and bright.mixture == pytest.approx(1)
    with pytest.raises(BadInput, match="two edges"):
        turning.cross_fade(faded, truth, degrees, edges[:1])


def test_decoder_has_the_published_size():
    """With the angle as one number: 406,913 parameters."""
    for d, n in ((1, 406_913), (2, 406_913 + 6272)):
        (image, activations), variables = jax.eval_shape(
            models.RotationDecoder().init_with_output, jax.random.key(0), jnp.zeros((3, d))
        )
        assert sum(a.size for a in jax.tree.leaves(variables["params"])) == n
    assert image.shape == (3, 28, 28) and [a.shape[1] for a in activations] == [7, 14, 28, 28]
