"""The SQL of push configurations. Each has a cursor into its task's log, so that an event costs nothing more."""

from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

from dragoman.context import ourselves
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.rows import RowGroup, RowTable
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.push.models import Delivery, PushConfig
from dragoman.services.tasks.models import Json

# The configurations of a task are counted by one transaction at a time: each sees what those before it have put.
LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('push:' || $1::uuid::text || $2::uuid::text, 0))"
# One that exists already is replaced; what was delivered stays so, and one that had failed is tried again.
PUT: LiteralString = """
INSERT INTO push_configs AS p (tenant_id, task_id, id, version, url, scheme, secret, delivered_seq, caller)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $10
WHERE (SELECT count(*) FROM push_configs WHERE tenant_id = $1 AND task_id = $2 AND id <> $3) < $9
ON CONFLICT (tenant_id, task_id, id) DO UPDATE
SET version = excluded.version, url = excluded.url, scheme = excluded.scheme, secret = excluded.secret,
    caller = excluded.caller, state = 'open', reason = NULL, attempts = 0, due_at = now(), worker = NULL"""
FIND: LiteralString = """
SELECT task_id, id, url, scheme FROM push_configs WHERE tenant_id = $1 AND task_id = $2 AND id = $3"""
LIST: LiteralString = """
SELECT task_id, id, url, scheme FROM push_configs
WHERE tenant_id = $1 AND task_id = $2 AND ($3::text IS NULL OR id > $3) ORDER BY id LIMIT $4"""
REMOVE: LiteralString = "DELETE FROM push_configs WHERE tenant_id = $1 AND task_id = $2 AND id = $3"

# Those that something happened to, unless they are being delivered to or wait for their next attempt.
HURRY: LiteralString = """
UPDATE push_configs SET due_at = now()
WHERE task_id = ANY($1) AND state = 'open' AND attempts = 0 AND worker IS NULL"""
# A suspended tenant keeps everything, and nobody is told anything of it; delivery goes on when it is let in again.
_ACTIVE: LiteralString = "EXISTS (SELECT 1 FROM tenants n WHERE n.id = p.tenant_id AND n.status = 'active')"
# Those that never fail come first. What has no news is looked at again later; its row is locked by then in any case.
CLAIM: LiteralString = f"""
WITH due AS (
    SELECT p.tenant_id, p.task_id, p.id,
           coalesce((SELECT t.seq FROM tasks t WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id), 0)
               > p.delivered_seq AS news
    FROM push_configs p
    WHERE p.state = 'open' AND p.due_at <= now() AND p.tenant_id <> ALL($3) AND {_ACTIVE}
    ORDER BY p.attempts, p.due_at LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE push_configs p SET
    due_at = now() + CASE WHEN due.news THEN $4::interval ELSE $5::interval END,
    worker = CASE WHEN due.news THEN $1::uuid END
FROM due WHERE p.tenant_id = due.tenant_id AND p.task_id = due.task_id AND p.id = due.id
RETURNING p.tenant_id, p.task_id, p.id, p.version, p.url, p.scheme, p.secret, p.delivered_seq, p.attempts, p.created_at,
          p.caller, due.news"""
ADVANCE: LiteralString = f"""
UPDATE push_configs p SET delivered_seq = $5, attempts = 0, due_at = now() + $6::interval
WHERE tenant_id = $1 AND task_id = $2 AND id = $3 AND worker = $4 AND {_ACTIVE}"""
# A task that has ended and was told whole needs no more looks.
REST: LiteralString = """
UPDATE push_configs p SET worker = NULL, due_at = now() + $5::interval,
    state = CASE WHEN EXISTS (
        SELECT 1 FROM tasks t WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id AND t.seq <= p.delivered_seq
          AND t.state IN ('succeeded', 'failed', 'rejected', 'cancelled', 'dead_letter')
    ) THEN 'done' ELSE 'open' END
WHERE tenant_id = $1 AND task_id = $2 AND id = $3 AND worker = $4"""
RETRY: LiteralString = """
UPDATE push_configs SET worker = NULL, attempts = $5, due_at = now() + $6::interval, reason = $7
WHERE tenant_id = $1 AND task_id = $2 AND id = $3 AND worker = $4"""
FAIL: LiteralString = f"""
UPDATE push_configs p SET worker = NULL, state = 'failed', reason = $5
WHERE tenant_id = $1 AND task_id = $2 AND id = $3 AND worker = $4 AND {_ACTIVE}"""
RELEASE: LiteralString = """
UPDATE push_configs SET worker = NULL, due_at = now() WHERE state = 'open' AND worker = $1"""
CLEAN: LiteralString = """
DELETE FROM push_configs p WHERE created_at < now() - interval '1 hour'
AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.tenant_id = p.tenant_id AND t.id = p.task_id)
RETURNING tenant_id, task_id, id"""

# What a configuration promises: who is told, where, and on whose behalf; the audit trail is held against it.
PROMISED = RowGroup(
    ids="""SELECT DISTINCT task_id AS id FROM push_configs WHERE tenant_id = $1 AND task_id > $2
           ORDER BY task_id LIMIT $3""",
    tables=(
        RowTable(
            "push_configs",
            """SELECT task_id || '/' || id AS key, version, encode(sha256(convert_to(url, 'UTF8')), 'hex') AS url,
                      scheme, caller
               FROM push_configs WHERE tenant_id = $1 AND task_id = ANY ($2)""",
            since=4,
        ),
    ),
)


class PushStore:
    """What a tenant has of its configurations."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def put(
        self,
        tenant: UUID,
        config: PushConfig,
        *,
        caller: Json,
        version: str,
        secret: bytes | None,
        after: int,
        most: int,
    ) -> bool:
        """Add or replace one; False when the task has too many."""
        values = (tenant, config.task_id, config.id, version, config.url, config.scheme, secret, after, most, caller)
        async with self._db.unit(Scope(tenant)):
            await self._db.execute(Scope(tenant), LOCK, tenant, config.task_id)
            return await self._db.execute(Scope(tenant), PUT, *values) > 0

    async def find(self, tenant: UUID, task_id: UUID, config_id: str) -> PushConfig | None:
        """One of a task's."""
        row = await self._db.find(Scope(tenant), FIND, tenant, task_id, config_id)
        return PushConfig(*row) if row else None

    async def list(self, tenant: UUID, task_id: UUID, after: str | None, limit: int) -> list[PushConfig]:
        """Those of a task by their ids; one more than the limit when there are more."""
        rows = await self._db.fetch(Scope(tenant), LIST, tenant, task_id, after, limit + 1)
        return [PushConfig(*row) for row in rows]

    async def remove(self, tenant: UUID, task_id: UUID, config_id: str) -> None:
        """Forget one; nothing when there is none."""
        await self._db.execute(Scope(tenant), REMOVE, tenant, task_id, config_id)


class DeliveryStore:
    """What the deliverer of one process does, over all tenants, as the role `dragoman_core`."""

    def __init__(self, db: Database, trail: AuditTrail, worker: UUID, *, lease: timedelta, idle: timedelta) -> None:
        self._db = db
        self._trail = trail
        self._worker = worker
        self._lease = lease
        self._idle = idle
        self._scope = Scope()

    async def hurry(self, task_ids: Sequence[UUID]) -> None:
        """Something happened to these tasks: look at their configurations now."""
        await self._db.execute(self._scope, HURRY, list(task_ids))

    async def claim(self, limit: int, busy: Sequence[UUID]) -> tuple[list[Delivery], int]:
        """Lease those that are due and have news, none of `busy` tenants; and how many were looked at."""
        rows = await self._db.fetch(self._scope, CLAIM, self._worker, limit, list(busy), self._lease, self._idle)
        return [Delivery(*tuple(row)[:-1]) for row in rows if row["news"]], len(rows)

    async def advance(self, delivery: Delivery, seq: int) -> bool:
        """Everything up to this event is delivered; False when it is no longer ours, or its tenant is suspended."""
        return await self._db.execute(self._scope, ADVANCE, *self._key(delivery), seq, self._lease) > 0

    async def rest(self, delivery: Delivery, *, again: bool) -> None:
        """Give it back; with `again` there is more to deliver."""
        wait = timedelta() if again else self._idle
        await self._db.execute(self._scope, REST, *self._key(delivery), wait)

    async def retry(self, delivery: Delivery, attempts: int, wait: timedelta, reason: str) -> None:
        """Give it back for another attempt."""
        await self._db.execute(self._scope, RETRY, *self._key(delivery), attempts, wait, reason)

    async def fail(self, delivery: Delivery, reason: str) -> None:
        """Deliver nothing more to it; what a suspended tenant has waits with it."""
        await self._db.execute(self._scope, FAIL, *self._key(delivery), reason)

    async def release(self) -> None:
        """Give back what this process has, for others to take at once."""
        await self._db.execute(self._scope, RELEASE, self._worker)

    async def clean(self) -> int:
        """Forget those whose task is gone, or never came to be, and record which."""
        async with self._db.unit(self._scope):
            found = await self._db.fetch(self._scope, CLEAN)
            gone: dict[UUID, dict[str, None]] = {}
            for tenant, task_id, config_id in found:
                gone.setdefault(tenant, {})[f"push_configs/{task_id}/{config_id}"] = None
            if gone:
                lines = [
                    self._trail.write(ourselves(tenant), Entry("push.remove", Outcome.DONE, rows=rows))
                    for tenant, rows in gone.items()
                ]
                await self._trail.add_all(self._scope, lines)
        return len(found)

    def _key(self, delivery: Delivery) -> tuple[UUID, UUID, str, UUID]:
        return delivery.tenant_id, delivery.task_id, delivery.id, self._worker
