"""Tokens for pixels: the position code, the shared MLP and the transformer, written out."""

import jax
import numpy as np
import pytest

from cgjax.nets.pixel_tokens import PixelMLP, PixelTransformer, PReLU, position_code

Z = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)


def drawn(module):
    """Parameters, biases and slopes included, that are all of order one: nested dicts of arrays."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), Z)["params"]
    leaves, structure = jax.tree.flatten(shapes)
    rng = np.random.default_rng(1)
    return structure.unflatten([rng.normal(size=a.shape).astype(np.float32) / 2 for a in leaves])


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


def test_position_code():
    code = position_code(5, 8)
    for row in range(5):
        for column in range(5):
            for k, w in enumerate((1.0, 10000.0 ** (-4 / 8))):
                expected = [
                    np.sin(row * w),
                    np.cos(row * w),
                    np.sin(column * w),
                    np.cos(column * w),
                ]
                np.testing.assert_allclose(
                    code[5 * row + column, 4 * k : 4 * k + 4], expected, atol=1e-6
                )
    with pytest.raises(ValueError, match="multiple of 4"):
        position_code(5, 6)


def test_pixel_mlp_written_out():
    module = PixelMLP(n=3, features=8, depth=2)
    params = drawn(module)
    image, activations = jax.jit(module.apply)({"params": params}, Z)
    x = dense(params["context"], Z)[:, None] + position_code(3, 8)
    for i in range(2):
        x = dense(params[f"dense_{i}"], x)
        x = np.where(x > 0, x, params[f"prelu_{i}"]["slope"] * x)
        np.testing.assert_allclose(activations[i], x, atol=1e-5)
    np.testing.assert_allclose(image, dense(params["out"], x).reshape(2, 3, 3), atol=1e-5)
    assert PReLU().init(jax.random.key(0), Z)["params"]["slope"] == 0.25


def normalised(params, x):
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    return scaled * params["scale"] + params["bias"]


def attended(params, x, heads):
    """Head by head, token by token."""
    features = x.shape[-1]
    q, k, v = np.split(dense(params["layer_0_qkv"], x), 3, axis=-1)
    mixed = np.zeros_like(x)
    for h in np.split(np.arange(features), heads):
        for b in range(len(x)):
            scores = q[b][:, h] @ k[b][:, h].T / np.sqrt(len(h))
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed[b][:, h] = weights / weights.sum(axis=1, keepdims=True) @ v[b][:, h]
    return dense(params["layer_0_out"], mixed)


def test_transformer_written_out():
    module = PixelTransformer(n=3, features=8, depth=1, heads=2, feed_forward=12)
    params = drawn(module)
    image, activations = jax.jit(module.apply)({"params": params}, Z)
    x = dense(params["context"], Z)[:, None] + position_code(3, 8)
    x = normalised(params["layer_0_norm_1"], x + attended(params, x, 2))
    inner = np.maximum(0, dense(params["layer_0_dense_1"], x))
    x = normalised(params["layer_0_norm_2"], x + dense(params["layer_0_dense_2"], inner))
    np.testing.assert_allclose(activations[0], x, atol=2e-5)
    np.testing.assert_allclose(image, dense(params["out"], x).reshape(2, 3, 3), atol=2e-5)


def test_dropout_is_for_training():
    module = PixelTransformer(n=2, features=4, depth=1, heads=1, feed_forward=6, dropout=0.5)
    params = {"params": drawn(module)}

    def images(key):
        trained = module.apply(params, Z, train=True, rngs={"dropout": key})[0]
        return trained, module.apply(params, Z)[0]

    images = jax.jit(images, compiler_options={"xla_backend_optimization_level": 0})
    (one, still), (other, again) = (images(jax.random.key(seed)) for seed in range(2))
    np.testing.assert_array_equal(still, again)
    assert min(np.abs(one - other).max(), np.abs(one - still).max()) > 0.01
    with pytest.raises(ValueError, match="do not divide"):
        drawn(PixelTransformer(n=2, features=4, heads=3))
