"""The SQL of evidence: what bills say of resources, and of use at on-demand prices, in a window of days."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman_costs.recommendations.evidence import Line, PoolUse, ResourceUse

Record = dict[str, Any]
_CURRENT: LiteralString = (
    "JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id AND s.state = 'current'"
)
NEWEST: LiteralString = f"""
SELECT d.account_id, max(d.day) AS day FROM cost_services_daily d {_CURRENT}
WHERE d.tenant_id = $1 AND d.charge_category = 'Usage' GROUP BY d.account_id ORDER BY d.account_id"""
# What has cost enough to be worth a look, and was still billed at the end of the window.
CANDIDATES: LiteralString = f"""
SELECT d.resource_id FROM cost_resources_daily d {_CURRENT}
WHERE d.tenant_id = $1 AND d.account_id = $2 AND d.charge_category = 'Usage' AND d.day BETWEEN $3 AND $4
GROUP BY d.resource_id HAVING sum(d.effective) >= $5 AND max(d.day) >= $4 - 1
ORDER BY sum(d.effective) DESC LIMIT $6"""
FIRST_SEEN: LiteralString = f"""
SELECT d.resource_id, min(d.day) AS day FROM cost_resources_daily d {_CURRENT}
WHERE d.tenant_id = $1 AND d.account_id = $2 AND d.resource_id = ANY ($3) GROUP BY d.resource_id"""
_ROWS: LiteralString = """
FROM cost_rows d JOIN cost_slices s ON s.tenant_id = d.tenant_id AND s.id = d.slice_id AND s.state = 'current'
WHERE d.tenant_id = $1 AND s.account_id = $2 AND d.charge_category = 'Usage' AND d.day BETWEEN $3 AND $4
  AND d.resource_id = ANY ($5)"""
# What all rows of a slice have in common is kept with the slice.
_EXTRA: LiteralString = "(s.extra || d.extra)"
NEWEST_ROWS: LiteralString = f"""
SELECT DISTINCT ON (d.resource_id) d.resource_id, d.provider, d.service, d.service_category, d.region, d.sub_account,
    d.resource_name, d.resource_type, d.unit, d.currency, d.charge_description, d.tags, {_EXTRA} AS extra
{_ROWS} ORDER BY d.resource_id, d.day DESC, d.line DESC"""
_TELLS: LiteralString = "~ '^[0-9]{1,12}(\\.[0-9]{1,12})?$'"
DAYS: LiteralString = f"""
SELECT d.resource_id, d.day, d.currency, (array_agg(d.slice_id ORDER BY d.slice_id, d.line))[1] AS slice_id,
    (array_agg(d.line ORDER BY d.slice_id, d.line))[1] AS line, sum(d.effective) AS amount,
    coalesce(sum(d.effective) FILTER (
        WHERE d.commitment_id = '' AND d.pricing_category NOT IN ('Committed', 'Dynamic')), 0) AS on_demand,
    coalesce(sum(d.quantity), 0) AS quantity,
    max(({_EXTRA}->>'x_CpuP95')::numeric) FILTER (WHERE {_EXTRA}->>'x_CpuP95' {_TELLS}) AS cpu,
    max(({_EXTRA}->>'x_MemoryP95')::numeric) FILTER (WHERE {_EXTRA}->>'x_MemoryP95' {_TELLS}) AS memory,
    sum(({_EXTRA}->>'x_NetworkGB')::numeric) FILTER (WHERE {_EXTRA}->>'x_NetworkGB' {_TELLS}) AS network,
    max(({_EXTRA}->>'x_ReadShare30d')::numeric) FILTER (WHERE {_EXTRA}->>'x_ReadShare30d' {_TELLS}) AS reads
{_ROWS} GROUP BY d.resource_id, d.currency, d.day ORDER BY d.resource_id, d.day"""
# Machines and databases that are paid by the hour. A day without any is a day at nothing.
POOLS: LiteralString = f"""
SELECT d.provider, d.service, d.region, d.currency, d.day, (array_agg(d.slice_id))[1] AS slice_id,
    sum(d.effective) AS amount, sum(d.quantity) AS quantity
FROM cost_resources_daily d {_CURRENT} JOIN cost_accounts a ON a.tenant_id = d.tenant_id AND a.id = d.account_id
WHERE d.tenant_id = $1 AND d.account_id = $2 AND d.charge_category = 'Usage' AND d.day BETWEEN $3 AND $4
  AND d.pricing_category IN ('Standard', '') AND lower(d.unit) IN ('hours', 'hour', 'hrs')
  AND a.provider <> 'kubernetes'
  AND d.service IN (
      SELECT c.service FROM cost_daily c WHERE c.tenant_id = $1 AND c.account_id = $2 AND c.day BETWEEN $3 AND $4
        AND c.service_category IN ('Compute', 'Databases'))
GROUP BY d.provider, d.service, d.region, d.currency, d.day
ORDER BY d.provider, d.service, d.region, d.currency, d.day"""
_MOST_RESOURCES: Final = 20_000
_AT_ONCE: Final = 4_000
_LEVELS: Final = ("cpu", "memory", "network", "reads")
_NOTHING: Final = Decimal(0)


class EvidenceStore:
    """Reads evidence from the rows that are shown."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def list_newest_days(self, scope: Scope) -> dict[UUID, date]:
        """Return the last day with spend of each account."""
        return {row["account_id"]: row["day"] for row in await self._db.fetch(scope, NEWEST, scope.tenant)}

    async def list_resources(
        self, scope: Scope, account_id: UUID, first: date, last: date, *, least: Decimal
    ) -> list[ResourceUse]:
        """Return the resources of an account that cost at least so much in the window; at most 20,000, the dearest."""
        rows = await self._db.fetch(scope, CANDIDATES, scope.tenant, account_id, first, last, least, _MOST_RESOURCES)
        ids = [row["resource_id"] for row in rows]
        found: list[ResourceUse] = []
        for begin in range(0, len(ids), _AT_ONCE):
            found += await self._read(scope, account_id, first, last, ids[begin : begin + _AT_ONCE])
        return found

    async def list_pools(self, scope: Scope, account_id: UUID, first: date, last: date) -> list[PoolUse]:
        """Return what is paid by the hour at on-demand prices, by service and region."""
        rows = await self._db.fetch(scope, POOLS, scope.tenant, account_id, first, last)
        pools: dict[tuple[str, str, str, str], list[Line]] = {}
        for row in rows:
            series = (row["provider"], row["service"], row["region"], row["currency"])
            amount = row["amount"]
            line = Line(row["slice_id"], 0, row["day"], amount, amount, row["quantity"] or _NOTHING)
            pools.setdefault(series, []).append(line)
        days = (last - first).days + 1
        return [
            PoolUse(account_id, provider, service, region, currency, _whole(lines, days))
            for (provider, service, region, currency), lines in pools.items()
        ]

    async def _read(
        self, scope: Scope, account_id: UUID, first: date, last: date, ids: Sequence[str]
    ) -> list[ResourceUse]:
        asked = (scope.tenant, account_id, first, last, list(ids))
        newest = {row["resource_id"]: row for row in await self._db.fetch(scope, NEWEST_ROWS, *asked)}
        seen = {
            row["resource_id"]: row["day"]
            for row in await self._db.fetch(scope, FIRST_SEEN, scope.tenant, account_id, list(ids))
        }
        lines: dict[str, list[Line]] = {}
        for row in await self._db.fetch(scope, DAYS, *asked):
            if row["currency"] == newest[row["resource_id"]]["currency"]:
                lines.setdefault(row["resource_id"], []).append(_line(row))
        return [
            ResourceUse(
                account_id=account_id, provider=row["provider"], service=row["service"],
                category=row["service_category"], region=row["region"], sub_account=row["sub_account"],
                resource_id=resource_id, name=row["resource_name"], type=row["resource_type"], unit=row["unit"],
                currency=row["currency"], description=row["charge_description"],
                first_seen=seen.get(resource_id, lines[resource_id][0].day), tags=row["tags"], details=row["extra"],
                lines=lines[resource_id],
            )
            for resource_id, row in newest.items()
            if resource_id in lines
        ]  # fmt: skip


def _line(row: Any) -> Line:
    levels = {name: float(row[name]) for name in _LEVELS if row[name] is not None}
    return Line(row["slice_id"], row["line"], row["day"], row["amount"], row["on_demand"], row["quantity"], levels)


def _whole(lines: list[Line], days: int) -> list[Line]:
    """Return the lines with one at nothing for each day that has none."""
    missing = days - len(lines)
    return lines if missing <= 0 else [*lines, *[_empty(lines[0])] * missing]


def _empty(like: Line) -> Line:
    return Line(like.slice_id, 0, like.day, _NOTHING, _NOTHING, _NOTHING)
