"""Pairs of a model and a split: every theory's number before training, the error after it.

Names of metrics: "<pair>: <theory>" and "<pair>: error", one value for each seed; then, over pairs,
"<theory>: tau" and other correlations (`answers`). `<pair>/numbers.json` has the numbers of a
finished pair.
"""

import json
import pathlib

import numpy as np

from cgjax.config import parts
from cgjax.core import checkpoint, hosts, parallel, program, train, tree
from cgjax.core.logging import say
from cgjax.core.replicas import replica_names
from cgjax.core.workdir import access_to, disk_errors, read_json, write_atomic
from cgjax.experiments.across import adapters, answers
from cgjax.experiments.across import figures as drawing
from cgjax.experiments.across import tables as markdown
from cgjax.experiments.across.pair import Pair, Reason
from cgjax.experiments.across.theories import THEORIES
from cgjax.published.results import summary


def check(config) -> None:
    """Checks that every pair's row and changes exist."""
    for _, part_config in parts(config):
        adapters.settings_of(part_config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """All pairs, and the theories' correlations with the error: (metrics, arrays, extra)."""
    workdir, seeds, by_pair = pathlib.Path(workdir), list(config.train.seeds), {}
    settings = {name: adapters.settings_of(part_config) for name, part_config in parts(config)}
    for name, part_config in parts(config):
        by_pair[name] = numbers(part_config, settings[name], workdir / name, name)
        say(f"{name}: {line_of(by_pair[name])}")
    results, reasons = {}, {}
    for name, columns in by_pair.items():
        for column in answers.COLUMNS:
            if isinstance(columns[column], Reason):
                reasons.setdefault(name, {})[column] = columns[column]
            else:
                results[f"{name}: {column}"] = summary(columns[column], seeds, None)
    table = answers.Table.of(config.parts, results)
    correlations = answers.over_pairs(table)
    results |= {name: summary([value], [0], None) for name, value in correlations.items()}
    if figures:
        drawing.draw(table, correlations, workdir / "figures")
    return results, {}, {"reasons": reasons, "headlines": list(correlations)}


def numbers(config, settings, folder: pathlib.Path, name: str) -> dict:
    """{column: a value for each seed, or a reason} of one pair; read from disk if finished."""
    path, seeds = folder / "numbers.json", list(config.train.seeds)
    saved = hosts.from_writer(lambda: read_json(path) if path.exists() else {})
    if saved.get("seeds") == seeds:
        return saved
    pair = adapters.build(config, settings)
    start = program.SetUp(pair.experiment, pair.settings).init()
    initial = networks(pair, start)
    columns = {column: theory(pair, initial, config) for column, theory in THEORIES.items()}
    state, _ = train.fit(pair.experiment, pair.settings, folder, name)
    trained = networks(pair, state)
    columns["error"] = errors(pair, trained, "x_new", "y_new")
    columns["training error"] = errors(pair, trained, "x", "y")
    columns = {
        column: value if isinstance(value, Reason) else [float(v) for v in value]
        for column, value in columns.items()
    }
    columns["seeds"] = seeds
    if hosts.is_writer() and not access_to(folder).reads_only:
        with disk_errors(path):
            write_atomic(path, json.dumps(columns, indent=1))
    return columns


def networks(pair: Pair, state) -> list:
    """The parameters of f, for each seed."""
    params, extra = parallel.fetch((state.params, state.extra))
    return [tree.take(pair.join(params, extra), row) for row in pair.rows]


def errors(pair: Pair, params: list, x: str, y: str) -> list:
    """The normalised error of each seed on one of its sets."""
    return [
        pair.error(getattr(look, y), pair.f(seed_params, getattr(look, x)))
        for seed_params, look in zip(params, pair.looks)
    ]


def line_of(columns: dict) -> str:
    """The numbers of one pair as a line of text."""
    cells = [
        f"{name} {'n/a' if isinstance(columns[name], Reason) else f'{np.mean(columns[name]):.3g}'}"
        for name in (*THEORIES, "error")
    ]
    return ", ".join(cells)


def plan(config) -> dict:
    """How large each pair's training is."""
    sizes = {}
    for name, part_config in parts(config):
        pair = adapters.build(part_config, adapters.settings_of(part_config))
        sizes[name] = program.training_size(pair.experiment, pair.settings)
    return sizes


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of one pair: `predict(params, x)`, x in the form of its family."""
    part_configs = dict(parts(config))
    name = checkpoint.choose(part, part_configs, workdir)
    pair = adapters.build(part_configs[name], adapters.settings_of(part_configs[name]))
    wanted = [replica_names(pair.experiment)[row] for row in pair.rows]
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, wanted, step)
    return checkpoint.Loaded(pair.f, pair.join(params, extra), pair.settings, steps)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: every pair, and every theory."""
    return [table for entry in record for table in markdown.of(entry)]
