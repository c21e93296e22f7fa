"""How many digits the products of an NTK have: what `precision` means.

JAX's own names, such as "highest" and "default", are handed on to all products. "float32x3" is for
NVIDIA's GPUs, whose matrix units take fewer digits: convolutions of layers on the way back, their
Jacobians and the contraction of those are sums of products of halves (`ntk.kernels` says how), all
others "highest", as they are elsewhere and for numbers that are not float32.

What is known of its error: halves, summed in float32 on a CPU, give the ConvNet's kernel of three
pairs of digits to 2e-7 of its largest entry. On an H200, with the forward pass in halves too, it
was 2e-7 (median) against float64, but 5e-5 with one of 128 pairs, where last digits turn a unit on
or off. With all digits in the forward pass, as here, it was 8.3e-7.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cgjax.analysis.ntk import kernels as ntk_kernels
from cgjax.analysis.ntk.kernels import Halves, Tuning
from cgjax.core import parallel

FLOAT32X3 = "float32x3"
_WORTH_BLOCKS = 1e11  # operations of a product: below, one call is quicker


class Passes(NamedTuple):
    """Kernels for products in several passes, if any; how a product in one is cut.

    loops: products are loops, which the compiler joins to what is done with them.
    """

    kernels: Tuning | None = None
    blocks: int = 8  # of rows, in a symmetric product
    loops: bool = False


ONE_PASS = Passes()


def passes(precision: str, platform: str) -> Passes:
    """What `precision` means on "cpu", "gpu" or "tpu"."""
    on = precision == FLOAT32X3 and platform != "cpu" and parallel.on_nvidia()
    return Passes(Tuning() if on else None)


def digits(precision: str):
    """A context: matrix products with so many digits."""
    try:
        return jax.default_matmul_precision("highest" if precision == FLOAT32X3 else precision)
    except ValueError:
        raise ValueError(
            f"precision '{precision}' is neither '{FLOAT32X3}' nor one of JAX's, such as 'highest'"
        ) from None


def product(a, b, how: Passes) -> jax.Array:
    """a b^T of [n1, k] and [n2, k], or of their halves; where b is a, by symmetry."""
    if isinstance(a, Halves):
        return ntk_kernels.product(a, b, how.kernels)
    if how.loops:
        return in_loops(a, b, ((1,), (1,)))
    if 2 * len(b) * a.size < _WORTH_BLOCKS:
        return a @ b.T
    if how.kernels and a.dtype == jnp.float32:
        left = ntk_kernels.halves(a)
        right = left if b is a else ntk_kernels.halves(b)
        return ntk_kernels.product(left, right, how.kernels)
    return _in_blocks(a, how.blocks) if b is a else a @ b.T


def _in_blocks(a, n_blocks):
    """a a^T from the blocks of its upper triangle; all of one size, so that one is compiled."""
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
    (high1, low1), (high2, low2) = ntk_kernels.halves(a), ntk_kernels.halves(d)
    summed = functools.partial(
        jnp.einsum, "pk,opm->okm", precision="default", preferred_element_type=jnp.float32
    )
    return summed(high1, high2) + summed(high1, low2) + summed(low1, high2)


def in_loops(a: jax.Array, b: jax.Array, contracted: tuple) -> jax.Array:
    """The sums of products of `lax.dot_general` over these axes of a and of b, no call of it."""
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
    """An array, or the sum of its halves."""
    return x.high.astype(jnp.float32) + x.low.astype(jnp.float32) if isinstance(x, Halves) else x
