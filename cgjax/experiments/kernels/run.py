"""One study of the kernels family: closed forms, dense networks, networks on images."""

import pathlib

from cgjax.config import prefixes
from cgjax.core.errors import BadInput
from cgjax.experiments.kernels import dense, images
from cgjax.experiments.kernels.dense import figures as dense_figures
from cgjax.experiments.kernels.images import figures as image_figures
from cgjax.experiments.kernels.theory import STUDIES
from cgjax.experiments.kernels.theory.figures import FIGURES
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
from cgjax.published.results import summary

# Studies that train networks, and figures of every study, by name.
NETWORKS = {"dense": dense, "images": images}
DRAW = {
    **FIGURES,
    "dense": dense_figures.draw,
    "images": image_figures.draw,
    "untrained": image_figures.draw_untrained,
}
SCORES = ("slope", "accuracy", "mse", "additivity")  # shown in the report


def check(config) -> None:
    """Raises BadInput for values that are valid one by one but not together."""
    if config.study in NETWORKS:
        NETWORKS[config.study].check(config)
    elif config.study == "untrained":
        images.check_untrained(config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Runs the row's study: (metrics, arrays, extra), and its figures."""
    workdir = pathlib.Path(workdir)
    if config.study in STUDIES:
        metrics, arrays = STUDIES[config.study](config)
        metrics = {name: ([value], [0]) for name, value in metrics.items()}
    elif config.study == "untrained":
        metrics, arrays = images.untrained(config)
    else:
        metrics, arrays = NETWORKS[config.study].study(config, workdir)
    made_up = prefixes(config, lambda _, part: part.get("data", {}).get("synthetic", 0))
    # `smoke` only tests the code path: its few kernels or steps are not compared with the paper.
    is_compared = config.size != "smoke" and not made_up
    published = PUBLISHED["kernels"].get(config.row, {}) if is_compared else {}
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    if figures:
        draw(config, arrays, workdir / "figures")
    return results, arrays, {"made_up": list(made_up)}


def plan(config) -> dict:
    """Size of each part's training."""
    return NETWORKS[config.study].plan(config) if config.study in NETWORKS else {}


def load(config, workdir, part: str = "", step=None):
    """Networks of a dense or image row; other rows have none."""
    if config.study not in NETWORKS:
        raise BadInput(f"'{workdir}' trained no network: it holds arrays and figures")
    return NETWORKS[config.study].load(config, workdir, part, step)


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The study's figures, from its saved arrays."""
    if config.study in DRAW:
        DRAW[config.study](arrays, folder)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs."""
    recomputed = markdown.metric_table(record, reference="recomputed")
    return [("kernels", markdown.metric_table(record, SCORES)), ("kernels, recomputed", recomputed)]
