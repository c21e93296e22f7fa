"""Certificates: every premise can fail on its own, and is then named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import support
from cgjax.analysis.certificate import certificate, jacobian_error

MATRIX = np.array([[1.0, 0.5], [0.0, 2.0], [1.0, -1.0]])


def truth(z):
    return jnp.sin(z) @ jnp.asarray(MATRIX.T, z.dtype)


def composition(slots):
    return slots[0] * jnp.asarray(MATRIX[:, 0])[None] + slots[1] * jnp.asarray(MATRIX[:, 1])[None]


@pytest.fixture(scope="module")
def latents():
    return np.asarray(jax.random.uniform(jax.random.key(0), (40, 2)))


@pytest.fixture(scope="module")
def sufficient(latents):
    """A sum of two scalar components: every support that reaches all values is sufficient."""
    values = np.sin(latents[:5])
    slots = [values[:, :1], values[:, 1:]]
    tuples = np.broadcast_to(np.stack(slots, axis=1)[:, None], (5, 1, 2, 1))
    covered = support.coverage(latents, latents)
    return support.audit_support(composition, slots, [tuples] * 2, covered, pixelwise=False)


def test_guaranteed_only_when_everything_holds(sufficient, latents):
    issued = certificate(sufficient, truth, truth, latents)
    assert issued.guaranteed and issued.failing == () and issued.verdict.startswith("guaranteed")
    assert [premise.name for premise in issued.premises] == ["A1", "A2", "A3", "fit", "derivatives"]


def test_a_model_that_does_not_fit_is_named(sufficient, latents):
    issued = certificate(sufficient, truth, lambda z: truth(z) + 1, latents)
    assert issued.failing == ("fit",)
    assert "not guaranteed: fit fails" in issued.verdict


def test_a_model_with_wrong_derivatives_is_named(sufficient, latents):
    """Ripples of small height and short length: right values, wrong slopes."""

    def rippled(z):
        return truth(z) + 0.01 * jnp.sin(200 * z[:, :1])

    issued = certificate(sufficient, truth, rippled, latents)
    assert issued.failing == ("derivatives",)
    error, steepest = jacobian_error(truth, rippled, latents, (0, 1))
    slopes = 2 * np.cos(200 * latents[:, 0])
    size = np.sum((MATRIX[None] * np.cos(latents)[:, None]) ** 2, axis=(1, 2))
    np.testing.assert_allclose(error, np.sqrt(3 * np.sum(slopes**2) / size.sum()), rtol=1e-3)
    np.testing.assert_allclose(steepest, np.sqrt(size.max()), rtol=1e-4)
    assert certificate(sufficient, truth, rippled, latents, dims=(1,)).guaranteed


def test_a_support_that_fails_is_named(sufficient, latents):
    gap = support.coverage(latents[latents[:, 0] > 0.5], latents)
    failing = sufficient._replace(coverage=gap, assumption="A2")
    assert certificate(failing, truth, truth, latents).failing == ("A2",)
    both = sufficient._replace(assumption="A2 and A3")
    issued = certificate(both, truth, lambda z: 0 * truth(z), latents)
    assert issued.failing == ("A2", "A3", "fit", "derivatives")
    assert issued.verdict.endswith("A3, fit, derivatives too")


@pytest.mark.parametrize(
    "model, points, message",
    [
        (truth, np.zeros((0, 2)), "points of P"),
        (lambda z: z, np.zeros((3, 2)), "truth gives"),
    ],
)
def test_bad_input_is_named(sufficient, model, points, message):
    with pytest.raises(ValueError, match=message):
        certificate(sufficient, truth, model, points)
