"""MNIST, CIFAR-10 and SCAN as numpy arrays, from wherever this machine has them.

Order of sources: npz cache, raw files, a prepared tensorflow-datasets folder, download. The cache
holds the order of the published files, whichever source filled it, since experiments name records
("the first 200 of a class"). tensorflow-datasets is imported last, so that a machine without it
reads cache and raw files.
"""

import hashlib
import logging
import os
import pathlib
import tempfile
import zipfile

import numpy as np

from cgjax.core.errors import BadInput
from cgjax.data import raw

log = logging.getLogger("cgjax")

DEFAULT_DIR = "~/.cache/cgjax/data"
SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
N_CLASSES = 10

# sha256 of the labels (SCAN: the commands) in canonical order: a prepared folder that is short of
# records, or was shuffled in an unknown way, is found out.
CANONICAL = {
    "mnist-train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
    "mnist-test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    "cifar10-train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    "cifar10-test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    "scan-addprim_jump-train": "219f9acb6a54aa68652b56b745cebca0dae83073861fb8c961fc2858c782b906",
    "scan-addprim_jump-test": "a2d23e0fcd4caa7ff99e5cf5cd1306fc42970094a907ad581f8c14e1b74e7d02",
}


def load(name: str, split: str, data_dir=None, raw_dir=None, download: bool = True) -> dict:
    """One split as numpy arrays in the canonical order of the published files.

    name: "mnist" (image uint8 [n, 28, 28, 1], label int32 [n]), "cifar10" (image [n, 32, 32, 3],
    label), "scan" or "scan/<config>" (commands, actions: byte strings [n]; "scan" is addprim_jump).
    split: "train" or "test". data_dir: cache and prepared sets, default $CGJAX_DATA_DIR, then
    ~/.cache/cgjax/data. raw_dir: published files, default $CGJAX_RAW_DIR.

    >>> load("mnist", "train")["image"].shape
    (60000, 28, 28, 1)
    """
    name = _known(name, split)
    data_dir = data_dir or os.environ.get("CGJAX_DATA_DIR") or DEFAULT_DIR
    data_dir = pathlib.Path(data_dir).expanduser()
    raw_dir = raw_dir or os.environ.get("CGJAX_RAW_DIR") or None
    cache = data_dir / f"{_file_name(name, split)}.npz"
    if cache.exists():
        return _read_cache(cache)
    arrays = _from_raw(name, split, raw_dir)
    if arrays is None:
        arrays = _from_tfds(name, split, data_dir, raw_dir, download)
    _write_cache(cache, arrays)
    return arrays


def synthetic(name: str = "mnist", n: int = 2000, seed: int = 0) -> dict:
    """Made-up images for machines without data: ten fixed random templates plus noise.

    Arrays as of `load(name, ...)`; the same number of images of every class where 10 divides n.
    The seed draws order and noise; the templates stay, so two seeds can serve as train and test.

    >>> synthetic("cifar10", n=20)["image"].shape
    (20, 32, 32, 3)
    """
    if name not in SHAPES:
        raise BadInput(f"no synthetic '{name}': made-up images are {', '.join(SHAPES)}")
    shape = SHAPES[name]
    templates = np.random.default_rng(0).uniform(0, 255, (N_CLASSES, *shape))
    rng = np.random.default_rng([seed, 1])
    label = rng.permutation(np.arange(n, dtype=np.int32) % N_CLASSES)
    noise = rng.normal(0, 32, (n, *shape)).astype(np.float32)
    image = np.clip(templates[label].astype(np.float32) + noise, 0, 255).astype(np.uint8)
    return {"image": image, "label": label}


def _known(name, split):
    """The full name of a data set we know, or one line that lists them."""
    name = "scan/addprim_jump" if name == "scan" else name
    scans = [f"scan/{config}" for config in raw.SCAN_FOLDERS]
    if name not in (*SHAPES, *scans):
        raise BadInput(f"unknown data set '{name}': one of mnist, cifar10, {', '.join(scans)}")
    if split not in ("train", "test"):
        raise BadInput(f"unknown split '{split}' of {name}: train or test")
    return name


def _file_name(name, split):
    return f"{name.replace('/', '-')}-{split}"


# --- cache ----------------------------------------------------------------------------------------


def _read_cache(path):
    try:
        with np.load(path) as arrays:  # the archive has a checksum for each array
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"cache '{path}' is damaged ({error}): delete it and run again") from None


def _write_cache(path, arrays):
    """In one step, under a name of its own first: processes may race, readers see whole files."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as handle:
            try:
                np.savez(handle, **arrays)
                handle.flush()
                os.fsync(handle.fileno())
                os.replace(handle.name, path)
            except BaseException:
                os.unlink(handle.name)
                raise
    except OSError as error:
        log.warning("no cache at '%s' (%s): the data are read anew each time", path, error.strerror)


# --- sources --------------------------------------------------------------------------------------


def _from_raw(name, split, raw_dir):
    """Arrays from published files in raw_dir; None where any is missing."""
    if raw_dir is None:
        return None
    if not all(path.exists() for path in raw.places(name, split, raw_dir).values()):
        return None
    return raw.read(name, split, raw.from_folder(name, split, raw_dir))


def _from_tfds(name, split, data_dir, raw_dir, download):
    # Folders are named by version; one that was interrupted starts with "incomplete".
    prepared = any((data_dir / name).glob("[0-9]*/*.array_record*"))
    if not prepared and not download:
        raise BadInput(_nothing(name, split, data_dir, raw_dir, "downloads are switched off"))
    try:
        from cgjax.data import builders
    except ImportError as error:
        reason = f"{error}; install tensorflow-datasets to download"
        raise BadInput(_nothing(name, split, data_dir, raw_dir, reason)) from None
    if not prepared:
        try:
            builders.prepare(name, data_dir)
        except BadInput:
            raise
        except Exception as error:  # whatever the network, its proxies and tfds come up with
            reason = f"the download failed ({_first_line(error)})"
            raise BadInput(_nothing(name, split, data_dir, raw_dir, reason)) from None
    arrays = builders.read(name, split, data_dir)
    wanted = CANONICAL.get(_file_name(name, split))
    if wanted and fingerprint(arrays) != wanted:
        raise BadInput(
            f"'{data_dir / name}' does not hold the whole of {name} {split} in a known order: "
            "delete that folder and run again"
        )
    return arrays


def fingerprint(arrays: dict) -> str:
    """sha256 of the labels, or of SCAN's commands, in their order."""
    if "label" in arrays:
        return hashlib.sha256(arrays["label"].astype(np.uint8).tobytes()).hexdigest()
    return hashlib.sha256(b"\n".join(arrays["commands"])).hexdigest()


def _first_line(error):
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _nothing(name, split, data_dir, raw_dir, reason):
    missing = raw.places(name, split, raw_dir or "$CGJAX_RAW_DIR").values()
    wanted = ", ".join(str(path) for path in missing)
    return (
        f"no {name} here: {reason}; set CGJAX_RAW_DIR to a folder with the published files "
        f"({wanted}), or CGJAX_DATA_DIR (now {data_dir}) to one with a cache or a prepared set"
    )
