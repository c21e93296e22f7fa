"""Trained models and the support theory: saturation of opacities, and a certificate."""

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

SAMPLES = 200  # of P and Q that decide whether P determines f on Q
LENGTH, NOISE = 1.0, 0.01  # of five latents few samples resolve no finer length


def check(config):
    """The config of the sprites run that `data.run` names; BadInput if the row cannot use it."""
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
        raise BadInput(f"'{folder}' is not a run of one shared network with alpha composition")
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
    the clip's corners. It holds where the network's opacities lie beyond them, so it
    explains generalisation only as far as the trained opacities are saturated.
    """
    settings, loaded = open_run(config)
    model = models.build(settings, "shared")
    data, metrics, arrays, verdicts = settings.data, {}, {}, []
    for i, seed in enumerate(settings.train.seeds):
        params = tree.take(loaded.params, i)
        draw = jax.jit(lambda z, params=params: model.slots(params, jnp.tile(z, (1, 2)))[0])
        for component, name in enumerate(("front", "back")):
            key = jax.random.fold_in(jax.random.key(config.data.seed), component)
            result, points = audits.audit(
                data,
                "alpha",
                component,
                key,
                condition="relaxed",
                draw=draw,
                **audits.sizes(config),
            )
            covered, failing = points.covered, audits.own_failing(result, points)
            alpha = points.images[..., 3]
            if component == 0:
                metrics[f"seed {seed}: sprite pixels with alpha >= 1"] = np.mean(
                    alpha[covered] >= 1
                )
                metrics[f"seed {seed}: other pixels with alpha <= 0"] = np.mean(
                    alpha[~covered] <= 0
                )
            metrics[f"seed {seed}: {name}, sprite pixels that fail"] = failing.sum() / covered.sum()
            metrics[f"seed {seed}: {name}, pixels that fail"] = result.where.mean()
            arrays[f"seed {seed}, {name}/relaxed/where"] = result.where.mean(0)
            verdicts.append(f"seed {seed}, {name}: {result.verdict}")
            say(verdicts[-1])
    return metrics, arrays, verdicts


def certificate(config):
    """Which premises of the theorem hold for the finished sprites run that `data.run` names."""
    settings, loaded = open_run(config)
    params = tree.take(loaded.params, 0)
    data = settings.data
    # With one key for both, samples of the support `random` would be those of all combinations.
    keys = jax.random.split(jax.random.key(config.data.seed), 2 + data.n_slots)
    raw = sets.sample(data, keys[0], 4000)
    everywhere = sets.sample_everywhere(data, keys[1], 4000)
    kinds = [None, None, "categorical", None, None] * data.n_slots  # place, shape, size, hue
    reached = theory.coverage(raw, everywhere, sizes=(5,) * data.n_slots, kinds=kinds)
    points = [
        audits.points(data, k, keys[2 + k], **audits.sizes(config)) for k in range(data.n_slots)
    ]
    model = models.build(_forward_mode(settings), _kind(settings, config.data.part))
    composition = COMPOSITIONS[config.model.composition]
    components = [_component(model, params, k, data.n_slots) for k in range(data.n_slots)]
    answer = theory.identify(
        composition,
        components,
        *(scenes.scale_latents(x[:SAMPLES]) for x in (raw, everywhere)),
        length=LENGTH,
        noise=NOISE,
        kinds=kinds,
    )
    verdict = theory.audit_support(
        composition,
        [tested.images for tested in points],
        [tested.partners for tested in points],
        reached,
        answer,
    )
    say(verdict.verdict)
    text = (
        f"The truth of f and df/dz is the renderer with edges of {config.data.softness:g} pixel, "
        f"composed by opacity; the data are composed by {data.composition}, the model by "
        f"{config.model.composition}."
    )
    say(text)
    issued = certify(
        verdict,
        lambda z: soft.scene(z, data.image_size, config.data.softness),
        lambda z: model.predict(params, z),
        scenes.scale_latents(raw[: config.data.n_values]),
        composition,
        components,
        COMPOSITIONS[data.composition],
        kinds=kinds,
    )
    say(issued.verdict)
    metrics = {}
    for premise in issued.premises:
        numbers = {"": premise.value, ", worst": premise.worst, ", may fail on": premise.bound}
        numbers |= dict(zip((", median", ", 95 %", ", 99 %"), premise.quantiles))
        # NaN: not measured.
        measured = {ending: value for ending, value in numbers.items() if not np.isnan(value)}
        name = f"{premise.name}: {premise.words}"
        metrics |= {f"{name}{ending}": value for ending, value in measured.items()}
    metrics["consistent with the theorem"] = float(issued.consistent)
    return metrics, {"sigma_min": verdict.components[0].sigma_min}, [issued.verdict, text]


def _component(model, params, k: int, n_slots: int):
    """Slot k of a trained model as a function of its own scaled latents [n, 5]."""

    @jax.jit
    def draw(z):
        return model.slots(params, jnp.tile(jnp.asarray(z, jnp.float32), (1, n_slots)))[k]

    return draw


def _forward_mode(settings):
    """The same model in a form that has forward-mode derivatives on every backend."""
    settings = settings.copy_and_resolve_references()
    settings.model.form = "reordered"
    return settings


def _kind(settings, part: str) -> str:
    return part or settings.model.kinds[0]
