"""The SQL of the audit trail. Records and seals are only ever added."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document
from dragoman.services.audit.chain import Head
from dragoman.services.audit.store_lists import list_statement

# Any constant will do, as long as every release uses the same one.
_SEALER_LOCK: LiteralString = "6436146"
_BEFORE_ALL = UUID(int=0)

ADD: LiteralString = """
INSERT INTO audit_records (tenant_id, id, at, operation, outcome, subject, resource, action, about, body, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"""
# As one document: the driver would look at every value of eight arrays, to see whether it is an array again. Also part
# of statements that do what is recorded: `$1` is the document of `rows`, and `place` the place of a record in it.
ADD_ALL: LiteralString = """
INSERT INTO audit_records (tenant_id, id, at, operation, outcome, subject, resource, action, about, body, mac)
SELECT r.tenant, r.id, r.at, r.operation, r.outcome, r.subject, r.resource, r.action, r.about,
       convert_to(r.body, 'UTF8'), decode(r.mac, 'hex')
FROM json_to_recordset($1::text::json)
    AS r (place int, tenant uuid, id uuid, at timestamptz, operation text, outcome text, subject text, resource text,
          action text, about text, body text, mac text)"""
CHAIN: LiteralString = """
SELECT l.seq, l.record_id, l.hash, r.body, r.mac, r.at, r.operation, r.outcome, r.subject, r.resource, r.action, r.about
FROM audit_links l
LEFT JOIN audit_records r ON r.tenant_id = l.tenant_id AND r.id = l.record_id
WHERE l.tenant_id = $1 AND l.seq > $2 AND l.seq <= $3 ORDER BY l.seq LIMIT $4"""
# One statement: link and head are committed together, so one snapshot sees both or neither.
END: LiteralString = """
SELECT coalesce((SELECT max(seq) FROM audit_links WHERE tenant_id = $1), 0) AS last,
       h.tenant_id, h.seq, h.hash, h.sealed_at, h.key_id, h.signature
FROM (SELECT) AS always
LEFT JOIN LATERAL (SELECT * FROM audit_heads WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1) AS h ON true"""
HEAD_AT: LiteralString = """
SELECT tenant_id, seq, hash, sealed_at, key_id, signature FROM audit_heads WHERE tenant_id = $1 AND seq = $2"""
UNSEALED: LiteralString = """
SELECT r.id, r.body, r.mac, r.at, r.operation, r.outcome, r.subject, r.resource, r.action, r.about,
       (r.xid, r.id) <= (SELECT w.xid, w.id FROM audit_watermark w) AS passed_over
FROM audit_records r
WHERE r.tenant_id = $1 AND r.id > $2
  AND NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id)
ORDER BY r.id LIMIT $3"""

TRY_LOCK: LiteralString = f"SELECT pg_try_advisory_xact_lock({_SEALER_LOCK}) AS mine"
WATERMARK: LiteralString = """
SELECT xid, id, pg_snapshot_xmin(now) AS settled, xid > pg_snapshot_xmax(now) AS foreign_xid
FROM audit_watermark, pg_current_snapshot() AS now"""
# The sub-select is one look into an index for each row; a join would be planned as a scan of all links.
PENDING: LiteralString = """
SELECT r.tenant_id, r.id, r.xid, r.body, r.mac,
       (SELECT l.seq FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id) AS seq
FROM audit_records r
WHERE (r.xid, r.id) > ($1::xid8, $2::uuid) AND r.xid < $3::xid8
ORDER BY r.xid, r.id LIMIT $4"""
STRAY: LiteralString = """
SELECT r.tenant_id, r.id, r.xid, r.body, r.mac, NULL::bigint AS seq FROM audit_records r
WHERE NOT EXISTS (SELECT 1 FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id)
ORDER BY r.xid, r.id"""
LAST_LINKS: LiteralString = """
SELECT t.id AS tenant_id, l.seq, l.hash FROM unnest($1::uuid[]) AS t (id)
CROSS JOIN LATERAL (SELECT seq, hash FROM audit_links WHERE tenant_id = t.id ORDER BY seq DESC LIMIT 1) AS l"""
ADD_LINKS: LiteralString = """
INSERT INTO audit_links (tenant_id, seq, record_id, hash)
SELECT tenant, seq, record, decode(hash, 'hex')
FROM json_to_recordset($1::text::json) AS g (tenant uuid, seq bigint, record uuid, hash text)"""
ADD_HEADS: LiteralString = """
INSERT INTO audit_heads (tenant_id, seq, hash, sealed_at, key_id, signature)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bytea[])"""
MOVE_WATERMARK: LiteralString = "UPDATE audit_watermark SET xid = $1::xid8, id = $2"
OLDEST_PENDING: LiteralString = """
SELECT r.at FROM audit_records r
WHERE (r.xid, r.id) > (SELECT w.xid, w.id FROM audit_watermark w) AND r.xid < pg_snapshot_xmax(pg_current_snapshot())
  AND (SELECT l.seq FROM audit_links l WHERE l.tenant_id = r.tenant_id AND l.record_id = r.id) IS NULL
ORDER BY r.xid, r.id LIMIT 1"""
# From tenant to tenant by the index, whatever the number of heads that each has.
NEWEST_HEADS: LiteralString = """
WITH RECURSIVE newest AS (
    (SELECT * FROM audit_heads ORDER BY tenant_id DESC, seq DESC LIMIT 1)
    UNION ALL
    SELECT h.* FROM newest n CROSS JOIN LATERAL (
        SELECT * FROM audit_heads WHERE tenant_id < n.tenant_id ORDER BY tenant_id DESC, seq DESC LIMIT 1) AS h)
SELECT tenant_id, seq, hash, sealed_at, key_id, signature FROM newest"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is kept beside the body to filter by; a copy, of which the body is the truth.

    `action` is that of the task which the record is a step of, `about` the id of what that, or an approval, is about.
    """

    at: datetime
    operation: str
    outcome: str
    subject: str
    resource: str | None = None
    action: str | None = None
    about: str | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """A record that waits for its seal."""

    tenant: UUID
    id: UUID
    body: bytes
    mac: bytes


@dataclass(frozen=True, slots=True)
class Watermark:
    """Up to where the sealer is, in the order of transactions and, within one, of ids."""

    xid: int
    id: UUID


# A record as it is stored: tenant, id, what is shown of it, body, mac.
Line = tuple[UUID, UUID, Shown, bytes, bytes]


def rows(lines: Sequence[Line], places: Sequence[int] | None = None) -> str:
    """Return the records as the one parameter of `ADD_ALL`, each with its place, by default that in the list."""
    return document(
        [
            {
                "place": place,
                "tenant": tenant,
                "id": record_id,
                "at": seen.at,
                "operation": seen.operation,
                "outcome": seen.outcome,
                "subject": seen.subject,
                "resource": seen.resource,
                "action": seen.action,
                "about": seen.about,
                "body": body.decode(),
                "mac": mac.hex(),
            }
            for place, (tenant, record_id, seen, body, mac) in zip(places or range(len(lines)), lines, strict=True)
        ]
    )


class AuditStore:
    """What a tenant sees and adds."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, scope: Scope, record_id: UUID, shown: Shown, body: bytes, mac: bytes) -> None:
        """One record, in whatever unit of work is open."""
        columns = (
            shown.at, shown.operation, shown.outcome, shown.subject, shown.resource, shown.action, shown.about
        )  # fmt: skip
        await self._db.execute(scope, ADD, scope.tenant, record_id, *columns, body, mac)

    async def add_all(self, scope: Scope, lines: Sequence[Line]) -> None:
        """Records of several tenants, in whatever unit of work is open."""
        await self._db.execute(scope, ADD_ALL, rows(lines))

    async def page(self, scope: Scope, limit: int, filters: Mapping[str, Any]) -> Sequence[Any]:
        """Newest first; the filters are those of `list_statement`."""
        return await self._db.fetch(scope, list_statement(filters), scope.tenant, limit, *filters.values())

    async def chain(self, scope: Scope, after: int, until: int, limit: int) -> Sequence[Any]:
        """Links with their records, oldest first."""
        return await self._db.fetch(scope, CHAIN, scope.tenant, after, until, limit)

    async def end(self, scope: Scope) -> tuple[int, Head | None]:
        """The number of the last link, and the newest signed head: of one moment, so they should agree."""
        row = await self._db.find(scope, END, scope.tenant)
        if row is None:
            return 0, None
        last, *head = row
        return last, Head(*head) if head[0] is not None else None

    async def find_head(self, scope: Scope, seq: int) -> Head | None:
        """The head that was signed at this link."""
        row = await self._db.find(scope, HEAD_AT, scope.tenant, seq)
        return Head(*row) if row else None

    @asynccontextmanager
    async def snapshot(self, scope: Scope) -> AsyncGenerator[None]:
        """Show everything as it is at one moment: a row and the records of it are then of the same age."""
        async with self._db.unit(scope):
            await self._db.execute(scope, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    async def unsealed(self, scope: Scope, after: UUID, limit: int) -> Sequence[Any]:
        """Records that have no link, by id."""
        return await self._db.fetch(scope, UNSEALED, scope.tenant, after, limit)


class SealStore:
    """What the sealer reads and adds, over all tenants, as the role `dragoman_core`."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._scope = Scope()

    async def try_lock(self) -> bool:
        """Whether this process seals; held until the unit of work ends."""
        row = await self._db.find(self._scope, TRY_LOCK)
        return bool(row and row["mine"])

    async def pending(self, limit: int) -> tuple[list[Pending], Watermark | None, bool]:
        """Records that no running transaction can still precede, where that leads, and whether there are more.

        Transaction ids are a cluster's own. In a database that was restored from a dump into another cluster the
        watermark may lie ahead of every transaction to come; then all that has no link is pending.
        """
        marks = await self._db.find(self._scope, WATERMARK)
        if marks is None:
            raise RuntimeError("the audit watermark is gone")
        settled = Watermark(marks["settled"], _BEFORE_ALL)
        if marks["foreign_xid"]:
            return _pending(await self._db.fetch(self._scope, STRAY)), settled, False
        rows = await self._db.fetch(self._scope, PENDING, marks["xid"], marks["id"], marks["settled"], limit)
        if len(rows) == limit:
            return _pending(rows), Watermark(rows[-1]["xid"], rows[-1]["id"]), True
        return _pending(rows), settled if rows else None, False

    async def last_links(self, tenants: list[UUID]) -> dict[UUID, tuple[int, bytes]]:
        """Where each tenant's chain ends."""
        rows = await self._db.fetch(self._scope, LAST_LINKS, tenants)
        return {row["tenant_id"]: (row["seq"], row["hash"]) for row in rows}

    async def add(self, links: list[tuple[UUID, int, UUID, bytes]], heads: list[Head]) -> None:
        """Seal."""
        given = [
            {"tenant": tenant, "seq": seq, "record": record_id, "hash": link.hex()}
            for tenant, seq, record_id, link in links
        ]
        await self._db.execute(self._scope, ADD_LINKS, document(given))
        columns = [(h.tenant, h.seq, h.hash, h.sealed_at, h.key_id, h.signature) for h in heads]
        await self._db.execute(self._scope, ADD_HEADS, *(list(column) for column in zip(*columns, strict=True)))

    async def move(self, watermark: Watermark) -> None:
        """Go on from here next time."""
        await self._db.execute(self._scope, MOVE_WATERMARK, watermark.xid, watermark.id)

    async def oldest_pending(self) -> datetime | None:
        """When the record was written that waits longest."""
        row = await self._db.find(self._scope, OLDEST_PENDING)
        return row["at"] if row else None

    async def newest_heads(self) -> list[Head]:
        """Each tenant's."""
        return [Head(*row) for row in await self._db.fetch(self._scope, NEWEST_HEADS)]

    def unit(self) -> Any:
        """One transaction around a pass."""
        return self._db.unit(self._scope)


def _pending(rows: Sequence[Any]) -> list[Pending]:
    return [Pending(row["tenant_id"], row["id"], row["body"], row["mac"]) for row in rows if row["seq"] is None]
