"""How claims stand: what the record, or runs of one's own, say of them, by the rule."""

import json
import math
import pathlib
from typing import NamedTuple

import numpy as np

from cgjax import config as configs
from cgjax import report
from cgjax.core.workdir import read_json
from cgjax.published import PUBLISHED, SPREADS
from cgjax.published import verdict as verdicts
from cgjax.published.claims import CLAIMS, Claim
from cgjax.published.results import read_results

# --- numbers, spreads and comparisons in words, for the page and for `reproduce` ------------------


def number(value) -> str:
    return "-" if value is None else f"{value:.4g}"


def spread(published: dict) -> str:
    """What a paper tells of the spread of its number."""
    kind = SPREADS[published["spread"]]
    if published["spread"] == "none":
        return f" (spread: {kind})"
    n = f", n = {published['n']}" if "n" in published else ""
    return f" ± {published['sd']:.2g} ({kind}{n})"


def seeds(found) -> str:
    """The deviation of a standing's values, and how many there are."""
    n = len([value for value in found.values if value is not None])
    sd = f" ± {found.sd:.2g}" if found.sd is not None else ""
    return f"{sd} ({n} value{'s' if n > 1 else ''})"


def sign(claim) -> str:
    """What stands between the sides of a claim in words."""
    return " ≈ " if claim.kind == "equal" else " > "


def chain(claim, sides) -> str:
    told = (": ".join(side) if isinstance(side, tuple) else f"{side:g}" for side in sides)
    return sign(claim).join(told)


def part(claim, left, right, said) -> str:
    """One comparison of an ordering, or of equals."""
    sides = chain(claim, (left, right))
    return f"{sides}: {said.difference:+.3g} ± {said.width:.3g}, {said.word}"


def comparison(found) -> str:
    """Difference, half-width and tolerance of a standing, as the rule has them."""
    said, published = found.verdict, found.claim.published
    words = [f"{said.difference:+.3g}", f"half-width {said.width:.3g}"]
    words[0] += " of logarithms" if published and "factor" in published else ""
    if published or said.tolerance:
        words.append(f"tolerance {said.tolerance:.3g}")
    return ", ".join(filter(None, [*words, found.note]))


def half_width(found) -> float | None:
    """Half of the 95 % interval of ours; 0 of a closed form, None of a single draw."""
    values = [value for value in found.values if value is not None and math.isfinite(value)]
    if len(values) > 1:
        return verdicts.half_width(values)
    return 0.0 if found.verdict and math.isfinite(found.verdict.width) else None


# --- how a claim stands ---------------------------------------------------------------------------

WORDS = ("match", "no match", "underpowered", "no verdict at this size", "not run")
# What runs that judge their orderings themselves call them.
OWN_WORDS = {"holds": "match", "does not hold": "no match", "underpowered": "underpowered"}


class Standing(NamedTuple):
    claim: Claim
    word: str  # of WORDS
    ours: float | None = None
    sd: float | None = None
    values: tuple = ()  # of every seed
    seeds: tuple = ()
    against: float | None = None  # of an ordering: what ours is compared with first
    verdict: verdicts.Verdict | None = None  # by the rule, also below the published scale
    runs: tuple = ()  # entries of the record it rests on
    note: str = ""
    parts: tuple = ()  # of an ordering: (side, lesser side, its Verdict), one for each comparison


class Found(NamedTuple):
    """One metric of one run."""

    run: dict
    metric: dict
    is_published: bool


def standings(record: pathlib.Path = report.RECORD, claims=None, runs=()) -> list[Standing]:
    """Of every claim, in their order.

    record: the folder to read; runs: further entries, as `entry_of` makes them, which come first.
    """
    claims = CLAIMS.values() if claims is None else claims
    entries = {
        family: [run for run in runs if run["family"] == family] or report.entries(family, record)
        for family in dict.fromkeys(claim.family for claim in claims)
    }
    scales = Scales()
    return [standing(claim, entries[claim.family], scales) for claim in claims]


def entry_of(workdir) -> dict:
    """A finished run in the form of the record's entries."""
    workdir = pathlib.Path(workdir)
    config, results = read_json(workdir / "config.json"), read_results(workdir / "results.json")
    names = {name: config[name] for name in ("family", "row", "size")}
    return {**names, "label": "", "note": "", "date": "", **results, "config": config}


class Scales:
    """Which runs have the published scale; each is asked once."""

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
    """How one claim stands by the runs of its family."""
    return (_value if claim.kind == "value" else _ordering)(claim, entries, scales)


def _value(claim, entries, scales) -> Standing:
    found = [one for place in claim.places for one in _look(place, entries, scales, claim)]
    if not found:
        return Standing(claim, "not run")
    best = max(found, key=_worth)
    metric = best.metric
    said = verdicts.verdict(metric["values"], claim.published, scales.is_drawn(best.run))
    return Standing(
        claim,
        said.word if best.is_published else "no verdict at this size",
        metric["ours"],
        metric["sd"],
        tuple(metric["values"]),
        tuple(metric["seeds"]),
        verdict=said,
        runs=(best.run,),
    )


def _look(place, entries, scales, claim) -> list[Found]:
    row, name = place
    found = []
    for run in entries:
        if run["row"] != row:
            continue
        # The paper's mean leaves some runs out, and so does this one of ours.
        published = PUBLISHED[claim.family].get(row, {}).get(name, {})
        alive = f"{name} (alive)" if "left_out" in published else name
        metric = run["metrics"].get(alive, run["metrics"].get(name))
        if metric and metric["ours"] is not None:
            found.append(Found(run, metric, scales(run)))
    return found


def _worth(one: Found) -> tuple:
    """Runs of the published scale before others, then those of more seeds, then the longer ones."""
    size = ("smoke", "default", "fast", "paper").index(one.run["size"])
    return one.is_published, len(one.metric["values"]), size, not one.run["label"]


def _ordering(claim, entries, scales) -> Standing:
    parts, found, by_ratio = [], {}, False
    for chain in claim.chains:
        for side in chain:
            found[side] = _side(side, entries, scales, claim)
        if any(found[side] is None for side in chain):
            return Standing(claim, "not run")
        is_ratio = _is_by_ratio(claim, chain)
        by_ratio |= is_ratio
        for left, right in zip(chain, chain[1:]):
            said = _compared(claim, found[left], found[right], scales, is_ratio)
            parts.append((left, right, said))
    verdict = verdicts.together([said for _, _, said in parts])
    every = [one for one in found.values() if isinstance(one, Found)]
    runs = tuple({id(one.run): one.run for one in every}.values())
    notes = ["by logarithms"] * by_ratio
    if own := _own(claim, runs):
        verdict = verdict._replace(word=OWN_WORDS[own["verdict"]])
        parts = [(left, right, verdict) for left, right, _ in parts]
        notes += [] if own["p"] is None else [f"p {own['p']:.2g} by the run's own test"]
    place, chain = (claim.row, claim.metric), claim.chains[0]
    k = chain.index(place)
    other = found[chain[k + 1 if k + 1 < len(chain) else k - 1]]
    ours = found[place].metric
    return Standing(
        claim,
        verdict.word if all(map(scales, runs)) else "no verdict at this size",
        ours["ours"],
        ours["sd"],
        tuple(ours["values"]),
        tuple(ours["seeds"]),
        other.metric["ours"] if isinstance(other, Found) else float(other),
        verdict,
        runs,
        ", ".join(notes),
        tuple(parts),
    )


def _side(side, entries, scales, claim):
    """The best run of a side, or the number it is; None where it was not run."""
    if not isinstance(side, tuple):
        return side
    row, metric = side
    published = PUBLISHED[claim.family].get(row, {}).get(metric, {})
    places = published.get("places", (side,))
    found = [one for place in places for one in _look(place, entries, scales, claim)]
    return max(found, key=_worth, default=None)


def _compared(claim, left, right, scales, by_ratio: bool) -> verdicts.Verdict:
    """One side with the next: above it, or equal to it, whichever is claimed."""
    both = [one for one in (left, right) if isinstance(one, Found)]
    paired = len(both) == 2 and left.run is right.run
    paired = paired and left.metric["seeds"] == right.metric["seeds"]
    drawn = any(scales.is_drawn(one.run) for one in both)
    values = [_values(one) if isinstance(one, Found) else np.array(one) for one in (left, right)]
    if by_ratio and all(np.all(~(side <= 0)) for side in values):
        values = [np.log(side) for side in values]
    if claim.kind != "equal":
        return verdicts.above(*values, is_drawn=drawn, paired=paired)
    allowed = dict(claim.allowed)
    tolerance = math.log(allowed["factor"]) if by_ratio else allowed.get("tolerance")
    return verdicts.equal(*values, is_drawn=drawn, paired=paired, tolerance=tolerance)


def _is_by_ratio(claim, chain) -> bool:
    """Errors that span orders of magnitude are compared as the rule holds them against a number."""
    if claim.kind == "equal":
        return "factor" in dict(claim.allowed)
    places = [side for side in chain if isinstance(side, tuple)]
    told = [PUBLISHED[claim.family].get(row, {}).get(metric, {}) for row, metric in places]
    return all("factor" in one for one in told)


def _values(one: Found) -> np.ndarray:
    return np.array(one.metric["values"], float)  # None, a seed without a number, is NaN


def _own(claim, runs) -> dict | None:
    """The verdict of a run that judges this ordering itself."""
    names = {side[1] for side in claim.chains[0] if isinstance(side, tuple)}
    for one in (one for run in runs for one in run.get("claims", ())):
        sides = {name for name in (one["left"], one["right"]) if name in names}
        if sides == names and f"({one['claim']})" in claim.sentence:
            return one
    return None


def command(claim: Claim) -> str:
    """What runs the row behind a claim."""
    changes = "".join(f" --config.{key}={value}" for key, value in claim.overrides)
    return "; ".join(
        f"python -m cgjax.main --config={claim.family}:{row},{claim.size}{changes}"
        for row in claim.rows
    )


def described(run: dict) -> str:
    """A run in words: row, size, label, devices, date."""
    label = f" ({run['label']})" if run["label"] else ""
    words = (f"{run['row']}, {run['size']}{label}", run.get("devices"), run.get("date"))
    return " · ".join(filter(None, words))
