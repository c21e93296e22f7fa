"""Products of float32 numbers in fewer digits, found in a trace.

Matrix units of GPUs and TPUs cut float32 operands to 10 or 7 bits unless a product asks for more.
`jax.default_matmul_precision` sets that for products that say nothing themselves; one that was
written with `precision="default"` says something, and no context changes it.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax import lax

_PRODUCTS = ("dot_general", "conv_general_dilated")
_EXACT = lax.Precision.HIGHEST
_Preset = lax.DotAlgorithmPreset
# Algorithms that keep float32's digits, or nearly.
_ENOUGH = (
    _Preset.F32_F32_F32, _Preset.F64_F64_F64, _Preset.TF32_TF32_F32_X3,
    _Preset.BF16_BF16_F32_X6, _Preset.BF16_BF16_F32_X9,
)  # fmt: skip


def cut_short(f: Callable, *args) -> list[str]:
    """The products of f(*args) that stay in fewer digits than "highest": how each one is stated.

    args: arrays, or their shapes; nothing is computed.
    """
    with jax.default_matmul_precision("highest"):
        jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    stated = [eqn.params["precision"] for eqn in equations(jaxpr) if _is_float32_product(eqn)]
    return [_named(precision) for precision in stated if not _is_enough(precision)]


def equations(jaxpr) -> Iterator:
    """All equations of a jaxpr, those of jits, loops, branches and kernels inside it too."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jax.tree.leaves(eqn.params, is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                yield from equations(getattr(inner, "jaxpr", inner))


def _is_jaxpr(value):
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _is_float32_product(eqn):
    # Halves are multiplied without an error, and float64 numbers have no shorter form.
    dtypes = [getattr(operand.aval, "dtype", None) for operand in eqn.invars]
    return eqn.primitive.name in _PRODUCTS and jnp.float32 in dtypes


def _is_enough(precision):
    both = precision if isinstance(precision, tuple) else (precision,)
    return all(one == _EXACT or one in _ENOUGH for one in both)


def _named(precision):
    one = precision[0] if isinstance(precision, tuple) else precision
    return getattr(one, "name", str(one))
