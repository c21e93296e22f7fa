"""Trained models against the support theory: their opacities, and a certificate."""

import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import support as theory
from cgjax.analysis.support.certificate import certificate as certify
from cgjax.config import from_json
from cgjax.core import checkpoint, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.workdir import read_json
from cgjax.experiments.sprites import audits, models, scenes, sets
from cgjax.experiments.sprites import run as sprites
from cgjax.experiments.sprites.compositions import COMPOSITIONS
from cgjax.experiments.sprites.support import soft


def check(config):
    """The config of the sprites run that `data.run` names, refused where the row cannot use it."""
    folder = pathlib.Path(config.data.run)
    if not os.path.isfile(folder / "config.json"):
        raise BadInput(
            f"no sprites run at '{folder}': train one, then give --config.data.run=<its workdir>"
        )
    settings = from_json(json.dumps(read_json(folder / "config.json", "name another run")))
    if settings.get("family") != "sprites":
        raise BadInput(f"'{folder}' holds a run of {settings.get('family')}, not of sprites")
    checkpoint.choose(config.data.part, settings.model.kinds, folder)
    shared = settings.model.kinds == ("shared",) and settings.model.composition == "alpha"
    if config.row == "opacity" and not shared:
        raise BadInput(f"'{folder}' is no run of one shared network with alpha composition")
    if config.row == "certificate" and (settings.data.n_slots != 2 or "form" not in settings.model):
        raise BadInput(f"'{folder}' does not draw two sprites by upsampling: no certificate")
    return settings


def open_run(config):
    """Config and loaded model of the finished sprites run that `data.run` names."""
    settings = check(config)
    return settings, sprites.load(settings, pathlib.Path(config.data.run), config.data.part)


def opacity(config):
    """Does a trained alpha model satisfy the relaxed condition at its own components?

    On the orthogonal support the condition fails at true sprites, whose opacities 0 and 1 lie on
    the clip's corners, and holds where the network's opacities lie beyond them. So it can explain
    why the model generalises as far as the trained opacities are saturated.
    """
    settings, loaded = open_run(config)
    model = models.build(settings, "shared")
    data, metrics, arrays, words = settings.data, {}, {}, []
    for i, seed in enumerate(settings.train.seeds):
        params = tree.take(loaded.params, i)
        draw = jax.jit(lambda z, params=params: model.slots(params, jnp.tile(z, (1, 2)))[0])
        for component, name in enumerate(("front", "back")):
            key = jax.random.fold_in(jax.random.key(config.data.seed), component)
            found, points = audits.audit(
                data,
                "alpha",
                component,
                key,
                condition="relaxed",
                draw=draw,
                **audits.sizes(config),
            )
            own, failing = points.covered, audits.own_failing(found, points)
            alpha = points.images[..., 3]
            if component == 0:
                metrics[f"seed {seed}: sprite pixels with alpha >= 1"] = np.mean(alpha[own] >= 1)
                metrics[f"seed {seed}: other pixels with alpha <= 0"] = np.mean(alpha[~own] <= 0)
            metrics[f"seed {seed}: {name}, sprite pixels that fail"] = failing.sum() / own.sum()
            metrics[f"seed {seed}: {name}, pixels that fail"] = found.where.mean()
            arrays[f"seed {seed}, {name}/relaxed/where"] = found.where.mean(0)
            words.append(f"seed {seed}, {name}: {found.verdict}")
            say(words[-1])
    return metrics, arrays, words


def certificate(config):
    """Which premises hold for a finished sprites run, named by `data.run`."""
    settings, loaded = open_run(config)
    params = tree.take(loaded.params, 0)
    data = settings.data
    key = jax.random.key(config.data.seed)
    raw = sets.sample(data, key, 4000)
    everywhere = sets.sample_everywhere(data, key, 4000)
    reached = theory.coverage(raw, everywhere, sizes=(5,) * data.n_slots)
    found = [
        audits.points(data, k, jax.random.fold_in(key, k), **audits.sizes(config))
        for k in range(data.n_slots)
    ]
    verdict = theory.audit_support(
        COMPOSITIONS[config.model.composition],
        [one.images for one in found],
        [one.partners for one in found],
        reached,
        theory.connection(raw),
    )
    say(verdict.verdict)
    smooth = [i for i in range(5 * data.n_slots) if i % 5 != 2]  # the shape is discrete
    forward = models.build(_forward_mode(settings), _kind(settings, config.data.part)).predict
    issued = certify(
        verdict,
        lambda z: soft.scene(z, data.image_size, config.data.softness),
        lambda z: forward(params, z),
        scenes.scale_latents(raw[: config.data.n_values]),
        dims=tuple(smooth),
    )
    say(issued.verdict)
    metrics = {}
    for one in issued.premises:
        numbers = {"": one.value, ", worst": one.worst, ", may fail on": one.bound}
        numbers |= dict(zip((", median", ", 95 %", ", 99 %"), one.quantiles))
        # What was not measured has no number.
        found = {words: value for words, value in numbers.items() if not np.isnan(value)}
        metrics |= {f"{one.name}: {one.words}{words}": value for words, value in found.items()}
    metrics["consistent with the theorem"] = float(issued.consistent)
    return metrics, {"sigma_min": verdict.components[0].sigma_min}, [issued.verdict]


def _forward_mode(settings):
    """The same model in a form that has forward-mode derivatives on every backend."""
    settings = settings.copy_and_resolve_references()
    settings.model.form = "reordered"
    return settings


def _kind(settings, part: str) -> str:
    return part or settings.model.kinds[0]
