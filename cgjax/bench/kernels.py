"""Speed of the kernels study: the phase map, empirical NTKs, the ConvNet's NTK on 2,000 pairs,
training steps of the image networks.

python -m cgjax.bench kernels                all parts
python -m cgjax.bench.kernels --parts=phase  only this part
"""

import argparse
import concurrent.futures
import functools
import importlib.util
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from cgjax import config as configs
from cgjax.analysis import machines, ntk
from cgjax.analysis import salience as kernels
from cgjax.analysis.ntk import plan
from cgjax.bench import ntk as bench_ntk
from cgjax.bench.harness import Asked, answers, fastest, step_call, table, torch_calls
from cgjax.core import parallel
from cgjax.core.errors import BadInput, command
from cgjax.core.logging import say
from cgjax.experiments.kernels import images as study
from cgjax.experiments.kernels import tasks
from cgjax.experiments.kernels.theory import PRICE, phase_kernels

PARTS = ("phase", "ntk", "convnet", "images")
TOGETHER = (("phase",), ("ntk", "convnet"), ("images",))  # each group compiles in parallel
N_GRID = 50
EVERY = 6  # scikit-learn's loop solves every sixth kernel
CAP = 1_000_000  # iterations of scikit-learn: it stalls if the classes are not separable
N_PAIRS = 2000
EXACT = 128  # the first pairs, which are compared with float64
MATRIX = 8192  # rows of the matrix product that measures the peak; fewer on a CPU


def run(batch: int = 0, steps: int = 0, parts: str = "all", n_pairs: int = 0) -> None:
    """Prints the tables of the parts: "all", or a comma-separated list of PARTS.

    batch: kernels of the phase map that are solved at a time; 0: all at once.
    n_pairs: for the ConvNet; 0: N_PAIRS on an accelerator, and no ConvNet on a CPU.
    steps: training steps of the image networks in one call.
    """
    chosen = PARTS if parts == "all" else tuple(parts.split(","))
    if unknown := set(chosen) - set(PARTS):
        raise BadInput(f"no part '{min(unknown)}': all, or some of {','.join(PARTS)}")
    say(f"jax {jax.__version__} · {parallel.describe_devices()} · {os.cpu_count()} CPU cores")
    calls = {
        "phase": lambda: whole(lambda: phase(batch)),
        "ntk": against_jacrev,
        "convnet": lambda: convnet(n_pairs or N_PAIRS),
        "images": lambda: whole(lambda: images(steps)),
    }
    if "convnet" in chosen and not n_pairs and jax.default_backend() == "cpu":
        chosen = tuple(part for part in chosen if part != "convnet")
        say(
            f"convnet: left out, {N_PAIRS:,} pairs need an accelerator; on a CPU, use --pairs=<few>"
        )
    for group in TOGETHER:
        in_two_steps({part: calls[part]() for part in group if part in chosen})


def in_two_steps(parts: dict) -> None:
    """Compiles all parts {name: generator} in parallel, then times them one after the other.

    A part compiles before its `yield` and is timed after it. The first line of a part's device
    error is printed, and the other parts continue.
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
    """A part that compiles and is timed in the second step."""
    yield
    call()


# --- phase map ------------------------------------------------------------------------------------

MACHINES = {
    "SVM": lambda k, y, k_test, mask: machines.svc(k, y, k_test, PRICE, mask=mask),
    "ridgeless": lambda k, y, k_test, mask: machines.ridgeless(k, y, k_test, mask=mask),
}


def phase(chunk: int = 0, n_grid: int = N_GRID, every: int = EVERY) -> None:
    """Times both machines on CD-1, CD-2, CD-3 for every kernel of the map, and scikit-learn's."""
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
    """A line of the table for n fits; ours: fits per second to compare with."""
    ratio = "" if ours is None else f"{ours * seconds / n:.1f} x"
    name = f"{task}: {machine}" if machine else task
    return name, f"{1e3 * seconds:.1f}", f"{n / seconds:,.0f}", ratio


def compare_signs(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Compares the signs of margins [kernels, tests], except near 0, where rounding decides."""
    decided = np.minimum(np.abs(ours), np.abs(theirs)) > 1e-3
    same = np.sign(ours)[decided] == np.sign(theirs)[decided]
    say(f"{name}: {same.mean():.2%} of {same.size:,} decisions agree with scikit-learn's")


def whole_map(members: list, chunk: int):
    """kappas [n, 4] -> margins [machines, tasks, n, tests] in one program.

    All pairs of task and kernel are one batch; the machines are independent branches.
    """
    branches = [mapped(solver(members, name), chunk) for name in MACHINES]

    @jax.jit
    def solve(kappas):
        pairs = every_pair(len(members), kappas)
        margins = jnp.stack([branch(*pairs) for branch in branches])
        return margins.reshape(len(branches), len(members), len(kappas), -1)

    return solve


def every_pair(n_tasks: int, kappas) -> tuple:
    """All pairs of task and kernel: task indices [tasks * n], kernels [tasks * n, 4]."""
    return jnp.repeat(np.arange(n_tasks), len(kappas)), jnp.tile(jnp.asarray(kappas), (n_tasks, 1))


def solver(members: list, machine: str):
    """A function (task index, kappa(0..3) [4]) -> y f [tests] on the task's test inputs.

    Training sets are padded to the longest with masked points, test sets with points of y = 0.
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
    """fn mapped over the first axis of its arguments: all at once, or `chunk` at a time."""
    if not chunk:
        return jax.jit(jax.vmap(fn))
    return jax.jit(lambda *xs: jax.lax.map(lambda x: fn(*x), xs, batch_size=min(chunk, len(xs[0]))))


def linear_algebra(task: tasks.Task, kappas: jax.Array) -> dict:
    """Seconds of the parts of a Newton step: a Cholesky factor, solves with two right sides."""
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
    """Seconds of scikit-learn's loop on one core and on all; its margins [kernels, tests]."""
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
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when it reaches CAP
        for kappa in kappas:
            machine = SVC(kernel="precomputed", C=PRICE, max_iter=CAP)
            machine.fit(kappa[shared], task.y[task.is_train])
            values.append(machine.decision_function(kappa[shared_test]))
    return np.stack(values) * task.y[~task.is_train][None]


# --- empirical NTKs -------------------------------------------------------------------------------


def against_jacrev() -> Iterator:
    """Times our NTKs, algorithm chosen automatically, and contractions of Jacobians.

    A part for `in_two_steps`.
    """
    backend = jax.default_backend()
    if backend == "tpu":
        yield
        say("empirical NTKs: left out, because a TPU serves one process at a time")
        return
    # A CPU has too few cores for several cases at once. An accelerator's cases are in two groups,
    # because every form has a process, and all together take much host memory.
    large, small = bench_ntk.LARGE, bench_ntk.SMALL
    groups = [(name,) for name in small + large] if backend == "cpu" else [large, small]
    begun = {} if backend == "cpu" else bench_ntk.begun(large)
    yield
    rows = []
    for group in groups:
        begun |= {} if group[0] in begun else bench_ntk.begun(group)
        for name in group:
            timings = bench_ntk.in_turns(*begun[name])
            say(
                bench_ntk.summary_line(name, timings)
            )  # now, so that an interrupted benchmark shows it
            rows += bench_ntk.rows(name, timings)
    title = (
        f"empirical NTK, all products in '{bench_ntk.PRECISION}' precision; peak memory above "
        "that before compilation"
    )
    table(title, ("network", "form", "ms", "peak MiB", "ours is faster by"), rows)


# --- the ConvNet's kernel -------------------------------------------------------------------------


def convnet(n_pairs: int = N_PAIRS, rows: int = 0) -> Iterator:
    """Times the ConvNet's NTK on pairs of digits, as a share of a matrix product's FLOP/s.

    The network is at initialisation. A part for `in_two_steps`.
    """
    rows = rows or (MATRIX if jax.default_backend() != "cpu" else MATRIX // 16)
    f, params, x = bench_ntk.digit_pairs(n_pairs)
    # FLOPs for all parameters, with each pair of samples counted once.
    needed = plan.plan(f, params, x, algorithm="structured", memory=1e18, tile=1).flops
    few = min(n_pairs, EXACT)
    say(f"{needed / 1e12:.3g} TFLOP; error: largest of the first {few} pairs, against float64")
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
        block = np.asarray(kernel())[:few, :few]
        error = np.abs(block - exact).max() / np.abs(exact).max()
        seconds = fastest(kernel)
        rate = needed / seconds / 1e12
        shares = " / ".join(f"{rate / value:.1%}" for value in peaks.values())
        name = f"NTK, {n_pairs:,} pairs, {precision}"
        shown.append((name, f"{1e3 * seconds:.1f}", f"{rate:.2f}", shares, f"{error:.1e}"))
    title = f"ConvNet, inputs {'x'.join(map(str, x.shape[1:]))}, precision of the products"
    table(title, ("", "ms", "TFLOP/s", f"share of {' / '.join(peaks)}", "error"), shown)


def in_float64(n_pairs: int, few: int) -> np.ndarray:
    """The float64 kernel of the first `few` of n_pairs pairs."""
    with jax.enable_x64(True):
        f, params, x = bench_ntk.digit_pairs(n_pairs, np.float64)
        return np.asarray(ntk.empirical(f, params, x[:few]))


def timed_by(f, params, x, precision: str):
    """A function without arguments that computes the kernel in a precision, compiled."""
    kernel = functools.partial(ntk.empirical, f, params, x, precision=precision)
    jax.block_until_ready(kernel(verbose=precision == PRECISIONS[0]))  # all have the same plan
    return kernel


PRECISIONS = ("highest", "default")
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
    """Runs some of the parts, at given sizes."""
    parser = argparse.ArgumentParser(prog="python -m cgjax.bench.kernels")
    parser.add_argument("--parts", default="all", help=f"all, or some of {','.join(PARTS)}")
    parser.add_argument(
        "--batch", type=int, default=0, help="kernels of the phase map at a time; default: all"
    )
    parser.add_argument(
        "--pairs", type=int, default=0, help=f"pairs of digits for convnet; default: {N_PAIRS}"
    )
    flags = parser.parse_args(argv)
    run(flags.batch, parts=flags.parts, n_pairs=flags.pairs)


if __name__ == "__main__":
    sys.exit(main())


# --- images ---------------------------------------------------------------------------------------
# Training steps of the image networks at the published sizes, with one seed and with several,
# against PyTorch.
#
# Our steps draw, index, crop and compose their images; PyTorch's steps reuse one batch that is
# already on the device. So the ratios are lower bounds.


ROWS = {
    "convnet": "addition_mnist",
    "resnet": "addition_cifar_resnet",
    "vit": "addition_cifar_vit",
}
SEEDS = 4
# The ViT, which has no Pallas kernels, takes longest to compile: only one precision.
DTYPES = {
    "convnet": ("float32", "bfloat16"),
    "resnet": ("float32", "bfloat16"),
    "vit": ("float32",),
}
TORCH = ("eager", "compiled")
# Synthetic images: the time of a step does not depend on their content.
MADE_UP = {"data.synthetic": 2000, "data.n_pool": 100, "data.n_total": 4000, "data.n_val": 2}
SMALL = {"data.batch": 4, "data.n_total": 64}


def images(steps: int = 0) -> None:
    """Prints a table for each network; on a CPU networks are small, to show that it runs."""
    if not importlib.util.find_spec("torch"):
        say("torch is not installed: no comparison with PyTorch")
    if jax.default_backend() == "cpu":
        compare(tuple(ROWS), "smoke", SMALL, steps or 2, dtypes=dict.fromkeys(ROWS, ("float32",)))
    else:
        compare(tuple(ROWS), "fast", {}, steps or 100)


def compare(nets: tuple, size: str, changes: dict, steps: int, seeds=SEEDS, dtypes=DTYPES) -> None:
    """Prints a table for each network: ours by precision with one seed and several, then PyTorch.

    All programs are compiled in parallel before the first one is timed. On a CPU, PyTorch's are
    compiled one after the other.
    """
    theirs = tuple(itertools.product(nets, TORCH)) if importlib.util.find_spec("torch") else ()
    parallel = () if jax.default_backend() == "cpu" else theirs  # a CPU has too few cores
    begun = {key: _begin(*key, size, changes) for key in parallel}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ours = {
            (net, dtype, n): pool.submit(compiled, net, dtype, n, size, changes, steps)
            for net in nets
            for dtype, n in itertools.product(dtypes[net], (1, seeds))
        }
    first = {key: process.answer() for key, process in begun.items()}
    for net in nets:
        times = {
            f"{dtype}, {_seeds(n)}": _timed(ours[net, dtype, n], steps * n)
            for dtype, n in itertools.product(dtypes[net], (1, seeds))
        }
        for key in theirs:
            if key[0] == net:
                process = begun.get(key) or _begin(*key, size, changes)
                times[f"PyTorch, {key[1]}, TF32"] = _time_again(process, first.get(key))
        rows = [_row(name, t, next(iter(times.values()))) for name, t in times.items()]
        config = settings(net, size, changes)
        columns = ("form", "ms per step and seed", "one seed of ours is faster by")
        table(f"{net}: train step, batch {config.data.batch}, {shape(config)}", columns, rows)


def _timed(call: concurrent.futures.Future, n: int) -> float | str:
    """Seconds per step of a call of n steps, or the first line of the error."""
    try:
        return fastest(call.result()) / n
    except jax.errors.JaxRuntimeError as error:
        return str(error).splitlines()[0][:60]


def _begin(*arguments) -> Asked:
    """Starts a process with `torch_worker` and these arguments."""
    code = "from cgjax.bench import kernels; kernels.torch_worker{!r}"
    # The process uses JAX only to compose the batch.
    process = Asked(code.format(arguments), {"JAX_PLATFORMS": "cpu"})
    process.ask()
    return process


def _time_again(process: Asked, answer: dict | str | None) -> float | str:
    """Seconds per step, timed while no program compiles; or a text that says why there are none.

    answer: the first one, if it was read already.
    """
    answer = process.answer() if answer is None else answer
    if isinstance(answer, dict):
        process.ask()
        answer = process.answer()
    process.end()
    return answer["seconds"] if isinstance(answer, dict) else answer


def _row(name: str, t: float | str, ours: float | str) -> tuple:
    if isinstance(t, str):
        return name, t, ""
    return name, f"{1e3 * t:.3f}", "" if isinstance(ours, str) else f"{t / ours:.2f} x"


def _seeds(n: int) -> str:
    return "one seed" if n == 1 else f"{n} seeds in one program"


def settings(net: str, size: str, changes: dict, seeds: int = 1):
    """The config of the network's addition row, with synthetic images."""
    config = configs.load(f"kernels:{ROWS[net]},{size}")
    with config.unlocked():
        config.update_from_flattened_dict(MADE_UP | changes)
        config.train.seeds = tuple(range(seeds))
    return config


def compiled(net: str, dtype: str, seeds: int, size: str, changes: dict, steps: int):
    """The training call of all seeds together: a function without arguments."""
    config = settings(net, size, changes | {"model.dtype": dtype}, seeds)
    shown = study.load_images(config, config.data.tasks[0], config.data.distances[0])
    in_steps = study.in_steps(config, shown)
    with in_steps.unlocked():
        return step_call(study.build(in_steps, shown), in_steps, steps)


def shape(config) -> str:
    """The shape of the network's input for one sample, as text."""
    return " x ".join(map(str, batch(config).shape[1:]))


def batch(config) -> jax.Array:
    """A training batch [B, H, W, c] of the first seed."""
    shown = study.load_images(config, config.data.tasks[0], config.data.distances[0])
    samples = shown.sets[0].train.images[: config.data.batch]
    return study.show(shown, jnp.asarray(shown.pixels), samples)


# --- the same networks in PyTorch -----------------------------------------------------------------


def torch_worker(net: str, form: str, size: str, changes: dict) -> None:
    """Runs in a separate process: answers with seconds per step; form: one of TORCH."""
    call, steps = torch_steps(settings(net, size, changes))[form]
    answers(lambda: {"seconds": fastest(call) / steps})


def torch_steps(config) -> dict:
    """{form of TORCH: (function that makes training steps, number of steps)}."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    x = torch.as_tensor(np.moveaxis(np.asarray(batch(config)), -1, 1).copy(), device=device)
    network = torch_network(config, x.shape[1:]).to(device)
    y = torch.zeros(len(x), device=device)
    name, optimisers = config.optim.optimiser, {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}
    options = {"momentum": 0.9} if name == "sgd" else {}
    optimiser = optimisers[name](network.parameters(), config.optim.lr, **options)

    def loss():
        return torch.mean((network(x)[:, 0] - y) ** 2)

    calls, steps = torch_calls(loss, optimiser, device == "cuda")
    return {form: (call, steps) for form, call in zip(TORCH, calls)}


def torch_network(config, shape: tuple[int, int, int]):
    """The row's network on images [c, H, W]: [B, c, H, W] -> [B, 1]."""
    sizes = config.model[config.model.net]
    return {"convnet": torch_convnet, "resnet": torch_resnet, "vit": torch_vit}[config.model.net](
        shape, **{name: sizes[name] for name in sizes}
    )


def torch_convnet(shape, channels, hidden):
    """`nets.conv.ConvNet` in PyTorch."""
    from torch import nn

    read, height, width = shape
    layers = []
    for out in channels:
        layers += [nn.Conv2d(read, out, 5), nn.ReLU(), nn.BatchNorm2d(out)]
        read, height, width = out, height - 4, width - 4
    layers += [nn.MaxPool2d(2), nn.Flatten()]
    widths = (read * (height // 2) * (width // 2), *hidden, 1)
    for inside, out in zip(widths, widths[1:]):
        layers += [nn.Linear(inside, out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def torch_resnet(shape, channels):
    """`nets.resnet.ResNet` in PyTorch."""
    from torch import nn

    def conv_norm(read, out, size, stride):
        conv = nn.Conv2d(read, out, size, stride, size // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(out))

    class Block(nn.Module):
        def __init__(self, read, out, stride):
            super().__init__()
            self.first, self.second = conv_norm(read, out, 3, stride), conv_norm(out, out, 3, 1)
            same = stride == 1 and read == out
            self.shortcut = nn.Identity() if same else conv_norm(read, out, 1, stride)

        def forward(self, x):
            y = self.second(nn.functional.relu(self.first(x)))
            return nn.functional.relu(y + self.shortcut(x))

    layers, read = [conv_norm(shape[0], channels[0], 3, 1), nn.ReLU()], channels[0]
    for stage, out in enumerate(channels):
        layers += [Block(read, out, 2 if stage else 1), Block(out, out, 1)]
        read = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(read, 1))


def torch_vit(shape, dim, depth, heads, head_dim, mlp_dim, patch: int = 8, dropout: float = 0.1):
    """`nets.vit.ViT` in PyTorch."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            inner = heads * head_dim
            self.norm = nn.LayerNorm(dim)
            self.qkv, self.out = nn.Linear(dim, 3 * inner, bias=False), nn.Linear(inner, dim)
            self.mlp = nn.Sequential(
                nn.LayerNorm(dim),
                nn.Linear(dim, mlp_dim),
                nn.GELU(),
                nn.Dropout(dropout),
                nn.Linear(mlp_dim, dim),
                nn.Dropout(dropout),
            )

        def forward(self, x):
            qkv = self.qkv(self.norm(x)).unflatten(-1, (3, heads, head_dim)).transpose(1, 3)
            mixed = nn.functional.scaled_dot_product_attention(*qkv.unbind(2)).transpose(1, 2)
            x = x + nn.functional.dropout(self.out(mixed.flatten(2)), dropout)
            return x + self.mlp(x)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Conv2d(shape[0], dim, patch, patch)
            n_tokens = 1 + (shape[1] // patch) * (shape[2] // patch)
            self.first = nn.Parameter(torch.randn(1, 1, dim))
            self.positions = nn.Parameter(torch.randn(1, n_tokens, dim))
            self.blocks = nn.Sequential(*(Block() for _ in range(depth)))
            self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1))

        def forward(self, x):
            tokens = self.embedding(x).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.first.expand(len(x), -1, -1), tokens], 1) + self.positions
            return self.head(self.blocks(nn.functional.dropout(tokens, dropout))[:, 0])

    return Network()
