"""Data sets from cache, raw files, prepared folders; what happens when nothing is there."""

import contextlib
import functools
import gzip
import hashlib
import importlib.util
import io
import os
import pathlib
import pwd
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile

import numpy as np
import pytest

import cgjax.data
from cgjax.core.errors import BadInput
from cgjax.data import raw, sources
from cgjax.experiments.bumps import sets

RAW_DIR = os.environ.get("CGJAX_RAW_DIR")
needs_data = pytest.mark.skipif(not RAW_DIR, reason="CGJAX_RAW_DIR is not set: no real data here")
needs_tfds = pytest.mark.skipif(
    not all(importlib.util.find_spec(m) for m in ("tensorflow_datasets", "importlib_resources")),
    reason="tensorflow-datasets or importlib_resources is not installed",
)
NAMES = ("mnist", "cifar10", "scan/addprim_jump")


@functools.cache
def contents():
    """Tiny files in the published formats, and the arrays they hold: 7 train, 5 test records."""
    rng = np.random.default_rng(0)
    files, arrays = {}, {}
    for split, n in (("train", 7), ("test", 5)):
        images = rng.integers(0, 256, (n, 28, 28, 1), np.uint8)
        labels = rng.integers(0, 10, n, np.int32)
        image_file, label_file = raw.files("mnist", split)
        header = np.array([2051, n, 28, 28], ">i4").tobytes()
        files[image_file] = gzip.compress(header + images.tobytes())
        header = np.array([2049, n], ">i4").tobytes()
        files[label_file] = gzip.compress(header + bytes(labels.tolist()))
        arrays["mnist", split] = {"image": images, "label": labels}

        batches = raw.files("cifar10", split)
        images = rng.integers(0, 256, (n * len(batches), 32, 32, 3), np.uint8)
        labels = rng.integers(0, 10, n * len(batches), np.int32)
        for k, file in enumerate(batches):
            rows = slice(k * n, (k + 1) * n)
            planes = images[rows].transpose(0, 3, 1, 2).reshape(n, -1)
            files[file] = np.column_stack([labels[rows].astype(np.uint8), planes]).tobytes()
        arrays["cifar10", split] = {"image": images, "label": labels}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        for split, n in (("train", 7), ("test", 5)):
            commands = [f"walk {i} twice" for i in range(n)]
            actions = [" ".join(["I_WALK"] * (i + 1)) for i in range(n)]
            lines = "".join(f"IN: {c} OUT: {a}\n" for c, a in zip(commands, actions))
            members.writestr(f"SCAN-master/add_prim_split/tasks_{split}_addprim_jump.txt", lines)
            arrays["scan/addprim_jump", split] = {
                "commands": np.array(commands, "S"),
                "actions": np.array(actions, "S"),
            }
    files["SCAN-master.zip"] = archive.getvalue()
    return files, arrays


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A raw folder with tiny files whose checksums the table knows: (folder, arrays)."""
    monkeypatch.delenv("CGJAX_RAW_DIR", raising=False)
    files, arrays = contents()
    table = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    monkeypatch.setattr(raw, "SHA256", table)
    known = {
        name: tuple(sources.fingerprint(arrays[name, split]) for split in ("train", "test"))
        for name in NAMES
    }
    monkeypatch.setattr(sources, "CANONICAL", known)
    folder = tmp_path / "raw"
    for name in NAMES:
        for split in ("train", "test"):
            for file, path in raw.places(name, split, folder).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(gzip.compress(files[file]) if name == "cifar10" else files[file])
    return folder, arrays


def check(loaded, expected):
    assert set(loaded) == set(expected)
    for key, values in expected.items():
        np.testing.assert_array_equal(loaded[key], values)
        assert loaded[key].dtype == values.dtype


@pytest.mark.parametrize("name", NAMES)
def test_raw_files_then_cache(tiny, tmp_path, monkeypatch, name):
    folder, arrays = tiny
    for split in ("train", "test"):
        first = sources.load(name, split, tmp_path / "data", folder, download=False)
        check(first, arrays[name, split])
    # After this, the cache is the only source; order and types stay the same.
    monkeypatch.setattr(raw, "read", lambda *_: pytest.fail("raw files were read again"))
    check(sources.load(name, "test", tmp_path / "data", folder), arrays[name, "test"])
    assert len(list((tmp_path / "data").iterdir())) == 2


def test_folders_from_the_environment(tiny, tmp_path, monkeypatch):
    folder, arrays = tiny
    monkeypatch.setenv("CGJAX_RAW_DIR", str(folder))
    monkeypatch.setenv("CGJAX_DATA_DIR", str(tmp_path / "elsewhere"))
    check(sources.load("scan", "train"), arrays["scan/addprim_jump", "train"])
    assert (tmp_path / "elsewhere" / "scan-addprim_jump-train.npz").exists()


@pytest.mark.parametrize("name", NAMES)
def test_damaged_raw_file_is_refused(tiny, tmp_path, name):
    folder, _ = tiny
    path = list(raw.places(name, "test", folder).values())[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(BadInput, match=f"{path.name}' is damaged .wrong sha256.: replace it"):
        sources.load(name, "test", tmp_path / "data", folder, download=False)
    assert not (tmp_path / "data").exists()


# --- a cache that is not what it should be --------------------------------------------------------


@contextlib.contextmanager
def promptly(seconds=20):
    """Fails if a call blocks, for example on a pipe without a writer."""

    def late(*_):
        raise TimeoutError("still waiting")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def closed(path):
    """A file or folder without permissions; root becomes another user, because it ignores them."""
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(0o755)


class Unpickled:
    """Leaves a trace where somebody unpickles it."""

    def __reduce__(self):
        return os.mkdir, (os.path.join(tempfile.gettempdir(), f"unpickled-{os.getpid()}"),)


def rewrite(path, **changes):
    """The npz anew with other arrays; None: without that one."""
    with np.load(path) as found:
        arrays = {**found, **changes}
    np.savez(path, **{name: values for name, values in arrays.items() if values is not None})


def npy(values):
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


def changed(name, change):
    """Damages one array of a cache."""

    def damage(path):
        with np.load(path) as found:
            values = change(found[name])
        rewrite(path, **{name: values})

    return damage


def flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[2000] ^= 1  # inside the images
    path.write_bytes(bytes(content))


def member(replace):
    """Damages the file of the images inside the archive, with a checksum that fits."""

    def damage(path):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members["image.npy"] = replace(members["image.npy"])
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return damage


def unlinked(make):
    """Puts something else in the place of a file."""

    def damage(path):
        path.unlink()
        make(path)

    return damage


def shaped(header):
    """Another shape in the header of the images, of the same length."""
    return lambda content: content.replace(b"'shape': (7, 28, 28, 1), ", header.ljust(25))


def bound_socket(path):
    with socket.socket(socket.AF_UNIX) as end, contextlib.chdir(path.parent):
        end.bind(path.name)


DAMAGE = {
    "swapped images": changed("image", lambda image: image[[1, 0, 2, 3, 4, 5, 6]]),
    "other labels": changed("label", lambda label: (label + 1) % 10),
    "one pixel": changed(
        "image", lambda image: image ^ (np.arange(image.size) == 5).reshape(image.shape)
    ),
    "reversed": changed("image", lambda image: image[::-1]),
    "short": changed("label", lambda label: label[:-1]),
    "flat images": changed("image", lambda image: image.reshape(7, -1)),
    "wide labels": changed("label", lambda label: label.astype(np.int64)),
    "signed images": changed("image", lambda image: image.view(np.int8)),
    "other byte order": changed("label", lambda label: label.astype(">i4")),
    "columns": changed("image", lambda image: image.transpose(0, 2, 1, 3)),
    "no records": changed("label", lambda label: label[:0]),
    "a number": changed("label", lambda label: label[0]),
    "no labels": lambda path: rewrite(path, label=None),
    "one array more": lambda path: rewrite(path, extra=np.zeros(1)),
    "another set": lambda path: np.savez(path, commands=np.array([b"a"]), actions=np.array([b"b"])),
    "nothing inside": lambda path: np.savez(path),
    "pickled": lambda path: rewrite(path, image=np.array([Unpickled()], object)),
    "a bare array": lambda path: path.write_bytes(npy(np.zeros(3))),
    "flipped bit": flipped_bit,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "no archive": lambda path: path.write_bytes(b"\x80\x04K\x01." * 9),
    "no npy inside": member(lambda content: b"<html>not found</html>"),
    "empty npy inside": member(lambda content: b""),
    "broken header": member(lambda content: content.replace(b"'descr'", b"'descR'")),
    "no syntax": member(lambda content: content.replace(b"{'descr'", b"(['descr'")),
    "no end of text": member(lambda content: content.replace(b"{'descr'", b'"""descr')),
    "no text": member(lambda content: content.replace(b"descr", b"\xff\xfe\x00\x80\x81")),
    "unknown type": member(lambda content: content.replace(b"'|u1'", b"'|z9'")),
    "short content": member(lambda content: content[:-1]),
    "too much content": member(lambda content: content + b"more"),
    "negative shape": member(shaped(b"'shape': (-7, 784), ")),
    "endless shape": member(shaped(b"'shape': (9**15, 1), ")),
    "more than memory": member(shaped(b"'shape': (99999999999,), ")),
    "folder": unlinked(lambda path: path.mkdir()),
    "full folder": unlinked(lambda path: (path / "inside").mkdir(parents=True)),
    "pipe": unlinked(os.mkfifo),
    "socket": unlinked(bound_socket),
    "device": unlinked(lambda path: path.symlink_to("/dev/zero")),
    "itself": unlinked(lambda path: path.symlink_to(path.name)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_wrong_cache_is_refused_and_rebuilt(tiny, tmp_path, caplog, damage):
    folder, arrays = tiny
    cache = tmp_path / "data" / "mnist-train.npz"
    trace = pathlib.Path(tempfile.gettempdir()) / f"unpickled-{os.getpid()}"
    sources.load("mnist", "train", cache.parent, folder)
    damage(cache)
    # Nothing to build it from: one line that names it, and what to do.
    with promptly(), pytest.raises(BadInput) as found:
        sources.load("mnist", "train", cache.parent, download=False)
    message = str(found.value)
    assert f"cache '{cache}' is not used" in message and "set CGJAX_RAW_DIR" in message
    assert "\n" not in message and len(message) < 1000
    assert not caplog.records
    # Otherwise the data are the right ones, and next time the cache has them.
    with promptly():
        check(sources.load("mnist", "train", cache.parent, folder), arrays["mnist", "train"])
    said = [record.getMessage() for record in caplog.records]
    assert f"cache '{cache}' is not used" in said[0] and not any("\n" in line for line in said)
    assert not trace.exists()
    if cache.is_dir():  # another user's folder stays as it is
        assert len(said) == 2 and "no cache at" in said[1]
    else:
        assert len(said) == 1
        check(
            sources.load("mnist", "train", cache.parent, download=False), arrays["mnist", "train"]
        )
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


def test_a_wrong_cache_of_text_is_refused(tiny, tmp_path):
    folder, arrays = tiny
    cache = tmp_path / "scan-addprim_jump-test.npz"
    expected = arrays["scan/addprim_jump", "test"]
    others = (
        {"actions": expected["actions"][::-1]},
        {"commands": expected["commands"].astype("S40")},
        {"commands": expected["commands"].astype(str)},
        {"actions": expected["actions"].astype("S6")},  # cut off
    )
    for other in others:
        np.savez(cache, **{**expected, **other})
        check(sources.load("scan", "test", tmp_path, folder), expected)
        check(sources.load("scan", "test", tmp_path, download=False), expected)


def test_a_cache_of_another_split_is_refused(tiny, tmp_path):
    folder, arrays = tiny
    sources.load("mnist", "test", tmp_path, folder)
    os.rename(tmp_path / "mnist-test.npz", tmp_path / "mnist-train.npz")
    check(sources.load("mnist", "train", tmp_path, folder), arrays["mnist", "train"])


def test_a_compressed_cache_is_as_good(tiny, tmp_path):
    _, arrays = tiny
    np.savez_compressed(tmp_path / "mnist-test.npz", **arrays["mnist", "test"])
    check(sources.load("mnist", "test", tmp_path, download=False), arrays["mnist", "test"])


def test_a_cache_serves_other_users_as_the_umask_says(tiny, tmp_path):
    before = os.umask(0o022)
    try:
        sources.load("mnist", "test", tmp_path, tiny[0])
    finally:
        os.umask(before)
    assert (tmp_path / "mnist-test.npz").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_is_no_obstacle_and_leaves_nothing(tiny, tmp_path, caplog):
    folder, arrays = tiny
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        loaded = sources.load("mnist", "train", tmp_path / "data", folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    check(loaded, arrays["mnist", "train"])
    assert "no cache at" in caplog.text and "File too large" in caplog.text
    assert not list((tmp_path / "data").iterdir())


@pytest.fixture
def public(tiny, tmp_path):
    """The raw folder where everybody can read it; pytest's own folders are closed to others."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cgjax-test-"))
    folder.chmod(0o755)
    shutil.copytree(tiny[0], folder / "raw")
    yield folder
    shutil.rmtree(folder)


def test_folders_that_cannot_be_entered(tiny, public, caplog):
    data_dir, folder = public / "data", public / "raw"
    sources.load("mnist", "train", data_dir, folder)
    (data_dir / "mnist").mkdir()
    with closed(folder), pytest.raises(BadInput, match="^cannot read '[^']*': Permission denied$"):
        sources.load("mnist", "test", data_dir, folder)
    with closed(raw.places("mnist", "test", folder)["t10k-images-idx3-ubyte.gz"]):
        with pytest.raises(BadInput, match="^cannot read '.*k-images-.*': Permission denied$"):
            sources.load("mnist", "test", data_dir, folder)
    with closed(data_dir):
        check(sources.load("mnist", "train", data_dir, folder), tiny[1]["mnist", "train"])
        with pytest.raises(BadInput, match="is not used: cannot read '.*': Permission denied"):
            sources.load("mnist", "train", data_dir, download=False)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "is not used" in said[0] and "no cache at" in said[1]
    with closed(data_dir / "mnist-train.npz"):
        check(sources.load("mnist", "train", data_dir, folder), tiny[1]["mnist", "train"])
    with closed(data_dir / "mnist"), pytest.raises(BadInput, match="^no mnist here: downloads"):
        sources.load("mnist", "test", data_dir, download=False)


def test_no_more_is_unpacked_than_was_published(tiny, tmp_path, monkeypatch):
    bomb = gzip.compress(bytes(1 << 20), 1)
    monkeypatch.setattr(raw, "LARGEST", 1000)
    assert raw._gunzip(bomb) == bytes(1000)
    monkeypatch.setattr(sources, "LARGEST_CACHE", 1 << 19)
    cache = tmp_path / "mnist-test.npz"
    np.savez_compressed(cache, image=np.zeros(1 << 20, np.uint8), label=np.zeros(1))
    with pytest.raises(
        BadInput, match=f"'{cache}' is not used: it is too large; other sources: no mni"
    ):
        sources.load("mnist", "test", tmp_path, download=False)


# --- folders and files that are not what they should be -------------------------------------------


def test_no_home_directory(tiny, monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("CGJAX_DATA_DIR", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(BadInput, match="^no home directory .*: set CGJAX_DATA_DIR to a folder$"):
        sources.load("mnist", "train", raw_dir=tiny[0])
    with pytest.raises(BadInput, match="^no home directory .*: set CGJAX_RAW_DIR to a folder$"):
        sources.load("mnist", "train", tiny[0], "~nobody-of-that-name/raw")


def test_folders_may_start_at_home(tiny, tmp_path, monkeypatch):
    folder, arrays = tiny
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CGJAX_RAW_DIR", "~/raw")
    monkeypatch.setenv("CGJAX_DATA_DIR", "~/data")
    check(sources.load("mnist", "test", download=False), arrays["mnist", "test"])
    assert (tmp_path / "data" / "mnist-test.npz").exists()


def test_a_file_in_place_of_a_folder(tiny, tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    with pytest.raises(
        BadInput, match=f"'{file}' is not a folder: set CGJAX_RAW_DIR to the folder"
    ):
        sources.load("mnist", "train", tmp_path / "data", file)
    for download in (False, True):
        with pytest.raises(
            BadInput, match=f"'{file}' is not a folder: set CGJAX_DATA_DIR to a folder"
        ):
            sources.load("mnist", "train", file, download=download)


def sparse(path):
    """A sparse file of one terabyte."""
    path.touch()
    os.truncate(path, 1 << 40)


def other_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("SCAN-master/README.md", "no tasks here")


RAW_DAMAGE = {
    "folder": (lambda path: path.mkdir(), "is not a file"),
    "pipe": (os.mkfifo, "is not a file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is not a file"),
    "itself": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "empty": (lambda path: path.touch(), "is damaged .wrong sha256."),
    "too long": (sparse, "is damaged"),
    "zeros": (lambda path: path.write_bytes(gzip.compress(bytes(1 << 20), 1)), "is damaged"),
    "another archive": (other_archive, "is damaged"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("make, message", RAW_DAMAGE.values(), ids=RAW_DAMAGE)
def test_raw_files_that_are_no_such_files(tiny, tmp_path, name, make, message):
    folder, _ = tiny
    path = list(raw.places(name, "test", folder).values())[-1]
    path.unlink()
    make(path)
    with promptly(), pytest.raises(BadInput, match=f"{path.name}'.*{message}") as found:
        sources.load(name, "test", tmp_path / "data", folder)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", NAMES)
def test_raw_files_of_which_the_end_is_missing(tiny, tmp_path, name):
    folder, _ = tiny
    path = list(raw.places(name, "test", folder).values())[-1]
    whole = path.read_bytes()
    for n in (1, 9, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(BadInput, match=f"{path.name}' is damaged .wrong sha256.: replace it"):
            sources.load(name, "test", tmp_path / "data", folder)


def test_what_raw_files_give_is_checked_too(tiny, tmp_path, monkeypatch):
    folder, arrays = tiny
    wrong = arrays["mnist", "test"] | {"label": arrays["mnist", "test"]["label"][::-1]}
    monkeypatch.setattr(raw, "read", lambda *_: wrong)
    with pytest.raises(BadInput, match="does not hold the whole of mnist test in a known order"):
        sources.load("mnist", "test", tmp_path / "data", folder)
    assert not (tmp_path / "data").exists()


def test_unwritable_cache_is_no_obstacle(tiny, tmp_path, caplog):
    folder, arrays = tiny
    (tmp_path / "data").write_text("a file where the folder should be")
    check(sources.load("mnist", "train", tmp_path / "data", folder), arrays["mnist", "train"])
    assert "no cache at" in caplog.text


def test_nothing_there(tiny, tmp_path):
    folder, _ = tiny
    raw.places("mnist", "train", folder)["train-labels-idx1-ubyte.gz"].unlink()
    interrupted = tmp_path / "data" / "mnist" / "incomplete.AB12_3.0.1"
    interrupted.mkdir(parents=True)
    (interrupted / "mnist-train.array_record-00000-of-00001").touch()
    for raw_dir in (None, folder):
        with pytest.raises(BadInput) as found:
            sources.load("mnist", "train", tmp_path / "data", raw_dir, download=False)
        message = str(found.value)
        assert "CGJAX_RAW_DIR" in message and "CGJAX_DATA_DIR" in message
        assert "train-labels-idx1-ubyte.gz" in message and "\n" not in message


@needs_tfds
def test_failed_download_is_one_line(tiny, tmp_path, monkeypatch):

    def unreachable(*_, **__):
        raise urllib.error.URLError("no route to host\nlong story")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(
        BadInput, match="the download failed .<urlopen error no route to host.; set CGJAX_RAW_DIR"
    ):
        sources.load("cifar10", "test", tmp_path)


def test_without_tensorflow_datasets(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cgjax.data.builders", None)
    monkeypatch.delattr(cgjax.data, "builders", raising=False)
    with pytest.raises(BadInput, match="install tensorflow-datasets to download; set CGJAX_RAW"):
        sources.load("mnist", "test", tmp_path)


def test_tensorflow_datasets_is_not_imported_for_cache_and_raw_files(tiny, tmp_path):
    folder, _ = tiny
    sources.load("mnist", "train", tmp_path, folder)
    code = (
        f"import sys; from cgjax.data import sources; sources.CANONICAL = {sources.CANONICAL}\n"
        f"print(len(sources.load('mnist', 'train', {str(tmp_path)!r})['label']))\n"
        "print([m for m in sys.modules if m.startswith(('tensorflow', 'array_record', 'jax.'))])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[:2] == ["7", "[]"]


@pytest.mark.parametrize(
    "name, split, message",
    [
        ("minst", "train", "unknown data set 'minst': choose from mnist, cifar10, scan/simple"),
        ("scan/mcd1", "train", "unknown data set 'scan/mcd1'"),
        ("mnist", "validation", "unknown split 'validation' of mnist: choose train or test"),
    ],
)
def test_unknown_names(tmp_path, name, split, message):
    with pytest.raises(BadInput, match=message):
        sources.load(name, split, tmp_path)


def test_synthetic():
    images = sources.synthetic("mnist", 200)
    assert images["image"].shape == (200, 28, 28, 1) and images["image"].dtype == np.uint8
    assert np.bincount(images["label"]).tolist() == [20] * 10
    check(sources.synthetic("mnist", 200), images)
    other = sources.synthetic("mnist", 200, seed=1)
    assert not np.array_equal(other["label"], images["label"])

    # Classes are separable and agree between splits: the nearest mean of one labels the other.
    def flat(image):
        return image.reshape(len(image), -1).astype(float)

    means = np.stack([flat(images["image"])[images["label"] == k].mean(0) for k in range(10)])
    distances = ((flat(other["image"])[:, None] - means) ** 2).sum(-1)
    np.testing.assert_array_equal(distances.argmin(1), other["label"])
    with pytest.raises(BadInput, match="no synthetic 'scan'"):
        sources.synthetic("scan")
    with pytest.raises(BadInput, match="one or more, got -5"):
        sources.synthetic("mnist", -5)


@needs_tfds
@pytest.mark.parametrize("name", NAMES)
def test_prepared_by_our_builders_and_read_back(tiny, tmp_path, monkeypatch, name):
    from cgjax.data import builders

    folder, arrays = tiny
    data_dir = tmp_path / "data"
    builders.prepare(name, data_dir, folder)
    monkeypatch.setattr(builders, "prepare", lambda *_: pytest.fail("prepared twice"))
    for split in ("train", "test"):
        # No raw folder: the prepared one must do, in the order of the raw files.
        check(sources.load(name, split, data_dir), arrays[name, split])
        assert not np.array_equal(builders.shuffled(split, 5), np.arange(5))


@needs_tfds
def test_prepared_in_another_order_is_refused(tiny, tmp_path, monkeypatch):
    from cgjax.data import builders

    builders.prepare("mnist", tmp_path, tiny[0])
    monkeypatch.setattr(builders, "shuffled", lambda split, n: np.arange(n))
    with pytest.raises(BadInput, match="does not hold the whole of mnist train in a known order"):
        sources.load("mnist", "train", tmp_path)
    assert not list(tmp_path.glob("*.npz"))


@needs_tfds
def test_a_wrong_cache_is_rebuilt_from_a_prepared_set(tiny, tmp_path, caplog):
    from cgjax.data import builders

    folder, arrays = tiny
    builders.prepare("mnist", tmp_path, folder)
    np.savez(tmp_path / "mnist-test.npz", **arrays["mnist", "train"])
    for _ in range(2):
        check(sources.load("mnist", "test", tmp_path, download=False), arrays["mnist", "test"])
    assert caplog.text.count("is not used") == 1


def flip(path, share):
    content = bytearray(path.read_bytes())
    content[int(share * (len(content) - 1))] ^= 0x55
    path.write_bytes(bytes(content))


PREPARED_DAMAGE = {
    **{f"a byte at {x}": lambda path, x=x: flip(path, x) for x in (0, 0.1, 0.3, 0.5, 0.9, 1)},
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "folder": unlinked(lambda path: path.mkdir()),
    "no description": lambda path: (path.parent / "dataset_info.json").unlink(),
    "broken description": lambda path: (path.parent / "dataset_info.json").write_text("{"),
    "broken features": lambda path: (path.parent / "features.json").write_text("[]"),
    "the other split": lambda path: shutil.copy(next(path.parent.glob("*train.array*")), path),
}


@needs_tfds
@pytest.mark.parametrize("damage", PREPARED_DAMAGE.values(), ids=PREPARED_DAMAGE)
def test_a_damaged_prepared_set_is_one_line(tiny, tmp_path, damage):
    from cgjax.data import builders

    builders.prepare("mnist", tmp_path, tiny[0])
    (path,) = tmp_path.glob("mnist/*/mnist-test.array_record*")
    damage(path)
    try:
        loaded = sources.load("mnist", "test", tmp_path, download=False)
    except BadInput as error:
        assert str(tmp_path / "mnist") in str(error) and "move that folder away" in str(error)
        assert "\n" not in str(error)
    else:  # the byte was in a part that is not read
        check(loaded, tiny[1]["mnist", "test"])


# --- the published files --------------------------------------------------------------------------


def real(name, split):
    """The arrays of `load`, with its checks, but without a cache file of 150 MB."""
    return sources._from_sources(name, split, pathlib.Path("nowhere"), pathlib.Path(RAW_DIR), False)


@needs_data
def test_real_mnist():
    test = real("mnist", "test")
    assert test["image"].shape == (10000, 28, 28, 1)
    assert abs(test["image"].mean() - 33.7912) < 1e-4
    histogram = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(test["label"]).tolist() == histogram
    assert real("mnist", "train")["image"].shape == (60000, 28, 28, 1)


@needs_data
def test_real_cifar10():
    test = real("cifar10", "test")
    assert test["image"].shape == (10000, 32, 32, 3)
    assert np.bincount(test["label"]).tolist() == [1000] * 10
    train = real("cifar10", "train")
    assert train["image"].shape == (50000, 32, 32, 3)
    means = train["image"].reshape(-1, 3 * 1024).sum(0, dtype=np.uint32).reshape(-1, 3).mean(0)
    expected = [0.49139968, 0.48215841, 0.44653091]
    np.testing.assert_allclose(means / 50000 / 255, expected, atol=1e-8)


@needs_data
def test_real_scan(monkeypatch):
    content = raw.from_folder("scan/simple", "train", RAW_DIR)("SCAN-master.zip")
    monkeypatch.setattr(raw, "from_folder", lambda *_: lambda file: content)
    counts = {
        name: [len(real(name, split)["actions"]) for split in sources.SPLITS]
        for name in sources.CANONICAL
        if name.startswith("scan/")
    }
    assert len(counts) == len(raw.SCAN_FOLDERS)
    assert counts["scan/addprim_jump"] == [14670, 7706]
    assert counts["scan/simple"] == [16728, 4182]
    assert counts["scan/length"] == [16990, 3920]
    found = real("scan/addprim_jump", "test")
    assert all(b"jump" in command for command in found["commands"])


@needs_data
def test_a_real_cache(tmp_path):
    first = sources.load("mnist", "test", tmp_path, RAW_DIR)
    check(sources.load("mnist", "test", tmp_path, download=False), first)
    rewrite(tmp_path / "mnist-test.npz", label=first["label"][::-1])
    check(sources.load("mnist", "test", tmp_path, RAW_DIR), first)


def test_names_and_hashes_of_what_a_run_loads_are_noted():
    """results.json tells real data from synthetic ones, and one draw from another."""
    with sources.noted() as data_sets:
        for seed in (0, 1, 1):
            arrays = sources.synthetic("mnist", 20, seed)
        drawn = sets.load("glyph", (2, 3))
    sources.synthetic("mnist", 30)  # after the block
    names = [f"synthetic mnist, 20 images, seed {seed}" for seed in (0, 1)]
    assert list(data_sets) == [*names, "glyphs 2, 3"]
    assert data_sets[names[1]] == sources.fingerprint(arrays) != data_sets[names[0]]
    assert data_sets["glyphs 2, 3"] == sources.fingerprint({"image": drawn})
