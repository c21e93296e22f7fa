"""Functions of a few channels, evaluated on one array per channel.

A GPU kernel cannot have arrays of three channels, but it can have three arrays. `unroll` traces a
function of one pixel (arrays [c] in and out) and replaces each number of the trace by an array.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

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
