"""The run that the fault tests kill, starve and mislead: the README's family, two seeds.

Three numbers are trained, because most of the time goes into starting; at a rate so low that every
step counts to the end.
"""

import contextlib
import itertools
import json
import os
import pathlib

import numpy as np
import processes
from front_door import write_family

CONFIG = ("--config=killab/config.py:few,smoke", "--config.train.seeds=0,1",
          "--config.optim.lr=1e-4", "--no_figures")  # fmt: skip
FLAGS = (*CONFIG, "--config.train.steps=2400", "--config.checkpoint.every=48",
         "--config.eval.every=48")  # fmt: skip
_COUNT = itertools.count()  # the output of each process goes to its own files


def make(folder: pathlib.Path) -> pathlib.Path:
    """A folder with the family; `whole`, an undisturbed run; `cache`, what was compiled."""
    write_family(folder, "killab")
    finish(folder / "whole", folder)
    return folder


def start(workdir, lab, flags=FLAGS, before=None, **environment) -> processes.Running:
    """The command, begun."""
    words = [*flags, f"--workdir={workdir}"]
    environment = {"CGJAX_CACHE": str(lab / "cache")} | environment
    said = lab / f"said-{next(_COUNT)}"
    return processes.start(words, said, lab, before=before, **environment)


def finish(workdir, lab, flags=FLAGS, timeout=300, **environment) -> processes.Running:
    running = start(workdir, lab, flags, **environment)
    assert running.code(timeout) == 0, running.err[-2000:]
    return running


def logged_steps(workdir: pathlib.Path) -> int:
    path = workdir / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def checkpoints(workdir: pathlib.Path) -> list[pathlib.Path]:
    """The steps of every part, stage and group of seeds, whole or being written."""
    steps = []
    for folder, names, _ in os.walk(workdir):  # passes over what vanishes meanwhile
        if folder.endswith("checkpoints"):
            for group in names:
                with contextlib.suppress(FileNotFoundError):
                    steps += (pathlib.Path(folder) / group).iterdir()
            names.clear()
    return steps


def newest(workdir: pathlib.Path) -> int:
    """The newest step on disk; -1 without any."""
    return max((int(p.name) for p in checkpoints(workdir) if p.name.isdigit()), default=-1)


def is_writing(workdir: pathlib.Path) -> bool:
    """Orbax writes a step under a temporary name and renames it when it is whole."""
    return any("tmp" in path.name for path in checkpoints(workdir))


def states(workdir: pathlib.Path) -> dict:
    """The checksums of all arrays in the newest checkpoint of each part and group of seeds."""
    newest_steps = {}
    for path in checkpoints(workdir):
        group = str(path.parent.relative_to(workdir))
        if path.name.isdigit():
            newest_steps[group] = max(int(path.name), newest_steps.get(group, -1))
    metas = {
        group: json.loads((workdir / group / str(step) / "meta/metadata").read_text())
        for group, step in newest_steps.items()
    }
    return {group: (meta["step"], meta["checksums"]) for group, meta in metas.items()}


def assert_same_bits(a: pathlib.Path, b: pathlib.Path) -> None:
    """Two finished runs have the same states, logs, arrays and metrics."""
    assert states(a) and states(a) == states(b)
    logs = [
        {p.relative_to(run): p.read_text() for p in run.rglob("metrics.jsonl")} for run in (a, b)
    ]
    assert logs[0] == logs[1]
    assert results(a)["metrics"] == results(b)["metrics"]
    with np.load(a / "arrays.npz") as first, np.load(b / "arrays.npz") as second:
        assert set(first.files) == set(second.files)
        for name in first.files:
            np.testing.assert_array_equal(first[name], second[name])


def results(workdir: pathlib.Path) -> dict:
    return json.loads((workdir / "results.json").read_text())
