"""Our numbers compared with published ones: one rule for the table, the page and `reproduce`.

The half-width of our mean is t sd / sqrt(n) over n seeds; t is the two-sided 95 % point of
Student's distribution. The half-width of the paper's number is added; w is the sum. The tolerance
is max(0.03, 5 % of the number) unless the number states its own. The verdict is:
- *match* if both the difference and w are within the tolerance;
- *no match* if the difference is beyond tolerance + w;
- *underpowered* otherwise.

One seed has no spread, so its w is infinite and the verdict is underpowered, however close it is.
If nothing is drawn, as in a closed form, our half-width is 0. A paper states either the deviation
over n seeds, or the error with which the number was read or rounded; two such errors count as 95 %.
If a paper states no spread, its half-width is 0: then the number itself is the claim.
"""

import math
from typing import NamedTuple

import numpy as np

LEAST, SHARE = 0.03, 0.05  # the tolerance is max(LEAST, SHARE * |number|)
Z = 1.959964  # two-sided 95 % point of the normal distribution
# Two-sided 95 % points of Student's t for 1 to 10 degrees of freedom.
STUDENT = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
)  # fmt: skip

# Stored beside a paper's number in results.json, as `paper_<name>`, so that the rule can be applied
# to the file.
STATED = ("spread", "n", "tolerance", "factor")


class Verdict(NamedTuple):
    word: str  # "match", "no match" or "underpowered"
    difference: float  # ours minus theirs; of logarithms if the number states a factor
    width: float  # half-width of the 95 % interval, ours plus the paper's
    tolerance: float


def student(degrees: int) -> float:
    """Two-sided 95 % point of Student's t; above ten degrees by expansion around the normal."""
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    terms = (
        (Z**3 + Z) / 4,
        (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
        (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
        (79 * Z**9 + 776 * Z**7 + 1482 * Z**5 - 1920 * Z**3 - 945 * Z) / 92160,
    )
    return Z + sum(term / degrees ** (i + 1) for i, term in enumerate(terms))


def half_width(values, is_drawn: bool = True) -> float:
    """Half-width of the mean of values [n]: t sd / sqrt(n); infinite for a single draw."""
    if len(values) < 2:
        return math.inf if is_drawn else 0.0
    return student(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5


def published_width(published: dict) -> float:
    """Half-width of a paper's number, from `sd`, and `n` if sd is a deviation over n seeds."""
    sd, n = published["sd"] or 0.0, published.get("n")
    if n is None:
        return 2 * sd
    return student(n - 1) * sd / n**0.5 if n > 1 else 0.0


def verdict(values, published: dict, is_drawn: bool = True) -> Verdict:
    """Compares values, one per seed, with a number of `cgjax.published`.

    is_drawn: whether another seed would give other values.
    """
    values = np.array([v for v in values if v is not None and math.isfinite(v)], float)
    mean, width = published["mean"], published_width(published)
    tolerance = published.get("tolerance", max(LEAST, SHARE * abs(mean)))
    if factor := published.get("factor"):  # numbers that span orders of magnitude
        width, tolerance = width / mean, math.log(factor)
        if len(values) and min(values) <= 0:
            return Verdict("no match", -math.inf, width, tolerance)
        values, mean = np.log(values), math.log(mean)
    if not len(values):
        return Verdict("underpowered", math.nan, math.inf, tolerance)
    return _within(float(values.mean() - mean), width + half_width(values, is_drawn), tolerance)


def _within(difference: float, width: float, tolerance: float) -> Verdict:
    """The rule itself."""
    if abs(difference) <= tolerance and width <= tolerance:
        word = "match"
    else:
        word = "no match" if abs(difference) > tolerance + width else "underpowered"
    return Verdict(word, difference, width, tolerance)


def of_entry(entry: dict, is_drawn: bool = True) -> Verdict | None:
    """`verdict` for an entry of results.json; None if the entry has no paper's number."""
    if entry["paper"] is None:
        return None
    stated = {key: entry[f"paper_{key}"] for key in STATED if f"paper_{key}" in entry}
    published = {"mean": entry["paper"], "sd": entry["paper_sd"], **stated}
    return verdict(entry["values"], published, is_drawn)


def above(left, right, is_drawn: bool = True, paired: bool = False) -> Verdict:
    """Whether left is above right, as a paper claims; each is a number or one value per seed.

    The verdict is match if the difference exceeds its half-width, and no match if the opposite
    difference reaches it. paired: both sides have the same seeds.
    """
    difference, width, _ = _apart(left, right, is_drawn, paired)
    if math.isnan(difference):
        return Verdict("underpowered", math.nan, math.inf, 0.0)
    # >=, so that an equal pair of width 0 is not above.
    word = "match" if difference > width else "no match" if -difference >= width else "underpowered"
    return Verdict(word, difference, width, 0.0)


def equal(
    left, right, is_drawn: bool = True, paired: bool = False, tolerance: float | None = None
) -> Verdict:
    """Whether two sides are equal, as a paper claims, by the rule; arguments as in `above`.

    tolerance: default max(0.03, 5 % of the larger side).
    """
    difference, width, size = _apart(left, right, is_drawn, paired)
    tolerance = max(LEAST, SHARE * size) if tolerance is None else tolerance
    if math.isnan(difference):
        return Verdict("underpowered", math.nan, math.inf, tolerance)
    return _within(difference, width, tolerance)


def _apart(left, right, is_drawn: bool, paired: bool) -> tuple[float, float, float]:
    """Difference of two sides' means, its half-width, and the larger mean's absolute value.

    The difference is nan if a side has no finite value. Half-widths of independent sides add in
    quadrature. For paired sides it is the half-width of the pairwise differences.
    """
    fixed = [np.ndim(side) == 0 for side in (left, right)]
    left, right = (np.atleast_1d(np.asarray(side, float)) for side in (left, right))
    finite = [side[np.isfinite(side)] for side in (left, right)]
    size = max((abs(float(side.mean())) for side in finite if len(side)), default=0.0)
    if paired and len(left) == len(right) and not any(fixed):
        both = np.isfinite(left) & np.isfinite(right)
        left, right, fixed = (left - right)[both], np.zeros(1), [False, True]
    left, right = (side[np.isfinite(side)] for side in (left, right))
    if not len(left) or not len(right):
        return math.nan, math.inf, 0.0
    widths = [half_width(side, is_drawn and not known) for side, known in zip((left, right), fixed)]
    return float(left.mean() - right.mean()), math.hypot(*widths), size


def together(parts: list[Verdict]) -> Verdict:
    """The verdict on a claim of several parts.

    It is "no match" if one part is; else "underpowered" if one part is; else "match". Of the parts
    with this word, the one with the smallest margin is returned.
    """
    words = [part.word for part in parts]
    for word in ("no match", "underpowered", "match"):
        if word in words:
            return min((part for part in parts if part.word == word), key=_margin)
    raise ValueError("a claim has at least one part")


def _margin(verdict: Verdict) -> float:
    """The margin of a verdict: of an equality, which has a tolerance, or of an ordering."""
    if verdict.tolerance:
        return verdict.tolerance - abs(verdict.difference) - verdict.width
    return verdict.difference - verdict.width
