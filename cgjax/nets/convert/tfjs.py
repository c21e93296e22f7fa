"""Arrays from a network of TensorFlow.js: model.json names them, numbered files hold the numbers.

The files may be damaged or malicious: they must lie beside model.json, and have the sizes that it
names.
"""

import json
import math
import pathlib

import numpy as np

from cgjax.core.errors import BadInput, first_line, shown

LARGEST_JSON = 10_000_000


def read(path) -> dict[str, np.ndarray]:
    """{name: float32 array} of a model.json and the files beside it."""
    path = pathlib.Path(path)
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise BadInput(f"'{path}' is too large for a model.json of TensorFlow.js")
        groups = json.loads(path.read_text())["weightsManifest"]
        named = [
            ([str(name) for name in group["paths"]], [_entry(w) for w in group["weights"]])
            for group in groups
        ]
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f"'{path}' is not a network of TensorFlow.js: {shown(first_line(error))}"
        ) from None
    arrays = {}
    for files, entries in named:
        needed = 4 * sum(math.prod(shape) for _, shape in entries)
        numbers = np.frombuffer(_joined(path, files, needed), "<f4")
        places = np.cumsum([0, *(math.prod(shape) for _, shape in entries)])
        for (name, shape), start, end in zip(entries, places, places[1:]):
            arrays[name] = numbers[start:end].reshape(shape)
    return arrays


def _entry(weights) -> tuple[str, tuple[int, ...]]:
    """Name and shape of one array."""
    name, shape, dtype = str(weights["name"]), weights["shape"], weights["dtype"]
    if dtype != "float32" or "quantization" in weights:
        raise ValueError("only float32 without quantization is supported")
    if not all(type(n) is int and 0 <= n < 1 << 40 for n in shape) or len(shape) > 8:
        raise ValueError(f"an invalid shape {shown(shape)}")
    return name, tuple(shape)


def _joined(path: pathlib.Path, files: list[str], needed: int) -> bytes:
    """The bytes of the numbered files; they have `needed` bytes together."""
    places = [path.parent / name for name in files]
    for name, place in zip(files, places):
        if pathlib.PurePath(name).name != name or not place.is_file():
            raise BadInput(f"'{path}' names {shown(name)}, which is not a file beside it")
    if len(set(files)) < len(files):  # a small file, named often, would make a large array
        raise BadInput(f"'{path}' names a file twice")
    size = sum(place.stat().st_size for place in places)
    if size != needed:
        raise BadInput(f"the files beside '{path}' have {size} bytes: its arrays take {needed}")
    try:
        return b"".join(place.read_bytes() for place in places)
    except OSError as error:
        raise BadInput(f"cannot read a file beside '{path}': {error.strerror}") from None
