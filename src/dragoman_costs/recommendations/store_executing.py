"""The SQL of carrying out recommendations: who does it, and what came of it."""

from collections.abc import Sequence
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
# The attempt goes on where an earlier call left it before there was a task.
BEGIN: LiteralString = """
UPDATE cost_recommendations SET executing_at = coalesce(executing_at, now()), executing_by = coalesce(executing_by, $3),
    attempt = attempt + (executing_at IS NULL)::int, last_error = NULL, checked_at = NULL
WHERE tenant_id = $1 AND id = $2 RETURNING attempt, executing_by"""
# The first task that comes is the one that carries it out.
CLAIM: LiteralString = """
UPDATE cost_recommendations SET task_id = $3
WHERE tenant_id = $1 AND id = $2 AND executing_at IS NOT NULL AND (task_id IS NULL OR task_id = $3)"""
GIVE_UP: LiteralString = """
UPDATE cost_recommendations SET executing_at = NULL, executing_by = NULL, task_id = NULL, last_error = $3,
    plan = coalesce($4, plan)
WHERE tenant_id = $1 AND id = $2 AND executing_at IS NOT NULL AND task_id IS NOT DISTINCT FROM $5"""
FINISH: LiteralString = """
UPDATE cost_recommendations SET status = 'executed', executed_at = $3, executed_by = $4, executed_task = $5,
    outcome = $6, executing_at = NULL, task_id = NULL, plan = NULL, last_error = NULL
WHERE tenant_id = $1 AND id = $2 AND executing_at IS NOT NULL AND task_id = $5"""
ACCOUNT: LiteralString = "SELECT identifier FROM cost_accounts WHERE tenant_id = $1 AND id = $2"
# Each is looked at soon after it began and ever more seldom, because an approval may take days.
UNDER_WAY: LiteralString = """
UPDATE cost_recommendations r SET checked_at = now()
FROM (
    SELECT tenant_id, id FROM cost_recommendations
    WHERE executing_at IS NOT NULL AND task_id IS NOT NULL
      AND (checked_at IS NULL OR checked_at < now() - least(interval '30 s', (checked_at - executing_at) / 4))
    ORDER BY checked_at NULLS FIRST LIMIT $1 FOR UPDATE SKIP LOCKED) due
WHERE r.tenant_id = due.tenant_id AND r.id = due.id RETURNING r.tenant_id, r.id, r.task_id"""
EXECUTED: LiteralString = """
SELECT id, rule, type, title, account_id, service, region, resource_id, currency, version_saving AS saving, executed_at
FROM cost_recommendations WHERE tenant_id = $1 AND status = 'executed' ORDER BY executed_at DESC LIMIT $2"""
# $3 a resource, or '' for a pool: machines of a service in a region. $6 is the day of the execution.
_USE: LiteralString = """
FROM cost_resources_daily d
JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id AND s.state = 'current'
WHERE d.tenant_id = $1 AND d.account_id = $2 AND d.charge_category = 'Usage' AND d.currency = $4
  AND d.day BETWEEN $5::date - 28 AND $5::date + 60"""
DAYS_OF_RESOURCE: LiteralString = f"""
SELECT d.day, sum(d.effective) AS amount, sum(coalesce(d.quantity, 0)) AS quantity, sum(d.list) AS list
{_USE} AND d.resource_id = $3 GROUP BY d.day ORDER BY d.day"""
DAYS_OF_POOL: LiteralString = f"""
SELECT d.day, sum(d.effective) AS amount, sum(coalesce(d.quantity, 0)) AS quantity, sum(d.list) AS list
{_USE} AND d.service = $3 AND d.region = $6 AND d.pricing_category = 'Committed' GROUP BY d.day ORDER BY d.day"""
BILLED_DAYS: LiteralString = """
SELECT DISTINCT d.day FROM cost_services_daily d
JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id AND s.state = 'current'
WHERE d.tenant_id = $1 AND d.account_id = $2 AND d.charge_category = 'Usage'
  AND d.day BETWEEN $3::date - 28 AND $3::date + 60 ORDER BY d.day"""


class ExecutingStore:
    """What is being carried out, in a tenant; and across tenants, what to look after."""

    def __init__(self, db: Database, core_db: Database) -> None:
        self._db = db
        self._core_db = core_db

    async def begin(self, scope: Scope, recommendation_id: UUID, by: str) -> Record:
        """Say that it is being carried out; return the number of the attempt and whose it is."""
        row = await self._db.find(scope, BEGIN, scope.tenant, recommendation_id, by)
        return dict(row) if row else {}

    async def claim(self, scope: Scope, recommendation_id: UUID, task_id: UUID) -> bool:
        """Make this the task that carries it out; false where there is another, or it was not begun."""
        return bool(await self._db.execute(scope, CLAIM, scope.tenant, recommendation_id, task_id))

    async def give_up(
        self, scope: Scope, recommendation_id: UUID, *, task_id: UUID | None, error: Record | None, plan: Record | None
    ) -> None:
        """Say that this task has not carried it out, and why."""
        await self._db.execute(scope, GIVE_UP, scope.tenant, recommendation_id, error, plan, task_id)

    async def finish(self, scope: Scope, recommendation_id: UUID, values: Sequence[Any]) -> bool:
        """Say when, by whom and by which task it was carried out, and what came of it."""
        return bool(await self._db.execute(scope, FINISH, scope.tenant, recommendation_id, *values))

    async def find_account(self, scope: Scope, account_id: UUID) -> str | None:
        """Return the identifier of a cloud account."""
        row = await self._db.find(scope, ACCOUNT, scope.tenant, account_id)
        return row["identifier"] if row else None

    async def take_under_way(self, limit: int) -> list[Record]:
        """Return those of all tenants whose tasks are to be looked at now."""
        return [dict(row) for row in await self._core_db.fetch(Scope(), UNDER_WAY, limit)]

    async def list_executed(self, scope: Scope, limit: int) -> list[Record]:
        """Return what was executed, the latest first."""
        return [dict(row) for row in await self._db.fetch(scope, EXECUTED, scope.tenant, limit)]

    async def list_days(self, scope: Scope, row: Record) -> list[Record]:
        """Return the days of what a recommendation was about, four weeks before its execution to sixty days after."""
        day = row["executed_at"].date()
        if row["resource_id"]:
            found = await self._db.fetch(
                scope, DAYS_OF_RESOURCE, scope.tenant, row["account_id"], row["resource_id"], row["currency"], day
            )
        else:
            found = await self._db.fetch(
                scope, DAYS_OF_POOL, scope.tenant, row["account_id"], row["service"], row["currency"], day,
                row["region"],
            )  # fmt: skip
        return [dict(one) for one in found]

    async def list_billed_days(self, scope: Scope, row: Record) -> list[Any]:
        """Return the days for which the account has bills, likewise."""
        day = row["executed_at"].date()
        return [one["day"] for one in await self._db.fetch(scope, BILLED_DAYS, scope.tenant, row["account_id"], day)]
