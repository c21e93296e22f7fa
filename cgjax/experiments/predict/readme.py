"""Tables, sentences and pictures of the README, from the record of all rows together."""

import pathlib

import numpy as np

from cgjax import plots
from cgjax.analysis.lenses import report
from cgjax.experiments.predict import figures, standing, tables
from cgjax.experiments.predict.rules import RULES
from cgjax.experiments.predict.standing import ENDS
from cgjax.experiments.predict.tables import read

BASELINES = ("values", "connected", "loss")


def counts(record: list[dict], studies: dict) -> str:
    """How many pairs there are, by block."""
    table, numbers = read(record)
    return (
        f"{numbers['pairs counted']:.0f} of {numbers['pairs']:.0f} pairs of a task and a model fit "
        f"their known combinations and count ({_blocks(table)}). They form "
        f"{numbers['clusters']:.0f} clusters; {numbers['pairs held out']:.0f} pairs are held out"
    )


def _blocks(table) -> str:
    """Counted pairs of all pairs, by block."""
    return ", ".join(
        f"{block} {np.sum(table.counted & (table.blocks == block))} of "
        f"{np.sum(table.blocks == block)}"
        for block in sorted(set(table.blocks))
    )


def later_counts(record: list[dict], studies: dict) -> str:
    """How many of the pairs that were added later fit, by block, and how many are held out."""
    table, numbers = read(record, added=True)
    return (
        f"{numbers['pairs counted']:.0f} of {numbers['pairs']:.0f} count ({_blocks(table)}), in "
        f"{numbers['clusters']:.0f} clusters; held out: {numbers['pairs held out']:.0f}"
    )


def later(record: list[dict], studies: dict) -> str:
    """tau of the predictors on the pairs that were added later, and what it confirms."""
    table, first = read(record)
    numbers = read(record, added=True)[1]
    known = [
        p
        for p in tables.ranked(table, first)
        if first.get(f"{p}: tau{ENDS[0]}", 0) > 0 and f"{p}: tau{ENDS[0]}" in numbers
    ]
    texts = [
        f"{p} {_tau(numbers, p)} on {numbers[f'{p}: pairs']:.0f} pairs (first pairs "
        f"{first[f'{p}: tau']:+.2f})"
        for p in known
    ]
    above = [p for p in known if numbers[f"{p}: tau{ENDS[0]}"] > 0]
    lower = [p for p in known if numbers[f"{p}: tau{ENDS[1]}"] < first[f"{p}: tau"]]
    return (
        f"{'; '.join(texts)}. The interval lies above 0 for {', '.join(above) or 'none'}, "
        f"and below tau of the first pairs for {', '.join(lower) or 'none'}"
    )


def finding(record: list[dict], studies: dict) -> str:
    """The best predictors and baseline, signs that are wrong, and what remains within blocks."""
    table, numbers = read(record)
    order = [p for p in tables.ranked(table, numbers) if f"{p}: tau" in numbers and p != "combined"]
    theories, baselines = ([p for p in order if (p in BASELINES) == is_base] for is_base in (0, 1))
    best, base = theories[0], baselines[0]
    widely = [p for p in theories if numbers[f"{p}: pairs"] >= 0.75 * numbers[f"{base}: pairs"]]
    lasting = {p: numbers[f"{p}: tau, within blocks"] for p in (best, widely[0], widely[1], base)}
    return (
        f"*{best.capitalize()}* has the highest tau, {_tau(numbers, best)}, but applies to only "
        f"{numbers[f'{best}: pairs']:.0f} of the {numbers[f'{base}: pairs']:.0f} pairs that are "
        "not held out. Of the theories that apply to three quarters of the pairs, the best are "
        f"{_listed(numbers, widely[:2])}. "
        f"The best baseline, *{base}*, needs no network: {_tau(numbers, base)}. Differences: "
        f"{_difference(numbers, best, base)}, {_difference(numbers, widely[0], base)}. "
        f"Of the theories, {_beside_zero(numbers, theories)}; of the baselines, "
        f"{_beside_zero(numbers, baselines)}. Within blocks tau is "
        f"{', '.join(f'{value:+.2f} for {p}' for p, value in lasting.items())}. "
        "A fit to all numbers, without the block that it predicts, has "
        f"{_tau(numbers, 'combined')}. On held-out pairs *{best}* has "
        f"{_tau(numbers, best, 'held out, ')}, *{widely[0]}* "
        f"{_tau(numbers, widely[0], 'held out, ')}, *{base}* {_tau(numbers, base, 'held out, ')}"
    )


def _beside_zero(numbers: dict, names: list[str]) -> str:
    """Whose intervals of tau exclude 0, in words."""
    low, high = ({p: numbers[f"{p}: tau{end}"] for p in names} for end in ENDS)
    above, below = [p for p in names if low[p] > 0], [p for p in names if high[p] < 0]
    return (
        f"the intervals of {', '.join(above) or 'none'} lie above 0 and those of "
        f"{', '.join(below) or 'none'} below it"
    )


def opposed(record: list[dict], studies: dict) -> str:
    """Predictors that are positive on pretrained layers and negative on most trained blocks."""
    table, numbers = read(record)
    trained = sorted(set(table.blocks) - {"pretrained"})
    words = []
    for p in table.numbers:
        frozen = numbers.get(f"{p}: tau, pretrained", np.nan)
        taus = [numbers.get(f"{p}: tau, {block}", np.nan) for block in trained]
        if frozen > 0.5 and np.nanmedian(taus) < 0.15:
            listed = ", ".join(f"{tau:+.2f}" for tau in taus if np.isfinite(tau))
            words.append(f"*{p}* {frozen:+.2f} against {listed}")
    return "; ".join(words)


def _difference(numbers: dict, first: str, second: str) -> str:
    """The difference of two taus on their common pairs, in words."""
    name, sign = f"{first} less {second}: tau", 1
    if name not in numbers:
        name, sign = f"{second} less {first}: tau", -1
    low, high = sorted(sign * numbers[name + end] for end in ENDS)
    return f"*{first}* less *{second}* is {sign * numbers[name]:+.2f} ({low:+.2f} to {high:+.2f})"


def rounded(record: list[dict], studies: dict) -> str:
    """tau of the predictors that change if numbers which differ by rounding count as equal."""
    table, numbers = read(record)
    shown = table.take(table.counted & ~table.held_out)
    ties = shown._replace(numbers={p: np.round(v, 9) for p, v in shown.numbers.items()})
    again = standing.against_outcome(ties, with_differences=False)
    changed = [
        f"{p} {again[f'{p}: tau']:+.2f} instead of {numbers[f'{p}: tau']:+.2f}"
        for p in table.numbers
        if f"{p}: tau" in again and abs(again[f"{p}: tau"] - numbers[f"{p}: tau"]) >= 0.01
    ]
    return ", ".join(changed) or "the same to 0.01"


def homomorphism(record: list[dict], studies: dict) -> str:
    """The number to beat, beside ours."""
    _, numbers = read(record)
    return (
        f"R2 of homomorphism error and outcome is {numbers['homomorphism: r2']:.2f} over all "
        "blocks; An and Du report 0.73 for an adapted SCAN task under injected noise"
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
        f"widest would need about {needed:.0f} pairs"
    )


def front(record: list[dict], studies: dict) -> str:
    """What the front page says of the tangent kernel, support, connected and decodability."""
    numbers = read(record)[1]

    def counted(p: str) -> str:
        return f"{numbers[f'{p}: pairs']:.0f} pairs"

    def tau(key: str) -> str:
        return f"{numbers[key]:+.2f}"

    return (
        "Over pairs of a network and a task, the initial tangent kernel, the only number that "
        f"uses the unseen targets, has Kendall's tau {_tau(numbers, 'tangent')} on "
        f"{counted('tangent')}, support {tau('support: tau')} ({counted('support')}), the graph of "
        f"known combinations alone {tau('connected: tau')} ({counted('connected')}). Decodability "
        f"orders frozen pretrained layers ({tau('decodability: tau, pretrained')}), but not "
        f"trained networks (*sprites* {tau('decodability: tau, sprites')}, *kernels* "
        f"{tau('decodability: tau, kernels')})"
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
    return f"{tau:+.2f} ({max(low, -1):+.2f} to {min(high, 1):+.2f})"


def _listed(numbers: dict, names: list[str]) -> str:
    return " and ".join(f"*{p}* {_tau(numbers, p)}" for p in names)


def benchmark_of_lenses(record: list[dict], studies: dict) -> str:
    """The numbers of trained networks that the standing has, for `analysis.lenses`.

    Held-out pairs and those that were added later are not in it. Outputs in language are
    embeddings, which have no targets: their additivity is left out.
    """
    table = read(record)[0]
    shown = table.take(table.counted & ~table.held_out & (table.blocks != "pretrained"))
    is_language = shown.blocks == "subnetworks"
    outputs = {"additivity": np.where(is_language, np.nan, shown.numbers["additivity"])}
    return report.condensed(shown.numbers | outputs, shown.outcome)


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
    "later_counts": later_counts,
    "later": later,
    "finding": finding,
    "front": front,
    "opposed": opposed,
    "homomorphism": homomorphism,
    "rounded": rounded,
    "precision": precision,
    "rules": rules_table,
    "standing": of("standing"),
    "held_out": of("held-out pairs"),
    "differences": of("differences"),
}
PICTURES = {"predict_predictors.png": draw_predictors, "predict_standing.png": draw_standing}
FILES = {report.FILE: benchmark_of_lenses}
