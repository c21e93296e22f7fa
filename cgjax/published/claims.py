"""Claims of the papers that a run can be held against, one entry each.

`CLAIMS` {id: Claim}, in the order of the families. Claims of the form "value" are the numbers of
`published.PUBLISHED`, one for each number however many rows show it. The others are in words, in
`CLAIMS` of a family's module {name: claim}: a `sentence` in our words, `where` the paper says so,
and `chains` of sides from the greatest to the least, each (row, metric) or a number, or `equal`,
pairs of sides that do not differ, by more than a `tolerance` or a `factor` where one is stated.
`each` has the words that stand for {0}, {1} in them. `only` says for which seeds its numbers are
defined, `computed` that it needs no seeds. The `kind` "finding" marks what no paper states:
its `where` names the open question, and its row has the same settings at `fast` and `paper`.

A claim with `rows` {row: parts} is one claim for each row and part, {row} and {part} in its sides,
called `claim` with {words} for the part. `metric` is the one that is shown as ours, where that is
not the first.

`CAUSES` of a family's module {beginning of an id, without the family: (cause, experiment)} says why
ours does not match, and which experiment could tell. A cause begins with its kind: "settings" that
differ, "published" numbers that cannot be right or are not what they seem, "chance", "unknown".
"""

import re
from typing import NamedTuple

from cgjax.published.reading import MODULES, PUBLISHED

FORMS = ("value", "greater", "sign", "ordering", "equal")
# How we know what a paper claims. Formulas that are compared with themselves, and numbers that the
# paper does not have, are counted apart from what it prints.
KINDS = {
    "printed": "printed",
    "read": "read off a figure",
    "formula": "formula or count",
    "recomputed": "recomputed, not the paper's",
    "sentence": "in words",
    "finding": "our finding, not the paper's",
}
# Families, rows ("": any) and beginnings of metrics: in what ours and the published number differ.
CAVEATS = {
    ("subnetworks", "", "pretrained/"): "ours is MiniLM (6 layers of 384), fine-tuned for "
    "sentences, in the place of the pretrained BERT-small",
    ("subnetworks", "", "pretrained_random_weights/"): "ours has the shape of MiniLM (6 layers of "
    "384) in the place of BERT-small's",
    ("kernels", "addition_cifar_vit", ""): "ours is measured after 200 epochs, some of the "
    "paper's curves end at epoch 99 (extrapolation) or 179",
    ("kernels", "cd_cifar_resnet", "cd_2"): "the paper's curve of CD-2 has 10 points in place of "
    "12: it may end earlier",
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
    form: str  # of FORMS
    kind: str  # of KINDS
    published: dict | None = None  # of a value: mean, sd, spread, n, tolerance ... (`published`)
    places: tuple = ()  # of a value: every (row, metric) where a run shows it, the best last
    # Else sides, (row, metric) or a number: from the greatest to the least, or pairs of equals.
    chains: tuple = ()
    allowed: tuple = ()  # of equals: (("tolerance" or "factor", number),), else the usual one
    size: str = "paper"  # the size at which the row is that of the paper
    overrides: tuple = ()  # (key, value) that run no more of the row than the claim needs
    caveat: str = ""  # in what ours cannot be the paper's, whatever its size
    cause: str = ""  # why ours does not match
    experiment: str = ""  # what could tell the cause
    only: str = ""  # for which seeds its numbers are defined, if not for all
    computed: bool = False  # it needs no seeds
    label: str = ""  # in a few words, where a run judges it for itself

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
        return tuple(dict.fromkeys([row for row, _ in _places(self.chains)] or [self.row]))


def slug(text: str) -> str:
    """A metric's name in the letters of an id."""
    return re.sub(r"[^a-z0-9.]+", "_", text.lower()).strip("_")


def _places(chains) -> list[tuple]:
    return [side for chain in chains for side in chain if isinstance(side, tuple)]


# --- numbers --------------------------------------------------------------------------------------


def _values(family: str):
    """A claim for every published number, under the row that shows it best."""
    for row, metrics in PUBLISHED[family].items():
        if row in POOLED.get(family, ()):
            continue
        for metric, entry in metrics.items():
            places = entry.get("places", ((row, metric),))
            if places[-1] != (row, metric):
                continue
            for number in filter(None, (entry, entry.get("recomputed"))):
                suffix = "" if number is entry else ".recomputed"
                yield Claim(
                    id=f"{family}.{row}.{slug(metric)}{suffix}",
                    sentence=f"{MODULES[family].ROWS[row]}: {metric} {number['mean']:g}",
                    where=number["where"],
                    family=family,
                    row=row,
                    metric=metric,
                    form="value",
                    kind=number["kind"],
                    published=number,
                    places=places,
                    overrides=overrides_of(row, metric),
                    only=number.get("only", ""),
                    computed=number.get("computed", False),
                    caveat=_caveat(family, places),
                )


def _caveat(family: str, places) -> str:
    """What differs at any of some places, (row, metric)."""
    caveats = [
        text
        for (name, row, start), text in CAVEATS.items()
        if name == family
        and any(row in ("", place[0]) and place[1].startswith(start) for place in places)
    ]
    return "; ".join(caveats)


def overrides_of(row: str, metric: str) -> tuple:
    """Of rows with many tasks and distances, those of the metric."""
    match = re.match(r"(all hubs|[a-z0-9_]+), d=(\d+): ", metric)
    if not match or not re.search(r"_(mnist|cifar_\w+)$", row):
        return ()
    task = match[1] if not row.startswith("addition") else f"addition_{match[1]}"
    tasks = () if task == "all hubs" else (("data.tasks", task),)
    return (*tasks, ("data.distances", match[2]))


# --- words ----------------------------------------------------------------------------------------


def _in_words(family: str):
    module = MODULES[family]
    for name, stated in getattr(module, "CLAIMS", {}).items():
        chains = stated["equal"] if "equal" in stated else stated["chains"]
        if "rows" not in stated:
            yield _claim(family, name, stated, chains, stated.get("each"))
            continue
        for row, parts in stated["rows"].items():
            for part in parts:
                label = stated["claim"].format(words=module.PARTS.get(part, part))
                each = ({"row": row, "part": part},)
                yield _claim(family, f"{row}.{slug(label)}", stated, chains, each, label)


def _claim(family: str, name: str, stated: dict, chains, each, label: str = "") -> Claim:
    chains = tuple(_filled(chains, each or ((),)))
    places = _places(chains)
    row, metric = places[0]
    if "metric" in stated:
        metric = next(side[1] for side in places if side[1] == stated["metric"].format(**each[0]))
    is_sign = all(0 in chain and len(chain) == 2 for chain in chains)
    is_pair = max(map(len, chains)) == 2
    form = "sign" if is_sign else "greater" if is_pair else "ordering"
    return Claim(
        id=f"{family}.{name}",
        sentence=f"{stated['sentence']} ({label})" if label else stated["sentence"],
        where=stated["where"],
        family=family,
        row=row,
        metric=metric,
        form="equal" if "equal" in stated else form,
        kind=stated.get("kind", "sentence"),
        chains=chains,
        allowed=tuple((key, stated[key]) for key in ("tolerance", "factor") if key in stated),
        caveat=_caveat(family, places),
        only=stated.get("only", ""),
        computed=stated.get("computed", False),
        label=label,
    )


def _filled(chains, each):
    """Every chain with each of the words in the place of {0}, {1} ..., or of their names."""
    for words in each:
        named = words if isinstance(words, dict) else {}
        listed = words if isinstance(words, tuple) else () if named else (words,)
        for chain in chains:
            yield tuple(
                tuple(text.format(*listed, **named) for text in side)
                if isinstance(side, tuple)
                else side
                for side in chain
            )


def _by_id(claims) -> dict[str, Claim]:
    by_id = {}
    for claim in claims:
        if claim.id in by_id:
            raise ValueError(f"two claims are called {claim.id}")
        by_id[claim.id] = claim
    return by_id


def _with_cause(claim: Claim) -> Claim:
    """The claim with the cause whose key its id begins with; the longest key counts."""
    causes, name = getattr(MODULES[claim.family], "CAUSES", {}), claim.id.partition(".")[2]
    keys = [key for key in causes if name.startswith(key)]
    if not keys:
        return claim
    cause, experiment = causes[max(keys, key=len)]
    return claim._replace(cause=cause, experiment=experiment)


CLAIMS = _by_id(
    _with_cause(claim) for family in MODULES for claim in (*_in_words(family), *_values(family))
)


def _by_row(claims) -> dict:
    """{family: {row: claims}} of those that a run judges for itself, as the run reads them.

    Each has `claim` (short), `sentence` and `where` in the paper, the metric `left` that is
    compared with `right` (a metric or a number), the `direction`, "above" or "below", and `only`.
    """
    families = {}
    for claim in claims:
        if not claim.label:
            continue
        (chain,) = claim.chains
        place = (claim.row, claim.metric)
        other = chain[1 - chain.index(place)]
        row = families.setdefault(claim.family, {}).setdefault(claim.row, [])
        row.append(
            {
                "claim": claim.label,
                "sentence": claim.sentence.removesuffix(f" ({claim.label})"),
                "where": claim.where,
                "left": claim.metric,
                "right": other[1] if isinstance(other, tuple) else other,
                "direction": "above" if chain[0] == place else "below",
                "only": claim.only,
            }
        )
    return families


BY_ROW = _by_row(CLAIMS.values())
