"""f(params, x) as an NTK uses it: its arguments, programs that live as long as f, its digits."""

import functools
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from cgjax.analysis import checks

# --- arguments ------------------------------------------------------------------------------------


def single(f: Callable, params, x) -> jax.Array:
    """f at one sample without its batch axis: [outputs]."""
    out = f(params, jax.tree.map(lambda a: a[None], x))
    if not hasattr(out, "shape") or out.ndim < 1 or len(out) != 1:
        raise ValueError("f(params, x) must map x [n, ...] to one array [n, outputs]")
    check_outputs(out)
    return out.reshape(-1)


def check_outputs(*outputs) -> None:
    for out in outputs:
        if not is_float(out):
            raise ValueError(
                f"f(params, x) must return real floating-point outputs, not {out.dtype}"
            )


def is_free(params) -> list[bool]:
    """Which leaves are differentiated: floating-point ones, of linen's variables only "params"."""
    paths = jax.tree_util.tree_leaves_with_path(params)
    is_linen = isinstance(params, Mapping) and "params" in params
    return [
        is_float(leaf) and (not is_linen or getattr(path[0], "key", None) == "params")
        for path, leaf in paths
    ]


def floats(params) -> tuple[list, Callable]:
    """The leaves that are differentiated, and a function that merges them into the tree again."""
    leaves, tree = jax.tree.flatten(params)
    places = [i for i, free in enumerate(is_free(params)) if free]

    def merge(free):
        merged = list(leaves)
        for place, leaf in zip(places, free):
            merged[place] = leaf
        return tree.unflatten(merged)

    return [leaves[i] for i in places], merge


def is_float(leaf) -> bool:
    """Whether a leaf can be differentiated; counters, for example, cannot."""
    return jnp.issubdtype(dtype(leaf), jnp.floating)


def dtype(leaf):
    """The dtype of an array, a number or a PRNG key; `jnp.result_type` fails for keys."""
    leaf_dtype = getattr(leaf, "dtype", None)
    is_key = leaf_dtype is not None and jnp.issubdtype(leaf_dtype, jax.dtypes.extended)
    return leaf_dtype if is_key else jnp.result_type(leaf)


def length(x) -> int:
    """The number of samples of a tree, leaves [n, ...]."""
    return len(jax.tree.leaves(x)[0])


# --- what lives as long as f ----------------------------------------------------------------------


def once_for_each(make: Callable) -> Callable:
    """A function of f that returns make(reference), called once for each f and kept as long as f.

    reference() returns f. `functools.cache` would keep f, and all arrays that it closes over, in
    memory; so would `jax.jit` with f as a static argument.
    """
    values = {}

    def forget(reference):
        values.pop(reference, None)

    def value(f):
        reference = _reference(f, forget)
        if reference is None:
            return make(lambda: f)
        if reference not in values:
            values[reference] = make(reference)
        return values[reference]

    return value


def _reference(f, forget):
    """A weak reference that serves as a key, or None if f has no weak references or no hash."""
    kind = weakref.WeakMethod if inspect.ismethod(f) else weakref.ref
    try:
        reference = kind(f, forget)
        hash(reference)
    except TypeError:
        return None
    return reference


def jit(function: Callable) -> Callable:
    """`jax.jit` of function(f, *arrays, *, **static), with programs that live as long as f."""
    parameters = inspect.signature(function).parameters.values()
    static = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]

    @once_for_each
    def program(reference):
        def call(*arrays, **options):
            return function(reference(), *arrays, **options)

        call.__name__ = function.__name__
        return jax.jit(call, static_argnames=static)

    @functools.wraps(function)
    def compiled(f, *arrays, **options):
        return program(f)(*arrays, **options)

    return compiled


# --- warnings -------------------------------------------------------------------------------------

_passed = once_for_each(lambda reference: set())  # names of the checks below


def warn_once(f: Callable, params, x, precision: str = "highest") -> None:
    """Warns, once for each f, if it mixes samples or has fewer digits than `precision`."""
    passed, needed = _passed(f), {"mixing", "digits"} if precision in FULL else {"mixing"}
    if needed <= passed:  # tested first, because small kernels are fast
        return
    n = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(x)}
    if not checks.known(params, x) or n & {(), (0,), (1,)} or len(n) != 1:
        return
    few = jax.tree.map(lambda a: a[:8], x)
    if "mixing" not in passed and (gap := float(mixing(f, params, few))) > 0:
        warnings.warn(
            "f mixes samples: with other samples in the batch, a sample's outputs change by "
            f"{gap:.2g} of the largest output; the kernel is that of f on single samples. Put "
            "BatchNorm in evaluation mode",
            stacklevel=3,
        )
    on_cpu = jax.default_backend() == "cpu"  # a CPU always computes with all digits
    if "digits" in needed - passed and not on_cpu and (cut := cut_short(f, params, few)):
        warnings.warn(
            f"f states precision '{cut[0]}' itself, in {len(cut)} products of float32 "
            f"numbers: the kernel has only their digits, not those of '{precision}'",
            stacklevel=3,
        )
    passed |= needed


def mixing(f: Callable, params, x) -> float:
    """The change of a sample's outputs with the other samples of x, relative to the largest output.

    0: no more than rounding. There are two tests. The first changes the other samples, in the same
    program: only mixing can change the outputs. The second evaluates the sample alone, in another
    program: rounding can change the outputs, too, by the epsilon of the shortest dtype in f.
    """
    alone, together, eps = _alone_and_together(f, params, x)
    if together.size != 2 * alone.size:
        return 0.0  # f does not map samples to outputs: `single` raises that error
    # On the host: a program of the outputs alone compiles in two thirds of the time.
    eps_output = float(jnp.finfo(alone.dtype).eps)
    alone, together = (np.asarray(outputs, np.float64) for outputs in (alone, together))
    together, among_others = together.reshape(2, *alone.shape)
    largest = max(np.max(np.abs(alone)), np.max(np.abs(together)), 1e-30)

    def gap(a, b, eps):
        with np.errstate(invalid="ignore"):  # infinite outputs are no sign of mixing
            gap_ratio = float(np.max(np.abs(a - b)) / largest)
        return gap_ratio if gap_ratio > max(eps**0.5, 1e-4) else 0.0

    return max(gap(together[::2], among_others[::2], eps_output), gap(together, alone, float(eps)))


@jit
def _alone_and_together(f, params, x):
    """f of each sample [n, ...]; of all, as they are and with others in odd rows; f's rounding."""
    n = len(jax.tree.leaves(x)[0])
    rows = np.stack([np.arange(n), np.arange(n) * (np.arange(n) % 2 == 0)])
    with jax.default_matmul_precision("highest"):
        alone = jax.lax.map(lambda sample: single(f, params, sample), x)
        together = jax.lax.map(lambda rows: f(params, jax.tree.map(lambda a: a[rows], x)), rows)
        return alone, together, shortest(f, params, x)


# --- the digits that f computes with, from its trace alone ----------------------------------------
# Matrix units of GPUs and TPUs cut float32 operands to 10 or 7 bits unless a product requests more.
# `jax.default_matmul_precision` sets the precision of products that do not state one; a product
# with `precision="default"` states one, and the context does not change it.


FULL = ("highest", "float32")  # precisions that mean all digits of float32
PRODUCTS = ("dot_general", "conv_general_dilated")
_Preset = lax.DotAlgorithmPreset
_ENOUGH = (
    lax.Precision.HIGHEST,
    _Preset.F32_F32_F32,
    _Preset.F64_F64_F64,
    _Preset.TF32_TF32_F32_X3,
    _Preset.BF16_BF16_F32_X6,
    _Preset.BF16_BF16_F32_X9,
)
_TF32 = 2.0**-10


def digits(precision: str):
    """A context in which matrix products have this precision."""
    try:
        return jax.default_matmul_precision(precision)
    except ValueError:
        raise ValueError(
            f"unknown precision '{precision}': use one of JAX's, such as 'highest'"
        ) from None


def cut_short(f: Callable, *args) -> list[str]:
    """The stated precision of each product of f(*args) that has fewer digits than "highest".

    args: arrays, or their shapes.
    """
    return [_name(eqn) for eqn in _traced(f, *args) if is_cut(eqn)]


def shortest(f: Callable, *args) -> float:
    """Relative rounding of the shortest floating-point numbers that f(*args) computes with."""
    roundings = {0.0}
    for eqn in _traced(f, *args):
        dtypes = {var.aval.dtype for var in eqn.outvars if hasattr(var.aval, "dtype")}
        roundings |= {float(jnp.finfo(d).eps) for d in dtypes if jnp.issubdtype(d, jnp.floating)}
        roundings |= {_TF32} if is_cut(eqn) else set()
    return max(roundings)


def _traced(f, *args) -> Iterator:
    """The equations of f(*args) where the context requests "highest"."""
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


def is_cut(eqn) -> bool:
    """Whether an equation is a product that may cut float32 operands."""
    # Products of shorter dtypes are exact, and float64 is never cut.
    if eqn.primitive.name not in PRODUCTS:
        return False
    if jnp.float32 not in [operand.aval.dtype for operand in eqn.invars]:
        return False
    return any(precision not in _ENOUGH for precision in _stated(eqn))


def _stated(eqn):
    precision = eqn.params["precision"]
    return precision if isinstance(precision, tuple) else (precision,)


def _name(eqn):
    precision = _stated(eqn)[0]
    return getattr(precision, "name", str(precision)).lower()
