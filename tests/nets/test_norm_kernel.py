"""The kernels for batch normalisation in interpret mode, against the plain form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets.norm import BatchNorm
from cgjax.nets.pallas import conv
from cgjax.nets.pallas import norm as norm_kernel
from cgjax.nets.pallas.norm import Launch, Settings, Tuning, fits
from cgjax.nets.resnet import ResNet

SHAPE = (3, 4, 6, 16)  # 9 rows of 128: tiles of 2 do not divide them
SMALL = Tuning(*[Launch(2, 4)] * 3, numbers=48)
CONV = conv.Tuning(*[conv.Launch(16, 16, 16, programs=1)] * 3)
MASK = jnp.array([0.0, 1.0, 1.0])


@pytest.fixture(scope="module")
def example():
    """Values of two networks, what is added, scales, biases and running statistics."""
    rng = np.random.default_rng(0)

    def drawn(mean, *shape):
        return jnp.asarray(mean + rng.normal(size=(2, *shape)), jnp.float32)

    params = {"scale": drawn(1, 16), "bias": drawn(0, 16)}
    stats = {"mean": drawn(3, 16), "var": jnp.ones((2, 16))}
    return drawn(3, *SHAPE), drawn(0, *SHAPE), params, stats


def by_kernels(params, stats, x, before, added, rectify):
    settings = Settings(rectify, tuning=SMALL, interpret=True)
    y, mean, var, count = norm_kernel.normalise(
        x, before, params["scale"], params["bias"], MASK, added, settings
    )
    now = {"mean": mean, "var": var * count / (count - 1)}
    return y, jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, stats, now)


def plain(params, stats, x, before, added, rectify):
    variables = {"params": params, "batch_stats": stats}
    norm = functools.partial(BatchNorm().apply, mutable=["batch_stats"])
    y, changed = norm(variables, x, True, MASK, before, added, rectify)
    return y, changed["batch_stats"]


@pytest.mark.parametrize(
    "given", [pytest.param((), marks=pytest.mark.slow), ("before", "added", "rectify")]
)
def test_two_networks_at_once(example, given):
    x, added, params, stats = example
    seen = jnp.asarray(np.random.default_rng(1).normal(size=SHAPE), jnp.float32)

    def both(form):
        def loss(params, x, added, stats):
            before = params["bias"] / 4 - 3 if "before" in given else None
            added = added if "added" in given else None
            y, moved = form(params, stats, x, before, added, "rectify" in given)
            moved = jax.lax.stop_gradient(moved)
            return jnp.sum(jnp.sin(y * seen)), (y, moved)

        found = jax.vmap(jax.value_and_grad(loss, (0, 1, 2), has_aux=True))
        (_, values), grads = jax.jit(found)(params, x, added, stats)
        return values, grads

    found, wanted = (jax.tree.leaves(both(form)) for form in (by_kernels, plain))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * max(np.abs(other).max(), 1e-5))


def test_differences_are_from_a_pixel_that_counts(example):
    """An image that does not count may be far away: nothing of the others is lost."""
    x, _, params, stats = jax.tree.map(lambda leaf: leaf[0], example)
    far = x.at[0].add(1e5)
    normalised = jax.jit(lambda x: by_kernels(params, stats, x, None, None, False))
    (y, moved), (wanted, wanted_moved) = normalised(far), normalised(x)
    np.testing.assert_allclose(y[1:], wanted[1:], atol=1e-5)
    np.testing.assert_allclose(moved["var"], wanted_moved["var"], rtol=1e-5)


def test_bfloat16_values(example):
    x, _, params, stats = jax.tree.map(lambda leaf: leaf[0], example)
    x = x.astype(jnp.bfloat16)
    y = jax.jit(lambda x: by_kernels(params, stats, x, None, None, True)[0])(x)
    wanted = jax.jit(lambda x: plain(params, stats, x, None, None, True)[0])(x.astype(jnp.float32))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(y.astype(jnp.float32), wanted, rtol=2**-8, atol=1e-6)


@pytest.mark.slow  # 6 s: each kernel is compared above and in `test_conv_kernel`
def test_a_network_by_kernels(monkeypatch):
    """Convolutions, norms, what blocks add: the same loss, statistics and gradients."""
    own = functools.partial(conv.Settings, tuning=CONV, interpret=True)
    monkeypatch.setattr(conv, "supports", conv.fits)
    monkeypatch.setattr(conv, "Settings", own)
    monkeypatch.setattr(norm_kernel, "supports", fits)
    settings = functools.partial(Settings, tuning=SMALL, interpret=True)
    monkeypatch.setattr(norm_kernel, "Settings", settings)
    x = jax.random.normal(jax.random.key(1), (3, 2, 4, 3))
    net = ResNet(channels=(16,), blocks=1)
    variables = jax.jit(net.init)(jax.random.key(0), x)

    def of(form):
        def loss(params, stats):
            found = {"params": params, "batch_stats": stats}
            y, moved = net.clone(form=form).apply(found, x, True, MASK, mutable=["batch_stats"])
            return jnp.sum(MASK * (y - 1) ** 2), moved

        found = jax.jit(jax.value_and_grad(loss, has_aux=True))
        return found(variables["params"], variables["batch_stats"])

    for one, other in zip(*map(jax.tree.leaves, (of("kernel"), of("direct"))), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5 * np.abs(other).max())


def test_what_the_kernels_take():
    assert fits(SHAPE) and fits((5, 1, 1, 128))
    assert not fits((5, 16)) and not fits((5, 3, 3, 16)) and not fits((5, 16, 16, 8))
