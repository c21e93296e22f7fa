"""Empirical NTKs against plain jacrev: time and peak memory, with one process per form."""

import concurrent.futures
import functools
import pathlib
import resource
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import ntk
from cgjax.bench.harness import Asked, answers
from cgjax.core.errors import BadInput
from cgjax.core.logging import say
from cgjax.data import sources
from cgjax.experiments.kernels import inputs
from cgjax.nets.conv import ConvNet
from cgjax.nets.mlp import MLP

OURS, PLAIN, EACH = "ours", "jacrev", "vmap of jacrev"
BURST, BUDGET = 0.05, 2.0  # seconds of timing: per answer, per case
PRECISION = "highest"  # of all matrix products, ours and jacrev's
DISTANCE = 20  # between the digits: inputs are 28 x 48 x 2
GIB = 2**30


class Case(NamedTuple):
    """A network, the number of samples, the form of the kernel."""

    network: Callable  # n -> f, params, x
    n: int
    form: str = "full"
    limit: int = 0  # bytes that a process may allocate after its start; 0: no limit


def mlp(d_in: int, hidden: int, n_layers: int, outputs: int) -> Callable:
    """n -> f, params and n inputs of a ReLU network."""
    net = MLP((outputs,), hidden, n_layers, "relu", weights="he_normal")

    def make(n):
        x = jax.random.normal(jax.random.key(1), (n, d_in))
        params = jax.jit(net.init)(jax.random.key(0), x[:1])["params"]
        return lambda params, x: net.apply({"params": params}, x), params, x

    return make


def digit_pairs(n: int, dtype=np.float32):
    """f, params of the ConvNet at initialisation, and n pairs of MNIST's digits side by side.

    dtype: of params and inputs; their values are drawn in float32.
    """
    try:
        images = sources.load("mnist", "train", download=False)["image"]
    except BadInput:
        say("MNIST is not there: using synthetic images, which take the same time")
        images = sources.synthetic("mnist")["image"]
    indices = np.random.default_rng(1).integers(len(images), size=(n, 2))
    used, indices = np.unique(indices, return_inverse=True)
    x = inputs.network_input(jnp.asarray(images[used]), indices.reshape(n, 2), "mnist", DISTANCE)
    variables = jax.jit(ConvNet().init)(jax.random.key(0), x[:1])
    variables, x = jax.tree.map(lambda a: a.astype(dtype), (variables, x))
    net = ConvNet(dtype=dtype, form="direct")  # also fast on a CPU, if it is not in a loop

    def f(params, x):
        return net.apply(variables | {"params": params}, x)[:, None]

    return f, variables["params"], x


CASES = {
    "MLP 8-7-7-2, n 6": Case(mlp(8, 7, 3, 2), 6),
    "MLP 8-7-7-2, n 64": Case(mlp(8, 7, 3, 2), 64),
    "MLP 18-1000-1, n 81": Case(mlp(18, 1000, 2, 1), 81),
    "MLP 18-100-100-100-1, n 81": Case(mlp(18, 100, 4, 1), 81),
    "MLP 784-128-10, n 32": Case(mlp(784, 128, 2, 10), 32),
    "MLP 784-128-10, n 32, trace": Case(mlp(784, 128, 2, 10), 32, "mean_trace"),
    "MLP 784-512-512-10, n 8": Case(mlp(784, 512, 3, 10), 8),
    "ConvNet, n 4": Case(digit_pairs, 4),
    "MLP 784-512-512-10, n 512, in 4 GiB": Case(mlp(784, 512, 3, 10), 512, "full", 4 * GIB),
    "ConvNet, n 64, in 4 GiB": Case(digit_pairs, 64, "mean_trace", 4 * GIB),
}
SMALL, LARGE = tuple(CASES)[:4], tuple(CASES)[4:]


def forms(f: Callable, case: Case) -> dict:
    """{form: function of params and x}: the ways to compute the kernel, in the same precision."""
    trace = case.form == "mean_trace"
    memory = case.limit / 2 if case.limit else None

    def contracted(jacobian):
        total = 0.0
        for jac in jax.tree.leaves(jacobian):
            jac = jac.reshape(*jac.shape[:2], -1)
            total += jnp.einsum("iap,jap->ij" if trace else "iap,jbp->ijab", jac, jac)
        return total / jac.shape[1] if trace else total

    def of_each(params, x):
        jacobian = jax.jacrev(lambda params, x: f(params, x[None])[0])
        return contracted(jax.vmap(jacobian, in_axes=(None, 0))(params, x))

    def of_all(params, x):
        return contracted(jax.jacrev(f)(params, x))

    ours = functools.partial(ntk.empirical, f, form=case.form, memory=memory, precision=PRECISION)
    # The precision is set while jit traces: it adds no time to a call.
    plain = {
        name: jax.jit(jax.default_matmul_precision(PRECISION)(form))
        for name, form in ((PLAIN, of_all), (EACH, of_each))
    }
    return {OURS: ours} | plain


# --- one process ----------------------------------------------------------------------------------


def worker(name: str, how: str) -> None:
    """For each line on stdin: computes the kernel for BURST seconds and prints one answer."""
    case = CASES[name]
    f, params, x = case.network(case.n)
    kernel = forms(f, case)[how]
    base = _peak()
    _limit(case.limit)

    def work():
        try:
            return _burst(functools.partial(kernel, params, x)) | {"peak": _peak() - base}
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            # Under a limit, libraries that XLA calls may not name memory in their errors.
            is_memory = case.limit or "emory" in repr(error) or "EXHAUSTED" in repr(error)
            return {"failed": "out of memory" if is_memory else str(error).splitlines()[0]}

    answers(work)


def _burst(kernel):
    times, stop = [], time.perf_counter() + BURST
    while not times or time.perf_counter() < stop:
        started = time.perf_counter()
        values = jax.block_until_ready(kernel())
        times.append(time.perf_counter() - started)
    return {"seconds": min(times), "norm": float(np.linalg.norm(np.asarray(values).ravel()))}


def _peak():
    """Peak bytes so far: of the device if it counts them, else of this process."""
    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    # getrusage only if there is no /proc: on Linux a child starts with its parent's peak.
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit(n_bytes):
    """Limits the bytes that this process may still allocate; `begin` limits an accelerator's."""
    pages = pathlib.Path("/proc/self/statm")
    if n_bytes and jax.default_backend() == "cpu" and pages.exists():
        now = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + n_bytes, now + n_bytes))


# --- all processes of a case ----------------------------------------------------------------------


def begin(name: str, hows: tuple = ()) -> dict:
    """Starts a process for each form.

    hows: default all forms; under a memory limit ours and the plain one.
    """
    hows = hows or ((OURS, PLAIN) if CASES[name].limit else (OURS, PLAIN, EACH))
    env = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    stats = jax.devices()[0].memory_stats() or {}
    if CASES[name].limit and "bytes_limit" in stats:
        device = stats["bytes_limit"] / 0.75  # XLA's pool is three quarters of the device
        env["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{CASES[name].limit / device:.4f}"
    code = "from cgjax.bench import ntk; ntk.worker({!r}, {!r})"
    return {how: Asked(code.format(name, how), env) for how in hows}


def compiled(processes: dict) -> dict:
    """The first answers, {form: {"seconds", "peak", "norm"}, or a text that says what failed}.

    Asks all processes at once, and prints their other lines.
    """
    for process in processes.values():
        process.ask()
    return {how: process.answer(say) for how, process in processes.items()}


def in_turns(processes: dict, timings: dict, budget: float = BUDGET) -> dict:
    """The best answers. The forms are timed in turn, so that other load affects all of them."""
    until = time.perf_counter() + budget
    while time.perf_counter() < until:
        for how, process in processes.items():
            if isinstance(timings[how], dict):
                process.ask()
                timings[how] = _better(timings[how], process.answer())
    for process in processes.values():
        process.leave()
    for process in processes.values():
        process.end()
    return timings


def begun(names: tuple) -> dict:
    """{case: (its processes, their first answers)}, the arguments of `in_turns`.

    All processes start at once, but compile case by case, because a GPU's compiler times its
    candidates.
    """
    processes = {name: begin(name) for name in names}
    limited = [name for name in names if CASES[name].limit]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # If no program fits into the limit, the compiler searches for long: do it in parallel.
        plain = {n: pool.submit(compiled, {PLAIN: processes[n][PLAIN]}) for n in limited}
        first = {}
        for name, of_case in processes.items():
            others = {how: of_case[how] for how in of_case if how != PLAIN or name not in limited}
            first[name] = compiled(others)
        for name in limited:
            first[name] |= plain[name].result()
    return {name: (of_case, first[name]) for name, of_case in processes.items()}


def _better(before, now):
    if isinstance(now, dict):
        return now | {"seconds": min(before["seconds"], now["seconds"])}
    return now


def summary_line(name: str, timings: dict) -> str:
    """The timings of a case in one line."""
    texts = (r if isinstance(r, str) else f"{1e3 * r['seconds']:.3f} ms" for r in timings.values())
    return f"{name}: " + ", ".join(f"{how} {text}" for how, text in zip(timings, texts))


def rows(name: str, timings: dict) -> list:
    """Lines of a table: network, form, ms, peak MiB, factor by which ours is faster."""
    norms = [r["norm"] for r in timings.values() if isinstance(r, dict)]
    if not np.allclose(norms, norms[:1], rtol=1e-3):
        raise RuntimeError(f"{name}: the forms give different kernels, norms {norms}")
    lines = []
    for how, r in timings.items():
        label = name if how == OURS else ""
        if isinstance(r, str):
            lines.append((label, how, r, "", ""))
            continue
        ours = timings[OURS]
        is_ratio = how != OURS and isinstance(ours, dict)
        ratio = f"{r['seconds'] / ours['seconds']:.2f} x" if is_ratio else ""
        peak = f"{r['peak'] / 2**20:,.0f}"
        lines.append((label, how, f"{1e3 * r['seconds']:.2f}", peak, ratio))
    return lines
