"""Sprite scenes of Wiedemer et al. 2023: latents, an exact rasteriser, painted slots, scenes.

A sprite is a filled convex polygon, so every image row has at most one run of lit columns. A
sprite is therefore stored as *spans*, the first and last lit column of each row, and one colour:
131 bytes instead of 12,288 at 64 x 64. Images are painted from spans when they are used.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.experiments.sprites.compositions import COMPOSITIONS, channels
from cgjax.experiments.sprites.options import PLANES as PLANES

LATENTS = ("x", "y", "shape", "scale", "hue")

# Scaled = lowest + width * raw, before the shape is rounded to 0, 1 or 2.
LOWEST = (0.1, 0.2, 0.0, 0.09, 0.05)
WIDTH = (0.8, 0.6, 2.0, 0.13, 0.9)


# --- latents --------------------------------------------------------------------------------------


@jax.jit
def scale_latents(raw: jax.Array) -> jax.Array:
    """Raw latents in [0, 1] -> inputs of renderer and networks; last axis a multiple of 5."""
    raw = jnp.asarray(raw, jnp.float32)
    if raw.ndim == 0 or raw.shape[-1] % 5:
        raise ValueError(f"latents come in fives ({', '.join(LATENTS)}), got shape {raw.shape}")
    slots = raw.reshape(*raw.shape[:-1], -1, 5)
    width, lowest = (_like(np.float32(v), slots) for v in (WIDTH, LOWEST))
    scaled = _affine(slots, width, lowest)
    shape = jnp.round(scaled[..., 2:3])  # half to even, so 1/4 is a triangle and 3/4 a circle
    scaled = jnp.concatenate([scaled[..., :2], shape, scaled[..., 3:]], axis=-1)
    return scaled.reshape(raw.shape)


@jax.custom_jvp
def _affine(raw, width, lowest):
    """raw * width + lowest, rounded to float32 after the product and again after the sum.

    The paper's data are rounded this way. In float32 a compiler may fuse product and sum into a
    multiply-add, which rounds once. The float64 product is exact, and its rounding to float32
    cannot be fused away.
    """
    with jax.enable_x64(True):
        product = raw.astype(jnp.float64) * width.astype(jnp.float64)
        product = product.astype(jnp.float32)
    return product + lowest


@_affine.defjvp
def _affine_jvp(primals, tangents):
    return _affine(*primals), tangents[0] * primals[1]


def _like(values, array):
    """values [d] with as many axes as array [..., d]."""
    return jnp.asarray(values).reshape((1,) * (array.ndim - 1) + (-1,))


# --- polygons -------------------------------------------------------------------------------------


def _polygon(n_vertices, first_angle):
    """Regular polygon of area 1, [n_vertices, 2] in float64."""
    step = 2 * math.pi / n_vertices
    norm = math.sqrt(n_vertices * math.sin(step / 2) * math.cos(step / 2))
    angles = [i * step + first_angle for i in range(n_vertices)]
    return np.array([[math.cos(a) / norm, math.sin(a) / norm] for a in angles])


def _sides():
    """Outline of each shape as two chains of 17 vertices: float64 [xy, shape, vertex, side].

    The first lit pixel of a circle's row is on an edge of the left chain, the last one on an edge
    of the right chain, which halves the work. Both chains include the top and the bottom edge.
    Triangle and square have few edges: both chains are the whole outline, with the first vertex
    repeated (an edge of length zero lights a pixel of the outline again).
    """
    triangle, square = _polygon(3, math.pi / 2), _polygon(4, math.pi / 4)
    circle = _polygon(30, 0.0)
    around = [np.concatenate([p, np.repeat(p[:1], 17 - len(p), 0)]) for p in (triangle, square)]
    left, right = circle[np.arange(7, 24)], circle[np.arange(22, 39) % 30]
    chains = [[*around, left], [*around, right]]  # [side, shape, vertex, xy]
    return np.ascontiguousarray(np.transpose(chains, (3, 1, 2, 0)))


_UNIT = _sides()
# The leading 29 bits of each coordinate, and the rest (see `_vertices`).
_UNIT_HIGH = (_UNIT.view(np.int64) & ~np.int64(2**24 - 1)).view(np.float64)
_UNIT_LOW = _UNIT - _UNIT_HIGH


def _vertices(scaled, size):
    """Scaled latents [n, 5] -> corner pixels (x, y), two int32 [17, 2, n]; y points up.

    Corners are float64 numbers truncated to integers. A corner may be an integer exactly (a square
    whose edge meets the pixel grid: one sprite in 10^5); the last bit of float64 then decides. The
    result must therefore be the same to the last bit under every compiler, but a fused
    multiply-add rounds once instead of twice. A float32 scale (24 bits) times 29 or 24 bits is
    exact in float64, so fusing these products with their sum changes nothing.
    """
    with jax.enable_x64(True):
        latents = scaled.T.astype(jnp.float64)
        shape, scale = latents[2][None, None], latents[3][None, None]

        def pick(unit):  # [shape, vertex, side] -> [vertex, side, n]
            triangle, square, circle = (jnp.asarray(u)[..., None] for u in unit)
            return jnp.where(shape < 0.5, triangle, jnp.where(shape < 1.5, square, circle))

        def corner(axis):
            offset = scale * pick(_UNIT_HIGH[axis]) + scale * pick(_UNIT_LOW[axis])
            return ((offset + latents[axis][None, None]) * size).astype(jnp.int32)

        return jax.lax.optimization_barrier((corner(0), corner(1)))


# --- rows -----------------------------------------------------------------------------------------

# The optimization barriers in this file stop XLA from fusing small results into the loops over rows
# or bytes that use them, which would compute them again in every iteration.

# On a CPU the rows of this many sprites stay in cache during the loop over edges.
_CPU_CHUNK = 1024
# Up to this size float32 separates a half-integer from the crossing nearest to it.
_FLOAT32_SIZE = 1024


@functools.partial(jax.jit, static_argnames="size")
def spans(scaled: jax.Array, size: int = 64) -> jax.Array:
    """First and last lit column of each row, top row first: [..., 5] -> [..., size, 2].

    uint8 (int16 above 256 pixels), clipped to the frame; a row without pixels is (1, 0). At 64
    pixels the result is bit-identical to Pillow's polygon. At other sizes it is the same rule in
    exact arithmetic; Pillow's single-precision slopes sometimes miss a tie on tall triangles.
    """
    scaled = jnp.asarray(scaled, jnp.float32)
    if scaled.ndim == 0 or scaled.shape[-1] != 5:
        raise ValueError(f"one sprite is {', '.join(LATENTS)}: [..., 5], got shape {scaled.shape}")
    if not 1 <= size < 2**15:
        raise ValueError(f"image size must be between 1 and {2**15 - 1}, got {size}")
    # Lit pixels do not change under small changes of the latents: the derivative is zero.
    sprites = jax.lax.stop_gradient(scaled).reshape(-1, 5)
    n = len(sprites)
    if jax.default_backend() == "cpu" and n > _CPU_CHUNK:
        chunks = jnp.pad(sprites, ((0, -n % _CPU_CHUNK), (0, 0))).reshape(-1, _CPU_CHUNK, 5)
        runs = jax.lax.map(lambda chunk: _spans(chunk, size), chunks).reshape(-1, size, 2)[:n]
    else:
        runs = _spans(sprites, size)
    return runs.reshape(*scaled.shape[:-1], size, 2)


def _spans(sprites, size):
    with jax.enable_x64(size > _FLOAT32_SIZE):
        dtype = jnp.float32 if size <= _FLOAT32_SIZE else jnp.float64
        left, right = _crossings(_edges(*_vertices(sprites, size), dtype), size)
        # Exact halves narrow the run (and -1/2 counts as 0). A crossing is a fraction whose
        # denominator is below 2 * size, so one that is not a half is at least 1 / (4 * size)
        # away from it, far more than its rounding error: the margin decides ties exactly.
        tie = 0.5 + 1 / (8 * size)
        first = jnp.maximum(jnp.floor(left + tie), 0)
        last = jnp.clip(jnp.ceil(right - tie), 0, size - 1)
        empty = (first > last) | (right < -tie)
        dtype = jnp.uint8 if size <= 256 else jnp.int16
        first, last = jnp.where(empty, 1, first), jnp.where(empty, 0, last)
        # The barrier keeps the interleaving below out of the loop over rows.
        pair = jax.lax.optimization_barrier((first.astype(dtype), last.astype(dtype)))
        return jnp.stack(pair, axis=-1)


def _edges(x, y, dtype):
    """Corners [17, 2, n] -> edges' middle y, half height, middle x, dx/dy, each [16, 2, n].

    x is negated on the right side, so that both sides take the minimum over crossings.
    """
    outwards = jnp.array([1, -1], x.dtype)[None, :, None]
    x, y = (x * outwards).astype(dtype), y.astype(dtype)
    dx, dy = x[1:] - x[:-1], y[1:] - y[:-1]
    flat = dy == 0
    slope = jnp.where(flat, 0, dx / jnp.where(flat, 1, dy))
    # A horizontal edge lights its row from one end to the other; only the outer end matters.
    middle = jnp.where(flat, jnp.minimum(x[1:], x[:-1]), (x[1:] + x[:-1]) / 2)
    return jax.lax.optimization_barrier(((y[1:] + y[:-1]) / 2, jnp.abs(dy) / 2, middle, slope))


def _crossings(edges, size):
    """Leftmost and rightmost crossing of the outline with each row: two [n, size], top row first.

    Each edge counts on every row between its ends, both included. Rows that no edge meets get
    values far outside the frame.
    """
    dtype = edges[0].dtype
    row = jnp.arange(size - 1, -1, -1).astype(dtype)[None, None]
    nowhere = jnp.full((2, edges[0].shape[-1], size), 4 * size, dtype)

    def meet(nearest, edge):
        y, half_height, x, slope = (e[:, :, None] for e in edge)
        up = row - y
        crossing = jnp.where(jnp.abs(up) <= half_height, x + slope * up, nowhere)
        return jnp.minimum(nearest, crossing), None

    # A scan, because XLA's CPU backend does not vectorise all 16 edges written out in one loop.
    (left, right), _ = jax.lax.scan(meet, nowhere, edges, unroll=4)
    return left, -right


# --- colours and images ---------------------------------------------------------------------------


@jax.jit
def colours(hue: jax.Array) -> jax.Array:
    """Fully saturated colour of a hue in [0, 1]: [...] -> uint8 [..., 3]."""
    hue = jax.lax.stop_gradient(jnp.asarray(hue, jnp.float32))
    with jax.enable_x64(True):
        # The six sectors of the colour circle as three ramps. Six times a float32 hue is exact in
        # float64, and so are the differences: truncation gives the result of the sector formula.
        turn = 6 * (hue.astype(jnp.float64) % 1)
        ramps = (jnp.abs(turn - 3) - 1, 2 - jnp.abs(turn - 2), 2 - jnp.abs(turn - 4))
        rgb = jnp.clip(jnp.stack(ramps, axis=-1), 0, 1)
        return (255 * rgb).astype(jnp.uint8)


def _unit_interval(colour):
    """uint8 -> float32, exactly colour / 255.

    XLA divides by a constant through its reciprocal, which is one bit off for half of the values.
    8 bits times the 16-bit head of 1/255 is exact, so one rounding remains, that of colour / 255.
    """
    head = np.float32(257 / 2**16)
    tail = np.float32(1 / 255 - float(head))
    colour = colour.astype(jnp.float32)
    return colour * head + colour * tail


def _lit(spans, columns):
    """Which columns [m] lie inside the runs [..., size, 2]: boolean [..., size, m]."""
    columns = _like(columns.astype(spans.dtype), spans)
    return (spans[..., :1] <= columns) & (columns <= spans[..., 1:])


def paint(spans: jax.Array, colours: jax.Array, alpha: bool = False) -> jax.Array:
    """Spans [..., size, 2], uint8 colours [..., 3] -> float32 [..., size, size, 3 or 4] in [0, 1].

    Elementwise, so XLA fuses it with what follows; the alpha channel is 1 inside the sprite.
    """
    lit = _lit(spans, np.arange(spans.shape[-2]))
    value = _unit_interval(colours)
    if alpha:
        value = jnp.concatenate([value, jnp.ones_like(value[..., :1])], axis=-1)
    return jnp.where(lit[..., None], value[..., None, None, :], 0.0)


@functools.partial(jax.jit, static_argnames=("size", "alpha"))
def render(scaled: jax.Array, size: int = 64, alpha: bool = False) -> jax.Array:
    """Scaled latents [n, 5], one sprite each -> float32 [n, size, size, 3 or 4] in [0, 1]."""
    scaled = jnp.asarray(scaled, jnp.float32)
    return paint(spans(scaled, size), colours(scaled[..., 4]), alpha)


@functools.partial(jax.jit, static_argnames="size")
def render_u8(scaled: jax.Array, size: int = 64) -> jax.Array:
    """Scaled latents [n, 5] -> uint8 [n, size, size, 3], at the speed of memory writes."""
    scaled = jnp.asarray(scaled, jnp.float32)
    runs = spans(scaled, size)
    # One row is a string of 3 * size bytes: the repeated colour where lit. Without the last barrier
    # XLA nests the loop over it by channel, at ten times the cost on a CPU.
    colour = jax.lax.optimization_barrier(colours(scaled[..., 4]))
    runs, string = jax.lax.optimization_barrier((runs, jnp.tile(colour, size)))
    lit = _lit(runs, np.repeat(np.arange(size), 3))
    rows = jax.lax.optimization_barrier(jnp.where(lit, string[..., None, :], jnp.uint8(0)))
    return rows.reshape(*scaled.shape[:-1], size, size, 3)


# --- scenes ---------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="size")
def describe(raw: jax.Array, size: int = 64) -> dict:
    """Compact form of scenes with raw latents [n, 5 K].

    `latents`: scaled [n, 5 K]; `spans` [n, K, size, 2]; `colours`: uint8 [n, K, 3].
    """
    scaled = scale_latents(raw)
    sprites = scaled.reshape(*scaled.shape[:-1], -1, 5)
    return {
        "latents": scaled,
        "spans": spans(sprites, size),
        "colours": colours(sprites[..., 4]),
    }


def scene_images(spans: jax.Array, colours: jax.Array, composition: str | Callable) -> jax.Array:
    """Spans [n, K, size, 2] and colours [n, K, 3] of scenes -> images, float32 [n, size, size, 3].

    `composition`: a name of `COMPOSITIONS`, or one of its functions. Slot 0 is in front.
    """
    alpha = channels(composition) == 4
    compose = composition if callable(composition) else COMPOSITIONS[composition]
    return compose([paint(spans[:, k], colours[:, k], alpha) for k in range(spans.shape[1])])


def side_by_side(array: jax.Array) -> jax.Array:
    """The same array [n, ...], laid out in memory with its n scenes last.

    GPU kernels that draw scenes use this layout: neighbouring threads read neighbouring numbers.
    """
    return jnp.moveaxis(jax.lax.optimization_barrier(jnp.moveaxis(array, 0, -1)), -1, 0)


def facts(spans: jax.Array, colours: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Inputs of `pixel`: for each row [2 K, size, n], for each scene [3 K, n]; float32."""
    rows = spans.astype(jnp.float32).transpose(1, 3, 2, 0)
    values = _unit_interval(colours).transpose(1, 2, 0)
    return rows.reshape(-1, *rows.shape[2:]), values.reshape(-1, values.shape[2])


def pixel(row: jax.Array, scene: jax.Array, column: jax.Array, composition: str) -> jax.Array:
    """One pixel [3] of `scene_images` from its row's and its scene's `facts`; column [1]."""
    slots = []
    for k in range(len(scene) // 3):
        value = scene[3 * k : 3 * k + 3]
        if channels(composition) == 4:
            value = jnp.concatenate([value, jnp.ones_like(value[:1])])
        first, last = row[2 * k : 2 * k + 1], row[2 * k + 1 : 2 * k + 2]
        slots.append(jnp.where((first <= column) & (column <= last), value, 0.0))
    return COMPOSITIONS[composition](slots)


def latent_name(index):
    """0 -> "sprite 1 x", 5 -> "sprite 2 x", ...: slot 0, the front sprite, is sprite 1."""
    sprite, latent = divmod(index, len(LATENTS))
    return f"sprite {sprite + 1} {LATENTS[latent]}"
