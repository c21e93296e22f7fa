"""Autoencoders with slots, trained on images of a support without their latents.

Wiedemer et al. 2023 train renderers that know the latents and leave open what images alone say. An
encoder maps an image to K slots, a decoder per slot draws its part, and the composition C of the
study joins the parts. Two arms train on the same images: reconstruction alone, and reconstruction
with consistency (Wiedemer et al. 2024), which decodes a random recombination of slots, encodes it
again and compares the slots. Supports, arms and seeds are replicas of one program.

Scores: R2 of the reconstruction, and `analysis.slots`: R2 of the latents that affine maps read off
the slots. The maps are fitted on one half of the scenes of P, and scored on the other half ("id")
and on all combinations ("all"). Three controls are scored alike: an untrained encoder, slots of
other images (shuffled), and a monolithic decoder that draws all slots with one network.
"""

import concurrent.futures
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from cgjax import plots
from cgjax.analysis import slots as identifiability
from cgjax.analysis import stats
from cgjax.core import checkpoint, optim, parallel, program, rng, train, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.core.replicas import Grid, with_numbers
from cgjax.experiments.sprites import audits, scenes, sets
from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels
from cgjax.experiments.sprites.support import openness
from cgjax.nets.broadcast import WindowMLP
from cgjax.nets.mlp import MLP
from cgjax.nets.slots import ENCODERS
from cgjax.published.results import summary

KINDS = ("slots", "monolithic")
ARMS = ("reconstruction", "consistency")
CONTROLS = ("untrained", "shuffled", "monolithic")
N_SLOTS = 2
# Scores leave the shape out: it is a category, and R2 of its number means nothing.
LATENTS = [i for i, name in enumerate(scenes.LATENTS) if name != "shape"]
# Channels outside a sprite: a front slot is well below zero, so that it hides nothing.
DARK, CLEAR = -2.0, -4.0
N_SHOWN = 8  # scenes of the figure
LOWEST = -1.0  # R2 below it is drawn at it


class Model(NamedTuple):
    """Pure functions; images [n, H, W, 3], slots [n, K, d]."""

    init: Callable  # key -> params
    encode: Callable  # params, images -> slots
    parts: Callable  # params, slots -> what each slot draws [K, n, H, W, C]; monolithic: [1, ...]
    decode: Callable  # params, slots -> images


def build(config, kind: str) -> Model:
    """The autoencoder `kind`: a decoder per slot and C, or one decoder of all slots."""
    size, settings = config.data.image_size, config.model
    encoder = ENCODERS[settings.encoder](
        N_SLOTS, settings.slot_size, settings.channels, settings.hidden
    )
    compose, n_channels = COMPOSITIONS[settings.composition], channels(settings.composition)
    shape = (size, size, n_channels)
    whole = MLP((size, size, 3), settings.hidden, n_layers=3, activation="elu")
    part = WindowMLP(shape, settings.window, settings.drawing)

    def init_parts(key):
        if kind == "monolithic":
            return whole.init(key, jnp.zeros((1, N_SLOTS * settings.slot_size)))["params"]
        keys = jax.random.split(key, 1 if settings.shared else N_SLOTS)
        params = jax.vmap(lambda key: part.init(key, jnp.zeros((1, settings.slot_size))))(keys)
        return params["params"] | {"background": _background(n_channels, len(keys))}

    def init(key):
        encoder_key, parts_key = jax.random.split(key)
        params = encoder.init(encoder_key, jnp.zeros((1, size, size, 3)))["params"]
        return {"encoder": params, "decoder": init_parts(parts_key)}

    def parts(params, slots):
        params = params["decoder"]
        if kind == "monolithic":
            return whole.apply({"params": params}, slots.reshape(len(slots), -1))[None]
        axis = None if settings.shared else 0
        params = jax.tree.map(lambda leaf: leaf[0], params) if settings.shared else params
        draw = jax.vmap(lambda p, z: part.apply({"params": p}, z), in_axes=(axis, 1))
        return draw(params, slots)

    def decode(params, slots):
        drawn = parts(params, slots)
        return drawn[0] if kind == "monolithic" else compose(list(drawn))

    def encode(params, images):
        return encoder.apply({"params": params["encoder"]}, images)

    return Model(init, encode, parts, decode)


def _background(n_channels: int, n_decoders: int) -> jax.Array:
    """Initial channels outside the windows [decoders, C]: nothing is hidden, nothing is lit."""
    if n_channels == 4:
        return jnp.tile(jnp.array([[0.0, 0.0, 0.0, CLEAR]]), (n_decoders, 1))
    front = jnp.full((n_decoders - 1, n_channels), DARK)
    return jnp.concatenate([front, jnp.zeros((1, n_channels))])


# --- losses ---------------------------------------------------------------------------------------


def recombined(key: jax.Array, slots: jax.Array) -> jax.Array:
    """Slots [n, K, d] of new scenes: every slot comes from another image of the batch."""
    n, n_slots, _ = slots.shape
    keys = jax.random.split(key, n_slots)
    orders = [jax.random.permutation(key, n) for key in keys]
    return jnp.stack([slots[order, k] for k, order in enumerate(orders)], axis=1)


def inconsistency(model: Model, params, slots: jax.Array, chunk: int = 0) -> jax.Array:
    """Mean squared change of slots [n, K, d] that are decoded and encoded again.

    Each number of the slots counts in units of its variance. No gradient flows into the given
    slots: they are the target. chunk: scenes that are decoded at a time, of which only the slots
    are kept for the gradient; 0: all.
    """
    slots = jax.lax.stop_gradient(slots)
    scale = 1 / (jnp.var(slots, axis=0, keepdims=True) + 1e-4)

    def chunk_error(target):
        again = model.encode(params, model.decode(params, target))
        return jnp.sum(jnp.square(again - target) * scale)

    if not chunk or chunk >= len(slots):
        return chunk_error(slots) / slots.size
    chunks = slots.reshape(-1, chunk, *slots.shape[1:])
    return jnp.sum(jax.lax.map(jax.checkpoint(chunk_error), chunks)) / slots.size


# --- the experiment -------------------------------------------------------------------------------


def check(config) -> None:
    """Checks constraints between keys, which ranges of single keys cannot express."""
    data, model, chunk = config.data, config.model, config.optim.chunk
    if chunk and data.batch % chunk:
        raise BadInput(f"optim.chunk={chunk} must divide data.batch={data.batch}")
    if config.eval.n % config.eval.batch:
        raise BadInput(f"eval.batch={config.eval.batch} must divide eval.n={config.eval.n}")
    if model.window > data.image_size:
        raise BadInput(
            f"model.window={model.window} must be at most data.image_size={data.image_size}"
        )
    if model.shared and channels(model.composition) == 3:
        raise BadInput(
            "model.shared=True needs opacities, model.composition=alpha_sigmoid: with occlusion by "
            "brightness the background of a front slot is negative, that of the last one zero"
        )


def make(config) -> dict:
    """Images uint8 and latents: "train" [S, n, H, W, 3], "id" [S, m, ...], "all" [m, ...].

    `variance`: of the images, the mean over pixels: "train" and "id" [S], "all" a number.
    """
    data = config.data
    key = rng.stream(jax.random.key(data.seed), "data")
    train_key, id_key, all_key = jax.random.split(key, 3)
    definitions = [
        audits.support_data(config, **sets.SUPPORTS[support]) for support in data.supports
    ]
    everywhere = _scenes(config, sets.sample_everywhere(definitions[0], all_key, config.eval.n))
    parts = {"train": (train_key, data.n_train), "id": (id_key, config.eval.n)}
    made = {
        name: [_scenes(config, sets.sample(each, key, n)) for each in definitions]
        for name, (key, n) in parts.items()
    }
    made = {name: jax.tree.map(lambda *rows: np.stack(rows), *each) for name, each in made.items()}
    return made | {"all": everywhere}


def _scenes(config, raw) -> dict:
    rows = scenes.describe(raw, config.data.image_size)
    images = np.asarray(jax.jit(sets.images, static_argnums=1)(rows, config.data.composition))
    latents = np.asarray(rows["latents"]).reshape(len(images), N_SLOTS, -1)[..., LATENTS]
    variance = np.var(images.reshape(len(images), -1), axis=0).mean()
    as_bytes = np.round(255 * images).astype(np.uint8)
    return {"images": as_bytes, "latents": latents, "variance": np.float32(variance)}


def _unit(images):
    return images.astype(jnp.float32) / 255


def experiment(config, kind: str, data: dict) -> tuple[program.Experiment, Grid]:
    """One autoencoder's training on all supports; the monolithic one without consistency."""
    model, rates = build(config, kind), config.optim
    weights = (0.0,) if kind == "monolithic" else (0.0, rates.consistency)
    grid = Grid(seed=config.train.seeds, support=range(len(config.data.supports)), weight=weights)

    end = rates.schedule_end or config.train.steps

    def sets_in(step):
        """From 0 to 1 within a tenth of training: slots that hold nothing yet would collapse."""
        return jnp.clip((step / end - rates.consistency_from) / 0.1, 0.0, 1.0)

    def loss(params, extra, batch, key, step, replica):
        index_key, mix_key = jax.random.split(key)
        rows, support = batch["train"], replica["support"]
        index = jax.random.randint(index_key, (config.data.batch,), 0, config.data.n_train)
        images = _unit(rows["images"][support, index])
        slots = model.encode(params, images)
        error = jnp.mean(jnp.square(model.decode(params, slots) - images))
        error /= rows["variance"][support]
        if not any(weights):
            return error, (extra, {"error": error})
        mixed = recombined(mix_key, slots)
        changed = inconsistency(model, params, mixed, rates.chunk)
        value = error + replica["weight"] * sets_in(step) * changed
        return value, (extra, {"error": error, "inconsistency": changed})

    def r2(params, rows):
        chunks = rows["images"].reshape(-1, config.eval.batch, *rows["images"].shape[1:])

        def chunk_error(images):
            images = _unit(images)
            return jnp.mean(jnp.square(model.decode(params, model.encode(params, images)) - images))

        return 1 - jnp.mean(jax.lax.map(chunk_error, chunks)) / rows["variance"]

    def evaluate(params, extra, data, key, replica):
        of_support = jax.tree.map(lambda rows: rows[replica["support"]], data["id"])
        return {"r2_id": r2(params, of_support), "r2_all": r2(params, data["all"])}, {}

    def tx(replica):
        return optim.adamw(optim.cosine(replica["lr"], replica["lr_final"], end, 1), 0.0)

    replicas = with_numbers(grid.replicas(), lr=rates.lr, lr_final=rates.lr_final)
    replicas["weight"] = replicas["weight"].astype(np.float32)
    return program.Experiment(
        data=data,
        replicas=replicas,
        init=lambda key, replica: (model.init(key), {}),
        plan=None,
        batch=lambda data, indices, key, step: {"train": data["train"]},
        loss=loss,
        evaluate=evaluate,
        tx=tx,
        headline=None,
        identity=grid.identity,
    ), grid


def plan(config) -> dict:
    """How large each model's training is."""
    return {
        kind: program.training_size(experiment(config, kind, {})[0], config)
        for kind in config.model.kinds
    }


def load(config, workdir: pathlib.Path, kind: str = "", step=None) -> checkpoint.Loaded:
    """The trained autoencoder `kind`: images [n, H, W, 3] -> their reconstruction."""
    kind = checkpoint.choose(kind, config.model.kinds, workdir)
    model, (trained, _) = build(config, kind), experiment(config, kind, {})
    names = train.replica_names(trained)  # in float32, as they were saved
    params, _, steps = checkpoint.read_trained(workdir / kind, names, step)

    def predict(params, images):
        return model.decode(params, model.encode(params, images))

    return checkpoint.Loaded(predict, params, config, steps)


# --- one run --------------------------------------------------------------------------------------


def run(config, workdir: pathlib.Path, figures: bool = True) -> tuple[dict, dict, dict]:
    """Trains all arms on all supports, scores them and the controls: (metrics, arrays, extra)."""
    data = make(config)
    with concurrent.futures.ThreadPoolExecutor(1) as background:
        audited = background.submit(unknown, config)
        scores, extra, arrays = {}, {}, {}
        for kind in config.model.kinds:
            trained, grid = experiment(config, kind, data)
            state, history = train.fit(trained, config, workdir / kind, kind)
            extra[kind] = {"train_s": history["wall_s"]}
            last = {name: history["eval"][name][-1] for name in ("r2_id", "r2_all")}
            codes = codes_of(config, kind, state.params, data, grid)
            scores |= arm_scores(kind, grid, last, codes, data)
            if kind == "slots":
                start = train.initial(trained, config).params
                codes = codes_of(config, kind, start, data, grid)
                scores["untrained"] = slot_scores(grid, codes, data, arm=0)
                if figures:
                    arrays = examples(config, state.params, data, grid)
        openings = audited.result()
    metrics, sentences = results(config, scores, openings)
    for sentence in sentences:
        say(sentence)
    arrays |= {"supports": np.array(config.data.supports), "unknown": openings}
    arrays |= {f"{arm}/{name}": x for arm, each in scores.items() for name, x in each.items()}
    if figures:
        draw(arrays, pathlib.Path(workdir) / "figures")
    return metrics, arrays, extra | {"words": sentences}


def unknown(config) -> np.ndarray:
    """The share of f's deviation on Q that each support leaves open if latents are known [S]."""
    data = config.data
    names = ("seed", "image_size", "n_samples", "n_asked", "n_pixels", "lengths", "noise")
    asked = ml_collections.ConfigDict({"data": {name: data[name] for name in names}})
    random = sets.SUPPORTS["random"]
    length = openness.resolved_length(
        data.lengths, lambda length: openness.ask(asked, random, length, data.noise)[0]
    )
    definitions = [sets.SUPPORTS[support] for support in data.supports]
    return np.array([openness.ask(asked, each, length, data.noise)[0] for each in definitions])


def codes_of(config, kind: str, params, data: dict, grid: Grid) -> dict:
    """{"id", "all"}: the slots of evaluation scenes, [*grid, n, K, d]."""
    model, support = build(config, kind), grid.replicas()["support"]

    @jax.jit
    def encode(params, images):
        return model.encode(params, _unit(images))

    codes = {"id": [], "all": []}
    for replica in range(len(support)):
        of_replica = tree.take(params, replica)
        codes["id"].append(encode(of_replica, data["id"]["images"][support[replica]]))
        codes["all"].append(encode(of_replica, data["all"]["images"]))
    return grid.by_axes({name: np.stack(parallel.fetch(each)) for name, each in codes.items()})


def arm_scores(kind: str, grid: Grid, last: dict, codes: dict, data: dict) -> dict:
    """{arm: {metric: [seeds, S]}} of a trained model; with slots of other images as a control."""
    arms = ("monolithic",) if kind == "monolithic" else ARMS
    by_axes = grid.by_axes(last)
    scores = {
        name: {metric: values[..., arm] for metric, values in by_axes.items()}
        | slot_scores(grid, codes, data, arm)
        for arm, name in enumerate(arms)
    }
    if kind == "slots":
        order = np.random.default_rng(0).permutation(codes["id"].shape[3])
        shuffled = {name: code[:, :, :, order] for name, code in codes.items()}
        scores["shuffled"] = slot_scores(grid, shuffled, data, arm=0)
    return scores


def slot_scores(grid: Grid, codes: dict, data: dict, arm: int) -> dict:
    """{"slots_id", "slots_all"}: mean R2 of the latents that maps of P read off slots, [seeds, S].

    "id" is the half of P's scenes on which the maps are not fitted.
    """
    n_seeds, n_supports = grid.shape[:2]
    scores = {name: np.zeros((n_seeds, n_supports)) for name in ("slots_id", "slots_all")}
    half = codes["id"].shape[3] // 2
    for seed, support in np.ndindex(n_seeds, n_supports):
        on_p, on_q = (codes[name][seed, support, arm] for name in ("id", "all"))
        known, asked = data["id"]["latents"][support], data["all"]["latents"]
        maps = identifiability.fit(on_p[:half], known[:half])
        r2 = identifiability.r2
        scores["slots_id"][seed, support] = r2(maps, on_p[half:], known[half:]).mean()
        scores["slots_all"][seed, support] = r2(maps, on_q, asked).mean()
    return scores


def results(config, scores: dict, openings: np.ndarray) -> tuple[dict, list[str]]:
    """Metrics and sentences: scores by support, the order of supports, the share of the gap."""
    seeds, supports = config.train.seeds, config.data.supports
    metrics = {
        f"{support}: unknown": summary([openings[i]], [config.data.seed], None)
        for i, support in enumerate(supports)
    }
    metrics |= {
        f"{support}: {metric}, {arm}": summary(values[:, i], seeds, None)
        for arm, by_metric in scores.items()
        for metric, values in by_metric.items()
        for i, support in enumerate(supports)
    }
    sentences = []
    # The controls have an order too: maps fitted on planes go wrong elsewhere, whatever the slots.
    for arm, by_metric in scores.items():
        outside = by_metric["slots_all"]
        taus = [stats.kendall_tau_b(-openings, of_seed) for of_seed in outside]
        low, high = stats.bootstrap(stats.kendall_tau_b, -openings, outside.mean(0))
        metrics[f"tau-b(unknown, slots_all), {arm}"] = summary(taus, seeds, None)
        for end, value in (("2.5", low), ("97.5", high)):
            name = f"tau-b(unknown, slots_all), {arm}, {end} % over supports"
            metrics[name] = summary([value], [config.data.seed], None)
        sentences.append(
            f"{arm}: tau-b of minus unknown with slot R2 outside {np.mean(taus):+.2f} (mean of "
            f"{len(taus)} seeds), 95 % over supports [{low:+.2f}, {high:+.2f}]"
        )
    learned = scores["reconstruction"]["slots_all"] - scores["untrained"]["slots_all"]
    taus = [stats.kendall_tau_b(-openings, of_seed) for of_seed in learned]
    metrics["tau-b(unknown, slots_all beyond untrained), reconstruction"] = summary(
        taus, seeds, None
    )
    plain, consistent = (scores[arm] for arm in ARMS)
    gap = (plain["slots_id"] - plain["slots_all"]).mean(1)
    gain = (consistent["slots_all"] - plain["slots_all"]).mean(1)
    metrics["gap of slots, reconstruction"] = summary(gap, seeds, None)
    metrics["gain of consistency outside"] = summary(gain, seeds, None)
    metrics["share of the gap that consistency closes"] = summary(gain / gap, seeds, None)
    sentences.append(
        f"consistency adds {gain.mean():+.3f} to slot R2 outside, of a gap of {gap.mean():.3f}: "
        f"share {np.mean(gain / gap):+.2f}"
    )
    return metrics, sentences


def examples(config, params, data: dict, grid: Grid) -> dict:
    """`examples/<support>` [4, n, H, W, 3]: new scenes, their reconstruction, both slots."""
    model, shown = build(config, "slots"), _unit(jnp.asarray(data["all"]["images"][:N_SHOWN]))

    @jax.jit
    def show(params):
        slots = model.encode(params, shown)
        drawn = model.parts(params, slots)
        if drawn.shape[-1] == 4:
            drawn = drawn[..., :3] * jax.nn.sigmoid(drawn[..., 3:])
        return jnp.stack([shown, model.decode(params, slots), *drawn])

    rows = np.arange(np.prod(grid.shape)).reshape(grid.shape)[0, :, 0]  # first seed, first arm
    return {
        f"examples/{support}": np.asarray(show(tree.take(params, row)))
        for support, row in zip(config.data.supports, rows)
    }


def score_table(metrics: dict) -> list[tuple[str, ...]]:
    """Rows of cells from a run's metrics, header first: supports in the order of `unknown`."""
    columns = {
        "slots, known": ("slots_id", "reconstruction"),
        "slots, all": ("slots_all", "reconstruction"),
        "with consistency": ("slots_all", "consistency"),
        "monolithic": ("slots_all", "monolithic"),
        "untrained": ("slots_all", "untrained"),
        "shuffled": ("slots_all", "shuffled"),
        "images, all": ("r2_all", "reconstruction"),
    }
    opened = {
        name.removesuffix(": unknown"): metric["ours"]
        for name, metric in metrics.items()
        if name.endswith(": unknown")
    }
    rows = [("support", "unknown", *columns)]
    for support in sorted(opened, key=opened.get):
        cells = [metrics.get(f"{support}: {m}, {arm}") for m, arm in columns.values()]
        shown = [_with_interval(cell["values"]) if cell else "-" for cell in cells]
        rows.append((f"`{support}`", f"{opened[support]:.3f}", *shown))
    return rows


def table(metrics: dict) -> str:
    """`score_table` in Markdown."""
    header, *rows = score_table(metrics)
    lines = [header, ("---",) + ("---:",) * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _with_interval(values) -> str:
    mean, half = stats.mean_and_interval(values)
    return f"{mean:.2f}" + (f" ± {half:.2f}" if len(values) > 1 else "")


# --- figures --------------------------------------------------------------------------------------

STYLES = {  # arm and metric: label, marker, colour
    ("reconstruction", "slots_id"): ("known combinations", "o", plots.GREY),
    ("reconstruction", "slots_all"): ("all combinations", "o", plots.COLOURS[0]),
    ("consistency", "slots_all"): ("all, with consistency", "s", plots.COLOURS[1]),
    ("monolithic", "slots_all"): ("all, monolithic decoder", "^", plots.COLOURS[2]),
}


def draw(arrays: dict, folder: pathlib.Path) -> list[pathlib.Path]:
    """Slot R2 by support against what the support leaves open; examples of new scenes."""
    drawn = [draw_scores(arrays, folder / "slots.png")]
    if blocks := [name for name in arrays if name.startswith("examples/")]:
        drawn.append(draw_examples({name: arrays[name] for name in blocks}, folder))
    return drawn


@plots.styled
def draw_scores(arrays: dict, path: pathlib.Path) -> pathlib.Path:
    """Slot R2 of every support, in the order of `unknown`: means large, seeds small.

    Reads supports [S], unknown [S] and <arm>/slots_id, <arm>/slots_all [seeds, S]. Values below
    LOWEST are drawn there.
    """
    order = np.argsort(arrays["unknown"])
    fig = plots.new_figure(plots.PAGE, 4.6, layout="constrained")
    ax = fig.subplots()
    place = np.arange(len(order))
    for i, ((arm, metric), (label, marker, colour)) in enumerate(STYLES.items()):
        if f"{arm}/{metric}" not in arrays:
            continue
        values = np.asarray(arrays[f"{arm}/{metric}"])[:, order]
        at = place + 0.15 * (i - (len(STYLES) - 1) / 2)
        seeds = np.maximum(values, LOWEST).ravel()
        ax.plot(np.tile(at, len(values)), seeds, ".", color=colour, markersize=3)
        means = np.maximum(values.mean(0), LOWEST)
        ax.plot(at, means, marker, color=colour, markersize=6, label=label)
    for control, style in (("shuffled", ":"), ("untrained", "--")):
        level = np.asarray(arrays[f"{control}/slots_all"]).mean(0)[order]
        ax.plot(place, level, style, color=plots.INK, linewidth=1, label=f"all, {control}")
    ax.axhline(0, color=plots.FAINT, linewidth=1, zorder=0)
    names = [str(arrays["supports"][i]).replace("_", "\n") for i in order]
    labels = [f"{arrays['unknown'][i]:.3f}\n{name}" for name, i in zip(names, order)]
    ax.set_xticks(place, labels, fontsize=8)
    ax.set(ylabel="R2 of latents read off the slots", ylim=(LOWEST - 0.05, 1.02))
    ax.set_xlabel("share of f that the support leaves open if latents are known, and the support")
    ax.grid(axis="y", **plots.GRID)
    plots.legend_below(fig, ax)
    note = f"small: seeds; at {LOWEST:g}: {LOWEST:g} or less"
    plots.headline(fig, f"Slots from images alone, by support ({note})")
    return plots.save(fig, path)


def draw_examples(blocks: dict, folder: pathlib.Path) -> pathlib.Path:
    """New scenes of every support's autoencoder, first seed, trained on reconstruction alone."""
    rows = ("scene", "drawn", "slot 1", "slot 2")
    grids = [
        plots.Block(dict(zip(rows, images)), name.removeprefix("examples/").replace("_", " "))
        for name, images in blocks.items()
    ]
    title = "New combinations of sprites, as autoencoders of each support draw them"
    return plots.save(plots.image_grid(grids, title, width=400), folder / "slot_examples.png")
