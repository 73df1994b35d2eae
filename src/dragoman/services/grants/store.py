"""The SQL of grants: what was granted is never rewritten, only ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.rows import RowGroup, RowTable
from dragoman.services.audit.statements import Statements

Record = dict[str, Any]
_AFTER_ALL = UUID(int=2**128 - 1)

_STATE: LiteralString = """
CASE WHEN g.ended_at IS NOT NULL THEN 'ended' WHEN g.expires_at <= now() THEN 'expired' ELSE 'active' END"""
_GRANT: LiteralString = f"""
g.id AS grant_id, {_STATE} AS state, g.agent, g.on_behalf_of, g.actions, g.expires_at, g.reason, g.created_by,
g.created_at, g.ended_by, g.ended_at, g.end_reason"""
ADD: LiteralString = """
INSERT INTO grants (tenant_id, id, agent, on_behalf_of, actions, expires_at, reason, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
FIND: LiteralString = f"SELECT {_GRANT} FROM grants g WHERE g.tenant_id = $1 AND g.id = $2"
# `seen_by` is one who sees only the grants that they gave or were given.
LIST: LiteralString = f"""
SELECT {_GRANT} FROM grants g
WHERE g.tenant_id = $1 AND g.id < $3
  AND ($4::text IS NULL OR g.agent = $4)
  AND ($5::text IS NULL OR g.on_behalf_of = $5)
  AND ($6 OR {_STATE} = 'active')
  AND ($7::text IS NULL OR $7 IN (g.agent, g.on_behalf_of, g.created_by))
ORDER BY g.id DESC LIMIT $2"""
COVERS: LiteralString = """
SELECT g.id FROM grants g
WHERE g.tenant_id = $1 AND g.agent = $2 AND g.on_behalf_of = $3
  AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > now())
  AND (g.actions = '{}' OR EXISTS (
      SELECT FROM unnest(g.actions) AS p (pattern)
      WHERE p.pattern = $4 OR (right(p.pattern, 2) = '.*' AND starts_with($4, left(p.pattern, -1)))))
ORDER BY g.id LIMIT 1"""
END: LiteralString = """
UPDATE grants SET ended_at = now(), ended_by = $3, end_reason = $4
WHERE tenant_id = $1 AND id = $2 AND ended_at IS NULL"""
END_OF: LiteralString = """
UPDATE grants SET ended_at = now(), ended_by = $3, end_reason = $4
WHERE tenant_id = $1 AND $2 IN (agent, on_behalf_of) AND ended_at IS NULL RETURNING id"""

# What a grant promises; the audit trail is held against it.
PROMISED = RowGroup(
    ids="SELECT id FROM grants WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3",
    tables=(
        RowTable(
            "grants",
            """SELECT id AS key, agent, on_behalf_of, actions, expires_at, reason, created_by, ended_by, end_reason
               FROM grants WHERE tenant_id = $1 AND id = ANY ($2)""",
        ),
    ),
)


class GrantStore:
    """The grants of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def add(
        self,
        scope: Scope,
        grant_id: UUID,
        *,
        agent: str,
        on_behalf_of: str,
        actions: Sequence[str],
        expires_at: datetime | None,
        reason: str | None,
        by: str,
    ) -> None:
        """Record a grant."""
        async with self._db.unit(scope):
            await self._db.execute(
                scope, ADD, scope.tenant, grant_id, agent, on_behalf_of, list(actions), expires_at, reason, by
            )
            await self._statements.add(scope, "grant.add", grant_id)

    async def find(self, scope: Scope, grant_id: UUID) -> Record | None:
        """Return one grant."""
        row = await self._db.find(scope, FIND, scope.tenant, grant_id)
        return dict(row) if row is not None else None

    async def list_page(
        self,
        scope: Scope,
        limit: int,
        before: UUID | None,
        *,
        agent: str | None,
        on_behalf_of: str | None,
        ended: bool,
        seen_by: str | None,
    ) -> list[Record]:
        """Return some, newest first."""
        rows = await self._db.fetch(
            scope, LIST, scope.tenant, limit, before or _AFTER_ALL, agent, on_behalf_of, ended, seen_by
        )
        return [dict(row) for row in rows]

    async def find_covering(self, scope: Scope, agent: str, on_behalf_of: str, action: str) -> UUID | None:
        """Return an active grant by which the agent may do this for the person."""
        row = await self._db.find(scope, COVERS, scope.tenant, agent, on_behalf_of, action)
        return row["id"] if row is not None else None

    async def end(self, scope: Scope, grant_id: UUID, by: str, reason: str | None) -> bool:
        """End a grant; whether it had not ended before."""
        async with self._db.unit(scope):
            if not await self._db.execute(scope, END, scope.tenant, grant_id, by, reason):
                return False
            await self._statements.add(scope, "grant.end", grant_id)
        return True

    async def end_of(self, scope: Scope, subject: str, by: str, reason: str) -> None:
        """End every grant that a subject gave or was given."""
        async with self._db.unit(scope):
            for row in await self._db.fetch(scope, END_OF, scope.tenant, subject, by, reason):
                await self._statements.add(scope, "grant.end", row["id"])
