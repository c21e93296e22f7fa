"""Measures of accuracies: differences clipped at chance, quality of a mask, selection."""

import numpy as np

from cgjax.experiments.subnetworks.odd_one_out import CHANCE

LEAST = 0.9  # a mask is valid if the accuracy on its own set is at least this


def clipped(accuracy):
    """An accuracy, raised to chance if it is below."""
    return np.maximum(accuracy, CHANCE)


def difference(target, other):
    """Clipped target minus clipped other, from -0.75 to 0.75.

    Predicted: above 0 for a subnetwork, below 0 for an ablation.
    """
    return clipped(np.asarray(target, float)) - clipped(np.asarray(other, float))


def quality(own_accuracy, ablated_target, ablated_other, least: float = LEAST):
    """How well an ablation spares the other subroutine; -inf if the mask is not valid."""
    spared = -difference(ablated_target, ablated_other)
    return np.where(np.asarray(own_accuracy) >= least, spared, -np.inf)


def chosen(qualities) -> int | None:
    """Index of the best configuration; None if no mask is valid."""
    qualities = np.asarray(qualities, float)
    best = int(np.argmax(qualities))
    return best if np.isfinite(qualities[best]) else None


def full_pattern(sub_diff, abl_diff):
    """Whether both signs are as predicted."""
    return (np.asarray(sub_diff) > 0) & (np.asarray(abl_diff) < 0)
