"""GPU kernels for a decoder's stages: bilinear x2, 2x2 convolution, bias and ELU in one pass.

To save memory traffic no tensor of interpolated activations ever reaches memory, and the last
inner stage, while it still holds its output, also multiplies it by the last kernel: the last stage
reads only those 4 o products per pixel, as planes [4 o, pixels] in float32, and interpolates them.
Backward, each stage is one kernel, which gathers its output's gradient per tap and multiplies all
four taps at once. Sums are float32 whatever the dtype of the activations. Only reverse-mode
derivatives exist here; `upsample.reordered` has both.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jax.sharding import PartitionSpec as P

from cgjax.nets import upsample_geometry as geo
from cgjax.nets.upsample import elu
from cgjax.nets.upsample_geometry import FLOAT

COLUMNS = 16  # the last stage's 4 taps x up to 4 channels side by side, the least a product takes


class Launch(NamedTuple):
    """Pixels per tile, warps per program, and (backward only) the most tiles per program."""

    tile: int = 64
    warps: int = 4
    tiles: int = 1


class Tuning(NamedTuple):
    """How the kernels are launched.

    stage_mix: the last inner stage, which also does the products with the last kernel;
    programs: backward kernels take fewer tiles each rather than be fewer than this.
    """

    stage: Launch = Launch()
    stage_mix: Launch = Launch()
    last: Launch = Launch()
    stage_back: Launch = Launch(tiles=8)
    last_back: Launch = Launch(128, 4, 8)
    programs: int = 128


# The fastest of those timed on an H200.
TUNED = Tuning(last=Launch(128, 4, 1), stage_back=Launch(64, 4, 16), last_back=Launch(64, 2, 16))


def supports(channels: int, out_channels: int, kernel: int, activation: str) -> bool:
    """Whether the kernels can run this decoder."""
    fits = channels in (16, 32, 64, 128) and out_channels <= COLUMNS // 4
    return fits and kernel == 2 and activation == "elu"


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def upsample_stack(x: jax.Array, convs, tuning: Tuning = TUNED, interpret: bool = False):
    """Stages of a decoder: x [B,n,n,c] and [(kernel [2,2,c,o], bias [o]), ...] -> float32 images.

    ELU follows every stage but the last; activations keep the dtype of x. n: a power of two;
    at least two stages; images: [B, 2^stages n, 2^stages n, o], o at most 4.
    """
    return _stack_forward(x, convs, tuning, interpret)[0]


def _stack_forward(x, convs, tuning, interpret):
    batch, n, _, c = x.shape
    hidden = [x.reshape(-1, c)]
    mixed = None
    for i, conv in enumerate(convs[:-1]):
        last_kernel = convs[-1][0] if i == len(convs) - 2 else None
        y, mixed = stage(hidden[-1], *conv, last_kernel, n, tuning, interpret)
        hidden.append(y)
        n *= 2
    image = last_stage(mixed, convs[-1][1], n, tuning, interpret)
    image = jnp.moveaxis(image.reshape(-1, batch, 2 * n, 2 * n), 0, -1)
    return image, (hidden, [kernel for kernel, _ in convs])


def _stack_backward(tuning, interpret, saved, grad):
    hidden, kernels = saved
    batch, size, _, out = grad.shape
    grad = jnp.moveaxis(grad, -1, 0).reshape(out, -1)
    n = size // 2
    grad, d_kernel, d_bias, d_lower = last_stage_back(
        grad, hidden[-1], kernels[-1], n, tuning, interpret
    )
    d_convs = [(d_kernel, d_bias)]
    for i in reversed(range(len(kernels) - 1)):
        n //= 2
        d_bias = d_lower
        grad, d_kernel, d_lower = stage_back(
            grad, hidden[i], kernels[i], n, i > 0, tuning, interpret
        )
        d_convs.insert(0, (d_kernel, d_bias))
    return grad.reshape(batch, n, n, -1), d_convs


upsample_stack.defvjp(_stack_forward, _stack_backward)


# --- several devices ---------------------------------------------------------------------------
# XLA cannot split a kernel: it would gather the whole batch on each device. So each device is told
# to run the kernels on its own rows; what is left to exchange is the sum of the weights' gradients.


def splits(batch: int) -> bool:
    """Whether every device in use can run the kernels on rows of its own."""
    mesh = mesh_in_use()
    return jax.device_count() == 1 if mesh is None else batch % mesh.shape["data"] == 0


def over_devices(x: jax.Array, convs) -> jax.Array:
    """`upsample_stack`, each device on its own rows of x; where `splits` denies it, on all rows.

    Replicas are split too, if they are an axis made by `jax.vmap(..., spmd_axis_name="seed")`.
    """
    mesh = mesh_in_use()
    if mesh is None or mesh.size == 1 or not splits(len(x)):
        return upsample_stack(x, convs)
    # The transpose of a shared input is a `psum` of its gradients over "data". Unchecked, because
    # the kernels' results do not say over which axes they vary.
    specs = {"in_specs": (P("data"), P()), "out_specs": P("data")}
    return jax.shard_map(upsample_stack, **specs, check_vma=False)(x, convs)


def mesh_in_use():
    """The ("seed", "data") mesh that the program being traced is for, or None.

    Inside another `shard_map`, whose axes are manual, a device has its own rows already.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return mesh if mesh.axis_names == ("seed", "data") and mesh.are_all_axes_auto else None


# --- launches ----------------------------------------------------------------------------------


def _call(body, arguments, rows, out_shape, launch, interpret):
    return pl.pallas_call(
        partial(body, tile=launch.tile),
        grid=(pl.cdiv(rows, launch.tile * launch.tiles),),
        out_shape=out_shape,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=1),
    )(*arguments)


def stage(x, kernel, bias, last_kernel, n, tuning, interpret):
    """ELU(conv(upsampled x)): x [R, c] -> y [4R, o], and y mixed by last_kernel or None."""
    rows, out = 4 * x.shape[0], kernel.shape[-1]
    launch, arguments = tuning.stage, [x, kernel, bias]
    shapes = [ShapeDtypeStruct((rows, out), x.dtype)]
    if last_kernel is not None:
        launch = tuning.stage_mix
        arguments.append(last_kernel)
        shapes.append(ShapeDtypeStruct((4 * last_kernel.shape[-1], rows), FLOAT))
    body = partial(stage_body, n=n)
    y, *mixed = _call(body, arguments, x.shape[0], shapes, launch._replace(tiles=1), interpret)
    return y, mixed[0] if mixed else None


def last_stage(mixed, bias, n, tuning, interpret):
    """conv(upsampled x) from x mixed by the kernel: [4 o, R] -> planes [o, 4R], float32."""
    rows = mixed.shape[1]
    shape = ShapeDtypeStruct((bias.shape[0], 4 * rows), FLOAT)
    body = partial(last_body, n=n)
    return _call(body, (mixed, bias), rows, shape, tuning.last._replace(tiles=1), interpret)


def _backward(body, grad, x, kernel, sums, launch, programs, interpret):
    """dx like x, and for each shape in `sums` an array added up over programs."""
    tiles = max(1, min(launch.tiles, x.shape[0] // (launch.tile * programs)))
    programs = pl.cdiv(x.shape[0], launch.tile * tiles)
    shapes = [ShapeDtypeStruct(x.shape, x.dtype)]
    shapes += [ShapeDtypeStruct((programs, *shape), FLOAT) for shape in sums]
    body = partial(body, tiles=tiles)
    launch = launch._replace(tiles=tiles)
    dx, *parts = _call(body, (grad, x, kernel), x.shape[0], shapes, launch, interpret)
    return dx, *(jnp.sum(part, axis=0) for part in parts)


def stage_back(grad, x, kernel, n, through_elu, tuning, interpret):
    """Gradients of `stage` before its ELU: grad [4R, o] -> dx [R, c], d_kernel, sum of dx.

    through_elu: x is an ELU's output and dx is wanted in front of that ELU.
    """
    c, out = kernel.shape[2:]
    body = partial(back_body, n=n, through_elu=through_elu)
    sums = ((c, 4 * out), (c,))
    dx, columns, d_sum = _backward(
        body, grad, x, kernel, sums, tuning.stage_back, tuning.programs, interpret
    )
    return dx, _as_kernel(columns, out), d_sum


def last_stage_back(grad, x, kernel, n, tuning, interpret):
    """Gradients of `last_stage`: grad [o, 4R] -> dx [R, c] before ELU, d_kernel, d_bias, sum."""
    c, out = kernel.shape[2:]
    body = partial(back_body, n=n, through_elu=True)
    sums = ((c, COLUMNS), (c,), (4,))
    dx, columns, d_sum, d_bias = _backward(
        body, grad, x, kernel, sums, tuning.last_back, tuning.programs, interpret
    )
    return dx, _as_kernel(columns, out), d_bias[:out], d_sum


def _as_kernel(columns, out):
    """Gradient of the mixing columns [c, 4 o or more] -> of the kernel [2, 2, c, o]."""
    c = columns.shape[0]
    return columns.reshape(c, -1, 2, 2)[:, :out].transpose(2, 3, 0, 1)


# --- bodies, forward ---------------------------------------------------------------------------
# Each program works on tiles of low-resolution pixels. "Mixed" pixels are products of pixels with a
# stage's kernel, all four taps side by side: column 4 o + 2 kh + kw belongs to output channel o
# and tap (kh, kw).


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


def stage_body(x_ref, kernel_ref, bias_ref, *refs, n, tile):
    """ELU(conv(upsampled x)); refs: [last kernel,] y [, y mixed by it as planes [4 o, 4 R]].

    Interpolated points are convolved as they arise, a row of them at a time, so that only the
    neighbours and sums which later rows still need occupy registers.
    """
    last_ref, y_ref, mixed_ref = refs if len(refs) == 3 else (None, *refs, None)
    dtype = x_ref.dtype
    index = pl.program_id(0)
    p = geo.pixels(index, tile, n, x_ref.shape[0])
    twice = geo.pixels(index, tile, n, x_ref.shape[0], copies=2)
    kernel = [[kernel_ref[kh, kw].astype(dtype) for kw in (0, 1)] for kh in (0, 1)]
    mixer = mixing_columns(last_ref, COLUMNS).astype(dtype) if last_ref is not None else None
    bias = bias_ref[:][None, :]

    def finish(a, sums):
        y = [elu(total + bias).astype(dtype) for total in sums]
        for b in (0, 1):
            geo.store(y_ref, geo.fine_row(p, n, a, b), p.inside, y[b])
        if mixer is not None:
            geo.store_pairs(mixed_ref, twice, n, a, *(_dot(value, mixer, (1, 0)) for value in y))

    rows, columns = (geo.points(geo.as_column(geo.weights(at, n))) for at in (p.m, p.k))
    sums = [[jnp.zeros((tile, y_ref.shape[-1]), FLOAT) for _ in (0, 1)] for _ in (0, 1)]
    x = []
    for i, (dm, low, high) in enumerate(rows):
        while len(x) < dm + 3:
            at = (geo.neighbour(p, n, len(x) - 1, dk) for dk in (-1, 0, 1))
            x.append([geo.load(x_ref, *place) for place in at])
        row = [low * u.astype(FLOAT) + high * v.astype(FLOAT) for u, v in zip(x[dm + 1], x[dm + 2])]
        for j, (dk, left, right) in enumerate(columns):
            point = (left * row[dk + 1] + right * row[dk + 2]).astype(dtype)
            for a in (i - 1, i):
                for b in (j - 1, j):
                    if a in (0, 1) and b in (0, 1):
                        sums[a][b] += _dot(point, kernel[i - a][j - b], (1, 0))
        if i:
            finish(i - 1, sums[i - 1])


def last_body(mixed_ref, bias_ref, y_ref, *, n, tile):
    """Images as planes [o, 4 R] from mixed planes [4 o, R].

    The products are done, and for few output channels interpolating them is cheaper than
    interpolating all channels of x. One output channel after the other: every array is [tile].
    """
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


# --- bodies, backward --------------------------------------------------------------------------
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
    """From planes [o, 4 R] -> mixed gradient [tile, COLUMNS], and o arrays [tile] to sum up.

    Those sums are the bias's gradient: of each pixel's own four outputs.
    """
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
    columns += [jnp.zeros(tile, FLOAT)] * (COLUMNS - len(columns))
    return geo.interleave(columns, (tile, COLUMNS)), tuple(totals)


def back_body(
    grad_ref, x_ref, kernel_ref, dx_ref, columns_ref, d_sum_ref, *d_bias_ref,
    n, tile, tiles, through_elu,
):  # fmt: skip
    """dx, and per program the gradient of `mixing_columns`, the sum of dx and the bias's gradient.

    d_bias_ref: given for the last stage, whose gradient is planes; an inner stage's is rows.
    through_elu: x is an ELU's output and dx is wanted in front of that ELU.
    """
    dtype = x_ref.dtype
    c, width = columns_ref.shape[1:]
    kernel = mixing_columns(kernel_ref, width).astype(dtype)
    index = pl.program_id(0)

    def step(t, carry):
        columns, d_sum, totals = carry
        p = geo.pixels(index * tiles + t, tile, n, x_ref.shape[0])
        if d_bias_ref:
            mixed, new = gather_planes(grad_ref, p, n, tile)
        else:
            mixed, new = gather_pixels(grad_ref, p, n, tile), ()
        mixed = mixed.astype(dtype)
        x = geo.load(x_ref, p.row, p.inside)
        columns += _dot(x, mixed, (0, 0))
        dx = _dot(mixed, kernel, (1, 1))
        if through_elu:
            dx *= _elu_slope(x.astype(FLOAT))
            d_sum += jnp.sum(dx, axis=0)
        geo.store(dx_ref, p.row, p.inside, dx)
        return columns, d_sum, tuple(old + more for old, more in zip(totals, new))

    totals = tuple(jnp.zeros(tile, FLOAT) for _ in range(grad_ref.shape[0] if d_bias_ref else 0))
    zero = (jnp.zeros((c, width), FLOAT), jnp.zeros(c, FLOAT), totals)
    columns, d_sum, totals = lax.fori_loop(0, tiles, step, zero)
    columns_ref[index] = columns
    d_sum_ref[index] = d_sum
    for o, total in enumerate(totals):
        d_bias_ref[0][index, o] = jnp.sum(total)
