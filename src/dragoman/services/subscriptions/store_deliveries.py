"""The SQL of the deliverer, over all tenants: what is due, and what became of it.

Claims go by the subscriptions that something is pending for, found by jumping along the index: what waits for one that
does not answer costs the others nothing, however much it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from dragoman.context import ourselves
from dragoman.infra.db import Database, Scope
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.rows import Rows
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.subscriptions.event_types import SUBSCRIPTION_DISABLED
from dragoman.services.subscriptions.store_outbox import Outbox

_MOST_HISTORY: LiteralString = "50"
_SENT: LiteralString = """
d.tenant_id, d.id, d.subscription_id, d.message_id, d.type, d.subject, d.data, d.occurred_at, d.attempts, s.url,
s.secret, CASE WHEN s.previous_until > now() THEN s.previous_secret END AS previous_secret, s.caller, s.failures"""
# A suspended tenant keeps everything, and delivery goes on when it is let in again.
CLAIM: LiteralString = f"""
WITH RECURSIVE behind AS (
    (SELECT subscription_id AS id FROM subscription_deliveries WHERE state = 'pending' ORDER BY subscription_id LIMIT 1)
    UNION ALL
    SELECT (SELECT p.subscription_id FROM subscription_deliveries p
            WHERE p.state = 'pending' AND p.subscription_id > b.id ORDER BY p.subscription_id LIMIT 1)
    FROM behind b WHERE b.id IS NOT NULL
), due AS (
    SELECT o.tenant_id, o.id, s.id AS subscription_id FROM behind b
    JOIN subscriptions s ON s.id = b.id AND s.state = 'active' AND s.due_at <= now()
      AND s.tenant_id <> ALL($3) AND s.id <> ALL($4)
    JOIN tenants n ON n.id = s.tenant_id AND n.status = 'active'
    CROSS JOIN LATERAL (
        SELECT p.tenant_id, p.id, p.due_at FROM subscription_deliveries p
        WHERE p.subscription_id = s.id AND p.tenant_id = s.tenant_id AND p.state = 'pending' AND p.due_at <= now()
        ORDER BY p.due_at LIMIT $5 FOR UPDATE SKIP LOCKED
    ) o
    ORDER BY o.due_at LIMIT $2
)
UPDATE subscription_deliveries d SET due_at = now() + $6::interval, worker = $1
FROM due JOIN subscriptions s ON s.tenant_id = due.tenant_id AND s.id = due.subscription_id
WHERE d.tenant_id = due.tenant_id AND d.id = due.id
RETURNING {_SENT}"""
FIND: LiteralString = f"""
SELECT {_SENT} FROM subscription_deliveries d
JOIN subscriptions s ON s.tenant_id = d.tenant_id AND s.id = d.subscription_id
WHERE d.tenant_id = $1 AND d.id = $2 AND d.worker = $3"""
_TRIED: LiteralString = f"""
attempts = d.attempts + 1, worker = NULL,
history = CASE WHEN jsonb_array_length(d.history) < {_MOST_HISTORY} THEN d.history ELSE d.history - 0 END || $4"""
_OURS: LiteralString = "d.tenant_id = $1 AND d.id = $2 AND d.worker = $3 AND d.state = 'pending'"
# The row of a subscription that all goes well with is not written for every event.
DELIVERED: LiteralString = f"""
WITH sent AS (
    UPDATE subscription_deliveries d SET state = 'delivered', {_TRIED} WHERE {_OURS} RETURNING d.subscription_id
)
UPDATE subscriptions s SET failures = 0, failing_since = NULL, delivered_at = now()
FROM sent WHERE s.tenant_id = $1 AND s.id = sent.subscription_id
  AND (s.failures > 0 OR s.delivered_at IS NULL OR s.delivered_at < now() - interval '10 seconds')"""
RETRY: LiteralString = f"""
WITH tried AS (
    UPDATE subscription_deliveries d SET due_at = now() + $5::interval,
        state = CASE WHEN d.attempts + 1 < $6 THEN 'pending' ELSE 'failed' END, {_TRIED}
    WHERE {_OURS} RETURNING d.subscription_id
)
UPDATE subscriptions s SET failures = s.failures + 1, failing_since = coalesce(s.failing_since, now()),
    due_at = greatest(s.due_at, now() + $7::interval)
FROM tried WHERE s.tenant_id = $1 AND s.id = tried.subscription_id AND s.state = 'active'
RETURNING s.failing_since, s.failing_since < now() - $8::interval AS for_too_long"""
GIVE_UP: LiteralString = f"""
UPDATE subscription_deliveries d SET state = 'failed', {_TRIED} WHERE {_OURS}"""
# It was not sent: nothing is until the receiver may be back.
HOLD: LiteralString = f"""
WITH held AS (
    UPDATE subscription_deliveries d SET due_at = now(), worker = NULL WHERE {_OURS} RETURNING d.subscription_id
)
UPDATE subscriptions s SET due_at = greatest(s.due_at, now() + $4::interval)
FROM held WHERE s.tenant_id = $1 AND s.id = held.subscription_id"""
DISABLE: LiteralString = """
UPDATE subscriptions SET state = 'disabled', reason = $3, version = version + 1, updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND state = 'active'"""
RELEASE: LiteralString = """
UPDATE subscription_deliveries SET worker = NULL, due_at = now() WHERE worker = $1 AND state = 'pending'"""
DEPTH: LiteralString = """
SELECT count(*) AS pending, coalesce(extract(epoch FROM now() - min(d.due_at)), 0)::float8 AS lag_s
FROM subscription_deliveries d JOIN subscriptions s ON s.id = d.subscription_id AND s.tenant_id = d.tenant_id
WHERE d.state = 'pending' AND s.state = 'active' AND s.due_at <= now() AND d.due_at <= now()"""
# Those of a subscription that is gone go with the age of all others.
CLEAN: LiteralString = """
DELETE FROM subscription_deliveries WHERE (tenant_id, id) IN (
    SELECT tenant_id, id FROM subscription_deliveries WHERE occurred_at < now() - $2::interval
    ORDER BY occurred_at LIMIT $1 FOR UPDATE SKIP LOCKED)"""


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """An event to be sent, leased to this process; the secrets are sealed."""

    tenant_id: UUID
    id: UUID
    subscription_id: UUID
    message_id: str
    type: str
    subject: str | None
    data: dict[str, Any]
    occurred_at: datetime
    attempts: int
    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    previous_secret: bytes | None = field(repr=False)
    caller: dict[str, Any]
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a delivery is tried again, when its subscription is, and how often and how long it may fail."""

    wait: timedelta
    hold: timedelta
    max_attempts: int
    disable_after: timedelta


class DeliveryStore:
    """What the deliverer of one process does with deliveries; one that lost its lease changes nothing."""

    def __init__(self, db: Database, trail: AuditTrail, outbox: Outbox, worker: UUID, *, lease: timedelta) -> None:
        self._db = db
        self._trail = trail
        self._outbox = outbox
        self.worker = worker
        self.lease = lease
        self._scope = Scope()

    async def claim(
        self, limit: int, *, of_one: int, busy_tenants: Sequence[UUID], busy: Sequence[UUID]
    ) -> list[DueDelivery]:
        """Lease what is due, at most `of_one` of a subscription, and none of busy tenants or subscriptions."""
        values = (self.worker, limit, list(busy_tenants), list(busy), of_one, self.lease)
        return [DueDelivery(*row) for row in await self._db.fetch(self._scope, CLAIM, *values)]

    async def find(self, tenant: UUID, delivery_id: UUID) -> DueDelivery | None:
        """Return a delivery that is leased to this process."""
        row = await self._db.find(self._scope, FIND, tenant, delivery_id, self.worker)
        return DueDelivery(*row) if row else None

    async def delivered(self, delivery: DueDelivery, attempt: dict[str, Any]) -> None:
        """Write down that it was taken."""
        await self._db.execute(self._scope, DELIVERED, *self._key(delivery), attempt)

    async def retry(self, delivery: DueDelivery, attempt: dict[str, Any], retry: Retry) -> datetime | None:
        """Write down that it was not taken; return since when nothing was, when that is too long."""
        row = await self._db.find(
            self._scope, RETRY, *self._key(delivery), attempt, retry.wait, retry.max_attempts, retry.hold,
            retry.disable_after,
        )  # fmt: skip
        return row["failing_since"] if row is not None and row["for_too_long"] else None

    async def give_up(self, delivery: DueDelivery, attempt: dict[str, Any]) -> None:
        """Write down that it was not taken, and is not tried again."""
        await self._db.execute(self._scope, GIVE_UP, *self._key(delivery), attempt)

    async def hold(self, delivery: DueDelivery, wait: timedelta) -> None:
        """Give it back, and send nothing to its subscription meanwhile."""
        await self._db.execute(self._scope, HOLD, *self._key(delivery), wait)

    async def disable(self, delivery: DueDelivery, reason: str) -> bool:
        """Send nothing more to its subscription, record that, and tell the tenant's others; whether it was active."""
        tenant, subscription_id = delivery.tenant_id, delivery.subscription_id
        async with self._db.unit(self._scope):
            if not await self._db.execute(self._scope, DISABLE, tenant, subscription_id, reason):
                return False
            rows: Rows = {f"subscriptions/{subscription_id}": {"state": "disabled"}}
            entry = Entry(
                "subscription.disable", Outcome.DONE, resource=str(subscription_id), reason=reason[:500], rows=rows
            )
            await self._trail.add_all(self._scope, [self._trail.write(ourselves(tenant), entry)])
            data = {"subscription_id": str(subscription_id), "reason": reason}
            await self._outbox.publish(
                self._scope, tenant, SUBSCRIPTION_DISABLED, subject=str(subscription_id), data=data
            )
        return True

    async def release(self) -> None:
        """Give back what this process has, for others to take at once."""
        await self._db.execute(self._scope, RELEASE, self.worker)

    async def depth(self) -> tuple[int, float]:
        """Return how many are due now, and for how many seconds the oldest one has been."""
        row = await self._db.find(self._scope, DEPTH)
        return (row["pending"], row["lag_s"]) if row else (0, 0.0)

    async def clean(self, keep: timedelta, *, batch: int = 1_000) -> int:
        """Remove a batch of those that are older, and return how many there were."""
        return await self._db.execute(self._scope, CLEAN, batch, keep)

    def _key(self, delivery: DueDelivery) -> tuple[UUID, UUID, UUID]:
        return delivery.tenant_id, delivery.id, self.worker
