"""READMEs whose numbers come from the record, so that none of them is out of date.

README.template.md beside a family's README is that README with fields:

    {{orthogonal_gap-paper r2_all .3f}}         a recorded mean: file, metric, format
    {{orthogonal_gap-paper r2_all paper .3f}}   another number of the metric, one of NUMBERS
    {{bumps/B8-paper no penalty: ood mse .4f}}  of another family
    {{table jumps}}                             a table of the family
    {{standing}}                                how the family's claims stand, by kind

`published/README.md` has a table of how the claims stand, between two comments.

The family's module `readme`, if there is one, has its tables, {name: (record, studies) ->
Markdown}, and pictures, {file name: (record, studies, path) -> path}. `python -m cgjax.report
--readme` writes all of it. The README of a checkout has its template here, `front.template.md`.
"""

import importlib
import importlib.util
import pathlib
import re
import statistics

from cgjax import experiments, published, report
from cgjax.core.errors import BadInput
from cgjax.core.workdir import read_json, write_atomic
from cgjax.published.claims import CLAIMS, KINDS
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
    lines = [f"| kind | claims | {' | '.join(words)} |", f"|---|{'---:|' * (1 + len(words))}"]
    for kind, n_of in counts.items():
        numbers = (str(n_of[word] or "") for word in words)
        lines.append(f"| {KINDS[kind]} | {sum(n_of.values())} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def field(family: str, words: str) -> str:
    """The text of one field; BadInput where the record does not have it."""
    file, _, rest = words.partition(" ")
    if words == "standing":
        return standing_table(family).rstrip()
    if file == "table":
        tables = getattr(_module(family), "TABLES", {})
        if rest not in tables:
            raise BadInput(f"no table '{rest}' of {family}: there are {', '.join(tables)}")
        return tables[rest](report.entries(family), report.studies(family))
    metric, _, form = rest.rpartition(" ")
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
