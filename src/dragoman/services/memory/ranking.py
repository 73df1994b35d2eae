"""How well a memory answers: its fused score helped by neighbours and age, and scores made into an order.

Every step is monotone: a signal can raise a score and never lowers one, so that a weak one cannot spoil a strong one.
The only exception is age, which takes at most a tenth.
"""

import re
from collections import defaultdict, deque
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
    twins = _twins(found, same)
    lanes = [
        deque(sorted((hit for hit in found if hit.layer is layer), key=_by_score))
        for layer in sorted({hit.layer for hit in found}, key=lambda layer: layer.precedence)
    ]
    placed: set[UUID] = set()
    arranged: list[Scored] = []
    while heads := [head for lane in lanes if (head := _next(lane, placed)) is not None]:
        best = max(head.score for head in heads)
        leader = next(head for head in heads if best - head.score <= TIE)
        if not twins[leader.memory_id]:
            arranged.append(leader)
            placed.add(leader.memory_id)
            continue
        left = [hit for hit in twins[leader.memory_id] if hit.memory_id not in placed]
        chosen = min([leader, *left], key=lambda hit: (hit.layer.precedence, *_by_score(hit)))
        gone = [
            hit
            for hit in sorted(twins[chosen.memory_id], key=_by_score)
            if hit.memory_id not in placed and hit.layer.precedence >= chosen.layer.precedence
        ]
        # What is said twice is as good as the better of the two.
        score = max([chosen.score, *(hit.score for hit in gone)])
        arranged.append(Scored(chosen.memory_id, chosen.layer, chosen.content, score, gone))
        placed.update(hit.memory_id for hit in (chosen, *gone))
    return arranged


def _by_score(hit: Scored) -> tuple[float, int, int]:
    return (-hit.score, hit.layer.precedence, -hit.memory_id.int)


def _next(lane: deque[Scored], placed: set[UUID]) -> Scored | None:
    while lane and lane[0].memory_id in placed:
        lane.popleft()
    return lane[0] if lane else None


def _twins(found: Sequence[Scored], same: Pairs) -> dict[UUID, list[Scored]]:
    """For each hit, the others that say the same: in the same words, or elsewhere with nearly the same meaning."""
    by_words: dict[tuple[str, ...], list[Scored]] = defaultdict(list)
    words = {hit.memory_id: _words(hit.content) for hit in found}
    for hit in found:
        by_words[words[hit.memory_id]].append(hit)
    twins = {hit.memory_id: [other for other in by_words[words[hit.memory_id]] if other is not hit] for hit in found}
    by_id = {hit.memory_id: hit for hit in found}
    for pair in same:
        one, other = (by_id.get(memory_id) for memory_id in pair)
        if one is None or other is None or one.layer is other.layer or other in twins[one.memory_id]:
            continue
        if _telling(words[one.memory_id]) == _telling(words[other.memory_id]):
            twins[one.memory_id].append(other)
            twins[other.memory_id].append(one)
    return twins


# What is found once is found again.
@lru_cache(maxsize=2_048)
def _words(content: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(content.casefold()))


def _telling(words: Sequence[str]) -> list[str]:
    """What turns a sentence into another one, however near the two are: numbers and negations."""
    return [word for word in words if word in _NEGATIONS or word.endswith("n't") or any(map(str.isdigit, word))]
