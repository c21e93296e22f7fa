"""Sufficient support (Wiedemer et al. 2023, Def. 3): can the data identify every component value?

P has sufficient support when, for each component k and each of its values z_k, there are points
P' of the support with p_k = z_k such that the Jacobian of C with respect to the component's output
phi_k, summed over P', has full column rank.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Audit(NamedTuple):
    """What `audit` found for m values of one component."""

    passes: np.ndarray  # [m] whether the Jacobian has full column rank
    sigma_min: np.ndarray  # [m] its smallest singular value; 0 with more columns than rows
    failing: np.ndarray  # indices of the values that fail
    share: float  # of values that pass
    verdict: str  # in one line
    n_failing: np.ndarray  # [m] positions whose block lacks rank; not pixelwise: missing ranks


def jacobian_rank(jacobians: jax.Array, rtol: float, atol: float) -> tuple[jax.Array, jax.Array]:
    """Ranks [...] and singular values [..., min(rows, columns)] of matrices [..., rows, columns].

    Counts the singular values above max(rtol * the matrix's largest, atol).
    """
    sigma = jnp.linalg.svd(jacobians, compute_uv=False)
    largest = jnp.max(sigma, axis=-1, keepdims=True, initial=0)
    return jnp.sum(sigma > jnp.maximum(rtol * largest, atol), axis=-1), sigma


def audit(
    composition: Callable,
    slots: jax.Array,
    component: int,
    partners: jax.Array | Callable,
    pixelwise: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-3,
    where: jax.Array | None = None,
    stack: bool = False,
) -> Audit:
    """Whether each value of one component is identified by the points P' it is seen in.

    composition: `C(slots)`, from a sequence of K arrays [n, ...] to one.
    slots: m outputs of the component, [m, ...]: the values to test.
    partners: [m, p, K, ...], for each value the full slot tuples of P'; or a function of the
        index that returns [p, K, ...] or K arrays [p, ...]. An empty P' identifies nothing.
    pixelwise: C acts at each position of all but the last axis on its own, so that the Jacobian is
        block diagonal and one small block per position is enough. False: any C.
    where: boolean [m, ...], without the last axis: judge only these positions. Pixelwise only.
    stack: stack the Jacobians of P' instead of summing them: all that identifiability needs, and
        weaker, since a sum can lose rank by cancellation.

    >>> audit(lambda slots: slots[0] + slots[1], images, 0, tuples).share
    1.0
    """
    slots = np.asarray(slots)
    if len(slots) == 0:
        raise ValueError("no values to test: slots is empty")
    if where is not None and not pixelwise:
        raise ValueError("where picks positions, which only pixelwise=True has")
    judged = slice(None)
    found = []
    # Rank is a question about small numbers: float64, whatever the arrays are.
    with jax.enable_x64(True):
        for i in range(len(slots)):
            points = _points(partners, i, component, slots.shape[1:])
            sigma = _sigma(composition, points, component, pixelwise, stack)
            if where is not None:
                judged = np.asarray(where[i], bool).ravel()
            found.append(_lacking(np.asarray(sigma)[judged], rtol, atol, pixelwise))
    sigma_min, n_failing = (np.array(column) for column in zip(*found))
    passes = n_failing == 0
    verdict = _verdict(passes, sigma_min, n_failing, "positions" if pixelwise else "directions")
    failing = np.flatnonzero(~passes)
    return Audit(passes, sigma_min, failing, float(np.mean(passes)), verdict, n_failing)


def _lacking(sigma, rtol, atol, pixelwise):
    """Smallest singular value, and how many blocks (or, of one block, directions) lack rank."""
    # Together the blocks' singular values are those of the whole block-diagonal Jacobian.
    lacking = sigma <= max(rtol * sigma.max(initial=0), atol)
    return sigma.min(initial=np.inf), np.sum(lacking.any(axis=1) if pixelwise else lacking)


def _points(partners, i, component, shape):
    """The slot tuples of P' for value i: K arrays [p, ...] in float64."""
    points = partners(i) if callable(partners) else partners[i]
    if not isinstance(points, tuple | list):
        points = [points[:, k] for k in range(points.shape[1])]
    if not 0 <= component < len(points):
        raise ValueError(f"component {component}: partners hold slots 0 to {len(points) - 1}")
    if points[component].shape[1:] != shape:
        raise ValueError(
            f"values are {shape}, but slot {component} of their partners is "
            f"{points[component].shape[1:]}: partners are [m, points, slots, ...]"
        )
    return tuple(jnp.asarray(slot, jnp.float64) for slot in points)


@functools.partial(jax.jit, static_argnames=("composition", "component", "pixelwise", "stack"))
def _sigma(composition, points, component, pixelwise, stack):
    """Singular values [blocks, columns] over P', zero where there are fewer rows than columns."""
    shape = points[component].shape
    if shape[0] == 0:
        n_blocks = math.prod(shape[1:-1]) if pixelwise else 1
        return jnp.zeros((n_blocks, math.prod(shape[1:]) // n_blocks))
    jacobians = _jacobians(composition, points, component, pixelwise)
    matrices = jnp.concatenate(jacobians, axis=1) if stack else jnp.sum(jacobians, axis=0)
    sigma = jnp.linalg.svd(matrices, compute_uv=False)
    return jnp.pad(sigma, ((0, 0), (0, matrices.shape[-1] - sigma.shape[-1])))


def _jacobians(composition, points, component, pixelwise):
    """dC/dphi_k at each point, by blocks: [p, blocks, rows, columns]."""
    # One position, or one point, keeps the axes a composition is used to, with length 1.
    ones = (1,) * (points[0].ndim - 1) if pixelwise else (1,)

    def output(*slots):
        return composition([slot.reshape(ones + slot.shape) for slot in slots]).ravel()

    jacobian = jax.vmap(jax.jacfwd(output, argnums=component))
    if pixelwise:
        pixels = [slot.reshape(len(slot), -1, slot.shape[-1]) for slot in points]
        return jax.vmap(jacobian)(*pixels)
    found = jacobian(*points)  # [p, rows, *component]
    return found.reshape(*found.shape[:2], -1)[:, None]


def _verdict(passes, sigma_min, n_failing, unit):
    smallest = f"smallest singular value {sigma_min.min():.3g}"
    if passes.all():
        return f"sufficient support: all {len(passes)} values pass, {smallest}"
    return (
        f"no sufficient support: {np.sum(~passes)} of {len(passes)} values fail, on average at "
        f"{n_failing[~passes].mean():.0f} {unit}, {smallest}"
    )
