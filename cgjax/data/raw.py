"""MNIST, CIFAR-10 and SCAN from their published files, checked, in the order of those files.

Every reader takes `get(file name) -> bytes`, so it works for files in a folder and for downloads.
The bytes are always compared with SHA256.
"""

import gzip
import hashlib
import io
import os
import pathlib
import stat
import zipfile
import zlib
from collections.abc import Callable

import numpy as np

from cgjax.core.errors import BadInput

# sha256 of the published files. CIFAR-10 is published as one archive: these are its members.
SHA256 = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    "SCAN-master.zip": "ae9038488f880aedf9a5ed9e9693f22f0a3e33d6a4e3aa4d1e8006d9c038594a",
}

# Upper bound on the bytes of a published file: a batch of CIFAR-10 has 30.7 million.
LARGEST = 1 << 25

CIFAR_FOLDER = "cifar-10-batches-bin"
CIFAR_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
# Folder inside SCAN's archive for each published pair of training and test files.
SCAN_FOLDERS = {
    "simple": "simple_split",
    "length": "length_split",
    "addprim_jump": "add_prim_split",
    "addprim_turn_left": "add_prim_split",
    "filler_num0": "filler_split",
    "filler_num1": "filler_split",
    "filler_num2": "filler_split",
    "filler_num3": "filler_split",
    "template_around_right": "template_split",
    "template_jump_around_right": "template_split",
    "template_opposite_right": "template_split",
    "template_right": "template_split",
}
# Splits that SCAN's authors drew at random, with several sizes and repetitions.
SCAN_RANDOM = {
    **{f"simple_p{n}": "simple_split/size_variations" for n in (1, 2, 4, 8, 16, 32, 64)},
    **{
        f"addprim_complex_jump_num{n}_rep{i}": "add_prim_split/with_additional_examples"
        for n in (1, 2, 4, 8, 16, 32)
        for i in range(1, 6)
    },
    **{f"fewshot_num{2**k}_rep{i}": "few_shot_split" for k in range(11) for i in range(1, 6)},
}


def files(name: str, split: str) -> tuple[str, ...]:
    """The published files that `name` ("mnist", "cifar10", "scan/...") and `split` need."""
    if name == "mnist":
        part = {"train": "train", "test": "t10k"}[split]
        return f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"
    if name == "cifar10":
        if split == "test":
            return ("test_batch.bin",)
        return tuple(f"data_batch_{i}.bin" for i in range(1, 6))
    return ("SCAN-master.zip",)


def places(name: str, split: str, raw_dir) -> dict[str, pathlib.Path]:
    """Where each of `files` is expected under the raw folder."""
    folder = pathlib.Path(raw_dir) / name.split("/")[0]
    if name == "cifar10":
        return {file: folder / CIFAR_FOLDER / f"{file}.gz" for file in files(name, split)}
    return {file: folder / file for file in files(name, split)}


def kind(path) -> str:
    """What is at a path: "file", "folder", "device, pipe or socket"; "" if there is nothing."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from None
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "device, pipe or socket"


def from_folder(name: str, split: str, raw_dir) -> Callable:
    """`get` for files in the raw folder."""
    paths = places(name, split, raw_dir)

    def get(file: str) -> bytes:
        path = paths[file]
        if kind(path) != "file":
            raise BadInput(f"'{path}' is not a file: put the published file there")
        try:
            with open(path, "rb") as handle:
                content = handle.read(LARGEST)
        except OSError as error:
            raise BadInput(f"cannot read '{path}': {error.strerror}") from None
        return checked(file, _gunzip(content) if name == "cifar10" else content, str(path))

    return get


def _gunzip(content):
    """At most LARGEST bytes; b"" if the content is not valid gzip."""
    try:
        with gzip.open(io.BytesIO(content)) as handle:
            return handle.read(LARGEST)
    except (OSError, EOFError, zlib.error):
        return b""


def checked(file: str, content: bytes, where: str) -> bytes:
    """The content; an error if it differs from the published file."""
    if hashlib.sha256(content).hexdigest() != SHA256[file]:
        raise BadInput(f"'{where}' is damaged (wrong sha256): replace it with the published file")
    return content


def read(name: str, split: str, get: Callable) -> dict[str, np.ndarray]:
    """Arrays of one split, in the order of the published files.

    mnist: image uint8 [n, 28, 28, 1], label int32 [n]; cifar10: image [n, 32, 32, 3], label;
    scan/...: commands, actions: byte strings [n].
    """
    if name == "mnist":
        images, labels = (gzip.decompress(get(file)) for file in files(name, split))
        image = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28, 1)
        return {"image": image, "label": np.frombuffer(labels, np.uint8, offset=8).astype(np.int32)}
    if name == "cifar10":
        content = b"".join(get(file) for file in files(name, split))
        records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
        image = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return {"image": np.ascontiguousarray(image), "label": records[:, 0].astype(np.int32)}
    return _scan(name.split("/")[1], split, get("SCAN-master.zip"))


def _scan(config, split, content):
    folder = (SCAN_FOLDERS | SCAN_RANDOM)[config]
    member = f"SCAN-master/{folder}/tasks_{split}_{config}.txt"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        lines = archive.read(member).splitlines()
    pairs = [line.removeprefix(b"IN: ").split(b" OUT: ", 1) for line in lines if line]
    commands, actions = zip(*pairs)
    return {"commands": np.array(commands), "actions": np.array(actions)}
