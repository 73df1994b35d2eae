"""The SQL that removes what is no longer shown."""

from datetime import timedelta
from typing import Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

LIST_SLICES: LiteralString = """
SELECT tenant_id, id FROM cost_slices
WHERE state = 'replaced' OR (state = 'loading' AND made_at < now() - $1::interval) ORDER BY made_at LIMIT 1000"""
LIST_UPLOADS: LiteralString = "SELECT tenant_id, id FROM cost_uploads WHERE expires_at < now() LIMIT 1000"
# Sums before rows, and a part of the rows at a time: no statement runs for long.
REMOVE_SUMS: Final[tuple[LiteralString, ...]] = (
    "DELETE FROM cost_services_daily WHERE tenant_id = $1 AND slice_id = $2",
    "DELETE FROM cost_daily WHERE tenant_id = $1 AND slice_id = $2",
    "DELETE FROM cost_tags_daily WHERE tenant_id = $1 AND slice_id = $2",
    "DELETE FROM cost_resources_daily WHERE tenant_id = $1 AND slice_id = $2",
)
REMOVE_ROWS: LiteralString = """
DELETE FROM cost_rows WHERE tenant_id = $1 AND slice_id = $2 AND ctid = ANY (ARRAY(
    SELECT ctid FROM cost_rows WHERE tenant_id = $1 AND slice_id = $2 LIMIT 50000))"""
REMOVE_SLICE: LiteralString = "DELETE FROM cost_slices WHERE tenant_id = $1 AND id = $2 AND state <> 'current'"
REMOVE_UPLOAD: LiteralString = "DELETE FROM cost_uploads WHERE tenant_id = $1 AND id = $2"
_ANY_TENANT = Scope()


class CleanupStore:
    """Finds what is due in all tenants, and removes it in each of them."""

    def __init__(self, db: Database, core_db: Database) -> None:
        self._db = db
        self._core_db = core_db

    async def list_slices(self, abandoned: timedelta) -> list[tuple[UUID, UUID]]:
        """Return slices that were replaced, or begun long ago, each with its tenant."""
        return [(row[0], row[1]) for row in await self._core_db.fetch(_ANY_TENANT, LIST_SLICES, abandoned)]

    async def list_uploads(self) -> list[tuple[UUID, UUID]]:
        """Return uploads that have expired, each with its tenant."""
        return [(row[0], row[1]) for row in await self._core_db.fetch(_ANY_TENANT, LIST_UPLOADS)]

    async def remove_slice(self, tenant: UUID, slice_id: UUID) -> None:
        """Remove a slice with its rows and sums; one that is removed in part is removed on later."""
        scope = Scope(tenant)
        for statement in REMOVE_SUMS:
            await self._db.execute(scope, statement, tenant, slice_id)
        while await self._db.execute(scope, REMOVE_ROWS, tenant, slice_id):
            pass
        await self._db.execute(scope, REMOVE_SLICE, tenant, slice_id)

    async def remove_upload(self, tenant: UUID, upload_id: UUID) -> None:
        """Remove an upload with its parts."""
        await self._db.execute(Scope(tenant), REMOVE_UPLOAD, tenant, upload_id)
