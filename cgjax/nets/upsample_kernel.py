"""GPU kernels for a decoder's stages: bilinear x2, 2x2 convolution, bias and ELU in one pass.

No tensor of interpolated values ever reaches memory; sums are float32 whatever the dtype of the
activations. Only reverse-mode derivatives exist here; `upsample.reordered` has both.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from cgjax.nets import upsample_bodies as bodies
from cgjax.nets.upsample_bodies import COLUMNS
from cgjax.nets.upsample_geometry import FLOAT


class Launch(NamedTuple):
    """Pixels per tile, warps per program, and (backward only) the most tiles per program."""

    tile: int = 64
    warps: int = 4
    tiles: int = 1


class Tuning(NamedTuple):
    """How the kernels are launched, and which of their variants run.

    programs: backward kernels take fewer tiles each rather than be fewer than this;
    lazy: an inner stage loads neighbours row by row instead of all at once;
    mixed: "rows" or "planes": the last inner stage also writes its products with the last kernel,
    laid out so, for the last stage to interpolate; "none": the last stage does the products;
    mixed_wide: those products in float32, else in the dtype of the activations;
    pairs: the last stage writes horizontally neighbouring outputs together;
    joined: an inner stage's backward kernel does one product for its four taps;
    gradient: how the last stage's backward kernel reads the image's gradient: "planes", channel by
    channel, "joint", channels together, or "split", in a kernel of its own.
    """

    stage: Launch = Launch()
    stage_mix: Launch = Launch()
    last: Launch = Launch()
    stage_back: Launch = Launch(tiles=8)
    last_back: Launch = Launch(128, 4, 8)
    gather: Launch = Launch(256, 4)
    programs: int = 128
    lazy: bool = False
    mixed: str = "none"
    mixed_wide: bool = True
    pairs: bool = False
    joined: bool = False
    gradient: str = "joint"


TUNED = Tuning()


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
        next_kernel = convs[-1][0] if i == len(convs) - 2 and tuning.mixed != "none" else None
        y, mixed = stage(hidden[-1], *conv, next_kernel, n, tuning, interpret)
        hidden.append(y)
        n *= 2
    kernel, bias = convs[-1]
    image = last_stage(hidden[-1], mixed, kernel, bias, n, tuning, interpret)
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


def _call(body, arguments, rows, out_shape, launch, interpret):
    return pl.pallas_call(
        partial(body, tile=launch.tile),
        grid=(pl.cdiv(rows, launch.tile * launch.tiles),),
        out_shape=out_shape,
        interpret=interpret,
        compiler_params=plt.CompilerParams(num_warps=launch.warps, num_stages=1),
    )(*arguments)


def stage(x, kernel, bias, next_kernel, n, tuning, interpret):
    """ELU(conv(upsampled x)): x [R, c] -> y [4R, o], and y mixed by next_kernel or None."""
    rows, out = 4 * x.shape[0], kernel.shape[-1]
    launch, planes = tuning.stage, tuning.mixed == "planes"
    arguments, shapes = [x, kernel, bias], [ShapeDtypeStruct((rows, out), x.dtype)]
    if next_kernel is not None:
        launch = tuning.stage_mix
        arguments.append(next_kernel)
        shape = (4 * next_kernel.shape[-1], rows) if planes else (rows, COLUMNS)
        shapes.append(ShapeDtypeStruct(shape, FLOAT if tuning.mixed_wide else x.dtype))
    body = partial(bodies.stage_body, n=n, lazy=tuning.lazy, planes=planes)
    y, *mixed = _call(body, arguments, x.shape[0], shapes, launch._replace(tiles=1), interpret)
    return y, mixed[0] if mixed else None


def last_stage(x, mixed, kernel, bias, n, tuning, interpret):
    """conv(upsampled x) for few output channels: x [R, c] or mixed -> planes [o, 4R], float32."""
    shape = ShapeDtypeStruct((kernel.shape[-1], 4 * x.shape[0]), FLOAT)
    launch = tuning.last._replace(tiles=1)
    if tuning.mixed == "planes":
        body = partial(bodies.interpolate_planes_body, n=n)
        return _call(body, (mixed, bias), x.shape[0], shape, launch, interpret)
    arguments = (x, kernel, bias) if mixed is None else (mixed, bias)
    body = partial(bodies.interpolate_rows_body, n=n, pairs=tuning.pairs)
    return _call(body, arguments, x.shape[0], shape, launch, interpret)


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
    if tuning.joined:
        body = partial(bodies.back_body, source="pixels")
        sums = ((c, 4 * out), (c,))
    else:
        body, sums = bodies.tap_back_body, (kernel.shape, (c,))
    body = partial(body, n=n, through_elu=through_elu)
    dx, d_kernel, d_sum = _backward(
        body, grad, x, kernel, sums, tuning.stage_back, tuning.programs, interpret
    )
    return dx, _as_kernel(d_kernel, out) if tuning.joined else d_kernel, d_sum


def last_stage_back(grad, x, kernel, n, tuning, interpret):
    """Gradients of `last_stage`: grad [o, 4R] -> dx [R, c] before ELU, d_kernel, d_bias, sum."""
    c, out = kernel.shape[2:]
    source, sums = tuning.gradient, [(c, COLUMNS), (c,)]
    if source == "split":
        grad, d_bias = _gather(grad, x, n, tuning.gather._replace(tiles=1), interpret)
        source = "mixed"
    else:
        sums.append((4,))
    body = partial(bodies.back_body, n=n, source=source, through_elu=True)
    dx, columns, d_sum, *rest = _backward(
        body, grad, x, kernel, sums, tuning.last_back, tuning.programs, interpret
    )
    d_bias = rest[0] if rest else d_bias
    return dx, _as_kernel(columns, out), d_bias[:out], d_sum


def _gather(grad, x, n, launch, interpret):
    """Gradient [o, 4R] at the images -> [4 o, R] at the mixed pixels, and its sums [4]."""
    out, rows = grad.shape[0], x.shape[0]
    shapes = (
        ShapeDtypeStruct((4 * out, rows), x.dtype),
        ShapeDtypeStruct((pl.cdiv(rows, launch.tile), 4), FLOAT),
    )
    body = partial(bodies.gather_body, n=n)
    mixed, d_bias = _call(body, (grad,), rows, shapes, launch, interpret)
    return mixed, jnp.sum(d_bias, axis=0)


def _as_kernel(columns, out):
    """Gradient of the mixing columns [c, 4 o or more] -> of the kernel [2, 2, c, o]."""
    c = columns.shape[0]
    return columns.reshape(c, -1, 2, 2)[:, :out].transpose(2, 3, 0, 1)
