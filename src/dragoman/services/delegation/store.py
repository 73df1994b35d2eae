"""The SQL of delegated tasks as the core runs it: many tasks of all tenants in one statement, fenced by the attempt."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document
from dragoman.services.audit.store import ADD_ALL, Line
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.delegation.workers import Json
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.store import TASK_COLUMNS, TERMINAL_STATES, read_task

_LANE: LiteralString = "'delegated'"
# What is recorded is added by the statement that does it, for those of its rows that it did.
_RECORD: LiteralString = ADD_ALL.replace("$1", "$2")

# A key that is taken drops its row, and with it everything that would have come of it.
ADD: LiteralString = f"""
WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb)
    AS g (place int, tenant uuid, id uuid, canonical uuid, run int, alias text, context_id text, owner text, state text,
          message jsonb, history jsonb, artifacts jsonb, metadata jsonb, caller jsonb, events jsonb, attempt int,
          actor text, key text, digest text, action text, matter text, correlation_id text, max_attempts int,
          deadline timestamptz, dry_run boolean, waits_for jsonb, governance jsonb, envelope jsonb, run_at timestamptz)
), accepted AS (
    INSERT INTO delegations (tenant_id, task_id, canonical_id, run, actor, key, digest, action, matter, correlation_id,
                             max_attempts, deadline, dry_run, waits_for, governance, envelope)
    SELECT tenant, id, canonical, run, actor, key, decode(digest, 'hex'), action, matter, correlation_id,
           max_attempts, deadline, dry_run,
           CASE WHEN waits_for IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(waits_for)) END,
           governance, envelope FROM given
    ON CONFLICT DO NOTHING
    RETURNING task_id
), made AS (
    INSERT INTO tasks (tenant_id, id, alias, context_id, owner, skill, state, message, history, artifacts, metadata,
                       caller, seq, attempt)
    SELECT g.tenant, g.id, g.alias, g.context_id, g.owner, 'task', g.state, g.message, g.history, g.artifacts,
           g.metadata, g.caller, jsonb_array_length(g.events), g.attempt
    FROM given g JOIN accepted a ON a.task_id = g.id
), queued AS (
    INSERT INTO task_queue (task_id, tenant_id, lane, run_at)
    SELECT g.id, g.tenant, {_LANE}, g.run_at FROM given g JOIN accepted a ON a.task_id = g.id
    WHERE g.state NOT IN {TERMINAL_STATES}
), logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT g.tenant, g.id, e.seq, e.body FROM given g JOIN accepted a ON a.task_id = g.id
    CROSS JOIN jsonb_array_elements(g.events) WITH ORDINALITY AS e (body, seq)
), recorded AS (
    {_RECORD} JOIN given g USING (place) JOIN accepted a ON a.task_id = g.id
)
SELECT task_id FROM accepted"""

# What is due and what was left are asked for apart: each goes along an index, however long the queue is.
_TAKE: LiteralString = f"""
), mine AS (
    UPDATE task_queue q SET worker = $1, lease_until = now() + $3::interval FROM due WHERE q.task_id = due.task_id
    RETURNING q.task_id, q.tenant_id
), moved AS (
    UPDATE tasks t SET attempt = t.attempt + 1, seq = t.seq + 1, state = 'in_progress', status_at = now(),
        message = NULL, slot = NULL
    FROM mine m JOIN tasks w ON w.tenant_id = m.tenant_id AND w.id = m.task_id
    WHERE t.tenant_id = w.tenant_id AND t.id = w.id AND t.state NOT IN {TERMINAL_STATES}
    RETURNING {TASK_COLUMNS}, w.state AS was
)
SELECT m.*, d.canonical_id, d.run, d.max_attempts, d.deadline, d.governance, d.answers, d.envelope
FROM moved m JOIN delegations d ON d.tenant_id = m.tenant_id AND d.task_id = m.id"""
CLAIM_DUE: LiteralString = f"""
WITH due AS (
    SELECT q.task_id FROM task_queue q WHERE q.lane = {_LANE} AND q.worker IS NULL AND q.run_at <= now()
    ORDER BY q.run_at LIMIT $2 FOR UPDATE SKIP LOCKED
{_TAKE}"""
CLAIM_LEFT: LiteralString = f"""
WITH due AS (
    SELECT q.task_id FROM task_queue q WHERE q.lane = {_LANE} AND q.worker IS NOT NULL AND q.lease_until < now()
    ORDER BY q.lease_until LIMIT $2 FOR UPDATE SKIP LOCKED
{_TAKE}"""
LOG: LiteralString = f"""
WITH logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS g (tenant uuid, id uuid, seq int, body jsonb)
)
{_RECORD}"""

# What names an attempt is that attempt's or nobody's; what names none is an operator's, from the state it saw. Keys are
# compared as sets of one: plain equality can be hashed, and a plan from when the table was small would read all of it.
MOVE: LiteralString = f"""
WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb)
    AS g (place int, tenant uuid, id uuid, attempt int, expected text, state text, message jsonb, error jsonb,
          slot jsonb, artifacts jsonb, events jsonb, run_at timestamptz, governance jsonb, waits_for jsonb,
          answer jsonb)
), moved AS (
    UPDATE tasks t SET seq = t.seq + jsonb_array_length(g.events), state = g.state, status_at = now(),
        message = g.message, error = g.error, slot = g.slot, artifacts = coalesce(g.artifacts, t.artifacts),
        attempt = t.attempt + CASE WHEN g.state = 'in_progress' THEN 1 ELSE 0 END
    FROM given g
    WHERE t.tenant_id = ANY (ARRAY[g.tenant]) AND t.id = ANY (ARRAY[g.id])
      AND t.state IS NOT DISTINCT FROM g.expected AND (g.attempt IS NULL OR t.attempt = g.attempt)
    RETURNING g.place, t.tenant_id, t.id, t.seq, t.state, g.events, g.run_at, g.governance, g.waits_for, g.answer
), ended AS (
    DELETE FROM task_queue q USING moved m WHERE q.task_id = m.id AND m.state IN {TERMINAL_STATES}
), again AS (
    UPDATE task_queue q SET worker = NULL, lease_until = NULL, run_at = m.run_at
    FROM moved m WHERE q.task_id = m.id AND m.state IN ('queued', 'input_required', 'in_progress')
), bound AS (
    UPDATE delegations d SET governance = coalesce(m.governance, d.governance),
        waits_for = CASE WHEN m.waits_for IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(m.waits_for)) END,
        answers = CASE WHEN m.answer IS NULL THEN d.answers ELSE d.answers || m.answer END,
        -- An attempt that had to ask, or to wait for consent, is not held against the task.
        max_attempts = d.max_attempts + CASE WHEN coalesce(m.answer, m.waits_for) IS NULL THEN 0 ELSE 1 END
    FROM moved m WHERE d.tenant_id = m.tenant_id AND d.task_id = m.id
      AND (m.governance IS NOT NULL OR m.waits_for IS NOT NULL OR m.answer IS NOT NULL OR d.waits_for IS NOT NULL)
), logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT m.tenant_id, m.id, m.seq - jsonb_array_length(m.events) + e.nth, e.body
    FROM moved m CROSS JOIN jsonb_array_elements(m.events) WITH ORDINALITY AS e (body, nth)
), recorded AS (
    {_RECORD} JOIN moved m USING (place)
)
SELECT place, seq FROM moved"""
NOTE: LiteralString = """
WITH moved AS (
    UPDATE tasks SET seq = seq + 1 WHERE tenant_id = $1 AND id = $2 RETURNING seq
)
INSERT INTO task_events (tenant_id, task_id, seq, body) SELECT $1, $2, seq, $3 FROM moved"""
# One approval fewer to wait for; whoever waits for none goes on.
# One that was not approved leaves nothing to wait for, whatever becomes of the others.
DECIDED: LiteralString = """
WITH fewer AS (
    UPDATE delegations d SET waits_for = CASE
        WHEN EXISTS (SELECT FROM approvals a WHERE a.tenant_id = $1 AND a.id = $2::text::uuid
                     AND a.state NOT IN ('pending', 'approved', 'consumed')) THEN NULL
        ELSE nullif(array_remove(d.waits_for, $2), '{}') END
    WHERE d.tenant_id = $1 AND d.waits_for @> ARRAY[$2] RETURNING d.task_id, d.waits_for
), moved AS (
    UPDATE tasks t SET state = 'queued', seq = t.seq + 1, status_at = now(), message = NULL
    FROM fewer f WHERE f.waits_for IS NULL AND t.tenant_id = $1 AND t.id = f.task_id AND t.state = 'input_required'
    RETURNING t.id, t.seq
), woken AS (
    UPDATE task_queue q SET run_at = now() FROM moved m WHERE q.task_id = m.id
), logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT $1, m.id, m.seq, $3 FROM moved m
)
SELECT id FROM moved"""


@dataclass(slots=True)
class Accepted:
    """A task that may be stored as it stands, with everything that has happened to it already."""

    tenant: UUID
    id: UUID
    canonical: UUID
    run: int
    context_id: str
    owner: str
    state: str
    metadata: Json
    caller: Json
    events: list[Json]
    actor: str
    key: str
    digest: str
    action: str
    matter: str
    correlation_id: str
    max_attempts: int
    envelope: Json
    run_at: datetime | str
    alias: str | None = None
    attempt: int = 0
    message: Json | None = None
    history: list[Json] = field(default_factory=list[Json])
    artifacts: list[Json] = field(default_factory=list[Json])
    deadline: datetime | None = None
    dry_run: bool = False
    waits_for: list[str] | None = None
    governance: Json = field(default_factory=dict[str, Any])
    # Among those that are stored with it.
    place: int = 0


@dataclass(slots=True)
class Claimed:
    """A task that this process has begun an attempt at."""

    task: Task
    was: str
    canonical: UUID
    run: int
    max_attempts: int
    deadline: datetime | None
    governance: Json
    answers: list[Json]
    envelope: Json


@dataclass(slots=True)
class Move:
    """A step of a task, with the record of it; made only in this attempt, where one is named, and from this state."""

    tenant: UUID
    id: UUID
    expected: str
    state: str
    events: list[Json]
    attempt: int | None = None
    message: Json | None = None
    error: Json | None = None
    slot: Json | None = None
    artifacts: list[Json] | None = None
    run_at: datetime | str | None = None
    governance: Json | None = None
    waits_for: list[str] | None = None
    answer: Json | None = None
    # Among those that are made with it.
    place: int = 0


# The event that says who performs a task that was claimed, and its record.
Assign = Callable[[Claimed], Awaitable[tuple[Json, Line]]]


class DelegationStore:
    """What the core writes, over all tenants, with the audit records of it in the same transaction."""

    def __init__(self, db: Database, trail: AuditTrail, *, lease: timedelta) -> None:
        self._db = db
        self._trail = trail
        self.lease = lease
        self._scope = Scope()

    async def add(self, tasks: Sequence[tuple[Accepted, Line]]) -> set[UUID]:
        """Store them; the ids of those whose key was free."""
        rows = await self._db.fetch(self._scope, ADD, *self._given(tasks))
        if rows:
            self._trail.added()
        return {row["task_id"] for row in rows}

    async def claim(self, worker: UUID, limit: int, *, left: bool, assign: Assign) -> list[Claimed]:
        """Begin an attempt at what is due, or at what a dead process left, and note who is to do it."""
        async with self._db.unit(self._scope):
            rows = await self._db.fetch(self._scope, CLAIM_LEFT if left else CLAIM_DUE, worker, limit, self.lease)
            if not rows:
                return []
            claimed = [_claimed(row) for row in rows]
            steps = [await assign(one) for one in claimed]
            log = [
                {"tenant": one.task.tenant_id, "id": one.task.id, "seq": one.task.seq, "body": event}
                for one, (event, _) in zip(claimed, steps, strict=True)
            ]
            await self._db.execute(self._scope, LOG, document(log), self._trail.rows([record for _, record in steps]))
        self._trail.added()
        return claimed

    async def move(self, moves: Sequence[tuple[Move, Line]]) -> list[int | None]:
        """Make these steps; for each the last event number of its task, or None: it could not be moved."""
        rows = await self._db.fetch(self._scope, MOVE, *self._given(moves))
        if rows:
            self._trail.added()
        seqs: dict[int, int] = {row["place"]: row["seq"] for row in rows}
        return [seqs.get(place) for place in range(len(moves))]

    async def note(self, tenant: UUID, task_id: UUID, event: Json) -> None:
        """Something that did not move the task, for its log."""
        await self._db.execute(self._scope, NOTE, tenant, task_id, event)

    async def decided(self, tenant: UUID, approval_id: str, event: Json) -> list[UUID]:
        """An approval is no longer open: the tasks that can go on now."""
        rows = await self._db.fetch(self._scope, DECIDED, tenant, approval_id, event)
        return [row["id"] for row in rows]

    def _given(self, steps: Sequence[tuple[Accepted | Move, Line]]) -> tuple[str, str]:
        for place, (step, _) in enumerate(steps):
            step.place = place
        return document([step for step, _ in steps]), self._trail.rows([line for _, line in steps])


def _claimed(row: Any) -> Claimed:
    task = read_task(row, 18)
    return Claimed(task, *row[18:])
