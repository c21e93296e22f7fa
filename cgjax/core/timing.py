"""What benchmarks share: the quickest of a few calls, and tables of what they found."""

import time
from collections.abc import Callable

import jax
import rich.console
import rich.table


def fastest(fn: Callable, repeats: int = 3) -> float:
    """Seconds of the quickest of a few calls after a first one; the results are waited for."""
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(fn())
        times.append(time.perf_counter() - started)
    return min(times)


def table(title: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
    """Rows of text under their columns, the first one flush left."""
    shown = rich.table.Table(title=title, box=None, title_justify="left")
    for i, column in enumerate(columns):
        shown.add_column(column, justify="right" if i else "left")
    for row in rows:
        shown.add_row(*row)
    rich.console.Console(width=100).print(shown)


def ratios(title: str, unit: str, rows: dict) -> None:
    """A table of times by form: the first row is ours, the others are divided by it."""
    ours = next(iter(rows.values()))
    lines = [(name, f"{value:.3f}", f"{value / ours:.2f} x") for name, value in rows.items()]
    table(title, ("form", unit, "ours is faster by"), lines)
