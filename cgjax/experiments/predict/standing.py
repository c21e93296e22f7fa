"""How the predictors stand over all counted pairs: rank correlations with the outcome.

Pairs of one cluster are not independent, so intervals draw clusters with replacement. Rules and
statistics are those of `rules.toml`.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cgjax.analysis import stats
from cgjax.experiments.predict import rules
from cgjax.experiments.predict.rules import Pair
from cgjax.published.results import is_number

LEAST = 4  # pairs that a correlation needs
HALF_WIDTH = 0.15  # of an interval that decides
ENDS = (", low", ", high")


def collect(pairs: list[Pair]) -> dict[str, dict]:
    """{name: all seeds of a pair}, in the form of results.json and of records."""
    collected = {}
    for name in dict.fromkeys(pair.name for pair in pairs):
        seeds = [pair for pair in pairs if pair.name == name]
        first = seeds[0]
        collected[name] = {
            "cluster": f"{first.block} {first.cluster}",
            "held_out": first.held_out,
            "chance": first.chance,
            "attainable": first.attainable,
            "seeds": [pair.seed for pair in seeds],
            "known": [_short(pair.known) for pair in seeds],
            "unseen": [_short(pair.unseen) for pair in seeds],
            "numbers": {
                p: first.predictors[p]
                if all(isinstance(pair.predictors[p], str) for pair in seeds)
                else [_short(pair.predictors[p]) for pair in seeds]
                for p in first.predictors
            },
        }
    return collected


def _short(value):
    """Six digits are enough; a reason of a single seed is None."""
    return None if isinstance(value, str) else float(f"{value:.6g}")


def is_sound(item) -> bool:
    """Whether a name and its pair, of a record that others may have written, can be used."""
    name, pair = item
    if (
        name.count("/") != 2
        or not isinstance(pair, dict)
        or not isinstance(pair.get("seeds"), list)
    ):
        return False
    lists = [pair.get("known"), pair.get("unseen")]
    if not isinstance(pair.get("numbers"), dict) or not isinstance(pair.get("cluster"), str):
        return False
    lists += [values for values in pair["numbers"].values() if not isinstance(values, str)]
    return (
        all(isinstance(each, list) and len(each) == len(pair["seeds"]) for each in lists)
        and all(v is None or is_number(v) for each in lists[2:] for v in each)
        and all(is_number(v) for each in lists[:2] for v in each)
        and all(is_number(pair.get(name)) for name in ("chance", "attainable"))
        and isinstance(pair.get("held_out"), bool)
    )


class Table(NamedTuple):
    """One entry per pair; NaN where a predictor does not apply."""

    names: np.ndarray  # [pairs]
    blocks: np.ndarray
    clusters: np.ndarray
    held_out: np.ndarray  # bool
    counted: np.ndarray  # bool
    outcome: np.ndarray  # mean over counted seeds; NaN if the pair is not counted
    numbers: dict  # {predictor: [pairs] mean over counted seeds}

    @classmethod
    def of(cls, collected: dict) -> "Table":
        """From `collect`, or from the pairs of records."""
        names = list(collected)
        rows = [_means(name, collected[name]) for name in names]
        predictors = dict.fromkeys(p for pair in collected.values() for p in pair["numbers"])
        return cls(
            np.array(names),
            np.array([name.partition("/")[0] for name in names]),
            np.array([collected[name]["cluster"] for name in names]),
            np.array([collected[name]["held_out"] for name in names], bool),
            np.array([np.isfinite(outcome) for outcome, _ in rows], bool),
            np.array([outcome for outcome, _ in rows], float),
            {p: np.array([numbers.get(p, np.nan) for _, numbers in rows]) for p in predictors},
        )

    def take(self, rows) -> "Table":
        """Some of the pairs."""
        arrays = (column[rows] for column in self[:-1])
        return Table(*arrays, {p: values[rows] for p, values in self.numbers.items()})


def _means(name: str, pair: dict) -> tuple[float, dict]:
    """(outcome, numbers) of one pair, over its counted seeds."""
    block, task, model = name.split("/")
    seeds = [
        Pair(
            block, task, model, "", s, known, unseen, pair["chance"], attainable=pair["attainable"]
        )
        for s, known, unseen in zip(pair["seeds"], pair["known"], pair["unseen"])
    ]
    counted = np.array([seed.counted for seed in seeds])
    if counted.sum() * 2 <= len(seeds):
        return np.nan, {}
    numbers = {
        p: _mean(np.array(values, float)[counted])  # None becomes NaN
        for p, values in pair["numbers"].items()
        if not isinstance(values, str)
    }
    return float(np.mean([seed.outcome for seed in seeds if seed.counted])), numbers


def _mean(values):
    values = values[np.isfinite(values)]
    return float(np.mean(values)) if len(values) else np.nan


# --- correlations ---------------------------------------------------------------------------------


class Correlation(NamedTuple):
    """tau of one predictor on some pairs, and its bootstrap over clusters."""

    tau: float
    draws: np.ndarray  # [2000]
    n_pairs: int
    n_clusters: int

    def interval(self, name: str, less: "Correlation | None" = None) -> dict:
        """{name: tau, or a difference of two, and the ends of its interval}."""
        value, draws = self.tau, self.draws
        if less is not None:
            value, draws = value - less.tau, draws - less.draws
        ends = stats.deviation_interval(value, draws, self.n_clusters)
        return {name: value, **dict(zip((name + end for end in ENDS), ends))}


def correlations(table: Table) -> Callable:
    """(predictor, rows of the table) -> its `Correlation`, or None for too few pairs; cached."""
    known = {}

    def correlation(p: str, rows) -> Correlation | None:
        place = (p, rows.tobytes())
        if place not in known:
            some = table.take(rows)
            n_clusters = len(set(some.clusters))
            known[place] = None
            if len(some.names) >= LEAST and n_clusters > 1:
                x, y = sign_of(p) * some.numbers[p], some.outcome
                draws = stats.weighted_tau_b(x, y, stats.cluster_draws(some.clusters))
                tau = stats.kendall_tau_b(x, y)
                known[place] = Correlation(tau, draws, len(x), n_clusters)
        return known[place]

    return correlation


def of(table: Table) -> dict[str, float]:
    """Every number of the standing by name: first pairs that are not held out, then those that are.

    `<predictor>: tau` and its ends, `: tau, within blocks`, `: tau, <block>`, `: r2`, `: pairs`,
    `: pairs needed`; `<one> less <other>: tau`; `combined: tau`; and `held out, ...`.
    """
    counted = table.take(table.counted)
    shown, hidden = counted.take(~counted.held_out), counted.take(counted.held_out)
    numbers = {
        "pairs": len(table.names),
        "pairs counted": len(counted.names),
        "pairs held out": len(hidden.names),
        "clusters": len(set(counted.clusters)),
    }
    numbers |= against_outcome(with_combined(shown, combined(shown, shown)))
    if len(hidden.names):
        predicted = combined(shown, hidden, leave_out=False)
        taus = against_outcome(with_combined(hidden, predicted), with_differences=False)
        numbers |= {f"held out, {name}": value for name, value in taus.items()}
    return {name: float(value) for name, value in numbers.items()}


def with_combined(table: Table, predicted) -> Table:
    """The table with one more predictor, `combined`."""
    return table._replace(numbers=table.numbers | {"combined": predicted})


def against_outcome(table: Table, with_differences: bool = True) -> dict:
    """tau of every predictor with the outcome, by block and within blocks; their differences."""
    correlation, numbers = correlations(table), {}
    has = {p: np.isfinite(values) for p, values in table.numbers.items()}
    for p, rows in has.items():
        numbers[f"{p}: pairs"] = rows.sum()
        result = correlation(p, rows)
        if result is None:
            continue
        numbers |= result.interval(f"{p}: tau")
        half_width = numbers[f"{p}: tau{ENDS[1]}"] - result.tau
        numbers[f"{p}: pairs needed"] = result.n_pairs * (half_width / HALF_WIDTH) ** 2
        some = table.take(rows)
        x, y = sign_of(p) * some.numbers[p], some.outcome
        numbers[f"{p}: tau, within blocks"] = stats.kendall_tau_b(x, y, some.blocks)
        for block in np.unique(some.blocks):
            inside = some.blocks == block
            if inside.sum() >= LEAST:
                numbers[f"{p}: tau, {block}"] = stats.kendall_tau_b(x[inside], y[inside])
        if np.ptp(x) > 0 and np.ptp(y) > 0:
            scaled = (values / np.abs(values).max() for values in (x, y))  # squares may overflow
            numbers[f"{p}: r2"] = np.corrcoef(*scaled)[0, 1] ** 2
    for first, second in itertools.combinations(has, 2) if with_differences else ():
        rows = has[first] & has[second]
        both = [correlation(p, rows) for p in (first, second)]
        if None not in both:
            numbers |= both[0].interval(f"{first} less {second}: tau", less=both[1])
    return numbers


def sign_of(p: str) -> int:
    """+1 for a user's own predictor and for the combined one."""
    return rules.SIGNS.get(p, 1)


def combined(fitted: Table, read: Table, leave_out: bool = True) -> np.ndarray:
    """Outcomes [pairs of `read`] by least squares on the ranks of all predictors of `fitted`.

    leave_out: each block is predicted by a fit without it; NaN if no other block is left.
    """
    names = [p for p in fitted.numbers if p in rules.SIGNS]
    predicted = np.full(len(read.names), np.nan)
    for block in np.unique(read.blocks):
        rows = read.blocks == block
        others = fitted.blocks != block if leave_out else np.ones(len(fitted.names), bool)
        if others.sum() < LEAST:
            continue
        known, new = (
            np.stack([_ranks(fitted.numbers[p][others], values[p]) for p in names], axis=1)
            for values in (fitted.take(others).numbers, read.take(rows).numbers)
        )
        design, asked = (np.concatenate([np.ones((len(m), 1)), m], axis=1) for m in (known, new))
        weights = np.linalg.lstsq(design, fitted.outcome[others], rcond=None)[0]
        predicted[rows] = asked @ weights
    return predicted


def _ranks(reference, values):
    """The share of reference numbers below each value, ties half; 0.5 where a number is missing."""
    known = reference[np.isfinite(reference)]
    if not len(known):
        return np.full(len(values), 0.5)
    below = np.mean(values[:, None] > known, axis=1)
    ties = np.mean(values[:, None] == known, axis=1)
    return np.where(np.isfinite(values), below + ties / 2, 0.5)
