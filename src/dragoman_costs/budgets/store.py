"""The SQL of budgets."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman_costs.query.store_sources import CURRENT

Record = dict[str, Any]
_BUDGET: LiteralString = """
id, name, provider, account_id, service, tag_key, tag_value, amount, currency, measure, period, thresholds,
forecast_thresholds, state, evaluated_at, version, created_by, created_at, updated_at"""
_VALUES: LiteralString = "$3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15"
_FIELDS: LiteralString = """
name, provider, account_id, service, tag_key, tag_value, amount, currency, measure, period, thresholds,
forecast_thresholds, state"""
ADD: LiteralString = f"""
INSERT INTO cost_budgets (tenant_id, id, {_FIELDS}, created_by) VALUES ($1, $2, {_VALUES}, $16) RETURNING {_BUDGET}"""
CHANGE: LiteralString = f"""
UPDATE cost_budgets SET ({_FIELDS}) = ROW ({_VALUES}), version = version + 1, updated_at = now(), evaluated_at = now()
WHERE tenant_id = $1 AND id = $2 AND version = $16 RETURNING {_BUDGET}"""
FIND: LiteralString = f"SELECT {_BUDGET} FROM cost_budgets WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_BUDGET} FROM cost_budgets WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) ORDER BY id DESC LIMIT $2"""
KEEP: LiteralString = "UPDATE cost_budgets SET state = $3, evaluated_at = now() WHERE tenant_id = $1 AND id = $2"
REMOVE: LiteralString = "DELETE FROM cost_budgets WHERE tenant_id = $1 AND id = $2"
_ALERT: LiteralString = """
id, budget_id, budget_name, period_start, period_end, kind, threshold, budgeted, reached, currency, raised_at,
acknowledged_at, acknowledged_by"""
RAISE: LiteralString = f"""
INSERT INTO cost_budget_alerts (tenant_id, id, budget_id, budget_name, period_start, period_end, kind, threshold,
    budgeted, reached, currency)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT ON CONSTRAINT cost_budget_alerts_once_key DO NOTHING RETURNING {_ALERT}"""
ALERTS: LiteralString = f"""
SELECT {_ALERT} FROM cost_budget_alerts
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::uuid IS NULL OR budget_id = $4)
    AND ($5::bool IS NULL OR (acknowledged_at IS NULL) = $5)
ORDER BY id DESC LIMIT $2"""
ACKNOWLEDGE: LiteralString = f"""
UPDATE cost_budget_alerts SET acknowledged_at = coalesce(acknowledged_at, now()),
    acknowledged_by = coalesce(acknowledged_by, $3)
WHERE tenant_id = $1 AND id = $2 RETURNING {_ALERT}"""
_SPENT: LiteralString = """
SELECT d.day, d.currency, sum(d.effective) AS effective, sum(d.billed) AS billed FROM {table} d {current}
WHERE d.tenant_id = $1 AND d.day >= $2 AND d.day <= $3 AND ($4::text IS NULL OR d.provider = $4)
    AND ($5::uuid IS NULL OR s.account_id = $5) {more}
GROUP BY d.day, d.currency"""


def _spent(table: LiteralString, more: LiteralString) -> LiteralString:
    return _SPENT.replace("{table}", table).replace("{current}", CURRENT).replace("{more}", more)


_OF_SERVICE: LiteralString = "AND ($6::text IS NULL OR d.service = $6)"
SPENT: Final = _spent("cost_totals_daily", "AND $6::text IS NULL")
SPENT_ON_SERVICE: Final = _spent("cost_services_daily", _OF_SERVICE)
SPENT_ON_TAG: Final = _spent(
    "cost_tags_daily", f"{_OF_SERVICE} AND d.tag_key = $7 AND ($8::text IS NULL OR d.tag_value = $8)"
)
ASK: LiteralString = """
INSERT INTO cost_budget_checks (tenant_id, due_at) VALUES ($1, now() + interval '1 hour')
ON CONFLICT (tenant_id) DO NOTHING"""
# Whoever takes it has two minutes; then it is due again.
CLAIM: LiteralString = """
UPDATE cost_budget_checks SET due_at = now() + interval '2 minutes'
WHERE tenant_id = (
    SELECT tenant_id FROM cost_budget_checks WHERE due_at <= now() ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING tenant_id, due_at"""
DONE: LiteralString = """
UPDATE cost_budget_checks SET due_at = now() + interval '1 hour' WHERE tenant_id = $1 AND due_at = $2"""
_ANY_TENANT: Final = Scope()


@dataclass(frozen=True, slots=True)
class Covered:
    """What a budget covers."""

    provider: str | None
    account_id: UUID | None
    service: str | None
    tag_key: str | None
    tag_value: str | None


class BudgetStore:
    """The budgets of a tenant, and which tenants are due."""

    def __init__(self, db: Database, core_db: Database) -> None:
        self._db = db
        self._core_db = core_db

    async def add(self, scope: Scope, budget_id: UUID, values: tuple[Any, ...], by: str) -> Record:
        """Add a budget; from now on the tenant is evaluated every hour."""
        row = await self._db.find(scope, ADD, scope.tenant, budget_id, *values, by)
        await self._db.execute(scope, ASK, scope.tenant)
        return dict(row) if row else {}

    async def change(self, scope: Scope, budget_id: UUID, values: tuple[Any, ...], version: int) -> Record | None:
        """Change all of it; None when it has another version."""
        row = await self._db.find(scope, CHANGE, scope.tenant, budget_id, *values, version)
        return dict(row) if row else None

    async def find(self, scope: Scope, budget_id: UUID) -> Record | None:
        """Return one."""
        row = await self._db.find(scope, FIND, scope.tenant, budget_id)
        return dict(row) if row else None

    async def list_page(self, scope: Scope, limit: int, before: UUID | None) -> list[Record]:
        """Return some, the newest first."""
        return [dict(row) for row in await self._db.fetch(scope, LIST, scope.tenant, limit, before)]

    async def keep(self, scope: Scope, budget_id: UUID, state: Record) -> None:
        """Keep the state of a budget as it was evaluated."""
        await self._db.execute(scope, KEEP, scope.tenant, budget_id, state)

    async def remove(self, scope: Scope, budget_id: UUID) -> bool:
        """Remove one with its alerts; return whether it was there."""
        return bool(await self._db.execute(scope, REMOVE, scope.tenant, budget_id))

    async def list_spent(self, scope: Scope, covered: Covered, start: date, end: date) -> list[Record]:
        """Return what was spent by day and currency."""
        narrow = [start, end, covered.provider, covered.account_id, covered.service]
        if covered.tag_key is not None:
            tag = (covered.tag_key, covered.tag_value)
            rows = await self._db.fetch(scope, SPENT_ON_TAG, scope.tenant, *narrow, *tag)
        else:
            statement = SPENT if covered.service is None else SPENT_ON_SERVICE
            rows = await self._db.fetch(scope, statement, scope.tenant, *narrow)
        return [dict(row) for row in rows]

    async def raise_alert(
        self, scope: Scope, alert_id: UUID, budget: Record, span: tuple[date, date], kind: str, threshold: int,
        reached: Decimal,
    ) -> Record | None:  # fmt: skip
        """Raise an alert; None when it was raised before."""
        row = await self._db.find(
            scope, RAISE, scope.tenant, alert_id, budget["id"], budget["name"], *span, kind, threshold,
            budget["amount"], reached, budget["currency"],
        )  # fmt: skip
        return dict(row) if row else None

    async def list_alerts(
        self, scope: Scope, limit: int, before: UUID | None, budget_id: UUID | None, *, is_open: bool | None
    ) -> list[Record]:
        """Return some alerts, the newest first."""
        rows = await self._db.fetch(scope, ALERTS, scope.tenant, limit, before, budget_id, is_open)
        return [dict(row) for row in rows]

    async def acknowledge(self, scope: Scope, alert_id: UUID, by: str) -> Record | None:
        """Keep who has seen an alert first; None when there is no such alert."""
        row = await self._db.find(scope, ACKNOWLEDGE, scope.tenant, alert_id, by)
        return dict(row) if row else None

    async def claim(self) -> tuple[UUID, Any] | None:
        """Take a tenant that is due, with the time until which it is this process's."""
        row = await self._core_db.find(_ANY_TENANT, CLAIM)
        return (row["tenant_id"], row["due_at"]) if row else None

    async def done(self, tenant: UUID, until: Any) -> None:
        """Put a tenant off for an hour, unless something has changed meanwhile."""
        await self._core_db.execute(_ANY_TENANT, DONE, tenant, until)
