"""The rule by which ours is held against a published number, at its edges."""

import math

import numpy as np
import pytest
import scipy.stats

from cgjax.published import verdict as verdicts
from cgjax.published.results import summary
from cgjax.published.verdict import above, equal, of_entry, together, verdict
from cgjax.report import verdict as reported


def told(mean, sd=0.0, **stated):
    return {"mean": mean, "sd": sd, "where": "a table", "kind": "printed", **stated}


def test_the_rule_is_one():
    assert reported is verdict


@pytest.mark.parametrize("degrees", (1, 2, 4, 9, 10, 11, 15, 30, 100, 1000))
def test_students_points(degrees):
    expected = scipy.stats.t.ppf(0.975, degrees)
    assert verdicts.student(degrees) == pytest.approx(expected, abs=5e-5)


def test_half_width_is_students():
    values = [0.1, 0.4, 0.2, 0.7]
    low, high = scipy.stats.t.interval(0.95, 3, loc=np.mean(values), scale=scipy.stats.sem(values))
    assert verdicts.half_width(values) == pytest.approx((high - low) / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("values", "published", "word"),
    (
        ([0.51, 0.50, 0.52], told(0.5), "match"),  # difference 0.01, width 0.025, tolerance 0.03
        ([0.51, 0.48, 0.54], told(0.5), "underpowered"),  # as close, but 0.075 wide
        ([0.59, 0.60, 0.61], told(0.5), "no match"),  # 0.1 is beyond 0.03 + 0.025
        ([0.54, 0.55, 0.56], told(0.5), "underpowered"),  # 0.05 is not
        ([0.54, 0.55, 0.56], told(0.5, tolerance=0.06), "match"),  # the number states its own
        ([0.51, 0.50, 0.52], told(0.5, tolerance=0.001), "underpowered"),
        ([10.4, 10.4, 10.4], told(10.0), "match"),  # 5 % of a large number
        ([10.6, 10.6, 10.6], told(10.0), "no match"),
        ([0.51, 0.50, 0.52], told(0.5, 0.01), "underpowered"),  # two errors of reading are added
        ([0.51, 0.50, 0.52], told(0.5, 0.001, n=5), "match"),  # 2.78 * 0.001 / sqrt 5 of seeds
        ([0.51, 0.50, 0.52], told(0.5, 0.01, n=5), "underpowered"),
        ([0.51, 0.50, 0.52], told(0.5, 0.0, n=1), "match"),  # one run: the number is the claim
        ([3e-4, 3e-4], told(2e-4, factor=2.0), "match"),  # by ratio, where 0.03 would let all pass
        ([9e-4, 9e-4], told(2e-4, factor=2.0), "no match"),
        ([0.0, 1e-4], told(2e-4, factor=2.0), "no match"),
        ([math.nan, None, 0.5], told(0.5), "underpowered"),  # one seed lives
        ([None], told(0.5), "underpowered"),
    ),
)
def test_words(values, published, word):
    assert verdict(values, published).word == word


def test_one_seed_is_underpowered_and_a_closed_form_is_not():
    one = verdict([0.5], told(0.5))
    assert one.word == "underpowered" and math.isinf(one.width)
    assert verdict([0.9], told(0.5)).word == "underpowered"  # how far off one seed may be
    assert verdict([0.5], told(0.5), is_drawn=False).word == "match"
    assert verdict([0.9], told(0.5), is_drawn=False).word == "no match"


def test_an_entry_of_results_is_judged_alike():
    """What the number states travels with it into results.json."""
    published = told(2e-4, 1e-5, n=5, spread="seeds", factor=2.0)
    values = [3e-4, 3.1e-4, 2.9e-4]
    entry = summary(values, (0, 1, 2), published)
    assert of_entry(entry) == verdict(values, published)
    assert of_entry(summary(values, (0, 1, 2), None)) is None
    old = {key: value for key, value in entry.items() if key != "paper_factor"}
    assert of_entry(old).tolerance == 0.03


def test_above():
    low, high = [0.1, 0.2, 0.3], [0.5, 0.7, 0.6]
    assert above(high, low).word == "match" and above(low, high).word == "no match"
    assert above([0.2, 0.3, 0.25], low).word == "underpowered"
    # Seeds move both sides alike: their differences are sure, each side is not.
    other = [0.12, 0.22, 0.32]
    assert above(other, low).word == "underpowered"
    assert above(other, low, paired=True).word == "match"
    assert above(low, 0.0).word == "underpowered" and above(high, 0.0).word == "match"
    assert above(0.0, high).word == "no match"
    assert above([0.5], 0.0).word == "underpowered"
    assert above([0.5], 0.0, is_drawn=False).word == "match"
    assert above([0.5], [0.5], is_drawn=False).word == "no match"
    assert above([math.nan], 0.0).word == "underpowered"


@pytest.mark.parametrize(
    ("left", "right", "word", "stated"),
    (
        ([0.51, 0.50, 0.52], 0.5, "match", {}),  # as against a published number
        ([0.51, 0.48, 0.54], 0.5, "underpowered", {}),
        ([0.59, 0.60, 0.61], 0.5, "no match", {}),
        (0.5, [0.59, 0.60, 0.61], "no match", {}),
        ([0.54, 0.55, 0.56], 0.5, "underpowered", {}),
        ([0.54, 0.55, 0.56], 0.5, "match", {"tolerance": 0.06}),
        # Widths of independent sides add by their squares: 0.025 each are 0.035.
        ([0.51, 0.50, 0.52], [0.51, 0.50, 0.52], "underpowered", {}),
        ([0.51, 0.50, 0.52], [0.51, 0.50, 0.52], "match", {"paired": True}),
        ([10.4, 10.4], [10.0, 10.0], "match", {}),  # 5 % of the larger
        ([10.6, 10.6], [10.0, 10.0], "no match", {}),
        ([0.5], 0.5, "underpowered", {}),  # one seed, however close
        ([0.5], 0.5, "match", {"is_drawn": False}),
        ([math.nan], 0.5, "underpowered", {}),
    ),
)
def test_equal(left, right, word, stated):
    assert equal(left, right, **stated).word == word


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
    with pytest.raises(ValueError, match="at least one"):
        together([])
