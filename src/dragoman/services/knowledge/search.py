"""Finding what is known: by words at once, by meaning as soon as the documents have their vectors, both fused."""

import asyncio
from typing import Protocol

from dragoman.context import Caller
from dragoman.infra.db import Scope, scope_of
from dragoman.infra.embeddings import fuse, meaning_of
from dragoman.services.knowledge import models as m
from dragoman.services.knowledge.index import KnowledgeIndex
from dragoman.services.knowledge.items import Status
from dragoman.services.knowledge.store import Chosen, KnowledgeStore, Record

_ALIVE = (Status.ACCEPTED, Status.PROPOSED, Status.DRAFT)
# More than anybody asks for, so that what both signals bring up is there to be fused.
_CANDIDATES, _SPARE = 60, 20
# Nobody sets a threshold here, so what is merely not unrelated stays out.
_LEAST_COSINE = 0.3


class Meanings(Protocol):
    """Turns a question into a vector, if that can be done now."""

    async def find(self, query: str) -> tuple[str, str] | None:
        """The vector as text and the name of its model; None when there are only words."""
        ...


class KnowledgeSearch:
    """Answers questions from the index, which follows the repository."""

    def __init__(self, store: KnowledgeStore, index: KnowledgeIndex, meanings: Meanings) -> None:
        self._store = store
        self._index = index
        self._meanings = meanings

    async def query(self, caller: Caller, wanted: m.QueryKnowledge) -> m.QueryResult:
        """Items that fit, best first."""
        scope = scope_of(caller)
        await self._index.refresh(scope)
        statuses = [wanted.status] if isinstance(wanted.status, Status) else wanted.status or _ALIVE
        chosen = Chosen(
            statuses=[status.value for status in statuses],
            item_type=wanted.type and wanted.type.value,
            layer=wanted.layer and wanted.layer.value,
            layer_id=wanted.layer_id,
            tags=wanted.tags or [],
        )
        if not (question := (wanted.query or "").strip()):
            rows = await self._store.latest(scope, chosen, wanted.limit)
            return _result(rows, rows[0]["total"] if rows else 0, by_meaning=False)
        return await self._fused(scope, question, chosen, wanted.limit)

    async def _fused(self, scope: Scope, question: str, chosen: Chosen, limit: int) -> m.QueryResult:
        most = max(_CANDIDATES, limit + _SPARE)
        # The question gets its vector while the words are compared.
        finding = asyncio.create_task(self._meanings.find(question))
        try:
            by_words = await self._store.match_words(scope, question, chosen, most)
            vector = await finding
        finally:
            finding.cancel()
        by_meaning = await self._store.match_meaning(scope, vector, chosen, _LEAST_COSINE, most) if vector else []
        found = {(row["branch"], row["id"]): row for row in (*by_meaning, *by_words)}
        cosines = {(row["branch"], row["id"]): row["cosine"] for row in by_meaning}
        for key, row in found.items():
            row["score"] = round(fuse(row.get("words") or 0.0, meaning_of(cosines.get(key))), 4)
        ranked = sorted(found.values(), key=_rank)
        total = by_words[0]["total"] if by_words else 0
        total += sum("words" not in row for row in ranked) if total <= most else 0
        return _result(ranked[:limit], total, by_meaning=vector is not None)


def _rank(row: Record) -> tuple[float, bool, float, str]:
    return -row["score"], row["status"] != Status.ACCEPTED, -row["updated_at"].timestamp(), row["id"]


def _result(rows: list[Record], total: int, *, by_meaning: bool) -> m.QueryResult:
    items = [m.ItemSummary.model_validate(row) for row in rows]
    return m.QueryResult(items=items, total_count=total, by_meaning=by_meaning)
