"""The page: the claims of every paper beside our results, in one file that loads nothing else.

Numbers come from the record, from the user's runs and from `published`. Figures are drawn from
these numbers, or are images of a family's README. The same input gives the same bytes.
"""

import base64
import collections
import hashlib
import pathlib

from cgjax import report
from cgjax.core.workdir import disk_errors, write_atomic
from cgjax.published import SOURCES
from cgjax.published.claims import CLAIMS, FORMS, KINDS
from cgjax.report import charts, section
from cgjax.report import runs as own_runs
from cgjax.report import standing as standings
from cgjax.report.claim_rows import FORM_WORDS, Item, chip
from cgjax.report.markup import Html, join, tag
from cgjax.report.section import Paper, about

HERE = pathlib.Path(__file__).parent
MOST_BYTES = 8 << 20  # of all figures of the user's runs
MOST_METRICS = 60  # of one of these runs
TITLE = "When do networks compose? The papers' claims and our results"


def write(out, record: pathlib.Path = report.RECORD, runs=None) -> pathlib.Path:
    """Writes `out`/index.html; runs: a folder of workdirs to show beside the record."""
    users = own_runs.read(runs) if runs else own_runs.Runs([], [])
    text = document(gather(record, users.entries), users)
    path = pathlib.Path(out) / "index.html"
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
    return path


def gather(record: pathlib.Path = report.RECORD, runs=(), claims=None) -> list[Paper]:
    """The papers with their claims, by the record and by `runs`; then families without a paper."""
    claims = list(CLAIMS.values()) if claims is None else claims
    scales = standings.Scales()
    items = {}
    for standing in standings.standings(record, claims):
        claim = standing.claim
        of_family = [run for run in runs if run["family"] == claim.family]
        yours = standings.standing(claim, of_family, scales) if of_family else None
        item = Item(standing, yours if yours and yours.word != "not run" else None)
        items.setdefault(claim.family, []).append(item)
    recorded = report.families(record)
    papers = {}
    for name in [*SOURCES, *(name for name in recorded if name not in SOURCES)]:
        if name not in items and name not in recorded:
            continue
        family = about(name)
        source = SOURCES.get(name, {"title": family.title, "authors": "", "venue": "", "arxiv": ""})
        paper = papers.setdefault(source["arxiv"] or source["title"], Paper(source, {}, [], {}))
        paper.families[name] = family
        paper.items.extend(items.get(name, ()))
        paper.entries[name] = report.entries(name, record)
    for paper in papers.values():  # claims that were not run come last
        paper.items.sort(key=lambda item: item.found.word == "not run" and not item.yours)
    return [paper for paper in papers.values() if _is_run(paper)]


def _is_run(paper: Paper) -> bool:
    """Whether any run belongs to the paper: a user's record may cover few papers."""
    return any(paper.entries.values()) or any(item.yours for item in paper.items)


def document(papers: list[Paper], runs: own_runs.Runs) -> str:
    """The page as text, with styles, script and figures in it."""
    style, script = ((HERE / f"page.{kind}").read_text() for kind in ("css", "js"))
    anchors = {f"paper-{n + 1}": paper for n, paper in enumerate(papers)}
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", "cgjax: claims and results"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        _top(papers, anchors),
        _controls(papers, bool(runs.entries)),
        tag(
            "main",
            tag("p", "No claim matches the search and the filters.", id="nothing", hidden=True),
            _users_runs(runs),
            *(section.section(paper, anchor) for anchor, paper in anchors.items()),
        ),
        _foot(),
        tag("dialog", tag("button", "close", type="button", id="close"), tag("div", id="large")),
        tag("script", Html(script)),
    )
    text = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    # File names and texts in results may contain characters that UTF-8 cannot encode.
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _policy(script: str) -> str:
    """Content security policy: forbids every request, and every script except the page's own."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    styles = "img-src data:; style-src 'unsafe-inline'"
    return f"default-src 'none'; {styles}; script-src 'sha256-{digest}'"


def _top(papers: list[Paper], anchors: dict) -> Html:
    every = [item for paper in papers for item in paper.items]
    entries = [entry for paper in papers for runs in paper.entries.values() for entry in runs]
    dates = sorted(entry["date"] for entry in entries if entry.get("date"))
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "without a date"
    return tag(
        "header",
        tag("button", "dark", type="button", id="theme", aria_label="Dark or light theme"),
        tag("p", "cgjax", class_="name"),
        tag("h1", TITLE),
        tag(
            "p",
            "This page lists the claims of the papers that a run can test, with the verdict on "
            "each. Numbers marked recomputed are not the papers': other code computed them with "
            "the papers' settings. A claim is open if no run of the published scale decides it. "
            f"Recorded runs: {len(entries)}, {when}; their hours add up the wall times of runs, "
            "many of which shared a device.",
            class_="lede",
        ),
        _paper_table(anchors),
        section.bar(every) if every else None,
        tag(
            "p",
            "In the figures a grey bar is the published interval. A point with a line is our mean "
            "with its interval, in the colour of the verdict. A point without a line has no "
            "interval: it has only one seed, or it is deterministic. The end of the page explains "
            "the verdicts.",
            class_="note",
        ),
    )


def _paper_table(anchors: dict) -> Html:
    """One line per paper: how many of its claims are decided, and the hours of its runs."""
    heads = ("paper", "claims", "decided", "match", "no match", "open", "hours of the runs")
    rows, total = [], collections.Counter()
    for anchor, paper in anchors.items():
        name = [
            tag("a", paper.source["title"], href=f"#{anchor}"),
            " ",
            tag("span", paper.source["venue"], class_="venue"),
        ]
        words = collections.Counter(item.found.word for item in paper.items)
        hours = _hours([entry for runs in paper.entries.values() for entry in runs])
        rows.append((join(name), words, hours))
        total += words + hours
    if len(rows) > 1:
        hours = {name: n for name, n in total.items() if name not in standings.WORDS}
        rows.append(("all", total, hours))
    body = (
        tag("tr", *(tag("td", cell) for cell in (name, *_counts(words), _in_hours(hours))))
        for name, words, hours in rows
    )
    head = tag("thead", tag("tr", *(tag("th", name) for name in heads)))
    return tag("div", tag("table", head, tag("tbody", *body)), class_="scroll papers")


def _counts(words: collections.Counter) -> list:
    """Claims, decided, match, no match, open; dashes without claims."""
    n = sum(words[word] for word in standings.WORDS)
    match, no_match = words["match"], words["no match"]
    counts = (n, match + no_match, match, no_match, n - match - no_match)
    return list(counts) if n else ["-"] * len(counts)


def _hours(entries: list[dict]) -> collections.Counter:
    """{kind of device: hours} of recorded runs."""
    hours = collections.Counter()
    for entry in entries:
        hours[standings.device_kind(entry.get("devices") or "?")] += (
            entry.get("wall_s") or 0
        ) / 3600
    return hours


def _in_hours(hours: dict) -> str:
    return ", ".join(f"{n:.1f} {name}" for name, n in sorted(hours.items()) if n >= 0.05) or "-"


def _controls(papers: list[Paper], has_runs: bool) -> Html:
    verdicts = (
        tag(
            "button",
            verdict.removesuffix(" at this size"),
            type="button",
            aria_pressed="false",
            class_=f"chip {charts.key(verdict)}",
            data_word=verdict,
        )
        for verdict in standings.WORDS
    )
    families = [name for paper in papers for name in paper.families]
    with_runs = tag("label", tag("input", type="checkbox", id="own"), " only claims with your runs")
    return tag(
        "form",
        tag(
            "input",
            type="search",
            id="search",
            placeholder="Search claims, metrics, places, runs",
            aria_label="Search",
            autocomplete="off",
        ),
        _select("family", "every family", {name: name for name in families}),
        _select("kind", "every kind", KINDS),
        _select("form", "every form", {form: FORM_WORDS[form] for form in FORMS}),
        tag("div", *verdicts, class_="words", role="group", aria_label="Verdicts"),
        with_runs if has_runs else None,
        tag("output", id="count", aria_live="polite"),
        id="controls",
        role="search",
    )


def _select(name: str, every: str, choices: dict) -> Html:
    options = (tag("option", label, value=value) for value, label in choices.items())
    return tag("select", tag("option", every, value=""), *options, id=name, aria_label=name)


MEANINGS = {
    "match": "the whole 95 % interval of the difference is within the tolerance",
    "no match": "the whole interval is beyond the tolerance",
    "underpowered": "the interval contains both; the details say how many seeds would decide",
    "not finite": "a seed that counts has no finite number",
    "no verdict at this size": "the claim was run, but not at the published scale",
    "not run": "no run has the numbers that the claim compares",
}


def _foot() -> Html:
    terms = (
        join([tag("dt", chip(verdict)), tag("dd", MEANINGS[verdict])])
        for verdict in standings.WORDS
    )
    return tag(
        "footer",
        tag("h2", "The rule"),
        tag("dl", *terms, class_="rule"),
        tag(
            "p",
            "The tolerance is 5 % of the number's scale, or twice the error with which it was "
            "read, rounded or sampled if that is larger. The scale is the number itself; of an R2 "
            "it is 1 - R2, of a difference of accuracies its range; errors of single runs, shares "
            "of kept weights and p-values are compared by logarithms. ± is half of a 95 % "
            "interval over seeds, ours and the paper's (Welch). A computation in which nothing is "
            "drawn needs no seeds. An ordering is tested two-sided at 5 %; p is corrected for the "
            "comparisons on the same row (Holm). A claim of no difference (≈) compares two of our "
            "numbers by the rule for published ones. Numbers are judged one by one: among so many "
            "claims, some verdicts are wrong by chance. "
            "The small drawings show the difference, each on its own scale: the shade is the "
            "tolerance, the vertical line is zero difference.",
        ),
    )


# --- the user's runs ------------------------------------------------------------------------------


def _users_runs(runs: own_runs.Runs) -> Html | None:
    if not runs.entries and not runs.unreadable:
        return None
    parts = []
    if runs.entries:
        parts += [section.run_table(runs.entries), *_run_figures(runs.entries)]
        parts += [_run_metrics(entry) for entry in runs.entries]
    if runs.unreadable:
        lines = (tag("li", line) for line in runs.unreadable)
        parts.append(tag("div", tag("h3", "Unreadable"), tag("ul", *lines), class_="unreadable"))
    return tag("section", tag("h2", "Your runs"), *parts, id="yours", class_="own")


def _run_figures(entries: list[dict]):
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
        yield tag(
            "p",
            f"Figures not shown (too large, or not png files): {', '.join(left)}",
            class_="note",
        )


def _run_metrics(entry: dict) -> Html:
    """The first MOST_METRICS metrics of a run, with and without a published number."""
    rows = []
    for name, metric in list(entry["metrics"].items())[:MOST_METRICS]:
        cells = (
            name,
            standings.number(metric["ours"]),
            "-" if metric["sd"] is None else f"{metric['sd']:.2g}",
            len(metric["values"]),
            standings.number(metric["paper"]),
        )
        rows.append(tag("tr", *(tag("td", cell) for cell in cells)))
    more = len(entry["metrics"]) - len(rows)
    heads = (tag("th", name) for name in ("metric", "ours", "sd", "seeds", "paper"))
    return tag(
        "details",
        tag("summary", f"Numbers of {entry['family']}:{entry['row']}, {entry['size']}"),
        tag(
            "div",
            tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows)),
            class_="scroll",
        ),
        tag("p", f"{more} more are in its results.json", class_="note") if more > 0 else None,
        class_="more",
    )
