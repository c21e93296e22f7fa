"""In which sense is a representation of two factors x and y factorised? (Liang et al. 2025)

Three questions with three answers. `metric`: do x and y move the activations at right angles?
`operator_schmidt`: is their kernel a product K_x(x, x') K_y(y, y')? `additive_share`: are the
activations a sum a(x) + b(y)? A code that puts one part for x beside one for y is additive, an
image of a spot is multiplicative; both have metric 1. What a model paints for a pair it never saw
is held against sums of what it saw: `shared_sum`, `isolated`, `superposition`.

Activations are on the grid of the factors, [n_y, n_x, ...], first axis y, second x. NumPy, float64;
they are run once per model and layer.
"""

import itertools
from typing import NamedTuple

import numpy as np

from cgjax.analysis import checks, geometry, salience
from cgjax.analysis.effects import combined

# --- kernels on pairs of factors z = (x, y), points [n, 2]: binary, factorised, radial, additive --
# The *binary factorised kernel* (Liang et al. 2025) only asks "same x?" and "same y?". Every
# infinitely wide fully connected network on one-hot codes has such a kernel, plus a constant. For a
# new pair both are never true at once, so the kernel machine predicts a(x) + b(y) exactly.
# Float64, as in `analysis.salience`; predictions are `machines.ridgeless` and `machines.ridge`.


def binary(z1: np.ndarray, z2: np.ndarray, k1: float = 1.0, k2: float = 1.0) -> np.ndarray:
    """k1 ([x = x'] + [y = y']) + k2 [x = x'][y = y']: [n1, n2], for whole numbers z.

    k2 > 0 makes it strictly positive definite on distinct points.

    >>> binary([[0, 0], [0, 1]], [[0, 0]], k1=1, k2=0.5)
    array([[2.5],
           [1. ]])
    """
    for name, value in {"k1": k1, "k2": k2}.items():
        checks.bounded(name, value, 0)
    _pairs(z1=z1, z2=z2)
    checks.combinations("z1", z1)
    checks.combinations("z2", z2)
    return salience.overlap_kernel(z1, z2, [0, k1, 2 * k1 + k2])


def factorised(z1: np.ndarray, z2: np.ndarray, lx: float = 1.0, ly: float = 1.0) -> np.ndarray:
    """exp(-dx^2 / 2 lx^2) exp(-dy^2 / 2 ly^2): [n1, n2]. With lx = ly it is `radial`."""
    x, y = _bells(z1, z2, lx=lx, ly=ly)
    return x * y


def radial(z1: np.ndarray, z2: np.ndarray, length: float = 1.0) -> np.ndarray:
    """exp(-|z - z'|^2 / 2 length^2): [n1, n2]."""
    x, y = _bells(z1, z2, length=length)
    return x * y


def additive(z1: np.ndarray, z2: np.ndarray, lx: float = 1.0, ly: float = 1.0) -> np.ndarray:
    """exp(-dx^2 / 2 lx^2) + exp(-dy^2 / 2 ly^2): [n1, n2]; its machines are a(x) + b(y)."""
    x, y = _bells(z1, z2, lx=lx, ly=ly)
    return x + y


def _bells(z1, z2, **lengths):
    """The factors' own kernels, [n1, n2] each; one length for both, or one each."""
    for name, value in lengths.items():
        checks.bounded(name, value, 0, above=True)
    z1, z2 = _pairs(z1=z1, z2=z2)
    values = list(lengths.values())
    squares = (z1[:, None] - z2[None]) ** 2
    return [np.exp(-squares[..., i] / (2 * values[-1 if i else 0] ** 2)) for i in range(2)]


def _pairs(**points):
    for name, z in points.items():
        checks.finite(**{name: z})
        if checks.real(name, z, 2, "n, 2").shape[1] != 2:
            raise ValueError(f"{name} are pairs of factors, [n, 2]: got shape {np.shape(z)}")
    return [np.asarray(z, np.float64) for z in points.values()]


# --- activations ----------------------------------------------------------------------------------

# Full grids of two factors, the others held, on which activations are looked at.
MOST_GRIDS = 32

# --- by lengths and angles ------------------------------------------------------------------------


def metric(activations: np.ndarray, where: np.ndarray | None = None) -> float:
    """F = 1 - mean|g01| / mean(|g00| + |g11|), g the metric tensor of finite differences.

    activations: [n_y, n_x, ...]. where: boolean [n_y, n_x], the points to average over (a hole, or
    what surrounds it), by default all; differences are those of the whole grid.

    From 1/2 (x and y move the activations along one line) to 1 (at right angles everywhere). A
    rotation (x + y, x - y) has F = 1 too.
    """
    tensor = geometry.grid_tensor(activations)
    inside = _inside(where, tensor.shape[:2])
    across = np.mean(np.abs(tensor[..., 0, 1])[inside])
    along = np.mean((np.abs(tensor[..., 0, 0]) + np.abs(tensor[..., 1, 1]))[inside])
    return 1 - across / (along + 1e-9)


# --- by the kernel --------------------------------------------------------------------------------


def grid_kernel(activations: np.ndarray, cosine: bool = False) -> np.ndarray:
    """Dot products (or cosines) of activations [n_y, n_x, ...] with one another: [n, n].

    Points are ordered with x as the slow index, as `operator_schmidt` takes them. The cosine with
    activations that are all zero is 0.
    """
    checks.flag("cosine", cosine)
    grid = _grid("activations", activations)
    points = np.swapaxes(grid, 0, 1).reshape(-1, grid.shape[-1])
    if cosine:
        length = np.linalg.norm(points, axis=1, keepdims=True)
        points = points / np.where(length > 0, length, 1)
    return points @ points.T


def schmidt_values(kernel: np.ndarray, n_x: int, n_y: int) -> np.ndarray:
    """Singular values s_k / sqrt(sum s^2) [min(n_x, n_y)^2] of M[(x, x'), (y, y')], descending.

    kernel: K [n_x n_y, n_x n_y], points ordered with x as the slow index; M holds its entries.
    """
    checks.integer("n_x", n_x, 1)
    checks.integer("n_y", n_y, 1)
    checks.symmetric("kernel", kernel)
    kernel = np.asarray(kernel, np.float64)
    if kernel.shape != (n_x * n_y,) * 2:
        raise ValueError(f"kernel is [{n_x * n_y}, {n_x * n_y}], n_x n_y points: {kernel.shape}")
    if not np.any(kernel):
        raise ValueError("kernel is zero everywhere: nothing can be a share of it")
    turned = kernel.reshape(n_x, n_y, n_x, n_y).transpose(0, 2, 1, 3).reshape(n_x**2, n_y**2)
    found = np.linalg.svd(turned, compute_uv=False)
    return found / np.linalg.norm(found)


def operator_schmidt(kernel: np.ndarray, n_x: int, n_y: int) -> float:
    """F_K = s_1^2 / sum_k s_k^2, the share of the largest term in the operator-Schmidt sum.

    1 exactly when K((x, y), (x', y')) = K_x(x, x') K_y(y, y'). Arguments as in `schmidt_values`.

    >>> operator_schmidt(np.kron(k_x, k_y), len(k_x), len(k_y))
    1.0
    """
    return schmidt_values(kernel, n_x, n_y)[0] ** 2


# --- by sums --------------------------------------------------------------------------------------


class TwoWay(NamedTuple):
    """Two-way analysis of variance on a full grid, unit by unit: sums of squares [D]."""

    x: np.ndarray  # of a(x)
    y: np.ndarray  # of b(y)
    interaction: np.ndarray  # of what is left of the activations around their mean


def two_way(activations: np.ndarray) -> TwoWay:
    """Activations [n_y, n_x, ...] as mean + a(x) + b(y) + interaction; the parts are orthogonal."""
    grid = _grid("activations", activations)
    n_y, n_x, _ = grid.shape
    mean = grid.mean(axis=(0, 1))
    a, b = (grid.mean(axis=axis) - mean for axis in (0, 1))
    rest = grid - mean - a - b[:, None]
    sums = (n_y * np.sum(a**2, axis=0), n_x * np.sum(b**2, axis=0), np.sum(rest**2, axis=(0, 1)))
    return TwoWay(*sums)


def additive_part(activations: np.ndarray, where: np.ndarray | None = None) -> np.ndarray:
    """The a(x) + b(y) nearest to activations [n_y, n_x, ...], in the same shape.

    where: boolean [n_y, n_x], the points to fit; elsewhere 0. By default all.
    """
    grid = _grid("activations", activations)
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


def additive_share(activations: np.ndarray, where: np.ndarray | None = None) -> float:
    """Share of the activations' variance over the grid (`where`: there) that a(x) + b(y) explains.

    1 for a code of x beside a code of y. What is missing to 1 is the share of interaction energy.
    """
    return explained(activations, additive_part(activations, where), where)


def selective_share(activations: np.ndarray, level: float = 0.9) -> float:
    """Share of units that respond to one factor only: `level` of their variance is a(x), or b(y).

    Units that do not vary respond to none and are not counted; NaN where none varies.
    """
    checks.bounded("level", level, 0.5, 1, above=True)
    sums = two_way(activations)
    total = sum(sums)
    # What rounding leaves of a unit that is constant.
    varies = total > 1e-24 * np.sum(_grid("activations", activations) ** 2, axis=(0, 1))
    is_selective = np.maximum(sums.x, sums.y) >= level * total
    return np.sum(is_selective[varies]) / np.sum(varies) if varies.any() else np.nan


def explained(outputs: np.ndarray, account: np.ndarray, where: np.ndarray | None = None) -> float:
    """R2 of an account of outputs, both [n_y, n_x, ...]: 1 - |outputs - account|^2 / |centred|^2.

    All units together, each around its own mean over the grid (`where`: over these points). 1 when
    the account is exact, below 0 when each unit's mean is a better one; NaN where nothing varies.
    """
    outputs, account = _grid("outputs", outputs), _grid("account", account)
    if outputs.shape != account.shape:
        raise ValueError(f"account is {outputs.shape} as outputs, got {account.shape}")
    inside = _inside(where, outputs.shape[:2])
    outputs, account = outputs[inside], account[inside]
    total = np.sum((outputs - outputs.mean(axis=0)) ** 2)
    return 1 - np.sum((outputs - account) ** 2) / total if total > 0 else np.nan


def _inside(where, shape):
    """Boolean [n_y, n_x]: the points that count."""
    if where is None:
        return np.ones(shape, bool)
    if np.shape(where) != shape:
        raise ValueError(f"where is boolean {shape}, got shape {np.shape(where)}")
    checks.mask("where", where, shape)
    return np.asarray(where)


def _grid(name, values):
    """[n_y, n_x, D] in float64."""
    checks.finite(**{name: values})
    grid = np.asarray(values, np.float64)
    if grid.ndim < 3 or grid.size == 0:
        raise ValueError(f"{name}: [n_y, n_x, ...], none of them empty, got shape {grid.shape}")
    return grid.reshape(*grid.shape[:2], -1)


# --- superposition --------------------------------------------------------------------------------


def shared_sum(outputs: np.ndarray, is_train: np.ndarray) -> np.ndarray:
    """At each grid point, the sum of outputs at all training points with its x or its y.

    outputs: [n_y, n_x, ...]. is_train: boolean [n_y, n_x]. Returns the shape of outputs.
    What a model that superposes paints for a pair it never saw looks like this sum.
    """
    grid = _grid("outputs", outputs)
    checks.mask("is_train", is_train, grid.shape[:2])
    kept = np.where(np.asarray(is_train)[..., None], grid, 0)
    # A training point shares both with itself, and counts once.
    total = kept.sum(axis=0, keepdims=True) + kept.sum(axis=1, keepdims=True) - kept
    return total.reshape(np.shape(outputs))


def isolated(
    codes: np.ndarray, train_codes: np.ndarray, split: int
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs with one factor alone: ([e(x), mean e(y)], [mean e(x), e(y)]), each [k, d].

    codes: [k, d], e(x) in the first `split` columns, e(y) in the others. train_codes: [m, d], over
    which the factor that is absent is averaged.
    """
    checks.finite(codes=codes, train_codes=train_codes)
    codes = np.asarray(checks.real("codes", codes, 2, "k, d"), np.float64)
    train_codes = np.asarray(checks.real("train_codes", train_codes, 2, "m, d"), np.float64)
    if codes.shape[1] != train_codes.shape[1]:
        raise ValueError(f"train_codes are [m, {codes.shape[1]}] as codes, not {train_codes.shape}")
    checks.integer("split", split, 1, codes.shape[1] - 1)
    mean = np.broadcast_to(train_codes.mean(axis=0), codes.shape)
    only_x = np.concatenate([codes[:, :split], mean[:, split:]], axis=1)
    only_y = np.concatenate([mean[:, :split], codes[:, split:]], axis=1)
    return only_x, only_y


class Superposition(NamedTuple):
    """Three accounts of what a model paints for pairs it never saw, each an R2."""

    additive: float  # its outputs by the best a(x) + b(y): high where it memorises
    kernel: float  # its outputs by the kernel's prediction
    truth: float  # its outputs by the true ones: high where it composes
    composition: float  # the true ones by its outputs: the model's own R2


def superposition(
    outputs: np.ndarray, truth: np.ndarray, kernel: np.ndarray, where: np.ndarray | None = None
) -> Superposition:
    """How far outputs are a superposition, a kernel machine's, or right; all [n_y, n_x, ...].

    kernel: predictions of a kernel machine with the same training points. where: boolean
    [n_y, n_x], the points that were held out; by default all that are given.
    """
    for name, account in {"truth": truth, "kernel": kernel}.items():
        checks.finite(**{name: account})
        if np.shape(account) != np.shape(outputs):
            shapes = f"{np.shape(outputs)} as outputs, got {np.shape(account)}"
            raise ValueError(f"{name} is {shapes}")
    _grid("outputs", outputs)
    return Superposition(
        additive_share(outputs, where),
        explained(outputs, kernel, where),
        explained(outputs, truth, where),
        explained(truth, outputs, where),
    )


# --- any number of factors ------------------------------------------------------------------------


class Grids(NamedTuple):
    """The measures above, averaged over grids of two factors; NaN where one does not vary."""

    metric: float  # factors move activations at right angles
    schmidt: float  # their kernel is a product of one for each factor
    additive: float  # they are a sum of a part for each factor
    selective: float  # share of units that respond to one factor only


def on_grids(activations: np.ndarray, factors: np.ndarray) -> Grids:
    """Measures of activations [n, ...] of combinations, whole numbers [n, C]: two, or more.

    Samples of a combination are averaged. The metric takes levels in their order, one step apart.
    """
    checks.finite(activations=activations)
    activations = np.asarray(activations)
    if activations.shape[:1] != np.shape(factors)[:1]:
        n = len(factors)
        raise ValueError(f"activations are [{n}, ...] as factors, got {activations.shape}")
    combinations, means = combined(factors, activations.reshape(len(activations), -1))
    found = [_measures(means[rows]) for rows in grids(combinations)]
    if not found:
        raise ValueError("factors: no two have all their combinations, the others held")
    return Grids(*np.mean(found, axis=0).tolist())


def grids(factors: np.ndarray) -> list[np.ndarray]:
    """Full grids of two factors, the others held, among combinations [n, C]: MOST_GRIDS at most.

    Each is rows of the sorted, different combinations, [n_y, n_x].
    """
    checks.combinations("factors", factors)
    combinations, found = np.unique(factors, axis=0), []
    for pair in itertools.combinations(range(combinations.shape[1]), 2):
        others = np.delete(combinations, pair, axis=1)
        _, place = np.unique(others, axis=0, return_inverse=True)
        for group in range(place.max() + 1):
            rows = np.flatnonzero(place.ravel() == group)
            x, y = combinations[rows][:, pair].T
            sizes = len(np.unique(y)), len(np.unique(x))
            if min(sizes) > 1 and len(rows) == sizes[0] * sizes[1]:
                found.append(rows[np.lexsort((x, y))].reshape(sizes))
    some = np.unique(np.linspace(0, len(found) - 1, MOST_GRIDS).astype(int)) if found else ()
    return [found[i] for i in some]


def _measures(grid):
    """Grids of activations [n_y, n_x, D]."""
    centred = grid - grid.mean(axis=(0, 1))
    if np.sum(centred**2) <= 1e-12 * np.sum(grid**2):
        return Grids(*[np.nan] * 4)
    n_y, n_x, _ = grid.shape
    kernel = grid_kernel(grid)
    shares = (additive_share(grid), selective_share(grid))
    return Grids(metric(grid), operator_schmidt(kernel, n_x, n_y), *shares)
