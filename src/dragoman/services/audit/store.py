"""The SQL of the audit trail. Records and seals are only ever added."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.chain import Entry, Head

# Any constant will do, as long as every release uses the same one.
_SEALER_LOCK: LiteralString = "6436146"

ADD: LiteralString = "INSERT INTO audit_records (tenant_id, id, body, mac) VALUES ($1, $2, $3, $4)"
LIST: LiteralString = """
SELECT r.id, r.body, l.seq FROM audit_records r
LEFT JOIN audit_links l ON l.tenant_id = r.tenant_id AND l.record_id = r.id
CROSS JOIN LATERAL (SELECT convert_from(r.body, 'UTF8')::jsonb AS body) AS j
WHERE r.tenant_id = $1 AND ($3::uuid IS NULL OR r.id < $3)
  AND ($4::text IS NULL OR j.body->>'operation' = $4) AND ($5::text IS NULL OR j.body->>'subject' = $5)
  AND ($6::text IS NULL OR j.body->>'outcome' = $6)
  AND ($7::timestamptz IS NULL OR (j.body->>'at')::timestamptz >= $7)
  AND ($8::timestamptz IS NULL OR (j.body->>'at')::timestamptz < $8)
ORDER BY r.id DESC LIMIT $2"""
CHAIN: LiteralString = """
SELECT l.seq, l.record_id, r.body, r.mac, l.hash FROM audit_links l
LEFT JOIN audit_records r ON r.tenant_id = l.tenant_id AND r.id = l.record_id
WHERE l.tenant_id = $1 AND l.seq > $2 ORDER BY l.seq LIMIT $3"""
HEAD: LiteralString = """
SELECT tenant_id, seq, hash, sealed_at, key_id, signature FROM audit_heads
WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1"""
UNSEALED: LiteralString = """
SELECT r.id, r.body, r.mac FROM audit_records r WHERE r.tenant_id = $1
AND NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id)"""

TRY_LOCK: LiteralString = f"SELECT pg_try_advisory_xact_lock({_SEALER_LOCK}) AS mine"
WATERMARK: LiteralString = "SELECT below, pg_snapshot_xmin(pg_current_snapshot()) AS settled FROM audit_watermark"
# The watermark only saves work; that a record has no link yet is what counts.
PENDING: LiteralString = """
SELECT r.tenant_id, r.id, r.xid, r.body, r.mac FROM audit_records r
WHERE r.xid >= $1::xid8 AND r.xid < $2::xid8
  AND NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id)
ORDER BY r.xid, r.id LIMIT $3"""
LAST_LINKS: LiteralString = """
SELECT t.id AS tenant_id, l.seq, l.hash FROM unnest($1::uuid[]) AS t (id)
CROSS JOIN LATERAL (SELECT seq, hash FROM audit_links WHERE tenant_id = t.id ORDER BY seq DESC LIMIT 1) AS l"""
ADD_LINKS: LiteralString = """
INSERT INTO audit_links (tenant_id, seq, record_id, hash)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::bytea[])"""
ADD_HEADS: LiteralString = """
INSERT INTO audit_heads (tenant_id, seq, hash, sealed_at, key_id, signature)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bytea[])"""
MOVE_WATERMARK: LiteralString = "UPDATE audit_watermark SET below = $1::xid8"
OLDEST_PENDING: LiteralString = """
SELECT min((convert_from(r.body, 'UTF8')::jsonb->>'at')::timestamptz) AS oldest FROM audit_records r
WHERE r.xid >= (SELECT below FROM audit_watermark)
  AND NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id)"""


@dataclass(frozen=True, slots=True)
class Pending:
    """A record that waits for its seal."""

    tenant: UUID
    id: UUID
    xid: int
    body: bytes
    mac: bytes


class AuditStore:
    """What a tenant sees and adds."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, scope: Scope, record_id: UUID, body: bytes, mac: bytes) -> None:
        """One record, in whatever unit of work is open."""
        await self._db.execute(scope, ADD, scope.tenant, record_id, body, mac)

    async def page(self, scope: Scope, limit: int, after: UUID | None, *filters: Any) -> Sequence[Any]:
        """Newest first; filters: operation, subject, outcome, since, until."""
        return await self._db.fetch(scope, LIST, scope.tenant, limit, after, *filters)

    async def chain(self, scope: Scope, after: int, limit: int) -> list[Entry]:
        """Links with their records, oldest first."""
        rows = await self._db.fetch(scope, CHAIN, scope.tenant, after, limit)
        return [Entry(row["seq"], row["record_id"], row["body"], row["mac"], row["hash"]) for row in rows]

    async def head(self, scope: Scope) -> Head | None:
        """The newest signed head."""
        row = await self._db.find(scope, HEAD, scope.tenant)
        return Head(*row) if row else None

    async def unsealed(self, scope: Scope) -> Sequence[Any]:
        """Records that have no link yet."""
        return await self._db.fetch(scope, UNSEALED, scope.tenant)


class SealStore:
    """What the sealer reads and adds, over all tenants, as the role `dragoman_core`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._scope = Scope()

    async def try_lock(self) -> bool:
        """Whether this process seals; held until the unit of work ends."""
        row = await self._db.find(self._scope, TRY_LOCK)
        return bool(row and row["mine"])

    async def pending(self, limit: int) -> tuple[list[Pending], int]:
        """Records that no running transaction can still precede, and the watermark that says so."""
        marks = await self._db.find(self._scope, WATERMARK)
        if marks is None:
            raise RuntimeError("the audit watermark is gone")
        rows = await self._db.fetch(self._scope, PENDING, marks["below"], marks["settled"], limit)
        found = [Pending(row["tenant_id"], row["id"], row["xid"], row["body"], row["mac"]) for row in rows]
        return found, found[-1].xid if len(found) == limit else marks["settled"]

    async def last_links(self, tenants: list[UUID]) -> dict[UUID, tuple[int, bytes]]:
        """Where each tenant's chain ends."""
        rows = await self._db.fetch(self._scope, LAST_LINKS, tenants)
        return {row["tenant_id"]: (row["seq"], row["hash"]) for row in rows}

    async def add(self, links: list[tuple[UUID, int, UUID, bytes]], heads: list[Head], below: int) -> None:
        """Seal."""
        await self._db.execute(self._scope, ADD_LINKS, *(list(column) for column in zip(*links, strict=True)))
        columns = [(h.tenant, h.seq, h.hash, h.sealed_at, h.key_id, h.signature) for h in heads]
        await self._db.execute(self._scope, ADD_HEADS, *(list(column) for column in zip(*columns, strict=True)))
        await self._db.execute(self._scope, MOVE_WATERMARK, below)

    async def oldest_pending(self) -> datetime | None:
        """When the record was written that waits longest."""
        row = await self._db.find(self._scope, OLDEST_PENDING)
        return row["oldest"] if row else None

    def unit(self) -> Any:
        """One transaction around a pass."""
        return self._db.unit(self._scope)
