"""Pickles of PyTorch and NumPy: what is read; that a malicious file runs and allocates nothing."""

import io
import os
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.nets.convert import files


class Stored:
    """A storage of PyTorch, as its pickles name it."""

    def __init__(self, key, array, kind="FloatStorage"):
        self.key, self.array, self.kind = key, array, kind


class Rebuilt:
    """A tensor of PyTorch, as its pickles call for it."""

    def __init__(self, stored, offset, shape, strides):
        self.arguments = (stored, offset, shape, strides, False, OrderedDict())

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


@pytest.fixture
def torch_names(monkeypatch):
    """Modules with the names that PyTorch's pickles import; pickle checks that they exist."""

    def named(module, name, value):
        value.__module__, value.__qualname__ = module, name
        setattr(sys.modules[module], name, value)

    for module in ("torch", "torch._utils"):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    named("torch._utils", "_rebuild_tensor_v2", lambda *arguments: None)
    for kind in ("FloatStorage", "LongStorage", "BoolStorage"):
        named("torch", kind, type(kind, (), {}))


def dumped(value) -> bytes:
    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            if isinstance(obj, Stored):
                kind = getattr(sys.modules["torch"], obj.kind)
                return ("storage", kind, obj.key, "cpu", obj.array.size, None)

    file = io.BytesIO()
    Pickler(file, 2).dump(value)
    return file.getvalue()


def sequence(state, stored) -> bytes:
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    keys = [s.key for s in stored]
    head = [dumped(part) for part in (files.MAGIC, 1001, system, state, keys)]
    return b"".join([*head, *(struct.pack("<q", s.array.size) + s.array.tobytes() for s in stored)])


def archive(state, stored, compression=zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as members:
        members.writestr("net/data.pkl", dumped(state))
        for s in stored:
            members.writestr(f"net/data/{s.key}", s.array.tobytes())
    return file.getvalue()


def read(tmp_path, content):
    path = tmp_path / "weights"
    path.write_bytes(content)
    return files.read(path)


@pytest.mark.parametrize("form", [sequence, archive])
def test_tensors_of_torch(form, tmp_path, torch_names):
    numbers, count = np.arange(12, dtype="<f4"), np.array([7], "<i8")
    stored = [Stored("a", numbers), Stored("b", count, "LongStorage")]
    state = OrderedDict(
        plain=Rebuilt(stored[0], 0, (3, 4), (4, 1)),
        turned=Rebuilt(stored[0], 4, (4, 2), (1, 4)),
        empty=Rebuilt(stored[0], 0, (0, 5), (5, 1)),
        count=Rebuilt(stored[1], 0, (), ()),
    )
    state._metadata = OrderedDict(version=1)  # PyTorch's state dicts have it
    arrays = read(tmp_path, form({"net": state}, stored))
    table = numbers.reshape(3, 4)
    np.testing.assert_array_equal(arrays["net/plain"], table)
    np.testing.assert_array_equal(arrays["net/turned"], table[1:].T)
    assert arrays["net/empty"].shape == (0, 5) and arrays["net/count"] == 7


def test_arrays_of_numpy(tmp_path):
    wanted = {"a": {"kernel": np.ones((2, 3), "f4")}, "b": np.asfortranarray(np.eye(3)[:2])}
    for protocol in (3, 4):
        arrays = read(tmp_path, pickle.dumps(wanted, protocol))
        np.testing.assert_array_equal(arrays["a/kernel"], wanted["a"]["kernel"])
        np.testing.assert_array_equal(arrays["b"], wanted["b"])


class Calls:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def nested(depth):
    """(t, t) of (t, t) of ...: small, but its hash or its text would take 2^depth steps."""
    value = ()
    for _ in range(depth):
        value = (value, value)
    return value


def in_itself():
    tree = {"w": np.ones(2)}
    tree |= {"a": tree, "b": tree}
    return tree


# What only this file's instructions could do: a memo index that would allocate gigabytes, more
# bytes than the file has, an import from the stack, an old instruction.
RAW = {
    "memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "bytes": b"\x80\x03B\xff\xff\xff\xff.",
    "many bytes": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x3f.",
    "object": b"\x80\x02(cos\nsystem\nX\x04\x00\x00\x00true\x81.",
    "instance": b"(S'true'\nios\nsystem\n.",
    "extension": b"\x80\x02\x82\x01.",
    "order": b"\x80\x02R.",
    "past the mark": b"\x80\x02K\x01(K\x02\x86.",
    "nothing": b"",
}


@pytest.mark.parametrize("name", RAW)
def test_instructions(name, tmp_path):
    if name == "memo":
        assert read(tmp_path, RAW[name]) == {}
        return
    with pytest.raises(BadInput, match="is refused|is damaged") as error:
        read(tmp_path, RAW[name])
    assert "\n" not in str(error.value)


def test_calls_are_refused(tmp_path, torch_names):
    mark = tmp_path / "called"
    for function, arguments in (
        (os.system, (f"touch {mark}",)),
        (eval, (f"open({str(mark)!r}, 'w')",)),
        (getattr, (os, "system")),
        (OrderedDict, ([("w", 1)],)),
        (np.load, ("x",)),
    ):
        for protocol in (2, 4):
            for value in (Calls(function, *arguments), {"w": Calls(function, *arguments)}):
                try:
                    content = pickle.dumps(value, protocol)
                except TypeError:  # a module as an argument
                    continue
                with pytest.raises(BadInput, match="a call of"):
                    read(tmp_path, content)
                with pytest.raises(BadInput, match="a call of"):
                    read(tmp_path, dumped(files.MAGIC) + content)
    assert not mark.exists()


def test_values_that_are_not_arrays(tmp_path):
    key = pickle.dumps(nested(60), 4)  # its memo keeps it small
    for value, message in (
        (3, "a value of type int"),
        ({"w": "text"}, "'w', which is not an array"),
        ({"w": [np.ones(2)]}, "'w', which is not an array"),
        ({1: np.ones(2)}, "names that are not strings"),
        ({"w": np.array([{}], object)}, "numbers of type|an array of objects"),
        ({"w": np.ones(2, ">f4")}, "not little-endian"),
        ({"w": np.ones(2, bool)}, "numbers of type 'b1'"),
        (in_itself(), "no tree of dicts"),
        ({"w": nested(60)}, "'w', which is not an array"),
    ):
        with pytest.raises(BadInput, match=message):
            read(tmp_path, pickle.dumps(value, 4))
    with pytest.raises(BadInput, match="names that are not strings"):
        read(tmp_path, b"\x80\x04}" + key[2:-1] + b"K\x01s.")


def test_tensors_outside_of_their_storage(tmp_path, torch_names):
    stored = Stored("a", np.ones(4, "<f4"))
    for arguments, message in (
        ((0, (5,), (1,)), "beyond its storage"),
        ((3, (2,), (1,)), "beyond its storage"),
        ((0, (10**9,), (0,)), "larger than its storage"),
        ((-1, (2,), (1,)), "unknown form"),
        ((0, (2,), (-1,)), "unknown form"),
        ((0, (2, 2), (1,)), "unknown form"),
        ((0, (True,), (1,)), "unknown form"),
        ((0, (2**62, 2**62), (1, 1)), "unknown form"),
    ):
        with pytest.raises(BadInput, match=message):
            read(tmp_path, sequence({"w": Rebuilt(stored, *arguments)}, [stored]))
    tensor = {"w": Rebuilt(stored, 0, (4,), (1,))}
    for content, message in (
        (sequence(tensor, [stored])[:-1], "cut short"),
        (sequence(tensor, []), "a storage of another size"),
        (sequence(tensor, [Stored("b", stored.array)]), "an unused storage 'b'"),
        (sequence(tensor, [Stored("a", np.ones(2, "<f4"))]), "of another size"),
        (archive(tensor, []), "no 'net/data/a'"),
        (archive(tensor, [Stored("a", np.ones(2, "<f4"))]), "of another size"),
        (archive(tensor, [stored], zipfile.ZIP_DEFLATED), "compressed members"),
    ):
        with pytest.raises(BadInput, match=message):
            read(tmp_path, content)
    wrong = Stored("a", stored.array, "BoolStorage")
    with pytest.raises(BadInput, match="numbers of type 'torch BoolStorage'"):
        read(tmp_path, sequence({"w": Rebuilt(wrong, 0, (4,), (1,))}, [wrong]))
    with pytest.raises(BadInput, match="is not a file"):
        files.read(tmp_path)


def test_damaged_bytes(tmp_path, torch_names):
    """A changed byte (every fourth is tried) gives other arrays or one line."""
    stored = Stored("a", np.ones(4, "<f4"))
    tensor = {"w": Rebuilt(stored, 0, (4,), (1,))}
    rng = np.random.default_rng(0)
    for whole in (sequence(tensor, [stored]), archive(tensor, [stored])):
        for place in range(0, len(whole), 4):
            damaged = bytearray(whole)
            damaged[place] = rng.integers(256)
            try:
                read(tmp_path, bytes(damaged))
            except BadInput:
                continue


def test_tensorflow_js(tmp_path):
    numbers = np.arange(10, dtype="<f4")
    for i, part in enumerate((numbers[:7], numbers[7:])):
        (tmp_path / f"part{i}").write_bytes(part.tobytes())
    kernel = '{"name": "a/kernel", "shape": [2, 4], "dtype": "float32"}'
    bias = '{"name": "a/bias", "shape": [2], "dtype": "float32"}'

    def model(paths='"part0", "part1"', weights=f"{kernel}, {bias}"):
        text = f'{{"weightsManifest": [{{"paths": [{paths}], "weights": [{weights}]}}]}}'
        (tmp_path / "model.json").write_text(text)
        return tmp_path / "model.json"

    arrays = files.read_tfjs(model())
    np.testing.assert_array_equal(arrays["a/kernel"], numbers[:8].reshape(2, 4))
    np.testing.assert_array_equal(arrays["a/bias"], numbers[8:])
    outside = tmp_path / "inner"
    outside.mkdir()
    for changes, message in (
        ({"weights": kernel}, "have 40 bytes: its arrays take 32"),
        ({"paths": '"part0", "../part1"'}, "not a file beside it"),
        ({"paths": '"part0", "none"'}, "not a file beside it"),
        ({"paths": '"part0", "part0"'}, "names a file twice"),
        ({"weights": kernel.replace("float32", "uint8")}, "only float32"),
        ({"weights": kernel.replace("4", "-4")}, "an invalid shape"),
        ({"weights": "3"}, "is not a network of TensorFlow.js"),
    ):
        with pytest.raises(BadInput, match=message):
            files.read_tfjs(model(**changes))
    for content in ("{", "[]", '{"weightsManifest": 3}'):
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(BadInput, match="is not a network of TensorFlow.js"):
            files.read_tfjs(tmp_path / "model.json")
    with pytest.raises(BadInput, match="cannot read"):
        files.read_tfjs(tmp_path / "none.json")
