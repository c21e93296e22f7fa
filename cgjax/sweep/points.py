"""The points of a sweep: their list, their workdirs, their status."""

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
from cgjax import experiments
from cgjax.config.declare import declared_keys, leaves
from cgjax.config.overrides import part_of
from cgjax.config.ownership import compare, default_workdir, full_name
from cgjax.core.errors import BadInput, shown

CLOSING = "sweep: exit code "  # last line of a log whose process has ended
OPENING = "sweep: started by "  # first line of each start in a log
# Exit codes of a stopped run: 3, or the signal itself if it comes before or after the part of a run
# that handles it. A scheduler may send it to every process, and the sweep forwards it as well.
STOPPED = (3, 128 + signal.SIGINT, 128 + signal.SIGUSR1, 128 + signal.SIGTERM)


class Point(NamedTuple):
    """One run of a sweep."""

    flag: str  # of --config
    overrides: dict  # key -> text
    swept: dict  # the overrides in which points differ
    name: str  # "sprites demo-smoke optim.lr=0.1"
    config: Any
    workdir: pathlib.Path

    @property
    def log(self) -> pathlib.Path:
        """Beside the workdir: only the run writes into the workdir."""
        return self.workdir.with_name(self.workdir.name + ".log")

    def arguments(self) -> list[str]:
        """Command-line arguments for `cgjax.main`."""
        changes = [f"--config.{name}={text}" for name, text in self.overrides.items()]
        return [f"--config={self.flag}", *changes, f"--workdir={self.workdir}"]


class Task(NamedTuple):
    """The work of one process: a point, or several points as replicas of one program."""

    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        if len(self.points) == 1:
            return self.points[0].name
        first = " ".join(self.points[0].name.split(" ")[:2])
        return f"{first}, {len(self.points)} points together"

    @property
    def log(self) -> pathlib.Path:
        """The log of the shared training; each point has a log of its own for the rest."""
        if len(self.points) == 1:
            return self.points[0].log
        return self.file.with_suffix(".log")

    @property
    def file(self) -> pathlib.Path:
        """Lists the points for `cgjax.sweep.together`; the same points give the same path."""
        text = "\n".join(str(point.workdir) for point in self.points)
        mark = hashlib.sha256(text.encode()).hexdigest()[:8]
        return self.points[0].workdir.with_name(f"together-{mark}.json")

    def describe(self) -> str:
        """The text of `file`."""
        points = [{"log": str(point.log), "arguments": point.arguments()} for point in self.points]
        return json.dumps({"points": points}, indent=1)


def _assignments(overrides: dict) -> list[str]:
    return [f"{name}={text}" for name, text in overrides.items()]


# --- expansion ------------------------------------------------------------------------------------


def expand(flags: list[str], fixed: dict, swept: dict, runs: pathlib.Path):
    """Every point in a fixed order, and remarks to print; arguments as in `combinations`."""
    chosen, remarks = combinations(flags, fixed, swept)
    points = [make_point(*combination, runs) for combination in chosen]
    _refuse_duplicates(points)
    return points, remarks


def combinations(flags: list[str], fixed: dict, swept: dict) -> tuple[list[tuple], list[str]]:
    """(flag, overrides, swept overrides) of every point in a fixed order, and remarks to print.

    flags: values of --config, each with one row or several; fixed: {key: text} for every point;
    swept: {key: [text]}, each point takes one text per key.
    """
    chosen, remarks = [], []
    for flag in (row_flag for config_flag in flags for row_flag in rows(config_flag)):
        row_fixed, row_swept, row_remarks = fold(flag, fixed, swept)
        remarks += [line for line in row_remarks if line not in remarks]
        for texts in itertools.product(*row_swept.values()):
            point_swept = dict(zip(row_swept, texts))
            chosen.append((flag, row_fixed | point_swept, point_swept))
    return chosen, remarks


def rows(flag: str) -> list[str]:
    """`"sprites:demo,diag*,smoke"` -> a flag for each row; * matches any text in a row's name."""
    path, arg = configs.split_flag(flag)
    patterns = [name.strip() for name in arg.split(",") if name.strip()]
    size = [patterns.pop()] if patterns and patterns[-1] in configs.SIZES else []
    if not patterns:
        return [flag]
    names = []
    for pattern in patterns:
        names += _matching(path, pattern) if "*" in pattern else [pattern]
    return [f"{path}:{','.join([name, *size])}" for name in dict.fromkeys(names)]


def _matching(path: str, pattern: str) -> list[str]:
    module = configs.load_file(path)
    describe_rows = getattr(module, "describe_rows", list)
    known = configs.guarded(configs.find(path), lambda: [str(r["name"]) for r in describe_rows()])
    if matches := fnmatch.filter(known, pattern):
        return matches
    raise BadInput(f"no row of {shown(path)} matches {shown(pattern)}: --list=<family> prints them")


def fold(flag: str, fixed: dict, swept: dict) -> tuple[dict, dict, list[str]]:
    """Swept values that can be replicas of one run become a fixed override, not points.

    Returns fixed overrides, swept overrides, and remarks to print.
    """
    config = configs.load(flag, fixed)
    declared, values = declared_keys(config), dict(leaves(config))
    fixed, rest, remarks = dict(fixed), dict(swept), []
    for name, texts in swept.items():
        known = declared.get(part_of(config, name)[1] or name)
        several = len(texts) > 1 and not any(re.search(r"[,(\[]", text) for text in texts)
        if known and known.is_axis and several:
            fixed[name] = ",".join(texts)
            del rest[name]
            remarks.append(f"{name}: {len(texts)} replicas of one program, not {len(texts)} points")
        elif isinstance(values.get(name), tuple) and several and not (known and known.is_traced):
            remarks.append(
                f"{name} takes several values in one run: --config.{name}={','.join(texts)} may "
                "train them together; here each is a point"
            )
    return fixed, rest, remarks


def make_point(flag: str, overrides: dict, swept: dict, runs: pathlib.Path) -> Point:
    """One of the `combinations` with its config and its workdir in `runs`."""
    with _errors_named(" ".join([flag, *_assignments(swept)]) if swept else ""):
        config = configs.load(flag, overrides)
    # Replicas can be added to a run, so axes that are not swept are not part of the folder's name.
    axes = {name for name, key in declared_keys(config).items() if key.is_axis} - set(swept)
    in_name = {name: text for name, text in overrides.items() if name not in axes}
    workdir = runs / default_workdir(config).relative_to("runs")
    if in_name:
        workdir = runs / "sweeps" / workdir.relative_to(runs) / folder_name(in_name)
    name = " ".join([config.family, full_name(config), *_assignments(swept)])
    return Point(flag, overrides, swept, name, config, workdir)


def check(points: list[Point]) -> None:
    """Applies the checks of the families to every point, before anything runs."""
    for point in points:
        with _errors_named(point.name if point.swept else ""):
            experiments.check(experiments.family(point.config.family), point.config)


@contextlib.contextmanager
def _errors_named(point: str):
    """A BadInput inside gets the name of the point as a prefix."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"point {point}: {error}" if point else str(error)) from None


def folder_name(overrides: dict) -> str:
    """`"optim.lr=0.1,data.batch=8"`; with a hash if it is too long or not a valid name."""
    text = ",".join(_assignments(overrides))
    clean = re.sub(r"[^\w.,=+-]", "_", text)[:120]
    if clean == text:
        return text
    return f"{clean}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _refuse_duplicates(points: list[Point]) -> None:
    seen = {}
    for point in points:
        for identity in (configs.to_json(point.config), point.workdir):
            if identity in seen:
                raise BadInput(
                    f"two points are the same run, '{seen[identity]}' and '{point.name}'"
                )
            seen[identity] = point.name


# --- points that share a program ------------------------------------------------------------------


def tasks(points: list[Point], most: int) -> tuple[list[Task], list[str]]:
    """Groups points that differ only in numbers that programs take as arguments; and remarks.

    These keys are declared with `is_traced` (`config.declare.Key`). most: points of one program;
    0: any number, 1: a task for each point.
    """
    groups = collections.defaultdict(list)
    for point in points:
        groups[_program_key(point) if most != 1 else point.name].append(point)
    grouped = []
    for group in groups.values():
        size = most or len(group)
        grouped += [Task(tuple(group[at : at + size])) for at in range(0, len(group), size)]
    return grouped, _describe(grouped) if most != 1 else []


def _traced(point: Point) -> set[str]:
    declared = declared_keys(point.config)
    swept = ((name, declared.get(part_of(point.config, name)[1] or name)) for name in point.swept)
    return {name for name, key in swept if key is not None and key.is_traced}


def _program_key(point: Point) -> str:
    """The config without its traced values: equal for points that one program can train."""
    values, traced = dict(leaves(point.config)), _traced(point)
    constants = {name: value for name, value in values.items() if name not in traced}
    return json.dumps([point.flag, sorted(traced), constants], sort_keys=True)


def _describe(grouped: list[Task]) -> list[str]:
    """Remarks: how many programs there are, and which keys cause this."""
    several = [task.points for task in grouped if len(task.points) > 1]
    swept = {key for task in grouped for point in task.points for key in point.swept}
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
    if apart := sorted(swept - together) if len(grouped) > 1 else []:
        lines.append(f"a process for each value of {', '.join(apart)}: a shape or a constant")
    return lines


# --- the status of a point ------------------------------------------------------------------------


class Standing(NamedTuple):
    """word: done, failed, stopped, running or open; line: the last error; results: only if done."""

    word: str
    line: str = ""
    results: dict | None = None


def standing(point: Point, draws: bool) -> Standing:
    """The status by the point's files, so that every machine with these files agrees."""
    from cgjax.run import (
        finished,
    )  # a late import: it imports JAX, which invalid sweeps do not need

    try:
        ownership = compare(point.workdir, point.config)
        if ownership.reads_only:
            return Standing("failed", f"'{point.workdir}' has more replicas: name all of them")
        results = finished(point.workdir, ownership.config, draws)
    except BadInput as error:
        return Standing("failed", str(error))
    return Standing("done", results=results) if results else logged(point)


def logged(point: Point) -> Standing:
    """The status of an unfinished point, by its log."""
    if not point.log.is_file():
        return Standing("open")
    lines = point.log.read_text(errors="replace").splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith(OPENING)]
    last = [line for line in lines[starts[-1] if starts else 0 :] if line.strip()]
    if not last:
        return Standing("open")
    if not last[-1].startswith(CLOSING):
        return Standing("running" if _is_alive(last[0]) else "stopped")
    if last[-1] == f"{CLOSING}0":  # finished, but without the requested figures
        return Standing("open")
    stopped = last[-1].removeprefix(CLOSING) in map(str, STOPPED)
    errors = [line for line in last if line.startswith("cgjax: ")] or last[1:-1] or [last[-1]]
    return Standing("stopped" if stopped else "failed", errors[-1].removeprefix("cgjax: ")[:200])


def opening(command: list[str]) -> str:
    """The first line of a start in a log: process, machine and command."""
    text = shlex.join(["python", *command[1:]])
    return f"{OPENING}{os.getpid()} on {socket.gethostname()}: {text}"


def exit_code(log: pathlib.Path) -> int | None:
    """The exit code of the last start in a log; None if it has not ended."""
    lines = log.read_text(errors="replace").splitlines()
    ended = lines and lines[-1].startswith(CLOSING)
    return int(lines[-1].removeprefix(CLOSING)) if ended else None


def _is_alive(line: str) -> bool:
    """Whether the process that started this part of the log is alive on this machine.

    A process on another machine counts as dead: the workdir's lock keeps a second process out.
    """
    start = re.match(rf"{OPENING}(\d+) on (\S+):", line)
    if not start or start[2] != socket.gethostname() or int(start[1]) == os.getpid():
        return False
    try:
        os.kill(int(start[1]), 0)
    except OSError:
        return False
    return True
