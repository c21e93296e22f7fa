"""Data sets from cache, raw files, prepared folders; what happens when nothing is there."""

import gzip
import hashlib
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile

import numpy as np
import pytest

import cgjax.data
from cgjax.core.errors import BadInput
from cgjax.data import raw, sources

RAW_DIR = os.environ.get("CGJAX_RAW_DIR")
needs_data = pytest.mark.skipif(not RAW_DIR, reason="CGJAX_RAW_DIR is not set: no real data here")
needs_tfds = pytest.mark.skipif(
    not all(importlib.util.find_spec(m) for m in ("tensorflow_datasets", "importlib_resources")),
    reason="tensorflow-datasets or importlib_resources is not installed",
)
NAMES = ("mnist", "cifar10", "scan/addprim_jump")


def contents():
    """Tiny files in the published formats, and the arrays they hold: 7 train, 5 test records."""
    rng = np.random.default_rng(0)
    found, arrays = {}, {}
    for split, n in (("train", 7), ("test", 5)):
        images = rng.integers(0, 256, (n, 28, 28, 1), np.uint8)
        labels = rng.integers(0, 10, n, np.uint8)
        image_file, label_file = raw.files("mnist", split)
        header = np.array([2051, n, 28, 28], ">i4").tobytes()
        found[image_file] = gzip.compress(header + images.tobytes())
        found[label_file] = gzip.compress(np.array([2049, n], ">i4").tobytes() + labels.tobytes())
        arrays["mnist", split] = {"image": images, "label": labels}

        batches = raw.files("cifar10", split)
        images = rng.integers(0, 256, (n * len(batches), 32, 32, 3), np.uint8)
        labels = rng.integers(0, 10, n * len(batches), np.uint8)
        for k, file in enumerate(batches):
            rows = slice(k * n, (k + 1) * n)
            planes = images[rows].transpose(0, 3, 1, 2).reshape(n, -1)
            found[file] = np.concatenate([labels[rows, None], planes], axis=1).tobytes()
        arrays["cifar10", split] = {"image": images, "label": labels}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        for split, n in (("train", 7), ("test", 5)):
            commands = [f"walk {i} twice" for i in range(n)]
            actions = [" ".join(["I_WALK"] * (i + 1)) for i in range(n)]
            lines = "".join(f"IN: {c} OUT: {a}\n" for c, a in zip(commands, actions))
            members.writestr(f"SCAN-master/add_prim_split/tasks_{split}_addprim_jump.txt", lines)
            arrays["scan/addprim_jump", split] = {
                "commands": np.array(commands, "S"), "actions": np.array(actions, "S"),
            }  # fmt: skip
    found["SCAN-master.zip"] = archive.getvalue()
    return found, arrays


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A raw folder with tiny files whose checksums the table knows: (folder, arrays)."""
    monkeypatch.delenv("CGJAX_RAW_DIR", raising=False)
    found, arrays = contents()
    table = {file: hashlib.sha256(content).hexdigest() for file, content in found.items()}
    monkeypatch.setattr(raw, "SHA256", table)
    monkeypatch.setattr(
        sources,
        "CANONICAL",
        {sources._file_name(*key): sources.fingerprint(values) for key, values in arrays.items()},
    )
    folder = tmp_path / "raw"
    for name in NAMES:
        for split in ("train", "test"):
            for file, path in raw.places(name, split, folder).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(gzip.compress(found[file]) if name == "cifar10" else found[file])
    return folder, arrays


def check(found, expected):
    assert set(found) == set(expected)
    for key, values in expected.items():
        np.testing.assert_array_equal(found[key], values)


@pytest.mark.parametrize("name", NAMES)
def test_raw_files_then_cache(tiny, tmp_path, monkeypatch, name):
    folder, arrays = tiny
    for split in ("train", "test"):
        first = sources.load(name, split, tmp_path / "data", folder, download=False)
        check(first, arrays[name, split])
    # From now on the cache alone answers, in the same order and with the same types.
    monkeypatch.setattr(raw, "read", lambda *_: pytest.fail("raw files were read again"))
    again = sources.load(name, "test", tmp_path / "data", folder, download=False)
    check(again, arrays[name, "test"])
    assert {k: v.dtype for k, v in again.items()} == {k: v.dtype for k, v in first.items()}
    assert not list((tmp_path / "data").glob("*.tmp"))


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


def test_damaged_cache_is_refused(tiny, tmp_path):
    folder, _ = tiny
    sources.load("mnist", "train", tmp_path, folder)
    cache = tmp_path / "mnist-train.npz"
    content = bytearray(cache.read_bytes())
    content[2000] ^= 1  # inside the images
    cache.write_bytes(bytes(content))
    with pytest.raises(BadInput, match="mnist-train.npz' is damaged .*: delete it and run again"):
        sources.load("mnist", "train", tmp_path, folder)


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
        "import sys; from cgjax.data import sources\n"
        f"print(len(sources.load('mnist', 'train', {str(tmp_path)!r})['label']))\n"
        "print([m for m in sys.modules if m.startswith(('tensorflow', 'array_record', 'jax.'))])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split("\n")[:2] == ["7", "[]"]


@pytest.mark.parametrize(
    "name, split, message",
    [
        ("minst", "train", "unknown data set 'minst': one of mnist, cifar10, scan/simple"),
        ("scan/mcd1", "train", "unknown data set 'scan/mcd1'"),
        ("mnist", "validation", "unknown split 'validation' of mnist: train or test"),
    ],
)
def test_unknown_names(tmp_path, name, split, message):
    with pytest.raises(BadInput, match=message):
        sources.load(name, split, tmp_path)


def test_synthetic():
    found = sources.synthetic("mnist", 200)
    assert found["image"].shape == (200, 28, 28, 1) and found["image"].dtype == np.uint8
    assert np.bincount(found["label"]).tolist() == [20] * 10
    check(sources.synthetic("mnist", 200), found)
    other = sources.synthetic("mnist", 200, seed=1)
    assert not np.array_equal(other["label"], found["label"])

    # Classes can be told apart, and are the same in both: the nearest mean of one labels the other.
    def flat(image):
        return image.reshape(len(image), -1).astype(float)

    means = np.stack([flat(found["image"])[found["label"] == k].mean(0) for k in range(10)])
    distances = ((flat(other["image"])[:, None] - means) ** 2).sum(-1)
    np.testing.assert_array_equal(distances.argmin(1), other["label"])
    with pytest.raises(BadInput, match="no synthetic 'scan'"):
        sources.synthetic("scan")


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


@pytest.fixture
def cache_dir(tmp_path):
    """A folder that goes at once: pytest keeps its own for three sessions."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@needs_data
def test_real_mnist(cache_dir):
    test = sources.load("mnist", "test", cache_dir, RAW_DIR, download=False)
    assert test["image"].shape == (10000, 28, 28, 1)
    assert abs(test["image"].mean() - 33.7912) < 1e-4
    histogram = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(test["label"]).tolist() == histogram
    train = sources.load("mnist", "train", cache_dir, RAW_DIR, download=False)
    assert train["image"].shape == (60000, 28, 28, 1)
    for split, arrays in (("train", train), ("test", test)):
        assert sources.fingerprint(arrays) == sources.CANONICAL[f"mnist-{split}"]


@needs_data
def test_real_cifar10(cache_dir):
    test = sources.load("cifar10", "test", cache_dir, RAW_DIR, download=False)
    assert test["image"].shape == (10000, 32, 32, 3)
    assert np.bincount(test["label"]).tolist() == [1000] * 10
    train = sources.load("cifar10", "train", cache_dir, RAW_DIR, download=False)
    assert train["image"].shape == (50000, 32, 32, 3)
    means = train["image"].mean((0, 1, 2)) / 255
    np.testing.assert_allclose(means, [0.49139968, 0.48215841, 0.44653091], atol=1e-6)


@needs_data
def test_real_scan(cache_dir):
    for split, n in (("train", 14670), ("test", 7706)):
        found = sources.load("scan", split, cache_dir, RAW_DIR, download=False)
        assert len(found["commands"]) == len(found["actions"]) == n
        assert sources.fingerprint(found) == sources.CANONICAL[f"scan-addprim_jump-{split}"]
    assert all(b"jump" in command for command in found["commands"])
