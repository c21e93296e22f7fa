"""Decoders against the reference network, its initialisation, and forward-mode derivatives."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core import tree
from cgjax.nets import decoders
from cgjax.nets.convert import from_torch
from cgjax.nets.decoders import DeconvMLP, TransposedDecoder, UpsampleMLP

PLAIN = ("direct", "reordered", "stencil")
UPSAMPLE = {
    "upsample_rgb": UpsampleMLP(),
    "upsample_rgba_small": UpsampleMLP((64, 64, 4), hidden=48, channels=8, n_layers=3),
    "upsample_mono_small": UpsampleMLP(hidden=40, channels=12),
    "upsample_k3_small": UpsampleMLP(hidden=32, channels=6, kernel=3),
}
DECONV = {
    "deconv_rgb": DeconvMLP(hidden=128, channels=24),
    "deconv_rgba_clamp_small": DeconvMLP((64, 64, 4), hidden=32, channels=6, final_sigmoid=True),
}


@pytest.fixture(scope="module")
def nets(golden):
    """Per network: parameters, input, output and parameter count of the reference."""
    arrays = golden("sprites/models")

    @functools.cache
    def load(name):
        own = {k.split("/")[1]: arrays[k] for k in arrays.files if k.startswith(f"{name}/")}
        z, out, n = (own.pop(f"__{k}") for k in ("in", "out", "nparam"))
        return from_torch((UPSAMPLE | DECONV)[name], own), z, out, n

    return load


@functools.partial(jax.jit, static_argnums=0)
def apply(module, params, z):
    return module.apply({"params": params}, z)


@pytest.mark.parametrize(
    "name, form",
    [
        *(("upsample_rgb", form) for form in PLAIN),
        *((name, "stencil") for name in ("upsample_rgba_small", "upsample_mono_small")),
        ("upsample_k3_small", "direct"),
        # Forms are compared with each other in `test_upsample_kernel`.
        *(
            pytest.param(name, form, marks=pytest.mark.slow)
            for name in ("upsample_rgba_small", "upsample_mono_small")
            for form in ("direct", "reordered")
        ),
        pytest.param("upsample_k3_small", "reordered", marks=pytest.mark.slow),
    ],
)
def test_upsample_golden(nets, name, form):
    params, z, out, n = nets(name)
    assert tree.size(params) == n
    ours = apply(UPSAMPLE[name].clone(form=form), params, z)
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, out, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", DECONV)
def test_deconv_golden(nets, name):
    params, z, out, n = nets(name)
    assert tree.size(params) == n
    np.testing.assert_allclose(apply(DECONV[name], params, z), out, rtol=0, atol=1e-5)


def test_bfloat16_is_near(nets):
    params, z, out, _ = nets("upsample_rgb")
    ours = apply(UpsampleMLP(dtype=jnp.bfloat16), params, z)
    assert ours.dtype == jnp.float32
    error = np.abs(ours - out).max()
    assert 0 < error < 0.02 * np.abs(out).max()


@pytest.mark.parametrize(
    "module, d_in, n",
    [
        (UpsampleMLP(), 5, 277475),
        (UpsampleMLP((64, 64, 4)), 5, 277604),
        (UpsampleMLP(hidden=320, channels=64), 10, 587779),
        (DeconvMLP(), 5, 315491),
        (DeconvMLP((64, 64, 4)), 5, 316004),
    ],
)
def test_parameter_counts(module, d_in, n):
    variables = jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, d_in)))
    assert tree.size(variables["params"]) == n


@pytest.mark.parametrize(
    "module",
    [UpsampleMLP(form="reordered"), pytest.param(DeconvMLP(), marks=pytest.mark.slow)],
)
def test_initialisation_fills_its_bounds(module):
    params = jax.jit(module.init)(jax.random.key(1), jnp.zeros((1, 5)))["params"]
    for name, layer in params.items():
        kernel = np.asarray(layer["kernel"])
        fan_in = math.prod(kernel.shape[:-1])
        if isinstance(module, DeconvMLP) and name.startswith("conv"):
            fan_in = kernel.shape[0] * kernel.shape[1] * kernel.shape[3]
        bound = 1 / math.sqrt(fan_in)
        for leaf in (kernel, np.asarray(layer["bias"])):
            assert np.abs(leaf).max() <= bound
        assert np.abs(kernel).max() > 0.95 * bound
        if kernel.size > 1000:
            assert abs(kernel.mean()) < 0.1 * bound
            assert abs(kernel.std() - bound / math.sqrt(3)) < 0.05 * bound


def test_tree_is_plain():
    params = jax.eval_shape(UpsampleMLP().init, jax.random.key(0), jnp.zeros((1, 5)))["params"]
    assert sorted(params) == [f"{kind}_{i}" for kind in ("conv", "dense") for i in range(4)]
    assert params["conv_3"]["kernel"].shape == (2, 2, 32, 3)
    assert params["dense_3"]["kernel"].shape == (256, 512)
    assert set(params["conv_0"]) == {"kernel", "bias"}


@pytest.mark.parametrize(
    "form", ["direct", "stencil", pytest.param("reordered", marks=pytest.mark.slow)]
)
def test_jacfwd_agrees_with_differences(nets, form):
    params, z, _, _ = nets("upsample_rgba_small")
    module = UPSAMPLE["upsample_rgba_small"].clone(form=form)
    f = jax.jit(lambda z: module.apply({"params": params}, z[None])[0, ::21, ::21].ravel())
    z = jnp.asarray(z[0])
    jacobian = jax.jit(jax.jacfwd(f))(z)
    step = 1e-2
    for i in range(z.size):
        e = step * jnp.eye(z.size)[i]
        slope = (f(z + e) - f(z - e)) / (2 * step)
        np.testing.assert_allclose(jacobian[:, i], slope, rtol=0, atol=2e-4)


def test_slots_are_an_axis(nets):
    module = UPSAMPLE["upsample_mono_small"]
    params, z, out, _ = nets("upsample_mono_small")
    stacked = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), params)
    both = jax.jit(jax.vmap(lambda p, z: module.apply({"params": p}, z)))(
        stacked, jnp.stack([z, z])
    )
    np.testing.assert_allclose(both[0], out, rtol=0, atol=1e-5)
    assert np.abs(both[1] - both[0]).max() > 1e-2


def test_batch_norm_uses_and_updates_statistics():
    module = DeconvMLP(hidden=16, channels=4, batch_norm=True)
    z = jax.random.normal(jax.random.key(0), (8, 5))
    variables = jax.jit(module.init)(jax.random.key(1), z)
    assert set(variables["batch_stats"]) == {
        "dense_norm_1",
        "dense_norm_2",
        "conv_norm_0",
        "conv_norm_1",
        "conv_norm_2",
    }
    train = jax.jit(lambda v, z: module.apply(v, z, train=True, mutable=["batch_stats"]))
    _, new = train(variables, z)
    before, after = variables["batch_stats"], new["batch_stats"]
    assert np.abs(after["conv_norm_2"]["mean"] - before["conv_norm_2"]["mean"]).max() > 1e-4
    running = jax.jit(module.apply)
    normalised = running({**variables, "batch_stats": after}, z)
    assert np.abs(normalised - running(variables, z)).max() > 1e-4


@pytest.mark.parametrize(
    "module, message",
    [
        (UpsampleMLP((32, 32, 3)), "out_shape must be"),
        (UpsampleMLP(form="fast"), "unknown form 'fast'"),
        (UpsampleMLP(form="pallas", channels=12), "form 'pallas' needs"),
        (UpsampleMLP(form="stencil", kernel=3), "form 'stencil' needs kernel 2"),
        (UpsampleMLP(activation="swish"), "unknown activation 'swish'"),
        (UpsampleMLP(n_layers=1), "n_layers must be at least 2"),
        (DeconvMLP(kernel=3), "even kernel"),
    ],
)
def test_bad_fields(module, message):
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 5)))


# --- transposed -----------------------------------------------------------------------------------
# Transposed convolutions against their definition, and the decoder made of them.


def scattered(x, kernel):
    """The definition, size 4, stride 2, padding 1: every input pixel paints 4 x 4 output pixels.

    The kernel is PyTorch's, [4, 4, c, o]: the flipped of the one that is correlated.
    """
    batch, n, _, _ = x.shape
    out = np.zeros((batch, 2 * n + 2, 2 * n + 2, kernel.shape[-1]))
    for i in range(n):
        for j in range(n):
            painted = np.einsum("bc,tsco->btso", x[:, i, j], kernel)
            out[:, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4] += painted
    return out[:, 1:-1, 1:-1]


@pytest.mark.parametrize("form", ["direct", "patches"])
def test_doubling_is_scattering(form):
    rng = np.random.default_rng(0)
    x, kernel, bias = (rng.normal(size=s) for s in ((2, 5, 5, 3), (4, 4, 3, 6), (6,)))
    expected = scattered(x, kernel[::-1, ::-1]) + bias
    arrays = (jnp.asarray(a, jnp.float32) for a in (x, kernel, bias))
    found = jax.jit(decoders.double, static_argnames="form")(*arrays, form=form)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_nearest_neighbours():
    """56 pixels at 32: the pixel at floor(i 56 / 32)."""
    x = np.arange(56.0)[None, :, None, None] * np.ones((1, 1, 3, 1))
    found = decoders.resize_nearest(x, 32)
    assert found.shape == (1, 32, 32, 1)
    np.testing.assert_array_equal(found[0, :, 0, 0], np.floor(np.arange(32) * 56 / 32))


def test_layers_of_the_main_cnn():
    """7, 14, 28 pixels, then 28."""
    module = TransposedDecoder(hidden=64, n_hidden=4)
    (image, activations), variables = outline(module, jnp.zeros((5, 56)))
    sizes = [(7, 56, 64), (4, 64, 64), (4, 64, 64), (3, 64, 64), (3, 64, 64), (3, 64, 1)]
    params = variables["params"]
    assert [params[f"conv_{i}"]["kernel"].shape for i in range(6)] == [
        (k, k, c, o) for k, c, o in sizes
    ]
    assert sum(a.size for a in jax.tree.leaves(params)) == sum(
        k * k * c * o + o for k, c, o in sizes
    )
    assert image.shape == (5, 28, 28)
    assert [a.shape for a in activations] == [
        (5, 7, 7, 64),
        (5, 14, 14, 64),
        *[(5, 28, 28, 64)] * 3,
        (5, 28, 28),
    ]


def outline(module, z):
    """Shapes of what the module gives, and of its parameters."""
    return jax.eval_shape(module.init_with_output, jax.random.key(0), z)


def test_overshooting_and_other_starts():
    shapes = {}
    for n, start, n_hidden in ((32, 7, 4), (16, 4, 4), (28, 7, 2)):
        (_, activations), _ = outline(TransposedDecoder(n, 2, n_hidden, start), jnp.zeros((1, 3)))
        shapes[n] = [a.shape[1] for a in activations]
    assert shapes == {32: [7, 14, 28, 56, 56, 32], 16: [4, 8, 16, 16, 16, 16], 28: [7, 14, 28, 28]}
    for module, words in (
        (TransposedDecoder(28, 2, 1), "n_hidden is 1"),
        (TransposedDecoder(form="fast"), "unknown form"),
    ):
        with pytest.raises(ValueError, match=words):
            outline(module, jnp.zeros((1, 3)))


@pytest.fixture(scope="module")
def small():
    module = TransposedDecoder(14, 5, 1, form="direct", background=1.0)
    z = np.random.default_rng(1).normal(size=(2, 6)).astype(np.float32)
    init = jax.jit(module.init, compiler_options={"xla_backend_optimization_level": 0})
    return module, init(jax.random.key(0), z), z


def test_forms_of_the_decoder_agree(small):
    module, params, z = small
    image, activations = jax.jit(module.apply)(params, z)
    other, _ = jax.jit(module.clone(form="patches", background=0.0).apply)(params, z)
    np.testing.assert_allclose(image, other + 1, atol=1e-5)
    assert all(np.min(a) == 0 < np.max(a) for a in activations[:-1])
    np.testing.assert_array_equal(activations[-1], image)


def test_initial_bounds(small):
    """PyTorch's fan-in of a transposed convolution counts output channels."""
    for layer in small[1]["params"].values():
        k, _, _, o = layer["kernel"].shape
        bound = 1 / math.sqrt(o * k * k)
        assert 0.9 * bound < np.abs(layer["kernel"]).max() <= bound
        assert np.abs(layer["bias"]).max() <= bound
