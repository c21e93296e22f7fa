"""Reference networks with PyTorch names, as variables of ours."""

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.nets.convert import batch_stats_from_torch, from_torch


def loaded(golden, name, module):
    """Variables, input (channels last) and the reference's other arrays of one golden network."""
    arrays = golden("kernels/networks")
    stored = {
        k.removeprefix(f"{name}/"): arrays[k] for k in arrays.files if k.startswith(f"{name}/")
    }
    state = {k.removeprefix("param/"): v for k, v in stored.items() if k.startswith("param/")}
    variables = {"params": from_torch(module, state)}
    if stats := batch_stats_from_torch(module, state):
        variables["batch_stats"] = stats
    return variables, jnp.asarray(np.moveaxis(stored["x"], 1, -1), jnp.float32), stored


def like(shapes, seed=0):
    """Normal numbers in a tree of these shapes, without a program for each of them."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(leaf.dtype), shapes)


def quick_key(seed):
    """A key whose draws compile quickly, for nets that draw many arrays."""
    return jax.random.key(seed, impl="rbg")
