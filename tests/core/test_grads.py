"""Other gradients against value_and_grad."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from torch_nets import quick_key

from cgjax.core import optim
from cgjax.core.errors import BadInput

PARAMS = {"w": jnp.array([[1.0, -2.0], [0.5, 3.0]]), "b": jnp.array([0.3, -1.0])}
CURVATURE = jnp.array([1.0, 2.0, 0.5, 3.0, 1.5, 1.0])


def loss(params, extra, batch, key, step, replica):
    """A quadratic, with auxiliary values, in the form that the training loop calls."""
    vector = jnp.concatenate([params["b"], params["w"].ravel()])
    value = jnp.sum(CURVATURE * (vector - batch) ** 2)
    return value, (extra, {"length": jnp.sum(vector**2)})


ARGUMENTS = (PARAMS, {}, jnp.full(6, 0.7), quick_key(0), 0, {})


def of(way):
    """For two replicas at once, as the training loop has it."""
    replicas = jax.tree.map(lambda leaf: jnp.stack([leaf, 1 - leaf]), PARAMS)
    each = jax.vmap(way(loss, has_aux=True), in_axes=(0, *5 * [None]))
    return jax.jit(each)(replicas, *ARGUMENTS[1:])


@pytest.mark.parametrize(
    "way, atol", [(optim.forward_mode, 1e-6), (optim.finite_differences(0.05), 1e-3)]
)
def test_a_quadratic(way, atol):
    found, expected = of(way), of(jax.value_and_grad)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found[0], expected[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=atol), found[1], expected[1])


def test_without_auxiliary_values():
    value, gradient = optim.forward_mode(jnp.sum)(jnp.arange(3.0))
    assert value == 3
    np.testing.assert_array_equal(gradient, np.ones(3))


def test_an_evolution_strategy_estimates_the_gradient():
    (value, _), found = of(optim.evolution(0.1, 1000))
    (expected_value, _), expected = of(jax.value_and_grad)
    np.testing.assert_array_equal(value, expected_value)
    found, expected = (ravel_pytree(each)[0] for each in (found, expected))
    cosine = found @ expected / (jnp.linalg.norm(found) * jnp.linalg.norm(expected))
    assert cosine > 0.98
    assert jnp.linalg.norm(found) == pytest.approx(float(jnp.linalg.norm(expected)), rel=0.15)


def test_nonsense_is_refused():
    for words, call in {
        "step": lambda: optim.finite_differences(0.0),
        "sigma": lambda: optim.evolution(-1.0),
    }.items():
        with pytest.raises(BadInput, match=words):
            call()
