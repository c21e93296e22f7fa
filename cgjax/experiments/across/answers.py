"""What becomes of the theories over all pairs: rank correlations with the error, and agreement.

A pair counts with its means over seeds. Errors of different families are no one scale, so pairs are
compared within their family alone (Kendall's tau-b, stratified); "pooled" compares all. Intervals
are percentiles over pairs drawn with replacement: they speak of other pairs like these, not of
other seeds.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis import stats
from cgjax.experiments.across.theories import THEORIES

COLUMNS = (*THEORIES, "error", "training error")  # of every pair
LEAST = 3  # pairs that a correlation is told of


class Table(NamedTuple):
    """A line for each pair; NaN where a theory does not apply."""

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
            found = [metrics.get(f"{name}: {column}", {}).get("ours") for name in names]
            columns[column] = np.array([np.nan if v is None else v for v in found], float)
        return cls(np.array(names), np.array(families), columns)

    def where(self, *columns) -> tuple:
        """(families, columns ...) of the pairs that have all of these."""
        known = np.all([np.isfinite(self.columns[column]) for column in columns], axis=0)
        return (self.families[known], *(self.columns[column][known] for column in columns))


def over_pairs(table: Table) -> dict[str, float]:
    """Every correlation by name; those of too few pairs are left out."""
    found = {}
    for theory in THEORIES:
        found |= _against_error(table, theory)
    for one, other in itertools.combinations(THEORIES, 2):
        found |= _beside(table, one, other)
    return found


def _against_error(table: Table, theory: str) -> dict:
    families, x, y = table.where(theory, "error")
    found = {f"{theory}: pairs": float(len(x))}
    if len(x) < LEAST:
        return found
    found |= _with_interval(f"{theory}: tau", _stratified, x, y, families)
    found[f"{theory}: tau, pooled"] = stats.kendall_tau_b(x, y)
    for family in np.unique(families):
        own = families == family
        if own.sum() >= LEAST:
            found[f"{theory}: tau, {family}"] = stats.kendall_tau_b(x[own], y[own])
    return found


def _beside(table: Table, one: str, other: str) -> dict:
    """Whether two theories order pairs alike, and which one orders them more as the errors do."""
    families, x1, x2, y = table.where(one, other, "error")
    if len(y) < LEAST:
        return {}

    def less(x1, x2, y, families):
        return _stratified(x1, y, families) - _stratified(x2, y, families)

    return {
        f"{one} and {other}: pairs": float(len(y)),
        f"{one} and {other}: tau": _stratified(x1, x2, families),
        **_with_interval(f"{one} less {other}: tau", less, x1, x2, y, families),
    }


def _with_interval(name: str, statistic, *columns) -> dict:
    """A statistic and its interval; no interval where a theory says the same of all pairs."""
    value = statistic(*columns)
    if not np.isfinite(value):
        return {name: value}
    low, high = stats.bootstrap(statistic, *columns)
    return {name: value, f"{name}, low": low, f"{name}, high": high}


def _stratified(x, y, families):
    return stats.kendall_tau_b(x, y, families)
