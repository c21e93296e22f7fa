"""How many digits the products of an NTK have: what `precision` means.

JAX's own names, such as "highest" and "default", are handed on to all products. "float32x3" is for
GPUs, whose matrix units take fewer digits, but multiply them without an error. Each float32 number
is split into two of bfloat16, x = high + low, which keeps 16 of its 24 bits, and the products of
layers with positions and of long Jacobians are sums of three or four products of halves. Where
there are no such units, or the numbers are not float32, it is "highest".

What is known of its error: halves, summed in float32 on a CPU, give the ConvNet's kernel of 16
pairs of digits to 4e-7 of its largest entry (float32 numbers: 2e-7); the whole was not yet timed or
compared on a GPU. Matrix units cut sums off where float32 rounds: in one sum over 181,000 columns
an H200 lost 1.4e-3. So here none is longer than `Passes.longest`, or, of halves 2^8 times smaller,
than 2^8 times that; parts are added in float32.
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
_WORTH_BLOCKS = 1e11  # operations of a symmetric product


class Passes(NamedTuple):
    """Which products are taken in several passes, and how sums are cut into parts."""

    outer: bool = False  # of what enters a layer and its cotangents
    contraction: bool = False
    longest: int = 1024  # columns that a matrix unit sums by itself
    blocks: int = 8  # of rows, in a symmetric product in one pass
    # Convolutions, on the way back: no part of "float32x3", for their sums are not cut into parts.
    backward: bool = False


ONE_PASS = Passes()


def passes(precision: str, platform: str) -> Passes:
    """What `precision` means on "cpu", "gpu" or "tpu"."""
    on = precision == FLOAT32X3 and platform in ("gpu", "cuda")
    return Passes(on, on)


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
    (high1, low1), (high2, low2), (large, small) = _halves(a), _halves(b), _sums(how)
    # Low times low counts here: along a diagonal it adds up.
    return large(high1, high2) + small(low1, low2) + small(high1, low2) + small(low1, high2)


def gram(a: jax.Array, how: Passes) -> jax.Array:
    """a a^T of [n, k]."""
    if how.contraction and a.dtype == jnp.float32:
        (high, low), (large, small) = _halves(a), _sums(how)
        cross = small(high, low)
        return large(high, high) + small(low, low) + cross + cross.T
    return a @ a.T if 2 * len(a) * a.size < _WORTH_BLOCKS else _in_blocks(a, how.blocks)


def _in_blocks(a, n_blocks):
    """a a^T from the blocks of its upper triangle; all of one size, so that one is compiled."""
    n, size = len(a), math.ceil(len(a) / n_blocks)
    starts = [min(i * size, n - size) for i in range(math.ceil(n / size))]
    total = jnp.zeros((n, n), a.dtype)
    for place, i in enumerate(starts):
        for j in starts[place:]:
            block = a[i : i + size] @ a[j : j + size].T
            total = total.at[j : j + size, i : i + size].set(block.T)
            total = total.at[i : i + size, j : j + size].set(block)
    return total


def outer(a: jax.Array, d: jax.Array, how: Passes) -> jax.Array:
    """sum_p a_p d_p^T of a [p, k] and d [o, p, m]: [o, k, m]."""
    if not how.outer or a.dtype != jnp.float32 or len(a) > how.longest:
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


def _sums(how):
    """Products of highs, and those with lows, 2^8 times smaller, so that longer sums do."""
    return [functools.partial(_long_product, longest=n * how.longest) for n in (1, 2**8)]


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


def convolution(params: dict):
    """x, w -> the convolution with these parameters of JAX's primitive, pulled back in passes.

    Forward it stays as it is: a maximum of nearly equal values may change with the last digit.
    """
    keys = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers")
    plain = functools.partial(lax.conv_general_dilated, **{key: params[key] for key in keys})
    _, (w_out, *_), (_, y_channel, *_) = params["dimension_numbers"]
    convolve = jax.custom_vjp(plain)

    def forward(x, w):
        return plain(x, w), (x, w)

    def backward(saved, d):
        x, w = saved
        # The three passes are one convolution of three times as many channels.
        stacked = _stacked(w, w_out, "hhl")
        pull = jax.linear_transpose(lambda x: plain(x, stacked, precision="default"), x)
        # Where w is a layer's own weight, nobody asks for its gradient, and it is not computed.
        (for_w,) = jax.linear_transpose(lambda w: plain(x, w), w)(d)
        return pull(_stacked(d, y_channel, "hlh"))[0], for_w

    convolve.defvjp(forward, backward)
    return convolve


def _stacked(x, axis, order):
    """High and low TF32 parts of x side by side."""
    high = lax.reduce_precision(x, 8, _TF32)
    parts = {"h": high, "l": x - high}
    return jnp.concatenate([parts[name] for name in order], axis)
