"""The SQL that fills a slice: files are copied beside the tables, and then inserted under their row-level security."""

from collections.abc import AsyncIterable, Mapping
from datetime import date
from typing import Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman_costs.slices.layout import DELIMITER, NULL, QUOTE

MAKE_ROWS: LiteralString = """
CREATE TEMPORARY TABLE cost_loading (period date, line int, charge_start timestamp, charge_end timestamp,
    billed numeric, effective numeric, list numeric, contracted numeric, currency text, provider text, service text,
    service_category text, region text, sub_account text, sub_account_name text, resource_id text, resource_name text,
    resource_type text, charge_category text, charge_description text, pricing_category text, commitment_id text,
    commitment_status text, quantity numeric, unit text, tags jsonb, extra jsonb) ON COMMIT DROP"""
# A slice for each period: $2 are the periods, $3 the slices.
_SLICES: LiteralString = "unnest($2::date[], $3::uuid[]) s (period, id)"
INSERT_ROWS: LiteralString = f"""
INSERT INTO cost_rows (tenant_id, slice_id, line, day, charge_start, charge_end, billed, effective, list, contracted,
    currency, provider, service, service_category, region, sub_account, sub_account_name, resource_id, resource_name,
    resource_type, charge_category, charge_description, pricing_category, quantity, unit, commitment_id,
    commitment_status, tags, extra)
SELECT $1, s.id, line, charge_start::date, charge_start AT TIME ZONE 'UTC', charge_end AT TIME ZONE 'UTC', billed,
    effective, list, contracted, currency, provider, service, service_category, region, sub_account, sub_account_name,
    resource_id, resource_name, resource_type, charge_category, charge_description, pricing_category, quantity, unit,
    commitment_id, commitment_status, tags, extra
FROM cost_loading JOIN {_SLICES} USING (period)"""
# DuckDB writes 20 decimals, whatever the amount.
_AMOUNTS: LiteralString = "trim_scale(billed), trim_scale(effective), trim_scale(list), trim_scale(contracted)"
MAKE_SUMS: Final[Mapping[str, LiteralString]] = {
    "cost_services_daily": """
        CREATE TEMPORARY TABLE cost_loading (period date, day date, provider text, service text, charge_category text,
            currency text, billed numeric, effective numeric, list numeric, contracted numeric, untagged numeric,
            row_count bigint) ON COMMIT DROP""",
    "cost_daily": """
        CREATE TEMPORARY TABLE cost_loading (period date, day date, provider text, service text, service_category text,
            region text, sub_account text, sub_account_name text, charge_category text, pricing_category text,
            currency text, billed numeric, effective numeric, list numeric, contracted numeric, row_count bigint)
        ON COMMIT DROP""",
    "cost_tags_daily": """
        CREATE TEMPORARY TABLE cost_loading (period date, day date, tag_key text, tag_value text, provider text,
            service text, charge_category text, currency text, billed numeric, effective numeric, list numeric,
            contracted numeric, row_count bigint) ON COMMIT DROP""",
    "cost_resources_daily": """
        CREATE TEMPORARY TABLE cost_loading (period date, day date, resource_id text, resource_name text,
            resource_type text, provider text, service text, region text, sub_account text, charge_category text,
            pricing_category text, unit text, currency text, billed numeric, effective numeric, list numeric,
            contracted numeric, quantity numeric, row_count bigint) ON COMMIT DROP""",
}
INSERT_SUMS: Final[Mapping[str, LiteralString]] = {
    "cost_services_daily": f"""
        INSERT INTO cost_services_daily (tenant_id, slice_id, day, account_id, provider, service, charge_category,
            currency, billed, effective, list, contracted, untagged, row_count)
        SELECT $1, s.id, day, $4, provider, service, charge_category, currency, {_AMOUNTS}, trim_scale(untagged),
            row_count
        FROM cost_loading JOIN {_SLICES} USING (period)""",
    "cost_daily": f"""
        INSERT INTO cost_daily (tenant_id, slice_id, day, account_id, provider, service, service_category, region,
            sub_account, sub_account_name, charge_category, pricing_category, currency, billed, effective, list,
            contracted, row_count)
        SELECT $1, s.id, day, $4, provider, service, service_category, region, sub_account, sub_account_name,
            charge_category, pricing_category, currency, {_AMOUNTS}, row_count
        FROM cost_loading JOIN {_SLICES} USING (period)""",
    "cost_tags_daily": f"""
        INSERT INTO cost_tags_daily (tenant_id, slice_id, day, account_id, tag_key, tag_value, provider, service,
            charge_category, currency, billed, effective, list, contracted, row_count)
        SELECT $1, s.id, day, $4, tag_key, tag_value, provider, service, charge_category, currency, {_AMOUNTS},
            row_count
        FROM cost_loading JOIN {_SLICES} USING (period)""",
    "cost_resources_daily": f"""
        INSERT INTO cost_resources_daily (tenant_id, slice_id, day, account_id, resource_id, resource_name,
            resource_type, provider, service, region, sub_account, charge_category, pricing_category, unit, currency,
            billed, effective, list, contracted, quantity, row_count)
        SELECT $1, s.id, day, $4, resource_id, resource_name, resource_type, provider, service, region, sub_account,
            charge_category, pricing_category, unit, currency, {_AMOUNTS}, trim_scale(quantity), row_count
        FROM cost_loading JOIN {_SLICES} USING (period)""",
}
_TABLE: LiteralString = "cost_loading"


class LoadingStore:
    """Copies files with rows and sums into slices that are not shown yet. `slices` has the slice of each period."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def load_rows(self, scope: Scope, slices: Mapping[date, UUID], content: AsyncIterable[bytes]) -> int:
        """Load a file with rows in one transaction; return how many there are."""
        async with self._db.unit(scope):
            await self._db.execute(scope, MAKE_ROWS)
            copied = await self._copy(scope, content)
            loaded = await self._db.execute(scope, INSERT_ROWS, scope.tenant, *_columns(slices))
        if loaded != copied:
            raise RuntimeError(f"of {copied} rows of a file {loaded} belong to its slices")
        return loaded

    async def load_sums(
        self, scope: Scope, table: str, account_id: UUID, slices: Mapping[date, UUID], content: AsyncIterable[bytes]
    ) -> None:
        """Load a file with sums of one kind, for the slices of one account."""
        async with self._db.unit(scope):
            await self._db.execute(scope, MAKE_SUMS[table])
            await self._copy(scope, content)
            await self._db.execute(scope, INSERT_SUMS[table], scope.tenant, *_columns(slices), account_id)

    async def _copy(self, scope: Scope, content: AsyncIterable[bytes]) -> int:
        return await self._db.copy(scope, _TABLE, content, delimiter=DELIMITER, quote=QUOTE, escape=QUOTE, null=NULL)


def _columns(slices: Mapping[date, UUID]) -> tuple[list[date], list[UUID]]:
    return list(slices), list(slices.values())
