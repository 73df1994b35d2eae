"""The SQL of what is done behind the tenants' backs: vectors, the queue for them, and counts of use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

_NOBODY = Scope()

HAS_VECTORS: LiteralString = "SELECT to_regclass('memory_vectors') IS NOT NULL AS there"
# Oldest first, so that nothing waits for ever; whoever dies with some of them only delays those.
TAKE: LiteralString = """
WITH taken AS (
    SELECT tenant_id, memory_id, version FROM memory_pending
    WHERE taken_until IS NULL OR taken_until < now()
    ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
), marked AS (
    UPDATE memory_pending p SET taken_until = now() + interval '15 seconds', attempts = attempts + 1 FROM taken t
    WHERE p.tenant_id = t.tenant_id AND p.memory_id = t.memory_id AND p.version = t.version
    RETURNING p.tenant_id, p.memory_id, p.version, p.attempts
)
SELECT k.tenant_id, k.memory_id, k.version, k.attempts, m.content FROM marked k
LEFT JOIN memories m ON m.tenant_id = k.tenant_id AND m.id = k.memory_id AND m.version = k.version"""
# The same words in the same tenant have the same vector.
COPY: LiteralString = """
WITH known AS (
    SELECT DISTINCT ON (m.tenant_id, m.id, m.version) m.tenant_id, m.id, m.version, m.scope, v.embedding
    FROM unnest($2::uuid[], $3::uuid[], $4::int[]) AS row (tenant_id, id, version)
    JOIN memories m USING (tenant_id, id, version)
    JOIN memories o ON o.tenant_id = m.tenant_id AND o.content_sha = m.content_sha AND o.content = m.content
    JOIN memory_vectors v ON v.tenant_id = o.tenant_id AND v.memory_id = o.id AND v.version = o.version
    WHERE v.model = $1
), added AS (
    INSERT INTO memory_vectors (tenant_id, memory_id, version, scope, model, embedding)
    SELECT tenant_id, id, version, scope, $1, embedding FROM known
    ON CONFLICT (tenant_id, memory_id, version) DO UPDATE SET model = excluded.model, embedding = excluded.embedding
)
DELETE FROM memory_pending p USING known k
WHERE p.tenant_id = k.tenant_id AND p.memory_id = k.id AND p.version = k.version
RETURNING p.tenant_id, p.memory_id, p.version"""
# What was forgotten meanwhile has no row to join, and so gets no vector. The lock keeps it from going in between.
KEEP: LiteralString = """
WITH given AS (
    SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::int[], $5::text[]) AS row (tenant_id, id, version, embedding)
), there AS (
    SELECT m.tenant_id, m.id, m.version, m.scope, g.embedding
    FROM memories m JOIN given g USING (tenant_id, id, version)
    FOR NO KEY UPDATE OF m
), added AS (
    INSERT INTO memory_vectors (tenant_id, memory_id, version, scope, model, embedding)
    SELECT tenant_id, id, version, scope, $1, embedding::halfvec FROM there
    ON CONFLICT (tenant_id, memory_id, version) DO UPDATE SET model = excluded.model, embedding = excluded.embedding
)
DELETE FROM memory_pending p USING given g
WHERE p.tenant_id = g.tenant_id AND p.memory_id = g.id AND p.version = g.version"""
PUT_BACK: LiteralString = """
UPDATE memory_pending p SET taken_until = NULL, attempts = attempts - 1
FROM unnest($1::uuid[], $2::uuid[], $3::int[]) AS row (tenant_id, id, version)
WHERE p.tenant_id = row.tenant_id AND p.memory_id = row.id AND p.version = row.version"""
GIVE_UP: LiteralString = """
DELETE FROM memory_pending p USING unnest($1::uuid[], $2::uuid[], $3::int[]) AS row (tenant_id, id, version)
WHERE p.tenant_id = row.tenant_id AND p.memory_id = row.id AND p.version = row.version"""
WAITING: LiteralString = """
SELECT extract(epoch FROM now() - min(created_at))::float8 AS oldest_s FROM memory_pending"""
FIND_MODEL: LiteralString = "SELECT model FROM memory_models LIMIT 1"
FORGET_MODELS: LiteralString = "DELETE FROM memory_models"
SET_MODEL: LiteralString = "INSERT INTO memory_models (model) VALUES ($1)"
# A tenant at a time would be kinder to a very large installation; the queue is narrow, and this runs once a model.
QUEUE_ALL: LiteralString = """
INSERT INTO memory_pending (tenant_id, memory_id, version)
SELECT m.tenant_id, m.id, m.version FROM memories m
WHERE NOT EXISTS (SELECT FROM memory_vectors v WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.id
                  AND v.version = m.version AND v.model = $1)
ON CONFLICT DO NOTHING"""
LOCK_MODELS: LiteralString = "LOCK TABLE memory_models IN EXCLUSIVE MODE"
ADD_USES: LiteralString = """
UPDATE memories m SET accesses = accesses + row.n, accessed_at = now()
FROM unnest($1::uuid[], $2::uuid[], $3::int[]) AS row (tenant_id, id, n)
WHERE m.tenant_id = row.tenant_id AND m.id = row.id AND m.valid_to IS NULL"""


@dataclass(frozen=True, slots=True)
class Pending:
    """A version that waits for its vector; without content it was forgotten meanwhile."""

    tenant: UUID
    memory_id: UUID
    version: int
    attempts: int
    content: str | None


class IndexStore:
    """Works for all tenants at once, in the role that may."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def has_vectors(self) -> bool:
        """Whether this PostgreSQL has pgvector."""
        row = await self._db.find(_NOBODY, HAS_VECTORS)
        return row is not None and bool(row["there"])

    async def use_model(self, model: str) -> None:
        """Queue everything again if the vectors were another model's. One transaction."""
        async with self._db.unit(_NOBODY):
            await self._db.execute(_NOBODY, LOCK_MODELS)
            row = await self._db.find(_NOBODY, FIND_MODEL)
            if row is not None and row["model"] == model:
                return
            await self._db.execute(_NOBODY, FORGET_MODELS)
            await self._db.execute(_NOBODY, SET_MODEL, model)
            await self._db.execute(_NOBODY, QUEUE_ALL, model)

    async def take(self, most: int) -> list[Pending]:
        """Some that wait, for a short while nobody else's."""
        rows = await self._db.fetch(_NOBODY, TAKE, most)
        return [Pending(*row) for row in rows]

    async def settle_known(self, model: str, taken: Sequence[Pending]) -> list[Pending]:
        """Give them the vectors of the same words elsewhere in their tenants; those that found none."""
        rows = await self._db.fetch(_NOBODY, COPY, model, *_columns(taken))
        known = {(row["tenant_id"], row["memory_id"], row["version"]) for row in rows}
        return [one for one in taken if (one.tenant, one.memory_id, one.version) not in known]

    async def keep(self, model: str, taken: Sequence[Pending], vectors: Sequence[str]) -> None:
        """Store their vectors and take them off the queue."""
        await self._db.execute(_NOBODY, KEEP, model, *_columns(taken), list(vectors))

    async def put_back(self, taken: Sequence[Pending]) -> None:
        """Let them be taken again, as if they had not been."""
        await self._db.execute(_NOBODY, PUT_BACK, *_columns(taken))

    async def give_up(self, taken: Sequence[Pending]) -> None:
        """Take them off the queue without vectors."""
        await self._db.execute(_NOBODY, GIVE_UP, *_columns(taken))

    async def oldest_waiting_s(self) -> float:
        """The age of the oldest that waits; 0 when none does."""
        row = await self._db.find(_NOBODY, WAITING)
        return (row["oldest_s"] if row else None) or 0.0

    async def add_uses(self, uses: Sequence[tuple[UUID, UUID, int]]) -> None:
        """Count that they were used."""
        ordered = sorted(uses, key=lambda use: (use[0].int, use[1].int))
        await self._db.execute(_NOBODY, ADD_USES, *(list(column) for column in zip(*ordered, strict=True)))


def _columns(taken: Sequence[Pending]) -> tuple[list[UUID], list[UUID], list[int]]:
    return ([item.tenant for item in taken], [item.memory_id for item in taken], [item.version for item in taken])
