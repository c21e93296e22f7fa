"""Small functions on trees whose leaves have a leading replica axis."""

import math
import zlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def take(tree, rows):
    """Rows (an index, slice or index array) of every leaf's first axis."""
    return jax.tree.map(lambda leaf: leaf[rows], tree)


_taken = jax.jit(take, static_argnums=1)


def first(tree):
    """The first row of every leaf, by one program: a program per shape takes longer to compile."""
    return _taken(tree, 0)


def concatenate(trees):
    """Joins trees along the replica axis."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


def where(condition, new, old):
    """Leafwise select; the shape of `condition` is a prefix of every leaf's shape."""

    def select(a, b):
        shape = condition.shape + (1,) * (jnp.ndim(a) - condition.ndim)
        return jnp.where(condition.reshape(shape), a, b)

    return jax.tree.map(select, new, old)


def norm(tree):
    """Euclidean norm of all leaves together, computed as one reduction over one vector.

    Each training step computes it, so its squares are not scaled: see `scaled_norm`.
    """
    return jnp.sqrt(jnp.sum(joined(tree) ** 2))


def scaled_norm(tree):
    """`norm` of leaves of any magnitude: in float32, the squares of 1e-25 are 0."""
    largest = magnitude(tree)
    return largest * norm(jax.tree.map(lambda leaf: leaf / largest, tree))


def magnitude(tree):
    """A power of two near the largest absolute value, never 0; a constant under derivatives.

    Values are divided by it before they are squared: products with it and with its inverse, which
    is also in the dtype's range, are exact.
    """
    largest = jnp.max(jnp.abs(jax.lax.stop_gradient(joined(tree))), initial=0)
    fraction, exponent = jnp.frexp(largest)
    least = jnp.finfo(fraction.dtype).minexp
    return jnp.ldexp(jnp.ones((), fraction.dtype), jnp.clip(exponent - 1, least, -least))


def joined(tree):
    """All leaves as one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def size(tree) -> int:
    """The number of array elements in the tree."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def flat(tree) -> dict:
    """`{"params/slots/dense_0/kernel": leaf}`: names that do not depend on container types."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def unflat(named: dict, like):
    """Inverse of `flat`, into the structure of `like`."""
    return jax.tree.unflatten(jax.tree.structure(like), [named[name] for name in flat(like)])


def nested(named: dict, root: str) -> dict:
    """The nested dict of the leaves whose `flat` name starts with `root/`, such as "params"."""
    branch = {}
    for name, leaf in named.items():
        first, *path = name.split("/")
        if first != root or not path:
            continue
        node = branch
        for parent in path[:-1]:
            node = node.setdefault(parent, {})
        node[path[-1]] = leaf
    return branch


def packing(like, small: int) -> tuple[Callable, Callable]:
    """(pack, unpack) for trees like this one: pack joins all small leaves of a dtype to one array.

    small: the largest number of elements per replica of a small leaf. Joined arrays keep the
    leading replica axis. A leaf without axes (the step) is not packed.
    """
    leaves, structure = jax.tree.flatten(like)
    shapes = [leaf.shape for leaf in leaves]
    # The dtype of each small leaf; "" for leaves that are not packed.
    kinds = [
        str(leaf.dtype) if leaf.ndim and leaf.size <= small * len(leaf) else "" for leaf in leaves
    ]

    def pack(tree):
        leaves = structure.flatten_up_to(tree)
        joined = {
            kind: jnp.concatenate(
                [leaf.reshape(len(leaf), -1) for leaf, k in zip(leaves, kinds) if k == kind], 1
            )
            for kind in sorted(set(kinds) - {""})
        }
        return [leaf for leaf, kind in zip(leaves, kinds) if not kind], joined

    def unpack(packed):
        large, joined = iter(packed[0]), packed[1]
        starts, leaves = dict.fromkeys(joined, 0), []
        for shape, kind in zip(shapes, kinds):
            if kind:
                start, n = starts[kind], math.prod(shape[1:])
                starts[kind] += n
                leaf = jax.lax.slice_in_dim(joined[kind], start, start + n, axis=1)
                leaves.append(leaf.reshape(shape))
            else:
                leaves.append(next(large))
        return jax.tree.unflatten(structure, leaves)

    return pack, unpack


def checksum(array) -> int:
    """CRC-32 of the bytes of one array."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
