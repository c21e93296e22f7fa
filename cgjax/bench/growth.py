"""How time and memory grow: `look`, audits, tangent kernels, `identify`, sweeps, the page.

`python -m cgjax.bench growth` prints CPU seconds and peak memory at several sizes n, and the
exponent of n between the two largest sizes. Each function runs in a process of its own. The first
call at each size compiles; the second one is timed.
"""

import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

from cgjax.bench.harness import table

LIMIT_S = 60  # CPU seconds of one call; larger sizes are skipped after it
LEAST = (0.01, 1.0)  # CPU seconds, MB: less is printed as zero, and has no exponent

# --- one call at size n: a function without arguments ---------------------------------------------


def look(n):
    """All lenses on n inputs of 5 x 5 combinations."""
    import jax.numpy as jnp

    from cgjax.analysis import lenses

    factors = np.stack([np.arange(n) % 5, np.arange(n) // 5 % 5], axis=1)
    rng = np.random.default_rng(0)
    x = np.concatenate([np.eye(5)[factors[:, 0]], np.eye(5)[factors[:, 1]]], axis=1)
    x = (x + 0.01 * rng.standard_normal(x.shape)).astype(np.float32)
    params = {"w": rng.standard_normal((10, 8)).astype(np.float32), "v": np.ones(8, np.float32)}

    def f(params, x):
        return jnp.tanh(x @ params["w"]) @ params["v"]

    is_train = (factors[:, 0] < 4) | (factors[:, 1] < 4)
    return lambda: lenses.look(f, params, x, factors, is_train, "w", n_steps=20, verbose=False)


def audit(n):
    """The rank condition at n values with 8 partners each, 8 x 8 pixels."""
    from cgjax.analysis import support

    rng = np.random.default_rng(0)
    images, partners = rng.uniform(size=(n, 8, 8, 3)), rng.uniform(size=(n, 8, 2, 8, 8, 3))
    partners[:, :, 0] = images[:, None]
    return lambda: support.audit(lambda slots: slots[0] + slots[1], images, 0, partners)


def tangent_kernel(n):
    """`ntk.empirical` of n inputs: the result itself has n^2 numbers."""
    import jax.numpy as jnp

    from cgjax.analysis import ntk

    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 10)).astype(np.float32)
    params = {"w": rng.standard_normal((10, 64)).astype(np.float32), "v": np.ones((64, 1))}
    return lambda: np.asarray(ntk.empirical(lambda p, x: jnp.tanh(x @ p["w"]) @ p["v"], params, x))


def identify(n):
    """Whether n points of P determine f on n points of Q; two latents."""
    import jax.numpy as jnp

    from cgjax.analysis import support

    rng = np.random.default_rng(0)
    q = rng.uniform(size=(n, 2))
    p = np.concatenate([q * [1, 0], q * [0, 1]])[:n]
    components = [jnp.sin, jnp.cos]
    return lambda: support.identify(lambda slots: slots[0] + slots[1], components, p, q)


def sweep(n):
    """The n points of a sweep, expanded and checked."""
    from cgjax.sweep import points

    rates = ",".join(f"{1e-3 * (1 + i):.6f}" for i in range(n))
    folder = pathlib.Path(tempfile.gettempdir())
    return lambda: points.expand(["vectors:smoke"], {}, {"optim.lr": rates.split(",")}, folder)


def page(n):
    """The page of the record, with n times one family's entries."""
    import shutil

    from cgjax import report
    from cgjax.report import page as pages

    folder = pathlib.Path(tempfile.mkdtemp())
    shutil.copytree(report.RECORD / "vectors", folder / "record" / "vectors")
    for path in list((folder / "record" / "vectors").glob("*-*.json")):
        for i in range(n - 1):
            entry = json.loads(path.read_text()) | {"label": f"copy_{i}"}
            path.with_name(f"{path.stem}-copy_{i}.json").write_text(json.dumps(entry))
    return lambda: pages.write(folder / "page", folder / "record")


CASES = {
    "lenses.look, n inputs": (look, (100, 1000, 10_000)),
    "support.audit, n values": (audit, (10, 100, 1000)),
    "ntk.empirical, n inputs": (tangent_kernel, (100, 1000, 4000)),
    "support.identify, n points": (identify, (100, 400, 1600)),
    "sweep, n points": (sweep, (10, 100, 1000)),
    "page, n copies of a record": (page, (1, 4, 16)),
}


def run(batch: int = 0, steps: int = 0) -> None:
    """Prints one row per function and size; batch and steps are not used."""
    rows = []
    for name in CASES:
        command = [sys.executable, "-m", "cgjax.bench.growth", name]
        answer = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        if answer.returncode:
            last = (answer.stderr.strip().splitlines() or ["no message"])[-1]
            rows.append((name, "-", f"failed: {last[:40]}", "-", "-"))
            continue
        rows += table_rows(name, json.loads(answer.stdout.splitlines()[-1]))
    table("growth", ("what", "n", "CPU s", "MB", "exponents: time, memory"), rows)


def table_rows(name: str, measured: list[list[float]]) -> list[tuple]:
    """Rows of text from [n, CPU seconds, MB above the start], with exponents from row to row."""
    rows = []
    for i, (n, seconds, size) in enumerate(measured):
        exponents = "-"
        if i:
            before, wider = measured[i - 1], math.log(n / measured[i - 1][0])
            pairs = zip(before[1:], (seconds, size), LEAST)
            exponents = ", ".join(
                f"{math.log(b / a) / wider:.1f}" if min(a, b) >= least else "-"
                for a, b, least in pairs
            )
        rows.append(("" if i else name, f"{n:,}", f"{seconds:.2f}", f"{size:,.0f}", exponents))
    return rows


def measure(name: str) -> list[list[float]]:
    """[n, CPU seconds of a second call, MB of peak memory above the start] at each size."""
    make, sizes = CASES[name]
    measured, start = [], _peak()
    for n in sizes:
        call = make(n)
        call()
        before = time.process_time()
        call()
        seconds = time.process_time() - before
        measured.append([n, seconds, _peak() - start])
        if seconds > LIMIT_S:
            break
    return measured


def _peak() -> float:
    """Peak memory of this process in MB; it never falls, so sizes ascend."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
