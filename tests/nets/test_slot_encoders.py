"""Slot attention against plain numpy; encoders' shapes; a window at its place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.nets import slots
from cgjax.nets.broadcast import WindowMLP


def normalised(x, layer):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * layer["scale"] + layer["bias"]


def dense(x, layer):
    return x @ layer["kernel"] + layer.get("bias", 0.0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_slot_attention(params, tokens, start, n_iterations):
    """Algorithm 1 of Locatello et al. 2020, one image and one slot at a time."""
    updated = []
    for image, image_slots in zip(tokens, start):
        image = normalised(image, params["norm_tokens"])
        keys, values = dense(image, params["key"]), dense(image, params["value"])
        state = image_slots
        for _ in range(n_iterations):
            queries = dense(normalised(state, params["norm_slots"]), params["query"])
            scores = np.array([[q @ k for k in keys] for q in queries]) / len(queries[0]) ** 0.5
            weights = np.exp(scores) / np.exp(scores).sum(0)  # slots compete for every token
            weights = weights / weights.sum(1, keepdims=True)
            rows = []
            for slot, weight in zip(state, weights):
                gates_i = np.split(dense(weight @ values, params["gru"]["inputs"]), 3)
                gates_s = np.split(dense(slot, params["gru"]["state"]), 3)
                reset, update = (sigmoid(gates_i[i] + gates_s[i]) for i in (0, 1))
                new = np.tanh(gates_i[2] + reset * gates_s[2])
                slot = (1 - update) * new + update * slot
                hidden = dense(normalised(slot, params["norm_mlp"]), params["mlp"]["dense_0"])
                rows.append(slot + dense(np.maximum(hidden, 0), params["mlp"]["dense_1"]))
            state = np.array(rows)
        updated.append(state)
    return np.array(updated)


def test_slot_attention_against_numpy():
    tokens, start = (
        jax.random.normal(jax.random.key(seed), (2, n, 6)) for seed, n in ((0, 5), (1, 3))
    )
    module = slots.SlotAttention(n_iterations=2)
    params = jax.jit(module.init)(jax.random.key(2), tokens, start)["params"]
    ours = jax.jit(module.apply)({"params": params}, tokens, start)
    plain = jax.tree.map(np.float64, params)
    theirs = numpy_slot_attention(plain, np.float64(tokens), np.float64(start), 2)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("name", slots.ENCODERS)
def test_encoders_give_ordered_slots(name):
    encoder = slots.ENCODERS[name](n_slots=3, size=5, channels=4, hidden=8)
    images = jax.random.uniform(jax.random.key(0), (2, 16, 16, 3))
    params = jax.jit(encoder.init)(jax.random.key(1), images)
    codes = np.asarray(jax.jit(encoder.apply)(params, images))
    assert codes.shape == (2, 3, 5)
    assert np.abs(codes[0] - codes[1]).min() > 0 and np.abs(codes[:, 0] - codes[:, 1]).min() > 0


def test_a_window_is_drawn_at_its_place():
    """x to the right and y up, in quarters of the side; half a pixel mixes two pixels."""
    module = WindowMLP((8, 8, 1), window=2, hidden=4)
    z = np.zeros((3, 4), np.float32)
    z[1:, :2] = [[4 * 2 / 8, 4 * 1 / 8], [4 * 0.5 / 8, 0]]
    params = jax.jit(module.init)(jax.random.key(0), z)["params"]
    params = params | {"background": jnp.array([-3.0])}
    middle, moved, half = np.asarray(jax.jit(module.apply)({"params": params}, z))[..., 0]
    window = middle[3:5, 3:5]
    assert np.ptp(window) > 0 and np.sum(middle != -3) == 4
    np.testing.assert_allclose(moved[2:4, 5:7], window, atol=1e-6)
    assert np.sum(np.abs(moved + 3) > 1e-5) == 4
    np.testing.assert_allclose(half[3:5, 4], window.mean(1), atol=1e-6)
