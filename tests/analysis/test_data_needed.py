"""Data needed and its exponent: known laws are recovered, and censored points are counted."""

import numpy as np
import pytest

from cgjax.analysis import data_needed as growth

SIZES = np.array([10, 20, 40, 80])


def test_data_needed():
    needed = growth.data_needed
    np.testing.assert_allclose(needed(SIZES, [0, 0.2, 1, 1]), 20 * 2**0.5)  # halfway between logs
    assert needed(SIZES, [0, 0.6, 0.7, 1]) == pytest.approx(20)
    assert needed(SIZES, [0.8, 0.9, 1, 1]) == 0  # 10 are enough, perhaps fewer
    assert needed(SIZES, [0, 0.1, 0.2, 0.59]) == np.inf
    assert needed(SIZES, [0, 0.7, 0.5, 0.9]) < 20  # first, though it falls again
    assert needed(SIZES, [0, 0.2, 1, 1], threshold=0.2) == pytest.approx(20)


def test_exponents_of_known_laws():
    n = np.array([12, 16, 20, 24, 28, 32])
    noise = np.exp(0.1 * np.random.default_rng(0).normal(size=(6, 5)))
    for power in (1, 3):
        exact = growth.exponent(n, np.tile(2.0 * n[:, None] ** power, (1, 5)))
        np.testing.assert_allclose(exact[:3], power, atol=1e-9)
        found = growth.exponent(n, n[:, None] ** power * noise, draws=400)
        assert found.low < power < found.high and 0 < found.high - found.low < 0.5
        assert (found.n_points, found.n_censored) == (30, 0)


def test_censored_points_are_left_out_and_counted():
    n = np.array([12, 16, 20])
    needed = np.tile(3.0 * n[:, None] ** 2, (1, 2))
    needed[2, 1] = np.inf
    found = growth.exponent(n, needed, draws=100)
    np.testing.assert_allclose(found[:3], 2, atol=1e-9)
    assert (found.n_points, found.n_censored) == (5, 1)
    # If the smallest set suffices at every size, the data needed have no exponent.
    enough = growth.exponent(n, np.zeros((3, 2)), draws=10)
    assert np.isnan(enough.slope) and (enough.n_points, enough.n_enough) == (0, 6)
    needed[:2] = np.inf
    assert np.isnan(growth.exponent(n, needed, draws=10)[:3]).all()


def test_sizes_without_points_add_no_degrees_of_freedom():
    """The interval is that of the sizes that carry the slope, whatever else was tried."""
    n = np.array([12.0, 16, 20, 24, 28, 32])
    needed = np.full((6, 3), np.inf)
    needed[:2] = [[10, 12, 11], [20, 26, 22]]
    alone, among_others = (growth.exponent(n[:k], needed[:k], draws=1000) for k in (2, 6))
    assert alone.slope == pytest.approx(among_others.slope)
    # Two sizes of three seeds are four degrees of freedom; draws differ between the studies.
    widths = [study.high - study.low for study in (alone, among_others)]
    assert widths[1] == pytest.approx(widths[0], rel=0.06)


def test_bad_studies_are_refused():
    for words, call in {
        "accuracy must be": lambda: growth.data_needed(SIZES, [0, 1]),
        "increase": lambda: growth.data_needed(SIZES[::-1], [0, 0, 0, 1]),
        "needed must be .sizes, seeds.": lambda: growth.exponent([12, 16], [1.0, 2.0]),
        "needed must be in": lambda: growth.exponent([12, 16], [[1.0], [-2.0]]),
    }.items():
        with pytest.raises(ValueError, match=words):
            call()


def curves(n, power, factor, seeds=5, noise=0.0, most=2.0):
    """Scores that pass 0.8 at factor * n ** power combinations, for sizes up to most * n ** 2."""
    rng = np.random.default_rng(0)
    sizes = [np.geomspace(value / 2, most * value**2, 9) for value in n]
    needed = [np.exp(rng.normal(np.log(factor * v**power), noise, seeds)) for v in n]
    return sizes, [0.8 + np.log(m[:, None] / at) / 5 for m, at in zip(sizes, needed)]


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_exponents_of_medians_are_recovered(power):
    n = np.array([6, 8, 12, 16, 24])
    exact, needed, ends = growth.exponent_of_medians(n, *curves(n, power, 1.5), 0.8, draws=20)
    np.testing.assert_allclose(exact[:3], power, atol=1e-9)
    np.testing.assert_allclose(needed, 1.5 * n**power, rtol=1e-9)
    np.testing.assert_allclose(ends.T, [needed] * 2, rtol=1e-9)
    noisy, *_ = growth.exponent_of_medians(n, *curves(n, power, 1.5, noise=0.2), 0.8, draws=100)
    assert noisy.low < power < noisy.high < power + 1


def test_censored_cells_bound_the_line():
    """A set that never suffices raises a slope that is too small without it, and only then."""
    n = np.array([6, 8, 12, 16, 24])
    sizes, scores = curves(n, 2.0, 1.5)
    tried = [m if value < 24 else m[:-2] for m, value in zip(sizes, n)]
    cut = [score[: len(m)] for score, m in zip(scores, tried)]
    found, needed, ends = growth.exponent_of_medians(n, tried, cut, 0.8, draws=20)
    assert np.isinf(needed[-1]) and np.isinf(ends[-1]).all()
    assert (found.n_points, found.n_censored, found.n_enough) == (4, 1, 0)
    assert found.slope == pytest.approx(2)  # the bound is below the line: it changes nothing
    noisy_sizes, noisy = curves(n, 2.0, 1.5, seeds=3, noise=0.2)
    tried = [m if value < 12 else m[:-4] for m, value in zip(noisy_sizes, n)]
    cut = [score[: len(m)] for score, m in zip(noisy, tried)]
    widths = []
    for k in (2, 5):  # the three cells that never suffice do not carry the slope
        study, *_ = growth.exponent_of_medians(n[:k], tried[:k], cut[:k], 0.8, draws=300)
        widths.append(study.high - study.low)
    assert study.n_censored == 3 and widths[1] == pytest.approx(widths[0], rel=0.15)
    limits = np.array([(1.0, 50.0), (1.0, 50.0), (1.0, 50.0)])
    flat = np.array([10.0, 10.0, np.inf])
    steep = growth.censored_slope(np.array([1.0, 2.0, 4.0]), flat, limits)
    dropped = growth.censored_slope(np.array([1.0, 2.0]), flat[:2], limits[:2])
    assert dropped == pytest.approx(0) and steep > 0.9
    low = growth.censored_slope(np.array([1.0, 2.0, 4.0]), np.array([0.0, 20.0, 40.0]), limits)
    assert low > 1.5  # the smallest set, of 1, suffices for the first: the line is below 1 there
    assert np.isnan(
        growth.censored_slope(np.array([1.0, 2.0]), np.array([3.0, np.inf]), limits[:2])
    )


def test_sizes_without_a_point_do_not_carry_the_slope():
    """The interval with sizes that never suffice is that of the others alone."""
    n, rng = np.array([8.0, 16, 32, 64, 128, 256]), np.random.default_rng(0)
    needed = np.exp(rng.normal(np.log(n)[:, None], 0.2, (6, 4)))
    needed[2:] = np.inf
    both, alone = growth.exponent(n, needed), growth.exponent(n[:2], needed[:2])
    assert both.slope == pytest.approx(alone.slope)
    assert both.high - both.low == pytest.approx(alone.high - alone.low, rel=0.05)


def test_every_cell_needs_the_same_seeds():
    sizes, scores = curves(np.array([6, 8, 12]), 1.0, 1.5)
    scores[1] = scores[1][:, :3]
    with pytest.raises(ValueError, match="seeds"):
        growth.exponent_of_medians([6, 8, 12], sizes, scores, 0.8, draws=5)
