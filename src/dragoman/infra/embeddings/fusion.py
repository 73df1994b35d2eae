"""Words and meaning made into one score, which each can raise and none can lower: a weak one spoils no strong one."""

from typing import Final

# Texts that have nothing to do with each other have cosines up to about the first; near paraphrases reach the second.
_UNRELATED, _PARAPHRASE = 0.15, 0.75
_SHARE: Final = 0.9


def meaning_of(cosine: float | None) -> float:
    """What a cosine is worth: nothing where unrelated texts are, all of it where paraphrases are."""
    if cosine is None:
        return 0.0
    return min(1.0, max(0.0, (cosine - _UNRELATED) / (_PARAPHRASE - _UNRELATED)))


def fuse(words: float, meaning: float) -> float:
    """One score from two: at least as good as the better one, better where both agree."""
    return 1 - (1 - _SHARE * words) * (1 - _SHARE * meaning)
