"""A loss at the pixels that several decoders draw together, as one function of their first stages.

On a GPU the images and their gradient are the largest arrays after the activations. Where a loss is
a sum over pixels, the last stage's kernel can go on to it and to its gradient, and images need not
be written and read again.
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

# K colours [o], what is known of the pixel's row [R] and image [I], its column [1] -> loss
Pixel = Callable


def summed_loss(pixel: Pixel, x, convs, rows, images, weights) -> jax.Array:
    """Sum over all pixels of weights [B] times `pixel`, for K decoders that draw B images together.

    x [K, B, n, n, c] and convs with a leading axis K: as `upsample_stack` takes them; what is known
    beforehand: rows [R, size, B] of each row of pixels, images [I, B] of each image.
    Several devices take their own images each, as in `upsample.over_devices`.
    """
    loss = partial(_loss, pixel, *_launch())
    mesh = kernels.mesh_in_use()
    if mesh is not None and mesh.size > 1 and kernels.splits(x.shape[1]):
        specs = P(None, "data"), P(), P(None, None, "data"), P(None, "data"), P("data")
        loss = jax.shard_map(loss, in_specs=specs, out_specs=P("data"), check_vma=False)
    return jnp.sum(loss(x, convs, rows, images, weights))


def _launch():
    """Tuning, and whether to interpret the kernels."""
    return kernels.TUNED, False


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _loss(pixel, tuning, interpret, x, convs, rows, images, weights):
    """The loss [1]: an axis that devices can be put on."""
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
    found = jax.vmap(from_images)(*saved)
    # The images' gradient was taken beforehand, of the loss itself: what follows it is linear.
    d_x, d_convs = jax.tree.map(lambda leaf: (leaf * scale[0]).astype(leaf.dtype), found)
    return d_x, d_convs, None, None, None


_loss.defvjp(_forward, _backward)


def last_stage_loss(pixel, mixed, biases, out, rows, images, weights, tuning, interpret):
    """From mixed planes [K, 4 o, n, n, B]: the loss, and its gradient [K, o, 2n, 2n, B]."""
    slots, _, n, _, batch = mixed.shape
    launch, span = tuning.loss, min(n, tuning.loss.span)
    colours, *known = (ShapeDtypeStruct((k,), FLOAT) for k in (out, len(rows), len(images), 1))
    examples = ([colours] * slots, *known)
    body = partial(
        bodies.loss_body, n=n, out=out, span=span,
        pixel=unroll(jax.value_and_grad(pixel), *examples),
    )  # fmt: skip
    grid = (n, n // span, pl.cdiv(batch, launch.tile))
    shapes = (
        ShapeDtypeStruct((slots * out * 4 * n * n, batch), FLOAT),
        ShapeDtypeStruct((grid[0] * grid[1], batch), FLOAT),
    )
    flat = [array.reshape(-1, batch) for array in (mixed, rows, images, weights)]
    arguments = (flat[0], biases, *flat[1:])
    grad, parts = kernels.call(body, arguments, grid, shapes, launch, 1, interpret)
    return jnp.sum(parts), grad.reshape(slots, out, 2 * n, 2 * n, batch)
