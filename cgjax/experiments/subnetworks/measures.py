"""What is made of accuracies: differences clipped at chance, the quality of a mask, choices."""

import numpy as np

from cgjax.experiments.subnetworks.odd_one_out import CHANCE

LEAST = 0.9  # accuracy on its own set below which a mask is no subnetwork of the subroutine


def clipped(accuracy):
    """An accuracy, or chance where it is below."""
    return np.maximum(accuracy, CHANCE)


def difference(target, other):
    """Clipped target minus clipped other, from -0.75 to 0.75.

    Of a subnetwork it is predicted above 0, of an ablation below 0.
    """
    return clipped(np.asarray(target, float)) - clipped(np.asarray(other, float))


def quality(own, ablated_target, ablated_other, least: float = LEAST):
    """How well an ablation spares the other subroutine; -inf where the mask fails its own set."""
    spared = -difference(ablated_target, ablated_other)
    return np.where(np.asarray(own) >= least, spared, -np.inf)


def chosen(qualities) -> int | None:
    """The best of several configurations; None where no mask is valid."""
    qualities = np.asarray(qualities, float)
    best = int(np.argmax(qualities))
    return best if np.isfinite(qualities[best]) else None


def full_pattern(sub_diff, abl_diff):
    """Both halves of the prediction."""
    return (np.asarray(sub_diff) > 0) & (np.asarray(abl_diff) < 0)
