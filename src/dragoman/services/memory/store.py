"""The SQL of memories, as a tenant sees them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
Records = list[Record]
# When it held (None is now), which tags it has, which condition it fits.
Held = tuple[datetime | None, Sequence[str] | None, str | None]
_MEMORY: LiteralString = (
    "id AS memory_id, version, content, layer, ids, tags, metadata, importance, turn, source, accesses, created_at, "
    "valid_from, valid_to, expires_at"
)
_HOLDS: LiteralString = "memory_holds(m, $3) AND memory_fits(m, $4, $5::text::jsonpath)"

# What has expired no longer stands in the way of the same words.
END_EXPIRED: LiteralString = """
UPDATE memories SET valid_to = expires_at
WHERE tenant_id = $1 AND valid_to IS NULL AND expires_at <= now() AND (scope, content_sha) IN (
    SELECT row.scope, row.sha FROM unnest($2::text[], $3::bytea[]) AS row (scope, sha))"""
ADD: LiteralString = """
WITH given AS (
    SELECT * FROM jsonb_to_recordset($2) AS row (
        id uuid, layer text, scope text, user_id text, ids jsonb, content text, sha text, tags text[], metadata jsonb,
        importance real, turn int, source jsonb, valid_from timestamptz, expires_at timestamptz)
), added AS (
    INSERT INTO memories (tenant_id, id, layer, scope, user_id, ids, content, content_sha, words, tags, metadata,
                          importance, turn, source, valid_from, expires_at)
    SELECT $1, id, layer, scope, user_id, ids, content, decode(sha, 'hex'),
           to_tsvector('english', content || ' ' || array_to_string(tags, ' ')), tags, metadata, importance,
           coalesce(turn, CASE WHEN layer = 'session' THEN row_number() OVER (PARTITION BY scope ORDER BY id) + (
               SELECT coalesce(max(m.turn), 0) FROM memories m WHERE m.tenant_id = $1 AND m.scope = given.scope) END),
           source, coalesce(valid_from, now()), expires_at
    FROM given ORDER BY scope, sha  -- the order of locks, in every process
    ON CONFLICT (tenant_id, scope, content_sha) WHERE valid_to IS NULL DO UPDATE
    SET tags = ARRAY(SELECT DISTINCT unnest(memories.tags || excluded.tags) ORDER BY 1),
        words = memories.words || excluded.words,
        metadata = memories.metadata || excluded.metadata,
        importance = greatest(memories.importance, excluded.importance),
        expires_at = CASE WHEN memories.expires_at IS NULL OR excluded.expires_at IS NULL THEN NULL
                          ELSE greatest(memories.expires_at, excluded.expires_at) END
    RETURNING id, version, scope, content_sha
), fresh AS (
    INSERT INTO memory_pending (tenant_id, memory_id, version)
    SELECT $1, id, version FROM added WHERE id IN (SELECT id FROM given) RETURNING memory_id
)
SELECT id, scope, encode(content_sha, 'hex') AS sha, id IN (SELECT memory_id FROM fresh) AS fresh FROM added"""
FIND: LiteralString = (
    f"SELECT {_MEMORY}, user_id, accessed_at FROM memories WHERE tenant_id = $1 AND id = $2 AND valid_to IS NULL"
)
HISTORY: LiteralString = f"SELECT {_MEMORY}, user_id FROM memories WHERE tenant_id = $1 AND id = $2 ORDER BY version"
# The version that holds ends where the next begins, in one statement: nobody sees neither or both.
REPLACE: LiteralString = """
WITH ended AS (
    UPDATE memories SET valid_to = greatest(now(), valid_from)
    WHERE tenant_id = $1 AND id = $2 AND valid_to IS NULL
    RETURNING *
), added AS (
    INSERT INTO memories (tenant_id, id, version, layer, scope, user_id, ids, content, content_sha, words, tags,
                          metadata, importance, turn, source, accesses, accessed_at, created_at, valid_from, expires_at)
    SELECT tenant_id, id, version + 1, layer, scope, user_id, ids, $3, $4,
           to_tsvector('english', $3 || ' ' || array_to_string($5::text[], ' ')), $5, $6, $7, turn, $8, accesses,
           accessed_at, created_at, valid_to, $9
    FROM ended
    RETURNING id, version
), queued AS (
    INSERT INTO memory_pending (tenant_id, memory_id, version) SELECT $1, id, version FROM added
)
SELECT version FROM added"""
NOTE_PROMOTION: LiteralString = """
UPDATE memories SET promotion = $3 WHERE tenant_id = $1 AND id = $2 AND valid_to IS NULL"""
SAME: LiteralString = """
SELECT m.id FROM memories m JOIN memories own ON own.tenant_id = $1 AND own.id = $2 AND own.valid_to IS NULL
WHERE m.tenant_id = $1 AND m.scope = own.scope AND m.content_sha = $3 AND m.valid_to IS NULL AND m.id <> $2"""
FORGET_PENDING: LiteralString = "DELETE FROM memory_pending WHERE tenant_id = $1 AND memory_id = $2"
FORGET_VECTORS: LiteralString = "DELETE FROM memory_vectors WHERE tenant_id = $1 AND memory_id = $2"
FORGET: LiteralString = "DELETE FROM memories WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_MEMORY} FROM memories m WHERE tenant_id = $1 AND scope = ANY($2) AND {_HOLDS}
  AND ($6::uuid IS NULL OR id < $6) ORDER BY id DESC LIMIT $7"""
EXPORT: LiteralString = f"""
SELECT {_MEMORY} FROM memories m WHERE tenant_id = $1 AND scope = ANY($2) AND memory_holds(m, NULL)
  AND ($3::uuid IS NULL OR id > $3) ORDER BY id LIMIT $4"""
MATCH_WORDS: LiteralString = """
SELECT memory_id, version, score FROM memory_match_words($1, $2, $3, $4, $5::text::jsonpath, $6)"""
MATCH_MEANING: LiteralString = """
SELECT memory_id, version, cosine
FROM memory_match_meaning($1::text::halfvec, $2, $3, $4, $5, $6::text::jsonpath, $7)"""
# The limits keep the planner from reading the whole table for a handful of rows.
HYDRATE: LiteralString = f"""
SELECT m.* FROM unnest($2::uuid[], $3::int[]) AS wanted (id, version) CROSS JOIN LATERAL (
    SELECT {_MEMORY}, scope FROM memories m
    WHERE m.tenant_id = $1 AND m.id = wanted.id AND m.version = wanted.version LIMIT 1) m"""
NEIGHBOURS: LiteralString = f"""
SELECT m.* FROM unnest($2::text[], $6::int[]) AS beside (scope, turn) CROSS JOIN LATERAL (
    SELECT {_MEMORY}, scope FROM memories m
    WHERE m.tenant_id = $1 AND m.scope = beside.scope AND m.turn = beside.turn AND {_HOLDS} LIMIT 2) m"""
NEAR_PAIRS: LiteralString = """
SELECT a.memory_id AS one, b.memory_id AS other
FROM memory_vectors a JOIN memory_vectors b ON b.tenant_id = $1 AND b.memory_id > a.memory_id AND b.model = a.model
WHERE a.tenant_id = $1 AND a.memory_id = ANY($2) AND b.memory_id = ANY($2)
  AND 1 - (a.embedding <=> b.embedding) >= $3"""


class MemoryStore:
    """Each method is one statement in the tenant's scope, unless it says otherwise."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, scope: Scope, rows: Sequence[Record]) -> dict[tuple[str, str], tuple[UUID, bool]]:
        """By scope and hash: the id, and whether it is new; one transaction. No two rows have the same key."""
        async with self._db.unit(scope):
            shas = [bytes.fromhex(row["sha"]) for row in rows]
            await self._db.execute(scope, END_EXPIRED, scope.tenant, [row["scope"] for row in rows], shas)
            added = await self._db.fetch(scope, ADD, scope.tenant, [*rows])
        return {(row["scope"], row["sha"]): (row["id"], row["fresh"]) for row in added}

    async def find(self, scope: Scope, memory_id: UUID) -> Record | None:
        """The version that holds, expired or not."""
        row = await self._db.find(scope, FIND, scope.tenant, memory_id)
        return dict(row) if row else None

    async def history(self, scope: Scope, memory_id: UUID) -> Records:
        """Every version, oldest first."""
        return [dict(row) for row in await self._db.fetch(scope, HISTORY, scope.tenant, memory_id)]

    async def replace(self, scope: Scope, memory_id: UUID, *values: Any) -> int | None:
        """The number of the new version; values: content, sha, tags, metadata, importance, source, expires_at."""
        row = await self._db.find(scope, REPLACE, scope.tenant, memory_id, *values)
        return row["version"] if row else None

    async def note_promotion(self, scope: Scope, memory_id: UUID, outcome: str) -> None:
        """Write down what became of it, for the version that holds."""
        await self._db.execute(scope, NOTE_PROMOTION, scope.tenant, memory_id, outcome)

    async def find_same(self, scope: Scope, memory_id: UUID, sha: bytes) -> UUID | None:
        """Another memory in the same place that says exactly this."""
        row = await self._db.find(scope, SAME, scope.tenant, memory_id, sha)
        return row["id"] if row else None

    async def forget(self, scope: Scope, memory_id: UUID, *, vectors: bool) -> bool:
        """Remove every version and what was made of it, in one transaction; False when there was none."""
        async with self._db.unit(scope):
            await self._db.execute(scope, FORGET_PENDING, scope.tenant, memory_id)
            if vectors:
                await self._db.execute(scope, FORGET_VECTORS, scope.tenant, memory_id)
            return await self._db.execute(scope, FORGET, scope.tenant, memory_id) > 0

    async def list(
        self,
        scope: Scope,
        scopes: Sequence[str],
        held: Held,
        *,
        before: UUID | None,
        limit: int,
    ) -> Records:
        """Newest first; `held` is when, with which tags and under which condition."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, scopes, *held, before, limit)
        return [dict(row) for row in rows]

    async def export(self, scope: Scope, scopes: Sequence[str], *, after: UUID | None, limit: int) -> Records:
        """Oldest first."""
        return [dict(row) for row in await self._db.fetch(scope, EXPORT, scope.tenant, scopes, after, limit)]

    async def match_words(
        self,
        scope: Scope,
        query: str,
        scopes: Sequence[str],
        held: Held,
        most: int,
    ) -> Sequence[Any]:
        """Versions that share words with the query, with the share of the query that they cover."""
        return await self._db.fetch(scope, MATCH_WORDS, query, scopes, *held, most)

    async def match_meaning(
        self,
        scope: Scope,
        vector: tuple[str, str],
        scopes: Sequence[str],
        held: Held,
        most: int,
    ) -> Sequence[Any]:
        """Versions near a vector (given as text, with its model), with their cosines."""
        return await self._db.fetch(scope, MATCH_MEANING, *vector, scopes, *held, most)

    async def hydrate(self, scope: Scope, versions: Sequence[tuple[UUID, int]]) -> Records:
        """These versions, whole."""
        ids, numbers = [pair[0] for pair in versions], [pair[1] for pair in versions]
        return [dict(row) for row in await self._db.fetch(scope, HYDRATE, scope.tenant, ids, numbers)]

    async def neighbours(
        self,
        scope: Scope,
        turns: Sequence[tuple[str, int]],
        held: Held,
    ) -> Records:
        """What was said at these turns of these conversations."""
        scopes, numbers = [pair[0] for pair in turns], [pair[1] for pair in turns]
        return [dict(row) for row in await self._db.fetch(scope, NEIGHBOURS, scope.tenant, scopes, *held, numbers)]

    async def near_pairs(self, scope: Scope, ids: Sequence[UUID], least_cosine: float) -> frozenset[frozenset[UUID]]:
        """Which of these are as near to each other as that."""
        rows = await self._db.fetch(scope, NEAR_PAIRS, scope.tenant, [*ids], least_cosine)
        return frozenset(frozenset((row["one"], row["other"])) for row in rows)
