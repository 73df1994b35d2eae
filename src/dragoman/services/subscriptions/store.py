"""The SQL of subscriptions for their tenant: what is subscribed to, and what was delivered."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.audit.rows import RowGroup, RowTable
from dragoman.services.audit.statements import Statements
from dragoman.services.subscriptions.models import CreateSubscription

Record = dict[str, Any]
_SHOWN: LiteralString = """
id, url, events, description, state, reason, failures, failing_since, delivered_at,
CASE WHEN previous_until > now() THEN previous_until END AS old_secret_ends_at, version, created_by, created_at,
updated_at"""
# Those of a tenant are counted by one transaction at a time: each sees what those before it have added.
LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('subscriptions:' || $1::uuid::text, 0))"
ADD: LiteralString = f"""
INSERT INTO subscriptions (tenant_id, id, url, events, description, secret, caller, created_by)
SELECT $1, $2, $3, $4, $5, $6, $7, $8
WHERE (SELECT count(*) FROM subscriptions WHERE tenant_id = $1) < $9 RETURNING {_SHOWN}"""
FIND: LiteralString = f"SELECT {_SHOWN} FROM subscriptions WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_SHOWN} FROM subscriptions
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::text IS NULL OR state = $4)
ORDER BY id DESC LIMIT $2"""
# Whoever changes it answers for it from now on. One that is activated begins anew.
CHANGE: LiteralString = f"""
UPDATE subscriptions SET url = coalesce($3, url), events = coalesce($4, events),
    description = coalesce($5, description), caller = $6,
    state = CASE WHEN $7::boolean IS NULL THEN state WHEN $7 THEN 'active' WHEN state = 'active' THEN 'paused'
                 ELSE state END,
    reason = CASE WHEN $7 THEN NULL ELSE reason END, failures = CASE WHEN $7 THEN 0 ELSE failures END,
    failing_since = CASE WHEN $7 THEN NULL ELSE failing_since END, due_at = CASE WHEN $7 THEN now() ELSE due_at END,
    version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND ($8::int IS NULL OR version = $8) RETURNING {_SHOWN}"""
ROTATE: LiteralString = f"""
UPDATE subscriptions SET previous_secret = secret, previous_until = now() + $4::interval, secret = $3,
    version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 RETURNING {_SHOWN}"""
REMOVE: LiteralString = "DELETE FROM subscriptions WHERE tenant_id = $1 AND id = $2"
REMOVE_DELIVERIES: LiteralString = "DELETE FROM subscription_deliveries WHERE tenant_id = $1 AND subscription_id = $2"

_SUMMARY: LiteralString = """
id, subscription_id, message_id AS webhook_id, type, subject, state, attempts, history -> -1 AS last, occurred_at,
CASE WHEN state = 'pending' THEN due_at END AS due_at"""
LIST_DELIVERIES: LiteralString = f"""
SELECT {_SUMMARY} FROM subscription_deliveries
WHERE tenant_id = $1 AND subscription_id = $3 AND ($4::uuid IS NULL OR id < $4)
  AND ($5::text IS NULL OR state = $5) AND ($6::text IS NULL OR type = $6)
ORDER BY id DESC LIMIT $2"""
FIND_DELIVERY: LiteralString = f"""
SELECT {_SUMMARY}, data, history FROM subscription_deliveries
WHERE tenant_id = $1 AND id = $2"""
# An attempt that is under way meanwhile changes nothing more.
REDELIVER: LiteralString = f"""
UPDATE subscription_deliveries SET state = 'pending', attempts = 0, due_at = now(), worker = NULL
WHERE tenant_id = $1 AND id = $2 RETURNING {_SUMMARY}, data, history"""
# Leased from the beginning: it is sent by the process that was asked.
ADD_TEST: LiteralString = """
INSERT INTO subscription_deliveries
    (tenant_id, id, subscription_id, message_id, type, subject, data, occurred_at, due_at, worker)
SELECT $1, $3, id, $4, $5, id::text, $6, now(), now() + $7::interval, $8
FROM subscriptions WHERE tenant_id = $1 AND id = $2"""

# What a subscription promises: who is told of what, and on whose behalf; the audit trail is held against it.
PROMISED = RowGroup(
    ids="SELECT id FROM subscriptions WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3",
    tables=(
        RowTable(
            "subscriptions",
            """SELECT id AS key, encode(sha256(convert_to(url, 'UTF8')), 'hex') AS url, events, state, caller,
                      created_by
               FROM subscriptions WHERE tenant_id = $1 AND id = ANY ($2)""",
            since=4,
        ),
    ),
)


class SubscriptionStore:
    """The subscriptions of a tenant."""

    def __init__(self, db: Database, statements: Statements) -> None:
        self._db = db
        self._statements = statements

    async def add(
        self,
        scope: Scope,
        subscription_id: UUID,
        new: CreateSubscription,
        *,
        secret: bytes,
        caller: Record,
        most: int,
    ) -> Record | None:
        """Add a subscription; None when the tenant has too many."""
        async with self._db.unit(scope):
            await self._db.execute(scope, LOCK, scope.tenant)
            row = await self._db.find(
                scope, ADD, scope.tenant, subscription_id, new.url, sorted(set(new.events)), new.description, secret,
                caller, caller["subject"], most,
            )  # fmt: skip
            await self._statements.add(scope, "subscription.add", subscription_id)
        return dict(row) if row else None

    async def find(self, scope: Scope, subscription_id: UUID) -> Record | None:
        """Return one subscription."""
        row = await self._db.find(scope, FIND, scope.tenant, subscription_id)
        return dict(row) if row else None

    async def list_page(self, scope: Scope, limit: int, before: UUID | None, state: str | None) -> list[Record]:
        """Return some, newest first."""
        return [dict(row) for row in await self._db.fetch(scope, LIST, scope.tenant, limit, before, state)]

    async def change(
        self,
        scope: Scope,
        subscription_id: UUID,
        *,
        url: str | None,
        events: Sequence[str] | None,
        description: str | None,
        active: bool | None,
        caller: Record,
        version: int | None,
    ) -> Record | None:
        """Change what is given; None when it is gone or has another version."""
        listed = list(events) if events is not None else None
        async with self._db.unit(scope):
            row = await self._db.find(
                scope, CHANGE, scope.tenant, subscription_id, url, listed, description, caller, active, version
            )
            await self._statements.add(scope, "subscription.change", subscription_id)
        return dict(row) if row else None

    async def rotate(self, scope: Scope, subscription_id: UUID, *, secret: bytes, grace: timedelta) -> Record | None:
        """Replace the secret; the one before signs too for a while."""
        row = await self._db.find(scope, ROTATE, scope.tenant, subscription_id, secret, grace)
        return dict(row) if row else None

    async def remove(self, scope: Scope, subscription_id: UUID) -> bool:
        """Remove one with its deliveries; whether it was there."""
        async with self._db.unit(scope):
            await self._db.execute(scope, REMOVE_DELIVERIES, scope.tenant, subscription_id)
            removed = await self._db.execute(scope, REMOVE, scope.tenant, subscription_id) > 0
            if removed:
                gone = {f"subscriptions/{subscription_id}": None}
                await self._statements.add_rows(scope, "subscription.remove", str(subscription_id), gone)
        return removed

    async def list_deliveries(
        self,
        scope: Scope,
        limit: int,
        subscription_id: UUID,
        *,
        before: UUID | None,
        state: str | None,
        event_type: str | None,
    ) -> list[Record]:
        """Return some deliveries, newest first."""
        values = (scope.tenant, limit, subscription_id, before, state, event_type)
        return [dict(row) for row in await self._db.fetch(scope, LIST_DELIVERIES, *values)]

    async def find_delivery(self, scope: Scope, delivery_id: UUID) -> Record | None:
        """Return one delivery."""
        row = await self._db.find(scope, FIND_DELIVERY, scope.tenant, delivery_id)
        return dict(row) if row else None

    async def redeliver(self, scope: Scope, delivery_id: UUID) -> Record | None:
        """Make a delivery due again; None when there is none."""
        row = await self._db.find(scope, REDELIVER, scope.tenant, delivery_id)
        return dict(row) if row else None

    async def add_test(
        self,
        scope: Scope,
        subscription_id: UUID,
        delivery_id: UUID,
        *,
        event_type: str,
        worker: UUID,
        lease: timedelta,
    ) -> bool:
        """Add a test event that this worker sends; whether there is such a subscription."""
        message_id, data = f"msg_{delivery_id.hex}", {"subscription_id": str(subscription_id)}
        values = (scope.tenant, subscription_id, delivery_id, message_id, event_type, data, lease, worker)
        return await self._db.execute(scope, ADD_TEST, *values) > 0
