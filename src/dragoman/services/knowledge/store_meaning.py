"""The SQL of the vectors of documents, and of the queue for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

_NOBODY = Scope()

HAS_VECTORS: LiteralString = "SELECT to_regclass('knowledge_vectors') IS NOT NULL AS there"
FORGET_STALE: LiteralString = """
DELETE FROM knowledge_vectors v
WHERE NOT EXISTS (SELECT FROM knowledge_items i WHERE i.tenant_id = v.tenant_id AND i.blob = v.blob)"""
QUEUE_ALL: LiteralString = """
INSERT INTO knowledge_pending (tenant_id, blob)
SELECT DISTINCT i.tenant_id, i.blob FROM knowledge_items i
WHERE NOT EXISTS (SELECT FROM knowledge_vectors v
                  WHERE v.tenant_id = i.tenant_id AND v.blob = i.blob AND v.model = $1)
ON CONFLICT DO NOTHING"""
# Oldest first, so that nothing waits for ever; whoever dies with some of them only delays those.
TAKE: LiteralString = """
WITH taken AS (
    SELECT tenant_id, blob FROM knowledge_pending WHERE taken_until IS NULL OR taken_until < now()
    ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
), marked AS (
    UPDATE knowledge_pending p SET taken_until = now() + interval '15 seconds', attempts = attempts + 1 FROM taken t
    WHERE p.tenant_id = t.tenant_id AND p.blob = t.blob RETURNING p.tenant_id, p.blob, p.attempts
)
SELECT k.tenant_id, k.blob, k.attempts, i.text FROM marked k LEFT JOIN LATERAL (
    SELECT concat_ws(E'\\n', title, array_to_string(tags, ' '), content) AS text FROM knowledge_items
    WHERE tenant_id = k.tenant_id AND blob = k.blob LIMIT 1) i ON true"""
# A document that came back, or that stands elsewhere now, has its vector already.
SETTLE: LiteralString = """
DELETE FROM knowledge_pending p USING unnest($2::uuid[], $3::text[]) AS row (tenant_id, blob), knowledge_vectors v
WHERE p.tenant_id = row.tenant_id AND p.blob = row.blob
  AND v.tenant_id = row.tenant_id AND v.blob = row.blob AND v.model = $1
RETURNING p.tenant_id, p.blob"""
KEEP: LiteralString = """
WITH given AS (
    SELECT * FROM unnest($2::uuid[], $3::text[], $4::text[]) AS row (tenant_id, blob, embedding)
), added AS (
    INSERT INTO knowledge_vectors (tenant_id, blob, model, embedding)
    SELECT tenant_id, blob, $1, embedding::halfvec FROM given
    ON CONFLICT (tenant_id, blob) DO UPDATE SET model = excluded.model, embedding = excluded.embedding
)
DELETE FROM knowledge_pending p USING given g WHERE p.tenant_id = g.tenant_id AND p.blob = g.blob"""
PUT_BACK: LiteralString = """
UPDATE knowledge_pending p SET taken_until = NULL, attempts = attempts - 1
FROM unnest($1::uuid[], $2::text[]) AS row (tenant_id, blob) WHERE p.tenant_id = row.tenant_id AND p.blob = row.blob"""
GIVE_UP: LiteralString = """
DELETE FROM knowledge_pending p USING unnest($1::uuid[], $2::text[]) AS row (tenant_id, blob)
WHERE p.tenant_id = row.tenant_id AND p.blob = row.blob"""
WAITING: LiteralString = """
SELECT extract(epoch FROM now() - min(created_at))::float8 AS oldest_s FROM knowledge_pending"""


@dataclass(frozen=True, slots=True)
class Document:
    """A document that waits for its vector; without content it is gone from every branch."""

    tenant: UUID
    blob: str
    attempts: int
    content: str | None


class VectorStore:
    """Works for all tenants at once, in the role that may."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def has_vectors(self) -> bool:
        """Whether this PostgreSQL has pgvector."""
        row = await self._db.find(_NOBODY, HAS_VECTORS)
        return row is not None and bool(row["there"])

    async def use_model(self, model: str) -> None:
        """Queue what has no vector of this model, and forget vectors of what is gone. One transaction."""
        async with self._db.unit(_NOBODY):
            await self._db.execute(_NOBODY, FORGET_STALE)
            await self._db.execute(_NOBODY, QUEUE_ALL, model)

    async def take(self, most: int) -> list[Document]:
        """Some that wait, for a short while nobody else's."""
        return [Document(*row) for row in await self._db.fetch(_NOBODY, TAKE, most)]

    async def settle_known(self, model: str, taken: Sequence[Document]) -> list[Document]:
        """Take those off the queue that have their vectors; the others."""
        rows = await self._db.fetch(_NOBODY, SETTLE, model, *_columns(taken))
        known = {(row["tenant_id"], row["blob"]) for row in rows}
        return [one for one in taken if (one.tenant, one.blob) not in known]

    async def keep(self, model: str, taken: Sequence[Document], vectors: Sequence[str]) -> None:
        """Store their vectors and take them off the queue."""
        await self._db.execute(_NOBODY, KEEP, model, *_columns(taken), list(vectors))

    async def put_back(self, taken: Sequence[Document]) -> None:
        """Let them be taken again, as if they had not been."""
        await self._db.execute(_NOBODY, PUT_BACK, *_columns(taken))

    async def give_up(self, taken: Sequence[Document]) -> None:
        """Take them off the queue without vectors."""
        await self._db.execute(_NOBODY, GIVE_UP, *_columns(taken))

    async def oldest_waiting_s(self) -> float:
        """The age of the oldest that waits; 0 when none does."""
        row = await self._db.find(_NOBODY, WAITING)
        return (row["oldest_s"] if row else None) or 0.0


def _columns(taken: Sequence[Document]) -> tuple[list[UUID], list[str]]:
    return [one.tenant for one in taken], [one.blob for one in taken]
