"""The SQL of the engine: new tasks, steps, claims and leases, over all tenants, many tasks in one statement.

Locks are always taken in the same order, the queue's row before the task's. A step takes the next event numbers under
the task's lock, whichever process makes it. PostgreSQL's clock decides when a task is due and when a lease ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document
from dragoman.services.audit.store import ADD_ALL
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.subscriptions.store_outbox import tell_of_actions
from dragoman.services.tasks.engine.steps import ActionBirth, Birth, Step, Written
from dragoman.services.tasks.engine.store_keys import claim_keys, release_keys
from dragoman.services.tasks.events import RefusedEvent, encode
from dragoman.services.tasks.models import Json, Task
from dragoman.services.tasks.store import TASK_COLUMNS, read_task

# How many columns of a claimed row are the task's.
_TASK_WIDTH = 18

# What is given comes as one document, written once: the driver would look at every value of twenty arrays.
_NEW: LiteralString = """
place int, tenant uuid, id uuid, lane text, alias text, context_id text, owner text, skill text, state text,
status_at timestamptz, message jsonb, error jsonb, slot jsonb, history jsonb, artifacts jsonb, metadata jsonb,
caller jsonb, events jsonb, attempt int, queue boolean, worker uuid, run_at timestamptz, fifo_key text"""
_NEW_ACTION: LiteralString = """,
canonical uuid, run int, actor text, key text, digest text, action text, matter text, correlation_id text,
max_attempts int, deadline timestamptz, dry_run boolean, waits_for jsonb, governance jsonb, envelope jsonb"""
# Behind another task of its key a task is blocked, and nobody's. Asked apart, each along its index.
_BEHIND: LiteralString = """
SELECT g.fifo_key IS NOT NULL AND (
    EXISTS (SELECT FROM task_queue h WHERE h.tenant_id = g.tenant AND h.fifo_key = g.fifo_key AND h.fifo_key IS NOT NULL
            AND NOT h.blocked AND h.task_id <> g.id)
    OR EXISTS (SELECT FROM task_queue h WHERE h.tenant_id = g.tenant AND h.fifo_key = g.fifo_key AND h.blocked
               AND h.task_id <> g.id)
) AS behind OFFSET 0"""
_MADE: LiteralString = f"""
made AS (
    INSERT INTO tasks (tenant_id, id, alias, context_id, owner, skill, state, status_at, message, error, slot, history,
                       artifacts, metadata, caller, seq, attempt)
    SELECT tenant, id, alias, context_id, owner, skill, state, status_at, message, error, slot, history, artifacts,
           metadata, caller, jsonb_array_length(events), attempt FROM born
), queued AS (
    INSERT INTO task_queue (task_id, tenant_id, lane, worker, lease_until, run_at, attempt, picks, fifo_key, blocked)
    SELECT id, tenant, lane, CASE WHEN NOT behind THEN worker END,
           CASE WHEN worker IS NOT NULL AND NOT behind THEN now() + $2::interval END, coalesce(run_at, now()),
           CASE WHEN worker IS NULL OR behind THEN attempt ELSE greatest(attempt, 1) END,
           CASE WHEN worker IS NULL OR behind THEN 0 ELSE 1 END, fifo_key, behind
    FROM born g CROSS JOIN LATERAL ({_BEHIND}) b WHERE g.queue
    RETURNING task_id, blocked
), logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT g.tenant, g.id, e.seq, e.body
    FROM born g CROSS JOIN jsonb_array_elements(g.events) WITH ORDINALITY AS e (body, seq)
)"""
ADD_TURNS: LiteralString = f"""
WITH born AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS g ({_NEW})
), {_MADE}, talked AS (
    INSERT INTO threads AS h (tenant_id, thread_id, owner, conversation_context, bytes, context_expires_at, expires_at)
    SELECT tenant, thread_id, owner, said, octet_length(said::text), now() + $4::interval, now() + $5::interval
    FROM jsonb_to_recordset($3::text::jsonb) AS u (tenant uuid, thread_id text, owner text, said jsonb)
    ON CONFLICT (tenant_id, owner, thread_id) DO UPDATE
    SET conversation_context = h.conversation_context || excluded.conversation_context,
        bytes = h.bytes + excluded.bytes, updated_at = now(),
        context_expires_at = excluded.context_expires_at, expires_at = excluded.expires_at
), recorded AS (
    {ADD_ALL.replace("$1", "$6")}
)
SELECT task_id, blocked FROM queued"""
# What subscribers are told of: that a task has ended, or waits for a person.
_RESTING: LiteralString = "('input_required', 'succeeded', 'failed', 'rejected', 'cancelled', 'dead_letter')"
_TELL_OF_BIRTHS: LiteralString = tell_of_actions(
    f"""SELECT tenant, id, jsonb_array_length(events) AS seq, state, status_at AS at, waits_for AS approvals,
               canonical, run, action, matter, correlation_id, dry_run
        FROM born WHERE state IN {_RESTING}""",
    action="SELECT m.canonical, m.run, m.action, m.matter, m.correlation_id, m.dry_run WHERE s.id IS NOT NULL",
)
_TELL_OF_STEPS: LiteralString = tell_of_actions(
    f"""SELECT tenant, id, seq, reached AS state, status_at AS at, waits_for AS approvals
        FROM moved WHERE lane = 'action' AND reached IN {_RESTING}""",
    action="""SELECT d.canonical_id AS canonical, d.run, d.action, d.matter, d.correlation_id, d.dry_run
              FROM delegations d
              WHERE d.tenant_id = ANY (ARRAY[s.tenant_id]) AND d.task_id = ANY (ARRAY[m.id])""",
)
# A key that is taken drops its row, and with it everything that would have come of it.
ADD_ACTIONS: LiteralString = f"""
WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS g ({_NEW}{_NEW_ACTION})
), accepted AS (
    INSERT INTO delegations (tenant_id, task_id, canonical_id, run, actor, key, digest, action, matter, correlation_id,
                             max_attempts, deadline, dry_run, waits_for, governance, envelope)
    SELECT tenant, id, canonical, run, actor, key, decode(digest, 'hex'), action, matter, correlation_id,
           max_attempts, deadline, dry_run,
           CASE WHEN waits_for IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(waits_for)) END,
           governance, envelope FROM given
    ON CONFLICT DO NOTHING
    RETURNING task_id
), born AS MATERIALIZED (
    SELECT g.* FROM given g JOIN accepted a ON a.task_id = g.id
), {_MADE}, recorded AS (
    {ADD_ALL.replace("$1", "$3")} JOIN born USING (place)
), told AS ({_TELL_OF_BIRTHS}
)
SELECT task_id FROM accepted"""

# The first of those that wait behind a task of the same key may run once that one has left the queue, or is parked.
_FREE_NEXT: LiteralString = """
next AS (
    UPDATE task_queue q SET blocked = false, run_at = greatest(q.run_at, now()), started_at = now() FROM (
        SELECT * FROM gone UNION ALL SELECT * FROM parked
    ) g CROSS JOIN LATERAL (
        SELECT n.task_id FROM task_queue n WHERE n.tenant_id = g.tenant_id AND n.fifo_key = g.fifo_key AND n.blocked
        ORDER BY n.queued_at, n.task_id LIMIT 1
    ) n WHERE q.task_id = ANY (ARRAY[n.task_id]) AND g.fifo_key IS NOT NULL AND NOT g.blocked
    RETURNING q.task_id
)"""
_STEP: LiteralString = """
place int, tenant uuid, id uuid, lane text, owner uuid, attempt int, expected text, skill text, state text,
status_at timestamptz, message jsonb, error jsonb, slot jsonb, history jsonb, artifacts jsonb, events jsonb, queue text,
worker uuid, delay_s float8, until timestamptz, fifo_key text, caller jsonb, governance jsonb, waits_for jsonb,
answer jsonb, more_attempts int, head_only boolean"""
# Keys are compared as sets of one: plain equality can be hashed, and a plan from when the table was small would read
# all of it. What is null stays, but for what belongs to a state: message, error and slot are those of the new one.
_MOVED: LiteralString = f"""
WITH given AS (
    SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS g ({_STEP})
), held AS MATERIALIZED (
    SELECT g.place, q.worker, q.attempt, q.fifo_key, q.blocked
    FROM given g JOIN task_queue q ON q.task_id = ANY (ARRAY[g.id])
    FOR UPDATE OF q
), moved AS (
    UPDATE tasks t SET
        seq = t.seq + jsonb_array_length(g.events),
        state = coalesce(g.state, t.state),
        skill = coalesce(g.skill, t.skill),
        status_at = CASE WHEN g.state IS NULL THEN t.status_at ELSE g.status_at END,
        message = CASE WHEN g.state IS NULL THEN t.message ELSE g.message END,
        error = CASE WHEN g.state IS NULL THEN t.error ELSE g.error END,
        slot = CASE WHEN g.state IS NULL THEN t.slot ELSE g.slot END,
        history = CASE WHEN g.history = '[]' THEN t.history ELSE t.history || g.history END,
        artifacts = coalesce(g.artifacts, t.artifacts),
        attempt = CASE WHEN g.owner IS NOT NULL THEN g.attempt WHEN g.state = 'in_progress' THEN t.attempt + 1
                       ELSE t.attempt END
    FROM given g LEFT JOIN held h ON h.place = g.place
    WHERE t.tenant_id = ANY (ARRAY[g.tenant]) AND t.id = ANY (ARRAY[g.id])
      AND (g.expected IS NULL OR t.state = g.expected)
      AND NOT (g.head_only AND ({_BEHIND}))
      AND CASE WHEN g.owner IS NULL THEN g.attempt IS NULL OR t.attempt = g.attempt
               ELSE h.worker = g.owner AND h.attempt = g.attempt END
    RETURNING g.place, g.tenant, t.id, t.seq, t.attempt, t.state, g.state AS reached, t.status_at,
              t.owner AS belongs_to, t.context_id,
              g.lane, g.events, g.history, g.queue,
              g.worker, g.delay_s, g.until, g.fifo_key, g.caller, g.governance, g.waits_for, g.answer, g.more_attempts
), gone AS (
    DELETE FROM task_queue q USING moved m
    WHERE q.task_id = ANY (ARRAY[m.id]) AND (m.queue = 'end' OR (m.queue = 'wait' AND m.until IS NULL))
    RETURNING q.tenant_id, q.fifo_key, q.blocked
), parked AS (
    -- A task that waits for a person does not hold up the others of its key; it keeps its row to be ended in time.
    UPDATE task_queue q SET worker = NULL, lease_until = NULL, run_at = m.until, fifo_key = NULL, blocked = false,
        attempt = greatest(q.attempt, m.attempt), caller = coalesce(m.caller, q.caller)
    FROM moved m JOIN held h ON h.place = m.place
    WHERE q.task_id = ANY (ARRAY[m.id]) AND m.queue = 'wait' AND m.until IS NOT NULL
    RETURNING q.tenant_id, h.fifo_key, h.blocked
), {_FREE_NEXT}, placed AS (
    INSERT INTO task_queue AS q (task_id, tenant_id, lane, worker, lease_until, run_at, attempt, picks, fifo_key,
                                 blocked, caller)
    SELECT g.id, g.tenant, g.lane, CASE WHEN g.queue = 'lease' AND NOT b.behind THEN g.worker END,
           CASE WHEN g.queue = 'lease' AND NOT b.behind THEN now() + $2::interval END,
           least(now() + make_interval(secs => g.delay_s), g.until),
           g.attempt + CASE WHEN g.queue = 'lease' AND g.state = 'queued' AND NOT b.behind THEN 1 ELSE 0 END,
           CASE WHEN g.queue = 'lease' AND NOT b.behind THEN 1 ELSE 0 END, g.fifo_key, b.behind, g.caller
    FROM moved g CROSS JOIN LATERAL ({_BEHIND}) b
    WHERE g.queue IN ('ready', 'lease')
    ON CONFLICT (task_id) DO UPDATE SET worker = excluded.worker, lease_until = excluded.lease_until,
        run_at = excluded.run_at, attempt = greatest(q.attempt, excluded.attempt),
        caller = coalesce(excluded.caller, q.caller), fifo_key = excluded.fifo_key,
        picks = greatest(q.picks - (SELECT m.more_attempts FROM moved m WHERE m.id = q.task_id), 0),
        -- One that had its place keeps it, whoever has come behind it since.
        blocked = CASE WHEN q.fifo_key = excluded.fifo_key THEN q.blocked ELSE excluded.blocked END
    RETURNING q.task_id, q.blocked, q.attempt
), logged AS (
    INSERT INTO task_events (tenant_id, task_id, seq, body)
    SELECT m.tenant, m.id, m.seq - jsonb_array_length(m.events) + e.nth, e.body
    FROM moved m CROSS JOIN jsonb_array_elements(m.events) WITH ORDINALITY AS e (body, nth)
)"""
_TALKED: LiteralString = """
said AS (
    SELECT m.tenant, m.belongs_to, m.context_id, jsonb_agg(e.message) AS messages,
           sum(octet_length(e.message::text)) AS bytes
    FROM moved m CROSS JOIN jsonb_array_elements(m.history) AS e (message) GROUP BY 1, 2, 3
), talked AS (
    UPDATE threads h SET conversation_context = h.conversation_context || s.messages, bytes = h.bytes + s.bytes,
        updated_at = now(), context_expires_at = now() + $3::interval, expires_at = now() + $4::interval
    FROM said s WHERE h.tenant_id = s.tenant AND h.owner = s.belongs_to AND h.thread_id = s.context_id
)"""
_BOUND: LiteralString = f"""
bound AS (
    UPDATE delegations d SET governance = coalesce(m.governance, d.governance),
        waits_for = CASE WHEN m.waits_for IS NOT NULL THEN ARRAY(SELECT jsonb_array_elements_text(m.waits_for)) END,
        answers = CASE WHEN m.answer IS NULL THEN d.answers ELSE d.answers || m.answer END,
        max_attempts = d.max_attempts + m.more_attempts
    FROM moved m WHERE d.tenant_id = m.tenant AND d.task_id = m.id
      AND (m.governance IS NOT NULL OR m.waits_for IS NOT NULL OR m.answer IS NOT NULL OR m.more_attempts > 0
           OR d.waits_for IS NOT NULL)
), recorded AS (
    {ADD_ALL.replace("$1", "$5")} JOIN moved m USING (place)
), told AS ({_TELL_OF_STEPS}
)"""
_TOLD: LiteralString = """
SELECT m.place, m.seq, coalesce(p.blocked, false) AS blocked, coalesce(p.attempt, m.attempt) AS attempt,
       NULL::uuid AS freed
FROM moved m LEFT JOIN placed p ON p.task_id = m.id
UNION ALL SELECT NULL, NULL, NULL, NULL, n.task_id FROM next n"""
STEP_TURNS: LiteralString = f"{_MOVED}, {_TALKED} {_TOLD}"
STEP_ALL: LiteralString = f"{_MOVED}, {_TALKED}, {_BOUND} {_TOLD}"

# What is due and what was left are asked for apart: each goes along an index, however long the queue is. Every claim
# counts as an attempt, whatever became of the one before: a task that kills its process must come to an end.
_CLAIMED: LiteralString = f"""
), mine AS (
    UPDATE task_queue q SET worker = $1, lease_until = now() + $3::interval, attempt = q.attempt + 1,
        picks = q.picks + 1
    FROM due WHERE q.task_id = due.task_id
    RETURNING q.task_id, q.tenant_id, q.attempt, q.picks, q.started_at, q.fifo_key, q.caller
)
SELECT {TASK_COLUMNS}, m.attempt AS now_attempt, m.picks, extract(epoch FROM now() - m.started_at)::float8 AS age_s,
       m.fifo_key, m.caller AS sender, d.canonical_id, d.run, d.max_attempts, d.deadline,
       extract(epoch FROM d.deadline - now())::float8 AS left_s, d.governance, d.answers, d.envelope
FROM mine m JOIN tasks t ON t.tenant_id = m.tenant_id AND t.id = m.task_id
LEFT JOIN delegations d ON d.tenant_id = m.tenant_id AND d.task_id = m.task_id"""
CLAIM_DUE: LiteralString = f"""
WITH due AS (
    SELECT q.task_id FROM task_queue q
    WHERE q.lane = $4 AND q.worker IS NULL AND NOT q.blocked AND q.run_at <= now()
    ORDER BY q.run_at LIMIT $2 FOR UPDATE SKIP LOCKED
{_CLAIMED}"""
# While this process has no room for some actions, it claims the others.
CLAIM_OTHERS: LiteralString = f"""
WITH due AS (
    SELECT q.task_id FROM task_queue q
    WHERE q.lane = $4 AND q.worker IS NULL AND NOT q.blocked AND q.run_at <= now() AND NOT EXISTS (
        SELECT FROM delegations d JOIN unnest($5::uuid[], $6::text[]) AS c (tenant, action) ON c.action = d.action
        WHERE d.tenant_id = q.tenant_id AND d.task_id = q.task_id AND (c.tenant IS NULL OR c.tenant = d.tenant_id))
    ORDER BY q.run_at LIMIT $2 FOR UPDATE OF q SKIP LOCKED
{_CLAIMED}"""
CLAIM_LEFT: LiteralString = f"""
WITH due AS (
    SELECT q.task_id FROM task_queue q WHERE q.lane = $4 AND q.worker IS NOT NULL AND q.lease_until < now()
    ORDER BY q.lease_until LIMIT $2 FOR UPDATE SKIP LOCKED
{_CLAIMED}"""
# A row that is locked is being changed by someone who knows better: waiting for several of them could be for ever.
HEARTBEAT: LiteralString = """
WITH ours AS (
    SELECT task_id FROM task_queue WHERE worker = $1 AND task_id = ANY($3::uuid[])
), free AS (
    SELECT task_id FROM task_queue WHERE worker = $1 AND task_id = ANY($3::uuid[]) FOR UPDATE SKIP LOCKED
), kept AS (
    UPDATE task_queue q SET lease_until = now() + $2::interval FROM free f WHERE q.task_id = f.task_id
    RETURNING q.task_id
)
SELECT o.task_id, k.task_id IS NOT NULL AS renewed FROM ours o LEFT JOIN kept k USING (task_id)"""
# A task that came just when the one before it left may have missed that.
UNBLOCK: LiteralString = """
UPDATE task_queue q SET blocked = false, run_at = greatest(q.run_at, now()), started_at = now() FROM (
    SELECT DISTINCT ON (b.tenant_id, b.fifo_key) b.task_id FROM task_queue b
    WHERE b.blocked AND NOT EXISTS (
        SELECT FROM task_queue h WHERE h.tenant_id = b.tenant_id AND h.fifo_key = b.fifo_key AND NOT h.blocked)
    ORDER BY b.tenant_id, b.fifo_key, b.queued_at, b.task_id
) first WHERE q.task_id = first.task_id"""
SEQS: LiteralString = """
SELECT t.id, t.seq FROM unnest($1::uuid[], $2::uuid[]) AS f (tenant_id, id) JOIN tasks t USING (tenant_id, id)"""
HOLDERS: LiteralString = "SELECT task_id, worker, attempt FROM task_queue WHERE task_id = ANY($1::uuid[])"
IS_PAST: LiteralString = "SELECT $1::timestamptz <= now() AS past"
DEPTH: LiteralString = """
SELECT count(*) FILTER (WHERE worker IS NULL AND run_at <= now()) AS due,
       count(*) FILTER (WHERE lease_until >= now()) AS running, count(*) FILTER (WHERE lease_until < now()) AS abandoned
FROM task_queue"""
# An attempt that has not begun is not held against the task.
RELEASE: LiteralString = """
UPDATE task_queue q SET worker = NULL, lease_until = NULL, run_at = now(), attempt = t.attempt
FROM tasks t WHERE q.worker = $1 AND t.tenant_id = q.tenant_id AND t.id = q.task_id"""
NOTE: LiteralString = """
WITH moved AS (
    UPDATE tasks SET seq = seq + 1 WHERE tenant_id = $1 AND id = $2 RETURNING seq
)
INSERT INTO task_events (tenant_id, task_id, seq, body) SELECT $1, $2, seq, $3 FROM moved"""
# A decided approval is no longer waited for, unless it is the last one: that is left to the step that lets the task go
# on, so that a task whose step was not written is found again.
NARROW: LiteralString = """
UPDATE delegations d SET waits_for = array_remove(d.waits_for, $2)
WHERE d.tenant_id = $1 AND d.waits_for @> ARRAY[$2] AND cardinality(d.waits_for) > 1 AND NOT EXISTS (
    SELECT FROM approvals a WHERE a.tenant_id = $1 AND a.id = $2::text::uuid
    AND a.state NOT IN ('pending', 'approved', 'consumed'))"""
# An approval that was not given leaves nothing to wait for, whatever becomes of the others.
DECIDED: LiteralString = """
SELECT d.canonical_id FROM delegations d WHERE d.tenant_id = $1 AND d.waits_for @> ARRAY[$2] AND (
    cardinality(d.waits_for) = 1 OR EXISTS (
        SELECT FROM approvals a WHERE a.tenant_id = $1 AND a.id = $2::text::uuid
        AND a.state NOT IN ('pending', 'approved', 'consumed')))"""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long a lease, the context of a conversation and the conversation itself last."""

    lease: timedelta = timedelta(seconds=3.5)
    context: timedelta = timedelta(hours=1)
    thread: timedelta = timedelta(hours=24)


@dataclass(slots=True)
class ActionDetails:
    """What an envelope adds to a task; `left_s` is the time until its deadline, by PostgreSQL's clock at the claim."""

    canonical: UUID
    run: int
    max_attempts: int
    deadline: datetime | None
    left_s: float | None
    governance: Json
    answers: list[Json]
    envelope: Json


@dataclass(slots=True)
class Claim:
    """A task that this process has leased.

    The task is as it is stored: its state is the one that it was claimed in. `picks` counts the claims since it was
    queued, `age_s` how long ago that was. `sender` is who sent the message that is worked on, where that is not the
    caller of the task.
    """

    task: Task
    attempt: int
    picks: int
    age_s: float
    fifo_key: str | None = None
    sender: Json | None = None
    action: ActionDetails | None = None


@dataclass(slots=True)
class _Thread:
    tenant: UUID
    thread_id: str
    owner: str
    said: list[Json] = field(default_factory=list[Json])


class EngineStore:
    """What the engine reads and writes, as the role `dragoman_core`, with the audit records in the same statement."""

    def __init__(self, db: Database, trail: AuditTrail, durations: Durations) -> None:
        self._db = db
        self._trail = trail
        self.durations = durations
        self._scope = Scope()

    async def add_turns(self, births: Sequence[Birth]) -> set[UUID]:
        """Store turns, with their threads and the keys of their senders; return the ids of those that are blocked.

        Raises:
            UniqueViolated: an alias or a key is taken, or another turn of the same context came at the same moment.
        """
        claims = [(birth.tenant, birth.id, birth.claim) for birth in births if birth.claim is not None]
        if not claims:
            return await self._add_turns(births)
        async with self._db.unit(self._scope):
            await claim_keys(self._db, self._scope, claims)
            return await self._add_turns(births)

    async def _add_turns(self, births: Sequence[Birth]) -> set[UUID]:
        threads: dict[tuple[UUID, str, str], _Thread] = {}
        for birth in births:
            thread = threads.setdefault(
                (birth.tenant, birth.owner, birth.context_id), _Thread(birth.tenant, birth.context_id, birth.owner)
            )
            thread.said += birth.history
        # In one order, in every process: each row is locked as it is written.
        ordered = sorted(threads.values(), key=lambda thread: (thread.tenant, thread.owner, thread.thread_id))
        durations, said = self.durations, document(ordered)
        rows = await self._db.fetch(
            self._scope,
            ADD_TURNS,
            document(births, other=encode),
            durations.lease,
            said,
            durations.context,
            durations.thread,
            self._trail.rows([birth.said for birth in births if birth.said is not None]),
        )
        self._trail.added()
        return {row["task_id"] for row in rows if row["blocked"]}

    async def add_actions(self, births: Sequence[ActionBirth]) -> set[UUID]:
        """Store actions with their audit records; return the ids of those whose key was free."""
        for place, birth in enumerate(births):
            birth.place = place
        records = self._trail.rows([birth.record for birth in births])
        rows = await self._db.fetch(
            self._scope, ADD_ACTIONS, document(births, other=encode), self.durations.lease, records
        )
        if rows:
            self._trail.added()
        return {row["task_id"] for row in rows}

    async def step(self, steps: Sequence[Step]) -> tuple[list[Written | None], list[UUID]]:
        """Write steps of different tasks; None for one that was refused, and the tasks that may run now.

        Raises:
            UniqueViolated: the key of a message is taken, or another turn of the same context came at the same moment.
        """
        if not any(step.claim or step.release for step in steps):
            return await self._step(steps)
        async with self._db.unit(self._scope):
            written, freed = await self._step(steps)
            claims = [
                (step.tenant, step.id, step.claim)
                for step, done in zip(steps, written, strict=True)
                if step.claim is not None and done is not None
            ]
            if claims:
                await claim_keys(self._db, self._scope, claims)
            releases = [
                (step.tenant, step.id, step.release)
                for step, done in zip(steps, written, strict=True)
                if step.release is not None and done is not None
            ]
            if releases:
                await release_keys(self._db, self._scope, releases)
        return written, freed

    async def step_along(self, step: Step, other: Callable[[], Awaitable[None]]) -> tuple[Written | None, list[UUID]]:
        """Write one step, and something else in the same transaction unless the step is refused."""
        async with self._db.unit(self._scope):
            (written,), freed = await self.step([step])
            if written is not None:
                await other()
        return written, freed

    async def _step(self, steps: Sequence[Step]) -> tuple[list[Written | None], list[UUID]]:
        plain = True
        for place, step in enumerate(steps):
            step.place = place
            plain = plain and step.lane == "turn" and not step.records
        durations = self.durations
        parameters = document(steps, other=encode), durations.lease, durations.context, durations.thread
        if plain:
            rows = await self._db.fetch(self._scope, STEP_TURNS, *parameters)
        else:
            records = self._trail.rows(
                [record for step in steps for record in step.records],
                [step.place for step in steps for _ in step.records],
            )
            rows = await self._db.fetch(self._scope, STEP_ALL, *parameters, records)
            if rows:
                self._trail.added()
        written: list[Written | None] = [None] * len(steps)
        freed: list[UUID] = []
        for place, seq, blocked, attempt, task_id in rows:
            if place is None:
                freed.append(task_id)
            else:
                written[place] = Written(seq, attempt, blocked)
        return written, freed

    async def claim(
        self, worker: UUID, lane: str, limit: int, *, left: bool, but: Sequence[tuple[UUID | None, str]] = ()
    ) -> list[Claim]:
        """Lease what is due, `but` these actions of a tenant or of all; or what a process left."""
        sql = CLAIM_LEFT if left else CLAIM_OTHERS if but else CLAIM_DUE
        others = ([tenant for tenant, _ in but], [action for _, action in but]) if but and not left else ()
        rows = await self._db.fetch(self._scope, sql, worker, limit, self.durations.lease, lane, *others)
        return [_claim(row) for row in rows]

    async def heartbeat(self, worker: UUID, tasks: Sequence[UUID]) -> dict[UUID, bool]:
        """Renew the leases of these, which this process runs; return those that it still has, and whether renewed.

        One whose row is being changed at this moment is not renewed. What the process has and does not run is for
        others to take over.
        """
        if not tasks:
            return {}
        rows = await self._db.fetch(self._scope, HEARTBEAT, worker, self.durations.lease, tasks)
        return {row["task_id"]: row["renewed"] for row in rows}

    async def unblock(self) -> int:
        """Let those run that wait for a task which has left; return how many."""
        return await self._db.execute(self._scope, UNBLOCK)

    async def is_past(self, moment: datetime) -> bool:
        """Check whether a moment is past by PostgreSQL's clock, which all processes share."""
        row = await self._db.find(self._scope, IS_PAST, moment)
        return row is not None and bool(row["past"])

    async def depth(self) -> tuple[int, int, int]:
        """Return how many tasks wait for a process, how many run in one, and how many were left by one."""
        row = await self._db.find(self._scope, DEPTH)
        return (row["due"], row["running"], row["abandoned"]) if row else (0, 0, 0)

    async def seqs(self, tasks: Sequence[tuple[UUID, UUID]]) -> dict[UUID, int]:
        """Return the last event numbers of these tasks; each is named by its tenant and its id."""
        rows = await self._db.fetch(
            self._scope, SEQS, [tenant for tenant, _ in tasks], [task_id for _, task_id in tasks]
        )
        return {row["id"]: row["seq"] for row in rows}

    async def find_holders(self, task_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID | None, int]]:
        """Return the process that has each of these tasks, with the attempt; none where nothing is left to do."""
        rows = await self._db.fetch(self._scope, HOLDERS, task_ids)
        return {row["task_id"]: (row["worker"], row["attempt"]) for row in rows}

    async def release(self, worker: UUID) -> None:
        """Give back what this process can no longer run, for others to take at once."""
        await self._db.execute(self._scope, RELEASE, worker)

    async def note(self, tenant: UUID, task_id: UUID, event: RefusedEvent) -> None:
        """Append to the log what did not move the task."""
        await self._db.execute(self._scope, NOTE, tenant, task_id, event.body())

    async def decided(self, tenant: UUID, approval_id: str) -> list[UUID]:
        """Note that an approval is no longer open; return the tasks that wait for nothing else."""
        await self._db.execute(self._scope, NARROW, tenant, approval_id)
        rows = await self._db.fetch(self._scope, DECIDED, tenant, approval_id)
        return [row["canonical_id"] for row in rows]


def _claim(row: Any) -> Claim:
    attempt, picks, age_s, fifo_key, sender, canonical, *rest = row[_TASK_WIDTH:]
    action = ActionDetails(canonical, *rest) if canonical is not None else None
    return Claim(read_task(row, _TASK_WIDTH), attempt, picks, age_s, fifo_key, sender, action)
