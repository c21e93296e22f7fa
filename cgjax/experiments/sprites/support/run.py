"""One study of supports, from its config to results, arrays and figures; nothing is trained."""

import pathlib

from cgjax.core.errors import BadInput
from cgjax.experiments.sprites.support import studies, trained
from cgjax.experiments.sprites.support.figures import FIGURES
from cgjax.published import PUBLISHED
from cgjax.published import tables as markdown
from cgjax.published.results import summary

STUDIES = {
    "demo": studies.table,
    "table": studies.table,
    "partners": studies.partners,
    "predict": studies.predict,
    "design": studies.design,
    "relaxed": studies.relaxed,
    "opacity": trained.opacity,
    "certificate": trained.certificate,
}


def check(config) -> None:
    """The runs that a row looks at, before anything is written."""
    if "run" in config.data:
        trained.check(config)
    if "record" in config.data:
        studies.check_record(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """One study from its config to metrics, arrays, words and figures."""
    metrics, arrays, words = STUDIES[config.row](config)
    row = "table" if config.row == "demo" else config.row
    # Failing pixels are counted, and singular values taken, at the published image size.
    at_size = config.data.get("image_size", 0) == 64
    published = PUBLISHED["support"].get(row, {}) if at_size else {}
    results = {
        name: summary([value], [config.data.seed], published.get(name))
        for name, value in metrics.items()
    }
    if figures:
        draw(config, arrays, pathlib.Path(workdir) / "figures")
    return results, arrays, {"words": words}


def load(config, workdir, part: str = "", step=None):
    """A study trains nothing, so there is no model to open."""
    raise BadInput(f"'{workdir}' is a study of supports: it holds arrays and figures, no model")


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The study's figures, from its saved arrays."""
    if config.row in FIGURES:
        FIGURES[config.row](arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded studies."""
    return [("support", markdown.metric_table(record, reference="recomputed"))]
