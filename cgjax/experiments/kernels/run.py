"""One study of the kernels family: closed forms, or dense networks beside them."""

import pathlib
import time

import numpy as np

from cgjax.analysis import additivity
from cgjax.config import fingerprint
from cgjax.core.errors import BadInput
from cgjax.core.logging import say, summary, write_arrays, write_results
from cgjax.experiments.kernels import dense, figures, theory
from cgjax.published import PUBLISHED

CONVERGED = 1e-3  # networks whose final training loss is above this are left out, as in the paper


def run(config, workdir, figures: bool = True) -> dict:
    """Runs the row's study and writes results.json, arrays.npz and figures."""
    started, workdir = time.monotonic(), pathlib.Path(workdir)
    if config.study in theory.STUDIES:
        metrics, arrays = theory.STUDIES[config.study](config)
        metrics = {name: ([value], [0]) for name, value in metrics.items()}
    elif config.study == "dense":
        metrics, arrays = networks(config, workdir)
    else:
        names = ", ".join([*theory.STUDIES, "dense"])
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
    if config.study in figures.FIGURES:
        figures.FIGURES[config.study](arrays, folder)


# --- dense networks -------------------------------------------------------------------------------


def networks(config, workdir: pathlib.Path):
    """Scores of a sweep over initial scales: additivity, and slopes or accuracies of new inputs."""
    sweep = dense.run(config, workdir)
    arrays = {
        "outputs": sweep.outputs,
        "train_loss": sweep.train_loss,
        "scales": np.array(config.model.scales),
        "tasks": np.array(config.data.tasks),
        **{f"history/{name}": values for name, values in sweep.history.items()},
    }
    metrics = {}
    for i, task in enumerate(sweep.tasks):
        for j, scale in enumerate(config.model.scales):
            kept = sweep.train_loss[:, i, j] <= CONVERGED
            seeds = np.array(config.train.seeds)[kept]
            name = f"{_short(task.name)}, sigma {scale:g}"
            if not kept.all():
                say(f"{name}: {np.sum(~kept)} of {len(kept)} networks did not converge: left out")
            if not kept.any():
                continue
            outputs = sweep.outputs[kept, i, j]
            found = additivity.additivity(task.x, outputs, task.is_train)
            arrays[f"coefficients/{i}/{j}"] = found.coefficients
            arrays[f"labels/{i}"] = found.labels
            scores = {"additivity": found.r2_test, **_scores(task, outputs)}
            metrics |= {f"{name}: {score}": (v, seeds) for score, v in scores.items()}
    return metrics, arrays


def _scores(task, outputs: np.ndarray) -> dict:
    """Of outputs [networks, N] on the test inputs: slope and error, or accuracy and margin."""
    test = ~task.is_train
    y, f = task.y[test], outputs[:, test]
    if np.all(np.abs(task.y) == 1):
        return {"accuracy": np.mean(np.sign(f) == y, axis=1), "margin": np.mean(y * f, axis=1)}
    centred = y - y.mean()
    return {
        "slope": f @ centred / np.sum(centred**2),
        "test MSE": np.mean((f - y) ** 2, axis=1),
    }


def _short(name: str) -> str:
    return name.removeprefix("addition_")
