"""The uncased WordPiece tokeniser of BERT (Devlin et al. 2019), from its vocabulary alone.

A sentence is lower-cased, stripped of accents and split at spaces and punctuation. Each word is
then split from the left into the longest pieces in the vocabulary; "##" marks a piece that
continues a word.
"""

import pathlib
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from cgjax.core.errors import BadInput, shown

PAD, UNKNOWN, FIRST, LAST = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
# A longer word becomes [UNK], even if its pieces are in the vocabulary.
LONGEST_WORD = 100
# Blocks of Chinese characters; each character is a word.
CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def read_vocabulary(path) -> dict[str, int]:
    """{piece: id} from a file with one piece per line."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise BadInput(f"'{path}' is not a file: name a WordPiece vocabulary, one piece per line")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"cannot read '{path}' as text: it should be UTF-8") from None
    pieces = lines[:-1] if lines[-1] == "" else lines
    vocabulary = {piece.removesuffix("\r"): i for i, piece in enumerate(pieces)}
    if len(vocabulary) < len(pieces):
        raise BadInput(f"'{path}' holds a piece twice: it is not a WordPiece vocabulary")
    _check_special(vocabulary, f"'{path}'")
    return vocabulary


def encode(
    sentences: Iterable[str], vocabulary: Mapping[str, int], length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """ids, mask [n, length] int32: [CLS] pieces [SEP], padded (mask 0) to length or the longest.

    A sentence that does not fit raises an error: truncation could change its meaning.
    """
    _check_special(vocabulary, "the vocabulary")
    sentences = list(sentences)
    rows = [[FIRST, *tokenize(sentence, vocabulary), LAST] for sentence in sentences]
    longest = max(map(len, rows), default=0)
    length = longest if length is None else length
    for row, sentence in zip(rows, sentences):
        if len(row) > length:
            raise BadInput(
                f"{shown(sentence)} has {len(row)} tokens, but length is {length}: raise it"
            )
    ids = np.full((len(rows), length), vocabulary[PAD], np.int32)
    mask = np.zeros((len(rows), length), np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = [vocabulary[piece] for piece in row]
        mask[i, : len(row)] = 1
    return ids, mask


def tokenize(sentence: str, vocabulary: Mapping[str, int]) -> list[str]:
    """The pieces of a sentence, without [CLS] and [SEP]: "she swims" -> she, swim, ##s."""
    return [piece for word in words(sentence) for piece in pieces(word, vocabulary)]


def words(sentence: str) -> list[str]:
    """Lower-cased words without accents; every punctuation mark is a separate word."""
    spaced = "".join(map(_clean, sentence))
    plain = unicodedata.normalize("NFD", spaced)
    plain = "".join(c for c in plain if unicodedata.category(c) != "Mn").lower()
    return "".join(f" {c} " if _is_punctuation(c) else c for c in plain).split()


def pieces(word: str, vocabulary: Mapping[str, int]) -> list[str]:
    """The longest pieces from the left, or [UNK] for the whole word if they do not cover it."""
    if len(word) > LONGEST_WORD:
        return [UNKNOWN]
    split, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if mark + word[start:end] in vocabulary), None)
        if end is None:
            return [UNKNOWN]
        split.append(mark + word[start:end])
        start = end
    return split


def _clean(character: str) -> str:
    """A space for white space, "" for control characters, spaces around Chinese characters."""
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
        return ""
    if any(first <= ord(character) <= last for first, last in CHINESE):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    """Unicode punctuation, and ASCII other than letters, digits and space, such as $ and ^."""
    ascii_mark = "!" <= character <= "~" and not character.isalnum()
    return ascii_mark or unicodedata.category(character).startswith("P")


def _check_special(vocabulary, where) -> None:
    if missing := [piece for piece in SPECIAL if piece not in vocabulary]:
        raise BadInput(f"{where} lacks {', '.join(missing)}: it is not a WordPiece vocabulary")
