"""Benchmarks of the sprites study: speed of the train step, of rendering and of the support audit;
jumps of the training loss, one of them step by step, and what prevents them; errors of gradients.

Absolute times are printed too, but only the ratios within one run matter.
"""

import importlib.util
import math
import time

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax import config as configs
from cgjax.analysis import support as theory
from cgjax.bench.harness import fastest, ratios, seconds_per_step, table, torch_seconds
from cgjax.core import parallel, program, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.experiments.sprites import (
    audits,
    backgrounds,
    interventions,
    jumps,
    models,
    scenes,
    sets,
)
from cgjax.experiments.sprites import run as sprites
from cgjax.experiments.sprites.compositions import COMPOSITIONS

SEEDS = 5  # as in the paper


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints both tables; batch and steps of 0 mean the backend's default."""
    on_cpu = jax.default_backend() == "cpu"
    batch, steps = batch or (64 if on_cpu else 512), steps or (2 if on_cpu else 1000)
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · batch {batch} · scan of {steps}")
    ratios("train step, compositional model", "ms per step", train_steps(batch, steps))
    ratios("render 64 x 64 RGB uint8", "µs per sprite", rendering(1024 if on_cpu else 1_000_000))


# --- training -------------------------------------------------------------------------------------


def train_steps(batch: int, steps: int) -> dict:
    """ms per optimiser step: gather, forward, backward, AdamW, as the loop runs them.

    Each is printed as soon as it is timed, so that an interrupted benchmark shows it.
    """
    rows = {}

    def add(name, seconds):
        rows[name] = 1e3 * seconds
        say(f"{name}: {rows[name]:.3f} ms")

    add("ours", jax_step(batch, steps, "auto"))
    if jax.default_backend() != "cpu":
        add("ours, bfloat16 activations", jax_step(batch, steps, "auto", "bfloat16"))
        add("ours, products in float32", jax_step(batch, steps, "auto", products="float32"))
        for products in models.PRODUCTS:
            several = jax_step(batch, steps, "auto", products=products, seeds=range(SEEDS))
            digits = ", products in float32" if products == "float32" else ""
            add(f"ours, {SEEDS} seeds at once{digits}, per seed", several / SEEDS)
    add("upsample, then convolve", jax_step(batch, steps, "direct"))
    if importlib.util.find_spec("torch"):
        eager, compiled = torch_steps(batch)
        add("PyTorch, eager", eager)
        add("torch.compile", compiled)
    else:
        say("torch is not installed: no comparison with PyTorch")
    return rows


def jax_step(
    batch: int,
    steps: int,
    form: str,
    dtype: str = "float32",
    products: str = "default",
    seeds=(0,),
) -> float:
    """Seconds per step of all seeds of the published compositional model, in the loop's call."""
    config = configs.load("sprites:orthogonal_compositional,paper")
    config.train.seeds = tuple(seeds)
    config.data.update({"n_train": 20_000, "batch": batch})
    config.eval.n = 1000
    config.model.update({"form": form, "dtype": dtype, "products": products})
    model = models.build(config, "compositional")
    experiment = sprites.experiment(config, model, sets.make(config))
    return seconds_per_step(experiment, config, steps)


def torch_steps(batch: int) -> tuple[float, float]:
    """Seconds per step of the same two decoders in PyTorch: eager and torch.compile."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")

    slots = torch.nn.ModuleList([jumps.torch_decoder(), jumps.torch_decoder()]).to(device)
    optimiser = torch.optim.AdamW(slots.parameters(), lr=1e-3, weight_decay=1e-5)
    z = torch.rand(batch, 10, device=device)
    target = torch.rand(batch, 3, 64, 64, device=device)
    loss = jumps.torch_loss(slots)
    return torch_seconds(lambda: loss(z, target), optimiser, device == "cuda")


# --- rendering ------------------------------------------------------------------------------------


def rendering(n: int) -> dict:
    """µs per sprite: our renderer in calls of n sprites, and Pillow polygons in a loop on one core.

    On a CPU, calls with larger n would measure how fast the system allocates memory.
    """
    raw = jax.random.uniform(jax.random.key(0), (n, 5))
    scaled = scenes.scale_latents(raw)
    rows = {"ours": 1e6 * fastest(lambda: scenes.render_u8(scaled).block_until_ready()) / n}
    if importlib.util.find_spec("PIL"):
        few = np.asarray(scaled[:1024], np.float64)
        rows["Pillow polygon loop, one core"] = 1e6 * fastest(lambda: pillow_loop(few)) / len(few)
    else:
        say("Pillow is not installed: no comparison for rendering")
    return rows


def pillow_loop(scaled: np.ndarray, size: int = 64) -> np.ndarray:
    """Draws one sprite at a time: vertices, polygon, flip; the colour is constant."""
    from PIL import Image, ImageDraw

    shapes = []
    for n, start in ((3, math.pi / 2), (4, math.pi / 4), (30, 0.0)):
        angles = start + 2 * math.pi * np.arange(n) / n
        radius = 1 / math.sqrt(n * math.sin(math.pi / n) * math.cos(math.pi / n))
        shapes.append(radius * np.stack([np.cos(angles), np.sin(angles)], axis=1))
    images = np.empty((len(scaled), size, size, 3), np.uint8)
    for i, (x, y, shape, scale, _) in enumerate(scaled):
        vertices = (size * (scale * shapes[int(shape)] + (x, y))).astype(int)
        canvas = Image.new("RGB", (size, size))
        ImageDraw.Draw(canvas).polygon([tuple(v) for v in vertices.tolist()], fill=(255, 128, 0))
        images[i] = np.asarray(canvas)[::-1]
    return images


# --- jumps ----------------------------------------------------------------------------------------
# Jumps of the training loss by implementation: the same seeds, weights and batches in each.


JUMP_SEEDS, EPOCHS = 8, 60


def run_jumps(batch: int = 0, steps: int = 0) -> None:
    """Trains eight seeds for 60 epochs with every implementation and prints the table.

    On a CPU: two seeds, three epochs of 1,280 scenes. steps: epochs, where not 0.
    """
    on_cpu = jax.default_backend() == "cpu"
    config = jumps.configure(range(2 if on_cpu else JUMP_SEEDS))
    if on_cpu:
        jumps.shorten(config, 1280, batch or 64)
    n_epochs, data = steps or (3 if on_cpu else EPOCHS), sets.make(config)
    entries = []
    for name, how in jumps.IMPLEMENTATIONS.items():
        losses = np.concatenate([loss for _, loss in jumps.epochs(config, how, n_epochs, data)])
        entries.append(jumps.entry(name, losses, config))
        say(f"{name}: largest rises {np.round(entries[-1]['largest_rise'], 3).tolist()}")
    if importlib.util.find_spec("torch"):
        each = [
            np.concatenate(list(jumps.torch_epochs(config, seed, n_epochs, data)))
            for seed in range(len(config.train.seeds))
        ]
        entries.append(jumps.entry("pytorch", np.stack(each, axis=1), config))
    columns = ("implementation", "seeds", "with a jump", "95 % interval of their share")
    table("jumps of the training loss", columns, [jumps.count(entry) for entry in entries])


# --- replay ---------------------------------------------------------------------------------------
# The epoch in which the loss rises most, once more, one step at a time: are its gradients right,
# how large are AdamW's updates, and how far is it from its limit of stability?


REPLAY_SEEDS = 2  # 0 and 1: their loss jumps in every recorded implementation
MEASURED = 4  # steps of the epoch at which sharpness is measured, at most


def run_replay(batch: int = 0, steps: int = 0) -> None:
    """Trains two seeds for 60 epochs, replays the epoch that rises most and prints two tables.

    On a CPU: one seed of a small decoder, six epochs of 128 scenes. steps: epochs, where not 0.
    """
    on_cpu, one_step = jax.default_backend() == "cpu", None
    config, n_epochs, n_scenes = compared_epochs(1 if on_cpu else REPLAY_SEEDS, batch, steps)
    n_iterations = 8 if on_cpu else 20
    data = sets.make(config)
    if on_cpu:  # compiling takes longer than the training: one program for both
        one_step = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], 1, data)
    rise = jumps.largest_epoch(config, n_epochs, data, one_step)
    seed, length = config.train.seeds[rise.seed_index], config.optim.lr_every
    say(f"seed {seed}, epoch {rise.epoch}: mean loss {rise.share:+.1%} from the least before it")
    replay, sharpness = replayed(config, rise, data, n_scenes, n_iterations, one_step)
    errors = np.abs(replay.loss / replay.exact_loss - 1)
    say(f"loss of {length} steps: {replay.loss[0]:.3g} to {replay.loss[-1]:.3g}")
    say(f"largest relative error of the loss against float64: {errors.max():.1e}")
    columns = ("leaf", "error", "largest", "plain form's", "gradient grows", "update grows")
    say("growth: the largest norm of the epoch over the median")
    table("gradients against the plain form in float64", columns, replay_rows(replay))
    columns = ("step", "largest eigenvalue of P^-1 H", "share of AdamW's limit of stability")
    table("sharpness", columns, [(f"{i:,}", f"{e:,.0f}", f"{s:.2f}") for i, e, s in sharpness])


def compared_epochs(n_seeds: int, batch: int, steps: int) -> tuple:
    """(config, number of epochs, scenes of the Hessian) of a training whose epochs are compared.

    On a CPU: a small decoder, six epochs of 128 scenes. batch, steps: of the flags.
    """
    config, on_cpu = jumps.configure(range(n_seeds)), jax.default_backend() == "cpu"
    n_epochs = steps or (6 if on_cpu else EPOCHS)
    if n_epochs < 2:
        raise BadInput(f"--steps={n_epochs}: epochs are compared with earlier ones: set at least 2")
    if on_cpu:
        shrink(config, batch)
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · {n_epochs} epochs")
    return config, n_epochs, 32 if on_cpu else 2048


def shrink(config, batch: int) -> None:
    """A small decoder and 128 scenes, for a CPU."""
    jumps.shorten(config, 128, batch or 16)
    config.model.component.update({"hidden": 32, "channels": 8})


def replayed(
    config, rise: jumps.Rise, data, n_scenes: int, n_iterations: int, one_step=None
) -> tuple:
    """(`jumps.Replay` of the epoch, [(step, sharpness, its share of the limit), ...]).

    Sharpness is measured on n_scenes training scenes, by n_iterations from the vector before.
    one_step: the program of `jumps.replay`, if it is already compiled.
    """
    length, rate = config.optim.lr_every, jumps.rate_of(config, rise.epoch)
    sharpness, measured = jumps.sharpness_fn(config, data, n_scenes, n_iterations), []
    vector = None

    def look(i, params, second_moment):
        nonlocal vector
        if i % max(length // MEASURED, 1):
            return
        if vector is None:
            vector = np.random.default_rng(0).standard_normal(second_moment.shape, np.float32)
        step = rise.epoch * length + i
        value, vector = sharpness(params, second_moment, float(step), vector)
        measured.append((step, value, value * rate / jumps.THRESHOLD))

    epoch = (rise.epoch, rise.seed_index)
    return jumps.replay(config, rise.state, *epoch, data, look, one_step), measured


def replay_rows(replay: jumps.Replay) -> list[tuple]:
    """A row for each leaf: errors of its gradient, growth of its gradient and of its update."""
    return [
        (
            leaf,
            f"{np.median(errors):.1e}",
            f"{errors.max():.1e}",
            f"{replay.plain_error[leaf].max():.1e}",
            *(f"{values.max() / np.median(values):.1f} x"
              for values in (replay.norm[leaf], replay.update[leaf])),
        )
        for leaf, errors in replay.error.items()
    ]  # fmt: skip


# --- interventions --------------------------------------------------------------------------------


def run_interventions(batch: int = 0, steps: int = 0) -> None:
    """Trains eight seeds for 60 epochs and changes the optimiser before their jumps.

    On a CPU: two seeds of a small decoder, six epochs of 128 scenes. steps: epochs, where not 0.
    """
    on_cpu = jax.default_backend() == "cpu"
    config, n_epochs, n_scenes = compared_epochs(2 if on_cpu else JUMP_SEEDS, batch, steps)
    n_iterations = 8 if on_cpu else 100
    data = sets.make(config)
    begun = interventions.starts(config, n_epochs, data)
    sharpness = jumps.sharpness_fn(config, data, n_scenes, n_iterations)
    for start in begun:
        share = interventions.share_of_limit(config, start, sharpness)
        say(
            f"seed {config.train.seeds[start.seed_index]}: from epoch {start.epoch} on, "
            f"{'before its first jump' if start.jumps else 'no jump'}; largest eigenvalue at "
            f"{share:.2f} of the limit of stability"
        )
    largest = interventions.rises(config, begun, data)
    columns = (
        "change", "limit, relative", "noise, relative", "if the limit decides",
        "if the noise decides", "jump, of seeds that jump", "of the others",
        "largest rise of each seed, %",
    )  # fmt: skip
    title = f"{interventions.LEAD + 1} epochs with another optimiser"
    table(title, columns, interventions.table_rows(begun, largest))


# --- backgrounds ----------------------------------------------------------------------------------


def run_backgrounds(batch: int = 0, steps: int = 0) -> None:
    """Trains five seeds of two rows at `fast` in three settings: background and loss by epoch.

    On a CPU: two seeds of a small decoder, two epochs of 128 scenes. steps: epochs, where not 0.
    """
    on_cpu, rows = jax.default_backend() == "cpu", []
    for row in backgrounds.ROWS:
        config = jumps.configure(range(2 if on_cpu else SEEDS), row)
        if on_cpu:
            shrink(config, batch)
        n_epochs = steps or (2 if on_cpu else config.train.steps // config.optim.lr_every)
        data = sets.make(config)
        for name, setting in backgrounds.SETTINGS.items():
            trained = backgrounds.train(config, setting, n_epochs, data)
            rows.append(backgrounds.table_row(row, name, trained))
            say(": ".join((row, name, *rows[-1][2:])))
    columns = (
        "row",
        "setting",
        "bright at the end",
        "pairs: the bright seed's loss is higher",
        "background at the end",
        "bright epochs of each seed",
        "R2, all",
    )
    table(f"{n_epochs} epochs", columns, rows)


# --- gradients ------------------------------------------------------------------------------------
# Are the train steps of sprites right? Gradients of the loop's program against the plain form.
#
# Two tables: errors of the gradients of real training steps, leaf by leaf, and whether the same
# training repeats itself bit for bit. Both use the loop's own program for several seeds.


GRADIENT_SEEDS = 5
STEPS = 20_000  # of every seed
REPEATS, REPEAT_STEPS = 200, 100
FETCHED = 1000  # steps whose errors come to the host at a time


def run_gradients(batch: int = 0, steps: int = 0) -> None:
    """Prints both tables. On a CPU: two seeds, four steps of a small batch, two repeats.

    steps: of the first table, where not 0; the second has at most as many repeats.
    """
    on_cpu = jax.default_backend() == "cpu"
    config = jumps.configure(range(2 if on_cpu else GRADIENT_SEEDS))
    if on_cpu:
        jumps.shorten(config, 320, batch or 32)
    data = sets.make(config)
    errors = gradient_errors(config, data, steps or (4 if on_cpu else STEPS))
    rows = [
        (leaf, f"{np.median(values):.1e}", f"{values.max():.1e}") for leaf, values in errors.items()
    ]
    n_gradients = next(iter(errors.values())).size
    columns = ("leaf", "median", "largest")
    table(f"errors of {n_gradients:,} gradients over the leaf's median norm", columns, rows)
    n_repeats, n_steps = (2, 2) if on_cpu else (min(REPEATS, steps or REPEATS), REPEAT_STEPS)
    n_other = different_repeats(config, data, n_repeats, n_steps)
    say(f"{n_other} of {n_repeats} repeats of {n_steps} steps differ from the first")


def gradient_errors(config, data, n_steps: int) -> dict:
    """leaf -> errors [n_steps, R] of the program's gradients, over the median norm of the leaf's.

    The reference is the plain form with float32 products, on the same parameters and batches. The
    program's gradient follows from AdamW's first moment.
    """
    one_step = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], 1, data)
    model = jumps.plain_model(config, "float32")

    def loss(params, batch):
        images = sets.images(batch, config.data.composition)
        return models.squared_error(model.predict(params, batch["latents"]), images, batch["mask"])

    def compare_replica(params, old_mean, new_mean, indices, mask):
        """leaf -> norms [2, slots] of the gradient's error and of the exact gradient."""
        batch = tree.take(data["train"], indices[0]) | {"mask": mask[0]}
        exact = jax.grad(loss)(params, batch)
        unravel = ravel_pytree(params)[1]
        gradient = unravel((new_mean - jumps.B1 * old_mean) / (1 - jumps.B1))

        def norms(leaf, reference):
            pair = jnp.stack([leaf - reference, reference])
            return jnp.sqrt(jnp.sum(pair**2, tuple(range(2, pair.ndim))))

        return tree.flat(jax.tree.map(norms, gradient, exact))

    compare = jax.jit(jax.vmap(compare_replica))
    state, history, pending = one_step.init(), [], []
    for step in range(n_steps):
        rows = one_step.rows(step)
        # The call takes over the state's buffers.
        params, old_mean = jax.tree.map(jnp.copy, (state.params, _first_moment(state)))
        state, _ = one_step.call(state, rows)
        with jax.default_matmul_precision("highest"):
            pending.append(compare(params, old_mean, _first_moment(state), *rows))
        if len(pending) == FETCHED or step == n_steps - 1:
            history += jax.device_get(pending)
            pending = []
            say(f"{step + 1:,} of {n_steps:,} steps compared")
    errors = {}
    for leaf in history[0]:
        norms = np.stack([entry[leaf] for entry in history])  # [steps, R, 2, slots]
        for k, slot in enumerate(("front", "back")):
            errors[f"{slot}/{leaf}"] = norms[:, :, 0, k] / np.median(norms[:, :, 1, k])
    return errors


def _first_moment(state: program.State) -> jax.Array:
    """AdamW's first moment of all replicas [R, N]."""
    return jumps.adam_state(state.opt_state).mu


def different_repeats(config, data, n_repeats: int, n_steps: int) -> int:
    """How many repeats of a training end with other bits than the first."""
    call = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], n_steps, data)

    def final_checksums():
        state, stats = call.call(call.init(), call.rows(0))
        leaves = jax.device_get(jax.tree.leaves((state.params, stats["loss"])))
        return [tree.checksum(leaf) for leaf in leaves]

    first = final_checksums()
    return sum(final_checksums() != first for _ in range(n_repeats))


# --- support --------------------------------------------------------------------------------------
# Speed of the support audit: at full size, and blocks per pixel against the dense Jacobian.


N_VALUES = 256
N_VALUES_DENSE = 4  # two partners each: eight points
SIZES = (64, 16)  # pixels: of the full-size audit, of the one against dense Jacobians


def run_support(batch: int = 0, steps: int = 0) -> None:
    """Prints the times and a table; batch and steps are not used."""
    say(f"jax {jax.__version__} · {parallel.describe_devices()}")
    for composition in ("occlude_step", "occlude_sigmoid"):
        seconds = full_size(composition)
        say(f"64 x 64, {N_VALUES} values of each slot, {composition}: {seconds:.1f} s")
    ratios("8 points at 16 x 16, sigmoid occlusion", "ms", against_dense())


def full_size(composition: str) -> float:
    """Seconds of one whole audit, compilation and rendering included."""
    started = time.perf_counter()
    for component in (0, 1):
        audits.audit(
            _data(SIZES[0]),
            composition,
            component,
            jax.random.key(component),
            n_values=N_VALUES,
            n_partners=1,
        )
    return time.perf_counter() - started


def against_dense() -> dict:
    """ms for the ranks of the back slot at the same points, by three methods."""
    points = audits.points(_data(SIZES[1]), 1, jax.random.key(0), N_VALUES_DENSE, 1)
    composition = COMPOSITIONS["occlude_sigmoid"]

    def audit(pixelwise):
        return lambda: theory.audit(
            composition, points.images, 1, points.partners, pixelwise=pixelwise
        )

    def whole(front, back):
        return composition([front[None], back[None]]).ravel()

    # Jacobian of every output by both slots, as plain use of automatic differentiation gives it.
    jacobian = jax.jit(jax.jacrev(whole, argnums=(0, 1)))

    def autograd():
        for i in range(N_VALUES_DENSE):
            scenes = [jnp.asarray(slot) for slot in points.partners(i)]
            jacobians = [jacobian(*point)[1] for point in zip(*scenes)]
            total = np.sum([np.asarray(j).reshape(len(j), -1) for j in jacobians], axis=0)
            np.linalg.svd(total, compute_uv=False)

    return {
        "ours, a block per pixel": 1e3 * fastest(audit(True)),
        "ours, dense": 1e3 * fastest(audit(False)),
        "dense reverse mode and numpy's SVD": 1e3 * fastest(autograd),
    }


def _data(size: int) -> ml_collections.ConfigDict:
    config = ml_collections.ConfigDict({"data": {"image_size": size}})
    return audits.support_data(config, **sets.SUPPORTS["orthogonal"])
