"""Claims as rows of a table: what is claimed, theirs, ours, the comparison, and all the rest of it
behind a click."""

import math
from typing import NamedTuple

from cgjax.published import KINDS
from cgjax.published import verdict as verdicts
from cgjax.report import charts, standing
from cgjax.report.markup import Html, join, tag

COLUMNS = ("verdict", "claim", "published", "ours", "difference")
KIND_WORDS = {"value": "a number", "greater": "greater", "sign": "a sign", "ordering": "an order",
              "equal": "no difference"}  # fmt: skip
MOST_VALUES = 12  # of seeds, one by one


class Item(NamedTuple):
    """A claim by the record, and by runs of one's own where there are such."""

    found: standing.Standing
    yours: standing.Standing | None = None


def table(items: list[Item]) -> Html:
    heads = [
        tag("th", tag("button", name, type="button"), scope="col", class_=f"c-{name}")
        for name in COLUMNS
    ]
    rows = (_row(item, n) for n, item in enumerate(items))
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="claims")


def chip(word: str) -> Html:
    return tag("span", word.removesuffix(" at this size"), class_=f"chip {charts.key(word)}")


def _row(item: Item, n: int) -> Html:
    found, yours = item
    claim = found.claim
    ours = [_ours(found)]
    difference = [charts.strip(found), _difference(found)]
    if yours:
        ours.append(tag("div", "yours ", _ours(yours), " ", chip(yours.word), class_="yours"))
        difference.append(tag("div", charts.strip(yours), _difference(yours), class_="yours"))
    size = abs(charts.units(found.verdict)) if charts.is_measured(found) else None
    cells = (
        (chip(found.word), standing.WORDS.index(found.word)),
        (join([_claim(claim), _details(item)]), None),
        (_theirs(claim), claim.number),
        (join(ours), found.ours),
        (join(difference), size),
    )
    return tag(
        "tr",
        *(
            tag("td", cell, class_=f"c-{name}", data_sort=_sortable(value))
            for name, (cell, value) in zip(COLUMNS, cells)
        ),
        data_n=n,
        data_family=claim.family,
        data_kind=claim.kind,
        data_source=claim.source,
        data_word=found.word,
        data_yours=yours.word if yours else None,
    )


def _sortable(value) -> str | None:
    return None if value is None or not math.isfinite(value) else f"{value:.6g}"


def _claim(claim) -> Html:
    """What is claimed; of a number what was run, and the metric beneath it."""
    caveat = tag("small", f"Caveat: {claim.caveat}") if claim.caveat else None
    if not claim.published:
        return join([tag("div", claim.sentence), caveat])
    sentence = tag("div", what(claim))
    return join([sentence, tag("code", claim.metric), caveat])


def what(claim) -> str:
    """Of a number, what was run."""
    return claim.sentence.partition(f": {claim.metric} ")[0]


def _theirs(claim) -> Html:
    if claim.published:
        width = verdicts.published_width(claim.published)
        read = KINDS[claim.source].strip(" ()")
        return join([_interval(claim.number, width), tag("small", read) if read else None])
    more = f", and {len(claim.chains) - 1} more" if len(claim.chains) > 1 else ""
    return tag("small", _sides(claim), more, class_="chain")


def _sides(claim) -> Html:
    """An ordering, or equals, with what all its sides share said once."""
    chain = claim.chains[0]
    places = [side for side in chain if isinstance(side, tuple)]
    rows, metrics = ({place[i] for place in places} for i in (0, 1))
    shared = metrics if len(metrics) == 1 and len(places) > 1 else rows if len(rows) == 1 else ()
    shown = [
        ": ".join(word for word in side if word not in shared) or side[1]
        if isinstance(side, tuple) else f"{side:g}"
        for side in chain
    ]  # fmt: skip
    text = "".join(f"{word}: " for word in shared) + standing.sign(claim).join(shown)
    # Names may break where their words do.
    return join(text.split("_"), between="_<wbr>")


def _ours(found) -> Html:
    if found.word == "not run":
        return tag("span", "not run", class_="none")
    width = standing.half_width(found)
    against = "" if found.against is None else f"against {standing.number(found.against)}, "
    n = len([value for value in found.values if value is not None])
    noun = "seed" if len(found.seeds) == len(found.values) else "value"
    seeds = "nothing drawn" if width == 0 and n == 1 else f"{n} {noun}{'s' if n != 1 else ''}"
    devices = dict.fromkeys(run.get("devices") for run in found.runs)
    date = max((run.get("date") or "" for run in found.runs), default="")
    where = "".join(f"{name}, " for name in devices if name)
    return join([
        _interval(found.ours, width),
        tag("small", against + seeds),
        tag("small", where, tag("span", date, class_="date")),
    ])  # fmt: skip


def _interval(number, width) -> Html:
    return tag(
        "div",
        tag("span", standing.number(number), class_="number"),
        tag("span", f" ± {width:.2g}", class_="width") if width else None,
    )


def _difference(found) -> Html | None:
    said = found.verdict
    if said is None or math.isnan(said.difference):
        return None
    return tag("small", f"{said.difference:+.3g} ± {said.width:.2g}".replace("inf", "∞"))


# --- behind a click -------------------------------------------------------------------------------


def _details(item: Item) -> Html:
    claim = item.found.claim
    lines = []
    if claim.published:
        lines.append(
            ("published", standing.number(claim.number) + standing.spread(claim.published))
        )
    else:
        lines += [("claimed", standing.chain(claim, chain)) for chain in claim.chains[:MOST_VALUES]]
    lines += _lines(item.found)
    if item.yours:
        lines += [(f"yours: {name}", text) for name, text in _lines(item.yours)]
    lines += [
        ("repeat", tag("code", standing.command(claim), class_="command")),
        ("name", tag("code", claim.id)),
    ]
    terms = (join([tag("dt", name), tag("dd", text)]) for name, text in lines)
    return tag("details", tag("summary", claim.where), tag("dl", *terms))


def _lines(found) -> list[tuple]:
    if found.word == "not run":
        return []
    lines = [("values", _values(found)), ("difference", standing.comparison(found))]
    if len(found.parts) > 1:
        lines += [("part", standing.part(found.claim, *part)) for part in found.parts[:MOST_VALUES]]
    for run in found.runs:
        lines.append(("run", ". ".join(filter(None, (standing.described(run), run.get("note"))))))
    return lines


def _values(found) -> str:
    """The value of every seed, or of many how they lie."""
    sd = "" if found.sd is None else f"; sd {found.sd:.2g}"
    known = [value for value in found.values if value is not None]
    if len(found.values) > MOST_VALUES and known:
        spread = f"from {standing.number(min(known))} to {standing.number(max(known))}"
        return f"{len(known)} of {len(found.values)} have a number, {spread}{sd}"
    values = [standing.number(value) for value in found.values[:MOST_VALUES]]
    if len(found.seeds) == len(found.values):  # some measures are over all seeds at once
        values = [f"{seed}: {value}" for seed, value in zip(found.seeds, values)]
    return ", ".join(values) + sd
