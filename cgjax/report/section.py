"""The section of one paper: its question, counts of verdicts, figures, claims, runs, tables."""

import base64
import collections
import pathlib
import re
from typing import NamedTuple

from cgjax import experiments, report
from cgjax.published.claims import KINDS
from cgjax.report import charts
from cgjax.report import standing as standings
from cgjax.report.claim_rows import Item, table, what
from cgjax.report.markup import Html, inline, join, markdown, tag

# --- a family's title, question and figures, from its README --------------------------------------


IMAGE = re.compile(r"^!\[([^\]]*)\]\(([^)]+\.png)\)$", re.MULTILINE)


class About(NamedTuple):
    title: str  # the README's first heading
    lead: str  # the family's question, Markdown
    figures: tuple = ()  # (caption, path) of each image in the README


def about(name: str) -> About:
    """Title, lead and figures of a family of the package; of others the name."""
    if name not in experiments.FAMILIES:
        return About(name, "")
    readme = pathlib.Path(experiments.family(name).__file__).parent / "README.md"
    text = readme.read_text()
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    shown = ((caption, (readme.parent / path).resolve()) for caption, path in IMAGE.findall(text))
    figures = tuple((caption, path) for caption, path in shown if path.is_file())
    return About(title[1] if title else name, lead(text), figures)


def lead(text: str) -> str:
    """The first paragraph that starts with **Question or **What, else the first paragraph."""
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    prose = [block for block in blocks if re.match(r"\*\*|[^#|`!\-\s]", block)]
    return next(
        (block for block in prose if block.startswith(("**What", "**Question"))),
        prose[0] if prose else "",
    )


# --- the section ----------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n"
FEWEST = 3  # least numbers in a figure
# Kinds whose matches say less than that a network behaves as published, with their headings.
APART = {
    "formula": "Formulas and counts: ours are the same, so a match says that the code is right",
    "recomputed": "Recomputed by others with the paper's settings: not the paper's numbers",
}


class Paper(NamedTuple):
    source: dict  # an entry of `published.SOURCES`
    families: dict[str, About]
    items: list[Item]
    entries: dict[str, list[dict]]  # recorded runs by family


def section(paper: Paper, anchor: str) -> Html:
    source, items = paper.source, paper.items
    arxiv = f"arXiv {source['arxiv']}" if source["arxiv"] else None
    by = " · ".join(filter(None, (source["authors"], source["venue"], arxiv)))
    return tag(
        "section",
        tag("h2", source["title"]),
        tag("p", by, class_="by"),
        bar(items) if items else None,
        *(_family(paper, name) for name in paper.families),
        *_claims(items),
        _runs(paper),
        *_tables(paper),
        id=anchor,
        class_="paper" if items else "other",
    )


def bar(items: list[Item]) -> Html:
    """The number of tested claims by verdict as a bar; below it every kind, counted apart.

    Formulas are compared with themselves and recomputed numbers are not the paper's: the bar has
    neither.
    """
    counts = standings.by_kind(item.found for item in items)
    papers = sum((n for kind, n in counts.items() if kind not in APART), collections.Counter())
    parts = (
        tag("i", class_=charts.key(word), style=f"flex:{n}", title=f"{n} {word}")
        for word in standings.WORDS
        if (n := papers[word])
    )
    lines = (
        tag("p", f"{sum(n_of.values())} {KINDS[kind]}: {standings.tally(n_of)}", class_="counts")
        for kind, n_of in counts.items()
    )
    drawn = tag("div", *parts, class_="bar", role="img", aria_label=standings.tally(papers))
    return join([drawn if papers else None, *lines])


def _claims(items: list[Item]):
    """What a run tests, and apart from it each kind that says less."""
    papers = [item for item in items if item.found.claim.kind not in APART]
    if papers:
        yield join([tag("h3", "Claims"), table(papers)])
    for kind, title in APART.items():
        of_kind = [item for item in items if item.found.claim.kind == kind]
        if of_kind:
            head = "recomputed" if kind == "recomputed" else "published"
            yield join([tag("h3", title), table(of_kind, head)])


def _family(paper: Paper, name: str) -> Html:
    """A family's question and figures."""
    about = paper.families[name]
    return tag(
        "div",
        tag("h3", about.title) if len(paper.families) > 1 else None,
        tag("p", inline(about.lead)) if about.lead else None,
        gallery(_figures(paper, name)),
        class_="about",
    )


# --- figures --------------------------------------------------------------------------------------


def gallery(figures: list[Html]) -> Html | None:
    return tag("div", *figures, class_="gallery") if figures else None


def figure(drawn: Html, caption: str) -> Html:
    """A figure with its caption; a click enlarges it."""
    label = f"Enlarge: {caption}"
    return tag(
        "figure",
        tag("button", drawn, type="button", class_="open", aria_label=label),
        tag("figcaption", caption),
    )


def image(path: pathlib.Path, caption: str) -> Html | None:
    """A png, embedded in the page; None if the file is not a png."""
    content = path.read_bytes()
    if not content.startswith(PNG):
        return None
    encoded = base64.b64encode(content).decode()
    return figure(tag("img", src=f"data:image/png;base64,{encoded}", alt=caption), caption)


def _figures(paper: Paper, name: str) -> list[Html]:
    of_family = [item.found for item in paper.items if item.found.claim.family == name]
    run = [standing for standing in of_family if standing.ours is not None]
    images = [image(path, caption) for caption, path in paper.families[name].figures]
    return [
        *_overviews([standing for standing in run if charts.is_measured(standing)]),
        *(drawn for drawn in images if drawn),
        *_panels([standing for standing in run if standing.claim.published]),
    ]


def _overviews(run: list) -> list[Html]:
    """An overview of numbers, one of orderings and one of equalities."""
    numbers = "numbers by row: (ours - theirs) / tolerance. Shaded: a difference within tolerance"
    captions = {
        f"All published {numbers}": lambda claim: claim.published and claim.kind not in APART,
        f"All recomputed {numbers}": lambda claim: claim.kind == "recomputed",
        "All orderings by row: difference / half-width. Right of the shade: the order as claimed":
            lambda claim: claim.form in ("greater", "sign", "ordering"),
        "All claims of no difference, by row: difference / tolerance. Shaded: within tolerance":
            lambda claim: claim.form == "equal",
    }  # fmt: skip
    drawn = []
    for caption, is_wanted in captions.items():
        rows = {}
        for standing in run:
            if is_wanted(standing.claim):
                rows.setdefault(standing.claim.row, []).append(standing)
        if sum(map(len, rows.values())) >= FEWEST:
            drawn.append(figure(charts.overview(rows, caption), caption))
    return drawn


def _panels(run: list) -> list[Html]:
    """Ours beside the paper's: one figure per measure with at least FEWEST numbers.

    A metric's name is "<what>: <measure>", or "<measure>" if several rows have it. The remaining
    metrics of a row share a figure.
    """
    groups, rest = {}, {}
    for standing in run:
        claim = standing.claim
        label, _, measure = claim.metric.rpartition(": ")
        measure += " (recomputed, not the paper's)" if claim.kind == "recomputed" else ""
        group = (claim.row, measure) if label else ("", measure)
        groups.setdefault(group, []).append(charts.Line(label or claim.row, standing))
    for (row, measure), lines in list(groups.items()):
        if len(lines) < FEWEST:
            del groups[row, measure]
            for line in lines:
                group = (line.found.claim.row, "")
                rest.setdefault(group, []).append(line._replace(label=line.found.claim.metric))
    drawn = []
    for (row, measure), lines in (*groups.items(), *rest.items()):
        title = f"{measure}, by row"
        if row:
            title = f"{what(lines[0].found.claim)} ({row}){measure and ': '}{measure}"
        pages = [lines[i : i + charts.MOST] for i in range(0, len(lines), charts.MOST)]
        for n, page in enumerate(pages):
            part = f" ({n + 1} of {len(pages)})" if len(pages) > 1 else ""
            if len(lines) >= FEWEST:
                drawn.append(figure(charts.panel(page, title), title + part))
    return drawn


# --- runs and tables ------------------------------------------------------------------------------


def _runs(paper: Paper) -> Html | None:
    entries = [entry for runs in paper.entries.values() for entry in runs]
    if not entries:
        return None
    return tag(
        "details",
        tag("summary", f"Recorded runs ({len(entries)})"),
        run_table(entries),
        class_="more",
    )


def run_table(entries: list[dict]) -> Html:
    """One line per run: row, label, seeds, hardware, date, time, commit and note."""
    heads = ("row", "label", "seeds", "hardware", "date", "time", "commit", "note")
    rows = []
    for entry in entries:
        seeds = entry["config"].get("train", {}).get("seeds", ())
        wall = entry.get("wall_s")
        cells = (
            tag("code", _config(entry), class_="command"),
            entry["label"],
            len(seeds) or "-",
            entry.get("devices", "-"),
            entry.get("date") or "-",
            "-" if wall is None else f"{wall:.0f} s",
            str(entry.get("commit") or "-")[:10],
            entry.get("note") or "",
        )
        wide = (name == "note" and "wide" for name in heads)
        rows.append(tag("tr", *(tag("td", cell, class_=w) for cell, w in zip(cells, wide))))
    head = tag("thead", tag("tr", *(tag("th", name) for name in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll")


def _config(entry: dict) -> str:
    size = "" if entry["size"] == "default" else f",{entry['size']}"
    return f"{entry['family']}:{entry['row']}{size}"


def _tables(paper: Paper):
    """The tables that the families make of their record."""
    for name, entries in paper.entries.items():
        for title, text in report.tables(name, entries):
            yield tag(
                "details",
                tag("summary", f"Table: {title}"),
                markdown(text),
                class_="more",
            )
