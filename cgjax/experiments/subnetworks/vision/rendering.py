"""From random outlines to pixels: contours, maps of object indices, and the colours of objects."""

from typing import NamedTuple

import numpy as np


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
    u = uniform(keys, n_objects, 3)
    colours = hsv_to_rgb(u * [1, 0.5, 1] + [0, 0.5, 0])
    white = np.ones((*keys.shape, 1, 3))
    return np.rint(255 * np.concatenate([white, colours], -2)).astype(np.uint8)


def hsv_to_rgb(hsv: np.ndarray) -> np.ndarray:
    """[..., 3] to [..., 3], all in [0, 1]."""
    h, s, v = np.moveaxis(hsv, -1, 0)
    distance = np.stack([(n + 6 * h) % 6 for n in (5, 3, 1)], -1)
    share = np.clip(np.minimum(distance, 4 - distance), 0, 1)
    return v[..., None] * (1 - s[..., None] * share)


# --- contours -------------------------------------------------------------------------------------
# Random closed outlines by midpoint displacement, many at once.
#
# An outline starts with one point in each quadrant of a disc of radius 1/2. The midpoint between
# two neighbours is displaced by up to a fifth of their distance; this repeats until neighbours are
# at most `gap` apart. An outline that enters the hole around the centre is drawn again. Finally it
# is rotated, and scaled so that its bounding box is the unit square around 0. Before that, points
# are complex numbers.


RADIUS = 0.5
DISPLACEMENT = 0.2  # radius of the disc for a midpoint, as a share of the segment's length
_BLOCK = 512  # outlines drawn together; their data fit in the processor's cache
_AHEAD = 0.5  # attempts per round, as a share of the attempts that an outline needs
_DEEPEST, _OWNER = 32, 36  # most levels of halving; bits of a position along an outline


def contours(keys: np.ndarray, gap: float, hole: float) -> np.ndarray:
    """One outline per key: float64 [n, V, 2]; shorter outlines end with copies of a vertex.

    Copies have no effect later: they add no edge, no pixel and no nearer neighbour.
    """
    if not len(keys):
        return np.zeros((0, 1, 2))
    blocks = range(0, len(keys), _BLOCK)
    outlines = [outline for i in blocks for outline in _outlines(keys[i : i + _BLOCK], gap, hole)]
    return _unit_boxes(_padded(outlines), _turn(uniform(fold(keys, -1))))


def _outlines(keys, gap, hole):
    """Vertices complex [V] of one outline per key, neither rotated nor scaled."""
    outlines, pending, first, width = [None] * len(keys), np.arange(len(keys)), 0, 1
    while len(pending):
        tries = fold(keys[pending, None], np.arange(first, first + width))
        points, owner = _attempt(tries.reshape(-1), gap, hole)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        # The earliest successful attempt is used, so the result does not depend on the width.
        of, earliest = np.unique(owner[starts] // width, return_index=True)
        ends = np.append(starts[1:], len(owner))
        for i, k in zip(pending[of], earliest):
            outlines[i] = points[starts[k] : ends[k]]
        pending, first = np.delete(pending, of), first + width
        # If most attempts fail, several are made per round.
        needed = first * len(keys) / max(1, len(keys) - len(pending))
        width = max(1, min(round(_AHEAD * needed), 16))
    return outlines


def _attempt(keys, gap, hole):
    """Vertices complex [P] of the outlines that avoid the hole, and their outlines' indices [P]."""
    p, q, owner, node = _corners(keys, hole)
    is_lost, places, vertices = np.zeros(len(keys), bool), [], []
    for level in range(_DEEPEST):
        step = q - p
        split = (np.abs(step.real) > gap) | (np.abs(step.imag) > gap)
        last = np.flatnonzero(~split)
        places.append(owner[last] << _OWNER | node[last] << (_DEEPEST - level))
        vertices.append(p[last])
        rows = np.flatnonzero(split)
        if not len(rows):
            break
        middle = _midpoints(keys[owner[rows]], node[rows], p[rows], q[rows])
        # Every midpoint becomes a vertex of the outline, so it can be checked immediately.
        is_lost[owner[rows[_squared(middle) < hole**2]]] = True
        kept = np.flatnonzero(~is_lost[owner[rows]])
        rows, middle = rows[kept], middle[kept]
        p, q = np.concatenate([p[rows], middle]), np.concatenate([middle, q[rows]])
        owner, node = np.tile(owner[rows], 2), np.concatenate([2 * node[rows], 2 * node[rows] + 1])
    place, vertex = np.concatenate(places), np.concatenate(vertices)
    kept = np.flatnonzero(~is_lost[place >> _OWNER])
    order = kept[np.argsort(place[kept])]
    return vertex[order], place[order] >> _OWNER


def _corners(keys, hole):
    """The four first segments of every outline: from [4n], to, owner, node of the tree."""
    u, v = pairs(keys[:, None], np.arange(4, dtype=np.uint64))
    radius = np.sqrt(hole**2 + v * (RADIUS**2 - hole**2))  # uniform in the ring
    p = radius * _turn((np.arange(4) + u) / 4)
    owner, node = np.repeat(np.arange(len(keys)), 4), np.tile(np.arange(4, 8), len(keys))
    return p.reshape(-1), np.roll(p, -1, axis=1).reshape(-1), owner, node


def _midpoints(keys, node, p, q):
    """Midpoints displaced uniformly in a disc; redrawn if they leave the disc of radius RADIUS."""
    centre, reach = (p + q) / 2, DISPLACEMENT * np.sqrt(_squared(q - p))
    u, v = pairs(keys, node)
    middle = centre + reach * np.sqrt(u) * _turn(v)
    out, retry = np.flatnonzero(_squared(middle) > RADIUS**2), 1
    while len(out):
        u, v = pairs(keys[out], node[out] + (retry << 32))
        middle[out] = centre[out] + reach[out] * np.sqrt(u) * _turn(v)
        out, retry = out[_squared(middle[out]) > RADIUS**2], retry + 1
    return middle


def _turn(share):
    """The point on the unit circle at `share` of a full turn."""
    points = np.empty(np.shape(share), complex)
    angle = 2 * np.pi * share
    points.real, points.imag = np.cos(angle), np.sin(angle)
    return points


def _squared(z):
    return z.real**2 + z.imag**2


def _padded(outlines):
    padded = np.empty((len(outlines), max(map(len, outlines))), complex)
    for row, points in zip(padded, outlines):
        row[: len(points)] = points
        row[len(points) :] = points[-1]
    return padded


def _unit_boxes(points, turn):
    """Rotates complex [n, V]; returns real [n, V, 2] with the unit square around 0 as box."""
    x, y, cos, sin = points.real, points.imag, turn.real[:, None], turn.imag[:, None]
    unit = np.empty((*points.shape, 2))
    for axis, values in enumerate((cos * x - sin * y, sin * x + cos * y)):
        low, high = values.min(1, keepdims=True), values.max(1, keepdims=True)
        unit[..., axis] = (values - (low + high) / 2) / (high - low)
    return unit


# --- random draws ---------------------------------------------------------------------------------
# Random numbers by name: each is a hash of a key and a counter, so that draws are independent.
#
# A problem is therefore a function of its own key only. It does not depend on the other problems of
# its batch or on their number of retries.


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_WORD = np.uint64(0xD1B54A32D192ED03)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fold(keys: np.ndarray, numbers) -> np.ndarray:
    """New keys from keys and whole numbers, which broadcast against each other."""
    numbers = np.asarray(numbers).astype(np.uint64)
    with np.errstate(over="ignore"):  # numpy warns if scalars wrap around
        return _mix(keys ^ _mix((numbers + np.uint64(1)) * _WORD))


def bits(keys: np.ndarray, counters) -> np.ndarray:
    """64 random bits for each key and counter, which broadcast against each other."""
    counters = np.asarray(counters).astype(np.uint64)
    with np.errstate(over="ignore"):
        return _mix(keys + (counters + np.uint64(1)) * _GOLDEN)


def uniform(keys: np.ndarray, *shape: int) -> np.ndarray:
    """Numbers in [0, 1): float64 [*keys.shape, *shape]."""
    counters = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape)
    keys = keys.reshape(keys.shape + (1,) * len(shape))
    return (bits(keys, counters) >> np.uint64(11)) * 2.0**-53


def pairs(keys: np.ndarray, counters) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers in [0, 1) of 32 bits each, from one hash."""
    both = bits(keys, counters)
    low = both & np.uint64(0xFFFFFFFF)
    return (both >> np.uint64(32)) * 2.0**-32, low * 2.0**-32


def choice(keys: np.ndarray, n) -> np.ndarray:
    """A whole number below n for each key."""
    return (uniform(keys) * n).astype(np.int64)
