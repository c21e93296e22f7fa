"""READMEs whose numbers come from the record, so that none of them is out of date.

README.template.md beside a family's README is that README with fields:

    {{orthogonal_gap-paper r2_all .3f}}         a recorded mean: file, metric, format
    {{orthogonal_gap-paper r2_all paper .3f}}   another number of the metric, one of NUMBERS
    {{bumps/B8-paper no penalty: ood mse .4f}}  of another family
    {{study speed step_ms/monolithic .2f}}      a number of a study: file, keys, format
    {{paper vit number_contact/base: validation accuracy .3f}}  a published number: row, metric
    {{range mlp_*-paper r2_id .2f}}             least and greatest mean: files, metrics, format
    {{table jumps}}                             a table or a sentence of the family
    {{table predict/front}}                     the same, in the front page: family, name
    {{standing}}                                how the family's claims stand, by kind
    {{sentences}}                               how many of the paper's sentences have a verdict
    {{not recorded}}                            the family's rows without a recorded run
    {{questions}}                               the open questions and our answers

`published/README.md` has a table of how the claims stand, between two comments.

The family's module `readme`, if there is one, has its tables, {name: (record, studies) -> rows of
cells with the header first, or a text}, pictures, {file name: (record, studies, path) -> path}, and
FILES, {path: (record, studies) -> text} of data that the package reads.
`python -m cgjax.report --readme` writes all of it. The README of a checkout has its template here,
`front.template.md`.
"""

import fnmatch
import functools
import importlib
import importlib.util
import operator
import pathlib
import re
import statistics

from cgjax import config as configs
from cgjax import experiments, published, report
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json, write_atomic
from cgjax.published.claims import CLAIMS, KINDS
from cgjax.published.questions import QUESTIONS
from cgjax.published.verdict import half_width
from cgjax.report import standing as standings

FIGURES = pathlib.Path(__file__).parent / "figures"
TEMPLATE = "README.template.md"
FRONT = pathlib.Path(__file__).parents[2] / "README.md"  # of a checkout
FRONT_TEMPLATE = pathlib.Path(__file__).parent / "front.template.md"
NOTE = f"<!-- Written by `python -m cgjax.report --readme` from {TEMPLATE}: change that. -->\n"
PUBLISHED = pathlib.Path(published.__file__).parent / "README.md"
START, END = (
    "<!-- Written by `python -m cgjax.report --readme`. -->\n",
    "<!-- End of standings. -->",
)
# name -> metric as recorded -> number
NUMBERS = {
    "ours": lambda metric: metric["ours"],
    "%": lambda metric: 100 * metric["ours"],
    "sd": lambda metric: metric["sd"],
    "±": lambda metric: half_width(metric["values"]),  # of the 95 % interval
    "paper": lambda metric: metric["paper"],
    "paper_sd": lambda metric: metric["paper_sd"],
    "recomputed": lambda metric: metric["recomputed"],
    "difference": lambda metric: metric["ours"] - metric["paper"],
    "least": lambda metric: min(metric["values"]),
    "most": lambda metric: max(metric["values"]),
    "median": lambda metric: statistics.median(metric["values"]),
    "n": lambda metric: len(metric["values"]),
}


def folders() -> dict[str, pathlib.Path]:
    """The families that have a template, with their folders."""
    places = {
        name: pathlib.Path(experiments.family(name).__file__).parent
        for name in experiments.FAMILIES
    }
    return {name: folder for name, folder in places.items() if (folder / TEMPLATE).exists()}


def write() -> list[pathlib.Path]:
    """Writes READMEs that changed, and all pictures; returns their paths."""
    if not FRONT.exists():
        raise BadInput(f"READMEs are written in a checkout: there is no {FRONT}")
    filled = {folder / "README.md": fill(name) for name, folder in folders().items()}
    filled |= {PUBLISHED: fill_published(), FRONT: fill_front()}
    filled |= {path: text for name in folders() for path, text in files(name).items()}
    changed = [path for path, text in filled.items() if path.read_text() != text]
    for path in changed:
        write_atomic(path, filled[path])
    drawn = [
        draw(report.entries(name), report.studies(name), FIGURES / file)
        for name in folders()
        for file, draw in getattr(_module(name), "PICTURES", {}).items()
    ]
    return changed + drawn


def fill(family: str) -> str:
    """The text of a family's README."""
    return NOTE + _filled((folders()[family] / TEMPLATE).read_text(), family)


def files(family: str) -> dict[pathlib.Path, str]:
    """The texts of a family's FILES."""
    made = getattr(_module(family), "FILES", {})
    return {p: text(report.entries(family), report.studies(family)) for p, text in made.items()}


def fill_front() -> str:
    """The text of the README of a checkout."""
    return _filled(FRONT_TEMPLATE.read_text(), "")


def _filled(text: str, family: str) -> str:
    return re.sub(r"\{\{(.+?)\}\}", lambda match: field(family, match[1]), text)


def fill_published() -> str:
    """The text of `published/README.md` with the table of how the claims stand by the record."""
    text = PUBLISHED.read_text()
    if START not in text or END not in text:
        raise BadInput(f"'{PUBLISHED}' has no place for the table: {START.strip()} ... {END}")
    return f"{text.split(START)[0]}{START}\n{standing_table()}\n{text[text.index(END) :]}"


def standing_table(family: str = "") -> str:
    """Claims of all families or of one by kind, counted by how they stand: Markdown."""
    claims = [claim for claim in CLAIMS.values() if family in ("", claim.family)]
    counts = standings.by_kind(standings.standings(claims=claims))
    words = [w for w in standings.WORDS if not family or any(n_of[w] for n_of in counts.values())]
    rows = [("kind", "claims", *words)]
    for kind, n_of in counts.items():
        numbers = (str(n_of[word] or "") for word in words)
        rows.append((KINDS[kind], str(sum(n_of.values())), *numbers))
    return markdown(rows) + "\n"


def sentences(family: str) -> str:
    """How many of the paper's sentences about a family have a verdict, in words."""
    claims = [c for c in CLAIMS.values() if (c.family, c.kind) == (family, "sentence")]
    words = [standing.word for standing in standings.standings(claims=claims)]
    n = sum(word in ("match", "no match") for word in words)
    verb = "have" if n > 1 else "has"
    return f"{n or 'none'} of the paper's {len(words)} sentences {verb} a verdict"


def markdown(rows: list) -> str:
    """Rows of cells, the header first, as a table. Columns that hold only numbers align right."""
    header, *lines = rows
    marks = [
        "---:" if all(re.match(r"[-+]?\d|[-–]?$", cell) for cell in column) else "---"
        for column in zip(*lines, strict=True)
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([f"| {' | '.join(header)} |", f"|{'|'.join(marks)}|", *lines])


def field(family: str, words: str) -> str:
    """The text of one field; BadInput where the record does not have it."""
    file, _, rest = words.partition(" ")
    if words == "standing":
        return standing_table(family).rstrip()
    if words == "sentences":
        return sentences(family)
    if words == "questions":
        answers = [
            (question, " ".join(text for text, _ in sentences), row)
            for question, row, sentences in QUESTIONS
        ]
        return _filled(markdown([("question", "answer", "row"), *answers]), "")
    if words == "not recorded":
        rows = [row["name"] for row in configs.load_file(family).describe_rows()]
        known = {entry["row"] for entry in report.entries(family)}
        return ", ".join(f"`{row}`" for row in rows if row not in known)
    if file == "table":
        if not family:
            family, _, rest = rest.partition("/")
        tables = getattr(_module(family), "TABLES", {})
        if rest not in tables:
            raise BadInput(f"no table '{rest}' of {family}: there are {', '.join(tables)}")
        shown = tables[rest](report.entries(family), report.studies(family))
        return shown if isinstance(shown, str) else markdown(shown)
    metric, _, form = rest.rpartition(" ")
    if file == "range":
        name, _, pattern = metric.partition(" ")
        means = [
            recorded["ours"]
            for path in (report.RECORD / family).glob(f"{name}.json")
            for key, recorded in read_json(path)["metrics"].items()
            if fnmatch.fnmatchcase(key, pattern)
        ]
        if not means:
            raise BadInput(f"the record of {family} has no '{words}': files, metrics, format")
        return f"{min(means):{form}} to {max(means):{form}}"
    if file in ("study", "paper"):
        name, _, path = metric.partition(" ")
        known = report.studies(family) if file == "study" else published.PUBLISHED[family]
        keys = (name, *path.split("/")) if file == "study" else (name, path, "mean")
        try:
            return format(functools.reduce(operator.getitem, keys, known), form)
        except LookupError as error:
            raise BadInput(f"'{words}' of {family}: there is no {error}") from None
    folder = report.RECORD if "/" in file else report.RECORD / family
    recorded = read_json(folder / f"{file}.json")["metrics"]
    name, _, which = metric.rpartition(" ")
    if metric in recorded:
        name, which = metric, "ours"
    if name not in recorded or which not in NUMBERS:
        raise BadInput(f"the record of {family} has no '{words}': file, metric, number, format")
    return format(NUMBERS[which](recorded[name]), form)


def _module(family: str):
    """The module `readme` of a family; None if it has none."""
    name = f"{experiments.family(family).__package__}.readme"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
