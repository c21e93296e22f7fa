"""The uncased WordPiece tokeniser of BERT (Devlin et al. 2019), from its vocabulary alone.

A sentence is cut at spaces and punctuation, lower-cased and freed of accents; each word is then cut
from the left into the longest pieces that the vocabulary holds, where "##" marks a piece that goes
on inside a word.
"""

import pathlib
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from cgjax.core.errors import BadInput, shown

PAD, UNKNOWN, FIRST, LAST = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
# A longer word is unknown, whatever the vocabulary holds.
LONGEST_WORD = 100
# Blocks of Chinese characters, each of which is a word.
CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def read_vocabulary(path) -> dict[str, int]:
    """{piece: id} of a file with one piece in each line."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise BadInput(f"'{path}' is not a file: name a WordPiece vocabulary, one piece in a line")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"cannot read '{path}' as text: it should be UTF-8") from None
    pieces = lines[:-1] if lines[-1] == "" else lines
    vocabulary = {piece.removesuffix("\r"): i for i, piece in enumerate(pieces)}
    if len(vocabulary) < len(pieces):
        raise BadInput(f"'{path}' holds a piece twice: it is no WordPiece vocabulary")
    _check_special(vocabulary, f"'{path}'")
    return vocabulary


def encode(
    sentences: Iterable[str], vocabulary: Mapping[str, int], length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """ids, mask [n, length] int32: [CLS] pieces [SEP], padded (mask 0) to length or the longest.

    A sentence that does not fit is refused: cut, it could mean something else.
    """
    _check_special(vocabulary, "the vocabulary")
    sentences = list(sentences)
    rows = [[FIRST, *tokenize(sentence, vocabulary), LAST] for sentence in sentences]
    longest = max(map(len, rows), default=0)
    length = longest if length is None else length
    for row, sentence in zip(rows, sentences):
        if len(row) > length:
            raise BadInput(
                f"{shown(sentence)} takes {len(row)} tokens: raise the length of {length}"
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
    """Lower-cased words without accents; every mark of punctuation is a word of its own."""
    spaced = "".join(map(_clean, sentence))
    plain = unicodedata.normalize("NFD", spaced)
    plain = "".join(c for c in plain if unicodedata.category(c) != "Mn").lower()
    return "".join(f" {c} " if _is_punctuation(c) else c for c in plain).split()


def pieces(word: str, vocabulary: Mapping[str, int]) -> list[str]:
    """The longest pieces from the left, or [UNK] for the whole word where they do not fill it."""
    if len(word) > LONGEST_WORD:
        return [UNKNOWN]
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if mark + word[start:end] in vocabulary), None)
        if end is None:
            return [UNKNOWN]
        found.append(mark + word[start:end])
        start = end
    return found


def _clean(character: str) -> str:
    """Blank for white space, nothing for control characters, Chinese characters set apart."""
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    if character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
        return ""
    if any(first <= ord(character) <= last for first, last in CHINESE):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    """Unicode's, and all of ASCII that is neither letter, digit nor blank, such as $ and ^."""
    ascii_mark = "!" <= character <= "~" and not character.isalnum()
    return ascii_mark or unicodedata.category(character).startswith("P")


def _check_special(vocabulary, where) -> None:
    if missing := [piece for piece in SPECIAL if piece not in vocabulary]:
        raise BadInput(f"{where} lacks {', '.join(missing)}: it is no WordPiece vocabulary")
