"""A trained pair in numbers: scores, every predictor of the rules, and a user's own predictors."""

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import dependence
from cgjax.analysis.ntk import linearised
from cgjax.analysis.predictors import View
from cgjax.config import look_here
from cgjax.core.errors import BadInput, first_line
from cgjax.experiments.predict import rules
from cgjax.experiments.predict.model import Data, Model, Reason, Subject, r2
from cgjax.experiments.predict.pair import Pair

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
