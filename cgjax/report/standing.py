"""How every claim stands: what the record, or runs of one's own, say of it, by the one rule."""

import json
import pathlib
from typing import NamedTuple

from cgjax import config as configs
from cgjax import report
from cgjax.core import verdict as verdicts
from cgjax.core.workdir import read_json
from cgjax.published import PUBLISHED
from cgjax.published.claims import CLAIMS, Claim

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
    config, results = (read_json(workdir / f"{name}.json") for name in ("config", "results"))
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
    said, sides = [], []
    for chain in claim.chains:
        found = [_side(side, entries, scales, claim) for side in chain]
        if None in found:
            return Standing(claim, "not run")
        sides += [found]
        said += [_above(*pair, scales) for pair in zip(found, found[1:])]
    verdict, note = verdicts.together(said), ""
    every = [one for chain in sides for one in chain if isinstance(one, Found)]
    runs = tuple({id(one.run): one.run for one in every}.values())
    if own := _own(claim, runs):
        verdict = verdict._replace(word=OWN_WORDS[own["verdict"]])
        note = "" if own["p"] is None else f"p {own['p']:.2g}, paired test"
    word = verdict.word if all(map(scales, runs)) else "no verdict at this size"
    k = claim.chains[0].index((claim.row, claim.metric))
    shown, other = sides[0][k], sides[0][k + 1 if k + 1 < len(sides[0]) else k - 1]
    return Standing(
        claim,
        word,
        shown.metric["ours"],
        shown.metric["sd"],
        tuple(shown.metric["values"]),
        tuple(shown.metric["seeds"]),
        other.metric["ours"] if isinstance(other, Found) else float(other),
        verdict,
        runs,
        note,
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


def _above(left, right, scales) -> verdicts.Verdict:
    both = [one for one in (left, right) if isinstance(one, Found)]
    paired = len(both) == 2 and left.run is right.run
    paired = paired and left.metric["seeds"] == right.metric["seeds"]
    drawn = any(scales.is_drawn(one.run) for one in both)
    values = [_values(one) if isinstance(one, Found) else one for one in (left, right)]
    return verdicts.above(*values, is_drawn=drawn, paired=paired)


def _values(one: Found) -> list[float]:
    return [float("nan") if value is None else value for value in one.metric["values"]]


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
