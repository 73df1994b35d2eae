"""How well a memory answers: words and meaning made into one score, and scores into an order.

Every step is monotone: a signal can raise a score and never lowers one, so that a weak one cannot spoil a strong one.
The only exception is age, which takes at most a tenth.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from uuid import UUID

from dragoman.services.memory.layers import Layer

# Nearer than this in score is a tie, which the more specific layer wins.
TIE: Final = 0.05
# Two texts whose vectors are as near as this say the same, unless a number or a "not" tells them apart.
SAME: Final = 0.95
# Texts that have nothing to do with each other have cosines up to about the first; near paraphrases reach the second.
_UNRELATED, _PARAPHRASE = 0.15, 0.75
_WORDS_SHARE: Final = 0.9
_NEIGHBOUR_SHARE: Final = 0.25
_OLDEST_SHARE: Final = 0.9
_NEGATIONS = frozenset({"no", "not", "never", "none", "nobody", "nothing", "cannot", "without", "longer", "stopped"})
_WORD = re.compile(r"\w+(?:'\w+)?")


# Memories that say nearly the same, two and two.
Pairs = frozenset[frozenset[UUID]]


@dataclass(slots=True)
class Candidate:
    """A version that words, meaning or a neighbour brought up."""

    memory_id: UUID
    version: int
    words: float = 0.0
    cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate with what is needed to put it in its place."""

    memory_id: UUID
    layer: Layer
    content: str
    score: float
    folded: list["Scored"] = field(default_factory=list["Scored"], compare=False)


def meaning_of(cosine: float | None) -> float:
    """What a cosine is worth: nothing where unrelated texts are, all of it where paraphrases are."""
    if cosine is None:
        return 0.0
    return min(1.0, max(0.0, (cosine - _UNRELATED) / (_PARAPHRASE - _UNRELATED)))


def fuse(words: float, meaning: float) -> float:
    """One score from two: at least as good as the better one, better where both agree."""
    return 1 - (1 - _WORDS_SHARE * words) * (1 - _WORDS_SHARE * meaning)


def with_neighbours(own: float, before: float, after: float) -> float:
    """A turn of a conversation whose neighbours answer too: the answer often stands beside the question."""
    return 1 - (1 - own) * (1 - _NEIGHBOUR_SHARE * before) * (1 - _NEIGHBOUR_SHARE * after)


def freshness(age_days: float, decay_per_day: float) -> float:
    """A factor for age: 1 for what is new, never less than 0.9."""
    return _OLDEST_SHARE + (1 - _OLDEST_SHARE) * (1 - decay_per_day) ** max(0.0, age_days)


def promotion_score(importance: float, accesses: int, idle_days: float) -> float:
    """Whether a memory has earned a more general layer."""
    return 0.6 * importance + 0.3 * min(accesses / 10, 1) + 0.1 * max(0.0, 1 - idle_days)


def arrange(found: Sequence[Scored], same: Pairs = frozenset()) -> list[Scored]:
    """Best first, the more specific layer first among near ties and among those that say the same.

    What a more specific memory says as well is folded into it. `same` names pairs whose vectors are as near as `SAME`.
    """
    left = sorted(found, key=_by_score)
    arranged: list[Scored] = []
    while left:
        best = left[0].score
        tied = [hit for hit in left if best - hit.score <= TIE]
        leader = min(tied, key=lambda hit: (hit.layer.precedence, *_by_score(hit)))
        twins = [hit for hit in left if hit is not leader and _say_the_same(leader, hit, same)]
        chosen = min([leader, *twins], key=lambda hit: (hit.layer.precedence, *_by_score(hit)))
        gone = [hit for hit in left if hit is not chosen and _folds(chosen, hit, same)]
        # What is said twice is as good as the better of the two.
        score = max([chosen.score, *(hit.score for hit in gone)])
        arranged.append(Scored(chosen.memory_id, chosen.layer, chosen.content, score, gone))
        left = [hit for hit in left if hit is not chosen and hit not in gone]
    return arranged


def _by_score(hit: Scored) -> tuple[float, int, int]:
    return (-hit.score, hit.layer.precedence, -hit.memory_id.int)


def _folds(chosen: Scored, other: Scored, same: Pairs) -> bool:
    return other.layer.precedence >= chosen.layer.precedence and _say_the_same(chosen, other, same)


def _say_the_same(one: Scored, other: Scored, same: Pairs) -> bool:
    mine, yours = _words(one.content), _words(other.content)
    if mine == yours:
        return True
    if one.layer is other.layer or frozenset((one.memory_id, other.memory_id)) not in same:
        return False
    return _telling(mine) == _telling(yours)


# Every hit is compared with every other.
@lru_cache(maxsize=2_048)
def _words(content: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(content.casefold()))


def _telling(words: Sequence[str]) -> list[str]:
    """What turns a sentence into another one, however near the two are: numbers and negations."""
    return [word for word in words if word in _NEGATIONS or word.endswith("n't") or any(map(str.isdigit, word))]
