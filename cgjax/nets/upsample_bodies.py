"""Bodies of the decoder's GPU kernels; `upsample_kernel` launches them.

Each program works on tiles of low-resolution pixels; sums are float32 whatever the dtype of the
activations. "Mixed" pixels are products with the next kernel: column 4 o + 2 kh + kw belongs to
output channel o and tap (kh, kw).
"""

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.nets import upsample_geometry as geo
from cgjax.nets.upsample import elu
from cgjax.nets.upsample_geometry import FLOAT

COLUMNS = 16  # the last stage's 4 taps x up to 4 channels side by side, the least a product takes


def mixing_columns(kernel_ref, width):
    """The kernel [2,2,c,o] as [c, width], width >= 4 o."""
    _, _, c, out = kernel_ref.shape
    column = lax.broadcasted_iota(jnp.int32, (c, width), 1)
    channel = lax.broadcasted_iota(jnp.int32, (c, width), 0)
    kh, kw, o = (column >> 1) & 1, column & 1, column >> 2
    return plt.load(kernel_ref.at[kh, kw, channel, o], mask=o < out, other=0)


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=FLOAT)


def _elu_slope(y):
    return jnp.where(y > 0, 1.0, y + 1)


# --- inner stages, forward ---------------------------------------------------------------------


def stage_body(x_ref, kernel_ref, bias_ref, *refs, n, tile, lazy, planes):
    """ELU(conv(upsampled x)); refs: [next kernel,] y [, mixed], mixed as planes or as rows."""
    next_ref, y_ref, mixed_ref = refs if len(refs) == 3 else (None, *refs, None)
    dtype = x_ref.dtype
    index = pl.program_id(0)
    p = geo.pixels(index, tile, n, x_ref.shape[0])
    pairs = geo.pixels(index, tile, n, x_ref.shape[0], copies=2) if planes else None
    kernel = [[kernel_ref[kh, kw].astype(dtype) for kw in (0, 1)] for kh in (0, 1)]
    mixer = mixing_columns(next_ref, COLUMNS).astype(dtype) if next_ref is not None else None
    bias = bias_ref[:][None, :]

    def load_row(dm):
        row = [geo.load(x_ref, *geo.neighbour(p, n, dm, dk)) for dk in (-1, 0, 1)]
        return row if lazy else [x.astype(FLOAT) for x in row]

    def finish(a, sums):
        y = [elu(total + bias).astype(dtype) for total in sums]
        for b in (0, 1):
            geo.store(y_ref, geo.fine_row(p, n, a, b), p.inside, y[b])
        if mixed_ref is None:
            return
        mixed = [_dot(value, mixer, (1, 0)) for value in y]
        if planes:
            geo.store_pairs(mixed_ref, pairs, n, a, *mixed)
            return
        for b in (0, 1):
            geo.store(mixed_ref, geo.fine_row(p, n, a, b), p.inside, mixed[b])

    rows, columns = (geo.points(geo.as_column(geo.weights(at, n))) for at in (p.m, p.k))
    sums = [[jnp.zeros((tile, y_ref.shape[-1]), FLOAT) for _ in (0, 1)] for _ in (0, 1)]
    x = [] if lazy else [load_row(dm) for dm in (-1, 0, 1)]
    for i, (dm, low, high) in enumerate(rows):
        while len(x) < dm + 3:
            x.append(load_row(len(x) - 1))
        row = [low * u.astype(FLOAT) + high * v.astype(FLOAT) for u, v in zip(x[dm + 1], x[dm + 2])]
        for j, (dk, left, right) in enumerate(columns):
            point = (left * row[dk + 1] + right * row[dk + 2]).astype(dtype)
            for a in (i - 1, i):
                for b in (j - 1, j):
                    if a in (0, 1) and b in (0, 1):
                        sums[a][b] += _dot(point, kernel[i - a][j - b], (1, 0))
        if lazy and i:
            finish(i - 1, sums[i - 1])
    if not lazy:
        for a in (0, 1):
            finish(a, sums[a])


# --- last stage, forward -----------------------------------------------------------------------


def interpolate_rows_body(*refs, n, tile, pairs):
    """Images from rows: refs (mixed [R, COLUMNS], or x [R, c] and kernel), bias, y planes."""
    *sources, bias_ref, y_ref = refs
    source = sources[0]
    p = geo.pixels(pl.program_id(0), tile, n, source.shape[0])
    twice = geo.pixels(pl.program_id(0), tile, n, source.shape[0], copies=2)
    mixer = mixing_columns(sources[1], COLUMNS).astype(source.dtype) if sources[1:] else None

    def mixed(dm, dk):
        value = geo.load(source, *geo.neighbour(p, n, dm, dk))
        return value.astype(FLOAT) if mixer is None else _dot(value, mixer, (1, 0))

    column = lax.broadcasted_iota(jnp.int32, (1, COLUMNS), 1)
    down = _column_weights(p.m, n, (column >> 1) & 1)
    across = _column_weights(p.k, n, column & 1)
    neighbours = {(dm, dk): mixed(dm, dk) for dk in (-1, 0, 1) for dm in (-1, 0, 1)}
    o = lax.iota(jnp.int32, 4)
    bias = plt.load(bias_ref.at[o], mask=o < bias_ref.shape[0], other=0)[None, :]
    for a in (0, 1):
        row = {
            dk: sum(w * neighbours[dm, dk] for dm, w in down[a].items()) for dk in (-1, 0, 1)
        }  # fmt: skip
        y = [sum(w * row[dk] for dk, w in across[b].items()) for b in (0, 1)]
        y = [jnp.sum(value.reshape(tile, 4, 4), axis=2) + bias for value in y]
        if pairs:
            geo.store_pairs(y_ref, twice, n, a, *y)
            continue
        for b in (0, 1):
            geo.store(y_ref, geo.fine_row(p, n, a, b), p.inside, y[b], planes=True)


def _column_weights(m, n, tap):
    """Per parity of the output: offset of a neighbour -> its weights [tile, COLUMNS]."""
    table = geo.tap_weights(geo.as_column(geo.weights(m, n)))
    none = (None, None)

    def choose(parity, offset):
        first, second = (table.get((t, offset), none)[parity] for t in (0, 1))
        if first is None and second is None:
            return {}
        zero = jnp.zeros((), FLOAT)
        return {
            offset: jnp.where(
                tap == 0, zero if first is None else first, zero if second is None else second
            )
        }

    return [choose(a, -1) | choose(a, 0) | choose(a, 1) for a in (0, 1)]


def interpolate_planes_body(mixed_ref, bias_ref, y_ref, *, n, tile):
    """Images from mixed planes [4 o, R]: one output channel after the other, pixels only."""
    p = geo.pixels(pl.program_id(0), tile, n, mixed_ref.shape[1])
    twice = geo.pixels(pl.program_id(0), tile, n, mixed_ref.shape[1], copies=2)
    down, across = (geo.tap_weights(geo.weights(at, n)) for at in (p.m, p.k))
    for o in range(y_ref.shape[0]):

        def read(kh, kw, dm, dk, o=o):
            return geo.load_plane(mixed_ref, 4 * o + 2 * kh + kw, *geo.neighbour(p, n, dm, dk))

        y = geo.stencil_sums(read, down, across)
        for a in (0, 1):
            value = geo.interleave(y[a], (2 * tile,)) + bias_ref[o]
            geo.store_plane(y_ref, o, geo.pair_row(twice, n, a), twice.inside, value)


# --- backward ----------------------------------------------------------------------------------
# The gradient at the mixed pixels [tile, 4 o] is gathered from 5x5 high-resolution neighbours;
# from it follow, by one product each, the gradients of the kernel and of the pixels.


def gather_pixels(grad_ref, p, n, tile):
    """From rows [4 R, o] -> mixed gradient [tile, 4 o]."""
    down, across = (geo.back_weights(geo.as_column(geo.weights(at, n))) for at in (p.m, p.k))
    taps = geo.stencil_sums(
        lambda *at: geo.load(grad_ref, *geo.fine_neighbour(p, n, *at)), down, across
    )
    return geo.interleave([*taps[0], *taps[1]], (tile, 4 * grad_ref.shape[1]))


def gather_planes(grad_ref, p, n, tile):
    """From planes [o, 4 R] -> columns of the mixed gradient, 4 o x [tile], and sums [tile] x o."""
    down, across = (geo.back_weights(geo.weights(at, n)) for at in (p.m, p.k))
    columns, totals = [], []
    for o in range(grad_ref.shape[0]):
        own = []

        def read(a, b, dm, dk, o=o, own=own):
            value = geo.load_plane(grad_ref, o, *geo.fine_neighbour(p, n, a, b, dm, dk))
            if not (dm or dk):
                own.append(value)
            return value

        taps = geo.stencil_sums(read, down, across)
        columns += [*taps[0], *taps[1]]
        totals.append(sum(own))
    return columns, totals


def gather_planes_joint(grad_ref, p, n, tile):
    """From planes [o, 4 R] together -> mixed gradient [tile, COLUMNS], sums [tile, 4]."""
    down, across = (geo.back_weights(geo.as_column(geo.weights(at, n))) for at in (p.m, p.k))
    own = []

    def read(a, b, dm, dk):
        value = geo.load(grad_ref, *geo.fine_neighbour(p, n, a, b, dm, dk), 4)
        if not (dm or dk):
            own.append(value)
        return value

    taps = geo.stencil_sums(read, down, across)
    return geo.interleave([*taps[0], *taps[1]], (tile, COLUMNS)), sum(own)


def gather_body(grad_ref, mixed_ref, d_bias_ref, *, n, tile):
    """Gradient [o, 4 R] -> mixed gradient as planes [4 o, R], and its sum per program."""
    p = geo.pixels(pl.program_id(0), tile, n, mixed_ref.shape[1])
    columns, totals = gather_planes(grad_ref, p, n, tile)
    for i, column in enumerate(columns):
        geo.store_plane(mixed_ref, i, p.row, p.inside, column)
    for o, total in enumerate(totals):
        d_bias_ref[pl.program_id(0), o] = jnp.sum(total)


def _mixed_gradient(source, grad_ref, p, n, tile):
    """Mixed gradient [tile, 4 o] of a tile and arrays whose sums are the bias's gradient."""
    if source == "mixed":
        return geo.load_across(grad_ref, p.row, p.inside, COLUMNS), ()
    if source == "planes":
        columns, totals = gather_planes(grad_ref, p, n, tile)
        columns += [jnp.zeros(tile, FLOAT)] * (COLUMNS - len(columns))
        return geo.interleave(columns, (tile, COLUMNS)), tuple(totals)
    if source == "joint":
        mixed, total = gather_planes_joint(grad_ref, p, n, tile)
        return mixed, (total,)
    return gather_pixels(grad_ref, p, n, tile), ()


def back_body(
    grad_ref, x_ref, kernel_ref, dx_ref, columns_ref, d_sum_ref, *d_bias_ref,
    n, tile, tiles, source, through_elu,
):  # fmt: skip
    """dx, and per program the gradient of `mixing_columns`, the sum of dx and the bias's gradient.

    source: what the gradient is, "pixels" (rows), "planes", "joint" (planes read together), or
    "mixed" (planes from `gather_body`); through_elu: x is an ELU's output and dx is wanted in
    front of that ELU.
    """
    dtype = x_ref.dtype
    c, width = columns_ref.shape[1:]
    kernel = mixing_columns(kernel_ref, width).astype(dtype)
    index = pl.program_id(0)

    def step(t, carry):
        columns, d_sum, totals = carry
        p = geo.pixels(index * tiles + t, tile, n, x_ref.shape[0])
        mixed, new = _mixed_gradient(source, grad_ref, p, n, tile)
        mixed = mixed.astype(dtype)
        x = geo.load(x_ref, p.row, p.inside)
        columns += _dot(x, mixed, (0, 0))
        dx = _dot(mixed, kernel, (1, 1))
        if through_elu:
            dx *= _elu_slope(x.astype(FLOAT))
            d_sum += jnp.sum(dx, axis=0)
        geo.store(dx_ref, p.row, p.inside, dx)
        return columns, d_sum, tuple(old + more for old, more in zip(totals, new))

    shapes = {"planes": ((tile,),) * grad_ref.shape[0], "joint": ((tile, 4),)}.get(source, ())
    totals = tuple(jnp.zeros(shape, FLOAT) for shape in shapes)
    zero = (jnp.zeros((c, width), FLOAT), jnp.zeros(c, FLOAT), totals)
    columns, d_sum, totals = lax.fori_loop(0, tiles, step, zero)
    columns_ref[index] = columns
    d_sum_ref[index] = d_sum
    if source == "joint":
        d_bias_ref[0][index] = jnp.sum(totals[0], axis=0)
    elif totals:
        for o, total in enumerate(totals):
            d_bias_ref[0][index, o] = jnp.sum(total)


def tap_back_body(
    grad_ref, x_ref, kernel_ref, dx_ref, d_kernel_ref, d_sum_ref, *, n, tile, tiles, through_elu
):
    """`back_body` from rows with one product per tap; d_kernel per program: [2, 2, c, o]."""
    dtype = x_ref.dtype
    c, out = kernel_ref.shape[2:]
    kernel = [[kernel_ref[kh, kw].astype(dtype) for kw in (0, 1)] for kh in (0, 1)]
    index = pl.program_id(0)

    def step(t, carry):
        d_kernel, d_sum = carry
        p = geo.pixels(index * tiles + t, tile, n, x_ref.shape[0])
        down, across = (geo.back_weights(geo.as_column(geo.weights(at, n))) for at in (p.m, p.k))
        taps = geo.stencil_sums(
            lambda *at: geo.load(grad_ref, *geo.fine_neighbour(p, n, *at)), down, across
        )
        x = geo.load(x_ref, p.row, p.inside)
        dx = jnp.zeros((tile, c), FLOAT)
        new = []
        for kh in (0, 1):
            for kw in (0, 1):
                tap = taps[kh][kw].astype(dtype)
                dx += _dot(tap, kernel[kh][kw], (1, 1))
                new.append(d_kernel[2 * kh + kw] + _dot(x, tap, (0, 0)))
        if through_elu:
            dx *= _elu_slope(x.astype(FLOAT))
            d_sum += jnp.sum(dx, axis=0)
        geo.store(dx_ref, p.row, p.inside, dx)
        return tuple(new), d_sum

    zero = tuple(jnp.zeros((c, out), FLOAT) for _ in range(4))
    d_kernel, d_sum = lax.fori_loop(0, tiles, step, (zero, jnp.zeros(c, FLOAT)))
    for k in range(4):
        d_kernel_ref[index, k // 2, k % 2] = d_kernel[k]
    d_sum_ref[index] = d_sum
