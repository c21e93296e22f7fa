"""Studies of decoders: trains, scores and analyses a row's parts one after another.

Names of metrics: "<part>/<cell>: <region> <score>"; rows with one part or one cell omit its name.
All scores of a region are reported together: an error of 0.004 alone says nothing.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, program
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.bumps import models, sets, training
from cgjax.experiments.bumps.studies.analyses import ANALYSES, examples
from cgjax.experiments.bumps.studies.analyses import check as check_analyses

MOST_FIELDS = 4  # cells of a part whose fields are saved


def check(config) -> None:
    """Raises an error unless every part's sets and network fit together."""
    for name, settings in parts(config):
        try:
            sets.check(settings)
            training.check(settings)
            if settings.eval.get("tangent") and settings.model.name not in ("mlp", "cnn"):
                raise BadInput("eval.tangent works only with model.name=mlp or cnn")
            check_analyses(settings)
        except BadInput as error:
            raise BadInput(f"part '{name}': {error}" if name else str(error)) from None


def plan(config) -> dict:
    """The size of each part's training."""
    sizes = {}
    for name, settings in parts(config):
        shown = sets.make(settings)
        sizes[name] = program.training_size(training.experiment(settings, shown), settings)
    return sizes


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of "<part>/<cell>", one per seed: `predict(params, codes)` -> images."""
    networks = {}
    for name, settings in parts(config):
        for cell in training.cells(settings, sets.make(settings).axes):
            networks["/".join(filter(None, (name, cell.name)))] = (name, settings, cell.name)
    name, settings, cell = networks[checkpoint.choose(part, networks, workdir)]
    shown = sets.make(settings)
    return training.load(settings, shown, pathlib.Path(workdir) / name, cell, step)


def study(config, workdir) -> tuple[dict, dict]:
    """Trains every part of the row: metrics {name: (values, seeds)}, and arrays to draw."""

    def study_part(name, settings):
        shown = sets.make(settings)
        sets.tell(shown, training.set_words(shown.axes))
        return analyse(settings, training.run(settings, shown, pathlib.Path(workdir) / name, name))

    return over_parts(config, study_part)


def analyse(config, trained: training.Trained) -> tuple[dict, dict]:
    """Metrics {name: (values, seeds)} of one part, and the arrays of its figures."""
    seeds, metrics = list(config.train.seeds), {}

    def add(cell, name, values):
        prefix = f"{cell.name}: " if cell.name else ""
        metrics[prefix + name] = (np.asarray(values, float), seeds[: len(values)])

    for c, cell in enumerate(trained.cells):
        for name, values in trained.scores.items():
            add(cell, name.replace("_", " "), values[:, c])
        if config.optim.stop:
            add(cell, "criterion reached", trained.scores["id_nmse"][:, c] < config.optim.stop)
        say(_line(config, trained, c))
    arrays = pictures(config, trained)
    arrays |= {f"history/{name}": values for name, values in trained.history.items()}
    arrays["cells"] = np.array([cell.name for cell in trained.cells])
    for axis, values in zip(trained.scenes.axes, zip(*(c.combination for c in trained.cells))):
        arrays[f"cell/{axis}"] = np.array(values)
    arrays["cell/penalty"] = np.array([cell.penalty for cell in trained.cells])
    arrays["model"], arrays["criterion"] = np.array(config.model.name), np.array(config.optim.stop)
    for key, analysis in ANALYSES.items():
        if config.eval.get(key):
            for c, cell in enumerate(trained.cells):
                numbers, saved = analysis(config, trained, c)
                for name, values in numbers.items():
                    add(cell, name, values)
                arrays |= {f"{key}/{c}/{name}": value for name, value in saved.items()}
    return metrics, arrays


def _line(config, trained, c) -> str:
    """A line with the results of one cell, ID before OOD."""
    mean = {name: np.mean(values[:, c]) for name, values in trained.scores.items()}
    label = trained.cells[c].name or config.model.name
    missed = int(np.sum(~(trained.scores["id_nmse"][:, c] < config.optim.stop)))
    note = f" ({missed} of {len(config.train.seeds)} seeds never reached the ID criterion)"
    has_ood = trained.set_of(config, 0, c).is_ood.any()
    held_out = (
        "nothing held out"
        if not has_ood
        else (
            f"OOD nMSE {mean['ood_nmse']:.3g}, "
            f"position {mean['ood_position_accuracy']:.2f}, peak {mean['ood_peak_height']:.2f}"
        )
    )
    note = note if config.optim.stop and missed else ""
    return f"{label}: ID nMSE {mean['id_nmse']:.3g}, {held_out}{note}"


# --- arrays for figures ---------------------------------------------------------------------------


def pictures(config, trained) -> dict:
    """Errors at every point (means over seeds); examples and fields of the first seed."""
    shown, arrays = trained.scenes, {"xy": trained.scenes.xy}
    errors = np.mean((trained.painted - shown.truth) ** 2, axis=(-2, -1))
    first = [trained.set_of(config, 0, c) for c in range(len(trained.cells))]
    arrays["errors"], arrays["inverted"] = errors.mean(axis=0), np.array(shown.inverted)
    arrays["is_ood"] = np.stack([train_set.is_ood for train_set in first])
    picked = np.stack([examples(shown, train_set) for train_set in first])
    arrays["example_xy"] = shown.xy[picked]
    arrays["example_truth"] = shown.truth[picked]  # [cells, 4, n, n]
    arrays["example_painted"] = np.stack(
        [trained.painted[0, c, rows] for c, rows in enumerate(picked)]
    )
    if len(shown.points) == config.data.n**2:
        # A moving bump: one row of the grid, through the middle of the held-out points.
        rows = [_middle_row(shown, train_set) for train_set in first]
        arrays["sweep_truth"] = np.stack([shown.truth[row] for row in rows])
        arrays["sweep_painted"] = np.stack([trained.painted[0, c, r] for c, r in enumerate(rows)])
        arrays["sweep_is_ood"] = np.stack(
            [train_set.is_ood[r] for train_set, r in zip(first, rows)]
        )
    if len(config.data.get("sigmas", ())) > 1:
        arrays |= _by_width(config, trained, errors)
    if config.model.name in models.WITH_FIELDS:
        model = training.network(config)
        # Evenly spaced from the best cell to the worst.
        order = np.argsort(trained.scores["ood_nmse"].mean(axis=0))
        places = np.linspace(0, len(order) - 1, min(len(order), MOST_FIELDS)).round().astype(int)
        arrays["field_cells"] = np.sort(order[places])
        params = jax.tree.map(
            lambda leaf: jnp.asarray(leaf[0, arrays["field_cells"]]), trained.params
        )
        fields = jax.vmap(lambda leaves: model.apply({"params": leaves}, method="fields"))(params)
        arrays["fields"] = np.stack(fields, axis=1)  # [cells, 2, values, n, n]
    return arrays


def _by_width(config, trained, errors) -> dict:
    """nMSE [seeds, cells, widths] of each width; NaN if a region has no bump of that width."""
    shown, arrays = trained.scenes, {"sigmas": np.array(config.data.sigmas)}
    blank = np.mean((shown.truth - float(shown.inverted)) ** 2, axis=(-2, -1))
    split = [part.reshape(*part.shape[:-1], len(arrays["sigmas"]), -1) for part in (errors, blank)]
    for region in ("id", "ood"):
        where = np.array(
            [
                [
                    getattr(trained.set_of(config, s, c), f"is_{region}")
                    for c in range(errors.shape[1])
                ]
                for s in range(len(errors))
            ]
        ).reshape(split[0].shape)
        sums = [np.sum(part * where, axis=-1) for part in split]
        arrays[f"by_width/{region}_nmse"] = sums[0] / np.where(sums[1] > 0, sums[1], np.nan)
    return arrays


def _middle_row(shown, train_set):
    """Points of the grid row in the middle of the held-out rows."""
    rows = np.unique(
        shown.xy[train_set.is_ood if train_set.is_ood.any() else train_set.is_id][:, 1]
    )
    return np.flatnonzero(shown.xy[:, 1] == rows[len(rows) // 2])
