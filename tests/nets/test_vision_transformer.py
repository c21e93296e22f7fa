"""The vision transformer with BERT's layers, against the reference."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.nets.convert import from_torch
from cgjax.nets.vit import VisionTransformer


@pytest.fixture(scope="module")
def reference(golden):
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


def test_golden(reference):
    net, state, x, arrays = reference
    variables = {"params": from_torch(net, state)}

    np.testing.assert_allclose(jax.jit(net.apply)(variables, x), arrays["cls"], atol=1e-5)


def test_names_with_a_prefix(reference):
    net, state, *_ = reference
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
