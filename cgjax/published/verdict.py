"""Our numbers compared with published ones: one rule for the table, the page and `reproduce`.

A *match* is a statement of equivalence: the 95 % interval of our mean lies within the tolerance
around the published number. A *no match* says that the difference lies beyond the tolerance by more
than chance does on both sides. Otherwise the verdict is *underpowered*, and `seeds` says how many
seeds would decide:

    match         |difference| + width <= tolerance
    no match      |difference| - chance > tolerance
    underpowered  otherwise

width is t times the standard error of our mean: the published number is what we compare with, and
its own scatter neither helps nor hinders a match. chance is the same of the difference of two
means. Our seeds count, and the paper's where it states a deviation over n seeds (Welch's degrees of
freedom). Where it states the number of its runs and no deviation, its runs are taken to scatter as
ours do. Where it states neither, the number itself is the claim. One drawn seed has no spread, so
both are infinite. A computation in which nothing is drawn has width 0.

The tolerance is what else may differ. It is the larger of 5 % of the number's scale and twice the
error with which the number is known (read off a plot, rounded, sampled once). The scale of a
number is its absolute value, so that a loss of 0.001 or a share of 0.01 is compared as strictly as
a slope of 1. Three kinds of number have another scale. An R2 is 1 - error / variance: its scale is
1 - R2, so that the R2 and the MSE of the same predictions match together. A difference of two
accuracies may be 0: its scale is the range that it can have. A number that spans orders of
magnitude (a p-value, the share of kept weights, an error of a single run) is compared by
logarithms, and ours may be `factor` times more or less. A closed form that is printed to k digits
states the tolerance of its last digit.

A seed without a finite number makes the verdict *not finite*: no mean exists, and none is made of
the others. Only where the number is defined for some seeds (bases that learned the task, searches
that found a solution: `only` says which) do the others not count.

An ordering ("A above B") is tested two-sided at 5 %: *match* if the difference has the claimed sign
and p < 0.05, *no match* if it has the other sign and p < 0.05. All parts of a claim have to hold.
Claims that are tested on the same row are a family: `holm` corrects their p.
"""

import math
from typing import NamedTuple

import numpy as np

WORDS = ("not finite", "no match", "underpowered", "match")  # the worst first
LEVEL = 0.05
SHARE = 0.05  # the tolerance, as a share of a number's scale
MOST_SEEDS = 10_000  # `seeds` is infinite beyond

# Stored beside a paper's number in results.json, as `paper_<name>`, so that the rule can be applied
# to the file.
STATED = ("spread", "n", "runs", "tolerance", "factor", "floor", "scale", "only", "computed")


class Verdict(NamedTuple):
    word: str  # "match", "no match", "underpowered" or "not finite"
    difference: float  # ours minus theirs; of logarithms if the number states a factor
    # Half-width of a 95 % interval: of our mean, if theirs is published; else of the difference.
    width: float
    tolerance: float  # 0 for an ordering
    p: float | None = None  # of an ordering: two-sided
    # If underpowered, how many seeds would decide if mean and deviation stay. Infinite if ours
    # differ and the paper's own spread may be why, None if a single seed has no deviation.
    seeds: float | None = None


class Mean(NamedTuple):
    """A mean, and what its standard error shrinks with."""

    mean: float
    sd: float  # of one seed; nan if it is not known
    n: float  # seeds; infinite if nothing is drawn
    beside: float = math.inf  # runs of the other side that scatter as these do

    @property
    def error(self) -> float:
        if math.isinf(self.n):
            return 0.0
        return math.inf if self.n < 2 else self.sd * math.sqrt(1 / self.n + 1 / self.beside)


def mean_of(values, is_drawn: bool = True) -> Mean:
    """The mean of one value per seed; is_drawn: whether another seed would give another value."""
    if len(values) < 2:
        return Mean(float(np.mean(values)), math.nan, 1 if is_drawn else math.inf)
    return Mean(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))


def interval(*means: Mean, level: float = LEVEL) -> float:
    """Half-width of the interval of a sum or difference of independent means, after Welch."""
    import scipy.special  # here, because its import takes as long as most commands

    error, degrees = _welch(means)
    return 0.0 if error == 0 else error * float(scipy.special.stdtrit(degrees, 1 - level / 2))


def _welch(means) -> tuple[float, float]:
    """Standard error of a difference of means, and its degrees of freedom."""
    errors = [mean.error for mean in means]
    error = math.hypot(*errors)
    if error == 0 or math.isinf(error):
        return error, 1.0
    shares = ((part / error) ** 4 / (mean.n - 1) for part, mean in zip(errors, means) if part)
    return error, 1 / sum(shares)


def half_width(values, is_drawn: bool = True) -> float:
    """Half-width of the 95 % interval of the mean of values [n]; infinite for a single draw."""
    return interval(mean_of(values, is_drawn))


# --- against a published number -------------------------------------------------------------------


def published_mean(published: dict) -> Mean:
    """A paper's number; without a deviation over seeds the number itself is the claim."""
    if published.get("spread", "seeds") == "seeds" and published.get("n", 1) > 1:
        return Mean(published["mean"], published["sd"], published["n"])
    return Mean(published["mean"], 0.0, math.inf)


def published_error(published: dict) -> float:
    """The error with which a paper's number is known; 0 if its sd is a deviation over seeds."""
    return 0.0 if "n" in published else published["sd"] or 0.0


def published_width(published: dict) -> float:
    """Half of the interval in which a paper's number lies: by its seeds, or by two errors."""
    return interval(published_mean(published)) or 2 * published_error(published)


def tolerance_of(published: dict) -> float:
    """How far ours may be from a paper's number; of logarithms if the number states a factor."""
    mean, error = published["mean"], published_error(published)
    if factor := published.get("factor"):
        return max(math.log(factor), math.log1p(2 * error / mean) if error else 0.0)
    usual = SHARE * published.get("scale", abs(mean))
    return max(published.get("tolerance", usual), 2 * error)


def verdict(values, published: dict, is_drawn: bool = True) -> Verdict:
    """Compares values, one per seed, with a number of `cgjax.published`."""
    tolerance = tolerance_of(published)
    values = _known(values, bool(published.get("only")))
    if values is None:
        return Verdict("not finite", math.nan, math.inf, tolerance)
    theirs = published_mean(published)
    is_drawn = is_drawn and not published.get("computed")
    if published.get("factor"):
        floor = published.get("floor", 0.0)
        values, mean = np.maximum(values, floor), max(theirs.mean, floor)
        if min(values) <= 0:
            if is_drawn and len(values) == 1:
                return Verdict("underpowered", -math.inf, math.inf, tolerance)
            return Verdict("no match", -math.inf, 0.0, tolerance)
        values, theirs = np.log(values), Mean(math.log(mean), theirs.sd / mean, theirs.n)
    ours = mean_of(values, is_drawn)
    if math.isnan(ours.sd):  # a single seed: the paper's deviation says how many would do
        ours = ours._replace(sd=theirs.sd if math.isfinite(theirs.n) else math.nan)
    runs = published.get("runs", 1 if published.get("n") == 1 else math.inf)  # one has no deviation
    ours = ours._replace(beside=runs)
    return _equivalence(ours, theirs, tolerance, is_published=True)


def of_entry(entry: dict, is_drawn: bool = True) -> Verdict | None:
    """`verdict` for an entry of results.json; None if the entry has no paper's number."""
    if entry["paper"] is None:
        return None
    stated = {key: entry[f"paper_{key}"] for key in STATED if f"paper_{key}" in entry}
    published = {"mean": entry["paper"], "sd": entry["paper_sd"], **stated}
    return verdict(entry["values"], published, is_drawn)


def _known(values, some: bool) -> np.ndarray | None:
    """Values as an array; None if one that counts, or all, are not finite."""
    values = np.array([math.nan if value is None else value for value in values], float)
    finite = values[np.isfinite(values)]
    return None if not len(finite) or (len(finite) < len(values) and not some) else finite


def _equivalence(
    ours: Mean, theirs: Mean, tolerance: float, parts: int = 1, is_published: bool = False
) -> Verdict:
    """The rule itself; parts: each of so many comparisons could refute the claim.

    is_published: theirs is a published number, whose scatter does not count for a match.
    """

    def width(ours, theirs):
        return interval(ours._replace(beside=math.inf)) if is_published else interval(ours, theirs)

    def word(ours, theirs):
        distance = abs(ours.mean - theirs.mean)
        if distance + width(ours, theirs) <= tolerance:
            return "match"
        beyond = distance - interval(ours, theirs, level=LEVEL / parts) > tolerance
        return "no match" if beyond else "underpowered"

    decided, seeds = word(ours, theirs), None
    if decided == "underpowered" and is_published:
        seeds = _seeds(ours, lambda more: word(more, theirs) != decided)
    elif decided == "underpowered":
        seeds = _seeds_of_all((ours, theirs), lambda more: word(*more) != decided)
    difference = ours.mean - theirs.mean
    return Verdict(decided, difference, width(ours, theirs), tolerance, seeds=seeds)


def _seeds(ours: Mean, decides) -> float | None:
    """The least number of seeds with which `decides(mean)` is true if mean and deviation stay."""
    if math.isinf(ours.n):
        return math.inf
    if math.isnan(ours.sd):
        return None
    low, high = max(int(ours.n), 1), MOST_SEEDS
    if not decides(ours._replace(n=high)):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(ours._replace(n=middle)) else (middle, high)
    return high


def _seeds_of_all(means, decides) -> float | None:
    """`_seeds` of sides that are all ours: `decides(means)`; one with more seeds keeps them."""
    drawn = [mean for mean in means if math.isfinite(mean.n)]
    if not drawn:
        return math.inf
    if any(math.isnan(mean.sd) for mean in drawn):
        return None

    def with_more(fewest):
        return [
            mean._replace(n=max(mean.n, fewest.n)) if math.isfinite(mean.n) else mean
            for mean in means
        ]

    fewest = min(drawn, key=lambda mean: mean.n)
    return _seeds(fewest, lambda more: decides(with_more(more)))


# --- our numbers against each other ---------------------------------------------------------------


def above(
    left,
    right,
    is_drawn: bool = True,
    paired: bool = False,
    some: bool = False,
    comparisons: int = 1,
) -> Verdict:
    """Whether left is above right, as a paper claims; each is a number or one value per seed.

    paired: both sides have the same seeds. some: values that are not finite do not count, because
    the number is defined for some seeds only. comparisons: in the family, which Holm's correction
    will be for; `seeds` are for that many.
    """
    means = _sides(left, right, is_drawn, paired, some)
    if means is None:
        return Verdict("not finite", math.nan, math.inf, 0.0)
    difference, width = means[0].mean - means[1].mean, interval(*means)
    if all(math.isinf(mean.n) for mean in means):
        return Verdict("match" if difference > 0 else "no match", difference, 0.0, 0.0)
    p, level = p_of(means), LEVEL / comparisons
    seeds = _seeds_of_all(means, lambda more: p_of(more) < level)
    return ordered(Verdict("", difference, width, 0.0, p, seeds), p)


def p_of(means) -> float | None:
    """Two-sided p of equal means; None if a single seed has no spread."""
    import scipy.special

    error, degrees = _welch(means)
    if math.isinf(error):
        return None
    difference = abs(means[0].mean - means[1].mean)
    if error == 0:
        return 0.0 if difference else 1.0
    return float(2 * scipy.special.stdtr(degrees, -difference / error))


def ordered(verdict: Verdict, p: float | None) -> Verdict:
    """The word of an ordering whose p, perhaps corrected, is known."""
    if p is None or p >= LEVEL:
        return verdict._replace(word="underpowered", p=p)
    return verdict._replace(word="match" if verdict.difference > 0 else "no match", p=p)


def equal(
    left,
    right,
    is_drawn: bool = True,
    paired: bool = False,
    tolerance: float | None = None,
    some: bool = False,
    parts: int = 1,
) -> Verdict:
    """Whether two sides are equal, as a paper claims, by the rule; arguments as in `above`.

    tolerance: default 5 % of the larger side. parts: the comparisons that the claim consists of.
    """
    means = _sides(left, right, is_drawn, paired, some)
    if tolerance is None:
        known = (_known(np.atleast_1d(side), True) for side in (left, right))
        sizes = [abs(float(np.mean(side))) for side in known if side is not None]
        tolerance = SHARE * max(sizes, default=0.0)
    if means is None:
        return Verdict("not finite", math.nan, math.inf, tolerance)
    return _equivalence(*means, tolerance, parts)


def _sides(left, right, is_drawn: bool, paired: bool, some: bool) -> tuple[Mean, Mean] | None:
    """The means of two sides, or of their differences and 0; None if one is not finite."""
    fixed = [np.ndim(side) == 0 for side in (left, right)]
    left, right = (np.atleast_1d(np.asarray(side, float)) for side in (left, right))
    if paired and len(left) == len(right) and not any(fixed):
        left, right, fixed = left - right, np.zeros(1), [False, True]
    sides = [_known(side, some) for side in (left, right)]
    if any(side is None for side in sides):
        return None
    return tuple(mean_of(side, is_drawn and not known) for side, known in zip(sides, fixed))


def together(parts: list[Verdict]) -> Verdict:
    """The verdict on a claim of several parts, all of which have to hold.

    It is "not finite" if one part is; else "no match" if one part is; else "underpowered" if one
    part is; else "match". Of the parts with this word, the one with the smallest margin is shown.
    An ordering is as sure as its least sure part, so its p is their largest. A part of the opposite
    sign refutes it, and there are as many chances for that as parts: its p is multiplied by them.
    """
    if not parts:
        raise ValueError("a claim has at least one part")
    parts = [
        ordered(part, min(1.0, len(parts) * part.p))
        if part.p is not None and part.difference <= 0
        else part
        for part in parts
    ]
    words = [part.word for part in parts]
    word = next(word for word in WORDS if word in words)
    shown = min((part for part in parts if part.word == word), key=_margin)
    if shown.p is not None and shown.difference > 0:
        shown = shown._replace(p=max(part.p for part in parts if part.p is not None))
    return shown


def _margin(verdict: Verdict) -> float:
    """The margin of a verdict: of an equality, which has a tolerance, or of an ordering.

    Of a part without one, such as a single seed, it is the least.
    """
    distance = abs(verdict.difference) if verdict.tolerance else -verdict.difference
    margin = verdict.tolerance - distance - verdict.width
    return -math.inf if math.isnan(margin) else margin


def holm(p_values) -> list[float]:
    """p-values of a family of comparisons, corrected for their number after Holm."""
    order = np.argsort(p_values, kind="stable")
    n, largest, corrected = len(p_values), 0.0, [0.0] * len(p_values)
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (n - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def corrected(family: list[Verdict]) -> list[Verdict]:
    """Orderings of one family of comparisons with Holm's p and the words that follow from it."""
    tested = [i for i, verdict in enumerate(family) if verdict.p is not None]
    p_of = dict(zip(tested, holm([family[i].p for i in tested])))
    return [ordered(verdict, p_of[i]) if i in p_of else verdict for i, verdict in enumerate(family)]
