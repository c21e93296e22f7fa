"""The meaning of `precision`: the number of digits in the products of an NTK.

JAX's own names, such as "highest" and "default", apply to all products. "float32x3" is for NVIDIA
GPUs, whose matrix units take fewer digits. The backward pass of convolutional layers, their
Jacobians and the contraction of the Jacobians are sums of products of halves (see `ntk.kernels`).
All other products are "highest", as are all products on other devices and of other dtypes.

Measured errors: halves, summed in float32 on a CPU, give the ConvNet's kernel of three pairs of
digits to 2e-7 of its largest entry. On an H200, with the forward pass in halves too, the error
against float64 is 2e-7 (median), but 5e-5 for one of 128 pairs, where the last digits turn a unit
on or off. With all digits in the forward pass, as in this module, the error is 8.3e-7.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cgjax.analysis.ntk import kernels
from cgjax.analysis.ntk.kernels import Halves, Tuning
from cgjax.core import parallel

FLOAT32X3 = "float32x3"
_WORTH_BLOCKS = 1e11  # operations of a product; below, one call is faster


class Passes(NamedTuple):
    """How products are computed: by the kernels of several passes, in blocks, or as loops.

    loops: products are loops, which the compiler fuses with the operations that follow.
    """

    kernels: Tuning | None = None
    blocks: int = 8  # of rows, in a symmetric product
    loops: bool = False


ONE_PASS = Passes()


def passes(precision: str, platform: str) -> Passes:
    """The passes of `precision` on "cpu", "gpu" or "tpu"."""
    on = precision == FLOAT32X3 and platform != "cpu" and parallel.on_nvidia()
    return Passes(Tuning() if on else None)


def digits(precision: str):
    """A context in which matrix products have this precision."""
    try:
        return jax.default_matmul_precision("highest" if precision == FLOAT32X3 else precision)
    except ValueError:
        raise ValueError(
            f"unknown precision '{precision}': use '{FLOAT32X3}' or one of JAX's, such as 'highest'"
        ) from None


def product(a, b, how: Passes) -> jax.Array:
    """a b^T of [n1, k] and [n2, k], or of their halves; if b is a, by symmetry."""
    if isinstance(a, Halves):
        return kernels.product(a, b, how.kernels)
    if how.loops:
        return in_loops(a, b, ((1,), (1,)))
    if 2 * len(b) * a.size < _WORTH_BLOCKS:
        return a @ b.T
    if how.kernels and a.dtype == jnp.float32:
        left = kernels.halves(a)
        right = left if b is a else kernels.halves(b)
        return kernels.product(left, right, how.kernels)
    return _in_blocks(a, how.blocks) if b is a else a @ b.T


def _in_blocks(a, n_blocks):
    """a a^T from the blocks of its upper triangle, all of one size: one product is compiled."""
    n, size = len(a), math.ceil(len(a) / n_blocks)
    starts = [min(i * size, n - size) for i in range(math.ceil(n / size))]
    total = jnp.zeros((n, n), a.dtype)
    for place, i in enumerate(starts):
        for j in starts[place:]:
            block = a[i : i + size] @ a[j : j + size].T
            total = total.at[j : j + size, i : i + size].set(block.T)
            total = total.at[i : i + size, j : j + size].set(block)
    return total


def outer(a: jax.Array, d: jax.Array, how: Passes) -> jax.Array:
    """sum_p a_p d_p^T of a [p, k] and d [o, p, m]: [o, k, m]."""
    if not how.kernels or a.dtype != jnp.float32 or len(a) > how.kernels.longest:
        return jnp.einsum("pk,opm->okm", a, d)
    (high1, low1), (high2, low2) = kernels.halves(a), kernels.halves(d)
    summed = functools.partial(
        jnp.einsum, "pk,opm->okm", precision="default", preferred_element_type=jnp.float32
    )
    return summed(high1, high2) + summed(high1, low2) + summed(low1, high2)


def in_loops(a: jax.Array, b: jax.Array, contracted: tuple) -> jax.Array:
    """The result of `lax.dot_general` over these axes of a and b, as a loop without a call."""
    (k1, k2), sides = contracted, []
    for x, axes in ((a, k1), (b, k2)):
        free = [axis for axis in range(x.ndim) if axis not in axes]
        sides.append(x.transpose(*free, *axes).reshape(*(x.shape[i] for i in free), -1))
    a, b = sides
    a, b = (
        jnp.expand_dims(a, range(a.ndim - 1, a.ndim + b.ndim - 2)),
        jnp.expand_dims(b, range(a.ndim - 1)),
    )
    return jnp.sum(a * b, axis=-1)


def whole(x) -> jax.Array:
    """The array itself, or the sum of its halves."""
    return x.high.astype(jnp.float32) + x.low.astype(jnp.float32) if isinstance(x, Halves) else x
