"""Contrasts and Hessian terms: stored values, naive pair loops, closed forms, bad shapes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.analysis import contrasts

N_PARTS = 4


def quick(function):
    """One program, compiled in half the time: it runs once."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def derivatives(f, x):
    """Jacobians and Hessians."""
    return quick(lambda x: (contrasts.jacobians(f, x), contrasts.hessians(f, x)))(x)


@pytest.fixture(scope="module")
def stored(golden):
    """The stored arrays, and our Jacobians and Hessians of the same network."""
    arrays = golden("sprites/regularisers")
    w1, b1, w2, b2 = (jnp.asarray(arrays[name]) for name in ("W1", "b1", "W2", "b2"))

    def f(x):
        return jnp.tanh(w2 @ jnp.tanh(w1 @ x + b1) + b2)

    return arrays, *derivatives(f, jnp.asarray(arrays["x"]))


def test_stored_jacobians(stored):
    arrays, jacobians, _ = stored
    np.testing.assert_allclose(jacobians, arrays["jac"], rtol=1e-4, atol=1e-7)


def test_stored_values(stored):
    arrays, jacobians, hessians = stored

    @quick
    def measured(jacobians, hessians):
        return {
            "comp_contrast_inputs": contrasts.compositional_contrast(jacobians),
            "comp_contrast_blocks": contrasts.block_contrast(jacobians, N_PARTS),
            "hess_l0": contrasts.hessian_l0(hessians),
            "hess_l1": contrasts.hessian_l1(hessians),
            "hess_offblock_sum": contrasts.hessian_offblock(hessians, N_PARTS),
        }

    found = measured(jacobians, hessians)
    for name, value in found.items():
        np.testing.assert_allclose(value, arrays[name], rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_closed_forms_equal_the_pair_loops(signed, lead):
    jacobians = np.random.default_rng(0).normal(size=(*lead, 6, 5)).astype(np.float32)
    values = (jacobians if signed else np.abs(jacobians)).reshape(-1, 6, 5).astype(np.float64)
    inputs = sum(values[:, :, i] * values[:, :, j] for i, j in itertools.combinations(range(5), 2))
    expected = inputs.sum(1).mean()
    compositional = quick(lambda j: contrasts.compositional_contrast(j, signed))
    found = compositional(jacobians)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    apart = [(a, b) for a, b in itertools.combinations(range(6), 2) if a // 2 != b // 2]
    expected = sum(values[:, a] * values[:, b] for a, b in apart).sum(1).mean()
    found = quick(lambda j: contrasts.block_contrast(j, 3, signed))(jacobians)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_offblock_sum_equals_the_loop():
    hessians = np.random.default_rng(1).normal(size=(2, 4, 6, 6)).astype(np.float32)
    outside = [
        hessians[n, o, i, j]
        for n, o, i, j in np.ndindex(hessians.shape)
        if not (i // 3 == j // 3 == o // 2)
    ]
    found = contrasts.hessian_offblock(jnp.asarray(hessians), 2)
    np.testing.assert_allclose(found, np.sum(outside), rtol=1e-4)
    found = contrasts.hessian_offblock(jnp.asarray(hessians), 2, signed=False)
    np.testing.assert_allclose(found, np.sum(np.abs(outside)), rtol=1e-5)


def part_by_part(x):
    """Two parts of three inputs and two outputs each, curved, that never meet."""
    a, b = x[:3], x[3:]
    return jnp.stack([a[0] * a[1], jnp.sin(a[2]), b[0] ** 3, b[1] * b[2]])


def test_a_function_that_acts_part_by_part_has_no_contrast():
    x = jax.random.normal(jax.random.key(0), (5, 6))
    jacobians, hessians = derivatives(part_by_part, x)
    assert contrasts.block_contrast(jacobians, 2) == 0
    assert contrasts.hessian_offblock(hessians, 2, signed=False) == 0
    assert contrasts.hessian_l0(hessians) == 6  # x0x1 and x4x5 twice each, sin, cube

    def mixed(x):
        return part_by_part(x).at[0].add(x[0] * x[5])

    jacobians, hessians = derivatives(mixed, x)
    expected = jnp.mean(jnp.abs(x[:, 0] * x[:, 4]))  # |d out_0 / d x_5| |d out_3 / d x_5|
    np.testing.assert_allclose(contrasts.block_contrast(jacobians, 2), expected, rtol=1e-5)
    assert contrasts.hessian_offblock(hessians, 2) == 2 * len(x)


def test_leaky_relu_networks_have_no_hessian():
    w1, w2 = (jax.random.normal(jax.random.key(i), (6, 6)) for i in (0, 1))

    def network(activation):
        return lambda x: activation(w2 @ activation(w1 @ x))

    x = jax.random.normal(jax.random.key(2), (4, 6))
    _, leaky = derivatives(network(lambda y: jax.nn.leaky_relu(y, 0.2)), x)
    assert contrasts.hessian_l0(leaky) == 0
    _, smooth = derivatives(network(jnp.tanh), x)
    assert contrasts.hessian_l0(smooth) == 6**3


def test_more_outputs_than_inputs():
    matrix = jax.random.normal(jax.random.key(0), (7, 2))
    jacobians, hessians = derivatives(lambda x: matrix @ x, jnp.ones((3, 2)))
    np.testing.assert_allclose(jacobians, np.broadcast_to(matrix, (3, 7, 2)), rtol=1e-6)
    assert hessians.shape == (3, 7, 2, 2)


def test_contrast_trains():
    """The gradient is that of the naive sum: d/dJ sum |J_i||J_j| = sign(J_i) (sum - |J_i|)."""
    jacobians = jnp.array([[1.0, -2.0, 0.0, 3.0]])
    gradient = jax.grad(contrasts.compositional_contrast)(jacobians)
    np.testing.assert_allclose(gradient, [[5.0, -4.0, 0.0, 3.0]], rtol=1e-6)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: contrasts.jacobians(jnp.sin, jnp.zeros(3)), r"\[n, inputs\], got shape \(3,\)"),
        (lambda: contrasts.jacobians(jnp.sum, jnp.zeros((2, 3))), "to a vector"),
        (lambda: contrasts.hessians(lambda x: (x, x), jnp.zeros((2, 3))), "to a vector"),
        (lambda: contrasts.compositional_contrast(jnp.zeros(3)), "outputs, inputs"),
        (lambda: contrasts.block_contrast(jnp.zeros((2, 6, 3)), 4), "6 outputs do not divide"),
        (lambda: contrasts.block_contrast(jnp.zeros((2, 6, 3)), 0), "n_parts must be 1 or more"),
        (lambda: contrasts.hessian_l1(jnp.zeros((2, 3, 4))), "inputs, inputs"),
        (lambda: contrasts.hessian_offblock(jnp.zeros((4, 6, 6)), 4), "6 inputs do not divide"),
    ],
)
def test_bad_shapes_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
