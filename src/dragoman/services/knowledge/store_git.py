"""The SQL of the repositories: branches and pack files of git as rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.rows import Columns, RowGroup, RowTable
from dragoman.services.audit.statements import Statements
from dragoman.services.knowledge.errors import Moved
from dragoman.services.knowledge.store import LOCK

STATE: LiteralString = """
SELECT coalesce(r.kept, false) AS kept, f.target AS head, r.indexed,
       NOT coalesce(r.kept, false) AND (r.indexed IS NOT NULL
           OR EXISTS (SELECT 1 FROM knowledge_items i WHERE i.tenant_id = $1)) AS elsewhere,
       coalesce(r.kept, false) AND f.target IS NULL AND (r.indexed IS NOT NULL
           OR EXISTS (SELECT 1 FROM knowledge_items i WHERE i.tenant_id = $1 AND i.branch = 'main')) AS lost
FROM (SELECT $1::uuid AS tenant_id) AS t LEFT JOIN knowledge_repositories r USING (tenant_id)
     LEFT JOIN knowledge_refs f ON f.tenant_id = t.tenant_id AND f.name = 'main'"""
REFS: LiteralString = "SELECT name, target FROM knowledge_refs WHERE tenant_id = $1"
# One statement, and so one moment: the packs have whatever the branches reach.
READ: LiteralString = """
SELECT name, target, NULL::int AS objects, NULL::bytea AS pack, NULL::bytea AS idx
FROM knowledge_refs WHERE tenant_id = $1
UNION ALL
SELECT name, NULL, objects, CASE WHEN name = ANY($2::text[]) THEN NULL ELSE pack END,
       CASE WHEN name = ANY($2::text[]) THEN NULL ELSE idx END
FROM knowledge_packs WHERE tenant_id = $1"""
KEEP: LiteralString = """
INSERT INTO knowledge_repositories (tenant_id, kept) VALUES ($1, true)
ON CONFLICT (tenant_id) DO UPDATE SET kept = true WHERE NOT knowledge_repositories.kept"""
ADD_REF: LiteralString = """
INSERT INTO knowledge_refs (tenant_id, name, target) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"""
MOVE_REF: LiteralString = """
UPDATE knowledge_refs SET target = $3 WHERE tenant_id = $1 AND name = $2 AND target = $4"""
DROP_REF: LiteralString = "DELETE FROM knowledge_refs WHERE tenant_id = $1 AND name = $2 AND target = $3"
ADD_PACK: LiteralString = """
INSERT INTO knowledge_packs (tenant_id, name, objects, pack, idx) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"""
DROP_PACKS: LiteralString = "DELETE FROM knowledge_packs WHERE tenant_id = $1 AND name = ANY($2::text[])"

# What the branches promise: policies are what their commits say, and git checks that. A branch of an earlier release is
# stated when it moves.
PROMISED = RowGroup(
    ids="""SELECT $1::uuid AS id WHERE $1::uuid > $2::uuid
           AND EXISTS (SELECT FROM knowledge_refs WHERE tenant_id = $1) LIMIT $3""",
    tables=(
        RowTable(
            "knowledge_refs",
            """SELECT tenant_id || '/' || name AS key, target
               FROM knowledge_refs WHERE tenant_id = $1 AND tenant_id = ANY ($2)""",
            complete=False,
        ),
    ),
)

# How files of packs that are rows begin in a cache.
PREFIX = "pack-row-"
# Where a branch was, and where it is to be; None is nowhere.
Moves = Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True, slots=True)
class Kept:
    """How a tenant's repository is kept: in the rows, or, `elsewhere`, in the directory of some server as before.

    `lost` is one whose main branch is gone from the rows, as it never goes by itself.
    """

    kept: bool
    head: str | None
    indexed: str | None
    elsewhere: bool
    lost: bool


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack file of git and its index; `data` is None where the reader has it already."""

    name: str
    objects: int
    data: tuple[bytes, bytes] | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Branches, and packs with all that they reach."""

    refs: dict[str, str]
    packs: tuple[Pack, ...]


class GitStore:
    """Branches and packs of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def lock(self, scope: Scope) -> None:
        """Wait until nobody else changes this tenant's repository or index; until the end of the unit of work."""
        await self._db.execute(scope, LOCK, scope.tenant)

    async def state(self, scope: Scope) -> Kept:
        """Say how the repository is kept and where its main branch is."""
        row = await self._db.find(scope, STATE, scope.tenant)
        return Kept(**dict(row or {}))

    async def refs(self, scope: Scope) -> dict[str, str]:
        """Return the branches with their commits."""
        return {row["name"]: row["target"] for row in await self._db.fetch(scope, REFS, scope.tenant)}

    async def read(self, scope: Scope, known: Iterable[str]) -> Snapshot:
        """Return the branches and the packs, without the bytes of those that are known."""
        rows = await self._db.fetch(scope, READ, scope.tenant, list(known))
        return Snapshot(
            {row["name"]: row["target"] for row in rows if row["target"] is not None},
            tuple(
                Pack(row["name"], row["objects"], (row["pack"], row["idx"]) if row["pack"] is not None else None)
                for row in rows
                if row["target"] is None
            ),
        )

    async def keep(self, scope: Scope) -> None:
        """Say that from now on the rows are the repository."""
        await self._db.execute(scope, KEEP, scope.tenant)

    async def apply(self, scope: Scope, moves: Moves, pack: Pack | None, replaced: Sequence[str]) -> None:
        """Add a pack in the place of others, and move branches from where they were.

        Raises:
            Moved: a branch was elsewhere.
        """
        async with self._db.unit(scope):
            if pack is not None and pack.data is not None:
                await self._db.execute(scope, ADD_PACK, scope.tenant, pack.name, pack.objects, *pack.data)
                await self._db.execute(
                    scope, DROP_PACKS, scope.tenant, [name for name in replaced if name != pack.name]
                )
            for name, (old, new) in moves.items():
                if not await self._move(scope, name, old, new):
                    raise Moved
            if moves:
                stated: dict[str, Columns | None] = {
                    f"knowledge_refs/{scope.tenant}/{name}": {"target": new} if new is not None else None
                    for name, (_, new) in moves.items()
                }
                await self._statements.add_rows(scope, "knowledge.move", str(scope.tenant), stated)

    async def _move(self, scope: Scope, name: str, old: str | None, new: str | None) -> int:
        if new is None:
            return await self._db.execute(scope, DROP_REF, scope.tenant, name, old)
        if old is None:
            return await self._db.execute(scope, ADD_REF, scope.tenant, name, new)
        return await self._db.execute(scope, MOVE_REF, scope.tenant, name, new, old)
