"""Does the training loss jump, and in which implementation of the train step?

Every implementation starts from the same weights and sees the same batches. A *jump* is an epoch
whose mean loss lies more than 10 % above the least mean loss before it. `replay` repeats one jump
step by step.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import stats
from cgjax.core import optim, program, rng, train, tree
from cgjax.experiments.sprites import models, scenes, torch_peer
from cgjax.experiments.sprites import run as sprites
from cgjax.experiments.sprites.losses import epoch_means, first_doubling, largest_rise, rounded

JUMP = 0.1  # relative rise of an epoch's mean loss above the least before it


class Implementation(NamedTuple):
    """How the train step is computed."""

    form: str = "auto"  # of the decoder; "auto" is the GPU kernels on a GPU
    precision: str | None = None  # of matrix products; None: TF32 on a GPU
    concurrent: bool = True  # kernels of a step that do not depend on each other run side by side


IMPLEMENTATIONS = {
    "kernels": Implementation(),
    "kernels_in_order": Implementation(concurrent=False),
    "kernels_float32": Implementation(precision="highest"),
    "reordered": Implementation("reordered"),
    "reordered_float32": Implementation("reordered", "highest"),
    "direct": Implementation("direct"),
    "direct_float32": Implementation("direct", "highest"),
}


def configure(seeds):
    """The published compositional model on the orthogonal support, size `fast`."""
    config = configs.load("sprites:orthogonal_compositional,fast")
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
    set_up = program.SetUp(experiment, config)
    plan = train.Plan(experiment, set_up.keys, steps_per_call, set_up.place)
    state, data = set_up.init(), set_up.data()
    with jax.default_matmul_precision(how.precision) if how.precision else contextlib.nullcontext():
        call = set_up.compile_call(state, data, plan.rows(0))
    return Program(
        set_up.init, lambda state, rows: call(state, data, rows), plan.rows, steps_per_call
    )


def epochs(config, how: Implementation, n: int, data, keep: bool = False) -> Iterator[tuple]:
    """Trains n epochs; yields (state before the epoch, losses [steps, R]) of each.

    keep: whether that state is copied to the host; else it is None.
    """
    program = compile_program(config, how, config.optim.lr_every, data)
    state = program.init()
    for epoch in range(n):
        before = jax.device_get(state) if keep else None
        state, stats = program.call(state, program.rows(epoch * program.steps))
        yield before, np.asarray(stats["loss"])


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
    yield from torch_peer.train(params, latents, images, batches(), rates)


def target_images(rows: dict, chunk: int = 5000) -> np.ndarray:
    """Images of described scenes composed by hard occlusion, uint8 [n, 64, 64, 3]."""

    @jax.jit
    def draw(part):
        images = scenes.scene_images(part["spans"], part["colours"], "occlude_step")
        return jnp.round(255 * images).astype(jnp.uint8)

    starts = range(0, len(rows["latents"]), chunk)
    return np.concatenate([np.asarray(draw(tree.take(rows, slice(i, i + chunk)))) for i in starts])
