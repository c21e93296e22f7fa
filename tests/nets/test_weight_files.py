"""Pickles of PyTorch and NumPy: what is read; that a malicious file runs and allocates nothing."""

import io
import json
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
from cgjax.nets.convert import bert_from_folder, files, from_safetensors
from cgjax.nets.mlp import MLP
from cgjax.nets.resnet import ResNet18


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


# --- safetensors ----------------------------------------------------------------------------------
# Safetensors files: what is read, and what a damaged or hostile file gets to hear.


def file_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(begin=0, end=8, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def saved(path, arrays):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        array = np.asarray(array, "<f4")
        header[name] = entry(len(data), len(data) + array.nbytes, array.shape)
        data += array.tobytes()
    path.write_bytes(file_bytes(header, data))
    return path


def test_types_and_shapes(tmp_path):
    numbers = np.array([[1.5, -2.0, 3.25]], "<f4")
    parts = {
        "single": ("F32", numbers),
        "half": ("F16", numbers.astype("<f2")),
        "brain": ("BF16", (numbers.view("<u4") >> 16).astype("<u2")),
        "long": ("I64", np.array([[2**40, -1, 7]], "<i8")),
        "nothing": ("F32", np.zeros((0, 3), "<f4")),
        "number": ("F32", np.array(4.0, "<f4")),
    }
    header, data = {}, b""
    for name, (dtype, array) in parts.items():
        header[name] = entry(len(data), len(data) + array.nbytes, array.shape, dtype)
        data += array.tobytes()
    path = tmp_path / "all.safetensors"
    path.write_bytes(file_bytes(header, data))
    arrays = files.read_safetensors(path)
    for name, (_, array) in parts.items():
        expected = numbers if name == "brain" else array
        np.testing.assert_array_equal(arrays[name], expected)
        assert arrays[name].dtype == expected.dtype and arrays[name].shape == expected.shape


HOSTILE = {
    "too short": (b"\0\0\0", "is too short for a safetensors file: 3 bytes"),
    "header too long": ((99).to_bytes(8, "little") + b"{}", "a header of 99 bytes in a file of 10"),
    "absurd header": (b"\xff" * 8 + b"{}", "not a safetensors file: its header would have 184467"),
    "no JSON": (file_bytes(b"{]"), "a header that is not JSON"),
    "no text": (file_bytes(b'{"\xff'), "a header that is not JSON"),
    "deep": (file_bytes(b"[" * 100_000), "a header that is not JSON"),
    "digits": (file_bytes(b'{"w": ' + b"9" * 5000 + b"}"), "a header that is not JSON"),
    "list": (file_bytes([1]), r"a header that does not name arrays: \[1\]"),
    "twice": (file_bytes(b'{"w": 1, "w": 2}'), "not JSON: 'a name occurs twice'"),
    "no entry": (file_bytes({"w": 3}), "has no valid dtype, shape and data_offsets for 'w'"),
    "negative": (file_bytes({"w": entry(-8, 0)}, b"\0" * 8), "no valid dtype, shape and data"),
    "boolean": (file_bytes({"w": entry(0, 4, [True])}, b"\0" * 8), "no valid dtype, shape and"),
    "three": (
        file_bytes({"w": entry() | {"data_offsets": [0, 8, 9]}}, b"\0" * 8),
        "has no valid dtype, shape",
    ),
    "type": (file_bytes({"w": entry(dtype="F8")}, b"\0" * 8), "'F8': only F32, F16, BF16, I64 are"),
    "size": (file_bytes({"w": entry(0, 4)}, b"\0" * 8), r"4 bytes, but F32 of shape \[2\] takes 8"),
    "backwards": (file_bytes({"w": entry(8, 0)}, b"\0" * 8), "gives 'w' -8 bytes"),
    "huge": (file_bytes({"w": entry(shape=[2**62, 2**62])}, b"\0" * 8), "gives 'w' 8 bytes, but"),
    "axes": (file_bytes({"w": entry(0, 4, [1] * 99)}, b"\0" * 4), "gives 'w' an invalid shape"),
    "wide zero": (file_bytes({"w": entry(0, 0, [2**70, 0])}), "gives 'w' an invalid shape"),
    "out of range": (file_bytes({"w": entry()}, b"\0" * 7), "cut short: 'w' ends at byte 8 of 7"),
    "overlap": (
        file_bytes({"w": entry(), "v": entry(4, 12)}, b"\0" * 12), "overlapping arrays 'w' and 'v'",
    ),
    "same": (file_bytes({"w": entry(), "v": entry()}, b"\0" * 8), "overlapping arrays 'w' and 'v'"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, tmp_path):
    content, message = HOSTILE[name]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=message) as error:
        files.read_safetensors(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(BadInput, match="is not a file: name a safetensors file"):
            files.read_safetensors(path)


def test_network_from_file(tmp_path):
    net = MLP((3,), hidden=4)
    rng = np.random.default_rng(0)
    shapes = {"0.weight": (4, 2), "0.bias": (4,), "2.weight": (3, 4), "2.bias": (3,)}
    arrays = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    params = from_safetensors(net, saved(tmp_path / "net", arrays))
    np.testing.assert_array_equal(params["dense_1"]["kernel"], arrays["2.weight"].T)
    del arrays["2.bias"]
    with pytest.raises(BadInput, match="does not hold this network: state_dict lacks 2.bias for"):
        from_safetensors(net, saved(tmp_path / "net", arrays))


def test_array_of_the_wrong_rank(tmp_path):
    path = saved(tmp_path / "net", {"conv1.weight": np.ones(3)})
    net = ResNet18(stage_sizes=(0,), widths=(4,), head=0)
    with pytest.raises(BadInput, match="conv1.weight is not the weight of a conv_no_bias layer"):
        from_safetensors(net, path)


def test_folder_of_a_network(tmp_path):
    with pytest.raises(BadInput, match="cannot read the config"):
        bert_from_folder(tmp_path)
    for content, message in (("{", "cannot read the config"), ("[]", "is not a BERT config")):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(BadInput, match=message):
            bert_from_folder(tmp_path)
    sizes = {
        "vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 6, "max_position_embeddings": 3, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(sizes))
    saved(tmp_path / "model.safetensors", {})
    message = "lacks embeddings.LayerNorm.bias, .* and 13 more for Bert"
    with pytest.raises(BadInput, match=message):
        bert_from_folder(tmp_path)
