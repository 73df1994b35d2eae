"""The SQL of analyses: a tenant is due when a slice of it begins or ceases to be shown."""

from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

# Several periods of an import are one look. One whose process died is taken over.
TAKE: LiteralString = """
UPDATE cost_analyses a SET claimed_at = clock_timestamp()
FROM (
    SELECT tenant_id FROM cost_analyses
    WHERE due_at < clock_timestamp() - $1::int * interval '1 ms'
      AND (claimed_at IS NULL OR claimed_at < clock_timestamp() - interval '5 minutes')
    ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) due
WHERE a.tenant_id = due.tenant_id RETURNING a.tenant_id, a.due_at"""
# What was asked for meanwhile is still due.
DONE: LiteralString = """
UPDATE cost_analyses SET claimed_at = NULL, done_at = clock_timestamp(),
    due_at = CASE WHEN due_at > $2 THEN due_at END
WHERE tenant_id = $1"""
# One that fails lets others go first.
FAILED: LiteralString = """
UPDATE cost_analyses SET claimed_at = NULL, due_at = clock_timestamp() + interval '1 minute' WHERE tenant_id = $1"""
ASK: LiteralString = """
INSERT INTO cost_analyses (tenant_id, due_at) VALUES ($1, clock_timestamp())
ON CONFLICT (tenant_id) DO UPDATE SET due_at = excluded.due_at"""
HOLD: LiteralString = """
INSERT INTO cost_analyses (tenant_id, claimed_at) VALUES ($1, clock_timestamp())
ON CONFLICT (tenant_id) DO UPDATE SET claimed_at = excluded.claimed_at"""
DUE: LiteralString = "SELECT due_at FROM cost_analyses WHERE tenant_id = $1"
LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('cost-analysis:' || $1::text, 0))"
_EVERYONE = Scope()


class AnalysisStore:
    """Which tenants are to be analysed."""

    def __init__(self, db: Database, core_db: Database) -> None:
        self._db = db
        self._core_db = core_db

    async def take(self, settled_ms: int) -> tuple[UUID, datetime] | None:
        """Claim a tenant whose bills have not changed for so long, since when it is due; None when none is."""
        row = await self._core_db.find(_EVERYONE, TAKE, settled_ms)
        return (row["tenant_id"], row["due_at"]) if row else None

    async def finish(self, tenant: UUID, due_at: datetime) -> None:
        """Say that everything until this time was looked at."""
        await self._core_db.execute(_EVERYONE, DONE, tenant, due_at)

    async def put_off(self, tenant: UUID) -> None:
        """Have a tenant analysed again in a while, because it failed."""
        await self._core_db.execute(_EVERYONE, FAILED, tenant)

    async def ask(self, scope: Scope) -> None:
        """Make a tenant due."""
        await self._db.execute(scope, ASK, scope.tenant)

    async def hold(self, scope: Scope) -> None:
        """Keep a tenant from being analysed while its bills are being written, for minutes at most."""
        await self._db.execute(scope, HOLD, scope.tenant)

    async def find_due(self, scope: Scope) -> Any:
        """Return since when a tenant is due."""
        row = await self._db.find(scope, DUE, scope.tenant)
        return row["due_at"] if row else None

    async def lock(self, scope: Scope) -> None:
        """Keep others from analysing the tenant until the open unit ends."""
        await self._db.execute(scope, LOCK, str(scope.tenant))
