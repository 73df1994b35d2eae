"""The SQL that removes what has had its time, in small batches, one process at a time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

from dragoman.context import ourselves
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.rows import Rows
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry

_CLEANUP_LOCK: LiteralString = "4711002"
TRY_LOCK: LiteralString = f"SELECT pg_try_advisory_xact_lock({_CLEANUP_LOCK}) AS mine"

EMPTY_CONTEXTS: LiteralString = """
UPDATE threads SET conversation_context = '[]', session_data = '{}', bytes = 0
WHERE (tenant_id, owner, thread_id) IN (
    SELECT tenant_id, owner, thread_id FROM threads WHERE context_expires_at < now() AND bytes > 0 LIMIT $1
    FOR UPDATE SKIP LOCKED)"""
FORGET_THREADS: LiteralString = """
DELETE FROM threads WHERE (tenant_id, owner, thread_id) IN (
    SELECT tenant_id, owner, thread_id FROM threads
    WHERE context_expires_at < now() - interval '7 days' AND expires_at < now() - interval '7 days' LIMIT $1
    FOR UPDATE SKIP LOCKED)"""
# What was under way when its tenant was deleted may have been stored a moment later, and goes whatever its age.
# Tenant by tenant, so that the index of the lists serves here too: one more index would be paid for by every new task.
REMOVE_TASKS: LiteralString = """
WITH RECURSIVE holders AS (
    (SELECT tenant_id FROM tasks ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant_id FROM tasks t WHERE t.tenant_id > h.tenant_id ORDER BY t.tenant_id LIMIT 1)
    FROM holders h WHERE h.tenant_id IS NOT NULL
), old AS (
    SELECT o.tenant_id, o.id FROM holders h JOIN tenants n ON n.id = h.tenant_id CROSS JOIN LATERAL (
        SELECT t.tenant_id, t.id FROM tasks t
        WHERE t.tenant_id = h.tenant_id
          AND t.status_at < CASE WHEN n.status = 'deleted' THEN 'infinity' ELSE now() - $2::interval END
          AND (n.status = 'deleted' OR t.state IN ('succeeded', 'failed', 'rejected', 'cancelled', 'dead_letter'))
        ORDER BY t.status_at, t.id LIMIT $1
    ) o LIMIT $1
), events AS (
    DELETE FROM task_events e USING old WHERE e.tenant_id = old.tenant_id AND e.task_id = old.id
), keys AS (
    DELETE FROM task_keys k USING old WHERE k.tenant_id = old.tenant_id AND k.task_id = old.id
), data AS (
    DELETE FROM task_data d USING old WHERE d.tenant_id = old.tenant_id AND d.task_id = old.id
), outside AS (
    DELETE FROM effects e USING old WHERE e.tenant_id = old.tenant_id AND e.canonical_id = old.id
), handed_over AS (
    DELETE FROM delegations d USING old WHERE d.tenant_id = old.tenant_id AND d.task_id = old.id
), queued AS (
    DELETE FROM task_queue q USING old WHERE q.task_id = old.id
), pushes AS (
    DELETE FROM push_configs p USING old WHERE p.tenant_id = old.tenant_id AND p.task_id = old.id
)
DELETE FROM tasks t USING old WHERE t.tenant_id = old.tenant_id AND t.id = old.id RETURNING t.tenant_id, t.id"""


class RetentionStore:
    """Each call is one batch over all tenants; None when another process is at it."""

    def __init__(self, db: Database, trail: AuditTrail, *, batch: int = 500) -> None:
        self._db = db
        self._trail = trail
        self._batch = batch
        self._scope = Scope()

    async def empty_contexts(self) -> int | None:
        """Take the content out of conversations whose context has expired; how many."""
        return await self._remove(EMPTY_CONTEXTS)

    async def forget_threads(self) -> int | None:
        """Remove conversations that expired a week ago; how many."""
        return await self._remove(FORGET_THREADS)

    async def remove_tasks(self, *, after: timedelta) -> int | None:
        """Remove tasks that ended so long ago, with all that belongs to them, and record which; how many."""
        async with self._db.unit(self._scope):
            if not await self._try_lock():
                return None
            removed = await self._db.fetch(self._scope, REMOVE_TASKS, self._batch, after)
            gone: dict[UUID, list[UUID]] = {}
            for row in removed:
                gone.setdefault(row["tenant_id"], []).append(row["id"])
            if gone:
                await self._trail.add_all(self._scope, [self._line(*one) for one in gone.items()])
        return len(removed)

    async def _remove(self, sql: LiteralString) -> int | None:
        async with self._db.unit(self._scope):
            return await self._db.execute(self._scope, sql, self._batch) if await self._try_lock() else None

    async def _try_lock(self) -> bool:
        row = await self._db.find(self._scope, TRY_LOCK)
        return row is not None and bool(row["mine"])

    def _line(self, tenant: UUID, task_ids: Sequence[UUID]) -> Line:
        rows: Rows = {f"tasks/{task_id}": None for task_id in task_ids}
        reason = f"{len(task_ids)} tasks had ended long enough ago"
        return self._trail.write(ourselves(tenant), Entry("task.remove", Outcome.DONE, reason=reason, rows=rows))
