"""What NumPy does for JAX in tests is what JAX does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

X = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
MOVES = {
    "made from float64": lambda x: jnp.asarray(np.arange(3.0)),
    "broadcast": lambda x: jnp.broadcast_to(x[:, :1], (2, 3, 4, 5)),
    "to half": lambda x: x.astype(jnp.float16),
    "to bool": lambda x: (x * (x > 0)).astype(bool),
    "to bfloat16": lambda x: x.astype(jnp.bfloat16),
    "to whole numbers": lambda x: (1e20 * x).astype(jnp.int32),
    "reshaped and transposed": lambda x: x.T.reshape(-1),
    "every second": lambda x: x[::2, 1:3],
    "the last": lambda x: x[-1],
    "beyond the end": lambda x: jax.lax.dynamic_slice(x, (2, 3, 4), (2, 2, 2)),
    "joined": lambda x: jnp.concatenate([x, x], axis=1),
    "weakly typed": lambda x: jnp.asarray(1.0).reshape(1, 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_of_arrays_are_those_of_a_program(name):
    ours, theirs = MOVES[name](jnp.asarray(X)), jax.jit(MOVES[name])(X)
    np.testing.assert_array_equal(ours, theirs, strict=True)
    assert (ours.weak_type, ours.committed) == (theirs.weak_type, theirs.committed)


def test_arrays_stay_on_the_device_that_was_chosen():
    chosen = jax.device_put(X, jax.devices()[-1])
    assert chosen[0].reshape(-1).devices() == {jax.devices()[-1]}


def test_moves_that_cannot_be_are_errors():
    x = jnp.asarray(X)
    with pytest.raises(TypeError, match="slice_sizes must be less"):
        jax.lax.slice(x, (0, 0, 0), (9, 4, 5))
    with pytest.raises(TypeError, match="Cannot concatenate"):
        jax.lax.concatenate([x, x[0]], 0)
    with pytest.raises(TypeError, match="same dtype|requires arguments to have"):
        jax.lax.concatenate([x, x.astype(jnp.float16)], 0)


def test_a_copy_outlives_what_it_was_made_from():
    values = X.copy()
    made = jnp.asarray(values)
    values[:] = 0
    np.testing.assert_array_equal(made, X)
