"""Positions of shapes: inside, in contact, apart.

Contours have unit bounding boxes around 0, so that a size is the side of a box. `inside_contact`
and `nested` use coordinates in which the big shape has side 1; the others use canvas coordinates.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cgjax.experiments.subnetworks.vision import draws
from cgjax.experiments.subnetworks.vision.contours import contours

# Centres of shapes in contact move together by PULL / image_size of their distance (4 / 128 in the
# paper). Otherwise their pixels would not always touch.
PULL = 4
_BLOCK = 25  # candidates tested together


def even_odd(contour: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether points [n, K, 2] are inside contours [n, V, 2], by the parity of edge crossings."""
    left = contour[:, None, :, 0] < points[:, :, None, 0]
    below = contour[:, None, :, 1] <= points[:, :, None, 1]
    crossed = (left | np.roll(left, 1, -1)) & (below ^ np.roll(below, 1, -1))
    return np.logical_xor.reduce(crossed, -1)


def touches_box(contour: np.ndarray, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Whether a vertex of the contour is in a box of side scale [n] around the points."""
    reach = scale[:, None, None] / 2
    x, y = (np.abs(contour[:, None, :, axis] - points[:, :, None, axis]) for axis in (0, 1))
    return ((x <= reach) & (y <= reach)).any(-1)


def is_inside(contour: np.ndarray, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Whether a box of side scale [n] around points [n, K, 2] is inside and touches no vertex."""
    return even_odd(contour, points) & ~touches_box(contour, points, scale)


def first_valid(
    keys: np.ndarray, n_candidates: int, draw: Callable, accept: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """The first accepted of n_candidates for each key: [n, ...], and whether there is one [n].

    draw(rows, keys [m, k]) -> candidates [m, k, ...]; accept(rows, candidates) -> [m, k]. If no
    candidate is accepted, the result is the first one.
    """
    chosen = draw(np.arange(len(keys)), draws.fold(keys, 0)[:, None])[:, 0]
    is_found, rows = np.zeros(len(keys), bool), np.arange(len(keys))
    for start in range(0, n_candidates, _BLOCK):
        block = np.arange(start, min(start + _BLOCK, n_candidates))
        candidates = draw(rows, draws.fold(keys[rows, None], block))
        is_valid = accept(rows, candidates)
        hit = is_valid.any(1)
        chosen[rows[hit]] = candidates[hit, is_valid[hit].argmax(1)]
        is_found[rows[hit]] = True
        rows = rows[~hit]
        if not len(rows):
            break
    return chosen, is_found


def uniform_in(keys: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Centres of boxes of the given sides that lie in the unit square; sides [..., 1 or 2]."""
    return draws.uniform(keys, 2) * (1 - size) + size / 2


# --- a small shape in a big one -------------------------------------------------------------------


class Nested(NamedTuple):
    """Big contours, and a position inside each for a small shape."""

    big: np.ndarray  # [n, V, 2]
    centre: np.ndarray  # [n, 2], of the small shape
    is_found: np.ndarray  # [n]; if False, big and centre are meaningless


def nested(
    keys: np.ndarray,
    scale: np.ndarray,
    gap: float,
    hole: float,
    n_candidates: int = 100,
    tries: int | None = None,
) -> Nested:
    """Big contours with room for a box of side scale [n], drawn at most `tries` times.

    The outline of the small shape has no effect, because its box is always a square.
    """
    rows, attempt, parts = np.arange(len(keys)), 0, []
    is_found, centre = np.zeros(len(keys), bool), np.zeros((len(keys), 2))
    while len(rows) and (tries is None or attempt < tries):
        key = draws.fold(keys[rows], attempt)
        shape = contours(draws.fold(key, 0), gap, hole)
        side = scale[rows]
        chosen, hit = first_valid(
            draws.fold(key, 1),
            n_candidates,
            lambda i, k, side=side: uniform_in(k, side[i, None, None]) - 0.5,
            lambda i, points, shape=shape, side=side: is_inside(shape[i], points, side[i]),
        )
        parts.append((rows[hit], shape[hit]))
        centre[rows[hit]], is_found[rows[hit]] = chosen[hit], True
        rows, attempt = rows[~hit], attempt + 1
    big = np.zeros((len(keys), max((s.shape[1] for _, s in parts), default=0), 2))
    for i, shape in parts:
        big[i, : shape.shape[1]], big[i, shape.shape[1] :] = shape, shape[:, -1:]
    return Nested(big, centre, is_found)


def inside_contact(
    big: np.ndarray, small: np.ndarray, centre: np.ndarray, scale: float, image_size: int = 128
) -> np.ndarray:
    """Moves the small shape from a free centre [2] until its nearest vertex touches the big one's.

    big [V, 2], small [W, 2]; scale: the small side in units of the big one. Returns the centre.
    """
    small = small * scale
    i, j = _closest(big, small + centre)
    return (big[i] - small[j]) * (1 - PULL / image_size)


def _closest(a, b):
    """Indices of the closest pair of points of a [V, 2] and b [W, 2]."""
    squared = (a[:, None, 0] - b[:, 0]) ** 2
    squared += (a[:, None, 1] - b[:, 1]) ** 2
    return divmod(int(squared.argmin()), len(b))


# --- shapes side by side --------------------------------------------------------------------------


def contact(shapes: list, sizes, angles, image_size: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """A clump: shapes are added one by one, each from its angle until it touches the clump.

    shapes: k contours [V, 2]; angles: for all shapes after the first. Returns centres
    [k, 2] around the middle of the clump, and the sides [2] of its bounding box.
    """
    clump, centres = shapes[0] * sizes[0], np.zeros((1, 2))
    box = np.full(2, float(sizes[0]))
    for shape, size, angle in zip(shapes[1:], sizes[1:], angles):
        towards = np.array([np.cos(angle), np.sin(angle)])
        shape = shape * size
        front = clump[clump[:, 0] * towards[0] + clump[:, 1] * towards[1] > 0]
        back = shape[shape[:, 0] * towards[0] + shape[:, 1] * towards[1] < 0]
        i, j = _closest(front, back + (size + box) * towards)
        centre = (front[i] - back[j]) * (1 - PULL / image_size)
        clump = np.concatenate([clump, shape + centre])
        low, high = clump.min(0), clump.max(0)
        middle, box = (low + high) / 2, high - low
        clump, centres = clump - middle, np.concatenate([centres, centre[None]]) - middle
    return centres, box


def apart(keys: np.ndarray, centre: np.ndarray, size_a, size_b) -> np.ndarray:
    """Centres [n, 2] of small shapes whose boxes do not touch those of the big ones."""
    least = (size_a + size_b) / 2

    def draw(i, k):
        return uniform_in(k, size_b[i, None, None])

    def accept(i, points):
        return (np.abs(points - centre[i, None]) > least[i, None, None]).any(-1)

    centres, is_found = first_valid(keys, 10_000, draw, accept)
    if not is_found.all():
        raise ValueError("no room beside a shape: sizes size_a and size_b are too large")
    return centres


def are_apart(centres: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Whether no two of the boxes [..., k, 2] around centres [..., k, 2] touch."""
    first, second = np.triu_indices(centres.shape[-2], 1)
    gaps = np.abs(centres[..., first, :] - centres[..., second, :])
    least = (boxes[..., first, :] + boxes[..., second, :]) / 2
    return (gaps > least).any(-1).all(-1)


def groups(keys: np.ndarray, boxes: np.ndarray, n_candidates: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres [n, k, 2] of k separate boxes [n, k, 2] in the canvas, and whether found [n]."""
    k = np.arange(boxes.shape[1])

    def draw(i, keys):
        return uniform_in(draws.fold(keys[..., None], k), boxes[i, None])

    def accept(i, centres):
        return are_apart(centres, boxes[i, None])

    return first_valid(keys, n_candidates, draw, accept)
