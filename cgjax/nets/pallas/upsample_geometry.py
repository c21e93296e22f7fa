"""Memory layout and interpolation weights of the decoder's GPU kernels.

Arrays are [rows, columns, images, channels], or "planes" [channels, rows, columns, images]. A tile
is one pixel of neighbouring images. It is therefore contiguous, its interpolation weights are
scalars, and the border of an image needs a weight of zero instead of a mask.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import triton as plt

FLOAT = jnp.float32
# True while a kernel is traced for the interpreter, which cannot run GPU instructions.
INTERPRETED = ContextVar("interpreted", default=False)


@contextmanager
def interpreted(value: bool):
    """Context in which kernels are traced for the interpreter (True) or for a GPU (False)."""
    token = INTERPRETED.set(value)
    try:
        yield
    finally:
        INTERPRETED.reset(token)


# --- arithmetic -----------------------------------------------------------------------------------


def multiply_add(a, b, c):
    """a * b + c as one instruction: XLA makes Triton keep products and sums separate."""
    if INTERPRETED.get():
        return a * b + c
    return _instruction("fma.rn.f32", a, b, c)


def power_of_two(x):
    """2^x; subnormal results become zero, because they take four more instructions."""
    return jnp.exp2(x) if INTERPRETED.get() else _instruction("ex2.approx.ftz.f32", x)


def held(x):
    """A copy of x: Triton does not pipeline a loop that returns a carried value unchanged."""
    return x if INTERPRETED.get() else _instruction("mov.f32", x)


def _instruction(name, *arguments):
    shape = jnp.broadcast_shapes(*(jnp.shape(array) for array in arguments))
    [result] = plt.elementwise_inline_asm(
        f"{name} {', '.join(f'${i}' for i in range(len(arguments) + 1))};",
        args=[jnp.broadcast_to(jnp.asarray(array, FLOAT), shape) for array in arguments],
        constraints=",".join(["=f"] + ["f"] * len(arguments)),
        pack=1,
        result_shape_dtypes=[jax.ShapeDtypeStruct(shape, FLOAT)],
    )
    return result


def weighted(weights, values, begin=None):
    """begin + sum of weights * values."""
    for weight, value in zip(weights, values, strict=True):
        begin = weight * value if begin is None else multiply_add(weight, value, begin)
    return begin


# --- weights --------------------------------------------------------------------------------------


def between(q, n):
    """Point q of the doubled axis lies between two of n points: (index, weight) of each.

    If q is outside the doubled axis, the weights are zero. The indices are valid for every q.
    """
    low = (q - 1) >> 1
    above = q * (n - 1) - low * (2 * n - 1)  # in units of 1 / (2n - 1)
    part = ((q >= 0) & (q < 2 * n)).astype(FLOAT) / (2 * n - 1)
    w_low, w_high = ((2 * n - 1 - above).astype(FLOAT) * part, above.astype(FLOAT) * part)
    return (jnp.maximum(low, 0), w_low), (jnp.minimum(low + 1, n - 1), w_high)


def seen_from(m, n):
    """Weights of point m of n in the points 2m-1 .. 2m+2 of the doubled axis, for both taps.

    Tap t reads these points for the outputs 2m-1-t .. 2m+2-t.
    """
    first, second = (between(2 * m + q, n)[1][1] for q in (-1, 0))
    rest = [between(2 * m + q, n)[0][1] for q in (1, 2)]
    # For m = 0 the second tap would read this point for output -1, which does not exist.
    return (first, second, *rest), (first, jnp.where(m > 0, second, 0.0), *rest)


# --- memory ---------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """Neighbouring images; inside: which of them exist, None if all exist."""

    images: jax.Array
    inside: jax.Array | None


def tile_of(index, size, images) -> Tile:
    """Tile number `index`, of `size` images, out of `images` images."""
    image = index * size + lax.iota(jnp.int32, size)
    return Tile(image, image < images if images % size else None)


def load(ref, tile: Tile, row, column):
    """One pixel of [rows, columns, images, channels] -> [size, channels]; zero if missing."""
    return _load(*_pixel(ref, tile, row, column))


def store(ref, tile: Tile, row, column, value):
    """Write value [size, channels] to one pixel."""
    at, mask = _pixel(ref, tile, row, column)
    plt.store(at, value.astype(ref.dtype), mask=mask)


def load_at(ref, tile: Tile, place):
    """One place of [places, images] -> [size]."""
    return _load(ref.at[place, tile.images], tile.inside)


def store_at(ref, tile: Tile, place, value):
    """Write value [size] to one place of [places, images]."""
    plt.store(ref.at[place, tile.images], value.astype(ref.dtype), mask=tile.inside)


def load_planes(ref, tile: Tile, row, column, width):
    """One pixel of all planes -> [width, size]; zero beyond the last plane."""
    return _load(*_planes(ref, tile, row, column, width))


def store_planes(ref, tile: Tile, row, column, value):
    """Write value [width, size] to one pixel; rows beyond the last plane are dropped."""
    at, mask = _planes(ref, tile, row, column, value.shape[0])
    plt.store(at, value.astype(ref.dtype), mask=mask)


def _load(at, mask):
    return plt.load(at) if mask is None else plt.load(at, mask=mask, other=0)


def _pixel(ref, tile, row, column):
    shape = (tile.images.shape[0], ref.shape[-1])
    image = jnp.broadcast_to(tile.images[:, None], shape)
    channel = lax.broadcasted_iota(jnp.int32, shape, 1)
    mask = None if tile.inside is None else jnp.broadcast_to(tile.inside[:, None], shape)
    return ref.at[row, column, image, channel], mask


def _planes(ref, tile, row, column, width):
    shape = (width, tile.images.shape[0])
    image = jnp.broadcast_to(tile.images[None, :], shape)
    plane = lax.broadcasted_iota(jnp.int32, shape, 0)
    mask = None if tile.inside is None else jnp.broadcast_to(tile.inside[None, :], shape)
    if ref.shape[0] < width:
        exists = plane < ref.shape[0]
        mask = exists if mask is None else mask & exists
    return ref.at[plane, row, column, image], mask


def interleave(a, b):
    """Two arrays [m, n] -> [m, 2 n] with alternating columns."""
    return jnp.stack([a, b], -1).reshape(a.shape[0], -1)


def mixing_columns(kernel_ref, width):
    """The kernel [2,2,c,out] as [c, width], width >= 4 out; column 4 o + 2 kw + kh."""
    _, _, c, out = kernel_ref.shape
    channel, column = (lax.broadcasted_iota(jnp.int32, (c, width), axis) for axis in (0, 1))
    kw, kh, o = (column >> 1) & 1, column & 1, column >> 2
    return plt.load(kernel_ref.at[kh, kw, channel, o], mask=o < out, other=0)


def both_columns(kernel_ref, kh):
    """The kernel's taps (kh, 0) and (kh, 1) side by side: [c, 2 o]."""
    c, out = kernel_ref.shape[2:]
    row, column = (lax.broadcasted_iota(jnp.int32, (c, 2 * out), axis) for axis in (0, 1))
    kw = (column >= out).astype(jnp.int32)
    return plt.load(kernel_ref.at[jnp.full_like(row, kh), kw, row, column - out * kw])


def paired_rows(kernel_ref, kw):
    """The kernel's taps (0, kw) and (1, kw), transposed: [2 out, c]; row 2 o + kh."""
    c, out = kernel_ref.shape[2:]
    row, column = (lax.broadcasted_iota(jnp.int32, (2 * out, c), axis) for axis in (0, 1))
    return plt.load(kernel_ref.at[row & 1, jnp.full_like(row, kw), column, row >> 1])


def store_taps(ref, at, values, tap_of, out):
    """Write values [c, columns] to ref[*at] as a kernel [2, 2, c, out].

    tap_of: column -> kh, kw, o.
    """
    channel, column = (lax.broadcasted_iota(jnp.int32, values.shape, axis) for axis in (0, 1))
    kh, kw, o = tap_of(column)
    plt.store(ref.at[*at, ((2 * kh + kw) * values.shape[0] + channel) * out + o], values)
