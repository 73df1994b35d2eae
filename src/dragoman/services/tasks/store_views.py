"""The SQL by which a tenant looks at its tasks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.tasks.access import Visible
from dragoman.services.tasks.events import RefusedEvent, StatusEvent, decode_step
from dragoman.services.tasks.models import Json, Task, TaskQuery
from dragoman.services.tasks.store import TASK_COLUMNS, read_task
from dragoman.services.tasks.store_lists import list_statement

_RUN: LiteralString = """
d.canonical_id, d.run, d.actor, d.action, d.matter, d.correlation_id, d.max_attempts, d.deadline, d.dry_run,
d.waits_for, d.governance, d.answers, d.envelope"""
# One look into the index for each key: as a join it would be planned, while there are few, as a scan of the tenant's.
FIND_KEYS: LiteralString = """
SELECT g.actor, g.key, d.task_id, d.digest FROM unnest($2::text[], $3::text[]) AS g (actor, key)
CROSS JOIN LATERAL (
    SELECT f.task_id, f.digest FROM delegations f
    WHERE f.tenant_id = $1 AND f.actor = g.actor AND f.key = g.key AND f.run = 1 AND NOT f.dry_run LIMIT 1
) d"""
CANONICAL: LiteralString = "SELECT canonical_id FROM delegations WHERE tenant_id = $1 AND task_id = $2"
RUNS: LiteralString = f"""
SELECT {TASK_COLUMNS}, {_RUN} FROM delegations d JOIN tasks t ON t.tenant_id = d.tenant_id AND t.id = d.task_id
WHERE d.tenant_id = $1 AND d.task_id = $2
UNION ALL
SELECT {TASK_COLUMNS}, {_RUN} FROM delegations d JOIN tasks t ON t.tenant_id = d.tenant_id AND t.id = d.task_id
WHERE d.tenant_id = $1 AND d.canonical_id = $2 AND d.run > 1"""
STEPS: LiteralString = """
SELECT task_id, at, body FROM task_events
WHERE tenant_id = $1 AND task_id = ANY($2::uuid[]) AND body->>'kind' IN ('status', 'refused')
ORDER BY array_position($2::uuid[], task_id), seq"""
SUMMARY_COLUMNS: LiteralString = """
t.id, d.canonical_id, t.state, d.action, coalesce(d.actor, t.owner) AS actor, d.matter, d.correlation_id,
d.governance -> 'on_behalf_of' ->> 'subject' AS on_behalf_of, d.governance -> 'on_behalf_of' ->> 'grant' AS grant_id,
t.attempt, t.error, t.created_at, t.status_at"""


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A transition of a task, made or refused."""

    task_id: UUID
    at: datetime
    event: StatusEvent | RefusedEvent


@dataclass(slots=True)
class RunRow:
    """One run of a delegated task, as it is kept."""

    task: Task
    canonical: UUID
    run: int
    actor: str
    action: str
    matter: str
    correlation_id: str
    max_attempts: int
    deadline: datetime | None
    dry_run: bool
    waits_for: list[str] | None
    governance: Json
    answers: list[Json]
    envelope: Json


class TaskViewStore:
    """What a tenant sees of its delegated tasks."""

    def __init__(self, db: Database, *, scope: Callable[[UUID], Scope] = Scope) -> None:
        self._db = db
        self._scope = scope

    async def find_keys(
        self, tenant: UUID, asked: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[UUID, bytes]]:
        """Return the task and the digest of each actor and key that was used."""
        actors, keys = [actor for actor, _ in asked], [key for _, key in asked]
        rows = await self._db.fetch(self._scope(tenant), FIND_KEYS, tenant, actors, keys)
        return {(row["actor"], row["key"]): (row["task_id"], row["digest"]) for row in rows}

    async def find_canonical(self, tenant: UUID, task_id: UUID) -> UUID | None:
        """Return the canonical task of a run; None where it is not one."""
        row = await self._db.find(self._scope(tenant), CANONICAL, tenant, task_id)
        return row["canonical_id"] if row else None

    async def runs(self, tenant: UUID, canonical: UUID) -> list[RunRow]:
        """Return every run of a task, oldest first."""
        rows = await self._db.fetch(self._scope(tenant), RUNS, tenant, canonical)
        found = [RunRow(read_task(row, 18), *row[18:]) for row in rows]
        return sorted(found, key=lambda run: run.run)

    async def steps(self, tenant: UUID, task_ids: Sequence[UUID]) -> list[LoggedStep]:
        """Return the steps of these tasks, made or refused, one task after the other."""
        rows = await self._db.fetch(self._scope(tenant), STEPS, tenant, list(task_ids))
        return [LoggedStep(row["task_id"], row["at"], decode_step(row["body"])) for row in rows]

    async def page(self, tenant: UUID, query: TaskQuery, visible: Visible) -> Sequence[Any]:
        """Return a page of summaries; one more than the limit when there are more."""
        statement, values = list_statement(query, visible, columns=SUMMARY_COLUMNS)
        return await self._db.fetch(self._scope(tenant), statement, tenant, *values)
