"""Slopes of kernel machines against their closed form; what has no slope says why."""

import numpy as np
import pytest

from cgjax.analysis import closed_forms, machines, salience
from cgjax.analysis.lenses.memorization import slope, slopes

PAIRS = np.indices((5, 5)).reshape(2, -1).T
VALUES = np.arange(-2.0, 3)
SUM = VALUES[PAIRS].sum(axis=1)
ANCHOR = np.any(PAIRS == 2, axis=1)  # the value 0, seen with all others


def machine(s, y=SUM, train=ANCHOR):
    kernel = salience.overlap_kernel(PAIRS, PAIRS, [0, s, 1])
    return kernel, np.asarray(
        machines.ridgeless(kernel, y[:, None], kernel, mask=train, outputs=True)
    )


@pytest.mark.parametrize("s", [0.1, 0.3, 0.5])
def test_a_machine_has_the_slope_of_its_salience(s):
    kernel, f = machine(s)
    scored = slopes(kernel, PAIRS, f, ANCHOR)
    expected = float(closed_forms.memorization_slope(s, 1))
    for name in ("slope", "slope_kernel", "slope_salience"):
        assert getattr(scored, name) == pytest.approx(expected, abs=1e-6), name
    np.testing.assert_allclose(scored.salience, [s, 1 - 2 * s], atol=1e-12)
    assert scored.structured == pytest.approx(1) and scored.additivity == pytest.approx(1)
    assert 0.1 < scored.additivity_random < 0.9 and not scored.reasons
    assert scored.r2_train == pytest.approx(1) and scored.slope_error < 1e-6
    np.testing.assert_allclose(scored.reference[:, 0], SUM, atol=1e-9)


def test_targets_replace_the_continuation():
    """Of a model that is wrong by a factor of two where it was trained."""
    kernel, f = machine(0.3)
    expected = float(closed_forms.memorization_slope(0.3, 1))
    continued = slopes(kernel, PAIRS, 2 * f, ANCHOR)
    with_targets = slopes(kernel, PAIRS, 2 * f, ANCHOR, SUM[:, None])
    assert continued.slope == pytest.approx(expected, abs=1e-6)
    assert with_targets.slope == pytest.approx(2 * expected, abs=1e-6)
    assert with_targets.slope_kernel == pytest.approx(expected, abs=1e-6)


def test_several_samples_count_as_their_mean():
    kernel, f = machine(0.3)
    twice = np.repeat(np.arange(25), 2)[np.random.default_rng(0).permutation(50)]
    once = slopes(kernel, PAIRS, f, ANCHOR)
    again = slopes(kernel[np.ix_(twice, twice)], PAIRS[twice], f[twice], ANCHOR[twice])
    for name in ("slope", "slope_kernel", "slope_salience", "additivity", "structured"):
        assert getattr(once, name) == pytest.approx(getattr(again, name), abs=1e-9), name


def test_what_is_undefined_says_why():
    kernel, f = machine(0.3)
    diagonal = PAIRS[:, 0] == PAIRS[:, 1]
    scored = slopes(kernel, PAIRS, f, diagonal)
    assert scored.slope is scored.slope_kernel is scored.r2 is None
    assert "for 0 of 20 held-out" in scored.reasons["slope"]
    few = slopes(kernel, PAIRS, f, np.arange(25) < 23)
    assert "any outputs on 2 held-out combinations are additive" in few.reasons["additivity"]
    wider = np.where(np.all(PAIRS == 0, axis=1)[:, None], [0, 5], PAIRS)  # of 5 x 6
    scored = slopes(kernel, wider, f, ANCHOR)
    assert scored.slope_salience is None and scored.salience is not None
    assert "missing from the grid" in scored.reasons["slope_salience"]
    scored = slopes(np.ones((25, 25)), PAIRS, f, ANCHOR)
    assert scored.salience is None and "is not larger" in scored.reasons["salience"]
    scored = slopes(kernel, PAIRS, np.where(ANCHOR[:, None], f, 0), ANCHOR)
    assert scored.additivity is None and "are constant" in scored.reasons["additivity"]
    assert scored.slope == pytest.approx(0)


def test_without_a_kernel_the_model_is_scored():
    kernel, f = machine(0.3)
    scored, expected = slopes(None, PAIRS, f, ANCHOR), slopes(kernel, PAIRS, f, ANCHOR)
    for name in ("slope", "slope_error", "r2", "r2_train", "r2_outputs", "additivity"):
        assert getattr(scored, name) == getattr(expected, name), name
    for name in ("slope_kernel", "slope_salience", "salience", "structured"):
        assert getattr(scored, name) is None and scored.reasons[name], name


def test_the_error_of_a_slope_covers_it():
    """A slope of 1/2 with noise: 2 standard errors hold it in about 95 % of the draws."""
    kernel, _ = machine(0.3)
    rng, inside = np.random.default_rng(0), []
    for _ in range(300):
        f = np.where(ANCHOR, SUM, SUM / 2 + rng.normal(size=25))
        scored = slopes(None, PAIRS, f[:, None], ANCHOR, SUM[:, None])
        inside.append(abs(scored.slope - 0.5) <= 2 * scored.slope_error)
    assert 0.9 < np.mean(inside) < 0.98


def test_a_single_small_output_counts():
    kernel, _ = machine(0.3)
    y = np.stack([100 * SUM, VALUES[PAIRS].prod(axis=1)], axis=1)
    scored = slopes(kernel, PAIRS, y, ANCHOR)
    assert scored.r2 > 0.999 and scored.r2_outputs == pytest.approx(0.5, abs=0.01)


def test_a_kernel_of_more_than_shared_factors():
    kernel, f = machine(0.3)
    scale = np.random.default_rng(0).uniform(0.2, 2, size=25)
    assert slopes(kernel * np.outer(scale, scale), PAIRS, f, ANCHOR).structured < 0.9


def test_slope_of_a_line():
    y = np.arange(6.0).reshape(3, 2)
    assert slope(y, 0.4 * y + [1, -5]) == pytest.approx(0.4)
