"""Products of an empirical NTK with vectors, without the kernel; what all its programs share."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.ntk import blocks, plan
from cgjax.analysis.ntk.products import digits


def kernel_vector_product(
    f: Callable, params, x1, x2, v, batch: int | None = None, precision: str = "highest"
) -> jax.Array:
    """sum_jb Theta(x1, x2)_ijab v_jb without the kernel: [n1, outputs] from v [n2, outputs].

    x2 None: x1. v may be [n2] where f has one output. batch: samples at a time, where all at once
    need too much memory.
    """
    if batch is not None:
        checks.integer("batch", batch, 1)
    found = _kernel_vector_product(f, params, x1, x2, checks.real("v", v), batch, precision)
    return blamed(*found, params=params, x1=x1, x2=x2, v=v)


@functools.partial(jax.jit, static_argnames=("f", "batch", "precision"))
def _kernel_vector_product(f, params, x1, x2, v, batch, precision):
    x2 = x1 if x2 is None else x2
    plan.check_samples(x1=x1, x2=x2)
    out = jax.eval_shape(f, params, x2)
    if not is_of(v.shape, out.shape):
        raise ValueError(f"v is {out.shape}, as f gives at x2: got {v.shape}")
    v = v.reshape(length(x2), -1)
    free, merge = blocks.floats(params)

    def outputs(free, x):
        return f(merge(free), x).reshape(length(x), -1)

    def pulled(total, batch):
        x, v = batch
        out, pull = jax.vjp(lambda free: outputs(free, x), free)
        return jax.tree.map(jnp.add, total, pull(v.astype(out.dtype))[0]), None

    def pushed(x):
        return jax.jvp(lambda free: outputs(free, x), (free,), (direction,))[1]

    with digits(precision):
        total = [jnp.zeros_like(leaf) for leaf in free]
        # A repeated sample with v = 0 adds nothing.
        parts = (_batches(x2, batch), _batches(v, batch, pad_with_zeros=True))
        direction, _ = jax.lax.scan(pulled, total, parts)
        result = jax.lax.map(pushed, _batches(x1, batch))
    return checked(result.reshape(-1, result.shape[-1])[: length(x1)])


def is_of(shape, outputs):
    """Whether arrays of this shape hold a number for each of the outputs, [n, ...], of f."""
    flat = (outputs[0], math.prod(outputs[1:]))
    return shape in (outputs, flat) or (flat[1] == 1 and shape == flat[:1])


def _batches(x, batch, pad_with_zeros=False):
    """[n, ...] as [n_batches, batch, ...], the last batch filled up."""
    n = length(x)
    batch = n if batch is None else min(batch, n)
    missing = -n % batch
    mode = "constant" if pad_with_zeros else "edge"

    def cut(a):
        a = jnp.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1), mode=mode)
        return a.reshape(-1, batch, *a.shape[1:])

    return jax.tree.map(cut, x)


def length(x):
    return len(jax.tree.leaves(x)[0])


def checked(found):
    """The end of a program: its result, and whether it is finite; None on a CPU: look there."""
    if jax.default_backend() == "cpu":
        return found, None
    # Into the host's memory: to fetch it from the device's took an H200's host 0.1 ms and more.
    return found, jax.device_put(jnp.all(jnp.isfinite(found)), jax.memory.Space.Host)


def blamed(found, is_finite, **given):
    """What was found; where it is not finite, the argument that is to blame is named.

    That takes one look, where looking at every argument would take as long as a small kernel.
    """
    if isinstance(found, jax.core.Tracer):
        return found
    if is_finite is None:
        # One product is quicker than many looks; where it overflows, the arguments are looked at.
        values = np.asarray(found.block_until_ready()).ravel()
        is_finite = math.isfinite(values.dot(values))
    if not is_finite:
        checks.finite_leaves(**given)
    return found
