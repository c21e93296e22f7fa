"""Checks of arguments: an invalid argument raises a one-line error that names it.

Values are checked only where they are concrete. Under jit, vmap and grad they are traced, so only
shapes and dtypes are checked. NumPy checks arrays in host memory; arrays on an accelerator are
checked there, without a copy. Constants of a program that a caller's jit traces are concrete, and
`jax.ensure_compile_time_eval` keeps their check out of that program.
"""

import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# The largest rounding error that is accepted: a kernel's asymmetry relative to its largest entry,
# and its negative eigenvalues relative to its trace. Kernels in float32 stay well below.
ROUNDING = 1e-5
MOST_COMPONENTS = 56  # the largest n for which every "n over k" is exact in float64


def known(*values) -> bool:
    """Whether all values are concrete, not traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def real(name: str, value) -> np.ndarray | jax.Array:
    """The value as an array of real numbers."""
    if isinstance(value, jax.Array):
        array = value
    elif not known(value):
        array = jnp.asarray(value)
    else:
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(f"{name} has rows of several lengths: pass a single array") from None
    kinds = (jnp.bool_, jnp.integer, jnp.floating)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in kinds):
        raise ValueError(f"{name} holds {array.dtype}, but must hold real numbers")
    return array


def is_finite(array) -> bool:
    """Whether no value is NaN or infinite; integers never are."""
    if _home(array) is jnp:
        with jax.ensure_compile_time_eval():
            return bool(_all_finite(array))
    values = np.asarray(array)
    if values.dtype.char in "fd":
        # A dot product is faster than a test of each entry, and overflows at worst.
        values = values.ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            squares = values.dot(values)
        if math.isfinite(squares):
            return True
    return bool(np.isfinite(values).all())


@jax.jit
def _all_finite(array):
    return jnp.all(jnp.isfinite(array))


def finite(**arrays) -> None:
    """Real numbers without NaN or infinity: `finite(k_train=k_train, y=y)`."""
    for name, value in arrays.items():
        array = real(name, value)
        if known(array) and not is_finite(array):
            wrong = np.argwhere(~np.isfinite(np.asarray(array)))
            raise ValueError(
                f"{name} holds NaN or infinity in {len(wrong)} of {array.size} entries, first at "
                f"{wrong[0].tolist()}: remove them"
            )


def finite_leaves(**trees) -> None:
    """`finite` for trees of arrays; leaves that are not numbers, such as keys, are ignored."""
    for name, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.inexact):
                finite(**{f"{name}{jax.tree_util.keystr(path)}": leaf})


def finite_result(result, **trees) -> Any:
    """The result; if it is not finite, an error names the argument that is not finite.

    Only the result is always checked: a check of every argument takes as long as a small kernel.
    """
    if known(result) and not is_finite(result):
        finite_leaves(**trees)
    return result


def _home(array):
    """NumPy for arrays in host memory, JAX for arrays on an accelerator."""
    if isinstance(array, jax.Array) and {d.platform for d in array.devices()} != {"cpu"}:
        return jnp
    return np


def broadcast(**shapes) -> tuple:
    """The common shape of leading axes."""
    try:
        return jnp.broadcast_shapes(*shapes.values())
    except ValueError:
        all_shapes = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"leading axes do not broadcast: {all_shapes}") from None


# --- numbers --------------------------------------------------------------------------------------


def integer(name: str, value, low: int, high: int | None = None) -> int:
    """The value as an integer; it must be at least low and at most high."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    if number < low or (high is not None and number > high):
        wanted = f"{low} or more" if high is None else f"{low} to {high}"
        raise ValueError(f"{name} must be {wanted}, got {number}")
    return number


def bounded(name: str, value, interval: str) -> None:
    """Numbers in an interval such as "(0, 1]": a round bracket excludes the end, also infinity.

    >>> bounded("share", 1.5, "(0, 1]")
    Traceback (most recent call last):
    ValueError: share must be in (0, 1], got 1.5
    """
    array = real(name, value)
    if not known(array):
        return
    array = np.asarray(array).astype(float)  # the bounds overflow in shorter dtypes
    low, high = (float(end) for end in interval[1:-1].split(","))
    inside = (array > low if interval[0] == "(" else array >= low) & (
        array < high if interval[-1] == ")" else array <= high
    )
    if not np.all(inside):
        raise ValueError(f"{name} must be in {interval}, got {array[~inside].ravel()[0]:g}")


def samples(**given) -> list:
    """The number of samples of each tree, leaves [n, ...], all of the same ranks; None for None."""
    lengths, ranks = [], set()
    for name, x in given.items():
        leaves = jax.tree.leaves(x)
        n = {leaf.shape[:1] for leaf in leaves}
        if leaves and (len(n) > 1 or () in n or (0,) in n):
            raise ValueError(f"{name} needs samples on axis 0, the same number > 0 in each leaf")
        lengths.append(leaves[0].shape[0] if leaves else None)
        if leaves:
            ranks.add(tuple(len(leaf.shape) for leaf in leaves))
    if len(ranks) > 1:
        raise ValueError(f"{' and '.join(given)} need leaves with the same numbers of axes")
    return lengths


# --- choices among n ------------------------------------------------------------------------------


def positions(where, slots: tuple, pixelwise: bool) -> np.ndarray:
    """The positions to test, of slots [m, ..., channels]: boolean [m, positions], all for None.

    where: boolean [m, ...], a True for each m. Slots that are not pixelwise have one position.
    """
    if where is None:
        return np.ones((slots[0], math.prod(slots[1:-1]) if pixelwise else 1), bool)
    if not pixelwise:
        raise ValueError("where selects positions, which only pixelwise=True has")
    where = np.asarray(where)
    if where.dtype != bool or where.shape != slots[:-1]:
        raise ValueError(f"where must be boolean {slots[:-1]}, got {where.dtype} {where.shape}")
    where = where.reshape(len(where), -1)
    if not np.all(np.any(where, axis=1)):
        raise ValueError("where is False everywhere for one of the values: remove it from slots")
    return where


def indices(name: str, value, n: int) -> None:
    """Distinct indices [k] from 0 to n - 1, not a mask."""
    array = real(name, value)
    if array.ndim != 1 or not (array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)):
        raise ValueError(
            f"{name} must be indices [k], got {array.dtype} {array.shape}; for a mask use "
            "np.flatnonzero"
        )
    if known(array):
        array = np.asarray(array)
        if np.any((array < 0) | (array >= n)) or len(np.unique(array)) < len(array):
            raise ValueError(f"{name} must be distinct indices from 0 to {n - 1}")


def whole(name: str, value) -> None:
    """Finite whole numbers, of any dtype."""
    finite(**{name: value})
    if known(value) and np.any(np.asarray(value) != np.round(np.asarray(value))):
        raise ValueError(f"{name} must be combinations of whole numbers, got fractions")


def below(sizes, **combinations) -> None:
    """Values from 0 to below the sizes of the components, for whole numbers [n, C]."""
    for name, x in combinations.items():
        if known(x) and np.any((np.asarray(x) < 0) | (np.asarray(x) >= np.asarray(sizes))):
            raise ValueError(f"{name} must hold values from 0 to below sizes {tuple(sizes)}")


def rounding(values) -> float:
    """Relative squared size of rounding errors: values that vary by less are constant."""
    dtype = np.asarray(values).dtype
    eps = float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.floating) else 0.0
    return max(16 * eps**2, 1e-24)


# --- kernels --------------------------------------------------------------------------------------


def matrices(name: str, kernel) -> tuple:
    """The shape [..., n, n] of square matrices of real numbers."""
    shape = real(name, kernel).shape
    if len(shape) < 2 or shape[-1] != shape[-2] or 0 in shape:
        raise ValueError(f"{name} must be [..., n, n] without an empty axis, got shape {shape}")
    return shape


def symmetric(name: str, kernel) -> None:
    """Finite kernels [..., n, n], symmetric up to rounding."""
    _raise(name, kernel, _asymmetry)


def psd(name: str, kernel, mask=None) -> None:
    """Finite kernels [..., n, n], symmetric and positive semi-definite up to rounding.

    mask: boolean [..., n], which points matter.
    """
    _raise(name, kernel, lambda k: _asymmetry(k) or _indefinite(k), mask)


def _raise(name, kernel, problem, mask=None):
    """problem: a function from kernels to the text of the error, empty if they are valid."""
    matrices(name, kernel)
    if not known(kernel, mask):
        return
    finite(**{name: kernel})
    with jax.ensure_compile_time_eval():
        kernel = np.asarray(kernel, np.float64) if _home(kernel) is np else 1.0 * kernel
        message = problem(kernel)
        if message and mask is not None:  # the problem may be in masked-out points only
            inside = np.asarray(mask)
            message = problem(np.asarray(kernel) * (inside[..., :, None] & inside[..., None, :]))
    if message:
        raise ValueError(f"{name} {message}")


def _asymmetry(kernel):
    xp, turned = _home(kernel), kernel.swapaxes(-2, -1)
    if bool((kernel == turned).all()):
        return ""
    off = xp.abs(kernel - turned).max(axis=(-2, -1))
    if bool((off <= ROUNDING * xp.abs(kernel).max(axis=(-2, -1))).all()):
        return ""
    return f"is not symmetric: k[i, j] and k[j, i] differ by up to {float(off.max()):.2g}"


def _indefinite(kernel):
    """The error if the kernel plus a small ridge has no Cholesky factor, which is a cheap test."""
    xp = _home(kernel)
    scale = xp.abs(xp.diagonal(kernel, axis1=-2, axis2=-1)).sum(axis=-1)
    if not bool((scale > 0).all()):  # with a zero diagonal, only the zero matrix is a kernel
        scale = xp.maximum(scale, xp.abs(kernel).max(axis=(-2, -1)))
        scale = xp.where(scale > 0, scale, 1)
    eye = xp.eye(kernel.shape[-1]).reshape(*[1] * (kernel.ndim - 2), *kernel.shape[-2:])
    try:
        factor = xp.linalg.cholesky(kernel + ROUNDING * scale[..., None, None] * eye)
        if bool(xp.isfinite(factor).all()):
            return ""
    except np.linalg.LinAlgError:
        pass
    values = np.linalg.eigvalsh(np.asarray(kernel, np.float64)).reshape(-1, kernel.shape[-1])
    worst = values[np.argmin(values[:, 0] / np.maximum(np.abs(values).max(axis=1), 1e-300))]
    return (
        "is not positive semi-definite: eigenvalues from "
        f"{worst[0]:.2g} to {worst[-1]:.2g}, more than rounding explains"
    )


def salience(salience, n, name: str = "n") -> None:
    """S(1; 2) of a kernel that is positive semi-definite for n items, a whole number or an array.

    Measured saliences may exceed the bounds by 1e-4.
    """
    finite(salience=salience)
    if known(n):
        for number in np.ravel(n):
            integer(name, number, 1)
    if known(salience, n):
        s, n = np.asarray(salience), np.asarray(n)
        if np.any(1 - 2 * s < -1e-4) or np.any(1 - 2 * s + n * s < -1e-4):
            raise ValueError(
                "salience: S(1; 2) of a kernel of n items is at most 1/2, at least -1/(n - 2)"
            )
        if _is_whole_salience(s):
            raise ValueError(
                f"salience looks like S(1..{s.shape[-1]}; {s.shape[-1]}) of one kernel: pass "
                "S(1; 2), of two components; pass several values of S(1; 2) as salience[:, None]"
            )


def _is_whole_salience(s):
    """Whether the last axis holds the saliences of all sizes of conjunctions, which sum to one.

    Two numbers are accepted, because they may have this sum by chance.
    """
    if s.ndim == 0 or not 3 <= s.shape[-1] <= MOST_COMPONENTS:
        return False
    return bool(np.all(np.abs(s @ binomials(s.shape[-1])[1:] - 1) < 1e-9))


def components(name: str, n: int) -> None:
    """Whether the saliences of n components, the last axis of `name`, are exact in float64."""
    if n > MOST_COMPONENTS:
        raise ValueError(
            f"{name}: {n} components in the last axis, at most {MOST_COMPONENTS} are supported: "
            "their binomials are exact in float64"
        )


def binomials(n: int) -> np.ndarray:
    """n over k, for k = 0 to n."""
    return np.array([math.comb(n, k) for k in range(n + 1)], float)
