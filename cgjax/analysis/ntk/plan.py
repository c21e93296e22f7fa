"""Plans the computation of an empirical NTK: cost, algorithm, tiles, devices."""

import math
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import checks
from cgjax.analysis.arguments import checked, choice, integer, number, optional
from cgjax.analysis.ntk import functions, layers

FORMS = ("full", "per_output", "trace", "mean_trace", "mean_output")
ALGORITHMS = ("structured", "jacobian", "vector")

_WORTH_SPLITTING = 2e9  # operations; below, several devices or tiles cost more than they save
_SMALL = 64 * 2**20  # bytes that every machine is assumed to have free
_WORTH_CALLS = 2e4  # operations; below, calling a matrix product costs a CPU more than computing it
# Operations per second, seconds per step of a program, bytes of Jacobians per second. The values
# for the CPU are fitted to small kernels on two cores; those for the GPU are estimates. The last is
# chosen such that a ConvNet with 4 samples is computed layer by layer: on an H200 that takes
# 0.49 ms, and 0.69 ms by whole Jacobians.
_SPEEDS = {"cpu": (5e10, 1e-8, math.inf), "gpu": (2e13, 5e-6, 5e11)}
_BUSY_ROWS = 256  # samples times outputs of a tile: enough to keep a matrix product efficient
_MAX_TILE = 2048
SMALL_LEAF = 4096  # values: smaller leaves are contracted together


class Facts(NamedTuple):
    """Sizes of f at one sample, as numbers of values."""

    outputs: int
    params: int
    flops: int  # of one evaluation
    activations: int  # of all intermediate results
    dense: tuple  # (fan_in with bias, width) of each layer with one position
    spread: tuple  # (positions, fan_in with bias, width) of each layer with several
    rest: tuple  # sizes of the leaves that belong to no layer
    itemsize: int
    leaves: tuple = ()  # sizes of all


class How(NamedTuple):
    """The static options of a kernel's program."""

    form: str
    algorithm: str
    directions: int  # number of NTK-vector products at once
    precision: str
    loops: bool  # whether the products of layers are loops
    chunk: int  # samples whose factors are computed at a time in a single program; 0: all


class Plan(NamedTuple):
    """How one kernel is computed."""

    how: How
    tile: int  # samples per tile, on all devices together
    held: int  # tiles of x1 whose Jacobians, or factors of them, are alive at once
    n_devices: int
    is_whole: bool  # a single program on one device
    flops: float  # of the whole kernel
    peak: float  # bytes, on each device
    text: str  # the plan in one line

    @property
    def algorithm(self) -> str:
        return self.how.algorithm


def plan(
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
) -> Plan:
    """The plan of `ntk.empirical` for these arguments; the kernel is not computed."""
    insist = devices is not None
    devices = list(devices) if insist else jax.local_devices()
    if not devices:
        raise ValueError("devices is empty: name at least one device, or omit the argument")
    leaves, tree = jax.tree.flatten((params, x1, x2))
    inside = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)  # a jit of the caller
    avals = tuple((np.shape(a), getattr(a, "dtype", type(a))) for a in leaves)
    shapes = (tree, avals, jax.config.jax_enable_x64)  # x64 decides how dtypes are canonicalised
    n_devices, platform = 1 if inside else len(devices), devices[0].platform
    options = (n_devices, tile, insist, precision, platform, inside)
    plans, measured = _cache(f)
    key = (shapes, form, algorithm, memory, options)
    if key in plans:
        return plans[key]
    if shapes not in measured:
        measured[shapes] = _measure(f, tree, avals)
    sizes, n1, n2 = measured[shapes]
    if memory is None:
        memory = _share(available(devices), kernel_bytes(sizes, n1, n2, form))
    chosen = choose(sizes, n1, n2, form, algorithm, memory, *options)
    if chosen.peak < _SMALL:  # it fits, whatever else takes memory later
        plans[key] = chosen
    return chosen


def _share(free, kernel):
    """The bytes of a kernel, and half of what is free beside it."""
    return kernel + (free - kernel) / 2 if free > kernel else free


_cache = functions.once_for_each(lambda reference: ({}, {}))  # plans; samples and sizes


def _measure(f, tree, avals):
    """The sizes of f, and the numbers of samples, from shapes and dtypes."""
    structs = [
        jax.ShapeDtypeStruct(shape, functions.dtype(jax.ShapeDtypeStruct(shape, dtype)))
        for shape, dtype in avals
    ]
    params, x1, x2 = tree.unflatten(structs)
    n1, n2 = checks.samples(x1=x1, x2=x2)
    return facts(f, params, x1), n1, n2


def facts(f: Callable, params, x) -> Facts:
    """Sizes of f(params, x), from shapes alone; x [n, ...]."""
    checks.samples(x=x)
    x = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), x)
    leaves = jax.tree.leaves(params)
    trace = layers.trace(f, params, x)
    sizes = [
        (layer.positions, layer.fan_in + (layer.bias is not None), layer.width)
        for layer in trace.layers
    ]
    floats = [a for a, free in zip(leaves, functions.is_free(params)) if free]
    if any(jnp.issubdtype(functions.dtype(a), jnp.complexfloating) for a in leaves):
        raise ValueError("params holds a complex leaf: pass its real and imaginary parts instead")
    if not floats:
        raise ValueError("params holds no floating-point leaf to differentiate")
    values = [math.prod(layers.shape(aval)) for step in trace.steps for aval in step.avals]
    return Facts(
        outputs=trace.n_outputs,
        params=sum(a.size for a in floats),
        flops=trace.flops,
        activations=sum(values),
        dense=tuple((k, m) for p, k, m in sizes if p == 1),
        spread=tuple(size for size in sizes if size[0] > 1),
        rest=tuple(leaves[i].size for i in trace.rest),
        itemsize=max(a.dtype.itemsize for a in floats),
        leaves=tuple(a.size for a in floats),
    )


def available(devices) -> float:
    """Free bytes on each device; devices of a CPU share those of the host.

    Rounded down to one of four steps per doubling: with the exact number, each call would make a
    new plan, and might compile other tiles.
    """
    if not devices:
        raise ValueError("devices is empty")
    stats = devices[0].memory_stats() or {}
    if "bytes_limit" in stats:
        free = stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    else:
        free = _host_memory() / len(devices)
    step = 2.0 ** (math.floor(math.log2(max(free, 8))) - 2)
    return free // step * step


def _host_memory():
    """Bytes that the host can give to a process, those of its file cache included."""
    meminfo = pathlib.Path("/proc/meminfo")
    if meminfo.exists():
        return 1024 * int(meminfo.read_text().split("MemAvailable:")[1].split()[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def kernel_bytes(sizes: Facts, n1: int, n2: int | None, form: str) -> int:
    """The bytes of the kernel itself; n2 None: as n1."""
    return sizes.itemsize * n1 * (n2 or n1) * _values_per_pair(sizes, form)


@checked
def choose(
    sizes: Facts,
    n1: integer(1),
    n2: optional(integer(1)),
    form: choice(*FORMS),
    algorithm: choice("auto", *ALGORITHMS),
    memory: number("(0, inf)"),
    n_devices: integer(1),
    tile: integer(1) = None,
    insist: bool = False,
    precision: str = "highest",
    platform: str = "cpu",
    inside: bool = False,
) -> Plan:
    """The cheapest algorithm whose tiles fit in memory; n2 None: the kernel is symmetric.

    memory: bytes on each device, with the kernel; an error says if it holds less than the kernel
    alone. n_devices: the most devices to use; small kernels use one, unless
    `insist`. platform: "cpu", "gpu" or "tpu". inside: in one program, without tiles, as a jit of
    the caller needs.
    """
    tile = max(n1, n2 or 0) if inside else tile
    kernel = kernel_bytes(sizes, n1, n2, form)
    if kernel > memory and not inside:
        smaller = kernel_bytes(sizes, n1, n2, "mean_trace")
        advice = f", or use form 'mean_trace', which takes {_scaled(smaller, 1024, 'B')}"
        raise ValueError(
            f"the kernel of {n1:,} x {n2 or n1:,} samples, form '{form}', takes "
            f"{_scaled(kernel, 1024, 'B')}, but memory is {_scaled(memory, 1024, 'B')}: compute it "
            f"for fewer samples at a time{advice if smaller < kernel else ''}"
        )
    names = ALGORITHMS if algorithm == "auto" else (algorithm,)
    hows = [How(form, name, 0, precision, False, 0) for name in names]
    plans = [_plan(sizes, n1, n2, how, memory, n_devices, tile, insist, platform) for how in hows]
    fitting = [plan for plan in plans if plan.peak <= memory] or plans[-1:]
    return min(fitting, key=lambda plan: _seconds(plan, sizes, n1, n2, platform))


def _seconds(plan, sizes, n1, n2, platform):
    """Estimated seconds of a plan: operations, steps of the program, bytes of factors."""
    steps = {
        "structured": 2 * len(sizes.dense) + 3 * len(sizes.spread),
        "jacobian": sum(size > SMALL_LEAF for size in sizes.leaves),
        "vector": (n2 or n1) * _outputs(sizes, plan.how.form) / max(1, plan.how.directions),
    }[plan.algorithm]
    factor_bytes = (
        _costs(sizes, plan.how.form, plan.algorithm)[2] * sizes.itemsize * (n1 + (n2 or 0))
    )
    flops_per_second, seconds_per_step, bytes_per_second = _SPEEDS.get(platform, _SPEEDS["gpu"])
    return (
        plan.flops / flops_per_second + steps * seconds_per_step + factor_bytes / bytes_per_second
    )


def _plan(sizes, n1, n2, how, memory, n_devices, tile, insist, platform):
    form, name = how.form, how.algorithm
    per_sample, per_pair, _, _ = _costs(sizes, form, name)
    rows = n1 if n2 is None else max(n1, n2)
    pairs = n1 * n1 / 2 if n2 is None else n1 * n2
    flops = per_sample * (n1 + (n2 or 0)) + per_pair * pairs
    how = how._replace(loops=platform == "cpu" and flops < _WORTH_CALLS)
    if (flops < _WORTH_SPLITTING or rows < n_devices) and not insist:
        n_devices = 1
    is_triangle = n2 is None and per_pair * pairs > _WORTH_SPLITTING
    # On a CPU a tile fits in the cache.
    in_tiles = tile is not None or n_devices > 1 or (is_triangle and platform == "cpu")
    if not in_tiles and name != "vector":
        chunk, peak = _chunk(sizes, how, n1, n2, memory, platform)
        if peak <= memory:
            if n2 is None:  # products that are computed below the diagonal, too
                flops += per_pair * pairs / (4 if is_triangle else 1)
            plan = Plan(how._replace(chunk=chunk), rows, 1, 1, True, flops, peak, "")
            return plan._replace(text=_text(plan, sizes, n1, n2, memory))
    # With several devices the host assembles the kernel, and the first device takes a copy.
    n_copies = 2 if n_devices > 1 and platform == "cpu" else 1
    kernel = n_copies * kernel_bytes(sizes, n1, n2, form)
    room = memory - kernel
    t, directions = _tile(sizes, form, name, rows, is_triangle, room, n_devices)
    t = t if tile is None else math.ceil(tile / n_devices)
    once, right, left = _bytes(sizes, form, name, t, directions, n_devices)
    n_tiles = math.ceil(n1 / (t * n_devices))
    held = max(1, min(n_tiles, int((room - once - right) // max(1, left))))
    # For each further group of held tiles, the factors of the columns are computed again.
    again = math.ceil(n_tiles / held) - 1
    if n2 is None:
        flops += per_sample * n1 * again / 2 + per_pair * n1 * t * n_devices / 2
    else:
        flops += per_sample * n2 * again
    peak = kernel + once + right + held * left
    whole = n_devices == 1 and rows <= t
    how = how._replace(directions=directions)
    plan = Plan(how, t * n_devices, held, n_devices, whole, flops, peak, "")
    return plan._replace(text=_text(plan, sizes, n1, n2, memory))


def _chunk(sizes, how, n1, n2, memory, platform):
    """For a single program: samples whose factors are computed at a time, and peak bytes."""
    _, _, factors, work = _costs(sizes, how.form, how.algorithm)
    rows = n1 if n2 is None else max(n1, n2)
    fixed = factors * (n1 + (n2 or 0))
    fixed += n1 * (n2 or n1) * _held_per_pair(sizes, how.form, how.algorithm)
    chunk = rows
    # A CPU is slow inside a loop of the program, so its factors are not chunked.
    while platform != "cpu" and chunk > 1 and sizes.itemsize * (fixed + chunk * work) > memory:
        chunk = math.ceil(chunk / 2)
    return chunk, sizes.itemsize * (fixed + chunk * work)


def _outputs(sizes, form):
    return 1 if form == "mean_output" else sizes.outputs


def _values_per_pair(sizes, form):
    o = _outputs(sizes, form)
    return {"full": o * o, "per_output": o}.get(form, 1)


def _held_per_pair(sizes, form, name):
    """Values per pair of samples that a program holds: the products to add, and the kernel.

    XLA computes all products before it adds them.
    """
    values = _values_per_pair(sizes, form)
    if name == "vector":
        return 2 * values
    leaves = (*(k * m for _, k, m in sizes.spread), *sizes.rest)
    leaves = sizes.leaves if name == "jacobian" else leaves
    n_products = sum(size > SMALL_LEAF for size in leaves)
    n_products += any(size <= SMALL_LEAF for size in leaves)  # the small leaves are one product
    n_dense = len(sizes.dense) if name == "structured" else 0
    return values * (1 + n_products) + (values + 1) * n_dense


def _costs(sizes, form, name):
    """FLOPs per sample and per pair; values of factors and of temporaries per sample."""
    o, f = _outputs(sizes, form), sizes.flops
    products = o * o if form == "full" else o
    work = (1 + o) * sizes.activations
    if name == "vector":
        return 2 * o * f, 2 * o * f, 0, work
    if name == "jacobian":
        return f * (1 + 2 * o), 2 * sizes.params * products, o * sizes.params, work
    flat = sum(k * m for _, k, m in sizes.spread) + sum(sizes.rest)
    outer = sum(2 * o * p * k * m for p, k, m in sizes.spread)
    pair = 2 * flat * products + sum(2 * k + (2 * m + 1) * products for k, m in sizes.dense)
    factors = o * flat + sum(k + o * m for k, m in sizes.dense)
    work += max((p * k for p, k, _ in sizes.spread), default=0)
    return f * (1 + o) + outer, pair, factors, work


def _bytes(sizes, form, name, t, directions, n_devices):
    """Bytes on a device: temporaries; the right side of a block; each held tile."""
    _, _, factors, work = _costs(sizes, form, name)
    block = t * t * n_devices * _held_per_pair(sizes, form, name)
    moving = directions * (sizes.params + t * sizes.activations)
    # Every device gathers the whole right side.
    values = (t * work + block + moving, t * n_devices * factors, t * factors)
    return tuple(sizes.itemsize * value for value in values)


def _tile(sizes, form, name, rows, is_triangle, memory, n_devices):
    """Samples per tile and device, and NTK-vector products at once."""
    o = _outputs(sizes, form)
    t = min(math.ceil(rows / n_devices), _MAX_TILE)
    if is_triangle:
        # With four tiles or more, most of the lower triangle is skipped.
        t = min(t, math.ceil(max(rows / 4, _BUSY_ROWS / o) / n_devices))
    directions = o if name == "vector" else 0
    while sum(_bytes(sizes, form, name, t, directions, n_devices)) > memory:
        if directions > 1:
            directions //= 2
        elif t > 1:
            t //= 2
        else:
            break
    return t, directions


# --- the plan as text -----------------------------------------------------------------------------


def _text(plan, sizes, n1, n2, memory):
    o = _outputs(sizes, plan.how.form)
    kernel = kernel_bytes(sizes, n1, n2, plan.how.form)
    whole = o * sizes.params * sizes.itemsize * (n1 if n2 is None else max(n1, n2))
    what = {
        "structured": f"structured ({len(sizes.dense)} dense layers as products of factors, "
        f"{len(sizes.spread)} layers with positions, {len(sizes.rest)} other leaves)",
        "jacobian": "Jacobian contraction",
        "vector": f"NTK-vector products, {plan.how.directions} at once",
    }[plan.algorithm]
    down, across = math.ceil(n1 / plan.tile), math.ceil((n2 or n1) / plan.tile)
    n_tiles = down * (down + 1) // 2 if n2 is None else down * across
    return (
        f"ntk {n1:,} x {n2 or n1:,}, {plan.how.form}, {sizes.outputs} outputs, "
        f"{sizes.params:,} params: {what}; {_scaled(plan.flops, 1000, 'FLOP')}; "
        f"Jacobian {_scaled(whole, 1024, 'B')}, kernel {_scaled(kernel, 1024, 'B')}, "
        f"peak about {_scaled(plan.peak, 1024, 'B')} of {_scaled(memory, 1024, 'B')} on each of "
        f"{plan.n_devices} devices; "
        f"{n_tiles:,} tiles of {plan.tile:,}"
    )


def _scaled(value, base, unit):
    power = 0
    while value >= base and power < 5:
        value, power = value / base, power + 1
    return f"{value:.3g} {('', 'k', 'M', 'G', 'T', 'P')[power]}{unit}"
