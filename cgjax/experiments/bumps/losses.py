"""The training loss: squared error plus penalties.

Penalties of the embedding network act on its parameters: the entropy H of lam drives each field to
rank one, the variance V makes one of its two vectors constant, and both together make it a stripe.
Penalties on fields apply to any network that has fields. All penalties are sums, as published, and
grow with the number of values; `size_independent` returns factors that cancel this growth.
"""

import jax
import jax.numpy as jnp

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
