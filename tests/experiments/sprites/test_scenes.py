"""The rasteriser against stored renders, a float64 transcription of its rule, and Pillow."""

import colorsys
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cgjax.data import supports
from cgjax.experiments.sprites import scenes
from cgjax.experiments.sprites.compositions import COMPOSITIONS


def random_latents(n, seed=0):
    """Scaled latents [n, 5] in plain NumPy float32."""
    raw = np.random.default_rng(seed).uniform(size=(n, 5)).astype(np.float32)
    scaled = raw * np.float32([0.8, 0.6, 2, 0.13, 0.9]) + np.float32([0.1, 0.2, 0, 0.09, 0.05])
    scaled[:, 2] = np.rint(scaled[:, 2])
    return raw, scaled


def corners(sprite, size):
    """Float64 corners of one sprite in pixels, before truncation."""
    n, first = ((3, np.pi / 2), (4, np.pi / 4), (30, 0.0))[int(sprite[2])]
    angle = np.arange(n) * (2 * np.pi / n) + first
    unit = np.stack([np.cos(angle), np.sin(angle)], -1)
    unit /= np.sqrt(n * np.sin(np.pi / n) * np.cos(np.pi / n))
    return size * (np.float64(sprite[3]) * unit + np.float64(sprite[:2]))


def reference_spans(sprite, size):
    """The rule row by row and edge by edge, in integers."""
    points = np.trunc(corners(sprite, size)).astype(int)
    y = np.arange(size)
    left, right = np.full(size, 10**9), np.full(size, -(10**9))
    for (x0, y0), (x1, y1) in zip(points, np.roll(points, -1, axis=0)):
        if y0 == y1:
            row = y == y0
            low, high = np.full(size, min(x0, x1)), np.full(size, max(x0, x1))
        else:
            row = (y >= min(y0, y1)) & (y <= max(y0, y1))
            den = abs(y1 - y0)
            num = (y - y0) * (x1 - x0) * np.sign(y1 - y0) + x0 * den
            low = np.sign(num) * ((2 * abs(num) + den) // (2 * den))  # half away from zero
            high = -np.sign(num) * ((den - 2 * abs(num)) // (2 * den))  # half towards zero
        left = np.where(row, np.minimum(left, low), left)
        right = np.where(row, np.maximum(right, high), right)
    first, last = np.maximum(left, 0), np.minimum(right, size - 1)
    empty = (left > right) | (first > last)
    return np.stack([np.where(empty, 1, first), np.where(empty, 0, last)], -1)[::-1]


def assert_spans_equal(scaled, size):
    expected = [reference_spans(sprite, size) for sprite in scaled]
    np.testing.assert_array_equal(scenes.spans(scaled, size), expected)


@pytest.fixture(scope="module")
def renders(golden):
    return golden("sprites/renders")


@pytest.fixture(scope="module")
def composed(golden):
    return golden("sprites/compositions_scenes")


# --- latents --------------------------------------------------------------------------------------


def test_scaling_is_bit_equal_to_float32_arithmetic(renders, composed):
    for arrays in (renders, composed):
        np.testing.assert_array_equal(scenes.scale_latents(arrays["raw"]), arrays["scaled"])
    raw, scaled = random_latents(20_000)
    np.testing.assert_array_equal(scenes.scale_latents(raw), scaled)
    np.testing.assert_array_equal(jax.jit(lambda z: 1 * scenes.scale_latents(z))(raw), scaled)


def test_shapes_round_half_to_even():
    raw = np.zeros((4, 5), np.float32)
    raw[:, 2] = 0.25, 0.2501, 0.7499, 0.75
    np.testing.assert_array_equal(scenes.scale_latents(raw)[:, 2], [0, 1, 1, 2])


def test_latents_can_be_differentiated():
    slope = jax.grad(lambda z: jnp.sum(scenes.scale_latents(z)))(jnp.full(5, 0.3))
    np.testing.assert_allclose(slope, [0.8, 0.6, 0, 0.13, 0.9], rtol=1e-6)
    assert not jnp.any(jax.grad(lambda z: jnp.sum(scenes.render(z)))(jnp.full((1, 5), 0.3)))


# --- rasteriser -----------------------------------------------------------------------------------


def test_golden_renders_are_bit_exact(renders):
    scaled, expected = renders["scaled"], renders["rgb_u8"]
    np.testing.assert_array_equal(scenes.render_u8(scaled), expected)
    image = scenes.render(scaled, alpha=True)
    assert image.dtype == jnp.float32
    np.testing.assert_array_equal(image[..., :3], expected.astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(image[..., 3], renders["alpha_u8"])
    np.testing.assert_array_equal(scenes.render(scaled), image[..., :3])


@pytest.mark.parametrize("size, n", [(64, 1500), (8, 300), (33, 300), (300, 100), (1100, 20)])
def test_spans_follow_the_rule_at_any_size(size, n):
    assert_spans_equal(random_latents(n, seed=size)[1], size)


def test_sprites_beyond_the_frame_and_of_any_scale():
    rng = np.random.default_rng(3)
    scaled = random_latents(500)[1]
    scaled[:, :2] = rng.uniform(-0.4, 1.4, (500, 2))
    scaled[:, 3] = rng.uniform(0.001, 1.0, 500)
    assert_spans_equal(scaled, 64)


def test_corners_on_the_pixel_grid_are_truncated_as_float64_does():
    rng = np.random.default_rng(4)
    scaled = random_latents(1500)[1]
    scaled[:, 2] = 1
    half = scaled[:, 3:4].astype(np.float64) / 2
    grid = rng.integers(0, 64, (1500, 2)) / 64
    scaled[:, :2] = grid + rng.choice([-1, 1], (1500, 1)) * half
    exact = corners(np.array([0, 0, 1, 1], np.float64), 1)
    float32 = np.float32(64) * (scaled[:, 3, None, None] * np.float32(exact) + scaled[:, None, :2])
    float64 = np.stack([corners(sprite, 64) for sprite in scaled])
    wrong = np.any(np.trunc(float32) != np.trunc(float64), axis=(1, 2))
    assert np.sum(wrong) > 100  # float32 would not do
    assert_spans_equal(scaled, 64)


def test_pillow_draws_the_same_pixels():
    draw = pytest.importorskip("PIL.ImageDraw")
    from PIL import Image

    scaled = random_latents(600, seed=6)[1]
    images = np.asarray(scenes.render_u8(scaled))
    for sprite, image in zip(scaled, images):
        colour = 255 * np.array(colorsys.hsv_to_rgb(float(sprite[4]), 1, 1))
        canvas = Image.new("RGB", (64, 64))
        outline = [tuple(corner) for corner in corners(sprite, 64)]
        draw.Draw(canvas).polygon(outline, fill=tuple(int(c) for c in colour))
        np.testing.assert_array_equal(np.asarray(canvas)[::-1], image)


def test_colours_are_the_float64_ones():
    edges = np.arange(1531) / 1530  # where the truncation of some channel jumps
    hue = np.concatenate([edges, random_latents(2000)[1][:, 4]]).astype(np.float32)
    expected = [np.uint8(255 * np.array(colorsys.hsv_to_rgb(float(h), 1, 1))) for h in hue]
    np.testing.assert_array_equal(scenes.colours(hue), expected)


def test_every_colour_is_divided_by_255_exactly():
    colours = np.arange(256, dtype=np.uint8).reshape(-1, 1).repeat(3, axis=1)
    image = jax.jit(scenes.paint)(jnp.zeros((256, 1, 2), jnp.uint8), colours)
    np.testing.assert_array_equal(image[:, 0, 0], colours.astype(np.float32) / np.float32(255))


def test_transformations_change_nothing():
    scaled = jnp.asarray(random_latents(24)[1])
    expected = scenes.render_u8(scaled)
    folded = scaled.reshape(4, 6, 5)
    for renders in (
        scenes.render_u8(folded),
        jax.vmap(scenes.render_u8)(folded),
        jax.jit(jax.vmap(jax.vmap(scenes.render_u8)))(folded),
        jax.lax.map(scenes.render_u8, folded),
    ):
        np.testing.assert_array_equal(renders.reshape(expected.shape), expected)
    painted = jax.vmap(scenes.paint)(scenes.spans(scaled), scenes.colours(scaled[:, 4]))
    np.testing.assert_array_equal(painted, scenes.render(scaled))


def test_chunks_change_nothing(monkeypatch):
    scaled = random_latents(50)[1]
    expected = scenes.spans(scaled, 40)
    monkeypatch.setattr(scenes, "_CPU_CHUNK", 16)
    np.testing.assert_array_equal(scenes.spans.__wrapped__(scaled, 40), expected)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: scenes.scale_latents(np.zeros((3, 7))), "latents come in fives"),
        (lambda: scenes.render(np.zeros((3, 10))), "one sprite is x, y, shape, scale, hue"),
        (lambda: scenes.spans(np.zeros((3, 5)), 0), "image size must be between"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- scenes ---------------------------------------------------------------------------------------


def test_golden_scenes_of_every_composition(composed):
    rows = scenes.describe(composed["raw"])
    np.testing.assert_array_equal(rows["latents"], composed["scaled"])
    assert rows["spans"].shape == (50, 2, 64, 2) and rows["spans"].dtype == jnp.uint8
    names = [name for name in COMPOSITIONS if f"out_{name}" in composed]

    @jax.jit
    def images(spans, colours):
        each = {
            name: scenes.scene_images(spans, colours, name) for name in (*names, "occlude_step")
        }
        return each, scenes.scene_images(spans, colours, COMPOSITIONS["alpha"])

    found, by_function = images(rows["spans"], rows["colours"])
    for name in names:
        np.testing.assert_allclose(found[name], composed[f"out_{name}"], atol=1e-6, err_msg=name)
    np.testing.assert_array_equal(by_function, found["occlude_step"])


def test_planes_are_those_of_the_reference(renders):
    raw = [scenes.PLANES[name] for name in ("A", "O", "H", "A7", "H3")]
    np.testing.assert_array_equal(np.float32(raw), renders["raw"][-5:])


# Of many images: running the program takes longer than compiling it well.
@functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 2})
def statistics(raw):
    """Of a batch: mean variance over pixels, mean square, share of overlaps, overlapping pixels."""
    rows = scenes.describe(raw)
    image = scenes.scene_images(rows["spans"], rows["colours"], "occlude_step")
    first = jnp.max(rows["spans"][..., 0].astype(jnp.int32), axis=1)
    last = jnp.min(rows["spans"][..., 1].astype(jnp.int32), axis=1)
    overlap = jnp.sum(jnp.maximum(last - first + 1, 0), axis=1)
    return jnp.var(image, axis=0).mean(), jnp.mean(image**2), jnp.mean(overlap > 0), overlap.mean()


_O, _A, _H, _A7, _H3 = (scenes.PLANES[name] for name in ("O", "A", "H", "A7", "H3"))
_PLANES = ((0, _A), (1, _O), (1, _H))


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "support, parameters, variance, square, share, pixels",
    [
        ("random", {}, 0.0251, 0.0267, 0.19, 6.4),
        ("orthogonal", {"planes": _PLANES}, 0.0161, 0.0182, 0.07, 1.2),
        ("diagonal", {"delta": 0.1}, 0.0193, 0.0203, 0.995, 65),
        slow("orthogonal", {"planes": _PLANES[:2]}, 0.0152, 0.0176, 0.04, 0.7),
        slow(
            "orthogonal",
            {"planes": ((0, _A), (0, _A7), (1, _O), (1, _H3))},
            *(0.0160, 0.0175, 0.10, 1.8),
        ),
        slow(
            "orthogonal",
            {"planes": _PLANES, "distribution": "normal"},
            *(0.0161, 0.0181, 0.075, 1.2),
        ),
        slow(
            "orthogonal_gap",
            {"planes": _PLANES, "gaps": ((0, 0.05, 0.45),)},
            *(0.0161, 0.0183, 0.085, 1.4),
        ),
        slow("diagonal", {"delta": 0.05}, 0.0168, 0.0175, 1.00, 92),
        slow("diagonal", {"delta": 0.2}, 0.0222, 0.0237, 0.73, 29),
    ],
)
def test_brightness_and_overlap_of_the_supports(
    support, parameters, variance, square, share, pixels
):
    """In batches of 1000: the variance is what the paper's own scores imply for its data."""
    raw = supports.sample(jax.random.key(8), 5000, support, **parameters)
    means = np.mean([statistics(batch) for batch in raw.reshape(5, 1000, 10)], axis=0)
    np.testing.assert_allclose(means[:2], [variance, square], rtol=0.03)
    # These two are published to one or two digits and rest on few scenes.
    np.testing.assert_allclose(means[2], share, atol=0.015)
    np.testing.assert_allclose(means[3], pixels, rtol=0.1, atol=0.15)
