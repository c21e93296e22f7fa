"""Coverage of every interval and size of every test that the package prints, by simulation.

`python -m cgjax.bench coverage` writes the table of `published/README.md` (--steps: studies for
each number). A study is drawn where the truth is known; the interval covers it or not, the test of
a true null rejects it or not. Where a number is not near 0.95 or 0.05, words say what it is.
"""

import pathlib
import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from cgjax import published
from cgjax.analysis import dependence, stats
from cgjax.analysis.data_needed import exponent
from cgjax.core.errors import BadInput
from cgjax.core.workdir import write_atomic
from cgjax.published import verdict as verdicts

README = pathlib.Path(published.__file__).parent / "README.md"
START, END = "<!-- Written by `python -m cgjax.bench coverage`. -->\n", "<!-- End. -->"
N_STUDIES = 4000
WITHIN = {"coverage": (0.93, 0.97), "size": (0.03, 0.07)}


class Row(NamedTuple):
    what: str  # the interval or test
    where: str  # it is printed
    case: str  # how the studies are drawn
    study: Callable  # rng -> whether the interval covers the truth, or the test rejects it
    kind: str = "coverage"  # or "size"
    words: str = ""  # what it is if it is not 95 % or 5 %
    costs: int = 1  # so many times fewer studies


# --- intervals ------------------------------------------------------------------------------------


def _mean(draw, n, truth=0.0):
    def study(rng):
        values = draw(rng, n)
        return abs(values.mean() - truth) <= verdicts.half_width(values)

    return study


def _two_errors(n):
    def study(rng):
        mean, errors = stats.mean_and_error(rng.normal(size=n))
        return abs(mean) <= errors

    return study


def _against_paper(n, n_paper, sd_paper):
    def study(rng):
        ours, theirs = rng.normal(1, 1, n), rng.normal(1, sd_paper, n_paper)
        means = verdicts.mean_of(ours), verdicts.mean_of(theirs)
        return abs(means[0].mean - means[1].mean) <= verdicts.interval(*means)

    return study


def _against_runs(n, runs):
    def study(rng):
        ours = verdicts.mean_of(rng.normal(1, 1, n))._replace(beside=runs)
        return abs(ours.mean - rng.normal(1, 1, runs).mean()) <= verdicts.interval(ours)

    return study


def _drawn_mean(n):
    def study(rng):
        low, high = stats.bootstrap(np.mean, rng.normal(size=n), n=200, seed=rng.integers(1 << 30))
        return low <= 0 <= high

    return study


def _drawn_tau(n, correlation):
    truth = 2 / np.pi * np.arcsin(correlation)

    def study(rng):
        x = rng.normal(size=n)
        y = correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=n)
        seed = rng.integers(1 << 30)
        low, high = stats.bootstrap(stats.kendall_tau_b, x, y, n=100, seed=seed)
        return low <= truth <= high

    return study


def _exponent(n_seeds):
    sizes = np.array([12, 16, 20, 24, 28, 32])

    def study(rng):
        needed = np.exp(2 * np.log(sizes)[:, None] + rng.normal(0, 0.3, (len(sizes), n_seeds)))
        fitted = exponent(sizes, needed, draws=200, seed=rng.integers(1 << 30))
        return fitted.low <= 2 <= fitted.high

    return study


def _pooled_share(n):
    """Shares of absolute means, as the magnitudes of the kernels' networks are."""
    centre = np.array([1.0, 0.5, 0.2])

    def share(values):
        size = np.abs(values.mean(axis=0))
        return size / size.sum()

    def study(rng):
        values = stats.jackknife(share, rng.normal(centre, 0.2, (n, 3)))[:, 1]
        return abs(values.mean() - centre[1] / centre.sum()) <= verdicts.half_width(values)

    return study


def _share(n, share):
    def study(rng):
        low, high = stats.share_interval(int(rng.binomial(n, share)), n)
        return low <= share <= high

    return study


def _largest_share(n, share):
    return lambda rng: share <= stats.largest_share(int(rng.binomial(n, share)), n)


# --- tests ----------------------------------------------------------------------------------------


def _paired(n):
    def study(rng):
        start = rng.normal(size=n)
        left, right = start + rng.normal(size=(2, n))
        return verdicts.above(left, right, paired=True).word != "underpowered"

    return study


def _unpaired(n_left, n_right, sd):
    def study(rng):
        left, right = rng.normal(size=n_left), rng.normal(0, sd, n_right)
        return verdicts.above(left, right).word != "underpowered"

    return study


def _family(n_claims, n):
    def study(rng):
        family = [verdicts.above(rng.normal(size=n), 0.0) for _ in range(n_claims)]
        return any(verdict.word != "underpowered" for verdict in verdicts.corrected(family))

    return study


def _edge(word, n, n_paper=0):
    """A true difference of exactly the tolerance, 2.5 standard deviations of one seed.

    n_paper: the paper's number is the mean of so many runs that scatter as ours do; 0: exact.
    """

    def study(rng):
        number = {"mean": 1.0, "sd": 0.0, "tolerance": 0.05}
        if n_paper:
            theirs = rng.normal(1.0, 0.02, n_paper)
            number |= {"mean": theirs.mean(), "sd": theirs.std(ddof=1), "n": n_paper}
        return verdicts.verdict(rng.normal(1.05, 0.02, n), number).word == word

    return study


def _clustered(test, n_clusters):
    """Bases of three mask runs each, without any difference."""
    clusters = np.repeat(np.arange(n_clusters), 3)
    y_clusters, ablated = np.tile(clusters, 2), np.repeat([0.0, 1.0], len(clusters))
    design = np.stack([np.ones(len(ablated)), ablated], axis=1)

    def study(rng):
        offsets = rng.normal(size=(2, n_clusters))
        y = offsets[ablated.astype(int), y_clusters] + 0.3 * rng.normal(size=len(ablated))
        if test == "wald":
            return stats.wald(*stats.clustered_covariance(y, design, y_clusters), (1, 1)).p < 0.05
        if test == "wild":
            return stats.wild_cluster(y, design, y_clusters, (1, 1)) < 0.05
        return stats.sign_flip_test(y[ablated == 1], clusters) < 0.05

    return study


def _null(n_draws):
    def study(rng):
        draws = rng.normal(size=1 + n_draws)
        return stats.null_p(float(draws[0]), draws[1:], "below") <= 0.05

    return study


def _permuted(n, is_conditional):
    @jax.jit
    def p(key, y2, yhat, y1):
        if is_conditional:
            return dependence.permutation_test(key, y2, yhat, y1, 99, (5, 5, 5)).p
        return dependence.permutation_test(key, y2, yhat, None, 99, (5, 5)).p

    def study(rng):
        key = jax.random.key(int(rng.integers(1 << 30)))
        return float(p(key, *rng.integers(0, 5, (3, n)))) <= 0.05

    return study


def _normal(rng, n):
    return rng.normal(size=n)


def _skewed(rng, n):
    return rng.exponential(size=n) - 1


PAGE, CLAIMS = "page, `reproduce`, closing table", "page, `reproduce`, *resistance*"
EXACT = "at least 95 %: exact, so it covers more where counts are few"
EDGE = "2.5 % by design: each side of the tolerance has its own"
LARGE = "as released, for comparison: too small p with few bases; the next two are for use"
SIGNS = "at most 5 %: p is a multiple of 2^(1 - bases), and never below it"
WIDE = "at least 95 %: a little wide"
ROWS = (
    Row("mean over seeds, Student's t", PAGE, "3 seeds", _mean(_normal, 3)),
    Row("mean over seeds, Student's t", PAGE, "5 seeds", _mean(_normal, 5)),
    Row("mean over seeds, Student's t", PAGE, "5 seeds, skewed (exponential)",
        _mean(_skewed, 5),
        words="too narrow: t assumes symmetric scatter; so errors are compared by logarithms"),
    Row("difference from a paper's mean, Welch", PAGE, "3 seeds against 3",
        _against_paper(3, 3, 1.0), words="at least 95 %: Welch's t is wide for so few seeds"),
    Row("difference from a paper's mean, Welch", PAGE, "5 seeds against 5, half the deviation",
        _against_paper(5, 5, 0.5)),
    Row("difference from a paper's mean, Welch", PAGE, "20 seeds against 5, twice the deviation",
        _against_paper(20, 5, 2.0)),
    Row("difference from runs that scatter as ours", PAGE, "5 seeds against 1 run",
        _against_runs(5, 1)),
    Row("difference from runs that scatter as ours", PAGE, "6 seeds against 10 runs",
        _against_runs(6, 10)),
    Row("two standard errors", "figures of *kernels*", "6 seeds", _two_errors(6),
        words="two standard errors, as the papers draw them: 90 % with 6 seeds"),
    Row("draws with replacement, a mean", "`stats.bootstrap`", "3 rows", _drawn_mean(3), costs=2),
    Row("draws with replacement, a mean", "`stats.bootstrap`", "5 rows", _drawn_mean(5), costs=2),
    Row("draws with replacement, tau-b", "*support*, *bumps*", "19 pairs, correlation 0",
        _drawn_tau(19, 0.0), words=WIDE, costs=4),
    Row("draws with replacement, tau-b", "*support*, *bumps*",
        "19 pairs, correlation 0.7", _drawn_tau(19, 0.7), words=WIDE, costs=4),
    Row("draws with replacement, tau-b", "*support*, *bumps*",
        "40 pairs, correlation 0.5", _drawn_tau(40, 0.5), words=WIDE, costs=4),
    Row("exponent of data needed", "*bumps*: `needed`", "5 seeds, 6 sizes", _exponent(5), costs=4),
    Row("pooled share, jackknife", "*kernels*: `cd_deep`", "6 networks", _pooled_share(6)),
    Row("share, Clopper and Pearson", "*sprites*: jumps", "a tenth of 20", _share(20, 0.1),
        words=EXACT),
    Row("largest share, one-sided", "certificate", "3 % of 200", _largest_share(200, 0.03),
        words=EXACT),
    Row("ordering of pairs, Student's t", CLAIMS, "5 seeds", _paired(5), "size"),
    Row("ordering, Welch", CLAIMS, "5 seeds against 5", _unpaired(5, 5, 1.0), "size"),
    Row("ordering, Welch", CLAIMS, "5 seeds against 100, twice the deviation",
        _unpaired(5, 100, 2.0), "size"),
    Row("any of 10 orderings of a row, Holm", CLAIMS, "6 seeds", _family(10, 6), "size"),
    Row("match, though the difference is the tolerance", PAGE, "5 seeds", _edge("match", 5), "size",
        words=EDGE),
    Row("no match, though it is not beyond", PAGE, "5 seeds", _edge("no match", 5), "size",
        words=EDGE),
    Row("no match, though it is not beyond", PAGE, "5 seeds against 5",
        _edge("no match", 5, 5), "size", words=EDGE),
    Row("match, though the means behind both differ by the tolerance", PAGE, "5 seeds against 5",
        _edge("match", 5, 5), "size",
        words="the printed number is the claim: the chance in it is not part of the rule"),
    Row("clustered z test", "*subnetworks*", "3 bases", _clustered("wald", 3), "size", words=LARGE),
    Row("clustered z test", "*subnetworks*", "6 bases", _clustered("wald", 6), "size", words=LARGE),
    Row("wild clusters", "*subnetworks*", "6 bases", _clustered("wild", 6), "size", words=SIGNS,
        costs=2),
    Row("wild clusters", "*subnetworks*", "10 bases", _clustered("wild", 10), "size", costs=4),
    Row("signs of clusters", "*subnetworks*", "5 bases", _clustered("signs", 5), "size",
        words=SIGNS),
    Row("signs of clusters", "*subnetworks*", "8 bases", _clustered("signs", 8), "size"),
    Row("against a sample of the null", "*subnetworks*: removals", "99 draws", _null(99), "size"),
    Row("information, labels shuffled", "*resistance*", "5 x 5 labels, 200 samples",
        _permuted(200, False), "size", costs=4),
    Row("conditional information, shuffled", "*resistance*", "5 x 5 x 5 labels, 200 samples",
        _permuted(200, True), "size", costs=4),
)  # fmt: skip


def measured(row: Row, n_studies: int) -> float:
    """The share of studies in which the interval covers, or the test rejects."""
    rng = np.random.default_rng(0)
    n = max(n_studies // row.costs, 1)
    return sum(bool(row.study(rng)) for _ in range(n)) / n


def is_within(row: Row, share: float) -> bool:
    low, high = WITHIN[row.kind]
    return low <= share <= high


def table(n_studies: int = N_STUDIES) -> str:
    lines = ["| interval or test | printed in | case | coverage | size | what it is |",
             "|---|---|---|---:|---:|---|"]  # fmt: skip
    for row in ROWS:
        share = measured(row, n_studies)
        cells = [f"{share:.3f}" if row.kind == kind else "" for kind in WITHIN]
        words = "" if is_within(row, share) else row.words or "OUTSIDE"
        lines.append(f"| {row.what} | {row.where} | {row.case} | {' | '.join(cells)} | {words} |")
    return "\n".join(lines) + "\n"


def run(batch: int, steps: int) -> None:
    """Writes the table into the README of a checkout, and prints it."""
    _split(README.read_text())  # an error before minutes of simulation
    content = table(steps or N_STUDIES)
    before, after = _split(README.read_text())
    write_atomic(README, f"{before}\n{content}\n{after}")
    print(content)


def _split(text: str) -> tuple[str, str]:
    """What is in front of the table, and what follows it."""
    if START not in text or END not in text:
        raise BadInput(f"'{README}' has no place for the table: {START.strip()} ... {END}")
    return text[: text.index(START) + len(START)], text[text.index(END) :]


def recorded() -> list[list[str]]:
    """The cells of the table in the README, line by line."""
    text = README.read_text()
    lines = text[text.index(START) : text.index(END)].splitlines()
    rows = [line for line in lines if re.match(r"\| (?!interval)", line)]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
