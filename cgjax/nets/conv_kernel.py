"""GPU kernels for small convolutions, of one network or, under `jax.vmap`, of several at once.

The compiler's own convolutions are made for many channels, and for several networks they become
grouped ones, which are slower than one after another. Here a program multiplies what a tile of
positions sees through one tap after another, patches never reach memory, and networks are one more
axis of the grid. Products are in the dtype of x (float32: TF32), sums in float32. Only reverse-mode
derivatives exist here; the other forms of `nets.conv.convolve` have both.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.core import parallel

FLOAT = jnp.float32
BUSY = 256  # programs: two for each multiprocessor of a large GPU
CHANNELS = (16, 32, 64, 128)  # powers of two, and at least what a product takes


class Launch(NamedTuple):
    """Positions and output channels of a program, channels read at once, warps, loads in flight."""

    tile: int = 128
    out: int = 64
    read: int = 32
    warps: int = 4
    stages: int = 3


class Tuning(NamedTuple):
    """How the kernels are launched.

    programs: weights' gradients are summed by about so many programs; held: sums, of one tap or of
    several, that such a program has room for.
    """

    forward: Launch = Launch()
    back: Launch = Launch()
    weights: Launch = Launch(tile=64, warps=4, stages=2)
    programs: int = 528
    held: int = 9216


TUNED = Tuning()


class Geometry(NamedTuple):
    """Where taps read: heights and widths of images read and made, kernel, stride, padding.

    transposed: from the output's gradient to the input's, so that the stride divides.
    """

    read: tuple[int, int]
    made: tuple[int, int]
    size: int
    stride: int
    padding: int
    transposed: bool = False


def supports(channels: int, features: int) -> bool:
    """Whether the kernels can run a convolution of so many channels to so many, on this machine.

    XLA cannot split a kernel: on several devices it would gather the whole batch on each.
    """
    return fits(channels, features) and parallel.on_nvidia() and jax.device_count() == 1


def fits(channels: int, features: int) -> bool:
    """Whether tiles can have so many channels; those that are read are filled up with zeros."""
    return channels <= CHANNELS[-1] and features in CHANNELS


def convolve(x, kernel, stride: int = 1, padding: int = 0, tuning=None, interpret: bool = False):
    """x [B, H, W, c], kernel [k, k, c, o] -> [B, H', W', o] in the dtype of x, zeros around x."""
    missing = next(n for n in CHANNELS if n >= x.shape[-1]) - x.shape[-1]
    if missing:
        x = jnp.pad(x, ((0, 0),) * 3 + ((0, missing),))
        kernel = jnp.pad(kernel, ((0, 0),) * 2 + ((0, missing), (0, 0)))
    return _convolve(x, kernel, stride, padding, tuning or TUNED, interpret)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4, 5))
def _convolve(x, kernel, stride, padding, tuning, interpret):
    return _forward(x, kernel, stride, padding, tuning, interpret)[0]


def _forward(x, kernel, stride, padding, tuning, interpret):
    size = len(kernel)
    made = tuple((n + 2 * padding - size) // stride + 1 for n in x.shape[1:3])
    geometry = Geometry(x.shape[1:3], made, size, stride, padding)
    y = _products(x, kernel.astype(x.dtype), geometry, tuning.forward, interpret)
    return y, (x, kernel)


def _backward(stride, padding, tuning, interpret, saved, grad):
    x, kernel = saved
    grad = grad.astype(x.dtype)
    forward = Geometry(x.shape[1:3], grad.shape[1:3], len(kernel), stride, padding)
    back = forward._replace(read=forward.made, made=forward.read, transposed=True)
    dx = _products(grad, kernel.astype(x.dtype), back, tuning.back, interpret)
    d_kernel = _weights(x, grad, forward, tuning, interpret)
    return dx, d_kernel.reshape(kernel.shape).astype(kernel.dtype)


_convolve.defvjp(_forward, _backward)


# --- launches -------------------------------------------------------------------------------------


def _call(name, body, arguments, grid, shape, launch, interpret):
    return pl.pallas_call(
        body,
        name=name,
        grid=grid,
        out_shape=shape,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=launch.stages),
    )(*arguments)


def _products(x, kernel, geometry: Geometry, launch: Launch, interpret):
    """Sum over taps of what each position sees times the tap's matrix, transposed or not."""
    batch, c = len(x), x.shape[-1]
    out = kernel.shape[2 if geometry.transposed else 3]
    rows = batch * geometry.made[0] * geometry.made[1]
    launch = fitted(launch, rows, c, out)
    body = partial(product_body, geometry=geometry, launch=launch)
    arguments = (x.reshape(-1, c), kernel.reshape(-1, *kernel.shape[2:]))
    grid = (pl.cdiv(rows, launch.tile), out // launch.out)
    shape = ShapeDtypeStruct((rows, out), x.dtype)
    name = "convolution_back" if geometry.transposed else "convolution"
    y = _call(name, body, arguments, grid, shape, launch, interpret)
    return y.reshape(batch, *geometry.made, out)


def fitted(launch: Launch, rows: int, c: int, out: int) -> Launch:
    """The launch with tiles no larger than what there is, and so small that most of a GPU works."""
    tile, n_out = launch.tile, min(launch.out, out)
    while tile > 32 and pl.cdiv(rows, tile) * (out // n_out) < BUSY:
        tile //= 2
    while n_out > 32 and pl.cdiv(rows, tile) * (out // n_out) < BUSY:
        n_out //= 2
    return launch._replace(tile=tile, out=n_out, read=min(launch.read, c))


def _weights(x, grad, geometry: Geometry, tuning: Tuning, interpret):
    """Gradient of the kernel [k * k, c, o], float32: parts of the positions, then their sum."""
    launch, c, out = tuning.weights, x.shape[-1], grad.shape[-1]
    rows, n_taps = grad.size // out, geometry.size**2
    taps = next(
        n for n in (geometry.size**2, geometry.size, 1) if n == 1 or n * c * out <= tuning.held
    )
    tiles = max(1, rows * n_taps // (launch.tile * taps * tuning.programs))
    parts = pl.cdiv(rows, launch.tile * tiles)
    body = partial(weight_body, geometry=geometry, tile=launch.tile, tiles=tiles, taps=taps)
    shape = ShapeDtypeStruct((parts, n_taps, c, out), FLOAT)
    grid = (parts, n_taps // taps)
    seen = (x.reshape(-1, c), grad.reshape(-1, out))
    found = _call("convolution_weights", body, seen, grid, shape, launch, interpret)
    return jnp.sum(found, axis=0)


# --- bodies ---------------------------------------------------------------------------------------


class Positions(NamedTuple):
    """A tile of positions of what is made: flat row, image, place in it, whether it exists."""

    row: jax.Array
    image: jax.Array
    h: jax.Array
    w: jax.Array
    inside: jax.Array


def positions(index, tile, rows, height, width) -> Positions:
    """Tile number `index` of all positions, image by image."""
    row = index * tile + lax.iota(jnp.int32, tile)
    line = lax.div(row, width)
    return Positions(row, lax.div(line, height), lax.rem(line, height), lax.rem(row, width),
                     row < rows)  # fmt: skip


def seen(p: Positions, tap, geometry: Geometry):
    """Row that each position reads through a tap, and whether it exists."""
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
    """Columns first to first + n of rows [tile] of a matrix, zero where they do not exist."""
    column = first + lax.broadcasted_iota(jnp.int32, (row.shape[0], n), 1)
    row, inside = (jnp.broadcast_to(a[:, None], column.shape) for a in (row, inside))
    return plt.load(ref.at[row, column], mask=inside, other=0)


def _dot(a, b, contract):
    dimensions = ((contract[:1], contract[1:]), ((), ()))
    return lax.dot_general(a, b, dimensions, preferred_element_type=FLOAT)


def product_body(x_ref, kernel_ref, y_ref, *, geometry, launch):
    """A tile of positions and of output channels: one tap and some channels after the other."""
    c, n_out, n_read = x_ref.shape[1], launch.out, launch.read
    first = pl.program_id(1) * n_out
    p = positions(pl.program_id(0), launch.tile, y_ref.shape[0], *geometry.made)
    chunks = c // n_read

    def step(q, total):
        tap, chunk = lax.div(q, chunks), lax.rem(q, chunks)
        x = load(x_ref, *seen(p, tap, geometry), chunk * n_read, n_read)
        read, made = pl.ds(chunk * n_read, n_read), pl.ds(first, n_out)
        if geometry.transposed:
            return total + _dot(x, kernel_ref[tap, made, read], (1, 1))
        return total + _dot(x, kernel_ref[tap, read, made], (1, 0))

    zero = jnp.zeros((launch.tile, n_out), FLOAT)
    total = lax.fori_loop(0, geometry.size**2 * chunks, step, zero)
    column = first + lax.broadcasted_iota(jnp.int32, total.shape, 1)
    row, inside = (jnp.broadcast_to(a[:, None], total.shape) for a in (p.row, p.inside))
    plt.store(y_ref.at[row, column], total.astype(y_ref.dtype), mask=inside)


def weight_body(x_ref, grad_ref, part_ref, *, geometry, tile, tiles, taps):
    """Some tiles of positions, some taps: what each tap saw times the gradient there."""
    c, out = x_ref.shape[1], grad_ref.shape[1]
    index, first = pl.program_id(0), pl.program_id(1) * taps

    def step(t, totals):
        p = positions(index * tiles + t, tile, grad_ref.shape[0], *geometry.made)
        grad = load(grad_ref, p.row, p.inside, 0, out)
        return tuple(
            total + _dot(load(x_ref, *seen(p, first + i, geometry), 0, c), grad, (0, 0))
            for i, total in enumerate(totals)
        )

    zero = tuple(jnp.zeros((c, out), FLOAT) for _ in range(taps))
    for i, total in enumerate(lax.fori_loop(0, tiles, step, zero)):
        part_ref[index, first + i] = total
