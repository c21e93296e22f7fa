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
    answer = support.identify(composition, [jnp.sin, jnp.sin], latents, latents)
    return support.audit_support(composition, slots, [tuples] * 2, covered, answer, pixelwise=False)


FORM = {"composition": composition, "components": (jnp.sin, jnp.sin)}


def issue(support, truth, model, latents, **options):
    """The certificate of a model that is C of its components, unless it says otherwise."""
    return certificate(support, truth, model, latents, **(FORM | options))


def names(issued):
    return [premise.name for premise in issued.premises]


def test_consistent_only_when_everything_holds(sufficient, latents):
    issued = issue(sufficient, truth, truth, latents)
    assert issued.consistent and issued.failing == () and issued.unmeasured == ()
    assert issued.verdict.startswith("consistent with the theorem: premises hold on 40 samples;")
    assert "guarantee" not in issued.verdict
    assert names(issued) == ["A1", "A2", "A3", "identification", "form", "fit", "derivatives"]
    # None of 40 failed: at most 1 - 0.05^(1/40) of P does, with 95 % confidence.
    fit = issued.premises[5]
    assert fit.bound == pytest.approx(1 - 0.05 ** (1 / 40)) and fit.worst == 0


def test_another_c_of_the_data_is_named(sufficient, latents):
    def scaled(slots):
        return 1.1 * composition(slots)

    issued = issue(sufficient, truth, truth, latents, true_composition=scaled)
    assert issued.failing == ("same C",) and "data and model share C" in issued.verdict
    same = issue(sufficient, truth, truth, latents, true_composition=composition)
    assert same.consistent and "same C" in names(same)


def test_a_model_that_does_not_fit_is_named(sufficient, latents):
    issued = issue(sufficient, truth, lambda z: truth(z) + 1, latents)
    assert issued.failing == ("form", "fit") and not issued.consistent
    assert "the theorem does not apply: form fails" in issued.verdict
    assert issued.verdict.endswith("fit too")


def test_a_model_that_is_wrong_on_a_sliver_of_p_is_named(sufficient):
    """0.3 % of P: the root mean square is small, and the theorem says nothing all the same."""
    latents = np.asarray(jax.random.uniform(jax.random.key(1), (4000, 2)))

    def wrong(z):
        return truth(z) + 0.5 * (z[:, :1] < 0.003)

    issued = issue(sufficient, truth, wrong, latents)
    fit = issued.premises[5]
    assert fit.value < 0.1 < fit.worst and not fit.holds
    assert fit.quantiles[1] == 0 and 0.001 < fit.bound < 0.01
    # Few samples may miss it; then the certificate says how much of P it may be wrong on.
    few = latents[latents[:, 0] > 0.003][:40]
    missed = issue(sufficient, truth, wrong, few)
    assert missed.consistent and "may fail on less than" in missed.verdict
    assert max(premise.bound for premise in missed.premises[5:]) > 0.003


def test_a_truth_that_jumps_is_not_differentiable(sufficient, latents):
    def jumping(z):
        return truth(z) + 1.0 * (z[:, :1] > 0.5)

    issued = issue(sufficient, jumping, jumping, latents)
    assert issued.failing == ("A1", "form") and "A1 fails" in issued.verdict


def test_a_model_with_wrong_derivatives_is_named(sufficient, latents):
    """Ripples of small height and short length: right values, wrong slopes."""

    def rippled(z):
        return truth(z) + 0.01 * jnp.sin(200 * z[:, :1])

    issued = issue(sufficient, truth, rippled, latents)
    assert issued.failing == ("form", "derivatives")
    errors = jacobian_errors(truth, rippled, latents, (0, 1))
    slopes = 2 * np.cos(200 * latents[:, 0])
    size = np.sum((MATRIX[None] * np.cos(latents)[:, None]) ** 2, axis=(1, 2))
    np.testing.assert_allclose(errors, np.sqrt(3 * slopes**2 / size.mean()), rtol=1e-3, atol=1e-4)


def test_a_support_that_fails_is_named(sufficient, latents):
    gap = support.coverage(latents[latents[:, 0] > 0.5], latents)
    failing = sufficient._replace(coverage=gap, assumption="A2")
    assert issue(failing, truth, truth, latents).failing == ("A2",)
    both = sufficient._replace(assumption="A2 and A3")
    issued = issue(both, truth, lambda z: 0 * truth(z), latents)
    assert issued.failing == ("A2", "A3", "form", "fit", "derivatives")
    assert issued.verdict.endswith("A3, form, fit, derivatives too")


def test_what_was_not_measured_is_not_called_good(sufficient, latents):
    blind = sufficient._replace(
        coverage=None, identification=None, unmeasured=("A2", "identification")
    )
    issued = certificate(blind, truth, truth, latents)
    assert not issued.consistent and issued.unmeasured == ("A2", "identification", "form")
    assert np.isnan(issued.premises[1].value) and issued.premises[1].holds is None
    assert issued.verdict.endswith("not measured: A2, identification, form")
    assert "consistent" not in issued.verdict and "guarantee" not in issued.verdict


@pytest.mark.parametrize(
    "model, points, message",
    [
        (truth, np.zeros((0, 2)), "without an empty axis"),
        (lambda z: z, np.full((3, 2), 0.5), "truth gives"),
    ],
)
def test_bad_input_is_named(sufficient, model, points, message):
    with pytest.raises(ValueError, match=message):
        issue(sufficient, truth, model, points)


def test_a_model_that_is_not_c_of_components_is_named(sufficient):
    """An extra term that vanishes with its slope wherever one latent is 0.5: right on planes."""
    rng = np.random.default_rng(0)
    planes = np.where(np.arange(60)[:, None] % 2 == [0, 1], rng.uniform(size=(60, 2)), 0.5)

    def monolithic(z):
        return truth(z) + 40 * (z[:, :1] - 0.5) ** 2 * (z[:, 1:] - 0.5) ** 2

    issued = issue(sufficient, truth, monolithic, planes)
    assert issued.failing == ("form",) and "the model is C of its components" in issued.verdict


def test_a_category_cannot_hide_a_slope(sufficient):
    points = np.random.default_rng(0).uniform(size=(200, 2))
    with pytest.raises(ValueError, match="its slope would go unchecked"):
        issue(sufficient, truth, truth, points, kinds=["categorical", None])
