"""The page: every paper's claims, theirs beside ours, in one file that asks nobody for anything.

Numbers come from the record, from runs of one's own, and from `published`; figures are drawn from
these, or are images that a family's README shows. The same input gives the same bytes.
"""

import base64
import hashlib
import pathlib

from cgjax import report
from cgjax.core.workdir import disk_errors, write_atomic
from cgjax.published import SOURCES
from cgjax.published.claims import CLAIMS, KINDS
from cgjax.report import charts, section, standing
from cgjax.report import runs as own_runs
from cgjax.report.claim_rows import KIND_WORDS, Item, chip
from cgjax.report.markup import Html, join, tag
from cgjax.report.section import Paper, about

HERE = pathlib.Path(__file__).parent
MOST_BYTES = 8 << 20  # of figures from runs of one's own
MOST_METRICS = 60  # of such a run
TITLE = "When do networks compose? What the papers claim, and what came out"


def write(out, record: pathlib.Path = report.RECORD, runs=None) -> pathlib.Path:
    """Writes `out`/index.html; runs: a folder of workdirs to show beside the record."""
    found = own_runs.read(runs) if runs else own_runs.Runs([], [])
    text = document(gather(record, found.entries), found)
    path = pathlib.Path(out) / "index.html"
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
    return path


def gather(record: pathlib.Path = report.RECORD, runs=(), claims=None) -> list[Paper]:
    """Every paper with its claims by the record and by one's own runs; then families without."""
    claims = list(CLAIMS.values()) if claims is None else claims
    scales = standing.Scales()
    items = {}
    for found in standing.standings(record, claims):
        own = [run for run in runs if run["family"] == found.claim.family]
        yours = standing.standing(found.claim, own, scales) if own else None
        item = Item(found, yours if yours and yours.word != "not run" else None)
        items.setdefault(found.claim.family, []).append(item)
    recorded = report.families(record)
    papers = {}
    for name in [*SOURCES, *(name for name in recorded if name not in SOURCES)]:
        if name not in items and name not in recorded:
            continue
        said = about(name)
        source = SOURCES.get(name, {"title": said.title, "authors": "", "venue": "", "arxiv": ""})
        paper = papers.setdefault(source["arxiv"] or source["title"], Paper(source, {}, [], {}))
        paper.families[name] = said
        paper.items.extend(items.get(name, ()))
        paper.entries[name] = report.entries(name, record)
    for paper in papers.values():  # what nobody ran comes last
        paper.items.sort(key=lambda item: item.found.word == "not run" and not item.yours)
    return [paper for paper in papers.values() if _is_run(paper)]


def _is_run(paper: Paper) -> bool:
    """A record of one's own may have nothing to do with most papers."""
    return any(paper.entries.values()) or any(item.yours for item in paper.items)


def document(papers: list[Paper], runs: own_runs.Runs) -> str:
    """The page as text: styles, scripts and figures within."""
    style, script = ((HERE / f"page.{kind}").read_text() for kind in ("css", "js"))
    anchors = {f"paper-{n + 1}": paper for n, paper in enumerate(papers)}
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "cgjax: claims and what came out"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        _top(papers, anchors),
        _controls(papers, bool(runs.entries)),
        tag(
            "main",
            tag("p", "No claim has all of that.", id="nothing", hidden=True),
            _own(runs),
            *(section.section(paper, anchor) for anchor, paper in anchors.items()),
        ),
        _foot(),
        tag("dialog", tag("button", "close", type="button", id="close"), tag("div", id="large")),
        tag("script", Html(script)),
    )
    text = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    # Names of files, and texts in results, need not be what a file can hold.
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _policy(script: str) -> str:
    """What a browser shall refuse: every request, and every script but the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    styles = "img-src data:; style-src 'unsafe-inline'"
    return f"default-src 'none'; {styles}; script-src 'sha256-{digest}'"


def _top(papers: list[Paper], anchors: dict) -> Html:
    every = [item for paper in papers for item in paper.items]
    entries = [entry for paper in papers for runs in paper.entries.values() for entry in runs]
    dates = sorted(entry["date"] for entry in entries if entry.get("date"))
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "without a date"
    links = (
        tag("li", tag("a", paper.source["title"], href=f"#{anchor}"), " ",
            tag("span", paper.source["venue"], class_="venue"))
        for anchor, paper in anchors.items()
    )  # fmt: skip
    return tag(
        "header",
        tag("button", "dark", type="button", id="theme", aria_label="Dark or light"),
        tag("p", "cgjax", class_="name"),
        tag("h1", TITLE),
        tag(
            "p",
            "Claims of the papers that a run can be held against, and numbers that others computed "
            "anew with the papers' settings (marked recomputed): how each stands. Recorded runs: "
            f"{len(entries)}, {when}.",
            class_="lede",
        ),
        section.bar(every) if every else None,
        tag(
            "p",
            "In figures a grey bar is the published interval and a point is ours, in the colour of "
            "its verdict; a point without a line has no interval of ours, being one seed, or "
            "nothing that was drawn. What verdicts mean is told at the end.",
            class_="note",
        ),
        tag("ol", *links, class_="papers"),
    )


def _controls(papers: list[Paper], has_runs: bool) -> Html:
    verdicts = (
        tag("button", word.removesuffix(" at this size"), type="button", aria_pressed="false",
            class_=f"chip {charts.key(word)}", data_word=word)
        for word in standing.WORDS
    )  # fmt: skip
    families = [name for paper in papers for name in paper.families]
    own = tag("label", tag("input", type="checkbox", id="own"), " with a run of yours")
    return tag(
        "form",
        tag("input", type="search", id="search", placeholder="Search claims, metrics, places, runs",
            aria_label="Search", autocomplete="off"),
        _select("family", "every family", {name: name for name in families}),
        _select("kind", "every kind", {kind: KIND_WORDS[kind] for kind in KINDS}),
        _select("source", "every source",
                {name: name for name in ("printed", "read", "recomputed", "stated")}),
        tag("div", *verdicts, class_="words", role="group", aria_label="Verdicts"),
        own if has_runs else None,
        tag("output", id="count", aria_live="polite"),
        id="controls",
        role="search",
    )  # fmt: skip


def _select(name: str, every: str, choices: dict) -> Html:
    options = (tag("option", words, value=value) for value, words in choices.items())
    return tag("select", tag("option", every, value=""), *options, id=name, aria_label=name)


MEANINGS = {
    "match": "the difference and its half-width are both within the tolerance",
    "no match": "the difference is beyond tolerance and half-width together",
    "underpowered": "everything between; one seed always",
    "no verdict at this size": "it was run, but not at the published scale",
    "not run": "no run has the numbers",
}


def _foot() -> Html:
    terms = (join([tag("dt", chip(word)), tag("dd", MEANINGS[word])]) for word in standing.WORDS)
    return tag(
        "footer",
        tag("h2", "The rule"),
        tag("dl", *terms, class_="rule"),
        tag(
            "p",
            "The tolerance is max(0.03, 5 %) unless a number states its own. An ordering is a "
            "match where the difference exceeds its half-width; runs that test their orderings "
            "themselves keep their own verdict. Where no difference is claimed (≈), two numbers of "
            "ours are held to the same rule. ± is half of a 95 % interval: of ours over "
            "seeds, of the paper's over its seeds, or "
            "twice its error of reading or rounding; a spread that is not told counts as none. In "
            "a difference both are together. Each claim is judged alone: of so many, some are "
            "misjudged by chance. The small drawings show the difference: the shade is the "
            "tolerance, the line no difference, each on its own scale.",
        ),
    )


# --- runs of one's own ----------------------------------------------------------------------------


def _own(runs: own_runs.Runs) -> Html | None:
    if not runs.entries and not runs.unreadable:
        return None
    parts = []
    if runs.entries:
        parts += [section.run_table(runs.entries), *_own_figures(runs.entries)]
        parts += [_own_metrics(entry) for entry in runs.entries]
    if runs.unreadable:
        lines = (tag("li", line) for line in runs.unreadable)
        parts.append(tag("div", tag("h3", "Unreadable"), tag("ul", *lines), class_="unreadable"))
    return tag("section", tag("h2", "Your runs"), *parts, id="yours", class_="own")


def _own_figures(entries: list[dict]):
    shown, left, room = [], [], MOST_BYTES
    for entry in entries:
        for path in sorted((entry["workdir"] / "figures").glob("*.png")):
            caption = f"{entry['family']}:{entry['row']}, {path.stem}"
            size = path.stat().st_size if path.is_file() else 0
            drawn = section.image(path, caption) if 0 < size <= room else None
            room -= size if drawn else 0
            (shown if drawn else left).append(drawn or str(path))
    yield section.gallery(shown)
    if left:
        yield tag("p", f"Not shown: {', '.join(left)}", class_="note")


def _own_metrics(entry: dict) -> Html:
    """All numbers of a run, those without a paper's beside them too."""
    rows = [
        tag("tr", *(tag("td", cell) for cell in (
            name,
            standing.number(metric["ours"]),
            "-" if metric["sd"] is None else f"{metric['sd']:.2g}",
            len(metric["values"]),
            standing.number(metric["paper"]),
        )))
        for name, metric in list(entry["metrics"].items())[:MOST_METRICS]
    ]  # fmt: skip
    more = len(entry["metrics"]) - len(rows)
    heads = (tag("th", name) for name in ("metric", "ours", "sd", "seeds", "paper"))
    return tag(
        "details",
        tag("summary", f"Numbers of {entry['family']}:{entry['row']}, {entry['size']}"),
        tag("div", tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows)),
            class_="scroll"),
        tag("p", f"and {more} more in its results.json", class_="note") if more > 0 else None,
        class_="more",
    )  # fmt: skip
