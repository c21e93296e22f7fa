"""GPU kernels for a decoder's stages: bilinear x2, 2x2 convolution, bias and ELU in one pass.

Images are matrices [pixels, channels], pixels of all samples in row-major order. Between n and 2n
points whose ends coincide, output 2m lies between points m-1 and m, output 2m+1 between m and m+1,
so a tile of low-resolution pixels needs its 3x3 neighbours only, and no tensor of interpolated
values ever reaches memory. Sums are float32 whatever the dtype of the activations.
Only reverse-mode derivatives exist here; `upsample.reordered` has both.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.nets.upsample import axis_weights, elu

COLUMNS = 16  # the last stage's 4 taps x up to 4 channels side by side, the least a product takes
FLOAT = jnp.float32


class Launch(NamedTuple):
    """Pixels per tile, warps per program, and (backward only) the most tiles per program."""

    tile: int = 64
    warps: int = 4
    tiles: int = 1


class Tuning(NamedTuple):
    """How the four kernels are launched.

    programs: backward kernels take fewer tiles each rather than be fewer than this;
    planar: one plane per output channel in memory, else channels last;
    wide: images and their gradients in float32, else in the dtype of the activations.
    """

    stage: Launch = Launch()
    last: Launch = Launch()
    stage_back: Launch = Launch(tiles=8)
    last_back: Launch = Launch(128, 4, 8)
    programs: int = 128
    planar: bool = True
    wide: bool = True


TUNED = Tuning()


def supports(channels: int, out_channels: int, kernel: int, activation: str) -> bool:
    """Whether the kernels can run this decoder."""
    fits = channels in (16, 32, 64, 128) and out_channels <= COLUMNS // 4
    return fits and kernel == 2 and activation == "elu"


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def upsample_stack(x: jax.Array, convs, tuning: Tuning = TUNED, interpret: bool = False):
    """Stages of a decoder: x [B,n,n,c] and [(kernel [2,2,c,o], bias [o]), ...] -> float32 images.

    ELU follows every stage but the last; activations keep the dtype of x. n: a power of two;
    images: [B, 2^stages n, 2^stages n, o], o at most 4.
    """
    return _stack_forward(x, convs, tuning, interpret)[0]


def _stack_forward(x, convs, tuning, interpret):
    batch, n, _, c = x.shape
    hidden = [x.reshape(-1, c)]
    for conv in convs[:-1]:
        hidden.append(_stage(hidden[-1], *conv, n, tuning, interpret))
        n *= 2
    image = _last_stage(hidden[-1], *convs[-1], n, tuning, interpret)
    if tuning.planar:
        image = jnp.moveaxis(image.reshape(-1, batch, 2 * n, 2 * n), 0, -1)
    else:
        image = image.reshape(batch, 2 * n, 2 * n, -1)
    return image.astype(FLOAT), (hidden, [kernel for kernel, _ in convs])


def _stack_backward(tuning, interpret, saved, grad):
    hidden, kernels = saved
    batch, size, _, out = grad.shape
    grad = grad.astype(FLOAT if tuning.wide else hidden[0].dtype)
    grad = jnp.moveaxis(grad, -1, 0).reshape(out, -1) if tuning.planar else grad.reshape(-1, out)
    n = size // 2
    grad, d_kernel, d_bias, d_lower = _last_stage_back(
        grad, hidden[-1], kernels[-1], n, tuning, interpret
    )
    d_convs = [(d_kernel, d_bias)]
    for i in reversed(range(len(kernels) - 1)):
        n //= 2
        d_bias = d_lower
        grad, d_kernel, d_lower = _stage_back(
            grad, hidden[i], kernels[i], n, i > 0, tuning, interpret
        )
        d_convs.insert(0, (d_kernel, d_bias))
    return grad.reshape(batch, n, n, -1), d_convs


upsample_stack.defvjp(_stack_forward, _stack_backward)


# --- calls -------------------------------------------------------------------------------------


def _forward(body, x, kernel, bias, out_shape, launch, interpret):
    return pl.pallas_call(
        partial(body, tile=launch.tile),
        grid=(pl.cdiv(x.shape[0], launch.tile),),
        out_shape=out_shape,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=1),
    )(x, kernel, bias)


def _backward(body, grad, x, kernel, sums, launch, programs, interpret):
    """dx like x, and for each shape in `sums` an array added up over programs."""
    tiles = max(1, min(launch.tiles, x.shape[0] // (launch.tile * programs)))
    programs = pl.cdiv(x.shape[0], launch.tile * tiles)
    dx, *parts = pl.pallas_call(
        partial(body, tile=launch.tile, tiles=tiles),
        grid=(programs,),
        out_shape=[ShapeDtypeStruct(x.shape, x.dtype)]
        + [ShapeDtypeStruct((programs, *shape), FLOAT) for shape in sums],
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=1),
    )(grad, x, kernel)
    return dx, *(jnp.sum(part, axis=0) for part in parts)


def _stage(x, kernel, bias, n, tuning, interpret):
    """ELU(conv(upsampled x)): x [R, c] -> [4R, o]."""
    shape = ShapeDtypeStruct((4 * x.shape[0], kernel.shape[-1]), x.dtype)
    return _forward(partial(_stage_body, n=n), x, kernel, bias, shape, tuning.stage, interpret)


def _last_stage(x, kernel, bias, n, tuning, interpret):
    """conv(upsampled x) for few output channels: x [R, c] -> [4R, o], or [o, 4R] if planar."""
    shape = (4 * x.shape[0], kernel.shape[-1])
    shape = shape[::-1] if tuning.planar else shape
    shape = ShapeDtypeStruct(shape, FLOAT if tuning.wide else x.dtype)
    body = partial(_last_stage_body, n=n, planar=tuning.planar)
    return _forward(body, x, kernel, bias, shape, tuning.last, interpret)


def _stage_back(grad, x, kernel, n, through_elu, tuning, interpret):
    """Gradients of `_stage` before its ELU: grad [4R, o] -> dx [R, c], d_kernel, sum of dx.

    through_elu: x is an ELU's output and dx is wanted in front of that ELU.
    """
    body = partial(_stage_back_body, n=n, through_elu=through_elu)
    sums = (kernel.shape, x.shape[1:])
    return _backward(body, grad, x, kernel, sums, tuning.stage_back, tuning.programs, interpret)


def _last_stage_back(grad, x, kernel, n, tuning, interpret):
    """Gradients of `_last_stage`: grad [4R, o] -> dx [R, c] before ELU, d_kernel, d_bias, sum."""
    c, out = kernel.shape[2:]
    body = partial(_last_stage_back_body, n=n, planar=tuning.planar)
    dx, columns, d_bias, d_sum = _backward(
        body, grad, x, kernel, ((c, COLUMNS), (4,), (c,)), tuning.last_back, tuning.programs,
        interpret,
    )  # fmt: skip
    d_kernel = columns.reshape(c, 4, 2, 2)[:, :out].transpose(2, 3, 0, 1)
    return dx, d_kernel, d_bias[:out], d_sum


# --- geometry ----------------------------------------------------------------------------------


class Pixels(NamedTuple):
    """A tile of low-resolution pixels: flat row, place (m, k) in its image, whether it exists."""

    row: jax.Array
    m: jax.Array
    k: jax.Array
    inside: jax.Array


def _pixels(index, tile, n, rows):
    row = index * tile + lax.iota(jnp.int32, tile)
    shift = n.bit_length() - 1
    return Pixels(row, (row >> shift) & (n - 1), row & (n - 1), row < rows)


def _neighbour(p, n, dm, dk):
    """Row of the pixel dm below and dk to the right, and whether it is in the same image."""
    inside = p.inside
    if dm:
        inside &= (p.m + dm >= 0) & (p.m + dm < n)
    if dk:
        inside &= (p.k + dk >= 0) & (p.k + dk < n)
    return p.row + (dm * n + dk), inside


def _fine_row(p, n, a, b):
    """Row of the high-resolution pixel (2m + a, 2k + b)."""
    return 4 * p.row - 2 * p.k + (2 * n * a + b)


def _at(ref, row, width, inside, planar=False):
    """Where `row` [tile] and the first `width` columns of a matrix lie, and whether they exist."""
    column = lax.broadcasted_iota(jnp.int32, (row.shape[0], width), 1)
    row = jnp.broadcast_to(row[:, None], column.shape)
    mask = jnp.broadcast_to(inside[:, None], column.shape)
    columns = ref.shape[0] if planar else ref.shape[1]
    if width > columns:
        mask &= column < columns
    return (ref.at[column, row] if planar else ref.at[row, column]), mask


def _load(ref, row, inside):
    at, mask = _at(ref, row, ref.shape[1], inside)
    return plt.load(at, mask=mask, other=0)


def _store(ref, row, inside, value, planar=False):
    at, mask = _at(ref, row, value.shape[1], inside, planar)
    plt.store(at, value.astype(ref.dtype), mask=mask)


def _weights(m, n):
    return axis_weights(m.astype(FLOAT)[:, None], n)


# Which fine points enter the gradient of coarse point m: (parity, offset in m) -> for each tap of
# the convolution the weight that applies, or none.
def _back_weights(w):
    return {
        (0, -1): (None, w.previous_odd),
        (0, 0): (1 - w.even, 1 - w.odd),
        (0, 1): (w.next_even, None),
        (1, -1): (w.previous_odd, 1 - w.even),
        (1, 0): (1 - w.odd, w.next_even),
    }


def _accumulate(total, weight, value):
    if weight is None:
        return total
    return weight * value if total is None else total + weight * value


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=FLOAT)


def _elu_slope(y):
    return jnp.where(y > 0, 1.0, y + 1)


# --- inner stages ------------------------------------------------------------------------------


def _stage_body(x_ref, kernel_ref, bias_ref, y_ref, *, n, tile):
    dtype = x_ref.dtype
    p = _pixels(pl.program_id(0), tile, n, x_ref.shape[0])
    x = {
        (dm, dk): _load(x_ref, *_neighbour(p, n, dm, dk)).astype(FLOAT)
        for dm in (-1, 0, 1)
        for dk in (-1, 0, 1)
    }
    kernel = [[kernel_ref[kh, kw].astype(dtype) for kw in (0, 1)] for kh in (0, 1)]

    def points(w):
        # The upsampled points 2m, 2m+1, 2m+2 that outputs 2m and 2m+1 meet through both taps:
        # lower neighbour's offset and the weights of it and of the next one.
        return (
            (-1, w.even, 1 - w.even),
            (0, 1 - w.odd, w.odd),
            (0, w.next_even, w.inner - w.next_even),
        )

    columns = points(_weights(p.k, n))
    y = [[jnp.zeros((tile, y_ref.shape[-1]), FLOAT) for _ in (0, 1)] for _ in (0, 1)]
    for i, (dm, low, high) in enumerate(points(_weights(p.m, n))):
        row = {dk: low * x[dm, dk] + high * x[dm + 1, dk] for dk in (-1, 0, 1)}
        for j, (dk, left, right) in enumerate(columns):
            point = (left * row[dk] + right * row[dk + 1]).astype(dtype)
            for a in (0, 1):
                for b in (0, 1):
                    if i - a in (0, 1) and j - b in (0, 1):
                        y[a][b] += _dot(point, kernel[i - a][j - b], (1, 0))
    bias = bias_ref[:][None, :]
    for a in (0, 1):
        for b in (0, 1):
            _store(y_ref, _fine_row(p, n, a, b), p.inside, elu(y[a][b] + bias))


def _back_taps(grad_fn, p, n):
    """Gradient at the mixed channels of each tap: [[tile, o] for kw] for kh, float32."""
    rows, columns = (_back_weights(_weights(at, n)) for at in (p.m, p.k))
    taps = [[None, None], [None, None]]
    for (b, dk), column_weights in columns.items():
        row_taps = [None, None]
        for (a, dm), row_weights in rows.items():
            value = grad_fn(a, b, dm, dk)
            row_taps = [_accumulate(t, w, value) for t, w in zip(row_taps, row_weights)]
        for kh in (0, 1):
            for kw in (0, 1):
                taps[kh][kw] = _accumulate(taps[kh][kw], column_weights[kw], row_taps[kh])
    return taps


def _stage_back_body(
    grad_ref, x_ref, kernel_ref, dx_ref, d_kernel_ref, d_sum_ref, *, n, tile, tiles, through_elu
):
    dtype = x_ref.dtype
    rows, c = x_ref.shape
    out = grad_ref.shape[-1]
    first = pl.program_id(0) * tiles
    kernel = [[kernel_ref[kh, kw].astype(dtype) for kw in (0, 1)] for kh in (0, 1)]

    def step(t, carry):
        d_kernel, d_sum = carry
        p = _pixels(first + t, tile, n, rows)

        def grad(a, b, dm, dk):
            _, inside = _neighbour(p, n, dm, dk)
            row = _fine_row(p, n, a, b) + (4 * n * dm + 2 * dk)
            return _load(grad_ref, row, inside).astype(FLOAT)

        taps = _back_taps(grad, p, n)
        x = _load(x_ref, p.row, p.inside)
        dx = jnp.zeros((tile, c), FLOAT)
        new = []
        for kh in (0, 1):
            for kw in (0, 1):
                tap = taps[kh][kw].astype(dtype)
                dx += _dot(tap, kernel[kh][kw], (1, 1))
                new.append(d_kernel[2 * kh + kw] + _dot(x, tap, (0, 0)))
        if through_elu:
            dx *= _elu_slope(x.astype(FLOAT))
            d_sum = d_sum + jnp.sum(dx, axis=0)
        _store(dx_ref, p.row, p.inside, dx)
        return tuple(new), d_sum

    zero = tuple(jnp.zeros((c, out), FLOAT) for _ in range(4))
    d_kernel, d_sum = lax.fori_loop(0, tiles, step, (zero, jnp.zeros(c, FLOAT)))
    for k in range(4):
        d_kernel_ref[pl.program_id(0), k // 2, k % 2] = d_kernel[k]
    d_sum_ref[pl.program_id(0)] = d_sum


# --- last stage --------------------------------------------------------------------------------
# With at most four output channels, channels are mixed first: column 4 o + 2 kh + kw of the mixed
# pixels belongs to output channel o and tap (kh, kw).


def _columns(kernel_ref):
    """The kernel [2,2,c,o] as [c, COLUMNS], and the taps (kh, kw) [1, COLUMNS] of the columns."""
    _, _, c, out = kernel_ref.shape
    column = lax.broadcasted_iota(jnp.int32, (c, COLUMNS), 1)
    channel = lax.broadcasted_iota(jnp.int32, (c, COLUMNS), 0)
    kh, kw, o = (column >> 1) & 1, column & 1, column >> 2
    kernel = plt.load(kernel_ref.at[kh, kw, channel, o], mask=o < out, other=0)
    tap = lax.broadcasted_iota(jnp.int32, (1, COLUMNS), 1)
    return kernel, (tap >> 1) & 1, tap & 1


def _last_stage_body(x_ref, kernel_ref, bias_ref, y_ref, *, n, tile, planar):
    dtype = x_ref.dtype
    p = _pixels(pl.program_id(0), tile, n, x_ref.shape[0])
    kernel, kh, kw = _columns(kernel_ref)
    kernel = kernel.astype(dtype)
    mixed = {
        (dm, dk): _dot(_load(x_ref, *_neighbour(p, n, dm, dk)), kernel, (1, 0))
        for dm in (-1, 0, 1)
        for dk in (-1, 0, 1)
    }

    def weights(w, tap):
        # Per parity of the output: weights [tile, COLUMNS] of the neighbours it reads.
        first = tap == 0
        return (
            {
                -1: jnp.where(first, w.even, 0.0),
                0: jnp.where(first, 1 - w.even, 1 - w.odd),
                1: jnp.where(first, 0.0, w.odd),
            },
            {
                0: jnp.where(first, 1 - w.odd, w.next_even),
                1: jnp.where(first, w.odd, w.inner - w.next_even),
            },
        )

    columns = weights(_weights(p.k, n), kw)
    o = lax.iota(jnp.int32, 4)
    bias = plt.load(bias_ref.at[o], mask=o < bias_ref.shape[0], other=0)[None, :]
    for a, row_weights in enumerate(weights(_weights(p.m, n), kh)):
        row = {dk: sum(w * mixed[dm, dk] for dm, w in row_weights.items()) for dk in (-1, 0, 1)}
        for b, column_weights in enumerate(columns):
            value = sum(w * row[dk] for dk, w in column_weights.items())
            value = jnp.sum(value.reshape(tile, 4, 4), axis=2) + bias
            _store(y_ref, _fine_row(p, n, a, b), p.inside, value, planar)


def _last_stage_back_body(
    grad_ref, x_ref, kernel_ref, dx_ref, columns_ref, d_bias_ref, d_sum_ref,
    *, n, tile, tiles, planar,
):  # fmt: skip
    dtype = x_ref.dtype
    rows, c = x_ref.shape
    first = pl.program_id(0) * tiles
    kernel = _columns(kernel_ref)[0].astype(dtype)

    def step(t, carry):
        columns, d_bias, d_sum = carry
        p = _pixels(first + t, tile, n, rows)
        total = []

        def grad(a, b, dm, dk):
            _, inside = _neighbour(p, n, dm, dk)
            row = _fine_row(p, n, a, b) + (4 * n * dm + 2 * dk)
            at, mask = _at(grad_ref, row, 4, inside, planar)
            value = plt.load(at, mask=mask, other=0).astype(FLOAT)
            if not (dm or dk):
                total.append(value)
            return value

        taps = _back_taps(grad, p, n)
        pairs = [jnp.stack([taps[0][kw], taps[1][kw]], axis=-1) for kw in (0, 1)]
        mixed = jnp.stack(pairs, axis=-1).reshape(tile, COLUMNS).astype(dtype)
        x = _load(x_ref, p.row, p.inside)
        columns = columns + _dot(x, mixed, (0, 0))
        dx = _dot(mixed, kernel, (1, 1)) * _elu_slope(x.astype(FLOAT))
        _store(dx_ref, p.row, p.inside, dx)
        return columns, d_bias + sum(total), d_sum + jnp.sum(dx, axis=0)

    zero = tuple(jnp.zeros(shape, FLOAT) for shape in ((c, COLUMNS), (tile, 4), (c,)))
    columns, d_bias, d_sum = lax.fori_loop(0, tiles, step, zero)
    columns_ref[pl.program_id(0)] = columns
    d_bias_ref[pl.program_id(0)] = jnp.sum(d_bias, axis=0)
    d_sum_ref[pl.program_id(0)] = d_sum
