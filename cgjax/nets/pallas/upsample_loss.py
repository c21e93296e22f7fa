"""A sum of a loss over the pixels of images that several decoders draw together, in one kernel.

On a GPU the images and their gradient are the largest arrays after the activations. If a loss is a
sum over pixels, the last stage's kernel can compute it together with its gradient. Images are then
never written to memory.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P

from cgjax.nets.pallas import upsample as kernels
from cgjax.nets.pallas import upsample_bodies as bodies
from cgjax.nets.pallas.unrolled import unroll
from cgjax.nets.pallas.upsample_geometry import FLOAT

# K colours [o], data of the pixel's row [R] and of its image [I], its column [1] -> loss
Pixel = Callable


def summed_loss(pixel: Pixel, x, convs, rows, images, weights) -> jax.Array:
    """Sum over all pixels of weights [B] times `pixel`, for K decoders that draw B images together.

    x [K, B, n, n, c] and convs: the arguments of `upsample_stack` with a leading axis K. Inputs of
    `pixel`: rows [R, size, B] for each row of pixels, images [I, B] for each image.
    Each of several devices takes its own images, as in `upsample.over_devices`.
    """
    loss = partial(_loss, pixel, *_launch())
    mesh = kernels.mesh_in_use()
    if mesh is not None and mesh.size > 1 and kernels.splits(x.shape[1]):
        specs = P(None, "data"), P(), P(None, None, "data"), P(None, "data"), P("data")
        loss = jax.shard_map(loss, in_specs=specs, out_specs=P("data"), check_vma=False)
    return jnp.sum(loss(x, convs, rows, images, weights))


def _launch():
    """Launch settings, and whether to interpret the kernels."""
    return kernels.TUNED, False


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _loss(pixel, tuning, interpret, x, convs, rows, images, weights):
    """The loss [1]; the axis lets `shard_map` join the losses of several devices."""
    return _forward(pixel, tuning, interpret, x, convs, rows, images, weights)[0]


def _forward(pixel, tuning, interpret, x, convs, rows, images, weights):
    to_mixed = partial(kernels.to_mixed, tuning=tuning, interpret=interpret)
    mixed, hidden = jax.vmap(to_mixed)(x, convs)
    biases, out = kernels.all_biases(convs), convs[-1][1].shape[-1]
    loss, grad = last_stage_loss(
        pixel, mixed, biases, out, rows, images, weights, tuning, interpret
    )
    return loss[None], (grad, hidden, convs)


def _backward(pixel, tuning, interpret, saved, scale):
    from_images = partial(kernels.from_images, tuning=tuning, interpret=interpret)
    gradients = jax.vmap(from_images)(*saved)
    # The forward pass computes the gradient of the loss by the images. The rest is linear in it,
    # so it is scaled at the end.
    d_x, d_convs = jax.tree.map(lambda leaf: (leaf * scale[0]).astype(leaf.dtype), gradients)
    return d_x, d_convs, None, None, None


_loss.defvjp(_forward, _backward)


def last_stage_loss(pixel, mixed, biases, out, rows, images, weights, tuning, interpret):
    """From mixed planes [K, 4 o, n, n, B]: the loss, and its gradient [K, o, 2n, 2n, B]."""
    slots, _, n, _, batch = mixed.shape
    launch, span = tuning.loss, min(n, tuning.loss.span)
    colours, *known = (ShapeDtypeStruct((k,), FLOAT) for k in (out, len(rows), len(images), 1))
    examples = ([colours] * slots, *known)
    body = partial(
        bodies.loss_body,
        n=n,
        out=out,
        span=span,
        pixel=unroll(jax.value_and_grad(pixel), *examples),
    )
    grid = (n, n // span, pl.cdiv(batch, launch.tile))
    shapes = (
        ShapeDtypeStruct((slots * out * 4 * n * n, batch), FLOAT),
        ShapeDtypeStruct((grid[0] * grid[1], batch), FLOAT),
    )
    flat = [array.reshape(-1, batch) for array in (mixed, rows, images, weights)]
    arguments = (flat[0], biases, *flat[1:])
    grad, parts = kernels.call(body, arguments, grid, shapes, launch, 1, interpret)
    return jnp.sum(parts), grad.reshape(slots, out, 2 * n, 2 * n, batch)
