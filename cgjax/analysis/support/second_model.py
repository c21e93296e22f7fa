"""The search for a second model: the same composition, other components, equal on P, not on Q.

Components change by features of their latents, `phi_k + scale_k * features_k @ weights_k`. The
search starts from a direction that P barely constrains, and pulls the model back onto P by damped
Gauss-Newton steps with the true composition. It stays near its start, so it keeps what P leaves
open.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from cgjax.analysis.support import jacobians

SIZES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the change on Q, in standard deviations of f
STEPS = 15
CHUNK = 256  # points whose slopes are computed at once
TIMES = 10.0  # a second model differs on Q by so many times the tolerance on P
SLACK = 1.2  # by which weights may exceed their limit after they are pulled back


class Witness(NamedTuple):
    """A second model that agrees on P and differs on Q; errors in standard deviations of f."""

    error_P: float  # largest error on P
    error_Q: float  # root mean square error on Q
    r2_Q: float
    worst: np.ndarray  # [D] the row of Q with the largest error
    components: tuple[Callable, ...]  # [n, d_k] -> outputs, as the given components


class Sample(NamedTuple):
    """Points at which models are compared: component outputs and features of their changes."""

    slots: tuple[np.ndarray, ...]  # K arrays [n, ...]
    features: tuple[np.ndarray, ...]  # K arrays [n, r_k]

    def shapes(self) -> list[tuple[int, int]]:
        """Of each component's weights: features, outputs."""
        parts = zip(self.features, self.slots)
        return [(part.shape[1], int(np.prod(slot.shape[1:]))) for part, slot in parts]


class Family(NamedTuple):
    """All models with this composition whose components change by features."""

    composition: Callable
    scales: tuple[float, ...]  # size of a change of each component
    limits: tuple[float, ...]  # largest norm of each component's weights
    pixelwise: bool

    def split(self, sample: Sample, weights: np.ndarray) -> list[np.ndarray]:
        """Weights [W] -> K arrays [r_k, M_k]."""
        shapes = sample.shapes()
        stops = np.cumsum([r * m for r, m in shapes])
        return [w.reshape(shape) for w, shape in zip(np.split(weights, stops[:-1]), shapes)]

    def changed(self, sample: Sample, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        """Component outputs of the model with these weights."""
        parts = zip(sample.slots, sample.features, self.split(sample, weights), self.scales)
        return tuple(
            slot + scale * (part @ w).reshape(slot.shape) for slot, part, w, scale in parts
        )

    def excess(self, sample: Sample, weights: np.ndarray) -> float:
        """The largest norm of a component's weights, over its limit."""
        parts = zip(self.split(sample, weights), self.limits)
        return max(float(np.linalg.norm(w)) / limit for w, limit in parts) or 1e-12

    def outputs(self, sample: Sample, weights: np.ndarray | None = None) -> np.ndarray:
        """f [n, rows] of the model with these weights; None: the given components."""
        slots = sample.slots if weights is None else self.changed(sample, weights)
        values = compose(self.composition, slots)
        return values.reshape(len(values), -1)

    def design(self, sample: Sample, weights: np.ndarray | None = None) -> np.ndarray:
        """Derivative of f by the weights [n, rows, W], at these weights."""
        slots, blocks = sample.slots, []
        if weights is not None:
            slots = self.changed(sample, weights)
        each = slopes(self.composition, slots, self.pixelwise)
        for slope, part, scale in zip(each, sample.features, self.scales):
            block = scale * part[:, None, :, None] * slope[:, 0, :, None, :]
            blocks.append(block.reshape(*block.shape[:2], -1))
        return np.concatenate(blocks, axis=2)


def compose(composition: Callable, slots) -> np.ndarray:
    """C at all points: slots are K arrays [n, ...]."""
    return _in_chunks(lambda part: _compose(composition, part), slots)


def slopes(composition: Callable, slots, pixelwise: bool) -> tuple[np.ndarray, ...]:
    """dC / dphi_k at all points: K arrays [n, positions, rows, M_k]."""
    return _in_chunks(lambda part: _slopes(composition, part, pixelwise), slots)


@functools.partial(jax.jit, static_argnums=0)
def _compose(composition, slots):
    return composition(list(slots))


@functools.partial(jax.jit, static_argnums=(0, 2))
def _slopes(composition, slots, pixelwise):
    return tuple(jacobians.blocks(composition, slots, k, pixelwise) for k in range(len(slots)))


def _in_chunks(f, slots):
    """f of CHUNK points at a time; chunks are filled up, so that all have one compiled program."""
    n = len(slots[0])
    size = min(CHUNK, 1 << (n - 1).bit_length())
    parts = []
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        parts.append(jax.device_get(f(tuple(slot[rows] for slot in slots))))
    return jax.tree.map(lambda *each: np.concatenate(each)[:n], *parts)


def search(
    family: Family,
    p: Sample,
    q: Sample,
    directions: np.ndarray,
    noise: float,
    deviation: float,
    few: float = 0.0,
    sizes: Sequence[float] = SIZES,
):
    """(weights, error on P [n, rows], error on Q [m, rows]) of a second model, or None.

    directions [d, W]: each changes f on Q by `deviation` (root mean square, to first order). A
    model counts if its root mean square error on P is at most noise * deviation, and that on Q at
    least TIMES as large, without the share `few` of Q where it is largest.
    """
    tolerance = noise * deviation
    true_p, true_q = family.outputs(p), family.outputs(q)
    n_kept = len(true_q) - int(few * len(true_q))
    for direction in directions:
        largest = 1 / family.excess(p, direction)
        for size in sorted({min(size, largest) for size in sizes}, reverse=True):
            for sign in (1, -1):
                weights = _pulled_back(family, p, sign * size * direction, true_p, 0.1 * tolerance)
                error_p = family.outputs(p, weights) - true_p
                error_q = family.outputs(q, weights) - true_q
                squares = np.sort(np.mean(error_q**2, axis=1))[:n_kept]
                rms_p, rms_q = np.sqrt(np.mean(error_p**2)), np.sqrt(np.mean(squares))
                is_second = rms_p <= tolerance and rms_q >= TIMES * max(tolerance, rms_p)
                if is_second and family.excess(p, weights) <= SLACK:
                    return weights, error_p, error_q
    return None


def _pulled_back(family, p, start, true_p, tolerance):
    """The weights near `start` whose model fits f on P: damped Gauss-Newton steps."""
    weights, damping = start, 1.0
    residual = (true_p - family.outputs(p, weights)).ravel()
    for _ in range(STEPS):
        matrix = family.design(p, weights).reshape(len(residual), -1)
        # The minimum of |residual|^2 / ridge + |weights - start|^2.
        ridge = tolerance**2 * damping
        wanted = residual + matrix @ (weights - start)
        trial = start + _ridge(matrix, wanted, ridge)
        trial_residual = (true_p - family.outputs(p, trial)).ravel()
        is_near = np.linalg.norm(weights - trial) <= 1e-6 * np.linalg.norm(start)
        if np.linalg.norm(trial_residual) < np.linalg.norm(residual):
            weights, residual, damping = trial, trial_residual, max(damping / 10, 1.0)
        else:
            damping *= 100
        if is_near or damping > 1e12:
            break
    return weights


def _ridge(matrix: np.ndarray, wanted: np.ndarray, ridge: float) -> np.ndarray:
    """The minimum x of |matrix x - wanted|^2 + ridge |x|^2, in the smaller of both dimensions."""
    n, m = matrix.shape
    if n < m:
        return matrix.T @ np.linalg.solve(matrix @ matrix.T + ridge * np.eye(n), wanted)
    return np.linalg.solve(matrix.T @ matrix + ridge * np.eye(m), matrix.T @ wanted)
