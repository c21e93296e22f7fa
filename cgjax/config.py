"""Configs: what every family declares, how a row, a size and overrides become one locked config."""

import ast
import difflib
import hashlib
import importlib.util
import json
import pathlib

import ml_collections

from cgjax.core.errors import BadInput
from cgjax.core.workdir import write_atomic

SIZES = ("default", "smoke", "fast", "paper")


def base(family: str) -> ml_collections.ConfigDict:
    """Every key that all families share, locked: a misspelt assignment fails at once."""
    config = ml_collections.ConfigDict(
        {
            "family": family,
            "row": "demo",
            "size": "default",
            # seed -1 draws a training set of its own for every replica
            "data": {"seed": 0, "n_train": 0, "batch": 64},
            "model": {},
            "optim": {"lr": 1e-3, "lr_final": 0.0, "weight_decay": 0.0},
            # steps: optimiser steps in all; steps_per_call: how many run in one compiled call;
            # at_once: replicas that run together, the others wait their turn; 0: all
            "train": {"seeds": (0,), "steps": 0, "steps_per_call": 1, "log_every": 1, "at_once": 0},
            # periods in steps; 0: only at the end
            "eval": {"every": 0},
            "checkpoint": {"every": 0},
        }
    )
    return config.lock()


def nearest(word: str, words) -> str:
    """`" (did you mean 'x'?)"`, or nothing when no word is close."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


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
            f"unknown row '{row}'{nearest(row, list(rows) + list(SIZES))}: "
            "`python -m cgjax.main --list` prints them all"
        )
    return row, size


def load_file(path: str):
    """Imports a config file by its path."""
    if not pathlib.Path(path).is_file():
        raise BadInput(
            f"no config file '{path}': give the path of a file such as configs/sprites.py"
        )
    spec = importlib.util.spec_from_file_location(f"cgjax_config_{pathlib.Path(path).stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "get_config"):
        raise BadInput(f"'{path}' has no get_config(arg): it is not a config file")
    return module


def load(flag: str, overrides: dict[str, str] | None = None) -> ml_collections.ConfigDict:
    """`--config=path[:row[,size]]` and `{"train.steps": "400"}` -> one locked config."""
    path, _, arg = flag.partition(":")
    config = load_file(path).get_config(arg)
    for key, text in (overrides or {}).items():
        override(config, key, text)
    return config


def override(config: ml_collections.ConfigDict, key: str, text: str) -> None:
    """Sets `a.b.c` from command-line text, in the type it already has."""
    known = keys(config)
    if key not in known:
        raise BadInput(f"unknown config key '{key}'{nearest(key, known)}")
    *parents, name = key.split(".")
    node = config
    for parent in parents:
        node = node[parent]
    node[name] = _parse(key, text, node[name])


def _parse(key: str, text: str, old):
    kinds = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a tuple"}
    try:
        if isinstance(old, str):
            return text
        if isinstance(old, bool):
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if isinstance(old, int):
            return int(text)
        if isinstance(old, float):
            return float(text)
        value = ast.literal_eval(text)
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)
    except (ValueError, KeyError, SyntaxError):
        raise BadInput(
            f"config key '{key}' takes {kinds[type(old)]}, not '{text}' (now {old!r})"
        ) from None


def keys(config) -> list[str]:
    """Every leaf as a dotted name."""
    names = []
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            names += [f"{name}.{inner}" for inner in keys(value)]
        else:
            names.append(name)
    return names


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

    def leaves(config):
        return {name: value for name, value in _leaves(config.to_dict())}

    before, after = leaves(old), leaves(new)
    absent = "(absent)"
    return [
        f"{name}: {before.get(name, absent)} -> {after.get(name, absent)}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name, absent) != after.get(name, absent)
    ]


def claim(workdir: pathlib.Path, config, force_resume: bool = False) -> None:
    """Writes config.json, or compares with the one there: a workdir belongs to one config.

    Seeds may be added to a run; everything else must agree unless `force_resume`.
    """
    path = workdir / "config.json"
    if path.exists() and not force_resume:
        old = from_json(path.read_text())
        changed = [line for line in differences(old, config) if not line.startswith("train.seeds:")]
        if changed:
            raise BadInput(
                f"'{workdir}' holds a run of another config ({'; '.join(changed)}): "
                "use a new --workdir, or --force_resume to go on with the new values"
            )
        if missing := set(old.train.seeds) - set(config.train.seeds):
            raise BadInput(
                f"'{workdir}' has trained seeds {old.train.seeds}: seeds can be added, "
                f"not taken away (missing {sorted(missing)})"
            )
    write_atomic(path, to_json(config))


def _leaves(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
