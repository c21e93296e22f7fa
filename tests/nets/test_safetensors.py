"""Safetensors files: what is read, and what a damaged or hostile file gets to hear."""

import json

import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.nets.convert import bert_from_folder, files, from_safetensors
from cgjax.nets.mlp import MLP
from cgjax.nets.resnet import ResNet18


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
