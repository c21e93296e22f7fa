"""The rule by which ours is compared with a published number, at its edges and by simulation."""

import math

import numpy as np
import pytest
import scipy.stats

from cgjax.published import verdict as verdicts
from cgjax.published.results import summary
from cgjax.published.verdict import above, equal, holm, of_entry, together, verdict
from cgjax.report import verdict as reported


def stated(mean, sd=0.0, **others):
    return {"mean": mean, "sd": sd, "where": "a table", "kind": "printed", **others}


def test_the_rule_is_one():
    assert reported is verdict


def test_half_width_is_students():
    values = [0.1, 0.4, 0.2, 0.7]
    low, high = scipy.stats.t.interval(0.95, 3, loc=np.mean(values), scale=scipy.stats.sem(values))
    assert verdicts.half_width(values) == pytest.approx((high - low) / 2)


def test_the_half_width_of_a_difference_is_welchs():
    rng = np.random.default_rng(0)
    left, right = rng.normal(0, 1, 5), rng.normal(0, 3, 9)
    interval = scipy.stats.ttest_ind(left, right, equal_var=False).confidence_interval()
    compared = above(left, right)
    assert compared.difference - compared.width == pytest.approx(interval.low)
    assert compared.difference + compared.width == pytest.approx(interval.high)
    # A paper's mean and deviation over its seeds are the other sample for "no match" ...
    published = stated(right.mean(), right.std(ddof=1), spread="seeds", n=9)
    ours = left - left.mean() + right.mean() + 2 * compared.width
    for share, word in ((0.99, "no match"), (1.01, "underpowered")):
        moved = verdict(ours, published | {"tolerance": share * compared.width})
        assert moved.word == word
    # ... and a match compares our interval with the number.
    assert moved.width == pytest.approx(verdicts.half_width(left))


# Differences of ours from 0.5 and half-widths: three seeds 0.01 apart are 0.0248 wide.
NARROW, WIDE = (0.509, 0.510, 0.511), (0.50, 0.51, 0.52)


@pytest.mark.parametrize(
    ("values", "published", "word"),
    (
        (NARROW, stated(0.5), "match"),  # 0.01 + 0.0025 is within 0.025
        (WIDE, stated(0.5), "underpowered"),  # each of 0.01 and 0.0248 is, but not their sum
        ((0.518, 0.519, 0.520), stated(0.5), "match"),
        ((0.523, 0.524, 0.525), stated(0.5), "underpowered"),  # on the edge
        ((0.528, 0.529, 0.530), stated(0.5), "no match"),  # 0.029 - 0.0025 is beyond 0.025
        (WIDE, stated(0.5, tolerance=0.04), "match"),  # the number states its own
        (NARROW, stated(0.5, tolerance=0.001), "no match"),
        ((10.4, 10.4, 10.4), stated(10.0), "match"),  # 5 % of a large number
        ((10.6, 10.6, 10.6), stated(10.0), "no match"),
        ((0.011, 0.011, 0.011), stated(0.01), "no match"),  # and of a small one
        ((0.0104, 0.0104), stated(0.01), "match"),
        ((0.0, 0.0), stated(0.02), "no match"),
        # What the number may be is a tolerance: two errors of reading it.
        (WIDE, stated(0.5, 0.02, spread="reading"), "match"),
        (WIDE, stated(0.5, 0.01, spread="reading"), "underpowered"),
        # What the paper's seeds do may explain a difference, and does not hinder a match.
        (NARROW, stated(0.5, 0.001, spread="seeds", n=5), "match"),
        (NARROW, stated(0.5, 0.02, spread="seeds", n=5), "match"),  # ours is near the number
        ((0.539, 0.540, 0.541), stated(0.5, 0.001, spread="seeds", n=5), "no match"),
        (
            (0.539, 0.540, 0.541),
            stated(0.5, 0.02, spread="seeds", n=5),
            "underpowered",
        ),  # by chance
        (NARROW, stated(0.5, 0.0, spread="seeds", n=1), "match"),  # the number is the claim
        # One run of theirs that scatters as ours do is twice as wide as our mean of three.
        (WIDE, stated(0.5, tolerance=0.04, runs=1), "match"),
        ((0.55, 0.56, 0.57), stated(0.5, tolerance=0.03), "no match"),
        ((0.55, 0.56, 0.57), stated(0.5, tolerance=0.03, runs=1), "underpowered"),
        ((0.55, 0.56, 0.57), stated(0.5, tolerance=0.03, spread="seeds", n=1), "underpowered"),
        ((0.951, 0.9511, 0.9512), stated(0.95, scale=0.05), "match"),  # an R2: 5 % of 1 - R2
        ((0.954, 0.954, 0.954), stated(0.95, scale=0.05), "no match"),
        ((3e-4, 3e-4), stated(2e-4, factor=2.0), "match"),  # by ratio
        ((9e-4, 9e-4), stated(2e-4, factor=2.0), "no match"),
        ((0.0, 1e-4), stated(2e-4, factor=2.0), "no match"),
        ((0.0, 0.0), stated(0.0, factor=2.0, floor=1e-15), "match"),  # p below what is printed
        ((1e-9, 1e-9), stated(0.0, factor=2.0, floor=1e-15), "no match"),
    ),
)
def test_words(values, published, word):
    assert verdict(values, published).word == word


@pytest.mark.parametrize("odd", (math.nan, math.inf, None))
def test_a_seed_without_a_number_is_not_dropped(odd):
    assert verdict([0.5, odd, 0.5], stated(0.5)).word == "not finite"
    assert verdict([odd], stated(0.5)).word == "not finite"
    assert above([1.0, 1.1, math.nan], 0.0).word == "not finite"
    assert equal([1.0, 1.0, math.nan], 1.0).word == "not finite"
    # Except where the number is defined for some seeds only.
    some = stated(0.5, only="searches with a solution")
    assert verdict([0.5, odd, 0.5], some).word == "match"
    assert verdict([odd], some).word == "not finite"
    assert above([1.0, 1.1, math.nan], 0.0, some=True).word == "match"


def test_one_seed_is_underpowered_and_a_computation_is_not():
    one = verdict([0.5], stated(0.5))
    assert one.word == "underpowered" and math.isinf(one.width) and one.seeds is None
    assert verdict([0.9], stated(0.5)).word == "underpowered"  # how far off one seed may be
    assert verdict([0.5], stated(0.5), is_drawn=False).word == "match"
    assert verdict([0.9], stated(0.5), is_drawn=False).word == "no match"
    assert verdict([0.5], stated(0.5, computed=True)).word == "match"
    # The paper's seeds may be why a computation differs: no number of our seeds decides.
    vague = verdict([0.54], stated(0.5, 0.1, spread="seeds", n=5), is_drawn=False)
    assert vague.word == "underpowered" and vague.width == 0 and math.isinf(vague.seeds)
    # A share of nothing has no logarithm, and one seed of it no spread.
    nothing = stated(2e-4, factor=2.0)
    assert verdict([0.0], nothing).word == "underpowered"
    assert verdict([0.0], nothing, is_drawn=False).word == "no match"


def test_how_many_seeds_would_decide():
    """As many as it says, of the same mean and deviation, decide, and one fewer do not."""

    def seeds(n, mean, sd):
        values = np.arange(n) - (n - 1) / 2
        return mean + sd * values / values.std(ddof=1)

    for mean, expected in ((0.51, "match"), (0.54, "no match")):
        first = verdict(seeds(3, mean, 0.02), stated(0.5))
        assert first.word == "underpowered" and 3 < first.seeds < 50
        assert verdict(seeds(first.seeds, mean, 0.02), stated(0.5)).word == expected
        assert verdict(seeds(first.seeds - 1, mean, 0.02), stated(0.5)).word == "underpowered"
    # The paper's own three seeds may be why ours differ, however many we have.
    vague = stated(0.5, 0.1, spread="seeds", n=3)
    assert math.isinf(verdict(seeds(3, 0.54, 0.02), vague).seeds)
    assert math.isfinite(verdict(seeds(3, 0.51, 0.02), vague).seeds)
    assert verdict([0.5], stated(0.5, 0.01, spread="seeds", n=50)).seeds > 2  # by their deviation
    order = above(seeds(3, 0.1, 0.2), 0.0)
    assert order.word == "underpowered" and order.p > 0.05
    assert above(seeds(order.seeds, 0.1, 0.2), 0.0).word == "match"
    assert above(seeds(order.seeds - 1, 0.1, 0.2), 0.0).word == "underpowered"
    assert above(seeds(3, 0.1, 0.2), 0.0, comparisons=10).seeds > order.seeds
    # Two sides of ours both get more seeds, and one that is known has none.
    for word, left, right in (("match", 0.5, 0.501), ("no match", 0.5, 0.54)):
        sides = seeds(5, left, 0.03), seeds(4, right, 0.03)
        same = equal(*sides, tolerance=0.02)
        assert same.word == "underpowered" and 5 < same.seeds < 200
        for n, expected in ((same.seeds, word), (same.seeds - 1, "underpowered")):
            sides = seeds(n, left, 0.03), seeds(n, right, 0.03)
            assert equal(*sides, tolerance=0.02).word == expected
    near = seeds(3, 0.51, 0.02)
    expected = verdict(near, stated(0.5)).seeds
    assert equal(0.5, near, tolerance=0.025).seeds == expected
    assert equal(near, 0.5, tolerance=0.025).seeds == expected
    # Of two sides it counts the seeds of the one with fewer.
    many = seeds(100, 0.0, 0.2)
    order = above(seeds(5, 0.1, 0.2), many)
    assert order.word == "underpowered" and 5 < order.seeds < 100
    assert above(seeds(order.seeds, 0.1, 0.2), many).word == "match"


def test_a_difference_of_the_tolerance_seldom_matches():
    """Difference and half-width within it, each alone, let 49 % and 8 % of such studies pass."""
    rng = np.random.default_rng(0)
    for true, most in ((1.0, 0.03), (1.25, 0.005)):
        words = [
            verdict(rng.normal(1 + 0.05 * true, 0.02, 5), stated(1.0)).word for _ in range(2000)
        ]
        assert words.count("match") / 2000 <= most
    words = [verdict(rng.normal(1 + 0.05, 0.02, 5), stated(1.0)).word for _ in range(2000)]
    assert words.count("no match") / 2000 <= 0.035


def test_an_entry_of_results_is_judged_alike():
    """What the number states travels with it into results.json."""
    published = stated(2e-4, 1e-5, n=5, spread="seeds", factor=2.0)
    values = [3e-4, 3.1e-4, 2.9e-4]
    entry = summary(values, (0, 1, 2), published)
    assert of_entry(entry) == verdict(values, published)
    assert of_entry(summary(values, (0, 1, 2), None)) is None
    old = {key: value for key, value in entry.items() if key != "paper_factor"}
    assert of_entry(old).tolerance == pytest.approx(1e-5)


def test_above():
    low, high = [0.1, 0.2, 0.3], [0.5, 0.7, 0.6]
    assert above(high, low).word == "match" and above(low, high).word == "no match"
    expected = scipy.stats.ttest_ind(high, low, equal_var=False).pvalue
    assert above(high, low).p == pytest.approx(expected)
    assert above([0.2, 0.3, 0.25], low).word == "underpowered"
    # Seeds move both sides alike: their differences are sure, each side is not.
    other = [0.12, 0.22, 0.33]
    assert above(other, low).word == "underpowered"
    assert above(other, low, paired=True).word == "match"
    expected = scipy.stats.ttest_rel(other, low).pvalue
    assert above(other, low, paired=True).p == pytest.approx(expected)
    assert above(low, 0.0).word == "underpowered" and above(high, 0.0).word == "match"
    assert above(0.0, high).word == "no match"
    assert above([0.5], 0.0).word == "underpowered" and above([0.5], 0.0).p is None
    assert above([0.5], 0.0, is_drawn=False).word == "match"
    assert above([0.5], [0.5], is_drawn=False).word == "no match"


@pytest.mark.parametrize(
    ("left", "right", "word", "stated"),
    (
        (NARROW, 0.5, "match", {}),  # as against a published number
        (WIDE, 0.5, "underpowered", {}),
        ((0.59, 0.60, 0.61), 0.5, "no match", {}),
        (0.5, (0.59, 0.60, 0.61), "no match", {}),
        (WIDE, 0.5, "match", {"tolerance": 0.04}),
        # Errors of independent sides add by their squares, those of pairs are of their differences.
        ((0.49, 0.51, 0.53), (0.491, 0.512, 0.529), "underpowered", {}),
        ((0.49, 0.51, 0.53), (0.491, 0.512, 0.529), "match", {"paired": True}),
        ((10.4, 10.4), (10.0, 10.0), "match", {}),  # 5 % of the larger
        ((10.6, 10.6), (10.0, 10.0), "no match", {}),
        ((0.5,), 0.5, "underpowered", {}),  # one seed, however close
        ((0.5,), 0.5, "match", {"is_drawn": False}),
        # Ten comparisons have ten chances to refute a claim.
        ((0.55, 0.56, 0.57), 0.5, "no match", {}),
        ((0.55, 0.56, 0.57), 0.5, "underpowered", {"parts": 10}),
    ),
)
def test_equal(left, right, word, stated):
    assert equal(left, right, **stated).word == word


def test_equals_that_are_defined_for_some_seeds():
    """The usual tolerance is a share of the mean of the seeds that count."""
    some = equal([0.50, math.nan, 0.51], (0.50, 0.51), some=True)
    assert some == equal([0.50, 0.51], (0.50, 0.51)) and some.tolerance == pytest.approx(0.02525)
    assert math.isfinite(equal([0.5, math.nan], 0.5).tolerance)


def test_of_equals_the_worst_is_shown():
    near, far = equal([0.50, 0.50], 0.5), equal([0.51, 0.51], 0.5)
    assert together([near, far]) == together([far, near]) == far
    below = equal([0.4, 0.4], 0.5)  # as far the other way
    assert together([near, below, far]) == below and below.word == "no match"


def test_a_claim_of_parts_falls_with_one():
    yes, no, open_ = above(1.0, 0.0), above(0.0, 1.0), above([0.5], 0.0)
    assert together([yes, yes]).word == "match"
    assert together([yes, open_]).word == "underpowered"
    assert together([open_, yes, no]).word == "no match"
    odd = above([math.nan], 0.0)
    # A part without a number is shown wherever it stands.
    for parts in ([odd, yes, no], [no, yes, odd], [yes, odd]):
        assert together(parts).word == "not finite"
    with pytest.raises(ValueError, match="at least one"):
        together([])


def test_p_of_a_claim_of_parts():
    """As sure as its least sure part; refuted by one of so many parts."""
    sure, less = above([1.0, 1.1, 1.2], 0.0), above([1.0, 1.1, 1.8], 0.0)
    assert sure.p < less.p < 0.05
    assert together([less, sure, sure]).p == together([sure, less]).p == less.p
    against = above([-1.0, -1.1, -1.8], 0.0)
    assert against.word == "no match" and against.p > 0.05 / 3
    assert together([sure, against]).p == 2 * against.p
    assert together([sure, sure, against]).word == "underpowered"


def test_holm():
    """As in the textbook: 4 p1, 3 p2, 2 p3, p4, none below those before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0] and holm([0.02]) == [0.02] and holm([]) == []


def test_of_many_true_nulls_seldom_one_is_called():
    """Ten orderings between equals: at 5 % each, four studies in ten would show one."""
    rng, false = np.random.default_rng(0), 0
    for _ in range(400):
        family = verdicts.corrected([above(rng.normal(size=6), 0.0) for _ in range(10)])
        false += any(verdict.word != "underpowered" for verdict in family)
    assert 0.03 < false / 400 < 0.07
