"""Tangent kernels of subnetworks: which inputs a mask's weights would change together, if trained.

Theta_m(x, x') = sum over outputs and weights of m (df(x)/dw)(df(x')/dw), at the weights w as they
are. Of a mask and of what it leaves out the kernels add up to that of all masked leaves.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from cgjax.analysis import checks, mask_trees


def restricted(f: Callable, params, several: list, x) -> jax.Array:
    """Kernels [k, n, n] of k masks, each with a sum over the outputs of f.

    f: params, x [n, ...] (or a tree of such) -> [n, outputs], each sample on its own. several:
    trees like params, None where a leaf is not masked, the same leaves in all.
    """
    if not len(several):
        raise ValueError("several: no mask is given")
    checks.finite_leaves(params=params, x=x)
    several = [mask_trees.matching(masks, params, "several") for masks in several]
    stacked = _stacked(several, params)
    free = {name: leaf for name, leaf in mask_trees.named(params).items() if name in stacked}

    def outputs(free, one):
        whole = mask_trees.map_named(lambda name, leaf: free.get(name, leaf), params)
        return f(whole, jax.tree.map(lambda leaf: leaf[None], one))[0]

    first = jax.tree.map(lambda leaf: leaf[0], x)
    shape = jax.eval_shape(outputs, free, first).shape
    if len(shape) != 1:
        raise ValueError(f"f gives [n, outputs], got [n, {', '.join(map(str, shape))}]")

    def add(total, i):
        """One output after another: the gradients of all would not fit."""
        rows = jax.vmap(jax.grad(lambda free, one: outputs(free, one)[i]), (None, 0))(free, x)
        return total + sum(_contracted(rows[name], stacked[name]) for name in stacked), None

    n = len(jax.tree.leaves(x)[0])
    kernels = jnp.zeros((len(several), n, n), jax.tree.leaves(free)[0].dtype)
    return jax.lax.scan(add, kernels, jnp.arange(shape[0]))[0]


def _stacked(several, params):
    """{leaf: [k, weights]} of the masked leaves."""
    named = [mask_trees.named(mask_trees.mapped(_whole, masks, params)) for masks in several]
    if not named[0] or any(each.keys() != named[0].keys() for each in named):
        raise ValueError("several are masks of the same leaves, and of one at least")
    return {name: jnp.stack([each[name].ravel() for each in named]) for name in named[0]}


def _whole(mask, weights):
    """Of a mask of units, the mask of weights."""
    return None if mask is None else jnp.broadcast_to(mask, jnp.shape(weights))


def _contracted(rows, masks):
    rows = rows.reshape(len(rows), -1)
    return jnp.einsum("kp,np,mp->knm", masks.astype(rows.dtype), rows, rows, precision="highest")
