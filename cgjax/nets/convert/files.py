"""Arrays from weight files: pickles of PyTorch or NumPy, safetensors, TensorFlow.js.

Files may be damaged or malicious: sizes are checked before an array is created.

A pickle is a program that can call any function. `_Machine` runs only the instructions that a tree
of arrays needs, and calls nothing: the names of PyTorch's and NumPy's constructors select code of
this file, any other name is an error.

Three kinds of file are read: PyTorch's zip archive, PyTorch's older sequence of pickles followed by
the numbers, and one pickle of NumPy arrays. PyTorch's tar archive of 2016 is refused.
"""

import contextlib
import io
import json
import math
import os
import pathlib
import pickletools
import zipfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from cgjax.core.errors import BadInput, first_line, shown

MAGIC = 0x1950A86A20F9469CFC6C  # first pickle of PyTorch's older files
STORAGES = {
    "torch DoubleStorage": "<f8",
    "torch FloatStorage": "<f4",
    "torch HalfStorage": "<f2",
    "torch LongStorage": "<i8",
    "torch IntStorage": "<i4",
}
MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")  # NumPy 1 and 2
NUMPY_DTYPES = {"f8", "f4", "f2", "i8", "i4"}
EMPTY = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINBYTES", "SHORT_BINBYTES",
}  # fmt: skip
LARGEST_PICKLE = 1 << 30
DEEPEST = 16  # levels of nested dicts


class Refused(Exception):
    """The file needs something that a tree of arrays does not need."""


class Name(NamedTuple):
    """A name that the pickle imports, "module attribute"."""

    text: str


class Storage(NamedTuple):
    """PyTorch's numbers behind one or more tensors."""

    key: str
    dtype: str
    size: int


class Tensor(NamedTuple):
    """A view of a storage, in numbers rather than bytes."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class DType:
    """A NumPy dtype whose byte order is given later."""

    def __init__(self, name):
        if name not in NUMPY_DTYPES:
            raise Refused(f"numbers of type {shown(name)}")
        self.name = name

    def build(self, state):
        if not isinstance(state, tuple) or len(state) < 2 or state[1] != "<":
            raise Refused("numbers that are not little-endian")


class Array:
    """A NumPy array whose shape and bytes are given later."""

    value = None

    def build(self, state):
        _check(isinstance(state, tuple) and len(state) == 5, "a NumPy array of an unknown form")
        _, shape, dtype, is_fortran, content = state
        _check(isinstance(dtype, DType) and isinstance(content, bytes), "an array of objects")
        _check(_counts(shape), "an array without a valid shape")
        flat = np.frombuffer(content, f"<{dtype.name}")
        _check(math.prod(shape) == flat.size, "an array whose shape does not fit its bytes")
        self.value = flat.reshape(shape, order="F" if is_fortran is True else "C")


@contextlib.contextmanager
def opened(path, what: str) -> Iterator[tuple[BinaryIO, int]]:
    """The open file and its size in bytes; BadInput if it cannot be read."""
    if not pathlib.Path(path).is_file():
        raise BadInput(f"'{path}' is not a file: name {what}")
    try:
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        raise BadInput(f"cannot read '{path}': {error.strerror}") from None


def read(path) -> dict[str, np.ndarray]:
    """{name: array} of a file; the names of nested dicts are joined by "/"."""
    try:
        with opened(path, "a file of PyTorch or a pickle of arrays") as (file, size):
            return _read(file, size)
    except Refused as error:
        raise BadInput(f"'{path}' is refused: it holds {error}; only arrays are read") from None
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile) as error:  # also of zipfile
        raise BadInput(f"'{path}' is damaged: {shown(first_line(error))}") from None


def _read(file, size) -> dict[str, np.ndarray]:
    start = file.read(4)
    file.seek(0)
    if start == b"PK\x03\x04":
        return _zip(file, size)
    _check(size <= LARGEST_PICKLE, f"{size} bytes")
    # In memory: a file on disk would reserve as many bytes as an instruction claims to need.
    file = io.BytesIO(file.read())
    first = _Machine().run(file)
    return _sequence(file, size) if first == MAGIC else _named(first, lambda _: None)


# --- kinds of file --------------------------------------------------------------------------------


def _zip(file, size) -> dict[str, np.ndarray]:
    """PyTorch's archive: <any folder>/data.pkl, and the numbers in <folder>/data/<key>."""
    with zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        # Members may overlap: together they must not exceed the file.
        _check(sum(member.file_size for member in members.values()) <= size, "repeated members")
        pickles = [name for name in members if name.endswith("/data.pkl")]
        _check(len(pickles) == 1, f"{len(pickles)} files data.pkl")
        folder = pickles[0].removesuffix("data.pkl")

        def content(name):
            _check(name in members, f"no {shown(name)}")
            # PyTorch stores without compression: a small file cannot unpack to a large one.
            _check(members[name].compress_type == zipfile.ZIP_STORED, "compressed members")
            return archive.read(name)

        if f"{folder}byteorder" in members:
            _check(content(f"{folder}byteorder") == b"little", "big-endian numbers")
        state = _Machine().run(io.BytesIO(content(pickles[0])))
        return _named(state, lambda storage: content(f"{folder}data/{storage.key}"))


def _sequence(file, size) -> dict[str, np.ndarray]:
    """PyTorch's older form: version, sizes of types, the tree, keys; for each key its numbers."""
    version, system, state, keys = (_Machine().run(file) for _ in range(4))
    _check(version == 1001, "an unknown version of the format")
    _check(isinstance(system, dict) and system.get("little_endian") is True, "big-endian numbers")
    _check(isinstance(keys, list) and all(isinstance(k, str) for k in keys), "no list of storages")
    storages = {tensor.storage.key: tensor.storage for tensor in _leaves(state, Tensor).values()}
    contents = {}
    for key in keys:
        _check(key in storages, f"an unused storage {shown(key)}")
        count = int.from_bytes(file.read(8), "little")
        _check(count == storages[key].size, f"a storage {shown(key)} of another size")
        n_bytes = count * np.dtype(storages[key].dtype).itemsize
        _check(n_bytes <= size - file.tell(), "fewer numbers than it names: it is cut short")
        contents[key] = file.read(n_bytes)
    return _named(state, lambda storage: contents.get(storage.key))


def _named(state, content: Callable[[Storage], bytes | None]) -> dict[str, np.ndarray]:
    """{name: array} of a tree; content: the bytes of a storage."""
    cache: dict[Storage, np.ndarray] = {}

    def array(leaf):
        if isinstance(leaf, Array):
            _check(leaf.value is not None, "an array without numbers")
            return leaf.value
        if leaf.storage not in cache:
            data = content(leaf.storage)
            n_bytes = leaf.storage.size * np.dtype(leaf.storage.dtype).itemsize
            _check(data is not None and len(data) == n_bytes, "a storage of another size")
            cache[leaf.storage] = np.frombuffer(data, leaf.storage.dtype)
        return _view(cache[leaf.storage], leaf)

    return {name: array(leaf) for name, leaf in _leaves(state, (Tensor, Array)).items()}


def _view(numbers: np.ndarray, tensor: Tensor) -> np.ndarray:
    """The tensor's numbers; every index is inside the storage."""
    if 0 in tensor.shape:
        return np.zeros(tensor.shape, numbers.dtype)
    last = tensor.offset + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides))
    _check(last < numbers.size, "a tensor beyond its storage")
    # Strides of zero could make a large array of one number.
    _check(math.prod(tensor.shape) <= numbers.size, "a tensor larger than its storage")
    strides = [step * numbers.itemsize for step in tensor.strides]
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, strides)


def _leaves(state, kind) -> dict:
    """{name: leaf} of nested dicts; any leaf that is not an array is an error."""
    _check(isinstance(state, dict), f"a value of type {type(state).__name__}")
    leaves, walked = {}, set()

    def walk(branch, prefix):
        # A dict inside itself, or twice inside each of many others, would take forever.
        _check(id(branch) not in walked and prefix.count("/") < DEEPEST, "no tree of dicts")
        walked.add(id(branch))
        for key, value in branch.items():
            if isinstance(value, dict):
                walk(value, f"{prefix}{key}/")
            else:
                _check(isinstance(value, kind), f"{shown(prefix + key)}, which is not an array")
                leaves[prefix + key] = value

    walk(state, "")
    return leaves


# --- the instructions of a pickle -----------------------------------------------------------------


class _Machine:
    """Runs one pickle; the only calls are those of `_call`."""

    def __init__(self):
        self.stack: list = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def run(self, file):
        """The value of the next pickle of a file."""
        for code, argument, _ in pickletools.genops(file):
            try:
                self._step(code.name, argument)
            except (IndexError, KeyError):
                raise Refused("instructions in an invalid order") from None
        return self.stack.pop()

    def _step(self, code: str, argument) -> None:
        stack = self.stack
        if code in VALUES:
            stack.append(argument)
        elif code in CONSTANTS:
            stack.append(CONSTANTS[code])
        elif code in EMPTY:
            stack.append(EMPTY[code]())
        elif code == "MARK":
            self.marks.append(len(stack))
        elif code in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(tuple(self._pop(int(code[-1]))))
        elif code == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif code in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif code == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif code in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif code in ("APPEND", "APPENDS"):
            values = self._pop(1) if code == "APPEND" else self._since_mark()
            _check(isinstance(stack[-1], list), "an invalid list")
            stack[-1].extend(values)
        elif code in ("SETITEM", "SETITEMS"):
            self._set_items(self._pop(2) if code == "SETITEM" else self._since_mark())
        elif code == "GLOBAL":
            stack.append(Name(argument))
        elif code == "STACK_GLOBAL":
            module, attribute = self._pop(2)
            _check(isinstance(module, str) and isinstance(attribute, str), "an invalid name")
            stack.append(Name(f"{module} {attribute}"))
        elif code == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif code == "REDUCE":
            function, arguments = self._pop(2)
            stack.append(_call(function, arguments))
        elif code == "BUILD":
            (state,) = self._pop(1)
            if isinstance(stack[-1], (Array, DType)):
                stack[-1].build(state)
            else:  # attributes of PyTorch's state dict, such as versions of its layers
                _check(isinstance(stack[-1], dict), "an object with a state")
        elif code not in ("PROTO", "FRAME", "STOP"):
            raise Refused(f"the instruction {code}")

    def _pop(self, n: int) -> list:
        if len(self.stack) - (self.marks[-1] if self.marks else 0) < n:
            raise IndexError
        values = self.stack[-n:]
        del self.stack[-n:]
        return values

    def _since_mark(self) -> list:
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def _set_items(self, values: list) -> None:
        _check(isinstance(self.stack[-1], dict) and len(values) % 2 == 0, "an invalid dict")
        for key, value in zip(values[::2], values[1::2]):
            # Only strings: the hash of nested tuples can take forever.
            _check(isinstance(key, str), "names that are not strings")
            self.stack[-1][key] = value


def _call(function, arguments):
    """What PyTorch's and NumPy's constructors would make, in the classes of this file."""
    _check(isinstance(function, Name) and isinstance(arguments, tuple), "a call of a value")
    module, _, attribute = function.text.rpartition(" ")
    if function.text == "collections OrderedDict" and not arguments:
        return {}
    if function.text == "torch._utils _rebuild_tensor_v2" and len(arguments) >= 4:
        storage, offset, shape, strides = arguments[:4]
        valid = isinstance(storage, Storage) and _counts((offset,)) and _counts(shape)
        valid = valid and _counts(strides) and len(shape) == len(strides)
        _check(valid, "a tensor of an unknown form")
        return Tensor(storage, offset, shape, strides)
    if module in MODULES and attribute == "_reconstruct":
        _check(arguments[:1] == (Name("numpy ndarray"),), "an array of an unknown class")
        return Array()
    if function.text == "numpy dtype" and arguments and isinstance(arguments[0], str):
        return DType(arguments[0])
    raise Refused(f"a call of {shown(function.text)}")


def _storage(identity) -> Storage:
    """The storage of PyTorch's persistent id ("storage", type, key, device, size, ...)."""
    valid = isinstance(identity, tuple) and len(identity) >= 5 and identity[0] == "storage"
    valid = valid and isinstance(identity[1], Name) and isinstance(identity[2], str)
    _check(valid and _counts((identity[4],)), "an unknown reference")
    kind = identity[1].text
    if kind not in STORAGES:
        raise Refused(f"numbers of type {shown(kind)}")
    return Storage(identity[2], STORAGES[kind], identity[4])


def _counts(values) -> bool:
    """Whether this is a tuple of non-negative integers below 2^40."""
    if not isinstance(values, tuple):
        return False
    return all(type(value) is int and 0 <= value < 1 << 40 for value in values)


def _check(condition: bool, problem: str) -> None:
    if not condition:
        raise Refused(problem)


# --- tfjs -----------------------------------------------------------------------------------------
# Arrays from a network of TensorFlow.js: model.json names them, numbered files hold the numbers.
#
# These files must lie beside model.json, and have the sizes that it names.


LARGEST_JSON = 10_000_000


def read_tfjs(path) -> dict[str, np.ndarray]:
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


# --- safetensors ----------------------------------------------------------------------------------
# Arrays from a safetensors file: eight bytes of length, a JSON header, then the numbers.
# The header is checked against the size of the file before an array is created.


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


def read_safetensors(path) -> dict[str, np.ndarray]:
    """{name: array} of a file; F32 and BF16 as float32, F16 as float16, I64 as int64."""
    with opened(path, "a safetensors file") as (file, size):
        header, start = _header(file, size, path)
        entries = [_tensor_entry(name, fields, path) for name, fields in header.items()]
        _check_places(entries, size - start, path)
        return {entry.name: _array(file, start, entry, path) for entry in entries}


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


def _tensor_entry(name, fields, path) -> Entry:
    """The checked header entry of one array; fields: as the file has them."""
    fields = fields if isinstance(fields, dict) else {}
    dtype, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(dtype, str) or not _tensor_counts(shape) or not _tensor_counts(offsets, 2):
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


def _tensor_counts(values, n=None) -> bool:
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
