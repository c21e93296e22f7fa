"""Percolation: when do the bumps kept for training form one cluster? (after Liang et al. 2024)

Nodes are occupied sites of a lattice. Two nodes are joined if their bumps overlap, that is, if the
normalised inner product exp(-d^2 / 4 sigma^2) is at least a threshold. No parameter is fitted.
"""

import math

import numpy as np

from cgjax.core.errors import BadInput

THRESHOLD = 0.05


def reach(sigma: float, threshold: float = THRESHOLD) -> float:
    """The distance up to which two bumps are joined: 2 sigma sqrt(-log threshold)."""
    if not (sigma > 0 and 0 < threshold < 1):
        raise BadInput(f"sigma must be positive and 0 < threshold < 1, got {sigma} and {threshold}")
    return 2 * sigma * math.sqrt(-math.log(threshold))


def largest_cluster(
    occupied: np.ndarray, sigma: float, threshold: float = THRESHOLD
) -> tuple[np.ndarray, np.ndarray]:
    """Site counts [...] of masks [..., n, n]: in the largest cluster, and occupied."""
    occupied = np.asarray(occupied)
    if occupied.ndim < 2 or occupied.dtype != bool:
        raise BadInput(
            f"occupied must be boolean [..., n, n], got {occupied.dtype} {occupied.shape}"
        )
    flat = occupied.reshape(-1, *occupied.shape[-2:])
    names = _clusters(flat, _offsets(reach(sigma, threshold)))
    sizes = [np.bincount(labels[mask], minlength=1).max() for labels, mask in zip(names, flat)]
    lead = occupied.shape[:-2]
    return np.array(sizes).reshape(lead), flat.sum(axis=(1, 2)).reshape(lead)


def mass_ratio(
    rng: np.random.Generator,
    n: int,
    share: float,
    sigma: float,
    threshold: float = THRESHOLD,
    draws: int = 32,
) -> np.ndarray:
    """Largest cluster / occupied sites [draws] of n x n lattices; `share`: chance to keep a site.

    0 if no site is occupied.
    """
    if not 0 <= share <= 1:
        raise BadInput(f"share must be from 0 to 1, got {share}")
    largest, counts = largest_cluster(rng.random((draws, n, n)) < share, sigma, threshold)
    return largest / np.maximum(counts, 1)


def _offsets(distance):
    """Offsets (dy, dx) of all neighbours within the distance."""
    steps = range(-math.floor(distance), math.floor(distance) + 1)
    return [(dy, dx) for dy in steps for dx in steps if 0 < math.hypot(dy, dx) <= distance]


def _clusters(occupied, offsets):
    """Cluster names [k, n, m]: the smallest site number of each cluster.

    Every site takes the smallest name among its neighbours until no name changes.
    """
    k, height, width = occupied.shape
    size, rows = height * width, np.arange(k)[:, None]
    margin = max((abs(dy) for dy, _ in offsets), default=0)
    names = np.where(occupied, np.arange(size).reshape(height, width), size)
    while True:
        padded = np.pad(names, ((0, 0), (margin,) * 2, (margin,) * 2), constant_values=size)
        smallest = names
        for dy, dx in offsets:
            top, left = margin + dy, margin + dx
            near = padded[:, top : top + height, left : left + width]
            smallest = np.minimum(smallest, near)
        # A name is a site number: taking that site's current name speeds up convergence.
        called = np.pad(smallest.reshape(k, -1), ((0, 0), (0, 1)), constant_values=size)
        smallest = called[rows, smallest.reshape(k, -1)].reshape(names.shape)
        smallest = np.where(occupied, smallest, size)
        if np.array_equal(smallest, names):
            return names
        names = smallest
