"""GPU kernels of "float32x3": backward convolutions, Jacobians of their weights, contraction.

Matrix units take numbers of 16 bits, multiply them exactly, and truncate sums where float32 rounds.
So each number is a sum of two halves, x = high + low, and three products of halves replace one.
Sums are computed in parts, which are added in float32. Images and weights are halves of float16,
scaled by a power of two; they keep 22 of float32's 24 bits. The size of Jacobians is not known
beforehand, so they are halves of bfloat16 and keep 16 bits. The contents of a convolution's windows
are never stored in memory, nor are Jacobians before they are split into halves.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

FLOAT = jnp.float32
CHANNELS = (16, 32, 64, 128)  # powers of two, at least the smallest size of a product


class Launch(NamedTuple):
    """Rows of a tile, columns read at once, warps, loads in flight."""

    tile: int
    read: int
    warps: int = 8
    stages: int = 3


class Tuning(NamedTuple):
    """Launch parameters; span, longest: columns summed by one program and by a matrix unit."""

    convolution: Launch = Launch(128, 64, stages=2)
    weights: Launch = Launch(64, 64, warps=4)
    contraction: Launch = Launch(128, 64)
    span: int = 4096
    longest: int = 1024
    pairs: int = 64  # channels up to which neighbours of a row are convolved together
    taps: int = 10240  # sums that fit in one program of weights
    interpret: bool = False


class Halves(NamedTuple):
    """x = high + low."""

    high: jax.Array
    low: jax.Array


class Geometry(NamedTuple):
    """Sizes of a correlation: the image read, the image made, the window, the zeros before.

    together: the number of neighbours in a row that one wider window computes.
    """

    read: tuple[int, int]
    made: tuple[int, int]
    window: tuple[int, int]
    before: tuple[int, int]
    together: int = 1


def halves(x: jax.Array) -> Halves:
    """Halves of bfloat16, for numbers of any size."""
    # The compiler would remove a cast to bfloat16 and back.
    high = lax.reduce_precision(x, 8, 7)
    return Halves(high.astype(jnp.bfloat16), (x - high).astype(jnp.bfloat16))


def scaled_halves(x: jax.Array) -> tuple[Halves, jax.Array]:
    """Halves of float16, a power of two: x = (high + low) * unit, the largest below 2^14 units."""
    _, exponent = jnp.frexp(jnp.max(jnp.abs(x)))
    exponent = jnp.maximum(exponent, -112)  # smaller exponents have no inverse in float32
    one = jnp.ones((), FLOAT)
    x, unit = x * jnp.ldexp(one, 14 - exponent), jnp.ldexp(one, exponent - 14)
    high = lax.reduce_precision(x, 5, 10)
    return Halves(high.astype(jnp.float16), (x - high).astype(jnp.float16)), unit


def _call(name, body, arguments, grid, shape, launch, interpret):
    call = pl.pallas_call(
        body,
        name=name,
        grid=grid,
        out_shape=shape,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
    )
    with jax.enable_x64(False):  # indices have 32 bits
        return call(*arguments)


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(
        a, b, dimensions, precision=lax.Precision.DEFAULT, preferred_element_type=FLOAT
    )


def _product(a, b, contract):
    """The product of halves, small terms first; sums this short lose almost no digits."""
    small = _dot(a.high, b.low, contract) + _dot(a.low, b.high, contract)
    return small + _dot(a.high, b.high, contract)


def _rows(matrices, row, inside, first, n):
    """Columns first to first + n of rows [tile] of a pair of matrices, zero outside of them.

    inside: whether each row exists; None: all rows exist, but columns may not.
    """
    column = first + lax.broadcasted_iota(jnp.int32, (row.shape[0], n), 1)
    row = jnp.broadcast_to(row[:, None], column.shape)
    if inside is None:
        inside = column < matrices[0].shape[1]
    else:
        inside = jnp.broadcast_to(inside[:, None], column.shape)
    pick = [plt.load(ref.at[row, column], mask=inside, other=0) for ref in matrices]
    return Halves(*pick)


# --- convolutions ---------------------------------------------------------------------------------


def supports(params: dict, x, m: int) -> bool:
    """Whether the kernels can run a convolution of one image x to m channels.

    params: those of JAX's primitive.
    """
    batch, c, *image = (x.shape[i] for i in params["dimension_numbers"].lhs_spec)
    names = ("window_strides", "lhs_dilation", "rhs_dilation")
    is_plain = {size for name in names for size in params[name]} == {1}
    is_plain &= params["feature_group_count"] == 1 and min(map(min, params["padding"])) >= 0
    is_image = len(image) == 2 and batch == 1 and x.dtype == FLOAT
    return is_image and is_plain and c in CHANNELS and m in CHANNELS


def convolution(params: dict, tuning: Tuning):
    """x, w -> the convolution with these parameters of JAX's primitive; backward by the kernels.

    The forward pass has all digits: near zero, or near a tie of a maximum, the last digits decide
    which derivative is taken.
    """
    keys = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers")
    plain = functools.partial(lax.conv_general_dilated, **{key: params[key] for key in keys})
    numbers = params["dimension_numbers"]
    (top, _), (left, _) = params["padding"]
    in_full = functools.partial(_in_full, params)
    convolve = jax.custom_vjp(in_full)

    def forward(x, w):
        return in_full(x, w), (x, w)

    def backward(saved, d):
        x, w = saved
        turned = _window(w, numbers)[::-1, ::-1].swapaxes(2, 3)
        before = (len(turned) - 1 - top, turned.shape[1] - 1 - left)
        made = tuple(x.shape[i] for i in numbers.lhs_spec[2:])
        dx = correlate(image(d, numbers.out_spec), turned, before, made, tuning)
        # If w is a layer's weight, this gradient is unused, and the compiler removes it.
        (dw,) = jax.linear_transpose(lambda w: plain(x, w), w)(d)
        return _placed(dx, numbers.lhs_spec), dw

    convolve.defvjp(forward, backward)
    return convolve


def _in_full(params, x, w):
    """The convolution; a wider window with stride 2 computes two neighbours of a row as channels.

    With stride 1 the library, which chooses by timing, can select Fourier transforms, which took
    half of the whole kernel's time; its documentation lists them for stride 1 only.
    """
    numbers, padding = params["dimension_numbers"], params["padding"]
    window = _window(w, numbers)
    m, (batch, channel, *space) = window.shape[-1], numbers.lhs_spec
    made = [
        x.shape[axis] + sum(edge) - size + 1
        for axis, edge, size in zip(space, padding, window.shape)
    ]
    together = 2 if made[1] % 2 == 0 else 1
    y = lax.conv_general_dilated(
        x.transpose(batch, *space, channel),
        _widened(window, together),
        (1, together),
        padding,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return _placed(y.reshape(*made, m), numbers.out_spec)


def image(x, spec):
    """One image with any order of axes as [H, W, c]."""
    batch, channel, *space = spec
    return x.transpose(batch, *space, channel)[0]


def _window(w, numbers):
    """The weight as [h, w, c, m]."""
    out, channel, *space = numbers.rhs_spec
    return w.transpose(*space, channel, out)


def _placed(y, spec):
    """[H, W, c] in the order of axes of `spec`."""
    batch, channel, *space = spec
    return jnp.moveaxis(y[None], (0, 1, 2, 3), (batch, *space, channel))


def correlate(x: jax.Array, w: jax.Array, before, made, tuning: Tuning) -> jax.Array:
    """x [H, W, c], w [h, w, c, m] -> [*made, m]; `before` zeros before x, as many as needed after.

    With few channels, neighbours in a row are computed together, as channels of one wider window:
    their shared inputs are read once.
    """
    (a, a_unit), (b, b_unit) = scaled_halves(x), scaled_halves(w)
    m = w.shape[-1]
    together = 2 if made[1] % 2 == 0 and 2 * m <= tuning.pairs else 1
    b = Halves(*(_widened(half, together) for half in b))
    geometry = Geometry(x.shape[:2], made, b.high.shape[:2], before, together)
    y = _images(geometry, tuning)(*(h[None] for h in a), *b)
    return y.reshape(*made, m) * a_unit * b_unit


def _widened(w, together):
    """[h, w, c, m] -> [h, w + together - 1, c, together m]: windows of neighbours, concatenated."""
    edges = [(i, together - 1 - i) for i in range(together)]
    windows = [jnp.pad(w, [(0, 0), edge, (0, 0), (0, 0)]) for edge in edges]
    return jnp.concatenate(windows, axis=-1)


def _images(geometry, tuning):
    """The correlation of images [B, H, W, c]; vmap adds images to the batch, so tiles stay full."""

    def plain(x_high, x_low, w_high, w_low):
        n, c, m = len(x_high), x_high.shape[-1], w_high.shape[-1]
        rows = n * math.prod(geometry.made) // geometry.together
        launch = tuning.convolution._replace(read=min(tuning.convolution.read, c))
        body = functools.partial(_correlation, geometry=geometry, launch=launch)
        images, windows = [h.reshape(-1, c) for h in (x_high, x_low)], (w_high, w_low)
        arguments = (*images, *(h.reshape(-1, c, m) for h in windows))
        shape, grid = ShapeDtypeStruct((rows, m), FLOAT), (pl.cdiv(rows, launch.tile),)
        name = f"correlation_{math.prod(geometry.made)}_{c}_{m}"
        y = _call(name, body, arguments, grid, shape, launch, tuning.interpret)
        return y.reshape(n, *geometry.made, -1)

    call = jax.custom_batching.custom_vmap(plain)

    @call.def_vmap
    def several(size, is_batched, *halves):
        if is_batched != [True, True, False, False]:  # weights are batched, too: one more grid axis
            in_axes = [0 if batched else None for batched in is_batched]
            return jax.vmap(plain, in_axes)(*halves), True
        images = [h.reshape(-1, *h.shape[2:]) for h in halves[:2]]
        y = call(*images, *halves[2:])
        return y.reshape(size, -1, *y.shape[1:]), True

    return call


def _correlation(x_high, x_low, w_high, w_low, y_ref, *, geometry, launch):
    """A tile of positions: a loop over places of the window and chunks of channels."""
    (rows, m), n = y_ref.shape, launch.read
    (height, width), window_width = geometry.made, geometry.window[1]
    chunks, width = x_high.shape[1] // n, width // geometry.together
    row = pl.program_id(0) * launch.tile + lax.iota(jnp.int32, launch.tile)
    line, x = lax.div(row, width), lax.rem(row, width) * geometry.together
    image, y = lax.div(line, height), lax.rem(line, height)

    def step(q, total):
        tap, first = lax.div(q, chunks), lax.rem(q, chunks) * n
        place = lax.div(tap, window_width), lax.rem(tap, window_width)
        source, inside = _seen(y, x, row < rows, *place, geometry)
        source += image * math.prod(geometry.read)
        a = _rows((x_high, x_low), source, inside, first, n)
        b = Halves(*(ref[tap, pl.ds(first, n), :] for ref in (w_high, w_low)))
        return total + _product(a, b, (1, 0))

    zero = jnp.zeros((launch.tile, m), FLOAT)
    total = lax.fori_loop(0, math.prod(geometry.window) * chunks, step, zero)
    column = lax.broadcasted_iota(jnp.int32, total.shape, 1)
    row = jnp.broadcast_to(row[:, None], total.shape)
    plt.store(y_ref.at[row, column], total, mask=row < rows)


def _seen(y, x, inside, i, j, geometry):
    """Row of the image at place i, j of each position's window, and whether it exists."""
    (height, width), (top, left) = geometry.read, geometry.before
    y, x = y + (i - top), x + (j - left)
    inside = inside & (y >= 0) & (y < height) & (x >= 0) & (x < width)
    return y * width + x, inside


# --- Jacobians of weights -------------------------------------------------------------------------


def weight_jacobian(a: jax.Array, d: jax.Array, window, before, tuning: Tuning) -> Halves:
    """sum_p a[p + t, c] d[p, m] for all places t of the window: [h w, c, m]; d [H', W', m]."""
    geometry = Geometry(a.shape[:2], d.shape[:2], window, before)
    c, m = a.shape[-1], d.shape[-1]
    n_taps = math.prod(window)
    taps = next(n for n in (window[1], 1) if n == 1 or n * c * m <= tuning.taps)
    body = functools.partial(_weights, geometry=geometry, taps=taps, launch=tuning.weights)
    (a, a_unit), (d, d_unit) = scaled_halves(a), scaled_halves(d)
    arguments = [h.reshape(-1, h.shape[-1]) for h in (*a, *d)]
    shape = [ShapeDtypeStruct((n_taps, c, m), jnp.bfloat16)] * 2
    units = jnp.stack([a_unit, d_unit])
    name, grid, launch = f"weights_{c}_{m}", (n_taps // taps,), tuning.weights
    jacobians = _call(name, body, (units, *arguments), grid, shape, launch, tuning.interpret)
    return Halves(*jacobians)


def _weights(units, a_high, a_low, d_high, d_low, high, low, *, geometry, taps, launch):
    """For some places of the window: the inputs there times d, summed over all positions."""
    c, m, (rows, columns) = a_high.shape[1], d_high.shape[1], geometry.made
    first = pl.program_id(0) * taps

    def step(t, totals):
        row = t * launch.tile + lax.iota(jnp.int32, launch.tile)
        y, x, inside = lax.div(row, columns), lax.rem(row, columns), row < rows * columns
        d = _rows((d_high, d_low), row, inside, 0, m)

        def seen(tap):
            place = lax.div(tap, geometry.window[1]), lax.rem(tap, geometry.window[1])
            return _rows((a_high, a_low), *_seen(y, x, inside, *place, geometry), 0, c)

        return tuple(total + _product(seen(first + k), d, (0, 0)) for k, total in enumerate(totals))

    start = tuple(jnp.zeros((c, m), FLOAT) for _ in range(taps))
    totals = lax.fori_loop(0, pl.cdiv(rows * columns, launch.tile), step, start)
    for k, total in enumerate(totals):
        total = total * units[0] * units[1]
        rounded = total.astype(jnp.bfloat16)
        high[first + k] = rounded
        low[first + k] = (total - rounded.astype(FLOAT)).astype(jnp.bfloat16)


# --- contraction ----------------------------------------------------------------------------------


def product(a: Halves, b: Halves, tuning: Tuning) -> jax.Array:
    """a b^T of [n1, k] and [n2, k]; if b is a, from the upper triangle."""
    (n1, length), n2, launch = a.high.shape, len(b.high), tuning.contraction
    places = [pl.cdiv(n, launch.tile) for n in (n1, n2)]
    pairs = np.argwhere(np.triu(np.ones(places)) if b is a else np.ones(places)).astype(np.int32)
    spans = pl.cdiv(length, tuning.span)
    body = functools.partial(_contraction, tuning=tuning)
    arguments = (jnp.asarray(pairs[:, 0]), jnp.asarray(pairs[:, 1]), *a, *b)
    shape, grid = ShapeDtypeStruct((spans, n1, n2), FLOAT), (len(pairs), spans)
    parts = _call("contraction", body, arguments, grid, shape, launch, tuning.interpret)
    total = jnp.sum(parts, axis=0)
    if b is not a:
        return total
    # Products of two lows are omitted; only on the diagonal do they add up, so they are added here.
    squares = jnp.sum(jnp.square(a.low.astype(FLOAT)), axis=1)
    return jnp.where(jnp.tri(n1, dtype=bool).T, total, total.T) + jnp.diag(squares)


def _contraction(down, across, a_high, a_low, b_high, b_low, out, *, tuning):
    """Two tiles of rows, `span` columns: a matrix unit sums parts, which are then added."""
    launch = tuning.contraction
    tile, n, part = launch.tile, launch.read, pl.program_id(1)
    starts = [ref[pl.program_id(0)] * tile for ref in (down, across)]
    rows = [start + lax.iota(jnp.int32, tile) for start in starts]
    # Rows beyond the last are not stored, so the values read there do not matter.
    near = [jnp.minimum(row, ref.shape[0] - 1) for row, ref in zip(rows, (a_high, b_high))]
    steps = tuning.longest // n
    zero = jnp.zeros((tile, tile), FLOAT)

    def added(g, totals):
        total, small = totals

        def step(q, sums):
            first = part * tuning.span + g * tuning.longest + q * n
            a = _rows((a_high, a_low), near[0], None, first, n)
            b = _rows((b_high, b_low), near[1], None, first, n)
            large, small = sums
            large += _dot(a.high, b.high, (1, 1))
            return large, small + _dot(a.high, b.low, (1, 1)) + _dot(a.low, b.high, (1, 1))

        large, small = lax.fori_loop(0, steps, step, (zero, small))
        return total + large, small

    total, small = lax.fori_loop(0, tuning.span // tuning.longest, added, (zero, zero))
    row = jnp.broadcast_to(rows[0][:, None], (tile, tile))
    column = jnp.broadcast_to(rows[1][None], (tile, tile))
    mask = (row < a_high.shape[0]) & (column < b_high.shape[0])
    plt.store(out.at[part, row, column], total + small, mask=mask)
