"""Jumps of the training loss by implementation: the same seeds, weights and batches in each."""

import importlib.util

import jax
import numpy as np

from cgjax.bench.harness import table
from cgjax.core.logging import say
from cgjax.experiments.sprites import jumps, sets

SEEDS, EPOCHS = 8, 60


def run(batch: int = 0, steps: int = 0) -> None:
    """Trains eight seeds for 60 epochs with every implementation and prints the table.

    On a CPU: two seeds, three epochs of 1,280 scenes. steps: epochs, where not 0.
    """
    on_cpu = jax.default_backend() == "cpu"
    config = jumps.configure(range(2 if on_cpu else SEEDS))
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
