"""Ours against a published number: one rule for the closing table, the page and `reproduce`.

The half-width of our mean is w = t sd / sqrt(n) over n seeds, t the two-sided 95 % point of
Student's distribution; the paper's own is added to it. Within the tolerance, max(0.03, 5 %) unless
the number states its own, a difference is a *match* if w is within it too; beyond tolerance + w it
is *no match*; everything else is *underpowered*.

One seed tells nothing of its spread, so its w is infinite and it is underpowered, however close.
Where nothing is drawn, as in a closed form, w is 0. Of its own spread a paper tells the deviation
over n seeds, or the error with which the number was read or rounded, two of which count as 95 %;
what it does not tell counts as 0: then the number itself is the claim.
"""

import math
from typing import NamedTuple

import numpy as np

LEAST, SHARE = 0.03, 0.05  # of the tolerance: at least so much, or so large a part of the number
Z = 1.959964
STUDENT = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
)  # fmt: skip

# What is written beside a paper's number in results.json, as `paper_<name>`, so that the rule can
# be applied to it there.
STATED = ("spread", "n", "tolerance", "factor")


class Verdict(NamedTuple):
    word: str  # "match", "no match" or "underpowered"
    difference: float  # ours less theirs; of logarithms where the number allows a factor
    width: float  # half of the 95 % interval, ours and the paper's together
    tolerance: float


def student(degrees: int) -> float:
    """Two-sided 95 % point of Student's t; for more than ten degrees by expansion around normal."""
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
    """Of the mean of values [n]: t sd / sqrt(n); of a single draw infinite."""
    if len(values) < 2:
        return math.inf if is_drawn else 0.0
    return student(len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5


def published_width(published: dict) -> float:
    """Of a paper's number, from its `sd`, and `n` where that is a deviation over n seeds."""
    sd, n = published["sd"] or 0.0, published.get("n")
    if n is None:
        return 2 * sd
    return student(n - 1) * sd / n**0.5 if n > 1 else 0.0


def verdict(values, published: dict, is_drawn: bool = True) -> Verdict:
    """Ours, the value of every seed, against a number as `cgjax.published` has it.

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
    """The same of an entry of results.json; None where it has no number of a paper's."""
    if entry["paper"] is None:
        return None
    stated = {key: entry[f"paper_{key}"] for key in STATED if f"paper_{key}" in entry}
    published = {"mean": entry["paper"], "sd": entry["paper_sd"], **stated}
    return verdict(entry["values"], published, is_drawn)


def above(left, right, is_drawn: bool = True, paired: bool = False) -> Verdict:
    """Whether left is above right, as a paper claims: each a number, or the values of every seed.

    A match where the difference exceeds its half-width, no match where it does so the other way.
    paired: both are of the same seeds.
    """
    difference, width, _ = _apart(left, right, is_drawn, paired)
    if math.isnan(difference):
        return Verdict("underpowered", math.nan, math.inf, 0.0)
    # Without any width an equal pair is known not to be above.
    word = "match" if difference > width else "no match" if -difference >= width else "underpowered"
    return Verdict(word, difference, width, 0.0)


def equal(
    left, right, is_drawn: bool = True, paired: bool = False, tolerance: float | None = None
) -> Verdict:
    """Whether it makes no difference, as a paper claims: sides as `above` has them, by the rule.

    tolerance: without it max(0.03, 5 % of the larger side).
    """
    difference, width, size = _apart(left, right, is_drawn, paired)
    tolerance = max(LEAST, SHARE * size) if tolerance is None else tolerance
    if math.isnan(difference):
        return Verdict("underpowered", math.nan, math.inf, tolerance)
    return _within(difference, width, tolerance)


def _apart(left, right, is_drawn: bool, paired: bool) -> tuple[float, float, float]:
    """Difference of two sides' means, its half-width, and the larger mean's size; nan without any.

    Half-widths of independent sides add by their squares; of paired ones it is that of their
    differences.
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


def together(found: list[Verdict]) -> Verdict:
    """Of a claim of several parts: it stands if all do and falls with one; the closest is shown."""
    words = [one.word for one in found]
    for word in ("no match", "underpowered", "match"):
        if word in words:
            shown = [one for one in found if one.word == word]
            return min(shown, key=_room)
    raise ValueError("a claim has at least one part")


def _room(said: Verdict) -> float:
    """How far a verdict is from another one: of an ordering, or of an equality."""
    if said.tolerance:
        return said.tolerance - abs(said.difference) - said.width
    return said.difference - said.width
