"""The SQL of dashboards: a few statements over the roll-ups, all at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman_costs.query.store_sources import CURRENT
from dragoman_costs.query.store_statement import CURRENCY, RATED, RATES

Record = dict[str, Any]
# $2 and $3 are the days, $4 the provider, $5 the account; $6 is the currency to convert to, where there is one.
_WHERE: LiteralString = """
WHERE d.tenant_id = $1 AND d.day >= $2 AND d.day <= $3 AND ($4::text IS NULL OR d.provider = $4)
    AND ($5::uuid IS NULL OR s.account_id = $5)"""
_IN: LiteralString = "$6::text"
KNOWN: LiteralString = """
SELECT max(d.day) AS last, bool_or(a.synthetic) AS synthetic FROM cost_totals_daily d
JOIN cost_slices s ON s.tenant_id = $1 AND s.id = d.slice_id AND s.state = 'current'
JOIN cost_accounts a ON a.tenant_id = $1 AND a.id = s.account_id
WHERE d.tenant_id = $1 AND ($2::text IS NULL OR d.provider = $2) AND ($3::uuid IS NULL OR s.account_id = $3)"""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a look takes in: days, a provider, an account, and the currency to convert to."""

    start: date
    end: date
    provider: str | None = None
    account_id: UUID | None = None
    currency: str | None = None

    @property
    def arguments(self) -> list[Any]:
        """Return the parameters after the tenant."""
        narrow = [self.start, self.end, self.provider, self.account_id]
        return [*narrow, self.currency] if self.currency else narrow


def _selected(columns: LiteralString, table: LiteralString, rest: LiteralString, *, rated: bool) -> LiteralString:
    """Write a statement that converts, or does not."""
    currency: LiteralString = _IN if rated else "d.currency"
    times: LiteralString = RATED.replace(CURRENCY, _IN) if rated else ""
    rates: LiteralString = RATES.replace(CURRENCY, _IN) if rated else ""
    return (
        f"SELECT {currency} AS currency, {columns.replace('{times}', times)} FROM {table} d {CURRENT} {rates} "
        f"{_WHERE} {rest}"
    )


_DAYS: LiteralString = """
d.day, d.provider, sum(d.effective{times}) AS effective, sum(d.billed{times}) AS billed,
sum(d.untagged{times}) AS untagged, sum(d.row_count)::bigint AS row_count"""
_PERIODS: LiteralString = """
coalesce(sum(d.effective{times}) FILTER (WHERE d.day >= $7), 0) AS total,
coalesce(sum(d.effective{times}) FILTER (WHERE d.day < $7), 0) AS previous"""
_PERIODS_AS_IS: LiteralString = """
coalesce(sum(d.effective) FILTER (WHERE d.day >= $6), 0) AS total,
coalesce(sum(d.effective) FILTER (WHERE d.day < $6), 0) AS previous"""


def _compared(by: LiteralString, table: LiteralString, *, rated: bool) -> LiteralString:
    periods = _PERIODS if rated else _PERIODS_AS_IS
    return _selected(f"{by}, {periods}", table, "GROUP BY 1, 2, 3", rated=rated)


DAYS: Final[Mapping[bool, LiteralString]] = {
    rated: _selected(_DAYS, "cost_totals_daily", "GROUP BY 1, 2, 3", rated=rated) for rated in (False, True)
}
SERVICES: Final[Mapping[bool, LiteralString]] = {
    rated: _compared("d.provider, d.service AS name", "cost_services_daily", rated=rated) for rated in (False, True)
}
ACCOUNTS: Final[Mapping[bool, LiteralString]] = {
    rated: _compared("d.provider, s.account_id", "cost_totals_daily", rated=rated) for rated in (False, True)
}
NAMES: LiteralString = "SELECT id, name FROM cost_accounts WHERE tenant_id = $1"
UNRATED: LiteralString = _selected(
    "d.day, d.currency AS source",
    "cost_totals_daily",
    "AND d.currency <> $6::text AND coalesce(rd.rate, rm.rate) IS NULL GROUP BY 2, 3 ORDER BY 3, 2 LIMIT 1000",
    rated=True,
)


class DashboardStore:
    """Reads the sums that a dashboard is made of."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_last_day(
        self, scope: Scope, provider: str | None, account_id: UUID | None
    ) -> tuple[date | None, bool]:
        """Return the last day that has data, and whether any of it was made up."""
        row = await self._db.find(scope, KNOWN, scope.tenant, provider, account_id)
        return (row["last"], bool(row["synthetic"])) if row else (None, False)

    async def list_unrated(self, scope: Scope, reach: Reach) -> list[tuple[str, date]]:
        """Return currencies and days that cannot be converted."""
        rows = await self._db.fetch(scope, UNRATED, scope.tenant, *reach.arguments)
        return [(row["source"], row["day"]) for row in rows]

    async def list_days(self, scope: Scope, reach: Reach) -> list[Record]:
        """Return sums by currency, day and provider."""
        rows = await self._db.fetch(scope, DAYS[reach.currency is not None], scope.tenant, *reach.arguments)
        return [dict(row) for row in rows]

    async def compare_services(self, scope: Scope, reach: Reach, start: date) -> list[Record]:
        """Return the sums of services before this day and from it on."""
        statement = SERVICES[reach.currency is not None]
        return [dict(row) for row in await self._db.fetch(scope, statement, scope.tenant, *reach.arguments, start)]

    async def compare_accounts(self, scope: Scope, reach: Reach, start: date) -> list[Record]:
        """Return the sums of accounts before this day and from it on, with their names."""
        statement = ACCOUNTS[reach.currency is not None]
        rows = await self._db.fetch(scope, statement, scope.tenant, *reach.arguments, start)
        names = {row["id"]: row["name"] for row in await self._db.fetch(scope, NAMES, scope.tenant)}
        return [{**dict(row), "name": names.get(row["account_id"], str(row["account_id"]))} for row in rows]
