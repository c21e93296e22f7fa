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
PARTIAL_SUMS = 2**28  # values, of parts of long sums at a time
_WORTH_PANELS = 1e11  # operations of a symmetric product


class Passes(NamedTuple):
    """Which products are taken in several passes."""

    forward: bool = False  # convolutions of the network
    backward: bool = False
    outer: bool = False  # of what enters a layer and its cotangents
    contraction: bool = False
    # Matrix units cut sums off where float32 rounds, so that long ones of one sign come out small.
    longest: int = 1024
    panels: int = 4  # of a symmetric product in one pass


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
    if how.contraction and a.dtype == jnp.float32:
        high, low = _halves(a)
        cross = _dot(high, low)
        return _long_product(high, high, how.longest) + _dot(low, low) + cross + cross.T
    n = len(a)
    if 2 * n * a.size < _WORTH_PANELS:
        return a @ a.T
    # The lower triangle is mirrored: in panels of rows, each from the diagonal on.
    height = math.ceil(n / how.panels)
    total = jnp.zeros((n, n), a.dtype)
    for start in range(0, n, height):
        panel = a[start : start + height] @ a[start:].T
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
    """a b^T, summed over `longest` columns at a time."""
    n_parts = math.ceil(a.shape[1] / longest)
    if n_parts == 1:
        return _dot(a, b)
    at_once = min(n_parts, max(1, PARTIAL_SUMS // (len(a) * len(b))))
    n_groups = math.ceil(n_parts / at_once)

    def parts(x):  # [groups, parts at once, n, longest]
        x = jnp.pad(x, [(0, 0), (0, n_groups * at_once * longest - x.shape[1])])
        return x.reshape(len(x), n_groups, at_once, longest).transpose(1, 2, 0, 3)

    def added(total, pair):
        return total + jnp.sum(_in_float32("cik,cjk->cij", *pair), axis=0), None

    start = jnp.zeros((len(a), len(b)), jnp.float32)
    parts_a = parts(a)
    return lax.scan(added, start, (parts_a, parts_a if b is a else parts(b)))[0]


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
