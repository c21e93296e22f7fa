"""Bodies of the decoder's GPU kernels: each program handles one or two rows of some images.

A program walks along a row. It reads and interpolates each column once and keeps what the next
columns need. In the forward pass it computes two rows of outputs that lie between the same pixels,
which halves the reads from the cache.
"""

import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

LOG2_E = math.log2(math.e)
COLUMNS = 16  # 4 taps x up to 4 channels of the last stage; the smallest size of a product


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(a, b, dimensions, _precision(a.dtype), preferred_element_type=FLOAT)


def _precision(dtype):
    """Precision of a product of this dtype: None for that of `jax.default_matmul_precision`.

    Matrix units of GPUs have no float32. Where the context requests it, each product is the sum of
    three TF32 products of the high and low halves of its operands.
    """
    is_requested = jax.config.jax_default_matmul_precision in ("float32", "highest")
    if is_requested and dtype == FLOAT and not INTERPRETED.get():
        return lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    return None


def _elu(x):
    # exp(x) - 1 is never below x. 2^x is a single instruction; other exponentials are not.
    return jnp.maximum(x, power_of_two(jnp.minimum(x * LOG2_E, 0.0)) - 1)


def _through_elu(grad, y):
    """Gradient of an ELU's input, from the gradient and the value y of its output."""
    return multiply_add(grad, jnp.minimum(y, 0.0), grad)


# --- forward --------------------------------------------------------------------------------------


class Along(NamedTuple):
    """Interpolation along a row: at every pixel, two outputs of each of two rows.

    The interpolated values are the sums over the row taps, [row 2][column tap 2] at each pixel.
    n: pixels of a row; begin: initial value of an output, its bias.
    """

    n: int
    begin: jax.Array

    def pending(self, before, k):
        """Output 2k of both rows, as far as pixel k-1 contributes: its first column tap."""
        ((_, w), _) = between(2 * k, self.n)
        return [weighted([w], [sums], self.begin) for sums in before]

    def outputs(self, k, pending, here, following):
        """Outputs 2k and 2k + 1 of both rows: [row 2][column 2]."""
        (_, (_, centre)), ((_, near), (_, far)), ((_, later), (_, last)) = (
            between(2 * k + q, self.n) for q in range(3)
        )
        return [
            (
                weighted([centre, near, far], [first, second, next_second], partial_sum),
                weighted(
                    [near, far, later, last], [first, next_first, second, next_second], self.begin
                ),
            )
            for partial_sum, (first, second), (next_first, next_second) in zip(
                pending, here, following
            )
        ]


def stage_body(x_ref, kernel_ref, biases_ref, *refs, size, number, early):
    """Rows 2m and 2m + 1 of ELU(conv(upsampled x)).

    biases: of all stages. refs: y [2n, 2n, B, c]; or the last kernel, y mixed by it as planes
    [4 o, 2n, 2n, B], and optionally y.
    Interpolation down the columns precedes the products with the kernel, interpolation along the
    rows follows them; each product is thus used for two outputs. early: columns are read one step
    before they are needed, which hides the latency and takes registers.
    """
    n, dtype = x_ref.shape[0], x_ref.dtype
    m, tile = pl.program_id(0), tile_of(pl.program_id(1), size, x_ref.shape[2])
    last_ref, mixed_ref, *y_ref = refs if len(refs) > 1 else (None, None, *refs)
    mixer = None if last_ref is None else mixing_columns(last_ref, COLUMNS).astype(dtype)
    kernel = [both_columns(kernel_ref, kh).astype(dtype) for kh in (0, 1)]
    out = kernel_ref.shape[-1]
    bias = biases_ref[number * out : (number + 1) * out]
    walk = Along(n, jnp.broadcast_to(bias[None, :], (size, out)))
    rows = jnp.maximum(m - 1, 0), m, jnp.minimum(m + 1, n - 1)
    weights = [[w for _, w in between(2 * m + q, n)] for q in range(3)]

    def column(k):
        return [load(x_ref, tile, row, jnp.minimum(k, n - 1)) for row in rows]

    def sums(pixels):
        """Sums over the row taps, from a column of x."""
        u, v, w = (pixel.astype(FLOAT) for pixel in pixels)
        points = [weighted(*pair).astype(dtype) for pair in zip(weights, ((u, v), (v, w), (v, w)))]
        products = [
            _dot(points[i], kernel[0], (1, 0)) + _dot(points[i + 1], kernel[1], (1, 0))
            for i in (0, 1)
        ]
        return [lax.split(product, (out, out), 1) for product in products]

    def write(i, column, y):
        for ref in y_ref:
            store(ref, tile, 2 * m + i, column, y)
        if mixer is not None:
            mixed = _dot(y.astype(dtype), mixer, (1, 0))
            store_planes(mixed_ref, tile, 2 * m + i, column, mixed.T)

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
    """Rows 2m and 2m + 1 of images from mixed planes: `span` pixels of the row, starting at `at`.

    read(p, kw, kh, row, column): a pixel of plane p and tap (kh, kw); begin: bias of each plane.
    emit(k, [plane][row 2][column 2], carry) -> carry. early: columns are read one step before they
    are needed, as in `stage_body`.
    """
    walks = [Along(n, bias) for bias in begin]
    rows = jnp.maximum(m - 1, 0), m, jnp.minimum(m + 1, n - 1)
    weights = [[w for _, w in between(2 * m + q, n)] for q in range(3)]

    def column(k):
        """[plane][column tap][row tap][row]: the pixels of column k that each tap reads."""
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

    warm_up = 3 if early else 2  # steps before the first step that draws

    def step(t, state):
        pending, here, ahead, carry = state
        k = at + t - warm_up
        pixels = ahead if early else column(k + 1)
        ahead = column(k + 2) if early else ()
        following = [list(zip(*(sums(*taps) for taps in of_plane))) for of_plane in pixels]

        def draw():
            planes = zip(walks, pending, here, following)
            return emit(k, [walk.outputs(k, *of_plane) for walk, *of_plane in planes], carry)

        # The first steps only read: with loads in front of the loop, Triton compiles for minutes.
        carry = lax.cond(t < warm_up, lambda: carry, draw)
        pending = [walk.pending([first for first, _ in v], k + 1) for walk, v in zip(walks, here)]
        return pending, following, ahead, carry

    zeros = [jnp.zeros_like(begin[0])] * 2
    ahead = [[[[zeros[0]] * (3 - kh) for kh in (0, 1)]] * 2] * len(begin) if early else ()
    state = [zeros] * len(begin), [list(zip(zeros, zeros))] * len(begin), ahead, carry
    return lax.fori_loop(0, span + warm_up, step, state)[3]


def _mixed_reader(mixed_ref, tile, n):
    """`read` for mixed planes [4 o * n * n, B]; the index is flat, which Triton compiles faster."""

    def read(p, kw, kh, row, column):
        place = ((4 * p + 2 * kw + kh) * n + row) * n + column
        return load_at(mixed_ref, tile, place).astype(FLOAT)

    return read


def last_body(mixed_ref, biases_ref, y_ref, *, n, out, size, span):
    """Images as planes [o * 2n * 2n, B] from mixed planes [4 o * n * n, B].

    The mixed planes already hold the products. For few output channels it is cheaper to interpolate
    the products than all channels of x.
    """
    p, m, t = pl.program_id(0), pl.program_id(1), pl.program_id(2)
    spans = n // span
    tile, at = tile_of(lax.div(t, spans), size, mixed_ref.shape[1]), lax.rem(t, spans) * span
    read = _mixed_reader(mixed_ref, tile, n)

    def emit(k, drawn, carry):
        for i, pair in enumerate(drawn[0]):
            for j in (0, 1):
                place = (2 * n * p + 2 * m + i) * 2 * n + 2 * k + j
                store_at(y_ref, tile, place, pair[j])
        return carry

    begin = [jnp.full(size, biases_ref[biases_ref.shape[0] - out + p])]
    walk_planes(lambda _, *rest: read(p, *rest), begin, m, at, span, n, emit, 0)


def loss_body(
    mixed_ref,
    biases_ref,
    rows_ref,
    facts_ref,
    weights_ref,
    grad_ref,
    parts_ref,
    *,
    n,
    out,
    size,
    span,
    pixel,
):
    """The last stage of K decoders, a loss at its pixels, and the gradient of the loss.

    mixed [K * 4 o * n * n, B], biases [K, biases of all stages], rows [R * 2n, B], facts [I, B],
    weights [1, B] -> gradient of the weighted loss [K * o * 2n * 2n, B]; weighted loss of each
    program [programs, B].
    pixel: K colours [o], rows [R], facts [I], column [1] -> (loss, gradient by colours).
    Images are never written to memory.
    """
    (slots, n_biases), wide = biases_ref.shape, 2 * n
    planes = slots * out
    tile = tile_of(pl.program_id(2), size, mixed_ref.shape[1])
    m, at = pl.program_id(0), pl.program_id(1) * span
    facts = [load_at(facts_ref, tile, i) for i in range(facts_ref.shape[0])]
    weights = load_at(weights_ref, tile, 0)
    starts = range(0, rows_ref.shape[0], wide)
    rows = [[load_at(rows_ref, tile, i + 2 * m + row) for i in starts] for row in (0, 1)]

    def emit(k, drawn, total):
        for i in (0, 1):
            for j in (0, 1):
                values = [drawn[p][i][j] for p in range(planes)]
                colours = [values[p : p + out] for p in range(0, planes, out)]
                column = jnp.full(size, 2 * k + j, jnp.int32).astype(FLOAT)
                loss, grads = pixel(colours, rows[i], facts, [column])
                for p, grad in enumerate(np.concatenate(grads)):
                    place = (wide * p + 2 * m + i) * wide + 2 * k + j
                    store_at(grad_ref, tile, place, weights * grad)
                total += loss.item()
        return total

    places = [(p // out, n_biases - out + p % out) for p in range(planes)]
    begin = [jnp.full(size, biases_ref[place]) for place in places]
    read = _mixed_reader(mixed_ref, tile, n)
    total = walk_planes(read, begin, m, at, span, n, emit, jnp.zeros(size, FLOAT), early=True)
    part = pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)
    store_at(parts_ref, tile, part, weights * total)


# --- backward -------------------------------------------------------------------------------------
# For each pixel and each tap, the gradient is a weighted sum over 5 x 5 outputs. It is summed down
# the columns first (the next pixel reuses three of the column sums), then across them. One product
# each then gives the gradients of the kernel and of the pixel.


def down(read, m, n):
    """Weighted sums over rows of one column of the outputs' gradient, for both row taps of pixel m.

    Also the plain sum of the gradients at outputs 2m and 2m + 1.
    """
    lines = [read(jnp.clip(2 * m - 2 + i, 0, 2 * n - 1)).astype(FLOAT) for i in range(5)]
    weights = seen_from(m, n)
    return [weighted(weights[kh], lines[1 - kh : 5 - kh]) for kh in (0, 1)], lines[2] + lines[3]


def across(columns, k, n, kw):
    """Column sums of columns 2k-1-kw .. 2k+2-kw -> gradient of tap kw at pixel k, both row taps."""
    return [weighted(seen_from(k, n)[kw], [column[kh] for column in columns]) for kh in (0, 1)]


def _in_threads(values):
    """Sums [size / 2, c] of rows r and r + 8, which the same thread holds."""
    size, c = values.shape
    if size % 16:
        return values
    return jnp.sum(values.reshape(size // 16, 2, 8, c), axis=1).reshape(size // 2, c)


def back_body(grad_ref, x_ref, kernel_ref, dx_ref, parts_ref, *, size, through_elu):
    """dx; for each program, the kernel's gradient [2, 2, c, o] and the sum of dx [c], in one row.

    through_elu: x is the output of an ELU, and dx is the gradient of that ELU's input.
    """
    n, _, images, c = x_ref.shape
    out, dtype = grad_ref.shape[-1], x_ref.dtype
    m, tile = pl.program_id(0), tile_of(pl.program_id(1), size, images)
    kernel = [paired_rows(kernel_ref, kw).astype(dtype) for kw in (0, 1)]

    def sums_of(column):
        column = jnp.minimum(column, 2 * n - 1)
        return down(lambda row: load(grad_ref, tile, row, column), m, n)[0]

    def step(k, state):
        sums, d_kernel, d_sum = state
        x = load(x_ref, tile, m, k)
        dx, d_kernel = jnp.zeros((size, c), FLOAT), list(d_kernel)
        # The second tap comes first: it needs one column less, so fewer registers are in use.
        for kw in (1, 0):
            sums = [*sums, sums_of(2 * k + 2 - kw)]
            taps = interleave(*(t.astype(dtype) for t in across(sums[-4:], k, n, kw)))
            dx += _dot(taps, kernel[kw], (1, 0))
            d_kernel[kw] += _dot(taps, x, (0, 0))
        if through_elu:
            dx = _through_elu(dx, x.astype(FLOAT))
            d_sum += _in_threads(dx)
        store(dx_ref, tile, m, k, dx)
        return jax.tree.map(held, sums[2:]), d_kernel, d_sum

    first = sums_of(0)
    zero_sums = [jnp.zeros_like(part) for part in first]
    zero = [jnp.zeros((2 * out, c), FLOAT)] * 2, _in_threads(jnp.zeros((size, c), FLOAT))
    _, d_kernel, d_sum = lax.fori_loop(0, n, step, ([zero_sums, zero_sums, first], *zero))
    at = (m, pl.program_id(1))
    for kw in (0, 1):
        taps = d_kernel[kw].T  # [c, 2 o + kh]
        store_taps(parts_ref, at, taps, lambda at, kw=kw: (at & 1, kw, at >> 1), out)
    parts_ref[*at, 4 * c * out :] = jnp.sum(d_sum, axis=0)


def last_back_body(grad_ref, y_ref, last_ref, dx_ref, parts_ref, *, size):
    """Gradient of the images, planes [o, 2n, 2n, B] -> dx, the gradient of the last ELU's input.

    y: output of that ELU. Each program also writes, in one row: the gradient of the last kernel,
    the sum of dx, and the sums of the images' gradient over each of 4 planes (o of them exist). y
    is read into registers one step before it is needed: as an operand in shared memory it would
    have a layout that its second use reads slowly.
    """
    n, _, images, c = dx_ref.shape
    dtype, planes = y_ref.dtype, COLUMNS // 4
    r, tile = pl.program_id(0), tile_of(pl.program_id(1), size, images)
    last = mixing_columns(last_ref, COLUMNS).astype(dtype)

    def sums_of(column):
        column = jnp.minimum(column, 2 * n - 1)
        return down(lambda row: load_planes(grad_ref, tile, row, column, planes), r, n)

    def step(k, state):
        sums, y, columns, d_sum, d_bias = state
        ahead = load(y_ref, tile, r, jnp.minimum(k + 1, n - 1))
        (odd, plain_odd), (even, plain_even) = sums_of(2 * k + 1), sums_of(2 * k + 2)
        d_bias += plain_odd + jnp.where(k + 1 < n, plain_even, 0.0)
        sums = [*sums, odd, even]
        taps = [across(sums[1 - kw : 5 - kw], k, n, kw) for kw in (0, 1)]
        joined = jnp.stack([jnp.stack([taps[0][kh], taps[1][kh]], -1) for kh in (0, 1)], -1)
        # Adding zero stops Triton from folding the reshape into an operand that it cannot read.
        mixed = (joined.transpose(1, 0, 2, 3).reshape(size, COLUMNS) + 0.0).astype(dtype)
        columns += _dot(y, mixed, (0, 0))
        dx = _through_elu(_dot(mixed, last, (1, 1)), y.astype(FLOAT))
        store(dx_ref, tile, r, k, dx)
        return jax.tree.map(held, sums[2:]), ahead, columns, d_sum + _in_threads(dx), d_bias

    first, plain = sums_of(0)
    zero_sums = [jnp.zeros_like(part) for part in first]
    zero = jnp.zeros((c, COLUMNS), FLOAT), _in_threads(jnp.zeros((size, c), FLOAT))
    begin = [zero_sums, zero_sums, first], load(y_ref, tile, r, 0), *zero, plain
    _, _, columns, d_sum, d_bias = lax.fori_loop(0, n, step, begin)
    at = (r, pl.program_id(1))
    store_taps(parts_ref, at, columns, lambda at: (at & 1, (at >> 1) & 1, at >> 2), planes)
    parts_ref[*at, COLUMNS * c : COLUMNS * c + c] = jnp.sum(d_sum, axis=0)
    parts_ref[*at, COLUMNS * c + c :] = jnp.sum(d_bias, axis=1)


# --- geometry -------------------------------------------------------------------------------------
# Memory layout and interpolation weights of the decoder's GPU kernels.
#
# Arrays are [rows, columns, images, channels], or "planes" [channels, rows, columns, images]. A
# tile is one pixel of neighbouring images. It is therefore contiguous, its interpolation weights
# are scalars, and the border of an image needs a weight of zero instead of a mask.


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
