"""What a run says and writes: the live line, metrics.jsonl, results.json, the closing table."""

import json
import logging
import math
import os
import pathlib
import sys
import time
import zipfile
import zlib

import numpy as np
import rich.console
import rich.live
import rich.table
import rich.text

from cgjax.core import hosts
from cgjax.core import workdir as folders
from cgjax.core.errors import BadInput, Diverged, first_line

log = logging.getLogger("cgjax")


def say(text: str) -> None:
    """One line for the person who watches."""
    print(text, flush=True)


class Metrics:
    """metrics.jsonl: one object per line, `{"kind", "group", "seeds", "step", metric: [R], "crc"}`.

    Each checksum covers its line and the checksum before it, and each checkpoint knows the last one
    of its time: a line that is torn, changed or missing is found, whatever it held.
    """

    def __init__(self, path: pathlib.Path, group: str, seeds):
        self.path, self.group = path, group
        self.seeds = [int(seed) for seed in seeds]
        self.mark = (0, "")  # lines of this group so far, and the last one's checksum

    def write(self, kind: str, step: int, values: dict) -> None:
        record = {"kind": kind, "group": self.group, "seeds": self.seeds, "step": int(step)}
        text = json.dumps(record | {name: _plain(value) for name, value in values.items()})
        crc = chained(self.mark[1], text)
        if hosts.is_writer():
            with folders.disk_errors(self.path), open(self.path, "a") as handle:
                handle.write(f'{text[:-1]}, "crc": "{crc}"}}\n')
        self.mark = (self.mark[0] + 1, crc)

    def cut(self, mark) -> None:
        """Goes back to the lines that a checkpoint knows of; a kill may have torn the last one."""
        self.mark = (int(mark[0]), str(mark[1]))
        if not hosts.is_writer():
            return
        own = {text for text, _ in self._own()}
        if self.path.exists():
            kept = [
                line
                for line in self._lines()
                if (record := _parsed(line)) and (record["group"] != self.group or line in own)
            ]
            folders.write_atomic(self.path, "".join(line + "\n" for line in kept))

    def history(self) -> dict:
        """`{"step": [n], "loss": [n, R], ..., "eval": {"step": [m], "r2_all": [m, R]}}`.

        Every host has it from the first, whose file it is.
        """
        return hosts.from_writer(self._history)

    def _history(self) -> dict:
        mine = [record for _, record in self._own()]
        columns, fixed = {}, ("kind", "group", "seeds", "crc")
        for kind in ("train", "eval"):
            rows = [record for record in mine if record["kind"] == kind]
            names = [name for name in (rows[0] if rows else {}) if name not in fixed]
            columns[kind] = {
                name: np.array([row[name] for row in rows], dtype=float) for name in names
            }
        return {**columns["train"], "eval": columns["eval"]}

    def _lines(self) -> list[str]:
        try:
            return self.path.read_text().splitlines() if self.path.exists() else []
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot read '{self.path}': {first_line(error)}; {_MEND}") from None

    def _own(self) -> list[tuple[str, dict]]:
        """(line, object) of this group up to the mark, every checksum verified."""
        found, crc = [], ""
        for line in self._lines():
            record = _parsed(line)
            if len(found) == self.mark[0] or not record or record["group"] != self.group:
                continue
            text = line.rpartition(', "crc": ')[0] + "}"
            crc = chained(crc, text)
            if crc != record["crc"]:
                break
            found.append((line, record))
        if (len(found), found[-1][1]["crc"] if found else "") != self.mark:
            raise BadInput(
                f"'{self.path}' was changed: line {len(found) + 1} of {self.group} is not the one "
                f"that was written; {_MEND}"
            )
        return found


_MEND = "put back a copy of it, or train again from the beginning with --start_anew"


def chained(before: str, text: str) -> str:
    return f"{zlib.crc32((before + text).encode()):08x}"


def _parsed(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"group", "crc"} <= set(record) else None


def _plain(value):
    # json knows no NaN: a replica without a number is null there and NaN again when read.
    array = np.asarray(value, dtype=float)
    return [x if math.isfinite(x) else None for x in array.tolist()] if array.ndim else float(array)


class Progress:
    """One live line on a terminal; elsewhere a plain line now and then."""

    def __init__(self, total: int, headline: str, every_s: float = 15.0):
        self.total, self.headline, self.every_s = total, headline, every_s
        self.score = float("nan")
        self.started = self.first_step = None
        self.last_line, self.head, self.tail, self.said = 0.0, "", "", ""
        self.live = None
        if sys.stdout.isatty():
            self.live = rich.live.Live(console=rich.console.Console(), auto_refresh=False)
            self.live.start()

    def update(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.started is None:
            self.started, self.first_step = now, step
        rate = (step - self.first_step) / (now - self.started) if step > self.first_step else 0.0
        head, text = f"step {step:,}/{self.total:,}  loss {loss:.2e}", ""
        if rate:
            eta = int((self.total - step) / rate)
            speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
            text += f"  {speed} it/s  ETA {eta // 60}:{eta % 60:02d}"
        self.head, self.tail = head, text
        if self.live:
            self.live.update(rich.text.Text(self.line()), refresh=True)
        elif now - self.last_line > self.every_s:
            self.last_line, self.said = now, self.line()
            say(self.said)

    def line(self) -> str:
        """The state of affairs, with the newest score: it may have come after the last step."""
        known = self.headline and math.isfinite(self.score)
        return self.head + (f"  {self.headline} {self.score:.3f}" if known else "") + self.tail

    def close(self) -> None:
        if self.live:
            self.live.update(rich.text.Text(self.line()), refresh=True)
            self.live.stop()
        elif self.line() != self.said:
            say(self.line())


def log_replicas(metrics: Metrics, start: int, stats: dict, alive, every: int, names) -> None:
    """Writes what one call of the training loop measured, stats [steps, R]; ends if none lives."""
    if start == 0 and np.any(dead := stats["grad_norm"][0] == 0):
        log.warning(
            "zero gradient at the first step, nothing will train: %s",
            "; ".join(name for name, is_dead in zip(names, dead) if is_dead),
        )
    for end in range(every, len(stats["loss"]) + 1, every):
        window = {name: values[end - every : end].mean(0) for name, values in stats.items()}
        metrics.write("train", start + end, window)
    if not any(alive):
        raise Diverged(
            f"every replica turned non-finite by step {start + len(stats['loss']):,}: "
            "lower optim.lr, or look at metrics.jsonl for where it began"
        )


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


def write_arrays(path: pathlib.Path, arrays: dict) -> None:
    """An npz file such as arrays.npz, replaced in one step; of several hosts, the first writes."""
    if not hosts.is_writer():
        return
    temporary = path.with_name(f".{path.stem}.tmp.npz")
    with folders.disk_errors(path):
        try:
            np.savez_compressed(temporary, **arrays)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def keep_arrays(folder: pathlib.Path, step: int, names: list[str], arrays: dict) -> None:
    """evals/<step>.npz: what `evaluate` returned, [R, ...], and "replicas", the names of its rows.

    Replicas that are trained later join those that are there. Of several hosts, the first writes.
    """
    if not hosts.is_writer():
        return
    path = folder / f"{step}.npz"
    found = {**arrays, "replicas": np.array(names)}
    if path.exists():
        old = read_npz(path)
        others = ~np.isin(old["replicas"], found["replicas"])
        found = {key: np.concatenate([old[key][others], found[key]]) for key in found}
    with folders.disk_errors(folder):
        folder.mkdir(exist_ok=True)
    write_arrays(path, found)


def read_kept(path: pathlib.Path) -> dict:
    """The arrays of one evals/<step>.npz; every host has them from the first."""
    return hosts.from_writer(lambda: read_npz(path))


def read_npz(path: pathlib.Path) -> dict:
    """All arrays of an npz file that a run wrote."""
    if not path.exists():
        raise BadInput(f"'{path}' is gone, and cannot be remade: --start_anew trains again")
    try:
        if not is_sound_npz(path):
            raise ValueError("it is not what was written")
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # whatever zipfile and numpy make of a strange file
        raise BadInput(f"cannot read '{path}': {first_line(error)}; delete it") from None


def is_sound_npz(path: pathlib.Path) -> bool:
    """Whether every array is there as it was written, by the checksums of the file itself."""
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:  # whatever zipfile and zlib make of a strange file
        return False
