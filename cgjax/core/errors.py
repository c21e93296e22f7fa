"""The ways a run can end early, each with its exit code."""

import functools
import sys


class RunError(Exception):
    """Ends the program with one line on stderr and `exit_code`."""

    exit_code = 1


class BadInput(RunError):
    """Something the person who started the run can mend: a key, a path, a full disk."""

    exit_code = 2


class Preempted(RunError):
    """A signal asked us to stop; everything is saved and the same command goes on."""

    exit_code = 3


class Diverged(RunError):
    """Every replica turned non-finite."""

    exit_code = 4


def command(main):
    """Decorates a command's main: a RunError becomes one line on stderr and its exit code."""

    @functools.wraps(main)
    def guarded(argv=None) -> int:
        try:
            main(argv)
        except RunError as error:
            print(f"cgjax: {error}", file=sys.stderr)
            return error.exit_code
        return 0

    return guarded
