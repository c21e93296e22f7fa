"""From outlines to pixels: maps of object indices, and the colours of objects."""

from typing import NamedTuple

import numpy as np

from cgjax.experiments.subnetworks.vision import draws


class Objects(NamedTuple):
    """Objects of many images; within an image, higher slots are drawn over lower ones."""

    image: np.ndarray  # [m]
    slot: np.ndarray  # [m]
    contour: np.ndarray  # [m, V, 2]
    centre: np.ndarray  # [m, 2]
    size: np.ndarray  # [m]


def maps(objects: list[Objects], n_images: int, image_size: int) -> np.ndarray:
    """Maps of object indices uint8 [n_images, H, W]: 0 for background, otherwise slot + 1."""
    canvas = np.zeros((n_images, image_size, image_size), np.uint8)
    drawn = [(part, _pixels(part, image_size)) for part in objects if len(part.image)]
    for slot in range(max((part.slot.max() for part, _ in drawn), default=-1) + 1):
        for part, (owner, x, y) in drawn:
            mine = part.slot[owner] == slot
            canvas[part.image[owner[mine]], y[mine], x[mine]] = slot + 1
    return canvas


def _pixels(objects: Objects, image_size: int):
    """(object, x, y) of all pixels of closed polylines, one pixel thick and 8-connected."""
    shape = np.trunc(image_size * objects.size[:, None, None] * objects.contour).astype(np.int32)
    shape += np.trunc(image_size * objects.centre).astype(np.int32)[:, None]
    is_new = (shape != np.roll(shape, 1, axis=1)).any(-1)
    is_new[:, 0] = True
    owner, vertex = np.nonzero(is_new)
    start = shape[owner, vertex]
    is_last = np.diff(owner, append=-1) != 0
    end = np.roll(start, -1, axis=0)
    end[is_last] = shape[owner[is_last], 0]
    joined, x, y = _lines(start, end)
    owner = owner[joined]
    seen = (x >= 0) & (y >= 0) & (x < image_size) & (y < image_size)
    return owner[seen], x[seen], y[seen]


def _lines(start, end):
    """(line, x, y) of the pixels from start to end [m, 2], both included.

    Lines run from left to right. If a point is equally near to two rows (columns), the one nearer
    to the start is taken.
    """
    swap = (end[:, 0] < start[:, 0])[:, None]
    start, end = np.where(swap, end, start), np.where(swap, start, end)
    step = end - start
    sign, step = np.where(step < 0, -1, 1), np.abs(step)
    length = step.max(1)
    line = np.repeat(np.arange(len(start)), length + 1)
    k = np.arange(len(line)) - np.repeat(np.cumsum(length + 1) - length - 1, length + 1)
    longest = np.maximum(length, 1)[line, None]
    offset = (2 * step[line] * k[:, None] + longest - 1) // (2 * longest)
    pixel = start[line] + sign[line] * offset
    return line, pixel[:, 0], pixel[:, 1]


def palettes(keys: np.ndarray, n_objects: int) -> np.ndarray:
    """Colours uint8 [*keys.shape, n_objects + 1, 3]: white, then one random colour per slot."""
    u = draws.uniform(keys, n_objects, 3)
    colours = hsv_to_rgb(u * [1, 0.5, 1] + [0, 0.5, 0])
    white = np.ones((*keys.shape, 1, 3))
    return np.rint(255 * np.concatenate([white, colours], -2)).astype(np.uint8)


def hsv_to_rgb(hsv: np.ndarray) -> np.ndarray:
    """[..., 3] to [..., 3], all in [0, 1]."""
    h, s, v = np.moveaxis(hsv, -1, 0)
    distance = np.stack([(n + 6 * h) % 6 for n in (5, 3, 1)], -1)
    share = np.clip(np.minimum(distance, 4 - distance), 0, 1)
    return v[..., None] * (1 - s[..., None] * share)
