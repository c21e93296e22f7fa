"""Speed of the kernels study: the phase map, empirical NTKs, the ConvNet's NTK on 2,000 pairs.

python -m cgjax.bench kernels                            all parts
python -m cgjax.experiments.kernels.bench --parts=phase  one of them
"""

import argparse
import functools
import importlib.util
import os
import sys
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
import rich.table

from cgjax.analysis import machines, ntk, ntk_plan
from cgjax.analysis import salience as kernels
from cgjax.core import parallel
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import say
from cgjax.experiments.kernels import bench_ntk, tasks, theory

PARTS = ("phase", "ntk", "convnet")
REPEATS = 3
N_GRID = 50
EVERY = 6  # of the kernels goes through scikit-learn's loop
CAP = 1_000_000  # its iterations: it stalls where classes cannot be separated
N_PAIRS = 2000
MATRIX = 8192  # rows of the product that counts as the peak


def run(batch: int = 0, steps: int = 0, parts: str = "all", n_pairs: int = 0) -> None:
    """Prints the tables of the parts, "all" or some of PARTS with commas between them.

    batch: kernels of the phase map at a time, 0 for all at once. n_pairs: 0 for 2,000 on an
    accelerator, and to leave the ConvNet out on a CPU. `steps` means nothing here.
    """
    del steps
    chosen = PARTS if parts == "all" else tuple(parts.split(","))
    if unknown := set(chosen) - set(PARTS):
        raise BadInput(f"no part '{min(unknown)}': all, or some of {','.join(PARTS)}")
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · {os.cpu_count()} CPU cores")
    if "phase" in chosen:
        phase(batch)
    if "ntk" in chosen:
        against_jacrev()
    if "convnet" in chosen and (n_pairs or jax.default_backend() != "cpu"):
        convnet(n_pairs or N_PAIRS)
    elif "convnet" in chosen:
        say(f"NTK of the ConvNet on {N_PAIRS:,} pairs: on an accelerator, or a few with --pairs")


def fastest(fn, repeats: int = REPEATS) -> float:
    """Seconds of the quickest of a few calls after a first one; the results are waited for."""
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(fn())
        times.append(time.perf_counter() - started)
    return min(times)


def table(title: str, columns: tuple, rows: list) -> None:
    """Rows of text under their columns, the first one flush left."""
    shown = rich.table.Table(title=title, box=None, title_justify="left")
    for i, column in enumerate(columns):
        shown.add_column(column, justify="right" if i else "left")
    for row in rows:
        shown.add_row(*row)
    rich.console.Console(width=100).print(shown)


# --- phase map ------------------------------------------------------------------------------------

MACHINES = {
    "SVM": lambda k_train, y, k_test: machines.svc(k_train, y, k_test, theory.PRICE),
    "ridgeless": machines.ridgeless,
}


def phase(chunk: int = 0, n_grid: int = N_GRID, every: int = EVERY) -> None:
    """Both machines on CD-1, CD-2, CD-3 for every kernel of the map, against scikit-learn."""
    kappas = theory.phase_kernels(n_grid)
    members = [tasks.cd(k) for k in (1, 2, 3)]
    solvers = {(task.name, name): solver(task, name) for task in members for name in MACHINES}
    with jax.enable_x64(True):
        on_device = jnp.asarray(kappas)
        whole = mapped(lambda kappa: {k: fn(kappa) for k, fn in solvers.items()}, chunk)
        seconds = {"whole map, one call": fastest(lambda: whole(on_device))}
        found = whole(on_device)
        for (task, name), fn in solvers.items():
            call = mapped(fn, chunk)
            seconds[task, name] = fastest(lambda call=call: call(on_device))
        pieces = linear_algebra(members[0], on_device)
    n = len(kappas)
    counts = {key: n * (len(solvers) if isinstance(key, str) else 1) for key in seconds}
    rows = [_fits(key, counts[key], s) for key, s in seconds.items()]
    rows += [(name, f"{1e3 * s:.1f}", "", "") for name, s in pieces.items()]
    chosen = slice(None, None, every)
    if importlib.util.find_spec("sklearn"):
        for task in members:
            rate = n / seconds[task.name, "SVM"]
            loops, decisions = scikit_learn(kappas[chosen], task)
            rows += [_fits(key, len(decisions), s, rate) for key, s in loops.items()]
            ours = np.asarray(found[task.name, "SVM"])[chosen]
            _compare_signs(task, ours, decisions)
    else:
        say("scikit-learn is not installed: no comparison for the phase map")
    title = f"phase map, {n:,} kernels" + (f", {chunk} at a time" if chunk else "")
    table(title, ("part", "ms", "fits/s", "our SVM is faster by"), rows)


def _fits(key, n, seconds, ours=None):
    name = key if isinstance(key, str) else "{}: {}".format(*key)
    ratio = "" if ours is None else f"{ours * seconds / n:.1f} x"
    return name, f"{1e3 * seconds:.1f}", f"{n / seconds:,.0f}", ratio


def _compare_signs(task, ours, theirs):
    """Margins [kernels, tests] of both; where f = 0 the sign is rounding."""
    decided = np.minimum(np.abs(ours), np.abs(theirs)) > 1e-3
    same = np.sign(ours)[decided] == np.sign(theirs)[decided]
    say(f"{task.name}: {same.mean():.2%} of {same.size:,} decisions as scikit-learn's")


def solver(task: tasks.Task, machine: str):
    """kappa(0..3) [4] -> y f [tests] on the task's test inputs, to be mapped over kernels."""
    train, test = task.x[task.is_train], task.x[~task.is_train]
    y, y_test = task.y[task.is_train], task.y[~task.is_train]

    def margins(kappa):
        k_train = kernels.overlap_kernel(train, train, kappa)
        return y_test * MACHINES[machine](k_train, y, kernels.overlap_kernel(test, train, kappa))

    return margins


def mapped(fn, chunk: int):
    """fn over the first axis, in one program: all at once, or `chunk` at a time."""
    if chunk:
        return jax.jit(lambda xs: jax.lax.map(fn, xs, batch_size=min(chunk, len(xs))))
    return jax.jit(jax.vmap(fn))


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

    seconds = {(task.name, "SVC loop, one core"): fastest(lambda: svc_loop(kappas, task), 1)}
    n_cores = joblib.cpu_count()
    if n_cores > 1:
        pool = joblib.Parallel(n_jobs=n_cores)
        calls = [joblib.delayed(svc_loop)(part, task) for part in np.array_split(kappas, n_cores)]
        seconds[task.name, f"SVC loop, {n_cores} cores"] = fastest(lambda: pool(calls), 1)
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
            machine = SVC(kernel="precomputed", C=theory.PRICE, max_iter=CAP)
            machine.fit(kappa[shared], task.y[task.is_train])
            found.append(machine.decision_function(kappa[shared_test]))
    return np.stack(found) * task.y[~task.is_train][None]


# --- empirical NTKs -------------------------------------------------------------------------------


def against_jacrev() -> None:
    """Ours, by automatic choice, and the plain contraction of Jacobians."""
    if jax.default_backend() == "tpu":
        say("empirical NTKs: not on a TPU, which lets in one process at a time")
        return
    left_out = () if jax.default_backend() == "cpu" else bench_ntk.SMALL
    cases = [name for name in bench_ntk.CASES if name not in left_out]
    rows = [row for name in cases for row in bench_ntk.rows(name, bench_ntk.measure(name))]
    title = "empirical NTK; peak memory beyond that of a started process, with compilation"
    table(title, ("network", "form", "ms", "peak MiB", "ours is faster by"), rows)


# --- the ConvNet's kernel -------------------------------------------------------------------------


def convnet(n_pairs: int = N_PAIRS, rows: int = MATRIX) -> None:
    """NTK of the ConvNet at initialisation on pairs of digits, as a share of the product's peak."""
    f, params, x = bench_ntk.digit_pairs(n_pairs)
    # All parameters, each pair of samples once.
    needed = ntk_plan.plan(f, params, x, algorithm="structured", memory=1e18, tile=1).flops
    peaks = {name: peak(rows, *how) for name, how in PEAKS.items()}
    shown = [(f"product of {rows:,} x {rows:,}, {k}", "", f"{v:.1f}", "") for k, v in peaks.items()]
    found = {}
    for precision, name in (("highest", "float32"), ("default", "default")):
        kernel = functools.partial(ntk.empirical, f, params, x, precision=precision)
        found[name] = np.asarray(kernel())
        seconds = fastest(functools.partial(kernel, verbose=False))
        rate = needed / seconds / 1e12
        shares = " / ".join(f"{rate / value:.1%}" for value in peaks.values())
        shown.append(
            (f"NTK, {n_pairs:,} pairs, {name}", f"{1e3 * seconds:.1f}", f"{rate:.2f}", shares)
        )
    gap = np.abs(found["default"] - found["float32"]).max() / np.abs(found["float32"]).max()
    say(f"{needed / 1e12:.3g} TFLOP needed; precisions differ by {gap:.1e} of the largest entry")
    title = f"ConvNet, inputs {'x'.join(map(str, x.shape[1:]))}, precision of the products"
    table(title, ("", "ms", "TFLOP/s", f"share of {' / '.join(peaks)}"), shown)


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
    parser = argparse.ArgumentParser(prog="python -m cgjax.experiments.kernels.bench")
    parser.add_argument("--parts", default="all", help=f"all, or some of {','.join(PARTS)}")
    parser.add_argument("--batch", type=int, default=0, help="kernels at a time; default: all")
    parser.add_argument("--pairs", type=int, default=0, help=f"digits; default: {N_PAIRS}")
    flags = parser.parse_args(argv)
    run(flags.batch, parts=flags.parts, n_pairs=flags.pairs)


if __name__ == "__main__":
    sys.exit(main())
