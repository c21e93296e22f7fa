"""Products of an empirical NTK with vectors, without the kernel; helpers of all NTK programs."""

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

    x2 None: x1. v may be [n2] if f has one output. batch: samples at a time, if all at once need
    too much memory.
    """
    if batch is not None:
        checks.integer("batch", batch, 1)
    result = _kernel_vector_product(f, params, x1, x2, checks.real("v", v), batch, precision)
    return blamed(*result, params=params, x1=x1, x2=x2, v=v)


@functools.partial(jax.jit, static_argnames=("f", "batch", "precision"))
def _kernel_vector_product(f, params, x1, x2, v, batch, precision):
    x2 = x1 if x2 is None else x2
    plan.check_samples(x1=x1, x2=x2)
    out = jax.eval_shape(f, params, x2)
    if not is_of(v.shape, out.shape):
        raise ValueError(f"v needs shape {out.shape}, as f(params, x2) has; got {v.shape}")
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
        # The last batch is padded with repeated samples; with v = 0 they add nothing.
        parts = (_batches(x2, batch), _batches(v, batch, pad_with_zeros=True))
        direction, _ = jax.lax.scan(pulled, total, parts)
        result = jax.lax.map(pushed, _batches(x1, batch))
    return checked(result.reshape(-1, result.shape[-1])[: length(x1)])


def is_of(shape, outputs):
    """Whether arrays of this shape hold one number for each of f's outputs [n, ...]."""
    flat = (outputs[0], math.prod(outputs[1:]))
    return shape in (outputs, flat) or (flat[1] == 1 and shape == flat[:1])


def _batches(x, batch, pad_with_zeros=False):
    """[n, ...] as [n_batches, batch, ...]; the last batch is padded."""
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


def checked(result):
    """The result of a program, and whether it is finite; None on a CPU, where `blamed` checks."""
    if jax.default_backend() == "cpu":
        return result, None
    # The flag is put in host memory: a fetch from an H200's own memory takes 0.1 ms or more.
    return result, jax.device_put(jnp.all(jnp.isfinite(result)), jax.memory.Space.Host)


def blamed(result, is_finite, **given):
    """The result; if it is not finite, an error names the argument that is not finite.

    Only the result is always checked: a check of every argument takes as long as a small kernel.
    """
    if isinstance(result, jax.core.Tracer):
        return result
    if is_finite is None:
        # A dot product is faster than a test of each entry; if it overflows, arguments are checked.
        values = np.asarray(result.block_until_ready()).ravel()
        is_finite = math.isfinite(values.dot(values))
    if not is_finite:
        checks.finite_leaves(**given)
    return result
