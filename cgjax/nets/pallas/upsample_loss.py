"""A sum of a loss over the pixels of images that several decoders draw together, in one kernel.

On a GPU the images and their gradient are the largest arrays after the activations. If a loss is a
sum over pixels, the last stage's kernel can compute it together with its gradient. Images are then
never written to memory.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P

from cgjax.nets.pallas import upsample as kernels
from cgjax.nets.pallas import upsample_bodies as bodies
from cgjax.nets.pallas.upsample_bodies import FLOAT

# K colours [o], data of the pixel's row [R] and of its image [I], its column [1] -> loss
Pixel = Callable


def summed_loss(pixel: Pixel, x, convs, rows, images, weights) -> jax.Array:
    """Sum over all pixels of weights [B] times `pixel`, for K decoders that draw B images together.

    x [K, B, n, n, c] and convs: the arguments of `upsample_stack` with a leading axis K. Inputs of
    `pixel`: rows [R, size, B] for each row of pixels, images [I, B] for each image.
    Each of several devices takes its own images, as in `upsample.over_devices`.
    """
    loss = partial(_loss, pixel, *_launch(x.shape[-1]))
    mesh = kernels.mesh_in_use()
    if mesh is not None and mesh.size > 1 and kernels.splits(x.shape[1]):
        specs = P(None, "data"), P(), P(None, None, "data"), P(None, "data"), P("data")
        loss = jax.shard_map(loss, in_specs=specs, out_specs=P("data"), check_vma=False)
    return jnp.sum(loss(x, convs, rows, images, weights))


def _launch(channels):
    """Launch settings, and whether to interpret the kernels."""
    return kernels.tuned(channels), False


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
    grad, parts = kernels.call(body, arguments, grid, shapes, launch, interpret)
    return jnp.sum(parts), grad.reshape(slots, out, 2 * n, 2 * n, batch)


# --- unrolled -------------------------------------------------------------------------------------
# Functions of a few channels, evaluated on one array per channel.
#
# A GPU kernel cannot have arrays of three channels, but it can have three arrays. `unroll` traces a
# function of one pixel (arrays [c] in and out) and replaces each number of the trace by an array.


_CALLS = ("pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call")


def unroll(fn: Callable, *examples) -> Callable:
    """fn with nested lists of arrays in place of its arguments, which are shaped like `examples`.

    All elements of the lists are arrays of one shape. The result is fn's tree with NumPy object
    arrays as leaves; their elements are arrays of that shape too.
    """
    closed, shape = jax.make_jaxpr(fn, return_shape=True)(*examples)
    structure = jax.tree.structure(shape)

    def on_arrays(*arguments):
        lists = jax.tree.structure(examples).flatten_up_to(arguments)
        boxes = [_boxed(*pair) for pair in zip(lists, (aval.shape for aval in closed.in_avals))]
        leaves = _evaluate(closed.jaxpr, closed.consts, boxes, boxes[0].flat[0].shape)
        return jax.tree.unflatten(structure, leaves)

    return on_arrays


def _boxed(values, shape):
    """Nested lists of arrays -> an object array of `shape`."""
    box = np.empty(shape, object)
    for place in np.ndindex(shape):
        value = values
        for i in place:
            value = value[i]
        box[place] = value
    return box


def _constant(value, dtype, shape):
    value = np.asarray(value)
    numbers = [jnp.full(shape, number, dtype) for number in value.reshape(-1)]
    return _boxed(numbers, (len(numbers),)).reshape(value.shape)


def _evaluate(jaxpr, consts, arguments, shape) -> list:
    pairs = zip(jaxpr.constvars, consts, strict=True)
    known = {var: _constant(const, var.aval.dtype, shape) for var, const in pairs}
    known |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(var):
        is_literal = hasattr(var, "val")
        return _constant(var.val, var.aval.dtype, shape) if is_literal else known[var]

    for eqn in jaxpr.eqns:
        results = _apply(eqn, [read(var) for var in eqn.invars], shape)
        known.update(zip(eqn.outvars, results))
    return [read(var) for var in jaxpr.outvars]


def _apply(eqn, values, shape) -> list:
    name, params = eqn.primitive.name, eqn.params
    if name in _CALLS:
        inner = params["jaxpr"] if "jaxpr" in params else params["call_jaxpr"]
        return _evaluate(inner.jaxpr, inner.consts, values, shape)
    if name in _SHAPES:
        return [_SHAPES[name](*values, **params)]
    if name in _PARTS:
        return _PARTS[name](*values, **params)
    if name in _REDUCTIONS:
        return [_reduce(_REDUCTIONS[name], values[0], params["axes"])]
    # Cumulative sums, sorting and reversing keep the shape but are not element-wise.
    if not values or any(part in key for key in params for part in ("axis", "axes", "dimension")):
        raise NotImplementedError(f"no rule for {name} on unrolled channels")
    values = np.broadcast_arrays(*values)
    if values[0].shape != eqn.outvars[0].aval.shape:
        raise NotImplementedError(f"no rule for {name} on unrolled channels")
    return [_each(eqn.primitive, values, params)]


def _each(primitive, values, params):
    """Apply an element-wise primitive to each element of the object arrays."""
    box = np.empty(values[0].shape, object)
    for place in np.ndindex(box.shape):
        box[place] = primitive.bind(*(value[place] for value in values), **params)
    return box


def _reduce(combine, value, axes):
    shape = tuple(length for axis, length in enumerate(value.shape) if axis not in axes)
    last = np.moveaxis(value, axes, range(-len(axes), 0)).reshape(*shape, -1)
    box = np.empty(shape, object)
    for place in np.ndindex(shape):
        total, *rest = last[place]
        for other in rest:
            total = combine(total, other)
        box[place] = total
    return box


def _broadcast(value, *, shape, broadcast_dimensions, **_):
    wanted = [1] * len(shape)
    for axis, length in zip(broadcast_dimensions, value.shape):
        wanted[axis] = length
    return np.broadcast_to(value.reshape(wanted), shape)


def _slice(value, *, start_indices, limit_indices, strides, **_):
    steps = strides or (1,) * value.ndim
    return value[tuple(map(slice, start_indices, limit_indices, steps))]


def _pad(value, filling, *, padding_config, **_):
    if any(low < 0 or high < 0 or inner for low, high, inner in padding_config):
        raise NotImplementedError("unrolled channels are only padded outwards")
    shape = [low + n + high for n, (low, high, _) in zip(value.shape, padding_config)]
    box = np.empty(shape, object)
    box[...] = filling
    box[tuple(slice(low, low + n) for n, (low, *_) in zip(value.shape, padding_config))] = value
    return box


def _split(value, *, sizes, axis):
    return np.split(value, np.cumsum(sizes)[:-1], axis)


def _unstack(value, *, axis):
    return [np.asarray(part, object) for part in np.moveaxis(value, axis, 0)]


_PARTS = {"split": _split, "unstack": _unstack}
_REDUCTIONS = {"reduce_sum": jnp.add, "reduce_max": jnp.maximum, "reduce_min": jnp.minimum}
_SHAPES = {
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "pad": _pad,
    "reshape": lambda value, *, new_sizes, **_: value.reshape(new_sizes),
    "squeeze": lambda value, *, dimensions, **_: np.squeeze(value, dimensions),
    "expand_dims": lambda value, *, dimensions, **_: np.expand_dims(value, dimensions),
    "transpose": lambda value, *, permutation, **_: value.transpose(permutation),
    "stack": lambda *values, axis, **_: np.stack(values, axis),
    "concatenate": lambda *values, dimension, **_: np.concatenate(values, dimension),
    "stop_gradient": lambda value, **_: value,
}
