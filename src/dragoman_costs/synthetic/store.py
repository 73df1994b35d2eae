"""The SQL of the demo: its accounts, its rows, and how all of it goes again."""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from dragoman.errors import Conflict
from dragoman.infra.db import Database, Scope
from dragoman_costs.slices.store import NewSlice
from dragoman_costs.synthetic.estate import DemoAccount
from dragoman_costs.synthetic.spend import Charge

FIND: LiteralString = """
SELECT id, synthetic FROM cost_accounts
WHERE tenant_id = $1 AND provider = $2 AND identifier = $3 AND deleted_at IS NULL"""
ADD: LiteralString = """
INSERT INTO cost_accounts (tenant_id, id, provider, identifier, name, status, credential_kind, credential_status,
    synthetic, created_by)
VALUES ($1, $2, $3, $4, $5, 'active', 'none', 'missing', true, $6)"""
LIST: LiteralString = (
    "SELECT id FROM cost_accounts WHERE tenant_id = $1 AND synthetic AND deleted_at IS NULL ORDER BY id"
)
CURRENT: LiteralString = """
SELECT id FROM cost_slices
WHERE tenant_id = $1 AND account_id = $2 AND period = $3 AND state = 'current' AND file_sha256 = $4"""
# One parameter a column, in the order of `_COLUMNS`; `extra` has all columns that have none of their own.
ADD_ROWS: LiteralString = """
INSERT INTO cost_rows (tenant_id, slice_id, line, day, charge_start, charge_end, billed, effective, list, contracted,
    currency, provider, service, service_category, region, sub_account, sub_account_name, resource_id, resource_name,
    resource_type, charge_category, charge_description, pricing_category, quantity, unit, commitment_id,
    commitment_status, tags, extra)
SELECT $1, $2, r.line, r.start::date, r.start, r.stop, r.billed, r.effective, r.list, r.contracted, r.currency,
    r.provider, r.service, r.service_category, r.region, r.sub_account, r.sub_account_name, r.resource_id,
    r.resource_name, r.resource_type, r.charge_category, r.charge_description, r.pricing_category,
    nullif(r.quantity, '')::numeric, r.unit, r.commitment_id, r.commitment_status, r.tags::jsonb, r.extra
FROM unnest($3::int[], $4::text[]::timestamptz[], $5::text[]::timestamptz[], $6::text[]::numeric[],
    $7::text[]::numeric[], $8::text[]::numeric[], $9::text[]::numeric[], $10::text[], $11::text[], $12::text[],
    $13::text[], $14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[],
    $22::text[], $23::text[], $24::text[], $25::text[], $26::text[], $27::text[], $28::jsonb[])
    AS r (line, start, stop, billed, effective, list, contracted, currency, provider, service, service_category, region,
    sub_account, sub_account_name, resource_id, resource_name, resource_type, charge_category, charge_description,
    pricing_category, quantity, unit, commitment_id, commitment_status, tags, extra)"""
_COLUMNS = (
    "ChargePeriodStart", "ChargePeriodEnd", "BilledCost", "EffectiveCost", "ListCost", "ContractedCost",
    "BillingCurrency", "ProviderName", "ServiceName", "ServiceCategory", "RegionId", "SubAccountId", "SubAccountName",
    "ResourceId", "ResourceName", "ResourceType", "ChargeCategory", "ChargeDescription", "PricingCategory",
    "ConsumedQuantity", "ConsumedUnit", "CommitmentDiscountId", "CommitmentDiscountStatus", "Tags",
)  # fmt: skip
_NAMED = frozenset(_COLUMNS)
HIDE: LiteralString = """
UPDATE cost_slices SET state = 'replaced' WHERE tenant_id = $1 AND account_id = $2 AND state <> 'replaced'"""
_OF_SLICES: LiteralString = """
WHERE tenant_id = $1 AND slice_id IN (
    SELECT id FROM cost_slices WHERE tenant_id = $1 AND account_id = $2 AND state = 'replaced')"""
REMOVE_ROWS: tuple[LiteralString, ...] = (
    f"DELETE FROM cost_resources_daily {_OF_SLICES}",
    f"DELETE FROM cost_tags_daily {_OF_SLICES}",
    f"DELETE FROM cost_daily {_OF_SLICES}",
    f"DELETE FROM cost_services_daily {_OF_SLICES}",
    f"DELETE FROM cost_totals_daily {_OF_SLICES}",
    f"DELETE FROM cost_rows {_OF_SLICES}",
    "DELETE FROM cost_slices WHERE tenant_id = $1 AND account_id = $2 AND state = 'replaced'",
)
# What was decided stays, because records speak of it.
REMOVE_FOUND: tuple[LiteralString, ...] = (
    "DELETE FROM cost_anomalies WHERE tenant_id = $1 AND account_id = $2",
    """
    DELETE FROM cost_recommendations r
    WHERE tenant_id = $1 AND account_id = $2 AND executing_at IS NULL AND NOT EXISTS (
        SELECT FROM cost_recommendation_decisions d WHERE d.tenant_id = $1 AND d.recommendation_id = r.id)""",
    """
    UPDATE cost_accounts SET deleted_at = now(), status = 'disconnected', version = version + 1, updated_at = now()
    WHERE tenant_id = $1 AND id = $2 AND synthetic""",
)


class NotSynthetic(Conflict):
    """An account of the tenant's own has the identifier of one of the demo."""

    def __init__(self, identifier: str) -> None:
        super().__init__(
            f"the account {identifier!r} is registered and is not the demo's: rename or delete it first",
            reason="ACCOUNT_NOT_SYNTHETIC", identifier=identifier,
        )  # fmt: skip


class DemoStore:
    """What the demo writes, in a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def ensure_account(self, scope: Scope, account: DemoAccount, new_id: UUID, by: str) -> UUID:
        """Return the id of an account of the demo, which is added where it is missing.

        Raises:
            NotSynthetic: the tenant has registered it as its own.
        """
        async with self._db.unit(scope):
            row = await self._db.find(scope, FIND, scope.tenant, account.provider, account.identifier)
            if row is not None and not row["synthetic"]:
                raise NotSynthetic(account.identifier)
            if row is not None:
                return row["id"]
            name = account.name
            await self._db.execute(scope, ADD, scope.tenant, new_id, account.provider, account.identifier, name, by)
            return new_id

    async def list_accounts(self, scope: Scope) -> list[UUID]:
        """Return the ids of the demo's accounts."""
        return [row["id"] for row in await self._db.fetch(scope, LIST, scope.tenant)]

    async def has_slice(self, scope: Scope, new: NewSlice) -> bool:
        """Check whether the same rows are shown already."""
        shown = (new.account_id, new.period, new.file_sha256)
        return await self._db.find(scope, CURRENT, scope.tenant, *shown) is not None

    async def add_rows(self, scope: Scope, slice_id: UUID, first_line: int, charges: Sequence[Charge]) -> None:
        """Write rows into a slice that is not shown yet."""
        columns = [[one.get(name, "") for one in charges] for name in _COLUMNS]
        extra = [{name: value for name, value in one.items() if name not in _NAMED and value} for one in charges]
        columns[-1] = [tags or "{}" for tags in columns[-1]]
        lines = list(range(first_line, first_line + len(charges)))
        await self._db.execute(scope, ADD_ROWS, scope.tenant, slice_id, lines, *columns, extra)

    async def empty(self, scope: Scope, account_id: UUID, *, wholly: bool) -> None:
        """Remove the rows of an account that are not shown any more; `wholly`, everything that the demo made of it."""
        if wholly:
            await self._db.execute(scope, HIDE, scope.tenant, account_id)
        for statement in REMOVE_ROWS:
            await self._db.execute(scope, statement, scope.tenant, account_id)
        for statement in REMOVE_FOUND if wholly else ():
            await self._db.execute(scope, statement, scope.tenant, account_id)
