"""Bodies of the decoder's GPU kernels: each program follows a row or two of pixels of some images.

Walking along a row, a program reads and interpolates each column once and keeps what the next
columns need. Forward it takes two rows of outputs, which lie between the same pixels: half as much
is read from the cache.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from cgjax.nets.pallas import upsample_geometry as geo
from cgjax.nets.pallas.upsample_geometry import FLOAT, between, seen_from, weighted

LOG2_E = math.log2(math.e)
COLUMNS = 16  # the last stage's 4 taps x up to 4 channels side by side, the least a product takes


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=FLOAT)


def _elu(x):
    # exp(x) - 1 is never below x; of all exponentials, that of 2 is one instruction.
    return jnp.maximum(x, geo.power_of_two(jnp.minimum(x * LOG2_E, 0.0)) - 1)


def _through_elu(grad, y):
    """Gradient in front of an ELU from that behind it and the ELU's output."""
    return geo.multiply_add(grad, jnp.minimum(y, 0.0), grad)


# --- forward --------------------------------------------------------------------------------------


class Along(NamedTuple):
    """Interpolation along a row, walking: two outputs of each of two rows at every pixel.

    What is interpolated is the pixels' sums over the row taps, [row 2][column tap 2].
    n: pixels of a row; begin: what an output starts from, its bias.
    """

    n: int
    begin: jax.Array

    def pending(self, before, k):
        """Of output 2k of both rows: what the pixel in front gives, by the first column tap."""
        ((_, w), _) = between(2 * k, self.n)
        return [weighted([w], [sums], self.begin) for sums in before]

    def outputs(self, k, pending, here, following):
        """[row 2][column 2] at pixel k."""
        (_, (_, own)), ((_, near), (_, far)), ((_, later), (_, last)) = (
            between(2 * k + q, self.n) for q in range(3)
        )
        return [
            (
                weighted([own, near, far], [first, second, next_second], waits),
                weighted(
                    [near, far, later, last], [first, next_first, second, next_second], self.begin
                ),
            )
            for waits, (first, second), (next_first, next_second) in zip(pending, here, following)
        ]


def stage_body(x_ref, kernel_ref, biases_ref, *refs, size, number, early):
    """ELU(conv(upsampled x)), rows 2m and 2m + 1 of it.

    biases: of all stages. refs: y [2n, 2n, B, c]; or the last kernel, y mixed by it, planes
    [4 o, 2n, 2n, B] [, y].
    Points are interpolated down the columns in front of the products with the kernel, along the
    rows behind them, so that every product serves two outputs. early: columns are read one step
    before they are needed, which hides the wait and takes registers.
    """
    n, dtype = x_ref.shape[0], x_ref.dtype
    m, tile = pl.program_id(0), geo.tile_of(pl.program_id(1), size, x_ref.shape[2])
    last_ref, mixed_ref, *y_ref = refs if len(refs) > 1 else (None, None, *refs)
    mixer = None if last_ref is None else geo.mixing_columns(last_ref, COLUMNS).astype(dtype)
    kernel = [geo.both_columns(kernel_ref, kh).astype(dtype) for kh in (0, 1)]
    out = kernel_ref.shape[-1]
    bias = biases_ref[number * out : (number + 1) * out]
    walk = Along(n, jnp.broadcast_to(bias[None, :], (size, out)))
    rows = jnp.maximum(m - 1, 0), m, jnp.minimum(m + 1, n - 1)
    weights = [[w for _, w in between(2 * m + q, n)] for q in range(3)]

    def column(k):
        return [geo.load(x_ref, tile, row, jnp.minimum(k, n - 1)) for row in rows]

    def sums(pixels):
        """Of a column of x: the sums over row taps."""
        u, v, w = (pixel.astype(FLOAT) for pixel in pixels)
        points = [weighted(*pair).astype(dtype) for pair in zip(weights, ((u, v), (v, w), (v, w)))]
        products = [
            _dot(points[i], kernel[0], (1, 0)) + _dot(points[i + 1], kernel[1], (1, 0))
            for i in (0, 1)
        ]
        return [lax.split(product, (out, out), 1) for product in products]

    def write(i, column, y):
        for ref in y_ref:
            geo.store(ref, tile, 2 * m + i, column, y)
        if mixer is not None:
            mixed = _dot(y.astype(dtype), mixer, (1, 0))
            geo.store_planes(mixed_ref, tile, 2 * m + i, column, mixed.T)

    def step(k, state):
        pending, here, ahead = state
        following = sums(ahead if early else column(k + 1))
        ahead = column(k + 2) if early else ()
        for i, pair in enumerate(walk.outputs(k, pending, here, following)):
            for j in (0, 1):
                write(i, 2 * k + j, _elu(pair[j]))
        return walk.pending([first for first, _ in here], k + 1), following, ahead

    ahead = column(jnp.int32(1)) if early else ()
    begin = [walk.begin] * 2, sums(column(jnp.int32(0))), ahead
    lax.fori_loop(0, n, step, begin)


def walk_planes(read, begin, m, at, span, n, emit, carry, early=False):
    """Rows 2m and 2m + 1 of images drawn from mixed planes, from pixel `at` of the row on.

    read(p, kw, kh, row, column): a pixel of that plane and tap; begin: by plane, its bias.
    emit(k, [plane][row 2][column 2], carry) -> carry. early: columns are read one step before they
    are needed, as in `stage_body`.
    """
    walks = [Along(n, bias) for bias in begin]
    rows = jnp.maximum(m - 1, 0), m, jnp.minimum(m + 1, n - 1)
    weights = [[w for _, w in between(2 * m + q, n)] for q in range(3)]

    def column(k):
        """[plane][column tap][row tap] of the rows that tap meets."""
        k = jnp.clip(k, 0, n - 1)
        return [
            [[[read(p, kw, kh, row, k) for row in rows[kh:]] for kh in (0, 1)] for kw in (0, 1)]
            for p in range(len(begin))
        ]

    def sums(above, below):
        return [
            weighted([*weights[0], *weights[1]], [*above[:2], *below]),
            weighted([*weights[1], *weights[2]], [*above[1:], *below]),
        ]

    waits = 3 if early else 2  # steps in front of the first that draws

    def step(t, state):
        pending, here, ahead, carry = state
        k = at + t - waits
        pixels = ahead if early else column(k + 1)
        ahead = column(k + 2) if early else ()
        following = [list(zip(*(sums(*taps) for taps in of_plane))) for of_plane in pixels]

        def draw():
            each = zip(walks, pending, here, following)
            return emit(k, [walk.outputs(k, *of_plane) for walk, *of_plane in each], carry)

        # The first steps only read: Triton takes minutes over loads in front of the loop.
        carry = lax.cond(t < waits, lambda: carry, draw)
        pending = [walk.pending([first for first, _ in v], k + 1) for walk, v in zip(walks, here)]
        return pending, following, ahead, carry

    nothing = [jnp.zeros_like(begin[0])] * 2
    ahead = [[[[nothing[0]] * (3 - kh) for kh in (0, 1)]] * 2] * len(begin) if early else ()
    state = [nothing] * len(begin), [list(zip(nothing, nothing))] * len(begin), ahead, carry
    return lax.fori_loop(0, span + waits, step, state)[3]


def _mixed_reader(mixed_ref, tile, n):
    """Of mixed planes [4 o * n * n, B]; places are flat: Triton takes longer over others."""

    def read(p, kw, kh, row, column):
        place = ((4 * p + 2 * kw + kh) * n + row) * n + column
        return geo.load_at(mixed_ref, tile, place).astype(FLOAT)

    return read


def last_body(mixed_ref, biases_ref, y_ref, *, n, out, size, span):
    """Images as planes [o * 2n * 2n, B] from mixed planes [4 o * n * n, B].

    The products are done, and for few output channels interpolating them is cheaper than
    interpolating all channels of x.
    """
    p, m, t = pl.program_id(0), pl.program_id(1), pl.program_id(2)
    spans = n // span
    tile, at = geo.tile_of(lax.div(t, spans), size, mixed_ref.shape[1]), lax.rem(t, spans) * span
    read = _mixed_reader(mixed_ref, tile, n)

    def emit(k, drawn, carry):
        for i, pair in enumerate(drawn[0]):
            for j in (0, 1):
                place = (2 * n * p + 2 * m + i) * 2 * n + 2 * k + j
                geo.store_at(y_ref, tile, place, pair[j])
        return carry

    begin = [jnp.full(size, biases_ref[biases_ref.shape[0] - out + p])]
    walk_planes(lambda _, *rest: read(p, *rest), begin, m, at, span, n, emit, 0)


def loss_body(
    mixed_ref, biases_ref, rows_ref, facts_ref, weights_ref, grad_ref, parts_ref,
    *, n, out, size, span, pixel,
):  # fmt: skip
    """The last stage of K decoders, a loss at its pixels, and the gradient.

    mixed [K * 4 o * n * n, B], biases [K, all stages' side by side], rows [R * 2n, B], facts
    [I, B], weights [1, B] -> gradient of the weighted loss [K * o * 2n * 2n, B] and that loss by
    program [programs, B].
    pixel: K colours [o], rows [R], facts [I], column [1] -> (loss, gradient by colours).
    Images as such never reach memory.
    """
    (slots, n_biases), wide = biases_ref.shape, 2 * n
    planes = slots * out
    tile = geo.tile_of(pl.program_id(2), size, mixed_ref.shape[1])
    m, at = pl.program_id(0), pl.program_id(1) * span
    facts = [geo.load_at(facts_ref, tile, i) for i in range(facts_ref.shape[0])]
    weights = geo.load_at(weights_ref, tile, 0)
    known = range(0, rows_ref.shape[0], wide)
    rows = [[geo.load_at(rows_ref, tile, i + 2 * m + row) for i in known] for row in (0, 1)]

    def emit(k, drawn, total):
        for i in (0, 1):
            for j in (0, 1):
                values = [drawn[p][i][j] for p in range(planes)]
                colours = [values[p : p + out] for p in range(0, planes, out)]
                column = jnp.full(size, 2 * k + j, jnp.int32).astype(FLOAT)
                loss, grads = pixel(colours, rows[i], facts, [column])
                for p, grad in enumerate(np.concatenate(grads)):
                    place = (wide * p + 2 * m + i) * wide + 2 * k + j
                    geo.store_at(grad_ref, tile, place, weights * grad)
                total += loss.item()
        return total

    places = [(p // out, n_biases - out + p % out) for p in range(planes)]
    begin = [jnp.full(size, biases_ref[place]) for place in places]
    read = _mixed_reader(mixed_ref, tile, n)
    total = walk_planes(read, begin, m, at, span, n, emit, jnp.zeros(size, FLOAT), early=True)
    part = pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)
    geo.store_at(parts_ref, tile, part, weights * total)


# --- backward -------------------------------------------------------------------------------------
# The gradient at a pixel times each tap is gathered from 5 x 5 outputs: down their columns first,
# of which the next pixel needs three again, then across; from it follow, by one product each, the
# gradients of the kernel and of the pixel.


def down(read, m, n):
    """Of the outputs' gradient in one column: its sums over rows for both row taps of pixel m.

    Also what pixel m's own two outputs sum up to.
    """
    lines = [read(jnp.clip(2 * m - 2 + i, 0, 2 * n - 1)).astype(FLOAT) for i in range(5)]
    weights = seen_from(m, n)
    return [weighted(weights[kh], lines[1 - kh : 5 - kh]) for kh in (0, 1)], lines[2] + lines[3]


def across(columns, k, n, kw):
    """From the sums of columns 2k-1-kw .. 2k+2-kw -> the gradient of tap kw, both row taps."""
    return [weighted(seen_from(k, n)[kw], [column[kh] for column in columns]) for kh in (0, 1)]


def _in_threads(values):
    """Sums [size / 2, c] of pairs of rows that one thread holds, as it does rows r and r + 8."""
    size, c = values.shape
    if size % 16:
        return values
    return jnp.sum(values.reshape(size // 16, 2, 8, c), axis=1).reshape(size // 2, c)


def back_body(grad_ref, x_ref, kernel_ref, dx_ref, parts_ref, *, size, through_elu):
    """dx, and per program the kernel's gradient [2, 2, c, o] and the sum of dx [c], side by side.

    through_elu: x is an ELU's output and dx is wanted in front of that ELU.
    """
    n, _, images, c = x_ref.shape
    out, dtype = grad_ref.shape[-1], x_ref.dtype
    m, tile = pl.program_id(0), geo.tile_of(pl.program_id(1), size, images)
    kernel = [geo.paired_rows(kernel_ref, kw).astype(dtype) for kw in (0, 1)]

    def sums_of(column):
        column = jnp.minimum(column, 2 * n - 1)
        return down(lambda row: geo.load(grad_ref, tile, row, column), m, n)[0]

    def step(k, state):
        sums, d_kernel, d_sum = state
        x = geo.load(x_ref, tile, m, k)
        dx, d_kernel = jnp.zeros((size, c), FLOAT), list(d_kernel)
        # The second tap first: it needs one column less, so less is held at a time.
        for kw in (1, 0):
            sums = [*sums, sums_of(2 * k + 2 - kw)]
            taps = geo.interleave(*(t.astype(dtype) for t in across(sums[-4:], k, n, kw)))
            dx += _dot(taps, kernel[kw], (1, 0))
            d_kernel[kw] += _dot(taps, x, (0, 0))
        if through_elu:
            dx = _through_elu(dx, x.astype(FLOAT))
            d_sum += _in_threads(dx)
        geo.store(dx_ref, tile, m, k, dx)
        return jax.tree.map(geo.held, sums[2:]), d_kernel, d_sum

    first = sums_of(0)
    nothing = [jnp.zeros_like(part) for part in first]
    zero = [jnp.zeros((2 * out, c), FLOAT)] * 2, _in_threads(jnp.zeros((size, c), FLOAT))
    _, d_kernel, d_sum = lax.fori_loop(0, n, step, ([nothing, nothing, first], *zero))
    at = (m, pl.program_id(1))
    for kw in (0, 1):
        taps = d_kernel[kw].T  # [c, 2 o + kh]
        geo.store_taps(parts_ref, at, taps, lambda at, kw=kw: (at & 1, kw, at >> 1), out)
    parts_ref[*at, 4 * c * out :] = jnp.sum(d_sum, axis=0)


def last_back_body(grad_ref, y_ref, last_ref, dx_ref, parts_ref, *, size):
    """From the images' gradient, planes [o, 2n, 2n, B], to that of the last ELU's input.

    y: that ELU's output. Also per program, side by side: the gradient of the last kernel, the sum
    of dx, and sums of the images' gradient by plane, as if there were 4 planes. y is read a step
    before it is needed, into registers: as an operand in shared memory it would lie there in an
    order that the other use of it reads slowly.
    """
    n, _, images, c = dx_ref.shape
    dtype, planes = y_ref.dtype, COLUMNS // 4
    r, tile = pl.program_id(0), geo.tile_of(pl.program_id(1), size, images)
    last = geo.mixing_columns(last_ref, COLUMNS).astype(dtype)

    def sums_of(column):
        column = jnp.minimum(column, 2 * n - 1)
        return down(lambda row: geo.load_planes(grad_ref, tile, row, column, planes), r, n)

    def step(k, state):
        sums, y, columns, d_sum, d_bias = state
        ahead = geo.load(y_ref, tile, r, jnp.minimum(k + 1, n - 1))
        (odd, own_odd), (even, own_even) = sums_of(2 * k + 1), sums_of(2 * k + 2)
        d_bias += own_odd + jnp.where(k + 1 < n, own_even, 0.0)
        sums = [*sums, odd, even]
        taps = [across(sums[1 - kw : 5 - kw], k, n, kw) for kw in (0, 1)]
        joined = jnp.stack([jnp.stack([taps[0][kh], taps[1][kh]], -1) for kh in (0, 1)], -1)
        # Adding nothing keeps Triton from folding the reshape into an operand it cannot read.
        mixed = (joined.transpose(1, 0, 2, 3).reshape(size, COLUMNS) + 0.0).astype(dtype)
        columns += _dot(y, mixed, (0, 0))
        dx = _through_elu(_dot(mixed, last, (1, 1)), y.astype(FLOAT))
        geo.store(dx_ref, tile, r, k, dx)
        return jax.tree.map(geo.held, sums[2:]), ahead, columns, d_sum + _in_threads(dx), d_bias

    first, own = sums_of(0)
    nothing = [jnp.zeros_like(part) for part in first]
    zero = jnp.zeros((c, COLUMNS), FLOAT), _in_threads(jnp.zeros((size, c), FLOAT))
    begin = [nothing, nothing, first], geo.load(y_ref, tile, r, 0), *zero, own
    _, _, columns, d_sum, d_bias = lax.fori_loop(0, n, step, begin)
    at = (r, pl.program_id(1))
    geo.store_taps(parts_ref, at, columns, lambda at: (at & 1, (at >> 1) & 1, at >> 2), planes)
    parts_ref[*at, COLUMNS * c : COLUMNS * c + c] = jnp.sum(d_sum, axis=0)
    parts_ref[*at, COLUMNS * c + c :] = jnp.sum(d_bias, axis=1)
