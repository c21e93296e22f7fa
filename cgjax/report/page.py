"""The page: the claims of every paper beside our results, in one file that loads nothing else.

Numbers come from the record, from the user's runs and from `published`. Figures are drawn from
these numbers, or are images of a family's README. The same input gives the same bytes.
"""

import base64
import collections
import datetime
import hashlib
import json
import pathlib
import urllib.parse
from typing import NamedTuple

from cgjax import config as configs
from cgjax import report
from cgjax.config.declare import leaves
from cgjax.config.overrides import FIXED
from cgjax.core.errors import BadInput
from cgjax.core.workdir import disk_errors, folders, write_atomic
from cgjax.published import PUBLISHED, SOURCES
from cgjax.published import verdict as verdicts
from cgjax.published.claims import CLAIMS, FORMS, KINDS
from cgjax.report import charts, claim_rows, section
from cgjax.report import standing as standings
from cgjax.report.claim_rows import FORM_WORDS, Item, chip
from cgjax.report.markup import Html, join, table, tag
from cgjax.report.section import Paper, about

# --- finding runs ---------------------------------------------------------------------------------
# Reads the user's finished runs for the page; runs that cannot be read are listed.


class Runs(NamedTuple):
    entries: list[dict]  # as `report.read_run` makes them, and their `workdir`
    unreadable: list[str]  # one line per run that cannot be shown


def read(folder) -> Runs:
    """Every finished run in a folder of workdirs, or in a workdir itself."""
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise BadInput(f"'{folder}' is not a folder: name a folder of workdirs, such as runs")
    runs = Runs([], [])
    for path in sorted(place / "results.json" for place in folders(folder)):
        if not path.exists():
            continue
        date = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
        places = {"date": date, "note": f"in {path.parent}", "workdir": path.parent}
        try:
            runs.entries.append(report.read_run(path.parent) | places)
        except BadInput as error:
            runs.unreadable.append(str(error))
    if not runs.entries and not runs.unreadable:
        raise BadInput(f"'{folder}' holds no finished run: it contains no results.json")
    return runs


HERE = pathlib.Path(__file__).parent
TITLE = "When do networks compose? The papers' claims and our results"
DESCRIPTION = "Claims of five papers on compositional generalisation, each beside our results"
# A disc behind a square.
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<circle cx="10" cy="6" r="5" fill="#c8680a"/>'
    '<rect x="1" y="6" width="9" height="9" rx="1" fill="#0b5c94"/></svg>'
)


def write(out, record: pathlib.Path = report.RECORD, runs=None) -> pathlib.Path:
    """Writes `out`/index.html; runs: a folder of workdirs to show beside the record.

    The page links to an API reference, `out`/api/index.html, and to notebooks,
    `out`/notebooks/*.html, if they are there.
    """
    users = read(runs) if runs else Runs([], [])
    text = document(gather(record, users.entries), users, beside(pathlib.Path(out)))
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
        paper.items.sort(key=lambda item: item.standing.word == "not run" and not item.yours)
    return [paper for paper in papers.values() if _is_run(paper)]


def _is_run(paper: Paper) -> bool:
    """Whether any run belongs to the paper: a user's record may cover few papers."""
    return any(paper.entries.values()) or any(item.yours for item in paper.items)


def beside(out: pathlib.Path) -> dict[str, str]:
    """{name: address} of the API reference and the notebooks in the folder of the page."""
    api = {"API reference": "api/index.html"} if (out / "api" / "index.html").is_file() else {}
    notebooks = sorted((out / "notebooks").glob("*.html"))
    names = {path: path.stem.replace("_", " ") for path in notebooks}
    addresses = {path: f"notebooks/{urllib.parse.quote(path.name)}" for path in notebooks}
    return api | {f"Notebook: {names[path]}": addresses[path] for path in notebooks}


def document(papers: list[Paper], runs: Runs, links: dict | None = None) -> str:
    """The page as text, with styles, script and figures in it; links: {name: address}."""
    style, script = ((HERE / f"page.{kind}").read_text() for kind in ("css", "js"))
    anchors = {f"paper-{next(iter(paper.families))}": paper for paper in papers}
    icon = base64.b64encode(ICON.encode()).decode()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="description", content=DESCRIPTION),
        tag("title", "cgjax: claims and results"),
        tag("link", rel="icon", href=f"data:image/svg+xml;base64,{icon}"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to the claims", href="#controls", class_="skip"),
        _top(papers, anchors, _nav(anchors, bool(runs.entries or runs.unreadable), links or {})),
        _controls(papers, bool(runs.entries)),
        tag(
            "main",
            tag("p", "No claim matches the search and the filters.", id="nothing", hidden=True),
            runs_section(runs),
            *(section.section(paper, anchor) for anchor, paper in anchors.items()),
        ),
        _foot(),
        tag(
            "dialog",
            tag("button", "close", type="button", id="close"),
            tag("p", id="large-caption"),
            tag("div", id="large"),
            aria_labelledby="large-caption",
        ),
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


def _nav(anchors: dict, has_runs: bool, links: dict) -> Html:
    """Links to the sections, and to what lies beside the page."""
    places = {"#yours": "Your runs"} if has_runs else {}
    for anchor, paper in anchors.items():
        places[f"#{anchor}"] = next(iter(paper.families.values())).title.partition(":")[0]
    places["#rule"] = "The rule"
    places |= {address: name for name, address in links.items()}
    items = (tag("li", tag("a", name, href=address)) for address, name in places.items())
    return tag("nav", tag("ul", *items), aria_label="Sections")


def _top(papers: list[Paper], anchors: dict, nav: Html) -> Html:
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
            "For each paper: the answer, the figure that shows it, and every claim that a run can "
            "test, with the verdict.",
            class_="lede",
        ),
        nav,
        _paper_table(anchors),
        section.bar(every) if every else None,
        tag(
            "p",
            "A claim is open if no run of the published scale decides it. Recomputed numbers are "
            "not the papers': other code computed them with the papers' settings. Formulas are the "
            "same here and there; the coloured bars count neither. "
            f"Recorded runs: {len(entries)}, {when}; their hours add up wall times, and many "
            "runs shared a device. In the figures a grey bar is the published "
            "interval; a point with a line is our mean with its interval, in the colour of the "
            "verdict; a point without a line has one seed, or is deterministic.",
            class_="note",
        ),
    )


def _paper_table(anchors: dict) -> Html:
    """One line per paper: how many of its claims are decided, and the hours of its runs."""
    heads = (
        "paper", "claims", "match", "no match", "open", "formulas, recomputed, our findings: match",
        "hours of the runs",
    )  # fmt: skip
    rows, total = [], [collections.Counter() for _ in range(3)]
    for anchor, paper in anchors.items():
        name = [
            tag("a", paper.source["title"], href=f"#{anchor}"),
            " ",
            tag("span", paper.source["venue"], class_="venue"),
        ]
        words, apart = (
            collections.Counter(
                item.standing.word
                for item in paper.items
                if (item.standing.claim.kind in section.APART) == is_apart
            )
            for is_apart in (False, True)
        )
        counts = (words, apart, _hours([e for runs in paper.entries.values() for e in runs]))
        rows.append((join(name), *counts))
        total = [before + more for before, more in zip(total, counts)]
    if len(rows) > 1:
        rows.append(("all", *total))
    body = (
        (name, *_counts(words), _of(apart), _in_hours(hours)) for name, words, apart, hours in rows
    )
    kinds = ("wide", *["num"] * 5, "wide")
    return tag("div", table(heads, body, "Claims by paper", kinds), class_="papers")


def _counts(words: collections.Counter) -> list:
    """Claims, match, no match, open; dashes without claims."""
    n, match, no_match = words.total(), words["match"], words["no match"]
    return [n, match, no_match, n - match - no_match] if n else ["-"] * 4


def _of(words: collections.Counter) -> str:
    return f"{words['match']} of {words.total()}" if words else "-"


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
        tag("h2", "The rule", id="rule"),
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


# --- runs of a user -------------------------------------------------------------------------------
# The section of the user's runs: sweeps with their values and curves, runs, figures, numbers.


MOST_BYTES = 8 << 20  # of all figures of the user's runs
MOST_METRICS = 60  # of one of these runs
MOST_CURVES = 12  # of one sweep
IN_TABLE = 4  # metrics in the table of a sweep


def runs_section(runs: Runs) -> Html | None:
    if not runs.entries and not runs.unreadable:
        return None
    parts = [_sweep(*sweep) for sweep in sweeps(runs.entries)]
    if runs.entries:
        parts += [section.run_table(runs.entries, "Your runs"), *_run_figures(runs.entries)]
        parts += [_run_metrics(entry) for entry in runs.entries]
    if runs.unreadable:
        lines = (tag("li", line) for line in runs.unreadable)
        parts.append(tag("div", tag("h3", "Unreadable"), tag("ul", *lines), class_="unreadable"))
    return tag("section", tag("h2", "Your runs"), *parts, id="yours", class_="own")


# --- sweeps ---------------------------------------------------------------------------------------


def sweeps(entries: list[dict]) -> list[tuple[list[str], list[dict], list[dict]]]:
    """(swept keys, runs, their values of these keys) of each row and size with several configs.

    Seeds are replicas of a run and not swept.
    """
    groups = {}
    for entry in entries:
        groups.setdefault(claim_rows.flag(entry), []).append(entry)
    sweeps = []
    for runs in groups.values():
        values = [dict(leaves(configs.from_json(json.dumps(run["config"])))) for run in runs]
        keys = dict.fromkeys(name for of_run in values for name in of_run)
        swept = [
            name
            for name in keys
            if name not in ("train.seeds", *FIXED)
            and any(of_run.get(name) != values[0].get(name) for of_run in values)
        ]
        if swept:
            sweeps.append((swept, runs, values))
    return sweeps


def _sweep(swept: list[str], runs: list[dict], values: list[dict]) -> Html:
    """A table of the swept values with the first metrics, and curves of these."""
    points = sorted(zip(runs, values), key=lambda point: [_order(point[1].get(n)) for n in swept])
    metrics = _metrics(runs)
    rows = [
        [
            *(_text(of_run.get(name)) for name in swept),
            *(_number(run["metrics"].get(name)) for name in metrics[:IN_TABLE]),
        ]
        for run, of_run in points
    ]
    title = f"Sweep of {claim_rows.flag(runs[0])} over {', '.join(swept)}"
    heads = (*(tag("code", name) for name in swept), *metrics[:IN_TABLE])
    figures = [
        section.figure(drawn, f"{name} by {by}")
        for name in metrics[:MOST_CURVES]
        for drawn, by in [_curve(name, swept, points)]
    ]
    caption = f"{len(rows)} runs: swept values, then means ± half of a 95 % interval over seeds"
    return tag("div", tag("h3", title), table(heads, rows, caption), section.gallery(figures))


def _metrics(runs: list[dict]) -> list[str]:
    """Metrics that all runs have and that differ between runs; published numbers come first."""
    names = [name for name in runs[0]["metrics"] if all(name in run["metrics"] for run in runs)]
    varied = []
    for name in names:
        numbers = [run["metrics"][name]["ours"] for run in runs]
        if None not in numbers and len(set(numbers)) > 1:
            varied.append(name)
    return sorted(varied, key=lambda name: runs[0]["metrics"][name]["paper"] is None)


def _curve(name: str, swept: list[str], points: list[tuple]) -> tuple[Html, str]:
    """A metric against the swept number with the most values; without a number, by label."""
    numeric = [key for key in swept if all(_is_number(of_run.get(key)) for _, of_run in points)]
    label = f"{name} by {', '.join(swept)}"
    if not numeric:
        spans = {
            _label(swept, of_run): _span(run["metrics"][name])
            for run, of_run in points[: charts.MOST]
        }
        return charts.intervals(spans, label), ", ".join(swept)
    by = max(numeric, key=lambda key: len({of_run[key] for _, of_run in points}))
    others, series = [key for key in swept if key != by], {}
    for run, of_run in sorted(points, key=lambda point: point[1][by]):
        point = (of_run[by], *_span(run["metrics"][name]))
        series.setdefault(_label(others, of_run), []).append(point)
    return charts.curves(series, by, label), by


def _label(keys: list[str], of_run: dict) -> str:
    return ", ".join(f"{key}={_text(of_run.get(key))}" for key in keys)


def _span(metric: dict) -> tuple:
    """(low, mean, high) of a metric, by its values over seeds."""
    values = [value for value in metric["values"] if value is not None]
    width = verdicts.half_width(values) if len(values) > 1 else 0.0
    return metric["ours"] - width, metric["ours"], metric["ours"] + width


def _number(metric: dict | None) -> str:
    if metric is None or metric["ours"] is None:
        return "-"
    low, mean, _ = _span(metric)
    return standings.number(mean) + (f" ± {mean - low:.2g}" if mean > low else "")


def _text(value) -> str:
    return "-" if value is None else claim_rows.text(value)


def _is_number(value) -> bool:
    """Whether an axis can show a value: not a truth value, not infinite."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < report.LARGEST


def _order(value) -> tuple:
    """Sort key: numbers by size, then other values as text."""
    return (0, value, "") if _is_number(value) else (1, 0, str(value))


# --- figures and numbers --------------------------------------------------------------------------


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
    known = PUBLISHED.get(entry["family"], {}).get(entry["row"], {})
    for name, metric in list(entry["metrics"].items())[:MOST_METRICS]:
        is_formula = known.get(name, {}).get("kind") == "formula"
        cells = (
            name,
            standings.number(metric["ours"]),
            "-" if metric["sd"] is None else f"{metric['sd']:.2g}",
            len(metric["values"]),
            standings.number(None if is_formula else metric["paper"]),
            standings.number(metric["paper"] if is_formula else metric.get("recomputed")),
        )
        rows.append(cells)
    more = len(entry["metrics"]) - len(rows)
    title = f"Numbers of {claim_rows.flag(entry)}"
    verb = "is" if more == 1 else "are"
    heads = ("metric", "ours", "sd", "seeds", "published", "formula or recomputed")
    return tag(
        "details",
        tag("summary", title),
        table(heads, rows, title, (None, *["num"] * 5)),
        tag("p", f"{more} more {verb} in its results.json", class_="note") if more > 0 else None,
        class_="more",
    )
