"""Random closed outlines by midpoint displacement, many at once.

One point in each quadrant of a disc of radius 1/2; between neighbours the midpoint is displaced by
up to a fifth of their distance, and so on until they are `gap` apart. An outline that enters the
hole around the centre is drawn anew. At last it is turned, and scaled so that its bounding box is
the unit square around 0. Until then points are complex numbers.
"""

import numpy as np

from cgjax.experiments.subnetworks.vision import draws

RADIUS = 0.5
DISPLACEMENT = 0.2  # of a segment's length, the radius of the disc for its midpoint
_BLOCK = 512  # outlines that are drawn together: what they need stays in the processor's cache
_AHEAD = 0.5  # attempts made at a time, as a share of those that an outline takes
_DEEPEST, _OWNER = 32, 36  # levels of halving; bits of a place along an outline


def contours(keys: np.ndarray, gap: float, hole: float) -> np.ndarray:
    """One outline for each key: float64 [n, V, 2], the shorter ones end in copies of a vertex.

    Copies change nothing later on: they are no edge, no pixel and no nearer neighbour.
    """
    if not len(keys):
        return np.zeros((0, 1, 2))
    blocks = range(0, len(keys), _BLOCK)
    found = [each for i in blocks for each in _outlines(keys[i : i + _BLOCK], gap, hole)]
    return _unit_boxes(_padded(found), _turn(draws.uniform(draws.fold(keys, -1))))


def _outlines(keys, gap, hole):
    """The vertices, complex [V], of one outline for each key, neither turned nor scaled."""
    found, pending, first, width = [None] * len(keys), np.arange(len(keys)), 0, 1
    while len(pending):
        tries = draws.fold(keys[pending, None], np.arange(first, first + width))
        points, owner = _attempt(tries.reshape(-1), gap, hole)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        # The earliest attempt that succeeds counts, so the width leaves no trace.
        of, earliest = np.unique(owner[starts] // width, return_index=True)
        ends = np.append(starts[1:], len(owner))
        for i, k in zip(pending[of], earliest):
            found[i] = points[starts[k] : ends[k]]
        pending, first = np.delete(pending, of), first + width
        # Where most attempts fail, several are made at a time.
        needed = first * len(keys) / max(1, len(keys) - len(pending))
        width = max(1, min(round(_AHEAD * needed), 16))
    return found


def _attempt(keys, gap, hole):
    """Vertices complex [P] of the outlines that stay out of the hole, and whose they are [P]."""
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
        # Every vertex is the start of some last segment, so it can be judged at once.
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
    u, v = draws.pairs(keys[:, None], np.arange(4, dtype=np.uint64))
    radius = np.sqrt(hole**2 + v * (RADIUS**2 - hole**2))  # uniform in the ring
    p = radius * _turn((np.arange(4) + u) / 4)
    owner, node = np.repeat(np.arange(len(keys)), 4), np.tile(np.arange(4, 8), len(keys))
    return p.reshape(-1), np.roll(p, -1, axis=1).reshape(-1), owner, node


def _midpoints(keys, node, p, q):
    """Displaced, uniformly in a disc, and again where they fall out of the large one."""
    centre, reach = (p + q) / 2, DISPLACEMENT * np.sqrt(_squared(q - p))
    u, v = draws.pairs(keys, node)
    middle = centre + reach * np.sqrt(u) * _turn(v)
    out, retry = np.flatnonzero(_squared(middle) > RADIUS**2), 1
    while len(out):
        u, v = draws.pairs(keys[out], node[out] + (retry << 32))
        middle[out] = centre[out] + reach[out] * np.sqrt(u) * _turn(v)
        out, retry = out[_squared(middle[out]) > RADIUS**2], retry + 1
    return middle


def _turn(share):
    """The point of the unit circle after that share of a turn."""
    found = np.empty(np.shape(share), complex)
    angle = 2 * np.pi * share
    found.real, found.imag = np.cos(angle), np.sin(angle)
    return found


def _squared(z):
    return z.real**2 + z.imag**2


def _padded(found):
    padded = np.empty((len(found), max(map(len, found))), complex)
    for row, points in zip(padded, found):
        row[: len(points)] = points
        row[len(points) :] = points[-1]
    return padded


def _unit_boxes(points, turn):
    """Complex [n, V], turned, to real [n, V, 2] with the unit square around 0 as bounding box."""
    x, y, cos, sin = points.real, points.imag, turn.real[:, None], turn.imag[:, None]
    unit = np.empty((*points.shape, 2))
    for axis, values in enumerate((cos * x - sin * y, sin * x + cos * y)):
        low, high = values.min(1, keepdims=True), values.max(1, keepdims=True)
        unit[..., axis] = (values - (low + high) / 2) / (high - low)
    return unit
