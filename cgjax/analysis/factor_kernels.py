"""Kernels on pairs of factors z = (x, y), points [n, 2]: binary, factorised, radial, additive.

The *binary factorised kernel* (Liang et al. 2025) only asks "same x?", "same y?". Every infinitely
wide fully connected network on one-hot codes has a kernel of this family, plus a constant. Where
the pair is new the two never agree at once, so that its machine predicts a(x) + b(y) exactly.
Float64, as in `analysis.salience`; predictions are `machines.ridgeless` and `machines.ridge`.
"""

import numpy as np

from cgjax.analysis import checks, salience


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
