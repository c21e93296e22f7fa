"""The vision transformer against the reference, its layers, dropout and initialisation."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import loaded, quick_key

from cgjax.core.errors import BadInput
from cgjax.nets.convert import from_torch
from cgjax.nets.vit import VisionTransformer, ViT, cut

NET = ViT(dim=12, depth=2, heads=3, head_dim=4, mlp_dim=10)


@pytest.fixture(scope="module")
def reference(golden):
    return loaded(golden, "vit", NET)


def test_golden(reference):
    variables, x, arrays = reference
    out = jax.jit(NET.apply)(variables, x)
    np.testing.assert_allclose(out, arrays["out_eval"][:, 0], atol=1e-5)


def test_dropout(reference):
    variables, x, _ = reference

    @jax.jit
    def train(key):
        return NET.apply(variables, x, train=True, rngs={"dropout": key})

    first, again, other = (train(quick_key(seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_layers_and_sizes():
    net, x = ViT(), jnp.zeros((2, 32, 32, 6))
    variables = jax.eval_shape(net.init, jax.random.key(0), x)
    taps = jax.eval_shape(lambda v: [net.apply(v, x, tap=tap) for tap in range(8)], variables)
    assert [tap.shape for tap in taps] == [x.shape, *[(2, 17, 256)] * 5, (2, 256), (2, 1)]
    params = variables["params"]
    assert params["block_3_qkv"]["kernel"].shape == (256, 3 * 384)
    assert "bias" not in params["block_3_qkv"]
    assert params["block_0_out"]["kernel"].shape == (384, 256)
    assert params["embedding"]["kernel"].shape == (64 * 6, 256)


def test_initialisation():
    @jax.jit  # returning only some layers spares compiling the rest
    def init(key):
        params = NET.init(key, jnp.zeros((1, 32, 32, 6)))["params"]
        return {name: params[name] for name in ("position_embedding", "embedding", "norm")}

    params = init(quick_key(0))
    assert 0.8 < np.asarray(params["position_embedding"]).std() < 1.2
    assert np.abs(params["embedding"]["kernel"]).max() <= 1 / np.sqrt(384)
    assert (params["norm"]["scale"] == 1).all()


def test_patches_are_squares_row_by_row():
    x = jnp.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    found = cut(x, 2)
    assert found.shape == (2, 6, 12)
    np.testing.assert_array_equal(found[1, 4], x[1, 2:, 2:4].ravel())
    with pytest.raises(ValueError, match="images of 4 x 6 are not divisible into patches of 4"):
        cut(x, 4)


# --- against PyTorch ------------------------------------------------------------------------------
# The vision transformer with BERT's layers, against the reference.


@pytest.fixture(scope="module")
def layers_of_bert(golden):
    arrays = golden("subnetworks/vit_tiny")
    config = json.loads(str(arrays["config"]))
    assert config["layer_norm_eps"] == VisionTransformer.eps and config["hidden_act"] == "gelu"
    net = VisionTransformer(
        config["image_size"],
        config["patch_size"],
        config["hidden_size"],
        config["num_hidden_layers"],
        config["num_attention_heads"],
        config["intermediate_size"],
        head=0,
    )
    state = {k.removeprefix("sd/"): arrays[k] for k in arrays.files if k.startswith("sd/")}
    return net, state, jnp.moveaxis(jnp.asarray(arrays["pixel_values_nchw"]), 1, -1), arrays


def test_golden_layers_of_bert(layers_of_bert):
    net, state, x, arrays = layers_of_bert
    variables = {"params": from_torch(net, state)}
    np.testing.assert_allclose(jax.jit(net.apply)(variables, x), arrays["cls"], atol=1e-5)


def test_names_with_a_prefix(layers_of_bert):
    net, state, *_ = layers_of_bert
    longer = {f"vit.{k}": v for k, v in state.items()} | {"classifier.weight": np.ones((2, 24))}
    jax.tree.map(np.testing.assert_array_equal, from_torch(net, longer), from_torch(net, state))


def test_sizes():
    net, x = VisionTransformer(), jnp.zeros((2, 128, 128, 3))
    params = jax.eval_shape(net.init, jax.random.key(0), x)["params"]
    assert jax.eval_shape(net.apply, {"params": params}, x).shape == (2, 128)
    assert params["position_embedding"].shape == (1, 65, 768)
    assert params["layer_11"]["ffn_in"]["kernel"].shape == (768, 3072)
    assert params["head"]["dense_0"]["kernel"].shape == (768, 768)
    with pytest.raises(BadInput, match="images are 64 x 64, but the network takes 128 x 128"):
        jax.eval_shape(net.init, jax.random.key(0), x[:, :64, :64])
