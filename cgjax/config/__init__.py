"""Configs: how a row, a size and overrides become one locked config; its text and differences."""

import functools
import hashlib
import json
import math
import os
import pathlib
import re
import sys
import traceback
import types

import ml_collections
import numpy as np

from cgjax.config.declare import check, copied, declared_keys, leaves
from cgjax.config.declare import keys as keys  # `configs.keys`, for those who compare configs
from cgjax.config.overrides import nearest, override, part_of, refuse_shadowed
from cgjax.core.errors import BadInput, first_line, shown

SIZES = ("default", "smoke", "fast", "paper")

# --- from a flag to a config ----------------------------------------------------------------------


def split_variant(arg: str, rows) -> tuple[str, str]:
    """`"orthogonal_star,fast"` -> row and size; a size alone means the demonstration."""
    words = [word.strip() for word in arg.split(",") if word.strip()]
    size = "default"
    if words and words[-1] in SIZES:
        size = words.pop()
    if not words:
        return "demo", size
    if len(words) == 2 and words[0] in rows:
        known = ", ".join(SIZES)
        raise BadInput(f"unknown size '{words[1]}'{nearest(words[1], SIZES)}: sizes are {known}")
    row = ",".join(words)
    if row not in rows:
        raise BadInput(
            f"unknown row {shown(row)}{nearest(row, list(rows) + list(SIZES))}: "
            "`python -m cgjax.main --list` prints them all"
        )
    return row, size


def folder() -> pathlib.Path:
    """The config files that come with the package: beside it, or inside it when installed."""
    package = pathlib.Path(__file__).parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def find(name: str) -> pathlib.Path:
    """The config file that `name` means: a path, or a family's name."""
    path = pathlib.Path(name)
    if os.path.isfile(path):
        return path
    if re.fullmatch(r"(configs/)?\w+(\.py)?", name):
        for place in (folder(), pathlib.Path("configs")):
            if os.path.isfile(place / f"{path.stem}.py"):
                return place / f"{path.stem}.py"
    known = sorted(path.stem for path in folder().glob("*.py"))
    raise BadInput(
        f"no config file {shown(name)}{nearest(path.stem, known)}: "
        f"give a family ({', '.join(known)}) or the path of a file"
    )


def split_flag(flag: str) -> tuple[str, str]:
    """`"path[:row[,size]]"` -> (path, "row,size"); a file's own name may hold a colon."""
    if os.path.isfile(pathlib.Path(flag)):
        return flag, ""
    name, _, arg = flag.rpartition(":")
    return (name, arg) if os.path.isfile(pathlib.Path(name)) else flag.partition(":")[::2]


def load_file(path):
    """Runs a config file, found by its path or a family's name."""
    path = find(str(path))
    if path.suffix != ".py":
        raise BadInput(f"'{path}' is no Python file: the name of a config file ends in .py")
    look_here()
    module = types.ModuleType(f"cgjax_config_{path.stem}")
    module.__file__ = str(path)
    # Not through the import system: it would leave __pycache__ beside the file, and take a file
    # that was edited twice within a second for the first one.
    guarded(path, lambda: exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__))
    if not callable(getattr(module, "get_config", None)):
        raise BadInput(f"'{path}' has no get_config(arg): it is not a config file")
    return module


def look_here() -> None:
    """Modules of one's own lie where one works: `python -m` looks there, a script does not."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # the folder was deleted under us
        return
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def guarded(path, action):
    """Runs code of a config file; whatever it raises becomes one line with the place."""
    try:
        return action()
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        if isinstance(error, SyntaxError) and error.filename == str(path):
            lines.append(error.lineno)
        place = f", line {lines[-1]}" if lines and lines[-1] else ""
        what = f"{type(error).__name__}: {first_line(error)}"
        raise BadInput(f"config file '{path}'{place}: {what}") from None


def load(flag: str, overrides: dict[str, str] | None = None) -> ml_collections.ConfigDict:
    """`--config=path[:row[,size]]` and `{"train.steps": "400"}` -> one locked, checked config."""
    name, arg = split_flag(flag)
    path = find(name)
    module = load_file(path)
    config = guarded(path, lambda: module.get_config(arg))
    guarded(path, lambda: _check_form(config, path))
    config.lock()
    overrides = overrides or {}
    choices = [name for name in overrides if name in getattr(module, "CHOICES", ())]
    for name in choices:  # they decide which other keys there are
        override(config, name, overrides[name])
    if choices:
        check_values(config)
        guarded(path, lambda: module.adapt(config))
    for name in (name for name in overrides if name not in choices):
        override(config, name, overrides[name])
    for name in overrides:  # one override may give a part a value of its own
        refuse_shadowed(config, name)
    guarded(path, lambda: check_values(config))
    return config


def some_parts(config, names: str):
    """The config of some parts of a row, given as "scratch,pretrained"."""
    known = list(config.get("parts", {}))
    if not known:
        raise BadInput(f"--parts={names}: {config.family}:{config.row} has no parts to choose from")
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in known:
            raise BadInput(f"no part {shown(name)}{nearest(name, known)}: there are "
                           + ", ".join(known))  # fmt: skip
    config = copied(config)
    with config.unlocked():
        for name in set(known) - set(asked):
            del config.parts[name]
    return config


def _check_form(config, path) -> None:
    """What every config is: a family, a row and a size, and values that json can hold."""
    if not isinstance(config, ml_collections.ConfigDict):
        raise BadInput(f"get_config of '{path}' returned {type(config).__name__}, not a config")
    for field in ("family", "row", "size"):
        if not isinstance(config.get(field), str):
            raise BadInput(f"the config of '{path}' has no {field}: start from declare.base()")
    if not re.fullmatch(r"\w[\w.+-]*", config.row):
        raise BadInput(f"'{path}' calls its row {shown(config.row)}: use letters, digits and _")
    if config.size not in SIZES:
        raise BadInput(f"'{path}' calls its size {shown(config.size)}: {', '.join(SIZES)} exist")
    for name, value in leaves(config):
        if not _is_plain(value):
            raise BadInput(
                f"the config of '{path}' has {name}={shown(value)}: values are numbers, words, "
                "True or False, and tuples of them"
            )


def _is_plain(value) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


# --- checks ---------------------------------------------------------------------------------------


def check_values(config) -> None:
    """Holds every value, those of parts too, against its declaration, and the periods together."""
    declared = declared_keys(config)
    for name, value in leaves(config):
        inner = part_of(config, name)[1] or name
        if inner in declared:
            check(name, declared[inner], value)
    for part, settings in parts(config):
        try:
            check_periods(settings)
        except BadInput as error:
            raise BadInput(f"part '{part}': {error}" if part else str(error)) from None


def check_periods(config) -> None:
    """`steps_per_call` divides everything that happens between two calls; nothing is too late."""
    train = config.get("train", {})
    unit = "steps" if "steps_per_call" in train else "epochs"
    if unit not in train:
        return
    end = train[unit]
    single = [(name, step) for name in ("eval.at", "eval.keep", "checkpoint.keep")
              for step in _get(config, name)]  # fmt: skip
    for name, step in single:
        if step > end:
            raise BadInput(f"{name}={step} is beyond train.{unit}={end}")
    if unit == "steps":
        per_call, every = train.steps_per_call, train.log_every
        periods = [("train.steps", end), ("eval.every", config.eval.every)]
        periods += [("checkpoint.every", config.checkpoint.every), *single]
        for name, period in periods:
            if period % per_call:
                raise BadInput(f"train.steps_per_call={per_call} must divide {name}={period}")
        if per_call % every:
            raise BadInput(f"train.log_every={every} must divide train.steps_per_call={per_call}")
    if odd := set(config.eval.keep) - set(evaluations(config)):
        raise BadInput(f"eval.keep={min(odd)} is no evaluation: name it in eval.at too")


def evaluations(config) -> list[int]:
    """When a run is evaluated, in steps or epochs: every so often, at odd times, at the end."""
    in_epochs = "steps" not in config.train
    total = config.train.epochs if in_epochs else config.train.steps
    every = config.eval.epochs if in_epochs else config.eval.every
    regular = range(every, total + 1, every) if every else ()
    return sorted({*regular, *config.eval.at, total})


# --- one row, several programs --------------------------------------------------------------------


def parts(config) -> list[tuple]:
    """(name, config) of each part: the row's config with the part's own keys; one without name.

    `config.parts.<name>` holds the keys in which a part differs; each trains in a sub-folder.
    """
    if not config.get("parts"):
        return [("", config)]
    found = []
    for name in sorted(config.parts):
        settings = config.copy_and_resolve_references()
        with settings.unlocked():
            settings.update(config.parts[name])
        found.append((name, settings))
    return found


def over_parts(config, study) -> tuple[dict, dict]:
    """Metrics and arrays of every part, under its name; "parts" among the arrays lists them.

    study: (name, the part's config) -> (metrics, arrays).
    """
    metrics, arrays = {}, {}
    for name, settings in parts(config):
        prefix = f"{name}/" if name else ""
        for found, target in zip(study(name, settings), (metrics, arrays)):
            target |= {prefix + key: value for key, value in found.items()}
    return metrics, arrays | {"parts": np.array([name for name, _ in parts(config)])}


def in_steps(config, per_epoch: int):
    """The config with its epochs as steps, for `fit`: a call is one epoch."""
    settings = config.copy_and_resolve_references()
    epochs = config.train.epochs
    with settings.unlocked():
        settings.train.steps = epochs * per_epoch
        settings.train.steps_per_call = settings.train.log_every = per_epoch
        for section in (settings.eval, settings.checkpoint):
            section.every = per_epoch * min(section.epochs, epochs)
        settings.eval.at = tuple(epoch * per_epoch for epoch in config.eval.at)
        settings.eval.keep = tuple(epoch * per_epoch for epoch in config.eval.keep)
        settings.checkpoint.keep = tuple(epoch * per_epoch for epoch in config.checkpoint.keep)
    check_periods(settings)
    return settings


# --- names, text, differences ---------------------------------------------------------------------


def _get(config, name: str):
    for word in name.split("."):
        config = config[word]
    return config


def to_json(config) -> str:
    """Canonical text: sorted keys, tuples as lists."""
    return json.dumps(config.to_dict(), sort_keys=True, indent=1)


def from_json(text: str) -> ml_collections.ConfigDict:
    """Inverse of `to_json`; lists come back as tuples."""

    def tuples(value):
        if isinstance(value, list):
            return tuple(tuples(item) for item in value)
        if isinstance(value, dict):
            return {name: tuples(item) for name, item in value.items()}
        return value

    return ml_collections.ConfigDict(tuples(json.loads(text))).lock()


def fingerprint(config) -> str:
    """Short hash that names a config in results and records."""
    return hashlib.sha256(to_json(config).encode()).hexdigest()[:12]


def differences(old, new) -> list[str]:
    """`"optim.lr: 0.001 -> 0.002"` for every key that differs."""
    before, after = dict(leaves(old)), dict(leaves(new))
    absent = "(absent)"
    return [
        f"{name}: {before.get(name, absent)} -> {after.get(name, absent)}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name, absent) != after.get(name, absent)
    ]


# In which a run may differ from the paper's and still be held against it: parts of it, each as
# published; and how many replicas wait for others.
PARTIAL = ("train.seeds", "train.at_once", "data.tasks", "data.distances")


def is_published(config, name: str = "") -> bool:
    """Whether a run has the published scale: that of `paper`, but for seeds, tasks and distances.

    name: of the config file, where that is not the family's. Keys that only one of the configs has
    do not count: recorded ones may be older than the row is now. `smoke` is never a measurement.
    """
    if config.size == "smoke":
        return False
    try:
        path = find(name or config.family)
        # Files of one's own may be edited while this process lives, those of the package are not.
        load_it = _package_file if path.parent == folder() else load_file
        module = load_it(path)
        paper = guarded(path, lambda: module.get_config(f"{config.row},paper"))
    except BadInput:  # rows of one's own need have no such size
        return False
    theirs = dict(parts(paper))
    return all(name in theirs and _agrees(own, theirs[name]) for name, own in parts(config))


def _agrees(config, paper) -> bool:
    """Whether one program has the same values in both, as far as both know its keys."""
    before, after = (dict(leaves(one)) for one in (config, paper))
    shared = before.keys() & after.keys() - {"size", *PARTIAL}
    return all(before[key] == after[key] for key in shared if not key.startswith("parts."))


@functools.lru_cache
def _package_file(path: pathlib.Path):
    return load_file(path)


def is_drawn(config) -> bool:
    """Whether the numbers of a run would be others with another seed."""
    return bool(config.get("train", {}).get("seeds", ())) or "seed" in config.get("data", {})
