"""Bodies of the decoder's GPU kernels: each program follows one row of pixels of some images.

Walking along a row, a program reads and interpolates each column once and keeps what the next
columns need. Taps of one column are multiplied as one product, their operands side by side: waiting
for products costs more than the products.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from cgjax.nets import upsample_geometry as geo
from cgjax.nets.upsample_geometry import FLOAT, between, seen_from

LOG2_E = math.log2(math.e)
COLUMNS = 16  # the last stage's 4 taps x up to 4 channels side by side, the least a product takes


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=FLOAT)


def _elu(x):
    # exp(x) - 1 is never below x; of all exponentials, that of 2 is one instruction.
    return jnp.maximum(x, jnp.exp2(jnp.minimum(x * LOG2_E, 0.0)) - 1)


def _through_elu(grad, y):
    """Gradient in front of an ELU from that behind it and the ELU's output."""
    return grad + grad * jnp.minimum(y, 0.0)


# --- forward --------------------------------------------------------------------------------------


def walk_outputs(x_ref, kernel_ref, bias_ref, tile, r, emit, carry, early):
    """All outputs ELU(conv(upsampled x)) of row r, two at a time.

    emit(k, (y of column 2k, y of column 2k + 1), carry) -> carry. early: columns are read one step
    before they are needed, which hides the wait and takes registers.
    """
    n, dtype = x_ref.shape[0], x_ref.dtype
    begins, ends = (geo.paired_rows(kernel_ref, kw).astype(dtype) for kw in (0, 1))
    bias = bias_ref[:][None, :]
    # Point rows r and r + 1 lie between three rows of x, of which the middle one counts in both.
    (low, w_low), (high, w_high) = between(r, n)
    (middle, own), (below, beneath) = between(r + 1, n)
    even = (r & 1) == 0
    first = jnp.where(even, low, high)
    apart, near = jnp.where(even, w_low, w_high), jnp.where(even, w_high, w_low)

    def column(k):
        return [geo.load(x_ref, tile, row, jnp.minimum(k, n - 1)) for row in (first, middle, below)]

    def upright(pixels):
        """A column of x interpolated vertically: its point rows r and r + 1."""
        u, v, w = (pixel.astype(FLOAT) for pixel in pixels)
        return apart * u + near * v, own * v + beneath * w

    def pass_points(q, left, right, sums):
        """Points of column q: they end the sums of output q - 1 and begin those of output q."""
        (_, a), (_, b) = between(q, n)
        points = geo.interleave(*((a * u + b * v).astype(dtype) for u, v in zip(left, right)))
        return sums + _dot(points, ends, (1, 0)), bias + _dot(points, begins, (1, 0))

    def step(k, state):
        here, ahead, sums, carry = state
        following = upright(ahead if early else column(k + 1))
        ahead = column(k + 2) if early else ()
        y0, sums = pass_points(2 * k + 1, here, following, sums)
        y1, sums = pass_points(2 * k + 2, here, following, sums)
        return following, ahead, sums, emit(k, (_elu(y0), _elu(y1)), carry)

    here, ahead = upright(column(jnp.int32(0))), column(jnp.int32(1)) if early else ()
    _, sums = pass_points(jnp.int32(0), here, here, bias)
    return lax.fori_loop(0, n, step, (here, ahead, sums, carry))[3]


def stage_body(x_ref, kernel_ref, bias_ref, *refs, size, early):
    """refs: y [2n, 2n, B, c]; or the last kernel, y mixed by it, planes [4 o, 2n, 2n, B] [, y]."""
    r, tile = pl.program_id(0), geo.tile_of(pl.program_id(1), size, x_ref.shape[2])
    last_ref, mixed_ref, *y_ref = refs if len(refs) > 1 else (None, None, *refs)
    mixer = None if last_ref is None else geo.mixing_columns(last_ref, COLUMNS).astype(x_ref.dtype)

    def emit(k, y, carry):
        for b in (0, 1):
            for ref in y_ref:
                geo.store(ref, tile, r, 2 * k + b, y[b])
            if mixer is not None:
                mixed = _dot(y[b].astype(x_ref.dtype), mixer, (1, 0))
                geo.store_planes(mixed_ref, tile, r, 2 * k + b, mixed.T)
        return carry

    walk_outputs(x_ref, kernel_ref, bias_ref, tile, r, emit, (), early)


def doubled(read, m, k, height, span, n):
    """Outputs of the pixels m .. m + height, k .. k + span: yields (row, column, value).

    Rows and columns are counted from output (2m, 2k). read(kw, kh, row, column): a pixel of that
    tap's mixed plane; each is read once.
    """
    pixels, lines = {}, {}
    down, along = (
        [between(2 * at + q, n) for q in range(2 * length + 1)]
        for at, length in ((m, height), (k, span))
    )

    def pixel(kw, kh, row, column, *place):
        if (kw, kh, place) not in pixels:
            pixels[kw, kh, place] = read(kw, kh, row, column)
        return pixels[kw, kh, place]

    def line(kw, column, place, i):
        """Output row i before the columns are interpolated."""
        if (kw, place, i) not in lines:
            lines[kw, place, i] = sum(
                w * pixel(kw, kh, row, column, (i + kh - 1) // 2 + side, place)
                for kh in (0, 1)
                for side, (row, w) in enumerate(down[i + kh])
            )
        return lines[kw, place, i]

    for j in range(2 * span):
        for i in range(2 * height):
            terms = (
                w * line(kw, column, (j + kw - 1) // 2 + side, i)
                for kw in (0, 1)
                for side, (column, w) in enumerate(along[j + kw])
            )
            yield i, j, sum(terms)


def draw_plane(mixed_ref, bias_ref, y_ref, tile, p, m, k, height, span, n):
    """Outputs of one plane p from its mixed planes, [4 o * n * n, B] -> [o * 2n * 2n, B].

    Places are flat: Triton takes long over kernels with many reads, less so with simple ones.
    """

    def read(kw, kh, row, column):
        place = ((4 * p + 2 * kw + kh) * n + row) * n + column
        return geo.load_at(mixed_ref, tile, place).astype(FLOAT)

    for i, j, value in doubled(read, m, k, height, span, n):
        place = (2 * n * p + 2 * m + i) * 2 * n + 2 * k + j
        geo.store_at(y_ref, tile, place, value + bias_ref[p])


def last_body(mixed_ref, bias_ref, y_ref, *, n, size, height, span):
    """Images as planes from mixed planes; height x span pixels of each a program.

    The products are done, and for few output channels interpolating them is cheaper than
    interpolating all channels of x.
    """
    at, spans = pl.program_id(2), n // span
    tile = geo.tile_of(lax.div(at, spans), size, mixed_ref.shape[1])
    m, k = pl.program_id(1) * height, lax.rem(at, spans) * span
    draw_plane(mixed_ref, bias_ref, y_ref, tile, pl.program_id(0), m, k, height, span, n)


def loss_body(
    mixed_ref, bias_ref, rows_ref, facts_ref, weights_ref, grad_ref, parts_ref,
    *, n, size, height, span, slots, pixel,
):  # fmt: skip
    """The last stage of K decoders, a loss at its pixels, and the gradient.

    mixed [K * 4 o * n * n, B], bias [K * o], rows [R * 2n, B], facts [I, B], weights [1, B] ->
    gradient of the weighted loss [K * o * 2n * 2n, B] and that loss by program [programs, B].
    pixel: K colours [o], rows [R], facts [I], column [1] -> (loss, gradient by colours).
    Outputs wait for each other where their gradient will be, in the cache: images as such never
    reach memory.
    """
    planes, wide, spans = bias_ref.shape[0], 2 * n, n // span
    tile = geo.tile_of(pl.program_id(2), size, mixed_ref.shape[1])
    m, k = pl.program_id(0) * height, pl.program_id(1) * span

    def draw(p, carry):
        draw_plane(mixed_ref, bias_ref, grad_ref, tile, p, m, k, height, span, n)
        return carry

    lax.fori_loop(0, planes, draw, 0)
    facts = [geo.load_at(facts_ref, tile, i) for i in range(facts_ref.shape[0])]
    weights = geo.load_at(weights_ref, tile, 0)

    def compare(t, total):
        row, column = 2 * m + lax.div(t, 2 * span), 2 * k + lax.rem(t, 2 * span)
        places = [(wide * p + row) * wide + column for p in range(planes)]
        values = [geo.load_at(grad_ref, tile, place) for place in places]
        out = planes // slots
        colours = [values[i : i + out] for i in range(0, planes, out)]
        rows = [geo.load_at(rows_ref, tile, i + row) for i in range(0, rows_ref.shape[0], wide)]
        at = jnp.full(size, column, jnp.int32).astype(FLOAT)
        loss, grads = pixel(colours, rows, facts, [at])
        for place, grad in zip(places, np.concatenate(grads)):
            geo.store_at(grad_ref, tile, place, weights * grad)
        return total + loss.item()

    total = lax.fori_loop(0, 4 * height * span, compare, jnp.zeros(size, FLOAT))
    geo.store_at(parts_ref, tile, pl.program_id(0) * spans + pl.program_id(1), weights * total)


# --- backward -------------------------------------------------------------------------------------
# The gradient at a pixel times each tap is gathered from 5 x 5 outputs: down their columns first,
# of which the next pixel needs three again, then across; from it follow, by one product each, the
# gradients of the kernel and of the pixel.


def down(read, m, n):
    """Of the outputs' gradient in one column: its sums over rows for both row taps of pixel m."""
    lines = [read(jnp.clip(2 * m - 2 + i, 0, 2 * n - 1)).astype(FLOAT) for i in range(5)]
    weights = seen_from(m, n)
    return [_weighted(weights[kh], lines[1 - kh : 5 - kh]) for kh in (0, 1)], lines[2] + lines[3]


def across(columns, k, n, kw):
    """From the sums of columns 2k-1-kw .. 2k+2-kw -> the gradient of tap kw, both row taps."""
    return [_weighted(seen_from(k, n)[kw], [column[kh] for column in columns]) for kh in (0, 1)]


def _weighted(weights, values):
    return sum(w * value for w, value in zip(weights, values, strict=True))


def back_body(grad_ref, x_ref, kernel_ref, dx_ref, parts_ref, *, size, through_elu):
    """dx, and per program the kernel's gradient and the sum of dx as rows [4 o + 1, c].

    through_elu: x is an ELU's output and dx is wanted in front of that ELU.
    """
    n, _, images, c = x_ref.shape
    out, dtype = grad_ref.shape[-1], x_ref.dtype
    m, tile = pl.program_id(0), geo.tile_of(pl.program_id(1), size, images)
    kernel = [geo.paired_rows(kernel_ref, kw, transposed=True).astype(dtype) for kw in (0, 1)]

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
            d_sum += dx
        geo.store(dx_ref, tile, m, k, dx)
        return sums[2:], d_kernel, d_sum

    first = sums_of(0)
    nothing = [jnp.zeros_like(part) for part in first]
    zero = [jnp.zeros((2 * out, c), FLOAT)] * 2, jnp.zeros((size, c), FLOAT)
    _, d_kernel, d_sum = lax.fori_loop(0, n, step, ([nothing, nothing, first], *zero))
    at = (m, pl.program_id(1))
    for kw in (0, 1):
        parts_ref[*at, 2 * kw * out : 2 * (kw + 1) * out] = d_kernel[kw]
    parts_ref[*at, 4 * out] = jnp.sum(d_sum, axis=0)


def last_back_body(grad_ref, *refs, size, early):
    """From the images' gradient, planes [o, 4n, 4n, B], to that of the last ELU's input.

    refs: that ELU's output y; or, to compute y again, its stage's input, kernel and bias. Then the
    last kernel, dx, and per program as rows [18, c]: the gradient of the last kernel's columns, the
    sum of dx, and sums of the images' gradient by plane.
    """
    *source, last_ref, dx_ref, parts_ref = refs
    wide, _, images, c = dx_ref.shape
    dtype, planes = dx_ref.dtype, COLUMNS // 4
    r, tile = pl.program_id(0), geo.tile_of(pl.program_id(1), size, images)
    last = geo.mixing_columns(last_ref, COLUMNS).astype(dtype)

    def sums_of(column):
        column = jnp.minimum(column, 2 * wide - 1)
        return down(lambda row: geo.load_planes(grad_ref, tile, row, column, planes), r, wide)

    def one(k, y, state):
        sums, columns, d_sum, d_bias = state
        (odd, own_odd), (even, own_even) = sums_of(2 * k + 1), sums_of(2 * k + 2)
        d_bias += own_odd + jnp.where(k + 1 < wide, own_even, 0.0)
        sums = [*sums, odd, even]
        taps = [across(sums[1 - kw : 5 - kw], k, wide, kw) for kw in (0, 1)]
        joined = jnp.stack([jnp.stack([taps[0][kh], taps[1][kh]], -1) for kh in (0, 1)], -1)
        # Adding nothing keeps Triton from folding the reshape into an operand it cannot read.
        mixed = (joined.transpose(1, 0, 2, 3).reshape(size, COLUMNS) + 0.0).astype(dtype)
        y = y.astype(dtype)
        columns += _dot(y, mixed, (0, 0))
        dx = _through_elu(_dot(mixed, last, (1, 1)), y.astype(FLOAT))
        geo.store(dx_ref, tile, r, k, dx)
        return sums[2:], columns, d_sum + dx, d_bias

    def emit(k, y, state):
        return one(2 * k + 1, y[1], one(2 * k, y[0], state))

    first, own = sums_of(0)
    nothing = [jnp.zeros_like(part) for part in first]
    zero = jnp.zeros((c, COLUMNS), FLOAT), jnp.zeros((size, c), FLOAT)
    state = ([nothing, nothing, first], *zero, own)
    if len(source) > 1:
        found = walk_outputs(*source, tile, r, emit, state, early)
    else:
        found = lax.fori_loop(
            0, wide, lambda k, state: one(k, geo.load(*source, tile, r, k), state), state
        )
    _, columns, d_sum, d_bias = found
    at = (r, pl.program_id(1))
    parts_ref[*at, :COLUMNS] = columns.T
    parts_ref[*at, COLUMNS] = jnp.sum(d_sum, axis=0)
    parts_ref[*at, COLUMNS + 1, :planes] = jnp.sum(d_bias, axis=1)
