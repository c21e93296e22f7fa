"""What a config key is: a default, one line of meaning, and the values it takes.

Ranges and choices stand with the declaration, and every config is held against them before anything
is written: a family cannot forget to check what it declares.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from cgjax.core.errors import BadInput, shown

LARGEST = 2**31 - 1  # steps, sizes and indices are 32-bit numbers on the device
KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
PLURALS = {bool: "truth values", int: "whole numbers", float: "numbers", str: "words"}


class Key(NamedTuple):
    """The declaration of one key; of a tuple, `allows` judges every item."""

    default: Any
    doc: str
    wanted: str  # the values it takes, in words; "" where its type says all
    allows: Callable  # value -> bool
    kind: type | None  # of the value, or of a tuple's items; None: `allows` judges
    length: int | None  # tuples only; None: any but 0
    may_be_empty: bool  # tuples only
    distinct: bool  # tuples only: no item twice
    is_axis: bool  # its items are replicas: a finished run can be given more of them
    largest: int  # of whole numbers
    is_traced: bool  # no shape and no constant of a program: points of a sweep may share one

    @property
    def takes(self) -> str:
        """`"2 numbers, above 0"`"""
        if isinstance(self.default, tuple):
            kind = " ".join(filter(None, (str(self.length or ""), PLURALS.get(self.kind, "items"))))
        else:
            kind = "" if self.wanted.startswith("one of") else KINDS.get(self.kind, "")
        return ", ".join(word for word in (kind, self.wanted) if word)


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
    numbers) it takes; test, wanted: any other condition, and how it reads; items: the type of a
    tuple's items, where the default has none to show it; is_traced: the family's programs read it
    from their replicas alone (`core.replicas.with_numbers`).
    """
    words = [wanted] if wanted else []
    if choices is not None:
        words.append("one of " + ", ".join(map(str, choices)))
    for limit, text in ((low, "at least"), (above, "above"), (high, "at most")):
        if limit is not None:
            words.append(f"{text} {limit}")

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
        default, doc, " and ".join(words), allows, kind if kind in KINDS else None, length,
        may_be_empty, distinct or is_axis, is_axis, largest, is_traced,
    )  # fmt: skip


def check(name: str, declared: Key, value) -> None:
    """Raises BadInput, in one line, where the key does not take the value."""
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
    if kind is None:  # tuples inside tuples: the declaration's own test judges
        return True
    if kind is float:
        return isinstance(item, (int, float)) and not isinstance(item, bool)
    return type(item) is kind


def _allowed(declared: Key, item) -> bool:
    try:
        return declared.allows(item)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):  # of another form
        return False
