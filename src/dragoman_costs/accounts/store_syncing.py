"""The SQL of syncing: which files are known, and which accounts are due."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

KNOWN: LiteralString = """
SELECT name, version FROM cost_exports WHERE tenant_id = $1 AND account_id = $2 AND name = ANY ($3)"""
KEEP: LiteralString = """
INSERT INTO cost_exports (tenant_id, account_id, name, version, import_id) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, account_id, name) DO UPDATE
SET version = excluded.version, import_id = excluded.import_id, seen_at = now()"""
DUE: LiteralString = """
SELECT tenant_id, id, next_sync_at FROM cost_accounts
WHERE deleted_at IS NULL AND status <> 'disconnected' AND config ? 'export_url' AND next_sync_at <= now()
ORDER BY next_sync_at LIMIT $1"""
ACTIVE: LiteralString = "SELECT slug FROM tenants WHERE id = $1 AND status = 'active'"
ADVANCE: LiteralString = """
UPDATE cost_accounts SET next_sync_at = now() + $4::interval
WHERE tenant_id = $1 AND id = $2 AND next_sync_at = $3"""
DELETED: LiteralString = """
SELECT tenant_id, id FROM cost_accounts WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT $1"""
REMOVE: LiteralString = """
DELETE FROM cost_accounts a WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM cost_slices s WHERE s.tenant_id = $1 AND s.account_id = $2)"""
_ANY_TENANT = Scope()


@dataclass(frozen=True, slots=True)
class DueAccount:
    """An account whose sync is due."""

    tenant: UUID
    id: UUID
    due_at: datetime


class KnownExports:
    """The files of an account whose import was asked for."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def versions(self, scope: Scope, account_id: UUID, names: Sequence[str]) -> dict[str, str]:
        """Return the versions of those files that are known."""
        rows = await self._db.fetch(scope, KNOWN, scope.tenant, account_id, list(names))
        return {row["name"]: row["version"] for row in rows}

    async def keep(self, scope: Scope, account_id: UUID, name: str, version: str, import_id: UUID) -> None:
        """Remember the version of a file whose import was asked for."""
        await self._db.execute(scope, KEEP, scope.tenant, account_id, name, version, import_id)


class AccountSchedule:
    """Accounts of all tenants that are due to be synced, or to be removed."""

    def __init__(self, db: Database, core_db: Database) -> None:
        self._db = db
        self._core_db = core_db

    async def list_due(self, limit: int) -> list[DueAccount]:
        """Return accounts whose sync is due, the most overdue first."""
        return [DueAccount(*row) for row in await self._core_db.fetch(_ANY_TENANT, DUE, limit)]

    async def find_slug(self, tenant: UUID) -> str | None:
        """Return the slug of a tenant; None for one that is suspended or gone."""
        row = await self._db.find(Scope(tenant), ACTIVE, tenant)
        return row["slug"] if row else None

    async def advance(self, account: DueAccount, every: timedelta) -> None:
        """Set the next sync, unless another process has done so."""
        await self._core_db.execute(_ANY_TENANT, ADVANCE, account.tenant, account.id, account.due_at, every)

    async def list_deleted(self, limit: int) -> list[tuple[UUID, UUID]]:
        """Return deleted accounts that still have a row, each with its tenant."""
        return [(row[0], row[1]) for row in await self._core_db.fetch(_ANY_TENANT, DELETED, limit)]

    async def remove(self, tenant: UUID, account_id: UUID) -> bool:
        """Remove a deleted account once its last slice is gone; whether it is."""
        return bool(await self._db.execute(Scope(tenant), REMOVE, tenant, account_id))
