"""Pretrained backbones: against PyTorch where weights and PyTorch are installed, and by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.data import pretrained
from cgjax.nets.convert import backbones, files
from cgjax.nets.efficientnet import STAGES, Depthwise

SIDE = 96
# ImageNet's numbers of classes.
PALACE, BELL_COTE, MONASTERY, DAISY = 698, 442, 663, 985


def path_of(name):
    try:
        return pretrained.files(name)[0]
    except BadInput as error:
        pytest.skip(str(error))


def images(n=2, side=SIDE):
    rng = np.random.default_rng(0)
    coarse = rng.random((n, 6, 6, 3), np.float32)  # large patches, as photographs have
    return 0.7 * np.asarray(jax.image.resize(coarse, (n, side, side, 3), "cubic")).clip(0, 1)


def agree(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        b = b.detach().numpy()
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max(), rtol=0)


@pytest.mark.parametrize("size, stride, side", [(3, 1, 6), (3, 2, 7), (5, 2, 6)])
def test_depthwise(size, stride, side):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, side, side, 4)), jnp.float32)
    layer = Depthwise(size, stride)
    kernel = jnp.asarray(rng.normal(size=(size, size, 1, 4)), jnp.float32)
    variables = {"params": {"kernel": kernel}}
    wanted = jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=4,
    )
    np.testing.assert_allclose(jax.jit(layer.apply)(variables, x), wanted, atol=1e-5)


# --- the networks in PyTorch ----------------------------------------------------------------------


def torch_efficientnet(torch, state, x):
    """Class scores and outputs of the stages and the head; x [B, 3, H, W] as the network reads."""
    f = torch.nn.functional

    def conv(x, name, stride=1, groups=1):
        weight = state[f"{name}.weight"]
        widths = []
        for n, size in zip(x.shape[:1:-1], weight.shape[:1:-1]):
            extra = max((-(-n // stride) - 1) * stride + size - n, 0)
            widths += [extra // 2, extra - extra // 2]
        return f.conv2d(f.pad(x, widths), weight, stride=stride, groups=groups)

    def norm(x, name):
        parts = [state[f"{name}.{leaf}"] for leaf in ("running_mean", "running_var")]
        parts += [state[f"{name}.{leaf}"] for leaf in ("weight", "bias")]
        return f.batch_norm(x, *parts, eps=1e-3)

    x = f.relu6(norm(conv(x, "_conv_stem", 2), "_bn0"))
    outputs, number = [], 0
    for n_blocks, _, first_stride, expansion, _ in STAGES:
        for i in range(n_blocks):
            block, stride, y = f"_blocks.{number}", 1 if i else first_stride, x
            if expansion > 1:
                y = f.relu6(norm(conv(y, f"{block}._expand_conv"), f"{block}._bn0"))
            y = conv(y, f"{block}._depthwise_conv", stride, y.shape[1])
            y = f.relu6(norm(y, f"{block}._bn1"))
            y = norm(conv(y, f"{block}._project_conv"), f"{block}._bn2")
            x = x + y if i else y  # stage 1 has one block, and no two channels alike
            number += 1
        outputs.append(x)
    outputs.append(f.relu6(norm(conv(x, "_conv_head"), "_bn1")))
    scores = f.linear(outputs[-1].mean((2, 3)), state["_fc.weight"], state["_fc.bias"])
    return scores, [output.mean((2, 3)) for output in outputs]


def torch_resnet50(torch, arrays, x):
    """Class scores and outputs of stem and stages, with Keras's names and biases."""
    f = torch.nn.functional

    def conv(x, name, stride=1, padding=0):
        kernel = torch.tensor(arrays[f"{name}/kernel"]).permute(3, 2, 0, 1)
        return f.conv2d(x, kernel, torch.tensor(arrays[f"{name}/bias"]), stride, padding)

    def norm(x, name):
        leaves = ("moving_mean", "moving_variance", "gamma", "beta")
        return f.batch_norm(
            x, *(torch.tensor(arrays[f"{name}/{leaf}"]) for leaf in leaves), eps=1e-3
        )

    x = torch.relu(norm(conv(x, "conv1", 2, 3), "bn_conv1"))
    x = f.max_pool2d(x, 3, 2, 1)
    outputs = [x]
    for stage, n_blocks in zip("2345", (3, 4, 6, 3)):
        for block in "abcdef"[:n_blocks]:
            name = f"{stage}{block}_branch"
            stride = 2 if block == "a" and stage != "2" else 1
            y = torch.relu(norm(conv(x, f"res{name}2a", stride), f"bn{name}2a"))
            y = torch.relu(norm(conv(y, f"res{name}2b", 1, 1), f"bn{name}2b"))
            y = norm(conv(y, f"res{name}2c"), f"bn{name}2c")
            if block == "a":
                x = norm(conv(x, f"res{name}1", stride), f"bn{name}1")
            x = torch.relu(x + y)
        outputs.append(x)
    averages = [output.mean((2, 3)) for output in outputs]
    kernel, bias = (torch.tensor(arrays[f"fc1000/{leaf}"]) for leaf in ("kernel", "bias"))
    return averages[-1] @ kernel + bias, averages


def torch_vgg16(torch, arrays, x):
    f, outputs, number = torch.nn.functional, [], 0
    for n_convs in (2, 2, 3, 3, 3):
        x = f.max_pool2d(x, 2) if outputs else x
        for _ in range(n_convs):
            name = f"VGG16_0/Conv_{number}"
            kernel = torch.tensor(arrays[f"{name}/kernel"]).permute(3, 2, 0, 1)
            x = torch.relu(f.conv2d(x, kernel, torch.tensor(arrays[f"{name}/bias"]), padding=1))
            number += 1
        outputs.append(x)
    return [output.mean((2, 3)) for output in outputs]


def outputs(net, x):
    """Features of all layers, then the scores if the network has them; in one program."""

    def both(variables, x):
        scores = [net.scores(variables, x)] if net.scores else []
        return [*net.features(variables, x), *scores]

    return jax.jit(both)(net.variables, jnp.asarray(x))


def channels_first(torch, x):
    return torch.tensor(np.moveaxis(np.asarray(x, np.float32), -1, 1).copy())


@pytest.mark.slow
def test_efficientnet_in_torch():
    torch, path = pytest.importorskip("torch"), path_of("efficientnet_lite0")
    net, x = backbones.efficientnet_lite0(path), images()
    state = torch.load(path, weights_only=True)
    arrays = files.read(path)
    assert set(arrays) == set(state)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, state[name].numpy())
    scores, stages = torch_efficientnet(torch, state, channels_first(torch, (255 * x - 127) / 128))
    agree(outputs(net, x), [*stages, scores])


@pytest.mark.slow
def test_resnet50_in_torch():
    torch, path = pytest.importorskip("torch"), path_of("resnet50")
    net, x = backbones.resnet50(path), images()
    read = 255 * x[..., ::-1] - np.array(backbones.BLUE_GREEN_RED, np.float32)
    scores, stages = torch_resnet50(torch, files.read_tfjs(path), channels_first(torch, read))
    agree(outputs(net, x), [*stages, scores])


@pytest.mark.slow
def test_vgg16_in_torch():
    torch, path = pytest.importorskip("torch"), path_of("vgg16")
    net, x = backbones.vgg16(path), images(1)
    read = (x - np.float32(backbones.MEAN)) / np.float32(backbones.DEVIATION)
    stages = torch_vgg16(torch, files.read(path), channels_first(torch, read))
    agree(outputs(net, x), stages)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["efficientnet_lite0", "resnet50"])
def test_photographs(name):
    """The two photographs of scikit-learn: a palace in China, and a flower like a daisy."""
    datasets, net = pytest.importorskip("sklearn.datasets"), getattr(backbones, name)(path_of(name))

    def square(photograph):
        side = min(photograph.shape[:2])
        top, left = ((n - side) // 2 for n in photograph.shape[:2])
        cut = photograph[top : top + side, left : left + side] / np.float32(255)
        return jax.image.resize(cut, (224, 224, 3), "cubic").clip(0, 1)

    x = jnp.stack([square(datasets.load_sample_image(f"{n}.jpg")) for n in ("china", "flower")])
    china, flower = np.argsort(-np.asarray(jax.jit(net.scores)(net.variables, x)))
    assert china[0] == PALACE and {BELL_COTE, MONASTERY} & set(china[:3].tolist())
    assert DAISY in flower[:2]


@pytest.mark.parametrize("name", ["efficientnet_lite0", "resnet50", "vgg16"])
def test_files_of_other_networks(name, tmp_path):
    path = tmp_path / "weights"
    content = b"\x80\x02}." if name != "resnet50" else b'{"weightsManifest": []}'  # no arrays
    path.write_bytes(content)
    with pytest.raises(BadInput, match="does not hold .*lacks"):
        getattr(backbones, name)(path)


def test_vgg16_of_other_shapes_is_refused(tmp_path, monkeypatch):
    sizes, arrays = (3, 64, 64, 128, 128, *[256] * 3, *[512] * 6), {}
    for i, (n_in, n_out) in enumerate(zip(sizes, sizes[1:])):
        arrays[f"VGG16_0/Conv_{i}/kernel"] = np.broadcast_to(np.float32(0), (3, 3, n_in, n_out))
        arrays[f"VGG16_0/Conv_{i}/bias"] = np.broadcast_to(np.float32(0), (n_out,))
    bias = arrays["VGG16_0/Conv_12/bias"]
    monkeypatch.setattr(files, "read", lambda path: arrays)
    for wrong in (bias[:1], bias[:, None]):  # one number for all channels would broadcast
        arrays["VGG16_0/Conv_12/bias"] = wrong
        with pytest.raises(BadInput, match="does not hold VGG16: its arrays have other shapes"):
            backbones.vgg16(tmp_path)
