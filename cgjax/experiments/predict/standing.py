"""How the predictors stand over all counted pairs: rank correlations with the outcome.

Pairs of one cluster are not independent, so intervals draw clusters with replacement. Rules and
statistics are those of `rules.toml`.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis import stats
from cgjax.experiments.predict import rules
from cgjax.experiments.predict.pair import Pair

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


def of(table: Table) -> dict[str, float]:
    """Every number of the standing by name: first pairs that are not held out, then those that are.

    `<predictor>: tau` and its ends, `: tau, within blocks`, `: tau, <block>`, `: r2`, `: pairs`,
    `: pairs needed`; `<one> less <other>: tau`; `combined: tau`; and `held out, ...`.
    """
    counted = table.take(table.counted)
    shown, hidden = counted.take(~counted.held_out), counted.take(counted.held_out)
    numbers = {
        "pairs": len(table.names),
        "pairs counted": int(table.counted.sum()),
        "pairs held out": int(counted.held_out.sum()),
        "clusters": len(set(counted.clusters)),
    }
    for p in table.numbers:
        numbers |= against_outcome(shown, p)
    for first, second in itertools.combinations(table.numbers, 2):
        numbers |= compare(shown, first, second)
    predicted = combined(shown, shown)
    numbers |= _tau("combined", sign_free(shown, predicted), "combined")
    if len(hidden.names):
        for p in table.numbers:
            numbers |= {f"held out, {k}": v for k, v in against_outcome(hidden, p).items()}
        predicted = combined(shown, hidden, leave_out=False)
        taus = _tau("combined", sign_free(hidden, predicted), "combined")
        numbers |= {f"held out, {name}": value for name, value in taus.items()}
    return {name: float(value) for name, value in numbers.items()}


def sign_free(table: Table, predicted) -> Table:
    """The table with a single predictor, `combined`."""
    return table._replace(numbers={"combined": predicted})


def against_outcome(table: Table, p: str) -> dict:
    """tau of one predictor with the outcome, with its interval, by block and within blocks."""
    numbers = _tau(p, table, p)
    table = table.take(np.isfinite(table.numbers[p]))
    if f"{p}: tau" not in numbers:
        return numbers
    x, y = sign_of(p) * table.numbers[p], table.outcome
    numbers[f"{p}: tau, within blocks"] = stats.kendall_tau_b(x, y, table.blocks)
    for block in np.unique(table.blocks):
        rows = table.blocks == block
        if rows.sum() >= LEAST:
            numbers[f"{p}: tau, {block}"] = stats.kendall_tau_b(x[rows], y[rows])
    if np.ptp(x) > 0 and np.ptp(y) > 0:
        numbers[f"{p}: r2"] = float(np.corrcoef(x, y)[0, 1] ** 2)
    return numbers


def _tau(name: str, table: Table, p: str) -> dict:
    table = table.take(np.isfinite(table.numbers[p]))
    n, n_clusters = len(table.names), len(set(table.clusters))
    numbers = {f"{name}: pairs": n}
    if n < LEAST or n_clusters < 2:
        return numbers
    x, y = sign_of(p) * table.numbers[p], table.outcome
    numbers[f"{name}: tau"] = tau = stats.kendall_tau_b(x, y)
    draws = stats.weighted_tau_b(x, y, stats.cluster_draws(table.clusters))
    ends = stats.deviation_interval(tau, draws, n_clusters)
    numbers |= dict(zip((f"{name}: tau{end}" for end in ENDS), ends))
    numbers[f"{name}: pairs needed"] = n * ((ends[1] - tau) / HALF_WIDTH) ** 2
    return numbers


def compare(table: Table, first: str, second: str) -> dict:
    """Difference of two predictors' tau on the pairs that have both, with its interval."""
    table = table.take(np.isfinite(table.numbers[first]) & np.isfinite(table.numbers[second]))
    if len(table.names) < LEAST or len(set(table.clusters)) < 2:
        return {}
    weights, y = stats.cluster_draws(table.clusters), table.outcome
    taus, draws = [], []
    for p in (first, second):
        x = sign_of(p) * table.numbers[p]
        taus.append(stats.kendall_tau_b(x, y))
        draws.append(stats.weighted_tau_b(x, y, weights))
    difference = taus[0] - taus[1]
    ends = stats.deviation_interval(difference, draws[0] - draws[1], len(set(table.clusters)))
    name = f"{first} less {second}: tau"
    return {name: difference, **dict(zip((name + end for end in ENDS), ends))}


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
