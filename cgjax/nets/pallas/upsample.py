"""GPU kernels for a decoder's stages: bilinear x2, 2x2 convolution, bias and ELU in one pass.

To save memory traffic no interpolated activations ever reach memory, and while the largest output,
that of the last inner stage, is held, it is multiplied by the last kernel: the last stage
interpolates only those 4 o products per pixel. Only its gradient reads that output itself, from
memory: computing it again took longer on an H200. Backward, each stage is one kernel. Activations
are [rows, columns, images, channels] between the kernels, `upsample_geometry` says why. Sums are
float32 whatever the dtype of the activations. Only reverse-mode derivatives exist here;
`upsample.reordered` has both.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt
from jax.sharding import PartitionSpec as P

from cgjax.nets.pallas import upsample_bodies as bodies
from cgjax.nets.pallas.upsample_bodies import COLUMNS
from cgjax.nets.pallas.upsample_geometry import FLOAT, interpreted


class Launch(NamedTuple):
    """Images per tile, warps per program, and what only some kernels have.

    span: columns of pixels per program, last stage only; early: whether a stage's input is read
    a step before it is needed: that takes registers; stages: steps under way at a time where Triton
    reads ahead into shared memory, one less than that (with two it reads only when a step is done,
    which is slower than with one).
    """

    tile: int = 64
    warps: int = 4
    span: int = 16
    early: bool = False
    stages: int = 1


class Tuning(NamedTuple):
    """How the kernels are launched; warps are for 32 channels, wider stages get more.

    stage_mix: the last inner stage, which also does the products with the last kernel; few_back:
    backward, stages of which a program each for at most FEW rows of images would leave a GPU idle;
    narrow_*: of activations narrower than float32.
    """

    stage: Launch = Launch(stages=3)
    narrow_stage: Launch = Launch()
    stage_mix: Launch = Launch(stages=3)
    narrow_mix: Launch = Launch(early=True)
    last: Launch = Launch(128)
    stage_back: Launch = Launch()
    narrow_back: Launch = Launch(stages=3)
    few_back: Launch = Launch(32)
    last_back: Launch = Launch()
    loss: Launch = Launch(64, 2)


# The fastest of those timed on an H200, one by one or in a training step.
TUNED = Tuning()
FEW = 8


def supports(channels: int, out_channels: int, kernel: int, activation: str) -> bool:
    """Whether the kernels can run this decoder."""
    fits = channels in (16, 32, 64) and out_channels <= COLUMNS // 4
    return fits and kernel == 2 and activation == "elu"


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def upsample_stack(x: jax.Array, convs, tuning: Tuning = TUNED, interpret: bool = False):
    """Stages of a decoder: x [B,n,n,c] and [(kernel [2,2,c,o], bias [o]), ...] -> float32 images.

    ELU follows every stage but the last; activations keep the dtype of x. n: a power of two;
    at least two stages; images: [B, 2^stages n, 2^stages n, o], o at most 4.
    """
    return _stack_forward(x, convs, tuning, interpret, keeps=False)[0]


def _stack_forward(x, convs, tuning, interpret, keeps=True):
    mixed, hidden = to_mixed(x, convs, tuning, interpret, keeps)
    image = last_stage(mixed, all_biases(convs), convs[-1][1].size, tuning, interpret)
    return image.transpose(3, 1, 2, 0), (hidden, convs)


def _stack_backward(tuning, interpret, saved, grad):
    return from_images(grad.transpose(3, 1, 2, 0), *saved, tuning, interpret)


upsample_stack.defvjp(_stack_forward, _stack_backward)


def to_mixed(x, convs, tuning, interpret, keeps=True):
    """All stages but the last: planes [4 o, n, n, B] for it to interpolate; all stages' inputs.

    keeps: whether the last stage's is among them, which only its gradient asks for.
    """
    hidden, biases = [x.transpose(1, 2, 0, 3)], all_biases(convs)
    for i, (kernel, _) in enumerate(convs[:-2]):
        hidden += stage(hidden[-1], kernel, biases, i, None, True, tuning, interpret)
    kernels, i = (convs[-2][0], convs[-1][0]), len(convs) - 2
    mixed, *kept = stage(hidden[-1], kernels[0], biases, i, kernels[1], keeps, tuning, interpret)
    return mixed, hidden + kept


def all_biases(convs):
    """One array [stages * c + o]: of many small ones XLA would make copies for the kernels."""
    return jnp.concatenate([bias for _, bias in convs], -1)


def from_images(grad, hidden, convs, tuning, interpret):
    """The images' gradient as planes [o, 2n, 2n, B] -> those of x and convs."""
    found = last_stage_back(grad, hidden[-1], convs[-1][0], tuning, interpret)
    grad, d_lower, *d_last = found
    d_convs = [tuple(d_last)]
    for i in reversed(range(len(convs) - 1)):
        d_bias = d_lower
        grad, d_lower, d_kernel = stage_back(grad, hidden[i], convs[i][0], i > 0, tuning, interpret)
        d_convs.insert(0, (d_kernel, d_bias))
    return grad.transpose(2, 0, 1, 3), d_convs


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


def call(body, arguments, grid, out_shape, launch, channels, interpret):
    """One kernel, its program ids as `grid` has them."""
    warps = launch.warps * max(1, channels // 32)
    stages = launch.stages if channels <= 32 else 1  # more do not fit into shared memory
    with interpreted(interpret):
        return pl.pallas_call(
            partial(body, size=launch.tile),
            grid=grid,
            out_shape=out_shape,
            interpret=interpret,
            compiler_params=plt.CompilerParams(num_warps=warps, num_stages=stages),
        )(*arguments)


def _by_width(x, wide: Launch, narrow: Launch) -> Launch:
    return wide if x.dtype.itemsize == 4 else narrow


def stage(x, kernel, biases, number, last_kernel, keeps, tuning, interpret):
    """y = ELU(conv(upsampled x)), the stage of that number: x [n, n, B, c] -> [y [2n, 2n, B, o]].

    With a last kernel: [y mixed by it, and y if it is to be kept].
    """
    n, _, images, c = x.shape
    launch = _by_width(x, tuning.stage, tuning.narrow_stage)
    arguments = (x, kernel, biases)
    shapes = [ShapeDtypeStruct((2 * n, 2 * n, images, kernel.shape[-1]), x.dtype)]
    if last_kernel is not None:
        launch = _by_width(x, tuning.stage_mix, tuning.narrow_mix)
        arguments = (*arguments, last_kernel)
        mixed = ShapeDtypeStruct((4 * last_kernel.shape[-1], 2 * n, 2 * n, images), FLOAT)
        shapes = [mixed, *shapes] if keeps else [mixed]
    grid = (n, pl.cdiv(images, launch.tile))
    body = partial(bodies.stage_body, number=number, early=launch.early)
    return call(body, arguments, grid, shapes, launch, c, interpret)


def last_stage(mixed, biases, out, tuning, interpret):
    """conv(upsampled x) from x mixed by the kernel: [4 o, n, n, B] -> planes [o, 2n, 2n, B].

    biases: of all stages, the last `out` of them this one's.
    """
    _, n, _, images = mixed.shape
    launch = tuning.last
    span = min(n, launch.span)
    body = partial(bodies.last_body, n=n, out=out, span=span)
    grid = (out, n, pl.cdiv(images, launch.tile) * (n // span))
    shape = ShapeDtypeStruct((out * 4 * n * n, images), FLOAT)
    arguments = (mixed.reshape(-1, images), biases)
    return call(body, arguments, grid, shape, launch, 1, interpret).reshape(out, 2 * n, 2 * n, -1)


def stage_back(grad, x, kernel, through_elu, tuning, interpret):
    """Gradients of `stage` in front of its ELU: grad [2n, 2n, B, o] -> dx, its sum, d_kernel.

    through_elu: x is an ELU's output and dx is wanted in front of that ELU.
    """
    n, _, images, c = x.shape
    many = _by_width(x, tuning.stage_back, tuning.narrow_back)
    launch = many if n > FEW else tuning.few_back
    grid = (n, pl.cdiv(images, launch.tile))
    parts = ShapeDtypeStruct((*grid, kernel.size + c), FLOAT)
    body = partial(bodies.back_body, through_elu=through_elu)
    shapes = (ShapeDtypeStruct(x.shape, x.dtype), parts)
    dx, parts = call(body, (grad, x, kernel), grid, shapes, launch, c, interpret)
    total = jnp.sum(parts, axis=(0, 1))
    return dx, total[kernel.size :], total[: kernel.size].reshape(kernel.shape)


def last_stage_back(grad, y, last_kernel, tuning, interpret):
    """Gradients of the last stage, planes [o, 2n, 2n, B] -> dx, its sum, d_kernel, d_bias.

    y [n, n, B, c]: its input, an ELU's output. dx: the gradient in front of that ELU.
    """
    n, _, images, c = y.shape
    launch, out, taps = tuning.last_back, last_kernel.shape[3], COLUMNS * c
    grid = (n, pl.cdiv(images, launch.tile))
    parts = ShapeDtypeStruct((*grid, taps + c + COLUMNS // 4), FLOAT)
    shapes = (ShapeDtypeStruct(y.shape, y.dtype), parts)
    dx, parts = call(
        bodies.last_back_body, (grad, y, last_kernel), grid, shapes, launch, c, interpret
    )
    total = jnp.sum(parts, axis=(0, 1))
    d_kernel, d_sum, d_bias = jnp.split(total, (taps, taps + c))
    return dx, d_sum, d_kernel.reshape(2, 2, c, -1)[..., :out], d_bias[:out]
