"""Slot identifiability: how well slots of a model without labels tell the latents of objects.

An image has K objects with latents, a model gives K slots, and the order of the slots may differ
from image to image. The score is R2 of the best affine map from each slot to the latents of the
object that it stands for, with the best permutation of the slots in every image (Brady et al.
2023). Maps fitted on one set of images can be scored on another: a model that identifies slots has
the same maps everywhere.

The permutation is chosen with the latents in hand, so slots that say nothing score above zero:
slots of other images, shuffled, give that level.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis.arguments import checked, finite, record

ROUNDS = 20  # of fitting maps and choosing permutations, at most
# Of the maps, relative to a slot's variance: a direction in which slots hardly vary tells nothing
# elsewhere, where they may vary more.
RIDGE = 1e-3


class SlotMaps(NamedTuple):
    """Affine maps from slots to latents."""

    weights: np.ndarray  # [K, d + 1, l], the last row the constant
    deviation: np.ndarray  # [l] of each latent over the objects that the maps are fitted on


slot_maps = record(weights=finite("K d+1 l"), deviation=finite("l"))


@checked
def fit(slots: finite("n K d"), latents: finite("n K l")) -> SlotMaps:
    """Maps and permutations with the least squared error.

    Latents count in units of their deviation. Maps and permutations are fitted in turn, from
    several starts: the same permutation in every image, and the orders of each latent.

    >>> latents = np.random.default_rng(0).uniform(size=(50, 2, 3))
    >>> maps = fit(2 * latents[:, ::-1] + 1, latents)
    >>> float(np.round(r2(maps, 2 * latents + 1, latents).min(), 3))
    1.0
    """
    slots, latents = np.asarray(slots, np.float64), np.asarray(latents, np.float64)
    n, n_slots, _ = latents.shape
    deviation = _deviation(latents)
    deviation = np.where(deviation > 0, deviation, 1)
    orders = [np.tile(np.arange(n_slots), (n, 1)), *np.argsort(latents, axis=1).transpose(2, 0, 1)]
    best = None
    for order in orders:
        for permutation in itertools.permutations(range(n_slots)):
            maps, error = _alternate(slots, latents, order[:, permutation], deviation)
            if best is None or error < best[1]:
                best = maps, error
    return best[0]


def _alternate(slots, latents, order, deviation):
    """Maps and their error, from an assignment `order` [n, K]: the object of each slot."""
    solvers, known = [_solver(slots[:, k]) for k in range(slots.shape[1])], np.inf
    for _ in range(ROUNDS):
        objects = np.take_along_axis(latents, order[:, :, None], axis=1)
        weights = [solver @ objects[:, k] for k, solver in enumerate(solvers)]
        maps = SlotMaps(np.stack(weights), deviation)
        order, error = assign(maps, slots, latents)
        if error >= known - 1e-9:
            break
        known = error
    return maps, error


def _deviation(latents):
    """Of each latent [l] over all objects; 0 for a constant, whose deviations are rounding."""
    every = latents.reshape(-1, latents.shape[-1])
    return np.where(np.ptp(every, axis=0) > 0, every.std(0), 0)


def _solver(slot):
    """[d + 1, n]: from targets at n slots [n, d] to the weights of their ridge regression."""
    mean = slot.mean(0)
    # The mean of a constant is rounded: its deviations are 0.
    centred = np.where(np.ptp(slot, axis=0) > 0, slot - mean, 0)
    covariance = centred.T @ centred / len(slot)
    ridge = RIDGE * np.trace(covariance) / len(mean) or 1.0
    slopes = np.linalg.solve(covariance + ridge * np.eye(len(mean)), centred.T / len(slot))
    return np.concatenate([slopes, 1 / len(slot) - (mean @ slopes)[None]])


@checked
def assign(
    maps: slot_maps, slots: finite("n K d"), latents: finite("n K l")
) -> tuple[np.ndarray, float]:
    """(the object of each slot in the best permutation of every image [n, K], mean error)."""
    slots, latents = np.asarray(slots, np.float64), np.asarray(latents, np.float64)
    predicted = np.einsum("nkd,kdl->nkl", _with_one(slots), maps.weights)
    apart = (predicted[:, :, None] - latents[:, None]) / maps.deviation
    errors = np.mean(apart**2, axis=-1)  # [n, slot, object]
    n_slots = slots.shape[1]
    permutations = np.array(list(itertools.permutations(range(n_slots))))
    total = errors[:, np.arange(n_slots), permutations].mean(-1)  # [n, permutations]
    chosen = np.argmin(total, axis=1)
    return permutations[chosen], float(total.min(axis=1).mean())


@checked
def r2(maps: slot_maps, slots: finite("n K d"), latents: finite("n K l")) -> np.ndarray:
    """R2 of each latent [l] over all objects of all images, in their best permutations.

    NaN for a constant latent.
    """
    slots, latents = np.asarray(slots, np.float64), np.asarray(latents, np.float64)
    order, _ = assign(maps, slots, latents)
    objects = np.take_along_axis(latents, order[:, :, None], axis=1)
    predicted = np.einsum("nkd,kdl->nkl", _with_one(slots), maps.weights)
    variance = _deviation(latents) ** 2
    missed = np.mean((predicted - objects) ** 2, axis=(0, 1))
    return 1 - missed / np.where(variance > 0, variance, np.nan)


def _with_one(slots):
    return np.concatenate([slots, np.ones((*slots.shape[:-1], 1))], axis=-1)
