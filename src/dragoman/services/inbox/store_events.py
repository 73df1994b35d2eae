"""The SQL of webhook events: for a tenant that looks at its own, and for the inbox, which works for all tenants."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.inbox.ports import Arrival, Json

Record = dict[str, Any]

_EVENT: LiteralString = """
e.id, e.source_id, e.event_id, e.type, e.topic, e.state, e.attempts, e.error, e.received_at, e.ended_at,
CASE WHEN e.state = 'received' THEN e.next_at END AS next_at"""
FIND: LiteralString = f"SELECT {_EVENT}, e.body FROM webhook_events e WHERE tenant_id = $1 AND id = $2"
LIST: LiteralString = f"""
SELECT {_EVENT} FROM webhook_events e
WHERE tenant_id = $1 AND ($3::uuid IS NULL OR id < $3) AND ($4::uuid IS NULL OR source_id = $4)
  AND ($5::text IS NULL OR state = $5) AND ($6::text IS NULL OR topic = $6)
ORDER BY id DESC LIMIT $2"""
REPLAY: LiteralString = f"""
UPDATE webhook_events e SET state = 'received', attempts = 0, next_at = now(), error = NULL, ended_at = NULL,
    replays = replays + 1
WHERE tenant_id = $1 AND id = $2 AND state <> 'received' RETURNING {_EVENT}"""

# The source of a suspended tenant is as good as none.
SOURCES: LiteralString = """
SELECT s.tenant_id, s.id, s.provider, s.account, s.settings, s.secrets
FROM webhook_sources s JOIN tenants t ON t.id = s.tenant_id AND t.status = 'active' WHERE s.id = ANY($1::uuid[])"""
# In the order in which they came. What is there already stays as it is.
ADD: LiteralString = """
INSERT INTO webhook_events (tenant_id, id, source_id, event_id, type, topic, body)
SELECT g.tenant_id, g.id, g.source_id, g.event_id, g.type, g.topic, g.body
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::bytea[])
     WITH ORDINALITY AS g (tenant_id, id, source_id, event_id, type, topic, body, nth)
JOIN webhook_sources s ON s.tenant_id = g.tenant_id AND s.id = g.source_id
ORDER BY g.nth
ON CONFLICT (tenant_id, source_id, event_id) DO NOTHING
RETURNING id"""
KNOWN: LiteralString = """
SELECT e.id, e.source_id, e.event_id
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS g (tenant_id, source_id, event_id)
JOIN webhook_events e USING (tenant_id, source_id, event_id)"""
# Of the sources with something that waits: along the index from one to the next, however much waits.
_WAITING_SOURCES: LiteralString = """
WITH RECURSIVE waits AS (
    (SELECT source_id FROM webhook_events WHERE state = 'received' ORDER BY source_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.source_id FROM webhook_events e WHERE e.state = 'received' AND e.source_id > w.source_id
            ORDER BY e.source_id LIMIT 1)
    FROM waits w WHERE w.source_id IS NOT NULL
)"""
# Those whose oldest event is due, and that have no task which works on them.
_DUE: LiteralString = """
SELECT s.tenant_id, s.id FROM waits w
JOIN webhook_sources s ON s.id = w.source_id
JOIN tenants t ON t.id = s.tenant_id AND t.status = 'active'
CROSS JOIN LATERAL (
    SELECT e.next_at FROM webhook_events e WHERE e.source_id = s.id AND e.state = 'received' ORDER BY e.seq LIMIT 1
) head
WHERE head.next_at <= now() AND NOT EXISTS (
    SELECT FROM task_queue q WHERE q.tenant_id = s.tenant_id AND q.fifo_key = 'queue:webhooks/' || s.id)"""
DUE: LiteralString = f"{_WAITING_SOURCES} {_DUE}"
DUE_OF: LiteralString = f"WITH waits AS (SELECT unnest($1::uuid[]) AS source_id) {_DUE}"
OLDEST: LiteralString = """
SELECT id, event_id, type, topic, body, attempts, replays, received_at, next_at <= now() AS due,
       greatest(0, extract(epoch FROM next_at - now()))::float8 AS wait_s
FROM webhook_events WHERE tenant_id = $1 AND source_id = $2 AND state = 'received' ORDER BY seq LIMIT $3"""
BEGIN: LiteralString = """
UPDATE webhook_events SET attempts = attempts + 1
WHERE tenant_id = $1 AND id = $2 AND state = 'received' AND attempts = $3 RETURNING attempts"""
# Fenced by the attempt: a process that was taken for dead changes nothing any more.
END: LiteralString = """
UPDATE webhook_events SET state = $4, error = $5, ended_at = now()
WHERE tenant_id = $1 AND id = $2 AND state = 'received' AND attempts = $3"""
AGAIN: LiteralString = """
UPDATE webhook_events SET error = $4, next_at = now() + $5::interval, attempts = $6
WHERE tenant_id = $1 AND id = $2 AND state = 'received' AND attempts = $3"""
IGNORE: LiteralString = """
UPDATE webhook_events SET state = 'ignored', ended_at = now()
WHERE tenant_id = $1 AND id = ANY($2::uuid[]) AND state = 'received'"""
WAITING: LiteralString = """
SELECT count(*) AS waiting, coalesce(extract(epoch FROM now() - min(received_at)), 0)::float8 AS oldest_s
FROM webhook_events WHERE state = 'received'"""
CLEAN: LiteralString = """
DELETE FROM webhook_events WHERE ctid IN (
    SELECT ctid FROM webhook_events WHERE ended_at < now() - $1::interval LIMIT 5000)"""


@dataclass(frozen=True, slots=True)
class KeptSource:
    """A source as the inbox reads it; the secrets are sealed."""

    tenant: UUID
    id: UUID
    provider: str
    account: str | None
    settings: Json
    secrets: bytes = field(repr=False)


class NewEvent(NamedTuple):
    """An event to store."""

    tenant: UUID
    id: UUID
    source_id: UUID
    arrival: Arrival


@dataclass(frozen=True, slots=True)
class WaitingEvent:
    """An event that waits; `wait_s` is how long it still has to."""

    id: UUID
    event_id: str
    type: str
    topic: str
    body: bytes = field(repr=False)
    attempts: int
    replays: int
    received_at: datetime
    due: bool
    wait_s: float


class EventStore:
    """The events of a tenant, for who looks at them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, scope: Scope, event_id: UUID) -> Record | None:
        """Return one, with its body."""
        row = await self._db.find(scope, FIND, scope.tenant, event_id)
        return dict(row) if row else None

    async def list_page(
        self,
        scope: Scope,
        limit: int,
        before: UUID | None,
        source_id: UUID | None,
        state: str | None,
        topic: str | None,
    ) -> list[Record]:
        """Return some, newest first."""
        rows = await self._db.fetch(scope, LIST, scope.tenant, limit, before, source_id, state, topic)
        return [dict(row) for row in rows]

    async def replay(self, scope: Scope, event_id: UUID) -> Record | None:
        """Let one wait again, as if it had just come; None where it waits already."""
        row = await self._db.find(scope, REPLAY, scope.tenant, event_id)
        return dict(row) if row else None


class InboxStore:
    """Sources and events over all tenants, as the role `dragoman_core`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_sources(self, ids: Sequence[UUID]) -> dict[UUID, KeptSource]:
        """Return those of these sources that there are, by their ids."""
        return {row["id"]: KeptSource(*row) for row in await self._db.fetch(Scope(), SOURCES, ids)}

    async def add(self, events: Sequence[NewEvent]) -> Sequence[tuple[UUID, bool] | None]:
        """Store events; return for each its id, and whether it came before. None where its source is gone."""
        columns = [
            [event.tenant for event in events],
            [event.id for event in events],
            [event.source_id for event in events],
            [event.arrival.event_id for event in events],
            [event.arrival.type for event in events],
            [event.arrival.topic for event in events],
            [event.arrival.body for event in events],
        ]
        added = {row["id"] for row in await self._db.fetch(Scope(), ADD, *columns)}
        known: dict[tuple[UUID, str], UUID] = {}
        if again := [event for event in events if event.id not in added]:
            rows = await self._db.fetch(
                Scope(),
                KNOWN,
                [event.tenant for event in again],
                [event.source_id for event in again],
                [event.arrival.event_id for event in again],
            )
            known = {(row["source_id"], row["event_id"]): row["id"] for row in rows}
        return [
            (event.id, False) if event.id in added else _repeated(known.get((event.source_id, event.arrival.event_id)))
            for event in events
        ]

    async def find_due(self, sources: Sequence[UUID] | None) -> list[tuple[UUID, UUID]]:
        """Return the sources with something to do, each with its tenant; of these sources, or of all."""
        of_all = sources is None
        rows = await (self._db.fetch(Scope(), DUE) if of_all else self._db.fetch(Scope(), DUE_OF, sources))
        return [(row["tenant_id"], row["id"]) for row in rows]

    async def list_oldest(self, tenant: UUID, source_id: UUID, limit: int) -> list[WaitingEvent]:
        """Return what waits of a source, in the order in which it came."""
        return [WaitingEvent(*row) for row in await self._db.fetch(Scope(), OLDEST, tenant, source_id, limit)]

    async def begin(self, tenant: UUID, event_id: UUID, attempts: int) -> int | None:
        """Count an attempt before it is made; None when the event no longer waits, or another attempt has begun."""
        row = await self._db.find(Scope(), BEGIN, tenant, event_id, attempts)
        return row["attempts"] if row else None

    async def end(self, tenant: UUID, event_id: UUID, attempt: int, state: str, error: Json | None) -> bool:
        """Note what became of an event; False when the attempt no longer has it."""
        return bool(await self._db.execute(Scope(), END, tenant, event_id, attempt, state, error))

    async def try_again(
        self, tenant: UUID, event_id: UUID, attempt: int, error: Json, *, wait_s: float, counted: bool
    ) -> bool:
        """Let an event wait for another attempt; False when the attempt no longer has it."""
        wait, attempts = timedelta(seconds=wait_s), attempt if counted else attempt - 1
        return bool(await self._db.execute(Scope(), AGAIN, tenant, event_id, attempt, error, wait, attempts))

    async def ignore(self, tenant: UUID, ids: Sequence[UUID]) -> int:
        """Note that nothing handles these events."""
        return await self._db.execute(Scope(), IGNORE, tenant, ids)

    async def waiting(self) -> tuple[int, float]:
        """Return how many events wait, and for how many seconds the oldest has."""
        row = await self._db.find(Scope(), WAITING)
        return (row["waiting"], row["oldest_s"]) if row else (0, 0.0)

    async def clean(self, keep: timedelta) -> int:
        """Remove some of those that ended longer ago; return how many."""
        return await self._db.execute(Scope(), CLEAN, keep)


def _repeated(event_id: UUID | None) -> tuple[UUID, bool] | None:
    return (event_id, True) if event_id is not None else None
