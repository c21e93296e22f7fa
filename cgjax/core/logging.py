"""Output of a run: the progress line, metrics.jsonl, and the arrays of evaluations (npz)."""

import contextlib
import contextvars
import json
import logging
import math
import os
import pathlib
import sys
import threading
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
from cgjax.core.errors import BadInput, first_line

log = logging.getLogger("cgjax")


def say(text: str) -> None:
    """Prints one line at once, without buffering."""
    print(text, end="\x1b[K\n" if sys.stdout.isatty() else "\n", flush=True)


def in_main_thread() -> bool:
    """Only the main thread writes parts of lines: those of two threads would mix."""
    return threading.current_thread() is threading.main_thread()


def passing(text: str) -> None:
    """Prints a short line that the next one overwrites; on a terminal only."""
    if sys.stdout.isatty() and in_main_thread():
        print(f"{text[:60]}\x1b[K", end="\r", flush=True)


def counted(n: int, word: str) -> str:
    """ "1 figure", "1,200 figures" """
    return f"{n:,} {word}{'s' * (n != 1)}"


class Metrics:
    """metrics.jsonl: one object per line, `{"kind", "group", "seeds", "step", metric: [R], "crc"}`.

    Each checksum covers its line and the previous checksum of the group. Each checkpoint stores the
    number of lines and the last checksum (the mark). So any torn, changed or missing line before
    the mark is detected.
    """

    def __init__(self, path: pathlib.Path, group: str, seeds):
        self.path, self.group = path, group
        self.seeds = [int(seed) for seed in seeds]
        self.mark = (0, "")  # (number of lines of this group, checksum of the last one)

    def write(self, kind: str, step: int, values: dict) -> None:
        record = {"kind": kind, "group": self.group, "seeds": self.seeds, "step": int(step)}
        text = json.dumps(record | {name: _plain(value) for name, value in values.items()})
        crc = chained(self.mark[1], text)
        if hosts.is_writer():
            with folders.disk_errors(self.path), open(self.path, "a") as handle:
                handle.write(f'{text[:-1]}, "crc": "{crc}"}}\n')
        self.mark = (self.mark[0] + 1, crc)

    def cut(self, mark) -> None:
        """Drops this group's lines after a checkpoint's mark, and any torn line of a killed run."""
        self.mark = (int(mark[0]), str(mark[1]))
        if not hosts.is_writer():
            return
        verified = {line for line, _ in self._verified()}
        if self.path.exists():
            remaining = [
                line
                for line in self._lines()
                if (record := _parsed(line)) and (record["group"] != self.group or line in verified)
            ]
            folders.write_atomic(self.path, "".join(line + "\n" for line in remaining))

    def history(self) -> dict:
        """`{"step": [n], "loss": [n, R], ..., "eval": {"step": [m], "r2_all": [m, R]}}`.

        Host 0 reads the file and sends the result to the other hosts.
        """
        return hosts.from_writer(self._history)

    def _history(self) -> dict:
        records = [record for _, record in self._verified()]
        columns, not_metrics = {}, ("kind", "group", "seeds", "crc")
        for kind in ("train", "eval"):
            rows = [record for record in records if record["kind"] == kind]
            names = [name for name in (rows[0] if rows else {}) if name not in not_metrics]
            columns[kind] = {
                name: np.array([row[name] for row in rows], dtype=float) for name in names
            }
        return {**columns["train"], "eval": columns["eval"]}

    def _lines(self) -> list[str]:
        try:
            if self.path.exists() and not self.path.is_file():  # a device has no end
                raise OSError("it is not a file")
            return self.path.read_text().splitlines() if self.path.exists() else []
        except (OSError, ValueError) as error:
            raise BadInput(f"cannot read '{self.path}': {first_line(error)}; {_MEND}") from None

    def _verified(self) -> list[tuple[str, dict]]:
        """(line, record) of this group up to the mark; raises BadInput if a checksum is wrong."""
        verified, crc = [], ""
        for line in self._lines():
            record = _parsed(line)
            if len(verified) == self.mark[0] or not record or record["group"] != self.group:
                continue
            text = line.rpartition(', "crc": ')[0] + "}"
            crc = chained(crc, text)
            if crc != record["crc"]:
                break
            verified.append((line, record))
        if (len(verified), verified[-1][1]["crc"] if verified else "") != self.mark:
            raise BadInput(
                f"'{self.path}' was changed: line {len(verified) + 1} of {self.group} is missing "
                f"or differs from what the run wrote; {_MEND}"
            )
        return verified


_MEND = "restore a copy of it, or train again from the beginning with --start_anew"


def chained(before: str, text: str) -> str:
    """The checksum of a line: CRC-32 of the previous checksum followed by the line's text."""
    return f"{zlib.crc32((before + text).encode()):08x}"


def _parsed(line: str) -> dict | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"group", "crc"} <= set(record) else None


def _plain(value):
    # JSON has no NaN: a non-finite number is written as null, and read back as NaN.
    array = np.asarray(value, dtype=float)
    return [x if math.isfinite(x) else None for x in array.tolist()] if array.ndim else float(array)


class Progress:
    """The progress line: live on a terminal, else a plain line at most every `every_s` seconds.

    It starts with `name`, that of the part. Outside the main thread it is plain.
    """

    def __init__(self, total: int, headline: str, name: str = "", every_s: float = 15.0):
        self.total, self.headline, self.every_s = total, headline, every_s
        self.name = f"{name}: " if name else ""
        self.score = float("nan")
        self.started = self.first_step = None
        self.last_time, self.head, self.tail, self.last_line = 0.0, "", "", ""
        self.live = None
        if sys.stdout.isatty() and in_main_thread():
            self.live = rich.live.Live(console=rich.console.Console(), auto_refresh=False)
            self.live.start()

    def update(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if self.started is None:
            self.started, self.first_step = now, step
        rate = (step - self.first_step) / (now - self.started) if step > self.first_step else 0.0
        head, tail = f"{self.name}step {step:,}/{self.total:,}  loss {loss:.2e}", ""
        if rate:
            eta = int((self.total - step) / rate)
            speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"
            tail += f"  {speed} it/s  ETA {eta // 60}:{eta % 60:02d}"
        self.head, self.tail = head, tail
        if self.live:
            self.live.update(rich.text.Text(self.line()), refresh=True)
        elif now - self.last_time > self.every_s:
            self.last_time, self.last_line = now, self.line()
            say(self.last_line)

    def line(self) -> str:
        """Step, loss, newest score and speed; the score may be newer than the last `update`."""
        has_score = self.headline and math.isfinite(self.score)
        return self.head + (f"  {self.headline} {self.score:.3f}" if has_score else "") + self.tail

    def close(self) -> None:
        if self.live:
            self.live.update(rich.text.Text(self.line()), refresh=True)
            self.live.stop()
        elif self.line() != self.last_line:
            say(self.line())


_events = contextvars.ContextVar("events", default=None)


@contextlib.contextmanager
def cache_events():
    """The list that receives what the cache of compiled programs reports within the block.

    Programs that other threads compile are not in it, unless they run in a copy of the context.
    """
    import jax  # here: a refused command prints with this module, and needs no JAX

    events = []
    _events.set(events)

    def note(event, **_):
        if _events.get() is events:
            events.append(event.removeprefix("/jax/compilation_cache/"))

    jax.monitoring.register_event_listener(note)
    try:
        yield events
    finally:
        jax.monitoring.unregister_event_listener(note)


@contextlib.contextmanager
def compiling():
    """Prints "compiling…" before and the seconds after: a silent compilation looks like a hang.

    After the seconds: how many of the programs came from the cache on disk. The block gets the list
    of `cache_events`, to which it adds those of programs that were compiled before it. Outside the
    main thread nothing is printed.
    """
    if not in_main_thread():
        yield []
        return
    print("compiling… ", end="", flush=True)
    started = time.monotonic()
    try:
        with cache_events() as events:
            yield events
    except BaseException:
        print("failed", flush=True)
        raise
    seconds, hits = f"{time.monotonic() - started:.1f} s", events.count("cache_hits")
    n_programs = events.count("compile_requests_use_cache")
    say(seconds + (f", {hits} of {n_programs} programs from the cache" if hits else ""))


def write_arrays(path: pathlib.Path, arrays: dict) -> None:
    """Writes an npz file such as arrays.npz atomically. Only host 0 writes."""
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
    """Writes evals/<step>.npz: the arrays of `evaluate`, [R, ...], and "replicas", the R names.

    Replicas that are already in the file are kept, or replaced if their names are in `names`. Only
    host 0 writes.
    """
    if not hosts.is_writer():
        return
    path = folder / f"{step}.npz"
    new = {**arrays, "replicas": np.array(names)}
    if path.exists():
        old = read_npz(path)
        others = ~np.isin(old["replicas"], new["replicas"])
        new = {key: np.concatenate([old[key][others], new[key]]) for key in new}
    with folders.disk_errors(folder):
        folder.mkdir(exist_ok=True)
    write_arrays(path, new)


def read_kept(path: pathlib.Path) -> dict:
    """The arrays of one evals/<step>.npz; host 0 reads them and sends them to the others."""
    return hosts.from_writer(lambda: read_npz(path))


def read_npz(path: pathlib.Path) -> dict:
    """All arrays of an npz file that a run wrote."""
    if not path.exists():
        raise BadInput(f"'{path}' does not exist: restore a copy, or train again with --start_anew")
    try:
        if not is_sound_npz(path):
            raise ValueError("its checksum does not match")
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # zipfile and numpy raise many types for a malformed file
        raise BadInput(f"cannot read '{path}': {first_line(error)}; delete it") from None


def is_sound_npz(path: pathlib.Path) -> bool:
    """Whether every array matches the checksum in the npz file."""
    if not path.is_file():  # a device has no end
        return False
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:  # zipfile and zlib raise many types for a malformed file
        return False
