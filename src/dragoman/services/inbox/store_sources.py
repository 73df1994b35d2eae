"""The SQL of webhook sources."""

from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
_SOURCE: LiteralString = """
tenant_id, id, name, provider, account, settings, secrets, version, created_by, created_at, updated_at"""
ADD: LiteralString = f"""
INSERT INTO webhook_sources (tenant_id, id, name, provider, account, settings, secrets, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING {_SOURCE}"""
FIND: LiteralString = f"SELECT {_SOURCE} FROM webhook_sources WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_SOURCE} FROM webhook_sources
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::text IS NULL OR provider = $4)
ORDER BY id DESC LIMIT $2"""
CHANGE: LiteralString = f"""
UPDATE webhook_sources SET name = coalesce($3, name), account = coalesce($4, account),
    settings = coalesce($5, settings), secrets = coalesce($6, secrets), version = version + 1,
    updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND version = $7 RETURNING {_SOURCE}"""
REMOVE: LiteralString = "DELETE FROM webhook_sources WHERE tenant_id = $1 AND id = $2"


def place_of(tenant: UUID, source_id: UUID) -> str:
    """Return what the secrets of a source are sealed for."""
    return f"webhooks/{tenant}/{source_id}"


class SourceStore:
    """The sources of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(
        self, scope: Scope, source_id: UUID, *, name: str, provider: str, account: str | None,
        settings: dict[str, Any], secrets: bytes, by: str,
    ) -> Record:  # fmt: skip
        """Add one."""
        row = await self._db.find(scope, ADD, scope.tenant, source_id, name, provider, account, settings, secrets, by)
        return dict(row) if row else {}

    async def find(self, scope: Scope, source_id: UUID) -> Record | None:
        """Return one."""
        row = await self._db.find(scope, FIND, scope.tenant, source_id)
        return dict(row) if row else None

    async def list_page(self, scope: Scope, limit: int, before: UUID | None, provider: str | None) -> list[Record]:
        """Return some, newest first."""
        return [dict(row) for row in await self._db.fetch(scope, LIST, scope.tenant, limit, before, provider)]

    async def change(
        self,
        scope: Scope,
        source_id: UUID,
        *,
        version: int,
        name: str | None = None,
        account: str | None = None,
        settings: dict[str, Any] | None = None,
        secrets: bytes | None = None,
    ) -> Record | None:
        """Change what is given; None when it is gone or has another version."""
        row = await self._db.find(scope, CHANGE, scope.tenant, source_id, name, account, settings, secrets, version)
        return dict(row) if row else None

    async def remove(self, scope: Scope, source_id: UUID) -> bool:
        """Remove one with its events; False when there is none."""
        return bool(await self._db.execute(scope, REMOVE, scope.tenant, source_id))
