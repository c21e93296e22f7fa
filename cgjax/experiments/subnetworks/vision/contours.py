"""Random closed outlines by midpoint displacement, many at once.

An outline starts with one point in each quadrant of a disc of radius 1/2. The midpoint between two
neighbours is displaced by up to a fifth of their distance; this repeats until neighbours are at
most `gap` apart. An outline that enters the hole around the centre is drawn again. Finally it is
rotated, and scaled so that its bounding box is the unit square around 0. Before that, points are
complex numbers.
"""

import numpy as np

from cgjax.experiments.subnetworks.vision import draws

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
    return _unit_boxes(_padded(outlines), _turn(draws.uniform(draws.fold(keys, -1))))


def _outlines(keys, gap, hole):
    """Vertices complex [V] of one outline per key, neither rotated nor scaled."""
    outlines, pending, first, width = [None] * len(keys), np.arange(len(keys)), 0, 1
    while len(pending):
        tries = draws.fold(keys[pending, None], np.arange(first, first + width))
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
    u, v = draws.pairs(keys[:, None], np.arange(4, dtype=np.uint64))
    radius = np.sqrt(hole**2 + v * (RADIUS**2 - hole**2))  # uniform in the ring
    p = radius * _turn((np.arange(4) + u) / 4)
    owner, node = np.repeat(np.arange(len(keys)), 4), np.tile(np.arange(4, 8), len(keys))
    return p.reshape(-1), np.roll(p, -1, axis=1).reshape(-1), owner, node


def _midpoints(keys, node, p, q):
    """Midpoints displaced uniformly in a disc; redrawn if they leave the disc of radius RADIUS."""
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
