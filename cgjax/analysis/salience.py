"""Compositionally structured kernels and their salience (Lippl and Stachenfeld 2025, def. 3.1).

Such a kernel depends only on which components two inputs z, z' share. It is given as a table
`kappa`: by overlap count, kappa(0..C), or by the set J of shared components, 2^C entries in the
order of `subsets`. Both end with the kernel of an input with itself.

All functions compute in float64 (see `float64`), take tables with any leading axes, and can be
transformed by vmap, jit and grad. Use `jax.enable_x64(True)` around your own jit and grad:
otherwise they round their arguments and results to float32.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, counts, finite, function, integer, number, whole

# Arguments of several functions: a table of two entries or more, a cosine with rounding.
TABLE, COSINE = finite("... entries>=2"), number("[-1.000001, 1.000001]")


def float64(fn: Callable) -> Callable:
    """`fn` in double precision, whether or not float64 is enabled.

    If float64 is disabled, the results are NumPy arrays: the next operation on a float64 JAX array
    would round it to float32. If it is enabled, or under a transformation, they are JAX arrays.
    """

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        is_on = jax.config.jax_enable_x64
        with jax.enable_x64(True):
            result = fn(*args, **kwargs)
        return result if is_on else jax.tree.map(_as_numpy, result)

    return wrapped


def _as_numpy(leaf):
    return leaf if isinstance(leaf, jax.core.Tracer) else np.asarray(leaf)


# --- salience -------------------------------------------------------------------------------------


@checked
@float64
def salience(kappa: TABLE) -> jax.Array:
    """S(1..C) [..., C] of a kernel by overlap count kappa(0..C) [..., C + 1].

    S(k; C) is the weight of sharing a conjunction of k components, by Moebius inversion, divided by
    kappa(C) - kappa(0). With binomial weights, the saliences sum to one.

    >>> salience([0, 0.3, 1])
    array([0.3, 0.4])
    """
    kappa = jnp.asarray(kappa, jnp.float64)
    _check_ends(kappa)
    _check_largest(kappa)
    n_components = kappa.shape[-1] - 1
    checks.components("kappa", n_components)
    weights = kappa @ _binomials(n_components, signed=True).T
    return weights[..., 1:] / (kappa[..., -1:] - kappa[..., :1])


@checked
@float64
def kappa(salience: finite("... C")) -> jax.Array:
    """kappa(0..C) [..., C + 1] from the saliences S(1..C) [..., C]; kappa(0) = 0, kappa(C) = 1."""
    salience = jnp.asarray(salience, jnp.float64)
    n_components = salience.shape[-1]
    checks.components("salience", n_components)
    table = salience @ _binomials(n_components)[:, 1:].T
    _check_total(table[..., -1], "S(1..C): weighted by C over k", "; `complete` adds the last one")
    return table


@checked
@float64
def complete(salience: finite("... free>=0")) -> jax.Array:
    """All saliences S(1..C) [..., C] from the free ones S(1..C-1) [..., C - 1]."""
    salience = jnp.asarray(salience, jnp.float64)
    n_components = salience.shape[-1] + 1
    checks.components("salience", n_components)
    weights = checks.binomials(n_components)[1:-1]
    return jnp.concatenate([salience, 1 - (salience @ weights)[..., None]], axis=-1)


def _check_ends(kappa):
    """Checks that the salience is defined: its denominator is not zero."""
    if checks.known(kappa) and np.any(np.asarray(kappa[..., -1] == kappa[..., 0])):
        raise ValueError("kappa(C) equals kappa(0): the salience is undefined")


def _check_largest(kappa):
    """Checks that kappa(C), the kernel of an input with itself, is the largest entry."""
    if checks.known(kappa):
        kappa = np.asarray(kappa)
        if np.any(np.abs(kappa) > (1 + 1e-6) * np.abs(kappa[..., -1:])):
            raise ValueError(
                "kappa must be a kernel's values by overlap, kappa(0..C), whose last entry is the "
                "largest; for features or a Gram matrix see additivity.structure"
            )


def _check_total(total, which, hint=""):
    if checks.known(total) and np.any(np.abs(np.asarray(total) - 1) > 1e-5):
        wrong = np.ravel(total)[np.argmax(np.abs(np.ravel(total) - 1))]
        raise ValueError(f"salience: pass all {which} they sum to {wrong:.4g} instead of 1{hint}")


def _binomials(n_components, signed=False):
    """[C + 1, C + 1]: j over k in row j, column k; signed: the inverse matrix."""
    size = range(n_components + 1)
    return np.array([[math.comb(j, k) * (-1.0) ** (signed * (j - k)) for k in size] for j in size])


# --- unequal components: tables by subset ---------------------------------------------------------


@checked
def subsets(n_components: integer(0)) -> np.ndarray:
    """The components of each subset J: bool [2^C, C], in binary order, component 1 fastest.

    >>> subsets(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    return (np.arange(2**n_components)[:, None] >> np.arange(n_components)) % 2 == 1


@checked
@float64
def by_subset(kappa: TABLE) -> jax.Array:
    """The table by subset [..., 2^C] of a table by overlap count [..., C + 1]."""
    kappa = jnp.asarray(kappa, jnp.float64)
    return kappa[..., subsets(kappa.shape[-1] - 1).sum(axis=1)]


@checked
@float64
def moebius(kappa: finite("... entries")) -> jax.Array:
    """s_J, the weight of sharing the conjunction J; argument and result by subset [..., 2^C]."""
    kappa = jnp.asarray(kappa, jnp.float64)
    size = subsets(_n_components(kappa.shape[-1], "kappa")).sum(axis=1)
    is_within = _is_within(kappa.shape[-1])
    return kappa @ np.where(is_within, (-1.0) ** (size - size[:, None]), 0)


@checked
@float64
def moebius_inverse(weights: finite("... entries")) -> jax.Array:
    """kappa_J, the sum of s_J' over the subsets J' of J; tables by subset [..., 2^C]."""
    weights = jnp.asarray(weights, jnp.float64)
    return weights @ _is_within(weights.shape[-1], "weights").astype(float)


@checked
@float64
def subset_salience(kappa: TABLE) -> jax.Array:
    """S_J [..., 2^C - 1] of the non-empty subsets, from kappa_J [..., 2^C]; they sum to one.

    >>> subset_salience([0, 0.1, 0.9, 1])  # components of input share 0.1 and 0.9
    array([0.1, 0.9, 0. ])
    """
    kappa = jnp.asarray(kappa, jnp.float64)
    _check_ends(kappa)
    return moebius(kappa)[..., 1:] / (kappa[..., -1:] - kappa[..., :1])


def _n_components(size, name):
    n_components = size.bit_length() - 1
    if size != 2**n_components:
        raise ValueError(f"{name} by subset needs 2^C entries, got {size}")
    return n_components


def _is_within(size, name="kappa"):
    """[2^C, 2^C]: whether the subset of the row is contained in the subset of the column."""
    members = subsets(_n_components(size, name))
    return np.all(members[:, None] <= members[None], axis=-1)


# --- kernels and features -------------------------------------------------------------------------


@checked
@float64
def overlap_kernel(x1: whole("n1 C"), x2: whole("n2 C"), kappa: finite("... entries")) -> jax.Array:
    """K [..., n1, n2] = kappa(number of shared components), from kappa [..., C + 1]."""
    shared, kappa = _shared(jnp.asarray(x1), jnp.asarray(x2)), jnp.asarray(kappa, jnp.float64)
    if kappa.shape[-1] != shared.shape[-1] + 1:
        raise ValueError(f"{shared.shape[-1]} components need kappa(0..C), got {kappa.shape}")
    return _entries(kappa, shared, np.ones(shared.shape[-1], int))


@checked
@float64
def subset_kernel(x1: whole("n1 C"), x2: whole("n2 C"), kappa: finite("... entries")) -> jax.Array:
    """K [..., n1, n2] = kappa_J of the set J of shared components; kappa: [..., 2^C]."""
    shared, kappa = _shared(jnp.asarray(x1), jnp.asarray(x2)), jnp.asarray(kappa, jnp.float64)
    if kappa.shape[-1] != 2 ** shared.shape[-1]:
        raise ValueError(
            f"{shared.shape[-1]} components need kappa with 2^C entries, got {kappa.shape}"
        )
    return _entries(kappa, shared, 2 ** np.arange(shared.shape[-1]))


@jax.jit
def _entries(kappa, shared, places):
    """Entries of a table, at the sum of the places of shared components."""
    return kappa[..., shared @ places]


@jax.jit
def _shared(x1, x2):
    """Whether two inputs share a component: [n1, n2, C]."""
    return x1[:, None] == x2[None]


@checked
@float64
def features(
    x: whole("n C"), sizes: counts("C"), weights: number("[0, inf)", "entries")
) -> jax.Array:
    """phi(z): for each subset J, sqrt(s_J) times the one-hot code of the conjunction z_J.

    sizes: the number of values of each component. weights: s_J [2^C].
    Returns [n, sum over J of prod of its sizes]; phi phi^T is the kernel of `moebius_inverse`.
    """
    checks.below(sizes, x=x)
    x, weights = jnp.asarray(x), jnp.asarray(weights, jnp.float64)
    if weights.shape != (2 ** len(sizes),):
        raise ValueError(f"weights must be [2^C] for C = {len(sizes)} sizes, got {weights.shape}")
    codes = [jax.nn.one_hot(x[:, c], size, dtype=jnp.float64) for c, size in enumerate(sizes)]
    blocks = []
    for weight, members in zip(weights, subsets(len(sizes))):
        block = jnp.ones((len(x), 1))
        for c in np.flatnonzero(members):
            block = (block[:, :, None] * codes[c][:, None]).reshape(len(x), -1)
        blocks.append(jnp.sqrt(weight) * block)
    return jnp.concatenate(blocks, axis=1)


# --- spectrum -------------------------------------------------------------------------------------


@checked
@float64
def spectrum(kappa: TABLE, sizes: counts("C")) -> tuple[jax.Array, np.ndarray]:
    """Eigenvalues lambda_J [..., 2^C] on the full grid, and their multiplicities [2^C].

    kappa: by overlap count [..., C + 1] or by subset [..., 2^C]. sizes: values per component.
    lambda_J is the sum over the supersets J' of s_J' times the product of the sizes outside J'. Its
    multiplicity is the product of n_c - 1 over J.
    """
    kappa, sizes = jnp.asarray(kappa, jnp.float64), np.array(sizes)
    if kappa.shape[-1] == len(sizes) + 1:
        kappa = by_subset(kappa)
    if kappa.shape[-1] != 2 ** len(sizes):
        raise ValueError(
            f"kappa has {kappa.shape[-1]} entries: {len(sizes)} sizes need C + 1 or 2^C"
        )
    members = subsets(len(sizes))
    outside = np.where(members, 1, sizes).prod(axis=1)
    eigenvalues = moebius(kappa) @ (_is_within(kappa.shape[-1]) * outside).T.astype(float)
    return eigenvalues, np.where(members, sizes - 1, 1).prod(axis=1)


@checked
@float64
def is_psd(kappa: TABLE, sizes: counts("C"), tolerance: number("[0, 1)") = 1e-8) -> jax.Array:
    """Whether no eigenvalue on the full grid is below -tolerance times the largest: bool [...]."""
    eigenvalues, multiplicity = spectrum(kappa, sizes)
    eigenvalues = eigenvalues[..., multiplicity > 0]
    largest = jnp.max(jnp.abs(eigenvalues), axis=-1, keepdims=True)
    return jnp.all(eigenvalues >= -tolerance * largest, axis=-1)


# --- random networks, layer by layer --------------------------------------------------------------


@checked
@float64
def layers(kappa: TABLE, layer_map: function, depth: integer(0)) -> jax.Array:
    """The kernel after 0..depth layers of a wide random network: [..., depth + 1, entries].

    kappa: the table of the inputs, by overlap or by subset: o / C for one-hot components, or for
    unequal ones the summed input share of each subset. layer_map: one of LAYER_MAPS, or any
    function of the similarity kappa / kappa(C). The salience does not depend on overall constants.

    >>> salience(layers([0, 0.5, 1], relu, 20))[-1].round(4)
    array([0.1325, 0.7351])
    """
    tables = [jnp.asarray(kappa, jnp.float64)]
    if checks.known(tables[0]):
        first = np.asarray(tables[0])
        if np.any(first[..., -1:] <= 0) or np.any(np.abs(first) > first[..., -1:] * (1 + 1e-6)):
            raise ValueError(
                "kappa is not a kernel: its last entry must be positive and the largest"
            )
    for _ in range(depth):
        tables.append(layer_map(tables[-1] / tables[-1][..., -1:]))
    return jnp.stack(tables, axis=-2)


def _angle(x):
    """arccos with slope 0 at 1 instead of infinity: a table's last entry is always 1."""
    is_inside = jnp.abs(x) < 1
    return jnp.where(is_inside, jnp.arccos(jnp.where(is_inside, x, 0)), jnp.where(x > 0, 0, np.pi))


@checked
def step(x: COSINE) -> jax.Array:
    """Heaviside step."""
    return np.pi - _angle(x)


def relu(x: jax.Array) -> jax.Array:
    """Rectified linear."""
    return leaky_relu(x, slope=0.0)


@checked
def leaky_relu(x: COSINE, slope: finite("") = 0.1) -> jax.Array:
    """Rectified linear, with a slope for negative inputs."""
    theta = _angle(x)
    rectified = (jnp.sin(theta) + (np.pi - theta) * x) / (2 * np.pi)
    return (1 - slope) ** 2 * rectified + slope * x


@checked
def rectified_quadratic(x: COSINE) -> jax.Array:
    """Rectified, then squared."""
    theta = _angle(x)
    return 3 * jnp.sin(theta) * x + (np.pi - theta) * (1 + 2 * x**2)


@checked
def gaussian(x: COSINE, width: number("[0, inf)") = 1.0) -> jax.Array:
    """exp(-width u^2); its slope at 1 is below one, so the salience converges with depth."""
    return ((2 * width + 1) ** 2 - (2 * width * x) ** 2) ** -0.5


LAYER_MAPS = {
    "step": step,
    "relu": relu,
    "leaky_relu": leaky_relu,
    "rectified_quadratic": rectified_quadratic,
    "gaussian": gaussian,
}
