"""Kernels of infinitely wide random ReLU networks: NNGP and NTK.

All networks have the NTK parameterisation: weights N(0, 1) times sqrt(weight_var / fan_in), biases
N(0, 1) times sqrt(bias_var), and one scalar output layer. Closed forms are in float64; the network
with max pooling has no closed form and is sampled.
"""

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.ntk import empirical
from cgjax.analysis.salience import float64

# BatchNorm in evaluation mode at initialisation divides by the square root of this.
_NORM = 1 + 1e-5
_product = functools.partial(jnp.matmul, precision="highest")


class ConvKernels(NamedTuple):
    """Closed-form kernels of a ConvNet, each [n1, n2]."""

    nngp: jax.Array
    ntk: jax.Array
    features: jax.Array  # mean product of the last convolution's features, after its ReLU


class Sampled(NamedTuple):
    """Kernels averaged over random networks with their standard errors, each [n1, n2]."""

    nngp: np.ndarray
    nngp_error: np.ndarray
    ntk: np.ndarray
    ntk_error: np.ndarray


@float64
def relu_mlp(
    x1: jax.Array,
    x2: jax.Array | None = None,
    depth: int = 1,
    weight_var: float = 2.0,
    bias_var: float = 0.0,
) -> tuple[jax.Array, jax.Array]:
    """(nngp, ntk), each float64 [n1, n2], of an MLP with `depth` hidden ReLU layers.

    x1 [n1, d], x2 [n2, d]; x2 None: x1 with itself. An input's correlation with itself is set to
    exactly 1, without rounding errors.

    >>> nngp, ntk = relu_mlp(x, None, depth=3)
    """
    _check_inputs(x1, x2, "n, d", weight_var, bias_var)
    checks.integer("depth", depth, 0)
    same = _same(x1, x2)
    x1 = jnp.asarray(x1, jnp.float64)
    x2 = x1 if same else jnp.asarray(x2, jnp.float64)
    d = x1.shape[1]
    cov = weight_var * (x1 @ x2.T) / d + bias_var
    var1, var2 = (weight_var * jnp.sum(x * x, axis=1) / d + bias_var for x in (x1, x2))
    return _dense(cov, cov, var1, var2, same, depth, weight_var, bias_var)


def _check_inputs(x1, x2, axes, weight_var, bias_var):
    """Checks inputs of one shape, with the axes named in `axes`, and variances."""
    rank = axes.count(",") + 1
    for name, x in (("x1", x1), ("x2", x1 if x2 is None else x2)):
        checks.finite(**{name: x})
        if checks.real(name, x, rank, axes).shape[1:] != np.shape(x1)[1:]:
            raise ValueError(f"x1 and x2 may differ only in n, got {np.shape(x1)}, {np.shape(x)}")
    checks.bounded("weight_var", weight_var, 0)
    checks.bounded("bias_var", bias_var, 0)


def _same(x1, x2):
    if x2 is None or x2 is x1:
        return True
    if not checks.known(x1, x2):
        return False
    return np.array_equal(np.asarray(x1), np.asarray(x2))


def _dense(cov, tangent, var1, var2, same, depth, weight_var, bias_var):
    """NNGP and NTK after `depth` more hidden layers; all kernels are of pre-activations."""
    equal = jnp.eye(len(var1), dtype=bool) if same else jnp.zeros((1, 1), bool)
    for _ in range(depth):
        norm = jnp.sqrt(var1[:, None] * var2[None, :])
        product, slope = _relu(cov, norm, equal)
        cov = weight_var * product + bias_var
        tangent = cov + weight_var * slope * tangent
        var1, var2 = (weight_var * var / 2 + bias_var for var in (var1, var2))
    return cov, tangent


def _relu(cov, norm, equal):
    """E[relu(u) relu(v)] and E[relu'(u) relu'(v)] of Gaussians; norm: sqrt(var u var v)."""
    correlation = jnp.clip(cov / jnp.where(norm > 0, norm, 1), -1, 1)
    # Only equal inputs are this close to 1, and arccos would turn their last digit into 1e-7.
    correlation = jnp.where(equal | (correlation > 1 - 1e-14), 1, correlation)
    angle = jnp.arccos(correlation)
    sine = jnp.sqrt((1 - correlation) * (1 + correlation))
    slope = (math.pi - angle) / (2 * math.pi)
    return norm * (sine / (2 * math.pi) + slope * correlation), slope


# --- the ConvNet ----------------------------------------------------------------------------------


@float64
def convnet(
    x1: jax.Array,
    x2: jax.Array | None = None,
    n_blocks: int = 4,
    kernel: int = 5,
    pool: int = 2,
    n_dense: int = 2,
    weight_var: float = 2.0,
    bias_var: float = 0.0,
    chunk: int | None = None,
) -> ConvKernels:
    """Kernels, float64, of blocks [convolution, ReLU, BatchNorm], average pooling, dense layers.

    x1 [n1, height, width, channels], x2 likewise; None: x1 with itself. Convolutions have stride 1
    and no padding. BatchNorm is in evaluation mode at initialisation; its scale and shift are not
    trained. chunk: pairs of images at once; by default as many as fit in about 256 MB.
    """
    _check_inputs(x1, x2, "n, height, width, channels", weight_var, bias_var)
    checks.integer("n_dense", n_dense, 0)
    _check_images(np.shape(x1), n_blocks, kernel, pool)
    same = _same(x1, x2)
    x1 = jnp.asarray(x1, jnp.float64)
    x2 = x1 if same else jnp.asarray(x2, jnp.float64)
    n1, n2, (height, width) = len(x1), len(x2), x1.shape[1:3]
    if chunk is not None:
        checks.integer("chunk", chunk, 1)
    else:
        chunk = max(1, 2**28 // (48 * height * width * (2 * pool - 1) ** 2))
    images = x1 if same else jnp.concatenate([x1, x2])
    rows, columns = np.triu_indices(n1) if same else np.indices((n1, n2)).reshape(2, -1)
    diagonal = np.arange(len(images))
    second = columns if same else columns + n1
    pairs = np.concatenate([[diagonal, diagonal], [rows, second]], axis=1)
    values = _pairs(images, pairs, (n_blocks, kernel, pool, weight_var, bias_var), chunk)
    var = weight_var * values[0][: len(diagonal)] + bias_var
    place = (rows, columns)
    cov, tangent, features = (_square(v[len(diagonal) :], place, (n1, n2), same) for v in values)
    cov = weight_var * cov + bias_var
    tangent = cov + weight_var * tangent
    var1, var2 = var[:n1], var[-n2:]
    nngp, ntk = _dense(cov, tangent, var1, var2, same, n_dense, weight_var, bias_var)
    return ConvKernels(nngp, ntk, features)


def _check_images(shape, n_blocks, kernel, pool):
    """Checks that images [n, height, width, channels] are large enough for the last pooling."""
    for name, value in (("n_blocks", n_blocks), ("kernel", kernel), ("pool", pool)):
        checks.integer(name, value, 1)
    height, width = shape[1:3]
    least = n_blocks * (kernel - 1) + pool
    if min(height, width) < least:
        raise ValueError(
            f"x1: images of {height} x {width} are too small for {n_blocks} convolutions of "
            f"{kernel} x {kernel} and pooling: use images of {least} x {least} or larger"
        )


def _square(values, place, shape, same):
    square = jnp.zeros(shape, values.dtype).at[place].set(values)
    return square.at[place[::-1]].set(values) if same else square


def _pairs(images, pairs, settings, chunk):
    """`_pair` of images[pairs[0]] and images[pairs[1]]: three arrays [pairs]."""
    n = pairs.shape[1]
    chunk = min(chunk, n)
    # Pad to whole chunks: lax.map would compile a second program for the remainder.
    pairs = np.pad(pairs, ((0, 0), (0, -n % chunk)))
    return [values[:n] for values in _chunked_pairs(images, pairs, settings, chunk)]


@functools.partial(jax.jit, static_argnames=("settings", "chunk"))
def _chunked_pairs(images, pairs, settings, chunk):
    def pair_kernels(pair):
        i, j = pair
        return _pair(images[i], images[j], i == j, *settings)

    return jax.lax.map(pair_kernels, tuple(pairs), batch_size=chunk)


def _pair(x1, x2, equal, n_blocks, kernel, pool, weight_var, bias_var):
    """Covariance and tangent of two images' flattened, pooled features; features before pooling.

    Dense layers after `flatten` use equal positions only, pooling mixes positions of one window,
    and a convolution shifts both positions of a pair equally. So only pairs of positions whose
    offset fits in a window are needed. Planes are [offset, height, width]: x1 at p, x2 at p +
    offset. The roll is wrong where p + offset is outside the image; these values are never used.
    """
    offsets = list(itertools.product(range(1 - pool, pool), repeat=2))

    def rolled(plane):
        return jnp.stack([jnp.roll(plane, (-dy, -dx), axis=(0, 1)) for dy, dx in offsets])

    def convolve(plane):
        return weight_var * _box_mean(plane, kernel)

    at_zero = jnp.array([offset == (0, 0) for offset in offsets])[:, None, None]
    cov = jnp.mean(x1[None] * rolled(x2), axis=-1)
    tangent = None
    var1, var2 = (jnp.mean(x * x, axis=-1) for x in (x1, x2))
    for _ in range(n_blocks):
        cov = convolve(cov) + bias_var
        tangent = cov if tangent is None else cov + convolve(tangent)
        var1, var2 = (convolve(var) + bias_var for var in (var1, var2))
        cov, slope = _relu(cov, jnp.sqrt(var1[None] * rolled(var2)), equal & at_zero)
        features = jnp.mean(cov[len(offsets) // 2])
        cov, tangent = cov / _NORM, slope * tangent / _NORM
        var1, var2 = var1 / 2 / _NORM, var2 / 2 / _NORM
    return _pooled(cov, offsets, pool), _pooled(tangent, offsets, pool), features


def _box_mean(plane, kernel):
    """Mean over every kernel x kernel box inside the last two axes."""
    window, strides = (1,) * (plane.ndim - 2) + (kernel, kernel), (1,) * plane.ndim
    return jax.lax.reduce_window(plane, 0.0, jax.lax.add, window, strides, "VALID") / kernel**2


def _pooled(planes, offsets, pool):
    """Mean over windows of the covariance of their means; incomplete windows are dropped."""
    inside = np.zeros((len(offsets), pool, pool))
    for i, (dy, dx) in enumerate(offsets):
        for y, x in itertools.product(range(pool), repeat=2):
            inside[i, y, x] = 0 <= y + dy < pool and 0 <= x + dx < pool
    height, width = (size // pool for size in planes.shape[1:])
    planes = planes[:, : height * pool, : width * pool]
    windows = planes.reshape(len(offsets), height, pool, width, pool)
    return jnp.einsum("oyaxb,oab->", windows, inside) / (height * width * pool**4)


# --- sampled networks -----------------------------------------------------------------------------


def sampled_convnet(
    key: jax.Array,
    x1: jax.Array,
    x2: jax.Array | None = None,
    n_draws: int = 16,
    pooling: str = "max",
    filters: tuple[int, ...] = (32, 32, 64, 64),
    dense: tuple[int, ...] = (512, 1024),
    kernel: int = 5,
    pool: int = 2,
    weight_var: float = 2.0,
    bias_var: float = 0.0,
) -> Sampled:
    """The kernels of `convnet`, with "max" or "average" pooling, as means over random networks.

    In addition to the standard error there is a bias of order 1 / filters, which is smaller for
    wider networks.
    """
    if pooling not in ("max", "average"):
        raise ValueError(f"unknown pooling '{pooling}': use 'max' or 'average'")
    if checks.integer("n_draws", n_draws, 1) < 2:
        raise ValueError(f"a standard error needs two draws or more, got n_draws = {n_draws}")
    _check_inputs(x1, x2, "n, height, width, channels", weight_var, bias_var)
    for name, widths in (("filters", filters), ("dense", dense)):
        for width in widths:
            checks.integer(f"{name}: each of them", width, 1)
    if not filters:
        raise ValueError("filters is empty: pass the width of at least one convolution")
    _check_images(np.shape(x1), len(filters), kernel, pool)
    if not jnp.issubdtype(jnp.result_type(x1), jnp.floating):
        raise ValueError(f"x1 is {jnp.result_type(x1)}: scale the images to floating point")
    settings = (filters, dense, kernel, pool, pooling, float(weight_var), float(bias_var))
    x1 = jnp.asarray(x1)
    x2 = None if _same(x1, x2) else jnp.asarray(x2)
    f = _network(settings)
    draws = []
    for draw_key in jax.random.split(key, n_draws):
        params = _draw(draw_key, x1.shape[1:], x1.dtype, settings)
        h1 = _hidden(params, x1, settings)
        h2 = h1 if x2 is None else _hidden(params, x2, settings)
        nngp = weight_var * _product(h1, h2.T) / h1.shape[1] + bias_var
        ntk = empirical(f, params, x1, x2, form="mean_trace", verbose=False)
        draws.append((np.asarray(nngp), np.asarray(ntk)))
    statistics = []
    for values in zip(*draws):
        statistics += [np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / n_draws**0.5]
    return Sampled(*statistics)


@functools.lru_cache(maxsize=32)
def _network(settings):
    """f(params, x) [n, 1]; one object per settings, so that its compiled programs are reused."""
    weight_var, bias_var = settings[-2:]

    def f(params, x):
        hidden = _hidden(params, x, settings)
        weight, bias = params[-1]
        return _affine(_product(hidden, weight), weight, bias, weight_var, bias_var)

    return f


@functools.partial(jax.jit, static_argnames="settings")
def _hidden(params, x, settings):
    """Activations of the last hidden layer [n, dense[-1]]."""
    filters, dense, _, pool, pooling, weight_var, bias_var = settings
    for weight, bias in params[: len(filters)]:
        x = jax.lax.conv_general_dilated(
            x,
            weight,
            (1, 1),
            "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            precision="highest",
        )
        x = _affine(x, weight, bias, weight_var, bias_var)
        x = jax.nn.relu(x) / math.sqrt(_NORM)
    height, width = (size // pool for size in x.shape[1:3])
    x = x[:, : height * pool, : width * pool]
    windows = x.reshape(len(x), height, pool, width, pool, x.shape[-1])
    x = jnp.max(windows, axis=(2, 4)) if pooling == "max" else jnp.mean(windows, axis=(2, 4))
    x = x.reshape(len(x), -1)
    for weight, bias in params[len(filters) : -1]:
        x = jax.nn.relu(_affine(_product(x, weight), weight, bias, weight_var, bias_var))
    return x


def _affine(product, weight, bias, weight_var, bias_var):
    fan_in = weight.size // weight.shape[-1]
    bias = jnp.broadcast_to(bias, product.shape)
    return math.sqrt(weight_var / fan_in) * product + math.sqrt(bias_var) * bias


def _draw(key, image, dtype, settings):
    """Weights and biases N(0, 1) of every layer."""
    filters, dense, kernel, pool, *_ = settings
    *sides, channels = image
    shapes = [(kernel, kernel, a, b) for a, b in zip((channels, *filters), filters)]
    flat = math.prod((side - len(filters) * (kernel - 1)) // pool for side in sides) * filters[-1]
    shapes += list(zip((flat, *dense), (*dense, 1)))
    pairs = []
    for shape, layer_key in zip(shapes, jax.random.split(key, len(shapes))):
        weight_key, bias_key = jax.random.split(layer_key)
        weight = jax.random.normal(weight_key, shape, dtype)
        pairs.append((weight, jax.random.normal(bias_key, shape[-1:], dtype)))
    return pairs
