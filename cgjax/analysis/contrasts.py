"""Measures of how much a function mixes parts, from its Jacobian and Hessian.

The regularisers related to Wiedemer et al. 2023: the compositional contrast is zero if no output
mixes inputs (or no input feeds two parts); the Hessian terms are zero if no two parts interact.
Inputs and outputs are split into parts of equal size, in order; output part k belongs to input part
k. All functions of Jacobians [..., outputs, inputs] and Hessians [..., outputs, inputs, inputs]
average over the leading axes, except `hessian_offblock`, which sums.

>>> x = jnp.ones((8, 4))  # [n, inputs]; the function takes one sample
>>> float(block_contrast(jacobians(jnp.sin, x), n_parts=4))  # no output mixes inputs
0.0
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from cgjax.analysis.arguments import checked, finite, floating, integer


@checked
def jacobians(f: Callable, x: floating("n inputs")) -> jax.Array:
    """df/dx at every row of x: [n, outputs, inputs]; f maps [inputs] to [outputs]."""
    n_outputs, n_inputs = _sizes(f, x)
    # Reverse mode takes one pass per output, forward mode one per input: use the fewer passes.
    jacobian = jax.jacrev if n_outputs <= n_inputs else jax.jacfwd
    return jax.vmap(jacobian(f))(x)


@checked
def hessians(f: Callable, x: floating("n inputs")) -> jax.Array:
    """Second derivatives at every row of x: [n, outputs, inputs, inputs]."""
    n_outputs, n_inputs = _sizes(f, x)
    jacobian = jax.jacrev if n_outputs <= n_inputs else jax.jacfwd
    return jax.vmap(jax.jacfwd(jacobian(f)))(x)


@checked
def compositional_contrast(
    jacobians: finite("... outputs inputs"), signed: bool = False
) -> jax.Array:
    """Sum over outputs o and input pairs i < j of |J_oi| |J_oj|, averaged over samples.

    signed: without the absolute values; terms may cancel, and there is no lower bound.
    """
    return jnp.mean(jnp.sum(_pairs(_magnitude(jacobians, signed), axis=-1), axis=-1))


@checked
def block_contrast(
    jacobians: finite("... outputs inputs"), n_parts: integer(1), signed: bool = False
) -> jax.Array:
    """Sum over inputs i and output pairs o < o' of different parts of |J_oi| |J_o'i|, averaged.

    Zero if and only if every input feeds only one part of the outputs.
    """
    *lead, n_outputs, n_inputs = jacobians.shape
    _check_parts("outputs", n_outputs, n_parts)
    parts = _magnitude(jacobians, signed).reshape(*lead, n_parts, -1, n_inputs)
    return jnp.mean(jnp.sum(_pairs(jnp.sum(parts, axis=-2), axis=-2), axis=-1))


@checked
def hessian_l0(hessians: finite("... outputs inputs inputs")) -> jax.Array:
    """Mean number of non-zero Hessian entries; piecewise constant, so its gradient is zero."""
    return jnp.mean(jnp.sum(hessians != 0, axis=(-3, -2, -1)).astype(hessians.dtype))


@checked
def hessian_l1(hessians: finite("... outputs inputs inputs")) -> jax.Array:
    """Mean over samples of the sum of absolute Hessian entries."""
    return jnp.mean(jnp.sum(jnp.abs(hessians), axis=(-3, -2, -1)))


@checked
def hessian_offblock(
    hessians: finite("... outputs inputs inputs"), n_parts: integer(1), signed: bool = True
) -> jax.Array:
    """Sum over samples of the Hessian entries outside the block of each output part's inputs.

    signed: as in the reference, where entries of both signs cancel; False sums absolute values.
    """
    n_outputs, n_inputs = hessians.shape[-3:-1]
    _check_parts("outputs", n_outputs, n_parts)
    _check_parts("inputs", n_inputs, n_parts)
    output_part = jnp.arange(n_outputs) // (n_outputs // n_parts)
    input_part = jnp.arange(n_inputs) // (n_inputs // n_parts)
    same_part = output_part[:, None] == input_part[None]
    inside = same_part[:, :, None] & same_part[:, None, :]
    inside = jnp.broadcast_to(inside, hessians.shape)
    return jnp.sum(jnp.where(inside, 0, _magnitude(hessians, signed)))


# --- by name: f (one sample), x [n, inputs], n_parts -> number ------------------------------------


def _of_jacobians(measure):
    return lambda f, x, n_parts: measure(jacobians(f, x), n_parts)


def _of_hessians(measure):
    return lambda f, x, n_parts: measure(hessians(f, x), n_parts)


REGULARISERS = {
    "none": lambda f, x, n_parts: jnp.zeros(()),
    "input_contrast": _of_jacobians(lambda jac, _: compositional_contrast(jac)),
    "block_contrast": _of_jacobians(block_contrast),
    "signed_contrast": _of_jacobians(lambda jac, _: compositional_contrast(jac, signed=True)),
    "hessian_offblock": _of_hessians(hessian_offblock),
}
MEASURES = {  # the last two are for evaluation only
    **REGULARISERS,
    "hessian_l0": _of_hessians(lambda hess, _: hessian_l0(hess)),
    "hessian_l1": _of_hessians(lambda hess, _: hessian_l1(hess)),
}

# --- helpers --------------------------------------------------------------------------------------


def _pairs(values, axis):
    """Sum over pairs a < b along `axis` of v_a v_b, without forming them."""
    # ((sum v)^2 - sum v^2) / 2, written so that a single non-zero value gives exactly 0.
    others = jnp.sum(values, axis, keepdims=True) - values
    return jnp.sum(values * others, axis) / 2


def _magnitude(values, signed):
    # JAX's |v| has slope 1 at 0, which would push zero entries away from 0.
    return values if signed else values * jnp.sign(values)


def _sizes(f, x):
    """Numbers of outputs and inputs of f, which takes one row of x."""
    out = jax.eval_shape(f, jnp.asarray(x[0]))
    if not hasattr(out, "shape") or len(out.shape) != 1:
        raise ValueError(f"f must map one sample [{x.shape[1]}] to a vector, it returns {out}")
    return out.shape[0], x.shape[1]


def _check_parts(what, size, n_parts):
    if size % n_parts:
        raise ValueError(f"n_parts: {size} {what} do not divide into {n_parts} parts of equal size")
