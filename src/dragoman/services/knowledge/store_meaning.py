"""The SQL of the vectors of documents."""

from typing import Final, LiteralString

from dragoman.infra.db import NOBODY, Database
from dragoman.infra.embeddings import Shelf, VectorQueue

FORGET_STALE: LiteralString = """
DELETE FROM knowledge_vectors v
WHERE NOT EXISTS (SELECT FROM knowledge_items i WHERE i.tenant_id = v.tenant_id AND i.blob = v.blob)"""
QUEUE_ALL: LiteralString = """
INSERT INTO knowledge_pending (tenant_id, blob)
SELECT DISTINCT i.tenant_id, i.blob FROM knowledge_items i
WHERE NOT EXISTS (SELECT FROM knowledge_vectors v
                  WHERE v.tenant_id = i.tenant_id AND v.blob = i.blob AND v.model = $1)
ON CONFLICT DO NOTHING"""
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
SHELF: Final = Shelf(
    pending="knowledge_pending",
    vectors="knowledge_vectors",
    key="blob",
    rows="unnest($1::uuid[], $2::text[])",
    content="""
        SELECT concat_ws(E'\\n', title, array_to_string(tags, ' '), content) AS content FROM knowledge_items i
        WHERE i.tenant_id = k.tenant_id AND i.blob = k.blob LIMIT 1""",
    settle=SETTLE,
    keep=KEEP,
)


class VectorStore(VectorQueue):
    """Works for all tenants at once, in the role that may."""

    def __init__(self, db: Database) -> None:
        super().__init__(db, SHELF)

    async def use_model(self, model: str) -> None:
        """Queue what has no vector of this model, and forget vectors of what is gone. One transaction."""
        async with self._db.unit(NOBODY):
            await self._db.execute(NOBODY, FORGET_STALE)
            await self._db.execute(NOBODY, QUEUE_ALL, model)
