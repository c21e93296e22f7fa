"""Certificates: every premise can fail on its own, and is then named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import support
from cgjax.analysis.support.certificate import certificate, jacobian_errors

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
    covered = support.coverage(latents, latents, sizes=(1, 1))
    return support.audit_support(
        composition, slots, [tuples] * 2, covered, support.connection(latents), pixelwise=False
    )


def names(issued):
    return [premise.name for premise in issued.premises]


def test_consistent_only_when_everything_holds(sufficient, latents):
    issued = certificate(sufficient, truth, truth, latents)
    assert issued.consistent and issued.failing == () and issued.unmeasured == ()
    assert issued.verdict.startswith("consistent with the theorem: premises hold on 40 samples at")
    assert "guarantee" not in issued.verdict
    assert names(issued) == ["A1", "A2", "A3", "connection", "fit", "derivatives"]
    # None of 40 failed: at most 1 - 0.05^(1/40) of P does, with 95 % confidence.
    fit = issued.premises[4]
    assert fit.bound == pytest.approx(1 - 0.05 ** (1 / 40)) and fit.worst == 0


def test_a_model_that_does_not_fit_is_named(sufficient, latents):
    issued = certificate(sufficient, truth, lambda z: truth(z) + 1, latents)
    assert issued.failing == ("fit",) and not issued.consistent
    assert "the theorem does not apply: fit fails" in issued.verdict


def test_a_model_that_is_wrong_on_a_sliver_of_p_is_named(sufficient):
    """0.3 % of P: the root mean square is small, and the theorem says nothing all the same."""
    latents = np.asarray(jax.random.uniform(jax.random.key(1), (4000, 2)))

    def wrong(z):
        return truth(z) + 0.5 * (z[:, :1] < 0.003)

    issued = certificate(sufficient, truth, wrong, latents)
    fit = issued.premises[4]
    assert fit.value < 0.1 < fit.worst and not fit.holds
    assert fit.quantiles[1] == 0 and 0.001 < fit.bound < 0.01
    # Few samples may miss it; then the certificate says how much of P it may be wrong on.
    few = latents[latents[:, 0] > 0.003][:40]
    missed = certificate(sufficient, truth, wrong, few)
    assert missed.consistent and "may fail on less than" in missed.verdict
    assert max(premise.bound for premise in missed.premises[4:]) > 0.003


def test_a_truth_that_jumps_is_not_differentiable(sufficient, latents):
    def jumping(z):
        return truth(z) + 1.0 * (z[:, :1] > 0.5)

    issued = certificate(sufficient, jumping, jumping, latents)
    assert issued.failing == ("A1",) and "A1 fails" in issued.verdict
    assert certificate(sufficient, jumping, jumping, latents, dims=(1,)).consistent


def test_a_model_with_wrong_derivatives_is_named(sufficient, latents):
    """Ripples of small height and short length: right values, wrong slopes."""

    def rippled(z):
        return truth(z) + 0.01 * jnp.sin(200 * z[:, :1])

    issued = certificate(sufficient, truth, rippled, latents)
    assert issued.failing == ("derivatives",)
    errors = jacobian_errors(truth, rippled, latents, (0, 1))
    slopes = 2 * np.cos(200 * latents[:, 0])
    size = np.sum((MATRIX[None] * np.cos(latents)[:, None]) ** 2, axis=(1, 2))
    np.testing.assert_allclose(errors, np.sqrt(3 * slopes**2 / size.mean()), rtol=1e-3, atol=1e-4)
    assert certificate(sufficient, truth, rippled, latents, dims=(1,)).consistent


def test_a_support_that_fails_is_named(sufficient, latents):
    gap = support.coverage(latents[latents[:, 0] > 0.5], latents)
    failing = sufficient._replace(coverage=gap, assumption="A2")
    assert certificate(failing, truth, truth, latents).failing == ("A2",)
    both = sufficient._replace(assumption="A2 and A3")
    issued = certificate(both, truth, lambda z: 0 * truth(z), latents)
    assert issued.failing == ("A2", "A3", "fit", "derivatives")
    assert issued.verdict.endswith("A3, fit, derivatives too")


def test_what_was_not_measured_is_not_called_good(sufficient, latents):
    blind = sufficient._replace(coverage=None, connection=None, unmeasured=("A2", "connection"))
    issued = certificate(blind, truth, truth, latents)
    assert not issued.consistent and issued.unmeasured == ("A2", "connection")
    assert np.isnan(issued.premises[1].value) and issued.premises[1].holds is None
    assert issued.verdict.endswith("not measured: A2, connection")
    assert "consistent" not in issued.verdict and "guarantee" not in issued.verdict


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
