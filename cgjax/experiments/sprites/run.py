"""One sprites run: scenes, models, training, the theory's verdict, figures, results."""

import pathlib
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.config import fingerprint
from cgjax.core import metrics, optim, parallel, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say, summary, write_arrays, write_results
from cgjax.data import arrays
from cgjax.experiments.sprites import beyond, learned, models, panels, scenes, sets
from cgjax.experiments.sprites.figures import draw
from cgjax.published import PUBLISHED

METRICS = ("mse_id", "mse_all", "r2_id", "r2_all")
N_ALPHA_DRAWS = 100
N_BACKGROUND = 100  # scenes behind the front network's background level


def run(config, workdir, figures: bool = True) -> dict:
    """Trains every model kind of the config on one training set and writes all outputs."""
    started, workdir = time.monotonic(), pathlib.Path(workdir)
    data = sets.make(config)
    say(f"{config.data.n_train:,} train / {config.eval.n:,} eval scenes · {config.data.support}")
    say("theory: " + panels.verdict(config.data))
    results, figure_arrays, extra = {}, {}, {}
    for kind in config.model.kinds:
        model = models.build(config, kind)
        folder, prefix = part(config, workdir, kind)
        folder.mkdir(exist_ok=True)
        state, history = train.fit(experiment(config, model, data), config, folder, kind)
        params = models.join(state.params, state.extra)
        results |= _results(config, history, prefix, kind)
        if config.eval.recovery and kind != "monolithic":
            results |= _recovery(config, model, params, data["all"], prefix)
        extra[kind] = {"train_s": history["wall_s"], "died_at": _deaths(config, state)}
        if kind != "monolithic":
            extra[kind]["front_background"] = beyond.front_background(
                model, params, tree.take(data["all"], slice(0, N_BACKGROUND))
            )
        if config.model.composition == "alpha" and kind != "monolithic":
            extra[kind] |= _alpha_census(model, config)
        if figures:
            say(f"{kind}: drawing")
            figure_arrays |= panels.of_model(config, model, tree.take(params, 0), kind)
            figure_arrays |= panels.of_history(history, kind)
            if config.eval.curve:
                figure_arrays |= beyond.curve_arrays(config, history, workdir)
    if figures:
        figure_arrays |= panels.of_support(config)
        write_arrays(workdir / "arrays.npz", figure_arrays)
        draw(figure_arrays, {config.row: results}, workdir / "figures")
    extra["wall_s"] = time.monotonic() - started
    return write_results(workdir / "results.json", results, fingerprint(config), extra)


class Loaded(NamedTuple):
    """A finished run, opened: `predict(params, scaled latents [n, 5 K])` for one replica."""

    predict: Any
    params: Any  # leading axis: seeds
    config: Any


def load(config, workdir: pathlib.Path, kind: str = "") -> Loaded:
    """The trained model `kind` (needed only where the run trained several)."""
    kinds = config.model.kinds
    if not kind and len(kinds) == 1:
        kind = kinds[0]
    if kind not in kinds:
        raise BadInput(f"'{workdir}' holds the models {', '.join(kinds)}: name one of them as part")
    model = models.build(config, kind)
    folder, _ = part(config, workdir, kind)
    # A finished fit only reads its checkpoints back; it needs no scenes for that.
    parts = experiment(config, model, sets.placeholder(config))
    state, _ = train.fit(parts, config, folder, kind)
    return Loaded(model.predict, models.join(state.params, state.extra), config)


def part(config, workdir: pathlib.Path, kind: str) -> tuple[pathlib.Path, str]:
    """Folder and metric prefix of one model: its own only where a run trains several."""
    if len(config.model.kinds) == 1:
        return workdir, ""
    return workdir / kind, f"{kind}/"


# --- the experiment -------------------------------------------------------------------------------


def experiment(config, model: models.Model, data: dict) -> train.Experiment:
    """The pieces of one model's training, for the loop."""
    loss_fn = models.LOSSES[config.optim.loss]

    def images(rows):
        return sets.images(rows, config.data.composition)

    def batch(data, indices, key, step):
        rows = tree.take(data["train"], indices)
        return {"latents": rows["latents"], "images": images(rows)}

    def loss(params, extra, batch, key, step, replica):
        extra = model.scheduled(step)
        prediction = model.predict(models.join(params, extra), batch["latents"])
        value = loss_fn(prediction, batch["images"], batch["mask"], config.optim.loss_weight)
        return value, (extra, {})

    def score(params, rows, by_region=False):
        """MSE and R2 per batch, then averaged over batches; error by parts over all scenes."""
        size = min(config.eval.batch, len(rows["latents"]))
        chunks = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), rows)

        def one(chunk):
            image = images(chunk)
            target = image.reshape(size, -1)
            predicted = model.predict(params, chunk["latents"])
            prediction = predicted.reshape(target.shape)
            return (
                metrics.mse(target, prediction),
                metrics.r2_variance_weighted(target, prediction),
                jnp.max(jnp.abs(prediction)),
                beyond.sums(image, predicted, chunk, by_region),
            )

        error, r2, brightest, parts = jax.lax.map(one, chunks)
        return jnp.mean(error), jnp.mean(r2), jnp.max(brightest), beyond.scores(parts)

    def evaluate(params, extra, data, key, replica):
        params = models.join(params, extra)
        mse_id, r2_id, *_ = score(params, data["id"])
        mse_all, r2_all, brightest, parts = score(params, data["all"], config.eval.regions)
        scalars = {"mse_id": mse_id, "mse_all": mse_all, "r2_id": r2_id, "r2_all": r2_all}
        scalars |= parts | learned.sharpness(params)
        # An all-black output is the collapse that dead alphas end in.
        return {**scalars, "collapsed": (brightest <= 1e-6).astype(jnp.float32)}, {}

    schedule = optim.cosine(
        config.optim.lr, config.optim.lr_final, config.train.steps, config.optim.lr_every
    )
    return train.Experiment(
        data=data,
        replicas={"seed": np.array(config.train.seeds)},
        init=lambda key, replica: (model.init(key), model.scheduled(0)),
        plan=arrays.epochs(config.data.n_train, config.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=lambda replica: optim.adamw(schedule, config.optim.weight_decay),
        headline=("r2_all", "max"),
    )


# --- results --------------------------------------------------------------------------------------


def _results(config, history: dict, prefix: str, kind: str) -> dict:
    """The last evaluation of every seed beside the published numbers."""
    row = config.row
    if row == "demo":  # its two models are two rows of the paper's table
        row = f"{config.data.support}_{kind}"
    published = PUBLISHED["sprites"].get(row, {})
    others = [name for name in history["eval"] if name not in (*METRICS, "step", "collapsed")]
    last = {name: history["eval"][name][-1] for name in (*METRICS, *others)}
    seeds, alive = np.array(config.train.seeds), history["eval"]["collapsed"][-1] == 0
    results = {
        prefix + name: summary(values, seeds, published.get(name)) for name, values in last.items()
    }
    if not all(alive):  # the paper's mean leaves such seeds out; here both are shown
        results[prefix + "collapsed"] = summary(~alive, seeds, None)
        for name, values in last.items():
            kept = summary(values[alive], seeds[alive], published.get(name))
            results[f"{prefix}{name} (alive)"] = kept
    return results


def _recovery(config, model: models.Model, params, rows: dict, prefix: str) -> dict:
    """How well each component alone matches its sprite, seed by seed."""
    found = learned.recovery(model.slots, params, rows, config.eval.batch)  # [R, K]
    names = ["front", *(f"slot_{k}" for k in range(1, found.shape[1] - 1)), "back"]
    return {
        f"{prefix}recovery_{name}": summary(values, config.train.seeds, None)
        for name, values in zip(names, found.T)
    }


def _deaths(config, state) -> dict:
    steps = parallel.fetch(state.died_at)
    return {str(seed): int(step) for seed, step in zip(config.train.seeds, steps) if step >= 0}


def _alpha_census(model: models.Model, config) -> dict:
    """How many of 100 initialisations start with a dead alpha channel: about 40."""
    latents = scenes.scale_latents(sets.sample_everywhere(config.data, jax.random.key(1), 16))
    keys = jax.random.split(jax.random.key(0), N_ALPHA_DRAWS)
    shares = np.asarray(
        jax.jit(models.alpha_at_initialisation, static_argnums=0)(model, keys, latents)
    )
    dead, alive = int(np.sum(shares == 0)), int(np.sum(shares == 1))
    say(f"alpha at initialisation: {dead} of {N_ALPHA_DRAWS} dead, {alive} alive everywhere")
    return {"alpha_at_initialisation": {"of": N_ALPHA_DRAWS, "dead": dead, "alive": alive}}
