"""In which sense is a representation of two factors x and y factorised? (Liang et al. 2025)

Three definitions, which disagree. `metric`: do x and y move the activations at right angles?
`operator_schmidt`: is their kernel a product K_x(x, x') K_y(y, y')? `additive_share`: are the
activations a sum a(x) + b(y)? A code that concatenates a part for x and a part for y is additive;
an image of a spot is multiplicative; both have metric 1. `shared_sum`, `isolated` and
`superposition` compare a model's outputs for held-out pairs with sums of outputs for training
pairs.

Activations are on the grid of the factors, [n_y, n_x, ...], first axis y, second x. The functions
use NumPy in float64; they run once per model and layer.
"""

import itertools
import math
import warnings
from typing import NamedTuple

import numpy as np

from cgjax.analysis import checks, geometry, salience
from cgjax.analysis.arguments import checked, finite, flag, integer, mask, number, symmetric, whole
from cgjax.analysis.effects import combined

# Arguments of several functions. A grid needs an axis of units.
PAIRS, LENGTH = finite("_ 2"), number("(0, inf)")
GRID, POINTS = finite("n_y n_x D *rest"), mask("n_y n_x")

# --- kernels on pairs of factors z = (x, y), points [n, 2]: binary, factorised, radial, additive --
# The *binary factorised kernel* (Liang et al. 2025) depends only on "same x?" and "same y?". Every
# infinitely wide fully connected network on one-hot codes has such a kernel, plus a constant. A
# held-out pair never shares both with a training pair, so the kernel machine predicts a(x) + b(y)
# exactly.
# Float64, as in `analysis.salience`; predictions are `machines.ridgeless` and `machines.ridge`.


@checked
def binary(
    z1: whole("n1 2"),
    z2: whole("n2 2"),
    k1: number("[0, inf)") = 1.0,
    k2: number("[0, inf)") = 1.0,
) -> np.ndarray:
    """k1 ([x = x'] + [y = y']) + k2 [x = x'][y = y']: [n1, n2], for whole numbers z.

    k2 > 0 makes it strictly positive definite on distinct points.

    >>> binary([[0, 0], [0, 1]], [[0, 0]], k1=1, k2=0.5)
    array([[2.5],
           [1. ]])
    """
    return salience.overlap_kernel(z1, z2, [0, k1, 2 * k1 + k2])


@checked
def factorised(z1: PAIRS, z2: PAIRS, lx: LENGTH = 1.0, ly: LENGTH = 1.0) -> np.ndarray:
    """exp(-dx^2 / 2 lx^2) exp(-dy^2 / 2 ly^2): [n1, n2]. With lx = ly it is `radial`."""
    x, y = _bells(z1, z2, lx, ly)
    return x * y


@checked
def radial(z1: PAIRS, z2: PAIRS, length: LENGTH = 1.0) -> np.ndarray:
    """exp(-|z - z'|^2 / 2 length^2): [n1, n2]."""
    x, y = _bells(z1, z2, length, length)
    return x * y


@checked
def additive(z1: PAIRS, z2: PAIRS, lx: LENGTH = 1.0, ly: LENGTH = 1.0) -> np.ndarray:
    """exp(-dx^2 / 2 lx^2) + exp(-dy^2 / 2 ly^2): [n1, n2]; its machines are a(x) + b(y)."""
    x, y = _bells(z1, z2, lx, ly)
    return x + y


def _bells(z1, z2, lx, ly):
    """The kernels of x and of y, [n1, n2] each."""
    squares = (np.asarray(z1, np.float64)[:, None] - np.asarray(z2, np.float64)[None]) ** 2
    return [np.exp(-squares[..., i] / (2 * length**2)) for i, length in enumerate((lx, ly))]


# --- activations ----------------------------------------------------------------------------------

# The largest number of grids of two factors, with the others constant, that are measured.
MOST_GRIDS = 32

# --- by lengths and angles ------------------------------------------------------------------------


@checked
def metric(activations: GRID, where: POINTS = None) -> float:
    """F = 1 - mean|g01| / mean(|g00| + |g11|), g the metric tensor of finite differences.

    where: the points to average over (a hole, or its surroundings), by default all; the finite
    differences are those of the whole grid.

    F is between 1/2 (x and y move the activations along one line) and 1 (at right angles
    everywhere). A rotation (x + y, x - y) has F = 1, too. F does not depend on the activations'
    scale: the paper adds 1e-9 to the denominator, this function does not. For constant activations
    F is undefined: NaN, with a warning.
    """
    values = np.asarray(activations)
    if values.dtype == np.float64:  # squares of the smallest and largest numbers leave its range
        values = np.ldexp(values, -math.frexp(np.max(np.abs(values), initial=0))[1])
    tensor = geometry.grid_tensor(values)
    inside = _inside(where, tensor.shape[:2])
    along = np.mean((tensor[..., 0, 0] + tensor[..., 1, 1])[inside])
    squares = np.sum(values[inside].astype(np.float64) ** 2) / np.sum(inside)
    if along <= checks.rounding(values) * squares:
        warnings.warn(
            "activations are constant over the grid: their metric is undefined (NaN)",
            RuntimeWarning,
            stacklevel=3,
        )
        return np.nan
    return 1 - np.mean(np.abs(tensor[..., 0, 1])[inside]) / along


# --- by the kernel --------------------------------------------------------------------------------


@checked
def grid_kernel(activations: GRID, cosine: flag = False) -> np.ndarray:
    """Dot products (or cosines) between the activations of all points: [n, n].

    Points are ordered with x as the slow index, as in `operator_schmidt`. The cosine with
    activations that are all zero is 0.
    """
    grid = _grid(activations)
    points = np.swapaxes(grid, 0, 1).reshape(-1, grid.shape[-1])
    if cosine:
        length = np.linalg.norm(points, axis=1, keepdims=True)
        points = points / np.where(length > 0, length, 1)
    return points @ points.T


@checked
def schmidt_values(kernel: symmetric("n n"), n_x: integer(1), n_y: integer(1)) -> np.ndarray:
    """Singular values s_k / sqrt(sum s^2) [min(n_x, n_y)^2] of M[(x, x'), (y, y')], descending.

    kernel: K [n_x n_y, n_x n_y], points ordered with x as the slow index; M holds its entries.
    """
    kernel = np.asarray(kernel, np.float64)
    if kernel.shape != (n_x * n_y,) * 2:
        raise ValueError(
            f"kernel must be [n, n] with n = n_x n_y = {n_x * n_y}, got {kernel.shape}"
        )
    if not np.any(kernel):
        raise ValueError("kernel is zero everywhere: shares of it are undefined")
    turned = kernel.reshape(n_x, n_y, n_x, n_y).transpose(0, 2, 1, 3).reshape(n_x**2, n_y**2)
    values = np.linalg.svd(turned, compute_uv=False)
    return values / np.linalg.norm(values)


def operator_schmidt(kernel: np.ndarray, n_x: int, n_y: int) -> float:
    """F_K = s_1^2 / sum_k s_k^2, the share of the largest term in the operator-Schmidt sum.

    1 exactly when K((x, y), (x', y')) = K_x(x, x') K_y(y, y'). Arguments as in `schmidt_values`.

    >>> float(operator_schmidt(np.kron(np.eye(2) + 1, np.eye(3)), n_x=2, n_y=3))
    1.0
    """
    return schmidt_values(kernel, n_x, n_y)[0] ** 2


# --- by sums --------------------------------------------------------------------------------------


class TwoWay(NamedTuple):
    """Two-way analysis of variance on a full grid, unit by unit: sums of squares [D]."""

    x: np.ndarray  # of a(x)
    y: np.ndarray  # of b(y)
    interaction: np.ndarray  # of the remainder of the centred activations


@checked
def two_way(activations: GRID) -> TwoWay:
    """Activations as mean + a(x) + b(y) + interaction; the parts are orthogonal."""
    grid = _grid(activations)
    n_y, n_x, _ = grid.shape
    mean = grid.mean(axis=(0, 1))
    a, b = (grid.mean(axis=axis) - mean for axis in (0, 1))
    rest = grid - mean - a - b[:, None]
    sums = (n_y * np.sum(a**2, axis=0), n_x * np.sum(b**2, axis=0), np.sum(rest**2, axis=(0, 1)))
    return TwoWay(*sums)


@checked
def additive_part(activations: GRID, where: POINTS = None) -> np.ndarray:
    """The a(x) + b(y) nearest to activations, in the same shape.

    where: the points to fit, by default all; the result is 0 elsewhere.
    """
    grid = _grid(activations)
    if where is None:
        mean = np.mean(grid, axis=(0, 1), keepdims=True)
        a, b = (np.mean(grid, axis=axis, keepdims=True) for axis in (0, 1))
        return (a + (b - mean)).reshape(np.shape(activations))
    inside = _inside(where, grid.shape[:2])
    rows, columns = np.nonzero(inside)
    design = np.concatenate([np.eye(len(grid))[rows], np.eye(grid.shape[1])[columns]], axis=1)
    fitted = np.zeros_like(grid)
    fitted[inside] = design @ np.linalg.lstsq(design, grid[inside], rcond=None)[0]
    return fitted.reshape(np.shape(activations))


@checked
def additive_share(activations: GRID, where: POINTS = None) -> float:
    """Share of the activations' variance over the grid (or `where`) that a(x) + b(y) explains.

    1 for a code of x concatenated with a code of y. One minus it is the share of the interaction.
    """
    return explained(activations, additive_part(activations, where), where)


@checked
def selective_share(activations: GRID, level: number("(0.5, 1]") = 0.9) -> float:
    """Share of units that respond to one factor only: `level` of their variance is a(x), or b(y).

    Units that do not vary are not counted; NaN if none varies.
    """
    sums = two_way(activations)
    total = sum(sums)
    squares = np.sum(_grid(activations) ** 2, axis=(0, 1))
    varies = total > checks.rounding(activations) * squares
    is_selective = np.maximum(sums.x, sums.y) >= level * total
    return np.sum(is_selective[varies]) / np.sum(varies) if varies.any() else np.nan


@checked
def explained(outputs: GRID, account: GRID, where: POINTS = None) -> float:
    """R2 of an account of outputs: 1 - |outputs - account|^2 / |centred|^2.

    The sums are over all units; each is centred by its mean over the grid (or over `where`). 1 if
    the account is exact, below 0 if each unit's mean predicts better; NaN if no unit varies.
    """
    rounding = checks.rounding(outputs)
    outputs, account = _grid(outputs), _grid(account)
    inside = _inside(where, outputs.shape[:2])
    outputs, account = outputs[inside], account[inside]
    total = np.sum((outputs - outputs.mean(axis=0)) ** 2)
    if total <= rounding * np.sum(outputs**2):
        return np.nan
    return 1 - np.sum((outputs - account) ** 2) / total


def _inside(where, shape):
    """Boolean [n_y, n_x]: the selected points."""
    return np.ones(shape, bool) if where is None else np.asarray(where)


def _grid(values):
    """The values as [n_y, n_x, D] in float64."""
    grid = np.asarray(values, np.float64)
    return grid.reshape(*grid.shape[:2], -1)


# --- superposition --------------------------------------------------------------------------------


@checked
def shared_sum(outputs: GRID, is_train: POINTS) -> np.ndarray:
    """At each grid point, the sum of outputs at all training points with its x or its y.

    For held-out pairs, the outputs of a model that superposes look like this sum.
    """
    grid = _grid(outputs)
    train_outputs = np.where(np.asarray(is_train)[..., None], grid, 0)
    # A training point shares both x and y with itself, and counts once.
    total = (
        train_outputs.sum(axis=0, keepdims=True)
        + train_outputs.sum(axis=1, keepdims=True)
        - train_outputs
    )
    return total.reshape(np.shape(outputs))


@checked
def isolated(
    codes: finite("k d>=2"), train_codes: finite("m d"), split: integer(1, below="d")
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs with a single factor: ([e(x), mean e(y)], [mean e(x), e(y)]), each [k, d].

    codes: e(x) in the first `split` columns, e(y) in the others. The mean of
    train_codes replaces the code of the absent factor.
    """
    codes, train_codes = (np.asarray(a, np.float64) for a in (codes, train_codes))
    mean = np.broadcast_to(train_codes.mean(axis=0), codes.shape)
    only_x = np.concatenate([codes[:, :split], mean[:, split:]], axis=1)
    only_y = np.concatenate([mean[:, :split], codes[:, split:]], axis=1)
    return only_x, only_y


class Superposition(NamedTuple):
    """Accounts of a model's outputs for held-out pairs, each an R2."""

    additive: float  # the outputs explained by the best a(x) + b(y): high if the model memorises
    kernel: float  # the outputs explained by the kernel's prediction
    truth: float  # the outputs explained by the true ones: high if the model composes
    composition: float  # the true outputs explained by the model's: the model's R2


@checked
def superposition(outputs: GRID, truth: GRID, kernel: GRID, where: POINTS = None) -> Superposition:
    """R2 of outputs as a superposition, a kernel machine's, or the truth.

    kernel: predictions of a kernel machine with the same training points. where: the held-out
    points; by default all.
    """
    return Superposition(
        additive_share(outputs, where),
        explained(outputs, kernel, where),
        explained(outputs, truth, where),
        explained(truth, outputs, where),
    )


# --- any number of factors ------------------------------------------------------------------------


class Grids(NamedTuple):
    """The measures above, averaged over the grids of two factors on which activations vary.

    NaN if there is none: the measures of constant activations are undefined.
    """

    metric: float  # whether factors move activations at right angles
    schmidt: float  # whether the kernel is a product of one kernel per factor
    additive: float  # whether activations are a sum of one part per factor
    selective: float  # share of units that respond to one factor only


@checked
def on_grids(activations: finite("n ..."), factors: whole("n C>=2")) -> Grids:
    """Measures of activations on all grids of two factors.

    Samples of a combination are averaged. For the metric, neighbouring levels are one step apart.
    """
    activations = np.asarray(activations)
    combinations, means = combined(factors, activations.reshape(len(activations), -1))
    full_grids = [means[rows] for rows in grids(combinations)]
    if not full_grids:
        raise ValueError("factors: no two have all combinations while the others are constant")
    rounding = checks.rounding(activations)
    measures = [_measures(grid) for grid in full_grids if _varies(grid, rounding)]
    return Grids(*np.mean(measures, axis=0).tolist()) if measures else Grids(*[np.nan] * 4)


@checked
def grids(factors: whole("n C")) -> list[np.ndarray]:
    """Full grids of two factors, others constant, among combinations: MOST_GRIDS at most.

    Each grid holds indices [n_y, n_x] of rows of the sorted, distinct combinations.
    """
    combinations, full_grids = np.unique(factors, axis=0), []
    for pair in itertools.combinations(range(combinations.shape[1]), 2):
        others = np.delete(combinations, pair, axis=1)
        _, place = np.unique(others, axis=0, return_inverse=True)
        for group in range(place.max() + 1):
            rows = np.flatnonzero(place.ravel() == group)
            x, y = combinations[rows][:, pair].T
            sizes = len(np.unique(y)), len(np.unique(x))
            if min(sizes) > 1 and len(rows) == sizes[0] * sizes[1]:
                full_grids.append(rows[np.lexsort((x, y))].reshape(sizes))
    chosen = (
        np.unique(np.linspace(0, len(full_grids) - 1, MOST_GRIDS).astype(int)) if full_grids else ()
    )
    return [full_grids[i] for i in chosen]


def _varies(grid, rounding):
    centred = grid - grid.mean(axis=(0, 1))
    return np.sum(centred**2) > rounding * np.sum(grid**2)


def _measures(grid):
    """The measures of activations [n_y, n_x, D] on one grid."""
    n_y, n_x, _ = grid.shape
    kernel = grid_kernel(grid)
    shares = (additive_share(grid), selective_share(grid))
    return Grids(metric(grid), operator_schmidt(kernel, n_x, n_y), *shares)
