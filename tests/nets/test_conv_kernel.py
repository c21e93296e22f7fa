"""The kernels for small convolutions in interpret mode, against the compiler's convolution."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets import conv, conv_kernel
from cgjax.nets.conv_kernel import Launch, Tuning

# Tiles that do not divide the positions, output channels and channels read in two parts, a row of
# taps or all of them to a program.
SMALL = Tuning(
    Launch(16, 16, 16), Launch(32, 16, 16), Launch(16), programs=3, held=3 * 16 * 32
)  # fmt: skip


def example(size, c, out, dtype=jnp.float32):
    """Inputs and kernels of two networks."""
    keys = jax.random.split(jax.random.key(size), 2)
    x = jax.random.normal(keys[0], (2, 2, 6, 5, c), dtype)
    return x, jax.random.normal(keys[1], (2, size, size, c, out)) / (size * c**0.5)


def value_and_grads(form, x, kernel):
    """What both networks give, and gradients of a number made of it."""

    def loss(x, kernel):
        y = form(x, kernel)
        return jnp.sum(jnp.sin(y.astype(jnp.float32))), y

    (_, y), grads = jax.jit(jax.vmap(jax.value_and_grad(loss, (0, 1), has_aux=True)))(x, kernel)
    return y, *grads


@pytest.mark.parametrize(
    "size, stride, padding, c, out", [(3, 1, 1, 16, 32), (3, 2, 1, 32, 16), (5, 1, 0, 3, 16)]
)
def test_two_networks_at_once(size, stride, padding, c, out):
    x, kernel = example(size, c, out)
    found = value_and_grads(
        lambda x, kernel: conv_kernel.convolve(x, kernel, stride, padding, SMALL, True), x, kernel
    )
    direct = functools.partial(conv.convolve, stride=stride, padding=padding, form="direct")
    for one, other in zip(found, value_and_grads(direct, x, kernel)):
        np.testing.assert_allclose(one, other, atol=3e-6 * np.abs(other).max())


def test_bfloat16_operands_float32_sums():
    x, kernel = example(3, 16, 16, jnp.bfloat16)
    y, dx, d_kernel = value_and_grads(
        lambda x, kernel: conv_kernel.convolve(x, kernel, 1, 1, SMALL, True), x, kernel
    )
    assert (y.dtype, dx.dtype, d_kernel.dtype) == (jnp.bfloat16, jnp.bfloat16, jnp.float32)
    rounded = kernel.astype(jnp.bfloat16).astype(jnp.float32)
    wanted = jax.vmap(lambda x, kernel: conv.convolve(x, kernel, 1, 1, "direct"))(
        x.astype(jnp.float32), rounded
    )
    np.testing.assert_allclose(y.astype(jnp.float32), wanted, rtol=2**-8, atol=1e-6)


def test_what_the_kernels_take():
    assert [n for n in range(1, 300) if conv_kernel.fits(16, n)] == [16, 32, 64, 128]
    assert conv_kernel.fits(3, 16) and not conv_kernel.fits(129, 16)
