"""Where samples of a support lie: values of Q that P lacks, and parts of P that do not connect.

Both are statements about supports made from samples, so both have a resolution: two samples nearer
than it count as touching, and what is narrower goes unseen. `resolution` sets it from the samples'
own spacing. In many dimensions samples are far apart and hide much; therefore every single latent
and every pair is looked at too, where they are dense: projections of a covered or connected set
are covered or connected.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis import checks

MOST = 800  # samples whose distances are compared, each with each
LATTICE = 0.05  # mean log ratio of the two nearest distances, below which it is no chance
CHUNK = 256  # rows of distances held at once
SLACK = 10.0  # the radius is wide enough but for a chance of about exp(-SLACK)
LEAST_SHARE = 0.05  # of the samples: smaller parts are not told from a distribution's tails


class Coverage(NamedTuple):
    """Compositional support (Def. 2): does P reach every component value that Q has?"""

    share: np.ndarray  # [D] of Q's occupied bins that P reaches, one latent at a time
    gaps: tuple  # (latent, start, stop) of every run of bins that P misses
    holds: bool
    components: tuple = ()  # [K] of `Reach`: whole components, and pairs of latents inside them


class Reach(NamedTuple):
    """How far values of Q are from P's, in the latents where it is worst."""

    latents: tuple  # which ones, by name or number
    share: float  # of Q's values that have a value of P within the radius
    radius: float
    farthest: float  # largest distance of a value of Q from the nearest of P


class Connection(NamedTuple):
    """Whether P is in one piece, in the latents where its pieces are farthest apart."""

    holds: bool
    latents: tuple  # which ones, by name or number
    radius: float  # samples nearer than this are neighbours
    widest: float  # the longest step that joins two parts of P
    share: float  # of the samples, in the smaller of the two parts


def coverage(
    p, q, bins: int = 20, names: Sequence[str] = (), sizes: Sequence[int] = (), radius=None
) -> Coverage:
    """Compositional support of latents p [n, D] with respect to q [m, D].

    One latent at a time by histograms: bins span q's range; a bin counts as reached with a single
    sample, or one within a quarter of a bin of q's values there, so n must be well above `bins`,
    and gaps narrower than a bin may go unseen.
    sizes: latents of each component (their sum is D); then whole components and pairs of latents
    inside them are compared too, each value of q with the nearest of p. It counts as reached within
    `radius`; without one, within the `resolution` of p's values.
    """
    p, q, names = _checked(p, q, names, sizes)
    checks.integer("bins", bins, 1)
    if radius is not None:
        checks.bounded("radius", radius, 0)
    shares, gaps = [], []
    for d in range(p.shape[1]):
        edges = np.linspace(q[:, d].min(), q[:, d].max(), bins + 1)
        wanted = np.histogram(q[:, d], edges)[0] > 0
        # Of Q's values near the edge of a bin, P's nearest may lie just beyond it.
        far = _away(q[:, d], p[:, d]) > (edges[1] - edges[0]) / 4
        found = np.histogram(p[:, d], edges)[0] > 0
        missing = wanted & ~found & (np.histogram(q[far, d], edges)[0] > 0)
        shares.append(1 - missing.sum() / wanted.sum())
        for run in np.split(
            np.flatnonzero(missing), np.flatnonzero(np.diff(np.flatnonzero(missing)) > 1) + 1
        ):
            if len(run):
                gaps.append((names[d], float(edges[run[0]]), float(edges[run[-1] + 1])))
    found = tuple(_reach(p, q, dims, names, radius) for dims in components(sizes))
    holds = not gaps and all(one.share == 1 for one in found)
    return Coverage(np.array(shares), tuple(gaps), holds, found)


def connection(p, names: Sequence[str] = (), radius=None) -> Connection:
    """Whether samples p [n, D] of a support are in one piece: steps below the radius join them.

    The theorem integrates derivatives along paths in P, so what it says of one piece of P it does
    not say of another. Looked at: each latent, each pair of them, and all together. The radius,
    where none is given, is each projection's own `resolution`. Parts with less than 5 % of the
    samples are not told from a distribution's tails, and count as connected.
    """
    p, _, names = _checked(p, p, names, ())
    if radius is not None:
        checks.bounded("radius", radius, 0)
    worst = None
    for dims in projections(range(p.shape[1])):
        values = _distinct(p[:, dims])
        if len(values) < 3:
            continue
        widest, share = _widest_step(values)
        found = (resolution(values) if radius is None else radius), widest, share
        if worst is None or _excess(*found[:2]) > _excess(*worst[1][:2]):
            worst = dims, found
    if worst is None:
        raise ValueError("p holds fewer than three different points: there is nothing to connect")
    dims, (limit, widest, share) = worst
    return Connection(
        bool(widest <= limit), tuple(names[d] for d in dims), float(limit), float(widest), share
    )


def resolution(values) -> float:
    """The radius at which samples [n, d] of a set without gaps touch: 2 g m.

    m is the median distance to the nearest neighbour. Of n samples of even density in d dimensions
    the most isolated one is g = ((ln n + 10) / ln 2)^(1/d) times that from its neighbour, or less,
    but for a chance of about e^-10 (in one dimension, where gaps count on each side: 2 g). The
    factor 2 is for corners, whose neighbourhoods are cut, and for uneven density. d is the
    samples' own dimension, from the distances to the two nearest neighbours. On a lattice these are
    equal: there is no chance in them, and the radius is two of its steps.
    """
    checks.finite(values=values)
    values = _distinct(np.asarray(values, np.float64))
    if values.ndim != 2 or len(values) < 3:
        raise ValueError(f"values are [n, d], three different ones or more, got {values.shape}")
    first, second = _nearest(values, values, 3)[:, 1:].T
    spread = np.mean(np.log(second / first))
    if spread < LATTICE:
        return float(2 * np.median(first))
    dims = min(1 / spread, values.shape[1])
    chances = (math.log(len(values)) + SLACK) / math.log(2) * (2 if dims < 1.5 else 1)
    return float(2 * chances ** (1 / dims) * np.median(first))


def neighbours(values, samples, most: int, radius=None) -> list[np.ndarray]:
    """Indices of the samples [n, d] within a radius of each value [m, d], nearest first.

    At most `most` of them. Without a radius, within the samples' `resolution`.
    """
    checks.finite(values=values, samples=samples)
    checks.integer("most", most, 1)
    values, samples = (np.asarray(array, np.float64) for array in (values, samples))
    if values.ndim != 2 or samples.shape[1:] != values.shape[1:]:
        raise ValueError(f"samples are [n, d] as values are, got {samples.shape}, {values.shape}")
    if radius is not None:
        checks.bounded("radius", radius, 0)
    else:
        distinct = _distinct(samples)
        radius = resolution(distinct) if len(distinct) > 2 else 0.0
    found, columns = [], samples.T.copy()
    for value in values:
        away = np.sqrt(sum(np.square(column - own) for column, own in zip(columns, value)))
        near = np.flatnonzero(away <= radius)
        found.append(near[np.argsort(away[near], kind="stable")[:most]])
    return found


def first_of_each(values) -> np.ndarray:
    """Indices of the different rows of values [n, d], each where it is first; rows ascending."""
    checks.finite(values=values)
    values = np.asarray(checks.real("values", values, 2, "n, d"))
    order = np.lexsort(values.T[::-1])  # `np.unique` of rows takes ten times as long
    rows = values[order]
    return order[np.concatenate([[True], np.any(rows[1:] != rows[:-1], axis=1)])]


def projections(dims: Sequence[int]) -> list[tuple[int, ...]]:
    """Each latent alone, each pair, and all of them."""
    dims = tuple(dims)
    subsets = [*((d,) for d in dims), *itertools.combinations(dims, 2), dims]
    return list(dict.fromkeys(subsets))


def components(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The latents of each component: consecutive ones."""
    stops = np.cumsum(sizes, dtype=int)
    return [tuple(range(stop - size, stop)) for size, stop in zip(sizes, stops)]


# --- distances ------------------------------------------------------------------------------------


def _reach(p, q, dims, names, radius):
    """The projection of one component in which most values of q are out of p's reach."""
    worst, own = None, p[first_of_each(p[:, dims])]  # which has fewer values than p has rows
    for subset in projections(dims):
        of_p = _distinct(own[:, subset])
        limit = radius
        if limit is None:
            limit = resolution(of_p) if len(of_p) > 2 else 0.0
        if limit:
            away = _nearest(_some(q[:, subset]), of_p, 1)[:, 0]
        else:
            away = _apart(q[:, subset], own[:, subset], of_p)
        share = float(np.mean(away <= limit))
        key = (share, -_excess(limit, away.max()))
        if worst is None or key < worst[0]:
            reach = Reach(tuple(names[d] for d in subset), share, limit, float(away.max()))
            worst = key, reach
    return worst[1]


def _apart(q, p, some):
    """Distance 0 of values of q that are among those of p; of the others to some of p's."""
    q = q[first_of_each(q)]
    first = first_of_each(np.concatenate([p, q]))
    unseen = first[first >= len(p)] - len(p)
    away = np.zeros(len(q))
    if len(unseen):
        away[unseen] = _nearest(q[unseen], some, 1)[:, 0]
    return away


def _away(a, b):
    """Distance of each number of a [n] to the nearest of b [m]."""
    b = np.sort(b)
    after = np.clip(np.searchsorted(b, a), 0, len(b) - 1)
    before = np.clip(after - 1, 0, len(b) - 1)
    return np.minimum(np.abs(a - b[after]), np.abs(a - b[before]))


def _excess(limit, found):
    return found / limit if limit else (0.0 if found == 0 else np.inf)


def _widest_step(values):
    """The longest edge of the minimum spanning tree that cuts off a part, and that part's share.

    Prim's algorithm visits the points nearest first; cutting the tree at an edge leaves the
    subtree behind it and the rest.
    """
    n = len(values)
    if values.shape[1] == 1:  # sorted: each step cuts
        steps, before = np.diff(values[:, 0]), np.arange(1, n) / n
        share = np.minimum(before, 1 - before)
        worst = int(np.argmax(np.where(share >= min(LEAST_SHARE, share.max()), steps, -1.0)))
        return float(steps[worst]), float(share[worst])
    parent, length = np.zeros(n, int), np.full(n, np.inf)
    order, left, at = [0], np.ones(n, bool), 0
    left[0] = False
    for _ in range(n - 1):
        away = np.sum(np.square(values - values[at]), axis=1)
        nearer = left & (away < length)
        length[nearer], parent[nearer] = away[nearer], at
        at = int(np.argmin(np.where(left, length, np.inf)))
        left[at] = False
        order.append(at)
    size = np.ones(n, int)
    for i in reversed(order[1:]):
        size[parent[i]] += size[i]
    share = np.minimum(size, n - size) / n
    share[0] = -1.0  # the root has no edge
    edges = np.where(share >= min(LEAST_SHARE, share.max()), length, -1.0)
    worst = int(np.argmax(edges))
    return math.sqrt(max(edges[worst], 0.0)), float(share[worst])


def _nearest(a, b, k):
    """The k smallest distances from each row of a to rows of b, ascending: [len(a), k]."""
    rows = []
    for start in range(0, len(a), CHUNK):
        # Not by |a|^2 + |b|^2 - 2 ab, which cancels where they are near.
        away = sum(np.square(x[start : start + CHUNK, None] - y[None]) for x, y in zip(a.T, b.T))
        rows.append(np.sort(np.partition(away, min(k, len(b)) - 1, axis=1)[:, :k], axis=1))
    return np.sqrt(np.concatenate(rows))


def _distinct(values):
    """Different rows, at most MOST of them: a fixed slot repeats its value in every sample."""
    values = np.asarray(values, np.float64)
    return _some(values[first_of_each(values)])


def _some(values):
    """At most MOST rows, in order."""
    if len(values) <= MOST:
        return values
    chosen = np.random.default_rng(0).choice(len(values), MOST, replace=False)
    return values[np.sort(chosen)]


def _checked(p, q, names, sizes):
    checks.finite(p=p, q=q)
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    if p.ndim != 2 or q.ndim != 2 or p.shape[1] != q.shape[1]:
        raise ValueError(f"latents are [n, D] and [m, D] with one D, got {p.shape} and {q.shape}")
    if not len(p) or not len(q):
        raise ValueError("the support is empty: there is no latent to compare")
    if len(names) not in (0, p.shape[1]):
        raise ValueError(f"names are one for each of {p.shape[1]} latents, got {len(names)}")
    for size in sizes:
        checks.integer("sizes", size, 1)
    if len(sizes) and sum(sizes) != p.shape[1]:
        raise ValueError(f"sizes are of all {p.shape[1]} latents, got {tuple(sizes)}")
    return p, q, tuple(names) or tuple(range(p.shape[1]))


# --- jumps of a function, found by refinement: halve a step again and again, keep the worse half --
# Where f is Lipschitz, its change over the step shrinks with the step. Over a jump it stays. Kinks,
# as of ReLU, change no value and are not found.


HALVINGS = 14  # steps end 16,384 times shorter than they began
LEFT = 0.05  # of its largest change: what a step keeps when it hides a jump


class Continuity(NamedTuple):
    """What refinement found on n steps."""

    holds: bool
    share: float  # of steps that hide a jump, or a slope 800 times that of the whole step
    left: float  # the largest part of a step's change that no halving took away
    n: int


def continuity(f: Callable, starts, stops, halvings: int = HALVINGS) -> Continuity:
    """Whether f jumps on the straight lines from starts to stops: trees of arrays [n, ...].

    f maps such a tree to one array [n, ...]. A jump that lies between no start and its stop goes
    unseen, as does the smaller one of two on the same line.
    """
    checks.integer("halvings", halvings, 1)
    checks.finite_leaves(starts=starts, stops=stops)
    starts, stops = jax.tree.map(np.asarray, (starts, stops))
    shapes = [[leaf.shape for leaf in jax.tree.leaves(tree)] for tree in (starts, stops)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"stops are of the shapes of starts, got {shapes[1]} for {shapes[0]}")
    if not all(len(shape) and shape[0] for shape in shapes[0]):
        raise ValueError(f"starts are [n, ...] with n > 0, got {shapes[0]}")
    low, high = _values(f, starts), _values(f, stops)
    largest = change = _sizes(high - low)
    for _ in range(halvings):
        middles = jax.tree.map(lambda a, b: (a + b) / 2, starts, stops)
        middle = _values(f, middles)
        before, after = _sizes(middle - low), _sizes(high - middle)
        later = after > before
        starts = jax.tree.map(functools.partial(_pick, later), middles, starts)
        stops = jax.tree.map(functools.partial(_pick, later), stops, middles)
        low, high = _pick(later, middle, low), _pick(later, high, middle)
        change = np.maximum(before, after)
        largest = np.maximum(largest, change)
    left = change / np.where(largest > 0, largest, 1)
    jumps = ~(left <= LEFT)  # NaN, where f is not defined on the way, is no continuity
    return Continuity(not jumps.any(), float(jumps.mean()), float(left.max()), len(left))


def _values(f, tree):
    return np.asarray(f(tree))


def _sizes(change):
    """The largest change of any output: a jump of one of many is not averaged away."""
    return np.abs(change).reshape(len(change), -1).max(axis=1)


def _pick(later, a, b):
    return np.where(later.reshape(-1, *[1] * (a.ndim - 1)), a, b)
