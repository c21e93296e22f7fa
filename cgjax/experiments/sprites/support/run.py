"""One study of supports, from its config to results, arrays and figures; nothing is trained."""

import pathlib

from cgjax.core.errors import BadInput
from cgjax.experiments.sprites.support import openness, studies, trained
from cgjax.experiments.sprites.support.figures import FIGURES
from cgjax.published import PUBLISHED
from cgjax.published import tables as markdown
from cgjax.published.results import summary

STUDIES = {
    "demo": studies.table,
    "table": studies.table,
    "partners": studies.partners,
    "predict": studies.predict,
    "openness": openness.openness,
    "design": studies.design,
    "relaxed": studies.relaxed,
    "opacity": trained.opacity,
    "certificate": trained.certificate,
}


def check(config) -> None:
    """Checks the runs that a row reads, before anything is written."""
    if "run" in config.data:
        trained.check(config)
    if "record" in config.data:
        studies.check_record(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """One study from its config to metrics, arrays, verdicts and figures."""
    metrics, arrays, verdicts = STUDIES[config.row](config)
    row = "table" if config.row == "demo" else config.row
    # Published failing pixels and singular values are for images of this size.
    at_size = config.data.get("image_size", 0) == 64
    published = PUBLISHED["support"].get(row, {}) if at_size else {}
    results = {
        name: summary([value], [config.data.seed], published.get(name))
        for name, value in metrics.items()
    }
    if figures:
        draw(config, arrays, pathlib.Path(workdir) / "figures")
    return results, arrays, {"words": verdicts}


def plan(config) -> dict:
    """Empty: nothing is trained."""
    return {}


def load(config, workdir, part: str = "", step=None):
    """BadInput: a study trains nothing, so there is no model to load."""
    raise BadInput(f"'{workdir}' is a study of supports: it has arrays and figures, but no model")


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The study's figures, from its saved arrays."""
    if config.row in FIGURES:
        FIGURES[config.row](arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded studies."""
    return [("support", markdown.metric_table(record, reference="recomputed"))]
