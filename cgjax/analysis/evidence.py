"""What points P' of a support tell about one component: singular values of C's Jacobians there.

All in float64 (the caller enables it): rank is a question about small numbers. Points are K arrays
[p, ...]; a block is one position of a pixelwise composition, or the whole of any other.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import jacobians

BLOCK = 32  # points of P' whose Jacobians are held at once
SEARCHED = 64  # points among which subsets are searched
TRIES = 32  # random subsets
GREEDY = 16  # points up to which they are also added one by one
DIRECTIONS = 8  # hidden directions of a dense Jacobian that are followed to second order


def merged(composition, points, component, pixelwise, stacked):
    """The summed Jacobian [blocks, rows, M] over all points, or the R factor of their stack."""
    whole = None
    for part in _parts(points):
        found = _evidence(composition, part, component, pixelwise, stacked)
        whole = found if whole is None else _merge(whole, found, stacked)
    _check_finite(whole, "these slots")
    return whole


def nothing(own, pixelwise):
    """Singular values and directions where there is no point at all: everything is hidden."""
    size = math.prod(own.shape[1:])
    n_columns = own.shape[-1] if pixelwise else size
    return np.zeros((size // n_columns, n_columns)), np.eye(n_columns)[None]


singular_values, spectrum = jax.jit(jacobians.singular_values), jax.jit(jacobians.spectrum)


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise", "stacked"))
def _evidence(composition, points, component, pixelwise, stacked):
    found = jacobians.blocks(composition, points, component, pixelwise)
    return jacobians.triangular(jnp.concatenate(found, axis=1)) if stacked else jnp.sum(found, 0)


@functools.partial(jax.jit, static_argnames="stacked")
def _merge(a, b, stacked):
    return jacobians.triangular(jnp.concatenate([a, b], axis=1)) if stacked else a + b


# --- some finite P' -------------------------------------------------------------------------------


def search(composition, points, component, pixelwise, judged, n_hidden):
    """Points whose summed Jacobian passes where that of all does not: their indices, or None.

    A sum can cancel, and the definition asks for *some* finite P'. Tried, in this order: each point
    alone, the first ones, up to 16 points added greedily, random subsets; among the first 64.
    judged: the blocks that count. n_hidden: singular values [blocks, M] -> how many count as zero.
    Returns the indices and the singular values of their sum. Not finding any proves nothing.
    """
    n = min(len(points[0]), SEARCHED)
    found = np.concatenate(
        [
            np.asarray(_blocks(composition, part, component, pixelwise))
            for part in _parts(tuple(slot[:n] for slot in points))
        ]
    )[:, judged]

    def sigma(chosen):
        return np.asarray(singular_values(found[list(chosen)].sum(axis=0)))

    def greedy():
        chosen = []
        for _ in range(n):
            free = [i for i in range(n) if i not in chosen]
            found_with = {i: sigma((*chosen, i)) for i in free}
            score = {i: (-n_hidden(values), values.min()) for i, values in found_with.items()}
            chosen.append(max(free, key=score.get))
            yield tuple(chosen)

    rng = np.random.default_rng(0)
    drawn = (tuple(np.flatnonzero(rng.random(n) < 0.5)) for _ in range(TRIES))
    tries = itertools.chain(
        ((i,) for i in range(n)),
        (tuple(range(i)) for i in range(2, n)),
        greedy() if n <= GREEDY else (),
        (chosen for chosen in drawn if chosen),
    )
    for chosen in tries:
        if not n_hidden(values := sigma(chosen)):
            return np.array(chosen), values
    return None, None


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise"))
def _blocks(composition, points, component, pixelwise):
    return jacobians.blocks(composition, points, component, pixelwise)


# --- what P' hides, on Q --------------------------------------------------------------------------


def leak(composition, points, component, pixelwise, vectors, hidden):
    """Largest |dC/dphi_k v| over points of Q and the directions v that P' hides: [blocks].

    vectors [blocks, M, M], directions as columns; hidden [blocks, M], which of them count.
    """
    directions = vectors * hidden[:, None, :]
    worst = np.zeros(len(hidden))
    for part in _parts(points):
        found = _blocks(composition, part, component, pixelwise)
        worst = np.maximum(worst, np.asarray(_along(found, directions)))
    _check_finite(worst, "points of unseen")
    return worst


def second_leak(composition, points, unseen, component, pixelwise, vectors, hidden, least):
    """The same to second order: what a hidden direction v shows on Q beyond what P' rules out.

    Along phi + t v + t^2 w the image changes by t^2 (H[v, v] / 2 + J w). A pair (v, w) that changes
    nothing on P' must change nothing on Q: for each v, what [J, H[v, v] / 2] over P' hides is
    looked at in [J, H[v, v] / 2] over Q. v: the hidden directions and the sums of two of them, or
    for a dense Jacobian eight random ones among them.
    """
    worst = np.zeros(len(hidden))
    for direction in _directions(vectors, hidden, pixelwise):  # [blocks, M]
        whole = None
        for part in _parts(points):
            found = _bent(composition, part, component, pixelwise, direction)
            found = _stack(found)
            whole = found if whole is None else _merge(whole, found, True)
        sigma, columns = (np.asarray(one) for one in spectrum(whole))
        out_of_sight = columns * (sigma <= least)[:, None, :]
        for part in _parts(unseen):
            found = _bent(composition, part, component, pixelwise, direction)
            worst = np.maximum(worst, np.asarray(_along(found, out_of_sight)))
    _check_finite(worst, "points of unseen")
    return worst


def _directions(vectors, hidden, pixelwise):
    """Unit directions [blocks, M] within what is hidden; zero in blocks that hide none."""
    basis = np.swapaxes(vectors * hidden[:, None, :], 1, 2)  # [blocks, directions, M]
    if pixelwise:
        yield from (basis[:, i] for i in range(basis.shape[1]) if basis[:, i].any())
        for i, j in itertools.combinations(range(basis.shape[1]), 2):
            both = hidden[:, i] & hidden[:, j]
            if both.any():
                yield (basis[:, i] + basis[:, j]) * both[:, None] / math.sqrt(2)
    elif hidden.any():
        drawn = np.random.default_rng(0).normal(size=(DIRECTIONS, hidden.shape[1]))
        for weights in drawn * hidden:
            yield (weights @ basis[0])[None] / np.linalg.norm(weights)


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise"))
def _bent(composition, points, component, pixelwise, direction):
    """[J, H[v, v] / 2] at each point: [p, blocks, rows, M + 1]."""
    found = jacobians.blocks(composition, points, component, pixelwise)
    own = points[component]
    step = jnp.broadcast_to(direction.reshape(1, *own.shape[1:]), own.shape)

    def moved(t):
        return composition([s + t * step if k == component else s for k, s in enumerate(points)])

    bend = jax.jacfwd(jax.jacfwd(moved))(jnp.zeros((), own.dtype)) / 2
    return jnp.concatenate([found, bend.reshape(*found.shape[:3], 1)], axis=3)


@jax.jit
def _stack(found):
    return jacobians.triangular(jnp.concatenate(found, axis=1))


@jax.jit
def _along(found, columns):
    """The longest image of a column under any point's matrix: [blocks]."""
    moved = jnp.einsum("pbrm,bmv->pbrv", found, columns)
    return jnp.max(jnp.linalg.norm(moved, axis=2), axis=(0, 2))


def _parts(points):
    for start in range(0, len(points[0]), BLOCK):
        yield tuple(slot[start : start + BLOCK] for slot in points)


def _check_finite(found, where):
    if not np.all(np.isfinite(found)):
        raise ValueError(
            f"the Jacobian is not finite: the composition is not differentiable at {where}"
        )
