"""One study of supports, from its config to results, arrays and figures."""

import pathlib

import numpy as np

from cgjax.core import checkpoint, program
from cgjax.core.errors import BadInput
from cgjax.experiments.sprites.support import bound, learned_c, openness, pairs, studies, trained
from cgjax.experiments.sprites.support.figures import FIGURES
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
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
    "bound": bound.study,
}
# Rows that train models: module with `study(config, workdir)` and `experiment(config, kind, data)`.
TRAINING = {"digits": pairs, "cut_outs": pairs, "unknown_c": learned_c, "step_c": learned_c}


def check(config) -> None:
    """Checks the runs that a row reads, before anything is written."""
    if "run" in config.data:
        trained.check(config)
    if "record" in config.data:
        studies.check_record(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """One study from its config to metrics, arrays, verdicts and figures."""
    if config.row in TRAINING:
        metrics, arrays, verdicts = TRAINING[config.row].study(config, workdir)
    else:
        metrics, arrays, verdicts = STUDIES[config.row](config)
    row = "table" if config.row == "demo" else config.row
    # Published failing pixels and singular values are for images of this size.
    at_size = config.data.get("image_size", 0) == 64
    published = PUBLISHED["support"].get(row, {}) if at_size else {}
    results = {}
    for name, value in metrics.items():
        seeds = config.train.seeds if np.ndim(value) else [config.data.seed]
        results[name] = summary(np.atleast_1d(value), seeds, published.get(name))
    if figures:
        draw(config, arrays, pathlib.Path(workdir) / "figures")
    # Claims about real images are not judged by made-up ones.
    made_up = [""] if config.data.get("is_made_up", False) else []
    return results, arrays, {"words": verdicts, "made_up": made_up}


def plan(config) -> dict:
    """How large the training of each model is; empty where nothing is trained."""
    if config.row not in TRAINING:
        return {}
    module = TRAINING[config.row]
    return {
        kind: program.training_size(module.experiment(config, kind, {}), config)
        for kind in config.model.kinds
    }


def load(config, workdir, part: str = "", step=None):
    """The trained model `kind`, its parameters by seed and support; BadInput if the row trains
    nothing."""
    if config.row not in TRAINING:
        raise BadInput(
            f"'{workdir}' is a study of supports: it has arrays and figures, but no model"
        )
    kind = checkpoint.choose(part, config.model.kinds, workdir)
    module = TRAINING[config.row]
    wanted = module.grid(config).names()
    params, _, steps = checkpoint.read_trained(pathlib.Path(workdir) / kind, wanted, step)
    return checkpoint.Loaded(module.build(config, kind).predict, params, config, steps)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The study's figures, from its saved arrays."""
    if config.row in FIGURES:
        FIGURES[config.row](arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded studies."""
    return [("support", markdown.metric_table(record, reference="recomputed"))]
