"""Empirical neural tangent kernels of any f(params, x), and scores computed from them.

Theta(x, x')_ab = sum over parameters of (df_a(x)/dtheta)(df_b(x')/dtheta). f maps x [n, ...] to
[n, outputs] and treats each sample independently (BatchNorm in evaluation mode). f is compiled
once: pass the same function object again to reuse its programs. All results have the dtype of
params. Leaves that are not floating-point, such as counters and keys, are not parameters.
With flax.nnx:

    graph, params, rest = nnx.split(model, nnx.Param, ...)  # after model.eval()
    kernel = empirical(lambda params, x: nnx.merge(graph, params, rest)(x), params, x)
"""

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cgjax.analysis import checks, machines
from cgjax.analysis.arguments import checked, finite, finite_tree, number, real
from cgjax.analysis.ntk import functions, layers
from cgjax.analysis.ntk import plan as ntk_plan
from cgjax.analysis.ntk.linearised import is_of, kernel_vector_product, linearised_fit
from cgjax.analysis.ntk.plan import SMALL_LEAF
from cgjax.core import parallel
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
    kernel = _planned(f, params, x1, x2, plan, devices)
    return checks.finite_result(kernel, params=params, x1=x1, x2=x2)


@checked
def jacobian(f: Callable, params: finite_tree, x: finite_tree, precision: str = "highest") -> Any:
    """Per-sample Jacobians: params' tree, leaves [n, outputs, *leaf]; None for constant leaves."""
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


@checked
def ntk_regression(
    f: Callable,
    params: finite_tree,
    x_train: finite_tree,
    y_train: finite(),
    x_test: finite_tree,
    penalty: number("[0, inf)") = None,
    **options,
) -> jax.Array:
    """f linearised at params and trained to convergence: f0 + K_test K_train^+ (y - f0).

    y_train: [n, outputs] (or [n]); returns predictions [n_test, outputs]. penalty: of a ridge
    regression; by default 0 in float64, and otherwise eps * trace(K_train), the size of zero
    eigenvalues after rounding. options: those of `empirical`.
    """
    checks.samples(x_train=x_train, x_test=x_test)
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


@checked
def drift(before: real("*shape"), after: real("*shape")) -> jax.Array:
    """Relative change of a kernel: Frobenius norm of the change over that of `before`."""
    first, last = _scaled(before, after)
    distance = jnp.linalg.norm((last - first).ravel()) / jnp.linalg.norm(first.ravel())
    return _scored(distance, before=before, after=after)


@checked
def alignment(a: real("*shape"), b: real("*shape")) -> jax.Array:
    """Cosine between two kernels: 1 if they differ only by a positive factor."""
    return _scored(_cosine(a, b), a=a, b=b)


@checked
def target_alignment(kernel: real(), y: real()) -> jax.Array:
    """Cosine between a kernel, [n, n] or [n, n, o, o], and y y^T; y [n, o], or [n].

    For [n, n] the target kernel is y_i . y_j; for [n, n, o, o] it is y_ia y_jb.
    """
    if kernel.ndim not in (2, 4):
        raise ValueError(f"kernel is [n, n] or [n, n, o, o], got {kernel.shape}")
    matrix = _matrix(kernel)
    checks.symmetric("kernel", matrix)
    is_whole = kernel.ndim == 2 or y.size == len(matrix)
    if y.shape[:1] != kernel.shape[:1] or y.ndim > 2 or not is_whole:
        raise ValueError(f"y is [n] or [n, o] for a kernel {kernel.shape}, got {y.shape}")
    if kernel.ndim == 2:
        (scaled,) = _scaled(y.reshape(len(y), -1))
        target_kernel = jnp.matmul(scaled, scaled.T, precision="highest")
        return _scored(_cosine(kernel, target_kernel), kernel=kernel, y=y)
    (scaled,) = _scaled(y.ravel())
    return _scored(_cosine(matrix, jnp.outer(scaled, scaled)), kernel=kernel, y=y)


def _cosine(a, b):
    (a,), (b,) = _scaled(a.ravel()), _scaled(b.ravel())
    return jnp.vdot(a, b, precision="highest") / (jnp.linalg.norm(a) * jnp.linalg.norm(b))


def _scaled(*arrays):
    """Floating-point arrays, divided by the power of two next to the largest of their entries.

    Squares of small and large entries leave float32, and small integers wrap around.
    """
    arrays = [jnp.asarray(a) for a in arrays]
    arrays = [a if jnp.issubdtype(a.dtype, jnp.floating) else 1.0 * a for a in arrays]
    wide = jnp.result_type(jnp.float32, *arrays)
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(a)).astype(wide) for a in arrays]))
    _, exponent = jnp.frexp(largest)
    return [jnp.ldexp(a.astype(wide), -exponent).astype(a.dtype) for a in arrays]


def _scored(score, **given):
    """The score; if it is not finite, an error names the argument that causes it."""
    if checks.known(score) and not np.isfinite(score):
        checks.finite(**given)
        for name, kernel in given.items():
            if not np.any(np.asarray(kernel)):
                raise ValueError(f"{name} is zero everywhere: a ratio to its norm is undefined")
    return score


# --- programs -------------------------------------------------------------------------------------
# They compute a kernel by its plan: the whole kernel at once, or in tiles.


_WORTH_BLOCKS = 1e11  # operations of a product; below, one call is faster
_N_BLOCKS = 8  # of rows, in a symmetric product


def _planned(f, params, x1, x2, plan, devices=None) -> jax.Array:
    """The kernel of a plan; devices: those that share the work, by default all."""
    devices = list(jax.local_devices() if devices is None else devices)[: plan.n_devices]
    is_other_device = plan.n_devices == 1 and devices[0] != jax.local_devices()[0]
    with jax.default_device(devices[0]) if is_other_device else contextlib.nullcontext():
        if plan.is_whole:
            return _whole(f, params, x1, x2, how=plan.how)
        return _streamed(f, params, x1, x2, plan, devices)


@functions.jit
def _whole(f, params, x1, x2, *, how):
    with functions.digits(how.precision):
        if how.algorithm == "vector":
            return _vector_block(f, params, x1, x1 if x2 is None else x2, how)
        left = _chunked_factors(f, params, x1, how)
        right = left if x2 is None else _chunked_factors(f, params, x2, how)
        return _contract(left, right, how)


def _chunked_factors(f, params, x, how):
    """Factors of all samples, computed for `how.chunk` of them at a time."""
    n = functions.length(x)
    if not 0 < how.chunk < n:
        return _factors(f, params, x, how)
    chunk = math.ceil(n / math.ceil(n / how.chunk))  # chunks as equal as possible
    with_batch = functools.partial(jax.tree.map, lambda a: a[None])
    without_batch = functools.partial(jax.tree.map, lambda a: a[0])
    return jax.lax.map(
        lambda x: without_batch(_factors(f, params, with_batch(x), how)), x, batch_size=chunk
    )


# --- one pair of tiles: factors of Jacobians and their contraction --------------------------------


def _factors(f, params, x, how):
    """The factors of each sample, which do not depend on the other sample of a pair.

    Returns (dense, flat) of `layers.factors` with an axis of samples in front, leaves [n, o, size].
    """
    reduce = functools.partial(_reduced, form=how.form)

    def sample_factors(x):
        if how.algorithm == "structured":
            dense, flat = layers.factors(f, params, x, reduce, how.loops)
            return dense, _joined(flat)
        free, merge = functions.floats(params)
        out, pull = jax.vjp(lambda free: reduce(functions.single(f, merge(free), x)), free)
        (flat,) = jax.vmap(pull)(layers.units(out))
        return [], _joined(flat)

    return jax.vmap(sample_factors)(x)


def _reduced(out, form):
    return jnp.mean(out)[None] if form == "mean_output" else out


def _joined(flat):
    """Jacobians [o, *leaf] as [o, size]; the small leaves are joined, on an accelerator all leaves.

    On an accelerator each product takes long to compile, and many take longer to run than one.
    """
    small = SMALL_LEAF if jax.default_backend() == "cpu" else math.inf
    flat = [leaf.reshape(len(leaf), -1) for leaf in flat]
    few = [leaf for leaf in flat if leaf.shape[1] <= small]
    many = [leaf for leaf in flat if leaf.shape[1] > small]
    return many + ([jnp.concatenate(few, axis=1)] if few else [])


def _contract(left, right, how):
    """The kernel between two sets of factors, leaf by leaf."""
    (dense1, flat1), (dense2, flat2) = left, right
    total = 0.0
    for j1, j2 in zip(flat1, flat2):
        total += _pair_products(j1, j2, how)
    for (a1, d1, s1), (a2, d2, s2) in zip(dense1, dense2):
        n1, n2 = len(a1), len(a2)
        shape = {"full": (n1, 1, n2, 1), "per_output": (n1, n2, 1)}.get(how.form, (n1, n2))
        inputs = _product(a1, a2, how.loops)
        if s1 is not None:
            inputs += s1[:, None] * s2[None]
        total += _pair_products(d1, d2, how) * inputs.reshape(shape)
    return total.transpose(0, 2, 1, 3) if how.form == "full" else total


def _pair_products(j1, j2, how):
    """J J'^T of [n, o, size]; "full" gives [n1, o, n2, o], one matrix product."""
    if how.form == "per_output":
        return jnp.einsum("ias,jas->ija", j1, j2)
    (n1, o, size), n2 = j1.shape, len(j2)
    length = size if how.form == "full" else o * size
    rows = j1.reshape(-1, length)
    total = _product(rows, rows if j1 is j2 else j2.reshape(-1, length), how.loops)
    if how.form == "full":
        return total.reshape(n1, o, n2, o)
    return total / o if how.form == "mean_trace" else total


def _product(a, b, loops):
    """a b^T of [n1, k] and [n2, k]; if b is a, by symmetry; loops: see `layers.in_loops`."""
    if loops:
        return layers.in_loops(a, b, ((1,), (1,)))
    if b is not a or 2 * len(b) * a.size < _WORTH_BLOCKS:
        return a @ b.T
    return _in_blocks(a)


def _in_blocks(a):
    """a a^T from the blocks of its upper triangle, all of one size: one product is compiled."""
    n, size = len(a), math.ceil(len(a) / _N_BLOCKS)
    starts = [min(i * size, n - size) for i in range(math.ceil(n / size))]
    total = jnp.zeros((n, n), a.dtype)
    for place, i in enumerate(starts):
        for j in starts[place:]:
            block = a[i : i + size] @ a[j : j + size].T
            total = total.at[j : j + size, i : i + size].set(block.T)
            total = total.at[i : i + size, j : j + size].set(block)
    return total


def _vector_block(f, params, x1, x2, how):
    """The kernel of a pair of tiles, column by column: J1 (J2^T e), a jvp of a vjp."""
    free, merge = functions.floats(params)

    def outputs(free, x):
        return _reduced(functions.single(f, merge(free), x), how.form)

    values, push = jax.linearize(lambda free: jax.vmap(lambda x: outputs(free, x))(x1), free)
    n1, o = values.shape
    n2 = functions.length(x2)

    def column(place):
        x = jax.tree.map(lambda a: a[place // o], x2)
        unit = jax.nn.one_hot(place % o, o, dtype=values.dtype)
        _, pull = jax.vjp(lambda free: outputs(free, x), free)
        pushed = push(pull(unit)[0])
        return pushed if how.form == "full" else pushed @ unit

    columns = jax.lax.map(column, jnp.arange(n2 * o), batch_size=how.directions)
    columns = columns.reshape(n2, o, n1, *columns.shape[2:])
    if how.form == "full":
        return columns.transpose(2, 0, 3, 1)
    columns = columns.transpose(2, 0, 1)
    if how.form == "per_output":
        return columns
    return jnp.mean(columns, axis=-1) if how.form == "mean_trace" else jnp.sum(columns, axis=-1)


# --- tiles ----------------------------------------------------------------------------------------


@functions.jit
def _tile_factors(f, params, x, *, how, mesh):
    def factors(params, x):
        with functions.digits(how.precision):
            return _factors(f, params, x, how)

    return _over(mesh, factors, (P(), P("data")))(params, x)


@functools.partial(jax.jit, static_argnames=("how", "mesh"))
def _tile_contract(left, right, how, mesh):
    def contract(left, right):
        gather = functools.partial(jax.lax.all_gather, axis_name="data", tiled=True)
        right = jax.tree.map(gather, right) if mesh else right
        with functions.digits(how.precision):
            return _contract(left, right, how)

    return _over(mesh, contract, (P("data"), P("data")))(left, right)


@functions.jit
def _tile_vector(f, params, x1, x2, *, how, mesh):
    def block(params, x1, x2):
        with functions.digits(how.precision):
            return _vector_block(f, params, x1, x2, how)

    return _over(mesh, block, (P(), P("data"), P()))(params, x1, x2)


def _over(mesh, function, specs):
    """The function, applied by each device to its rows."""
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=P("data"), check_vma=False)


def _streamed(f, params, x1, x2, plan, devices):
    """The kernel tile by tile, assembled on one device, or for several in host memory."""
    mesh = None if len(devices) == 1 else Mesh(np.array(devices), ("data",))
    if mesh:
        params = jax.device_put(params, NamedSharding(mesh, P()))
    sizes = functions.length(x1), functions.length(x1 if x2 is None else x2)
    blocks = _blocks(f, params, x1, x2, plan, mesh)
    assemble = _on_host if mesh else _on_device
    return assemble(blocks, sizes, plan, x2 is None)


def _on_device(blocks, sizes, plan, symmetric):
    """Assembles without waiting for a tile: dispatch runs ahead of the device."""
    kernel = None
    for i, j, block in blocks:
        if kernel is None:
            kernel = jnp.zeros((*sizes, *block.shape[2:]), block.dtype)
        places = [_start(k, plan.tile, n) for k, n in zip((i, j), sizes)]
        kernel = _put(kernel, block, *places, symmetric and i != j)
    return kernel


@functools.partial(jax.jit, donate_argnums=0, static_argnames="mirrored")
def _put(kernel, block, i, j, mirrored):
    """The kernel with a tile written in; a tile may be larger than the kernel."""
    block = block[: kernel.shape[0], : kernel.shape[1]]
    rest = [0] * (kernel.ndim - 2)
    if mirrored:
        kernel = jax.lax.dynamic_update_slice(kernel, _mirror(block), (j, i, *rest))
    return jax.lax.dynamic_update_slice(kernel, block, (i, j, *rest))


def _on_host(blocks, sizes, plan, symmetric):
    kernel = None
    for i, j, block in _one_late(blocks):
        block = parallel.fetch(block)
        if kernel is None:
            kernel = np.empty((*sizes, *block.shape[2:]), block.dtype)
        starts = [_start(k, plan.tile, n) for k, n in zip((i, j), sizes)]
        rows, columns = (slice(start, start + plan.tile) for start in starts)
        region = kernel[rows, columns]
        region[...] = block[: region.shape[0], : region.shape[1]]
        if symmetric and i != j:
            kernel[columns, rows] = _mirror(region)
    return jax.device_put(kernel, may_alias=True)


def _mirror(block):
    """The tile on the other side of the diagonal: samples and outputs are swapped."""
    return block.transpose(1, 0, *((3, 2) if block.ndim == 4 else range(2, block.ndim)))


def _start(k, tile, n):
    """The first sample of tile k; the last tile ends at the last sample and may overlap."""
    return max(0, min(k * tile, n - tile))


def _one_late(blocks):
    """Yields a block after the next is dispatched, so that no device waits for the copy."""
    previous = next(blocks)
    for block in blocks:
        yield previous
        previous = block
    yield previous


def _blocks(f, params, x1, x2, plan, mesh):
    """(i, j, kernel of tiles i and j) for all pairs of tiles; if symmetric, for i <= j."""
    symmetric = x2 is None
    x2 = x1 if symmetric else x2
    vector = plan.how.algorithm == "vector"

    def side(x, k, spec):
        start = _start(k, plan.tile, functions.length(x))
        rows = np.minimum(np.arange(start, start + plan.tile), functions.length(x) - 1)
        tile = jax.tree.map(lambda a: a[rows], x)
        tile = jax.device_put(tile, NamedSharding(mesh, spec)) if mesh else tile
        return tile if vector else _tile_factors(f, params, tile, how=plan.how, mesh=mesh)

    n_tiles = math.ceil(functions.length(x1) / plan.tile)
    for start in range(0, n_tiles, plan.held):
        group = range(start, min(start + plan.held, n_tiles))
        held = {i: side(x1, i, P("data")) for i in group}
        for j in range(start if symmetric else 0, math.ceil(functions.length(x2) / plan.tile)):
            is_held = symmetric and not vector and j in held
            right = held[j] if is_held else side(x2, j, P() if vector else P("data"))
            for i, left in held.items():
                if symmetric and i > j:
                    continue
                if vector:
                    yield i, j, _tile_vector(f, params, left, right, how=plan.how, mesh=mesh)
                else:
                    yield i, j, _tile_contract(left, right, how=plan.how, mesh=mesh)
