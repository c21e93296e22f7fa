"""The linear system of kernel machines: dual and bias with K dual + bias = target.

Singular kernels are usual here, and get the pseudo-inverse. One kernel, float64; batches by vmap.
"""

import jax
import jax.numpy as jnp

from cgjax.analysis.cholesky import factorised, solved

# Relative to the kernel's norm, eigenvalues from here down count as zero.
_RIDGE = 1e-12


def interpolate(k, target, mask, has_bias, total=0.0):
    """Dual [n] and bias, with K dual + bias = target [n] on the masked-in points.

    Targets may be [n, outputs]: then so is the dual, and the bias is [outputs].

    total: what the dual sums to; only with a bias, whose optimality condition it is. Where the
    kernel is singular, the smallest such dual.
    """
    inside = mask.astype(k.dtype)
    count = jnp.maximum(jnp.sum(inside), 1)
    k = k * (inside[:, None] * inside[None])
    level = jax.lax.stop_gradient(jnp.trace(k)) / count
    fill = jnp.diag(1 - inside)
    each = rows(inside, target)
    start, system, rest = jnp.zeros_like(target), k, each * target
    if has_bias:
        # On centred features the bias is gone; the constant direction, now empty, is filled.
        start = each * (total / count)
        rest = _centred(rest - k @ start, each, count)
        system = jax.vmap(lambda row: _centred(row, inside, count))(k)
        system = jax.vmap(lambda row: _centred(row, inside, count))(system.T)
        fill = fill + inside[:, None] * inside[None] / count
    system = system + jnp.where(level > 0, level, 1) * fill
    dual = start + each * _pseudo_solve(system, rest)
    mean = jnp.sum(each * (target - k @ dual), axis=0) / count
    return dual, mean if has_bias else jnp.zeros_like(mean)


def rows(points, values):
    """points [n], shaped to go with values [n] or [n, outputs]."""
    return points.reshape(-1, *(1,) * (values.ndim - 1))


def _centred(values, inside, count):
    return inside * (values - jnp.sum(inside * values, axis=0, keepdims=True) / count)


def _pseudo_solve(system, target):
    """The pseudo-inverse of a positive semi-definite system [n, n] times target [n] or [n, k].

    Without its eigenvectors, which batches of small matrices are slow to give. With M the system
    plus a small ridge r, R = r / M is 1 on the null space and r / l next to eigenvalues l > 0: the
    solution is (1 + R) / M up to (r / l)^2, after 1 - R^2 has removed the null space.
    """
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(system), axis=0)))

    def with_ridge(ridge):
        return factorised(system + ridge * jnp.eye(len(system)))

    def solve(_, target):
        # An indefinite "kernel" has no factor: the ridge grows until there is one.
        ridge, factor = jax.lax.while_loop(
            lambda state: jnp.isnan(state[1][-1, -1]) & (state[0] < norm),
            lambda state: (100 * state[0], with_ridge(100 * state[0])),
            (_RIDGE * norm, with_ridge(_RIDGE * norm)),
        )
        # Each round removes the null space up to the rounding error of a solve with r, 1e-4.
        is_singular = jnp.min(jnp.diag(factor)) ** 2 < 1e-8 * norm
        n_rounds = jnp.where(is_singular, 4, 0)

        def shrunk(x):
            return solved(factor, ridge * x)

        def without_null(x):
            return jax.lax.fori_loop(0, n_rounds, lambda _, x: x - shrunk(shrunk(x)), x)

        x = shrunk(without_null(target)) / ridge
        return without_null(x + shrunk(x))

    return jax.lax.custom_linear_solve(lambda x: system @ x, target, solve, symmetric=True)
