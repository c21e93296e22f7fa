"""Is the higher curve of the loss, on which low seeds end, that of a bright background?

The front network paints a background of colour sum s beside its sprite. At the end of training at
the published length, s is above -1.28 in every low seed and far below in the others. Here s is
measured after every epoch, so that it can be compared with the loss of that epoch.

Predictions, stated before any run:

1. Of two seeds in one epoch, one bright and one dark, the bright one has the higher loss.
2. If bright and dark are two basins, a seed that starts dark ends dark: with the last bias of the
   front network lowered by one in every channel, s starts near -3, and no seed ends bright.
3. With products in float32 as many seeds end bright as with TF32.

The first two fail for a small decoder on a CPU (`diagonal`, 60 epochs of 100 steps, four seeds):
all seeds end bright from both starts, and the bright seed has the higher loss in 25 of 95 and 4 of
9 pairs. At `fast` nothing has run.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.core import metrics, tree
from cgjax.experiments.sprites import beyond, jumps, models, sets
from cgjax.experiments.sprites.beyond import LARGEST_LEAK
from cgjax.experiments.sprites.models import epoch_means
from cgjax.experiments.sprites.run import N_BACKGROUND

ROWS = ("diagonal", "orthogonal_normal")


class Setting(NamedTuple):
    """A change of the training."""

    products: str = "default"  # `model.products`
    shift: float = 0.0  # of the front network's last bias at the start, in every channel


SETTINGS = {
    "as published": Setting(),
    "products in float32": Setting(products="float32"),
    "dark start": Setting(shift=-1.0),
}


class Trained(NamedTuple):
    """The seeds of one setting."""

    loss: np.ndarray  # mean of each epoch [E, R]
    background: np.ndarray  # after each epoch [E, R]
    r2_all: np.ndarray  # at the end, on N_BACKGROUND scenes of all combinations [R]


def train(config, setting: Setting, n_epochs: int, data) -> Trained:
    """Trains all seeds for n_epochs with the loop's own program."""
    config = config.copy_and_resolve_references()
    config.model.products = setting.products
    length = config.optim.lr_every
    program = jumps.compile_program(config, jumps.IMPLEMENTATIONS["kernels"], length, data)
    model = models.build(config, "compositional")
    rows = tree.take(data["all"], slice(0, N_BACKGROUND))

    @jax.jit
    def drawn_by(params):
        """What the front networks draw [R, n, size, size, 3]."""
        return jax.vmap(lambda params: model.slots(params, rows["latents"])[0])(params)

    @jax.jit
    def scored(params):
        images = sets.images(rows, config.data.composition).reshape(N_BACKGROUND, -1)

        def r2(params):
            drawn = model.predict(params, rows["latents"])
            return metrics.r2_variance_weighted(images, drawn.reshape(N_BACKGROUND, -1))

        return jax.vmap(r2)(params)

    state = program.init()
    state = state._replace(params=lowered(state.params, setting.shift))
    losses, levels = [], []
    for epoch in range(n_epochs):
        state, stats = program.call(state, program.rows(epoch * length))
        losses.append(np.asarray(stats["loss"]))
        levels.append(beyond.front_levels(list(np.asarray(drawn_by(state.params))), rows))
    means = epoch_means(np.concatenate(losses), length)
    background = np.array([level["front_background"] for level in levels])
    return Trained(means, background, np.asarray(scored(state.params)))


def lowered(params, shift: float):
    """Parameters [R, K, ...] with a shift of the front network's last bias."""
    last = max(name for name in params if name.startswith("conv_"))
    bias = jnp.asarray(params[last]["bias"]).at[:, 0].add(shift)
    return {**params, last: {**params[last], "bias": bias}}


def pairs(trained: Trained) -> tuple[int, int]:
    """(how many pairs of a bright and a dark seed in one epoch, in how many the bright one has the
    higher loss)."""
    n_pairs = n_higher = 0
    for loss, background in zip(trained.loss, trained.background):
        bright = background > LARGEST_LEAK
        is_higher = loss[bright][:, None] > loss[~bright][None]
        n_pairs, n_higher = n_pairs + is_higher.size, n_higher + int(is_higher.sum())
    return n_pairs, n_higher


def table_row(row: str, name: str, trained: Trained) -> tuple[str, ...]:
    """Text: how many seeds end bright, the pairs of `pairs`, and each seed."""
    bright = trained.background > LARGEST_LEAK
    n_pairs, n_higher = pairs(trained)
    return (
        row,
        name,
        f"{bright[-1].sum()} of {bright.shape[1]}",
        f"{n_higher:,} of {n_pairs:,}",
        ", ".join(f"{level:.1f}" for level in trained.background[-1]),
        ", ".join(f"{n}" for n in bright.sum(axis=0)),
        ", ".join(f"{r2:.3f}" for r2 in trained.r2_all),
    )
