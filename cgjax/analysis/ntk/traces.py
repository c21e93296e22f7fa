"""What an NTK asks of f(params, x): each sample treated on its own, products in enough digits."""

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cgjax.analysis import checks
from cgjax.analysis.ntk import layers

# Functions that were looked at, and then for their digits, which not every caller asks for.
_SEEN, _READ = weakref.WeakSet(), weakref.WeakSet()


def warn_once(f: Callable, params, x, precision: str = "highest") -> None:
    """Once for each f, says where it mixes samples, or has fewer digits than asked for."""
    in_full = precision in FULL
    if f in (_READ if in_full else _SEEN):  # first, for small kernels take little time
        return
    n = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(x)}
    if not checks.known(params, x) or n & {(), (0,), (1,)} or len(n) != 1:
        return
    few = jax.tree.map(lambda a: a[:8], x)
    if _is_new(f, _SEEN) and (gap := float(mixing(f, params, few))) > 0:
        warnings.warn(
            f"f mixes samples: one has outputs that differ by {gap:.2g} of the largest with what "
            "it is evaluated with; the kernel is that of f on single samples. BatchNorm: in "
            "evaluation mode",
            stacklevel=3,
        )
    on_cpu = jax.default_backend() == "cpu"  # which has no other digits
    if in_full and _is_new(f, _READ) and not on_cpu:
        if cut := cut_short(f, params, few):
            warnings.warn(
                f"f states precision '{cut[0]}' itself, in {len(cut)} products of float32 "
                f"numbers: the kernel has no more digits than they, though '{precision}' was "
                "asked for",
                stacklevel=3,
            )


def _is_new(f, known):
    if f in known:
        return False
    with contextlib.suppress(TypeError):  # what cannot be remembered is looked at again
        known.add(f)
    return True


@functools.partial(jax.jit, static_argnames="f")
def mixing(f: Callable, params, x) -> jax.Array:
    """By how much of the largest output a sample's change with what else is in x; 0: rounding.

    Once the others are changed, in the same program: then nothing but mixing moves a sample's
    outputs. Once the sample is alone, in another program, whose rounding counts: it has the digits
    of the shortest numbers in f.
    """
    n = len(jax.tree.leaves(x)[0])
    rows = jnp.stack([jnp.arange(n), jnp.arange(n) * (jnp.arange(n) % 2 == 0)])
    with jax.default_matmul_precision("highest"):
        alone = jax.lax.map(lambda one: layers.single(f, params, one), x)
        together = jax.lax.map(lambda rows: f(params, jax.tree.map(lambda a: a[rows], x)), rows)
        eps = shortest(f, params, x)
    if together.size != 2 * alone.size:
        return jnp.zeros(())  # no outputs for each sample: told elsewhere
    together, among_others = together.reshape(2, *alone.shape)
    largest = jnp.maximum(jnp.max(jnp.abs(alone)), jnp.max(jnp.abs(together)))

    def gap(a, b, eps):
        found = jnp.max(jnp.abs(a - b)) / jnp.maximum(largest, 1e-30)
        return jnp.where(found > max(eps**0.5, 1e-4), found, 0.0)

    own = float(jnp.finfo(alone.dtype).eps)
    return jnp.maximum(gap(together[::2], among_others[::2], own), gap(together, alone, eps))


# --- how many digits f computes with, read from its trace; nothing is computed --------------------
# Matrix units of GPUs and TPUs cut float32 operands to 10 or 7 bits unless a product asks for more.
# `jax.default_matmul_precision` sets that for products that say nothing themselves; one that was
# written with `precision="default"` says something, and no context changes it.


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
