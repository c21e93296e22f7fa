"""The points of a sweep: which there are, where each lives, how each stands."""

import collections
import contextlib
import fnmatch
import hashlib
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import socket
from typing import Any, NamedTuple

from cgjax import config as configs
from cgjax import experiments, main
from cgjax.config.declare import declared_keys, leaves
from cgjax.config.overrides import part_of
from cgjax.config.ownership import compare
from cgjax.core.errors import BadInput, shown
from cgjax.main import default_workdir, finished

CLOSING = "sweep: exit code "  # last line of a log, when its process has ended
OPENING = "sweep: started by "
# 3, or the signal itself, where it came before or after the part of a run that handles it: a
# scheduler may send it to every process, and we hand it on.
STOPPED = (3, 128 + signal.SIGINT, 128 + signal.SIGUSR1, 128 + signal.SIGTERM)


class Point(NamedTuple):
    """One run of a sweep."""

    flag: str  # of --config
    overrides: dict  # key -> text
    swept: dict  # those of the overrides that tell points apart
    name: str  # "sprites demo-smoke optim.lr=0.1"
    config: Any
    workdir: pathlib.Path

    @property
    def log(self) -> pathlib.Path:
        """Beside the workdir, not in it: what a run leaves behind is its own affair."""
        return self.workdir.with_name(self.workdir.name + ".log")

    def arguments(self) -> list[str]:
        """Of `cgjax.main`."""
        changes = [f"--config.{name}={text}" for name, text in self.overrides.items()]
        return [f"--config={self.flag}", *changes, f"--workdir={self.workdir}"]


class Task(NamedTuple):
    """What one process runs: a point, or several whose replicas are those of one program."""

    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        if len(self.points) == 1:
            return self.points[0].name
        first = " ".join(self.points[0].name.split(" ")[:2])
        return f"{first}, {len(self.points)} points together"

    @property
    def log(self) -> pathlib.Path:
        """Of what its points do together; what each does alone is in the point's own log."""
        if len(self.points) == 1:
            return self.points[0].log
        return self.file.with_suffix(".log")

    @property
    def file(self) -> pathlib.Path:
        """Names the points, for `cgjax.sweep.together`; the same points share a file."""
        text = "\n".join(str(point.workdir) for point in self.points)
        mark = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self.points[0].workdir.with_name(f"together-{mark}.json")

    def describe(self) -> str:
        """What `file` holds."""
        points = [{"log": str(one.log), "arguments": one.arguments()} for one in self.points]
        return json.dumps({"points": points}, indent=1)


def _words(overrides: dict) -> list[str]:
    return [f"{name}={text}" for name, text in overrides.items()]


# --- expansion ------------------------------------------------------------------------------------


def expand(flags: list[str], fixed: dict, swept: dict, runs: pathlib.Path):
    """Every point in a fixed order, and what is to be said about them.

    flags: of --config, each with one row or several; fixed: {key: text} for every point; swept:
    {key: [text]}, of which each point takes one.
    """
    found, remarks = [], []
    for flag in (one for many in flags for one in rows(many)):
        row_fixed, row_swept, said = fold(flag, fixed, swept)
        remarks += [line for line in said if line not in remarks]
        for texts in itertools.product(*row_swept.values()):
            chosen = dict(zip(row_swept, texts))
            found.append(_point(flag, {**row_fixed, **chosen}, chosen, runs))
    _refuse_twins(found)
    return found, remarks


def rows(flag: str) -> list[str]:
    """`"sprites:demo,diag*,smoke"` -> a flag for each row; a word with * means all that match."""
    path, arg = configs.split_flag(flag)
    words = [word.strip() for word in arg.split(",") if word.strip()]
    size = [words.pop()] if words and words[-1] in configs.SIZES else []
    if not words:
        return [flag]
    names = []
    for word in words:
        names += _matching(path, word) if "*" in word else [word]
    return [f"{path}:{','.join([name, *size])}" for name in dict.fromkeys(names)]


def _matching(path: str, pattern: str) -> list[str]:
    module = configs.load_file(path)
    known = [str(row["name"]) for row in getattr(module, "describe_rows", list)()]
    if found := fnmatch.filter(known, pattern):
        return found
    raise BadInput(f"no row of {shown(path)} matches {shown(pattern)}: --list prints them all")


def fold(flag: str, fixed: dict, swept: dict) -> tuple[dict, dict, list[str]]:
    """Values that one program takes as replicas are no points; (fixed, swept, what to say)."""
    config = configs.load(flag, fixed)
    declared, own = declared_keys(config), dict(leaves(config))
    fixed, rest, said = dict(fixed), dict(swept), []
    for name, texts in swept.items():
        known = declared.get(part_of(config, name)[1] or name)
        several = len(texts) > 1 and not any(re.search(r"[,(\[]", text) for text in texts)
        if known and known.is_axis and several:
            fixed[name] = ",".join(texts)
            del rest[name]
            said.append(f"{name}: {len(texts)} replicas of one program, not {len(texts)} points")
        elif isinstance(own.get(name), tuple) and several and not (known and known.is_traced):
            said.append(
                f"{name} takes several values in one run: --config.{name}={','.join(texts)} may "
                "train them together; here each is a point"
            )
    return fixed, rest, said


def _point(flag: str, overrides: dict, swept: dict, runs: pathlib.Path) -> Point:
    with _named(" ".join([flag, *_words(swept)]) if swept else ""):
        config = configs.load(flag, overrides)
    # Replicas can be added to a run: as far as they tell no points apart, they name no folder.
    axes = {name for name, key in declared_keys(config).items() if key.is_axis} - set(swept)
    own = {name: text for name, text in overrides.items() if name not in axes}
    place = runs / default_workdir(config).relative_to("runs")
    if own:
        place = runs / "sweeps" / place.relative_to(runs) / folder_name(own)
    name = " ".join([config.family, main.full_name(config), *_words(swept)])
    return Point(flag, overrides, swept, name, config, place)


def check(points: list[Point]) -> None:
    """What a family refuses, before anything runs."""
    for point in points:
        with _named(point.name if point.swept else ""):
            experiments.check(experiments.family(point.config.family), point.config)


@contextlib.contextmanager
def _named(point: str):
    try:
        yield
    except BadInput as error:
        raise BadInput(f"point {point}: {error}" if point else str(error)) from None


def folder_name(overrides: dict) -> str:
    """`"optim.lr=0.1,data.batch=8"`; with a hash where a file's name cannot say it all."""
    text = ",".join(_words(overrides))
    clean = re.sub(r"[^\w.,=+-]", "_", text)[:120]
    if clean == text:
        return text
    return f"{clean}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _refuse_twins(points: list[Point]) -> None:
    seen = {}
    for point in points:
        for mark in (configs.to_json(point.config), point.workdir):
            if mark in seen:
                raise BadInput(f"two points are the same run, '{seen[mark]}' and '{point.name}'")
            seen[mark] = point.name


# --- who shares a program -------------------------------------------------------------------------


def tasks(points: list[Point], most: int) -> tuple[list[Task], list[str]]:
    """Points that differ only in numbers that programs take as arguments, together; what to say.

    The declarations say which keys these are (`config.declare.Key.is_traced`). most: points of one
    program; 0: any number, 1: none together.
    """
    groups = collections.defaultdict(list)
    for point in points:
        groups[_but_for_traced(point) if most != 1 else point.name].append(point)
    found = []
    for group in groups.values():
        size = most or len(group)
        found += [Task(tuple(group[at : at + size])) for at in range(0, len(group), size)]
    return found, _told(found) if most != 1 else []


def _traced(point: Point) -> set[str]:
    declared = declared_keys(point.config)
    own = ((name, declared.get(part_of(point.config, name)[1] or name)) for name in point.swept)
    return {name for name, key in own if key is not None and key.is_traced}


def _but_for_traced(point: Point) -> str:
    """What points of one program have in common."""
    values, traced = dict(leaves(point.config)), _traced(point)
    return json.dumps([
        point.flag, sorted(traced), {k: v for k, v in values.items() if k not in traced},
    ], sort_keys=True)  # fmt: skip


def _told(found: list[Task]) -> list[str]:
    """How many programs there are, because of which keys."""
    several = [task.points for task in found if len(task.points) > 1]
    swept = {key for task in found for point in task.points for key in point.swept}
    together = {
        key
        for points in several
        for key in points[0].swept
        if len({point.swept[key] for point in points}) > 1
    }
    lines = []
    if several:
        n, programs = sum(map(len, several)), len(several)
        of = "one program" if programs == 1 else f"{programs} programs"
        lines.append(f"{n} points run as replicas of {of}: {', '.join(sorted(together))}")
    if apart := sorted(swept - together) if len(found) > 1 else []:
        lines.append(f"a process for each value of {', '.join(apart)}: a shape or a constant")
    return lines


# --- how a point stands ---------------------------------------------------------------------------


class Standing(NamedTuple):
    """word: done, failed, stopped, running or open; line: the last error; results: if done."""

    word: str
    line: str = ""
    results: dict | None = None


def standing(point: Point, draws: bool) -> Standing:
    """Read from the files of the point: any machine that sees them gives the same answer."""
    try:
        found = compare(point.workdir, point.config)
        if found.reads_only:
            return Standing("failed", f"'{point.workdir}' has more replicas: name all of them")
        results = finished(point.workdir, found.config, draws)
    except BadInput as error:
        return Standing("failed", str(error))
    return Standing("done", results=results) if results else logged(point)


def logged(point: Point) -> Standing:
    """What the log of an unfinished point says."""
    if not point.log.is_file():
        return Standing("open")
    lines = point.log.read_text(errors="replace").splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith(OPENING)]
    last = [line for line in lines[starts[-1] if starts else 0 :] if line.strip()]
    if not last:
        return Standing("open")
    if not last[-1].startswith(CLOSING):
        return Standing("running" if _is_alive(last[0]) else "stopped")
    stopped = last[-1].removeprefix(CLOSING) in map(str, STOPPED)
    said = [line for line in last if line.startswith("cgjax: ")] or last[1:-1] or [last[-1]]
    return Standing("stopped" if stopped else "failed", said[-1].removeprefix("cgjax: ")[:200])


def opening(command: list[str]) -> str:
    """First line of a start in the log: who began it, with which command."""
    words = shlex.join(["python", *command[1:]])
    return f"{OPENING}{os.getpid()} on {socket.gethostname()}: {words}"


def exit_code(log: pathlib.Path) -> int | None:
    """With which the last start in a log has ended; None: it has not."""
    lines = log.read_text(errors="replace").splitlines()
    ended = lines and lines[-1].startswith(CLOSING)
    return int(lines[-1].removeprefix(CLOSING)) if ended else None


def _is_alive(line: str) -> bool:
    """Whether the process that began this part of the log lives, as far as one can see from here.

    On another machine one cannot: there the workdir's lock keeps a second process out.
    """
    found = re.match(rf"{OPENING}(\d+) on (\S+):", line)
    if not found or found[2] != socket.gethostname() or int(found[1]) == os.getpid():
        return False
    try:
        os.kill(int(found[1]), 0)
    except OSError:
        return False
    return True
