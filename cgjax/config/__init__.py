"""Configs: a row, a size and overrides become one locked config; its text and differences."""

import contextlib
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
from ml_collections.config_dict import config_dict

from cgjax.config.declare import LARGEST, check, copied, declared_keys, leaves
from cgjax.config.declare import keys as keys  # used elsewhere as `configs.keys`
from cgjax.config.overrides import nearest, override, part_of, refuse_shadowed
from cgjax.core.errors import BadInput, first_line, shown

SIZES = ("default", "smoke", "fast", "paper")
_NAME = re.compile(r"\w[\w.+-]{0,99}")

# --- from a flag to a config ----------------------------------------------------------------------


def split_variant(arg: str, rows) -> tuple[str, str]:
    """`"orthogonal_star,fast"` -> row and size; a size alone selects the row `demo`."""
    names = [name.strip() for name in arg.split(",") if name.strip()]
    size = "default"
    if names and names[-1] in SIZES:
        size = names.pop()
    if not names:
        return "demo", size
    if names[-1] in SIZES and names[-1] not in rows:
        raise BadInput(f"'{arg}' has two sizes: give one")
    if len(names) == 2 and names[0] in rows:
        known = ", ".join(SIZES)
        raise BadInput(f"unknown size '{names[1]}'{nearest(names[1], SIZES)}: sizes are {known}")
    if len(names) == 2 and names[0] in SIZES and names[1] in rows:
        raise BadInput(f"'{arg}': the row comes before the size, {names[1]},{names[0]}")
    row = ",".join(names)
    if row not in rows:
        raise BadInput(
            f"unknown row {shown(row)}{nearest(row, list(rows) + list(SIZES))}: "
            "`python -m cgjax.main --list=<family>` prints them all"
        )
    return row, size


def folder() -> pathlib.Path:
    """The folder of the package's config files: beside the package, or inside it when installed."""
    package = pathlib.Path(__file__).parents[1]
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def find(name: str) -> pathlib.Path:
    """The config file for `name`, which is a path or a family's name."""
    path = pathlib.Path(name)
    if os.path.isfile(path):
        return path
    if re.fullmatch(r"(configs/)?\w+(\.py)?", name):
        for place in (folder(), pathlib.Path("configs")):
            if os.path.isfile(place / f"{path.stem}.py"):
                return place / f"{path.stem}.py"
    known = sorted(path.stem for path in folder().glob("*.py"))
    family, comma, rest = name.partition(",")
    if comma and family in known:
        raise BadInput(f"{shown(name)}: a row or size follows a colon, {family}:{rest}")
    raise BadInput(
        f"no config file {shown(name)}{nearest(path.stem, known)}: "
        f"give a family ({', '.join(known)}) or the path of a file"
    )


def split_flag(flag: str) -> tuple[str, str]:
    """`"path[:row[,size]]"` -> (path, "row,size"); the file's name may contain a colon."""
    if os.path.isfile(pathlib.Path(flag)):
        return flag, ""
    name, _, arg = flag.rpartition(":")
    return (name, arg) if os.path.isfile(pathlib.Path(name)) else flag.partition(":")[::2]


def load_file(path):
    """Runs the config file of a path or a family's name, and returns it as a module."""
    path = find(str(path))
    if path.suffix != ".py":
        raise BadInput(f"'{path}' is not a Python file: the name of a config file ends in .py")
    look_here()
    module = types.ModuleType(f"cgjax_config_{path.stem}")
    module.__file__ = str(path)
    # The import system is not used: it writes __pycache__ beside the file, and of a file that is
    # edited twice within a second it would run the first version.
    guarded(path, lambda: exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__))
    if not callable(getattr(module, "get_config", None)):
        raise BadInput(f"'{path}' has no get_config(arg): it is not a config file")
    return module


def look_here() -> None:
    """Adds the current folder to sys.path, as `python -m` does: users' modules lie there."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # the current folder was deleted
        return
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def guarded(path, action):
    """Runs code of a config file; any exception becomes a one-line BadInput with file and line."""
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


def described_rows(path: pathlib.Path) -> list[dict]:
    """The rows of a config file, as its describe_rows() gives them: name, doc, times, expect."""
    module = load_file(path)
    if not hasattr(module, "describe_rows"):
        raise BadInput("it has no describe_rows(): its rows cannot be listed")
    rows = guarded(path, lambda: list(module.describe_rows()))
    for row in rows:
        if not isinstance(row, dict) or not {"name", "doc", "times", "expect"} <= set(row):
            raise BadInput("describe_rows() must give dicts with name, doc, times and expect")
        if not isinstance(row["times"], dict):
            raise BadInput("times in describe_rows() must be a dict, {size: time in words}")
    return [{**row, "name": str(row["name"]), "doc": str(row["doc"])} for row in rows]


@contextlib.contextmanager
def missing_keys(config):
    """A key that the block reads and the config lacks becomes a BadInput; other errors pass."""
    try:
        yield
    except (AttributeError, KeyError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        readers = [frame for frame in frames if frame.filename != config_dict.__file__]
        if frames[-1] is readers[-1]:
            raise
        place = f"{pathlib.Path(readers[-1].filename).name}, line {readers[-1].lineno}"
        raise BadInput(
            f"the config {config.family}:{config.row} has no key {first_line(error).strip(chr(34))}"
            f", which the family reads ({place}): declare it in the config file"
        ) from None


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
    for name in choices:  # first, because choices decide which other keys exist
        override(config, name, overrides[name])
    if choices:
        check_values(config)
        guarded(path, lambda: module.adapt(config))
    for name in (name for name in overrides if name not in choices):
        override(config, name, overrides[name])
    for name in overrides:  # again at the end: an override may give a part its own value
        refuse_shadowed(config, name)
    guarded(path, lambda: check_values(config))
    return config


def some_parts(config, names: str):
    """The config with only some parts of its row; names: "scratch,pretrained"."""
    known = list(config.get("parts", {}))
    if not known:
        models = "; --config.model.kinds selects its models" * ("kinds" in config.get("model", {}))
        raise BadInput(
            f"--parts={names}: {config.family}:{config.row} has no parts to choose from{models}"
        )
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in known:
            raise BadInput(
                f"no part {shown(name)}{nearest(name, known)}: there are {', '.join(known)}"
            )
    config = copied(config)
    with config.unlocked():
        for name in set(known) - set(asked):
            del config.parts[name]
    return config


def _check_form(config, path) -> None:
    """Every config needs a family, a row and a size, and values that json can hold."""
    if not isinstance(config, ml_collections.ConfigDict):
        raise BadInput(f"get_config of '{path}' returned {type(config).__name__}, not a config")
    check_names(config, path)
    for name, value in leaves(config):
        if not _is_plain(value):
            raise BadInput(
                f"the config of '{path}' has {name}={shown(value)}: values are numbers, words, "
                "True or False, and tuples of them"
            )


def check_name(kind: str, name, where: str = "") -> None:
    """Raises BadInput unless a family, row, size, label or part is safe as a part of a path."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{where and where + ': '}{shown(name)} is not a name of a {kind}: use at most 100 "
            "letters, digits and _ . + -, and begin with a letter or digit"
        )


def check_names(config, path) -> None:
    """Raises BadInput unless the config of a file has a family, a row, a size, and sound parts."""
    for field in ("family", "row", "size"):
        if field not in config:
            raise BadInput(f"the config of '{path}' has no {field}: start from declare.base()")
        check_name(field, config[field], f"'{path}'")
    if config.size not in SIZES:
        raise BadInput(f"'{path}': the size {shown(config.size)} is not one of {', '.join(SIZES)}")
    sections = config.get("parts", {})
    if not isinstance(sections, ml_collections.ConfigDict | dict):
        raise BadInput(f"'{path}' has parts={shown(sections)}: parts are sections of the config")
    for name, section in sections.items():
        check_name("part", name, f"'{path}'")
        if not isinstance(section, ml_collections.ConfigDict):
            raise BadInput(f"'{path}' has parts.{name}={shown(section)}: a part is a section")


def _is_plain(value) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


# --- checks ---------------------------------------------------------------------------------------


def cached_by(*names: str):
    """Decorates a function of (config, *words): it runs once for equal values of these keys.

    For checks that trace a network: a sweep checks every point. names: keys or sections.
    """

    def decorate(fn):
        results = {}

        @functools.wraps(fn)
        def cached(config, *words):
            chosen = {name: value for name, value in leaves(config) if name.startswith(names)}
            key = json.dumps([chosen, words], sort_keys=True)
            if key not in results:
                results[key] = fn(config, *words)
            return results[key]

        return cached

    return decorate


def check_values(config) -> None:
    """Checks every value, those of parts too, against its declaration; then checks the periods."""
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
    """`steps_per_call` must divide every period, and no event may come after the last step."""
    train = config.get("train", {})
    unit = "steps" if "steps_per_call" in train else "epochs"
    if unit not in train:
        return
    end = train[unit]
    single = [
        (name, step)
        for name in ("eval.at", "eval.keep", "checkpoint.keep")
        for step in _get(config, name)
    ]
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
    if odd := [step for step in config.eval.keep if not is_evaluation(config, step)]:
        raise BadInput(f"eval.keep={min(odd)} is not an evaluation: add it to eval.at too")


def is_evaluation(config, step: int) -> bool:
    """Whether a run is evaluated at a step or epoch: a period, one of eval.at, or the last."""
    total, every = length_and_period(config)
    is_regular = bool(every) and 0 < step < total and step % every == 0
    return is_regular or step == total or step in config.eval.at


def length_and_period(config) -> tuple[int, int]:
    """The length of training and the period of evaluations, in epochs if the row counts them."""
    if "steps" in config.train:
        return config.train.steps, config.eval.every
    return config.train.epochs, config.eval.epochs


# --- one row, several programs --------------------------------------------------------------------


def parts(config) -> list[tuple]:
    """(name, config) of each part: the row's config with the part's own keys.

    A row without parts gives one pair with an empty name. `config.parts.<name>` holds the keys in
    which a part differs. Each part trains in a sub-folder.
    """
    if not config.get("parts"):
        return [("", config)]
    named = []
    for name in sorted(config.parts):
        settings = config.copy_and_resolve_references()
        with settings.unlocked():
            settings.update(config.parts[name])
        named.append((name, settings))
    return named


def prefixes(config, is_wanted) -> tuple[str, ...]:
    """Prefixes of the metrics of some parts; "", that of all metrics, for a row without parts."""
    return tuple(name and f"{name}/" for name, part in parts(config) if is_wanted(name, part))


def over_parts(config, study) -> tuple[dict, dict]:
    """Metrics and arrays of every part, prefixed by its name; the array "parts" lists the names.

    study: (name, the part's config) -> (metrics, arrays).
    """
    metrics, arrays = {}, {}
    for name, settings in parts(config):
        prefix = f"{name}/" if name else ""
        for part_values, target in zip(study(name, settings), (metrics, arrays)):
            target |= {prefix + key: value for key, value in part_values.items()}
    return metrics, arrays | {"parts": np.array([name for name, _ in parts(config)])}


def in_steps(config, per_epoch: int):
    """The config with epochs converted to steps, for `fit`; one call is one epoch."""
    settings = config.copy_and_resolve_references()
    epochs = config.train.epochs
    if epochs * per_epoch > LARGEST:
        raise BadInput(f"train.epochs={epochs} are {epochs * per_epoch} steps: beyond 32 bits")
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
    for key in name.split("."):
        config = config[key]
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


# A run may differ from the paper's in these keys and is still compared with it. `train.at_once`
# changes only how many replicas run at the same time; the others select a subset of the published
# runs.
PARTIAL = ("train.seeds", "train.at_once", "data.tasks", "data.distances", "masks.seeds")
# Keys that list what a search selects from. A run with the first value of each searches nothing; it
# has the numbers of the configuration that is fixed beforehand, and these are compared.
SEARCHED = ("masks.s0s", "masks.lrs", "masks.layers", "masks.penalties")


def is_published(config, name: str = "") -> bool:
    """Whether a run has the published scale: that of `paper`, except for `PARTIAL` and `SEARCHED`.

    name: of the config file, if it is not the family's name. Keys that only one of the two configs
    has are ignored, because a recorded config may be older than the row. The size `smoke` is never
    a measurement.
    """
    if config.size == "smoke":
        return False
    try:
        path = find(name or config.family)
        # Only the package's files are cached: users may edit theirs while this process runs.
        load_fn = _package_file if path.parent == folder() else load_file
        module = load_fn(path)
        paper = guarded(path, lambda: module.get_config(f"{config.row},paper"))
    except BadInput:  # a user's row may lack the size `paper`
        return False
    paper_parts = dict(parts(paper))
    try:
        config_parts = parts(config)
    except (AttributeError, TypeError, ValueError):  # parts of a config that no row has made
        return False
    return all(
        name in paper_parts and _agrees(settings, paper_parts[name])
        for name, settings in config_parts
    )


def _agrees(config, paper) -> bool:
    """Whether the keys that both configs have, except `PARTIAL`, have the same values."""
    ours, theirs = dict(leaves(config)), dict(leaves(paper))
    shared = ours.keys() & theirs.keys() - {"size", *PARTIAL}
    searched = shared & set(SEARCHED)
    if all(ours[key] == theirs[key][:1] for key in searched):
        shared -= searched
    return all(ours[key] == theirs[key] for key in shared if not key.startswith("parts."))


@functools.lru_cache
def _package_file(path: pathlib.Path):
    return load_file(path)


def is_drawn(config) -> bool:
    """Whether another seed would change the numbers of a run."""
    return bool(config.get("train", {}).get("seeds", ())) or "seed" in config.get("data", {})
