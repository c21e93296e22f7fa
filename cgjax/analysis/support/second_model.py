"""Models of one form beside the given one: what f on P leaves open, and a search among them.

Components change by features of their latents, `phi_k + scale_k * features_k @ weights_k`, with
independent weights of variance 1. To first order f is linear in the weights, so f on P leaves them
a normal distribution: the *posterior*. The search starts from a direction that P barely constrains
and pulls the model back onto P by damped Gauss-Newton steps with the true composition. It stays
near its start, so it keeps what P leaves open. From there it goes on in the same direction: models
that fit P may lie on a curve that leaves the given one slowly.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from cgjax.analysis.support import jacobians
from cgjax.analysis.support.latents import Changes

NUMBERS = 1e8  # entries of the largest matrix
SIZES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the change on Q, in standard deviations of f
STEPS = 15  # back onto P
ITERATIONS = 8  # towards the directions that P constrains least
FITTED = 0.05  # of the tolerance: the error on P that ends the steps
GROWTHS, GROWTH = 12, 1.5  # steps away from the given model, and by how much each is longer
CHUNK = 2**18  # numbers of a component's outputs whose slopes are computed at once
FIT = 0.2  # of the tolerance on P: noise on P, carried far, is not a second model
TIMES = 10.0  # a second model differs on Q by so many times the tolerance on P
SLACK = 1.2  # by which weights may exceed their limit after they are pulled back


class Witness(NamedTuple):
    """A second model that agrees on P and differs on Q; errors in standard deviations of f."""

    error_P: float  # largest error on P
    error_Q: float  # root mean square error on Q
    r2_Q: float
    worst: np.ndarray  # [D] the row of Q with the largest error
    components: tuple[Callable, ...]  # [n, d_k] -> outputs, as the given components


class Design(NamedTuple):
    """Derivative of f by all weights at n points: a row for each output, never built if large."""

    slopes: tuple[np.ndarray, ...]  # K arrays [n, rows of f, M_k], times the scale of the change
    changes: tuple[Changes, ...]
    places: tuple[np.ndarray, ...]  # K arrays [n]: the value of each component

    @property
    def parts(self):
        """For each component its slopes and features [n, r_k]."""
        each = zip(self.slopes, self.changes, self.places)
        return [(slope, change.features[place]) for slope, change, place in each]

    @property
    def shape(self) -> tuple[int, int]:
        n_weights = sum(f.features.shape[1] * s.shape[2] for f, s in zip(self.changes, self.slopes))
        return int(np.prod(self.slopes[0].shape[:2])), n_weights

    def dense(self) -> np.ndarray:
        blocks = [slope[:, :, None, :] * part[:, None, :, None] for slope, part in self.parts]
        return np.concatenate([block.reshape(self.shape[0], -1) for block in blocks], axis=1)

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Weights [W, c] -> changes of f [outputs, c]."""
        total, start = 0, 0
        for slope, part in self.parts:
            stop = start + part.shape[1] * slope.shape[2]
            moved = part @ weights[start:stop].reshape(part.shape[1], -1)  # [n, M c]
            total = total + slope @ moved.reshape(len(slope), slope.shape[2], -1)
            start = stop
        return total.reshape(self.shape[0], -1)

    def transposed(self, values: np.ndarray) -> np.ndarray:
        """[outputs, c] -> [W, c]."""
        values = values.reshape(*self.slopes[0].shape[:2], -1)
        moved = [np.swapaxes(slope, 1, 2) @ values for slope in self.slopes]  # [n, M, c]
        parts = [part.T @ m.reshape(len(m), -1) for (_, part), m in zip(self.parts, moved)]
        return np.concatenate([part.reshape(-1, values.shape[2]) for part in parts])

    def gram(self, other: "Design") -> np.ndarray:
        """Prior covariance [outputs, outputs of other] of f."""
        total = 0.0
        for k, change in enumerate(self.changes):
            rows, columns = (x.slopes[k].reshape(-1, x.slopes[k].shape[2]) for x in (self, other))
            # Repeated columns keep the inner loop of the product long.
            places = np.repeat(other.places[k], other.slopes[k].shape[1])
            product = (rows @ columns.T).reshape(*self.slopes[k].shape[:2], -1)
            product *= change.kernel[np.ix_(self.places[k], places)][:, None]
            total += product.reshape(len(rows), len(columns))
        return total

    def prior(self) -> np.ndarray:
        """[n, rows] variance of f: a change of a component has variance 1 everywhere."""
        return sum(np.sum(slope**2, axis=2) for slope in self.slopes)


class Posterior(NamedTuple):
    """The weights after f is known on P with noise, in the smaller of both dimensions."""

    known: Design
    limit: float  # variance of the noise
    root: np.ndarray  # lower triangular: of the covariance of f on P, or of the weights' precision
    is_dual: bool

    def weights(self, values: np.ndarray) -> np.ndarray:
        """Weights [W, c] that fit values [outputs, c] on P: ridge regression."""
        if self.is_dual:
            return self.known.transposed(cho_solve((self.root, True), values))
        return cho_solve((self.root, True), self.known.transposed(values))

    def variance(self, asked: Design) -> np.ndarray:
        """[n, rows] of f at other points."""
        if self.is_dual:
            seen = solve_triangular(self.root, self.known.gram(asked), lower=True)
            total = asked.prior() - np.sum(seen**2, axis=0).reshape(asked.slopes[0].shape[:2])
            return np.maximum(total, 0)
        seen = solve_triangular(self.root, asked.dense().T, lower=True)
        return self.limit * np.sum(seen**2, axis=0).reshape(asked.slopes[0].shape[:2])

    def mean_variance(self) -> float:
        """Of f on P."""
        inverse = lapack.dtrtri(self.root, lower=1)[0]
        return (
            self.limit
            * (1 - self.limit * np.mean(np.sum(np.tril(inverse) ** 2, 0)))
            * (len(self.root) / self.known.shape[0])
        )

    def directions(self, asked: Design, n: int) -> np.ndarray:
        """[n, W]: what stays most open on Q; each changes f there by 1 (root mean square)."""
        vectors = np.random.default_rng(0).normal(size=(self.known.shape[1], n + 4))
        for _ in range(ITERATIONS):  # powers of the posterior covariance times that of f on Q
            vectors = asked.transposed(asked.times(np.linalg.qr(vectors)[0]))
            vectors -= self.weights(self.known.times(vectors))
        # The best of what they span: the largest change on Q.
        change = asked.times(vectors)
        vectors = vectors @ np.linalg.svd(change, full_matrices=False)[2][:n].T
        return (vectors / np.sqrt(np.mean(asked.times(vectors) ** 2, axis=0)).clip(1e-12)).T


def posterior(known: Design, limit: float) -> Posterior:
    """f on P is known with noise of variance `limit`."""
    n_rows, n_weights = known.shape
    is_dual = n_rows < n_weights
    if min(n_rows, n_weights) * n_rows > NUMBERS:
        raise ValueError(
            f"{n_rows:,} outputs on P and {n_weights:,} unknowns are too many: pass a smaller "
            "n_points, or fewer outputs of the composition"
        )
    if is_dual:
        matrix = known.gram(known)
    else:
        dense = known.dense()
        matrix = dense.T @ dense
    # Below it lie rounding errors; above 0, because f may not change at all.
    limit = max(limit, 1e-15 * np.trace(matrix), 1e-100)
    matrix[np.diag_indices(len(matrix))] += limit
    return Posterior(known, limit, np.linalg.cholesky(matrix), is_dual)


# --- the composition ------------------------------------------------------------------------------


def evaluate(composition: Callable, slots, pixelwise: bool):
    """C and dC / dphi_k at points, slots K arrays [n, ...]: [n, ...], K arrays [n, positions, rows,
    M_k].

    Some points at a time; chunks are filled up, so that all have one compiled program.
    """
    n, most = len(slots[0]), max(CHUNK // slots[0][0].size ** 2, 1)
    size = min(1 << (most.bit_length() - 1), 1 << (n - 1).bit_length())
    parts = []
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        some = tuple(slot[rows] for slot in slots)
        parts.append(jax.device_get(_evaluate(composition, pixelwise, some)))
    if n == size:
        return parts[0]
    return jax.tree.map(lambda *each: np.concatenate(each)[:n], *parts)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _evaluate(composition, pixelwise, slots):
    slopes = (jacobians.blocks(composition, slots, k, pixelwise) for k in range(len(slots)))
    return composition(list(slots)), tuple(slopes)


# --- the search -----------------------------------------------------------------------------------


def search(models, n: int, true, directions, tolerance: float, few: float, sizes: Sequence[float]):
    """(weights, errors on P and then Q [n, rows]) of a second model, or None.

    models: the `View` of P and then Q, n the rows of P. true [n, rows]: f of the given components.
    directions [d, W]: each changes f on Q by its deviation (root mean square, to first order);
    sizes: how far to start along them. A model counts if its root mean square error on P is at most
    FIT times the tolerance, and that on Q at least TIMES the tolerance, without the share `few` of
    Q where it is largest.
    """
    n_kept = len(true) - n - int(few * (len(true) - n))

    def sizes_of(errors):
        """Root mean square error on P and on Q."""
        on_q = np.sort(np.mean(errors[n:] ** 2, axis=1))[:n_kept]
        return np.sqrt(np.mean(errors[:n] ** 2)), np.sqrt(np.mean(on_q))

    def pulled_back(start):
        """The weights near `start` whose model fits f on P, and its errors."""
        weights, damping, fit = start, 1.0, None
        values, design = models.evaluate(weights, n)
        errors = values - true
        for _ in range(STEPS):
            # The minimum of |error on P|^2 / ridge + |weights - start|^2; derivatives and their
            # factorisation stay while steps succeed.
            fit = fit or posterior(design, (0.1 * tolerance) ** 2 * damping)
            wanted = fit.known.times((weights - start)[:, None]) - errors[:n].reshape(-1, 1)
            trial = start + fit.weights(wanted)[:, 0]
            values, trial_design = models.evaluate(trial, n)
            is_near = np.linalg.norm(weights - trial) <= 1e-6 * np.linalg.norm(start)
            ratio = np.linalg.norm(values[:n] - true[:n]) / max(np.linalg.norm(errors[:n]), 1e-300)
            is_stale = fit.known is not design
            if ratio < 1:
                weights, errors, design = trial, values - true, trial_design
                damping = max(damping / 10, 1.0)
            elif not is_stale:
                damping *= 100
            fit = fit if ratio < 0.1 else None
            on_p, on_q = sizes_of(errors)
            # Where f on Q is back too, the steps lead to the given model.
            is_done = on_p < FITTED * tolerance or on_q < tolerance
            if is_done or (is_near and not is_stale) or damping > 1e12:
                break
        return weights, errors

    def followed(start):
        """Steps further and further along the models that fit f on P, while they lead away."""
        farthest = 0.0
        for _ in range(GROWTHS):
            weights, errors = pulled_back(start)
            on_p, on_q = sizes_of(errors)
            is_second = on_p <= FIT * tolerance and on_q >= TIMES * tolerance
            if is_second and models.excess(weights, n) <= SLACK:
                return weights, errors
            if on_q < max(1.2 * farthest, tolerance):
                return None
            start, farthest = GROWTH * weights, on_q
        return None

    for direction in directions:
        largest = 1 / models.excess(direction, n)
        for size in sorted({min(size, largest) for size in sizes}, reverse=True):
            for sign in (1, -1):
                if (second := followed(sign * size * direction)) is not None:
                    return second
    return None
