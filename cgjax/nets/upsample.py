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


def stencil_vjp(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """`stencil` with its reverse-mode derivative written out; it has no forward-mode derivative.

    A CPU trains with it in five sixths of the time and compiles it in two thirds. XLA pads an array
    for every neighbour that the transposed stencil reads; here all neighbours are slices of one
    padded array.
    """
    c, out = kernel.shape[2:]
    mixer = kernel.astype(x.dtype).transpose(2, 1, 0, 3).reshape(c, 4 * out)
    mixed = jnp.matmul(x, mixer, preferred_element_type=wide(x.dtype))
    return _shift(_interpolated(mixed), bias)


@jax.custom_vjp
def _interpolated(mixed):
    """Inputs of the taps [B,n,n,4o], column taps before row taps -> [B,2n,2n,o]."""
    return _up(lax.optimization_barrier(_up(_padded(mixed, 1), 2)), 1)


def _interpolated_vjp(_, slope):
    return (_down(lax.optimization_barrier(_down(_padded(slope, 2), 1)), 2),)


_interpolated.defvjp(lambda mixed: (_interpolated(mixed), None), _interpolated_vjp)


def _padded(x, width):
    """Images with `width` more zeros on each side, stored: XLA would pad again for each reader."""
    padding = [(0, 0, 0), (width, width, 0), (width, width, 0), (0, 0, 0)]
    return lax.optimization_barrier(lax.pad(x, jnp.zeros((), x.dtype), padding))


def _up(padded, axis):
    """`_double` of the two halves of the channels; one more point on each side of the axis."""
    n, c = padded.shape[axis] - 2, padded.shape[3] // 2
    w = _weights(n, axis, padded.dtype)

    def tap(half, offset):
        points = lax.slice_in_dim(padded, 1 + offset, 1 + offset + n, axis=axis)
        return lax.slice_in_dim(points, half * c, half * c + c, axis=3)

    return _outputs(w, axis, tap(0, -1), tap(0, 0), tap(0, 1), tap(1, 0), tap(1, 1))


def _down(padded, axis):
    """The transpose of `_up`; two more points on each side of the axis."""
    n = padded.shape[axis] // 2 - 2
    w = _weights(n, axis, padded.dtype)
    pairs = padded.reshape(*padded.shape[:axis], n + 2, 2, *padded.shape[axis + 1 :])

    def slope(odd, offset):
        points = lax.slice_in_dim(pairs, 1 + offset, 1 + offset + n, axis=axis)
        return lax.index_in_dim(points, odd, axis + 1, keepdims=False)

    even, odd, before = slope(0, 0), slope(1, 0), slope(1, -1)
    first = w.next_even * slope(0, 1) + (1 - w.even) * even + (1 - w.odd) * odd
    first += w.previous_odd * before
    second = (1 - w.odd) * even + w.previous_odd * slope(0, -1) + w.next_even * odd
    second += (1 - w.even) * before
    return jnp.stack([first, second], 3).reshape(*first.shape[:3], -1)


def _weights(n, axis, dtype):
    shape = [n if i == axis else 1 for i in range(4)]
    return axis_weights(np.arange(n, dtype=dtype).reshape(shape), n)


def _double(first, second, axis):
    """Interpolate n points to 2n and convolve along one axis.

    first, second: inputs of the two taps.
    Output 2m of the interpolation lies between points m-1 and m, output 2m+1 between m and m+1.
    """
    n = first.shape[axis]
    w = _weights(n, axis, first.dtype)
    before, after = _neighbour(first, axis, -1), _neighbour(first, axis, 1)
    return _outputs(w, axis, before, first, after, second, _neighbour(second, axis, 1))


def _outputs(w, axis, before, first, after, second, further):
    """Even and odd outputs along an axis, from neighbours in the inputs of the two taps."""
    y0 = w.even * before + (1 - w.even) * first + (1 - w.odd) * second + w.odd * further
    y1 = (1 - w.odd) * first + w.odd * after
    y1 += w.next_even * second + (w.inner - w.next_even) * further
    y = jnp.stack([y0, y1], axis + 1)
    return y.reshape(*first.shape[:axis], -1, *first.shape[axis + 1 :])


def _neighbour(x, axis, offset):
    """x[i + offset] along an axis; zero outside the axis."""
    padding = [(-offset, offset, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)]
    return lax.pad(x, jnp.zeros((), x.dtype), padding)


def _shift(x, bias):
    return x + bias.reshape((1,) * (x.ndim - 1) + (-1,))
