"""Jacobians of a composition with respect to one component's output, and what ranks need of them.

A composition that acts at each position (pixel) on its own has a block-diagonal Jacobian: one small
block per position, thousands of blocks per scene, and never the dense matrix they stand in.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks

SMALL = 8  # columns up to which orthogonalising by hand beats one LAPACK call per block
CHUNK = 128  # columns of a dense Jacobian computed at once
TRIED = 4  # points, and directions at each, at which mixing of positions is looked for


def blocks(composition: Callable, points, component: int, pixelwise: bool) -> jax.Array:
    """dC/dphi_k at p points: [p, positions, rows, columns], or [p, 1, N, M] where not pixelwise.

    points: K arrays [p, ...]; composition: `C(slots)` from such a sequence to one array [p, ...].
    """
    _check_points(points, component)
    return (_pixel_blocks if pixelwise else _dense)(composition, points, component)


def _check_points(points, component):
    checks.integer("component", component, 0, len(points) - 1)
    for slot in points:
        checks.finite(points=slot)
    if len({len(slot) for slot in points}) > 1:
        raise ValueError(f"points: slots hold {[len(slot) for slot in points]} points, not as many")


def _replaced(points, component, value):
    return [value if k == component else slot for k, slot in enumerate(points)]


def _pixel_blocks(composition, points, component):
    """All blocks by one `jacfwd`: a shift common to all positions moves each through its own."""
    own = points[component]

    def shifted(shift):
        shift = shift.reshape((1,) * (own.ndim - 1) + (-1,))
        return composition(_replaced(points, component, own + shift))

    found = jax.jacfwd(shifted)(jnp.zeros(own.shape[-1], own.dtype))  # [p, ..., rows, columns]
    if found.shape[:-2] != own.shape[:-1]:
        raise ValueError(
            f"the composition maps slots {own.shape[1:]} to {found.shape[1:-1]}: it does not act "
            "position by position; pass pixelwise=False"
        )
    return found.reshape(len(own), -1, *found.shape[-2:])


def _dense(composition, points, component):
    """`jacfwd` over the flattened component, a chunk of columns at a time."""
    own = points[component]
    n_columns = math.prod(own.shape[1:])
    pad = -n_columns % CHUNK
    basis = jnp.pad(jnp.eye(n_columns, dtype=own.dtype), ((0, pad), (0, 0)))
    basis = basis.reshape(-1, CHUNK, *own.shape[1:])

    def one_point(*slots):
        slots = [slot[None] for slot in slots]

        def columns(directions):
            def along(steps):
                step = jnp.tensordot(steps, directions, 1, precision="highest")
                moved = slots[component][0] + step
                return composition(_replaced(slots, component, moved[None])).ravel()

            return jax.jacfwd(along)(jnp.zeros(CHUNK, own.dtype))  # [N, CHUNK]

        found = jax.lax.map(columns, basis)  # [chunks, N, CHUNK]
        return jnp.moveaxis(found, 0, 1).reshape(found.shape[1], -1)[:, :n_columns]

    return jax.lax.map(lambda slots: one_point(*slots), tuple(points))[:, None]


def check_pixelwise(composition: Callable, points, component: int) -> None:
    """A composition that mixes positions would get wrong ranks without a word.

    Tried at up to TRIED points, in random directions at a random half of the positions. What the
    composition itself raises is the caller's to see.
    """
    _check_points(points, component)
    own = points[component]
    if not len(own) or own.ndim < 3:
        return
    some = tuple(jnp.asarray(slot[:TRIED]) for slot in points)
    shape = jax.eval_shape(lambda *slots: composition(list(slots)), *some).shape
    if shape[:-1] != some[component].shape[:-1]:
        raise ValueError(
            f"the composition maps slots {own.shape[1:]} to {shape[1:]}: it has other positions "
            "and mixes them; pass pixelwise=False"
        )
    if _reach(composition, some, component) > 0:
        raise ValueError("the composition mixes positions: pass pixelwise=False")


@functools.partial(jax.jit, static_argnames=("composition", "component"))
def _reach(composition, points, component):
    """What moving a random half of the positions changes at the others: 0 if C is pixelwise."""
    own = points[component]
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(TRIED):
        moved = rng.random(own.shape[:-1])[..., None] < 0.5
        # Not the same for all channels: a composition may look at their differences alone.
        direction = jnp.asarray(np.where(moved, rng.normal(size=own.shape), 0.0), own.dtype)
        _, change = jax.jvp(
            lambda value: composition(_replaced(points, component, value)), (own,), (direction,)
        )
        worst = jnp.maximum(worst, jnp.max(jnp.where(moved, 0.0, jnp.abs(change))))
    return worst


# --- matrices by the thousand ---------------------------------------------------------------------


def triangular(matrices: jax.Array) -> jax.Array:
    """R [..., M, M] with R'R = A'A for A [..., rows, M]: all that matters of stacked Jacobians."""
    _check_matrices(matrices)
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


def singular_values(matrices: jax.Array) -> jax.Array:
    """Singular values [..., M], descending; with fewer rows than M the surplus ones are zero."""
    _check_matrices(matrices)
    return _surplus(jnp.linalg.svd(matrices, compute_uv=False), matrices)


def spectrum(matrices: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`singular_values`, and all right singular vectors as columns [..., M, M]."""
    _check_matrices(matrices)
    _, sigma, vectors = jnp.linalg.svd(matrices, full_matrices=True)
    return _surplus(sigma, matrices), jnp.swapaxes(vectors, -2, -1)


def _check_matrices(matrices):
    checks.finite(matrices=matrices)
    if matrices.ndim < 2:
        raise ValueError(f"matrices are [..., rows, columns], got shape {matrices.shape}")


def _surplus(sigma, matrices):
    missing = matrices.shape[-1] - sigma.shape[-1]
    return jnp.pad(sigma, [(0, 0)] * (sigma.ndim - 1) + [(0, missing)])
