"""Empirical neural tangent kernels of any f(params, x), and scores computed from them.

Theta(x, x')_ab = sum over parameters of (df_a(x)/dtheta)(df_b(x')/dtheta). f maps x [n, ...] to
[n, outputs] and treats each sample independently (BatchNorm in evaluation mode). f is compiled
once: pass the same function object again to reuse its programs. All results have the dtype of
params. Leaves that are not floating-point, such as counters and keys, are not parameters.
With flax.nnx:

    graph, params, rest = nnx.split(model, nnx.Param, ...)  # after model.eval()
    kernel = empirical(lambda params, x: nnx.merge(graph, params, rest)(x), params, x)
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks, machines
from cgjax.analysis.ntk import functions, programs
from cgjax.analysis.ntk import plan as ntk_plan
from cgjax.analysis.ntk.linearised import is_of, kernel_vector_product, linearised_fit
from cgjax.core.logging import say

__all__ = [
    "alignment",
    "drift",
    "empirical",
    "jacobian",
    "kernel_vector_product",
    "linearised_fit",
    "ntk_regression",
    "target_alignment",
]


def empirical(
    f: Callable,
    params,
    x1,
    x2=None,
    form: str = "full",
    algorithm: str = "auto",
    memory: float | None = None,
    tile: int | None = None,
    devices=None,
    precision: str = "highest",
    verbose: bool = False,
) -> jax.Array:
    """The NTK between x1 [n1, ...] and x2 [n2, ...]; x2 None: x1 with itself, by symmetry.

    params: any tree; of a mapping with "params" (linen's variables) only that is differentiated.
    form: "full" [n1, n2, outputs, outputs]; "per_output" [n1, n2, outputs], its diagonal; "trace"
        [n1, n2], the diagonal's sum, and "mean_trace", its mean; "mean_output" [n1, n2], the kernel
        of the mean output.
    algorithm: "jacobian" contracts per-sample Jacobians; "vector" computes NTK-vector products,
        one parameter vector at a time; "structured" works layer by layer (`ntk.layers` lists the
        layers that it detects); "auto" chooses the cheapest that fits in memory.
    memory: bytes to use on each device, those of the kernel included; by default the kernel and
        half of what is free beside it. If the Jacobians take more, the kernel is computed in tiles
        of `tile` samples (by default chosen from the memory). A kernel that is larger than the
        memory is refused before anything is computed.
    devices: the devices that share the work; by default all, if the kernel is large enough.
    precision: of the matrix products, one of JAX's. "highest", the default, multiplies all digits
        of float32 on every device. "default" is TF32 on a GPU: on an H200 a ConvNet's kernel of
        2,000 images takes 27.5 ms instead of 65.9 ms, with an error of 1e-2 instead of 7e-7. A
        product for which f states a precision keeps it; a warning reports if digits are lost.
    verbose: print the plan: algorithm, operations, memory, tiles.

    If NaN or infinity in an argument reaches the kernel, an error names the argument. The check
    waits for the kernel; inside a jit of the caller there is none.

    >>> empirical(lambda params, x: x @ params, jnp.ones((3, 2)), jnp.ones((6, 3))).shape
    (6, 6, 2, 2)
    """
    x2 = None if x2 is x1 else x2
    plan = ntk_plan.plan(f, params, x1, x2, form, algorithm, memory, tile, devices, precision)
    if verbose:
        say(plan.text)
    functions.warn_once(f, params, x1, precision)
    kernel = programs.kernel(f, params, x1, x2, plan, devices)
    return checks.finite_result(kernel, params=params, x1=x1, x2=x2)


def jacobian(f: Callable, params, x, precision: str = "highest") -> Any:
    """Per-sample Jacobians: params' tree, leaves [n, outputs, *leaf]; None for constant leaves."""
    checks.finite_leaves(params=params, x=x)
    checks.samples(x=x)
    return _jacobian(f, params, x, precision=precision)


@functions.jit
def _jacobian(f, params, x, *, precision):
    with functions.digits(precision):
        free, merge = functions.floats(params)
        sample_jacobian = jax.jacrev(lambda free, x: functions.single(f, merge(free), x))
        jacobians = jax.vmap(sample_jacobian, in_axes=(None, 0))(free, x)
    jacobians, is_free = iter(jacobians), functions.is_free(params)
    leaves = [next(jacobians) if free else None for free in is_free]
    return jax.tree.structure(params).unflatten(leaves)


# --- scores of kernels ----------------------------------------------------------------------------


def ntk_regression(
    f: Callable, params, x_train, y_train, x_test, penalty: float | None = None, **options
) -> jax.Array:
    """f linearised at params and trained to convergence: f0 + K_test K_train^+ (y - f0).

    y_train: [n, outputs] (or [n]); returns predictions [n_test, outputs]. penalty: of a ridge
    regression; by default 0 in float64, and otherwise eps * trace(K_train), the size of zero
    eigenvalues after rounding. options: those of `empirical`.
    """
    checks.finite_leaves(params=params, x_train=x_train, x_test=x_test)
    checks.finite(y_train=y_train)
    checks.samples(x_train=x_train, x_test=x_test)
    if penalty is not None:
        checks.bounded("penalty", penalty, 0)
    f_train, f_test = (f(params, x) for x in (x_train, x_test))
    if not is_of(np.shape(y_train), f_train.shape):
        raise ValueError(f"y_train is {np.shape(y_train)}, but f gives {f_train.shape}")
    f_train, f_test = (out.reshape(len(out), -1) for out in (f_train, f_test))
    form = options.get("form", "full")
    if form == "per_output" or (form != "full" and f_train.shape[1] > 1):
        raise ValueError(
            f"form '{form}': ntk_regression needs the kernel of all outputs; use 'full'"
        )
    k_train = _matrix(empirical(f, params, x_train, **options))
    k_test = _matrix(empirical(f, params, x_test, x_train, **options))
    if penalty is None:
        eps = float(jnp.finfo(k_train.dtype).eps)
        penalty = eps * float(jnp.trace(k_train)) if eps > 1e-10 else 0.0
    residual = np.reshape(y_train, -1) - np.asarray(f_train, np.float64).reshape(-1)
    change = machines.ridge(k_train, residual, k_test, penalty)
    return f_test + jnp.asarray(change, f_test.dtype).reshape(f_test.shape)


def _matrix(kernel):
    """[n1, n2, o, o] as [n1 o, n2 o]; [n1, n2] unchanged."""
    if kernel.ndim == 2:
        return kernel
    n1, n2, o, _ = kernel.shape
    return kernel.transpose(0, 2, 1, 3).reshape(n1 * o, n2 * o)


def drift(before: jax.Array, after: jax.Array) -> jax.Array:
    """Relative change of a kernel: Frobenius norm of the change over that of `before`."""
    _check_pair(before=before, after=after)
    distance = jnp.linalg.norm((after - before).ravel()) / jnp.linalg.norm(before.ravel())
    return _scored(distance, before=before, after=after)


def alignment(a: jax.Array, b: jax.Array) -> jax.Array:
    """Cosine between two kernels of one shape: 1 if they differ only by a positive factor."""
    _check_pair(a=a, b=b)
    cosine = _cosine(a, b)
    return _scored(cosine, a=a, b=b)


def target_alignment(kernel: jax.Array, y: jax.Array) -> jax.Array:
    """Cosine between a kernel, [n, n] or [n, n, o, o], and y y^T; y [n, o], or [n].

    For [n, n] the target kernel is y_i . y_j; for [n, n, o, o] it is y_ia y_jb.
    """
    checks.real("kernel", kernel)
    if kernel.ndim not in (2, 4):
        raise ValueError(f"kernel is [n, n] or [n, n, o, o], got {kernel.shape}")
    matrix = _matrix(kernel)
    checks.symmetric("kernel", matrix)
    y = checks.real("y", y)
    is_whole = kernel.ndim == 2 or y.size == len(matrix)
    if y.shape[:1] != kernel.shape[:1] or y.ndim > 2 or not is_whole:
        raise ValueError(f"y is [n] or [n, o] for a kernel {kernel.shape}, got {y.shape}")
    if kernel.ndim == 2:
        y = y.reshape(len(y), -1)
        target_kernel = jnp.matmul(y, y.T, precision="highest")
        return _scored(_cosine(kernel, target_kernel), kernel=kernel, y=y)
    return _scored(_cosine(matrix, jnp.outer(y.ravel(), y.ravel())), kernel=kernel, y=y)


def _cosine(a, b):
    a, b = a.ravel(), b.ravel()
    return jnp.vdot(a, b, precision="highest") / (jnp.linalg.norm(a) * jnp.linalg.norm(b))


def _check_pair(**given):
    shapes = [checks.real(name, kernel).shape for name, kernel in given.items()]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{' and '.join(given)} need one shape, got {shapes[0]} and {shapes[1]}")


def _scored(score, **given):
    """The score; if it is not finite, an error names the argument that causes it."""
    if checks.known(score) and not np.isfinite(score):
        checks.finite(**given)
        for name, kernel in given.items():
            if not np.any(np.asarray(kernel)):
                raise ValueError(f"{name} is zero everywhere: a ratio to its norm is undefined")
    return score
