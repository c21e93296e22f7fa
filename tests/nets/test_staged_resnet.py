"""ResNets with bottlenecks and basic blocks: reference blocks, sizes, names, initialisation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import loaded, quick_key

from cgjax.core import tree
from cgjax.core.errors import BadInput
from cgjax.nets.convert import batch_stats_from_torch, from_torch
from cgjax.nets.norm import GroupNorm, InstanceNorm
from cgjax.nets.resnet import (
    Bottleneck,
    BottleneckResNet,
    ResNet,
    ResNet18,
    Stem,
    overlapping_max_pool,
)

TINY = BottleneckResNet(stage_sizes=(1, 1), widths=(16, 4), head=5)


def channels_last(x):
    return jnp.moveaxis(jnp.asarray(x), 1, -1)


def kernel(weight):
    return {"kernel": jnp.transpose(jnp.asarray(weight), (2, 3, 1, 0))}


def block_variables(arrays):
    """The reference's arrays of one bottleneck as our variables."""
    params, stats = {}, {}
    for i in (1, 2, 3, "down"):
        conv = "downsample" if i == "down" else f"conv{i}"
        norm = "norm_downsample" if i == "down" else f"norm_{i}"
        if f"{conv}_weight_oihw" in arrays.files:
            params[conv.replace("conv", "conv_")] = kernel(arrays[f"{conv}_weight_oihw"])
        bn = f"bn_{i}" if i == "down" else f"bn{i}"
        if f"{bn}_weight" in arrays.files:
            params[norm] = {"scale": arrays[f"{bn}_weight"], "bias": arrays[f"{bn}_bias"]}
            stats[norm] = {name: arrays[f"{bn}_running_{name}"] for name in ("mean", "var")}
    return {"params": params, "batch_stats": stats}


@pytest.mark.parametrize(
    "norm, place, form",
    [
        ("batch", "identity", "patches"),
        ("batch", "stride2", "patches"),
        ("instance", "identity", "patches"),
        ("instance", "stride2", "direct"),
    ],
)
def test_bottleneck_golden(golden, norm, place, form):
    arrays = golden(f"subnetworks/bottleneck_{norm}norm_{place}")
    block = Bottleneck(4, int(arrays["stride"]), norm=norm, form=form)
    x = channels_last(arrays["x_nchw"])
    found = jax.jit(block.apply)(block_variables(arrays), x)
    np.testing.assert_allclose(found, channels_last(arrays["out_nchw"]), atol=1e-5)


def test_stem_golden(golden):
    arrays = golden("subnetworks/resnet_stem_instancenorm")
    params = {"conv": kernel(arrays["conv1_weight_oihw"])}
    found = jax.jit(Stem(8).apply)({"params": params}, channels_last(arrays["x_nchw"]))
    np.testing.assert_allclose(found, channels_last(arrays["out_nchw"]), atol=1e-5)


def test_max_pool_of_odd_sizes():
    x = np.random.default_rng(0).normal(size=(2, 5, 6, 3)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    expected = [
        [padded[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((1, 2)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_array_equal(overlapping_max_pool(jnp.asarray(x)), np.moveaxis(expected, 2, 0))


@pytest.mark.parametrize(
    "width_factor, counts",
    [(1, (19_398_656, 26_476_544, 27_911_360)), (2, (46_399_488, 67_108_864, 71_222_464))],
)
def test_maskable_weights(width_factor, counts):
    """The published numbers for stage 4, stages 3 and 4, and everything, each with the head."""
    net = BottleneckResNet(width_factor=width_factor)
    shapes = tree.flat(jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 64, 64, 3))))
    everything = ("stem", "stage_1", "stage_2", "stage_3", "stage_4")
    for parts, expected in zip((everything[-1:], everything[-2:], everything), counts):
        names = [f"params/{part}/" for part in (*parts, "head")]
        found = [
            v for k, v in shapes.items() if k.endswith("kernel") and k.startswith(tuple(names))
        ]
        assert tree.size(found) == expected


@pytest.fixture(scope="module")
def tiny():
    """Parameters; outputs of the whole network, and of its end on what its beginning gave; that."""

    @jax.jit
    def run(key, x):
        variables = TINY.init(key, x)
        frozen = TINY.apply(variables, x, stop=2)
        outputs = TINY.apply(variables, x), TINY.apply(variables, frozen, start=2), frozen
        return variables["params"], *outputs

    x = np.random.default_rng(0).normal(size=(2, 16, 16, 3))
    return run(quick_key(0), jnp.asarray(x, jnp.float32))


def test_parts_make_the_whole(tiny):
    params, whole, rest, frozen = tiny
    assert set(params) == {"stem", "stage_1", "stage_2", "head"}
    assert whole.shape == (2, 5) and frozen.shape == (2, 4, 4, 64)
    np.testing.assert_allclose(whole, rest, atol=1e-6)


def test_initialisation(tiny):
    params, *_ = tiny
    block = params["stage_1"]["block_0"]
    fans = {"conv_1": 16, "conv_2": 9 * 16, "conv_3": 64, "downsample": 64}
    for name, fan_out in fans.items():
        found = np.asarray(block[name]["kernel"])
        assert found.shape[-1] * found.shape[0] ** 2 == fan_out and list(block[name]) == ["kernel"]
        assert found.std() == pytest.approx(np.sqrt(2 / fan_out), rel=0.15)
    for name, width in (("dense_0", 16), ("dense_1", 5)):
        layer = params["head"][name]
        assert layer["kernel"].shape == (16, width)
        for leaf in layer.values():
            assert 0.5 / 4 < np.abs(leaf).max() <= 1 / 4


def torchvision(net, rng):
    """A state dict of the right names and shapes, put together from the architecture alone."""
    bottleneck = net.block == "bottleneck"
    convs = {"conv1": (net.widths[0], 3, 7)}
    read = net.widths[0]
    for stage, (n, width) in enumerate(zip(net.stage_sizes, net.widths), 1):
        for block in range(n):
            place, inside = f"layer{stage}.{block}", width * net.width_factor
            out = 4 * width if bottleneck else width
            if bottleneck:
                sizes = ((inside, read, 1), (inside, inside, 3), (out, inside, 1))
            else:
                sizes = ((width, read, 3), (width, width, 3))
            convs |= {f"{place}.conv{i}": size for i, size in enumerate(sizes, 1)}
            if read != out:
                convs[f"{place}.downsample.0"] = (out, read, 1)
            read = out
    state = {f"{k}.weight": rng.normal(size=(o, i, s, s)) for k, (o, i, s) in convs.items()}
    for name, (out, *_) in convs.items():
        norm = name.replace("downsample.0", "downsample.1").replace("conv", "bn")
        for leaf in ("weight", "bias", "running_mean", "running_var"):
            state[f"{norm}.{leaf}"] = rng.normal(size=out)
        state[f"{norm}.num_batches_tracked"] = np.zeros(())
    return state | {"fc.weight": rng.normal(size=(10, read)), "fc.bias": np.zeros(10)}


@pytest.mark.parametrize("build", [BottleneckResNet, ResNet18])
def test_torchvision_names(build):
    net = build(stage_sizes=(1, 2), widths=(2, 3), head=0, norm="batch")
    state = torchvision(net, np.random.default_rng(0))
    params, stats = from_torch(net, state), batch_stats_from_torch(net, state)
    block = params["stage_2"]["block_0"]
    np.testing.assert_array_equal(
        block["conv_2"]["kernel"][1, 2], state["layer2.0.conv2.weight"][:, :, 1, 2].T.astype("f4")
    )
    np.testing.assert_allclose(
        stats["stage_2"]["block_0"]["norm_downsample"]["var"],
        state["layer2.0.downsample.1.running_var"],
        rtol=1e-6,
    )
    shapes = jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, 16, 16, 3)))
    assert jax.tree.structure(shapes) == jax.tree.structure(
        {"params": params, "batch_stats": stats}
    )
    train = functools.partial(
        net.clone(dtype=jnp.bfloat16).apply, train=True, mutable="batch_stats"
    )
    out, changed = jax.eval_shape(train, shapes, jnp.zeros((2, 16, 16, 3)))
    assert out.dtype == jnp.float32 and out.shape[0] == 2
    assert jax.tree.structure(changed["batch_stats"]) == jax.tree.structure(stats)
    with pytest.raises(ValueError, match="state_dict has unexpected bn1.bias"):
        from_torch(net.clone(norm="instance"), state)
    with pytest.raises(ValueError, match="lacks head.0.bias, head.0.weight, head.2.bias"):
        from_torch(net.clone(head=4), state)


def test_norms():
    x = jnp.asarray(np.random.default_rng(0).normal(2, 3, (2, 3, 4, 6)), jnp.float32)
    params = {"scale": jnp.arange(1.0, 7), "bias": -jnp.arange(6.0)}
    assert not InstanceNorm().init(jax.random.key(0), x)
    normalised, grouped = jax.jit(
        lambda x: (InstanceNorm().apply({}, x), GroupNorm(2).apply({"params": params}, x))
    )(x)
    deviation = np.asarray(x) - np.asarray(x).mean((1, 2), keepdims=True)
    expected = deviation / np.sqrt((deviation**2).mean((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(normalised, expected, atol=1e-5)
    halves = np.asarray(x).reshape(2, 3, 4, 2, 3)
    deviation = halves - halves.mean((1, 2, 4), keepdims=True)
    expected = deviation / np.sqrt((deviation**2).mean((1, 2, 4), keepdims=True) + 1e-5)
    expected = expected.reshape(x.shape) * np.arange(1.0, 7) - np.arange(6.0)
    np.testing.assert_allclose(grouped, expected, atol=1e-5)


def test_refusals():
    def shapes(net, size=32):
        return jax.eval_shape(net.init, jax.random.key(0), jnp.zeros((1, size, size, 3)))

    with pytest.raises(BadInput, match="instance norm of one pixel is always zero"):
        shapes(TINY, 8)
    with pytest.raises(BadInput, match="unknown norm 'layer': choose from instance, batch, group"):
        shapes(TINY.clone(norm="layer"))
    with pytest.raises(BadInput, match="16 channels are not divisible into 32 groups"):
        shapes(TINY.clone(norm="group"))
    with pytest.raises(BadInput, match="unknown block 'dense': choose from bottleneck, basic"):
        shapes(TINY.clone(block="dense"))
    with pytest.raises(BadInput, match="3 stages, but 2 widths"):
        shapes(TINY.clone(stage_sizes=(1, 1, 1)))
    with pytest.raises(BadInput, match="width_factor applies only to bottlenecks"):
        shapes(TINY.clone(block="basic", width_factor=2))


# --- resnet ---------------------------------------------------------------------------------------
# The ResNet against the reference, its layers and its initialisation.


NET = ResNet(channels=(4, 4, 6, 8))


@pytest.fixture(scope="module")
def reference(golden):
    return loaded(golden, "resnet", NET)


@pytest.mark.parametrize("form", [pytest.param("direct", marks=pytest.mark.slow), "patches"])
def test_golden(reference, form):
    variables, x, arrays = reference
    net = NET.clone(form=form)

    @jax.jit
    def both(variables):
        train = net.apply(variables, x, train=True, mutable=["batch_stats"])
        return net.apply(variables, x), train

    out, (trained, changed) = both(variables)
    assert out.shape == (3,)
    np.testing.assert_allclose(out, arrays["out_eval"], atol=1e-5)
    np.testing.assert_allclose(trained, arrays["out_train"], atol=1e-5)
    assert jax.tree.structure(changed["batch_stats"]) == jax.tree.structure(
        variables["batch_stats"]
    )


def test_layers_and_sizes():
    net, x = ResNet(), jnp.zeros((2, 32, 32, 9))
    variables = jax.eval_shape(net.init, jax.random.key(0), x)
    taps = jax.eval_shape(lambda v: [net.apply(v, x, tap=tap) for tap in range(12)], variables)
    sizes = [32] * 3 + [16] * 2 + [8] * 2 + [4] * 2
    channels = [16] * 3 + [32] * 2 + [64] * 2 + [128] * 2
    expected = [(2, n, n, c) for n, c in zip(sizes, channels)]
    assert [tap.shape for tap in taps] == [x.shape, *expected, (2, 128), (2, 1)]
    shortcuts = {name.split("_")[0] for name in variables["params"] if "shortcut_conv" in name}
    assert shortcuts == {"layer2", "layer3", "layer4"}


def test_initialisation_of_the_small_resnet():
    @jax.jit  # returning only some layers spares compiling the rest
    def init(key):
        params = NET.init(key, jnp.zeros((1, 32, 32, 6)))["params"]
        return {name: params[name] for name in ("layer4_1_conv2", "bn1")}

    params = init(quick_key(0))
    kernel = np.asarray(params["layer4_1_conv2"]["kernel"])
    assert kernel.shape == (3, 3, 8, 8) and "bias" not in params["layer4_1_conv2"]
    bound = 1 / np.sqrt(72)
    assert 0.97 * bound < np.abs(kernel).max() <= bound
    assert (params["bn1"]["scale"] == 1).all() and (params["bn1"]["bias"] == 0).all()


def test_refusals_of_the_small_resnet(golden):
    arrays = golden("kernels/networks")
    prefix = "resnet/param/"
    state = {k.removeprefix(prefix): arrays[k] for k in arrays.files if k.startswith(prefix)}
    with pytest.raises(ValueError, match="unexpected layer1.1.bn1.bias"):
        from_torch(ResNet(channels=(4, 4, 6, 8), blocks=1), state)
    with pytest.raises(ValueError, match=r"layer2_0_bn1/bias: expected shape \(5,\), got \(4,\)"):
        from_torch(ResNet(channels=(4, 5, 6, 8)), state)
