"""GPU kernels for a decoder's stages: bilinear x2, 2x2 convolution, bias and ELU in one pass.

Two choices save memory traffic. Interpolated activations are never written to memory. The last
inner stage has the largest output; its kernel multiplies that output by the last stage's kernel
before writing it, so the last stage interpolates only these 4 o products per pixel. Only
the gradient of the last stage reads the output itself, from memory: recomputing it is slower on an
H200. The backward pass of each stage is one kernel. Between kernels, activations are
[rows, columns, images, channels]; `upsample_geometry` gives the reason. Sums are float32 for every
dtype of the activations. The kernels have only reverse-mode derivatives; `upsample.reordered` also
has forward-mode ones.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P

from cgjax.nets.pallas import launch as run
from cgjax.nets.pallas import upsample_bodies as bodies
from cgjax.nets.pallas.upsample_bodies import COLUMNS, FLOAT, interpreted


class Launch(NamedTuple):
    """Images per tile, warps per program, and options of some kernels.

    span: columns of pixels per program, last stage only.
    early: read a stage's input one step before it is needed; this takes registers.
    stages: depth of Triton's software pipeline, which reads stages - 1 steps ahead into shared
    memory. Depth two reads only after a step is done and is slower than depth one.
    """

    tile: int = 64
    warps: int = 4
    span: int = 16
    early: bool = False
    stages: int = 1


class Tuning(NamedTuple):
    """Launch settings of the kernels.

    stage_mix: the last inner stage, which also multiplies by the last kernel. few_back: backward
    pass of stages with at most FEW rows, where larger tiles would leave a GPU idle.
    narrow_*: for activations narrower than float32.
    """

    stage: Launch = Launch(16, 2, early=True, stages=3)
    narrow_stage: Launch = Launch()
    stage_mix: Launch = Launch(stages=3)
    narrow_mix: Launch = Launch(early=True)
    last: Launch = Launch(64, 1, 8)
    stage_back: Launch = Launch()
    narrow_back: Launch = Launch(stages=3)
    few_back: Launch = Launch(32)
    last_back: Launch = Launch()
    loss: Launch = Launch(64, 2)


# The fastest settings measured on an H200, kernel by kernel or in a training step, for stages of 16
# and 32 channels, and for 64. Float32; for narrower activations of 64 channels only the warps were
# measured. `python -m cgjax.bench launches` measures others.
TUNED = Tuning()
WIDE = Tuning(
    stage=Launch(32, 8, early=True, stages=4),
    narrow_stage=Launch(warps=8),
    stage_mix=Launch(32, 8, early=True),
    narrow_mix=Launch(warps=8, early=True),
    stage_back=Launch(32, 8),
    narrow_back=Launch(warps=8),
    few_back=Launch(32, 8),
    last_back=Launch(stages=3),
)
FEW = 8


def tuned(channels: int) -> Tuning:
    """The settings for a decoder of so many channels."""
    return TUNED if channels <= 32 else WIDE


def supports(channels: int, out_channels: int, kernel: int, activation: str) -> bool:
    """Whether the kernels can run this decoder."""
    fits = channels in (16, 32, 64) and out_channels <= COLUMNS // 4
    return fits and kernel == 2 and activation == "elu"


def upsample_stack(x: jax.Array, convs, tuning: Tuning | None = None, interpret: bool = False):
    """Stages of a decoder: x [B,n,n,c], convs [(kernel [2,2,c,o], bias [o]), ...] -> images.

    tuning: default: `tuned` of the channels.
    ELU follows every stage except the last. Activations have the dtype of x. n is a power of two;
    there are two or more stages. The images are float32 [B, 2^stages n, 2^stages n, o], o <= 4.
    """
    return _stack(x, convs, tuning or tuned(x.shape[-1]), interpret)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _stack(x, convs, tuning, interpret):
    return _stack_forward(x, convs, tuning, interpret, keeps=False)[0]


def _stack_forward(x, convs, tuning, interpret, keeps=True):
    mixed, hidden = to_mixed(x, convs, tuning, interpret, keeps)
    image = last_stage(mixed, all_biases(convs), convs[-1][1].size, tuning, interpret)
    return image.transpose(3, 1, 2, 0), (hidden, convs)


def _stack_backward(tuning, interpret, saved, grad):
    return from_images(grad.transpose(3, 1, 2, 0), *saved, tuning, interpret)


_stack.defvjp(_stack_forward, _stack_backward)


def to_mixed(x, convs, tuning, interpret, keeps=True):
    """All stages except the last: its mixed input, planes [4 o, n, n, B]; inputs of the stages.

    keeps: whether the list of inputs includes that of the last stage; only its gradient needs it.
    """
    hidden, biases = [x.transpose(1, 2, 0, 3)], all_biases(convs)
    for i, (kernel, _) in enumerate(convs[:-2]):
        hidden += stage(hidden[-1], kernel, biases, i, None, True, tuning, interpret)
    kernels, i = (convs[-2][0], convs[-1][0]), len(convs) - 2
    mixed, *last_input = stage(
        hidden[-1], kernels[0], biases, i, kernels[1], keeps, tuning, interpret
    )
    return mixed, hidden + last_input


def all_biases(convs):
    """One array [stages * c + o]: XLA would copy many small arrays for the kernels."""
    return jnp.concatenate([bias for _, bias in convs], -1)


def from_images(grad, hidden, convs, tuning, interpret):
    """Gradient of the images as planes [o, 2n, 2n, B] -> gradients of x and convs."""
    gradients = last_stage_back(grad, hidden[-1], convs[-1][0], tuning, interpret)
    grad, d_lower, *d_last = gradients
    d_convs = [tuple(d_last)]
    for i in reversed(range(len(convs) - 1)):
        d_bias = d_lower
        grad, d_lower, d_kernel = stage_back(grad, hidden[i], convs[i][0], i > 0, tuning, interpret)
        d_convs.insert(0, (d_kernel, d_bias))
    return grad.transpose(2, 0, 1, 3), d_convs


# --- several devices ---------------------------------------------------------------------------
# XLA cannot split a kernel: it would gather the whole batch on each device. `shard_map` therefore
# runs the kernels on the rows of each device; only the sum of the weights' gradients is exchanged.


def splits(batch: int) -> bool:
    """Whether each device can take its own rows: the batch divides over the mesh, or one device."""
    mesh = mesh_in_use()
    return jax.device_count() == 1 if mesh is None else batch % mesh.shape["data"] == 0


def over_devices(x: jax.Array, convs) -> jax.Array:
    """`upsample_stack` on each device's rows of x; on all rows if `splits` is false.

    An axis of replicas made by `jax.vmap(..., spmd_axis_name="seed")` is split too.
    """
    mesh = mesh_in_use()
    if mesh is None or mesh.size == 1 or not splits(len(x)):
        return upsample_stack(x, convs)
    # The transpose of a shared input is a `psum` of its gradients over "data". check_vma is off,
    # because the results of Pallas kernels do not declare the axes over which they vary.
    specs = {"in_specs": (P("data"), P()), "out_specs": P("data")}
    return jax.shard_map(upsample_stack, **specs, check_vma=False)(x, convs)


def mesh_in_use():
    """The ("seed", "data") mesh of the program being traced, or None.

    None inside another `shard_map`: its axes are manual, and each device already has its rows.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return mesh if mesh.axis_names == ("seed", "data") and mesh.are_all_axes_auto else None


# --- launches ----------------------------------------------------------------------------------


def call(body, arguments, grid, out_shape, launch: Launch, interpret):
    """Run one kernel; program ids have the axes of `grid`."""
    with interpreted(interpret):
        body = partial(body, size=launch.tile)
        return run.launch(body, arguments, grid, out_shape, launch.warps, launch.stages, interpret)


def _by_width(x, wide: Launch, narrow: Launch) -> Launch:
    return wide if x.dtype.itemsize == 4 else narrow


def stage(x, kernel, biases, number, last_kernel, keeps, tuning, interpret):
    """y = ELU(conv(upsampled x)) of stage `number`: x [n, n, B, c] -> [y [2n, 2n, B, o]].

    With a last kernel: [y mixed by it], and y too if `keeps`.
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
    return call(body, arguments, grid, shapes, launch, interpret)


def last_stage(mixed, biases, out, tuning, interpret):
    """conv(upsampled x) from x mixed by the kernel: [4 o, n, n, B] -> planes [o, 2n, 2n, B].

    biases: of all stages; the last `out` of them belong to this stage.
    """
    _, n, _, images = mixed.shape
    launch = tuning.last
    span = min(n, launch.span)
    body = partial(bodies.last_body, n=n, out=out, span=span)
    grid = (out, n, pl.cdiv(images, launch.tile) * (n // span))
    shape = ShapeDtypeStruct((out * 4 * n * n, images), FLOAT)
    arguments = (mixed.reshape(-1, images), biases)
    return call(body, arguments, grid, shape, launch, interpret).reshape(out, 2 * n, 2 * n, -1)


def stage_back(grad, x, kernel, through_elu, tuning, interpret):
    """Gradients of `stage` without its ELU: grad [2n, 2n, B, o] -> dx, sum of dx, d_kernel.

    grad: with respect to the input of the stage's ELU. through_elu: x is the output of an ELU, and
    dx is the gradient with respect to that ELU's input.
    """
    n, _, images, c = x.shape
    many = _by_width(x, tuning.stage_back, tuning.narrow_back)
    launch = many if n > FEW else tuning.few_back
    grid = (n, pl.cdiv(images, launch.tile))
    parts = ShapeDtypeStruct((*grid, kernel.size + c), FLOAT)
    body = partial(bodies.back_body, through_elu=through_elu)
    shapes = (ShapeDtypeStruct(x.shape, x.dtype), parts)
    dx, parts = call(body, (grad, x, kernel), grid, shapes, launch, interpret)
    total = jnp.sum(parts, axis=(0, 1))
    return dx, total[kernel.size :], total[: kernel.size].reshape(kernel.shape)


def last_stage_back(grad, y, last_kernel, tuning, interpret):
    """Gradients of the last stage: grad, planes [o, 2n, 2n, B] -> dx, its sum, d_kernel, d_bias.

    y [n, n, B, c]: input of the stage, the output of an ELU. dx: gradient of that ELU's input.
    """
    n, _, images, c = y.shape
    launch, out, taps = tuning.last_back, last_kernel.shape[3], COLUMNS * c
    grid = (n, pl.cdiv(images, launch.tile))
    parts = ShapeDtypeStruct((*grid, taps + c + COLUMNS // 4), FLOAT)
    shapes = (ShapeDtypeStruct(y.shape, y.dtype), parts)
    dx, parts = call(bodies.last_back_body, (grad, y, last_kernel), grid, shapes, launch, interpret)
    total = jnp.sum(parts, axis=(0, 1))
    d_kernel, d_sum, d_bias = jnp.split(total, (taps, taps + c))
    return dx, d_sum, d_kernel.reshape(2, 2, c, -1)[..., :out], d_bias[:out]
