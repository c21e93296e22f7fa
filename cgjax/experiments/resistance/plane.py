"""The plane: X_i = Y_i - U[0, 1], target Y_1; the test square is (Y_1, Y_2) = (1, 1).

Training points fill the other three unit squares of [-1, 1]^2. Each square is a *cell*. The
compositional boundary is the line X_1 = 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# (Y_1, Y_2)
TRAIN_CELLS = ((0, 0), (0, 1), (1, 0))
TEST_CELLS = ((1, 1),)


class Points(NamedTuple):
    """Points and both labels."""

    x: jax.Array  # float32 [n, 2]
    y: jax.Array  # int32 [n, 2]; the target is y[:, 0]


def draw(key: jax.Array, n: int, cells=TRAIN_CELLS, control=False) -> Points:
    """n points, uniform on the cells.

    control: X_2 is an independent U[-1, 1], and Y_2 is 1 if X_2 > 0; control may be traced. Cells
    and X_1 are the same with and without control.
    """
    cell_key, noise_key, control_key = jax.random.split(key, 3)
    y = jnp.asarray(cells)[jax.random.randint(cell_key, (n,), 0, len(cells))]
    x = y - jax.random.uniform(noise_key, (n, 2))
    free = jax.random.uniform(control_key, (n,), minval=-1, maxval=1)
    second = jnp.where(control, free, x[:, 1])
    x = jnp.stack([x[:, 0], second], axis=1)
    y2 = jnp.where(control, second > 0, y[:, 1])
    return Points(x, jnp.stack([y[:, 0], y2.astype(y.dtype)], axis=1))


def in_cell(points: Points, cell) -> jax.Array:
    """Whether each point belongs to the cell (Y_1, Y_2): boolean [n]."""
    return jnp.all(points.y == jnp.asarray(cell)[None], axis=1)


def grid(n: int = 101) -> np.ndarray:
    """Points [n, n, 2] of [-1, 1]^2; rows start at X_2 = -1, columns at X_1 = -1."""
    axis = np.linspace(-1, 1, n, dtype=np.float32)
    x1, x2 = np.meshgrid(axis, axis)
    return np.stack([x1, x2], axis=-1)


def boundary_angle(slopes: jax.Array) -> jax.Array:
    """Angle of the boundary to the line X_1 = 0, in degrees from -180 to 180.

    slopes: d(logit of 1 minus logit of 0)/dX at points [n, 2]. Their mean is the boundary's normal.
    The angle is 0 if the normal points along X_1, and positive if it leans towards X_2.
    """
    normal = jnp.mean(slopes, axis=0)
    return jnp.degrees(jnp.arctan2(normal[1], normal[0]))


def tilt(angle):
    """Degrees from 0 to 90 between the boundary, as a line, and X_1 = 0; angle: `boundary_angle`.

    It ignores which side of the boundary is class 1, so it does not jump where the angle wraps.
    """
    return abs((angle + 90) % 180 - 90)
