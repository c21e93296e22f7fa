"""Fully connected networks against the reference, and their initialisation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cgjax.nets.convert import from_torch
from cgjax.nets.mlp import MLP, WEIGHTS, activation_fn
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


def test_he_normal_initialisation_swept_over_its_scale():
    """Weights N(0, scale^2 2/fan_in), biases U(+-scale/sqrt(fan_in)), the scale traced."""
    scales = jnp.array([1.0, 1e-3, 0.0])

    @jax.jit
    @jax.vmap
    def init(scale):
        net = MLP((1,), hidden=300, activation="relu", weights="he_normal", init_scale=scale)
        return net.init(jax.random.key(0), jnp.zeros((1, 18)))["params"]

    params = init(scales)
    for layer, fan_in in (("dense_0", 18), ("dense_1", 300)):
        kernel, bias = (np.asarray(params[layer][leaf]) for leaf in ("kernel", "bias"))
        assert abs(kernel[0].std() / np.sqrt(2 / fan_in) - 1) < 0.1
        assert np.abs(bias[0]).max() <= 1 / np.sqrt(fan_in)
        np.testing.assert_allclose(kernel[1], 1e-3 * kernel[0], rtol=1e-6)
        np.testing.assert_allclose(bias[1], 1e-3 * bias[0], rtol=1e-6)
        assert not kernel[2].any() and not bias[2].any()
    assert np.abs(params["dense_0"]["kernel"][0]).max() > 1  # beyond any uniform of that deviation
    assert np.abs(params["dense_0"]["bias"][0]).max() > 0.95 / np.sqrt(18)


def test_golden_training(golden):
    """200 full-batch steps of three optimisers on the reference's network, in its precision."""
    arrays = golden("kernels/networks")
    params = {
        ours: {
            "kernel": arrays[f"dense/init/{theirs}.weight"].T,
            "bias": arrays[f"dense/init/{theirs}.bias"],
        }
        for ours, theirs in (("dense_0", "features.0"), ("dense_1", "readout"))
    }
    x, y, is_train = (arrays[f"dense/{name}"] for name in ("x", "y", "is_train"))
    net = MLP((1,), hidden=16, activation="relu", dtype=jnp.float64)
    optimisers = {
        "gd": optax.sgd(0.02),
        "momentum": optax.sgd(0.01, momentum=0.9),
        "adam": optax.adam(0.003),
    }

    def loss(params):
        return jnp.mean((net.apply({"params": params}, x[is_train])[:, 0] - y[is_train]) ** 2)

    def train(tx):
        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = tx.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), value

        start = jax.tree.map(jnp.asarray, params)
        (last, _), losses = jax.lax.scan(step, (start, tx.init(start)), length=200)
        return losses, net.apply({"params": last}, x)[:, 0]

    with jax.enable_x64(True):
        found = jax.jit(lambda: {name: train(tx) for name, tx in optimisers.items()})()
        found = jax.tree.map(np.asarray, found)
    for name, (losses, predictions) in found.items():
        expected = arrays[f"dense/{name}/loss_before_each_step"]
        np.testing.assert_allclose(losses, expected, rtol=1e-6)
        expected = arrays[f"dense/{name}/pred_after_200"]
        np.testing.assert_allclose(predictions, expected, atol=1e-6)


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


@pytest.mark.parametrize(
    "name, variance, largest",
    [("he_uniform", 2 / 50, math.sqrt(6 / 50)), ("lecun_normal", 1 / 50, math.inf)],
)
def test_variance_of_initial_kernels(name, variance, largest):
    """20,000 numbers: their variance is known to 1 %."""
    values = np.asarray(WEIGHTS[name](50)(jax.random.key(0), (50, 400)))
    np.testing.assert_allclose(np.var(values), variance, rtol=0.04)
    assert np.abs(values).max() <= largest
