"""Bilinear upsampling by two followed by a convolution, in several forms with the same result.

Channel mixing commutes with interpolation. The convolution of an upsampled image is therefore a
product with the kernel at low resolution, followed by two small interpolations.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def wide(dtype):
    """The dtype of accumulated sums: float32, or float64 for float64 operands."""
    return jnp.promote_types(dtype, jnp.float32)


def interpolation_matrix(n: int) -> np.ndarray:
    """Weights [2n, n] of linear interpolation from n to 2n points; the end points coincide."""
    position = np.arange(2 * n) * ((n - 1) / (2 * n - 1))
    return np.maximum(0.0, 1.0 - np.abs(position[:, None] - np.arange(n)[None, :]))


def tap_matrices(n: int, taps: int) -> np.ndarray:
    """`interpolation_matrix`, shifted for each tap of a "same" convolution: [taps, 2n, n].

    Row i of tap t is row i + t - (taps - 1) // 2 of `interpolation_matrix`; rows outside it are 0.
    """
    low = (taps - 1) // 2
    padded = np.pad(interpolation_matrix(n), ((low, taps - 1 - low), (0, 0)))
    return np.stack([padded[t : t + 2 * n] for t in range(taps)])


class AxisWeights(NamedTuple):
    """Weights that interpolate n points of an axis to 2n points; arrays over points m.

    even: weight of point m-1 in output 2m; point m has the weight 1 - even.
    odd: weight of point m+1 in output 2m+1; point m has the weight 1 - odd.
    next_even, previous_odd: `even` of point m+1 and `odd` of point m-1; zero if that point does not
    exist.
    inner: 1, but 0 at the last point, whose next output is padding.
    """

    even: jax.Array
    odd: jax.Array
    next_even: jax.Array
    previous_odd: jax.Array
    inner: jax.Array


def axis_weights(m: jax.Array, n: int) -> AxisWeights:
    """Weights at points m (floats, any shape) of an axis with n points."""
    scale = 1 / (2 * n - 1)
    inner, later = (m < n - 1).astype(m.dtype), (m > 0).astype(m.dtype)
    even, odd = m * scale, (n - 1 - m) * scale
    return AxisWeights(even, odd, inner * (m + 1) * scale, later * (n - m) * scale, inner)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def elu(x: jax.Array, dtype=jnp.float32) -> jax.Array:
    """ELU (alpha = 1) in `dtype`; its derivative is computed from its output alone."""
    # `exp(min(x, 0))`, written so that a training step on a CPU takes three quarters of the time.
    # Below -104 the exponential is 0 in float32.
    inside = jnp.where(x > 0, 0, jnp.where(x < -104, -104, x))
    return jnp.where(x > 0, x, jnp.exp(inside) - 1).astype(dtype)


@elu.defjvp
def _elu_jvp(dtype, primals, tangents):
    y = elu(primals[0], dtype)
    return y, tangents[0].astype(dtype) * jnp.where(y > 0, 1, y + 1)


def direct(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Upsample, then convolve. x [B,n,n,c], kernel [k,k,c,o] -> `wide` of x [B,2n,2n,o]."""
    dtype, sums = x.dtype, wide(x.dtype)
    matrix = jnp.asarray(interpolation_matrix(x.shape[1]), dtype)
    x = jnp.einsum("ip,bpqc->biqc", matrix, x, preferred_element_type=sums).astype(dtype)
    x = jnp.einsum("jq,biqc->bijc", matrix, x, preferred_element_type=sums).astype(dtype)
    # A low-precision convolution with a float32 result has no transpose rule. The operands are
    # widened instead: their values do not change, so the result does not change either.
    x, kernel = x.astype(sums), kernel.astype(dtype).astype(sums)
    dimensions = ("NHWC", "HWIO", "NHWC")
    return _shift(lax.conv_general_dilated(x, kernel, (1, 1), "SAME", None, None, dimensions), bias)


def reordered(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Mix channels at low resolution, then interpolate. Shapes as in `direct`."""
    n, taps, dtype = x.shape[1], kernel.shape[0], x.dtype
    product = partial(jnp.einsum, preferred_element_type=wide(dtype))
    matrix = jnp.asarray(tap_matrices(n, taps), dtype)
    mixed = product("bpqc,hwco->bpqhwo", x, kernel.astype(dtype)).astype(dtype)
    columns = product("wjq,bpqhwo->bphjo", matrix, mixed).astype(dtype)
    return _shift(product("hip,bphjo->bijo", matrix, columns), bias)


def stencil(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """Mix channels at low resolution, then average neighbours; 2x2 kernels only. As `direct`."""
    c, out = kernel.shape[2:]
    mixer = kernel.astype(x.dtype).transpose(2, 0, 1, 3).reshape(c, 4 * out)
    mixed = jnp.matmul(x, mixer, preferred_element_type=wide(x.dtype))
    # `split`, because the transpose of indexing adds four padded copies.
    taps = lax.split(mixed, (out,) * 4, 3)
    top, bottom = _double(*taps[:2], 2), _double(*taps[2:], 2)
    return _shift(_double(top, bottom, 1), bias)


def _double(first, second, axis):
    """Interpolate n points to 2n and convolve along one axis.

    first, second: inputs of the two taps.
    Output 2m of the interpolation lies between points m-1 and m, output 2m+1 between m and m+1.
    """
    n = first.shape[axis]
    shape = [n if i == axis else 1 for i in range(first.ndim)]
    w = axis_weights(np.arange(n, dtype=first.dtype).reshape(shape), n)
    before, after = _neighbour(first, axis, -1), _neighbour(first, axis, 1)
    further = _neighbour(second, axis, 1)
    y0 = w.even * before + (1 - w.even) * first + (1 - w.odd) * second + w.odd * further
    y1 = (1 - w.odd) * first + w.odd * after
    y1 += w.next_even * second + (w.inner - w.next_even) * further
    y = jnp.stack([y0, y1], axis + 1)
    return y.reshape(*first.shape[:axis], 2 * n, *first.shape[axis + 1 :])


def _neighbour(x, axis, offset):
    """x[i + offset] along an axis; zero outside the axis."""
    padding = [(-offset, offset, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)]
    return lax.pad(x, jnp.zeros((), x.dtype), padding)


def _shift(x, bias):
    return x + bias.reshape((1,) * (x.ndim - 1) + (-1,))
