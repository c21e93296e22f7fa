"""Jacobians of a composition with respect to one component's output, and what ranks need of them.

A composition that acts at each position (pixel) on its own has a block-diagonal Jacobian: one small
block per position, thousands of blocks per scene, and never the dense matrix they stand in.
"""

import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, finite

SMALL = 8  # columns up to which orthogonalising by hand beats one LAPACK call per block
TRIED = 4  # points, and directions at each, at which mixing of positions is looked for


def blocks(composition: Callable, points, component: int, pixelwise: bool) -> jax.Array:
    """dC/dphi_k at p points: [p, positions, rows, columns], or [p, 1, N, M] where not pixelwise.

    points: K arrays [p, ...]; composition: `C(slots)` from such a sequence to one array [p, ...].
    """
    check_points("points", points, component)
    return (_pixel_blocks if pixelwise else _dense)(composition, points, component)


def check_points(name: str, points, component: int) -> None:
    """Slots of finite numbers at as many points each, of which the component is one."""
    checks.integer("component", component, 0, len(points) - 1)
    for slot in points:
        checks.finite(**{name: slot})
    if len({len(slot) for slot in points}) > 1:
        raise ValueError(f"{name}: slots hold {[len(slot) for slot in points]} points, not as many")


def _replaced(points, component, value):
    return [value if k == component else slot for k, slot in enumerate(points)]


@functools.partial(jax.jit, static_argnames=("composition", "component"))
def _pixel_blocks(composition, points, component):
    """All blocks by one `jacfwd`: a shift common to all positions moves each through its own."""
    values = points[component]

    def shifted(shift):
        shift = shift.reshape((1,) * (values.ndim - 1) + (-1,))
        return composition(_replaced(points, component, values + shift))

    # [p, ..., rows, columns]
    matrices = jax.jacfwd(shifted)(jnp.zeros(values.shape[-1], values.dtype))
    _check_positions(values, matrices[..., 0])
    return matrices.reshape(len(values), -1, *matrices.shape[-2:])


def _check_positions(values, composed):
    if composed.shape[:-1] != values.shape[:-1]:
        raise ValueError(
            f"the composition maps slots {values.shape[1:]} to {composed.shape[1:]}: it has other "
            "positions and mixes them; pass pixelwise=False"
        )


@functools.partial(jax.jit, static_argnames=("composition", "component"))
def _dense(composition, points, component):
    """`jacfwd` over the flattened component, point by point."""

    def of_point(slots):
        slots = [slot[None] for slot in slots]
        value = slots[component]

        def along(flat):
            return composition(_replaced(slots, component, flat.reshape(value.shape))).ravel()

        return jax.jacfwd(along)(value.ravel())[None]

    return jax.lax.map(of_point, tuple(points))


def check_pixelwise(composition: Callable, points, component: int) -> None:
    """A composition that mixes positions would get wrong ranks without a word.

    Tried at up to TRIED points, in random directions at a random half of the positions. What the
    composition itself raises is the caller's to see.
    """
    check_points("points", points, component)
    values = points[component]
    if not len(values) or values.ndim < 3:
        return
    some = tuple(jnp.asarray(slot[:TRIED]) for slot in points)
    _check_positions(some[component], jax.eval_shape(composition, list(some)))
    if _reach(composition, some, component, *_tries(some[component].shape)) > 0:
        raise ValueError("the composition mixes positions: pass pixelwise=False")


def _tries(shape):
    """Random halves of the positions [TRIED, p, ..., 1], directions that move them [..., M]."""
    rng = np.random.default_rng(0)
    halves, directions = [], []
    for _ in range(TRIED):
        halves.append(rng.random(shape[:-1])[..., None] < 0.5)
        # Not the same for all channels: a composition may look at their differences alone.
        directions.append(np.where(halves[-1], rng.normal(size=shape), 0.0))
    return np.stack(halves), np.stack(directions)


@functools.partial(jax.jit, static_argnames=("composition", "component"))
def _reach(composition, points, component, halves, directions):
    """What moving a random half of the positions changes at the others: 0 if C is pixelwise."""
    slot = points[component]

    def of_try(half):
        moved, direction = half
        _, change = jax.jvp(
            lambda value: composition(_replaced(points, component, value)), (slot,), (direction,)
        )
        return jnp.max(jnp.where(moved, 0.0, jnp.abs(change)))

    # One after another: a program of all tries side by side compiles for longer than it runs.
    return jnp.max(jax.lax.map(of_try, (halves, directions.astype(slot.dtype))))


# --- matrices by the thousand ---------------------------------------------------------------------

MATRICES = finite("... rows>=0 M")


@checked
def triangular(matrices: MATRICES) -> jax.Array:
    """R [..., M, M] with R'R = A'A for A [..., rows, M]: all that matters of stacked Jacobians."""
    if matrices.shape[-1] > SMALL:
        r = jnp.linalg.qr(matrices, mode="r")
        pad = [(0, 0)] * (r.ndim - 2) + [(0, r.shape[-1] - r.shape[-2]), (0, 0)]
        return jnp.pad(r, pad)
    columns = [matrices[..., c] for c in range(matrices.shape[-1])]
    nothing = jnp.zeros(matrices.shape[:-2], matrices.dtype)
    rows = []
    for i in range(len(columns)):
        norm = jnp.linalg.norm(columns[i], axis=-1)
        unit = columns[i] / jnp.where(norm > 0, norm, 1)[..., None]
        row = [nothing] * i + [norm]
        for j in range(i + 1, len(columns)):
            along = jnp.sum(unit * columns[j], axis=-1)
            columns[j] = columns[j] - along[..., None] * unit
            row.append(along)
        rows.append(jnp.stack(row, axis=-1))
    return jnp.stack(rows, axis=-2)


@checked
def singular_values(matrices: MATRICES) -> jax.Array:
    """Singular values [..., M], descending; with fewer rows than M the surplus ones are zero."""
    return _surplus(jnp.linalg.svd(matrices, compute_uv=False), matrices)


@checked
def spectrum(matrices: MATRICES) -> tuple[jax.Array, jax.Array]:
    """`singular_values`, and all right singular vectors as columns [..., M, M]."""
    _, sigma, vectors = jnp.linalg.svd(matrices, full_matrices=True)
    return _surplus(sigma, matrices), jnp.swapaxes(vectors, -2, -1)


def least(sigma: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """[..., 1, 1] what singular values [..., blocks, M] must exceed to count."""
    return np.maximum(rtol * sigma.max(axis=(-2, -1), keepdims=True, initial=0), atol)


def n_lacking(is_hidden: np.ndarray, pixelwise: bool) -> np.ndarray:
    """[...] positions with a hidden direction [..., positions, M]; not pixelwise: directions."""
    return np.sum(is_hidden.any(axis=-1) if pixelwise else is_hidden[..., 0, :], axis=-1)


def _surplus(sigma, matrices):
    missing = matrices.shape[-1] - sigma.shape[-1]
    return jnp.pad(sigma, [(0, 0)] * (sigma.ndim - 1) + [(0, missing)])


# --- what points P' of a support tell about one component: singular values of C's Jacobians there -
# All in float64 (the caller enables it), because rank depends on small numbers. Points are K arrays
# [p, ...]; a block is one position of a pixelwise composition, or the whole of any other.


BLOCK = 32  # points of P' whose Jacobians are held at once
SEARCHED = 64  # points among which subsets are searched
TRIES = 32  # random subsets
GREEDY = 16  # points up to which they are also added one by one


def merged(composition, points, component, pixelwise, stacked):
    """The summed Jacobian [blocks, rows, M] over all points, or the R factor of their stack."""
    slot = points[component]
    n_blocks = math.prod(slot.shape[1:-1]) if pixelwise else 1
    if not len(slot):  # no rows: everything is hidden
        return jnp.zeros((n_blocks, 0, math.prod(slot.shape[1:]) // n_blocks))
    each = (
        _evidence(composition, _filled(part), component, pixelwise, stacked, len(part[0]))
        for part in _parts(points)
    )
    whole = functools.reduce(functools.partial(_merge, stacked=stacked), each)
    check_finite(whole, "these slots")
    return whole


compiled_singular_values, compiled_spectrum = jax.jit(singular_values), jax.jit(spectrum)


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise", "stacked"))
def _evidence(composition, points, component, pixelwise, stacked, n):
    """That of the first n points."""
    matrices = blocks(composition, points, component, pixelwise)
    is_counted = jnp.arange(len(matrices)) < n
    return together(jnp.where(is_counted[:, None, None, None], matrices, 0), stacked)


def _filled(points):
    """Points, the last one repeated up to a power of 2: other numbers need no other program."""
    n = len(points[0])
    rows = np.minimum(np.arange(1 << (n - 1).bit_length()), n - 1)
    return points if len(rows) == n else tuple(slot[rows] for slot in points)


def together(matrices, stacked):
    """The sum of matrices [blocks, rows, M], or the R factor of their stack."""
    whole = jnp.asarray(matrices)
    return triangular(jnp.concatenate(whole, axis=1)) if stacked else jnp.sum(whole, axis=0)


@functools.partial(jax.jit, static_argnames="stacked")
def _merge(a, b, stacked):
    return together([a, b], stacked)


# --- some finite P' -------------------------------------------------------------------------------


def search(composition, points, component, pixelwise, judged, n_hidden):
    """Points whose summed Jacobian passes where that of all does not: their indices, or None.

    A sum can cancel, and the definition asks for *some* finite P'. Tried, in this order: each point
    alone, the first ones, up to 16 points added greedily, random subsets; among the first 64.
    judged: the blocks that count. n_hidden: singular values [blocks, M] -> how many count as zero.
    Returns the indices and the singular values of their sum. Not finding any proves nothing.
    """
    n = min(len(points[0]), SEARCHED)
    some = tuple(slot[:n] for slot in points)
    matrices = np.asarray(blocks(composition, _filled(some), component, pixelwise))[:n, judged]

    def sigma(chosen):
        return np.asarray(compiled_singular_values(matrices[list(chosen)].sum(axis=0)))

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


# --- what P' hides, on Q --------------------------------------------------------------------------


def leak(composition, points, component, pixelwise, vectors, hidden):
    """Largest |dC/dphi_k v| over points of Q and the directions v that P' hides: [blocks].

    vectors [blocks, M, M], directions as columns; hidden [blocks, M], which of them count.
    """
    directions = vectors * hidden[:, None, :]
    worst = np.zeros(len(hidden))
    for part in _parts(points):
        matrices = blocks(composition, _filled(part), component, pixelwise)
        worst = np.maximum(worst, np.asarray(_along(matrices, directions)))
    check_finite(worst, "points of unseen")
    return worst


@jax.jit
def _along(matrices, columns):
    """The longest image of a column under any point's matrix: [blocks]."""
    moved = jnp.einsum("pbrm,bmv->pbrv", matrices, columns)
    return jnp.max(jnp.linalg.norm(moved, axis=2), axis=(0, 2))


def _parts(points):
    for start in range(0, len(points[0]), BLOCK):
        yield tuple(slot[start : start + BLOCK] for slot in points)


def check_finite(jacobian, where):
    if not np.all(np.isfinite(jacobian)):
        raise ValueError(
            f"the Jacobian is not finite: the composition is not differentiable at {where}"
        )
