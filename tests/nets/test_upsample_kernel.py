"""Forms of "upsample, then convolve" against each other; the GPU kernels in interpret mode."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis.ntk import functions
from cgjax.core import parallel
from cgjax.core.errors import BadInput
from cgjax.nets import decoders, upsample
from cgjax.nets.pallas import upsample as upsample_kernel
from cgjax.nets.pallas import upsample_bodies, upsample_loss
from cgjax.nets.pallas.upsample import Launch, Tuning, supports, upsample_stack

SLOTS, BATCH, N, C = 2, 3, 4, 16
START = 2  # of the decoders: their stages go on to sizes with an interior
# Tiles of 2 do not divide the 3 images, of all or of one of four devices.
SMALL = Tuning(*[Launch(tile=2, span=2)] * len(Tuning._fields))._replace(
    narrow_mix=Launch(tile=2, early=True)
)


def reference64(x, kernel, bias):
    """Upsample by linear interpolation, pad, correlate: loops in float64."""
    x, kernel, bias = (np.asarray(a, np.float64) for a in (x, kernel, bias))
    n, k = x.shape[1], kernel.shape[0]
    fine, coarse = np.linspace(0, 1, 2 * n), np.linspace(0, 1, n)
    for axis in (1, 2):
        x = np.apply_along_axis(lambda v: np.interp(fine, coarse, v), axis, x)
    low = (k - 1) // 2
    x = np.pad(x, ((0, 0), (low, k - 1 - low), (low, k - 1 - low), (0, 0)))
    windows = [
        x[:, h : h + 2 * n, w : w + 2 * n] @ kernel[h, w] for h in range(k) for w in range(k)
    ]
    return sum(windows) + bias


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def example(k=2, out=5):
    return normal(k, BATCH, N, N, 6), normal(10 + k, k, k, 6, out), normal(20 + k, out)


FORMS = {
    "direct": upsample.direct,
    "reordered": upsample.reordered,
    "stencil": upsample.stencil,
    "stencil_vjp": upsample.stencil_vjp,
}
CASES = [(name, k) for name in FORMS for k in (2, 3) if k == 2 or "stencil" not in name]


@pytest.mark.parametrize("name, k", CASES)
def test_forms_agree_with_float64(name, k):
    arguments = example(k)
    ours = jax.jit(FORMS[name])(*arguments)
    np.testing.assert_allclose(ours, reference64(*arguments), rtol=0, atol=2e-5)


def test_elu_at_extremes_and_its_slope():
    x = np.array([-np.inf, -1e4, -104.1, -103.9, -17.0, -1.0, -1e-7, -0.0, 0.0, 2.0, np.inf])
    x = x.astype(np.float32)
    value, slope = jax.jvp(upsample.elu, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(value, np.where(x > 0, x, np.expm1(np.minimum(x, 0))), atol=1e-7)
    np.testing.assert_allclose(slope, np.exp(np.minimum(x, 0)), atol=1e-7)
    assert np.isnan(upsample.elu(np.float32(np.nan)))


@pytest.mark.parametrize("name, k", CASES)
def test_gradients_agree(name, k):
    arguments = example(k)
    weight = normal(9, BATCH, 2 * N, 2 * N, 5)

    def gradients(form):
        return jax.jit(jax.grad(lambda *a: jnp.sum(weight * form(*a)), (0, 1, 2)))(*arguments)

    for ours, direct in zip(gradients(FORMS[name]), gradients(upsample.direct)):
        np.testing.assert_allclose(ours, direct, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", FORMS)
def test_bfloat16_operands_float32_sums(name):
    x, kernel, bias = example()
    ours = jax.jit(FORMS[name])(x.astype(jnp.bfloat16), kernel, bias)
    assert ours.dtype == jnp.float32
    wanted = reference64(x, kernel, bias)
    assert np.abs(ours - wanted).max() < 0.02 * np.abs(wanted).max()


def decoder(seed, dtype, widths, batch=BATCH):
    """Inputs, and a stage for each of `widths`, its channels; slots have their own weights."""
    x = upsample.elu(jnp.asarray(normal(seed, SLOTS, batch, START, START, C)), dtype)
    convs = [
        (0.2 * normal(10 + i, SLOTS, 2, 2, C, channels), normal(20 + i, SLOTS, channels))
        for i, channels in enumerate(widths)
    ]
    return x, jax.tree.map(jnp.asarray, convs)


def plain(x, convs):
    for conv in convs[:-1]:
        x = upsample.elu(upsample.reordered(x, *conv), x.dtype)
    return upsample.reordered(x, *convs[-1])


def kernels(x, convs):
    return upsample_stack(x, convs, SMALL, True)


def program(stack, x, convs):
    """Compiled x, convs -> (_, images), gradients; the two slots as an array axis."""
    size = START * 2 ** len(convs)
    shape = (*x.shape[:2], size, size, convs[-1][1].shape[-1])
    weight = normal(5, *shape)

    def loss(x, convs):
        images = jax.vmap(stack, spmd_axis_name="seed")(x, convs)
        return jnp.sum(weight * images), images

    jitted = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
    return jitted.lower(x, convs).compile()


def value_and_grads(stack, x, convs):
    """Images and gradients."""
    (_, images), grads = program(stack, x, convs)(x, convs)
    return images, grads


@pytest.mark.slow
def test_eight_devices_run_the_kernels_on_their_own_rows_and_agree_with_plain_form(monkeypatch):
    monkeypatch.setattr(upsample_kernel, "upsample_stack", kernels)
    # Three stages: an inner stage that the last kernel follows, and one that it does not.
    x, convs = decoder(1, jnp.float32, (C, C, 3), batch=4 * BATCH)
    place = parallel.layout(SLOTS, 4 * BATCH)
    assert place.mesh.devices.shape == (2, 4)
    rows = jax.NamedSharding(place.mesh, jax.P("seed", "data"))
    arguments = jax.device_put((x, convs), (rows, place.replicas))
    with jax.set_mesh(place.mesh):
        compiled = program(upsample_kernel.over_devices, *arguments)
    collectives = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
    # The loss and the gradients of the weights are summed; no activations travel.
    assert set(re.findall(rf" ({collectives})(?:-start)?\(", compiled.as_text())) == {"all-reduce"}
    (_, images), grads = compiled(*arguments)
    assert images.sharding.is_equivalent_to(rows, images.ndim) and images.dtype == jnp.float32
    wanted = value_and_grads(plain, x, convs)
    for a, b in zip(jax.tree.leaves((images, grads)), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max())


def test_kernels_are_chosen_where_each_gpu_has_rows(monkeypatch, capsys):
    monkeypatch.setattr(parallel, "on_nvidia", lambda: True)
    decoders._say_once.cache_clear()
    module = decoders.UpsampleMLP()
    assert decoders.choose_form(module, 8) == "stencil"  # eight devices and no mesh
    assert not capsys.readouterr().out
    with jax.set_mesh(parallel.layout(2, 8).mesh):
        assert decoders.choose_form(module, 8) == "pallas"
        assert decoders.choose_form(module, 6) == "stencil"
        assert "8 GPUs: a batch of 6 does not divide over 4" in capsys.readouterr().out
        decoders.choose_form(module, 6)
        assert not capsys.readouterr().out  # once is enough
        assert decoders.choose_form(decoders.UpsampleMLP(channels=24), 8) == "stencil"
        assert "8 GPUs: unsupported sizes" in capsys.readouterr().out
    with jax.set_mesh(parallel.layout(2, 8, jax.devices()[:1]).mesh):
        assert decoders.choose_form(module, 6) == "pallas"


@pytest.mark.slow
def test_kernels_in_bfloat16_and_four_channels(monkeypatch):
    # XLA's CPU backend refuses one of the bfloat16 products; widening its operands is exact.
    dot = upsample_bodies._dot
    monkeypatch.setattr(
        upsample_bodies,
        "_dot",
        lambda a, b, contract: dot(a.astype(jnp.float32), b.astype(jnp.float32), contract),
    )
    x, convs = decoder(2, jnp.bfloat16, (C, 4))
    ours = value_and_grads(lambda x, convs: upsample_stack(x, convs, SMALL, True), x, convs)
    wanted = value_and_grads(plain, x.astype(jnp.float32), convs)
    assert ours[0].dtype == jnp.float32 and ours[1][0].dtype == jnp.bfloat16
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted), strict=True):
        a = np.asarray(a, np.float32)
        assert np.linalg.norm(a - b) < 0.01 * np.linalg.norm(b)


def abstract_gpus(shape):
    """A mesh of NVIDIA GPUs for which kernels can be lowered without any."""
    sharding = jax.sharding
    if not (hasattr(sharding, "AbstractDevice") and hasattr(sharding, "use_abstract_mesh")):
        pytest.skip("this JAX has no abstract devices, so lowering for a GPU needs one")
    device = sharding.AbstractDevice("NVIDIA H100 80GB HBM3", None, "cuda")
    names = ("seed", "data")[: len(shape)]
    types = (sharding.AxisType.Auto,) * len(shape)
    try:
        return sharding.use_abstract_mesh(
            sharding.AbstractMesh(shape, names, axis_types=types, abstract_device=device)
        )
    except TypeError:
        pytest.skip("this JAX has no abstract devices on meshes, so lowering for a GPU needs one")


@pytest.fixture
def nvidia(monkeypatch):
    """Programs are lowered for a GPU that is not there."""
    monkeypatch.setattr(parallel, "on_nvidia", lambda: True)


@pytest.mark.usefixtures("nvidia")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dtype, mesh", [(jnp.float32, ()), (jnp.bfloat16, (2, 4))])
def test_kernels_lower_for_gpus(dtype, mesh):
    shapes = jax.eval_shape(lambda: decoder(0, dtype, (C, 3), batch=4))

    def loss(x, convs):
        each = jax.vmap(upsample_kernel.over_devices, spmd_axis_name="seed")
        return jnp.sum(each(x, convs))

    with abstract_gpus(mesh):
        traced = jax.jit(jax.value_and_grad(loss, (0, 1))).trace(*shapes)
        lowered = traced.lower(lowering_platforms=("cuda",)).as_text()
    # One kernel per stage each way.
    assert lowered.count("xla.gpu.triton") == 4
    # With a mesh, inside a region where each device sees one slot's one image only.
    assert ("tensor<1x1x2x2x16xbf16>" in lowered) == bool(mesh)


@pytest.mark.usefixtures("nvidia")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("requested", ["default", "highest"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_float32_products_are_three_tf32_products(dtype, requested):
    """Both ways, and only where operands are float32 and the context requests it."""
    shapes = jax.eval_shape(lambda: decoder(0, dtype, (C, 3), batch=4))

    def loss(x, convs):
        return jnp.sum(upsample_kernel.upsample_stack(x, convs))

    of_one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
    with jax.default_matmul_precision(requested):
        traced = jax.make_jaxpr(jax.grad(loss, (0, 1)))(*of_one)
    products = [e for e in functions.equations(traced.jaxpr) if e.primitive.name == "dot_general"]
    three = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    are_three = {eqn.params["precision"] == three for eqn in products}
    assert are_three == {dtype == jnp.float32 and requested == "highest"}


@pytest.mark.usefixtures("nvidia")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("mesh", [(), (2, 4)])
def test_loss_lowers_for_gpus(mesh):
    x, convs = jax.eval_shape(lambda: decoder(0, jnp.float32, (C, 3), batch=4))
    known = [
        jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 4 * START, 4), (3, 4), (4,))
    ]

    def pixel(colours, row, image, column):
        target = jnp.where((row[:1] <= column) & (column <= row[1:]), image, 0.0)
        return jnp.sum((colours[0] * jax.nn.sigmoid(colours[1]) - target) ** 2)

    loss = functools.partial(upsample_loss.summed_loss, pixel)
    with abstract_gpus(mesh):
        traced = jax.jit(jax.value_and_grad(loss, (0, 1))).trace(x, convs, *known)
        lowered = traced.lower(lowering_platforms=("cuda",)).as_text()
    # The first stage, the last one with the loss, and the two backward.
    assert lowered.count("xla.gpu.triton") == 4


def test_what_the_kernels_support():
    assert supports(32, 3, 2, "elu") and supports(64, 4, 2, "elu")
    assert not any(
        supports(*case)
        for case in [
            (24, 3, 2, "elu"),
            (8, 3, 2, "elu"),
            (32, 5, 2, "elu"),
            (32, 3, 3, "elu"),
            (32, 3, 2, "relu"),
        ]
    )


def test_kernels_without_a_gpu_are_refused():
    module = decoders.UpsampleMLP(form="pallas", channels=16)
    with pytest.raises(BadInput, match="need an NVIDIA GPU, not cpu: use form 'auto'"):
        jax.eval_shape(module.init, jax.random.key(0), jnp.zeros((1, 5)))
