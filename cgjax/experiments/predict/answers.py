"""The theories over all pairs: rank correlations with the error, and with each other.

A pair enters with its means over seeds. Errors of different families have different scales, so
pairs are compared only within their family (Kendall's tau-b, stratified); "pooled" compares all.
Intervals are from pairs drawn with replacement (`stats.bootstrap`): they describe the variation
over pairs, not over seeds.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis import stats
from cgjax.experiments.across.theories import THEORIES

COLUMNS = (*THEORIES, "error", "training error")  # of every pair
LEAST = 3  # pairs that a correlation needs


class Table(NamedTuple):
    """One entry per pair; NaN where a theory does not apply."""

    names: np.ndarray  # [pairs]
    families: np.ndarray
    columns: dict  # {one of COLUMNS: [pairs]}

    @classmethod
    def of(cls, parts: dict, metrics: dict) -> "Table":
        """From a config's parts and the entries of results.json, or of a record."""
        names = sorted(parts)
        families = [parts[name]["pair"]["row"].partition(":")[0] for name in names]
        columns = {}
        for column in COLUMNS:
            means = [metrics.get(f"{name}: {column}", {}).get("ours") for name in names]
            columns[column] = np.array([np.nan if v is None else v for v in means], float)
        return cls(np.array(names), np.array(families), columns)

    def where(self, *columns) -> tuple:
        """(families, columns ...) of the pairs that have all of these."""
        known = np.all([np.isfinite(self.columns[column]) for column in columns], axis=0)
        return (self.families[known], *(self.columns[column][known] for column in columns))


def over_pairs(table: Table) -> dict[str, float]:
    """Every correlation by name; those of too few pairs are left out."""
    correlations = {}
    for theory in THEORIES:
        correlations |= _against_error(table, theory)
    for first, second in itertools.combinations(THEORIES, 2):
        correlations |= _compare(table, first, second)
    return correlations


def _against_error(table: Table, theory: str) -> dict:
    families, x, y = table.where(theory, "error")
    correlations = {f"{theory}: pairs": float(len(x))}
    if len(x) < LEAST:
        return correlations
    correlations |= _with_interval(f"{theory}: tau", _stratified, x, y, families)
    correlations[f"{theory}: tau, pooled"] = stats.kendall_tau_b(x, y)
    for family in np.unique(families):
        in_family = families == family
        if in_family.sum() >= LEAST:
            correlations[f"{theory}: tau, {family}"] = stats.kendall_tau_b(
                x[in_family], y[in_family]
            )
    return correlations


def _compare(table: Table, first: str, second: str) -> dict:
    """Correlation of two theories, and the difference of their correlations with the error."""
    families, x1, x2, y = table.where(first, second, "error")
    if len(y) < LEAST:
        return {}

    def difference(x1, x2, y, families):
        return _stratified(x1, y, families) - _stratified(x2, y, families)

    return {
        f"{first} and {second}: pairs": float(len(y)),
        f"{first} and {second}: tau": _stratified(x1, x2, families),
        **_with_interval(f"{first} less {second}: tau", difference, x1, x2, y, families),
    }


def _with_interval(name: str, statistic, *columns) -> dict:
    """A statistic and its interval; no interval if a theory's number is the same for all pairs."""
    value = statistic(*columns)
    if not np.isfinite(value):
        return {name: value}
    low, high = stats.bootstrap(statistic, *columns)
    return {name: value, f"{name}, low": low, f"{name}, high": high}


def _stratified(x, y, families):
    return stats.kendall_tau_b(x, y, families)
