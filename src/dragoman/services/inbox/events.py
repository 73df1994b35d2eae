"""Events that webhooks brought, for operators: looked at, and processed again."""

from dragoman.context import Caller
from dragoman.errors import Conflict, NotFound
from dragoman.infra.db import Database, scope_of
from dragoman.jsontext import parse_json
from dragoman.operations import Page, page
from dragoman.services.inbox import models as m
from dragoman.services.inbox.queue import Queue
from dragoman.services.inbox.store_events import EventStore


class EventService:
    """Shows the events of a tenant."""

    def __init__(self, store: EventStore, queue: Queue, db: Database) -> None:
        self._store = store
        self._queue = queue
        self._db = db

    async def list(self, caller: Caller, wanted: m.ListEvents) -> Page[m.EventSummary]:
        """Return events, newest first."""
        state = wanted.state.value if wanted.state else None
        rows = await self._store.list_page(
            scope_of(caller), wanted.limit + 1, wanted.cursor, wanted.source_id, state, wanted.topic
        )
        return page([m.EventSummary.model_validate(row) for row in rows], wanted.limit)

    async def get(self, caller: Caller, ref: m.EventRef) -> m.Event:
        """Return one event with its payload.

        Raises:
            NotFound: it does not exist, or belongs to another tenant.
        """
        row = await self._store.find(scope_of(caller), ref.webhook_event_id)
        if row is None:
            raise NotFound("webhook event", ref.webhook_event_id)
        return m.Event.model_validate({**row, "payload": parse_json(row["body"])})

    async def replay(self, caller: Caller, ref: m.EventRef) -> m.EventSummary:
        """Let an event be processed again, with all its attempts.

        Raises:
            NotFound: it does not exist, or belongs to another tenant.
            Conflict: it waits already.
        """
        scope = scope_of(caller)
        row = await self._store.replay(scope, ref.webhook_event_id)
        if row is None:
            if await self._store.find(scope, ref.webhook_event_id) is None:
                raise NotFound("webhook event", ref.webhook_event_id)
            raise Conflict("the event waits to be processed already", reason="WAITING")
        source_id = row["source_id"]

        async def wake() -> None:
            self._queue.wake(source_id)

        await self._db.after_commit(wake)
        return m.EventSummary.model_validate(row)
