"""Checks of arguments: nonsense gets one line that names it, never an answer that looks sound.

Values are looked at where they are known. Under jit, vmap and grad they are not: there only shapes
and dtypes are checked. NumPy looks at what the host holds; what an accelerator holds stays there.
"""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np

# How far rounding may take a kernel from symmetric (relative to its largest entry) and from
# positive semi-definite (relative to its trace). Kernels in float32 stay well below.
ROUNDING = 1e-5
LARGEST = float(np.finfo(np.float64).max)


def known(*values) -> bool:
    """Whether values can be looked at: nothing of them is being traced."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def real(name: str, value, rank: int | None = None, axes: str = "") -> np.ndarray | jax.Array:
    """The value as an array of real numbers; rank: with so many axes, `axes` in words."""
    if isinstance(value, jax.Array):
        array = value
    elif not known(value):
        array = jnp.asarray(value)
    else:
        try:
            array = np.asarray(value)
        except ValueError:
            raise ValueError(f"{name} has rows of several lengths: give one array") from None
    kinds = (jnp.bool_, jnp.integer, jnp.floating)
    if not any(jnp.issubdtype(array.dtype, kind) for kind in kinds):
        raise ValueError(f"{name} holds {array.dtype}: real numbers only")
    if rank is not None and (array.ndim != rank or array.size == 0):
        raise ValueError(f"{name} is [{axes}], none of them empty: got shape {array.shape}")
    return array


def is_finite(array) -> bool:
    """Whether no value is NaN or infinite; integers never are."""
    if _home(array) is jnp:
        return bool(_all_finite(array))
    return bool(np.isfinite(np.asarray(array)).all())


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
                f"{wrong[0].tolist()}: leave them out"
            )


def finite_leaves(**trees) -> None:
    """`finite` for trees of arrays; leaves that are no numbers, such as keys, are let through."""
    for name, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.inexact):
                finite(**{f"{name}{jax.tree_util.keystr(path)}": leaf})


def _home(array):
    """NumPy for what is in the host's memory, JAX for what is on an accelerator."""
    if isinstance(array, jax.Array) and {d.platform for d in array.devices()} != {"cpu"}:
        return jnp
    return np


def broadcast(**shapes) -> tuple:
    """The common shape of leading axes."""
    try:
        return jnp.broadcast_shapes(*shapes.values())
    except ValueError:
        each = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"leading axes do not broadcast: {each}") from None


# --- numbers --------------------------------------------------------------------------------------


def integer(name: str, value, low: int, high: int | None = None) -> int:
    """A whole number from low on, up to and including high."""
    try:
        found = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is a whole number, got {value!r}") from None
    if found < low or (high is not None and found > high):
        wanted = f"{low} or more" if high is None else f"{low} to {high}"
        raise ValueError(f"{name} is {wanted}, got {found}")
    return found


def bounded(name: str, value, low: float, high: float = LARGEST, above: bool = False) -> None:
    """Numbers from low to high; above: low itself is refused. NaN always is."""
    array = real(name, value)
    if not known(array):
        return
    array = np.asarray(array).astype(float)  # the bounds overflow where numbers are shorter
    inside = (array > low if above else array >= low) & (array <= high)
    if not np.all(inside):
        wanted = f"above {low:g}" if above else f"{low:g} or more"
        if high < LARGEST:
            wanted += f", up to {high:g}"
        elif high == LARGEST:
            wanted += " and finite"
        raise ValueError(f"{name} is {wanted}, got {array[~inside].ravel()[0]:g}")


def positive(name: str, value) -> None:
    """Numbers above zero, up to and including infinity."""
    if known(value) and not np.all(np.asarray(value) > 0):
        raise ValueError(f"{name} must be positive")


def tolerances(rtol: float, atol: float) -> None:
    """rtol from 0 to 1, which it must not reach; atol from 0 on."""
    bounded("rtol", rtol, 0, np.nextafter(1, 0))
    bounded("atol", atol, 0)


def flag(name: str, value) -> None:
    """True or False, and no number that a mistaken order of arguments brought here."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is True or False, got {value!r}")


def labels(y, mask, both: bool) -> None:
    """Classes -1 and +1 in y [..., n] where mask [..., n] is True; both: some of each."""
    if not known(y, mask):
        return
    y, mask = np.asarray(y), np.asarray(mask)
    if np.any(np.abs(y[mask]) != 1):
        raise ValueError("y: svc needs labels -1 and +1")
    if both and not np.all(np.any(mask & (y > 0), axis=-1) & np.any(mask & (y < 0), axis=-1)):
        raise ValueError("y: svc needs training points of both classes")


# --- choices among n ------------------------------------------------------------------------------


def mask(name: str, value, shape: tuple, some: bool = True) -> None:
    """Boolean [..., *shape]; some: with a True in each."""
    array = real(name, value)
    if array.dtype != bool or array.shape[-len(shape) :] != shape:
        axes = ", ".join(map(str, shape))
        raise ValueError(
            f"{name} is boolean [..., {axes}], got {array.dtype} {array.shape}: for indices use "
            f"np.isin(np.arange({shape[-1]}), indices)"
        )
    if some and known(array):
        axes = tuple(range(-len(shape), 0))
        if not np.all(np.any(np.asarray(array), axis=axes)):
            raise ValueError(f"{name} is False everywhere: it leaves nothing")


def positions(where, slots: tuple, pixelwise: bool) -> None:
    """Where to judge slots of this shape [m, ..., channels]: boolean [m, ...], some of each."""
    if not pixelwise:
        raise ValueError("where picks positions, which only pixelwise=True has")
    if np.shape(where) != slots[:-1]:
        raise ValueError(f"where is boolean {slots[:-1]}, got shape {np.shape(where)}")
    mask("where", where, slots[:-1])
    if not np.all(np.any(np.reshape(where, (len(where), -1)), axis=1)):
        raise ValueError("where is False everywhere for one of the values: leave it out of slots")


def indices(name: str, value, n: int) -> None:
    """Different whole numbers [k] from 0 to n - 1, and no mask."""
    array = real(name, value)
    if array.ndim != 1 or not (array.size == 0 or jnp.issubdtype(array.dtype, jnp.integer)):
        raise ValueError(
            f"{name} is indices [k], got {array.dtype} {array.shape}: for a mask use np.flatnonzero"
        )
    if known(array):
        array = np.asarray(array)
        if np.any((array < 0) | (array >= n)) or len(np.unique(array)) < len(array):
            raise ValueError(f"{name} is different indices from 0 to {n - 1}")


def combinations(name: str, x, sizes=None) -> None:
    """Whole numbers [n, C] with n > 0; sizes: below so many for each component."""
    array = real(name, x, 2, "n, C")
    if known(array):
        array = np.asarray(array)
        finite(**{name: array})
        if np.any(array != np.round(array)):
            raise ValueError(f"{name} is combinations of whole numbers, got fractions")
        if sizes is not None and len(sizes) != array.shape[1]:
            raise ValueError(
                f"sizes {tuple(sizes)} are not one for each of {array.shape[1]} columns"
            )
        if sizes is not None and np.any((array < 0) | (array >= np.asarray(sizes))):
            raise ValueError(f"{name} has values beyond sizes {tuple(sizes)}: they count from 0")


# --- kernels --------------------------------------------------------------------------------------


def matrices(name: str, kernel) -> tuple:
    """The shape [..., n, n] of square matrices of real numbers."""
    shape = real(name, kernel).shape
    if len(shape) < 2 or shape[-1] != shape[-2] or 0 in shape:
        raise ValueError(f"{name} is [..., n, n], none of them empty: got shape {shape}")
    return shape


def symmetric(name: str, kernel) -> None:
    """Finite and symmetric kernels [..., n, n], but for rounding."""
    _raise(name, kernel, _asymmetry)


def psd(name: str, kernel, mask=None) -> None:
    """Finite, symmetric and positive semi-definite kernels [..., n, n], but for rounding.

    mask: boolean [..., n], which points matter.
    """
    _raise(name, kernel, lambda k: _asymmetry(k) or _indefinite(k), mask)


def _raise(name, kernel, problem, mask=None):
    """problem: kernels -> what is wrong with them, in words."""
    matrices(name, kernel)
    if not known(kernel, mask):
        return
    finite(**{name: kernel})
    kernel = np.asarray(kernel, np.float64) if _home(kernel) is np else 1.0 * kernel
    found = problem(kernel)
    if found and mask is not None:  # perhaps only where nobody looks
        inside = np.asarray(mask)
        found = problem(np.asarray(kernel) * (inside[..., :, None] & inside[..., None, :]))
    if found:
        raise ValueError(f"{name} {found}")


def _asymmetry(kernel):
    xp, turned = _home(kernel), kernel.swapaxes(-2, -1)
    if bool((kernel == turned).all()):
        return ""
    off = xp.abs(kernel - turned).max(axis=(-2, -1))
    if bool((off <= ROUNDING * xp.abs(kernel).max(axis=(-2, -1))).all()):
        return ""
    return f"is not symmetric: entries differ by up to {float(off.max()):.2g} from their mirror's"


def _indefinite(kernel):
    """Whether the kernel and a little more has no Cholesky factor, the cheapest way to tell."""
    xp = _home(kernel)
    scale = xp.abs(xp.diagonal(kernel, axis1=-2, axis2=-1)).sum(axis=-1)
    if not bool((scale > 0).all()):  # without a diagonal only zeros are a kernel
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
        f"{worst[0]:.2g} to {worst[-1]:.2g}; more than rounding leaves"
    )


def salience(salience, n, name: str = "n") -> None:
    """S(1; 2) of a kernel that is positive semi-definite for n items, one whole number or several.

    With measured saliences in mind it may be beyond that by a little.
    """
    finite(salience=salience)
    if known(n):
        for each in np.ravel(n):
            integer(name, each, 1)
    if known(salience, n):
        s, n = np.asarray(salience), np.asarray(n)
        if np.any(1 - 2 * s < -1e-4) or np.any(1 - 2 * s + n * s < -1e-4):
            raise ValueError("salience: S(1; 2) is 1/2 at most, and hardly below 0, for a kernel")
        if _is_whole_salience(s):
            raise ValueError(
                f"salience looks like S(1..{s.shape[-1]}; {s.shape[-1]}) of one kernel: give "
                "S(1; 2), of two components; several that happen to sum so as salience[:, None]"
            )


def _is_whole_salience(s):
    """Whether the last axis holds the saliences of all sizes of conjunctions, which sum to one.

    Two numbers may well sum so by chance.
    """
    if s.ndim == 0 or s.shape[-1] < 3:
        return False
    weights = np.array([math.comb(s.shape[-1], k) for k in range(1, s.shape[-1] + 1)], float)
    return bool(np.all(np.abs(s @ weights - 1) < 1e-9))
