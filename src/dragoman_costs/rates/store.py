"""The SQL of rates."""

from collections.abc import Sequence
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document

Record = dict[str, Any]
_RATE: LiteralString = """
id, from_currency, to_currency, to_char(day, CASE grain WHEN 'day' THEN 'YYYY-MM-DD' ELSE 'YYYY-MM' END) AS period,
rate, set_by, set_at"""
SET: LiteralString = f"""
INSERT INTO cost_rates (tenant_id, id, from_currency, to_currency, grain, day, rate, set_by)
SELECT $1, id, from_currency, to_currency, grain, day, rate, $3
FROM json_to_recordset($2::text::json)
    AS given(id uuid, from_currency text, to_currency text, grain text, day date, rate numeric)
ON CONFLICT ON CONSTRAINT cost_rates_period_key
DO UPDATE SET rate = excluded.rate, set_by = excluded.set_by, set_at = now()
RETURNING {_RATE}"""
LIST: LiteralString = f"""
SELECT {_RATE} FROM cost_rates
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::text IS NULL OR from_currency = $4)
    AND ($5::text IS NULL OR to_currency = $5)
ORDER BY id DESC LIMIT $2"""
REMOVE: LiteralString = "DELETE FROM cost_rates WHERE tenant_id = $1 AND id = $2"


class RateStore:
    """The rates of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def set(self, scope: Scope, rates: Sequence[Record], by: str) -> list[Record]:
        """Set rates, in place of those for the same currencies and periods."""
        return [dict(row) for row in await self._db.fetch(scope, SET, scope.tenant, document(rates), by)]

    async def list_page(
        self, scope: Scope, limit: int, before: UUID | None, from_currency: str | None, to_currency: str | None
    ) -> list[Record]:
        """Return some, the newest first."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, limit, before, from_currency, to_currency)
        return [dict(row) for row in rows]

    async def remove(self, scope: Scope, rate_id: UUID) -> bool:
        """Remove one; return whether it was there."""
        return bool(await self._db.execute(scope, REMOVE, scope.tenant, rate_id))
