"""Markdown of a recorded run: every pair, every theory, and every two theories compared."""

import itertools

import numpy as np

from cgjax.experiments.across.answers import COLUMNS, Table
from cgjax.experiments.across.theories import THEORIES


def of(entry: dict) -> list[tuple[str, str]]:
    """(title, Markdown) of one recorded run."""
    metrics = {name: metric["ours"] for name, metric in entry["metrics"].items()}
    table = Table.of(entry["config"].get("parts", {}), entry["metrics"])
    return [
        ("across papers: pairs", of_pairs(table, entry.get("reasons", {}))),
        ("across papers: theories", of_theories(table, metrics)),
        ("across papers: theories beside each other", of_both(metrics)),
    ]


def of_pairs(table: Table, reasons: dict) -> str:
    """One line for each pair; numbered reasons stand under the table."""
    lines = [f"| pair | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * len(COLUMNS)]
    notes: list[str] = []
    for i, name in enumerate(table.names):
        cells = []
        for column in COLUMNS:
            value, reason = table.columns[column][i], reasons.get(name, {}).get(column, "")
            if reason and reason not in notes:
                notes.append(reason)
            cells.append(f"n/a ({notes.index(reason) + 1})" if reason else _number(value))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    numbered = [f"({i}) {reason}" for i, reason in enumerate(notes, 1)]
    return "\n".join([*lines, "", "; ".join(numbered)]) if numbered else "\n".join(lines)


def of_theories(table: Table, metrics: dict) -> str:
    """tau of each theory's number with the error: within families, pooled, and for each family."""
    families = list(dict.fromkeys(table.families))
    head = ("theory", "pairs", "tau", "95 %", "pooled", *families)
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for theory in THEORIES:
        low, high = (_number(metrics.get(f"{theory}: tau, {end}"), "+.2f") for end in ENDS)
        n_pairs = _number(metrics.get(f"{theory}: pairs"), ".0f")
        cells = [n_pairs, _tau(metrics, f"{theory}: tau")]
        cells += [f"{low} to {high}", _tau(metrics, f"{theory}: tau, pooled")]
        cells += [_tau(metrics, f"{theory}: tau, {family}") for family in families]
        lines.append(f"| {theory} | {' | '.join(cells)} |")
    return "\n".join(lines)


ENDS = ("low", "high")


def of_both(metrics: dict) -> str:
    """tau of every two theories, and the difference of their tau with the error."""
    lines = [
        "| theories | pairs | tau of both | difference of their tau with the error | 95 % |",
        "|---|---:|---:|---:|---:|",
    ]
    for first, second in itertools.combinations(THEORIES, 2):
        if f"{first} and {second}: pairs" not in metrics:
            continue
        low, high = (_tau(metrics, f"{first} less {second}: tau, {end}") for end in ENDS)
        lines.append(
            f"| {first}, {second} | {_number(metrics[f'{first} and {second}: pairs'], '.0f')} "
            f"| {_tau(metrics, f'{first} and {second}: tau')} "
            f"| {_tau(metrics, f'{first} less {second}: tau')} | {low} to {high} |"
        )
    return "\n".join(lines)


def _tau(metrics: dict, name: str) -> str:
    return _number(metrics.get(name), "+.2f")


def _number(value, form: str = ".3g") -> str:
    return "-" if value is None or not np.isfinite(value) else format(value, form)
