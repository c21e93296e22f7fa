"""Pairs of a model and a split: every theory's number before training, the error after it.

Names of metrics: "<pair>: <theory>" and "<pair>: error", one value for each seed; then, over pairs,
"<theory>: tau" and its like (`answers`). A pair that is finished has its numbers in
`<pair>/numbers.json`.
"""

import json
import pathlib

import numpy as np

from cgjax.config import parts
from cgjax.core import checkpoint, hosts, parallel, program, train, tree
from cgjax.core.logging import say
from cgjax.core.replicas import replica_names
from cgjax.core.workdir import disk_errors, read_json, write_atomic
from cgjax.experiments.across import adapters, answers
from cgjax.experiments.across import figures as drawing
from cgjax.experiments.across import tables as markdown
from cgjax.experiments.across.pair import Pair, Reason
from cgjax.experiments.across.theories import THEORIES
from cgjax.published.results import summary


def check(config) -> None:
    """Every pair's row and changes are known."""
    for _, own in parts(config):
        adapters.settings_of(own)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """All pairs, and what becomes of the theories: (metrics, arrays, extra)."""
    workdir, seeds, found = pathlib.Path(workdir), list(config.train.seeds), {}
    settings = {name: adapters.settings_of(own) for name, own in parts(config)}
    for name, own in parts(config):
        found[name] = numbers(own, settings[name], workdir / name, name)
        say(f"{name}: {told(found[name])}")
    results, reasons = {}, {}
    for name, one in found.items():
        for column in answers.COLUMNS:
            if isinstance(one[column], Reason):
                reasons.setdefault(name, {})[column] = one[column]
            else:
                results[f"{name}: {column}"] = summary(one[column], seeds, None)
    table = answers.Table.of(config.parts, results)
    over = answers.over_pairs(table)
    results |= {name: summary([value], [0], None) for name, value in over.items()}
    if figures:
        drawing.draw(table, over, workdir / "figures")
    return results, {}, {"reasons": reasons, "headlines": list(over)}


def numbers(config, settings, folder: pathlib.Path, name: str) -> dict:
    """{column: a value for each seed, or a reason} of one pair; read where it is finished."""
    path, seeds = folder / "numbers.json", list(config.train.seeds)
    known = hosts.from_writer(lambda: read_json(path) if path.exists() else {})
    if known.get("seeds") == seeds:
        return known
    pair = adapters.build(config, settings)
    start = program.SetUp(pair.experiment, pair.settings).init()
    begun = networks(pair, start)
    found = {word: theory(pair, begun, config) for word, theory in THEORIES.items()}
    state, _ = train.fit(pair.experiment, pair.settings, folder, name)
    ended = networks(pair, state)
    found["error"] = errors(pair, ended, "x_new", "y_new")
    found["training error"] = errors(pair, ended, "x", "y")
    found = {
        word: value if isinstance(value, Reason) else [float(v) for v in value]
        for word, value in found.items()
    }
    found["seeds"] = seeds
    if hosts.is_writer() and not train.ONLY_READS.get():
        with disk_errors(path):
            write_atomic(path, json.dumps(found, indent=1))
    return found


def networks(pair: Pair, state) -> list:
    """What f takes, for each seed."""
    params, extra = parallel.fetch((state.params, state.extra))
    return [tree.take(pair.join(params, extra), row) for row in pair.rows]


def errors(pair: Pair, params: list, x: str, y: str) -> list:
    """The normalised error of each seed on one of its sets."""
    return [
        pair.error(getattr(look, y), pair.f(own, getattr(look, x)))
        for own, look in zip(params, pair.looks)
    ]


def told(found: dict) -> str:
    """One pair in a line."""
    words = [
        f"{word} {'n/a' if isinstance(found[word], Reason) else f'{np.mean(found[word]):.3g}'}"
        for word in (*THEORIES, "error")
    ]
    return ", ".join(words)


def plan(config) -> dict:
    """How large each pair's training is."""
    found = {}
    for name, own in parts(config):
        pair = adapters.build(own, adapters.settings_of(own))
        found[name] = program.training_size(pair.experiment, pair.settings)
    return found


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of one pair: `predict(params, x)`, x as its family has it."""
    known = dict(parts(config))
    name = checkpoint.choose(part, known, workdir)
    pair = adapters.build(known[name], adapters.settings_of(known[name]))
    wanted = [replica_names(pair.experiment)[row] for row in pair.rows]
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, wanted, step)
    return checkpoint.Loaded(pair.f, pair.join(params, extra), pair.settings, steps)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: every pair, and every theory."""
    return [table for entry in record for table in markdown.of(entry)]
