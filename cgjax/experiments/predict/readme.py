"""Tables, sentences and pictures of the README, from the record of all rows together."""

import functools
import json
import pathlib

import numpy as np

from cgjax import plots
from cgjax.experiments.predict import figures, standing, tables
from cgjax.experiments.predict.rules import RULES
from cgjax.experiments.predict.standing import ENDS, Table

BASELINES = ("values", "connected", "loss")


def read(record: list[dict]) -> tuple[Table, dict]:
    """All recorded pairs, and their standing."""
    return _read(json.dumps(tables.merged(record)))


@functools.cache
def _read(pairs: str) -> tuple[Table, dict]:
    table = Table.of(json.loads(pairs))
    return table, standing.of(table)


def counts(record: list[dict], studies: dict) -> str:
    """How many pairs there are, by block."""
    table, numbers = read(record)
    blocks = [
        f"{block} {np.sum(table.counted & (table.blocks == block))} of "
        f"{np.sum(table.blocks == block)}"
        for block in sorted(set(table.blocks))
    ]
    return (
        f"{numbers['pairs counted']:.0f} of {numbers['pairs']:.0f} pairs fit their known "
        f"combinations and count ({', '.join(blocks)}), in {numbers['clusters']:.0f} clusters; "
        f"{numbers['pairs held out']:.0f} of them are held out"
    )


def finding(record: list[dict], studies: dict) -> str:
    """The best predictors, the best baseline, and what the pairs do not decide."""
    table, numbers = read(record)
    order = [p for p in tables.ranked(table, numbers) if f"{p}: tau" in numbers and p != "combined"]
    theories, baselines = ([p for p in order if (p in BASELINES) == is_base] for is_base in (0, 1))
    best, base = theories[0], baselines[0]
    first, second = (best, base) if f"{best} less {base}: tau" in numbers else (base, best)
    name = f"{first} less {second}: tau"
    sign = 1 if first == best else -1
    ends = sorted(sign * numbers[name + end] for end in ENDS)
    decided = "does" if ends[0] > 0 or ends[1] < 0 else "does not"
    above = [p for p in theories if numbers[f"{p}: tau{ENDS[0]}"] > 0]
    return (
        f"The best predictor is *{best}* with tau {_tau(numbers, best)}, then "
        f"{_listed(numbers, theories[1:3])}. The best baseline is *{base}* with "
        f"{_tau(numbers, base)}; the difference of the two, {sign * numbers[name]:+.2f} "
        f"({ends[0]:+.2f} to {ends[1]:+.2f}), {decided} exclude 0. "
        f"{len(above)} of {len(theories)} theories have an interval above 0: "
        f"{', '.join(above) or 'none'}. All numbers together, fitted without the block that they "
        f"predict, have tau {_tau(numbers, 'combined')}. On the held-out pairs *{best}* has "
        f"{_tau(numbers, best, 'held out, ')} and *{base}* {_tau(numbers, base, 'held out, ')}"
    )


def homomorphism(record: list[dict], studies: dict) -> str:
    """The number to beat, beside ours."""
    _, numbers = read(record)
    return (
        f"R2 of homomorphism error and outcome is {numbers['homomorphism: r2']:.2f} here, over all "
        "blocks; An and Du report 0.73 for one adapted SCAN task under injected noise"
    )


def precision(record: list[dict], studies: dict) -> str:
    """Which intervals are narrow enough."""
    table, numbers = read(record)
    half = {
        p: numbers[f"{p}: tau{ENDS[1]}"] - numbers[f"{p}: tau"]
        for p in table.numbers
        if f"{p}: tau" in numbers
    }
    wide = [p for p, width in half.items() if not width <= standing.HALF_WIDTH]
    needed = max((numbers[f"{p}: pairs needed"] for p in wide), default=0)
    if not wide:
        return "Every interval has a half-width of at most 0.15"
    return (
        f"{len(half) - len(wide)} of {len(half)} intervals have a half-width of at most 0.15; the "
        f"widest would need {needed:.0f} pairs of as many clusters each"
    )


def rules_table(record: list[dict], studies: dict) -> str:
    """Name, sign, source and rule of every predictor."""
    lines = ["| predictor | sign | from | source | rule |", "|---|---:|---|---|---|"]
    for name, rule in RULES["predictors"].items():
        lines.append(
            f"| {name} | {rule['sign']:+d} | {rule['from']} | {rule['source']} | {rule['rule']} |"
        )
    return "\n".join(lines)


def _tau(numbers: dict, p: str, prefix: str = "") -> str:
    tau, low, high = (numbers.get(f"{prefix}{p}: tau{end}", np.nan) for end in ("", *ENDS))
    return f"{tau:+.2f} ({low:+.2f} to {high:+.2f})"


def _listed(numbers: dict, names: list[str]) -> str:
    return " and ".join(f"*{p}* {_tau(numbers, p)}" for p in names)


def of(title: str):
    """One of the family's tables, by its title."""
    return lambda record, studies: dict(tables.of(record))[f"predict: {title}"]


def draw_predictors(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Every predictor's number against the outcome."""
    return plots.save(figures.predictors(read(record)[0]), path)


def draw_standing(record: list[dict], studies: dict, path: pathlib.Path) -> pathlib.Path:
    """Every predictor's tau with its interval."""
    return plots.save(figures.standing(*read(record)), path)


TABLES = {
    "counts": counts,
    "finding": finding,
    "homomorphism": homomorphism,
    "precision": precision,
    "rules": rules_table,
    "standing": of("standing"),
    "held_out": of("held-out pairs"),
    "differences": of("differences"),
}
PICTURES = {"predict_predictors.png": draw_predictors, "predict_standing.png": draw_standing}
