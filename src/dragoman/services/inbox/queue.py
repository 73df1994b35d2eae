"""The queue: a source with an event that is due gets a task, and its tasks run one after another.

What is stored is handed over by the process that looks first: the one that stored it, at once, or another at its next
round. A task works on its source until nothing comes for a moment, so that a source that sends much needs few of them.
"""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import Final
from uuid import UUID

import structlog

from dragoman.context import Caller, Role, ourselves
from dragoman.errors import DragomanError
from dragoman.infra.jobs import Job
from dragoman.services.inbox.ports import Counts, Json, Submit
from dragoman.services.inbox.store_events import InboxStore

_LOG = structlog.get_logger(__name__)
ACTION: Final = "webhook.process"
_EVERY_S: Final = 1.0
# Events that come close together share a task.
_GATHER_S: Final = 0.02
_COUNT_EVERY_S: Final = 5.0
_CLEAN_EVERY_S: Final = 600.0


def acting(tenant: UUID) -> Caller:
    """Return the caller as whom events of a tenant are processed."""
    return ourselves(tenant, "webhooks", roles=frozenset({Role.OPERATOR}))


class Queue:
    """Hands over what is due; one for each process."""

    def __init__(
        self,
        store: InboxStore,
        submit: Submit,
        metrics: Counts,
        *,
        keep: timedelta,
        new_id: Callable[[], UUID],
    ) -> None:
        self._store = store
        self._submit = submit
        self._metrics = metrics
        self._keep = keep
        self._new_id = new_id
        self._news = asyncio.Event()
        self._ready: set[UUID] = set()
        self._followed: dict[UUID, asyncio.Event] = {}
        self._looked = self._counted = self._cleaned = float("-inf")

    @property
    def job(self) -> Job:
        """Return the job that hands over."""
        return Job(name="webhook_queue", work=self.hand_over, every_s=_EVERY_S, wake=self._news, gather_s=_GATHER_S)

    def wake(self, source_id: UUID) -> None:
        """Look at a source: something of it may be due. A task of this process that works on it sees to that."""
        if (news := self._followed.get(source_id)) is not None:
            news.set()
            return
        self._ready.add(source_id)
        self._news.set()

    @contextmanager
    def following(self, source_id: UUID) -> Generator[asyncio.Event]:
        """Give an event that is set when something of a source may be due; what is not looked at is handed over."""
        news = self._followed[source_id] = asyncio.Event()
        try:
            yield news
        finally:
            if self._followed.get(source_id) is news:
                del self._followed[source_id]
            if news.is_set():
                self.wake(source_id)

    async def hand_over(self) -> None:
        """Give every source that has something due a task, unless it has one."""
        now = monotonic()
        ready, self._ready = self._ready, set[UUID]()
        everything = now - self._looked >= _EVERY_S
        if everything:
            self._looked = now
        for tenant, source_id in await self._store.find_due(None if everything else list(ready)):
            try:
                await self._submit(acting(tenant), self._envelope(tenant, source_id))
            except DragomanError as error:
                # It waits for the next round; a tenant whose policies forbid the action must not hold up the others.
                _LOG.warning(
                    "webhooks.not_handed_over", source_id=str(source_id), code=error.code, reason=error.message
                )
        await self._tend(now)

    async def _tend(self, now: float) -> None:
        if now - self._counted >= _COUNT_EVERY_S:
            self._counted = now
            self._metrics.queued(*await self._store.waiting())
        if now - self._cleaned >= _CLEAN_EVERY_S:
            self._cleaned = now
            while await self._store.clean(self._keep):
                pass

    def _envelope(self, tenant: UUID, source_id: UUID) -> Json:
        return {
            "envelope_version": "1",
            "actor": {"id": acting(tenant).subject, "type": "service"},
            "action": ACTION,
            "resource": {"type": "webhook_source", "id": str(source_id)},
            "matter": {"id": "webhooks"},
            "idempotency_key": f"webhooks:{self._new_id()}",
            "request": {"queue_key": f"webhooks/{source_id}"},
            "input": {},
        }
