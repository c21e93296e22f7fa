"""Studies of kernel models in closed form; those of tasks and saliences are defined here.

Each study returns (metrics, arrays). Metrics have the same names as in `published.PUBLISHED`.
"""

import numpy as np

from cgjax.analysis import salience as theory
from cgjax.experiments.kernels import tasks
from cgjax.experiments.kernels.theory import addition, classification

DEPTHS = (1, 2, 5, 10, 20)  # in the table of metrics
SHARES = (0.1, 0.3, 0.4, 0.5)  # of the first of two components in the input


def masks(config):
    """Training combinations and targets of the tasks."""
    names = [*tasks.ADDITION_SETS, "addition_dispersed_1", *tasks.CD_SETS, "te_3_3", "to_7"]
    metrics, arrays = {}, {}
    for name in names:
        task = tasks.make(name)
        full = np.full(task.sizes, np.nan)  # pairs of an item with itself have no order
        full[tuple(task.x.T)] = task.y
        trained = np.zeros(task.sizes, bool)
        trained[tuple(task.x.T)] = task.is_train
        arrays |= {f"{name}/y": full, f"{name}/is_train": trained}
        metrics[f"{name}: trained"] = np.sum(task.is_train)
        metrics[f"{name}: tested"] = np.sum(~task.is_train)
    return metrics, arrays


def salience(config):
    """Salience by depth of wide random networks, by number and input share of components."""
    depth = config.data.depth
    metrics, arrays = {}, {}
    for name, layer_map in theory.LAYER_MAPS.items():
        for n in (2, 3, 4):
            tables = theory.layers(np.arange(n + 1) / n, layer_map, depth)
            arrays[f"{name}/{n}"] = np.asarray(theory.salience(tables))
        shares = np.array([[0, share, 1 - share, 1] for share in SHARES])
        saliences = np.asarray(theory.subset_salience(theory.layers(shares, layer_map, depth)))
        arrays |= {f"{name}/share_{share}": saliences[i] for i, share in enumerate(SHARES)}
        for layer in (layer for layer in DEPTHS if layer <= depth):
            for k in range(3):
                metrics[f"{name}, depth {layer}: S({k + 1};3)"] = arrays[f"{name}/3"][layer, k]
            metrics[f"{name}, depth {layer}: S(1;2)"] = arrays[f"{name}/2"][layer, 0]
    return metrics, arrays


STUDIES = {
    "tasks": masks,
    "salience": salience,
    "leak": addition.leak,
    "partial": classification.partial,
    "phase": classification.phase,
    "context_share": classification.context_share,
    "magnitudes": classification.magnitudes,
    "dispersed": addition.dispersed,
    "transitive": classification.transitive,
    "perturbed": addition.perturbed,
    "design": addition.design,
}
