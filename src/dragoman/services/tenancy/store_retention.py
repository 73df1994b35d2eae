"""The SQL that removes what has had its time, in small batches along an index, over all tenants."""

from datetime import timedelta
from typing import Any, LiteralString

from dragoman.infra.db import Database, Scope

# Rows that another process removes are left to it.
REMOVE_KEYS: LiteralString = """
DELETE FROM idempotency_keys WHERE (tenant_id, scope, key) IN (
    SELECT tenant_id, scope, key FROM idempotency_keys WHERE created_at < now() - $2::interval
    ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED)"""
# What an earlier release wrote may void a key whose own row does not say so; such an entry stays. So does one whose
# bearer sent work that waits or may be tried again: that is checked when it is run, perhaps after a year.
REMOVE_REVOCATIONS: LiteralString = """
DELETE FROM revocations WHERE (tenant_id, ref) IN (
    SELECT r.tenant_id, r.ref FROM revocations r
    WHERE (r.ref ~ '^(super:)?cred:' OR r.not_before < '9999-01-01 00:00:00+00')
      AND r.created_at < now() - $2::interval AND (r.ref ~ '^(super:)?cred:' OR r.not_before < now() - $2::interval)
      AND NOT EXISTS (
        SELECT FROM api_keys k WHERE k.tenant_id = r.tenant_id AND k.revoked_at IS NULL
          AND (r.ref = 'cred:' || k.id OR (r.ref = 'user:' || k.subject AND k.created_at < r.not_before)))
      AND NOT EXISTS (
        SELECT FROM tasks t CROSS JOIN LATERAL (
            VALUES ('cred:' || (t.caller->>'credential')), ('user:' || (t.caller->>'subject'))) AS sender (ref)
        WHERE t.tenant_id = r.tenant_id AND sender.ref = regexp_replace(r.ref, '^super:', '')
          AND t.state IN ('requested', 'validated', 'queued', 'in_progress', 'input_required', 'failed', 'dead_letter'))
    ORDER BY r.created_at LIMIT $1 FOR UPDATE SKIP LOCKED)"""


class RetentionStore:
    """Each call removes one batch and returns how many there were."""

    def __init__(self, db: Database, *, batch: int = 1_000) -> None:
        self._db = db
        self._batch = batch

    async def remove_keys(self, *, after: timedelta) -> int:
        """Remove idempotency keys that were claimed so long ago, with their outputs."""
        return await self._remove(REMOVE_KEYS, after)

    async def remove_revocations(self, *, after: timedelta) -> int:
        """Remove revocations that were made so long ago that no token they void can be alive, and nothing waits for."""
        return await self._remove(REMOVE_REVOCATIONS, after)

    async def _remove(self, sql: LiteralString, *args: Any) -> int:
        return await self._db.execute(Scope(), sql, self._batch, *args)
