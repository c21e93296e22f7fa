"""Declaring a config: every key with its default, its meaning and the values it takes."""

import ml_collections

from cgjax.core.keys import Key, key


def base(family: str) -> ml_collections.ConfigDict:
    """An empty config of a family, locked: a misspelt assignment fails at once."""
    return ml_collections.ConfigDict({"family": family, "row": "demo", "size": "default"}).lock()


def declare(config, keys: dict[str, Key]) -> None:
    """Adds keys by dotted name, with their defaults; `config.check_values` holds it against them.

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
    # Beside the fields, not among them: what a key means is no part of a config's values.
    object.__setattr__(config, "_declared", {**declared_keys(config), **keys})


def undeclare(config, names) -> None:
    """Takes keys away again, and sections that are empty without them."""
    remove(config, names)
    rest = {name: one for name, one in declared_keys(config).items() if name not in set(names)}
    object.__setattr__(config, "_declared", rest)


def remove(config, names) -> None:
    """Takes keys away whose declarations stay: every part of the row has a value of its own."""
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
    Keys that every part sets are taken away from the row, where nothing would read them.
    """
    with config.unlocked():
        # One by one: a dict that two parts share would become one node, and an override of one
        # part one of both.
        config.parts = {
            name: ml_collections.ConfigDict(nested(part)) for name, part in parts.items()
        }
    own = [set(keys(part)) for part in config.parts.values()]
    remove(config, set.intersection(*own) if own else ())


def copied(config) -> ml_collections.ConfigDict:
    """A copy with its declarations."""
    copy = config.copy_and_resolve_references()
    object.__setattr__(copy, "_declared", declared_keys(config))
    return copy


def declared_keys(config) -> dict[str, Key]:
    """Every declaration of a config; those read back from a workdir have none."""
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
    """{"a.b": 1} as {"a": {"b": 1}}"""
    found = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        node = found
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return found


class Dotted:
    """A config by dotted names, as far as it is read and written like a dict."""

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
        for word in name.split("."):
            node = node[word]
        return node

    def __setitem__(self, name, value):
        self.config.update_from_flattened_dict({name: value})


def declare_training(config, in_epochs: bool = False) -> None:
    """What `core.train.fit` reads: how long, how often, which seeds.

    in_epochs: the row counts in passes over its data, which `config.in_steps` turns into steps.
    """
    unit = "epochs" if in_epochs else "steps"
    times = {"low": 0, "items": int, "may_be_empty": True, "distinct": True}
    stay = f"{unit} whose checkpoints stay; of others the latest two"
    declare(
        config,
        {
            "train.seeds": key((0,), "replicas of one compiled program", low=0, high=2**32 - 1,
                               is_axis=True),
            "train.at_once": key(0, "replicas that run together, the others wait; 0: all", low=0),
            "eval.at": key((), f"further evaluations, at these {unit} (0: before training)",
                           **times),
            "eval.keep": key((), f"{unit} whose evaluation's arrays are kept in evals/<step>.npz",
                             **times),
            "checkpoint.keep": key((), stay, **times),
        },
    )  # fmt: skip
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
    """For rows whose learning rate (or anything else) follows a schedule to the end of training."""
    doc = "where the schedule ends, counted as training is; 0: with training"
    declare(config, {"optim.schedule_end": key(0, doc, low=0)})
