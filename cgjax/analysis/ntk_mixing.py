"""Whether f(params, x) treats each sample on its own, as an NTK between samples needs."""

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, ntk_layers

_SEEN = weakref.WeakSet()  # functions that were looked at by `warn_of_mixing`


def warn_of_mixing(f: Callable, params, x) -> None:
    """Once for each f, says where a sample's outputs depend on the others: then it has no NTK."""
    if f in _SEEN:  # first, for small kernels take little time
        return
    n = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(x)}
    if not checks.known(params, x) or n & {(), (0,), (1,)} or len(n) != 1:
        return
    with contextlib.suppress(TypeError):  # what cannot be remembered is looked at again
        _SEEN.add(f)
    gap = float(mixing(f, params, jax.tree.map(lambda a: a[:8], x)))
    if gap > 0:
        warnings.warn(
            f"f mixes samples: alone, one has outputs that differ by {gap:.2g} of the largest from "
            "those it has among others; the kernel is that of f on single samples. BatchNorm: in "
            "evaluation mode",
            stacklevel=3,
        )


@functools.partial(jax.jit, static_argnames="f")
def mixing(f: Callable, params, x) -> jax.Array:
    """By how much of the largest output single samples and a batch of them differ; 0: rounding."""
    with jax.default_matmul_precision("highest"):
        together = f(params, x)
        alone = jax.lax.map(lambda one: ntk_layers.single(f, params, one), x)
    if together.size != alone.size:
        return jnp.zeros(())  # no outputs for each sample: told elsewhere
    together = together.reshape(alone.shape)
    largest = jnp.maximum(jnp.max(jnp.abs(alone)), jnp.max(jnp.abs(together)))
    gap = jnp.max(jnp.abs(together - alone)) / jnp.maximum(largest, 1e-30)
    rounding = max(float(jnp.finfo(gap.dtype).eps) ** 0.5, 1e-4)
    return jnp.where(gap > rounding, gap, 0.0)
