"""The vision transformer against the reference, its layers, dropout and initialisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from torch_nets import loaded, quick_key

from cgjax.nets.vit import ViT, cut

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
