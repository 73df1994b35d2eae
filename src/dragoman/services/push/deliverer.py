"""Tells receivers what happens: each in order, at least once, and nobody waits for another's slow one.

A configuration is a cursor into its task's log. The deliverer leases those that are behind, posts what they have not
been told, and moves the cursor after each answer. A process that dies leaves its leases to run out.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

import orjson
import structlog

from dragoman.backoff import jittered
from dragoman.context import Caller
from dragoman.errors import DragomanError, Unauthenticated
from dragoman.infra.auth.vault import Vault
from dragoman.infra.jobs import Job
from dragoman.infra.outbound import TenantClients
from dragoman.infra.outbound.posting import NotTaken, post
from dragoman.infra.outbound.slots import Slots
from dragoman.infra.telemetry import PushMetrics
from dragoman.services.push.envelope import Envelope, webhook_id
from dragoman.services.push.models import Delivery
from dragoman.services.push.ports import Log, Shape
from dragoman.services.push.store import DeliveryStore
from dragoman.services.tasks.identity import read_caller
from dragoman.services.tasks.models import LoggedEvent, Task

_LOG = structlog.get_logger(__name__)
_BATCH: Final = 50
_SWEEP_S: Final = 1.0
_CLEAN_S: Final = 3600.0
_GATHER_S: Final = 0.02
_LONGEST_WAIT_S: Final = 3600.0
_LATER: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one answer is waited for, and how often a notification is tried before its receiver is given up."""

    timeout_s: float = 10.0
    max_attempts: int = 10
    first_retry_s: float = 1.0


class _Failed(Exception):
    """An attempt that did not succeed; `final` when another would not either."""

    def __init__(self, reason: str, *, final: bool = False, wait_s: float | None = None, counts: bool = True) -> None:
        super().__init__(reason)
        self.counts = counts
        self.reason = reason
        self.final = final
        self.wait_s = wait_s


class Deliverer:
    """One a process. `nudge` it when something happened to a task; a sweep covers what nobody told it."""

    def __init__(
        self,
        store: DeliveryStore,
        log: Log,
        clients: TenantClients,
        *,
        check_caller: Callable[[Caller], Awaitable[None]],
        vault: Vault,
        shapes: Mapping[str, Shape],
        metrics: PushMetrics,
        patience: Patience,
    ) -> None:
        self._store = store
        self._log = log
        self._clients = clients
        self._check_caller = check_caller
        self._vault = vault
        self._shapes = shapes
        self._metrics = metrics
        self._patience = patience
        self._nudged: set[UUID] = set()
        self._wake = asyncio.Event()
        self._slots = Slots()

    def nudge(self, task_id: UUID) -> None:
        """Something happened to a task that somebody wants to hear of."""
        self._nudged.add(task_id)
        self._wake.set()

    def jobs(self) -> Sequence[Job]:
        """Return the delivery of what is due, and the removal of what nobody needs any more."""
        return [
            Job(name="push_delivery", work=self._round, every_s=_SWEEP_S, wake=self._wake, gather_s=_GATHER_S),
            Job(name="push_cleanup", work=self._store.clean, every_s=_CLEAN_S),
        ]

    async def stop(self) -> None:
        """Stop, and give back what is unfinished."""
        await self._slots.stop()
        await self._clients.aclose()
        await self._store.release()

    async def _round(self) -> None:
        if self._nudged:
            nudged, self._nudged = self._nudged, set()
            try:
                await self._store.hurry(list(nudged))
            except BaseException:
                self._nudged |= nudged
                raise
        while (limit := self._slots.room) > 0:
            deliveries, looked_at = await self._store.claim(limit, self._slots.busy())
            for delivery in deliveries:
                self._start(delivery)
            if looked_at < limit:
                return

    def _start(self, delivery: Delivery) -> None:
        # What happened in the very moment in which it was given back was nobody's to tell.
        self._slots.start(delivery.tenant_id, self._deliver(delivery), partial(self.nudge, delivery.task_id))

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._tell(delivery)
        except DragomanError as error:
            _LOG.warning("push.interrupted", task_id=str(delivery.task_id), reason=error.message)
        except Exception:  # noqa: BLE001 - a worker loop: the lease runs out, and it is tried again
            _LOG.exception("push.crashed", task_id=str(delivery.task_id))

    async def _tell(self, delivery: Delivery) -> None:
        told = 0
        try:
            await self._check(delivery)
            envelope = self._envelope(delivery)
            seq = delivery.delivered_seq
            while happenings := await self._log.events(delivery.tenant_id, delivery.task_id, seq, _BATCH):
                task = await self._log.find(delivery.tenant_id, str(delivery.task_id))
                if task is None:
                    break
                for covered, body in _tellings(self._shapes[delivery.version], task, happenings):
                    if body is not None:
                        await self._post(delivery, envelope, covered, body)
                        told += 1
                    if not await self._store.advance(delivery, covered):
                        # Replaced, removed or another's by now; or its tenant was suspended, and it waits with it.
                        await self._store.rest(delivery, again=True)
                        return
                    seq = covered
                if told >= _BATCH:
                    await self._store.rest(delivery, again=True)
                    return
            await self._store.rest(delivery, again=False)
        except _Failed as failure:
            before = 0 if told else delivery.attempts
            await self._failed(delivery, failure, attempts=before + 1 if failure.counts else before)

    async def _check(self, delivery: Delivery) -> None:
        """Refuse to tell anything for a caller who is no longer let in.

        Raises:
            _Failed: it is not.
        """
        if delivery.caller is None:
            return
        try:
            await self._check_caller(read_caller(delivery.tenant_id, delivery.caller))
        except Unauthenticated:
            raise _Failed("the credentials that asked for it are no longer valid", final=True) from None

    async def _post(self, delivery: Delivery, envelope: Envelope, seq: int, body: bytes) -> None:
        """One attempt.

        Raises:
            _Failed: it was not taken.
        """
        headers = envelope.headers(webhook_id=webhook_id(delivery.task_id, seq), at_s=int(time.time()), body=body)
        try:
            await post(self._clients.of(delivery.tenant_id), delivery.url, body=body, headers=headers)
        except NotTaken as refusal:
            status = refusal.status
            final = refusal.forbidden or (status is not None and status < 500 and status not in _LATER)
            raise _Failed(refusal.reason, final=final, wait_s=refusal.wait_s, counts=refusal.counts) from refusal
        self._metrics.delivered()

    async def _failed(self, delivery: Delivery, failure: _Failed, *, attempts: int) -> None:
        known = {
            "task_id": str(delivery.task_id),
            "config": delivery.id,
            "reason": failure.reason,
            "attempts": attempts,
        }
        if failure.final or (failure.counts and attempts >= self._patience.max_attempts):
            self._metrics.gave_up()
            _LOG.warning("push.given_up", **known)
            await self._store.fail(delivery, failure.reason)
            return
        self._metrics.retried()
        _LOG.info("push.retried", **known)
        wait_s = failure.wait_s if failure.wait_s is not None else self._backoff_s(attempts)
        await self._store.retry(delivery, attempts, timedelta(seconds=min(wait_s, _LONGEST_WAIT_S)), failure.reason)

    def _backoff_s(self, attempts: int) -> float:
        return jittered(self._patience.first_retry_s * 2 ** (attempts - 1))

    def _envelope(self, delivery: Delivery) -> Envelope:
        if delivery.secret is None:
            return Envelope(delivery.version, delivery.scheme, None, None)
        try:
            opened = orjson.loads(self._vault.open(delivery.secret, place=delivery.place))
        except ValueError as error:
            raise _Failed(str(error), final=True) from error
        return Envelope(delivery.version, delivery.scheme, opened["token"], opened["credentials"])


def _tellings(shape: Shape, task: Task, happenings: Sequence[LoggedEvent]) -> list[tuple[int, bytes | None]]:
    """What is to be told, each with the number that it covers; nothing stands for what nobody is told of."""
    told: list[tuple[int, bytes | None]] = [*shape(task, happenings)]
    last = happenings[-1].seq
    return told if told and told[-1][0] == last else [*told, (last, None)]
