"""GPU kernels for batch normalisation, fused with [bias, ReLU] before and [sum, ReLU] after it.

Small networks spend most of their time on kernel launches. XLA compiles the normalisation of a
layer and its gradient to about a dozen kernels; here each is two. The first sums parts of the
values; the second adds up the parts and writes the result. Values are rows of LANES: the channels
of one pixel, or of several pixels side by side. Differences from one pixel are summed, so that one
pass gives an accurate variance; sums are float32. The kernels have only reverse-mode derivatives;
`nets.norm.BatchNorm` has all.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.core import parallel
from cgjax.nets.pallas import launch as run

FLOAT = jnp.float32
LANES = 128
CHANNELS = (16, 32, 64, 128)


class Launch(NamedTuple):
    """Rows of a tile, and warps of a program."""

    tile: int
    warps: int


class Tuning(NamedTuple):
    """Launch settings of the kernels: each: those that write; sums, grad_sums: those that sum.

    numbers: parts times channels, about; every program that writes adds up the parts.
    """

    each: Launch = Launch(32, 8)
    sums: Launch = Launch(128, 16)
    grad_sums: Launch = Launch(64, 16)
    numbers: int = 2048


TUNED = Tuning()


class Settings(NamedTuple):
    """Static settings of a call."""

    rectify: bool = False  # whether a ReLU follows
    epsilon: float = 1e-5
    tuning: Tuning = TUNED
    interpret: bool = False


def supports(shape: tuple[int, ...]) -> bool:
    """Whether the kernels can run on values of this shape, on this machine."""
    return fits(shape) and parallel.on_one_nvidia()


def fits(shape: tuple[int, ...]) -> bool:
    """Whether the shape is [B, H, W, c], c in CHANNELS, and an image fills whole rows of LANES."""
    return len(shape) == 4 and shape[-1] in CHANNELS and not math.prod(shape[1:]) % LANES


@partial(jax.custom_vjp, nondiff_argnums=(6,))
def normalise(x, before, scale, bias, mask, added, settings: Settings):
    """x [B, H, W, c] -> (x normalised [+ added] [, ReLU]; mean; variance; count of values).

    before [c] in float32, or None: if given, ReLU(x + before) is normalised instead of x. mask [B]:
    images with 0 do not count. added: like x, or None. Mean, variance and count are [c] and have no
    gradient.
    """
    return _forward(x, before, scale, bias, mask, added, settings)[0]


class Numbers(NamedTuple):
    """Statistics of each channel, or their row indices; mean: of the differences from `near`."""

    factor: int = 0
    mean: int = 1
    inverse: int = 2  # 1 / standard deviation
    var: int = 3
    near: int = 4  # the reference pixel, which is subtracted
    count: int = 5


IS = Numbers()


def _forward(x, before, scale, bias, mask, added, settings):
    body = partial(sum_body, c=x.shape[-1], pixels=math.prod(x.shape[1:-1]))
    # First image that counts, and how many count: the same for all layers, so computed once.
    counted = jnp.stack([jnp.argmax(mask > 0).astype(FLOAT), jnp.sum(mask)])
    values = (_rows(x), None if before is None else before[None])
    parts = _parts(body, (counted, values, mask), 4, x, settings.tuning.sums, settings)
    body = partial(normalise_body, rectify=settings.rectify, epsilon=settings.epsilon)
    arguments = (parts, jnp.stack([scale, bias]), values, _rows(added))
    numbers, z = _each(body, arguments, len(IS), 1, x, settings)
    was_added = None if added is None else ()  # not an array: static at compile time
    saved = (values, _rows(z) if settings.rectify else None, numbers, mask, was_added)
    mean = numbers[IS.near] + numbers[IS.mean]
    return (z, mean, numbers[IS.var], numbers[IS.count]), saved


def _backward(settings, saved, grads):
    values, z, numbers, mask, was_added = saved
    grad, is_added = grads[0], was_added is not None
    inputs = (_rows(grad), z, values)
    body = partial(grad_sum_body, c=grad.shape[-1])
    parts = _parts(body, (numbers, *inputs), 2, grad, settings.tuning.grad_sums, settings)
    passes_on = is_added and settings.rectify  # otherwise the gradient passes unchanged
    arguments = (parts, numbers, mask, *inputs)
    of_channels, dx, *masked = _each(
        partial(grad_body), arguments, 2, 1 + passes_on, grad, settings
    )
    d_before = None if values[1] is None else jnp.sum(dx, (0, 1, 2), FLOAT)
    d_added = (masked[0] if passes_on else grad) if is_added else None
    return dx, d_before, *of_channels, jnp.zeros_like(mask), d_added


normalise.defvjp(_forward, _backward)


# --- launches -------------------------------------------------------------------------------------


def _rows(x):
    return None if x is None else x.reshape(-1, LANES)


def _call(body, arguments, grid, shapes, launch, settings):
    name = body.func.__name__.replace("body", "of_norm")
    body = partial(body, tile=launch.tile)
    return run.launch(body, arguments, grid, shapes, launch.warps, 2, settings.interpret, name)


def _parts(body, arguments, n, x, launch, settings):
    """n quantities of each channel over parts of the rows: [n * parts * c / LANES, LANES]."""
    rows, c = x.size // LANES, x.shape[-1]
    tiles = pl.cdiv(rows * c, launch.tile * settings.tuning.numbers)
    parts = pl.cdiv(pl.cdiv(rows, launch.tile * tiles), LANES // c) * (LANES // c)
    shape = ShapeDtypeStruct((n, parts, c), FLOAT)
    sums = _call(partial(body, tiles=tiles), arguments, (parts,), shape, launch, settings)
    return _rows(sums)


def _each(body, arguments, n_numbers, n, x, settings):
    """Statistics of each channel [n_numbers, c], and n arrays like x, computed tile by tile."""
    rows, launch = x.size // LANES, settings.tuning.each
    shapes = [ShapeDtypeStruct((n_numbers, x.shape[-1]), FLOAT)]
    shapes += [ShapeDtypeStruct((rows, LANES), x.dtype)] * n
    grid = (pl.cdiv(rows, launch.tile),)
    numbers, *arrays = _call(body, arguments, grid, shapes, launch, settings)
    return numbers, *(array.reshape(x.shape) for array in arrays)


# --- bodies ---------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A tile of rows: row and lane index [tile, LANES], and whether the row exists."""

    row: jax.Array
    lane: jax.Array
    inside: jax.Array


def place(index, tile, rows) -> Place:
    """Tile number `index`, of `tile` rows, out of `rows` rows."""
    row = index * tile + lax.broadcasted_iota(jnp.int32, (tile, LANES), 0)
    return Place(row, lax.broadcasted_iota(jnp.int32, (tile, LANES), 1), row < rows)


def load(ref, p: Place):
    """The tile in float32; zero in rows that do not exist."""
    return plt.load(ref.at[p.row, p.lane], mask=p.inside, other=0).astype(FLOAT)


def load_values(refs, p: Place, c):
    """The tile of the values to normalise; refs: x, and `before` or None."""
    x_ref, before_ref = refs
    return rectified(load(x_ref, p), before_ref, c)


def rectified(x, before_ref, c):
    """ReLU(x + before), or x without `before`."""
    return x if before_ref is None else jnp.maximum(x + per_lane(before_ref, 0, c), 0)


def per_lane(ref, row, c):
    """Row `row` of a matrix, one value for each of c channels, repeated to [1, LANES]."""
    lane = lax.rem(lax.iota(jnp.int32, LANES), c)
    return plt.load(ref.at[jnp.full((LANES,), row, jnp.int32), lane])[None, :].astype(FLOAT)


def per_row(ref, index, tile, rows):
    """The value of each row's image, for the rows of tile `index`: [tile, 1]."""
    row, n = index * tile + lax.iota(jnp.int32, tile), ref.shape[0]
    return plt.load(ref.at[lax.div(row, rows // n)], mask=row < rows, other=0)[:, None]


def of_lanes(lanes, c):
    """Sums over the lanes of each channel: [LANES] -> [c]."""
    return jnp.sum(lanes.reshape(-1, c), axis=0)


def of_tiles(tile_sums, part_ref, tile, tiles):
    """Write the sums of `tile_sums(tile index)` over all tiles of this program."""
    index = pl.program_id(0)

    def step(t, totals):
        return tuple(old + new for old, new in zip(totals, tile_sums(index * tiles + t)))

    zero = jnp.zeros((tile, LANES), FLOAT)
    for i, total in enumerate(lax.fori_loop(0, tiles, step, (zero, zero))):
        part_ref[i, index, :] = of_lanes(jnp.sum(total, axis=0), part_ref.shape[-1])


def of_parts(part_ref, i, n, c):
    """Sum over all parts of quantity i of n, for each channel, repeated to [1, LANES]."""
    size = part_ref.shape[0] // n
    row, lane = (
        lax.broadcasted_iota(jnp.int32, (pl.next_power_of_2(size), LANES), k) for k in (0, 1)
    )
    values = plt.load(part_ref.at[i * size + row, lane], mask=row < size, other=0)
    total = of_lanes(jnp.sum(values, axis=0), c)
    return jnp.broadcast_to(total[None, :], (LANES // c, c)).reshape(1, LANES)


def store_numbers(ref, values):
    """Write statistics of the channels, each [1, LANES]; only the first program does."""
    lane = lax.iota(jnp.int32, LANES)
    inside = (lane < ref.shape[1]) & (pl.program_id(0) == 0)
    for i, value in enumerate(values):
        plt.store(ref.at[jnp.full_like(lane, i), lane], value.reshape(LANES), mask=inside)


def sum_body(counted_ref, refs, mask_ref, part_ref, *, c, pixels, tile, tiles):
    """Sums of differences from a pixel that counts, and of their squares; that pixel; the count."""
    (x_ref, before_ref), index = refs, pl.program_id(0)
    first, images, rows = counted_ref[0].astype(jnp.int32), counted_ref[1], x_ref.shape[0]
    near = rectified(per_lane(x_ref, first * (rows // mask_ref.shape[0]), c), before_ref, c)

    def sums(index):
        p = place(index, tile, rows)
        apart = load_values(refs, p, c) - near
        weighted = per_row(mask_ref, index, tile, rows) * apart
        return weighted, weighted * apart

    of_tiles(sums, part_ref, tile, tiles)
    for i, value in enumerate((near, jnp.full_like(near, images * pixels)), 2):
        lane = lax.iota(jnp.int32, LANES)
        at = part_ref.at[jnp.full_like(lane, i), jnp.full_like(lane, index), lane]
        plt.store(at, value.reshape(LANES), mask=lane < c)


def normalise_body(part_ref, then_ref, refs, added_ref, numbers_ref, z_ref, **how):
    """Normalise by one product and one sum per value, add, rectify. then_ref: scale, bias."""
    c, rows = numbers_ref.shape[1], part_ref.shape[0] // 4
    p = place(pl.program_id(0), how["tile"], z_ref.shape[0])
    x, added = load_values(refs, p, c), 0 if added_ref is None else load(added_ref, p)
    near, count = (per_lane(part_ref, i * rows, c) for i in (2, 3))
    mean, square = (of_parts(part_ref, i, 4, c) / count for i in (0, 1))
    var = jnp.maximum(square - mean * mean, 0)
    inverse = lax.rsqrt(var + how["epsilon"])
    factor = per_lane(then_ref, 0, c) * inverse
    y = (x - near) * factor + (per_lane(then_ref, 1, c) - mean * factor) + added
    y = jnp.maximum(y, 0) if how["rectify"] else y
    plt.store(z_ref.at[p.row, p.lane], y.astype(z_ref.dtype), mask=p.inside)
    store_numbers(numbers_ref, Numbers(factor, mean, inverse, var, near, count))


def masked_grad(grad_ref, z_ref, p: Place):
    """The gradient of the last ReLU's input; without a ReLU, the gradient itself."""
    grad = load(grad_ref, p)
    return grad if z_ref is None else jnp.where(load(z_ref, p) > 0, grad, 0)


def grad_sum_body(numbers_ref, grad_ref, z_ref, refs, part_ref, *, c, tile, tiles):
    """Sums of the gradient, and of the gradient times the differences from the reference pixel."""
    near = per_lane(numbers_ref, IS.near, c)

    def sums(index):
        p = place(index, tile, grad_ref.shape[0])
        grad = masked_grad(grad_ref, z_ref, p)  # zero in rows that do not exist
        return grad, grad * (load_values(refs, p, c) - near)

    of_tiles(sums, part_ref, tile, tiles)


def grad_body(part_ref, numbers_ref, mask_ref, grad_ref, z_ref, refs, then_ref, *grads, tile):
    """Write gradients. then_ref: of scale and bias; grads: of x and, if present, of `added`."""
    c, rows = numbers_ref.shape[1], grad_ref.shape[0]
    p = place(pl.program_id(0), tile, rows)
    grad, x = masked_grad(grad_ref, z_ref, p), load_values(refs, p, c)
    weight = per_row(mask_ref, pl.program_id(0), tile, rows)
    known = Numbers(*(per_lane(numbers_ref, row, c) for row in IS))
    total, product = (of_parts(part_ref, i, 2, c) for i in (0, 1))
    aligned = (product - known.mean * total) * known.inverse
    slope = known.factor * known.inverse * aligned / known.count
    level = known.factor * total / known.count - known.mean * slope
    dx = known.factor * grad - weight * (level + slope * (x - known.near))
    if refs[1] is not None:
        dx = jnp.where(x > 0, dx, 0)
    for ref, value in zip(grads, (dx, grad)):
        plt.store(ref.at[p.row, p.lane], value.astype(ref.dtype), mask=p.inside)
    store_numbers(then_ref, (aligned, total))
