"""The ways a run can end early, each with its exit code."""

import errno
import functools
import os
import re
import sys

# Errors that any path may cause; other OSErrors are bugs of the program.
_FILE_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
    errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ESTALE,
}  # fmt: skip
# In a message of XLA or of a library of the GPU: the device is out of memory.
_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|out[ _]of[ _]memory|allocation failed|_ALLOC_FAILED", re.IGNORECASE
)
# A library of the GPU did not start. Full memory is the usual cause, but not the only one.
_NO_HANDLE = re.compile(r"gpu\w+Create\(&handle\) failed|create \w+ handle", re.IGNORECASE)
_STATUS = re.compile(r"^[A-Z_]+: ")  # starts XLA's messages
_DRIVER = re.compile(r"CUDA_ERROR_\w+(: [^\[\n]*[^\[\s])?")  # an error of the GPU's driver
_SHARED_GPU = (
    "another program may hold the GPU's memory, of which JAX takes 75 % at start "
    "(XLA_PYTHON_CLIENT_PREALLOCATE=false prevents that)"
)


class RunError(Exception):
    """Ends the program with one line on stderr and `exit_code`."""

    exit_code = 1


class BadInput(RunError):
    """An error that the user can fix: a config key, a path, a full disk."""

    exit_code = 2


class Preempted(RunError):
    """A signal stopped the run; everything is saved, and the same command resumes it."""

    exit_code = 3


class Diverged(RunError):
    """Every replica turned non-finite."""

    exit_code = 4


class Lost(RunError):
    """Another host of the run was killed or does not answer, or the device failed."""

    exit_code = 5


def first_line(error: BaseException | str) -> str:
    """The first line of an exception's message, at most 200 characters; its type if empty."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def shown(value) -> str:
    """The repr of a value for an error message, shortened to about 100 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:80]} ... ({len(text)} characters)"


def one_of(what: str, value, names) -> None:
    """Raises BadInput unless the value is one of the names; what: the kind of name."""
    if value not in names:
        raise BadInput(f"unknown {what} {shown(value)}: choose from {', '.join(names)}")


def command(main):
    """Decorates a command's main: a RunError becomes one line on stderr and its exit code.

    So do a full disk, an unusable path, a device that is out of memory, and a device failure.
    """

    @functools.wraps(main)
    def guarded(argv=None) -> int:
        try:
            main(argv)
        except RunError as error:
            # Names of files may have characters that a terminal cannot show.
            line = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
            print(f"cgjax: {line}", file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:  # outside of `signals.handled`
            print("cgjax: SIGINT: stopped; run the same command to resume", file=sys.stderr)
            return Preempted.exit_code
        except BrokenPipeError:  # stdout was closed, for example by `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        except OSError as error:
            if error.errno not in _FILE_ERRORS:
                raise
            where = shown(str(error.filename)) if error.filename else "a file"
            print(f"cgjax: cannot use {where}: {error.strerror}", file=sys.stderr)
            return BadInput.exit_code
        except RuntimeError as error:
            if not (failure := _device_error(str(error))):
                if _NO_HANDLE.search(str(error)):
                    error.add_note(f"cgjax: a possible cause: {_SHARED_GPU}")
                raise
            print(f"cgjax: {failure}", file=sys.stderr)
            return failure.exit_code
        return 0

    return guarded


def _device_error(message: str) -> RunError | None:
    """XLA's message as an error with advice, if a device is out of memory or failed; else None."""
    if line := next(filter(_OUT_OF_MEMORY.search, message.splitlines()), ""):
        problem = _STATUS.sub("", first_line(line)).split(" [")[0].rstrip(".")
        advice = "train fewer replicas at a time (train.at_once), fewer seeds or smaller batches"
        if _is_on_gpu():
            advice = f"{_SHARED_GPU}; or {advice}"
        return BadInput(f"{problem}: {advice}; saved checkpoints are kept")
    if driver_error := _DRIVER.search(message):
        advice = "saved checkpoints are kept; run the same command to resume"
        return Lost(f"the device failed: {driver_error[0]}; {advice}")
    return None


def _is_on_gpu() -> bool:
    jax = sys.modules.get("jax")  # not imported here: a help text does not need it
    return jax is not None and jax.default_backend() == "gpu"
