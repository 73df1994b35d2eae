"""The SQL of what is done behind the tenants' backs: the vectors of memories, and counts of their use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import NOBODY, Database
from dragoman.infra.embeddings import Shelf, VectorQueue

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
SHELF: Final = Shelf(
    pending="memory_pending",
    vectors="memory_vectors",
    key="memory_id, version",
    rows="unnest($1::uuid[], $2::uuid[], $3::int[])",
    content="""
        SELECT m.content FROM memories m
        WHERE m.tenant_id = k.tenant_id AND m.id = k.memory_id AND m.version = k.version""",
    settle=COPY,
    keep=KEEP,
)
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
WHERE m.tenant_id = row.tenant_id AND m.id = row.id AND m.valid_to IS NULL
RETURNING m.tenant_id, m.id, m.layer, m.ids, m.importance, m.accesses, m.promotion"""


@dataclass(frozen=True, slots=True)
class Used:
    """A memory that was of use; `promotion` is what became of the last attempt to promote it, if there was one."""

    tenant: UUID
    memory_id: UUID
    layer: str
    ids: dict[str, Any]
    importance: float
    accesses: int
    promotion: str | None


class IndexStore(VectorQueue):
    """Works for all tenants at once, in the role that may."""

    def __init__(self, db: Database) -> None:
        super().__init__(db, SHELF)

    async def use_model(self, model: str) -> None:
        """Queue everything again if the vectors were another model's. One transaction."""
        async with self._db.unit(NOBODY):
            await self._db.execute(NOBODY, LOCK_MODELS)
            row = await self._db.find(NOBODY, FIND_MODEL)
            if row is not None and row["model"] == model:
                return
            await self._db.execute(NOBODY, FORGET_MODELS)
            await self._db.execute(NOBODY, SET_MODEL, model)
            await self._db.execute(NOBODY, QUEUE_ALL, model)

    async def add_uses(self, uses: Sequence[tuple[UUID, UUID, int]]) -> list[Used]:
        """Count that they were used; as they stand now."""
        ordered = sorted(uses, key=lambda use: (use[0].int, use[1].int))
        rows = await self._db.fetch(NOBODY, ADD_USES, *(list(column) for column in zip(*ordered, strict=True)))
        return [Used(*row) for row in rows]
