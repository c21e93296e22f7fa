"""One sprites run: scenes, models, training, the theory's verdict, figures, results."""

import concurrent.futures
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import checkpoint, metrics, optim, parallel, program, signals, train, tree
from cgjax.core.errors import BadInput, Diverged
from cgjax.core.logging import say
from cgjax.core.replicas import with_numbers
from cgjax.data import arrays
from cgjax.experiments.sprites import beyond, models, options, panels, scenes, sets, unsupervised
from cgjax.experiments.sprites.figures import (
    draw_before_training,
    draw_parts,
    draw_together,
    table_markdown,
)
from cgjax.experiments.sprites.models import recorded_curve
from cgjax.published import PUBLISHED
from cgjax.published import results as markdown
from cgjax.published.results import summary

METRICS = ("mse_id", "mse_all", "r2_id", "r2_all")
# Columns of the table of runs that the paper has no number for.
BEYOND = (
    "r2_id",
    "r2_all",
    "mse_overlap",
    "mse_outline",
    "mse_gap",
    "recovery_front",
    "recovery_back",
)
N_ALPHA_DRAWS = 100
# Independent small kernels of a step run concurrently. On an H200 this saves 3 to 5 % of a step;
# the numbers are the same where autotuning chooses the same matrix products.
SIDE_BY_SIDE = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
N_BACKGROUND = 100  # scenes over which `beyond.front_levels` takes its medians


def check(config) -> None:
    """Checks constraints between keys, which ranges of single keys cannot express."""
    if "encoder" in config.model:
        return unsupervised.check(config)
    if config.eval.n % config.eval.batch:
        raise BadInput(f"eval.batch={config.eval.batch} must divide eval.n={config.eval.n}")
    kinds = config.model.kinds
    if config.model.get("decoder", "upsample") != "upsample":
        if "monolithic" in kinds or config.model.get("alpha_init", "reference") != "reference":
            raise BadInput(
                f"model.decoder={config.model.decoder} draws single sprites with"
                " alpha_init=reference: a monolithic model, or another alpha_init, needs"
                " model.decoder=upsample"
            )
    with parallel.on_host():  # compiling these draws for a GPU takes seconds
        sets.sample(config.data, jax.random.key(0), 1)  # checks planes and gaps against n_slots
        for kind in kinds:
            models.check(config, kind)


def run(config, workdir, figures: bool = True) -> tuple[dict, dict, dict]:
    """Trains every model kind of the config on one training set: (metrics, arrays, extra)."""
    if "encoder" in config.model:
        return unsupervised.run(config, pathlib.Path(workdir), figures)
    # `background` compiles and draws while the main thread makes data and trains. On a CPU, which
    # compiles and trains on the same cores, it does one thing at a time; a training step of one
    # model does not occupy all cores, so `trainers` train the other models.
    n_background = 1 if jax.default_backend() == "cpu" else 1 + len(config.model.kinds)
    background, trainers = map(concurrent.futures.ThreadPoolExecutor, (n_background, 3))
    try:
        with signals.stopping_together() as together:
            workdir = pathlib.Path(workdir)
            return _run(config, workdir, figures, background, trainers, together)
    finally:
        background.shutdown(cancel_futures=True)
        trainers.shutdown(cancel_futures=True)


def _run(config, workdir: pathlib.Path, figures: bool, background, trainers, together) -> tuple:
    built = {kind: models.build(config, kind) for kind in config.model.kinds}
    painters = {kind: panels.Painter(config, model) for kind, model in built.items()}
    ahead, levels, drawings, results, figure_arrays, extra = {}, {}, [], {}, {}, {}
    for kind, model in built.items():
        if train.compiles_ahead(part(config, workdir, kind)[0]):
            set_up = program.traced(experiment(config, model, sets.shapes(config)), config)
            ahead[kind] = background.submit(set_up.compile_all)
    data = sets.make(config)
    say(f"{config.data.n_train:,} train / {config.eval.n:,} eval scenes · {config.data.support}")
    supports = panels.shown_supports(config)
    run_support = panels.own_support(config, supports)
    with parallel.on_host():
        verdict = panels.verdict(supports[run_support])
    say("theory: " + verdict)
    for kind in ahead:
        if figures or kind != "monolithic":
            background.submit(painters[kind].compile)
    folder = workdir / "figures" if figures else None
    if figures:
        before = background.submit(_draw_before_training, config, supports, verdict, folder)

    def fit(kind):
        trained, folder = experiment(config, built[kind], data), part(config, workdir, kind)[0]
        return together.run(_fit, trained, config, folder, kind, ahead.get(kind))

    others = {}
    if jax.default_backend() == "cpu":
        others = {kind: trainers.submit(fit, kind) for kind in list(built)[1:] if kind in ahead}
    else:  # the choice of kernels is timed, which needs a GPU that trains nothing
        concurrent.futures.wait(ahead.values())
    diverged = {}
    for kind, model in built.items():
        ended = others[kind].result() if kind in others else fit(kind)
        if isinstance(ended, Diverged):
            diverged[kind] = ended
            continue
        state, history = ended
        prefix = part(config, workdir, kind)[1]
        params = models.join(state.params, state.extra)
        results |= _results(config, history, prefix, kind)
        if kind != "monolithic" and config.eval.recovery:
            results |= _recovery(config, model, params, data["all"], prefix)
        extra[kind] = {"train_s": history["wall_s"], "died_at": _deaths(config, state)}
        steps_per_epoch = -(-config.data.n_train // config.data.batch)
        extra[kind] |= recorded_curve(history["loss"], config.train.log_every, steps_per_epoch)
        params = parallel.fetch(params)  # for a `Painter`
        if kind != "monolithic":
            rows = tree.take(parallel.fetch(data["all"]), slice(0, N_BACKGROUND))
            levels[kind] = background.submit(_front_levels, config, painters[kind], params, rows)
            if config.model.composition == "alpha":
                extra[kind] |= _alpha_census(model, config)
        if figures:
            drawn = (config, painters[kind], tree.take(params, 0), kind, before, folder)
            drawings.append(background.submit(_draw_part, *drawn))
            figure_arrays |= panels.of_history(history, kind)
            if config.eval.curve:
                figure_arrays |= beyond.curve_arrays(config, history, workdir)
    if diverged:
        raise _without(diverged, list(extra))
    for kind, future in levels.items():
        extra[kind] |= future.result()
    if figures:
        say("the last figures: drawing")
        for future in (before, *drawings):
            figure_arrays |= future.result()
        draw_together(figure_arrays, {config.row: results}, folder)
    return results, figure_arrays, extra


def _fit(experiment, config, folder, kind: str, ahead) -> tuple | Diverged:
    """`train.fit`, or why its model has no result: training it again would end the same way."""
    try:
        return train.fit(experiment, config, folder, kind, ahead)
    except Diverged as error:
        return error


def _without(diverged: dict, trained: list[str]) -> Diverged:
    """The error of a run that has no results, because it lacks the models that diverged."""
    lines = [f"{kind}: {error}" for kind, error in diverged.items()]
    if trained:
        lines.append(f"{', '.join(trained)}: trained and saved, cgjax.load reads it")
    return Diverged("; ".join(lines) if len(lines) > 1 else str(*diverged.values()))


def _draw_before_training(config, supports: dict, verdict: str, folder) -> dict:
    """Draws what needs no model; verdict: of the run's own support. Returns the arrays."""
    run_support = panels.own_support(config, supports)
    others = {name: panels.verdict(supports[name]) for name in supports if name != run_support}
    arrays = panels.of_support(config, others | {run_support: verdict})
    draw_before_training(arrays, folder)
    return arrays


def _draw_part(config, painter, params, kind: str, before, folder) -> dict:
    """Draws the figures of one model; returns their arrays."""
    arrays = panels.of_model(config, painter, params, kind)
    draw_parts(before.result() | arrays, folder)
    return arrays


def _front_levels(config, painter, params, rows: dict) -> dict:
    hides = config.model.composition.startswith("occlude")  # depends on the colour sum
    planes = config.data.get("planes", ()) if hides else ()
    n_seeds = len(jax.tree.leaves(params)[0])
    drawn = [painter(rows, tree.take(params, seed))[1][:, 0] for seed in range(n_seeds)]
    return beyond.front_levels(drawn, rows, planes)


def load(config, workdir: pathlib.Path, kind: str = "", step=None) -> checkpoint.Loaded:
    """The trained model `kind` (needed only where the run trained several)."""
    if "encoder" in config.model:
        return unsupervised.load(config, workdir, kind, step)
    kind = checkpoint.choose(kind, config.model.kinds, workdir)
    folder, _ = part(config, workdir, kind)
    names = [f"seed {seed}" for seed in config.train.seeds]
    params, extra, steps = checkpoint.read_trained(folder, names, step)
    predict = models.build(config, kind).predict
    return checkpoint.Loaded(predict, models.join(params, extra), config, steps)


def plan(config) -> dict:
    """How large each model's training is."""
    if "encoder" in config.model:
        return unsupervised.plan(config)
    return {
        kind: program.training_size(experiment(config, models.build(config, kind), {}), config)
        for kind in config.model.kinds
    }


def part(config, workdir: pathlib.Path, kind: str) -> tuple[pathlib.Path, str]:
    """Folder and metric prefix of one model; the workdir and "" if a run trains only one."""
    if len(config.model.kinds) == 1:
        return workdir, ""
    return workdir / kind, f"{kind}/"


def tables(record: list[dict]) -> list[tuple[str, str]]:
    """(title, Markdown) of recorded runs: the headline, beyond the paper, the paper's table."""
    without_latents = [entry for entry in record if entry["row"].startswith("unsupervised_")]
    record = [entry for entry in record if entry not in without_latents]
    sections = [
        ("sprites", markdown.headline_table(record)),
        ("sprites, beyond the paper", markdown.beyond_table(record, BEYOND)),
    ]
    for size, label in sorted({(entry["size"], entry["label"]) for entry in record}):
        rows = markdown.by_row(record, size, label)
        title = f"sprites, size {size}" + (f", {label}" if label else "")
        sections.append((title, table_markdown(rows, rows if label else None)))
    return sections + [
        (f"sprites, {entry['row']}, size {entry['size']}", unsupervised.table(entry["metrics"]))
        for entry in without_latents
    ]


# --- the experiment -------------------------------------------------------------------------------


def experiment(config, model: models.Model, data: dict) -> program.Experiment:
    """One model's training, as the training loop takes it."""
    loss_fn, predict = models.LOSSES[config.optim.loss], model.fast_predict or model.predict
    rates = config.optim
    weight = rates.loss_weight if rates.loss in options.WEIGHTED else 0.0
    scenes_last = parallel.on_nvidia()  # this layout is timed on NVIDIA GPUs only

    def images(rows):
        if scenes_last:
            rows = {name: scenes.side_by_side(rows[name]) for name in ("spans", "colours")}
        return sets.images(rows, config.data.composition)

    def batch(data, indices, key, step):
        return tree.take(data["train"], indices)

    def loss(params, extra, batch, key, step, replica):
        extra = model.scheduled(step)
        value = models.mean_loss(model, params, batch, batch["mask"], rates.loss)
        if value is None:
            prediction = predict(models.join(params, extra), batch["latents"])
            value = loss_fn(prediction, images(batch), batch["mask"], replica["loss_weight"])
        return value, (extra, {})

    def value_and_grad(loss, has_aux):
        # Backward passes of kernels are traced after the loss, so both are in one context.
        return models.in_products(config, jax.value_and_grad(loss, has_aux=has_aux))

    def draw(params, latents):
        size = models.scenes_at_once(len(latents))
        if size == len(latents):
            return predict(params, latents)
        drawn = jax.lax.map(
            lambda z: predict(params, z), latents.reshape(-1, size, latents.shape[1])
        )
        return drawn.reshape(-1, *drawn.shape[2:])

    def evaluate(params, extra, data, key, replica):
        """MSE and R2 per batch, then averaged over batches; error by parts over all scenes."""
        params, size = models.join(params, extra), min(config.eval.batch, config.eval.n)

        def score(chunk):
            image, predicted = images(chunk), draw(params, chunk["latents"])
            target, prediction = image.reshape(size, -1), predicted.reshape(size, -1)
            return (
                metrics.mse(target, prediction),
                metrics.r2_variance_weighted(target, prediction),
                jnp.max(jnp.abs(prediction)),
                beyond.sums(image, predicted, chunk, config.eval.regions),
            )

        # One loop over the batches of both sets, so that the model is compiled once.
        chunks = jax.tree.map(
            lambda *sets: jnp.concatenate(sets).reshape(-1, size, *sets[0].shape[1:]),
            data["id"],
            data["all"],
        )
        scores = jax.lax.map(score, chunks)
        (mse_id, r2_id, *_), (mse_all, r2_all, brightest, parts) = (
            jax.tree.map(lambda leaf, i=i: jnp.split(leaf, 2)[i], scores) for i in range(2)
        )
        scalars = {"mse_id": mse_id, "mse_all": mse_all, "r2_id": r2_id, "r2_all": r2_all}
        scalars = {name: jnp.mean(values) for name, values in scalars.items()}
        scalars |= beyond.scores(parts) | models.sharpness(params)
        # Dead alphas end in an all-black output.
        return {**scalars, "collapsed": (jnp.max(brightest) <= 1e-6).astype(jnp.float32)}, {}

    return program.Experiment(
        data=data,
        replicas=with_numbers(
            {"seed": np.array(config.train.seeds)},
            lr=rates.lr,
            lr_final=rates.lr_final,
            weight_decay=rates.weight_decay,
            loss_weight=weight,
        ),
        init=lambda key, replica: (model.init(key), model.scheduled(0)),
        plan=arrays.epochs(config.data.n_train, config.data.batch),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        tx=functools.partial(optimiser, config),
        headline=("r2_all", "max"),
        grads=value_and_grad,
        compiler_options=SIDE_BY_SIDE if parallel.on_one_nvidia() else None,
    )


def optimiser(config, replica: dict, b1: float = 0.9):
    """AdamW of one replica on the schedule of the config; b1: of its momentum."""
    rates = config.optim
    end = rates.schedule_end or config.train.steps
    schedule = optim.cosine(replica["lr"], replica["lr_final"], end, rates.lr_every)
    return optim.adamw(schedule, replica["weight_decay"], rates.b2, b1)


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
    if not all(alive):  # the paper's mean excludes such seeds; results have both
        results[prefix + "collapsed"] = summary(~alive, seeds, None)
        for name, values in last.items():
            entry = summary(values[alive], seeds[alive], published.get(name))
            results[f"{prefix}{name} (alive)"] = entry
    return results


def _recovery(config, model: models.Model, params, rows: dict, prefix: str) -> dict:
    """R2 of each component alone against its sprite, by seed."""
    r2 = models.recovery(model.slots, params, rows, config.eval.batch)  # [R, K]
    names = ["front", *(f"slot_{k}" for k in range(1, r2.shape[1] - 1)), "back"]
    return {
        f"{prefix}recovery_{name}": summary(values, config.train.seeds, None)
        for name, values in zip(names, r2.T)
    }


def _deaths(config, state) -> dict:
    steps = parallel.fetch(state.died_at)
    return {str(seed): int(step) for seed, step in zip(config.train.seeds, steps) if step >= 0}


def _alpha_census(model: models.Model, config) -> dict:
    """Number of 100 initialisations that start with a dead alpha channel: about 40."""
    latents = scenes.scale_latents(sets.sample_everywhere(config.data, jax.random.key(1), 16))
    keys = jax.random.split(jax.random.key(0), N_ALPHA_DRAWS)
    shares = np.asarray(
        jax.jit(models.alpha_at_initialisation, static_argnums=0)(model, keys, latents)
    )
    dead, alive = int(np.sum(shares == 0)), int(np.sum(shares == 1))
    say(f"alpha at initialisation: {dead} of {N_ALPHA_DRAWS} dead, {alive} alive everywhere")
    return {"alpha_at_initialisation": {"of": N_ALPHA_DRAWS, "dead": dead, "alive": alive}}
