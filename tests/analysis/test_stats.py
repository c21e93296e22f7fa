"""Rank correlation with ties and bootstrap intervals."""

import numpy as np
import pytest

from cgjax.analysis import stats


@pytest.mark.parametrize("levels", [3, 6, 50])
def test_tau_b_equals_scipy(levels):
    reference = pytest.importorskip("scipy.stats").kendalltau
    rng = np.random.default_rng(levels)
    x, y = rng.integers(0, levels, (2, 30)) / levels
    assert stats.kendall_tau_b(x, y) == pytest.approx(reference(x, y).statistic, abs=1e-12)


def test_a_constant_has_no_rank_correlation():
    assert np.isnan(stats.kendall_tau_b([1, 1, 1], [1, 2, 3]))
    with pytest.raises(ValueError, match="one length"):
        stats.kendall_tau_b([1, 2], [1, 2, 3])


def test_intervals_cover_the_mean_and_shrink():
    rng = np.random.default_rng(0)
    widths = []
    for n in (20, 500):
        low, high = stats.bootstrap(np.mean, rng.normal(1.0, 1.0, n))
        assert low < 1.0 < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3
    np.testing.assert_allclose(widths[1], 2 * 1.96 / 500**0.5, rtol=0.15)


def test_the_largest_share_leaves_the_observed_failures_a_chance_of_one_in_twenty():
    binomial = pytest.importorskip("scipy.stats").binom
    for failures, n in ((0, 40), (3, 50), (20, 300)):
        share = stats.largest_share(failures, n)
        assert binomial.cdf(failures, n, share) == pytest.approx(0.05, rel=1e-6)
    assert stats.largest_share(0, 1000) == pytest.approx(3 / 1000, rel=0.01)
    assert stats.largest_share(7, 7) == 1


def test_interval_of_few_values():
    """Five values: t of four degrees of freedom is 2.776."""
    mean, half = stats.mean_and_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3
    np.testing.assert_allclose(half, 2.776 * np.std([1, 2, 3, 4, 5], ddof=1) / 5**0.5)
    assert stats.mean_and_interval([1.0])[1] == 0
    wide, narrow = (stats.mean_and_interval(np.arange(n) % 2)[1] for n in (10, 40))
    assert narrow < wide


def test_sign_flips_of_known_differences():
    """All signs alike: 2 of 2^n rows are as large; symmetric differences: all are."""
    assert stats.sign_flip_test([1.0, 2.0, 0.5, 3.0, 1.0], np.arange(5)) == 2 / 32
    assert stats.sign_flip_test([1.0, -1.0], [0, 1]) == 1
    # Values of one cluster are one draw.
    assert stats.sign_flip_test([1.0] * 6, [0, 0, 1, 1, 2, 2]) == 2 / 8
    many = stats.sign_flip_test(np.ones(20), np.arange(20))
    assert 0 < many < 2e-4
