"""The ResNet against the reference, its layers and its initialisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import loaded, quick_key

from cgjax.nets.convert import from_torch
from cgjax.nets.resnet import ResNet

NET = ResNet(channels=(4, 4, 6, 8))


@pytest.fixture(scope="module")
def reference(golden):
    return loaded(golden, "resnet", NET)


@pytest.mark.parametrize("form", ["direct", "patches"])
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


def test_initialisation():
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


def test_refusals(golden):
    arrays = golden("kernels/networks")
    prefix = "resnet/param/"
    state = {k.removeprefix(prefix): arrays[k] for k in arrays.files if k.startswith(prefix)}
    with pytest.raises(ValueError, match="unexpected layer1.1.bn1.bias"):
        from_torch(ResNet(channels=(4, 4, 6, 8), blocks=1), state)
    with pytest.raises(ValueError, match=r"layer2_0_bn1/bias: expected shape \(5,\), got \(4,\)"):
        from_torch(ResNet(channels=(4, 5, 6, 8)), state)
