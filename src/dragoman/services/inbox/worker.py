"""The worker `webhooks`: takes the events of a source in their order, and gives each to those who handle its topic."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final
from uuid import UUID

import structlog

from dragoman.backoff import jittered
from dragoman.errors import DragomanError, InvalidInput, RateLimited, UpstreamUnavailable
from dragoman.jsontext import parse_json
from dragoman.operations import Input
from dragoman.services.inbox.ports import Counts, EventHandler, Json, WebhookEvent
from dragoman.services.inbox.queue import ACTION, Queue, acting
from dragoman.services.inbox.store_events import InboxStore, KeptSource, WaitingEvent
from dragoman.services.inbox.topics import read_data
from dragoman.services.workers.protocol import Assignment, Capability, Performed

_LOG = structlog.get_logger(__name__)
_AT_ONCE: Final = 100
# A task that lasts longer makes way for a new one: its history stays short, and its process may be told to stop.
_LONGEST_S: Final = 60.0
_TIMEOUT_S: Final = 300.0
# A task costs more than an event: it waits for so long for a further one before it ends.
_LINGER_S: Final = 0.25
_GATHER_S: Final = 0.01


class ProcessEvents(Input):
    """What the source is that the envelope names; there is nothing else to say."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often an event is tried again, and how long it waits before that: twice as long each time."""

    retries: int
    base_s: float
    most_s: float

    def wait_s(self, attempt: int) -> float:
        """Return the wait after this attempt."""
        return jittered(min(self.base_s * 2 ** min(attempt - 1, 30), self.most_s))


class InboxWorker:
    """Processes events. One that fails holds up its source until it succeeds or is dead."""

    name = "webhooks"
    capabilities: Sequence[Capability] = (
        Capability(
            ACTION,
            "Process the events of a webhook source",
            ProcessEvents,
            required=False,
            timeout_s=_TIMEOUT_S,
            permissions=("manage:tasks",),
        ),
    )

    def __init__(
        self,
        store: InboxStore,
        queue: Queue,
        handlers: Mapping[str, Sequence[EventHandler]],
        metrics: Counts,
        patience: Patience,
    ) -> None:
        self._store = store
        self._queue = queue
        self._handlers = handlers
        self._metrics = metrics
        self._patience = patience

    async def perform(self, assignment: Assignment) -> Performed:
        """Process what waits, oldest first, until nothing comes any more or the first has to wait.

        Raises:
            InvalidInput: the resource is not a source of the tenant.
        """
        tenant = assignment.caller.tenant
        source = await self._find(assignment)
        ends, done, goes_on = monotonic() + _LONGEST_S, 0, True
        with self._queue.following(source.id) as news:
            while goes_on and monotonic() < ends:
                news.clear()
                waiting = await self._store.list_oldest(tenant, source.id, _AT_ONCE)
                if not waiting and not await _set_within(news, _LINGER_S):
                    break
                for batch in _batches(waiting, self._handlers):
                    goes_on = await self._process(source, batch)
                    if not goes_on:
                        break
                    done += len(batch)
            news.set()
        return Performed({"processed": done})

    async def _find(self, assignment: Assignment) -> KeptSource:
        resource = assignment.envelope.resource
        try:
            source_id = UUID(resource.id)
        except ValueError:
            raise InvalidInput.of("resource.id", "must be the id of a webhook source") from None
        source = (await self._store.find_sources([source_id])).get(source_id)
        if source is None or source.tenant != assignment.caller.tenant:
            raise InvalidInput.of("resource.id", "there is no such webhook source")
        return source

    async def _process(self, source: KeptSource, batch: Sequence[WaitingEvent]) -> bool:
        """Process events with the same lot; return whether the next may follow."""
        first = batch[0]
        if not first.due:
            return False
        handlers = self._handlers.get(first.topic, ())
        if not handlers:
            self._metrics.ended("ignored", await self._store.ignore(source.tenant, [event.id for event in batch]))
            return True
        attempt = await self._store.begin(source.tenant, first.id, first.attempts)
        return attempt is not None and await self._attempt(source, first, attempt, handlers)

    async def _attempt(
        self, source: KeptSource, waiting: WaitingEvent, attempt: int, handlers: Sequence[EventHandler]
    ) -> bool:
        """Give an event to its handlers; return whether the next may follow."""
        if attempt > self._patience.retries + 1:
            # Every attempt was counted, and none said how it ended: each has ended its process.
            lost: Json = {"code": "INTERNAL_ERROR", "message": "the process died", "details": {}}
            return await self._bury(source, waiting, attempt, lost)
        try:
            event = _read(source, waiting)
            for handle in handlers:
                await handle(acting(source.tenant), event)
        except DragomanError as error:
            return await self._failed(source, waiting, attempt, error)
        except Exception as error:  # noqa: BLE001 - a worker loop: whatever a handler does, the queue goes on
            _LOG.exception("webhooks.handler_failed", webhook_event_id=str(waiting.id), topic=waiting.topic)
            return await self._failed(source, waiting, attempt, None, type(error).__name__)
        if not await self._store.end(source.tenant, waiting.id, attempt, "processed", None):
            return False
        self._metrics.ended("processed")
        return True

    async def _failed(
        self, source: KeptSource, event: WaitingEvent, attempt: int, error: DragomanError | None, name: str = ""
    ) -> bool:
        """Let an event wait for its next attempt, or end it where there is none."""
        told: Json = {"code": "INTERNAL_ERROR", "message": f"the handler failed: {name}", "details": {}}
        if error is not None:
            told = {"code": error.code, "message": error.message, "details": error.details}
        if error is not None and not error.retryable:
            return await self._bury(source, event, attempt, told)
        # A limit says when to come back, and is no failure of the event; neither is a database that is away.
        counted = not isinstance(error, RateLimited)
        if counted and attempt > self._patience.retries:
            return await self._bury(source, event, attempt, told)
        wait_s = self._patience.wait_s(attempt)
        if isinstance(error, RateLimited | UpstreamUnavailable) and error.retry_after_s is not None:
            asked = isinstance(error, RateLimited) or error.asked_for
            wait_s = max(wait_s, float(error.retry_after_s)) if asked else wait_s
        await self._store.try_again(source.tenant, event.id, attempt, told, wait_s=wait_s, counted=counted)
        self._metrics.ended("retried")
        return False

    async def _bury(self, source: KeptSource, event: WaitingEvent, attempt: int, error: Json) -> bool:
        _LOG.warning("webhooks.dead_letter", webhook_event_id=str(event.id), source_id=str(source.id), **_code(error))
        if not await self._store.end(source.tenant, event.id, attempt, "dead", error):
            return False
        self._metrics.ended("dead")
        return True


async def _set_within(news: asyncio.Event, seconds: float) -> bool:
    """Wait for news, and for what comes with them; return whether there are any."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return False
    await asyncio.sleep(_GATHER_S)
    return True


def _code(error: Json) -> dict[str, Any]:
    return {"code": error["code"], "reason": error["message"]}


def _read(source: KeptSource, event: WaitingEvent) -> WebhookEvent:
    payload = parse_json(event.body)
    return WebhookEvent(
        id=event.id,
        key=f"webhook:{event.id}:{event.replays}",
        source_id=source.id,
        provider=source.provider,
        topic=event.topic,
        type=event.type,
        account=source.account,
        data=read_data(source.provider, payload),
        payload=payload,
        received_at=event.received_at,
    )


def _batches(
    waiting: Sequence[WaitingEvent], handlers: Mapping[str, Sequence[EventHandler]]
) -> Sequence[Sequence[WaitingEvent]]:
    """Return events in their order: each alone, but those in a row that nothing handles together."""
    batches: list[list[WaitingEvent]] = []
    for event in waiting:
        idle = event.due and not handlers.get(event.topic)
        if idle and batches and not handlers.get(batches[-1][0].topic) and batches[-1][0].due:
            batches[-1].append(event)
        else:
            batches.append([event])
    return batches
