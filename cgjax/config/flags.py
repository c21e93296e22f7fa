"""Flags of the commands: whatever is wrong with them is one line."""

import argparse

from cgjax.config.overrides import nearest
from cgjax.core.errors import BadInput, shown


class Parser(argparse.ArgumentParser):
    """argparse, which would print its usage and leave, and take a flag's beginning for it."""

    def __init__(self, **options):
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str):
        raise BadInput(message)

    def parse(self, argv) -> argparse.Namespace:
        """All flags; an unknown one is refused with the nearest."""
        flags, unknown = self.parse_known_args(argv)
        if unknown:
            raise BadInput(f"unknown argument {shown(unknown[0])}{self.near(unknown[0])}")
        return flags

    def near(self, word: str) -> str:
        """The flag that an unknown word may mean."""
        known = [name for action in self._actions for name in action.option_strings[:1]]
        return nearest(word.partition("=")[0], known)


def names(text: str) -> tuple[str, ...]:
    """ "a, b" -> ("a", "b")"""
    return tuple(word.strip() for word in text.split(",") if word.strip())
