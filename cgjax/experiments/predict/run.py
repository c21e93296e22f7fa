"""The benchmark: trains pairs of a model and a task, and asks which number predicted the outcome.

Metrics: "<pair>: outcome" with a value for each seed, then the standing of every predictor
(`standing.of`). results.json holds the scores and numbers of every pair under "pairs", and the hash
of the rules under "rules". `<program>/pairs.json` has the pairs of a finished program.
"""

import dataclasses
import functools
import importlib
import json
import math
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.analysis.ntk import linearised
from cgjax.analysis.predictors import View
from cgjax.config import look_here, parts
from cgjax.core import checkpoint, hosts, parallel, train, tree
from cgjax.core import program as programs
from cgjax.core.errors import BadInput, first_line
from cgjax.core.logging import say
from cgjax.core.replicas import replica_names
from cgjax.core.workdir import access_to, disk_errors, read_json, write_atomic
from cgjax.experiments.predict import adapters, rules, standing
from cgjax.experiments.predict import figures as drawing
from cgjax.experiments.predict import tables as markdown
from cgjax.experiments.predict.model import Data, Model, Program, Reason, Subject, r2
from cgjax.experiments.predict.rules import NAMES, Pair, held_out
from cgjax.published.results import summary

PRETRAINED = "pretrained"  # the row of frozen layers


def frozen_layers():
    """The module of that row; other rows do not need readers of pretrained weights."""
    return importlib.import_module("cgjax.experiments.predict.pretrained")


def check(config) -> None:
    """Checks that every program's row and changes, and a user's predictors, exist."""
    if config.row == PRETRAINED:
        return frozen_layers().check(config)
    own_predictors(config.eval.own)
    for _, part_config in parts(config):
        adapters.settings_of(part_config)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """All pairs, and how the predictors stand: (metrics, arrays, extra)."""
    workdir = pathlib.Path(workdir)
    if config.row == PRETRAINED:
        return report(list(frozen_layers().pairs(config)), workdir, figures)
    settings = {name: adapters.settings_of(part_config) for name, part_config in parts(config)}
    for name, part_config in parts(config):
        if reason := adapters.missing(settings[name]):
            raise BadInput(f"pair.row={part_config.pair.row}: {reason}")
    pairs = []
    for name, part_config in parts(config):
        pairs += of_program(part_config, settings[name], workdir / name, name)
    return report(marked(pairs), workdir, figures)


def report(pairs: list[Pair], workdir: pathlib.Path, figures: bool) -> tuple[dict, dict, dict]:
    """Metrics, arrays and extra of results.json; draws the figure."""
    collected = standing.collect(pairs)
    table = standing.Table.of(collected)
    results = {}
    for name in collected:
        seeds = [pair for pair in pairs if pair.name == name]
        outcomes = [pair.outcome for pair in seeds]
        results[f"{name}: outcome"] = summary(outcomes, [pair.seed for pair in seeds], None)
    stand = standing.of(table)
    results |= {name: summary([value], [0], None) for name, value in stand.items()}
    if figures:
        drawing.draw(table, stand, workdir / "figures")
    headlines = [name for name in stand if name.endswith(": tau") and " less " not in name]
    return results, {}, {"rules": rules.digest(), "pairs": collected, "headlines": headlines}


def marked(pairs: list[Pair]) -> list[Pair]:
    """The pairs, each marked as held out or not; a pair that is not in the list is not held out.

    Pairs that were added later are in blocks of their own: the others' draw does not change.
    """
    names = NAMES.read_text().split()
    hidden = set()
    for block in {name.partition("/")[0] for name in names}:
        hidden |= held_out(name for name in names if name.startswith(f"{block}/"))
    return [dataclasses.replace(pair, held_out=pair.name in hidden) for pair in pairs]


def of_program(config, settings, folder: pathlib.Path, name: str) -> list[Pair]:
    """Every pair of a program, one for each seed; read from disk if finished."""
    path, seeds = folder / "pairs.json", list(config.train.seeds)
    saved = hosts.from_writer(lambda: read_json(path) if path.exists() else {})
    if saved.get("seeds") == seeds:
        return [Pair(**pair) for pair in saved["pairs"]]
    extra_predictors = own_predictors(config.eval.own)
    program = adapters.build(config, settings)
    experiment, subjects = program.make()
    starts = programs.SetUp(experiment, program.settings).init()
    state, _ = train.fit(experiment, program.settings, folder, name)
    before, after = (networks(program, each) for each in (starts, state))
    pairs = []
    for subject in subjects:
        # Seeds of a pair have the same sets of combinations.
        unknown = subject.unknown(subject.data[0]) if subject.unknown else None
        for seed, row, data in zip(seeds, subject.rows, subject.data):
            start, params = (tree.take(each, row) for each in (before, after))
            model = Model(subject.f, subject.layer, start, params)
            block = program.block or settings.family
            args = (unknown, config, block, seed, extra_predictors)
            pairs.append(pair := of_pair(subject, model, data, *args))
        say(f"{pair.name}: known {pair.known:.2f}, unseen {pair.unseen:.2f}")
    if hosts.is_writer() and not access_to(folder).reads_only:
        saved = {"seeds": seeds, "pairs": [dataclasses.asdict(pair) for pair in pairs]}
        with disk_errors(path):
            write_atomic(path, json.dumps(saved))
    return pairs


def networks(program: Program, state):
    """The parameters of f of all replicas."""
    return program.join(*parallel.fetch((state.params, state.extra)))


def plan(config) -> dict:
    """How large each program's training is, and what it needs that is not here."""
    if config.row == PRETRAINED:
        return {"": "frozen layers and linear probes: no network is trained"}
    sizes = {}
    for name, part_config in parts(config):
        settings = adapters.settings_of(part_config)
        reason = adapters.missing(settings)
        if reason and settings.family == "subnetworks":  # the weights decide the size
            sizes[name] = reason
            continue
        program = adapters.build(part_config, settings)
        size = programs.training_size(program.experiment, program.settings)
        sizes[name] = size | {"note": reason}
    return sizes


def load(config, workdir, part: str = "", step=None) -> checkpoint.Loaded:
    """The networks of one program: `predict(params, x)`, x in the form of its family."""
    part_configs = dict(parts(config))
    if not part_configs:
        raise BadInput("this row trains no networks: there is nothing to load")
    name = checkpoint.choose(part, part_configs, workdir)
    program = adapters.build(part_configs[name], adapters.settings_of(part_configs[name]))
    wanted = replica_names(program.experiment)
    params, extra, steps = checkpoint.read_trained(pathlib.Path(workdir) / name, wanted, step)
    subject = program.make().subjects[0]
    return checkpoint.Loaded(subject.f, program.join(params, extra), program.settings, steps)


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of all recorded runs together."""
    return markdown.of(record)


# --- numbers --------------------------------------------------------------------------------------
# A trained pair in numbers: scores, every predictor of the rules, and a user's own predictors.


CHUNK = 64  # inputs per batch of derivatives


def of_pair(
    subject: Subject,
    model: Model,
    data: Data,
    unknown: float | None,
    config,
    block: str,
    seed: int,
    extra_predictors: dict,
) -> Pair:
    """Scores and predictors of one seed; extra_predictors: {name: a user's predictor}."""
    f = jax.jit(model.f)
    known = subject.score(data.y, f(model.params, data.x))
    unseen = subject.score(data.y_new, f(model.params, data.x_new))
    pair = Pair(
        block, subject.task, subject.model, subject.task, seed, known, unseen, subject.chance
    )
    features = jax.jit(model.layer)(model.params, data.inputs)
    outputs = f(model.params, data.inputs)
    view = View(data.factors, data.asked, *map(_flat, (features, outputs, data.targets)))
    numbers = rules.numbers(
        view,
        loss=1 - (known - pair.chance) / (pair.attainable - pair.chance),
        tangent=tangent(model, data, config.eval.iterations),
        dependence=depend(subject, model, data),
        unknown=unknown,
    )
    blind = data._replace(x_new=None, y_new=None)
    for name, predictor in extra_predictors.items():
        numbers[name] = checked(name, predictor(model, blind))
    return dataclasses.replace(pair, predictors=numbers)


def _flat(array):
    return np.asarray(array, np.float64).reshape(len(array), -1)


def tangent(model: Model, data: Data, iterations: int) -> float:
    """R2 on unseen targets of the network linearised at its start, from -1 to 1.

    NaN without a fit if all unseen targets are equal.
    """
    if jnp.all(data.y_new == data.y_new[:1]):
        return math.nan
    fit = linearised.linearised_fit(
        model.f, model.start, data.x, data.y, data.x_new, most_iterations=iterations
    )
    return float(np.clip(r2(data.y_new, fit.predictions.reshape(data.y_new.shape)), -1, 1))


def depend(subject: Subject, model: Model, data: Data) -> float | Reason:
    """Share of the trained outputs' derivatives with respect to inputs of another part."""
    parts = subject.parts
    if isinstance(parts, Reason):
        return parts
    matrix = _derivatives(
        model.params,
        data.x,
        parts.inputs,
        parts.outputs,
        model.f,
        parts.read,
        parts.centred,
        (int(np.max(parts.outputs)) + 1, int(np.max(parts.inputs)) + 1),
    )
    matrix = np.asarray(matrix, float)
    return 1 - float(np.trace(matrix) / matrix.sum()) if matrix.sum() > 0 else math.nan


@functools.partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _derivatives(params, x, inputs, outputs, f, read, centred, sizes):
    """`gradient_dependence`, compiled once for all pairs of a program."""
    return dependence.gradient_dependence(
        lambda params, x: read(f(params, x)),
        params,
        x,
        inputs,
        outputs,
        sizes=sizes,
        centred=centred,
        chunk=min(CHUNK, len(x)),
    )


# --- a user's own predictors ----------------------------------------------------------------------


def own_predictors(names: str) -> dict[str, Callable]:
    """{function's name: function} of predictors named "module:function", separated by commas.

    A predictor is a function of (`Model`, `Data`) that returns one number; larger numbers predict
    that the model composes.
    """
    predictors = {}
    look_here()
    for name in filter(None, names.split(",")):
        module, colon, function = name.partition(":")
        if not colon or not function.isidentifier():
            raise BadInput(f"eval.own={name!r}: name a predictor as module:function")
        try:
            predictor = getattr(importlib.import_module(module), function, None)
        except Exception as error:
            raise BadInput(
                f"eval.own={name!r}: cannot import {module}: {type(error).__name__}: "
                f"{first_line(error)}"
            ) from None
        if not callable(predictor):
            raise BadInput(f"eval.own={name!r}: module {module} has no function {function}")
        if function in rules.SIGNS or function in predictors:
            raise BadInput(f"eval.own={name!r}: another predictor is called {function}: rename it")
        predictors[function] = predictor
    return predictors


def checked(name: str, value) -> float | Reason:
    """A user's number as a float; NaN means that the predictor does not apply."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadInput(
            f"the predictor {name} returned {type(value).__name__}: it must return one number"
        ) from None
    return number if math.isfinite(number) else f"{name} gives {number}"
