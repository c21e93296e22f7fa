"""Convolutions in both forms, batch normalisation, and the ConvNet against the reference."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import loaded, quick_key

from cgjax.nets.conv import Conv, ConvNet, convolve, max_pool
from cgjax.nets.norm import BatchNorm

NET = ConvNet(channels=(3, 4, 4, 5), hidden=(6, 7))


@pytest.fixture(scope="module")
def reference(golden):
    return loaded(golden, "convnet", NET)


@pytest.mark.parametrize("form", ["direct", "patches"])
def test_golden(reference, form):
    variables, x, arrays = reference
    net = NET.clone(form=form)
    outputs = jax.jit(lambda v, x: [net.apply(v, x, tap=tap) for tap in (None, 11, 19)])
    out, features, last = outputs(variables, x)
    assert out.shape == (3,)
    np.testing.assert_allclose(out, arrays["out_eval"], rtol=1e-5)
    np.testing.assert_array_equal(last[:, 0], out)
    channel_major = np.moveaxis(features, -1, 1).reshape(3, -1)
    np.testing.assert_allclose(channel_major, arrays["feature_11_eval"], rtol=1e-5, atol=1e-5)
    train = jax.jit(lambda v, x: net.apply(v, x, train=True, mutable=["batch_stats"]))
    np.testing.assert_allclose(train(variables, x)[0], arrays["out_train"], rtol=1e-5)


def test_taps_are_the_modules_in_order(reference):
    variables, x, arrays = reference
    taps = range(int(arrays["n_feature_entries"]))
    net = NET.clone(form="direct")
    shapes = jax.eval_shape(lambda v: [net.apply(v, x, tap=tap) for tap in taps], variables)
    sizes = [leaf.shape[1:] for leaf in shapes]
    assert sizes[0] == (28, 33, 2) and sizes[1] == sizes[2] == sizes[3] == (24, 29, 3)
    assert sizes[10] == sizes[12] == (12, 17, 5)
    assert sizes[13:] == [(6, 8, 5), (240,), (6,), (6,), (7,), (7,), (1,)]
    assert len(sizes) == 20


def test_masked_rows_count_for_nothing(reference):
    variables, x, arrays = reference
    apply = jax.jit(lambda x, mask: NET.apply(variables, x, True, mask, mutable=["batch_stats"]))
    mask = jnp.array([1.0, 1.0, 1.0, 0.0])
    runs = [apply(jnp.concatenate([x, factor * x[:1]]), mask) for factor in (1, 100)]
    for out, _ in runs:
        np.testing.assert_allclose(out[:3], arrays["out_train"], rtol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, runs[0][1], runs[1][1])


@pytest.mark.parametrize("size, stride, padding", [(5, 1, 0), (3, 1, 1), (3, 2, 1), (1, 2, 0)])
def test_both_forms_and_their_gradients(size, stride, padding):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 8, 9, 3)).astype(np.float32)
    kernel = rng.normal(size=(size, size, 3, 4)).astype(np.float32)

    def loss(x, kernel, form):
        y = convolve(x, kernel, stride, padding, form)
        return jnp.sum(jnp.sin(y)), y

    grad = jax.jit(jax.grad(loss, (0, 1), has_aux=True), static_argnums=2)
    found = (grad(x, kernel, form) for form in ("direct", "patches"))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), *found)


@pytest.mark.parametrize(
    "backend, stride, primitive",
    [
        ("gpu", 1, "dot_general"),
        ("gpu", 2, "conv_general_dilated"),
        ("cpu", 2, "dot_general"),
    ],
)
def test_which_form_a_kernel_of_one_pixel_takes(backend, stride, primitive, monkeypatch):
    """XLA's compiler for GPUs aborts at a product with every second pixel (JAX 0.11)."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    x, kernel = jnp.zeros((1, 4, 4, 3)), jnp.zeros((1, 1, 3, 2))
    for form in ("auto", "kernel"):
        program = jax.make_jaxpr(functools.partial(convolve, stride=stride, form=form))(x, kernel)
        names = {step.primitive.name for step in program.eqns}
        assert names & {"dot_general", "conv_general_dilated"} == {primitive}


def test_an_image_passed_on_and_a_bias():
    x = np.linspace(-1, 1, 18, dtype=np.float32).reshape(1, 3, 3, 2)
    net = Conv(features=4, size=1)

    @jax.jit
    def of(variables):
        return net.apply(variables, x), net.apply(variables, x, passes_on=True)

    plain, (y, again) = of(jax.jit(net.init)(quick_key(0), x))
    np.testing.assert_array_equal(y, plain)
    np.testing.assert_array_equal(again, x)


def test_unknown_form():
    with pytest.raises(
        ValueError, match="unknown form 'fft'; choose from auto, direct, patches, kernel"
    ):
        convolve(jnp.zeros((1, 8, 8, 1)), jnp.zeros((3, 3, 1, 1)), form="fft")


def test_max_pool():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 6, 3)))
    expected = np.asarray(x)[:, :4].reshape(2, 2, 2, 3, 2, 3).max((2, 4))
    np.testing.assert_array_equal(max_pool(x), expected)


def test_running_statistics_follow_pytorch():
    x = 3 + 2 * jax.random.normal(jax.random.key(0), (4, 5, 2))
    norm = BatchNorm()
    variables = norm.init(jax.random.key(1), x)
    y, changed = norm.apply(variables, x, train=True, mutable=["batch_stats"])
    flat = np.asarray(x, float).reshape(-1, 2)
    expected = (flat - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-5)
    np.testing.assert_allclose(y.reshape(-1, 2), expected, atol=1e-5)
    stats = changed["batch_stats"]
    np.testing.assert_allclose(stats["mean"], 0.1 * flat.mean(0), rtol=1e-5)
    np.testing.assert_allclose(stats["var"], 0.9 + 0.1 * flat.var(0, ddof=1), rtol=1e-5)
    still = norm.apply({**variables, **changed}, x)
    mean, var = (np.asarray(stats[name]) for name in ("mean", "var"))
    expected = (flat - mean) / np.sqrt(var + 1e-5)
    np.testing.assert_allclose(still.reshape(-1, 2), expected, atol=1e-5)


def test_initialisation():
    net = ConvNet(channels=(8, 8, 8, 8), hidden=(200, 100))
    x = jnp.zeros((1, 28, 38, 2))
    fans = {"conv_1": 200, "dense_0": 528, "dense_1": 200}

    @jax.jit  # returning only some layers spares compiling the rest
    def init(key):
        params = net.init(key, x)["params"]
        return {name: params[name] for name in fans}

    for name, layer in init(quick_key(0)).items():
        kernel = np.asarray(layer["kernel"])
        assert kernel.size % fans[name] == 0
        assert abs(kernel.std() / np.sqrt(2 / fans[name]) - 1) < 0.05
        assert np.abs(kernel).max() > 3 * kernel.std()  # normal, not uniform
        assert np.abs(layer["bias"]).max() <= 1 / np.sqrt(fans[name])
    full = jax.eval_shape(ConvNet().init, jax.random.key(0), x)["params"]
    kernels = [full[f"conv_{i}"]["kernel"].shape for i in range(4)]
    assert kernels == [(5, 5, 2, 32), (5, 5, 32, 32), (5, 5, 32, 64), (5, 5, 64, 64)]
    dense = [full[f"dense_{i}"]["kernel"].shape for i in range(3)]
    assert dense == [(64 * 6 * 11, 512), (512, 1024), (1024, 1)]
