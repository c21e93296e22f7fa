"""Spatial broadcast against a tiled input; the shift against the renderer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.experiments.sprites import scenes
from cgjax.nets import broadcast


def test_broadcast_is_a_pixelwise_network_on_tiled_latents():
    ranges = ((0.0, 1.0),) * 4 + ((0.1, 0.3),)
    module = broadcast.BroadcastMLP((6, 4, 3), hidden=7, n_layers=4, ranges=ranges)
    z = jax.random.uniform(jax.random.key(0), (2, 5)) * jnp.array([[1, 1, 1, 1, 0.3]])
    params = jax.jit(module.init)(jax.random.key(1), z)["params"]
    y, x = np.meshgrid(np.linspace(4, -4, 6), np.linspace(-4, 4, 4), indexing="ij")
    ends = 4 * np.concatenate([2 * z[:, :4] - 1, 10 * z[:, 4:] - 2], axis=1)
    tiled = np.broadcast_to(ends[:, None, None], (2, 6, 4, 5))
    pixels = np.broadcast_to(np.stack([x, y], -1)[None], (2, 6, 4, 2))
    out = np.concatenate([tiled, pixels], -1)
    for i in range(4):
        layer = params[f"dense_{i}"]
        out = out @ np.asarray(layer["kernel"]) + np.asarray(layer["bias"])
        out = np.where(out > 0, out, np.expm1(np.minimum(out, 0))) if i < 3 else out
    np.testing.assert_allclose(jax.jit(module.apply)({"params": params}, z), out, atol=1e-6)


def test_too_few_layers_are_refused():
    with pytest.raises(ValueError, match="n_layers must be at least 2"):
        broadcast.BroadcastMLP(n_layers=1).init(jax.random.key(0), jnp.zeros((1, 5)))


SQUARE = np.array([0.5, 0.5, 1.0, 0.2, 0.3], np.float32)


@pytest.mark.parametrize("right, up", [(9, 0), (0, 13), (-20, -11)])
def test_shift_moves_as_the_renderer_does(right, up):
    moved = SQUARE + np.array([right / 64, up / 64, 0, 0, 0], np.float32)
    start, end = scenes.render(np.stack([SQUARE, moved]))
    found = broadcast.shift(start[None], jnp.array([right / 64]), jnp.array([up / 64]))[0]
    assert not np.array_equal(start, end)
    np.testing.assert_array_equal(found, end)


def test_shift_between_pixels_and_beyond_the_border():
    image = jnp.arange(4.0).reshape(1, 1, 4, 1) * jnp.ones((1, 4, 1, 1))
    half = broadcast.shift(image, jnp.array([0.125]), jnp.zeros(1))
    np.testing.assert_allclose(half[0, 0, :, 0], [0, 0.5, 1.5, 2.5])
    far = broadcast.shift(image, jnp.array([-0.75]), jnp.zeros(1))
    np.testing.assert_array_equal(far[0, 0, :, 0], [3, 3, 3, 3])


def test_position_never_enters_the_shift_network():
    module = broadcast.ShiftMLP(hidden=8, channels=2, form="reordered")
    z = np.stack([SQUARE, SQUARE + np.array([8 / 64, -4 / 64, 0, 0, 0], np.float32)])
    shapes = jax.eval_shape(module.init, jax.random.key(0), z)["params"]
    assert shapes["canvas"]["dense_0"]["kernel"].shape == (3, 8)
    draw = np.random.default_rng(0)
    params = jax.tree.map(lambda s: draw.normal(size=s.shape).astype(np.float32), shapes)
    centred, moved = jax.jit(module.apply)({"params": params}, z)
    np.testing.assert_allclose(moved[20:40, 20:40], centred[16:36, 12:32], atol=1e-4)
    assert np.ptp(moved[20:40, 20:40]) > 0.1
