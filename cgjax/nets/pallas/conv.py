"""GPU kernels for small convolutions, of one network or, under `jax.vmap`, of several at once.

XLA's convolutions are optimised for many channels. For several networks they become grouped
convolutions, which are slower than one convolution after another. Here a program loops over the
taps (or groups of taps) and multiplies the inputs of a tile of positions by the tap's matrix.
Patches are never written to memory, and the networks are one more axis of the grid. Products are in
the dtype of x (float32: TF32), sums in float32. The kernels have only reverse-mode derivatives; the
other forms of `nets.conv.convolve` also have forward-mode ones.
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
dot = partial(jnp.dot, preferred_element_type=FLOAT)
CHANNELS = (16, 32, 64, 128)  # powers of two; a product needs at least 16


class Launch(NamedTuple):
    """Positions and output channels of a program, channels read at once, warps, pipeline depth.

    programs: tiles are halved until there are this many programs; the kernel of the weights'
    gradient uses about this many. taps: number of taps in one product, a power of two; if it is
    more than one, a product also takes all channels.
    """

    tile: int = 128
    out: int = 64
    read: int = 32
    warps: int = 4
    stages: int = 3
    programs: int = 256
    taps: int = 1


class Tuning(NamedTuple):
    """Launch settings of the kernels; by_rows: a program sums gradients of a whole row of taps."""

    forward: Launch = Launch()
    back: Launch = Launch()
    weights: Launch = Launch(64, 64, 64, 4, 1, 288)
    by_rows: bool = False


SMALL = Launch(32, 32, 32, 2, 1, 264)
DEEP, DEEPER = Launch(64, 64, 64, 4, 3, 128), Launch(64, 32, 128, 4, 3, 128)
# The fastest settings measured on an H200, batch 128. 5x5 kernels: several networks at once, four
# for 2 and 16 input channels, else ten on images of 28 x 48.
TUNED = {  # kernel size, input channels, output channels
    (1, 16, 32): Tuning(weights=Launch(64, 32, 16, 1, 1, 1056)),
    (3, 16, 16): Tuning(weights=Launch(32, 16, 16, 1, 1, 1056), by_rows=True),
    (3, 16, 32): Tuning(weights=SMALL, by_rows=True),
    (3, 32, 32): Tuning(weights=SMALL, by_rows=True),
    (3, 32, 64): Tuning(back=DEEP),
    (3, 64, 64): Tuning(back=DEEP),
    (3, 64, 128): Tuning(DEEPER, DEEPER),
    (3, 128, 128): Tuning(DEEPER, DEEPER),
    (5, 2, 32): Tuning(Launch(128, 32, 2, 4, 1, 128, 32), weights=Launch(64, 32, 2, 4, 1, 528, 32)),
    (5, 4, 32): Tuning(
        forward=Launch(128, 32, 4, 4, 1, 128, 8), weights=Launch(64, 32, 4, 4, 1, 132, 32)
    ),
    (5, 16, 32): Tuning(weights=Launch(64, 32, 16, 2, 1, 264), by_rows=True),
    (5, 32, 32): Tuning(
        forward=Launch(128, 32, 32, 2, 3, 128),
        back=Launch(128, 32, 32, 2, 3, 128),
        weights=Launch(32, 32, 32, 2, 3, 264, 4),
    ),
    (5, 32, 64): Tuning(
        forward=Launch(128, 64, 32, 2, 3, 128),
        back=Launch(256, 32, 32, 8, 3, 128),
        weights=Launch(32, 64, 32, 2, 3, 528, 4),
    ),
    (5, 64, 64): Tuning(
        forward=Launch(128, 64, 32, 2, 3, 128),
        back=Launch(128, 64, 32, 4, 3, 128),
        weights=Launch(32, 64, 64, 4, 1, 264, 4),
    ),
}


class Geometry(NamedTuple):
    """Which positions the taps read: sizes (height, width) of the images read and made.

    size: of the kernel. transposed: maps the output's gradient to the input's gradient; positions
    are then divided by the stride.
    """

    read: tuple[int, int]
    made: tuple[int, int]
    size: int
    stride: int
    padding: int
    transposed: bool = False


def supports(channels: int, features: int) -> bool:
    """Whether this machine can run the kernels for `channels` inputs and `features` outputs.

    XLA cannot split a kernel: on several devices it would gather the whole batch on each.
    """
    return fits(channels, features) and parallel.on_one_nvidia()


def fits(channels: int, features: int) -> bool:
    """Whether tiles can have these channels; input channels are padded with zeros."""
    return channels <= CHANNELS[-1] and features in CHANNELS


class Settings(NamedTuple):
    """Static settings of a call; passes_on: return x together with the result."""

    stride: int = 1
    padding: int = 0
    passes_on: bool = False
    tuning: Tuning | None = None
    interpret: bool = False


def convolve(x, kernel, settings: Settings):
    """x [B, H, W, c], kernel [k, k, c, o] -> [B, H', W', o] in the dtype of x, zeros around x.

    With passes_on also x. If other layers read this x, the kernel adds their gradients to its own.
    """
    channels, tuning = _filled(*kernel.shape[1:], settings.tuning)
    missing = channels - x.shape[-1]
    if settings.passes_on and (missing or channels < CHANNELS[0]):
        return convolve(x, kernel, settings._replace(passes_on=False)), x
    if missing:
        x, kernel = _widened(x, missing, 3), _widened(kernel, missing, 2)
    return _convolve(x, kernel, settings._replace(tuning=tuning))


def _filled(size, channels, features, tuning):
    """Number of channels after padding, and the tuning; with several taps few channels suffice."""
    padded = pl.next_power_of_2(channels)
    chosen = tuning or TUNED.get((size, padded, features), Tuning())
    if padded < CHANNELS[0] and min(chosen.forward.taps, chosen.weights.taps) == 1:
        padded = CHANNELS[0]
        chosen = tuning or TUNED.get((size, padded, features), Tuning())
    return padded, chosen


def _widened(x, missing, axis):
    return jnp.pad(x, [(0, missing if i == axis else 0) for i in range(x.ndim)])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolve(x, kernel, settings):
    return _forward(x, kernel, settings)[0]


def _forward(x, kernel, settings):
    size, (stride, padding) = len(kernel), settings[:2]
    made = tuple((n + 2 * padding - size) // stride + 1 for n in x.shape[1:3])
    geometry = Geometry(x.shape[1:3], made, size, stride, padding)
    y = _products(x, kernel.astype(x.dtype), None, geometry, settings.tuning.forward, settings)
    return (y, x) if settings.passes_on else y, (x, kernel)


def _backward(settings, saved, grads):
    x, kernel = saved
    grad, others = grads if settings.passes_on else (grads, None)
    grad, tuning = grad.astype(x.dtype), settings.tuning
    forward = Geometry(x.shape[1:3], grad.shape[1:3], len(kernel), *settings[:2])
    back = forward._replace(read=forward.made, made=forward.read, transposed=True)
    c, missing = x.shape[-1], max(0, CHANNELS[0] - x.shape[-1])
    wide = _widened(kernel, missing, 2).astype(x.dtype)
    dx = _products(grad, wide, others, back, tuning.back, settings)[..., :c]
    d_kernel = _weights(x, grad, forward, tuning, settings)
    return dx, d_kernel.reshape(kernel.shape).astype(kernel.dtype)


_convolve.defvjp(_forward, _backward)


# --- launches -------------------------------------------------------------------------------------


def _call(name, body, arguments, grid, shape, launch, settings):
    sizes = (launch.warps, launch.stages)
    return run.launch(body, arguments, grid, shape, *sizes, settings.interpret, name)


def _products(x, kernel, added, geometry: Geometry, launch: Launch, settings):
    """[added +] sum over taps of the input at each position times the tap's matrix [transposed]."""
    batch, c = len(x), x.shape[-1]
    out = kernel.shape[2 if geometry.transposed else 3]
    rows = batch * geometry.made[0] * geometry.made[1]
    launch = fitted(launch, rows, c, out)
    body = partial(product_body, geometry=geometry, launch=launch)
    added = None if added is None else added.reshape(-1, out)
    kernel = kernel.reshape(-1, *kernel.shape[2:])
    if launch.taps > 1:
        kernel = _together(kernel.swapaxes(1, 2) if geometry.transposed else kernel, launch.taps)
    arguments = (x.reshape(-1, c), kernel, added)
    grid = (pl.cdiv(rows, launch.tile), out // launch.out)
    shape = ShapeDtypeStruct((rows, out), x.dtype)
    name = "convolution_back" if geometry.transposed else "convolution"
    y = _call(name, body, arguments, grid, shape, launch, settings)
    return y.reshape(batch, *geometry.made, out)


def _together(kernel, taps):
    """[k * k, c, o] -> [groups, taps * c, o]; the last group is padded with zeros."""
    kernel = jnp.pad(kernel, ((0, -len(kernel) % taps), (0, 0), (0, 0)))
    return kernel.reshape(-1, taps * kernel.shape[1], kernel.shape[2])


def fitted(launch: Launch, rows: int, c: int, out: int) -> Launch:
    """The launch with tiles no larger than the arrays, and small enough to occupy most of a GPU."""
    tile, n_out = launch.tile, min(launch.out, out)
    while tile > 32 and pl.cdiv(rows, tile) * (out // n_out) < launch.programs:
        tile //= 2
    while n_out > 32 and pl.cdiv(rows, tile) * (out // n_out) < launch.programs:
        n_out //= 2
    read = c if launch.taps > 1 else min(launch.read, c)
    return launch._replace(tile=tile, out=n_out, read=read)


def _weights(x, grad, geometry: Geometry, tuning: Tuning, settings):
    """Gradient of the kernel, float32 [k * k, c, o]: sums of parts of the positions, then total."""
    c, out, n_taps = x.shape[-1], grad.shape[-1], geometry.size**2
    launch, rows = tuning.weights, grad.size // out
    launch = launch._replace(out=min(launch.out, out))
    launch = launch._replace(read=c if launch.taps > 1 else min(launch.read, c))
    taps = geometry.size if tuning.by_rows else 1
    groups = pl.cdiv(n_taps, taps * launch.taps)
    blocks = (groups, c // launch.read, out // launch.out)
    tiles = max(1, rows * math.prod(blocks) // (launch.tile * launch.programs))
    parts = pl.cdiv(rows, launch.tile * tiles)
    body = partial(weight_body, geometry=geometry, launch=launch, tiles=tiles, taps=taps)
    shape = ShapeDtypeStruct((parts, groups * taps, launch.taps * c, out), FLOAT)
    flat = (x.reshape(-1, c), grad.reshape(-1, out))
    sums = _call("convolution_weights", body, flat, (parts, *blocks), shape, launch, settings)
    return jnp.sum(sums, axis=0).reshape(-1, c, out)[:n_taps]


# --- bodies ---------------------------------------------------------------------------------------


class Positions(NamedTuple):
    """A tile of output positions: flat row, image, row and column in it, whether it exists."""

    row: jax.Array
    image: jax.Array
    h: jax.Array
    w: jax.Array
    inside: jax.Array


def positions(index, tile, rows, height, width) -> Positions:
    """Tile number `index` of all positions, image by image."""
    row = index * tile + lax.iota(jnp.int32, tile)
    line = lax.div(row, width)
    return Positions(
        row, lax.div(line, height), lax.rem(line, height), lax.rem(row, width), row < rows
    )


def seen(p: Positions, tap, geometry: Geometry):
    """The flat row that each position reads through a tap, and whether it exists."""
    size, stride, padding = geometry.size, geometry.stride, geometry.padding
    height, width = geometry.read
    i, j = lax.div(tap, size), lax.rem(tap, size)
    if not geometry.transposed:
        h, w, inside = p.h * stride + i - padding, p.w * stride + j - padding, p.inside
    else:
        h, w, inside = p.h + padding - i, p.w + padding - j, p.inside
        if stride > 1:
            inside &= (lax.rem(h, stride) == 0) & (lax.rem(w, stride) == 0)
            h, w = lax.div(h, stride), lax.div(w, stride)
    inside &= (h >= 0) & (h < height) & (w >= 0) & (w < width)
    return (p.image * height + h) * width + w, inside


def load(ref, row, inside, first, n):
    """Columns first .. first + n - 1 of rows [tile] of a matrix; zero in rows that do not exist."""
    column = first + lax.broadcasted_iota(jnp.int32, (row.shape[0], n), 1)
    row, inside = (jnp.broadcast_to(a[:, None], column.shape) for a in (row, inside))
    return plt.load(ref.at[row, column], mask=inside, other=0)


def load_taps(ref, p: Positions, tap, launch: Launch, first, geometry: Geometry):
    """Inputs of the positions at `launch.taps` taps, some channels of each: [tile, taps * read]."""
    if launch.taps == 1:
        return load(ref, *seen(p, tap, geometry), first, launch.read)
    tap = tap + lax.broadcasted_iota(jnp.int32, (1, launch.taps), 1)
    row, inside = seen(Positions(*(a[:, None] for a in p)), tap, geometry)
    inside &= tap < geometry.size**2
    shape = (*row.shape, launch.read)
    column = first + lax.broadcasted_iota(jnp.int32, shape, 2)
    row, inside = (jnp.broadcast_to(a[:, :, None], shape) for a in (row, inside))
    values = plt.load(ref.at[row, column], mask=inside, other=0)
    return values.reshape(row.shape[0], -1)


def product_body(x_ref, kernel_ref, added_ref, y_ref, *, geometry, launch):
    """A tile of positions and output channels: a loop over taps and blocks of input channels."""
    c, n_out, n_read = x_ref.shape[1], launch.out, launch.read
    first = pl.program_id(1) * n_out
    p = positions(pl.program_id(0), launch.tile, y_ref.shape[0], *geometry.made)
    chunks = c // n_read

    def step(q, total):
        group, chunk = lax.div(q, chunks), lax.rem(q, chunks)
        x = load_taps(x_ref, p, group * launch.taps, launch, chunk * n_read, geometry)
        made = pl.ds(first, n_out)
        if launch.taps > 1:
            return total + dot(x, kernel_ref[group, :, made])
        read = pl.ds(chunk * n_read, n_read)
        if geometry.transposed:
            return total + dot(x, kernel_ref[group, made, read].T)
        return total + dot(x, kernel_ref[group, read, made])

    zero = jnp.zeros((launch.tile, n_out), FLOAT)
    total = lax.fori_loop(0, pl.cdiv(geometry.size**2, launch.taps) * chunks, step, zero)
    if added_ref is not None:
        total += load(added_ref, p.row, p.inside, first, n_out).astype(FLOAT)
    column = first + lax.broadcasted_iota(jnp.int32, total.shape, 1)
    row, inside = (jnp.broadcast_to(a[:, None], total.shape) for a in (p.row, p.inside))
    plt.store(y_ref.at[row, column], total.astype(y_ref.dtype), mask=inside)


def weight_body(x_ref, grad_ref, part_ref, *, geometry, launch, tiles, taps):
    """Some tiles of positions, taps and channels: each tap's inputs times the gradient there."""
    n_read, n_out = launch.read, launch.out
    index = pl.program_id(0)
    first, read, made = (pl.program_id(1 + i) * n for i, n in enumerate((taps, n_read, n_out)))

    def step(t, totals):
        p = positions(index * tiles + t, launch.tile, grad_ref.shape[0], *geometry.made)
        grad = load(grad_ref, p.row, p.inside, made, n_out)
        first_taps = [(first + i) * launch.taps for i in range(taps)]
        inputs = [load_taps(x_ref, p, tap, launch, read, geometry) for tap in first_taps]
        return tuple(total + dot(x.T, grad) for total, x in zip(totals, inputs))

    rows = launch.taps * n_read
    zero = tuple(jnp.zeros((rows, n_out), FLOAT) for _ in range(taps))
    for i, total in enumerate(lax.fori_loop(0, tiles, step, zero)):
        part_ref[index, first + i, pl.ds(read, rows), pl.ds(made, n_out)] = total
