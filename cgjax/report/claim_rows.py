"""Claims as rows of a table: verdict, claim, published number, ours, difference.

Every row has the claim's id and a link to itself. A click on the place in the paper opens the
details: values of every seed, runs, commands.
"""

import functools
import json
import math
import re
import shlex
from typing import NamedTuple

from cgjax import config as configs
from cgjax import experiments
from cgjax.config.declare import leaves
from cgjax.config.overrides import FIXED
from cgjax.core.errors import BadInput
from cgjax.published import KINDS
from cgjax.published import verdict as verdicts
from cgjax.report import charts
from cgjax.report import standing as standings
from cgjax.report.markup import Html, join, tag

FORM_WORDS = {"value": "a number", "greater": "greater", "sign": "a sign", "ordering": "an order",
              "equal": "no difference"}  # fmt: skip
MOST_VALUES = 12  # most seeds that are listed one by one


class Item(NamedTuple):
    """How a claim stands by the record, and by the user's runs if there are any."""

    standing: standings.Standing
    yours: standings.Standing | None = None


def columns(kind: str) -> tuple[str, ...]:
    """Headings; numbers of other kinds than the paper's have a heading of their own."""
    theirs = kind if kind in ("formula", "recomputed") else "published"
    return ("verdict", "claim", theirs, "ours", "difference")


def table(items: list[Item], caption: str) -> Html:
    """Claims that are all of one kind in APART of `section`, or of other kinds."""
    names = columns(items[0].standing.claim.kind)
    heads = [
        tag("th", tag("button", name, type="button"), scope="col", class_=f"c-{name}")
        for name in names
    ]
    rows = (_row(item, n, names) for n, item in enumerate(items))
    return tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        class_="claims",
    )


def chip(verdict: str) -> Html:
    return tag("span", verdict.removesuffix(" at this size"), class_=f"chip {charts.key(verdict)}")


def _row(item: Item, n: int, names: tuple) -> Html:
    standing, yours = item
    claim = standing.claim
    ours = [_ours(standing)]
    difference = [charts.strip(standing), _difference(standing)]
    if yours:
        ours.append(tag("div", "yours ", _ours(yours), " ", chip(yours.word), class_="yours"))
        difference.append(tag("div", charts.strip(yours), _difference(yours), class_="yours"))
    size = abs(charts.units(standing.verdict)) if charts.is_measured(standing) else None
    cells = (
        (chip(standing.word), standings.WORDS.index(standing.word)),
        (join([_claim(standing), _details(item)]), None),
        (_theirs(claim), claim.number if claim.published else None),
        (join(ours), standing.ours),
        (join(difference), size),
    )
    return tag(
        "tr",
        *(
            tag("td", cell, class_=f"c-{name}", data_sort=_sortable(value))
            for name, (cell, value) in zip(names, cells)
        ),
        id=claim.id,
        data_n=n,
        data_family=claim.family,
        data_kind=claim.kind,
        data_form=claim.form,
        data_word=standing.word,
        data_yours=yours.word if yours else None,
    )


def _sortable(value) -> str | None:
    return None if value is None or not math.isfinite(value) else f"{value:.6g}"


def _claim(standing) -> Html:
    """The claim's sentence; for a published number, what was run and the metric below it."""
    claim = standing.claim
    notes = [("Caveat", claim.caveat)] if claim.caveat else []
    notes += [(name.capitalize(), text) for name, text in standings.causes(standing)]
    small = [tag("small", f"{name}: {text}") for name, text in notes]
    link = tag("a", "#", href=f"#{claim.id}", class_="link", aria_label="Link to this claim")
    if claim.published:
        return join([tag("div", what(claim), " ", link), tag("code", claim.metric), *small])
    more = f", and {len(claim.chains) - 1} more" if len(claim.chains) > 1 else ""
    sides = tag("small", _sides(claim), more, class_="chain")
    return join([tag("div", claim.sentence, " ", link), sides, *small])


def what(claim) -> str:
    """The part of a published number's sentence that says what was run."""
    return claim.sentence.partition(f": {claim.metric} ")[0]


def _theirs(claim) -> Html:
    """The number that ours is compared with; a claim in words has none."""
    if not claim.published:
        return tag("span", "in words", class_="none")
    width = verdicts.published_width(claim.published)
    kind = KINDS[claim.kind].strip(" ()")
    is_said = not kind or kind in columns(claim.kind)  # by the heading
    return join([_interval(claim.number, width), None if is_said else tag("small", kind)])


def _sides(claim) -> Html:
    """The first chain of a claim; what all its sides share is written once, in front."""
    chain = claim.chains[0]
    places = [side for side in chain if isinstance(side, tuple)]
    rows, metrics = ({place[i] for place in places} for i in (0, 1))
    shared = metrics if len(metrics) == 1 and len(places) > 1 else rows if len(rows) == 1 else ()
    shown = [
        ": ".join(name for name in side if name not in shared) or side[1]
        if isinstance(side, tuple)
        else f"{side:g}"
        for side in chain
    ]
    text = "".join(f"{name}: " for name in shared) + standings.sign(claim).join(shown)
    # Long names may break after an underscore.
    return join(text.split("_"), between="_<wbr>")


def _ours(standing) -> Html:
    if standing.word == "not run":
        return tag("span", "not run", class_="none")
    width = standings.half_width(standing)
    against = "" if standing.against is None else f"against {standings.number(standing.against)}, "
    seeds = standings.counted(standing)
    devices = dict.fromkeys(run.get("devices") for run in standing.runs)
    date = max((run.get("date") or "" for run in standing.runs), default="")
    hardware = "".join(f"{name}, " for name in devices if name)
    return join(
        [
            _interval(standing.ours, width),
            tag("small", against + seeds),
            tag("small", hardware, tag("span", date, class_="date")),
        ]
    )


def _interval(number, width) -> Html:
    return tag(
        "div",
        tag("span", standings.number(number), class_="number"),
        tag("span", f" ± {width:.2g}", class_="width") if width else None,
    )


def _difference(standing) -> Html | None:
    verdict = standing.verdict
    if verdict is None or math.isnan(verdict.difference):
        return None
    text = standings.amount(verdict.difference)
    if not standing.claim.published:  # otherwise the width is that of our mean, which has its own
        text += f" ± {standings.amount(verdict.width, '.2g')}"
    return tag("small", text)


# --- details of a claim ---------------------------------------------------------------------------


def _details(item: Item) -> Html:
    standing = item.standing
    claim = standing.claim
    if claim.published:
        number = standings.number(claim.number) + standings.spread(claim.published)
        lines = [(columns(claim.kind)[2], number)]
    else:
        lines = [("claimed", standings.chain(claim, chain)) for chain in claim.chains[:MOST_VALUES]]
    lines += _lines(standing)
    if item.yours:
        lines += [(f"yours: {name}", text) for name, text in _lines(item.yours)]
    if standing.runs:
        lines.append(("repeat", copied("\n".join(map(command, standing.runs)))))
    if not standing.is_published:
        lines.append(("published scale", copied(standings.command(claim))))
    lines.append(("name", tag("code", claim.id)))
    terms = (join([tag("dt", name), tag("dd", text)]) for name, text in lines)
    return tag("details", tag("summary", claim.where), tag("dl", *terms))


def copied(command: str) -> Html:
    """A command with a button that copies it."""
    button = tag("button", "copy", type="button", class_="copy", aria_label="Copy the command")
    return join([tag("code", command, class_="command"), " ", button])


def _lines(standing) -> list[tuple]:
    if standing.word == "not run":
        return []
    lines = [("values", _values(standing)), ("difference", standings.comparison(standing))]
    if len(standing.parts) > 1:
        lines += [
            ("part", standings.part(standing.claim, *part)) for part in standing.parts[:MOST_VALUES]
        ]
    for run in standing.runs:
        lines.append(("run", ". ".join(filter(None, (standings.described(run), run.get("note"))))))
    return lines


def _values(standing) -> str:
    """The value of every seed; for more than MOST_VALUES their number and range."""
    sd = "" if standing.sd is None else f"; sd {standing.sd:.2g}"
    known = [value for value in standing.values if value is not None]
    if len(standing.values) > MOST_VALUES and known:
        spread = f"from {standings.number(min(known))} to {standings.number(max(known))}"
        return f"{len(known)} of {len(standing.values)} values are numbers, {spread}{sd}"
    values = [standings.number(value) for value in standing.values[:MOST_VALUES]]
    if len(standing.seeds) == len(standing.values):  # a metric over all seeds together has no seeds
        values = [f"{seed}: {value}" for seed, value in zip(standing.seeds, values)]
    return ", ".join(values) + sd


# --- commands -------------------------------------------------------------------------------------
# How a run differs from its row, and the command that repeats it at the size it was run.


MAIN = "python -m cgjax.main"


def flag(run: dict) -> str:
    """The value of --config: "bumps:B8,paper"."""
    size = "" if run["size"] == "default" else f",{run['size']}"
    return f"{run['family']}:{run['row']}{size}"


@functools.lru_cache(maxsize=1024)  # a page has many claims of one row
def _declared(flag: str) -> tuple[dict, list[str]] | None:
    """{key: value} and the parts of a row; None if no config file of the package has it.

    A record may name any family: loading a file of that name would run its code.
    """
    if flag.partition(":")[0] not in experiments.FAMILIES:
        return None
    try:
        config = configs.load(flag)
    except BadInput:
        return None
    return dict(leaves(config)), sorted(config.get("parts", {}))


def changes(run: dict) -> dict[str, tuple]:
    """{key: (value of the row, value of the run)}; "parts" has the names of parts.

    A key that only one of them declares is left out: a recorded config may be older than the row.
    """
    if (declared := _declared(flag(run))) is None:
        return {}
    row, parts = declared
    config, changed = configs.from_json(json.dumps(run["config"])), {}
    chosen = [name for name in parts if name in config.get("parts", {})]
    if chosen and chosen != parts:
        changed["parts"] = (tuple(parts), tuple(chosen))
    for name, value in leaves(config):
        head, _, inner = name.removeprefix("parts.").partition(".")
        # A run may set any key of the row for one part.
        shared = inner if name.startswith("parts.") and head in parts else ""
        before = row.get(name, row.get(shared))
        if before is not None and before != value and name not in FIXED:
            changed[name] = (before, value)
    return changed


def command(run: dict) -> str:
    """The command that runs a run again, with its seeds and its other differences from the row."""
    words = [f"{MAIN} --config={flag(run)}"]
    for name, (before, value) in changes(run).items():
        option = "--parts" if name == "parts" else f"--config.{name}"
        # Words need quotes where the row's own value does not show that words are meant.
        written = text(value) if before != () else str(value)
        words.append(shlex.quote(f"{option}={written}"))
    return " ".join(words)


def text(value) -> str:
    """A value as `--config.key=value` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and value and all(map(_is_plain, value)):
        return ",".join(map(str, value))
    return str(value)


def _is_plain(item) -> bool:
    return bool(re.fullmatch(r"[\w.+-]+", str(item)))
