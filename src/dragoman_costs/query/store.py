"""Runs queries: at one moment for all statements of an answer, without writing, and not for long."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import date
from decimal import Decimal
from typing import Any, Final, LiteralString, cast
from uuid import UUID

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db import Database, Scope
from dragoman_costs.query.errors import QueryTooCostly
from dragoman_costs.query.store_statement import Statement

_ONE_MOMENT: LiteralString = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Sums of some hundred thousand rows: compiling them, or sorting them on disk, takes longer than they do.
_SESSION: LiteralString = """
SELECT set_config('statement_timeout', $1, true), set_config('jit', 'off', true), set_config('work_mem', '64MB', true),
    set_config('max_parallel_workers_per_gather', '0', true)"""
SHOWN_ROWS: LiteralString = """
SELECT coalesce(sum(row_count), 0)::bigint AS rows FROM cost_slices WHERE tenant_id = $1 AND state = 'current'"""
ROWS_BETWEEN: LiteralString = """
SELECT coalesce(sum(d.row_count), 0)::bigint AS rows FROM cost_totals_daily d
JOIN cost_slices s ON s.tenant_id = $1 AND s.id = d.slice_id AND s.state = 'current'
WHERE d.tenant_id = $1 AND ($2::date IS NULL OR d.day >= $2) AND ($3::date IS NULL OR d.day <= $3)
    AND ($4::uuid[] IS NULL OR s.account_id = ANY($4))"""
_CANCELLED: Final = "57014"


class CostReader:
    """Reads rows and roll-ups of slices that are shown."""

    def __init__(self, db: Database, *, most_rows: int, timeout_s: float) -> None:
        self._db = db
        self.most_rows = most_rows
        self._timeout_s = timeout_s

    @asynccontextmanager
    async def snapshot(self, scope: Scope) -> AsyncGenerator[None]:
        """Show everything as it is at one moment: no import comes between the statements of an answer.

        Raises:
            QueryTooCostly: a statement took too long.
        """
        if self._db.in_unit:
            yield
            return
        try:
            async with self._db.unit(scope):
                await self._db.execute(scope, _ONE_MOMENT)
                await self._db.fetch(scope, _SESSION, f"{round(self._timeout_s * 1000)}ms")
                yield
        except UpstreamUnavailable as error:
            if getattr(error.__cause__, "sqlstate", None) != _CANCELLED:
                raise
            raise QueryTooCostly(rows=None, most_rows=self.most_rows, after_s=self._timeout_s) from error

    async def fetch(self, scope: Scope, statement: Statement) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, each with its values in the order of the columns."""
        return [tuple(row) for row in await self._db.fetch(scope, statement.sql, *statement.arguments)]

    async def count_shown(self, scope: Scope) -> int:
        """Return how many rows of billing data the tenant has: no roll-up has more."""
        row = await self._db.find(scope, SHOWN_ROWS, scope.tenant)
        return int(row["rows"]) if row else 0

    async def count_between(
        self, scope: Scope, start: date | None, end: date | None, accounts: Sequence[UUID] | None
    ) -> int:
        """Return how many rows of billing data lie between two days; the sums know it."""
        row = await self._db.find(
            scope, ROWS_BETWEEN, scope.tenant, start, end, list(accounts) if accounts is not None else None
        )
        return int(row["rows"]) if row else 0

    async def estimate(self, scope: Scope, probe: Statement) -> int:
        """Return how many rows the planner expects of a probe."""
        (row,) = await self._db.fetch(scope, probe.sql, *probe.arguments)
        plan = cast("list[dict[str, Any]]", row[0])
        return int(Decimal(str(plan[0]["Plan"]["Plan Rows"])))
