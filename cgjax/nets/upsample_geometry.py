"""Where the pixels that the decoder's GPU kernels read and write lie, and with which weights.

Images are matrices [pixels, channels], pixels of all samples in row-major order. Between n and 2n
points whose ends coincide, output 2m lies between points m-1 and m, output 2m+1 between m and m+1,
so a tile of low-resolution pixels needs its 3x3 neighbours only.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import triton as plt

from cgjax.nets.upsample import axis_weights

FLOAT = jnp.float32


# --- pixels ------------------------------------------------------------------------------------


class Pixels(NamedTuple):
    """A tile of low-resolution pixels: flat row, place (m, k) in its image, whether it exists."""

    row: jax.Array
    m: jax.Array
    k: jax.Array
    inside: jax.Array


def pixels(index, tile, n, rows, copies=1) -> Pixels:
    """Tile number `index` of images n x n with `rows` pixels in all, each pixel `copies` times."""
    place = lax.iota(jnp.int32, tile * copies)
    row = index * tile + (place >> (copies.bit_length() - 1))
    shift = n.bit_length() - 1
    return Pixels(row, (row >> shift) & (n - 1), row & (n - 1), row < rows)


def neighbour(p: Pixels, n, dm, dk):
    """Row of the pixel dm below and dk to the right, and whether it is in the same image."""
    inside = p.inside
    if dm:
        inside &= (p.m + dm >= 0) & (p.m + dm < n)
    if dk:
        inside &= (p.k + dk >= 0) & (p.k + dk < n)
    return p.row + (dm * n + dk), inside


def fine_row(p: Pixels, n, a, b):
    """Row of the high-resolution pixel (2m + a, 2k + b)."""
    return 4 * p.row - 2 * p.k + (2 * n * a + b)


def fine_neighbour(p: Pixels, n, a, b, dm, dk):
    """Row of the high-resolution pixel (2(m + dm) + a, 2(k + dk) + b), and whether it exists."""
    return fine_row(p, n, a, b) + (4 * n * dm + 2 * dk), neighbour(p, n, dm, dk)[1]


# --- memory ------------------------------------------------------------------------------------
# "Planes" are matrices [channels, pixels].


def _at(ref, row, inside):
    """Where rows [tile] of a matrix lie, as [tile, columns], and whether they exist."""
    column = lax.broadcasted_iota(jnp.int32, (row.shape[0], ref.shape[1]), 1)
    row = jnp.broadcast_to(row[:, None], column.shape)
    return ref.at[row, column], jnp.broadcast_to(inside[:, None], column.shape)


def load(ref, row, inside):
    """Rows [tile] of a matrix -> [tile, columns], zero where they do not exist."""
    at, mask = _at(ref, row, inside)
    return plt.load(at, mask=mask, other=0)


def store(ref, row, inside, value):
    """Write value [tile, columns] to rows [tile] of a matrix."""
    at, mask = _at(ref, row, inside)
    plt.store(at, value.astype(ref.dtype), mask=mask)


def load_plane(ref, plane, row, inside):
    """Pixels [tile] of one plane -> [tile]."""
    at = ref.at[jnp.full(row.shape, plane, jnp.int32), row]
    return plt.load(at, mask=inside, other=0)


def store_plane(ref, plane, row, inside, value):
    """Write value [tile] to pixels [tile] of one plane."""
    at = ref.at[jnp.full(row.shape, plane, jnp.int32), row]
    plt.store(at, value.astype(ref.dtype), mask=inside)


def store_pairs(ref, p: Pixels, n, a, even, odd):
    """Write pixels (2m + a, 2k) and (2m + a, 2k + 1), [tile, width] each, to planes.

    p: each low-resolution pixel twice. Planes are contiguous in pixels, so pairs are interleaved
    and the array turned to [width, 2 tile]: neighbouring threads then write neighbouring pixels.
    Columns beyond the planes of `ref` are dropped.
    """
    width = even.shape[1]
    value = jnp.stack([even.T, odd.T], axis=-1).reshape(width, -1)
    row = pair_row(p, n, a)
    plane = lax.broadcasted_iota(jnp.int32, (width, row.shape[0]), 0)
    mask = jnp.broadcast_to(p.inside[None, :], plane.shape)
    if width > ref.shape[0]:
        mask &= plane < ref.shape[0]
    at = ref.at[plane, jnp.broadcast_to(row[None, :], plane.shape)]
    plt.store(at, value.astype(ref.dtype), mask=mask)


def pair_row(p: Pixels, n, a):
    """Rows of the pixels (2m + a, 2k) and (2m + a, 2k + 1); p: each pixel twice."""
    return fine_row(p, n, a, lax.iota(jnp.int32, p.row.shape[0]) & 1)


def interleave(parts, shape):
    """2^j equal arrays -> one of `shape` whose elements come from the parts in turn."""
    while len(parts) > 1:
        # The axis joined last varies fastest, so the first pairs are the ones farthest apart.
        half = len(parts) // 2
        parts = [jnp.stack([parts[i], parts[i + half]], axis=-1) for i in range(half)]
    return parts[0].reshape(shape)


# --- weights -----------------------------------------------------------------------------------


def weights(m, n):
    """`axis_weights` [tile] of the tile's places m on an axis of n points."""
    return axis_weights(m.astype(FLOAT), n)


def as_column(w):
    return type(w)(*(weight[:, None] for weight in w))


def points(w):
    """The interpolated points 2m, 2m+1, 2m+2, which outputs 2m and 2m+1 meet through two taps.

    Each: offset of the lower neighbour, its weight, the weight of the next one.
    """
    return (
        (-1, w.even, 1 - w.even),
        (0, 1 - w.odd, w.odd),
        (0, w.next_even, w.inner - w.next_even),
    )


def tap_weights(w):
    """Neighbours that a tap's mixed channels are read from: (tap, offset) -> weight per parity."""
    return {
        (0, -1): (w.even, None),
        (0, 0): (1 - w.even, 1 - w.odd),
        (0, 1): (None, w.odd),
        (1, 0): (1 - w.odd, w.next_even),
        (1, 1): (w.odd, w.inner - w.next_even),
    }


def back_weights(w):
    """Transposed `tap_weights`: (parity, offset) of a fine point -> its weight per tap."""
    return {
        (0, -1): (None, w.previous_odd),
        (0, 0): (1 - w.even, 1 - w.odd),
        (0, 1): (w.next_even, None),
        (1, -1): (w.previous_odd, 1 - w.even),
        (1, 0): (1 - w.odd, w.next_even),
    }


def stencil_sums(read_fn, row_weights, column_weights):
    """Separable weighted sums [[sum for j] for i] of read_fn(i', j', dm, dk), float32.

    row_weights, column_weights: as from `tap_weights` or `back_weights`.
    """
    sums = [[None, None], [None, None]]
    for (j, dk), across in column_weights.items():
        column = [None, None]
        for (i, dm), down in row_weights.items():
            value = read_fn(i, j, dm, dk).astype(FLOAT)
            column = [_accumulate(t, w, value) for t, w in zip(column, down)]
        for i in (0, 1):
            sums[i] = [_accumulate(t, w, column[i]) for t, w in zip(sums[i], across)]
    return sums


def _accumulate(total, weight, value):
    if weight is None:
        return total
    return weight * value if total is None else total + weight * value
