"""The run that the fault tests kill, starve and mislead: the README's family, two seeds.

Three numbers are trained, because most of the time goes into starting; at a rate so low that every
step counts to the end.
"""

import itertools
import json
import pathlib

import jax
import numpy as np
import processes
from front_door import write_family

import cgjax

CONFIG = ("--config=killab/config.py:few,smoke", "--config.train.seeds=0,1",
          "--config.optim.lr=1e-4", "--no_figures")  # fmt: skip
FLAGS = (*CONFIG, "--config.train.steps=2400", "--config.checkpoint.every=48",
         "--config.eval.every=48")  # fmt: skip
_COUNT = itertools.count()  # what each says goes to files of its own


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


def finish(workdir, lab, flags=FLAGS) -> processes.Running:
    running = start(workdir, lab, flags)
    assert running.code() == 0, running.err[-2000:]
    return running


def logged_steps(workdir: pathlib.Path) -> int:
    path = workdir / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def newest(workdir: pathlib.Path) -> int:
    """The newest step on disk; -1 without any."""
    found = workdir.glob("checkpoints/seeds_*/*")
    return max((int(path.name) for path in found if path.name.isdigit()), default=-1)


def is_writing(workdir: pathlib.Path) -> bool:
    """Orbax writes a step under a temporary name and renames it when it is whole."""
    return any("tmp" in path.name for path in workdir.glob("checkpoints/seeds_*/*"))


def assert_same_bits(a: pathlib.Path, b: pathlib.Path) -> None:
    first, second = cgjax.load(a), cgjax.load(b)
    for x, y in zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params)):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert (a / "metrics.jsonl").read_text() == (b / "metrics.jsonl").read_text()


def results(workdir: pathlib.Path) -> dict:
    return json.loads((workdir / "results.json").read_text())
