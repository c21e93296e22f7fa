"""Flags of the commands: every error is reported in one line."""

import argparse

from cgjax.config.overrides import nearest
from cgjax.core.errors import BadInput, shown


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
