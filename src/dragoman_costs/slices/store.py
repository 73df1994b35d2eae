"""The SQL of slices: one is written beside what is shown, rolled up, and then shown in place of the one before it.

Readers ask for the rows of slices that are `current`. Nobody sees a slice that is `loading`, however long it takes and
however it ends; `replaced` and abandoned slices are removed by a job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
_SUMS: LiteralString = "sum(billed), sum(effective), sum(list), sum(contracted)"
BEGIN: LiteralString = """
INSERT INTO cost_slices (tenant_id, id, account_id, period, part, state, import_id, file_name, file_sha256, extra)
VALUES ($1, $2, $3, $4, $5, 'loading', $6, $7, $8, $9)"""
FIND_CURRENT: LiteralString = """
SELECT id, account_id, period, part, import_id, file_name, file_sha256, row_count, made_at FROM cost_slices
WHERE tenant_id = $1 AND account_id = $2 AND period = $3 AND state = 'current' ORDER BY part"""
# The sums of sums, from those by service.
TOTAL: LiteralString = """
INSERT INTO cost_totals_daily (tenant_id, slice_id, day, account_id, provider, currency,
    billed, effective, list, contracted, untagged, row_count)
SELECT tenant_id, slice_id, day, $3, provider, currency, sum(billed), sum(effective), sum(list), sum(contracted),
    sum(untagged), sum(row_count)
FROM cost_services_daily WHERE tenant_id = $1 AND slice_id = $2
GROUP BY tenant_id, slice_id, day, provider, currency"""
# Each statement reads the rows of one slice and writes its sums. $3 is the account.
ROLL_UP: Final[tuple[LiteralString, ...]] = (
    f"""
    INSERT INTO cost_services_daily (tenant_id, slice_id, day, account_id, provider, service, charge_category, currency,
        billed, effective, list, contracted, untagged, row_count)
    SELECT tenant_id, slice_id, day, $3, provider, service, charge_category, currency, {_SUMS},
        coalesce(sum(effective) FILTER (WHERE tags = '{{}}'), 0), count(*)
    FROM cost_rows WHERE tenant_id = $1 AND slice_id = $2
    GROUP BY tenant_id, slice_id, day, provider, service, charge_category, currency""",
    TOTAL,
    f"""
    INSERT INTO cost_daily (tenant_id, slice_id, day, account_id, provider, service, service_category, region,
        sub_account, sub_account_name, charge_category, pricing_category, currency,
        billed, effective, list, contracted, row_count)
    SELECT tenant_id, slice_id, day, $3, provider, service, service_category, region, sub_account, sub_account_name,
        charge_category, pricing_category, currency, {_SUMS}, count(*)
    FROM cost_rows WHERE tenant_id = $1 AND slice_id = $2
    GROUP BY tenant_id, slice_id, day, provider, service, service_category, region, sub_account, sub_account_name,
        charge_category, pricing_category, currency""",
    f"""
    INSERT INTO cost_tags_daily (tenant_id, slice_id, day, account_id, tag_key, tag_value, provider, service,
        charge_category, currency, billed, effective, list, contracted, row_count)
    SELECT tenant_id, slice_id, day, $3, tag.key, coalesce(tag.value, ''), provider, service, charge_category,
        currency, {_SUMS}, count(*)
    FROM cost_rows, jsonb_each_text(tags) tag WHERE tenant_id = $1 AND slice_id = $2
    GROUP BY tenant_id, slice_id, day, tag.key, coalesce(tag.value, ''), provider, service, charge_category,
        currency""",
    f"""
    INSERT INTO cost_resources_daily (tenant_id, slice_id, day, account_id, resource_id, resource_name, resource_type,
        provider, service, region, sub_account, charge_category, pricing_category, unit, currency,
        billed, effective, list, contracted, quantity, row_count)
    SELECT tenant_id, slice_id, day, $3, resource_id, max(resource_name COLLATE "C"), resource_type, provider, service,
        region, sub_account, charge_category, pricing_category, unit, currency, {_SUMS}, sum(quantity), count(*)
    FROM cost_rows WHERE tenant_id = $1 AND slice_id = $2 AND resource_id <> ''
    GROUP BY tenant_id, slice_id, day, resource_id, resource_type, provider, service, region, sub_account,
        charge_category, pricing_category, unit, currency""",
)
# Two imports of one account show their slices one after the other.
LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended($1::text || $2::text, 0))"
REPLACE: LiteralString = """
UPDATE cost_slices SET state = 'replaced'
WHERE tenant_id = $1 AND account_id = $2 AND period = $3 AND state = 'current' AND ($4::text IS NULL OR part = $4)"""
SHOW: LiteralString = """
UPDATE cost_slices SET state = 'current', row_count = (
    SELECT coalesce(sum(s.row_count), 0) FROM cost_services_daily s WHERE s.tenant_id = $1 AND s.slice_id = $2)
WHERE tenant_id = $1 AND id = $2 AND state = 'loading' RETURNING row_count"""
ABANDON: LiteralString = """
UPDATE cost_slices SET state = 'replaced' WHERE tenant_id = $1 AND import_id = $2 AND state = 'loading'"""
SUM: LiteralString = """
SELECT currency, sum(s.billed) AS billed, sum(s.effective) AS effective, sum(s.list) AS list,
    sum(s.contracted) AS contracted, sum(s.row_count)::bigint AS row_count
FROM cost_services_daily s JOIN cost_slices c ON c.tenant_id = s.tenant_id AND c.id = s.slice_id
WHERE s.tenant_id = $1 AND s.slice_id = ANY($2) AND c.state = 'current' GROUP BY currency ORDER BY currency"""


@dataclass(frozen=True, slots=True)
class NewSlice:
    """A slice on its way in."""

    id: UUID
    account_id: UUID
    period: date
    part: str
    import_id: UUID
    file_name: str
    file_sha256: str
    extra: Record = field(default_factory=dict[str, Any])


class SliceStore:
    """The slices of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def begin(self, scope: Scope, new: NewSlice) -> None:
        """Begin a slice that nobody sees yet."""
        await self._db.execute(
            scope, BEGIN, scope.tenant, new.id, new.account_id, new.period, new.part, new.import_id, new.file_name,
            new.file_sha256, new.extra,
        )  # fmt: skip

    async def list_current(self, scope: Scope, account_id: UUID, period: date) -> list[Record]:
        """Return the slices that are shown for an account and a period."""
        return [dict(row) for row in await self._db.fetch(scope, FIND_CURRENT, scope.tenant, account_id, period)]

    async def roll_up(self, scope: Scope, new: NewSlice) -> None:
        """Sum the rows of a slice; each sum is made once, so call it once, in the unit that shows the slice."""
        for statement in ROLL_UP:
            await self._db.execute(scope, statement, scope.tenant, new.id, new.account_id)

    async def show(self, scope: Scope, new: NewSlice, *, whole: bool, summed: int | None = None) -> None:
        """Show a slice in place of the one before it, at once for all readers.

        A slice that is the `whole` period replaces every part of it; another one only the same part. Its rows are
        summed now, unless the sums of so many rows are there already, but for the totals of days.
        """
        async with self._db.unit(scope):
            await self._db.execute(scope, LOCK, str(scope.tenant), str(new.account_id))
            if summed is None:
                await self.roll_up(scope, new)
            else:
                await self._db.execute(scope, TOTAL, scope.tenant, new.id, new.account_id)
            part = None if whole else new.part
            await self._db.execute(scope, REPLACE, scope.tenant, new.account_id, new.period, part)
            row = await self._db.find(scope, SHOW, scope.tenant, new.id)
            if row is None:
                raise RuntimeError(f"slice {new.id} was not loading")
            if summed is not None and row["row_count"] != summed:
                raise RuntimeError(f"slice {new.id} has sums of {row['row_count']} rows, and {summed} rows")

    async def abandon(self, scope: Scope, import_id: UUID) -> None:
        """Give up the slices that an import has begun and not shown; a job removes them."""
        await self._db.execute(scope, ABANDON, scope.tenant, import_id)

    async def sum(self, scope: Scope, slice_ids: Sequence[UUID]) -> list[Record]:
        """Return what these slices add up to, by currency, as far as they are shown."""
        return [dict(row) for row in await self._db.fetch(scope, SUM, scope.tenant, list(slice_ids))]
