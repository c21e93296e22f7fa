"""Disks that are full, read-only or taken away, and folders with odd names: one line, no loss."""

import ctypes
import os
import shutil
import signal
import subprocess
import time

import pytest
import victim
from front_door import snapshot
from processes import one_line, wait_until
from victim import assert_same_bits, newest

import cgjax

pytestmark = pytest.mark.faults


@pytest.fixture
def disk(tmp_path):
    """A separate disk: `disk("remount", "size=40k")` changes it; its folder is `disk.place`."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(*options):
        words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
        return subprocess.run(words, capture_output=True).returncode == 0

    if not mount("size=50m"):
        pytest.skip("mounting a disk needs root")
    mount.place = place
    yield mount
    subprocess.run(["umount", str(place)], check=True)


def stopped(workdir, lab) -> None:
    """A run that was asked to stop after its first saves."""
    running = victim.start(workdir, lab)
    assert wait_until(running, lambda: newest(workdir) > 0)
    running.send(signal.SIGTERM)
    one_line(running, 3, "saved at step")


@pytest.mark.parametrize("kilobytes", [4, 24, 60, 120, 260])
def test_a_full_disk_is_one_line_and_loses_nothing(kilobytes, disk, lab):
    assert disk("remount", f"size={kilobytes}k")
    running = victim.start(disk.place / "run", lab)
    one_line(running, 2, "No space left on device", "run the same command again")
    assert disk("remount", "size=50m")
    victim.finish(disk.place / "run", lab)
    assert_same_bits(lab / "whole", disk.place / "run")


def test_a_disk_that_fills_up_keeps_the_last_checkpoint(disk, lab):
    workdir, filler = disk.place / "run", disk.place / "filler"
    running = victim.start(workdir, lab)
    assert wait_until(running, lambda: newest(workdir) > 0)
    with open(filler, "wb", buffering=0) as handle, pytest.raises(OSError):
        while True:
            handle.write(bytes(1 << 20)) or pytest.fail("the disk has no end")
    one_line(running, 2, "No space left on device")
    saved = newest(workdir)
    assert saved > 0 and cgjax.load(workdir, step="latest").step[0] == saved
    filler.unlink()
    running = victim.finish(workdir, lab)
    assert f"resumed at step {saved:,}" in running.out
    assert_same_bits(lab / "whole", workdir)


def test_a_read_only_disk_is_one_line_and_can_be_read(disk, lab):
    workdir = disk.place / "run"
    stopped(workdir, lab)
    before = snapshot(workdir)
    assert disk("remount", "ro")
    one_line(victim.start(workdir, lab), 2, "Read-only file system", "--workdir")
    one_line(victim.start(disk.place / "new", lab), 2, "Read-only file system", "--workdir")
    assert cgjax.load(workdir, step="latest").step[0] == newest(workdir)
    assert disk("remount", "rw") and snapshot(workdir) == before
    victim.finish(workdir, lab)
    assert_same_bits(lab / "whole", workdir)


def as_anybody():
    """Root without its rights over the files of others (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then those past 32
    assert libc.capget(header, sets) == 0
    for i in range(3):
        sets[i] &= ~(1 << 1 | 1 << 2)
    assert libc.capset(header, sets) == 0


@pytest.mark.skipif(os.getuid() != 0, reason="giving a folder to another user needs root")
def test_folders_of_another_user_are_one_line(lab, tmp_path):
    """One that may be read only, and one that may not be entered."""
    workdir = tmp_path / "run"
    stopped(workdir, lab)
    files = [workdir, *workdir.rglob("*")]
    for mode in (0o755, 0o700):
        for path in files:
            os.chown(path, 65534, 65534)
        workdir.chmod(mode)
        before = snapshot(workdir)
        one_line(victim.start(workdir, lab, before=as_anybody), 2, "Permission denied", "run")
        assert snapshot(workdir) == before
    for path in files:
        os.chown(path, 0, 0)
    victim.finish(workdir, lab)
    assert_same_bits(lab / "whole", workdir)


def test_a_workdir_that_is_deleted_under_a_run_ends_it_with_one_line(lab, tmp_path):
    workdir = tmp_path / "run"
    running = victim.start(
        workdir,
        lab,
        (*victim.CONFIG, "--config.train.steps=400000", "--config.checkpoint.every=48"),
    )
    assert wait_until(running, lambda: newest(workdir) > 0)
    deadline = time.monotonic() + 60
    while running.poll() is None and time.monotonic() < deadline:
        shutil.rmtree(workdir, ignore_errors=True)
    one_line(running, 2, str(workdir))


NAMES = ("a b", "ünï·码", "two\nlines", "%s{0}$HOME`id`;#", "-dash", "' \"")


@pytest.mark.parametrize("name", NAMES)
def test_folders_with_odd_names_run_stop_and_go_on(name, lab, tmp_path):
    workdir = tmp_path / name / "run"
    workdir.parent.mkdir()
    stopped(workdir, lab)
    victim.finish(workdir, lab)
    assert_same_bits(lab / "whole", workdir)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["[a-z]", "run*", "what?"])
def test_patterns_as_names_are_refused(name, lab, tmp_path):
    """Orbax finds the pieces of a save by a pattern made of the path: none, or somebody else's."""
    one_line(victim.start(tmp_path / name, lab), 2, "choose another --workdir", name)
    (tmp_path / name).mkdir()
    one_line(victim.start(tmp_path / name / "run", lab), 2, "choose another --workdir", name)
    assert not list((tmp_path / name).iterdir())


def test_a_link_to_a_folder_is_that_folder(lab, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    stopped(tmp_path / "link", lab)
    victim.finish(tmp_path / "real", lab)
    assert_same_bits(lab / "whole", tmp_path / "link")
    one_line(victim.start(tmp_path / "nowhere", lab), 2, "cannot create workdir")
    assert not (tmp_path / "gone").exists()
