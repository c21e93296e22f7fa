"""How claims stand: verdicts on recorded or given runs, by the rule of `published.verdict`."""

import collections
import json
import math
import pathlib
import re
from typing import NamedTuple

import numpy as np

from cgjax import config as configs
from cgjax import experiments, report
from cgjax.published import PUBLISHED, SPREADS
from cgjax.published import verdict as verdicts
from cgjax.published.claims import CLAIMS, KINDS, Claim

# --- numbers, spreads and comparisons as text, for the page and for `reproduce` -------------------


def number(value) -> str:
    return "-" if value is None else f"{value:.4g}"


def amount(value: float, form: str = "+.3g") -> str:
    """A number that may be infinite."""
    return format(value, form).replace("inf", "∞")


def spread(published: dict) -> str:
    """The spread that a paper states for its number."""
    kind = SPREADS[published["spread"]]
    if published["spread"] == "none":
        return f" (spread: {kind})"
    n = f", n = {published['n']}" if "n" in published else ""
    return f" ± {published['sd']:.2g} ({kind}{n})"


def seeds(standing) -> str:
    """The standard deviation and the number of a standing's values."""
    sd = f" ± {standing.sd:.2g}" if standing.sd is not None else ""
    return f"{sd} ({counted(standing)})"


def counted(standing) -> str:
    """How many values a standing has, and which of them are numbers if not all are."""
    values = standing.values
    if len(values) == 1 and half_width(standing) == 0:
        return "deterministic"
    n, of = len([value for value in values if value is not None]), len(values)
    text = f"{n}{f' of {of}' if n < of else ''} {noun(standing)}{'s' if of != 1 else ''}"
    return f"{text}: {standing.claim.only}" if n < of and standing.claim.only else text


def noun(standing) -> str:
    """What a standing has one number of: each seed, or something else, such as groups of seeds."""
    return "seed" if len(standing.seeds) == len(standing.values) else "value"


def sign(claim) -> str:
    """The sign between the sides of a claim."""
    return " ≈ " if claim.form == "equal" else " > "


def chain(claim, sides) -> str:
    texts = (": ".join(side) if isinstance(side, tuple) else f"{side:g}" for side in sides)
    return sign(claim).join(texts)


def part(claim, left, right, verdict) -> str:
    """One comparison of an ordering or of an equality."""
    sides = chain(claim, (left, right))
    return f"{sides}: {amount(verdict.difference)} ± {amount(verdict.width, '.3g')}, {verdict.word}"


def comparison(standing) -> str:
    """Difference, half-width and tolerance of a standing's verdict."""
    verdict, published = standing.verdict, standing.claim.published
    texts = [amount(verdict.difference), f"half-width {amount(verdict.width, '.3g')}"]
    texts[0] += " of logarithms" if published and "factor" in published else ""
    if published or verdict.tolerance:
        texts.append(f"tolerance {verdict.tolerance:.3g}")
    return ", ".join(filter(None, [*texts, standing.note, needed(verdict, noun(standing))]))


def needed(verdict, noun: str = "seed") -> str:
    """How many seeds would decide, if mean and deviation stay as they are."""
    if verdict.word != "underpowered":
        return ""
    if verdict.seeds is None:
        return "a single number has no spread: two or more would show it"
    if math.isinf(verdict.seeds):
        return "no number of our seeds decides"
    return f"about {verdict.seeds} {noun}s would decide"


def causes(standing) -> list[tuple[str, str]]:
    """Possible causes of a mismatch, each with the experiment that would test it."""
    if standing.word != "no match":
        return []
    lines = (("cause", standing.claim.cause), ("experiment", standing.claim.experiment))
    return [(name, text) for name, text in lines if text]


def half_width(standing) -> float | None:
    """Half of the 95 % interval of ours; 0 if it is deterministic, None if there is none."""
    values = [value for value in standing.values if value is not None and math.isfinite(value)]
    if standing.word == "not finite":
        return None
    if len(values) > 1:
        return verdicts.half_width(values)
    return 0.0 if standing.verdict and math.isfinite(standing.verdict.width) else None


# --- how a claim stands ---------------------------------------------------------------------------

WORDS = (
    "match",
    "no match",
    "underpowered",
    "not finite",
    "no verdict at this size",
    "not run",
)


class Standing(NamedTuple):
    claim: Claim
    word: str  # one of WORDS
    ours: float | None = None
    sd: float | None = None
    values: tuple = ()  # one per seed
    seeds: tuple = ()
    against: float | None = None  # for an ordering: the number that ours is compared with first
    verdict: verdicts.Verdict | None = None  # by the rule, also below the published scale
    runs: tuple = ()  # the entries that the numbers come from
    is_published: bool = False  # whether these have the published scale
    note: str = ""
    parts: tuple = ()  # for an ordering: (side, lesser side, Verdict) of each comparison


class Found(NamedTuple):
    """One metric of one run."""

    run: dict
    metric: dict
    is_published: bool
    n: int  # values that count


def standings(record: pathlib.Path = report.RECORD, claims=None, runs=()) -> list[Standing]:
    """The standings of all claims, in the order of the claims.

    record: the folder to read. runs: entries from `report.read_run`; a family that has some of
    these is judged by them and not by the record.
    """
    claims = CLAIMS.values() if claims is None else claims
    entries = {
        family: [run for run in runs if run["family"] == family] or report.entries(family, record)
        for family in dict.fromkeys(claim.family for claim in claims)
    }
    scales = Scales()
    return [standing(claim, entries[claim.family], scales) for claim in claims]


class Scales:
    """Whether a run has the published scale; cached by run."""

    def __init__(self):
        self.known = {}

    def __call__(self, run: dict) -> bool:
        if id(run) not in self.known:
            config = configs.from_json(json.dumps(run["config"]))
            self.known[id(run)] = configs.is_published(config), configs.is_drawn(config)
        return self.known[id(run)][0]

    def is_drawn(self, run: dict) -> bool:
        """Whether another seed would give other numbers."""
        self(run)
        return self.known[id(run)][1]


def standing(claim: Claim, entries: list[dict], scales: Scales) -> Standing:
    """The standing of a claim by the runs of its family.

    Orderings that are tested on the same row are a family of comparisons: their p are corrected
    together.
    """
    if claim.form == "value":
        return _value(claim, entries, scales)
    alone = _in_words(claim, entries, scales)
    if alone.verdict is None or alone.verdict.p is None:
        return alone
    others = [_in_words(other, entries, scales) for other in _family(claim) if other.id != claim.id]
    family = [alone.verdict, *(other.verdict for other in others if other.verdict)]
    verdict = verdicts.corrected(family)[0]
    n = sum(member.p is not None for member in family)
    note = f"p {alone.verdict.p:.2g}"
    note += f", {verdict.p:.2g} among {n} comparisons (Holm)" if n > 1 else ""
    return alone._replace(
        verdict=verdict,
        word=verdict.word if alone.is_published else alone.word,
        note=", ".join(filter(None, (alone.note, note))),
    )


def _family(claim: Claim) -> list[Claim]:
    """Claims in words on the same row."""
    return [
        other
        for other in CLAIMS.values()
        if other.form != "value" and (other.family, other.row) == (claim.family, claim.row)
    ]


def _value(claim, entries, scales) -> Standing:
    candidates = [
        candidate
        for place in claim.places
        for candidate in _candidates(place, entries, scales, claim)
    ]
    if not candidates:
        return Standing(claim, "not run")
    best = max(candidates, key=_rank)
    metric = best.metric
    verdict = verdicts.verdict(metric["values"], claim.published, scales.is_drawn(best.run))
    return Standing(
        claim,
        verdict.word if best.is_published else "no verdict at this size",
        metric["ours"],
        metric["sd"],
        tuple(metric["values"]),
        tuple(metric["seeds"]),
        verdict=verdict,
        runs=(best.run,),
        is_published=best.is_published,
    )


def _candidates(place, entries, scales, claim) -> list[Found]:
    """The metric of a place (row, metric) in every run that has it."""
    row, name = place
    candidates = []
    for run in entries:
        if run["row"] != row:
            continue
        # If the paper's mean leaves some seeds out, ours is the mean that does so too.
        published = PUBLISHED[claim.family].get(row, {}).get(name, {})
        alive = f"{name} (alive)" if "left_out" in published else name
        metric = run["metrics"].get(alive, run["metrics"].get(name))
        is_made_up = name.startswith(tuple(map(str, run.get("made_up", ()))))
        none_lived = alive != name and alive in run["metrics"]  # if it has no values
        if metric and (metric["values"] or none_lived) and not is_made_up:
            values = metric["values"]
            if claim.only:
                values = [value for value in values if value is not None]
            candidates.append(Found(run, metric, scales(run), len(values)))
    return candidates


def _rank(candidate: Found) -> tuple:
    """Sort key: published scale first, then more seeds, then the larger size, then no label."""
    run = candidate.run
    size = ("smoke", "default", "fast", "paper").index(run["size"])
    return candidate.is_published, candidate.n, size, not run["label"]


def _in_words(claim, entries, scales) -> Standing:
    """The standing of an ordering or an equality, by itself."""
    parts, sides, by_ratio = [], {}, False
    n_parts = sum(len(chain) - 1 for chain in claim.chains)
    for chain in claim.chains:
        for side in chain:
            sides[side] = side_of(side, entries, scales, claim)
        if any(sides[side] is None for side in chain):
            return Standing(claim, "not run")
        is_ratio = _is_by_ratio(claim, chain)
        by_ratio |= is_ratio
        for left, right in zip(chain, chain[1:]):
            compared = _compared(claim, sides[left], sides[right], scales, is_ratio, n_parts)
            parts.append((left, right, compared))
    verdict = verdicts.together([compared for _, _, compared in parts])
    measured = [side for side in sides.values() if isinstance(side, Found)]
    runs = tuple({id(side.run): side.run for side in measured}.values())
    place, chain = (claim.row, claim.metric), claim.chains[0]
    k = chain.index(place)
    other = sides[chain[k + 1 if k + 1 < len(chain) else k - 1]]
    ours, is_published = sides[place].metric, all(map(scales, runs))
    return Standing(
        claim,
        verdict.word if is_published else "no verdict at this size",
        ours["ours"],
        ours["sd"],
        tuple(ours["values"]),
        tuple(ours["seeds"]),
        other.metric["ours"] if isinstance(other, Found) else float(other),
        verdict,
        runs,
        is_published,
        "by logarithms" if by_ratio else "",
        tuple(parts),
    )


def side_of(side, entries, scales, claim):
    """The best run of a side, or its number if it is one; None if it was not run."""
    if not isinstance(side, tuple):
        return side
    row, metric = side
    published = PUBLISHED[claim.family].get(row, {}).get(metric, {})
    places = published.get("places", (side,))
    candidates = [
        candidate for place in places for candidate in _candidates(place, entries, scales, claim)
    ]
    return max(candidates, key=_rank, default=None)


def _compared(claim, left, right, scales, by_ratio: bool, n_parts: int) -> verdicts.Verdict:
    """Whether left is above right, or equal to it if the claim is an equality."""
    measured = [side for side in (left, right) if isinstance(side, Found)]
    paired = len(measured) == 2 and left.run is right.run and not claim.only
    paired = paired and left.metric["seeds"] == right.metric["seeds"]
    drawn = not claim.computed and any(scales.is_drawn(side.run) for side in measured)
    options = {"is_drawn": drawn, "paired": paired, "some": bool(claim.only)}
    values = [
        _values(side) if isinstance(side, Found) else np.array(side) for side in (left, right)
    ]
    if by_ratio and all(np.all(~(side <= 0)) for side in values):
        values = [np.log(side) for side in values]
    if claim.form != "equal":
        n_ordered = sum(other.form != "equal" for other in _family(claim))
        return verdicts.above(*values, **options, comparisons=n_ordered)
    allowed = dict(claim.allowed)
    tolerance = math.log(allowed["factor"]) if by_ratio else allowed.get("tolerance")
    return verdicts.equal(*values, **options, tolerance=tolerance, parts=n_parts)


def _is_by_ratio(claim, chain) -> bool:
    """Whether to compare logarithms, as the rule does for numbers that allow a factor."""
    if claim.form == "equal":
        return "factor" in dict(claim.allowed)
    places = [side for side in chain if isinstance(side, tuple)]
    published = [PUBLISHED[claim.family].get(row, {}).get(metric, {}) for row, metric in places]
    return all("factor" in number for number in published)


def _values(side: Found) -> np.ndarray:
    return np.array(side.metric["values"], float)  # None (a seed without a number) becomes NaN


def by_kind(of_claims) -> dict[str, collections.Counter]:
    """{kind: {word: number of claims}}; what the papers print is counted apart from the rest."""
    counts = {kind: collections.Counter() for kind in KINDS}
    for standing in of_claims:
        counts[standing.claim.kind][standing.word] += 1
    return {kind: n_of for kind, n_of in counts.items() if n_of}


def family_lines() -> list[str]:
    """How the claims of each family stand, one line per family."""
    counts = {name: collections.Counter() for name in experiments.FAMILIES}
    for standing in standings():
        counts[standing.claim.family][standing.word] += 1
    return [
        f"{name:12} {sum(n_of.values()):5} claims{': ' if n_of else ''}{tally(n_of)}"
        for name, n_of in counts.items()
    ]


def tally(n_of: collections.Counter) -> str:
    return ", ".join(f"{n_of[word]} {word}" for word in WORDS if n_of[word])


def command(claim: Claim) -> str:
    """The command that runs the rows of a claim."""
    changes = "".join(f" --config.{key}={value}" for key, value in claim.overrides)
    return "; ".join(
        f"python -m cgjax.main --config={claim.family}:{row},{claim.size}{changes}"
        for row in claim.rows
    )


def device_kind(devices: str) -> str:
    """ "1x NVIDIA H200 on 2 hosts" -> "NVIDIA H200" """
    return re.sub(r"^\d+x | on \d+ hosts$", "", devices)


def described(run: dict) -> str:
    """A run as text: row, size, label, devices, date."""
    label = f" ({run['label']})" if run["label"] else ""
    fields = (f"{run['row']}, {run['size']}{label}", run.get("devices"), run.get("date"))
    return " · ".join(filter(None, fields))
