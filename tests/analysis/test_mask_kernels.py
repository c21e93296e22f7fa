"""Tangent kernels restricted to masks, against the library's own kernel."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import masks, ntk


@pytest.fixture(scope="module")
def network():
    net = nn.Sequential([nn.Dense(5), nn.tanh, nn.Dense(3)])
    x = jax.random.normal(jax.random.key(0), (4, 6))
    params = net.init(jax.random.key(1), x)["params"]
    return lambda params, x: net.apply({"params": params}, x), params, x


def test_a_mask_of_everything_has_the_whole_kernel(network):
    f, params, x = network
    ones = jax.tree.map(jnp.ones_like, params)
    (found,) = masks.restricted(f, params, [ones], x)
    whole = ntk.empirical(f, params, x, form="trace")
    np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_a_mask_and_its_complement_share_the_kernel_of_their_leaves(network):
    """And the biases, which are not masked, have no part in it."""
    f, params, x = network
    s = masks.init(params, "kernel", 0.0)
    s = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(2), leaf.shape), s)
    mask = masks.hard(s)
    several = [mask, masks.invert(mask), jax.tree.map(jnp.ones_like, mask)]
    sub, rest, both = masks.restricted(f, params, several, x)
    np.testing.assert_allclose(sub + rest, both, rtol=1e-5)
    assert np.abs(sub - rest).max() > 0.1
    fixed = {name: {"bias": layer["bias"]} for name, layer in params.items()}

    def of_kernels(kernels, x):
        return f({name: kernels[name] | fixed[name] for name in fixed}, x)

    kernels = {name: {"kernel": layer["kernel"]} for name, layer in params.items()}
    whole = ntk.empirical(of_kernels, kernels, x, form="trace")
    np.testing.assert_allclose(both, whole, rtol=1e-5)


def test_units_inputs_in_a_tree_and_compilation(network):
    """A mask of units counts for all of their weights; a soft one by its share."""
    f, params, x = network
    units = masks.init(params, "kernel", 0.5, per="unit")
    units["layers_0"]["kernel"] = units["layers_0"]["kernel"].at[0, :2].set(0.0)
    wide = masks.expand(units, params)

    def in_a_tree(params, x):
        return f(params, x["input"])

    compiled = jax.jit(lambda params, x: masks.restricted(in_a_tree, params, [units, wide], x))
    narrow, expanded = compiled(params, {"input": x})
    np.testing.assert_allclose(narrow, expanded, rtol=1e-6)
