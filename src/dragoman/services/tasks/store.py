"""The SQL by which a tenant sees its tasks and its conversations, and by which skills keep values for them."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.kit import AttemptFenced
from dragoman.services.tasks import events
from dragoman.services.tasks.access import Visible
from dragoman.services.tasks.errors import StateTooLarge, TaskStateTooLarge
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import AttemptRef, Json, LoggedEvent, Task, TaskQuery, ThreadKey
from dragoman.services.tasks.store_lists import count_statement, list_statement

TASK_COLUMNS: LiteralString = """
t.tenant_id, t.id, t.alias, t.context_id, t.owner, t.skill, t.state, t.status_at, t.message, t.error, t.slot, t.history,
t.artifacts, t.metadata, t.caller, t.seq, t.attempt, t.created_at"""
# What one who reads a log has in memory at a time, but for an event that is larger by itself.
_PAGE_BYTES = 262_144
_NO_ATTEMPT: Final[tuple[None, None]] = (None, None)

FIND: LiteralString = f"SELECT {TASK_COLUMNS} FROM tasks t WHERE t.tenant_id = $1 AND t.id = $2"
FIND_SOME: LiteralString = f"SELECT {TASK_COLUMNS} FROM tasks t WHERE t.tenant_id = $1 AND t.id = ANY($2::uuid[])"
FIND_ALIAS: LiteralString = f"SELECT {TASK_COLUMNS} FROM tasks t WHERE t.tenant_id = $1 AND t.alias = $2"
# Row by row, each found by its own look into the index: what is beyond the bytes is not even seen. What is stored as it
# is has its size at hand; what is compressed must be opened to be measured.
_NEXT_EVENT: LiteralString = """
SELECT e.seq, e.at, e.body, CASE WHEN pg_column_compression(e.body) IS NULL THEN pg_column_size(e.body)
                                 ELSE octet_length(e.body::text) END::bigint AS bytes
FROM task_events e WHERE e.tenant_id = $1 AND e.task_id = $2"""
QUESTIONS: LiteralString = """
SELECT body->'message' AS message FROM task_events
WHERE tenant_id = $1 AND task_id = $2 AND body->>'to' = 'input_required' AND body ? 'message'
ORDER BY seq DESC LIMIT 50"""
EVENTS: LiteralString = f"""
WITH RECURSIVE page AS (
    ({_NEXT_EVENT} AND e.seq > $3 ORDER BY e.seq LIMIT 1)
    UNION ALL
    SELECT n.seq, n.at, n.body, p.bytes + n.bytes
    FROM page p CROSS JOIN LATERAL ({_NEXT_EVENT} AND e.seq > p.seq ORDER BY e.seq LIMIT 1) n
    WHERE p.bytes < $5
)
SELECT seq, at, body FROM page LIMIT $4"""

# A statement of an attempt that lost its task may arrive late, and must not overwrite what the next attempt keeps.
# Attempts are numbered by the claims of a task; without a number nothing is compared.
_NOT_SUPERSEDED: LiteralString = """
NOT EXISTS (SELECT FROM task_queue q WHERE q.tenant_id = $1 AND q.task_id = {task} AND q.attempt > {attempt})
AND NOT EXISTS (SELECT FROM tasks t WHERE t.tenant_id = $1 AND t.id = {task} AND t.attempt > {attempt})"""
SUPERSEDED: LiteralString = (
    "SELECT NOT (" + _NOT_SUPERSEDED.format(task="$2::uuid", attempt="$3::int") + ") AS superseded"
)

FIND_THREAD: LiteralString = """
SELECT expires_at < now() AS expired, CASE WHEN context_expires_at < now() THEN 0 ELSE bytes END AS bytes
FROM threads WHERE tenant_id = $1 AND owner = $2 AND thread_id = $3"""
LOAD_CONTEXT: LiteralString = """
SELECT conversation_context FROM threads
WHERE tenant_id = $1 AND owner = $2 AND thread_id = $3 AND context_expires_at > now()"""
LOAD_SESSION: LiteralString = """
SELECT session_data->$4 AS value FROM threads
WHERE tenant_id = $1 AND owner = $2 AND thread_id = $3 AND context_expires_at > now() AND session_data ? $4"""
LOCK_SESSION: LiteralString = """
SELECT CASE WHEN context_expires_at > now() THEN session_data->$4 END AS value
FROM threads WHERE tenant_id = $1 AND owner = $2 AND thread_id = $3 FOR UPDATE"""
# A value takes the place of the one before, of its bytes too: one that is changed often does not fill the conversation.
SAVE_SESSION: LiteralString = f"""
UPDATE threads SET session_data = session_data || jsonb_build_object($4::text, $5::jsonb), updated_at = now(),
    bytes = bytes + octet_length($5::jsonb::text) - coalesce(octet_length((session_data->$4)::text), 0)
WHERE tenant_id = $1 AND owner = $2 AND thread_id = $3
  AND bytes + octet_length($5::jsonb::text) - coalesce(octet_length((session_data->$4)::text), 0) <= $6
  AND {_NOT_SUPERSEDED.format(task="$7::uuid", attempt="$8::int")}"""
DROP_SESSION: LiteralString = f"""
UPDATE threads SET session_data = session_data - $4,
    bytes = bytes - coalesce(octet_length((session_data->$4)::text), 0)
WHERE tenant_id = $1 AND owner = $2 AND thread_id = $3
  AND {_NOT_SUPERSEDED.format(task="$5::uuid", attempt="$6::int")}"""

LOAD_DATA: LiteralString = "SELECT value FROM task_data WHERE tenant_id = $1 AND task_id = $2 AND key = $3"
# A value weighs as much as its text and its name, and its row too: many that are empty are much all the same.
SAVE_DATA: LiteralString = f"""
INSERT INTO task_data (tenant_id, task_id, key, value)
SELECT $1, $2, $3::text, $4::jsonb
WHERE octet_length($4::jsonb::text) + octet_length($3::text) + 1024 + (
    SELECT coalesce(sum(octet_length(d.value::text) + octet_length(d.key) + 1024), 0) FROM task_data d
    WHERE d.tenant_id = $1 AND d.task_id = $2 AND d.key <> $3::text) <= $5
  AND {_NOT_SUPERSEDED.format(task="$2", attempt="$6::int")}
ON CONFLICT (tenant_id, task_id, key) DO UPDATE SET value = excluded.value"""
# The row is made first, so that there is one to lock.
LOCK_DATA: LiteralString = """
INSERT INTO task_data AS d (tenant_id, task_id, key, value) VALUES ($1, $2, $3, 'null')
ON CONFLICT (tenant_id, task_id, key) DO UPDATE SET value = d.value RETURNING value"""
DROP_DATA: LiteralString = f"""
DELETE FROM task_data WHERE tenant_id = $1 AND task_id = $2 AND key = $3
  AND {_NOT_SUPERSEDED.format(task="$2", attempt="$4::int")}"""
CLEAR_DATA: LiteralString = "DELETE FROM task_data WHERE tenant_id = $1 AND task_id = $2"


def read_task(row: Any, columns: int | None = None) -> Task:
    """Return the task in the first columns of a row."""
    task = Task(*row[:columns])
    task.state = State(task.state)
    if task.delegated:  # one that was handed over says in every view how it stands
        task.metadata |= {"state": task.state.value, "attempt": max(task.attempt, 1)}
    return task


class ThreadStore:
    """Conversations: what was said, and what skills kept for later turns."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, tenant: UUID, thread: ThreadKey) -> tuple[bool, int] | None:
        """Return whether it has expired and how many bytes it holds; None when there is none."""
        row = await self._db.find(Scope(tenant), FIND_THREAD, tenant, *thread)
        return (row["expired"], row["bytes"]) if row else None

    async def messages(self, tenant: UUID, thread: ThreadKey) -> list[Json]:
        """Return the messages of a conversation whose context has not expired."""
        row = await self._db.find(Scope(tenant), LOAD_CONTEXT, tenant, *thread)
        return row["conversation_context"] if row else []

    async def load(self, tenant: UUID, thread: ThreadKey, key: str) -> Any | None:
        """Return a value that a skill kept for the conversation."""
        row = await self._db.find(Scope(tenant), LOAD_SESSION, tenant, *thread, key)
        return row["value"] if row else None

    async def save(
        self,
        tenant: UUID,
        thread: ThreadKey,
        key: str,
        value: Any,
        limit_bytes: int,
        *,
        attempt: AttemptRef | None = None,
    ) -> bool:
        """Keep a value for the conversation; return False when it would hold too much.

        Raises:
            AttemptFenced: a later attempt has the task; nothing is changed.
        """
        by = attempt or _NO_ATTEMPT
        if await self._db.execute(Scope(tenant), SAVE_SESSION, tenant, *thread, key, value, limit_bytes, *by) > 0:
            return True
        await _check_not_superseded(self._db, Scope(tenant), tenant, by)
        return False

    async def modify(
        self,
        tenant: UUID,
        thread: ThreadKey,
        key: str,
        change: Callable[[Any], Any],
        limit_bytes: int,
        *,
        attempt: AttemptRef | None = None,
    ) -> Any:
        """Replace a value by what `change` makes of it, under the lock of the conversation; return that.

        Raises:
            AttemptFenced: a later attempt has the task; nothing is changed.
            StateTooLarge: the conversation would hold more than it may; nothing is changed.
        """
        async with self._db.unit(Scope(tenant)):
            row = await self._db.find(Scope(tenant), LOCK_SESSION, tenant, *thread, key)
            value = change(row["value"] if row else None)
            if value is None:
                await self.remove(tenant, thread, key, attempt=attempt)
            elif not await self.save(tenant, thread, key, value, limit_bytes, attempt=attempt):
                raise StateTooLarge(limit_bytes=limit_bytes)
            return value

    async def remove(self, tenant: UUID, thread: ThreadKey, key: str, *, attempt: AttemptRef | None = None) -> None:
        """Remove a value.

        Raises:
            AttemptFenced: a later attempt has the task; nothing is changed.
        """
        by = attempt or _NO_ATTEMPT
        if await self._db.execute(Scope(tenant), DROP_SESSION, tenant, *thread, key, *by) == 0:
            await _check_not_superseded(self._db, Scope(tenant), tenant, by)


class TaskStore:
    """What a tenant sees of its tasks."""

    def __init__(self, db: Database, *, scope: Callable[[UUID], Scope] = Scope) -> None:
        self._db = db
        self._scope = scope

    async def find(self, tenant: UUID, ref: str) -> Task | None:
        """Return a task by its id or by the alias that its caller chose."""
        try:
            row = await self._db.find(self._scope(tenant), FIND, tenant, UUID(ref))
        except ValueError:
            row = None
        row = row or await self._db.find(self._scope(tenant), FIND_ALIAS, tenant, ref.replace("\x00", ""))
        return read_task(row) if row else None

    async def find_some(self, tenant: UUID, ids: Sequence[UUID]) -> list[Task | None]:
        """Tasks by their ids, in the order of these, each an object of its own; None for one that there is not."""
        rows = {row["id"]: row for row in await self._db.fetch(self._scope(tenant), FIND_SOME, tenant, ids)}
        return [read_task(row) if (row := rows.get(task_id)) else None for task_id in ids]

    async def events(self, tenant: UUID, task_id: UUID, after: int, limit: int = 1000) -> list[LoggedEvent]:
        """Return the events after a number; fewer than the limit when they are large, to bound memory."""
        rows = await self._db.fetch(self._scope(tenant), EVENTS, tenant, task_id, after, limit, _PAGE_BYTES)
        return [LoggedEvent(row["seq"], row["at"], events.decode(row["body"])) for row in rows]

    async def questions(self, tenant: UUID, task_id: UUID) -> list[Json]:
        """Return the messages with which a task asked for something, the latest first."""
        rows = await self._db.fetch(self._scope(tenant), QUESTIONS, tenant, task_id)
        return [row["message"] for row in rows]

    async def replay(self, tenant: UUID, task_id: UUID, *, until: int | None = None) -> AsyncGenerator[LoggedEvent]:
        """Yield the log from its beginning, one page in memory at a time."""
        seq = 0
        while (until is None or seq < until) and (page := await self.events(tenant, task_id, seq)):
            for logged in page:
                seq = logged.seq
                if until is None or seq <= until:
                    yield logged

    async def page(self, tenant: UUID, query: TaskQuery, visible: Visible) -> list[Task]:
        """Return a page of tasks; one more than the limit when there are more."""
        statement, values = list_statement(query, visible, columns=TASK_COLUMNS)
        return [read_task(row) for row in await self._db.fetch(self._scope(tenant), statement, tenant, *values)]

    async def count(self, tenant: UUID, query: TaskQuery, visible: Visible) -> int:
        """Return how many there are on all pages, up to `MOST_COUNTED`."""
        statement, values = count_statement(query, visible)
        row = await self._db.find(self._scope(tenant), statement, tenant, *values)
        return row["n"] if row else 0

    async def load(self, tenant: UUID, task_id: UUID, key: str) -> Any | None:
        """Return a value that the task's skill kept."""
        row = await self._db.find(self._scope(tenant), LOAD_DATA, tenant, task_id, key)
        return row["value"] if row else None

    async def save(
        self, tenant: UUID, task_id: UUID, key: str, value: Any, limit_bytes: int, *, attempt: int | None = None
    ) -> bool:
        """Keep a value for the task's skill; return False when that would be too much. Call it one by one for a task.

        Raises:
            AttemptFenced: a later attempt has the task; nothing is changed.
        """
        scope = self._scope(tenant)
        if await self._db.execute(scope, SAVE_DATA, tenant, task_id, key, value, limit_bytes, attempt) > 0:
            return True
        await _check_not_superseded(self._db, scope, tenant, (task_id, attempt))
        return False

    async def modify(
        self,
        tenant: UUID,
        task_id: UUID,
        key: str,
        change: Callable[[Any], Any],
        limit_bytes: int,
        *,
        attempt: int | None = None,
    ) -> Any:
        """Replace a value by what `change` makes of it, under the lock of the value; return that.

        Raises:
            AttemptFenced: a later attempt has the task; nothing is changed.
            TaskStateTooLarge: the task would keep more than it may; nothing is changed.
        """
        async with self._db.unit(self._scope(tenant)):
            row = await self._db.find(self._scope(tenant), LOCK_DATA, tenant, task_id, key)
            value = change(row["value"] if row else None)
            if value is None:
                await self.remove(tenant, task_id, key, attempt=attempt)
            elif not await self.save(tenant, task_id, key, value, limit_bytes, attempt=attempt):
                raise TaskStateTooLarge(limit_bytes=limit_bytes)
            return value

    async def remove(self, tenant: UUID, task_id: UUID, key: str, *, attempt: int | None = None) -> None:
        """Remove a value.

        Raises:
            AttemptFenced: a later attempt has the task; nothing is changed.
        """
        scope = self._scope(tenant)
        if await self._db.execute(scope, DROP_DATA, tenant, task_id, key, attempt) == 0:
            await _check_not_superseded(self._db, scope, tenant, (task_id, attempt))

    async def clear(self, tenant: UUID, task_id: UUID) -> None:
        """Remove all values of a task that is not kept."""
        await self._db.execute(self._scope(tenant), CLEAR_DATA, tenant, task_id)


async def _check_not_superseded(
    db: Database, scope: Scope, tenant: UUID, attempt: tuple[UUID | None, int | None]
) -> None:
    """Tell why nothing was changed: refuse an attempt whose task a later one has."""
    row = await db.find(scope, SUPERSEDED, tenant, *attempt)
    if row is not None and row["superseded"]:
        raise AttemptFenced
