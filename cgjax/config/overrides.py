"""Flags of the commands, and overrides: `--config.a.b=text` becomes a value of the key's type.

Every error is reported in one line.
"""

import argparse
import ast
import difflib
import re

import ml_collections

from cgjax.config.declare import declared_keys, keys, leaves
from cgjax.core.errors import BadInput, shown

# These keys identify the row. An override of them would mislabel the numbers.
FIXED = ("family", "row", "size", "study")

# Common names elsewhere -> the last part of our keys, the likeliest first.
MEANINGS = {
    "learning_rate": ("lr", "lrs"), "eta": ("lr", "lrs"), "lrs": ("lr",), "lr": ("lrs",),
    "batch_size": ("batch",), "bs": ("batch",), "seed": ("seeds",), "n_seeds": ("seeds",),
    "wd": ("weight_decay",), "n_epochs": ("epochs", "steps"), "epochs": ("steps",),
    "num_epochs": ("epochs", "steps"), "steps": ("epochs",), "iterations": ("steps", "epochs"),
    "max_steps": ("steps", "epochs"), "n_steps": ("steps", "epochs"),
    "num_steps": ("steps", "epochs"), "width": ("hidden", "channels"), "hidden_size": ("hidden",),
    "n_hidden": ("hidden",), "layers": ("n_layers", "depth"), "num_layers": ("n_layers", "depth"),
    "n_layers": ("depth",), "depth": ("n_layers",), "optimizer": ("optimiser",),
    "regularizer": ("regulariser",), "regularization": ("regulariser",), "task": ("tasks",),
    "kind": ("kinds",), "support": ("supports",), "supports": ("support",), "scale": ("scales",),
    "precision": ("dtype",), "dataset": ("images",), "n_samples": ("n_train", "n_total"),
    "n_data": ("n_train", "n_total"), "criterion": ("loss",), "objective": ("loss",),
}  # fmt: skip


def nearest(unknown: str, known, cutoff: float = 0.5) -> str:
    """`" (did you mean 'x'?)"`; empty if no known name is close in meaning or spelling."""
    known, last = list(known), unknown.split(".")[-1]
    same = [name for name in known if name.split(".")[-1] == last]
    meant = [
        name
        for meaning in MEANINGS.get(last, ())
        for name in known
        if name.split(".")[-1] == meaning
    ]
    # The row's keys come before those of its parts.
    close = sorted([*same, *meant], key=lambda name: name.startswith("parts."))[:3]
    close = close or difflib.get_close_matches(unknown[:100], known, n=1, cutoff=cutoff)
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def override(config: ml_collections.ConfigDict, name: str, text: str) -> None:
    """Sets `a.b.c` from command-line text; the type of the value stays.

    Any key of the row can be set for one part: `parts.addition.optim.stop`.
    """
    inner = part_of(config, name)[1] or name
    if inner in FIXED:
        raise BadInput(f"'{inner}' belongs to the row and cannot be changed: choose a row or size")
    if inner == name:
        refuse_shadowed(config, name)
    defaults = {key: declared.default for key, declared in declared_keys(config).items()}
    present = dict(leaves(config))
    if name in present:
        old = present[name]
    elif (
        inner != name and inner in (known := defaults | present) and not inner.startswith("parts.")
    ):
        old = known[inner]
    else:
        raise BadInput(_unknown_message(name, list(present)))
    value = _parse(name, text, old)
    node = config
    with config.unlocked():
        *parents, last = name.split(".")
        for parent in parents:
            if parent not in node:
                node[parent] = ml_collections.ConfigDict()
            node = node[parent]
        node[last] = value


def _unknown_message(name: str, known: list[str]) -> str:
    inside = [key for key in known if key.startswith(f"{name}.")]
    if inside:
        return f"config key '{name}' is a section: set one of {', '.join(inside[:8])}"
    return f"unknown config key {shown(name)}{nearest(name, known)}: --help prints the row's keys"


def part_of(config, name: str) -> tuple[str, str]:
    """`"parts.addition.optim.lr"` -> ("addition", "optim.lr"), else two empty strings."""
    head, _, rest = name.partition(".")
    part, _, inner = rest.partition(".")
    if head == "parts" and part in config.get("parts", {}):
        return part, inner
    return "", ""


def refuse_shadowed(config, name: str) -> None:
    """Raises BadInput if a part sets the key: then the key must be set in the part."""
    owners = [part for part, node in config.get("parts", {}).items() if name in keys(node)]
    if owners:
        instead = ", ".join(f"parts.{part}.{name}" for part in config.parts)
        raise BadInput(
            f"'{name}' is set by part {', '.join(map(repr, owners))} itself and would be "
            f"ignored there: set {instead}"
        )


def _parse(name: str, text: str, old):
    kinds = {
        bool: "true or false",
        int: "a whole number",
        float: "a number",
        tuple: "values separated by commas",
    }
    try:
        if isinstance(old, str):
            return text
        if isinstance(old, bool):
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        if isinstance(old, int):
            return int(text)
        if isinstance(old, float):
            return float(text)
        takes_strings = old and all(isinstance(item, str) for item in old)
        if takes_strings and re.fullmatch(r"[\w.+-]+(\s*,\s*[\w.+-]+)*,?", text):  # no quotes
            return tuple(re.findall(r"[\w.+-]+", text))
        return _tuples(ast.literal_eval(text.strip()), old)
    except (
        ArithmeticError,
        LookupError,
        MemoryError,
        RecursionError,
        SyntaxError,
        TypeError,
        ValueError,
    ):
        raise BadInput(
            f"config key '{name}' takes {kinds[type(old)]}, not {shown(text)}; "
            f"the row has {typed(old)[:60]}"
        ) from None


def typed(value) -> str:
    """A value as typed in a shell: `0,1` for a tuple, with quotes if the shell needs them."""
    if not isinstance(value, tuple):
        return str(value)
    is_flat = value and not any(isinstance(item, tuple) for item in value)
    return ",".join(map(str, value)) if is_flat else f'"{value}"'


def _tuples(value, old):
    """Lists and single values become tuples; integers become floats if the old items are floats."""
    if isinstance(value, (dict, set)):
        raise ValueError
    if not isinstance(value, (tuple, list)):
        value = (value,)
    as_float = bool(old) and all(isinstance(item, float) for item in old)
    whole = (int,) if as_float else ()
    return tuple(
        _tuples(item, ())
        if isinstance(item, (tuple, list))
        else float(item)
        if type(item) in whole
        else item
        for item in value
    )


# --- flags ----------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """argparse without abbreviated flags; an error raises BadInput, not usage text and an exit."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str):
        raise BadInput(message)

    def parse(self, argv) -> argparse.Namespace:
        """Parses all flags; the error for an unknown flag suggests the nearest one."""
        flags, unknown = self.parse_known_args(argv)
        if unknown:
            raise BadInput(f"unknown argument {shown(unknown[0])}{self.near(unknown[0])}")
        return flags

    def near(self, argument: str) -> str:
        """The suggestion for an unknown argument."""
        known = [name for action in self._actions for name in action.option_strings[:1]]
        return nearest(argument.partition("=")[0], known, cutoff=0.7)


def names(text: str) -> tuple[str, ...]:
    """ "a, b" -> ("a", "b")"""
    return tuple(name.strip() for name in text.split(",") if name.strip())
