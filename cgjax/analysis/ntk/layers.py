"""Detects the layers of any f(params, x) in its trace, for the structured NTK.

In a layer y = a W + b, dense or convolutional, the Jacobian of one output with respect to W is
sum_p a_p d_p^T over the positions p. Here a_p [fan_in] is the input of the layer and d_p [width] is
the cotangent of y. So dense layers (one position) need no Jacobian: their share of the kernel is
(a . a')(d . d'), and the bias adds 1 to a . a'. For layers with positions, one matrix product gives
the Jacobian (below), because a per-sample convolution gradient is slow. Nothing has to be declared:
a weight belongs to a layer if the trace uses it once, in a matrix product or an ungrouped
convolution, and only reshapes, transposes, casts and products with scalars come before.
Every other parameter keeps its plain Jacobian, so the kernel is correct for any f.
"""

import collections
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Jaxpr, Literal, jaxpr_as_fun

from cgjax.analysis.ntk import functions


class Step(NamedTuple):
    """One primitive of the trace; operands and results by number."""

    name: str
    params: dict
    operands: tuple  # numbers, or _Known
    results: tuple
    avals: tuple  # shapes and dtypes of the results
    evaluate: Callable  # operands -> {place among the results: value}


class Layer(NamedTuple):
    """y = a W + b at `positions` places of one sample."""

    step: int  # where the product is taken
    side: int  # which operand is the weight
    weight: int  # leaf numbers
    bias: int | None
    weight_scale: tuple  # (operand, whether it divides): scalars between leaf and product
    bias_scale: tuple
    channels: tuple  # axes of y that run over the width; the others are positions
    positions: int
    fan_in: int
    width: int
    window: tuple = ()  # places of a convolution's kernel along each axis


class Trace(NamedTuple):
    """The steps and layers of f at one sample."""

    steps: list
    leaves: list  # numbers of the parameter leaves
    inputs: list
    outputs: list
    layers: tuple
    rest: tuple  # leaf numbers with a plain Jacobian
    n_outputs: int
    flops: int  # of one evaluation


class _Known(NamedTuple):
    value: Any


class _Alias(NamedTuple):
    """A value that holds one leaf's entries, possibly reordered, scaled or repeated along axes."""

    leaf: int
    varies: tuple  # per axis: True if it runs over entries of the leaf, False if it repeats them
    scale: tuple


def trace(f: Callable, params, x) -> Trace:
    """Splits f into steps and layers, at the shapes of params and of one sample x."""
    leaves, tree = jax.tree.flatten(params)
    flat_x, tree_x = jax.tree.flatten(x)

    def flat(leaves, flat_x):
        return functions.single(f, tree.unflatten(leaves), tree_x.unflatten(flat_x))

    closed = jax.make_jaxpr(flat)(leaves, flat_x)
    number = itertools.count()
    numbers = [next(number) for _ in closed.jaxpr.invars]
    steps = []
    outputs = _flatten(closed.jaxpr, closed.consts, numbers, number, steps)
    leaf_numbers = numbers[: len(leaves)]
    is_free = functions.is_free(params)
    layers = _layers(steps, dict(zip(leaf_numbers, leaves)), outputs, is_free)
    in_layers = {leaf for layer in layers for leaf in (layer.weight, layer.bias)}
    rest = tuple(i for i, free in enumerate(is_free) if free and i not in in_layers)
    n_outputs, flops = closed.out_avals[0].size, _flops(closed.jaxpr)
    inputs = numbers[len(leaves) :]
    return Trace(steps, leaf_numbers, inputs, outputs, tuple(layers), rest, n_outputs, flops)


def _flatten(jaxpr, consts, arguments, number, steps):
    """Appends the steps of a jaxpr, nested jits inlined; returns its outputs."""
    env = dict(zip(jaxpr.constvars, map(_Known, consts))) | dict(zip(jaxpr.invars, arguments))

    def read(atom):
        return _Known(atom.val) if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        operands = tuple(read(atom) for atom in eqn.invars)
        if eqn.primitive.name in ("jit", "pjit"):
            inner = eqn.params["jaxpr"]
            results = _flatten(inner.jaxpr, inner.consts, operands, number, steps)
        else:
            results = tuple(next(number) for _ in eqn.outvars)
            avals = tuple(var.aval for var in eqn.outvars)
            evaluate = _evaluator(eqn, jaxpr.debug_info)
            steps.append(Step(eqn.primitive.name, eqn.params, operands, results, avals, evaluate))
        env.update(zip(eqn.outvars, results))
    return [read(atom) for atom in jaxpr.outvars]


def _evaluator(eqn, debug_info):
    """One equation as a function from its operands to a dictionary: result's place -> value."""
    places = {}  # of each variable among the operands; a variable may occur twice
    for place, atom in enumerate(eqn.invars):
        if not isinstance(atom, Literal):
            places.setdefault(atom, place)
    results = {i: var for i, var in enumerate(eqn.outvars) if not isinstance(var, DropVar)}
    jaxpr = Jaxpr((), list(places), list(results.values()), [eqn], eqn.effects, debug_info)
    function = jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))
    return lambda operands: dict(zip(results, function(*(operands[i] for i in places.values()))))


def _flops(jaxpr) -> int:
    """Operations of one evaluation: two per product in dots and convolutions, else one a value."""
    total = 0
    for eqn in jaxpr.eqns:
        size = sum(math.prod(shape(var.aval)) for var in eqn.outvars)
        inner = [getattr(p, "jaxpr", p) for p in eqn.params.values()]
        inner = [p for p in inner if hasattr(p, "eqns")]
        if eqn.primitive.name == "dot_general":
            contracted = eqn.params["dimension_numbers"][0][0]
            total += 2 * size * math.prod(eqn.invars[0].aval.shape[i] for i in contracted)
        elif eqn.primitive.name == "conv_general_dilated":
            kernel = eqn.invars[1].aval.shape
            total += 2 * size * math.prod(kernel) // kernel[_numbers(eqn).rhs_spec[0]]
        elif inner:
            total += eqn.params.get("length", 1) * sum(map(_flops, inner))
        else:
            total += size
    return total


def shape(aval) -> tuple:
    return getattr(aval, "shape", ())  # a token has no shape


def _numbers(step):
    return step.params["dimension_numbers"]


# --- finding the layers ---------------------------------------------------------------------------


def _layers(steps, leaves, outputs, is_free):
    """The layers of a trace; `leaves` maps numbers to arrays; is_free: which of them count."""
    uses = collections.Counter(n for step in steps for n in step.operands if isinstance(n, int))
    uses.update(n for n in outputs if isinstance(n, int))
    aliases, shapes = {}, {}
    for i, (n, leaf) in enumerate(leaves.items()):
        shapes[n] = leaf.shape
        if is_free[i]:
            aliases[n] = _Alias(i, (True,) * len(leaf.shape), ())
    layers, made = [], {}  # made: the result's number -> its place in layers
    for index, step in enumerate(steps):
        shapes.update(zip(step.results, map(shape, step.avals)))
        operand_aliases = [
            aliases.get(n) if isinstance(n, int) and uses[n] == 1 else None for n in step.operands
        ]
        if not any(operand_aliases):
            continue
        if layer := _layer(index, step, operand_aliases, shapes):
            made[step.results[0]] = len(layers)
            layers.append(layer)
        elif step.name == "add":
            _take_bias(step, operand_aliases, shapes, uses, layers, made)
        elif alias := _passed_on(step, operand_aliases, shapes):
            aliases[step.results[0]] = alias
    return layers


def _layer(index, step, operand_aliases, shapes):
    """The layer that this step computes, if it is one."""
    y, window = shapes[step.results[0]], ()
    if step.name == "dot_general":
        contracted, batch = step.params["dimension_numbers"]
        side = 1 if operand_aliases[1] and all(operand_aliases[1].varies) else 0
        if any(batch) or not (operand_aliases[side] and all(operand_aliases[side].varies)):
            return None
        weight = shapes[step.operands[side]]
        fan_in = math.prod(weight[i] for i in contracted[side])
        n_free = len(weight) - len(contracted[side])
        channels = tuple(range(len(y)))[len(y) - n_free :] if side else tuple(range(n_free))
    elif step.name == "conv_general_dilated":
        groups = (step.params["feature_group_count"], step.params["batch_group_count"])
        batch, channel, *space = _numbers(step).out_spec
        ordered = sorted([batch, *space]) == [batch, *space]
        side = 1
        if (
            groups != (1, 1)
            or not ordered
            or not (operand_aliases[1] and all(operand_aliases[1].varies))
        ):
            return None
        channels = (channel,)
        kernel = shapes[step.operands[1]]
        fan_in = math.prod(kernel) // y[channel]
        window = tuple(kernel[i] for i in _numbers(step).rhs_spec[2:])
    else:
        return None
    width = math.prod(y[i] for i in channels)
    alias, positions = operand_aliases[side], math.prod(y) // max(width, 1)
    return Layer(
        index, side, alias.leaf, None, alias.scale, (), channels, positions, fan_in, width, window
    )


def _take_bias(step, operand_aliases, shapes, uses, layers, made):
    """Sets the bias of a layer if this sum adds one leaf along the layer's width."""
    for y, alias, n in zip(step.operands, operand_aliases[::-1], step.operands[::-1]):
        layer = layers[made[y]] if isinstance(y, int) and y in made and uses[y] == 1 else None
        if not layer or not alias or layer.bias is not None or shapes[step.results[0]] != shapes[y]:
            continue
        runs = [
            i
            for i, (varies, size) in enumerate(zip(alias.varies, shapes[n]))
            if varies and size > 1
        ]
        along = set(runs) <= set(layer.channels)
        if along and math.prod(shapes[n][i] for i in runs) == layer.width:
            layers[made[y]] = layer._replace(bias=alias.leaf, bias_scale=alias.scale)
            return


def _passed_on(step, operand_aliases, shapes):
    """The alias of this step's result, if the step only moves, casts or scales a leaf's entries."""
    name, out = step.name, shapes[step.results[0]]
    alias = next(filter(None, operand_aliases))
    moved = alias._replace(varies=(True,) * len(out))
    if name in ("mul", "div"):
        place = operand_aliases.index(alias)
        other = step.operands[1 - place]
        size = math.prod(shapes[other]) if isinstance(other, int) else jnp.size(other.value)
        if size == 1 and out == shapes[step.operands[place]]:
            if name == "mul" or place == 0:
                return alias._replace(scale=(*alias.scale, (other, name == "div")))
    elif name == "convert_element_type":
        if jnp.issubdtype(step.params["new_dtype"], jnp.floating):
            return alias
    elif name in ("reshape", "transpose", "squeeze") and all(alias.varies):
        return moved
    elif name == "broadcast_in_dim" and all(alias.varies):
        before, axes = shapes[step.operands[0]], step.params["broadcast_dimensions"]
        varying = [axis for axis, size in zip(axes, before) if size == out[axis]]
        return alias._replace(varies=tuple(i in varying or out[i] == 1 for i in range(len(out))))
    return None


# --- running a trace ------------------------------------------------------------------------------


class Entered(NamedTuple):
    """The input of a layer's product, and the scales of its weight and bias."""

    value: jax.Array  # the other operand
    weight_scale: Any  # factors of weight and bias
    bias_scale: Any  # None: no bias


def run(
    traced: Trace, leaves: list, x, nudges: list, loops: bool = False
) -> tuple[jax.Array, list]:
    """f at one sample, `nudges[i]` added to the i-th layer's y: outputs [o], inputs of layers."""
    if len(leaves) != len(traced.leaves):
        raise ValueError(f"the trace has {len(traced.leaves)} leaves, got {len(leaves)}")
    shapes = [traced.steps[layer.step].avals[0].shape for layer in traced.layers]
    if [jnp.shape(nudge) for nudge in nudges] != shapes:
        raise ValueError(f"nudges need the shapes of the layers' y, {shapes}: see no_nudges")
    env = dict(zip(traced.leaves, leaves)) | dict(zip(traced.inputs, jax.tree.leaves(x)))

    def read(atom):
        return atom.value if isinstance(atom, _Known) else env[atom]

    places = {layer.step: i for i, layer in enumerate(traced.layers)}
    for index, step in enumerate(traced.steps):
        operands = [read(atom) for atom in step.operands]
        results = _evaluated(step, operands, loops and index in places)
        if index in places:
            results[0] += nudges[places[index]]
        env.update((step.results[i], value) for i, value in results.items())
    return read(traced.outputs[0]), [_entered(traced, layer, read) for layer in traced.layers]


def _evaluated(step, operands, loops):
    dtypes = {functions.dtype(value) for value in (*operands, *step.avals)}
    if loops and step.name == "dot_general" and len(dtypes) == 1:
        contracted, _ = step.params["dimension_numbers"]  # a layer's product has no batch axes
        return {0: in_loops(*operands, contracted)}
    return step.evaluate(operands)


def in_loops(a: jax.Array, b: jax.Array, contracted: tuple) -> jax.Array:
    """The result of `lax.dot_general` over these axes of a and b, as a loop without a call.

    The compiler fuses the loop with the operations that follow.
    """
    (k1, k2), sides = contracted, []
    for x, axes in ((a, k1), (b, k2)):
        free = [axis for axis in range(x.ndim) if axis not in axes]
        sides.append(x.transpose(*free, *axes).reshape(*(x.shape[i] for i in free), -1))
    a, b = sides
    a, b = (
        jnp.expand_dims(a, range(a.ndim - 1, a.ndim + b.ndim - 2)),
        jnp.expand_dims(b, range(a.ndim - 1)),
    )
    return jnp.sum(a * b, axis=-1)


def _entered(traced, layer, read):
    value = read(traced.steps[layer.step].operands[1 - layer.side])
    bias_scale = None if layer.bias is None else _scale(layer.bias_scale, read)
    return Entered(value, _scale(layer.weight_scale, read), bias_scale)


def _scale(scalars, read):
    scale = 1.0
    for atom, divides in scalars:
        value = jnp.reshape(read(atom), ())
        scale = scale / value if divides else scale * value
    return scale


def no_nudges(traced: Trace) -> list:
    """Zeros of the shape of each layer's y."""
    avals = [traced.steps[layer.step].avals[0] for layer in traced.layers]
    return [jnp.zeros(aval.shape, aval.dtype) for aval in avals]


# --- factors of the Jacobian ----------------------------------------------------------------------


def factors(f: Callable, params, x, reduce: Callable, loops: bool = False) -> tuple[list, list]:
    """The factors of the Jacobian at one sample: (dense, flat).

    dense: a list of (a [fan_in], d [o, width], s or None); s is the bias's factor, and the layer's
    Jacobian is the outer product of (a, s) and d. flat: a list of Jacobians [o, ...]. reduce: from
    the outputs of f to the o outputs that are differentiated. loops: products are loops (see
    `in_loops`).
    """
    traced = trace(f, params, x)
    leaves = jax.tree.leaves(params)

    def outputs(rest, nudges):
        values = list(leaves)
        for place, leaf in zip(traced.rest, rest):
            values[place] = leaf
        out, entered = run(traced, values, x, nudges, loops)
        return reduce(out), entered

    rest = [leaves[i] for i in traced.rest]
    out, pull, entered = jax.vjp(outputs, rest, no_nudges(traced), has_aux=True)
    flat, cotangents = jax.vmap(pull)(units(out))
    dense = []
    for layer, layer_input, d in zip(traced.layers, entered, cotangents):
        # A network may compute in fewer digits than its parameters have; the kernel must not.
        dtype = leaves[layer.weight].dtype
        layer_input, d = jax.tree.map(functools.partial(jnp.asarray, dtype=dtype), (layer_input, d))
        a, sided = sides(traced.steps[layer.step], layer, layer_input, d)
        if layer.positions == 1:
            dense.append((a[0], sided[:, 0], layer_input.bias_scale))
            continue
        flat.append(jnp.einsum("pk,opm->okm", a, sided))
        if layer.bias is not None:
            flat.append(jnp.sum(cotangent(layer, d), axis=1) * layer_input.bias_scale)
    return dense, flat


def units(out: jax.Array) -> np.ndarray:
    """The unit cotangents of outputs [o]; constants for the compiler, unlike those of jacrev."""
    return np.eye(len(out), dtype=out.dtype)


# --- jacobians of layers with positions, as one matrix product for each sample --------------------
# The Jacobian of a convolution's weight is sum_p a_p d_p^T over positions p, where a_p is the
# content of the window at p. Storing the content of every window repeats each input once per place
# of the window: 25 times for 5 x 5. The shift along the first axis can be moved to the other side:
#
#     sum_y a[y + i, (j, c)] d[y, m]  =  sum_z a[z, (j, c)] d[z - i, m]
#
# Then a is repeated only for the places j of the other axes, and d for those of the first: 5 times
# each, and the matrix product is closer to a square.


def sides(step: Step, layer: Layer, entered: Entered, d: jax.Array) -> tuple:
    """a [p, k] and d [o, p, m], whose sum over p of outer products is the weight's Jacobian.

    d: cotangents of y, [o, *y]. The order of the Jacobian's entries is not that of the weight.
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
        raise ValueError(f"d needs [o, *y], width {layer.width} on axes {channels}; got {d.shape}")
    rest = tuple(axis for axis in range(1, d.ndim) if axis not in channels)
    return d.transpose(0, *rest, *channels).reshape(len(d), layer.positions, layer.width)


def _windows(a, d, layer, step):
    """Both sides of a convolution; for each axis of the window, one of them is repeated."""
    params, numbers = step.params, step.params["dimension_numbers"]
    a = a.transpose(numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1])
    inside = [dilation - 1 for dilation in params["lhs_dilation"]]
    edges = [(low, high, between) for (low, high), between in zip(params["padding"], inside)]
    a = jax.lax.pad(a, jnp.zeros((), a.dtype), [(0, 0, 0), *edges, (0, 0, 0)])
    rows = step.avals[0].shape[numbers.out_spec[2]]
    steps = list(zip(layer.window, params["rhs_dilation"], params["window_strides"]))
    is_possible = len(a) == 1 and layer.positions > 1 and steps[0][2] == 1
    shared = is_possible and _is_less(layer, rows, a.shape[1], len(d))
    for axis, (size, spread, stride) in enumerate(steps, start=1):
        if axis > 1 or not shared:
            a = _seen(a, axis, size, spread, stride)
    if shared:
        d = _shifted(d.reshape(len(d), rows, -1, layer.width), *steps[0][:2])
    return a.reshape(d.shape[1], -1), d


def _is_less(layer, rows, padded_rows, n_outputs):
    """Whether fewer values are stored if d is repeated for the first axis of the window."""
    size = layer.window[0]
    alone = rows * (layer.fan_in + n_outputs * layer.width)
    return padded_rows * (layer.fan_in / size + n_outputs * layer.width * size) < alone


def _seen(a, axis, size, spread, stride):
    """The inputs that each position along one axis sees, concatenated on the last axis.

    Slices only move memory and compile fast; a convolution with an identity would not.
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
