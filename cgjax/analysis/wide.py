"""Kernels of infinitely wide random ReLU networks: NNGP and NTK, in float64.

The networks have the NTK parameterisation: weights N(0, 1) times sqrt(weight_var / fan_in), biases
N(0, 1) times sqrt(bias_var), and one scalar output layer.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, finite, integer, number
from cgjax.analysis.salience import float64


@checked
@float64
def relu_mlp(
    x1: finite("n1 d"),
    x2: finite("n2 d") = None,
    depth: integer(0) = 1,
    weight_var: number("[0, inf)") = 2.0,
    bias_var: number("[0, inf)") = 0.0,
) -> tuple[jax.Array, jax.Array]:
    """(nngp, ntk), each float64 [n1, n2], of an MLP with `depth` hidden ReLU layers.

    x2 None: x1 with itself. An input's correlation with itself is set to
    exactly 1, without rounding errors.

    >>> nngp, ntk = relu_mlp(np.eye(4), None, depth=3)
    >>> nngp.shape, ntk.shape
    ((4, 4), (4, 4))
    """
    same = _same(x1, x2)
    x1 = jnp.asarray(x1, jnp.float64)
    x2 = x1 if same else jnp.asarray(x2, jnp.float64)
    d = x1.shape[1]
    cov = tangent = weight_var * (x1 @ x2.T) / d + bias_var  # kernels of pre-activations
    var1, var2 = (weight_var * jnp.sum(x * x, axis=1) / d + bias_var for x in (x1, x2))
    equal = jnp.eye(len(x1), dtype=bool) if same else jnp.zeros((1, 1), bool)
    for _ in range(depth):
        product, slope = _relu(cov, jnp.sqrt(var1[:, None] * var2[None, :]), equal)
        cov = weight_var * product + bias_var
        tangent = cov + weight_var * slope * tangent
        var1, var2 = (weight_var * var / 2 + bias_var for var in (var1, var2))
    return cov, tangent


def _same(x1, x2):
    if x2 is None or x2 is x1:
        return True
    if not checks.known(x1, x2):
        return False
    return np.array_equal(np.asarray(x1), np.asarray(x2))


def _relu(cov, norm, equal):
    """E[relu(u) relu(v)] and E[relu'(u) relu'(v)] of Gaussians; norm: sqrt(var u var v)."""
    correlation = jnp.clip(cov / jnp.where(norm > 0, norm, 1), -1, 1)
    # Only equal inputs are this close to 1, and arccos would turn their last digit into 1e-7.
    correlation = jnp.where(equal | (correlation > 1 - 1e-14), 1, correlation)
    angle = jnp.arccos(correlation)
    sine = jnp.sqrt((1 - correlation) * (1 + correlation))
    slope = (math.pi - angle) / (2 * math.pi)
    return norm * (sine / (2 * math.pi) + slope * correlation), slope
