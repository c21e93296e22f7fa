"""The empirical NTK of one pair of tiles: factors of Jacobians and their contraction."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.ntk import layers, products
from cgjax.analysis.ntk.plan import FORMS, SMALL_LEAF


def floats(params):
    """The floating-point leaves, and a function that merges them into the tree again."""
    leaves, tree = jax.tree.flatten(params)
    places = [i for i, leaf in enumerate(leaves) if layers.is_float(leaf)]

    def merge(free):
        merged = list(leaves)
        for place, leaf in zip(places, free):
            merged[place] = leaf
        return tree.unflatten(merged)

    return [leaves[i] for i in places], merge


def factors(f, params, x, form, algorithm, loops: bool = False):
    """The factors of each sample, which do not depend on the other sample of a pair.

    Returns (dense, flat). dense: a list of (a [n, fan_in], d [n, o, width], s [n] or None); s is
    the bias's factor, and the layer's Jacobian is the outer product of (a, s) and d. flat: a list
    of Jacobians [n, o, size]. loops: products of layers are loops (see `products.in_loops`).
    """
    _check_form(form)
    if algorithm not in ("structured", "jacobian"):
        raise ValueError(f"algorithm '{algorithm}' has no factors: use 'structured' or 'jacobian'")
    sample_factors = _layer_factors if algorithm == "structured" else _leaf_factors
    return jax.vmap(functools.partial(sample_factors, f, form, loops, params))(x)


def _leaf_factors(f, form, loops, params, x):
    del loops  # only the products of layers use it
    free, merge = floats(params)
    out, pull = jax.vjp(lambda free: _formed(layers.single(f, merge(free), x), form), free)
    (flat,) = jax.vmap(pull)(_units(out))
    return [], _joined(flat)


def _layer_factors(f, form, loops, params, x):
    trace = layers.trace(f, params, x)
    leaves = jax.tree.leaves(params)

    def outputs(rest, nudges):
        values = list(leaves)
        for place, leaf in zip(trace.rest, rest):
            values[place] = leaf
        out, entered = layers.run(trace, values, x, nudges, loops)
        return _formed(out, form), entered

    rest = [leaves[i] for i in trace.rest]
    out, pull, entered = jax.vjp(outputs, rest, layers.no_nudges(trace), has_aux=True)
    flat, cotangents = jax.vmap(pull)(_units(out))
    dense = []
    for layer, layer_input, d in zip(trace.layers, entered, cotangents):
        # A network may compute in fewer digits than its parameters have; the kernel must not.
        dtype = leaves[layer.weight].dtype
        layer_input, d = jax.tree.map(functools.partial(jnp.asarray, dtype=dtype), (layer_input, d))
        step = trace.steps[layer.step]
        if layer.positions == 1:
            a, d = layers.sides(step, layer, layer_input, d)
            dense.append((a[0], d[:, 0], layer_input.bias_scale))
            continue
        flat.append(layers.jacobian(step, layer, layer_input, d))
        if layer.bias is not None:
            flat.append(jnp.sum(layers.cotangent(layer, d), axis=1) * layer_input.bias_scale)
    return dense, _joined(flat)


def _units(out):
    """The unit cotangents of outputs [o]; constants for the compiler, unlike those of jacrev."""
    return np.eye(len(out), dtype=out.dtype)


def _check_form(form):
    if form not in FORMS:
        raise ValueError(f"form '{form}': use one of {', '.join(FORMS)}")


def _formed(out, form):
    return jnp.mean(out)[None] if form == "mean_output" else out


def _joined(flat):
    """Jacobians [o, *leaf] as [o, size]; the small leaves are joined, on an accelerator all leaves.

    On an accelerator each product takes long to compile, and many take longer to run than one.
    """
    small = SMALL_LEAF if jax.default_backend() == "cpu" else math.inf
    flat = [leaf.reshape(len(leaf), -1) for leaf in flat]
    few = [leaf for leaf in flat if leaf.shape[1] <= small]
    many = [leaf for leaf in flat if leaf.shape[1] > small]
    return many + ([jnp.concatenate(few, axis=1)] if few else [])


def contract(left, right, form, loops: bool = False):
    """The kernel between two sets of factors, leaf by leaf."""
    _check_form(form)
    if jax.tree.structure(left) != jax.tree.structure(right):
        raise ValueError("left and right must be factors of the same f")
    (dense1, flat1), (dense2, flat2) = left, right
    total = 0.0
    for j1, j2 in zip(flat1, flat2):
        total += _products(j1, j2, form, loops)
    for (a1, d1, s1), (a2, d2, s2) in zip(dense1, dense2):
        n1, n2 = len(a1), len(a2)
        shape = {"full": (n1, 1, n2, 1), "per_output": (n1, n2, 1)}.get(form, (n1, n2))
        inputs = products.product(a1, a2, loops)
        if s1 is not None:
            inputs += s1[:, None] * s2[None]
        total += _products(d1, d2, form, loops) * inputs.reshape(shape)
    return total.transpose(0, 2, 1, 3) if form == "full" else total


def _products(j1, j2, form, loops):
    """J J'^T of [n, o, size]; "full" gives [n1, o, n2, o], one matrix product."""
    if form == "per_output":
        return jnp.einsum("ias,jas->ija", j1, j2)
    (n1, o, size), n2 = j1.shape, len(j2)
    length = size if form == "full" else o * size
    rows = j1.reshape(-1, length)
    total = products.product(rows, rows if j1 is j2 else j2.reshape(-1, length), loops)
    if form == "full":
        return total.reshape(n1, o, n2, o)
    return total / o if form == "mean_trace" else total


def vector_block(f, params, x1, x2, form, directions):
    """The kernel of a pair of tiles, column by column: J1 (J2^T e), a jvp of a vjp."""
    _check_form(form)
    checks.integer("directions", directions, 1)
    free, merge = floats(params)

    def outputs(free, x):
        return _formed(layers.single(f, merge(free), x), form)

    values, push = jax.linearize(lambda free: jax.vmap(lambda x: outputs(free, x))(x1), free)
    n1, o = values.shape
    n2 = len(jax.tree.leaves(x2)[0])

    def column(place):
        x = jax.tree.map(lambda a: a[place // o], x2)
        unit = jax.nn.one_hot(place % o, o, dtype=values.dtype)
        _, pull = jax.vjp(lambda free: outputs(free, x), free)
        pushed = push(pull(unit)[0])
        return pushed if form == "full" else pushed @ unit

    columns = jax.lax.map(column, jnp.arange(n2 * o), batch_size=directions)
    columns = columns.reshape(n2, o, n1, *columns.shape[2:])
    if form == "full":
        return columns.transpose(2, 0, 3, 1)
    columns = columns.transpose(2, 0, 1)
    if form == "per_output":
        return columns
    return jnp.mean(columns, axis=-1) if form == "mean_trace" else jnp.sum(columns, axis=-1)
