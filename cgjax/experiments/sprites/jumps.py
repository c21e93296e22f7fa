"""Does the training loss jump, and in which implementation of the train step?

Every implementation starts from the same weights and sees the same batches. A *jump* is an epoch
whose mean loss lies more than 10 % above the least mean loss before it. `replay` repeats one jump
step by step.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax import config as configs
from cgjax.analysis import stats
from cgjax.core import optim, program, rng, tree
from cgjax.experiments.sprites import models, scenes, sets
from cgjax.experiments.sprites import run as sprites
from cgjax.experiments.sprites.models import epoch_means, first_doubling, largest_rise, rounded

JUMP = 0.1  # relative rise of an epoch's mean loss above the least before it
B1, B2, EPS = 0.9, 0.999, 1e-8  # of the published AdamW


class Implementation(NamedTuple):
    """How the train step is computed."""

    form: str = "auto"  # of the decoder; "auto" is the GPU kernels on a GPU
    precision: str | None = None  # of matrix products; None: TF32 on a GPU
    concurrent: bool = True  # kernels of a step that do not depend on each other run side by side
    b1: float = B1  # of AdamW's momentum


IMPLEMENTATIONS = {
    "kernels": Implementation(),
    "kernels_in_order": Implementation(concurrent=False),
    "kernels_float32": Implementation(precision="highest"),
    "reordered": Implementation("reordered"),
    "reordered_float32": Implementation("reordered", "highest"),
    "direct": Implementation("direct"),
    "direct_float32": Implementation("direct", "highest"),
}


def configure(seeds, row: str = "orthogonal_compositional"):
    """A row of the paper's table at a tenth of the published length."""
    config = configs.load(f"sprites:{row},fast")
    config.train.seeds = tuple(seeds)
    return config


def shorten(config, n_train: int, batch: int) -> None:
    """Fewer and smaller batches; the schedule keeps its number of epochs."""
    n_epochs, length = config.train.steps // config.optim.lr_every, -(-n_train // batch)
    config.data.update({"n_train": n_train, "batch": batch})
    config.optim.lr_every = length
    config.train.steps = config.eval.every = config.checkpoint.every = n_epochs * length
    config.eval.n = config.eval.batch


def rate_of(config, epoch: int) -> float:
    """The learning rate of an epoch."""
    rates = config.optim
    schedule = optim.cosine(rates.lr, rates.lr_final, config.train.steps, rates.lr_every)
    return float(schedule(epoch * rates.lr_every))


# --- counting -------------------------------------------------------------------------------------


def entry(name: str, losses: np.ndarray, config) -> dict:
    """The recorded summary of one implementation's losses [steps, R]."""
    length = config.optim.lr_every
    means = epoch_means(losses, length)
    return {
        "implementation": name,
        "seeds": list(config.train.seeds[: losses.shape[1]]),
        "largest_rise": [round(float(rise), 4) for rise in largest_rise(means)],
        "first_doubling": [first_doubling(column, length) for column in losses.T],
        "epoch_loss": rounded(means),
    }


def count(entry: dict) -> tuple[str, str, str, str]:
    """A row of the table: implementation, seeds, seeds with a jump, exact 95 % interval."""
    n = len(entry["seeds"])
    n_jumps = sum(rise > JUMP for rise in entry["largest_rise"])
    low, high = stats.share_interval(n_jumps, n)
    return entry["implementation"], str(n), str(n_jumps), f"{low:.2f} to {high:.2f}"


# --- training -------------------------------------------------------------------------------------


class Program(NamedTuple):
    """The loop's compiled call, of `steps` optimiser steps of all replicas."""

    init: Callable  # () -> state
    call: Callable  # state, rows -> (state, stats)
    rows: Callable  # step -> the rows of the call that starts there
    steps: int


def compile_program(config, how: Implementation, steps_per_call: int, data) -> Program:
    """The loop's own program for this implementation."""
    config = config.copy_and_resolve_references()
    config.model.form = how.form
    config.train.update({"steps_per_call": steps_per_call, "log_every": steps_per_call})
    experiment = sprites.experiment(config, models.build(config, "compositional"), data)
    if not how.concurrent:
        experiment = experiment._replace(compiler_options=None)
    if how.b1 != B1:
        tx = functools.partial(sprites.optimiser, config, b1=how.b1)
        experiment = experiment._replace(tx=tx)
    set_up = program.SetUp(experiment, config)
    state, data = set_up.init(), set_up.data()
    with jax.default_matmul_precision(how.precision) if how.precision else contextlib.nullcontext():
        call = set_up.compile_call(state, data, set_up.plan.rows(0))
    return Program(
        set_up.init, lambda state, rows: call(state, data, rows), set_up.plan.rows, steps_per_call
    )


def epochs(
    config, how: Implementation, n: int, data, keep: bool = False, program: Program | None = None
) -> Iterator[tuple]:
    """Trains n epochs; yields (state before the epoch, losses [steps, R]) of each.

    keep: whether that state is copied to the host; else it is None. program: of this
    implementation; without it one is compiled, with a call per epoch.
    """
    length = config.optim.lr_every
    program = program or compile_program(config, how, length, data)
    state = program.init()
    for epoch in range(n):
        before, losses = jax.device_get(state) if keep else None, []
        for step in range(epoch * length, (epoch + 1) * length, program.steps):
            state, stats = program.call(state, program.rows(step))
            losses.append(np.asarray(stats["loss"]))
        yield before, np.concatenate(losses)


def torch_epochs(config, seed_index: int, n: int, data) -> Iterator[np.ndarray]:
    """The same seed trained by PyTorch: losses of each epoch."""
    experiment = sprites.experiment(config, models.build(config, "compositional"), data)
    set_up = program.SetUp(experiment, config)
    params = jax.device_get(tree.take(set_up.init().params, seed_index))
    plan, key = jax.jit(experiment.plan), set_up.keys[seed_index]

    def batches():
        for epoch in range(n):
            indices, mask = jax.device_get(plan(rng.at(key, "plan", epoch), epoch))
            yield [rows[is_real > 0] for rows, is_real in zip(indices, mask)]

    rates = [rate_of(config, epoch) for epoch in range(n)]
    latents, images = np.array(data["train"]["latents"]), target_images(data["train"])
    yield from train_torch(params, latents, images, batches(), rates)


def target_images(rows: dict, chunk: int = 5000) -> np.ndarray:
    """Images of described scenes composed by hard occlusion, uint8 [n, 64, 64, 3]."""

    @jax.jit
    def draw(part):
        images = scenes.scene_images(part["spans"], part["colours"], "occlude_step")
        return jnp.round(255 * images).astype(jnp.uint8)

    starts = range(0, len(rows["latents"]), chunk)
    return np.concatenate([np.asarray(draw(tree.take(rows, slice(i, i + chunk)))) for i in starts])


# --- replay ---------------------------------------------------------------------------------------
# One epoch of training again, step by step: are its gradients right, is AdamW stable?
#
# Every gradient of the loop's own program is compared with the plain form in float64, leaf by leaf.
# AdamW's stability is read from the preconditioned Hessian.


def limit_of_stability(b1: float) -> float:
    """On a quadratic, AdamW diverges where rate x eigenvalue of P^-1 H exceeds this.

    Cohen et al. 2022, "Adaptive Gradient Methods at the Edge of Stability".
    """
    return (2 + 2 * b1) / (1 - b1)


THRESHOLD = limit_of_stability(B1)


class Rise(NamedTuple):
    """The epoch whose mean loss rises most above the least before it, of all seeds."""

    epoch: int
    seed_index: int
    share: float  # relative rise; negative if the loss always falls
    state: Any  # of all replicas before the epoch, on the host


def largest_epoch(config, n_epochs: int, data, program: Program | None = None) -> Rise:
    """Trains all seeds for n_epochs (two or more) with the loop's own program, as in `epochs`."""
    least, largest = np.inf, None
    trained = epochs(config, IMPLEMENTATIONS["kernels"], n_epochs, data, True, program)
    for epoch, (before, losses) in enumerate(trained):
        means = losses.mean(axis=0)
        rises = np.nan_to_num(means / least - 1, nan=-1.0)
        place = int(np.argmax(rises))
        if epoch and (largest is None or rises[place] > largest.share):
            largest = Rise(epoch, place, float(rises[place]), before)
        least = np.fmin(least, means)
    return largest


class Replay(NamedTuple):
    """One value per step; dictionaries hold an array [steps] per leaf of a slot's parameters."""

    loss: np.ndarray  # of the program
    exact_loss: np.ndarray  # float64
    error: dict  # |gradient - exact| / |exact|, the gradient being the program's
    plain_error: dict  # the same for XLA's plain form in TF32
    norm: dict  # of the exact gradient
    update: dict  # root mean square of AdamW's update over the learning rate
    relative: dict  # root mean square of gradient / sqrt(v)


def replay(
    config,
    state,
    epoch: int,
    seed_index: int,
    data,
    look: Callable = lambda *_: None,
    program: Program | None = None,
) -> Replay:
    """Trains one epoch again, one step per call, and compares every gradient with float64.

    state: of all replicas before the epoch. The program is the loop's own, for all replicas; its
    gradient follows from AdamW's first moment, g = (m' - B1 m) / (1 - B1). look(i, params, v) is
    called before step i of the epoch. program: with one step a call, if it is already compiled.
    """
    program = program or compile_program(config, IMPLEMENTATIONS["kernels"], 1, data)
    exact, plain = gradient_fn(config, "float64"), gradient_fn(config, "float32")
    rate, n_steps = rate_of(config, epoch), config.optim.lr_every

    def of_seed(state):
        one = tree.take((state.params, state.opt_state), seed_index)
        params, opt_state = jax.device_get(one)
        adam = adam_state(opt_state)
        return params, adam.mu, adam.nu

    state = jax.device_put(state)
    losses, columns = [], {}
    for i in range(n_steps):
        indices, mask = program.rows(epoch * n_steps + i)
        batch = tree.take(data["train"], indices[seed_index, 0]) | {"mask": mask[seed_index, 0]}
        params, mean, square = of_seed(state)
        look(i, params, square)
        state, stats = program.call(state, (indices, mask))
        new_params, new_mean, new_square = of_seed(state)
        unravel = ravel_pytree(params)[1]
        vector = (new_mean - B1 * mean) / (1 - B1)
        exact_loss, exact_gradient = exact(params, batch)
        _, plain_gradient = plain(params, batch)
        losses.append((float(np.asarray(stats["loss"])[0, seed_index]), float(exact_loss)))
        moved = jax.tree.map(lambda new, old: (new - old) / rate, new_params, params)
        measures = {
            "error": relative_errors(unravel(vector), exact_gradient),
            "plain_error": relative_errors(plain_gradient, exact_gradient),
            "norm": per_leaf(np.linalg.norm, exact_gradient),
            "update": per_leaf(root_mean_square, moved),
            "relative": per_leaf(root_mean_square, unravel(vector / np.sqrt(new_square + 1e-30))),
        }
        for name, values in measures.items():
            for leaf, value in values.items():
                columns.setdefault(name, {}).setdefault(leaf, []).append(value)
    loss, exact_loss = np.array(losses).T
    arrays = {
        name: {leaf: np.array(values) for leaf, values in leaves.items()}
        for name, leaves in columns.items()
    }
    return Replay(loss, exact_loss, **arrays)


def gradient_fn(config, dtype: str) -> Callable:
    """(params, batch) -> (loss, gradient) of the plain form in this dtype."""
    model = plain_model(config, dtype)

    def loss(params, batch):
        images = sets.images(batch, config.data.composition).astype(dtype)
        drawn = model.predict(params, batch["latents"].astype(dtype))
        return models.squared_error(drawn, images, batch["mask"].astype(dtype))

    compiled = jax.jit(jax.value_and_grad(loss))

    def gradient(params, batch):
        with jax.enable_x64(dtype == "float64"):
            params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), params)
            return jax.device_get(compiled(params, batch))

    return gradient


def sharpness_fn(config, data, n_scenes: int = 2048, n_iterations: int = 20) -> Callable:
    """(params, v [N], step, vector [N]) -> (largest eigenvalue of P^-1 H, its eigenvector).

    H: the Hessian of the loss on n_scenes training scenes; P = sqrt(v / (1 - B2^step)) + EPS. By
    power iteration from the vector. AdamW is unstable above THRESHOLD / rate.
    """
    model = plain_model(config, "float32")
    chunk = min(512, n_scenes)
    parts = jax.tree.map(
        lambda leaf: leaf[:n_scenes].reshape(-1, chunk, *leaf.shape[1:]), data["train"]
    )

    @jax.jit
    def largest(params, second_moment, step, vector):
        flat, unravel = ravel_pytree(params)
        root = jnp.sqrt(jnp.sqrt(second_moment / (1 - B2**step)) + EPS)  # of P

        def gradient(flat, part):
            def loss(flat):
                drawn = model.predict(unravel(flat), part["latents"])
                return jnp.mean((drawn - sets.images(part, config.data.composition)) ** 2)

            return jax.grad(loss)(flat)

        def hessian_times(vector):
            def add(total, part):
                product = jax.jvp(lambda flat: gradient(flat, part), (flat,), (vector,))[1]
                return total + product, None

            total, _ = jax.lax.scan(add, jnp.zeros_like(flat), parts)
            return total / len(parts["latents"])

        def iterate(_, carry):
            vector, _ = carry
            image = hessian_times(vector / root) / root  # P^-1/2 H P^-1/2: the same eigenvalues
            return image / jnp.linalg.norm(image), jnp.vdot(vector, image)

        vector = vector / jnp.linalg.norm(vector)
        return jax.lax.fori_loop(0, n_iterations, iterate, (vector, jnp.zeros(())))

    def sharpness(params, second_moment, step, vector):
        with jax.default_matmul_precision("highest"):
            vector, value = largest(params, second_moment, step, vector)
        return float(value), vector

    return sharpness


def plain_model(config, dtype: str) -> models.Model:
    """The compositional model in XLA's plain form, in this dtype."""
    config = config.copy_and_resolve_references()
    config.model.form = "reordered"
    config.model.dtype = dtype
    return models.build(config, "compositional")


def adam_state(opt_state):
    """The part of AdamW's state that has the moments `mu` and `nu`."""

    def has_moments(node):
        return hasattr(node, "mu")

    (adam,) = filter(has_moments, jax.tree.leaves(opt_state, is_leaf=has_moments))
    return adam


def by_slot(params) -> dict:
    """Parameters of both slots, leaves [2, ...] -> {"front/dense_0/bias": leaf, ...}."""
    return tree.flat({"front": tree.take(params, 0), "back": tree.take(params, 1)})


def relative_errors(gradient, exact) -> dict:
    """leaf -> |gradient - exact| / |exact|."""
    exact = by_slot(exact)
    return {
        name: float(np.linalg.norm(leaf - exact[name]) / np.linalg.norm(exact[name]))
        for name, leaf in by_slot(gradient).items()
    }


def per_leaf(fn: Callable, values) -> dict:
    """leaf -> fn(leaf)."""
    return {name: float(fn(np.asarray(leaf))) for name, leaf in by_slot(values).items()}


def root_mean_square(values: np.ndarray) -> float:
    return np.sqrt(np.mean(np.square(values)))


# --- the same training in PyTorch -----------------------------------------------------------------
# The published renderer in PyTorch, the reference for our implementation.
#
# Two decoders, sigmoid occlusion, mean squared error, AdamW, as the paper's own code has them.
# `torch` is imported inside functions: nothing else in the package needs it.


def torch_decoder(hidden: int = 256, channels: int = 32):
    """The paper's UpsampleMLP for one sprite: latents [n, 5] -> images [n, 3, 64, 64]."""
    import torch

    layers = [torch.nn.Linear(5, hidden)]
    for width in (hidden, hidden, 16 * channels):
        layers += [torch.nn.ELU(), torch.nn.Linear(hidden, width)]
    layers.append(torch.nn.Unflatten(1, (channels, 4, 4)))
    for width in (channels, channels, channels, 3):
        double = torch.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        conv = torch.nn.Conv2d(channels, width, 2, padding="same")
        layers += [torch.nn.ELU(), double, conv]
    return torch.nn.Sequential(*layers)


def torch_loss(slots):
    """(latents [n, 10], images [n, 3, 64, 64]) -> mean squared error of two composed decoders."""
    import torch

    def loss(latents, images):
        front, back = slots[0](latents[:, :5]), slots[1](latents[:, 5:])
        colour_sum = front.sum(1, keepdim=True)
        drawn = front * torch.sigmoid(colour_sum) + back * torch.sigmoid(-colour_sum)
        return ((drawn - images) ** 2).mean()

    return loss


def state_dict(params) -> dict:
    """Parameters of one decoder by PyTorch's names, the inverse of `convert.from_torch`."""
    n_dense = sum(name.startswith("dense_") for name in params)
    first_conv = 2 * n_dense + 2  # behind the head and its reshape: (ELU, upsampling, convolution)
    converted = {}
    for name, layer in params.items():
        kind, number = name.split("_")
        place = 2 * int(number) if kind == "dense" else first_conv + 3 * int(number)
        axes = (1, 0) if kind == "dense" else (3, 2, 0, 1)
        converted[f"{place}.weight"] = np.transpose(layer["kernel"], axes)
        converted[f"{place}.bias"] = np.asarray(layer["bias"])
    return converted


def train_torch(
    params,
    latents: np.ndarray,
    images: np.ndarray,
    batches: Iterator[np.ndarray],
    rates: Iterator[float],
    compiled: bool = True,
) -> Iterator[np.ndarray]:
    """Trains from our parameters of both slots (leading axis 2); yields the losses of each epoch.

    latents [n, 10] scaled; images uint8 [n, 64, 64, 3]; batches: one array of row indices per step,
    grouped by epoch, [[rows, ...], ...]; rates: one learning rate per epoch. Precisions are
    PyTorch's defaults: convolutions in TF32 on a GPU, matrix products in float32.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    slots = torch.nn.ModuleList([torch_decoder(), torch_decoder()])
    for k, slot in enumerate(slots):
        arrays = state_dict(tree.take(params, k))
        slot.load_state_dict({name: torch.tensor(array.copy()) for name, array in arrays.items()})
    slots = slots.to(device)
    optimiser = torch.optim.AdamW(
        slots.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-5
    )
    loss = torch_loss(slots)
    if compiled:  # two programs: an epoch's last batch is smaller
        loss = torch.compile(loss, dynamic=False)
    latents, images = (torch.as_tensor(array).to(device) for array in (latents, images))
    images = images.permute(0, 3, 1, 2)
    for epoch, rate in zip(batches, rates):
        for group in optimiser.param_groups:
            group["lr"] = rate
        losses = []
        for rows in [torch.as_tensor(np.array(rows)).to(device) for rows in epoch]:
            optimiser.zero_grad(set_to_none=True)
            value = loss(latents[rows], images[rows].float() / 255)
            value.backward()
            optimiser.step()
            losses.append(value.detach())
        yield torch.stack(losses).cpu().numpy()
