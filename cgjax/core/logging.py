"""What a run says and writes: the live line, metrics.jsonl, results.json, the closing table."""

import json
import logging
import math
import os
import pathlib
import sys
import time

import numpy as np
import rich.console
import rich.live
import rich.table
import rich.text

from cgjax.core import workdir as folders

log = logging.getLogger("cgjax")


def say(text: str) -> None:
    """One line for the person who watches."""
    print(text, flush=True)


class Metrics:
    """metrics.jsonl: one object per line, `{"kind", "seeds", "step", metric: [per replica]}`."""

    def __init__(self, path: pathlib.Path, seeds):
        self.path = path
        self.seeds = [int(seed) for seed in seeds]

    def write(self, kind: str, step: int, values: dict) -> None:
        record = {"kind": kind, "seeds": self.seeds, "step": int(step)}
        record |= {name: _plain(value) for name, value in values.items()}
        with folders.disk_errors(self.path), open(self.path, "a") as handle:
            handle.write(json.dumps(record) + "\n")

    def cut(self, step: int) -> None:
        """Forgets what these seeds wrote after `step`, and a last line that a kill cut in two."""
        if self.path.exists():
            kept = [
                record
                for record in read_lines(self.path)
                if record["seeds"] != self.seeds or record["step"] <= step
            ]
            text = "".join(json.dumps(record) + "\n" for record in kept)
            folders.write_atomic(self.path, text)

    def history(self) -> dict:
        """`{"step": [n], "loss": [n, R], ..., "eval": {"step": [m], "r2_all": [m, R]}}`."""
        records = read_lines(self.path) if self.path.exists() else []
        mine = [record for record in records if record["seeds"] == self.seeds]
        columns = {}
        for kind in ("train", "eval"):
            rows = [record for record in mine if record["kind"] == kind]
            names = [name for name in (rows[0] if rows else {}) if name not in ("kind", "seeds")]
            columns[kind] = {
                name: np.array([row[name] for row in rows], dtype=float) for name in names
            }
        return {**columns["train"], "eval": columns["eval"]}


def _plain(value):
    # json knows no NaN: a replica without a number is null there and NaN again when read.
    array = np.asarray(value, dtype=float)
    return [x if math.isfinite(x) else None for x in array.tolist()] if array.ndim else float(array)


def read_lines(path: pathlib.Path) -> list[dict]:
    """All whole lines of a metrics file."""
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue  # the line a kill cut in two
    return records


class Progress:
    """One live line on a terminal; elsewhere a plain line now and then."""

    def __init__(self, total: int, headline: str, every_s: float = 15.0):
        self.total, self.headline, self.every_s = total, headline, every_s
        self.score = float("nan")
        self.started = self.first_step = None
        self.last_line, self.text, self.said = 0.0, "", ""
        self.live = None
        if sys.stdout.isatty():
            self.live = rich.live.Live(console=rich.console.Console(), auto_refresh=False)
            self.live.start()

    def update(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.started is None:
            self.started, self.first_step = now, step
        rate = (step - self.first_step) / (now - self.started) if step > self.first_step else 0.0
        text = f"step {step:,}/{self.total:,}  loss {loss:.2e}"
        if math.isfinite(self.score):
            text += f"  {self.headline} {self.score:.3f}"
        if rate:
            eta = int((self.total - step) / rate)
            speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
            text += f"  {speed} it/s  ETA {eta // 60}:{eta % 60:02d}"
        self.text = text
        if self.live:
            self.live.update(rich.text.Text(text), refresh=True)
        elif now - self.last_line > self.every_s:
            self.last_line, self.said = now, text
            say(text)

    def close(self) -> None:
        if self.live:
            self.live.stop()
        elif self.text != self.said:
            say(self.text)


def compiling(what: str = ""):
    """Prints "compiling…" before and the seconds after: silence there is read as a hang."""
    return _Compiling(f"compiling{' ' + what if what else ''}… ")


class _Compiling:
    def __init__(self, text):
        self.text = text

    def __enter__(self):
        print(self.text, end="", flush=True)
        self.started = time.monotonic()

    def __exit__(self, kind, value, trace):
        seconds = time.monotonic() - self.started
        print("failed" if kind else f"{seconds:.1f} s", flush=True)


def summary(values, seeds, published: dict | None) -> dict:
    """One entry of results.json: ours with every seed's value, beside the paper's number."""
    values = [float(v) for v in values]
    finite = [v for v in values if math.isfinite(v)]
    entry = {
        "ours": float(np.mean(finite)) if finite else None,
        "sd": float(np.std(finite, ddof=1)) if len(finite) > 1 else None,
        "values": [v if math.isfinite(v) else None for v in values],
        "seeds": [int(s) for s in seeds],
        "paper": None,
        "paper_sd": None,
        "where": None,
    }
    if published:
        entry |= {
            "paper": published["mean"],
            "paper_sd": published["sd"],
            "where": published["where"],
        }
    return entry


def write_results(path: pathlib.Path, metrics: dict, config_hash: str, extra: dict) -> dict:
    """results.json: the metrics, then wall time, devices, versions, config hash."""
    results = {"metrics": metrics, "config_hash": config_hash, **extra, **folders.environment()}
    folders.write_atomic(path, json.dumps(results, indent=1))
    return results


def write_arrays(path: pathlib.Path, arrays: dict) -> None:
    """arrays.npz, replaced in one step."""
    temporary = path.with_name("arrays.tmp.npz")
    with folders.disk_errors(path):
        np.savez_compressed(temporary, **arrays)
        os.replace(temporary, path)


def print_table(metrics: dict, verdict: bool) -> None:
    """Ours against the paper; a verdict only where the run is of the published scale."""
    table = rich.table.Table(box=None, pad_edge=False)
    for name in ("metric", "ours", "paper", "diff"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    if verdict:
        table.add_column("verdict")
    for name, entry in metrics.items():
        row = [name, _number(entry["ours"], entry["sd"]), "-", "-"]
        word = ""
        if entry["paper"] is not None:
            row[2] = _number(entry["paper"], entry["paper_sd"])
            if entry["ours"] is not None:
                difference = entry["ours"] - entry["paper"]
                row[3] = (
                    f"{difference:+.4f}" if abs(entry["paper"]) >= 0.01 else f"{difference:+.2e}"
                )
                spread = 2 * math.hypot(entry["sd"] or 0.0, entry["paper_sd"] or 0.0)
                word = (
                    "agrees"
                    if abs(difference) <= max(spread, 0.01 * abs(entry["paper"]))
                    else "differs"
                )
        table.add_row(*row, *([word] if verdict else []))
    rich.console.Console(width=None if sys.stdout.isatty() else 100).print(table)


def _number(mean, sd) -> str:
    if mean is None:
        return "-"
    text = (lambda x: f"{x:.4f}") if abs(mean) >= 0.01 or mean == 0 else (lambda x: f"{x:.3e}")
    return text(mean) + (f" ± {text(sd)}" if sd is not None else "")
