"""The folder of one run: who holds it, which config made it, on what machine."""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

import jax

from cgjax.core import parallel
from cgjax.core.errors import BadInput


@contextlib.contextmanager
def locked(workdir: pathlib.Path):
    """Creates the folder and keeps a second process out of it while the block runs."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        handle = open(workdir / ".lock", "a+")
    except OSError as error:
        raise BadInput(
            f"cannot create workdir '{workdir}': {error.strerror}; choose --workdir"
        ) from None
    # flock dies with its process, so a killed run leaves no stale lock behind.
    with handle:
        try:
            if parallel.is_writer():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            raise BadInput(
                f"workdir '{workdir}' is in use by process {handle.read().strip() or '?'}: "
                "wait for it, or choose another --workdir"
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def write_atomic(path: pathlib.Path, text: str) -> None:
    """Replaces a file in one step: a reader, or a kill, sees the old text or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    with disk_errors(path), open(temporary, "w") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())
        os.replace(temporary, path)


@contextlib.contextmanager
def disk_errors(path):
    """Turns a full or unwritable disk into one line that says what to do."""
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"cannot write '{path}': {error.strerror or error}; free some space or choose another "
            "--workdir, then run the same command again (it goes on from the last checkpoint)"
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
    folder = pathlib.Path(__file__).parent
    try:
        out = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return out.stdout.strip() if out.returncode == 0 else ""


def read_json(path: pathlib.Path):
    """Reads a json file that a run wrote; a damaged one is named."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read '{path}': {error}; delete it to write it anew") from None
