"""The SQL of the index of knowledge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]

_SUMMARY: LiteralString = "id, type, layer, layer_id, title, summary, status, tags, updated_at"
_WHOLE: LiteralString = f"""{_SUMMARY}, severity, content, content_hash, constraints, metadata, supersedes,
superseded_by, links, version, commit, path, branch, created_at"""
_CHOSEN: LiteralString = """tenant_id = $1 AND NOT shadowed AND status = ANY($2::text[])
  AND ($3::text IS NULL OR type = $3) AND ($4::text IS NULL OR layer = $4)
  AND ($5::text IS NULL OR layer_id = $5) AND tags @> $6::text[]"""

LOCK: LiteralString = """
SELECT set_config('lock_timeout', '20s', true),
       pg_advisory_xact_lock(hashtextextended('knowledge:' || $1::uuid::text, 0))"""
REPOSITORY: LiteralString = """
INSERT INTO knowledge_repositories (tenant_id) VALUES ($1)
ON CONFLICT (tenant_id) DO UPDATE SET tenant_id = excluded.tenant_id
RETURNING remote, branch, indexed, indexing, synced, synced_at"""
FIND_REPOSITORY: LiteralString = """
SELECT remote, branch, indexed, indexing, synced, synced_at FROM knowledge_repositories WHERE tenant_id = $1"""
AIM: LiteralString = "UPDATE knowledge_repositories SET indexing = $2 WHERE tenant_id = $1"
ARRIVE: LiteralString = "UPDATE knowledge_repositories SET indexed = $2 WHERE tenant_id = $1 AND indexing = $2"
SYNCED: LiteralString = """
UPDATE knowledge_repositories SET remote = $2, branch = $3, synced = $4, synced_at = now() WHERE tenant_id = $1"""

KNOWN: LiteralString = """
SELECT path, blob FROM knowledge_items WHERE tenant_id = $1 AND branch = $2
UNION ALL
SELECT path, blob FROM knowledge_problems WHERE tenant_id = $1 AND $2 = 'main' AND kind = 'malformed'"""
AT_PATHS: LiteralString = """
SELECT path, id, type, status, content_hash, created_at FROM knowledge_items
WHERE tenant_id = $1 AND branch = $2 AND path = ANY($3::text[])"""
BRANCHES: LiteralString = """
SELECT DISTINCT branch, commit FROM knowledge_items WHERE tenant_id = $1 AND branch <> 'main'"""
REMOVE: LiteralString = """
DELETE FROM knowledge_items WHERE tenant_id = $1 AND branch = $2 AND path = ANY($3::text[])"""
REMOVE_BRANCHES: LiteralString = "DELETE FROM knowledge_items WHERE tenant_id = $1 AND branch = ANY($2::text[])"
PUT: LiteralString = """
INSERT INTO knowledge_items (tenant_id, branch, path, blob, id, type, layer, layer_id, title, summary, status, severity,
    tags, content, content_hash, constraints, metadata, supersedes, superseded_by, links, version, commit, created_at,
    updated_at, search)
SELECT $1, $2, r.path, r.blob, r.id, r.type, r.layer, r.layer_id, r.title, r.summary, r.status, r.severity, r.tags,
    r.content, r.content_hash, r.constraints, r.metadata, r.supersedes, r.superseded_by, r.links, r.version, r.commit,
    r.created_at, r.updated_at,
    setweight(to_tsvector('english', concat_ws(' ', r.title, replace(r.id, '-', ' '), array_to_string(r.tags, ' '))),
              'A')
    || setweight(to_tsvector('english', r.summary), 'B') || setweight(to_tsvector('english', r.content), 'C')
FROM jsonb_to_recordset($3) AS r(path text, blob text, id text, type text, layer text, layer_id text, title text,
    summary text, status text, severity text, tags text[], content text, content_hash text, constraints jsonb,
    metadata jsonb, supersedes text[], superseded_by text, links text[], version int, commit text,
    created_at timestamptz, updated_at timestamptz)
ON CONFLICT (tenant_id, branch, path) DO UPDATE SET
    blob = excluded.blob, id = excluded.id, type = excluded.type, layer = excluded.layer, layer_id = excluded.layer_id,
    title = excluded.title, summary = excluded.summary, status = excluded.status, severity = excluded.severity,
    tags = excluded.tags, content = excluded.content, content_hash = excluded.content_hash,
    constraints = excluded.constraints, metadata = excluded.metadata, supersedes = excluded.supersedes,
    superseded_by = excluded.superseded_by, links = excluded.links, version = excluded.version,
    commit = excluded.commit, created_at = excluded.created_at, updated_at = excluded.updated_at,
    search = excluded.search"""
QUEUE: LiteralString = """
INSERT INTO knowledge_pending (tenant_id, blob) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING"""
SHADOW: LiteralString = """
UPDATE knowledge_items AS i SET shadowed = i.path <> first.path
FROM (SELECT id, min(path) AS path FROM knowledge_items WHERE tenant_id = $1 AND branch = 'main' GROUP BY id) AS first
WHERE i.tenant_id = $1 AND i.branch = 'main' AND i.id = first.id AND i.shadowed <> (i.path <> first.path)"""

FORGET_PROBLEMS: LiteralString = "DELETE FROM knowledge_problems WHERE tenant_id = $1 AND path = ANY($2::text[])"
PUT_PROBLEMS: LiteralString = """
INSERT INTO knowledge_problems (tenant_id, path, kind, blob, line, item_id, message)
SELECT $1, r.path, r.kind, r.blob, r.line, r.item_id, r.message
FROM jsonb_to_recordset($2) AS r(path text, kind text, blob text, line int, item_id text, message text)
ON CONFLICT (tenant_id, path, kind) DO UPDATE
SET blob = excluded.blob, line = excluded.line, item_id = excluded.item_id, message = excluded.message"""
# Both depend on files other than the one they are found in, so they are found anew.
FORGET_CROSSING: LiteralString = """
DELETE FROM knowledge_problems WHERE tenant_id = $1 AND kind IN ('duplicate_pointer', 'orphaned_pointer')"""
FIND_DUPLICATES: LiteralString = """
INSERT INTO knowledge_problems (tenant_id, path, kind, blob, line, item_id, message)
SELECT $1, i.path, 'duplicate_pointer', i.blob, 1, i.id, 'the id ' || i.id || ' belongs to ' || o.path
FROM knowledge_items i JOIN knowledge_items o USING (tenant_id, branch, id)
WHERE i.tenant_id = $1 AND i.branch = 'main' AND i.shadowed AND NOT o.shadowed ON CONFLICT DO NOTHING"""
FIND_ORPHANS: LiteralString = """
INSERT INTO knowledge_problems (tenant_id, path, kind, blob, line, item_id, message)
SELECT $1, i.path, 'orphaned_pointer', i.blob, 1, i.id, 'refers to ' || string_agg(p.ref, ', ') || ', which is not here'
FROM knowledge_items i, unnest(i.supersedes || i.links || array_remove(ARRAY[i.superseded_by], NULL)) AS p(ref)
WHERE i.tenant_id = $1 AND i.branch = 'main'
  AND NOT EXISTS (SELECT 1 FROM knowledge_items o WHERE o.tenant_id = $1 AND o.id = p.ref)
GROUP BY i.path, i.blob, i.id ON CONFLICT DO NOTHING"""
PROBLEMS: LiteralString = """
SELECT path, kind, line, item_id, message FROM knowledge_problems WHERE tenant_id = $1 ORDER BY path, kind LIMIT $2"""
PROBLEMS_OF_KIND: LiteralString = """
SELECT path, line, message FROM knowledge_problems WHERE tenant_id = $1 AND kind = $2 ORDER BY path"""

FIND: LiteralString = f"""
SELECT {_WHOLE} FROM knowledge_items WHERE tenant_id = $1 AND id = $2 AND NOT shadowed
ORDER BY branch <> 'main', branch LIKE 'rejected/%', branch"""
RULES: LiteralString = """
SELECT DISTINCT ON (id) id, title, type, layer, severity, constraints FROM knowledge_items
WHERE tenant_id = $1 AND NOT shadowed AND ($2::text[] IS NULL AND status = 'accepted' AND branch = 'main'
      OR id = ANY($2::text[]))
ORDER BY id, branch <> 'main', branch LIKE 'rejected/%'"""
COUNTS: LiteralString = """
SELECT status, count(*) AS items FROM knowledge_items WHERE tenant_id = $1 AND NOT shadowed GROUP BY status"""
LATEST: LiteralString = f"""
SELECT {_SUMMARY}, branch, 1.0::float8 AS score, count(*) OVER () AS total FROM knowledge_items WHERE {_CHOSEN}
ORDER BY status <> 'accepted', updated_at DESC, id LIMIT $7"""
# A word of the question that is found counts most; where it stands and how often decides between equals.
MATCH_WORDS: LiteralString = f"""
WITH asked AS (
    SELECT array_agg(quote_literal(word)::tsquery) AS words,
           string_agg(quote_literal(word), ' | ')::tsquery AS any_word
    FROM unnest(tsvector_to_array(to_tsvector('english', $8))) AS word
), found AS (
    SELECT {_SUMMARY}, branch, search, count(*) OVER () AS total, ts_rank_cd(search, any_word, 32) AS rank, words
    FROM knowledge_items, asked WHERE {_CHOSEN} AND search @@ any_word ORDER BY rank DESC LIMIT 500
)
SELECT {_SUMMARY}, branch, total,
       round((0.75 * (SELECT avg((search @@ word)::int) FROM unnest(words) AS word) + 0.25 * rank)::numeric, 4)::float8
       AS words
FROM found ORDER BY words DESC, status <> 'accepted', updated_at DESC, id LIMIT $7"""
# Compared one by one: a tenant has thousands of documents, not millions.
MATCH_MEANING: LiteralString = f"""
SELECT {_SUMMARY}, branch, (1 - (embedding <=> $8::halfvec))::float8 AS cosine
FROM knowledge_items JOIN knowledge_vectors USING (tenant_id, blob)
WHERE {_CHOSEN} AND model = $9 AND embedding <=> $8::halfvec <= 1 - $10::float8 ORDER BY cosine DESC, id LIMIT $7"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which items a question is about."""

    statuses: Sequence[str]
    item_type: str | None
    layer: str | None
    layer_id: str | None
    tags: Sequence[str]

    def arguments(self, scope: Scope, limit: int) -> tuple[Any, ...]:
        """For the statements that choose."""
        return scope.tenant, list(self.statuses), self.item_type, self.layer, self.layer_id, list(self.tags), limit


class KnowledgeStore:
    """Each method is one statement, or one transaction of a few, in the given scope."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def lock(self, scope: Scope) -> None:
        """Wait until nobody else changes this tenant's repository or index; until the end of the unit of work."""
        await self._db.execute(scope, LOCK, scope.tenant)

    async def repository(self, scope: Scope) -> Record:
        """How the repository stands; it is entered when it is new."""
        return dict(await self._db.find(scope, REPOSITORY, scope.tenant) or {})

    async def find_repository(self, scope: Scope) -> Record | None:
        """How the repository stands, if there is one."""
        row = await self._db.find(scope, FIND_REPOSITORY, scope.tenant)
        return dict(row) if row else None

    async def aim(self, scope: Scope, head: str) -> None:
        """Say which commit the index is on its way to."""
        await self._db.execute(scope, AIM, scope.tenant, head)

    async def synced(self, scope: Scope, remote: str, branch: str, commit: str | None) -> None:
        """Remember where knowledge came from."""
        await self._db.execute(scope, SYNCED, scope.tenant, remote, branch, commit)

    async def known(self, scope: Scope, branch: str) -> dict[str, str]:
        """The files that the index shows of a branch, with the ids of their contents."""
        return {row["path"]: row["blob"] for row in await self._db.fetch(scope, KNOWN, scope.tenant, branch)}

    async def at_paths(self, scope: Scope, branch: str, paths: Sequence[str]) -> dict[str, Record]:
        """What the index shows at these paths until now."""
        rows = await self._db.fetch(scope, AT_PATHS, scope.tenant, branch, list(paths))
        return {row["path"]: dict(row) for row in rows}

    async def branches(self, scope: Scope) -> dict[str, str]:
        """The branches of proposals that the index shows, with their commits."""
        return {row["branch"]: row["commit"] for row in await self._db.fetch(scope, BRANCHES, scope.tenant)}

    async def put(self, scope: Scope, branch: str, items: list[Record], problems: list[Record]) -> None:
        """Show these items of a branch, and what is wrong with these files."""
        async with self._db.unit(scope):
            paths = [row["path"] for row in (*items, *problems)]
            await self._db.execute(scope, FORGET_PROBLEMS, scope.tenant, paths)
            malformed = [row["path"] for row in problems if row["kind"] == "malformed"]
            await self._db.execute(scope, REMOVE, scope.tenant, branch, malformed)
            await self._db.execute(scope, PUT, scope.tenant, branch, items)
            await self._db.execute(scope, QUEUE, scope.tenant, [row["blob"] for row in items])
            await self._db.execute(scope, PUT_PROBLEMS, scope.tenant, problems)

    async def remove(self, scope: Scope, branch: str, paths: Sequence[str]) -> None:
        """Files that are gone."""
        async with self._db.unit(scope):
            await self._db.execute(scope, REMOVE, scope.tenant, branch, list(paths))
            await self._db.execute(scope, FORGET_PROBLEMS, scope.tenant, list(paths))

    async def remove_branches(self, scope: Scope, branches: Sequence[str]) -> None:
        """Proposals that are gone."""
        await self._db.execute(scope, REMOVE_BRANCHES, scope.tenant, list(branches))

    async def arrive(self, scope: Scope, head: str) -> None:
        """The index shows this commit: settle what depends on several files."""
        async with self._db.unit(scope):
            await self._db.execute(scope, SHADOW, scope.tenant)
            await self._db.execute(scope, FORGET_CROSSING, scope.tenant)
            await self._db.execute(scope, FIND_DUPLICATES, scope.tenant)
            await self._db.execute(scope, FIND_ORPHANS, scope.tenant)
            await self._db.execute(scope, ARRIVE, scope.tenant, head)

    async def problems(self, scope: Scope, limit: int) -> list[Record]:
        """What is wrong with which file."""
        return [dict(row) for row in await self._db.fetch(scope, PROBLEMS, scope.tenant, limit)]

    async def problems_of_kind(self, scope: Scope, kind: str) -> list[Record]:
        """All files with this problem."""
        return [dict(row) for row in await self._db.fetch(scope, PROBLEMS_OF_KIND, scope.tenant, kind)]

    async def find(self, scope: Scope, item_id: str) -> list[Record]:
        """An item as each branch has it: the main branch first, then its proposal, then what was rejected."""
        return [dict(row) for row in await self._db.fetch(scope, FIND, scope.tenant, item_id)]

    async def rules(self, scope: Scope, item_ids: Sequence[str] | None) -> list[Record]:
        """The constraints of these items, or of all that are accepted."""
        ids = list(item_ids) if item_ids is not None else None
        return [dict(row) for row in await self._db.fetch(scope, RULES, scope.tenant, ids)]

    async def counts(self, scope: Scope) -> dict[str, int]:
        """How many items there are in each status."""
        return {row["status"]: row["items"] for row in await self._db.fetch(scope, COUNTS, scope.tenant)}

    async def latest(self, scope: Scope, chosen: Chosen, limit: int) -> list[Record]:
        """The items that fit, those in force and the newest first, each with how many there are."""
        return [dict(row) for row in await self._db.fetch(scope, LATEST, *chosen.arguments(scope, limit))]

    async def match_words(self, scope: Scope, question: str, chosen: Chosen, limit: int) -> list[Record]:
        """Those that share words with the question, best first, each with how well and how many there are."""
        rows = await self._db.fetch(scope, MATCH_WORDS, *chosen.arguments(scope, limit), question)
        return [dict(row) for row in rows]

    async def match_meaning(
        self, scope: Scope, vector: tuple[str, str], chosen: Chosen, least: float, limit: int
    ) -> list[Record]:
        """Those whose vectors are as near to the question's, nearest first, each with its cosine."""
        rows = await self._db.fetch(scope, MATCH_MEANING, *chosen.arguments(scope, limit), *vector, least)
        return [dict(row) for row in rows]
