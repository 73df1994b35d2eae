"""The SQL of tasks. A change takes the next event numbers under the task's lock, whichever process makes it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Event, Happening, Json, Task, Wanted
from dragoman.services.tasks.store_keys import KeyClaim, claim_keys

TASK_COLUMNS: LiteralString = """
t.tenant_id, t.id, t.alias, t.context_id, t.owner, t.skill, t.state, t.status_at, t.message, t.error, t.slot, t.history,
t.artifacts, t.metadata, t.caller, t.seq, t.attempt, t.created_at"""
# What one who reads a log has in memory at a time, but for an event that is larger by itself.
_PAGE_BYTES = 262_144
TERMINAL_STATES: LiteralString = "('succeeded', 'failed', 'rejected', 'cancelled', 'dead_letter')"

# What is given comes as one document, written once: the driver would look at every value of twenty arrays.
ADD: LiteralString = """
WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb)
    AS g (tenant uuid, id uuid, alias text, context_id text, owner text, skill text, state text, status_at timestamptz,
          worker uuid, message jsonb, error jsonb, slot jsonb, history jsonb, artifacts jsonb, metadata jsonb,
          caller jsonb, events jsonb)
), made AS (
    INSERT INTO tasks (tenant_id, id, alias, context_id, owner, skill, state, status_at, message, error, slot, history,
                       artifacts, metadata, caller, seq)
    SELECT tenant, id, alias, context_id, owner, skill, state, status_at, message, error, slot, history, artifacts,
           metadata, caller, jsonb_array_length(events) FROM given
), leased AS (
    INSERT INTO task_queue (task_id, tenant_id, worker, lease_until)
    SELECT id, tenant, worker, CASE WHEN worker IS NOT NULL THEN now() + $3::interval END FROM given
    WHERE worker IS NOT NULL OR state = 'queued'
), talked AS (
    INSERT INTO threads AS h (tenant_id, thread_id, owner, conversation_context, bytes, context_expires_at, expires_at)
    SELECT tenant, thread_id, owner, said, octet_length(said::text), now() + $4::interval, now() + $5::interval
    FROM jsonb_to_recordset($2::text::jsonb) AS u (tenant uuid, thread_id text, owner text, said jsonb)
    ON CONFLICT (tenant_id, thread_id) DO UPDATE
    SET conversation_context = h.conversation_context || excluded.conversation_context,
        bytes = h.bytes + excluded.bytes, updated_at = now(),
        context_expires_at = excluded.context_expires_at, expires_at = excluded.expires_at
)
INSERT INTO task_events (tenant_id, task_id, seq, body)
SELECT g.tenant, g.id, e.seq, e.body
FROM given g CROSS JOIN jsonb_array_elements(g.events) WITH ORDINALITY AS e (body, seq)"""

# What is null stays. A change that names an attempt is that attempt's or nobody's: a late worker changes nothing.
CHANGE: LiteralString = f"""
WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb)
    AS g (tenant uuid, id uuid, attempt int, expected text, skill text, state text, status_at timestamptz, worker uuid,
          message jsonb, error jsonb, slot jsonb, history jsonb, artifacts jsonb, events jsonb)
), moved AS (
    UPDATE tasks t SET
        seq = t.seq + jsonb_array_length(g.events),
        state = coalesce(g.state, t.state),
        skill = coalesce(g.skill, t.skill),
        status_at = CASE WHEN g.state IS NULL THEN t.status_at ELSE g.status_at END,
        message = CASE WHEN g.state IS NULL THEN t.message ELSE g.message END,
        error = coalesce(g.error, t.error),
        slot = CASE WHEN g.state IS NULL THEN t.slot ELSE g.slot END,
        history = t.history || g.history,
        artifacts = coalesce(g.artifacts, t.artifacts)
    FROM given g
    WHERE t.tenant_id = g.tenant AND t.id = g.id AND t.state NOT IN {TERMINAL_STATES}
      AND (g.attempt IS NULL OR t.attempt = g.attempt) AND (g.expected IS NULL OR t.state = g.expected)
    RETURNING t.tenant_id, t.id, t.seq, t.state, t.context_id, g.events, g.worker, g.history
), rested AS (
    DELETE FROM task_queue q USING moved m
    WHERE q.task_id = m.id AND (m.state = 'input_required' OR m.state IN {TERMINAL_STATES})
), leased AS (
    INSERT INTO task_queue (task_id, tenant_id, worker, lease_until)
    SELECT id, tenant_id, worker, CASE WHEN worker IS NOT NULL THEN now() + $2::interval END FROM moved
    WHERE worker IS NOT NULL OR state = 'queued'
    ON CONFLICT (task_id) DO UPDATE SET worker = excluded.worker, lease_until = excluded.lease_until
), said AS (
    SELECT m.tenant_id, m.context_id, jsonb_agg(e.message) AS messages, sum(octet_length(e.message::text)) AS bytes
    FROM moved m CROSS JOIN jsonb_array_elements(m.history) AS e (message) GROUP BY 1, 2
), talked AS (
    UPDATE threads h SET conversation_context = h.conversation_context || s.messages, bytes = h.bytes + s.bytes,
        updated_at = now(), context_expires_at = now() + $3::interval, expires_at = now() + $4::interval
    FROM said s WHERE h.tenant_id = s.tenant_id AND h.thread_id = s.context_id
), logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT m.tenant_id, m.id, m.seq - jsonb_array_length(m.events) + e.place, e.body
    FROM moved m CROSS JOIN jsonb_array_elements(m.events) WITH ORDINALITY AS e (body, place)
)
SELECT tenant_id, id, seq FROM moved"""

FIND: LiteralString = f"SELECT {TASK_COLUMNS} FROM tasks t WHERE t.tenant_id = $1 AND t.id = $2"
FIND_SOME: LiteralString = f"SELECT {TASK_COLUMNS} FROM tasks t WHERE t.tenant_id = $1 AND t.id = ANY($2::uuid[])"
FIND_ALIAS: LiteralString = f"SELECT {TASK_COLUMNS} FROM tasks t WHERE t.tenant_id = $1 AND t.alias = $2"
# Row by row, each found by its own look into the index: what is beyond the bytes is not even seen. What is stored as it
# is has its size at hand; what is compressed must be opened to be measured.
_NEXT_EVENT: LiteralString = """
SELECT e.seq, e.at, e.body, CASE WHEN pg_column_compression(e.body) IS NULL THEN pg_column_size(e.body)
                                 ELSE octet_length(e.body::text) END::bigint AS bytes
FROM task_events e WHERE e.tenant_id = $1 AND e.task_id = $2"""
EVENTS: LiteralString = f"""
WITH RECURSIVE page AS (
    ({_NEXT_EVENT} AND e.seq > $3 ORDER BY e.seq LIMIT 1)
    UNION ALL
    SELECT n.seq, n.at, n.body, p.bytes + n.bytes
    FROM page p CROSS JOIN LATERAL ({_NEXT_EVENT} AND e.seq > p.seq ORDER BY e.seq LIMIT 1) n
    WHERE p.bytes < $5
)
SELECT seq, at, body FROM page LIMIT $4"""
LIST: LiteralString = f"""
SELECT {TASK_COLUMNS} FROM tasks t
WHERE t.tenant_id = $1 AND ($3::text IS NULL OR t.context_id = $3) AND ($4::text[] IS NULL OR t.state = ANY($4))
  AND ($5::timestamptz IS NULL OR t.status_at >= $5)
  AND ($6::timestamptz IS NULL OR (t.status_at, t.id) < ($6, $7::uuid))
  AND ($8::boolean IS NULL OR coalesce(t.slot ? 'auth', false) = $8)
ORDER BY t.status_at DESC, t.id DESC LIMIT $2"""
COUNT: LiteralString = """
SELECT count(*) AS n FROM tasks t
WHERE t.tenant_id = $1 AND ($2::text IS NULL OR t.context_id = $2) AND ($3::text[] IS NULL OR t.state = ANY($3))
  AND ($4::timestamptz IS NULL OR t.status_at >= $4)
  AND ($5::boolean IS NULL OR coalesce(t.slot ? 'auth', false) = $5)"""

# A row that is locked is being changed by somebody who knows better: waiting for several of them could be for ever.
HEARTBEAT: LiteralString = """
WITH ours AS (
    SELECT task_id FROM task_queue WHERE worker = $1 AND task_id = ANY($3::uuid[])
), free AS (
    SELECT task_id FROM task_queue WHERE worker = $1 AND task_id = ANY($3::uuid[]) FOR UPDATE SKIP LOCKED
), kept AS (
    UPDATE task_queue q SET lease_until = now() + $2::interval FROM free f WHERE q.task_id = f.task_id
)
SELECT task_id FROM ours"""
# Every pick counts as an attempt, whatever state the task was left in: one that kills its worker must come to an end.
CLAIM: LiteralString = f"""
WITH due AS (
    SELECT q.task_id FROM task_queue q
    WHERE q.lane = 'turn' AND ((q.worker IS NULL AND q.run_at <= now()) OR q.lease_until < now())
    ORDER BY q.run_at LIMIT $2 FOR UPDATE SKIP LOCKED
), mine AS (
    UPDATE task_queue q SET worker = $1, lease_until = now() + $3::interval FROM due WHERE q.task_id = due.task_id
    RETURNING q.task_id, q.tenant_id, q.started_at
)
UPDATE tasks t SET attempt = t.attempt + 1 FROM mine
WHERE t.tenant_id = mine.tenant_id AND t.id = mine.task_id AND t.state NOT IN {TERMINAL_STATES}
RETURNING {TASK_COLUMNS}, mine.started_at"""
SEQS: LiteralString = """
SELECT t.id, t.seq FROM unnest($1::uuid[], $2::uuid[]) AS f (tenant_id, id) JOIN tasks t USING (tenant_id, id)"""
WORKER: LiteralString = "SELECT worker FROM task_queue WHERE task_id = $1"
DEPTH: LiteralString = """
SELECT count(*) FILTER (WHERE worker IS NULL AND run_at <= now()) AS due,
       count(*) FILTER (WHERE lease_until >= now()) AS running, count(*) FILTER (WHERE lease_until < now()) AS abandoned
FROM task_queue"""
RELEASE: LiteralString = "UPDATE task_queue SET worker = NULL, lease_until = NULL, run_at = now() WHERE worker = $1"

FIND_THREAD: LiteralString = """
SELECT expires_at < now() AS expired, CASE WHEN context_expires_at < now() THEN 0 ELSE bytes END AS bytes
FROM threads WHERE tenant_id = $1 AND thread_id = $2"""
LOAD_CONTEXT: LiteralString = """
SELECT conversation_context FROM threads WHERE tenant_id = $1 AND thread_id = $2 AND context_expires_at > now()"""
LOAD_SESSION: LiteralString = """
SELECT session_data->$3 AS value FROM threads
WHERE tenant_id = $1 AND thread_id = $2 AND context_expires_at > now() AND session_data ? $3"""
SAVE_SESSION: LiteralString = """
UPDATE threads SET session_data = session_data || jsonb_build_object($3::text, $4::jsonb),
    bytes = bytes + octet_length($4::jsonb::text), updated_at = now()
WHERE tenant_id = $1 AND thread_id = $2 AND bytes + octet_length($4::jsonb::text) <= $5"""
DROP_SESSION: LiteralString = """
UPDATE threads SET session_data = session_data - $3 WHERE tenant_id = $1 AND thread_id = $2"""

LOAD_DATA: LiteralString = "SELECT value FROM task_data WHERE tenant_id = $1 AND task_id = $2 AND key = $3"
# A value weighs as much as its text and its name, and its row too: many that are empty are much all the same.
SAVE_DATA: LiteralString = """
INSERT INTO task_data (tenant_id, task_id, key, value)
SELECT $1, $2, $3::text, $4::jsonb
WHERE octet_length($4::jsonb::text) + octet_length($3::text) + 1024 + (
    SELECT coalesce(sum(octet_length(d.value::text) + octet_length(d.key) + 1024), 0) FROM task_data d
    WHERE d.tenant_id = $1 AND d.task_id = $2 AND d.key <> $3::text) <= $5
ON CONFLICT (tenant_id, task_id, key) DO UPDATE SET value = excluded.value"""
DROP_DATA: LiteralString = "DELETE FROM task_data WHERE tenant_id = $1 AND task_id = $2 AND key = $3"


@dataclass(slots=True)
class Birth:
    """A new task, with everything that has happened to it already."""

    tenant: UUID
    id: UUID
    context_id: str
    owner: str
    caller: Json
    state: str
    status_at: datetime
    events: list[Event]
    alias: str | None = None
    skill: str | None = None
    message: Json | None = None
    error: Json | None = None
    slot: Json | None = None
    history: list[Json] = field(default_factory=list[Json])
    artifacts: list[Json] = field(default_factory=list[Json])
    metadata: Json = field(default_factory=dict[str, Any])
    worker: UUID | None = None
    claim: KeyClaim | None = None


@dataclass(slots=True)
class Change:
    """What happened to a task; applied only in this attempt and from the expected state, where these are given."""

    tenant: UUID
    id: UUID
    events: list[Event]
    attempt: int | None = None
    expected: str | None = None
    state: str | None = None
    skill: str | None = None
    message: Json | None = None
    error: Json | None = None
    slot: Json | None = None
    history: list[Json] = field(default_factory=list[Json])
    artifacts: list[Json] | None = None
    worker: UUID | None = None
    claim: KeyClaim | None = None
    status_at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass(frozen=True, slots=True)
class Keeping:
    """How long things are kept."""

    lease: timedelta = timedelta(seconds=3.5)
    context: timedelta = timedelta(hours=1)
    thread: timedelta = timedelta(hours=24)


class CoreStore:
    """What the core writes, over all tenants, as the role `dragoman_core`, many at a time."""

    def __init__(self, db: Database, keeping: Keeping) -> None:
        self._db = db
        self._keeping = keeping
        self._scope = Scope()

    async def add(self, births: Sequence[Birth]) -> None:
        """New tasks, their events, their leases and their threads, in one statement; with the keys of their senders.

        Raises:
            UniqueViolated: an alias or a key is taken.
        """
        claims = [(birth.tenant, birth.id, birth.claim) for birth in births if birth.claim is not None]
        if not claims:
            await self._add(births)
            return
        async with self._db.unit(self._scope):
            await claim_keys(self._db, self._scope, claims)
            await self._add(births)

    async def _add(self, births: Sequence[Birth]) -> None:
        talks: dict[tuple[UUID, str], Json] = {}
        for birth in births:
            talk = talks.setdefault(
                (birth.tenant, birth.context_id),
                {"tenant": birth.tenant, "thread_id": birth.context_id, "owner": birth.owner, "said": []},
            )
            talk["said"] += birth.history
        keeping = self._keeping
        given = document(births), document(list(talks.values())), keeping.lease, keeping.context, keeping.thread
        await self._db.execute(self._scope, ADD, *given)

    async def change(self, changes: Sequence[Change]) -> dict[UUID, int]:
        """Apply them, with the keys of their senders; the last event number of each task that could be changed.

        Raises:
            UniqueViolated: a key is taken.
        """
        claims = {change.id: (change.tenant, change.id, change.claim) for change in changes if change.claim is not None}
        if not claims:
            return await self._change(changes)
        async with self._db.unit(self._scope):
            seqs = await self._change(changes)
            if applied := [(tenant, task_id, claim) for tenant, task_id, claim in claims.values() if task_id in seqs]:
                await claim_keys(self._db, self._scope, applied)
            return seqs

    async def _change(self, changes: Sequence[Change]) -> dict[UUID, int]:
        keeping = self._keeping
        given = document(changes), keeping.lease, keeping.context, keeping.thread
        return {row["id"]: row["seq"] for row in await self._db.fetch(self._scope, CHANGE, *given)}

    async def heartbeat(self, worker: UUID, tasks: Sequence[UUID]) -> set[UUID]:
        """Keep these, which this process runs, and say which it still has.

        What it has and does not run is for others to take over.
        """
        if not tasks:
            return set()
        rows = await self._db.fetch(self._scope, HEARTBEAT, worker, self._keeping.lease, tasks)
        return {row["task_id"] for row in rows}

    async def claim(self, worker: UUID, limit: int) -> list[Task]:
        """Take over what is due, or what a dead process left."""
        return [read_task(row) for row in await self._db.fetch(self._scope, CLAIM, worker, limit, self._keeping.lease)]

    async def depth(self) -> tuple[int, int, int]:
        """How many tasks wait for a process, how many run in one, and how many were left by one."""
        row = await self._db.find(self._scope, DEPTH)
        return (row["due"], row["running"], row["abandoned"]) if row else (0, 0, 0)

    async def seqs(self, tasks: Sequence[tuple[UUID, UUID]]) -> dict[UUID, int]:
        """How far the logs of these tasks are; each is named by its tenant and its id."""
        rows = await self._db.fetch(
            self._scope, SEQS, [tenant for tenant, _ in tasks], [task_id for _, task_id in tasks]
        )
        return {row["id"]: row["seq"] for row in rows}

    async def find_worker(self, task_id: UUID) -> tuple[bool, UUID | None]:
        """Whether the task is still to be run, and the process that has it."""
        row = await self._db.find(self._scope, WORKER, task_id)
        return row is not None, None if row is None else row["worker"]

    async def release(self, worker: UUID) -> None:
        """Give back what this process can no longer run, for others to take at once."""
        await self._db.execute(self._scope, RELEASE, worker)


def read_task(row: Any, columns: int | None = None) -> Task:
    """The task in the first columns of a row."""
    task = Task(*row[:columns])
    task.state = State(task.state)
    if task.delegated:  # one that was handed over says in every view how it stands
        task.metadata |= {"state": task.state.value, "attempt": max(task.attempt, 1)}
    return task


class ThreadStore:
    """Conversations: what was said, and what skills kept for later turns."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, tenant: UUID, thread_id: str) -> tuple[bool, int] | None:
        """Whether it has expired, and how much it holds; None when there is none."""
        row = await self._db.find(Scope(tenant), FIND_THREAD, tenant, thread_id)
        return (row["expired"], row["bytes"]) if row else None

    async def said(self, tenant: UUID, thread_id: str) -> list[Json]:
        """The conversation, while it is fresh."""
        row = await self._db.find(Scope(tenant), LOAD_CONTEXT, tenant, thread_id)
        return row["conversation_context"] if row else []

    async def load(self, tenant: UUID, thread_id: str, key: str) -> Any | None:
        """A value that a skill kept for the conversation."""
        row = await self._db.find(Scope(tenant), LOAD_SESSION, tenant, thread_id, key)
        return row["value"] if row else None

    async def save(self, tenant: UUID, thread_id: str, key: str, value: Any, limit_bytes: int) -> bool:
        """Keep a value for the conversation; False when it would hold too much."""
        return await self._db.execute(Scope(tenant), SAVE_SESSION, tenant, thread_id, key, value, limit_bytes) > 0

    async def remove(self, tenant: UUID, thread_id: str, key: str) -> None:
        """Forget a value."""
        await self._db.execute(Scope(tenant), DROP_SESSION, tenant, thread_id, key)


class TaskStore:
    """What a tenant sees of its tasks."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, tenant: UUID, ref: str) -> Task | None:
        """One task, by its id or by the one that its caller chose."""
        try:
            row = await self._db.find(Scope(tenant), FIND, tenant, UUID(ref))
        except ValueError:
            row = None
        row = row or await self._db.find(Scope(tenant), FIND_ALIAS, tenant, ref.replace("\x00", ""))
        return read_task(row) if row else None

    async def find_some(self, tenant: UUID, ids: Sequence[UUID]) -> list[Task | None]:
        """Tasks by their ids, in the order of these, each an object of its own; None for one that there is not."""
        rows = {row["id"]: row for row in await self._db.fetch(Scope(tenant), FIND_SOME, tenant, ids)}
        return [read_task(row) if (row := rows.get(task_id)) else None for task_id in ids]

    async def events(self, tenant: UUID, task_id: UUID, after: int, limit: int = 1000) -> list[Happening]:
        """What happened since; fewer than the limit when they are large, so that a reader holds little at a time."""
        rows = await self._db.fetch(Scope(tenant), EVENTS, tenant, task_id, after, limit, _PAGE_BYTES)
        return [Happening(row["seq"], row["at"], row["body"]) for row in rows]

    async def replay(self, tenant: UUID, task_id: UUID, *, until: int | None = None) -> AsyncGenerator[Happening]:
        """The log from its beginning, with no more of it in memory than is read at a time."""
        seq = 0
        while (until is None or seq < until) and (page := await self.events(tenant, task_id, seq)):
            for happening in page:
                seq = happening.seq
                if until is None or seq <= until:
                    yield happening

    async def page(self, tenant: UUID, wanted: Wanted) -> list[Task]:
        """Newest first; one more than the limit when there are more."""
        states = [state.value for state in wanted.states] if wanted.states is not None else None
        at, last = wanted.after or (None, None)
        rows = await self._db.fetch(
            Scope(tenant),
            LIST,
            tenant,
            wanted.limit + 1,
            wanted.context_id,
            states,
            wanted.since,
            at,
            last,
            wanted.auth,
        )
        return [read_task(row) for row in rows]

    async def count(self, tenant: UUID, wanted: Wanted) -> int:
        """How many there are in all."""
        states = [state.value for state in wanted.states] if wanted.states is not None else None
        row = await self._db.find(Scope(tenant), COUNT, tenant, wanted.context_id, states, wanted.since, wanted.auth)
        return row["n"] if row else 0

    async def load(self, tenant: UUID, task_id: UUID, key: str) -> Any | None:
        """A value that the task's skill kept."""
        row = await self._db.find(Scope(tenant), LOAD_DATA, tenant, task_id, key)
        return row["value"] if row else None

    async def save(self, tenant: UUID, task_id: UUID, key: str, value: Any, limit_bytes: int) -> bool:
        """Keep a value for the task's skill; False when that would be too much. To be called one by one for a task."""
        return await self._db.execute(Scope(tenant), SAVE_DATA, tenant, task_id, key, value, limit_bytes) > 0

    async def remove(self, tenant: UUID, task_id: UUID, key: str) -> None:
        """Forget a value."""
        await self._db.execute(Scope(tenant), DROP_DATA, tenant, task_id, key)
