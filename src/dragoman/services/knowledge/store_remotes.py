"""The SQL of the credentials of remotes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

_REMOTE: LiteralString = "id, remote, kind, username, public_key, host_keys, secret, updated_by, updated_at"

LIST: LiteralString = f"SELECT {_REMOTE} FROM knowledge_remotes WHERE tenant_id = $1 ORDER BY remote"
FIND: LiteralString = f"SELECT {_REMOTE} FROM knowledge_remotes WHERE tenant_id = $1 AND remote = $2"
# Counted under a lock of the tenant: additions at the same moment count each other.
LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('knowledge_remotes:' || $1::uuid::text, 0))"
PUT: LiteralString = f"""
INSERT INTO knowledge_remotes (tenant_id, id, remote, kind, username, public_key, host_keys, secret, updated_by)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
WHERE (SELECT count(*) FROM knowledge_remotes WHERE tenant_id = $1 AND remote <> $3) < $10
ON CONFLICT (tenant_id, remote) DO UPDATE
SET kind = excluded.kind, username = excluded.username, public_key = excluded.public_key,
    host_keys = excluded.host_keys, secret = excluded.secret, updated_by = excluded.updated_by, updated_at = now()
RETURNING {_REMOTE}"""
REMOVE: LiteralString = f"DELETE FROM knowledge_remotes WHERE tenant_id = $1 AND id = $2 RETURNING {_REMOTE}"


@dataclass(frozen=True, slots=True)
class Connection:
    """The credentials of a remote as they are stored; `secret` is sealed for `place_of`."""

    id: UUID
    remote: str
    kind: str
    username: str
    public_key: str | None
    host_keys: list[str]
    secret: bytes = field(repr=False)
    updated_by: str = ""
    updated_at: datetime | None = None


def place_of(tenant: UUID, remote: str) -> str:
    """Return the place that the credentials of a remote are sealed for."""
    return f"knowledge-remote/{tenant}/{remote}"


class RemoteStore:
    """Stores the credentials of remotes; each method is one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def list(self, scope: Scope) -> list[Connection]:
        """List those of a tenant by remote."""
        return [Connection(*row) for row in await self._db.fetch(scope, LIST, scope.tenant)]

    async def find(self, scope: Scope, remote: str) -> Connection | None:
        """Return that of a remote, if there is one."""
        row = await self._db.find(scope, FIND, scope.tenant, remote)
        return Connection(*row) if row else None

    async def put(self, scope: Scope, new: Connection, *, most: int) -> Connection | None:
        """Add or replace that of a remote; return None when the tenant has `most` others already."""
        async with self._db.unit(scope):
            await self._db.execute(scope, LOCK, scope.tenant)
            row = await self._db.find(
                scope, PUT, scope.tenant, new.id, new.remote, new.kind, new.username, new.public_key, new.host_keys,
                new.secret, new.updated_by, most,
            )  # fmt: skip
        return Connection(*row) if row else None

    async def remove(self, scope: Scope, connection_id: UUID) -> Connection | None:
        """Remove one; return None when it does not exist."""
        row = await self._db.find(scope, REMOVE, scope.tenant, connection_id)
        return Connection(*row) if row else None
