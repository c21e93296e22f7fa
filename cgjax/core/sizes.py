"""How large a run would be, from the shapes of its state alone: for `--dry_run`."""

import numpy as np

from cgjax.core import train, tree


def of(experiment: train.Experiment, config) -> dict:
    """Parameters of one replica, replicas, steps, bytes of the state that the loop keeps."""
    state = train.SetUp(experiment, config).shapes
    leaves = tree.flat(state).values()
    n_replicas = len(np.asarray(experiment.replicas["seed"]))
    return {
        "parameters": tree.size(state.params) // n_replicas,
        "replicas": n_replicas,
        "steps": config.train.steps,
        "bytes": sum(leaf.size * leaf.dtype.itemsize for leaf in leaves),
    }
