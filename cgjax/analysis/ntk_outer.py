"""Jacobians of layers with positions, as one matrix product for each sample.

The Jacobian of a convolution's weight is sum_p a_p d_p^T over positions p, with a_p what the window
sees there. Writing out what each window sees repeats every input as often as the window has places,
25 times for 5 x 5. But the place along the first axis may also be counted on the other side:

    sum_y a[y + i, (j, c)] d[y, m]  =  sum_z a[z, (j, c)] d[z - i, m]

so that a is repeated for the places j of the other axes alone, and d for those of the first: 5
times each, and the product is closer to a square.
"""

import math

import jax
import jax.numpy as jnp

from cgjax.analysis.ntk_layers import Entered, Layer, Step


def sides(step: Step, layer: Layer, entered: Entered, d: jax.Array) -> tuple:
    """a [p, k] and d [o, p, m], whose sum over p of outer products is the weight's Jacobian.

    d: cotangents of y, [o, *y]. The Jacobian's entries come in an order of their own.
    """
    d = cotangent(layer, d)
    if step.name == "conv_general_dilated":
        a, d = _windows(entered.value, d, layer, step)
    else:
        contracted = step.params["dimension_numbers"][0][1 - layer.side]
        free = tuple(axis for axis in range(entered.value.ndim) if axis not in contracted)
        a = entered.value.transpose(*free, *contracted)
        a = a.reshape(layer.positions, layer.fan_in)
    return a * entered.weight_scale, d


def cotangent(layer: Layer, d: jax.Array) -> jax.Array:
    """Cotangents of y [o, *y] as [o, positions, width]."""
    channels = tuple(axis + 1 for axis in layer.channels)
    if math.prod(d.shape[axis] for axis in channels) != layer.width:
        raise ValueError(f"d is [o, *y] with width {layer.width} on axes {channels}: {d.shape}")
    rest = tuple(axis for axis in range(1, d.ndim) if axis not in channels)
    return d.transpose(0, *rest, *channels).reshape(len(d), layer.positions, layer.width)


def _windows(a, d, layer, step):
    """Both sides of a convolution, one of them written out for each axis of the window."""
    params, numbers = step.params, step.params["dimension_numbers"]
    a = a.transpose(numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1])
    inside = [dilation - 1 for dilation in params["lhs_dilation"]]
    edges = [(low, high, between) for (low, high), between in zip(params["padding"], inside)]
    a = jax.lax.pad(a, jnp.zeros((), a.dtype), [(0, 0, 0), *edges, (0, 0, 0)])
    rows = step.avals[0].shape[numbers.out_spec[2]]
    steps = list(zip(layer.window, params["rhs_dilation"], params["window_strides"]))
    can = len(a) == 1 and layer.positions > 1 and steps[0][2] == 1
    shared = can and _is_less(layer, rows, a.shape[1], len(d))
    for axis, (size, spread, stride) in enumerate(steps, start=1):
        if axis > 1 or not shared:
            a = _seen(a, axis, size, spread, stride)
    if shared:
        d = _shifted(d.reshape(len(d), rows, -1, layer.width), *steps[0][:2])
    return a.reshape(d.shape[1], -1), d


def _is_less(layer, rows, padded_rows, n_outputs):
    """Whether fewer values are written out when d takes the first axis of the window."""
    size = layer.window[0]
    alone = rows * (layer.fan_in + n_outputs * layer.width)
    return padded_rows * (layer.fan_in / size + n_outputs * layer.width * size) < alone


def _seen(a, axis, size, spread, stride):
    """What each position along one axis sees, side by side on the last axis.

    Slices, rather than a convolution with an identity: only memory moves, and little is compiled.
    """
    reach = (size - 1) * spread
    starts = range(0, reach + 1, spread)
    stops = [start + a.shape[axis] - reach for start in starts]
    cut = [jax.lax.slice_in_dim(a, *ends, stride, axis) for ends in zip(starts, stops)]
    return jnp.concatenate(cut, axis=-1)


def _shifted(d, size, spread):
    """d [o, rows, rest, m] -> [o, (rows + reach) rest, size m]: row y at y + i spread."""
    reach = (size - 1) * spread
    edges = [(i, reach - i) for i in range(0, reach + 1, spread)]
    d = jnp.concatenate([jnp.pad(d, [(0, 0), edge, (0, 0), (0, 0)]) for edge in edges], axis=-1)
    return d.reshape(len(d), -1, d.shape[-1])
