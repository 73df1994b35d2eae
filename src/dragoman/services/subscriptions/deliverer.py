"""Sends what is due: at least once, several at a time, and none waits for the slow receiver of another.

A delivery is leased for one attempt. What is not taken is tried again, later each time. A receiver that has asked for
time, or does not answer, is left alone as a whole; one that has taken nothing for long loses its subscription.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from dragoman.backoff import jittered
from dragoman.errors import DragomanError
from dragoman.infra.jobs import Job
from dragoman.infra.outbound.posting import NotTaken
from dragoman.infra.outbound.slots import Slots
from dragoman.infra.telemetry import SecurityEvents, SubscriptionMetrics
from dragoman.services.subscriptions.sender import NotSendable, Sender, Sent
from dragoman.services.subscriptions.store_deliveries import DeliveryStore, DueDelivery, Retry

_LOG = structlog.get_logger(__name__)
_AT_ONCE_OF_SUBSCRIPTION: Final = 4
_SWEEP_S: Final = 1.0
_SWEEPS_PER_COUNT: Final = 5
_CLEAN_S: Final = 3600.0
_GATHER_S: Final = 0.02
# One that fails so often in a row is left alone as a whole, at most for so long.
_FAILING: Final = 10
_LONGEST_HOLD_S: Final = 300.0
_GROWTH: Final = 3
_GONE: Final = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a delivery is tried, and when a subscription is given up."""

    max_attempts: int
    base_s: float
    longest_s: float
    disable_after_s: float
    keep_s: float

    def wait_s(self, attempts: int) -> float:
        """Return the longest wait after so many attempts."""
        return min(self.base_s * _GROWTH ** min(attempts - 1, 30), self.longest_s)


class Deliverer:
    """One a process. `wake` it when something was published here; a sweep finds what others published."""

    def __init__(
        self,
        store: DeliveryStore,
        sender: Sender,
        *,
        metrics: SubscriptionMetrics,
        security: SecurityEvents,
        policy: RetryPolicy,
    ) -> None:
        self._store = store
        self._sender = sender
        self._metrics = metrics
        self._security = security
        self._policy = policy
        self._wake = asyncio.Event()
        self._slots = Slots()
        self._of_subscription: Counter[UUID] = Counter()
        self._sweeps = 0

    @property
    def worker(self) -> UUID:
        """Who leases the deliveries of this process."""
        return self._store.worker

    @property
    def lease(self) -> timedelta:
        """How long an attempt may take."""
        return self._store.lease

    def wake(self) -> None:
        """Look for what is due."""
        self._wake.set()

    def jobs(self) -> list[Job]:
        """Return the delivery of what is due, and the removal of what is old."""
        return [
            Job(name="subscription_delivery", work=self._round, every_s=_SWEEP_S, wake=self._wake, gather_s=_GATHER_S),
            Job(name="subscription_cleanup", work=self._clean, every_s=_CLEAN_S),
        ]

    async def stop(self) -> None:
        """Stop, and give back what is unfinished."""
        await self._slots.stop()
        await self._sender.close()
        await self._store.release()

    async def send_once(self, tenant: UUID, delivery_id: UUID) -> None:
        """Send a delivery that this process has leased, now and only once, whatever becomes of it."""
        delivery = await self._store.find(tenant, delivery_id)
        if delivery is None:
            return
        try:
            sent = await self._sender.send(delivery)
        except NotSendable as error:
            sent = Sent({"at": delivery.occurred_at.isoformat(), "duration_ms": 0, "reason": error.reason}, None)
            await self._store.give_up(delivery, sent.line)
            return
        if sent.failure is None:
            self._metrics.delivered()
            await self._store.delivered(delivery, sent.line)
        else:
            await self._store.give_up(delivery, sent.line)

    async def _round(self) -> None:
        while (limit := self._slots.room) > 0:
            busy = [one for one, count in self._of_subscription.items() if count >= _AT_ONCE_OF_SUBSCRIPTION]
            deliveries = await self._store.claim(
                limit, of_one=_AT_ONCE_OF_SUBSCRIPTION, busy_tenants=self._slots.busy(), busy=busy
            )
            for delivery in deliveries:
                self._start(delivery)
            if not deliveries:
                break
        if self._sweeps % _SWEEPS_PER_COUNT == 0:
            pending, lag_s = await self._store.depth()
            self._metrics.waiting(pending=pending, lag_s=lag_s)
        self._sweeps += 1

    def _start(self, delivery: DueDelivery) -> None:
        subscription_id = delivery.subscription_id
        self._of_subscription[subscription_id] += 1

        def ended() -> None:
            self._of_subscription[subscription_id] -= 1
            if not self._of_subscription[subscription_id]:
                del self._of_subscription[subscription_id]
            self._wake.set()

        self._slots.start(delivery.tenant_id, self._deliver(delivery), ended)

    async def _deliver(self, delivery: DueDelivery) -> None:
        try:
            sent = await self._sender.send(delivery)
            if sent.failure is None:
                self._metrics.delivered()
                await self._store.delivered(delivery, sent.line)
            else:
                await self._failed(delivery, sent, sent.failure)
        except NotSendable as error:
            await self._disable(delivery, error.reason)
        except DragomanError as error:
            _LOG.warning("subscription.interrupted", delivery_id=str(delivery.id), reason=error.message)
        except Exception:  # noqa: BLE001 - a worker loop: the lease runs out, and it is tried again
            _LOG.exception("subscription.crashed", delivery_id=str(delivery.id))

    async def _failed(self, delivery: DueDelivery, sent: Sent, failure: NotTaken) -> None:
        if not failure.counts:
            await self._store.hold(delivery, timedelta(seconds=failure.wait_s or _SWEEP_S))
            return
        attempts = delivery.attempts + 1
        own_s = jittered(self._policy.wait_s(attempts))
        retry = Retry(
            wait=timedelta(seconds=max(own_s, failure.wait_s or 0.0)),
            hold=timedelta(seconds=max(self._hold_s(delivery.failures + 1), failure.wait_s or 0.0)),
            max_attempts=self._policy.max_attempts,
            disable_after=timedelta(seconds=self._policy.disable_after_s),
        )
        over = attempts >= retry.max_attempts
        (self._metrics.gave_up if over else self._metrics.retried)()
        known = {"subscription_id": str(delivery.subscription_id), "delivery_id": str(delivery.id)}
        _LOG.info("subscription.not_delivered", **known, reason=failure.reason, attempts=attempts, over=over)
        since = await self._store.retry(delivery, sent.line, retry)
        if failure.status == _GONE:
            await self._disable(delivery, "the receiver answered HTTP 410: it is gone")
        elif since is not None:
            await self._disable(delivery, _too_long(since, failure.reason))

    async def _disable(self, delivery: DueDelivery, reason: str) -> None:
        if not await self._store.disable(delivery, reason):
            return
        self._metrics.disabled()
        self._wake.set()
        self._security.emit(
            "subscription_disabled",
            tenant_id=str(delivery.tenant_id),
            resource=f"subscription/{delivery.subscription_id}",
            reason=reason,
        )

    def _hold_s(self, failures: int) -> float:
        """Return how long a subscription is left alone that has failed so often in a row."""
        if failures < _FAILING:
            return 0.0
        return jittered(min(self._policy.wait_s(failures // _FAILING), _LONGEST_HOLD_S))

    async def _clean(self) -> None:
        while await self._store.clean(timedelta(seconds=self._policy.keep_s)):
            pass


def _too_long(since: datetime, reason: str) -> str:
    return f"the receiver has taken nothing since {since:%Y-%m-%d %H:%M} UTC, at last: {reason}"
