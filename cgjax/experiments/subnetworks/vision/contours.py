"""Random closed outlines by midpoint displacement, many at once.

One point in each quadrant of a disc of radius 1/2; between neighbours the midpoint is displaced by
up to a fifth of their distance, and so on until they are `gap` apart. An outline that enters the
hole around the centre is drawn anew. At last it is turned, and scaled so that its bounding box is
the unit square around 0.
"""

import numpy as np

from cgjax.experiments.subnetworks.vision import draws

RADIUS = 0.5
DISPLACEMENT = 0.2  # of a segment's length, the radius of the disc for its midpoint
_AT_ONCE = 64  # attempts at fewer outlines than this are made several at a time
_BLOCK = 128  # outlines that are drawn together: what they need stays in the processor's cache
_DEEPEST, _OWNER = 32, 36  # levels of halving; bits of a place along an outline


def contours(keys: np.ndarray, gap: float, hole: float) -> np.ndarray:
    """One outline for each key: float64 [n, V, 2], the shorter ones end in copies of a vertex.

    Copies change nothing later on: they are no edge, no pixel and no nearer neighbour.
    """
    if not len(keys):
        return np.zeros((0, 1, 2))
    blocks = range(0, len(keys), _BLOCK)
    found = [each for i in blocks for each in _outlines(keys[i : i + _BLOCK], gap, hole)]
    return _unit_boxes(_padded(found), draws.uniform(draws.fold(keys, -1)) * 2 * np.pi)


def _outlines(keys, gap, hole):
    """The vertices [V, 2] of one outline for each key, neither turned nor scaled."""
    found, pending, first = [None] * len(keys), np.arange(len(keys)), 0
    while len(pending):
        width = max(1, min(16, _AT_ONCE // len(pending)))
        tries = draws.fold(keys[pending, None], np.arange(first, first + width))
        points, owner = _attempt(tries.reshape(-1), gap, hole)
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        # The earliest attempt that succeeds counts, so the width leaves no trace.
        of, earliest = np.unique(owner[starts] // width, return_index=True)
        ends = np.append(starts[1:], len(owner))
        for i, k in zip(pending[of], earliest):
            found[i] = points[starts[k] : ends[k]]
        pending, first = np.delete(pending, of), first + width
    return found


def _attempt(keys, gap, hole):
    """Vertices [P, 2] of the outlines that stay out of the hole, and whose they are [P]."""
    p, q, owner, node = _corners(keys, hole)
    is_lost, places, vertices = np.zeros(len(keys), bool), [], []
    for level in range(_DEEPEST):
        split = (np.abs(q[0] - p[0]) > gap) | (np.abs(q[1] - p[1]) > gap)
        places.append(owner[~split] << _OWNER | node[~split] << (_DEEPEST - level))
        vertices.append(p[:, ~split])
        p, q, owner, node = p[:, split], q[:, split], owner[split], node[split]
        if not len(owner):
            break
        middle = _midpoints(keys[owner], node, p, q)
        # Every vertex is the start of some last segment, so it can be judged at once.
        is_lost[owner[np.hypot(*middle) < hole]] = True
        kept = ~is_lost[owner]
        p, q, middle, owner, node = p[:, kept], q[:, kept], middle[:, kept], owner[kept], node[kept]
        p, q = np.concatenate([p, middle], 1), np.concatenate([middle, q], 1)
        owner, node = np.concatenate([owner, owner]), np.concatenate([2 * node, 2 * node + 1])
    place, vertex = np.concatenate(places), np.concatenate(vertices, 1)
    place = place[kept := ~is_lost[place >> _OWNER]]
    order = np.argsort(place)
    return vertex[:, kept].T[order], place[order] >> _OWNER


def _corners(keys, hole):
    """The four first segments of every outline: from [2, 4n], to, owner, node of the tree."""
    u, v = draws.pairs(keys[:, None], np.arange(4, dtype=np.uint64))
    angle = (np.arange(4) + u) * (np.pi / 2)
    radius = np.sqrt(hole**2 + v * (RADIUS**2 - hole**2))  # uniform in the ring
    p = np.stack([radius * np.cos(angle), radius * np.sin(angle)])
    q = np.roll(p, -1, axis=2)
    owner, node = np.repeat(np.arange(len(keys)), 4), np.tile(np.arange(4, 8), len(keys))
    return p.reshape(2, -1), q.reshape(2, -1), owner, node


def _midpoints(keys, node, p, q):
    """Displaced, uniformly in a disc, and again where they fall out of the large one."""
    centre, reach = (p + q) / 2, DISPLACEMENT * np.hypot(*(q - p))
    middle, todo, retry = np.empty_like(p), np.arange(len(keys)), 0
    while len(todo):
        u, v = draws.pairs(keys[todo], node[todo] + (retry << 32))
        radius, angle = reach[todo] * np.sqrt(u), 2 * np.pi * v
        new = centre[:, todo] + radius * np.stack([np.cos(angle), np.sin(angle)])
        middle[:, todo] = new
        todo, retry = todo[np.hypot(*new) > RADIUS], retry + 1
    return middle


def _padded(found):
    lengths = np.array([len(points) for points in found])
    padded = np.empty((len(found), lengths.max(), 2))
    for row, points in zip(padded, found):
        row[: len(points)] = points
        row[len(points) :] = points[-1]
    return padded


def _unit_boxes(points, angle):
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    x, y = points[..., 0], points[..., 1]
    points = np.stack([cos * x - sin * y, sin * x + cos * y], -1)
    low, high = points.min(1, keepdims=True), points.max(1, keepdims=True)
    return (points - (low + high) / 2) / (high - low)
