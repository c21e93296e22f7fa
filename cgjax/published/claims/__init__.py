"""Claims of the papers that a run can be held against, one entry each.

`CLAIMS` {id: Claim}, in the order of the families. Claims of kind "value" are the numbers of
`published.PUBLISHED`, one for each number however many rows show it; the others are stated in the
modules beside this one, and for resistance in `published.CLAIMS`. Numbers stand there and not here.
"""

import re
from typing import NamedTuple

from cgjax.published import CLAIMS as ORDERED
from cgjax.published import PUBLISHED
from cgjax.published.claims import bumps, kernels, sprites, subnetworks
from cgjax.published.claims.rows import ROWS

STATED = sprites.STATED | kernels.STATED | bumps.STATED | subnetworks.STATED
KINDS = ("value", "greater", "sign", "ordering", "equal")
# Families and beginnings of metrics, and in what ours differs there.
CAVEATS = {
    ("subnetworks", "pretrained/"): "ours is MiniLM (6 layers of 384), fine-tuned for sentences, "
    "in the place of the pretrained BERT-small",
    ("subnetworks", "pretrained_random_weights/"): "ours has the shape of MiniLM (6 layers of 384) "
    "in the place of BERT-small's",
}
# Numbers over several rules, which no single row gives.
POOLED = {"subnetworks": ("agreement", "anaphora", "means")}


class Claim(NamedTuple):
    id: str  # "<family>.<row>.<metric>", or "<family>.<words>" where it is stated in words
    sentence: str
    where: str  # in the paper
    family: str
    row: str  # the row that shows it
    metric: str
    kind: str  # of KINDS
    source: str  # "printed", "read", "recomputed" (of `published.KINDS`), or "stated" in words
    published: dict | None = None  # of a value: mean, sd, spread, n, tolerance ... (`published`)
    places: tuple = ()  # of a value: every (row, metric) where a run shows it, the best last
    # Else sides, (row, metric) or a number: from the greatest to the least, or pairs of equals.
    chains: tuple = ()
    allowed: tuple = ()  # of equals: (("tolerance" or "factor", number),), else the usual one
    size: str = "paper"  # the size at which the row is that of the paper
    overrides: tuple = ()  # (key, value) that run no more of the row than the claim needs
    caveat: str = ""  # in what ours cannot be the paper's, whatever its size

    @property
    def number(self) -> float | None:
        """The published number; of an ordering against a number, that one."""
        if self.published:
            return self.published["mean"]
        fixed = [side for chain in self.chains for side in chain if not isinstance(side, tuple)]
        return fixed[0] if fixed else None

    @property
    def rows(self) -> tuple[str, ...]:
        """Every row that is needed: of a value one, of an ordering perhaps several."""
        sides = [side for chain in self.chains for side in chain if isinstance(side, tuple)]
        return tuple(dict.fromkeys([row for row, _ in sides] or [self.row]))


def slug(text: str) -> str:
    """A metric's name in the letters of an id."""
    return re.sub(r"[^a-z0-9.]+", "_", text.lower()).strip("_")


def _values(family: str):
    """A claim for every published number, under the row that shows it best."""
    for row, metrics in PUBLISHED[family].items():
        if row in POOLED.get(family, ()):
            continue
        for metric, entry in metrics.items():
            places = entry.get("places", ((row, metric),))
            if places[-1] != (row, metric):
                continue
            for one in filter(None, (entry, entry.get("recomputed"))):
                suffix = "" if one is entry else ".recomputed"
                yield Claim(
                    id=f"{family}.{row}.{slug(metric)}{suffix}",
                    sentence=f"{ROWS[family][row]}: {metric} {one['mean']:g}",
                    where=one["where"],
                    family=family,
                    row=row,
                    metric=metric,
                    kind="value",
                    source=one["kind"],
                    published=one,
                    places=places,
                    overrides=_overrides(row, metric),
                    caveat=_caveat(family, [metric]),
                )


def _caveat(family: str, metrics) -> str:
    found = [
        words
        for (name, start), words in CAVEATS.items()
        if name == family and any(metric.startswith(start) for metric in metrics)
    ]
    return "; ".join(found)


def _overrides(row: str, metric: str) -> tuple:
    """Of rows with many tasks and distances, those of the metric."""
    found = re.match(r"(all hubs|[a-z0-9_]+), d=(\d+): ", metric)
    if not found or not re.search(r"_(mnist|cifar_\w+)$", row):
        return ()
    task = found[1] if not row.startswith("addition") else f"addition_{found[1]}"
    tasks = () if task == "all hubs" else (("data.tasks", task),)
    return (*tasks, ("data.distances", found[2]))


def _stated(family: str):
    """Claims in words: literals, with sides from the greatest to the least, or of equals."""
    for name, one in STATED[family].items():
        sides = one["equal"] if "equal" in one else one["chains"]
        chains = tuple(_filled(sides, one.get("each", ((),))))
        row, metric = next(side for chain in chains for side in chain if isinstance(side, tuple))
        is_sign = all(0 in chain and len(chain) == 2 for chain in chains)
        is_pair = max(map(len, chains)) == 2
        kind = "sign" if is_sign else "greater" if is_pair else "ordering"
        kind = "equal" if "equal" in one else kind
        yield Claim(
            id=f"{family}.{name}",
            sentence=one["sentence"],
            where=one["where"],
            family=family,
            row=row,
            metric=metric,
            kind=kind,
            source="stated",
            chains=chains,
            allowed=tuple((name, one[name]) for name in ("tolerance", "factor") if name in one),
            caveat=_caveat(
                family, [side[1] for side in sum(chains, ()) if isinstance(side, tuple)]
            ),
        )


def _filled(chains, each):
    """Every chain with each of the words, or tuples of words, in the place of {0}, {1} ..."""
    for words in each:
        words = words if isinstance(words, tuple) else (words,)
        for chain in chains:
            yield tuple(
                tuple(text.format(*words) for text in side) if isinstance(side, tuple) else side
                for side in chain
            )


def _ordered(family: str):
    """Orderings that the runs of a family judge themselves, by tests of their own."""
    for row, claims in ORDERED[family].items():
        for one in claims:
            right = (row, one["right"]) if isinstance(one["right"], str) else one["right"]
            chain = ((row, one["left"]), right)
            yield Claim(
                id=f"{family}.{row}.{slug(one['claim'])}",
                sentence=f"{one['sentence']} ({one['claim']})",
                where=one["where"],
                family=family,
                row=row,
                metric=one["left"],
                kind="sign" if right == 0 else "greater",
                source="stated",
                chains=(chain if one["direction"] == "above" else chain[::-1],),
            )


def _all():
    for family in PUBLISHED:
        if family in ORDERED:
            yield from _ordered(family)
        if family in STATED:
            yield from _stated(family)
        yield from _values(family)


def _by_id(found) -> dict[str, Claim]:
    claims = {}
    for claim in found:
        if claim.id in claims:
            raise ValueError(f"two claims are called {claim.id}")
        claims[claim.id] = claim
    return claims


CLAIMS = _by_id(_all())
