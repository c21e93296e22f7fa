"""What a run's folder holds, read while another process trains in it."""

import errno
import os
import shutil

import pytest

from cgjax.core import checkpoint
from cgjax.core.errors import BadInput
from cgjax.core.workdir import is_owned, saved_steps
from cgjax.report import page


def a_run(folder):
    """A folder with two saved steps of one group, as Orbax lays them out; no readable arrays."""
    for step in (400, 912):
        (folder / f"part/checkpoints/seeds_0-1/{step}/state/ocdbt.process_0/d").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def vanish_when_read(monkeypatch, names):
    """Folders with these names are removed just before their first reading, as by a live run."""
    for reader in ("scandir", "listdir"):
        original = getattr(os, reader)

        def read(path=".", original=original):
            if not isinstance(path, int) and os.path.basename(path) in names:
                shutil.rmtree(path, ignore_errors=True)
            return original(path)

        monkeypatch.setattr(os, reader, read)


@pytest.mark.parametrize("name", ("part", "checkpoints", "seeds_0-1", "912", "ocdbt.process_0"))
def test_folders_that_a_live_run_removes_are_no_error(tmp_path, monkeypatch, name):
    folder = a_run(tmp_path / "run")
    vanish_when_read(monkeypatch, (name,))
    assert is_owned(folder) == (name in ("912", "ocdbt.process_0"))
    with pytest.raises(BadInput, match="holds no finished run"):
        page.read(tmp_path)
    with pytest.raises(checkpoint.Damaged):
        checkpoint.read(folder / "part/checkpoints/seeds_0-1", 912)


@pytest.mark.parametrize("reader", ("scandir", "listdir"))
def test_a_failing_disk_is_not_an_empty_folder(tmp_path, monkeypatch, reader):
    folder = a_run(tmp_path / "run")

    def fail(path="."):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(os, reader, fail)
    with pytest.raises(OSError, match="input/output error"):
        is_owned(folder)


def test_saved_steps(tmp_path):
    folder = a_run(tmp_path / "run")
    group = folder / "part/checkpoints/seeds_0-1"
    assert saved_steps(folder) == {group / "400", group / "912"}
    shutil.move(folder / "part", folder / "abandoned-1")  # by --start_anew
    assert saved_steps(folder) == set() and not is_owned(folder)
    (folder / "checkpoints/damaged-seeds_0-1-1").mkdir(parents=True)
    assert saved_steps(folder) == set() and is_owned(folder)


def test_checkpoints_on_another_disk_belong_to_the_run(tmp_path):
    folder = a_run(tmp_path / "run")
    shutil.move(folder / "part/checkpoints", tmp_path / "scratch")
    (folder / "part/checkpoints").symlink_to(tmp_path / "scratch")
    assert is_owned(folder) and len(saved_steps(folder)) == 2
