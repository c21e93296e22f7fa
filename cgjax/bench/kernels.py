"""Speed of the kernels study: the phase map, empirical NTKs, the ConvNet's NTK on 2,000 pairs,
training steps of the image networks.

python -m cgjax.bench kernels                            all parts
python -m cgjax.bench.kernels --parts=phase  one of them
"""

import argparse
import concurrent.futures
import functools
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from cgjax.analysis import machines, ntk
from cgjax.analysis import salience as kernels
from cgjax.analysis.ntk import plan
from cgjax.bench import images
from cgjax.bench import ntk as bench_ntk
from cgjax.bench.harness import fastest, table
from cgjax.core import parallel
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import say
from cgjax.experiments.kernels import tasks
from cgjax.experiments.kernels.theory.classification import PRICE, phase_kernels

PARTS = ("phase", "ntk", "convnet", "images")
TOGETHER = (("phase",), ("ntk", "convnet"), ("images",))  # compiled side by side, then timed
N_GRID = 50
EVERY = 6  # of the kernels goes through scikit-learn's loop
CAP = 1_000_000  # its iterations: it stalls where classes cannot be separated
N_PAIRS = 2000
EXACT = 128  # of the pairs are compared with float64
MATRIX = 8192  # rows of the product that counts as the peak; fewer on a CPU


def run(batch: int = 0, steps: int = 0, parts: str = "all", n_pairs: int = 0) -> None:
    """Prints the tables of the parts, "all" or some of PARTS with commas between them.

    batch: kernels of the phase map at a time, 0 for all at once. n_pairs: 0 for 2,000 on an
    accelerator, and to leave the ConvNet out on a CPU. steps: of image networks in one call.
    """
    chosen = PARTS if parts == "all" else tuple(parts.split(","))
    if unknown := set(chosen) - set(PARTS):
        raise BadInput(f"no part '{min(unknown)}': all, or some of {','.join(PARTS)}")
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · {os.cpu_count()} CPU cores")
    calls = {
        "phase": lambda: whole(lambda: phase(batch)),
        "ntk": against_jacrev,
        "convnet": lambda: convnet(n_pairs or N_PAIRS),
        "images": lambda: whole(lambda: images.run(steps)),
    }
    if "convnet" in chosen and not n_pairs and jax.default_backend() == "cpu":
        chosen = tuple(part for part in chosen if part != "convnet")
        say(f"convnet: {N_PAIRS:,} pairs on an accelerator only; here a few, with --pairs")
    for group in TOGETHER:
        in_two_steps({part: calls[part]() for part in group if part in chosen})


def in_two_steps(parts: dict) -> None:
    """Runs parts {name: generator} to their `yield`, where they are compiled, all at once.

    Then they are timed one after the other. One that fails on the device is told.
    """
    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        compiled = {name: pool.submit(next, part) for name, part in parts.items()}
    for name, part in parts.items():
        try:
            compiled[name].result()
            next(part, None)
        except jax.errors.JaxRuntimeError as error:
            say(f"{name}: {str(error).splitlines()[0]}")
    if parts:
        seconds = time.perf_counter() - started
        say(f"{' and '.join(parts)}: {seconds:.0f} s in all, with compilation\n")


def whole(call: Callable) -> Iterator:
    """A part that compiles in its own time."""
    yield
    call()


# --- phase map ------------------------------------------------------------------------------------

MACHINES = {
    "SVM": lambda k, y, k_test, mask: machines.svc(k, y, k_test, PRICE, mask=mask),
    "ridgeless": lambda k, y, k_test, mask: machines.ridgeless(k, y, k_test, mask=mask),
}


def phase(chunk: int = 0, n_grid: int = N_GRID, every: int = EVERY) -> None:
    """Both machines on CD-1, CD-2, CD-3 for every kernel of the map, against scikit-learn."""
    kappas = phase_kernels(n_grid)
    members = [tasks.cd(k) for k in (1, 2, 3)]
    n, seconds = len(kappas), {}
    with jax.enable_x64(True):
        whole = functools.partial(whole_map(members, chunk), kappas)
        seconds["whole map, one call", ""] = fastest(whole)
        margins = np.asarray(whole())
        for task in members:
            for name in MACHINES:
                alone = functools.partial(
                    mapped(solver([task], name), chunk), *every_pair(1, kappas)
                )
                seconds[task.name, name] = fastest(alone)
        pieces = linear_algebra(members[0], jnp.asarray(kappas))
    rows = [
        fits(*key, n * (1 if key[1] else len(members) * len(MACHINES)), s)
        for key, s in seconds.items()
    ]
    rows += [(name, f"{1e3 * s:.1f}", "", "") for name, s in pieces.items()]
    if importlib.util.find_spec("sklearn"):
        for k, task in enumerate(members):
            loops, theirs = scikit_learn(kappas[::every], task)
            ours = n / seconds[task.name, "SVM"]
            rows += [fits(task.name, name, len(theirs), s, ours) for name, s in loops.items()]
            compare_signs(task.name, margins[0, k, ::every, : theirs.shape[1]], theirs)
    else:
        say("scikit-learn is not installed: no comparison for the phase map")
    title = f"phase map, {n:,} kernels" + (f", {chunk} at a time" if chunk else "")
    table(title, ("part", "ms", "fits/s", "our SVM is faster by"), rows)


def fits(task: str, machine: str, n: int, seconds: float, ours: float | None = None) -> tuple:
    """A line of the table: n fits in so many seconds; ours: fits per second to compare with."""
    ratio = "" if ours is None else f"{ours * seconds / n:.1f} x"
    name = f"{task}: {machine}" if machine else task
    return name, f"{1e3 * seconds:.1f}", f"{n / seconds:,.0f}", ratio


def compare_signs(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Of margins [kernels, tests]; where f = 0 the sign is rounding."""
    decided = np.minimum(np.abs(ours), np.abs(theirs)) > 1e-3
    same = np.sign(ours)[decided] == np.sign(theirs)[decided]
    say(f"{name}: {same.mean():.2%} of {same.size:,} decisions as scikit-learn's")


def whole_map(members: list, chunk: int):
    """kappas [n, 4] -> margins [machines, tasks, n, tests] in one program.

    All tasks and kernels are one batch; the machines are independent branches of the program.
    """
    branches = [mapped(solver(members, name), chunk) for name in MACHINES]

    @jax.jit
    def solve(kappas):
        pairs = every_pair(len(members), kappas)
        found = jnp.stack([branch(*pairs) for branch in branches])
        return found.reshape(len(branches), len(members), len(kappas), -1)

    return solve


def every_pair(n_tasks: int, kappas) -> tuple:
    """Task numbers [tasks * n] and kernels [tasks * n, 4]."""
    return jnp.repeat(np.arange(n_tasks), len(kappas)), jnp.tile(jnp.asarray(kappas), (n_tasks, 1))


def solver(members: list, machine: str):
    """Number of a task, kappa(0..3) [4] -> y f [tests] on its test inputs, to be mapped.

    Training sets shorter than the longest are filled up with masked points, test sets with y = 0.
    """
    n_train, n_test = (max(np.sum(t.is_train == part) for t in members) for part in (True, False))

    def stacked(name, part, length):
        rows = [getattr(task, name)[task.is_train == part] for task in members]
        return np.stack([np.concatenate([r, 0 * r[:1].repeat(length - len(r), 0)]) for r in rows])

    x, y = stacked("x", True, n_train), stacked("y", True, n_train)
    x_test, y_test = stacked("x", False, n_test), stacked("y", False, n_test)

    def margins(k, kappa):
        train, test, mask = (jnp.asarray(a)[k] for a in (x, x_test, y != 0))
        k_train = kernels.overlap_kernel(train, train, kappa)
        k_test = kernels.overlap_kernel(test, train, kappa)
        f = MACHINES[machine](k_train, jnp.asarray(y)[k], k_test, mask)
        return jnp.asarray(y_test)[k] * f

    return margins


def mapped(fn, chunk: int):
    """fn over the first axis of its arguments: all at once, or `chunk` at a time."""
    if not chunk:
        return jax.jit(jax.vmap(fn))
    return jax.jit(lambda *xs: jax.lax.map(lambda x: fn(*x), xs, batch_size=min(chunk, len(xs[0]))))


def linear_algebra(task: tasks.Task, kappas: jax.Array) -> dict:
    """Seconds of what a Newton step is made of: a factorisation, solves with two right sides."""
    train = task.x[task.is_train]
    system = kernels.overlap_kernel(train, train, kappas) + jnp.eye(len(train))[None]
    sides = jnp.ones((*system.shape[:2], 2))
    factor = jax.jit(jnp.linalg.cholesky)
    solve = jax.jit(jax.vmap(lambda factor, b: jax.scipy.linalg.cho_solve((factor, True), b)))
    lower = factor(system)
    return {
        f"of a Newton step: Cholesky, n = {len(train)}": fastest(lambda: factor(system)),
        f"of a Newton step: solve, n = {len(train)}": fastest(lambda: solve(lower, sides)),
    }


def scikit_learn(kappas: np.ndarray, task: tasks.Task) -> tuple[dict, np.ndarray]:
    """Seconds of a loop over the kernels on one core and on all; margins [kernels, tests]."""
    import joblib

    seconds = {"SVC loop, one core": fastest(lambda: svc_loop(kappas, task), 1)}
    n_cores = joblib.cpu_count()
    if n_cores > 1:
        pool = joblib.Parallel(n_jobs=n_cores)
        calls = [joblib.delayed(svc_loop)(part, task) for part in np.array_split(kappas, n_cores)]
        seconds[f"SVC loop, {n_cores} cores"] = fastest(lambda: pool(calls), 1)
    return seconds, svc_loop(kappas, task)


def svc_loop(kappas: np.ndarray, task: tasks.Task) -> np.ndarray:
    """scikit-learn's classifier on one kernel after the other: y f [kernels, tests]."""
    from sklearn.svm import SVC

    train, test = task.x[task.is_train], task.x[~task.is_train]
    shared, shared_test = (np.sum(x[:, None] == train[None], axis=-1) for x in (train, test))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cap
        for kappa in kappas:
            machine = SVC(kernel="precomputed", C=PRICE, max_iter=CAP)
            machine.fit(kappa[shared], task.y[task.is_train])
            found.append(machine.decision_function(kappa[shared_test]))
    return np.stack(found) * task.y[~task.is_train][None]


# --- empirical NTKs -------------------------------------------------------------------------------


def against_jacrev() -> Iterator:
    """Ours, by automatic choice, and the plain contraction of Jacobians; a part in two steps."""
    backend = jax.default_backend()
    if backend == "tpu":
        yield
        say("empirical NTKs: not on a TPU, which lets in one process at a time")
        return
    # A CPU has too few cores for several cases; a process of each form is much of a host's memory.
    large, small = bench_ntk.LARGE, bench_ntk.SMALL
    groups = [(name,) for name in small + large] if backend == "cpu" else [large, small]
    begun = {} if backend == "cpu" else bench_ntk.begun(large)
    yield
    rows = []
    for group in groups:
        begun |= {} if group[0] in begun else bench_ntk.begun(group)
        for name in group:
            found = bench_ntk.in_turns(*begun[name])
            say(bench_ntk.told(name, found))  # who stops the benchmark has what was timed
            rows += bench_ntk.rows(name, found)
    title = (
        f"empirical NTK, all products in '{bench_ntk.PRECISION}' precision; peak memory beyond "
        "that of a started process, with compilation"
    )
    table(title, ("network", "form", "ms", "peak MiB", "ours is faster by"), rows)


# --- the ConvNet's kernel -------------------------------------------------------------------------


def convnet(n_pairs: int = N_PAIRS, rows: int = 0) -> Iterator:
    """NTK of the ConvNet at initialisation on pairs of digits, as a share of the product's peak.

    A part in two steps.
    """
    rows = rows or (MATRIX if jax.default_backend() != "cpu" else MATRIX // 16)
    f, params, x = bench_ntk.digit_pairs(n_pairs)
    # All parameters, each pair of samples once.
    needed = plan.plan(f, params, x, algorithm="structured", memory=1e18, tile=1).flops
    few = min(n_pairs, EXACT)
    say(f"{needed / 1e12:.3g} TFLOP; errors of the first {few} against float64, of their largest")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        exact = pool.submit(in_float64, n_pairs, few)
        ours = {
            precision: pool.submit(timed_by, f, params, x, precision) for precision in PRECISIONS
        }
    yield
    peaks = {name: peak(rows, *how) for name, how in PEAKS.items()}
    shown = [
        (f"product of {rows:,} x {rows:,}, {name}", "", f"{value:.1f}", "", "")
        for name, value in peaks.items()
    ]
    exact = exact.result()
    for precision, kernel in ours.items():
        kernel = kernel.result()
        found = np.asarray(kernel())[:few, :few]
        error = np.abs(found - exact).max() / np.abs(exact).max()
        seconds = fastest(kernel)
        rate = needed / seconds / 1e12
        shares = " / ".join(f"{rate / value:.1%}" for value in peaks.values())
        name = f"NTK, {n_pairs:,} pairs, {precision}"
        shown.append((name, f"{1e3 * seconds:.1f}", f"{rate:.2f}", shares, f"{error:.1e}"))
    title = f"ConvNet, inputs {'x'.join(map(str, x.shape[1:]))}, precision of the products"
    table(title, ("", "ms", "TFLOP/s", f"share of {' / '.join(peaks)}", "error"), shown)


def in_float64(n_pairs: int, few: int) -> np.ndarray:
    """The kernel of the first few of so many pairs."""
    with jax.enable_x64(True):
        f, params, x = bench_ntk.digit_pairs(n_pairs, np.float64)
        return np.asarray(ntk.empirical(f, params, x[:few], verbose=False))


def timed_by(f, params, x, precision: str):
    """The kernel in a precision, compiled: a function without arguments."""
    verbose = precision == PRECISIONS[0]  # the plan is the same
    kernel = functools.partial(ntk.empirical, f, params, x, precision=precision, verbose=verbose)
    jax.block_until_ready(kernel())
    return kernel


PRECISIONS = ("highest", "float32x3", "default")
PEAKS = {
    "float32": (jnp.float32, "highest"),
    "default": (jnp.float32, "default"),
    "bfloat16": (jnp.bfloat16, "default"),
}


def peak(rows: int, dtype, precision: str) -> float:
    """TFLOP/s of one large matrix product."""
    a = jax.random.normal(jax.random.key(0), (rows, rows), dtype)
    product = jax.jit(functools.partial(jnp.matmul, precision=precision))
    return 2 * rows**3 / fastest(lambda: product(a, a)) / 1e12


@command
def main(argv=None):
    """Some of the parts, with sizes of their own."""
    parser = argparse.ArgumentParser(prog="python -m cgjax.bench.kernels")
    parser.add_argument("--parts", default="all", help=f"all, or some of {','.join(PARTS)}")
    parser.add_argument("--batch", type=int, default=0, help="kernels at a time; default: all")
    parser.add_argument("--pairs", type=int, default=0, help=f"digits; default: {N_PAIRS}")
    flags = parser.parse_args(argv)
    run(flags.batch, parts=flags.parts, n_pairs=flags.pairs)


if __name__ == "__main__":
    sys.exit(main())
