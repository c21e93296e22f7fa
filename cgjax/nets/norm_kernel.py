"""GPU kernels for batch normalisation with what follows it: [+ what a block adds] [, ReLU].

Small networks spend their time starting kernels, and the compiler makes a dozen of each layer's
normalisation and its gradient. Here they are two each, one that sums and one that writes, with a
few numbers for each channel in between. Values are rows of LANES: the channels of one or of several
pixels side by side. Differences are taken from one pixel, so that the variance keeps its digits in
one pass; sums are float32. Only reverse-mode derivatives exist here; `nets.norm.BatchNorm` has all.
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

FLOAT = jnp.float32
LANES = 128
CHANNELS = (16, 32, 64, 128)


class Launch(NamedTuple):
    """Rows of a tile, and warps."""

    tile: int = 16
    warps: int = 4


class Tuning(NamedTuple):
    """How the kernels are launched: those that write, that sum, and that sum for the gradient.

    parts: programs that share a sum. The sum of fewer than 32 parts needs no kernel of its own: the
    compiler does it within what follows.
    """

    each: Launch = Launch()
    sums: Launch = Launch(128, 16)
    grad_sums: Launch = Launch(64, 16)
    parts: int = 31


TUNED = Tuning()


class Settings(NamedTuple):
    """What does not change from call to call."""

    rectify: bool = False  # whether ReLU comes last
    epsilon: float = 1e-5
    tuning: Tuning = TUNED
    interpret: bool = False


def supports(shape: tuple[int, ...]) -> bool:
    """Whether the kernels can run on values of this shape, on this machine."""
    return fits(shape) and parallel.on_nvidia() and jax.device_count() == 1


def fits(shape: tuple[int, ...]) -> bool:
    """Whether it is one of images [B, H, W, c], each of a number of whole rows."""
    return len(shape) == 4 and shape[-1] in CHANNELS and not math.prod(shape[1:]) % LANES


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def normalise(x, scale, bias, mask, added, settings: Settings):
    """x [B, H, W, c] -> (the same normalised, [added,] [rectified]; mean, variance; their count).

    mask [B]: rows with 0 do not count. added: like x, or None. Mean and variance have no gradient.
    """
    return _forward(x, scale, bias, mask, added, settings)[0]


def _forward(x, scale, bias, mask, added, settings):
    tuning, c = settings.tuning, x.shape[-1]
    count = jnp.sum(mask) * math.prod(x.shape[1:-1])
    body = partial(sum_body, c=c, rows_of_image=_rows(x).shape[0] // len(x))
    share = 1 / count
    total, squares = _sums(body, (_rows(x), mask), x, tuning.sums, settings)
    mean, square = total * share, squares * share
    var = jnp.maximum(square - mean * mean, 0)
    inverse = lax.rsqrt(var + settings.epsilon)
    factor = scale * inverse
    channels = _stacked(factor, bias - mean * factor, mean, inverse, var)
    body = partial(normalise_body, rectify=settings.rectify)
    arguments = (_rows(x), channels, *([] if added is None else [_rows(added)]))
    (z,) = _each(body, arguments, 1, x, settings)
    mean = x[0, 0, 0].astype(FLOAT) + channels[2]
    was_added = None if added is None else ()  # no number: known when compiling
    saved = (x, z if settings.rectify else None, channels, mask, share, was_added)
    return (z, mean, channels[4], count), saved


def _backward(settings, saved, grads):
    x, z, channels, mask, share, was_added = saved
    grad, is_added = grads[0], was_added is not None
    seen = [_rows(grad), _rows(x), *([_rows(z)] if settings.rectify else [])]
    body = partial(grad_sum_body, c=x.shape[-1])
    total, product = _sums(body, seen, x, settings.tuning.grad_sums, settings)
    factor, _, mean, inverse, _ = channels
    aligned = (product - mean * total) * inverse
    slope = factor * inverse * aligned * share
    level = factor * total * share - mean * slope
    of_channels = _stacked(factor, level, slope, aligned, total)
    body = partial(grad_body, rectify=settings.rectify, rows_of_image=_rows(x).shape[0] // len(x))
    passes_on = is_added and settings.rectify  # else the gradient goes on as it is
    dx, *masked = _each(body, (*seen, of_channels, mask), 1 + passes_on, x, settings)
    d_added = (masked[0] if passes_on else grad) if is_added else None
    return dx, of_channels[3], of_channels[4], jnp.zeros_like(mask), d_added


normalise.defvjp(_forward, _backward)


def _stacked(*numbers):
    """Numbers of channels as one array: one kernel makes it, and nothing is computed again."""
    return lax.optimization_barrier(jnp.stack(numbers))


# --- launches -------------------------------------------------------------------------------------


def _rows(x):
    return x.reshape(-1, LANES)


def _call(body, arguments, grid, shapes, launch, settings):
    return pl.pallas_call(
        partial(body, tile=launch.tile),
        name=body.func.__name__.replace("body", "of_norm"),
        grid=grid,
        out_shape=shapes,
        interpret=settings.interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=2),
    )(*arguments)


def _sums(body, arguments, x, launch, settings):
    """Sums of two quantities for each channel [2, c]: of parts of the rows, then of the parts."""
    rows = x.size // LANES
    tiles = pl.cdiv(rows, launch.tile * settings.tuning.parts)
    parts = pl.cdiv(rows, launch.tile * tiles)
    shape = ShapeDtypeStruct((parts, 2, x.shape[-1]), FLOAT)
    body = partial(body, tiles=tiles)
    return jnp.sum(_call(body, arguments, (parts,), shape, launch, settings), axis=0)


def _each(body, arguments, n, x, settings):
    """n arrays like x, made tile by tile."""
    rows, launch = x.size // LANES, settings.tuning.each
    shapes = [ShapeDtypeStruct((rows, LANES), x.dtype)] * n
    grid = (pl.cdiv(rows, launch.tile),)
    found = _call(body, arguments, grid, shapes, launch, settings)
    return [one.reshape(x.shape) for one in found]


# --- bodies ---------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A tile of rows: where they are [tile, LANES], whether they exist."""

    row: jax.Array
    lane: jax.Array
    inside: jax.Array


def place(index, tile, rows) -> Place:
    """Tile number `index` of so many rows."""
    row = index * tile + lax.broadcasted_iota(jnp.int32, (tile, LANES), 0)
    return Place(row, lax.broadcasted_iota(jnp.int32, (tile, LANES), 1), row < rows)


def load(ref, p: Place):
    """The tile in float32, zero where there are no rows."""
    return plt.load(ref.at[p.row, p.lane], mask=p.inside, other=0).astype(FLOAT)


def per_lane(ref, first, c):
    """A value for each of c channels, from row `first`, as [1, LANES]."""
    lane = lax.rem(lax.iota(jnp.int32, LANES), c)
    return plt.load(ref.at[jnp.full((LANES,), first, jnp.int32), lane])[None, :].astype(FLOAT)


def per_row(ref, index, tile, rows, rows_of_image):
    """A value for each image, at tile number `index` of all rows: [tile, 1]."""
    row = index * tile + lax.iota(jnp.int32, tile)
    return plt.load(ref.at[lax.div(row, rows_of_image)], mask=row < rows, other=0)[:, None]


def of_tiles(tile_sums, part_ref, tile, tiles):
    """Writes the sums over all tiles of a program of what `tile_sums(number of a tile)` gives."""
    index = pl.program_id(0)

    def step(t, totals):
        return tuple(old + new for old, new in zip(totals, tile_sums(index * tiles + t)))

    zero = jnp.zeros((tile, LANES), FLOAT)
    for i, total in enumerate(lax.fori_loop(0, tiles, step, (zero, zero))):
        lanes = jnp.sum(total, axis=0)
        part_ref[index, i, :] = jnp.sum(lanes.reshape(-1, part_ref.shape[-1]), axis=0)


def sum_body(x_ref, mask_ref, part_ref, *, c, rows_of_image, tile, tiles):
    """Sums of the differences from the first pixel and of their squares."""
    near = per_lane(x_ref, 0, c)

    def sums(index):
        p = place(index, tile, x_ref.shape[0])
        apart = load(x_ref, p) - near
        weighted = per_row(mask_ref, index, tile, x_ref.shape[0], rows_of_image) * apart
        return weighted, weighted * apart

    of_tiles(sums, part_ref, tile, tiles)


def normalise_body(x_ref, channels_ref, *refs, rectify, tile):
    """One product and one sum for each value, and what follows; refs: [added,] z."""
    *added_refs, z_ref = refs
    c = channels_ref.shape[1]
    p = place(pl.program_id(0), tile, x_ref.shape[0])
    apart = load(x_ref, p) - per_lane(x_ref, 0, c)
    y = apart * per_lane(channels_ref, 0, c) + per_lane(channels_ref, 1, c)
    for ref in added_refs:
        y += load(ref, p)
    if rectify:
        y = jnp.maximum(y, 0)
    plt.store(z_ref.at[p.row, p.lane], y.astype(z_ref.dtype), mask=p.inside)


def masked_grad(grad_ref, z_refs, p: Place):
    """The gradient in front of the ReLU, if there is one."""
    grad = load(grad_ref, p)
    return jnp.where(load(z_refs[0], p) > 0, grad, 0) if z_refs else grad


def grad_sum_body(grad_ref, x_ref, *refs, c, tile, tiles):
    """Sums of the gradient, and of it times the differences; refs: [z,] parts."""
    *z_refs, part_ref = refs
    near = per_lane(x_ref, 0, c)

    def sums(index):
        p = place(index, tile, x_ref.shape[0])
        grad = masked_grad(grad_ref, z_refs, p)  # zero where there are no rows
        return grad, grad * (load(x_ref, p) - near)

    of_tiles(sums, part_ref, tile, tiles)


def grad_body(grad_ref, x_ref, *refs, rectify, rows_of_image, tile):
    """refs: [z,] numbers of channels, mask, gradient of x [, of what was added]."""
    *z_refs, channels_ref, mask_ref = refs[: 2 + rectify]
    c = channels_ref.shape[1]
    factor, level, slope = (per_lane(channels_ref, i, c) for i in range(3))
    p = place(pl.program_id(0), tile, x_ref.shape[0])
    grad = masked_grad(grad_ref, z_refs, p)
    apart = load(x_ref, p) - per_lane(x_ref, 0, c)
    weight = per_row(mask_ref, pl.program_id(0), tile, x_ref.shape[0], rows_of_image)
    dx = factor * grad - weight * (level + slope * apart)
    for ref, value in zip(refs[2 + rectify :], (dx, grad)):
        plt.store(ref.at[p.row, p.lane], value.astype(ref.dtype), mask=p.inside)
