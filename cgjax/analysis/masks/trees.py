"""Trees of masks: like a tree of parameters, with holes (None) where a leaf is not masked."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cgjax.analysis import checks
from cgjax.core import tree


def named(params):
    """`tree.flat`, with linen's names for the variables of nnx."""
    return {name.removesuffix("/value"): leaf for name, leaf in tree.flat(params).items()}


def map_named(function, params):
    """A tree like params of function(name, leaf), which may be None."""
    new = [function(name, leaf) for name, leaf in named(params).items()]
    return jax.tree.unflatten(jax.tree.structure(params), new)


def uniform(key, masks):
    """A tree like masks of uniform random numbers from 0 to 1.

    One draw serves all leaves: on a CPU each draw takes a second to compile.
    """
    vector, back = ravel_pytree(masks)
    return back(jax.random.uniform(key, vector.shape, jnp.promote_types(vector.dtype, float)))


def as_many(key, masks, outside=False):
    """Random masks that keep as many entries of each leaf, from all of it or outside of masks.

    If fewer entries are outside than are kept, the result keeps all of them.
    """
    vector, back = ravel_pytree(masks)
    leaves = jax.tree.leaves(masks)
    which = jnp.concatenate([jnp.full(leaf.size, i) for i, leaf in enumerate(leaves)])
    counts = jnp.stack([jnp.sum(leaf) for leaf in leaves])
    place = jax.random.uniform(key, vector.shape)
    if outside:
        counts = jnp.minimum(counts, jnp.stack([jnp.sum(1 - leaf) for leaf in leaves]))
        place = jnp.where(vector > 0, 2.0, place)
    # The entries are sorted by leaf, and at random within a leaf; the first `counts` are kept.
    *_, order = jax.lax.sort((which, place, jnp.arange(len(vector))), num_keys=2)
    starts = jnp.asarray(np.cumsum([0, *(leaf.size for leaf in leaves[:-1])]))
    is_kept = jnp.arange(len(vector)) - starts[which] < counts[which]
    return back(jnp.zeros_like(vector).at[order].set(is_kept.astype(vector.dtype)))


def mapped(function, masks, *others):
    """function of each leaf; holes of the first tree are passed as None."""
    return jax.tree.map(function, masks, *others, is_leaf=_is_hole)


def _is_hole(leaf):
    return leaf is None


def matching(masks, params, name="masks", whole=False):
    """The masks, after a check that they are a tree like params and fit the weights.

    A leaf has a number for each weight, or for each unit: [1, ..., n], n outputs on the last axis.
    whole: for each weight only.
    """
    structures = [jax.tree.structure(arrays, is_leaf=_is_hole) for arrays in (masks, params)]
    if structures[0] != structures[1]:
        raise ValueError(f"{name} must be a tree like params, with None for leaves without a mask")

    def fit(m, w):
        if m is None:
            return None
        m = real(name, m)
        weights = jnp.shape(w)
        units = (1,) * (len(weights) - 1) + weights[-1:]
        if m.shape != weights and (whole or m.shape != units):
            wanted = (
                f"{weights}" if whole or units == weights else f"{weights}, or {units} of units"
            )
            raise ValueError(
                f"{name} {m.shape} do not fit weights of params: they must be {wanted}"
            )
        return m

    return mapped(fit, masks, params)


def like(name, given, masks):
    """The given tree, after a check that it has the names and shapes of masks."""
    shapes = [
        {n: jnp.shape(leaf) for n, leaf in named(arrays).items()} for arrays in (given, masks)
    ]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{name} must have the same leaves and shapes as the scores")
    return given


def numbers(masks, on):
    """The number 0 or 1 of each masked leaf, by name; None if all are on."""
    if on is None:
        return None
    names, switches = named(masks), named(on)
    if names.keys() - switches.keys():
        raise ValueError(f"on has no number for {sorted(names.keys() - switches.keys())[0]}")
    for name in names:
        checks.bounded("on", switches[name], "[0, 1]")
        if jnp.ndim(switches[name]):
            shape = jnp.shape(switches[name])
            raise ValueError(
                f"on must be one number per leaf, got shape {shape}: vmap over several"
            )
    return switches


def switched(masks, on, off=1):
    """Masks where `on` is not 0, else `off`: a number, or other masks."""
    switches = numbers(masks, on)
    if switches is None:
        return masks
    others = named(off) if jax.tree.structure(off) == jax.tree.structure(masks) else None

    def switch(name, m):
        other = off if others is None else others[name]
        return jnp.where(jnp.asarray(switches[name]) > 0, m, jnp.asarray(other, m.dtype))

    return map_named(switch, masks)


def total(masks, on):
    """Sum of all entries of the leaves that are on."""
    sums = jax.tree.map(lambda m: jnp.sum(real("masks", m)), masks)
    leaves = jax.tree.leaves(switched(sums, on, off=0))
    if not leaves:
        raise ValueError("masks holds no leaf: select at least one")
    return sum(leaves)


def largest(values, count):
    """1 for the `count` largest (a number, rounded), else 0; earlier entries win ties."""
    order = jnp.argsort(-values.ravel(), stable=True)
    ones = jnp.arange(values.size) < jnp.round(count)
    mask = jnp.zeros(values.size, jnp.float32).at[order].set(ones.astype(jnp.float32))
    return mask.reshape(values.shape)


def real(name, leaf):
    """The leaf as an array of numbers, after a check for NaN and infinity."""
    checks.finite(**{name: leaf})
    leaf = jnp.asarray(leaf)
    return leaf if jnp.issubdtype(leaf.dtype, jnp.number) else leaf.astype(jnp.float32)


def indicator(name, leaf, compare):
    """1 where leaf compares with 0, else 0, in the leaf's own precision."""
    leaf = real(name, leaf)
    return compare(leaf, 0).astype(leaf.dtype)


def binary(name, masks):
    """The masks, after a check of concrete values: they must be 0 or 1."""

    def check(m):
        m = real(name, m)
        if checks.known(m) and not np.isin(np.asarray(m), (0, 1)).all():
            raise ValueError(f"{name} must be hard masks of 0 and 1; see masks.hard")
        return m

    return jax.tree.map(check, masks)


def same_network(name, several):
    """The masks, after a check that they are two or more hard masks of the same shapes."""
    if len(several) < 2:
        raise ValueError(f"{name} must be two or more masks, got {len(several)}")
    several = [binary(name, masks) for masks in several]
    shapes = [{leaf: m.shape for leaf, m in named(masks).items()} for masks in several]
    if not shapes[0] or any(other != shapes[0] for other in shapes[1:]):
        raise ValueError(f"{name} must be masks of the same leaves and shapes")
    return several
