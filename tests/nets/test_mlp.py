"""Fully connected networks against the reference, and their initialisation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets.convert import from_torch
from cgjax.nets.mlp import MLP, activation_fn
from cgjax.nets.upsample import elu

NETS = {
    "mlp_vec": MLP((16,)),
    "mlp_deep_img": MLP((8, 8, 3), hidden=32, n_layers=4, activation="elu"),
}


@pytest.mark.parametrize("name", NETS)
def test_golden(golden, name):
    arrays = golden("sprites/models")
    own = {k.split("/")[1]: arrays[k] for k in arrays.files if k.startswith(f"{name}/")}
    z, out, n = (own.pop(f"__{k}") for k in ("in", "out", "nparam"))
    params = from_torch(NETS[name], own)
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == n
    ours = NETS[name].apply({"params": params}, z)
    assert ours.shape == out.shape
    np.testing.assert_allclose(ours, out, rtol=0, atol=1e-5)


def test_initialisation_fills_its_bounds():
    params = MLP((100,), hidden=64).init(jax.random.key(0), jnp.zeros((1, 25)))["params"]
    for layer, bound in (("dense_0", 0.2), ("dense_1", 0.125)):
        for leaf in params[layer].values():
            assert np.abs(leaf).max() <= bound
        kernel = np.asarray(params[layer]["kernel"])
        assert kernel.max() > 0.95 * bound and kernel.min() < -0.95 * bound
        assert abs(kernel.std() - bound / np.sqrt(3)) < 0.05 * bound
        assert np.asarray(params[layer]["bias"]).std() > 0.4 * bound


def test_elu_and_its_derivatives():
    x = jnp.array([-80.0, -3.0, -1e-4, 0.0, 1e-4, 2.0, 90.0])
    np.testing.assert_allclose(elu(x), jax.nn.elu(x), rtol=1e-6, atol=1e-7)
    slope = jax.vmap(jax.grad(lambda t: elu(t)))(x)
    np.testing.assert_allclose(slope, np.exp(np.minimum(x, 0)), rtol=1e-6, atol=1e-7)
    _, forward = jax.jvp(elu, (x,), (jnp.ones_like(x),))
    np.testing.assert_array_equal(forward, slope)
    assert elu(x, jnp.bfloat16).dtype == jnp.bfloat16


def test_unknown_activation():
    with pytest.raises(ValueError, match="unknown activation 'relu6'; choose from elu"):
        activation_fn("relu6")
