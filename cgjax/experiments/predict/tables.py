"""Markdown of recorded runs: how the predictors stand, on held-out pairs too, and every pair."""

import functools
import itertools
import json

import numpy as np

from cgjax.core.errors import BadInput
from cgjax.experiments.predict import standing
from cgjax.experiments.predict.rules import RULES
from cgjax.experiments.predict.standing import ENDS, Table

ADDED = "later"  # the row of pairs that were added after the others had been scored


def of(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of all recorded runs together."""
    later = [("predict: later pairs", of_later(record))] if merged(record, added=True) else []
    collected = merged(record)
    if not collected:
        return later
    table, numbers = read(record)
    return [
        ("predict: standing", of_standing(table, numbers)),
        ("predict: held-out pairs", of_held_out(table, numbers)),
        ("predict: differences", of_differences(table, numbers)),
        ("predict: pairs", of_pairs(table, collected)),
        *later,
    ]


def read(record: list[dict], added: bool = False) -> tuple[Table, dict]:
    """All recorded pairs, and their standing; added: of the pairs that were added later."""
    return _read(json.dumps(merged(record, added)))


@functools.cache
def _read(pairs: str) -> tuple[Table, dict]:
    """One README needs the standing, which takes seconds, many times."""
    table = Table.of(json.loads(pairs))
    return table, standing.of(table)


def merged(record: list[dict], added: bool = False) -> dict:
    """The pairs of all rows together, or of the row ADDED; of each row, the run with most pairs."""
    largest = {}
    for entry in record:
        if (entry["row"] == ADDED) != added:
            continue
        if not all(map(standing.is_sound, entry.get("pairs", {}).items())):
            raise BadInput(
                f"the record of predict:{entry['row']} holds a broken pair: record it anew"
            )
        if len(entry.get("pairs", {})) > len(largest.get(entry["row"], {})):
            largest[entry["row"]] = entry["pairs"]
    return {name: pair for pairs in largest.values() for name, pair in pairs.items()}


def of_standing(table: Table, numbers: dict) -> str:
    """tau of each predictor with the outcome: over all pairs, within blocks, and by block."""
    blocks = sorted(set(table.blocks))
    head = ("predictor", "from", "pairs", "tau", "95 %", "pairs needed", "within blocks", "R2")
    lines = [f"| {' | '.join((*head, *blocks))} |", "|---|---|" + "---:|" * (len(head) - 2)]
    lines[1] += "---:|" * len(blocks)
    for p in ranked(table, numbers):
        cells = [
            _source(p),
            _number(numbers.get(f"{p}: pairs"), ".0f"),
            _number(numbers.get(f"{p}: tau"), "+.2f"),
            _interval(numbers, f"{p}: tau"),
            _needed(numbers, p),
            _number(numbers.get(f"{p}: tau, within blocks"), "+.2f"),
            _number(numbers.get(f"{p}: r2"), ".2f"),
        ]
        cells += [_number(numbers.get(f"{p}: tau, {block}"), "+.2f") for block in blocks]
        lines.append(f"| {p} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_held_out(table: Table, numbers: dict) -> str:
    """tau of each predictor on the held-out pairs, beside tau on the others."""
    lines = ["| predictor | pairs | tau | 95 % | tau on the others |", "|---|---:|---:|---:|---:|"]
    for p in ranked(table, numbers):
        name = f"held out, {p}: tau"
        cells = (
            _number(numbers.get(f"held out, {p}: pairs"), ".0f"),
            _number(numbers.get(name), "+.2f"),
            _interval(numbers, name),
            _number(numbers.get(f"{p}: tau"), "+.2f"),
        )
        lines.append(f"| {p} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_later(record: list[dict]) -> str:
    """tau of each predictor on the pairs that were added later, beside tau on the first pairs."""
    table, numbers = read(record, added=True)
    first = read(record)[1] if merged(record) else {}
    blocks = sorted(set(table.blocks))
    head = ("predictor", "pairs", "tau", "95 %", "held out", "tau on the first pairs", *blocks)
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for p in ranked(table, numbers):
        cells = (
            _number(numbers.get(f"{p}: pairs"), ".0f"),
            _number(numbers.get(f"{p}: tau"), "+.2f"),
            _interval(numbers, f"{p}: tau"),
            _number(numbers.get(f"held out, {p}: tau"), "+.2f"),
            _number(first.get(f"{p}: tau"), "+.2f"),
            *(_number(numbers.get(f"{p}: tau, {block}"), "+.2f") for block in blocks),
        )
        lines.append(f"| {p} | {' | '.join(cells)} |")
    return "\n".join(lines)


def of_differences(table: Table, numbers: dict) -> str:
    """The differences of two predictors' tau whose interval leaves out 0."""
    lines = ["| predictors | difference of tau | 95 % |", "|---|---:|---:|"]
    n = 0
    for first, second in itertools.combinations(table.numbers, 2):
        name = f"{first} less {second}: tau"
        n += name in numbers
        if name in numbers and numbers[name + ENDS[0]] * numbers[name + ENDS[1]] > 0:
            lines.append(
                f"| {first} less {second} | {numbers[name]:+.2f} | {_interval(numbers, name)} |"
            )
    return "\n".join([*lines, "", f"{len(lines) - 2} of {n} differences are listed."])


def of_pairs(table: Table, collected: dict) -> str:
    """One line for each pair: its scores, its outcome and every number."""
    predictors = list(table.numbers)
    head = ("pair", "known", "unseen", "outcome", *predictors)
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for i, name in enumerate(table.names):
        pair = collected[name]
        cells = [_number(np.mean(pair[score])) for score in ("known", "unseen")]
        cells.append(_number(table.outcome[i], ".2f") if table.counted[i] else "not counted")
        cells += [_number(table.numbers[p][i]) for p in predictors]
        mark = " (held out)" if table.held_out[i] else ""
        lines.append(f"| {name}{mark} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ranked(table: Table, numbers: dict) -> list[str]:
    """The predictors by tau, largest first, with the combined one; those without tau last."""
    names = (*table.numbers, "combined")
    return sorted(names, key=lambda p: -np.nan_to_num(numbers.get(f"{p}: tau", -2), nan=-2))


def _source(p: str) -> str:
    if p == "combined":
        return "all"
    return RULES["predictors"].get(p, {"from": "your own"})["from"]


def _needed(numbers: dict, p: str) -> str:
    """Pairs for an interval of half-width 0.15; "enough" if these are enough."""
    needed = numbers.get(f"{p}: pairs needed")
    if needed is None or not np.isfinite(needed):
        return "-"
    return f"{needed:.0f}" if needed > numbers[f"{p}: pairs"] else "enough"


def _interval(numbers: dict, name: str) -> str:
    low, high = (numbers.get(name + end) for end in ENDS)
    if low is None or not np.isfinite(low):
        return "-"
    # tau +- t sd may end beyond the range of tau.
    return f"{max(low, -1):+.2f} to {min(high, 1):+.2f}"


def _number(value, form: str = ".3g") -> str:
    return "-" if value is None or not np.isfinite(value) else format(value, form)
