"""The folder of one run: lock, access, atomic writes, disk errors, software environment."""

import contextlib
import errno
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cgjax.core import hosts
from cgjax.core.errors import BadInput, RunError, first_line, shown

LOCK = ".lock"
ASIDE = "abandoned-"  # prefix of the folders into which --start_anew moves old files
# Errors of a path at which there is no folder, or none that may be read.
NO_FOLDER = (
    errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG,
    errno.ESTALE,
)  # fmt: skip
_held: set[pathlib.Path] = set()  # folders that this process has locked


@contextlib.contextmanager
def locked(workdir: pathlib.Path):
    """Creates the folder and locks it against other processes while the block runs.

    If the block fails before anything is trained, the new files and folders are removed. With
    several hosts, host 0 holds the lock for all. In nested blocks, the outer block holds it.
    """
    if not hosts.is_writer() or workdir.absolute() in _held:
        yield
        return
    if re.search(r"[*?\[]", str(workdir.absolute())):
        raise BadInput(
            f"workdir {shown(str(workdir.absolute()))} has * ? or [ in its path, which Orbax reads "
            "as a pattern: choose another --workdir"
        )
    try:
        new_folders = [folder for folder in (workdir, *workdir.parents) if not folder.exists()]
        new_files = [workdir / name for name in ("config.json", "env.json", LOCK)]
        new_files = [path for path in new_files if not path.exists()]
        workdir.mkdir(parents=True, exist_ok=True)
        handle = open(workdir / LOCK, "a+", opener=_open_without_links)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(
            f"cannot create workdir {shown(str(workdir))}: {reason}; choose another --workdir"
        ) from None
    # The kernel releases a flock when its process ends, so a killed run leaves no stale lock.
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            raise BadInput(
                f"workdir '{workdir}' is in use by process {handle.read().strip() or '?'}: "
                "wait for it, or choose another --workdir"
            ) from None
        if not _is_at(handle, workdir / LOCK):  # the previous holder has just removed the folder
            raise BadInput(f"another process has just removed workdir '{workdir}': try again")
        with disk_errors(workdir / LOCK):
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
        _held.add(workdir.absolute())
        try:
            yield
        finally:
            _held.discard(workdir.absolute())
            if not is_owned(workdir):
                _remove(workdir, new_files, new_folders)


class Access(NamedTuple):
    """What `train.fit` does in a workdir with replicas that are not trained."""

    reads_only: bool = False  # nothing is written; replicas that are not trained are an error
    train: Callable | None = None  # share -> None, replaces training by `fit`; returns when trained


_opened: dict[pathlib.Path, Access] = {}  # folders that this process has opened


@contextlib.contextmanager
def opened(workdir: pathlib.Path, access: Access):
    """Within the block, `access` applies to the folder and its sub-folders."""
    _opened[workdir.absolute()] = access
    try:
        yield
    finally:
        del _opened[workdir.absolute()]


def access_to(folder: pathlib.Path) -> Access:
    """The access to a folder or its nearest opened parent; by default `fit` trains."""
    folder = pathlib.Path(folder).absolute()
    return next((_opened[path] for path in (folder, *folder.parents) if path in _opened), Access())


def place_in_run(folder: pathlib.Path) -> str:
    """The folder's path below its run's folder, which has config.json; "" outside of a run.

    It stays the same if the run's folder is moved or renamed.
    """
    folder = pathlib.Path(folder).absolute()
    roots = (path for path in (folder, *folder.parents) if (path / "config.json").exists())
    root = next(roots, None)
    return "" if root is None else folder.relative_to(root).as_posix()


def _open_without_links(path, flags: int) -> int:
    """Opens the lock file, but not a symbolic link: its target would be overwritten."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _is_at(handle, path: pathlib.Path) -> bool:
    """Whether the open file `handle` is the file that `path` names now."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def is_owned(workdir: pathlib.Path) -> bool:
    """Whether the folder holds checkpoints or results: then it belongs to one config."""
    damaged = (
        name.startswith("damaged-")
        for folder in checkpoint_folders(workdir)
        for name in _names(folder)
    )
    return (workdir / "results.json").exists() or bool(saved_steps(workdir)) or any(damaged)


def saved_steps(workdir: pathlib.Path) -> set[pathlib.Path]:
    """The folders of all saved steps in a run's folder."""
    return {
        folder / group / step
        for folder in checkpoint_folders(workdir)
        for group in _names(folder)
        for step in _names(folder / group)
        if step.isdigit()
    }


def checkpoint_folders(workdir: pathlib.Path) -> list[pathlib.Path]:
    """The folders `checkpoints` of a run's models."""
    paths = (folder / "checkpoints" for folder in folders(workdir))
    return [path for path in paths if path.is_dir()]


def folders(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder and those below it, without what checkpoints hold and what --start_anew moved aside.

    Folders that a live run removes during the search are left out.
    """
    for folder, names, _ in os.walk(root, onerror=_raise_if_disk_fails):
        names[:] = [name for name in names if name != "checkpoints" and not name.startswith(ASIDE)]
        yield pathlib.Path(folder)


def _names(folder: pathlib.Path) -> list[str]:
    """Names in a folder; none if the path has no folder, or none that may be read."""
    try:
        return os.listdir(folder)
    except OSError as error:
        _raise_if_disk_fails(error)
        return []


def _raise_if_disk_fails(error: OSError) -> None:
    """Raises other errors, such as those of a failing disk: a folder with runs would seem empty."""
    if error.errno not in NO_FOLDER:
        raise error


def _remove(workdir: pathlib.Path, new_files, new_folders: list[pathlib.Path]) -> None:
    """Removes the files and folders of this process, unless there are others, such as a log."""
    if any(path.is_file() and path not in new_files for path in workdir.rglob("*")):
        return
    for path in new_files:
        path.unlink(missing_ok=True)
    for folder in sorted(workdir.glob("**/"), reverse=True) * bool(new_folders) + new_folders:
        with contextlib.suppress(OSError):  # a folder with files stays
            folder.rmdir()


def write_atomic(path: pathlib.Path, text: str) -> None:
    """Replaces a file atomically: after a kill it holds the old text or the new one.

    With several hosts, only host 0 writes.
    """
    if not hosts.is_writer():
        return
    temporary = path.with_name(path.name + ".tmp")
    with disk_errors(path), open(temporary, "w", encoding="utf-8") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
        os.replace(temporary, path)


# Disk errors in the messages of Orbax and TensorStore, which use exception types of their own.
_DISK_ERRORS = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "File too large",
    "Input/output error",
    "Permission denied",
    "No such file or directory",
    "NOT_FOUND",  # TensorStore's name of "No such file or directory"
)


@contextlib.contextmanager
def disk_errors(path):
    """Turns an error of a full or unwritable disk into a BadInput with advice."""
    path = pathlib.Path(path)
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        # Orbax and TensorStore wrap the system's error in a ValueError or RuntimeError.
        reason = next((text for text in _DISK_ERRORS if text in str(error)), None)
        if isinstance(error, TimeoutError):  # Orbax measures time by the system clock
            reason = "it took too long, or the clock was changed meanwhile"
        if not isinstance(error, OSError) and reason is None:
            raise
        place, goes_on = "folder", ""
        if any(parent in _held for parent in path.absolute().parents):
            place, goes_on = "--workdir", " (it goes on from the last checkpoint)"
        raise BadInput(
            f"cannot write '{path}': {reason or getattr(error, 'strerror', None) or error}; free "
            f"some space or choose another {place}, then run the same command again{goes_on}"
        ) from None


def environment() -> dict:
    """Versions, platform, devices and commit, for env.json and results.json."""
    import jax

    from cgjax.core import parallel

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
    """The commit of this code, followed by "+changes" if files differ from it.

    A copy without its repository has the commit that CGJAX_COMMIT names, or "".
    """

    def git(*arguments):
        folder = pathlib.Path(__file__).parents[1]
        out = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10
        )
        return out.stdout.strip() if out.returncode == 0 else ""

    try:
        commit = git("rev-parse", "HEAD")
        changes = commit and git("status", "--porcelain", ".")
    except (OSError, subprocess.TimeoutExpired):
        commit, changes = "", ""
    return commit + ("+changes" if changes else "") or os.environ.get("CGJAX_COMMIT", "")


def read_json(path: pathlib.Path, mend: str = "delete it to write it anew") -> dict:
    """Reads a json object that a run wrote; mend: the advice if it is damaged."""
    if path.exists() and not path.is_file():  # reading a pipe would block forever
        raise BadInput(f"cannot read '{path}': it is not a file; {mend}")
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"cannot read '{path}': {first_line(error)}; {mend}") from None
    if not isinstance(content, dict):
        raise BadInput(f"cannot read '{path}': it does not hold a json object; {mend}")
    return content
