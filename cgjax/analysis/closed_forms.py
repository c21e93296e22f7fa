"""Closed forms of kernel machines on three tasks (Lippl and Stachenfeld 2025, fig. 3).

Memorization leak on symbolic addition, invariance and partial exposure, and shortcut bias on
context dependence. Saliences may have any leading axes. All results are in float64.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, choice, finite, finite_tree, integer, mask, number
from cgjax.analysis.salience import float64

# --- symbolic addition ----------------------------------------------------------------------------


class Addition(NamedTuple):
    """The machine on symbolic addition, each field [...]: its response to an item of value v."""

    slope: jax.Array  # m: an item that is not an anchor adds m (v + c) + b / 2
    slope_seen: jax.Array  # m_n: an anchor adds m_n (v + d) + b / 2
    shift: jax.Array  # c
    shift_seen: jax.Array  # d
    bias: jax.Array  # b


BIASES = ("none", "free", "constant")


@float64
def memorization_slope(salience: jax.Array, n_anchors: int) -> jax.Array:
    """Prop. 5.1: m = p S / (1 + (p - 2) S), the slope of test predictions against targets.

    salience: S(1; 2) [...]. n_anchors: p, the number of items that are trained with all others.
    It holds if the values of all items, and those of the anchors, average to zero.
    """
    checks.salience(salience, n_anchors, "n_anchors")
    salience = jnp.asarray(salience, jnp.float64)
    return n_anchors * salience / (1 + (n_anchors - 2) * salience)


@checked
@float64
def addition(
    salience: finite(),
    values: finite("n"),
    is_anchor: mask("n"),
    bias: choice(*BIASES) = "none",
    k0: finite() = 0.0,
) -> Addition:
    """Prop. 5.1 for any values and anchors; pairs with at least one anchor are trained.

    salience: S(1; 2) [...]. values: of both components.
    bias: "none", "free" (unpenalised, as in support-vector machines) or "constant", the feature
        that a kernel with k0 = kappa(0) / (kappa(2) - kappa(0)) > 0 has; k0: [...].
    """
    checks.salience(salience, len(values))
    s, k0 = jnp.broadcast_arrays(jnp.asarray(salience, jnp.float64), jnp.asarray(k0, jnp.float64))
    values, is_anchor = jnp.asarray(values, jnp.float64), jnp.asarray(is_anchor, bool)
    n, p = len(values), jnp.sum(is_anchor)
    mean, mean_anchor = jnp.mean(values), jnp.sum(values * is_anchor) / p
    # Both slopes, divided by S: S may be zero.
    rate, rate_seen = p / (1 - 2 * s + p * s), n / (1 - 2 * s + n * s)
    m, m_seen = s * rate, s * rate_seen
    unseen, seen = (n - p) / n, p / n
    rest = rate * (mean - seen * mean_anchor) + rate_seen * seen * mean_anchor  # R / S
    ones, zeros = jnp.ones_like(s), jnp.zeros_like(s)
    last = {
        "none": (zeros, zeros, ones, zeros),
        "free": (rate * unseen, rate_seen * seen, zeros, -rest),
        "constant": (-k0 * n * rate * unseen, -k0 * n * rate_seen * seen, ones, k0 * n * rest),
    }
    rows = (
        (ones, m_seen, ones, mean_anchor * (1 - m_seen)),
        (m * unseen, 1 + m_seen * seen, ones, mean - s * rest),
        last[bias],
    )
    system = jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
    solution = jnp.linalg.solve(system[..., :3], system[..., 3:])[..., 0]
    return Addition(m, m_seen, solution[..., 0], solution[..., 1], solution[..., 2])


@checked
@float64
def item_values(
    machine: finite_tree, values: finite("n"), is_anchor: mask("n", some=False)
) -> jax.Array:
    """The value that each item adds to f [..., n]; f of a test pair is the sum of its two items."""
    machine = [jnp.asarray(field, jnp.float64)[..., None] for field in machine]
    slope, slope_seen, shift, shift_seen, bias = machine
    shape = (*slope.shape[:-1], len(values))
    values = jnp.broadcast_to(jnp.asarray(values, jnp.float64), shape)
    is_anchor = jnp.broadcast_to(jnp.asarray(is_anchor, bool), shape)
    unseen, seen = slope * (values + shift), slope_seen * (values + shift_seen)
    return jnp.where(is_anchor, seen, unseen) + bias / 2


# --- invariance and partial exposure --------------------------------------------------------------

HALF = number("[-0.500000001, 0.500000001]")  # -1/2 to 1/2 with rounding


@checked
@float64
def invariance_margin(k: HALF) -> jax.Array:
    """y f on items that are trained with one value of component 2 only; kappa = (0, k, 1)."""
    k = jnp.asarray(k, jnp.float64)
    return k / (1 - k)


@checked
@float64
def partial_exposure_margin(k: HALF) -> jax.Array:
    """y f on the held-out input, if one item is trained with both values of component 2."""
    k = jnp.asarray(k, jnp.float64)
    return 2 * k**2 / (1 - 2 * k**2)


# --- context dependence with a held-out pair of classes, CD-3 -------------------------------------


class ShortcutBias(NamedTuple):
    """Test margins y f on CD-3, each [...]; negative if the shortcut dominates."""

    regression: jax.Array  # of ridgeless regression
    svm: jax.Array  # of the hard-margin support-vector machine
    all_support: jax.Array  # whether all training inputs are support vectors: then both agree


@checked
@float64
def shortcut_bias(s1: finite(), s2: finite(), n_values: integer(1) = 3) -> ShortcutBias:
    """Margin on every test input of CD-3, from the saliences S(1; 3) and S(2; 3), [...].

    n_values: r, the values of each feature in each class. A bias, or kappa(0) > 0, has no effect:
    the task changes sign if contexts are exchanged and features are flipped.
    """
    s1, s2 = jnp.broadcast_arrays(jnp.asarray(s1, jnp.float64), jnp.asarray(s2, jnp.float64))
    s3, r = 1 - 3 * s1 - 3 * s2, n_values
    regression = (r**2 * (2 * s2**2 + 2 * r * s1 * s2 - s1 * s3)) / (
        s3**2 + 4 * r * s2 * s3 + 3 * r**2 * s1 * s3 + 2 * r**2 * s2**2 + 2 * r**3 * s1 * s2
    )
    # If the solution with all inputs as support vectors has a negative dual coefficient at the
    # inputs (context 0, f1 +, f2 +), then they and their mirror images are not support vectors.
    fewer = (
        r * (2 * r**2 * s1 * s2 + 3 * r * s2**2 + s2 * s3 - 2 * r**2 * s1**2 - r * s1 * s2)
    ) / (
        2 * r**3 * s1**2
        + 2 * r**3 * s1 * s2
        + 5 * r**2 * s1 * s2
        + 2 * r**2 * s1 * s3
        + 3 * r**2 * s2**2
        + 2 * r * s1 * s3
        + 2 * r * s2**2
        + 4 * r * s2 * s3
        + s2 * s3
        + s3**2
    )
    all_support = _dual_sign(s1, s2, r) > 0
    return ShortcutBias(regression, jnp.where(all_support, regression, fewer), all_support)


def _dual_sign(s1, s2, r):
    """B: the numerator of the dual coefficient of the inputs (context 0, f1 +, f2 +)."""
    s3 = 1 - 3 * s1 - 3 * s2
    return (
        -4 * r**3 * s1**2
        - 6 * r**2 * s1 * s2
        + 2 * r**2 * s1 * s3
        - 2 * r * s2**2
        + 3 * r * s2 * s3
        + s3**2
    )


@checked
@float64
def shortcut_boundary(
    s1: number("[0, 0.333333334]"),
    machine: choice("svm", "regression") = "svm",
    n_values: integer(1) = 3,
) -> jax.Array:
    """S(2; 3) above which the machine solves CD-3, for each S(1; 3) [...]: the phase boundary.

    Both are roots of quadratics: the numerators of the margins
    with s3 = 1 - 3 s1 - 3 s2 inserted.
    """
    s1, r = jnp.asarray(s1, jnp.float64), n_values
    regression = _positive_root(2.0, (2 * r + 3) * s1, -s1 * (1 - 3 * s1))
    if machine == "regression":
        return regression
    linear = 1 + (2 * r**2 - r - 3) * s1
    fewer = _positive_root(3.0 * (r - 1), linear, -2 * r**2 * s1**2)
    return jnp.where(_dual_sign(s1, regression, r) > 0, regression, fewer)


def _positive_root(a, b, c):
    """The positive root of a x^2 + b x + c, b >= 0 >= c, in a form that also holds for a = 0."""
    root = b + jnp.sqrt(jnp.square(b) - 4 * a * c)
    return jnp.where(root > 0, -2 * c / jnp.where(root > 0, root, 1), 0.0)
