"""Declaring a config: every key with its default, its meaning and the values it takes."""

import ast
import functools
import math
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_collections

from cgjax.core.errors import BadInput, shown

# --- a config key: a default, one line of meaning, and the values it takes ------------------------
# The declaration holds the ranges and choices. Every config is checked against them before anything
# is written, so a family cannot forget to check what it declares.


LARGEST = 2**31 - 1  # steps, sizes and indices are 32-bit numbers on the device
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
PLURALS = {bool: "truth values", int: "whole numbers", float: "numbers", str: "words"}


class Key(NamedTuple):
    """The declaration of one key; for a tuple, `allows` is applied to every item."""

    default: Any
    doc: str
    wanted: str  # the values it takes, in words; "" if the type is the only condition
    allows: Callable  # value -> bool
    kind: type | None  # of the value or of a tuple's items; None: only `allows` decides
    length: int | None  # tuples only; None: any length but 0
    may_be_empty: bool  # tuples only
    distinct: bool  # tuples only: no item twice
    is_axis: bool  # its items are replicas: more of them can be added to a finished run
    largest: int  # largest absolute value of a whole number
    is_traced: bool  # neither shape nor constant: points of a sweep may share a program

    @property
    def takes(self) -> str:
        """`"2 numbers, above 0"`"""
        if isinstance(self.default, tuple):
            kind = " ".join(filter(None, (str(self.length or ""), PLURALS.get(self.kind, "items"))))
        else:
            kind = "" if self.wanted.startswith("one of") else KINDS.get(self.kind, "")
        return ", ".join(filter(None, (kind, self.wanted)))


def key(
    default,
    doc: str,
    *,
    low=None,
    high=None,
    above=None,
    choices=None,
    test: Callable | None = None,
    wanted: str = "",
    items: type | None = None,
    length: int | None = None,
    may_be_empty: bool = False,
    distinct: bool = False,
    is_axis: bool = False,
    is_traced: bool = False,
) -> Key:
    """Declares a key that takes values of the default's type.

    low, high: the least and the largest value; above: values must exceed it; choices: the words (or
    numbers) it takes; test, wanted: any other condition, and its description; items: the type of a
    tuple's items, if the default is empty; is_traced: the family's programs read the value only
    from their replicas (`core.replicas.with_numbers`).
    """
    conditions = [wanted] if wanted else []
    if choices is not None:
        conditions.append("one of " + ", ".join(map(str, choices)))
    for limit, text in ((low, "at least"), (above, "above"), (high, "at most")):
        if limit is not None:
            conditions.append(f"{text} {limit}")

    def allows(value) -> bool:
        return (
            (choices is None or value in choices)
            and (low is None or value >= low)
            and (above is None or value > above)
            and (high is None or value <= high)
            and (test is None or bool(test(value)))
        )

    if isinstance(default, tuple):
        kinds = {type(item) for item in default}
        kind = items or (kinds.pop() if len(kinds) == 1 else None)
    else:
        kind = type(default)
    largest = LARGEST if high is None else max(high, LARGEST)
    return Key(
        default,
        doc,
        " and ".join(conditions),
        allows,
        kind if kind in KINDS else None,
        length,
        may_be_empty,
        distinct or is_axis,
        is_axis,
        largest,
        is_traced,
    )


def check(name: str, declared: Key, value) -> None:
    """Raises BadInput, in one line, if the key does not take the value."""
    if isinstance(declared.default, tuple):
        if not isinstance(value, tuple):
            raise BadInput(f"config key '{name}' takes a tuple, not {shown(value)}")
        if not value and not declared.may_be_empty:
            raise BadInput(f"config key '{name}' must not be empty: {declared.doc}")
        if declared.length not in (None, len(value)):
            raise BadInput(f"config key '{name}' takes {declared.length} items, not {shown(value)}")
    items = value if isinstance(declared.default, tuple) else (value,)
    for item in items:
        _check_item(name, declared, item)
    if declared.distinct and len(set(items)) < len(items):
        raise BadInput(f"config key '{name}' has an item twice: {shown(value)}")


def _check_item(name: str, declared: Key, item) -> None:
    if not _is_of(item, declared.kind):
        raise BadInput(f"config key '{name}' takes {KINDS[declared.kind]}, not {shown(item)}")
    if isinstance(item, float) and not math.isfinite(item):
        raise BadInput(f"config key '{name}' takes a finite number, not {item}")
    if isinstance(item, int) and abs(item) > declared.largest:
        raise BadInput(f"config key '{name}': {shown(item)} is beyond 32 bits")
    if not _allowed(declared, item):
        raise BadInput(f"config key '{name}' must be {declared.wanted}, not {shown(item)}")


def _is_of(item, kind) -> bool:
    if kind is None:  # tuples inside tuples: only the declaration's test decides
        return True
    if kind is float:
        return isinstance(item, (int, float)) and not isinstance(item, bool)
    return type(item) is kind


def _allowed(declared: Key, item) -> bool:
    try:
        return declared.allows(item)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):  # item of another form
        return False


# --- the declarations of a config -----------------------------------------------------------------


def base(family: str) -> ml_collections.ConfigDict:
    """An empty, locked config of a family: a misspelt assignment raises an error."""
    return ml_collections.ConfigDict({"family": family, "row": "demo", "size": "default"}).lock()


def declare(config, keys: dict[str, Key]) -> None:
    """Adds keys by dotted name, with their defaults; `config.check_values` checks them later.

    >>> config = base("mylab.study")
    >>> declare(config, {"model.hidden": key(100, "units of each hidden layer", low=1)})
    """
    with config.unlocked():
        for name, declared in keys.items():
            *parents, last = name.split(".")
            node = config
            for parent in parents:
                if parent not in node:
                    node[parent] = ml_collections.ConfigDict()
                node = node[parent]
            node[last] = declared.default
    # An attribute, not a field: declarations are not part of a config's values.
    object.__setattr__(config, "_declared", {**declared_keys(config), **keys})


def undeclare(config, names) -> None:
    """Removes keys with their declarations, and sections that become empty."""
    remove(config, names)
    rest = {
        name: declared for name, declared in declared_keys(config).items() if name not in set(names)
    }
    object.__setattr__(config, "_declared", rest)


def remove(config, names) -> None:
    """Removes keys but not their declarations: every part of the row sets its own value."""
    with config.unlocked():
        for name in names:
            *parents, last = name.split(".")
            path = [config]
            for parent in parents:
                path.append(path[-1].get(parent, {}))
            if last in path[-1]:
                del path[-1][last]
            for node, parent in reversed(list(zip(path, parents))):
                if parent in node and not node[parent]:
                    del node[parent]


def declare_parts(config, parts: dict) -> None:
    """`config.parts.<name>`: the keys in which each program of a row differs from the others.

    parts: {name: {"model.hidden": 100}}, or with a dict for each section.
    Keys that every part sets are removed from the row, because nothing reads them there.
    """
    with config.unlocked():
        # Each part gets its own ConfigDict: a dict that two parts share would become one node, and
        # an override of one part would change both.
        config.parts = {
            name: ml_collections.ConfigDict(nested(part)) for name, part in parts.items()
        }
    part_keys = [set(keys(part)) for part in config.parts.values()]
    remove(config, set.intersection(*part_keys) if part_keys else ())


def copied(config) -> ml_collections.ConfigDict:
    """A copy of the config, with its declarations."""
    copy = config.copy_and_resolve_references()
    object.__setattr__(copy, "_declared", declared_keys(config))
    return copy


def declared_keys(config) -> dict[str, Key]:
    """Every declaration of a config; a config that is read from a workdir has none."""
    return config.__dict__.get("_declared", {})


def keys(config) -> list[str]:
    """Every leaf as a dotted name."""
    return [name for name, _ in leaves(config)]


def leaves(config, prefix: str = ""):
    """(dotted name, value) of every leaf."""
    tree = config.to_dict() if isinstance(config, ml_collections.ConfigDict) else config
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def nested(flat: dict) -> dict:
    """{"a.b": 1} -> {"a": {"b": 1}}"""
    tree = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


class Dotted:
    """Reads and writes a config like a dict of dotted names."""

    def __init__(self, config):
        self.config = config

    def keys(self) -> set[str]:
        return set(keys(self.config))

    def __contains__(self, name):
        return name in self.keys()

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __getitem__(self, name):
        node = self.config
        for key_part in name.split("."):
            node = node[key_part]
        return node

    def __setitem__(self, name, value):
        self.config.update_from_flattened_dict({name: value})


def declare_training(config, in_epochs: bool = False) -> None:
    """Declares the keys that `core.train.fit` reads: duration, periods, seeds.

    in_epochs: the row counts passes over its data, which `config.in_steps` converts to steps.
    """
    unit = "epochs" if in_epochs else "steps"
    times = {"low": 0, "items": int, "may_be_empty": True, "distinct": True}
    stay = f"{unit} whose checkpoints stay; of the others only the latest two stay"
    declare(
        config,
        {
            "train.seeds": key(
                (0,), "replicas of one compiled program", low=0, high=2**32 - 1, is_axis=True
            ),
            "train.at_once": key(0, "replicas that run together, the others wait; 0: all", low=0),
            "eval.at": key(
                (), f"further evaluations, at these {unit} (0: before training)", **times
            ),
            "eval.keep": key(
                (), f"{unit} whose evaluation's arrays are kept in evals/<step>.npz", **times
            ),
            "checkpoint.keep": key((), stay, **times),
        },
    )
    if in_epochs:
        declare(
            config,
            {
                "train.epochs": key(1, "passes over the training set", low=1),
                "eval.epochs": key(1, "epochs between evaluations", low=1),
                "checkpoint.epochs": key(1, "epochs between checkpoints", low=1),
            },
        )
        return
    declare(
        config,
        {
            "train.steps": key(1, "optimiser steps in all", low=1),
            "train.steps_per_call": key(1, "steps that run in one compiled call", low=1),
            "train.log_every": key(1, "steps that one line of metrics.jsonl averages", low=1),
            "eval.every": key(0, "steps between evaluations; 0: only at the end", low=0),
            "checkpoint.every": key(0, "steps between checkpoints; 0: only at the end", low=0),
        },
    )


def declare_schedule(config) -> None:
    """Declares the end of the schedule, for rows that schedule a learning rate or another value."""
    doc = "where the schedule ends, counted as training is; 0: with training"
    declare(config, {"optim.schedule_end": key(0, doc, low=0)})


# --- names in a table of a module -----------------------------------------------------------------
# Many choices of a config are names of functions, in tables of modules that import JAX. That import
# takes a second. So names are read from the source: a refused command and a list of rows are quick.


PACKAGE = pathlib.Path(__file__).parent.parent


def names_in(module: str, table: str) -> tuple:
    """Keys of a dict, or items of a tuple, that a module of this package assigns to `table`.

    A table may contain others, as `**table`, `*table` or `*module.table`, also imported ones.

    >>> names_in("experiments.sprites.models", "DTYPES")
    ('float32', 'bfloat16')
    """
    value = _globals(module)[table]
    return names_in(*value) if isinstance(value, tuple) else tuple(_names(module, value))


def _names(module: str, table: ast.Dict | ast.Tuple):
    if isinstance(table, ast.Dict):
        entries = [key or value for key, value in zip(table.keys, table.values)]
    else:
        entries = [item.value if isinstance(item, ast.Starred) else item for item in table.elts]
    for entry in entries:
        if isinstance(entry, ast.Name):
            yield from names_in(module, entry.id)
        elif isinstance(entry, ast.Attribute):
            yield from names_in(".".join(_globals(module)[entry.value.id]), entry.attr)
        else:
            yield ast.literal_eval(entry)


@functools.cache
def _globals(module: str) -> dict:
    """What a module assigns to its names; (module, name) of those that it imports."""
    path = PACKAGE.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    values = {}
    for node in ast.parse(source.read_bytes()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("cgjax."):
            home = node.module.removeprefix("cgjax.")
            values |= {name.asname or name.name: (home, name.name) for name in node.names}
    return values
