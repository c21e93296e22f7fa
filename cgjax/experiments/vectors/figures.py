"""Figures of the vector simulation, from saved arrays."""

import pathlib

from cgjax import plots

SCORES = {"r2_id": "R2 on its support", "r2_all": "R2 everywhere"}
KINDS = {"mlp": "one network", "compositional": "a network per part"}


def draw(arrays: dict, folder: pathlib.Path) -> list:
    """R2 against the size of the training set, and against steps for the largest set."""
    figures = []
    largest = f"{arrays['n_train'][-1]:,} samples"
    for stage, x, xlabel, log2_x, subtitle in (
        ("final", "n_train", "training-set size", True, "by size of the training set"),
        ("history", "step", "step", False, f"during training on {largest}"),
    ):
        panels = {}
        for name in (name for name in arrays if name.startswith(stage)):
            _, kind, support, score = name.split("/")
            if score in SCORES:
                panel = {"curves": {}, "scale": "r2"}
                panel = panels.setdefault(f"{KINDS.get(kind, kind)}:\n{SCORES[score]}", panel)
                panel["curves"][support] = (arrays[x], arrays[name])
        title = f"How well latents are recovered {subtitle}"
        # One axis without a fixed floor: small sets and new supports often score far below zero.
        fig = plots.learning_curves(panels, title, xlabel, log2_x=log2_x, one_y=True)
        figures.append(plots.save(fig, folder / f"r2_against_{x}.png"))
    return figures
