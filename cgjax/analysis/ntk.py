"""Empirical neural tangent kernels of any f(params, x), and what is done with them.

Theta(x, x')_ab = sum over parameters of (df_a(x)/dtheta)(df_b(x')/dtheta). f maps x [n, ...] to
[n, outputs], each sample on its own (BatchNorm in evaluation mode), and is compiled once: pass the
same function object again to reuse its programs. Everything works in the dtype of params; leaves
that are no floating-point numbers, such as counters and keys, are no parameters. With flax.nnx:

    graph, params, rest = nnx.split(model, nnx.Param, ...)  # after model.eval()
    kernel = empirical(lambda params, x: nnx.merge(graph, params, rest)(x), params, x)
"""

import contextlib
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cgjax.analysis import checks, machines, ntk_blocks, ntk_layers, ntk_plan
from cgjax.analysis.linearised import linearised_fit
from cgjax.analysis.ntk_mixing import warn_of_mixing
from cgjax.analysis.ntk_vector import blamed, digits, is_of, kernel_vector_product, length
from cgjax.core import parallel
from cgjax.core.logging import say

__all__ = [
    "alignment", "drift", "empirical", "jacobian", "kernel_vector_product", "linearised_fit",
    "ntk_regression", "target_alignment",
]  # fmt: skip


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
    verbose: bool = True,
) -> jax.Array:
    """The NTK between x1 [n1, ...] and x2 [n2, ...]; x2 None: x1 with itself, by symmetry.

    form: "full" [n1, n2, outputs, outputs]; "per_output" [n1, n2, outputs], its diagonal; "trace"
        [n1, n2], the diagonal's sum, and "mean_trace", its mean; "mean_output" [n1, n2], the kernel
        of the mean output.
    algorithm: "jacobian" contracts per-sample Jacobians; "vector" takes NTK-vector products, one
        parameter vector at a time; "structured" goes layer by layer (`ntk_layers` says which
        layers it finds by itself); "auto" takes the cheapest that fits, and prints why.
    memory: bytes to use on each device; by default half of what is free. Larger kernels are
        streamed in tiles of `tile` samples (by default chosen from the memory).
    devices: to share the work; by default all, where there is enough of it.
    verbose: say what it will cost, a small kernel when it is compiled only.

    >>> empirical(f, params, x).shape
    (6, 6, 2, 2)
    """
    x2 = None if x2 is x1 else x2
    warn_of_mixing(f, params, x1)
    if memory is None and tile is None and devices is None:
        try:
            found = _small(f, params, x1, x2, form, algorithm, precision, verbose)
            return blamed(found, params=params, x1=x1, x2=x2)
        except _NotSmall:
            pass
    plan = ntk_plan.plan(f, params, x1, x2, form, algorithm, memory, tile, devices)
    if verbose:
        say(plan.text)
    how = (form, plan.algorithm, plan.directions, precision)
    is_one = devices is not None and plan.n_devices == 1
    devices = list(jax.local_devices() if devices is None else devices)[: plan.n_devices]
    with jax.default_device(devices[0]) if is_one else contextlib.nullcontext():
        if plan.is_whole:
            found = _whole(f, params, x1, x2, how)
        else:
            found = _streamed(f, params, x1, x2, how, plan, devices)
    return blamed(found, params=params, x1=x1, x2=x2)


def jacobian(f: Callable, params, x, precision: str = "highest"):
    """Per-sample Jacobians: params' tree with leaves [n, outputs, *leaf], None for no parameter."""
    checks.finite_leaves(params=params, x=x)
    ntk_plan.check_samples(x=x)
    return _jacobian(f, params, x, precision)


@functools.partial(jax.jit, static_argnames=("f", "precision"))
def _jacobian(f, params, x, precision):
    with digits(precision):
        free, merge = ntk_blocks.floats(params)
        one = jax.jacrev(lambda free, x: ntk_layers.single(f, merge(free), x))
        found = jax.vmap(one, in_axes=(None, 0))(free, x)
    leaves, tree = jax.tree.flatten(params)
    found = iter(found)
    return tree.unflatten([next(found) if ntk_layers.is_float(a) else None for a in leaves])


# --- programs -------------------------------------------------------------------------------------


class _NotSmall(Exception):
    """Raised while `_small` is traced."""


@functools.partial(jax.jit, static_argnames=("f", "form", "algorithm", "precision", "verbose"))
def _small(f, params, x1, x2, form, algorithm, precision, verbose):
    """Plans while it is traced: a small kernel takes less time than to look up its plan."""
    plan = ntk_plan.small(f, params, x1, x2, form, algorithm)
    if plan is None:
        raise _NotSmall
    if verbose:
        say(plan.text)
    return _whole(f, params, x1, x2, (form, plan.algorithm, plan.directions, precision))


@functools.partial(jax.jit, static_argnames=("f", "how"))
def _whole(f, params, x1, x2, how):
    form, algorithm, directions, precision = how
    with digits(precision):
        if algorithm == "vector":
            x2 = x1 if x2 is None else x2
            return ntk_blocks.vector_block(f, params, x1, x2, form, directions)
        left = ntk_blocks.factors(f, params, x1, form, algorithm)
        right = left if x2 is None else ntk_blocks.factors(f, params, x2, form, algorithm)
        return ntk_blocks.contract(left, right, form)


@functools.partial(jax.jit, static_argnames=("f", "how", "mesh"))
def _tile_factors(f, params, x, how, mesh):
    form, algorithm, _, precision = how

    def factors(params, x):
        with digits(precision):
            return ntk_blocks.factors(f, params, x, form, algorithm)

    return _over(mesh, factors, (P(), P("data")))(params, x)


@functools.partial(jax.jit, static_argnames=("how", "mesh"))
def _tile_contract(left, right, how, mesh):
    form, _, _, precision = how

    def contract(left, right):
        gather = functools.partial(jax.lax.all_gather, axis_name="data", tiled=True)
        with digits(precision):
            return ntk_blocks.contract(left, jax.tree.map(gather, right) if mesh else right, form)

    return _over(mesh, contract, (P("data"), P("data")))(left, right)


@functools.partial(jax.jit, static_argnames=("f", "how", "mesh"))
def _tile_vector(f, params, x1, x2, how, mesh):
    form, _, directions, precision = how

    def block(params, x1, x2):
        with digits(precision):
            return ntk_blocks.vector_block(f, params, x1, x2, form, directions)

    return _over(mesh, block, (P(), P("data"), P()))(params, x1, x2)


def _over(mesh, function, specs):
    """The same function on each device's rows."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("data"), check_vma=False)


# --- tiles ----------------------------------------------------------------------------------------


def _streamed(f, params, x1, x2, how, plan, devices):
    """The kernel tile by tile, collected in host memory."""
    mesh = None if len(devices) == 1 else Mesh(np.array(devices), ("data",))
    if mesh:
        params = jax.device_put(params, NamedSharding(mesh, P()))
    n1, n2 = length(x1), length(x1 if x2 is None else x2)
    kernel = None
    for i, j, block in _one_late(_blocks(f, params, x1, x2, how, plan, mesh)):
        block = parallel.fetch(block)
        if kernel is None:
            kernel = np.empty((n1, n2, *block.shape[2:]), block.dtype)
        rows, columns = (slice(k * plan.tile, (k + 1) * plan.tile) for k in (i, j))
        here = kernel[rows, columns]
        here[...] = block[: here.shape[0], : here.shape[1]]
        if x2 is None and i != j:
            outputs = (3, 2) if how[0] == "full" else range(2, here.ndim)
            kernel[columns, rows] = here.transpose(1, 0, *outputs)
    return jax.device_put(kernel, may_alias=True)


def _one_late(blocks):
    """Hands a block on when the next is under way, so that no device waits for the copy."""
    waiting = next(blocks)
    for block in blocks:
        yield waiting
        waiting = block
    yield waiting


def _blocks(f, params, x1, x2, how, plan, mesh):
    """(i, j, kernel of tiles i and j) for all pairs of tiles; if symmetric, for i <= j."""
    symmetric = x2 is None
    x2 = x1 if symmetric else x2
    vector = plan.algorithm == "vector"

    def side(x, k, spec):
        rows = np.minimum(np.arange(k * plan.tile, (k + 1) * plan.tile), length(x) - 1)
        tile = jax.tree.map(lambda a: a[rows], x)
        tile = jax.device_put(tile, NamedSharding(mesh, spec)) if mesh else tile
        return tile if vector else _tile_factors(f, params, tile, how, mesh)

    n_tiles = math.ceil(length(x1) / plan.tile)
    for start in range(0, n_tiles, plan.held):
        group = range(start, min(start + plan.held, n_tiles))
        held = {i: side(x1, i, P("data")) for i in group}
        for j in range(start if symmetric else 0, math.ceil(length(x2) / plan.tile)):
            known = symmetric and not vector and j in held
            right = held[j] if known else side(x2, j, P() if vector else P("data"))
            for i, left in held.items():
                if symmetric and i > j:
                    continue
                if vector:
                    yield i, j, _tile_vector(f, params, left, right, how, mesh)
                else:
                    yield i, j, _tile_contract(left, right, how, mesh)


# --- what is done with a kernel -------------------------------------------------------------------


def ntk_regression(
    f: Callable, params, x_train, y_train, x_test, penalty: float | None = None, **options
) -> jax.Array:
    """f linearised at params and trained to the end: f0 + K_test K_train^+ (y - f0).

    y_train: [n, outputs] (or [n]); returns predictions [n_test, outputs]. penalty: of a ridge
    regression instead; by default none in float64, else what rounding leaves of zero eigenvalues.
    options: those of `empirical`.
    """
    checks.finite_leaves(x_train=x_train, x_test=x_test)
    checks.finite(y_train=y_train)
    ntk_plan.check_samples(x_train=x_train, x_test=x_test)
    if penalty is not None:
        checks.bounded("penalty", penalty, 0)
    f_train, f_test = (f(params, x) for x in (x_train, x_test))
    if not is_of(np.shape(y_train), f_train.shape):
        raise ValueError(f"y_train is {np.shape(y_train)}, but f gives {f_train.shape}")
    f_train, f_test = (out.reshape(len(out), -1) for out in (f_train, f_test))
    form = options.get("form", "full")
    if form == "per_output" or (form != "full" and f_train.shape[1] > 1):
        raise ValueError(f"form '{form}': regression takes the full kernel of all outputs")
    k_train = _matrix(empirical(f, params, x_train, **options))
    k_test = _matrix(empirical(f, params, x_test, x_train, **options))
    if penalty is None:
        eps = float(jnp.finfo(k_train.dtype).eps)
        penalty = eps * float(jnp.trace(k_train)) if eps > 1e-10 else 0.0
    residual = np.reshape(y_train, -1) - np.asarray(f_train, np.float64).reshape(-1)
    change = machines.ridge(k_train, residual, k_test, penalty)
    return f_test + jnp.asarray(change, f_test.dtype).reshape(f_test.shape)


def _matrix(kernel):
    """[n1, n2, o, o] as [n1 o, n2 o]; [n1, n2] as it is."""
    if kernel.ndim == 2:
        return kernel
    n1, n2, o, _ = kernel.shape
    return kernel.transpose(0, 2, 1, 3).reshape(n1 * o, n2 * o)


def drift(before: jax.Array, after: jax.Array) -> jax.Array:
    """How far a kernel moved: Frobenius norm of the change over that of the kernel before."""
    _check_pair(before=before, after=after)
    found = jnp.linalg.norm((after - before).ravel()) / jnp.linalg.norm(before.ravel())
    return _scored(found, before=before, after=after)


def alignment(a: jax.Array, b: jax.Array) -> jax.Array:
    """Cosine between two kernels of one shape: 1 when they differ by a factor only."""
    _check_pair(a=a, b=b)
    found = _cosine(a, b)
    return _scored(found, a=a, b=b)


def target_alignment(kernel: jax.Array, y: jax.Array) -> jax.Array:
    """Cosine between a kernel, [n, n] or [n, n, o, o], and y y^T; y [n, o], or [n].

    With [n, n] the target kernel is the dot product of targets; with outputs, of every pair.
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
        return _scored(_cosine(kernel, y @ y.T), kernel=kernel, y=y)
    return _scored(_cosine(matrix, jnp.outer(y.ravel(), y.ravel())), kernel=kernel, y=y)


def _cosine(a, b):
    a, b = a.ravel(), b.ravel()
    return jnp.vdot(a, b) / (jnp.linalg.norm(a) * jnp.linalg.norm(b))


def _check_pair(**given):
    shapes = [checks.real(name, kernel).shape for name, kernel in given.items()]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{' and '.join(given)} are of one shape, got {shapes[0]} and {shapes[1]}")


def _scored(found, **given):
    """A score; where it is not finite, the argument that is to blame is named."""
    if checks.known(found) and not np.isfinite(found):
        checks.finite(**given)
        for name, kernel in given.items():
            if not np.any(np.asarray(kernel)):
                raise ValueError(f"{name} is zero everywhere: nothing can be relative to it")
    return found
