"""One run: every architecture on every task, all sizes and graphs as replicas of one program.

Needed is the smallest number of combinations at which the median over seeds of held-out R2 passes
`eval.threshold`. Part `<task>_<architecture>` has one replica for each seed and cell (`cells`).
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.config import over_parts, parts
from cgjax.core import checkpoint, optim, program, train
from cgjax.core.errors import BadInput
from cgjax.core.replicas import Grid, with_numbers
from cgjax.experiments.coverage import cells, graphs, models, scores, tasks
from cgjax.experiments.coverage import figures as drawing
from cgjax.experiments.coverage import tables as markdown
from cgjax.published.results import summary

MOST = 4096  # combinations of a task
APART = ("connected", "blocks")  # graphs whose held-out R2 a run prints first


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Trains all parts: (metrics, arrays, extra)."""
    workdir, extra = pathlib.Path(workdir), {}

    def study(name, settings):
        _, history = train.fit(experiment(settings), settings, workdir / name, name)
        final = {key: values[-1] for key, values in grid(settings).history(history["eval"]).items()}
        part = scores.Part(cells.of(settings), final["r2"], list(settings.train.seeds))
        thresholds = settings.eval.threshold, settings.eval.other_thresholds
        fits = np.median(final["r2_train"], axis=0) >= settings.eval.fits
        extra[name] = {
            "train_s": history["wall_s"],
            "cells that do not fit": [c.name for c, fit in zip(part.cells, fits) if not fit],
        }
        results = scores.numbers(part, *thresholds)
        results["cells"] = ([len(fits)], [0])
        results["cells that do not fit"] = ([np.sum(~fits)], [0])
        by_cell = {cell.name: (r2, part.seeds) for cell, r2 in zip(part.cells, part.r2.T)}
        return {key: summary(*pair, None) for key, pair in (results | by_cell).items()}, {}

    results, arrays = over_parts(config, study)
    if figures:
        drawing.draw(results, config.eval.threshold, workdir / "figures")
    words = ("n: exponent", "bridges needed", *(f"{x}, all known: held-out R2" for x in APART))
    # Of tasks that do not reach the threshold, the exponent of a lower one.
    words += tuple(f"n, R2 {each:g}: exponent" for each in config.eval.other_thresholds[:1])
    extra["headlines"] = [name for name in results if name.endswith(words)]
    return results, arrays, extra


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of one part: `predict(params, tokens)`; the first axis of params is replicas."""
    by_name = dict(parts(config))
    name = checkpoint.choose(part, by_name, workdir)
    made = experiment(by_name[name], {})
    params, _, steps = checkpoint.read_trained(
        pathlib.Path(workdir) / name, train.replica_names(made), step
    )
    net = network(by_name[name], task_of(by_name[name]))
    return checkpoint.Loaded(
        lambda params, tokens: net.apply({"params": params}, tokens), params, by_name[name], steps
    )


def plan(config) -> dict:
    """How large each part's training is; no training sets are drawn."""
    return {name: program.training_size(experiment(part, {}), part) for name, part in parts(config)}


def check(config) -> None:
    """Checks constraints between keys."""
    for name, part in parts(config):
        data, model = part.data, part.model
        n, factors = max(data.n_values), max(data.factors)
        largest = 2**n - 1 if data.task == "teacher" else max(n**2, min(data.n_values) ** factors)
        for wrong, text in (
            (data.base not in data.n_values, f"data.base={data.base} is not in data.n_values"),
            (len(data.n_values) < 2, "data.n_values must have two values or more"),
            (2 not in data.factors, "data.factors must have 2, which other cells have"),
            (
                data.task != "addition" and factors > 2,
                f"data.factors={data.factors}: {data.task} has 2 factors",
            ),
            (
                largest > MOST,
                f"data.n_values={data.n_values} give {largest} combinations of {MOST}",
            ),
            (
                model.name == "transformer" and max(model.widths) % 8,
                f"model.widths={model.widths}: the greatest must be a multiple of 8",
            ),
        ):
            if wrong:
                raise BadInput(f"{name}: {text}")
        largest = (2**32 - 1) // len(cells.of(part)) - 1
        if max(part.train.seeds) > largest:
            raise BadInput(f"{name}: train.seeds go up to {largest}: seed and cell share 32 bits")


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs."""
    return markdown.of(record)


# --- the experiment -------------------------------------------------------------------------------


def grid(config) -> Grid:
    """Seeds x cells."""
    return Grid(seed=config.train.seeds, cell=range(len(cells.of(config))))


def cases(config) -> list[tuple]:
    """(values, factors) that occur, in a fixed order."""
    return sorted({(cell.n, cell.factors) for cell in cells.of(config)})


def task_of(config) -> tasks.Task:
    """The task; worlds with random parts are drawn anew for each seed."""
    worlds = [(config.data.seed, seed) for seed in config.train.seeds]
    return tasks.build(config.data.task, cases(config), worlds)


def network(config, task: tasks.Task):
    """The architecture at its greatest width."""
    return models.build(config.model.name, task.n_outputs, max(config.model.widths))


def kinds_of_sets(config) -> tuple[list[tuple], np.ndarray]:
    """(seed, cell without width and size) of each training set; and which of them a replica has."""
    sets, known = {}, cells.of(config)
    rows = [
        sets.setdefault((seed, cell._replace(width=0, size=0)), len(sets))
        for seed in config.train.seeds
        for cell in known
    ]
    return list(sets), np.array(rows, np.int32)


def training_sets(config, kinds: list[tuple]) -> dict:
    """Orders, held-out combinations with weights, targets; kinds: as in `kinds_of_sets`."""
    draws = [cells.draw(config.data.task, cell, config.data.seed, seed) for seed, cell in kinds]

    def padded(arrays):
        joined = np.zeros((len(arrays), max(map(len, arrays))), np.int32)
        for row, array in zip(joined, arrays):
            row[: len(array)] = array
        return joined

    fields = {name: padded([getattr(draw, name) for draw in draws]) for name in graphs.Draw._fields}
    ones = padded([np.ones(len(draw.held_out)) for draw in draws]).astype(np.float32)
    return fields | {"is_held_out": ones}


def experiment(config, data=None) -> program.Experiment:
    """All seeds and cells of one part as the training loop takes them.

    data: {} where they are not needed; None draws them.
    """
    task, batch_size = task_of(config), config.data.batch
    net, all_cells, all_cases = network(config, task), cells.of(config), cases(config)
    kinds, rows = kinds_of_sets(config)
    axes = grid(config)
    if data is None:
        data = {"task": task.data, "sets": training_sets(config, kinds)}

    def examples(data, replica, combinations, key):
        truth = data["sets"]["truth"][replica["set"], combinations]
        place = replica["case"], replica["world"]
        return task.examples(data["task"], *place, combinations, truth, key)

    def loss(params, extra, batch, key, step, replica):
        draw_key, key = jax.random.split(key)
        places = jnp.floor(jax.random.uniform(draw_key, (batch_size,)) * replica["size"])
        places = jnp.minimum(places.astype(jnp.int32), replica["size"] - 1)  # if rounded up
        tokens, y = examples(batch, replica, batch["sets"]["order"][replica["set"], places], key)
        return jnp.mean((net.apply({"params": params}, tokens) - y) ** 2), (extra, {})

    def evaluate(params, extra, data, key, replica):
        def r2(combinations, weights):
            combinations, weights = (
                jnp.repeat(array, task.repeats) for array in (combinations, weights)
            )
            tokens, y = examples(data, replica, combinations, key)
            weights = weights[:, None] / jnp.sum(weights)
            error = jnp.sum(weights * (net.apply({"params": params}, tokens) - y) ** 2)
            mean = jnp.sum(weights * y, axis=0, keepdims=True)
            return 1 - error / jnp.sum(weights * (y - mean) ** 2)

        chosen = {name: array[replica["set"]] for name, array in data["sets"].items()}
        n = len(chosen["held_out"])
        known = jnp.arange(n) * replica["size"] // n  # evenly from the training set
        return {
            "r2": r2(chosen["held_out"], chosen["is_held_out"]),
            "r2_train": r2(chosen["order"][known], jnp.ones(n)),
        }, {}

    def init(key, replica):
        params = net.init(key, jnp.zeros((1, *task.token_shape)))["params"]
        return models.narrowed(params, replica["width"]), {}

    columns = {
        "width": np.array([cell.width for cell in all_cells], np.float32),
        "size": np.array([cell.size for cell in all_cells], np.int32),
        "case": np.array([all_cases.index((cell.n, cell.factors)) for cell in all_cells], "i4"),
    }
    replicas = axes.replicas() | {
        "stream": axes.streams(),
        "set": rows,
        "world": axes.along("seed", np.arange(len(config.train.seeds), dtype=np.int32)),
        **{name: axes.along("cell", values) for name, values in columns.items()},
    }
    steps = config.train.steps
    return program.Experiment(
        data=data,
        replicas=with_numbers(replicas, lr=config.optim.lr),
        init=init,
        plan=None,
        batch=lambda data, indices, key, step: data,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.by_name("adam", optim.cosine(replica["lr"], 0.0, steps, 1)),
        headline=None,
        identity=axes.identity,
    )
