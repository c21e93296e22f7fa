"""What an NTK asks of f(params, x): each sample treated on its own, products in enough digits."""

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, ntk_digits, ntk_layers

# Functions that were looked at, and then for their digits, which not every caller asks for.
_SEEN, _READ = weakref.WeakSet(), weakref.WeakSet()


def warn_once(f: Callable, params, x, precision: str = "highest") -> None:
    """Once for each f, says where it mixes samples, or has fewer digits than asked for."""
    in_full = precision in ntk_digits.FULL
    if f in (_READ if in_full else _SEEN):  # first, for small kernels take little time
        return
    n = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(x)}
    if not checks.known(params, x) or n & {(), (0,), (1,)} or len(n) != 1:
        return
    few = jax.tree.map(lambda a: a[:8], x)
    if _is_new(f, _SEEN) and (gap := float(mixing(f, params, few))) > 0:
        warnings.warn(
            f"f mixes samples: one has outputs that differ by {gap:.2g} of the largest with what "
            "it is evaluated with; the kernel is that of f on single samples. BatchNorm: in "
            "evaluation mode",
            stacklevel=3,
        )
    on_cpu = jax.default_backend() == "cpu"  # which has no other digits
    if in_full and _is_new(f, _READ) and not on_cpu:
        if cut := ntk_digits.cut_short(f, params, few):
            warnings.warn(
                f"f states precision '{cut[0]}' itself, in {len(cut)} products of float32 "
                f"numbers: the kernel has no more digits than they, though '{precision}' was "
                "asked for",
                stacklevel=3,
            )


def _is_new(f, known):
    if f in known:
        return False
    with contextlib.suppress(TypeError):  # what cannot be remembered is looked at again
        known.add(f)
    return True


@functools.partial(jax.jit, static_argnames="f")
def mixing(f: Callable, params, x) -> jax.Array:
    """By how much of the largest output a sample's change with what else is in x; 0: rounding.

    Once the others are changed, in the same program: then nothing but mixing moves a sample's
    outputs. Once the sample is alone, in another program, whose rounding counts: it has the digits
    of the shortest numbers in f.
    """
    n = len(jax.tree.leaves(x)[0])
    rows = jnp.stack([jnp.arange(n), jnp.arange(n) * (jnp.arange(n) % 2 == 0)])
    with jax.default_matmul_precision("highest"):
        alone = jax.lax.map(lambda one: ntk_layers.single(f, params, one), x)
        together = jax.lax.map(lambda rows: f(params, jax.tree.map(lambda a: a[rows], x)), rows)
        eps = ntk_digits.shortest(f, params, x)
    if together.size != 2 * alone.size:
        return jnp.zeros(())  # no outputs for each sample: told elsewhere
    together, among_others = together.reshape(2, *alone.shape)
    largest = jnp.maximum(jnp.max(jnp.abs(alone)), jnp.max(jnp.abs(together)))

    def gap(a, b, eps):
        found = jnp.max(jnp.abs(a - b)) / jnp.maximum(largest, 1e-30)
        return jnp.where(found > max(eps**0.5, 1e-4), found, 0.0)

    own = float(jnp.finfo(alone.dtype).eps)
    return jnp.maximum(gap(together[::2], among_others[::2], own), gap(together, alone, eps))
