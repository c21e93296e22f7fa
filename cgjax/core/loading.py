"""Trained networks, read back: what `cgjax.load` returns for every family."""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cgjax.core import checkpoint, tree
from cgjax.core.errors import BadInput
from cgjax.core.logging import Metrics


class Loaded(NamedTuple):
    """Networks of a run, opened for reading."""

    predict: Callable  # params, inputs -> outputs, for one replica
    params: Any  # leading axis: the replicas, in the order of the config's seeds
    config: Any
    step: np.ndarray  # [R] at which each replica stands


def read(folder: pathlib.Path, names: list[str], step=None) -> tuple[dict, dict, np.ndarray]:
    """(params, extra, steps) of the replicas `names` that were trained in a part's folder."""
    leaves, at = checkpoint.open_finished(folder, names, step)
    steps = np.array([at[name] for name in names])
    return tree.nested(leaves, "params"), tree.nested(leaves, "extra"), steps


def last_scores(folder: pathlib.Path, names: list[str], metric: str) -> np.ndarray:
    """What a metric was of the replicas `names` when they were last evaluated."""
    found, where = {}, pathlib.Path(folder) / "checkpoints"
    for group in checkpoint.begun(where):
        saved = checkpoint.open_group(where / group.folder)
        log = Metrics(pathlib.Path(folder) / "metrics.jsonl", group.folder, ())
        log.mark = tuple(saved.meta["log"])
        values = log.history()["eval"][metric][-1]
        found |= dict(zip(saved.meta["replicas"], values, strict=True))
    return np.array([found[name] for name in names])


def read_part(known: dict, workdir, part: str = "", step=None) -> tuple[Any, dict, np.ndarray]:
    """(config, variables, steps) of a part whose replicas are seeds; known {part: its config}."""
    name = choose(part, known, workdir)
    names = [f"seed {seed}" for seed in known[name].train.seeds]
    params, extra, steps = read(pathlib.Path(workdir) / name, names, step)
    return known[name], {"params": params, **extra}, steps


def choose(part: str, parts, workdir) -> str:
    """The part that was asked for; no word is needed where there is one."""
    parts = list(parts)
    if not part and len(parts) == 1:
        return parts[0]
    if part not in parts:
        quote = "'" if any(", " in name for name in parts) else ""  # names may be of several words
        each = ", ".join(f"{quote}{name}{quote}" for name in parts)
        raise BadInput(f"'{workdir}' holds {each}: name one of them as part")
    return part
