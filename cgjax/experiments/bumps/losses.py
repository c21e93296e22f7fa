"""The training loss: squared error plus penalties.

Penalties of the embedding network act on its parameters: the entropy H of lam drives each field to
rank one, the variance V makes one of its two vectors constant, and both together make it a stripe.
Penalties on fields apply to any network that has fields. All penalties are sums, as published, and
grow with the number of values; `size_independent` returns factors that cancel this growth.
"""

import jax
import jax.numpy as jnp
import numpy as np

BORDER = 4  # pixels at each border without derivatives for the axes of fields
LEAST_SHARE = 1e-8  # smallest share of a lam^2, so that its logarithm is finite


def squared_error(painted: jax.Array, truth: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Mean squared error over all pixels of images [B, n, n]; mask [B]: rows with 0 are ignored."""
    errors = jnp.mean((painted - truth) ** 2, axis=tuple(range(1, truth.ndim)))
    if mask is None:
        return jnp.mean(errors)
    return jnp.sum(mask * errors) / jnp.maximum(jnp.sum(mask), 1)


# --- penalties on parameters of the embedding network ---------------------------------------------


def entropy(lam: jax.Array) -> jax.Array:
    """H(lam) = -sum_ik p_ik log p_ik, p_ik = lam_ik^2 / sum_k lam_ik^2; lam [values, rank]."""
    share = lam**2 / jnp.sum(lam**2, axis=-1, keepdims=True)
    share = jnp.maximum(share, LEAST_SHARE)
    return -jnp.sum(share * jnp.log(share))


def vector_variance(vectors: jax.Array, axis: int) -> jax.Array:
    """V(A, axis): the unbiased variance of A along the axis, summed over all other indices."""
    return jnp.sum(jnp.var(vectors, axis=axis, ddof=1))


def embedding_penalty(params: dict, lam_entropy: float, vec_variance: float) -> jax.Array:
    """lam_entropy (H(lam_x) + H(lam_y)) + vec_variance (V(L, -2) + V(R, -1), of x and of y)."""
    total = 0.0
    for f in ("x", "y"):
        total += lam_entropy * entropy(params[f"lam_{f}"])
        total += vec_variance * vector_variance(params[f"left_{f}"], -2)
        total += vec_variance * vector_variance(params[f"right_{f}"], -1)
    return total


def size_independent(n: int, n_published: int = 32) -> tuple[float, float]:
    """Factors for lam_entropy and vec_variance that cancel their growth with n, the values.

    H is a sum over n values, V over n values and n vectors. Both factors are 1 at the published n.
    """
    return n_published / n, (n_published / n) ** 2


# --- penalties on fields --------------------------------------------------------------------------


def null_axis_variance(fields: list[jax.Array]) -> jax.Array:
    """Deviation of fields A[x], B[y] [values, n, n] from stripes.

    The variance of A over rows, where the field of x should be constant, plus the variance of B
    over columns; both are summed over all other indices.
    """
    of_x, of_y = fields
    return jnp.sum(jnp.var(of_x, axis=-2)) + jnp.sum(jnp.var(of_y, axis=-1))


def null_functions(n: int, degrees: float = 0.0) -> list[np.ndarray]:
    """Orthonormal bases [n * n, k] of the fields that are constant along the null axis of x, of y.

    degrees: angle between the axis of x and the rows of the image. The basis spans the functions of
    x (or y) that are linear between knots half a pixel apart.
    """
    rows, columns = (np.indices((n, n)) - (n - 1) / 2).reshape(2, -1)
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    bases = []
    for along in (cos * columns + sin * rows, cos * rows - sin * columns):
        knots = np.arange(-n, n + 0.1, 0.5)
        hats = np.maximum(0, 1 - np.abs(along[:, None] - knots) / 0.5)
        left, singular, _ = np.linalg.svd(hats, full_matrices=False)
        bases.append(left[:, singular > 1e-9 * singular[0]].astype(np.float32))
    return bases


def factor_axis_variance(fields: list[jax.Array], bases: list[np.ndarray]) -> jax.Array:
    """Deviation of fields [values, n, n] from fields that are constant along their null axes.

    bases: `null_functions`. At 0 degrees this is `null_axis_variance`.
    """
    total = 0.0
    for field, basis in zip(fields, bases):
        flat = field.reshape(len(field), -1)
        total += jnp.sum((flat - flat @ basis @ basis.T) ** 2) / field.shape[-1]
    return total


def axis_of(fields: jax.Array) -> jax.Array:
    """The angle in radians along which fields [values, n, n] vary most, as in `null_functions`.

    All fields share it: the first eigenvector of the sum over fields and pixels of the products of
    derivatives along columns and rows (structure tensor).
    """
    smooth, derivative = _filters(fields.shape[-1])
    along = smooth @ fields @ derivative.T
    down = derivative @ fields @ smooth.T
    return 0.5 * jnp.arctan2(2 * jnp.sum(along * down), jnp.sum(along**2) - jnp.sum(down**2))


def _filters(n: int) -> list[np.ndarray]:
    """Matrices [n - 8, n]: smoothed values, and derivatives, at BORDER or more from the ends.

    Errors of the derivative are of sixth order. With the usual two neighbours the axis of stripes
    that are a pixel wide would be wrong by up to three degrees.
    """
    third = np.array([-1, 9, -45, 0, 45, -9, 1]) / 60
    taps = np.array([0, 0, 0, 1, 2, 1, 0, 0, 0]) / 4, np.convolve(third, [1, 2, 1]) / 4
    places = np.arange(n) - np.arange(n - 2 * BORDER)[:, None]
    inside = (places >= 0) & (places < 9)
    return [np.where(inside, t[np.clip(places, 0, 8)], 0).astype(np.float32) for t in taps]


def along_lines(fields: jax.Array, angle: jax.Array) -> jax.Array:
    """The nearest fields [values, n, n] that vary along the angle (radians) only.

    The functions of `null_functions` at an angle that is known at run time: hats on knots half a
    pixel apart, whose normal equations are tridiagonal; conjugate gradients solve them.
    """
    n = fields.shape[-1]
    rows, columns = (np.indices((n, n)) - (n - 1) / 2).reshape(2, -1).astype(np.float32)
    along = jnp.cos(angle) * columns + jnp.sin(angle) * rows
    knots = np.arange(-0.75 * n, 0.75 * n + 0.1, 0.5, dtype=np.float32)
    hats = jnp.maximum(0, 1 - jnp.abs(along[:, None] - knots[None]) / 0.5)
    diagonal, beside = jnp.sum(hats**2, axis=0), jnp.sum(hats[:, 1:] * hats[:, :-1], axis=0)
    scale = jax.lax.rsqrt(diagonal + 1e-3)  # some knots have no pixel beside them
    diagonal, beside = (diagonal * scale**2)[None], (beside * scale[1:] * scale[:-1])[None]
    hats = hats * scale[None]

    def gram(c):
        neighbours = jnp.pad(c[:, 1:] * beside, ((0, 0), (0, 1)))
        return c * diagonal + neighbours + jnp.pad(c[:, :-1] * beside, ((0, 0), (1, 0)))

    def step(state, _):
        c, residual, direction, size = state
        image = gram(direction)
        slope = jnp.sum(direction * image, axis=1, keepdims=True)
        rate = jnp.where(size > least, size / jnp.where(size > least, slope, 1), 0)
        c, residual = c + rate * direction, residual - rate * image
        size, before = jnp.sum(residual**2, axis=1, keepdims=True), size
        return (c, residual, residual + size / jnp.maximum(before, 1e-30) * direction, size), None

    target = jnp.matmul(fields.reshape(len(fields), -1), hats, precision="highest")
    start = (jnp.zeros_like(target), target, target, jnp.sum(target**2, axis=1, keepdims=True))
    least = 1e-10 * start[-1]  # smaller residuals are rounding errors
    (c, *_), _ = jax.lax.scan(step, start, length=12, unroll=True)
    return jnp.matmul(c, hats.T, precision="highest").reshape(fields.shape)


def axes_variance(fields: list[jax.Array], angles: list[jax.Array]) -> jax.Array:
    """Deviation of fields from fields that vary along their angle (radians) only.

    `factor_axis_variance` at angles that are known at run time. The distance is stationary in the
    nearest such fields, so its gradient is exact although it takes them as constant.
    """
    total = 0.0
    for field, angle in zip(fields, angles):
        nearest = along_lines(jax.lax.stop_gradient(field), jax.lax.stop_gradient(angle))
        total += jnp.sum((field - nearest) ** 2) / field.shape[-1]
    return total


def rank_tail(fields: list[jax.Array]) -> jax.Array:
    """Energy of fields [values, n, n] outside their first singular component, divided by n.

    The deviation from the nearest matrix of rank one, in the units of `null_axis_variance`, which
    is the deviation from the nearest stripe. A stripe has rank one, so this is never larger.
    """
    return sum(jnp.sum((f - _first_component(f)) ** 2) / f.shape[-1] for f in fields)


def _first_component(fields: jax.Array) -> jax.Array:
    """A v v^T [..., n, n], v the first right singular vector of A; gradients take v as constant.

    The distance to A is stationary in v, so its gradient is exact. v comes from a high power of
    A^T A, which needs matrix products only: they are much faster than many small SVDs.
    """
    fixed = jax.lax.stop_gradient(fields)
    gram = jnp.matmul(fixed.mT, fixed, precision="highest")
    for _ in range(7):
        gram = gram / jnp.maximum(jnp.trace(gram, axis1=-2, axis2=-1), 1e-30)[..., None, None]
        gram = jnp.matmul(gram, gram, precision="highest")
    largest = jnp.argmax(jnp.diagonal(gram, axis1=-2, axis2=-1), axis=-1)
    v = jnp.take_along_axis(gram, largest[..., None, None], axis=-1)  # [..., n, 1]
    v = v / jnp.maximum(jnp.linalg.norm(v, axis=-2, keepdims=True), 1e-30)
    return jnp.matmul(jnp.matmul(fields, v, precision="highest"), v.mT)


def energy_shares(fields: list[jax.Array], bases: list[np.ndarray]) -> dict[str, jax.Array]:
    """Shares of all fields' energy in their first singular components and in flat fields.

    bases: `null_functions`, so that "flat" means constant along the null axis of the factor.
    """
    total = sum(jnp.sum(f**2) for f in fields)
    flat = sum(jnp.sum((f.reshape(len(f), -1) @ b) ** 2) for f, b in zip(fields, bases))
    rank_one = sum(jnp.sum(_first_component(f) ** 2) for f in fields)
    return {"rank_one_share": rank_one / total, "flat_share": flat / total}


def nuclear_norm(fields: list[jax.Array]) -> jax.Array:
    """Sum of the singular values of all fields [values, n, n], a convex proxy for their rank."""
    singular = [jnp.linalg.svd(field, compute_uv=False) for field in fields]
    return sum(jnp.sum(values) for values in singular)


def stripe_share(fields: list[jax.Array]) -> jax.Array:
    """Share [2] of the variance of the fields of x and of y that a pure stripe explains.

    The variance of a field's mean over its null axis divided by the field's variance, both summed
    over all values.
    """
    shares = []
    for field, axis in zip(fields, (-2, -1)):
        stripe = jnp.sum(jnp.var(jnp.mean(field, axis=axis), axis=-1))
        shares.append(stripe / jnp.sum(jnp.var(field, axis=(-2, -1))))
    return jnp.stack(shares)
