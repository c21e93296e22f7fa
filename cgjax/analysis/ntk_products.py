"""How many digits the products of an NTK have: what `precision` means.

JAX's own names, such as "highest" and "default", are handed on to all products. "float32x3" has the
accuracy of float32 at more of a GPU's speed: its matrix units take fewer digits, but multiply them
without an error and sum in float32. So each number is split, x = high + low, and three products of
halves, high high' + high low' + low high', replace one. Where there are no such units, or the
numbers are not float32, it is "highest".
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

FLOAT32X3 = "float32x3"
_TF32, _BFLOAT16 = 10, 7  # digits of the significand, in bits
PARTS_AT_ONCE = 8  # parts of a long sum
_WORTH_PANELS = 1e9  # operations of a symmetric product


class Passes(NamedTuple):
    """Which products are taken in several passes."""

    forward: bool = False  # convolutions of the network
    backward: bool = False
    outer: bool = False  # of what enters a layer and its cotangents
    contraction: bool = False
    # Matrix units cut sums off where float32 rounds, so that long ones of one sign come out small.
    longest: int = 4096
    panels: int = 4  # of a symmetric product


ONE_PASS = Passes()


def passes(precision: str, platform: str) -> Passes:
    """What `precision` means on "cpu", "gpu" or "tpu"."""
    on = precision == FLOAT32X3 and platform == "gpu"
    return Passes(on, on, on, on)


def digits(precision: str):
    """A context: matrix products with so many digits."""
    try:
        return jax.default_matmul_precision("highest" if precision == FLOAT32X3 else precision)
    except ValueError:
        raise ValueError(
            f"precision '{precision}' is neither '{FLOAT32X3}' nor one of JAX's, such as 'highest'"
        ) from None


def product(a: jax.Array, b: jax.Array, how: Passes) -> jax.Array:
    """a b^T of [n1, k] and [n2, k]."""
    if not how.contraction or a.dtype != jnp.float32:
        return a @ b.T
    (high1, low1), (high2, low2) = _halves(a), _halves(b)
    # Low times low counts here: along a diagonal it adds up.
    total = _long_product(high1, high2, how.longest) + _dot(low1, low2)
    return total + _dot(high1, low2) + _dot(low1, high2)


def gram(a: jax.Array, how: Passes) -> jax.Array:
    """a a^T of [n, k]."""
    if not how.contraction or a.dtype != jnp.float32:
        return _symmetric(lambda a, b: a @ b.T, a, how.panels)
    high, low = _halves(a)
    long = functools.partial(_long_product, longest=how.longest)
    cross = _dot(high, low)
    squares = _symmetric(long, high, how.panels) + _symmetric(_dot, low, how.panels)
    return squares + cross + cross.T


def _symmetric(dot, a, panels):
    """dot(a, a), the lower triangle mirrored: in so many panels of rows, from the diagonal on."""
    n = len(a)
    if 2 * n * a.size < _WORTH_PANELS:
        return dot(a, a)
    height = math.ceil(n / panels)
    total = jnp.zeros((n, n), jnp.promote_types(a.dtype, jnp.float32))
    for start in range(0, n, height):
        panel = dot(a[start : start + height], a[start:])
        total = total.at[start:, start : start + height].set(panel.T)
        total = total.at[start : start + height, start:].set(panel)
    return total


def outer(a: jax.Array, d: jax.Array, how: Passes) -> jax.Array:
    """sum_p a_p d_p^T of a [p, k] and d [o, p, m]: [o, k, m]."""
    if not how.outer or a.dtype != jnp.float32:
        return jnp.einsum("pk,opm->okm", a, d)
    (high1, low1), (high2, low2) = _halves(a), _halves(d)
    summed = functools.partial(_in_float32, "pk,opm->okm")
    return summed(high1, high2) + summed(high1, low2) + summed(low1, high2)


def _halves(x):
    """x = high + low to 16 bits."""
    # A cast to bfloat16 and back would be optimised away.
    high = lax.reduce_precision(x, 8, _BFLOAT16)
    return high.astype(jnp.bfloat16), (x - high).astype(jnp.bfloat16)


def _in_float32(subscripts, a, b):
    return jnp.einsum(subscripts, a, b, precision="default", preferred_element_type=jnp.float32)


def _dot(a, b):
    return _in_float32("ik,jk->ij", a, b)


def _long_product(a, b, longest):
    """a b^T, `longest` columns at a time."""
    total, n_parts = 0.0, a.shape[1] // longest
    for start in range(0, n_parts, PARTS_AT_ONCE):
        cut = slice(start * longest, min(start + PARTS_AT_ONCE, n_parts) * longest)
        parts = [x[:, cut].reshape(len(x), -1, longest) for x in (a, b)]
        total += jnp.sum(_in_float32("ick,jck->cij", *parts), axis=0)
    left = n_parts * longest
    return total + _dot(a[:, left:], b[:, left:]) if left < a.shape[1] else total


# --- convolutions ---------------------------------------------------------------------------------


def convolution(params: dict, how: Passes):
    """x, w -> the convolution with these parameters of JAX's primitive, and its gradients."""
    keys = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers")
    plain = functools.partial(lax.conv_general_dilated, **{key: params[key] for key in keys})
    (_, x_channel, *_), (w_out, w_in, *_), (_, y_channel, *_) = params["dimension_numbers"]

    @jax.custom_vjp
    def convolve(x, w):
        if not how.forward:
            return plain(x, w)
        # The three passes are one convolution of three times as many channels.
        return plain(_stacked(x, x_channel, "hlh"), _stacked(w, w_in, "hhl"), precision="default")

    def forward(x, w):
        return convolve(x, w), (x, w)

    def backward(saved, d):
        x, w = saved
        # Where w is a layer's own weight, nobody asks for its gradient, and it is not computed.
        (for_w,) = jax.linear_transpose(lambda w: plain(x, w), w)(d)
        if not how.backward:
            return jax.linear_transpose(lambda x: plain(x, w), x)(d)[0], for_w
        stacked = _stacked(w, w_out, "hhl")
        pull = jax.linear_transpose(lambda x: plain(x, stacked, precision="default"), x)
        return pull(_stacked(d, y_channel, "hlh"))[0], for_w

    convolve.defvjp(forward, backward)
    return convolve


def _stacked(x, axis, order):
    """High and low TF32 parts of x side by side."""
    high = lax.reduce_precision(x, 8, _TF32)
    parts = {"h": high, "l": x - high}
    return jnp.concatenate([parts[name] for name in order], axis)
