"""The SQL of imports and of the rows that they set aside."""

from collections.abc import Sequence
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
_IMPORT: LiteralString = """
id, account_id, task_id, state, source, file_name, part, file_sha256, row_count, bad_count, periods, totals, error,
created_by, created_at, finished_at"""
FIND_ACCOUNT: LiteralString = """
SELECT id, name, provider, identifier FROM cost_accounts WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL"""
FIND_BILLED: LiteralString = """
SELECT id, name FROM cost_accounts
WHERE tenant_id = $1 AND provider = $2 AND identifier = $3 AND deleted_at IS NULL"""
ADD: LiteralString = """
INSERT INTO cost_imports (tenant_id, id, account_id, state, source, file_name, part, created_by)
VALUES ($1, $2, $3, 'requested', $4, $5, $6, $7)"""
SET_TASK: LiteralString = "UPDATE cost_imports SET task_id = $3 WHERE tenant_id = $1 AND id = $2"
FIND: LiteralString = f"SELECT {_IMPORT} FROM cost_imports WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_IMPORT} FROM cost_imports
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::uuid IS NULL OR account_id = $4)
    AND ($5::text IS NULL OR state = $5)
ORDER BY id DESC LIMIT $2"""
START: LiteralString = """
UPDATE cost_imports SET state = 'running', error = NULL, finished_at = NULL WHERE tenant_id = $1 AND id = $2"""
REPORT: LiteralString = """
UPDATE cost_imports SET file_sha256 = $3, row_count = $4, bad_count = $5, periods = $6
WHERE tenant_id = $1 AND id = $2"""
FINISH: LiteralString = """
UPDATE cost_imports SET state = $3, periods = coalesce($4, periods), totals = $5, error = $6, finished_at = now()
WHERE tenant_id = $1 AND id = $2 RETURNING state, account_id, file_name, row_count, bad_count"""
FORGET_BAD: LiteralString = "DELETE FROM cost_bad_rows WHERE tenant_id = $1 AND import_id = $2"
ADD_BAD: LiteralString = """
INSERT INTO cost_bad_rows (tenant_id, import_id, id, line, field, reason, value)
SELECT $1, $2, * FROM unnest($3::uuid[], $4::int[], $5::text[], $6::text[], $7::text[])"""
LIST_BAD: LiteralString = """
SELECT id, line, field AS column, reason, value FROM cost_bad_rows
WHERE tenant_id = $1 AND import_id = $2 AND ($4::uuid IS NULL OR id > $4) ORDER BY id LIMIT $3"""


class ImportStore:
    """The imports of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_account(self, scope: Scope, account_id: UUID) -> Record | None:
        """Return a cloud account."""
        row = await self._db.find(scope, FIND_ACCOUNT, scope.tenant, account_id)
        return dict(row) if row else None

    async def find_billed(self, scope: Scope, provider: str, identifier: str) -> Record | None:
        """Return the cloud account with this identifier."""
        row = await self._db.find(scope, FIND_BILLED, scope.tenant, provider, identifier)
        return dict(row) if row else None

    async def add(
        self, scope: Scope, import_id: UUID, account_id: UUID, *, source: Record, file_name: str, part: bool, by: str
    ) -> None:
        """Keep a request for an import."""
        await self._db.execute(scope, ADD, scope.tenant, import_id, account_id, source, file_name, part, by)

    async def set_task(self, scope: Scope, import_id: UUID, task_id: UUID) -> None:
        """Say which task performs an import."""
        await self._db.execute(scope, SET_TASK, scope.tenant, import_id, task_id)

    async def find(self, scope: Scope, import_id: UUID) -> Record | None:
        """Return one import."""
        row = await self._db.find(scope, FIND, scope.tenant, import_id)
        return dict(row) if row else None

    async def list_page(
        self, scope: Scope, limit: int, before: UUID | None, account_id: UUID | None, state: str | None
    ) -> list[Record]:
        """Return some, newest first."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, limit, before, account_id, state)
        return [dict(row) for row in rows]

    async def start(self, scope: Scope, import_id: UUID) -> None:
        """Say that an import is at work."""
        await self._db.execute(scope, START, scope.tenant, import_id)

    async def report(
        self,
        scope: Scope,
        import_id: UUID,
        *,
        sha256: str,
        rows: int,
        bad_count: int,
        periods: list[Record],
        bad: Sequence[Record],
    ) -> None:
        """Keep what was found in the file, in place of what an attempt before this one has found."""
        async with self._db.unit(scope):
            await self._db.execute(scope, REPORT, scope.tenant, import_id, sha256, rows, bad_count, periods)
            await self._db.execute(scope, FORGET_BAD, scope.tenant, import_id)
            columns = [[row[name] for row in bad] for name in ("id", "line", "column", "reason", "value")]
            await self._db.execute(scope, ADD_BAD, scope.tenant, import_id, *columns)

    async def finish(
        self,
        scope: Scope,
        import_id: UUID,
        state: str,
        *,
        periods: list[Record] | None = None,
        totals: Sequence[Record] = (),
        error: Record | None = None,
    ) -> Record | None:
        """Say how an import ended; return what is told of it."""
        row = await self._db.find(scope, FINISH, scope.tenant, import_id, state, periods, list(totals), error)
        return dict(row) if row else None

    async def list_bad(self, scope: Scope, import_id: UUID, limit: int, after: UUID | None) -> list[Record]:
        """Return rows that were set aside, in the order of the file."""
        return [dict(row) for row in await self._db.fetch(scope, LIST_BAD, scope.tenant, import_id, limit, after)]
