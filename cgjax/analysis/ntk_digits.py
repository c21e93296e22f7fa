"""How many digits f computes with, read from its trace; nothing is computed.

Matrix units of GPUs and TPUs cut float32 operands to 10 or 7 bits unless a product asks for more.
`jax.default_matmul_precision` sets that for products that say nothing themselves; one that was
written with `precision="default"` says something, and no context changes it.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax import lax

FULL = ("highest", "float32", "float32x3")  # precisions that mean all digits of float32
PRODUCTS = ("dot_general", "conv_general_dilated")
_Preset = lax.DotAlgorithmPreset
_ENOUGH = (
    lax.Precision.HIGHEST, _Preset.F32_F32_F32, _Preset.F64_F64_F64, _Preset.TF32_TF32_F32_X3,
    _Preset.BF16_BF16_F32_X6, _Preset.BF16_BF16_F32_X9,
)  # fmt: skip
_TF32 = 2.0**-10


def cut_short(f: Callable, *args) -> list[str]:
    """How the products of f(*args) are stated that stay in fewer digits than "highest".

    args: arrays, or their shapes.
    """
    return [_name(eqn) for eqn in _traced(f, *args) if _is_cut(eqn)]


def shortest(f: Callable, *args) -> float:
    """Relative rounding of the shortest floating-point numbers that f(*args) computes with."""
    found = {0.0}
    for eqn in _traced(f, *args):
        dtypes = {var.aval.dtype for var in eqn.outvars if hasattr(var.aval, "dtype")}
        found |= {float(jnp.finfo(d).eps) for d in dtypes if jnp.issubdtype(d, jnp.floating)}
        found |= {_TF32} if _is_cut(eqn) else set()
    return max(found)


def _traced(f, *args) -> Iterator:
    """The equations of f(*args) where the context asks for "highest"."""
    with jax.default_matmul_precision("highest"):
        return equations(jax.make_jaxpr(f)(*args).jaxpr)


def equations(jaxpr) -> Iterator:
    """All equations of a jaxpr, those of jits, loops, branches and kernels inside it too."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jax.tree.leaves(eqn.params, is_leaf=_is_jaxpr):
            if _is_jaxpr(inner):
                yield from equations(getattr(inner, "jaxpr", inner))


def _is_jaxpr(value):
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _is_cut(eqn):
    # Shorter numbers are multiplied without an error, and float64 has no shorter form.
    if eqn.primitive.name not in PRODUCTS:
        return False
    if jnp.float32 not in [operand.aval.dtype for operand in eqn.invars]:
        return False
    return any(one not in _ENOUGH for one in _stated(eqn))


def _stated(eqn):
    precision = eqn.params["precision"]
    return precision if isinstance(precision, tuple) else (precision,)


def _name(eqn):
    one = _stated(eqn)[0]
    return getattr(one, "name", str(one)).lower()
