"""MNIST, CIFAR-10 and SCAN as numpy arrays, from the first source that has them.

Order of sources: npz cache, raw files, a prepared tensorflow-datasets folder, download. Arrays are
always in the order of the published files, because experiments refer to it ("the first 200 of a
class"). Arrays of every source are compared with CANONICAL: a cache that differs is rebuilt, any
other source that differs is an error. tensorflow-datasets is imported last, so that a machine
without it can read cache and raw files.
"""

import contextlib
import contextvars
import hashlib
import logging
import os
import pathlib
import uuid
import zipfile

import numpy as np

from cgjax.core.errors import BadInput, first_line
from cgjax.data import raw

log = logging.getLogger("cgjax")

DEFAULT_DIR = "~/.cache/cgjax/data"
SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
N_CLASSES = 10
SPLITS = ("train", "test")

# `fingerprint` of the published arrays: train, test.
CANONICAL = {
    "mnist": (
        "8568286669b1d82438557ec4509ad40d0797891d5fa9f59e0fd4cb46ca1c4c80",
        "7e7dc954ed7d8cbd78afa03c2e9c1f7e3602233b909ea1217e90e8a07f97b8ee",
    ),
    "cifar10": (
        "292809ca206f9ffd021f34694378fc2ab84ae6f1d9b3c0942a0436799b873735",
        "bd78da09e7efe2a7d9dea53deb8e9f79e2d931a192764504f1fc620b99e949c4",
    ),
    "scan/simple": (
        "7237b76bd91f14335a55d479a7414d8e158a95914168e0d15ad84762d07ead93",
        "0deff7fe4336bb705fc1de08bda0e16352ed69bd1b2bf2364ad7ce893de63aaf",
    ),
    "scan/length": (
        "251ea63ff91d6319ca03a0c62ccf3915bbb46959b017b60bac58915a371fe94a",
        "17b19163c6e750ce429988b14337db4cc1dead3c86cfb4d2bdd7d76df76b057b",
    ),
    "scan/addprim_jump": (
        "d34283c8c5245b298b2fb5639cc9804abb8c33ad5e01a2545fb00cb16bac497e",
        "331cfb5ca9acdbdc192290949e6706f2cdd8cf6bd0b336ec4a9277c8a4b56840",
    ),
    "scan/addprim_turn_left": (
        "4c7138f5654d3e5b49a1c5f3b64c9b78c856fad483d4cab1e743ba31a384995b",
        "a90c0d40199b8630129e490251282fe566857d2c91010756e68ec1178345fcb0",
    ),
    "scan/filler_num0": (
        "b1d5a3077a9ef96c2411c596b08c2063fbecd60430d5bf03fbc4d3d4032ad994",
        "3ff681292a1c26324e72d449c2a61024380bfc3c40f31e010e3247e5ac6bc624",
    ),
    "scan/filler_num1": (
        "301218f5b169b76fd84e3b3554702301224c740ca1fa01a0f62e6d0fa1df1422",
        "3ff681292a1c26324e72d449c2a61024380bfc3c40f31e010e3247e5ac6bc624",
    ),
    "scan/filler_num2": (
        "86508721987c56ef2596264cf2b04928e1fcb4d70b66e2fe6900d4734110befb",
        "3ff681292a1c26324e72d449c2a61024380bfc3c40f31e010e3247e5ac6bc624",
    ),
    "scan/filler_num3": (
        "25bf1364c51b1172080d2a8239552cfd61c38e6aa7b822efad33b4264124ca8a",
        "3ff681292a1c26324e72d449c2a61024380bfc3c40f31e010e3247e5ac6bc624",
    ),
    "scan/template_around_right": (
        "b1d5a3077a9ef96c2411c596b08c2063fbecd60430d5bf03fbc4d3d4032ad994",
        "5c115d2e7cf2125f69a39b83c3af7138ebe936daf3a544e2281163dd34f58bdc",
    ),
    "scan/template_jump_around_right": (
        "25bf1364c51b1172080d2a8239552cfd61c38e6aa7b822efad33b4264124ca8a",
        "3ff681292a1c26324e72d449c2a61024380bfc3c40f31e010e3247e5ac6bc624",
    ),
    "scan/template_opposite_right": (
        "938191ecd96f8d65c90b11a3427b8b874a8c83d22eab02c6add22788fe1de135",
        "25c96d1d1562661c6968cdeb4bbdb5c5fcb343ed80415a5cb1925dc6b3c8d78b",
    ),
    "scan/template_right": (
        "7756a9822163cb40ae7115899a72bbd8f48e5c41310c2517080bf0c5652f937e",
        "0d4c40a49d6f191758d1cf4e4bb00df9ea779ea064fb0ec65ec86916565b7d12",
    ),
}
# Upper bound on the bytes of a cache; the largest, CIFAR-10's training images, has 154 million.
LARGEST_CACHE = 1 << 28


def load(name: str, split: str, data_dir=None, raw_dir=None, download: bool = True) -> dict:
    """One split as numpy arrays, in the order of the published files.

    name: "mnist" (image uint8 [n, 28, 28, 1], label int32 [n]), "cifar10" (image [n, 32, 32, 3],
    label), "scan" or "scan/<config>" (commands, actions: byte strings [n]; "scan" is addprim_jump).
    split: "train" or "test". data_dir: cache and prepared sets, default $CGJAX_DATA_DIR, then
    ~/.cache/cgjax/data. raw_dir: published files, default $CGJAX_RAW_DIR.

    >>> load("mnist", "train")["image"].shape
    (60000, 28, 28, 1)
    """
    name = _full_name(name, split)
    data_dir = cache_folder(data_dir)
    raw_dir = _folder(raw_dir, "CGJAX_RAW_DIR", None)
    if name not in CANONICAL:
        return _random_split(name, split, data_dir, raw_dir)
    _note(f"{name} {split}", CANONICAL[name][SPLITS.index(split)])
    cache = _cache(data_dir, name, split)
    arrays, problem = _read_cache(cache, name, split)
    if arrays is not None:
        return arrays
    try:
        arrays = _from_sources(name, split, data_dir, raw_dir, download)
    except BadInput as error:
        if not problem:
            raise
        raise BadInput(f"cache '{cache}' is not used: {problem}; other sources: {error}") from None
    if problem:
        log.warning("cache '%s' is not used: %s; it is rebuilt", cache, problem)
    _write_cache(cache, arrays)
    return arrays


def is_here(name: str) -> bool:
    """Whether both splits have a cache, published files or a prepared set; reads none of them."""
    with contextlib.suppress(BadInput):  # no home directory, no permission
        folder, raw_dir = cache_folder(), _folder(None, "CGJAX_RAW_DIR", None)
        return all(
            raw.kind(_cache(folder, name, split)) == "file"
            or (raw_dir and all(map(raw.kind, raw.places(name, split, raw_dir).values())))
            or _is_prepared(folder / name)
            for split in SPLITS
        )
    return False


def cache_folder(given=None) -> pathlib.Path:
    """Folder of the cache: the argument, else $CGJAX_DATA_DIR, else ~/.cache/cgjax/data."""
    return _folder(given, "CGJAX_DATA_DIR", DEFAULT_DIR)


def save(path: pathlib.Path, arrays: dict, compressed: bool = False) -> None:
    """Write an npz file atomically: under a unique temporary name first.

    Several processes may write at once; readers only see complete files. Raises OSError.
    """
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "xb") as handle:
            (np.savez_compressed if compressed else np.savez)(handle, **arrays)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def fingerprint(arrays: dict) -> str:
    """sha256 of all arrays: names in order, dtypes, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        values = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values)
    return digest.hexdigest()


def synthetic(name: str = "mnist", n: int = 2000, seed: int = 0) -> dict:
    """Synthetic images for machines without data: ten fixed random templates plus noise.

    Arrays as from `load(name, ...)`; all classes have the same number of images if 10 divides n.
    The seed determines order and noise. The templates are fixed, so two seeds can serve as train
    and test.

    >>> synthetic("cifar10", n=20)["image"].shape
    (20, 32, 32, 3)
    """
    if name not in SHAPES:
        raise BadInput(f"no synthetic '{name}': choose from {', '.join(SHAPES)}")
    if n < 1:
        raise BadInput(f"synthetic images must be one or more, got {n}")
    shape = SHAPES[name]
    templates = np.random.default_rng(0).uniform(0, 255, (N_CLASSES, *shape))
    rng = np.random.default_rng([seed, 1])
    label = rng.permutation(np.arange(n, dtype=np.int32) % N_CLASSES)
    noise = rng.normal(0, 32, (n, *shape)).astype(np.float32)
    image = np.clip(templates[label].astype(np.float32) + noise, 0, 255).astype(np.uint8)
    return made_up(f"synthetic {name}, {n} images, seed {seed}", {"image": image, "label": label})


def made_up(name: str, arrays: dict) -> dict:
    """Notes arrays that are computed in place of a data set, and returns them."""
    _note(name, fingerprint(arrays))
    return arrays


def _full_name(name, split):
    """The full name of a data set; an unknown name or split raises an error that lists them."""
    name = "scan/addprim_jump" if name == "scan" else name
    scans = [f"scan/{config}" for config in raw.SCAN_FOLDERS]
    if name not in (*SHAPES, *scans, *(f"scan/{config}" for config in raw.SCAN_RANDOM)):
        raise BadInput(f"unknown data set '{name}': choose from mnist, cifar10, {', '.join(scans)}")
    if split not in SPLITS:
        raise BadInput(f"unknown split '{split}' of {name}: choose train or test")
    return name


def _folder(given, variable, default):
    """A folder from the argument, the environment variable or the default; "~" is expanded."""
    path = given or os.environ.get(variable) or default
    try:
        return path and pathlib.Path(path).expanduser()
    except RuntimeError:
        raise BadInput(f"no home directory for '{path}': set {variable} to a folder") from None


def _is_published(arrays, name, split):
    return fingerprint(arrays) == CANONICAL[name][SPLITS.index(split)]


# --- names and hashes of the arrays that a run uses ----------------------------------------------

_noted = contextvars.ContextVar("_noted", default=None)


@contextlib.contextmanager
def noted():
    """Yields {name: sha256} of the data sets, real or made up, that the block loads."""
    token = _noted.set({})
    try:
        yield _noted.get()
    finally:
        _noted.reset(token)


def _note(name: str, sha256: str) -> None:
    if _noted.get() is not None:
        _noted.get()[name] = sha256


# --- cache ----------------------------------------------------------------------------------------


def _cache(data_dir, name, split) -> pathlib.Path:
    return data_dir / f"{name.replace('/', '-')}-{split}.npz"


def _read_cache(path, name, split):
    """(arrays, ""); (None, why the cache is not used); (None, "") if there is no cache."""
    columns = ("commands", "actions") if name.startswith("scan") else ("image", "label")
    try:
        kind = raw.kind(path)
        if kind != "file":
            return None, f"it is a {kind}" if kind else ""
        with zipfile.ZipFile(path) as archive:
            if sorted(archive.namelist()) != sorted(f"{column}.npy" for column in columns):
                return None, f"it holds other arrays than {' and '.join(columns)}"
            if sum(member.file_size for member in archive.infolist()) > LARGEST_CACHE:
                return None, "it is too large"
            arrays = {column: _read_npy(archive, f"{column}.npy") for column in columns}
    except BadInput as error:
        return None, str(error)
    except Exception as error:  # zipfile and numpy raise many types for damaged files
        return None, f"it cannot be read ({first_line(error)})"
    if not _is_published(arrays, name, split):
        return None, f"it does not hold {name} {split} as published (wrong sha256)"
    return arrays, ""


def _read_npy(archive, member):
    with archive.open(member) as handle:
        values = np.lib.format.read_array(handle, allow_pickle=False)
        if handle.read(1):  # zipfile compares its checksum only at the end
            raise ValueError(f"{member} is longer than its header says")
    return values


def _write_cache(path, arrays):
    try:
        save(path, arrays)
    except OSError as error:
        reason = error.strerror or first_line(error)
        log.warning("no cache at '%s' (%s): the data are read again in each run", path, reason)


# --- sources --------------------------------------------------------------------------------------


def _from_sources(name, split, data_dir, raw_dir, download):
    """Arrays from the first available source; an error if they differ from the published ones."""
    arrays, where = _from_raw(name, split, raw_dir), raw_dir
    if arrays is None:
        arrays, where = _from_tfds(name, split, data_dir, raw_dir, download), data_dir / name
    if not _is_published(arrays, name, split):
        raise BadInput(
            f"'{where}' does not hold the whole of {name} {split} in a known order: "
            "move that folder away and run again"
        )
    return arrays


def _random_split(name, split, data_dir, raw_dir):
    """A random split of SCAN: only from the published archive, which is compared with SHA256."""
    arrays = _from_raw(name, split, raw_dir)
    if arrays is None:
        raise BadInput(
            _no_data_message(name, split, data_dir, raw_dir, "only the published archive holds it")
        )
    _note(f"{name} {split}", fingerprint(arrays))
    return arrays


def _from_raw(name, split, raw_dir):
    """Arrays from published files in raw_dir; None if a file is missing."""
    if raw_dir is None:
        return None
    if raw.kind(raw_dir) not in ("folder", ""):
        raise BadInput(
            f"'{raw_dir}' is not a folder: set CGJAX_RAW_DIR to the folder of the published files"
        )
    if not all(raw.kind(path) for path in raw.places(name, split, raw_dir).values()):
        return None
    return raw.read(name, split, raw.from_folder(name, split, raw_dir))


def _from_tfds(name, split, data_dir, raw_dir, download):
    if raw.kind(data_dir) not in ("folder", ""):
        raise BadInput(f"'{data_dir}' is not a folder: set CGJAX_DATA_DIR to a folder")
    folder = data_dir / name
    prepared = _is_prepared(folder)
    if not prepared and not download:
        raise BadInput(
            _no_data_message(name, split, data_dir, raw_dir, "downloads are switched off")
        )
    try:
        from cgjax.data import builders
    except ImportError as error:
        reason = f"{error}; install tensorflow-datasets to download"
        raise BadInput(_no_data_message(name, split, data_dir, raw_dir, reason)) from None
    if not prepared:
        try:
            builders.prepare(name, data_dir)
        except BadInput:
            raise
        except Exception as error:  # network, proxies and tfds raise many types
            reason = f"the download failed ({first_line(error)})"
            raise BadInput(_no_data_message(name, split, data_dir, raw_dir, reason)) from None
    try:
        return builders.read(name, split, data_dir)
    except Exception as error:  # tfds and array_record raise many types for damaged files
        raise BadInput(
            f"the prepared set '{folder}' cannot be read ({first_line(error)}): "
            "move that folder away and run again"
        ) from None


def _is_prepared(folder) -> bool:
    # Folders are named by version; after an interruption the name starts with "incomplete".
    return raw.kind(folder) == "folder" and any(folder.glob("[0-9]*/*.array_record*"))


def _no_data_message(name, split, data_dir, raw_dir, reason):
    files = raw.places(name, split, raw_dir or "$CGJAX_RAW_DIR").values()
    paths = ", ".join(str(path) for path in files)
    return (
        f"no {name} here: {reason}; set CGJAX_RAW_DIR to a folder with the published files "
        f"({paths}), or CGJAX_DATA_DIR (now {data_dir}) to one with a cache or a prepared set"
    )
