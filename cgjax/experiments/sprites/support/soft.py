"""Sprites with soft edges: differentiable in x, y, scale and hue, for derivatives in the latents.

The study's images have hard, binary outlines whose derivative is zero almost everywhere. Here a
pixel's opacity is a logistic function of its distance to the outline.
"""

import math

import jax
import jax.numpy as jnp

from cgjax.experiments.sprites.compositions import alpha

SIDES = ((3, math.pi / 2), (4, math.pi / 4), (30, 0.0))  # triangle, square, circle: n, first angle


def opacity(scaled: jax.Array, size: int = 64, softness: float = 1.0) -> jax.Array:
    """Share of each pixel that a sprite covers: scaled latents [n, 5] -> [n, size, size] in (0, 1).

    softness: width of the edge in pixels.
    """
    x, y, shape, scale = (scaled[:, i, None, None] for i in range(4))
    centres = (jnp.arange(size) + 0.5) / size
    across = centres.reshape(1, 1, -1) - x
    up = centres[::-1].reshape(1, -1, 1) - y  # row 0 of an image is its top
    distance = jnp.stack([_inside(across, up, scale, *sides) for sides in SIDES])
    kind = jax.nn.one_hot(jnp.round(shape[:, 0, 0]).astype(int), len(SIDES), axis=0)
    distance = jnp.sum(distance * kind[:, :, None, None], axis=0)
    # The hard renderer fills every pixel that the outline crosses: half a pixel more on all sides.
    return jax.nn.sigmoid((distance * size + 0.5) / softness * 4)


def _inside(across, up, scale, n, first_angle):
    """Distance to the nearest side of a regular n-gon of area scale^2; negative outside."""
    radius = scale / math.sqrt(n * math.sin(math.pi / n) * math.cos(math.pi / n))
    angles = [first_angle + math.pi * (2 * i + 1) / n for i in range(n)]
    beyond = [across * math.cos(angle) + up * math.sin(angle) for angle in angles]
    return radius * math.cos(math.pi / n) - jax.tree.reduce(jnp.maximum, beyond)


def colour(hue: jax.Array) -> jax.Array:
    """RGB [n, 3] of full saturation and value, piecewise linear in the hue [n]."""
    offsets = jnp.array([0.0, 2 / 3, 1 / 3]).reshape(1, 3)
    return jnp.clip(jnp.abs(((hue[:, None] + offsets) % 1.0) * 6 - 3) - 1, 0.0, 1.0)


def render(scaled: jax.Array, size: int = 64, softness: float = 1.0) -> jax.Array:
    """RGBA sprites [n, size, size, 4], one per row of scaled latents [n, 5]."""
    shown = opacity(scaled, size, softness)[..., None]
    rgb = jnp.broadcast_to(colour(scaled[:, 4])[:, None, None], (*shown.shape[:3], 3))
    return jnp.concatenate([rgb, shown], axis=-1)


def scene(scaled: jax.Array, size: int = 64, softness: float = 1.0) -> jax.Array:
    """Whole scenes [n, size, size, 3] from scaled latents [n, 5 K], front sprite first."""
    slots = jnp.split(scaled, scaled.shape[1] // 5, axis=1)
    return alpha("none")([render(slot, size, softness) for slot in slots])
