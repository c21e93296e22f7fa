"""The section of one paper: its question, counts of verdicts, figures, claims, runs, tables."""

import base64
import collections
import pathlib
import re
from typing import NamedTuple

from cgjax import experiments, report
from cgjax.published.claims import KINDS
from cgjax.report import charts, claim_rows
from cgjax.report import standing as standings
from cgjax.report.claim_rows import Item, what
from cgjax.report.claim_rows import table as claim_table
from cgjax.report.markup import Html, inline, join, markdown, table, tag

# --- a family's title, question and figures, from its README --------------------------------------


IMAGE = re.compile(r"^ *!\[([^\]]*)\]\(([^)]+\.png)\)$", re.MULTILINE)
HERE = re.compile(r"\s*\(\[[^\]]*\]\(#[^)]*\)\)")  # "([below](#a-heading))" of the README itself


class About(NamedTuple):
    title: str  # the README's first heading
    lead: str  # the family's question, Markdown
    answer: str = ""  # the paragraph that begins with **Answer
    figures: tuple = ()  # (caption, path) of each image in the README


def about(name: str) -> About:
    """Title, question, answer and figures of a family of the package; of others the name."""
    if name not in experiments.FAMILIES:
        return About(name, "")
    readme = pathlib.Path(experiments.family(name).__file__).parent / "README.md"
    text = readme.read_text()
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    shown = ((caption, (readme.parent / path).resolve()) for caption, path in IMAGE.findall(text))
    figures = tuple((caption, path) for caption, path in shown if path.is_file())
    answer = next((block for block in _prose(text) if block.startswith("**Answer")), "")
    return About(title[1] if title else name, lead(text), answer, figures)


def _prose(text: str) -> list[str]:
    """Paragraphs of a README, each on one line, without links to its other paragraphs."""
    blocks = (" ".join(HERE.sub("", block).split()) for block in re.split(r"\n\s*\n", text))
    return [block for block in blocks if re.match(r"\*\*|[^#|`!<\-\s]", block)]


def lead(text: str) -> str:
    """The first paragraph that starts with **Question or **What, else the first paragraph."""
    prose = _prose(text)
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
    "finding": "Our answers to questions that the paper leaves open",
}


class Paper(NamedTuple):
    source: dict  # an entry of `published.SOURCES`
    families: dict[str, About]
    items: list[Item]
    entries: dict[str, list[dict]]  # recorded runs by family


def section(paper: Paper, anchor: str) -> Html:
    items = paper.items
    figures = {name: _figures(paper, name) for name in paper.families}
    return tag(
        "section",
        tag("h2", paper.source["title"]),
        by_line(paper.source),
        *(_family(paper, name, figures[name][:1]) for name in paper.families),
        bar(items) if items else None,
        *_claims(paper),
        *_other_figures({name: drawn[1:] for name, drawn in figures.items() if drawn[1:]}),
        _runs(paper),
        *_tables(paper),
        id=anchor,
        class_="paper" if items else "other",
    )


def by_line(source: dict) -> Html | None:
    """Authors, venue and a link to the paper."""
    parts = [text for text in (source["authors"], source["venue"]) if text]
    if source["arxiv"]:
        address = f"https://arxiv.org/abs/{source['arxiv']}"
        parts.append(tag("a", f"arXiv {source['arxiv']}", href=address, rel="noreferrer"))
    return tag("p", join(parts, between=" · "), class_="by") if parts else None


def bar(items: list[Item]) -> Html:
    """The number of tested claims by verdict as a bar; below it every kind, counted apart.

    Formulas are compared with themselves and recomputed numbers are not the paper's: the bar has
    neither.
    """
    counts = standings.by_kind(item.standing for item in items)
    papers = sum((n for kind, n in counts.items() if kind not in APART), collections.Counter())
    parts = (
        tag("i", class_=charts.key(word), style=f"flex:{n}", title=f"{n} {word}")
        for word in standings.WORDS
        if (n := papers[word])
    )
    words = [word for word in standings.WORDS if any(n_of[word] for n_of in counts.values())]
    rows = (
        (KINDS[kind], sum(n_of.values()), *(n_of[word] or "" for word in words))
        for kind, n_of in counts.items()
    )
    drawn = tag("div", *parts, class_="bar", role="img", aria_label=standings.tally(papers))
    kinds = table(
        ("kind", "claims", *(word.removesuffix(" at this size") for word in words)),
        rows,
        "How the claims stand, by kind",
        (None, *["num"] * (1 + len(words))),
    )
    return tag("div", drawn if papers else None, kinds, class_="counts")


def _claims(paper: Paper):
    """What a run tests, and apart from it each kind that says less."""
    groups = {"": [item for item in paper.items if item.standing.claim.kind not in APART]}
    for kind in APART:
        groups[kind] = [item for item in paper.items if item.standing.claim.kind == kind]
    for kind, items in groups.items():
        if items:
            title = APART.get(kind, "Claims")
            caption = f"{title}: {paper.source['title']}"
            yield tag("h3", title)
            yield claim_table(items, caption)


def _family(paper: Paper, name: str, figures: list[Html]) -> Html:
    """A family's question and answer, and the figure that shows it."""
    about = paper.families[name]
    return tag(
        "div",
        tag("h3", about.title) if len(paper.families) > 1 else None,
        tag("p", inline(about.lead)) if about.lead else None,
        tag("p", inline(about.answer), class_="answer") if about.answer else None,
        *figures,
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
    of_family = [item.standing for item in paper.items if item.standing.claim.family == name]
    run = [standing for standing in of_family if standing.ours is not None]
    images = [image(path, caption) for caption, path in paper.families[name].figures]
    return [
        *(drawn for drawn in images if drawn),
        *(drawn for entry in paper.entries[name] for drawn in _intervals(entry)),
        *_overviews([standing for standing in run if charts.is_measured(standing)]),
        *_panels([standing for standing in run if standing.claim.published]),
    ]


def _other_figures(figures: dict[str, list[Html]]):
    """Behind the claims: the figures of a paper that do not stand beside its answers."""
    drawn = [one for of_family in figures.values() for one in of_family]
    if drawn:
        yield tag("div", tag("h3", "More figures"), gallery(drawn), class_="about")


def _intervals(entry: dict) -> list[Html]:
    """Numbers that a run states with an interval, "a", "a, low" and "a, high", by measure."""
    measures = {}
    for name, metric in entry["metrics"].items():
        ends = [entry["metrics"].get(f"{name}, {end}") for end in ("low", "high")]
        if all(ends):
            low, high = (end["ours"] for end in ends)
            label, _, measure = name.rpartition(": ")
            if None not in (low, metric["ours"], high):
                measures.setdefault(measure, {})[label or name] = (low, metric["ours"], high)
    drawn = []
    for measure, numbers in measures.items():
        caption = f"{measure} with its interval ({claim_rows.flag(entry)})"
        lines = dict(list(numbers.items())[: charts.MOST])
        drawn.append(figure(charts.intervals(lines, caption), caption))
    return drawn


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
        measure += f" ({KINDS[claim.kind]})" if claim.kind in APART else ""
        group = (claim.row, measure) if label else ("", measure)
        groups.setdefault(group, []).append(charts.Line(label or claim.row, standing))
    for (row, measure), lines in list(groups.items()):
        if len(lines) < FEWEST:
            del groups[row, measure]
            for line in lines:
                group = (line.standing.claim.row, "")
                rest.setdefault(group, []).append(line._replace(label=line.standing.claim.metric))
    drawn = []
    for (row, measure), lines in (*groups.items(), *rest.items()):
        title = f"{measure}, by row"
        if row:
            title = f"{what(lines[0].standing.claim)} ({row}){measure and ': '}{measure}"
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
        run_table(entries, f"Recorded runs: {paper.source['title']}"),
        class_="more",
    )


def run_table(entries: list[dict], caption: str) -> Html:
    """One line per run: row, label, differences, seeds, hardware, date, time, commit and note."""
    heads = ("row", "label", "differs from its row", "seeds", "hardware", "date", "time", "commit")
    rows = []
    for entry in entries:
        seeds = entry["config"].get("train", {}).get("seeds", ())
        wall = entry.get("wall_s")
        cells = (
            tag("code", claim_rows.flag(entry)),
            entry["label"],
            _differences(entry),
            len(seeds) or "-",
            entry.get("devices", "-"),
            entry.get("date") or "-",
            "-" if wall is None else f"{wall:.0f} s",
            str(entry.get("commit") or "-")[:10],
            entry.get("note") or "",
        )
        rows.append(cells)
    kinds = (None, None, "wide", "num", None, None, "num", None, "wide")
    return table((*heads, "note"), rows, caption, kinds)


def _differences(entry: dict) -> Html:
    """Keys in which a run differs from its row, one a line."""
    lines = []
    for name, values in claim_rows.changes(entry).items():
        before, value = (claim_rows.text(one).replace(",", ", ") for one in values)
        lines.append(tag("div", tag("code", name), f": {before} → {value}"))
    return join(lines)


def _tables(paper: Paper):
    """The tables that the families make of their record."""
    for name, entries in paper.entries.items():
        for title, text in report.tables(name, entries):
            yield tag(
                "details",
                tag("summary", f"Table: {title}"),
                markdown(text, title),
                class_="more",
            )
