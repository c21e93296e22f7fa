"""The ways a run can end early, each with its exit code."""

import errno
import functools
import os
import re
import sys

# What the file system may say of any path; other OSErrors are faults of the program.
_FILES = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE,
}  # fmt: skip
_NO_ROOM = "RESOURCE_EXHAUSTED: "  # how XLA begins when the memory of a device is full
# What a GPU's driver says of its failure; the same of its memory.
_DRIVER, _DRIVER_NO_ROOM = re.compile(r"CUDA_ERROR_\w+(: [^\[\n]*[^\[\s])?"), "OUT_OF_MEMORY"


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


class Lost(RunError):
    """Another host of the run was killed, or no longer answers; or the device does not."""

    exit_code = 5


def first_line(error: BaseException | str) -> str:
    """What an exception says, cut to one line; its type where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def shown(value) -> str:
    """A value as an error shows it: in quotes where it is text, short whatever was given."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:80]} ... ({len(text)} characters)"


def command(main):
    """Decorates a command's main: a RunError becomes one line on stderr and its exit code.

    So do a full disk, a path that cannot be used, a device without room and one that fails,
    wherever they are met.
    """

    @functools.wraps(main)
    def guarded(argv=None) -> int:
        try:
            main(argv)
        except RunError as error:
            print(f"cgjax: {' '.join(str(error).split())}", file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:  # before or after the part of a run that handles signals
            print("cgjax: SIGINT: stopped; run the same command to go on", file=sys.stderr)
            return Preempted.exit_code
        except BrokenPipeError:  # `| head` has seen enough; nothing more can be printed
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:
            if error.errno not in _FILES:
                raise
            where = shown(str(error.filename)) if error.filename else "a file"
            print(f"cgjax: cannot use {where}: {error.strerror}", file=sys.stderr)
            return BadInput.exit_code
        except RuntimeError as error:
            if not (failure := _of_device(str(error))):
                raise
            print(f"cgjax: {failure}", file=sys.stderr)
            return failure.exit_code
        return 0

    return guarded


def _of_device(said: str) -> RunError | None:
    """What XLA says of a device without room, or of one that fails, with advice."""
    found = _DRIVER.search(said)
    if said.startswith(_NO_ROOM) or (found and _DRIVER_NO_ROOM in found[0]):
        asked = first_line(said).removeprefix(_NO_ROOM).split(" [")[0].rstrip(".")
        advice = "fewer replicas at a time (train.at_once), fewer seeds or smaller batches"
        return BadInput(f"{asked}: {advice}; what was saved is kept")
    if found:
        advice = "what was saved is kept; run the same command to go on"
        return Lost(f"the device failed: {found[0]}; {advice}")
    return None
