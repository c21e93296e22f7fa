"""The folder of one run: who holds it, which config made it, on what machine."""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess

import jax

from cgjax.core import hosts, parallel
from cgjax.core.errors import BadInput, RunError, first_line, shown

LOCK = ".lock"
ASIDE = "abandoned-"  # what --start_anew has put aside


@contextlib.contextmanager
def locked(workdir: pathlib.Path):
    """Creates the folder and keeps a second process out of it while the block runs.

    A block that fails before anything is trained leaves nothing behind. Of several hosts, the
    first holds the folder for all.
    """
    if not hosts.is_writer():
        yield
        return
    if re.search(r"[*?\[]", str(workdir.absolute())):
        raise BadInput(
            f"workdir {shown(str(workdir.absolute()))} has * ? or [ in its path, which Orbax takes "
            "for a pattern when it saves: choose another --workdir"
        )
    try:
        made = [folder for folder in (workdir, *workdir.parents) if not folder.exists()]
        first = [workdir / name for name in ("config.json", "env.json", LOCK)]
        first = [path for path in first if not path.exists()]
        workdir.mkdir(parents=True, exist_ok=True)
        handle = open(workdir / LOCK, "a+", opener=_not_through_links)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(
            f"cannot create workdir {shown(str(workdir))}: {what}; choose --workdir"
        ) from None
    # flock dies with its process, so a killed run leaves no stale lock behind.
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            raise BadInput(
                f"workdir '{workdir}' is in use by process {handle.read().strip() or '?'}: "
                "wait for it, or choose another --workdir"
            ) from None
        if not _is_at(handle, workdir / LOCK):  # whoever held it has taken the folder back
            raise BadInput(f"workdir '{workdir}' was taken away in this moment: try again")
        with disk_errors(workdir / LOCK):
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
        try:
            yield
        finally:
            if not is_owned(workdir):
                _remove(workdir, first, made)


def _not_through_links(path, flags: int) -> int:
    """The lock is written over: a link in its place may lead anywhere."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _is_at(handle, path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def is_owned(workdir: pathlib.Path) -> bool:
    """Whether something was trained or measured there: then the folder belongs to one config."""
    found = (*workdir.glob("**/checkpoints/*/*"), *workdir.glob("**/checkpoints/damaged-*"))
    trained = (
        path.name.isdigit() or path.name.startswith("damaged-")
        for path in found
        if not path.relative_to(workdir).parts[0].startswith(ASIDE)
    )
    return (workdir / "results.json").exists() or any(trained)


def _remove(workdir: pathlib.Path, files, made: list[pathlib.Path]) -> None:
    """Takes back what this process made, if there is nothing else: a log may be worth a look."""
    if any(path.is_file() and path not in files for path in workdir.rglob("*")):
        return
    for path in files:
        path.unlink(missing_ok=True)
    for folder in sorted(workdir.glob("**/"), reverse=True) * bool(made) + made:
        with contextlib.suppress(OSError):  # not empty: somebody's, or worth a look
            folder.rmdir()


def write_atomic(path: pathlib.Path, text: str) -> None:
    """Replaces a file in one step: a reader, or a kill, sees the old text or the new one.

    Of several hosts, the first writes.
    """
    if not hosts.is_writer():
        return
    temporary = path.with_name(path.name + ".tmp")
    with disk_errors(path), open(temporary, "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
        os.replace(temporary, path)


# What the layers below say of a disk, in exceptions of their own types.
_DISK = (
    "No space left on device", "Disk quota exceeded", "Read-only file system", "File too large",
    "Input/output error", "Permission denied", "No such file or directory",
    "NOT_FOUND",  # TensorStore's word for it
)  # fmt: skip


@contextlib.contextmanager
def disk_errors(path):
    """Turns a full or unwritable disk into one line that says what to do."""
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        # Orbax and TensorStore wrap the system's error in a ValueError or RuntimeError.
        said = next((text for text in _DISK if text in str(error)), None)
        if isinstance(error, TimeoutError):  # Orbax measures by the clock on the wall
            said = "it took too long, or the clock was changed meanwhile"
        if not isinstance(error, OSError) and said is None:
            raise
        raise BadInput(
            f"cannot write '{path}': {said or getattr(error, 'strerror', None) or error}; free "
            "some space or choose another --workdir, then run the same command again (it goes on "
            "from the last checkpoint)"
        ) from None


def environment() -> dict:
    """Versions, devices and commit, for env.json and results.json."""
    versions = {}
    for package in (
        "jax",
        "jaxlib",
        "flax",
        "optax",
        "orbax-checkpoint",
        "numpy",
        "ml-collections",
    ):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "devices": parallel.describe_devices(),
        "hosts": jax.process_count(),
        "commit": _commit(),
    }


def _commit() -> str:
    """The commit of this code, "+changes" behind it where the files are not those of the commit."""

    def git(*words):
        folder = pathlib.Path(__file__).parents[1]
        out = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10
        )
        return out.stdout.strip() if out.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD")
        return commit + ("+changes" if commit and git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def read_json(path: pathlib.Path, mend: str = "delete it to write it anew") -> dict:
    """Reads a json object that a run wrote; a damaged one is named, and how to mend it."""
    if path.exists() and not path.is_file():  # a pipe would never end
        raise BadInput(f"cannot read '{path}': it is no file; {mend}")
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot read '{path}': {first_line(error)}; {mend}") from None
    if not isinstance(found, dict):
        raise BadInput(f"cannot read '{path}': it holds no json object; {mend}")
    return found
