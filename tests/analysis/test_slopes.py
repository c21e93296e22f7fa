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
    found = slopes(kernel, PAIRS, f, ANCHOR)
    expected = float(closed_forms.memorization_slope(s, 1))
    for name in ("slope", "slope_kernel", "slope_salience"):
        assert getattr(found, name) == pytest.approx(expected, abs=1e-6), name
    np.testing.assert_allclose(found.salience, [s, 1 - 2 * s], atol=1e-12)
    assert found.structured == pytest.approx(1) and found.additivity == pytest.approx(1)
    assert 0.1 < found.additivity_random < 0.9 and not found.reasons
    assert found.r2_train == pytest.approx(1)
    np.testing.assert_allclose(found.reference[:, 0], SUM, atol=1e-9)


def test_targets_replace_the_continuation():
    """Of a model that is wrong by a factor of two where it was trained."""
    kernel, f = machine(0.3)
    expected = float(closed_forms.memorization_slope(0.3, 1))
    own = slopes(kernel, PAIRS, 2 * f, ANCHOR)
    told = slopes(kernel, PAIRS, 2 * f, ANCHOR, SUM[:, None])
    assert own.slope == pytest.approx(expected, abs=1e-6)
    assert told.slope == pytest.approx(2 * expected, abs=1e-6)
    assert told.slope_kernel == pytest.approx(expected, abs=1e-6)


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
    found = slopes(kernel, PAIRS, f, diagonal)
    assert found.slope is found.slope_kernel is found.r2 is None
    assert "for 0 of 20 unseen" in found.reasons["slope"]
    few = np.arange(25) < 23
    assert (
        "any outputs on 2 unseen combinations are such sums"
        in slopes(kernel, PAIRS, f, few).reasons["additivity"]
    )
    wider = np.where(np.all(PAIRS == 0, axis=1)[:, None], [0, 5], PAIRS)  # of 5 x 6
    found = slopes(kernel, wider, f, ANCHOR)
    assert found.slope_salience is None and found.salience is not None
    assert "missing from the grid" in found.reasons["slope_salience"]
    found = slopes(np.ones((25, 25)), PAIRS, f, ANCHOR)
    assert found.salience is None and "as like itself as any other" in found.reasons["salience"]
    found = slopes(kernel, PAIRS, np.where(ANCHOR[:, None], f, 0), ANCHOR)
    assert found.additivity is None and "do not vary" in found.reasons["additivity"]
    assert found.slope == pytest.approx(0)


def test_a_kernel_of_more_than_what_is_shared_is_told():
    kernel, f = machine(0.3)
    scale = np.random.default_rng(0).uniform(0.2, 2, size=25)
    assert slopes(kernel * np.outer(scale, scale), PAIRS, f, ANCHOR).structured < 0.9


def test_slope_of_a_line():
    y = np.arange(6.0).reshape(3, 2)
    assert slope(y, 0.4 * y + [1, -5]) == pytest.approx(0.4)
