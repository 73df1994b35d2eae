"""Text into the pieces that BERT's vocabulary has: lower case, no accents, longest match first."""

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_LONGEST_WORD: Final = 100
_CJK: Final = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2FA1F), (0xF900, 0xFAFF))


class WordPiece:
    """Knows a vocabulary; `encode` gives the ids of a text between the two marks that BERT expects."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._ids = vocabulary
        self._unknown = vocabulary["[UNK]"]
        self._begin, self._end = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._seen: dict[str, list[int]] = {}

    @classmethod
    def open(cls, file: Path) -> "WordPiece":
        """Read a vocabulary: one piece a line, its id is the number of the line."""
        lines = file.read_text(encoding="utf-8").split("\n")
        return cls({piece: number for number, piece in enumerate(lines) if piece})

    def encode(self, text: str, *, most: int) -> list[int]:
        """At most so many ids, marks included; what does not fit is cut off."""
        ids = [self._begin]
        for word in _words(text):
            if len(ids) >= most - 1:
                break
            ids += self._pieces(word)
        return [*ids[: most - 1], self._end]

    def _pieces(self, word: str) -> list[int]:
        if (known := self._seen.get(word)) is not None:
            return known
        found = self._split(word)
        if len(self._seen) < 50_000:
            self._seen[word] = found
        return found

    def _split(self, word: str) -> list[int]:
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                if (number := self._ids.get(prefix + word[start:end])) is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return [self._unknown]
        return found


def _words(text: str) -> Iterator[str]:
    current: list[str] = []
    for character in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(character)
        if category == "Mn":
            continue
        alone = _is_punctuation(character, category) or _is_cjk(character)
        gap = character.isspace() or category[0] == "C"
        if (alone or gap) and current:
            yield "".join(current)
            current = []
        if alone:
            yield character
        elif not gap:
            current.append(character)
    if current:
        yield "".join(current)


def _is_punctuation(character: str, category: str) -> bool:
    # BERT counts all of ASCII's signs, also those that Unicode calls symbols.
    return category[0] == "P" or (character.isascii() and not character.isalnum() and not character.isspace())


def _is_cjk(character: str) -> bool:
    point = ord(character)
    return point >= 0x3400 and any(low <= point <= high for low, high in _CJK)
