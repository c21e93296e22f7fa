"""Arrays from a safetensors file: eight bytes of length, a JSON header, then the numbers.

The file may be damaged or malicious: the header is checked against the size of the file before an
array is created.
"""

import json
import math
import os
import pathlib
from typing import NamedTuple

import numpy as np

from cgjax.core.errors import BadInput, shown

# NumPy has no bfloat16: it is read as two bytes and widened to float32.
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}
LENGTH_BYTES = 8
LARGEST_HEADER = 100_000_000


class Entry(NamedTuple):
    """Header entry of one array; begin, end: bytes after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read(path) -> dict[str, np.ndarray]:
    """{name: array} of a file; F32 and BF16 as float32, F16 as float16, I64 as int64."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise BadInput(f"'{path}' is not a file: name a safetensors file")
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            header, start = _header(file, size, path)
            entries = [_entry(name, fields, path) for name, fields in header.items()]
            _check_places(entries, size - start, path)
            return {entry.name: _array(file, start, entry, path) for entry in entries}
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from None


def _header(file, size, path) -> tuple[dict, int]:
    """The header without metadata, and the byte at which the numbers begin."""
    if size < LENGTH_BYTES:
        raise BadInput(f"'{path}' is too short for a safetensors file: {size} bytes")
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if length > LARGEST_HEADER:
        raise BadInput(f"'{path}' is not a safetensors file: its header would have {length} bytes")
    if length > size - LENGTH_BYTES:
        raise BadInput(f"'{path}' is cut short: a header of {length} bytes in a file of {size}")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"'{path}' has a header that is not JSON: {shown(str(error))}") from None
    if not isinstance(header, dict):
        raise BadInput(f"'{path}' has a header that does not name arrays: {shown(header)}")
    header.pop("__metadata__", None)
    return header, LENGTH_BYTES + length


def _without_repetition(pairs) -> dict:
    header = dict(pairs)
    if len(header) < len(pairs):
        raise ValueError("a name occurs twice")
    return header


def _entry(name, fields, path) -> Entry:
    """The checked header entry of one array; fields: as the file has them."""
    fields = fields if isinstance(fields, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or not _counts(shape) or not _counts(offsets, 2):
        raise BadInput(f"'{path}' has no valid dtype, shape and data_offsets for {shown(name)}")
    if dtype not in DTYPES:
        raise BadInput(
            f"'{path}' has {shown(name)} as {shown(dtype)}: only {', '.join(DTYPES)} are supported"
        )
    entry = Entry(name, dtype, tuple(shape), *offsets)
    needed = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if entry.end - entry.begin != needed:
        raise BadInput(
            f"'{path}' gives {shown(name)} {entry.end - entry.begin} bytes, but {dtype} of shape "
            f"{shown(shape)} takes {needed}"
        )
    return entry


def _counts(values, n=None) -> bool:
    """Whether this is a list of non-negative integers, n of them if n is given."""
    if not isinstance(values, list) or (n is not None and len(values) != n):
        return False
    return all(type(value) is int and value >= 0 for value in values)


def _check_places(entries, size, path) -> None:
    """Raise an error unless every array is inside the file and no two overlap."""
    end, before = 0, None
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.end > size:
            raise BadInput(
                f"'{path}' is cut short: {shown(entry.name)} ends at byte {entry.end} of {size}"
            )
        if entry.begin < end:
            raise BadInput(
                f"'{path}' has overlapping arrays {shown(before)} and {shown(entry.name)}"
            )
        end, before = entry.end, entry.name


def _array(file, start, entry, path) -> np.ndarray:
    file.seek(start + entry.begin)
    data = file.read(entry.end - entry.begin)
    try:
        array = np.frombuffer(data, DTYPES[entry.dtype]).reshape(entry.shape)
    except ValueError:  # more axes than NumPy supports, or a too long one in an empty array
        shape = shown(list(entry.shape))
        raise BadInput(f"'{path}' gives {shown(entry.name)} an invalid shape: {shape}") from None
    if entry.dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array
