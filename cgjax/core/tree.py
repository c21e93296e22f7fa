"""Small functions on trees whose leaves carry a leading replica axis."""

import zlib

import jax
import jax.numpy as jnp
import numpy as np


def take(tree, rows):
    """Rows (an index, slice or index array) of every leaf's first axis."""
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def concatenate(trees):
    """Joins trees along the replica axis."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)


def where(condition, new, old):
    """Leafwise select; `condition` has the leading axes of every leaf (or none at all)."""

    def select(a, b):
        shape = condition.shape + (1,) * (jnp.ndim(a) - condition.ndim)
        return jnp.where(condition.reshape(shape), a, b)

    return jax.tree.map(select, new, old)


def norm(tree):
    """Euclidean norm of all numbers together, as one reduction over one vector."""
    vector = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])
    return jnp.sqrt(jnp.sum(vector**2))


def size(tree) -> int:
    """How many numbers the tree holds."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def flat(tree) -> dict:
    """`{"params/slots/dense_0/kernel": leaf}`: names that survive a change of container types."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def unflat(named: dict, like):
    """Inverse of `flat`, into the structure of `like`."""
    return jax.tree.unflatten(jax.tree.structure(like), [named[name] for name in flat(like)])


def nested(named: dict, root: str) -> dict:
    """The dict of dicts under `root` of `flat`'s names: a tree of parameters without its module."""
    found = {}
    for name, leaf in named.items():
        first, *parents = name.split("/")
        if first != root or not parents:
            continue
        node = found
        for parent in parents[:-1]:
            node = node.setdefault(parent, {})
        node[parents[-1]] = leaf
    return found


def checksum(array) -> int:
    """CRC-32 of the bytes of one array."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
