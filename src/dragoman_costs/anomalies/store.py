"""The SQL of anomalies: the series that they are looked for in, what caused them, and the anomalies themselves."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
SERIES: LiteralString = """
SELECT d.account_id, d.provider, d.service, d.currency, d.day, sum(d.effective) AS amount
FROM cost_services_daily d JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id AND s.state = 'current'
WHERE d.tenant_id = $1 AND d.charge_category = 'Usage' AND d.day >= $2
GROUP BY d.account_id, d.provider, d.service, d.currency, d.day
ORDER BY d.account_id, d.provider, d.service, d.currency, d.day"""
NEWEST_DAY: LiteralString = """
SELECT max(d.day) AS day
FROM cost_services_daily d JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id AND s.state = 'current'
WHERE d.tenant_id = $1 AND d.charge_category = 'Usage'"""
_OF_SERIES: LiteralString = """
s.state = 'current' AND d.tenant_id = $1 AND d.account_id = $2 AND d.provider = $3 AND d.service = $4
AND d.currency = $5 AND d.charge_category = 'Usage' AND (d.day = $6 OR d.day = ANY ($7))"""
_SUMS: LiteralString = """
coalesce(sum(d.effective) FILTER (WHERE d.day = $6), 0) AS now,
coalesce(sum(d.effective) FILTER (WHERE d.day = ANY ($7)), 0) / greatest(cardinality($7::date[]), 1) AS before"""
CAUSES: Final[dict[str, LiteralString]] = {
    "region": f"""
    SELECT d.region AS name, {_SUMS}
    FROM cost_daily d JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id
    WHERE {_OF_SERIES} GROUP BY d.region""",
    "sub_account": f"""
    SELECT coalesce(nullif(d.sub_account_name, ''), d.sub_account) AS name, {_SUMS}
    FROM cost_daily d JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id
    WHERE {_OF_SERIES} GROUP BY 1""",
    "resource": f"""
    SELECT d.resource_id AS name, {_SUMS}
    FROM cost_resources_daily d JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id
    WHERE {_OF_SERIES} GROUP BY d.resource_id""",
}
# An anomaly is known by its series and its first day; a second look may find that it went on.
PUT: LiteralString = """
INSERT INTO cost_anomalies (tenant_id, id, account_id, provider, service, currency, day, last_day, shape, expected,
    actual, total_excess, score, title, causes, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 'open')
ON CONFLICT (tenant_id, account_id, provider, service, currency, day) DO UPDATE SET last_day = excluded.last_day,
    shape = excluded.shape, expected = excluded.expected, actual = excluded.actual,
    total_excess = excluded.total_excess, score = excluded.score, title = excluded.title, causes = excluded.causes
WHERE (cost_anomalies.last_day, cost_anomalies.shape, cost_anomalies.actual, cost_anomalies.total_excess)
    IS DISTINCT FROM (excluded.last_day, excluded.shape, excluded.actual, excluded.total_excess)"""
# The bills were replaced, and what was unusual in them is not there any more.
VANISH: LiteralString = """
UPDATE cost_anomalies SET status = 'resolved', reason = 'the bills were replaced, and it is not in them any more',
    decided_by = 'dragoman', decided_at = now()
WHERE tenant_id = $1 AND status IN ('open', 'acknowledged') AND day >= $2 AND NOT (id = ANY ($3))"""
KNOWN: LiteralString = """
SELECT id, account_id, provider, service, currency, day FROM cost_anomalies WHERE tenant_id = $1 AND day >= $2"""
_ANOMALY: LiteralString = """
id, status, shape, day, last_day, account_id, provider, service, currency, expected, actual,
actual - expected AS excess, total_excess, score, title, causes, reason, decided_by, decided_at, found_at"""
FIND: LiteralString = f"SELECT {_ANOMALY} FROM cost_anomalies WHERE tenant_id = $1 AND id = $2"
LOCK: LiteralString = f"SELECT {_ANOMALY} FROM cost_anomalies WHERE tenant_id = $1 AND id = $2 FOR UPDATE"
LIST: LiteralString = f"""
SELECT {_ANOMALY} FROM cost_anomalies a
WHERE tenant_id = $1
  AND ($3::uuid IS NULL OR (day, id) < (SELECT c.day, c.id FROM cost_anomalies c WHERE c.tenant_id = $1 AND c.id = $3))
  AND ($4::text[] IS NULL OR status = ANY ($4)) AND ($5::uuid IS NULL OR account_id = $5)
  AND ($6::text IS NULL OR provider = $6) AND ($7::text IS NULL OR service = $7)
  AND ($8::date IS NULL OR day >= $8) AND ($9::date IS NULL OR day <= $9)
  AND ($10::numeric IS NULL OR total_excess >= $10)
ORDER BY day DESC, id DESC LIMIT $2"""
DECIDE: LiteralString = f"""
UPDATE cost_anomalies SET status = $3, reason = $4, decided_by = $5, decided_at = now()
WHERE tenant_id = $1 AND id = $2 RETURNING {_ANOMALY}"""
TOTALS: LiteralString = """
SELECT currency, count(*) AS open, coalesce(sum(greatest(total_excess, 0)), 0) AS excess FROM cost_anomalies
WHERE tenant_id = $1 AND status IN ('open', 'acknowledged') GROUP BY currency ORDER BY currency"""


class AnomalyStore:
    """The anomalies of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_newest_day(self, scope: Scope) -> date | None:
        """Return the last day with any spend."""
        row = await self._db.find(scope, NEWEST_DAY, scope.tenant)
        return row["day"] if row else None

    async def list_series(self, scope: Scope, since: date) -> list[Record]:
        """Return the cost of use by account, provider, service, currency and day, in this order."""
        return [dict(row) for row in await self._db.fetch(scope, SERIES, scope.tenant, since)]

    async def list_causes(
        self, scope: Scope, dimension: str, series: Sequence[Any], day: date, usual: Sequence[date]
    ) -> list[Record]:
        """Return by name what a day cost, and what a usual day cost."""
        rows = await self._db.fetch(scope, CAUSES[dimension], scope.tenant, *series, day, list(usual))
        return [dict(row) for row in rows]

    async def list_known(self, scope: Scope, since: date) -> list[Record]:
        """Return the ids and series of anomalies that began on this day or later."""
        return [dict(row) for row in await self._db.fetch(scope, KNOWN, scope.tenant, since)]

    async def put(self, scope: Scope, values: Sequence[Any]) -> None:
        """Keep an anomaly once, as it is by now."""
        await self._db.execute(scope, PUT, scope.tenant, *values)

    async def resolve_others(self, scope: Scope, since: date, kept: Sequence[UUID]) -> None:
        """Resolve what began on this day or later and is no longer found."""
        await self._db.execute(scope, VANISH, scope.tenant, since, list(kept))

    async def find(self, scope: Scope, anomaly_id: UUID, *, lock: bool = False) -> Record | None:
        """Return one anomaly."""
        row = await self._db.find(scope, LOCK if lock else FIND, scope.tenant, anomaly_id)
        return dict(row) if row else None

    async def list_page(self, scope: Scope, limit: int, before: UUID | None, filters: Sequence[Any]) -> list[Record]:
        """Return some, newest first."""
        return [dict(row) for row in await self._db.fetch(scope, LIST, scope.tenant, limit, before, *filters)]

    async def decide(self, scope: Scope, anomaly_id: UUID, status: str, reason: str | None, by: str) -> Record:
        """Change the status."""
        row = await self._db.find(scope, DECIDE, scope.tenant, anomaly_id, status, reason, by)
        return dict(row) if row else {}

    async def sum_open(self, scope: Scope) -> list[Record]:
        """Return by currency how many need attention, and what they cost too much."""
        return [dict(row) for row in await self._db.fetch(scope, TOTALS, scope.tenant)]
