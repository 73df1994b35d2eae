"""Finding: candidates by words and by meaning, fused, helped by their neighbours, put in order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.infra.db import Scope, scope_of
from dragoman.infra.embeddings import fuse, meaning_of
from dragoman.services.memory.filters import compile_filters
from dragoman.services.memory.layers import Layer, Place, places_of
from dragoman.services.memory.models import Explanation, Folded, Found, Hit, SearchMemories
from dragoman.services.memory.ranking import (
    SAME,
    Candidate,
    Pairs,
    Scored,
    arrange,
    freshness,
    with_neighbours,
)
from dragoman.services.memory.store import Held, MemoryStore

# More than anybody asks for, so that what is folded or falls below the threshold leaves enough.
_CANDIDATES, _SPARE = 60, 20
# How many of the best are compared with each other, and how many turns are looked around.
_COMPARED, _LOOKED_AROUND = 40, 20
_SECONDS_PER_DAY = 86_400.0


class Meanings(Protocol):
    """Turns a question into a vector, if that can be done now."""

    async def find(self, query: str) -> tuple[str, str] | None:
        """The vector as text and the name of its model; None when there are only words."""
        ...


class Uses(Protocol):
    """Keeps count of what was of use."""

    def count(self, tenant: UUID, ids: Sequence[UUID]) -> None:
        """These were given as an answer."""
        ...


@dataclass(slots=True)
class _Row:
    record: dict[str, Any]
    candidate: Candidate
    own: float
    score: float = 0.0
    beside: float = 0.0
    fresh: float = 1.0

    @property
    def turn(self) -> tuple[str, int] | None:
        number = self.record["turn"]
        return (self.record["scope"], number) if number is not None else None


class MemorySearch:
    """Answers a question from the places that a caller may look in."""

    def __init__(self, store: MemoryStore, meanings: Meanings, uses: Uses, *, decay_per_day: float) -> None:
        self._store = store
        self._meanings = meanings
        self._uses = uses
        self._decay_per_day = decay_per_day

    async def search(self, caller: Caller, wanted: SearchMemories) -> Found:
        """The best memories, each at least as good as the threshold.

        Raises:
            InvalidInput: a layer lacks its id, or a filter is not understood.
            NotYourMemories: a layer is another user's.
        """
        scope = scope_of(caller)
        places = places_of(caller, wanted.layers, wanted.ids)
        rows, by_meaning = await self._rows(scope, wanted, places)
        good = {row.candidate.memory_id: row for row in rows if row.score > 0 and row.score >= wanted.threshold}
        arranged = await self._arrange(scope, list(good.values()), by_meaning=by_meaning)
        hits = [_hit(place, good, explain=wanted.explain) for place in arranged[: wanted.limit]]
        self._uses.count(caller.tenant, [hit.memory_id for hit in hits])
        return Found(
            results=hits,
            total_count=len(arranged),
            searched_layers=[place.layer for place in places],
            by_meaning=by_meaning,
        )

    async def _rows(self, scope: Scope, wanted: SearchMemories, places: Sequence[Place]) -> tuple[list[_Row], bool]:
        scopes = [place.scope for place in places]
        held = (wanted.as_of, list(wanted.tags) if wanted.tags else None, compile_filters(wanted.filters))
        most = max(_CANDIDATES, wanted.limit + _SPARE)
        by_words, (by_meaning, near) = await asyncio.gather(
            self._store.match_words(scope, wanted.query, scopes, held, most),
            self._near(scope, wanted.query, scopes, held, most),
        )
        candidates: dict[tuple[UUID, int], Candidate] = {}
        for row in by_words:
            key = (row["memory_id"], row["version"])
            candidates[key] = Candidate(*key, words=min(1.0, row["score"] or 0.0))
        for row in near:
            key = (row["memory_id"], row["version"])
            candidates.setdefault(key, Candidate(*key)).cosine = row["cosine"]
        best = sorted(candidates, key=lambda key: -_own(candidates[key]))[:most]
        records = await self._store.hydrate(scope, best) if best else []
        rows = [_row(record, candidates[record["memory_id"], record["version"]]) for record in records]
        rows += await self._beside(scope, rows, held)
        _weigh(rows, wanted.as_of or datetime.now(UTC), self._decay_per_day)
        return rows, by_meaning

    async def _near(
        self, scope: Scope, query: str, scopes: Sequence[str], held: Held, most: int
    ) -> tuple[bool, Sequence[Any]]:
        """Whether the question has a vector, and what lies near it."""
        vector = await self._meanings.find(query)
        if vector is None:
            return False, []
        return True, await self._store.match_meaning(scope, vector, scopes, held, most)

    async def _beside(self, scope: Scope, rows: list[_Row], held: Held) -> list[_Row]:
        """The turns before and after the best turns, where they are not among the candidates already."""
        turns = sorted((row for row in rows if row.turn), key=lambda row: -row.own)[:_LOOKED_AROUND]
        known = {row.turn for row in rows}
        missing = {
            (row.turn[0], row.turn[1] + step) for row in turns if row.turn and row.own > 0.2 for step in (-1, 1)
        } - known
        if not missing:
            return []
        records = await self._store.neighbours(scope, sorted(missing), held)
        return [_row(record, Candidate(record["memory_id"], record["version"])) for record in records]

    async def _arrange(self, scope: Scope, rows: list[_Row], *, by_meaning: bool) -> list[Scored]:
        best = sorted(rows, key=lambda row: -row.score)[:_COMPARED]
        # Only what stands in different layers can be folded by its meaning.
        compared = [row.candidate.memory_id for row in best] if len({row.record["layer"] for row in best}) > 1 else []
        same: Pairs = frozenset()
        if by_meaning and compared:
            same = await self._store.near_pairs(scope, compared, SAME)
        scored = [
            Scored(row.candidate.memory_id, Layer(row.record["layer"]), row.record["content"], row.score)
            for row in rows
        ]
        return arrange(scored, same)


def _row(record: dict[str, Any], candidate: Candidate) -> _Row:
    return _Row(record, candidate, _own(candidate))


def _own(candidate: Candidate) -> float:
    return fuse(candidate.words, meaning_of(candidate.cosine))


def _weigh(rows: Sequence[_Row], now: datetime, decay_per_day: float) -> None:
    own = {row.turn: row.own for row in rows if row.turn}
    for row in rows:
        score = row.own
        if row.turn is not None:
            conversation, number = row.turn
            score = with_neighbours(
                score, own.get((conversation, number - 1), 0.0), own.get((conversation, number + 1), 0.0)
            )
        row.beside = score - row.own
        age_days = (now - row.record["valid_from"]).total_seconds() / _SECONDS_PER_DAY
        row.fresh = freshness(age_days, decay_per_day)
        row.score = score * row.fresh


def _hit(place: Scored, rows: dict[UUID, _Row], *, explain: bool) -> Hit:
    row = rows[place.memory_id]
    explanation = None
    if explain:
        cosine = row.candidate.cosine
        explanation = Explanation(
            words=round(row.candidate.words, 4),
            meaning=round(meaning_of(cosine), 4) if cosine is not None else None,
            cosine=round(cosine, 4) if cosine is not None else None,
            neighbours=round(row.beside, 4),
            freshness=round(row.fresh, 4),
            score=round(row.score, 4),
        )
    return Hit(
        **{name: row.record[name] for name in ("memory_id", "content", "tags", "metadata", "ids", "version")},
        layer=place.layer,
        score=round(place.score, 4),
        created_at=row.record["created_at"],
        valid_from=row.record["valid_from"],
        folded=[Folded(memory_id=other.memory_id, layer=other.layer) for other in place.folded],
        explanation=explanation,
    )
