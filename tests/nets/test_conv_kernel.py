"""The kernels for small convolutions in interpret mode, against the compiler's convolution."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core import parallel
from cgjax.nets import conv
from cgjax.nets.norm import BatchNorm
from cgjax.nets.pallas import conv as conv_kernel
from cgjax.nets.pallas import norm as norm_kernel
from cgjax.nets.pallas.conv import Launch, Settings, Tuning

# Tiles that do not divide the positions, channels in two parts, a row of taps at once.
SMALL = Tuning(Launch(16, 16, 16), Launch(32, 16, 16), Launch(16, 16, 16, programs=3), by_rows=True)

# Several taps are one product, and images keep few channels.
TOGETHER = Tuning(*[Launch(16, 16, taps=4, programs=3)] * 3)


def example(size, c, out, dtype=jnp.float32):
    """Inputs and kernels of two networks."""
    keys = jax.random.split(jax.random.key(size), 2)
    x = jax.random.normal(keys[0], (2, 2, 6, 5, c), dtype)
    return x, jax.random.normal(keys[1], (2, size, size, c, out)) / (size * c**0.5)


def value_and_grads(form, x, kernel):
    """What both networks give, and gradients of a number made of it and of x again."""

    def loss(x, kernel):
        y, again = form(x, kernel)
        return jnp.sum(jnp.sin(y.astype(jnp.float32))) + jnp.sum(jnp.square(again)), y

    (_, y), grads = jax.jit(jax.vmap(jax.value_and_grad(loss, (0, 1), has_aux=True)))(x, kernel)
    return y, *grads


@pytest.mark.parametrize(
    "size, stride, padding, c, out, tuning",
    [
        (3, 2, 1, 32, 16, SMALL),
        pytest.param(5, 1, 0, 3, 32, SMALL, marks=pytest.mark.slow),
        (3, 1, 1, 3, 16, TOGETHER),
        (5, 1, 0, 3, 32, None),
    ],
)
def test_two_networks_at_once(size, stride, padding, c, out, tuning):
    x, kernel = example(size, c, out)
    settings = Settings(stride, padding, True, tuning, True)
    kernel_values = value_and_grads(
        functools.partial(conv_kernel.convolve, settings=settings), x, kernel
    )
    direct = functools.partial(
        conv.convolve, stride=stride, padding=padding, form="direct", passes_on=True
    )
    for one, other in zip(kernel_values, value_and_grads(direct, x, kernel)):
        np.testing.assert_allclose(one, other, atol=3e-6 * np.abs(other).max())


@pytest.mark.parametrize("channels, padded", [(2, 2), (3, 4), (9, 16), (16, 16)])
def test_composed_digits_keep_few_channels(channels, padded):
    """The ConvNet's first layer: products take several taps, so channels are not padded to 16."""
    assert conv_kernel._filled(5, channels, 32, None)[0] == padded


def test_bfloat16_operands_float32_sums():
    x, kernel = example(3, 16, 16, jnp.bfloat16)
    settings = Settings(1, 1, True, SMALL._replace(by_rows=False), True)
    form = functools.partial(conv_kernel.convolve, settings=settings)
    y, dx, d_kernel = value_and_grads(form, x, kernel)
    assert (y.dtype, dx.dtype, d_kernel.dtype) == (jnp.bfloat16, jnp.bfloat16, jnp.float32)
    rounded = kernel.astype(jnp.bfloat16).astype(jnp.float32)
    wanted = jax.vmap(lambda x, kernel: conv.convolve(x, kernel, 1, 1, "direct"))(
        x.astype(jnp.float32), rounded
    )
    np.testing.assert_allclose(y.astype(jnp.float32), wanted, rtol=2**-8, atol=1e-6)


def test_what_the_kernels_take(monkeypatch):
    assert [n for n in range(1, 300) if conv_kernel.fits(16, n)] == [16, 32, 64, 128]
    assert conv_kernel.fits(3, 16) and not conv_kernel.fits(129, 16)
    assert not conv_kernel.supports(16, 16)  # no GPU
    monkeypatch.setattr(parallel, "on_nvidia", lambda: True)
    for n in (1, 2):  # devices
        monkeypatch.setattr(jax, "device_count", lambda n=n: n)
        assert conv_kernel.supports(16, 16) == norm_kernel.supports((1, 8, 8, 16)) == (n == 1)


@pytest.mark.parametrize(
    "on_gpu, features", [pytest.param(False, 16, marks=pytest.mark.slow), (True, 24)]
)
def test_other_convolutions_are_the_compiler_s(monkeypatch, on_gpu, features):
    """Where the kernels cannot run at all, and of what they do not take: with all derivatives."""
    monkeypatch.setattr(parallel, "on_one_nvidia", lambda: on_gpu)
    x, kernel = (a[0] for a in example(3, 16, features))

    def both(form):
        def of(x):
            y, again = conv.convolve(x, kernel, 1, 1, form, passes_on=True)
            norm = BatchNorm(form=form)
            return norm.init_with_output(jax.random.key(0), y + jnp.sum(again), True)[0]

        return jax.jvp(of, (x,), (jnp.ones_like(x),))

    for one, other in zip(both("kernel"), both("auto")):
        np.testing.assert_array_equal(one, other)
