"""The SQL of approvals: what was asked for and decided is only ever added, how it stands moves one way."""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from dragoman.context import ourselves
from dragoman.infra.db import Database, Scope
from dragoman.services.approvals.records import NewApproval, NewDecision, Record, Wanted
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.rows import RowGroup, Rows, RowTable, stated
from dragoman.services.audit.statements import Statements
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.subscriptions.event_types import APPROVAL_DECIDED, APPROVAL_REQUESTED
from dragoman.services.subscriptions.store_outbox import tell

_AFTER_ALL = UUID(int=2**128 - 1)

# An approval whose time is over has ended, whether or not the sweep has come by.
_STATE: LiteralString = (
    "CASE WHEN a.state IN ('pending', 'approved') AND a.expires_at <= now() THEN 'expired' ELSE a.state END"
)
_SUMMARY: LiteralString = f"""
a.id AS approval_id, {_STATE} AS state, a.action, a.resource, a.matter_id, a.digest, a.requested_by, a.reason,
a.policies, a.quorum, a.roles, a.people_only, a.created_at, a.expires_at, a.closed_at, a.closed_because, a.consumed_by,
a.actor, a.on_behalf_of, a.grants,
(SELECT count(*) FROM approval_decisions d
 WHERE d.tenant_id = a.tenant_id AND d.approval_id = a.id AND d.decision = 'approve') AS approved"""
_WHOLE: LiteralString = f"{_SUMMARY}, a.input, a.parties, a.facts"

ADD: LiteralString = """
INSERT INTO approvals
    (tenant_id, id, digest, action, resource, matter_id, input, policies, quorum, roles, people_only, requested_by,
     parties, reason, expires_at, facts, actor, on_behalf_of, grants)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, now() + $15::interval, $16, $17, $18, $19)"""
FIND: LiteralString = f"SELECT {_WHOLE} FROM approvals a WHERE a.tenant_id = $1 AND a.id = ANY ($2) ORDER BY a.id"
LOCK: LiteralString = "SELECT id FROM approvals WHERE tenant_id = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE"
DECISIONS: LiteralString = """
SELECT approval_id, subject AS by, principal_type AS type, role, decision, reason, digest, at FROM approval_decisions
WHERE tenant_id = $1 AND approval_id = ANY ($2) ORDER BY at"""
LIST: LiteralString = f"""
SELECT {_SUMMARY} FROM approvals a
WHERE a.tenant_id = $1 AND a.id < $3
  AND ($4::text IS NULL OR {_STATE} = $4)
  AND ($5::text IS NULL OR a.action = $5)
  AND ($6::text IS NULL OR a.matter_id = $6)
  AND ($7::text IS NULL OR a.requested_by = $7)
  AND ($8::text IS NULL OR (
      a.state = 'pending' AND a.expires_at > now() AND a.roles && $9 AND ($10 OR NOT a.people_only)
      AND NOT $8 = ANY (a.parties)
      AND NOT EXISTS (SELECT FROM approval_decisions d
                      WHERE d.tenant_id = a.tenant_id AND d.approval_id = a.id AND d.subject = $8)))
ORDER BY a.id DESC LIMIT $2"""
DECIDE: LiteralString = """
INSERT INTO approval_decisions (tenant_id, approval_id, subject, principal_type, role, decision, reason, digest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
CLOSE: LiteralString = """
UPDATE approvals SET state = $3, closed_because = $4,
    closed_at = CASE WHEN $3 = 'approved' THEN NULL ELSE now() END
WHERE tenant_id = $1 AND id = $2 AND state IN ('pending', 'approved')"""
APPROVED_VERSION: LiteralString = """
SELECT resource ->> 'version' AS version FROM approvals
WHERE tenant_id = $1 AND resource ->> 'type' = $2 AND resource ->> 'id' = $3 AND id < $4
  AND state IN ('approved', 'consumed') AND resource ? 'version'
ORDER BY id DESC LIMIT 1"""
CONSUME: LiteralString = """
UPDATE approvals SET state = 'consumed', consumed_by = $3, closed_at = now()
WHERE tenant_id = $1 AND id = ANY ($2) AND state = 'approved' AND expires_at > now()"""

EXPIRE: LiteralString = """
WITH over AS (
    SELECT tenant_id, id, state FROM approvals WHERE state IN ('pending', 'approved') AND expires_at <= now()
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE approvals a SET state = 'expired', closed_at = now() FROM over
WHERE a.tenant_id = over.tenant_id AND a.id = over.id
RETURNING a.tenant_id, a.id, a.action, a.matter_id, a.requested_by, over.state AS was"""
# A task that began to wait while its approval was being decided, or whose news died with a process.
FORGOTTEN: LiteralString = """
SELECT DISTINCT a.tenant_id, a.id FROM delegations d CROSS JOIN LATERAL unnest(d.waits_for) AS w (ref)
JOIN approvals a ON a.tenant_id = d.tenant_id AND a.id = w.ref::uuid AND a.state <> 'pending'
WHERE d.waits_for IS NOT NULL LIMIT $1"""
HOLDERS: LiteralString = "SELECT DISTINCT tenant_id FROM approvals WHERE state IN ('pending', 'approved')"
OPEN: LiteralString = """
SELECT id, action, matter_id, requested_by, state AS was, policies FROM approvals
WHERE tenant_id = $1 AND state IN ('pending', 'approved') AND id > $2 ORDER BY id LIMIT $3"""
OPEN_AMONG: LiteralString = """
SELECT id, action, matter_id, requested_by, state AS was FROM approvals
WHERE tenant_id = $1 AND id = ANY ($2) AND state IN ('pending', 'approved') ORDER BY id"""
SPOIL: LiteralString = """
UPDATE approvals SET state = 'stale', closed_because = $3, closed_at = now()
WHERE tenant_id = $1 AND id = $2 AND state IN ('pending', 'approved')"""

# Subscribers are told of identifiers and states; what is to be done, and why, is read with credentials of one's own.
TELL: LiteralString = tell("""
SELECT a.tenant_id AS tenant, 'msg_' || replace(a.id::text, '-', '') || '_' || a.state AS message_id, $3::text AS type,
       a.id::text AS subject, now() AS at, jsonb_build_object(
           'approval_id', a.id, 'state', a.state, 'action', a.action, 'resource', a.resource, 'matter_id', a.matter_id,
           'requested_by', a.requested_by, 'digest', a.digest, 'quorum', a.quorum, 'roles', a.roles,
           'people_only', a.people_only, 'expires_at', a.expires_at) AS data
FROM unnest($1::uuid[], $2::uuid[]) AS g (tenant, id) JOIN approvals a ON a.tenant_id = g.tenant AND a.id = g.id""")

# What an approval and its decisions promise; the audit trail is held against it.
PROMISED = RowGroup(
    ids="SELECT id FROM approvals WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3",
    tables=(
        RowTable(
            "approvals",
            """SELECT id AS key, state, digest, action, resource, matter_id, input, policies, quorum, roles,
                      people_only, requested_by, parties, reason, expires_at, closed_because, consumed_by, facts,
                      actor, on_behalf_of, grants
               FROM approvals WHERE tenant_id = $1 AND id = ANY ($2)""",
        ),
        RowTable(
            "approval_decisions",
            """SELECT approval_id || '/' || subject AS key, subject, principal_type, role, decision, reason, digest
               FROM approval_decisions WHERE tenant_id = $1 AND approval_id = ANY ($2)""",
        ),
    ),
)


class ApprovalStore:
    """The approvals of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def add(self, scope: Scope, new: NewApproval) -> None:
        """Record a request."""
        async with self._db.unit(scope):
            await self._db.execute(
                scope, ADD, scope.tenant, new.id, new.digest, new.action, new.resource, new.matter_id, new.input,
                new.policies, new.quorum, new.roles, new.people_only, new.requested_by, new.parties, new.reason,
                new.valid_for, new.facts, new.actor, new.on_behalf_of, new.grants,
            )  # fmt: skip
            await self._tell(scope, APPROVAL_REQUESTED, new.id)
            await self._statements.add(scope, "approval.add", new.id)

    async def find(self, scope: Scope, approval_id: UUID, *, lock: bool = False) -> Record | None:
        """An approval with its decisions; with `lock`, as nobody else can change it until the unit of work ends."""
        found = await self.find_all(scope, [approval_id], lock=lock)
        return found[0] if found else None

    async def find_all(self, scope: Scope, approval_ids: Sequence[UUID], *, lock: bool = False) -> list[Record]:
        """Those of them that there are, in the order of their ids."""
        async with self._db.unit(scope):
            if lock:
                await self._db.fetch(scope, LOCK, scope.tenant, approval_ids)
            rows = [dict(row) for row in await self._db.fetch(scope, FIND, scope.tenant, approval_ids)]
            decisions = await self._db.fetch(scope, DECISIONS, scope.tenant, approval_ids) if rows else ()
        for row in rows:
            row["decisions"] = [dict(one) for one in decisions if one["approval_id"] == row["approval_id"]]
        return rows

    async def list_page(self, scope: Scope, wanted: Wanted) -> list[Record]:
        """Newest first."""
        rows = await self._db.fetch(
            scope, LIST, scope.tenant, wanted.limit, wanted.before or _AFTER_ALL, wanted.state, wanted.action,
            wanted.matter_id, wanted.requested_by, wanted.decider, wanted.roles, wanted.is_person,
        )  # fmt: skip
        return [dict(row) for row in rows]

    async def decide(self, scope: Scope, approval_id: UUID, decision: NewDecision, state: str | None) -> None:
        """Record a decision, and what the approval becomes by it, if anything. To be called with it locked."""
        async with self._db.unit(scope):
            await self._db.execute(
                scope, DECIDE, scope.tenant, approval_id, decision.subject, decision.principal_type, decision.role,
                decision.decision, decision.reason, decision.digest,
            )  # fmt: skip
            if state is not None:
                await self._db.execute(scope, CLOSE, scope.tenant, approval_id, state, None)
                await self._tell(scope, APPROVAL_DECIDED, approval_id)
            await self._statements.add(scope, "approval.add_decision", approval_id)

    async def withdraw(self, scope: Scope, approval_id: UUID, because: str | None) -> None:
        """Take it back. To be called with it locked."""
        async with self._db.unit(scope):
            await self._db.execute(scope, CLOSE, scope.tenant, approval_id, "withdrawn", because)
            await self._tell(scope, APPROVAL_DECIDED, approval_id)
            await self._statements.add(scope, "approval.close", approval_id)

    async def approved_version(self, scope: Scope, resource: Record, before: UUID) -> str | None:
        """Return the version of a resource that the last approval before this one was for."""
        row = await self._db.find(scope, APPROVED_VERSION, scope.tenant, resource["type"], resource["id"], before)
        return str(row["version"]) if row is not None else None

    async def consume(self, scope: Scope, approval_ids: Sequence[UUID], by: str) -> int:
        """Use up those that are approved; how many were. To be called with them locked."""
        async with self._db.unit(scope):
            consumed = await self._db.execute(scope, CONSUME, scope.tenant, approval_ids, by)
            for approval_id in approval_ids if consumed else ():
                await self._statements.add(scope, "approval.consume", approval_id)
        return consumed

    async def _tell(self, scope: Scope, event_type: str, approval_id: UUID) -> None:
        await self._db.execute(scope, TELL, [scope.tenant], [approval_id], event_type)


class SweepStore:
    """What changes by itself, over all tenants, with the audit records of it in the same transaction.

    Several processes do not get into each other's way: what one of them ends, it alone records.
    """

    def __init__(self, db: Database, trail: AuditTrail, *, batch: int = 200) -> None:
        self._db = db
        self._trail = trail
        self._batch = batch
        self._scope = Scope()

    async def expire(self) -> list[tuple[UUID, UUID]]:
        """End a batch of those whose time is over: tenant and id of each."""
        async with self._db.unit(self._scope):
            rows = [dict(row) for row in await self._db.fetch(self._scope, EXPIRE, self._batch)]
            lines = [
                self._line("approval.expire", row["tenant_id"], row, "its time is over", state="expired")
                for row in rows
            ]
            ended = [(row["tenant_id"], row["id"]) for row in rows]
            if ended:
                await self._tell(ended)
                await self._trail.add_all(self._scope, lines)
        return ended

    async def forgotten(self) -> list[tuple[UUID, UUID]]:
        """A batch of those that are decided and still waited for: tenant and id of each."""
        rows = await self._db.fetch(self._scope, FORGOTTEN, self._batch)
        return [(row["tenant_id"], row["id"]) for row in rows]

    async def holders(self) -> list[UUID]:
        """The tenants that have open approvals."""
        return [row["tenant_id"] for row in await self._db.fetch(self._scope, HOLDERS)]

    async def open_ones(self, tenant: UUID, after: UUID) -> list[Record]:
        """A batch of a tenant's open approvals, in the order of their ids."""
        return [dict(row) for row in await self._db.fetch(self._scope, OPEN, tenant, after, self._batch)]

    async def open_among(self, tenant: UUID, approval_ids: Sequence[UUID]) -> list[Record]:
        """Return those of a tenant's approvals that are open."""
        return [dict(row) for row in await self._db.fetch(self._scope, OPEN_AMONG, tenant, list(approval_ids))]

    async def spoil(self, tenant: UUID, row: Record, because: str) -> bool:
        """End one that was overtaken; whether it was still open."""
        async with self._db.unit(self._scope):
            if not await self._db.execute(self._scope, SPOIL, tenant, row["id"], because):
                return False
            await self._tell([(tenant, row["id"])])
            line = self._line("approval.spoil", tenant, row, because, state="stale", closed_because=because)
            await self._trail.add_all(self._scope, [line])
        return True

    async def _tell(self, ended: Sequence[tuple[UUID, UUID]]) -> None:
        tenants, approval_ids = [tenant for tenant, _ in ended], [approval_id for _, approval_id in ended]
        await self._db.execute(self._scope, TELL, tenants, approval_ids, APPROVAL_DECIDED)

    def _line(self, name: str, tenant: UUID, row: Record, reason: str, **columns: str) -> Line:
        details = {key: row[key] for key in ("action", "matter_id", "requested_by", "was")}
        rows: Rows = {f"approvals/{row['id']}": {name: stated(value) for name, value in columns.items()}}
        entry = Entry(name, Outcome.DONE, resource=str(row["id"]), reason=reason[:500], details=details, rows=rows)
        return self._trail.write(ourselves(tenant), entry)
