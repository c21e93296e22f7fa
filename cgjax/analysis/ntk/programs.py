"""The compiled programs of an empirical NTK: the whole kernel at once, or tile by tile."""

import contextlib
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from cgjax.analysis import checks
from cgjax.analysis.ntk import blocks as ntk_blocks
from cgjax.analysis.ntk import plan as ntk_plan
from cgjax.analysis.ntk.products import digits
from cgjax.analysis.ntk.vector import checked, length
from cgjax.core import parallel


class _NotSmall(Exception):
    """Raised while a program is traced, if the kernel is too large for it."""


_LARGE = set()  # keys of kernels that are not small; it saves the time of tracing them again
_WORTH_A_LOOK = 5e7  # operations; below, an accelerator's finiteness check outlasts the kernel
_NEW = set()  # not empty between the trace of a tiny kernel's program and the check of its kernel


def small(f, params, x1, x2, *how):
    """A small kernel as `checked`, or None if it is large; how: the last arguments of `_small`.

    On an accelerator, the check that a kernel is finite takes longer than a tiny kernel. So tiny
    kernels are checked only after the first call of their program, which takes seconds for its
    compilation. That check is skipped, too, if the program was traced inside a jit of the caller
    and another kernel was checked since.
    """
    if _LARGE and _key(f, x1, x2, how) in _LARGE:
        return None
    try:
        kernel, is_finite = _small(f, params, x1, x2, *how)
    except _NotSmall:
        _LARGE.add(_key(f, x1, x2, how))
        return None
    if not isinstance(is_finite, tuple):
        return kernel, is_finite
    if not _NEW or not checks.known(kernel):
        return kernel, True
    _NEW.clear()
    return kernel, checks.is_finite(kernel)


def _key(f, x1, x2, how):
    return (f, *how[:2], *(np.shape(leaf) for leaf in jax.tree.leaves((x1, x2))))


@functools.partial(jax.jit, static_argnames=("f", "form", "algorithm", "precision", "verbose"))
def _small(f, params, x1, x2, form, algorithm, precision, verbose):
    """Plans while it is traced: looking up a plan takes longer than a small kernel."""
    plan = ntk_plan.small(f, params, x1, x2, form, algorithm, precision)
    if plan is None:
        raise _NotSmall
    if verbose:
        ntk_plan.tell(plan)
    kernel, is_finite = _whole(f, params, x1, x2, plan.how)
    if is_finite is None or plan.flops > _WORTH_A_LOOK:
        return kernel, is_finite
    _NEW.add(True)
    return kernel, ()


def planned(f, params, x1, x2, plan, devices):
    """The kernel of a plan, as `checked`."""
    used = devices[: plan.n_devices]
    is_other_device = plan.n_devices == 1 and used[0] != jax.local_devices()[0]
    with jax.default_device(used[0]) if is_other_device else contextlib.nullcontext():
        if plan.is_whole:
            return _whole(f, params, x1, x2, plan.how)
        kernel = _streamed(f, params, x1, x2, plan, used)
        return kernel, checks.is_finite(kernel)


@functools.partial(jax.jit, static_argnames=("f", "how"))
def _whole(f, params, x1, x2, how):
    with digits(how.precision):
        if how.algorithm == "vector":
            x2 = x1 if x2 is None else x2
            kernel = ntk_blocks.vector_block(f, params, x1, x2, how.form, how.directions)
        else:
            left = _factors(f, params, x1, how)
            right = left if x2 is None else _factors(f, params, x2, how)
            kernel = ntk_blocks.contract(left, right, how.form, how.loops)
    return checked(kernel)


def _factors(f, params, x, how):
    """Factors of all samples, computed for `how.chunk` of them at a time."""

    def factors(x):
        return ntk_blocks.factors(f, params, x, how.form, how.algorithm, how.loops)

    n = length(x)
    if not 0 < how.chunk < n:
        return factors(x)
    chunk = math.ceil(n / math.ceil(n / how.chunk))  # chunks as equal as possible
    with_batch = functools.partial(jax.tree.map, lambda a: a[None])
    without_batch = functools.partial(jax.tree.map, lambda a: a[0])
    return jax.lax.map(lambda x: without_batch(factors(with_batch(x))), x, batch_size=chunk)


# --- tiles ----------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames=("f", "how", "mesh"))
def _tile_factors(f, params, x, how, mesh):
    def factors(params, x):
        with digits(how.precision):
            return ntk_blocks.factors(f, params, x, how.form, how.algorithm, how.loops)

    return _over(mesh, factors, (P(), P("data")))(params, x)


@functools.partial(jax.jit, static_argnames=("how", "mesh"))
def _tile_contract(left, right, how, mesh):
    def contract(left, right):
        gather = functools.partial(jax.lax.all_gather, axis_name="data", tiled=True)
        right = jax.tree.map(gather, right) if mesh else right
        with digits(how.precision):
            return ntk_blocks.contract(left, right, how.form, how.loops)

    return _over(mesh, contract, (P("data"), P("data")))(left, right)


@functools.partial(jax.jit, static_argnames=("f", "how", "mesh"))
def _tile_vector(f, params, x1, x2, how, mesh):
    def block(params, x1, x2):
        with digits(how.precision):
            return ntk_blocks.vector_block(f, params, x1, x2, how.form, how.directions)

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
    sizes = length(x1), length(x1 if x2 is None else x2)
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
        start = _start(k, plan.tile, length(x))
        rows = np.minimum(np.arange(start, start + plan.tile), length(x) - 1)
        tile = jax.tree.map(lambda a: a[rows], x)
        tile = jax.device_put(tile, NamedSharding(mesh, spec)) if mesh else tile
        return tile if vector else _tile_factors(f, params, tile, plan.how, mesh)

    n_tiles = math.ceil(length(x1) / plan.tile)
    for start in range(0, n_tiles, plan.held):
        group = range(start, min(start + plan.held, n_tiles))
        held = {i: side(x1, i, P("data")) for i in group}
        for j in range(start if symmetric else 0, math.ceil(length(x2) / plan.tile)):
            is_held = symmetric and not vector and j in held
            right = held[j] if is_held else side(x2, j, P() if vector else P("data"))
            for i, left in held.items():
                if symmetric and i > j:
                    continue
                if vector:
                    yield i, j, _tile_vector(f, params, left, right, plan.how, mesh)
                else:
                    yield i, j, _tile_contract(left, right, plan.how, mesh)
