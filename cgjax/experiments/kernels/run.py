"""One study of the kernels family: closed forms, dense networks, networks on images."""

import pathlib
import time

from cgjax.config import fingerprint
from cgjax.core.errors import BadInput
from cgjax.core.logging import summary, write_arrays, write_results
from cgjax.experiments.kernels import (
    dense,
    dense_figures,
    figures,
    image_figures,
    image_study,
    theory,
)
from cgjax.published import PUBLISHED

# Figures of every study, by its name.
DRAW = {**figures.FIGURES, "dense": dense_figures.draw, "images": image_figures.draw}


def run(config, workdir, figures: bool = True) -> dict:
    """Runs the row's study and writes results.json, arrays.npz and figures."""
    started, workdir = time.monotonic(), pathlib.Path(workdir)
    if config.study in theory.STUDIES:
        metrics, arrays = theory.STUDIES[config.study](config)
        metrics = {name: ([value], [0]) for name, value in metrics.items()}
    elif config.study == "images":
        metrics, arrays = image_study.study(config, workdir)
    elif config.study == "dense":
        metrics, arrays = dense.study(config, workdir)
    else:
        names = ", ".join([*theory.STUDIES, "dense", "images"])
        raise BadInput(f"unknown study '{config.study}': one of {names}")
    # A few kernels or steps are no measurement: `smoke` shows that the path works.
    published = {} if config.size == "smoke" else PUBLISHED["kernels"].get(config.row, {})
    results = {
        name: summary(values, seeds, published.get(name))
        for name, (values, seeds) in metrics.items()
    }
    write_arrays(workdir / "arrays.npz", arrays)
    if figures:
        draw(config, arrays, workdir / "figures")
    extra = {"wall_s": time.monotonic() - started}
    return write_results(workdir / "results.json", results, fingerprint(config), extra)


def load(config, workdir, part: str = ""):
    """Studies keep arrays; the sweep's networks are in its checkpoints."""
    raise BadInput(f"'{workdir}' holds a study: read its arrays.npz and results.json")


def draw(config, arrays: dict, folder: pathlib.Path) -> None:
    """The study's figures, from its saved arrays."""
    if config.study in DRAW:
        DRAW[config.study](arrays, folder)
