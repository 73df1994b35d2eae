"""The SQL of uploads."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

Record = dict[str, Any]
_UPLOAD: LiteralString = "id, file_name, size_bytes, sha256, part_bytes, expires_at"
SIZE: LiteralString = "SELECT coalesce(sum(size_bytes), 0)::bigint FROM cost_uploads WHERE tenant_id = $1"
ADD: LiteralString = f"""
INSERT INTO cost_uploads (tenant_id, id, file_name, size_bytes, sha256, part_bytes, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, now() + $8::interval) RETURNING {_UPLOAD}"""
FIND: LiteralString = f"SELECT {_UPLOAD} FROM cost_uploads WHERE tenant_id = $1 AND id = $2 AND expires_at > now()"
LIST_PARTS: LiteralString = "SELECT number FROM cost_upload_parts WHERE tenant_id = $1 AND upload_id = $2"
ADD_PART: LiteralString = """
INSERT INTO cost_upload_parts (tenant_id, upload_id, number, content) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"""
READ_PART: LiteralString = """
SELECT content FROM cost_upload_parts WHERE tenant_id = $1 AND upload_id = $2 AND number = $3"""
REMOVE: LiteralString = "DELETE FROM cost_uploads WHERE tenant_id = $1 AND id = $2"


class UploadStore:
    """The uploads of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def size(self, scope: Scope) -> int:
        """Return how large the uploads of a tenant are."""
        row = await self._db.find(scope, SIZE, scope.tenant)
        return int(row[0]) if row else 0

    async def add(
        self, scope: Scope, upload_id: UUID, *, file_name: str, size: int, sha256: str, part_bytes: int, by: str,
        keep: timedelta,
    ) -> Record:  # fmt: skip
        """Begin an upload."""
        row = await self._db.find(scope, ADD, scope.tenant, upload_id, file_name, size, sha256, part_bytes, by, keep)
        return dict(row) if row else {}

    async def find(self, scope: Scope, upload_id: UUID) -> Record | None:
        """Return an upload that has not expired."""
        row = await self._db.find(scope, FIND, scope.tenant, upload_id)
        return dict(row) if row else None

    async def list_parts(self, scope: Scope, upload_id: UUID) -> set[int]:
        """Return the numbers of the parts that have arrived."""
        return {row["number"] for row in await self._db.fetch(scope, LIST_PARTS, scope.tenant, upload_id)}

    async def add_part(self, scope: Scope, upload_id: UUID, number: int, content: bytes) -> None:
        """Keep a part, unless it has arrived before."""
        await self._db.execute(scope, ADD_PART, scope.tenant, upload_id, number, content)

    async def read(self, scope: Scope, upload_id: UUID, parts: int) -> AsyncGenerator[bytes]:
        """Yield the parts in their order; one that is gone yields nothing."""
        for number in range(1, parts + 1):
            row = await self._db.find(scope, READ_PART, scope.tenant, upload_id, number)
            yield row["content"] if row else b""

    async def remove(self, scope: Scope, upload_id: UUID) -> None:
        """Remove an upload with its parts."""
        await self._db.execute(scope, REMOVE, scope.tenant, upload_id)
