"""The SQL by which a tenant looks at its tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.delegation.workers import Json
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.store import TASK_COLUMNS, read_task

_RUN: LiteralString = """
d.canonical_id, d.run, d.actor, d.action, d.matter, d.correlation_id, d.max_attempts, d.deadline, d.dry_run,
d.waits_for, d.governance, d.answers, d.envelope"""
FIND_KEYS: LiteralString = """
SELECT d.actor, d.key, d.task_id, d.digest FROM unnest($2::text[], $3::text[]) AS g (actor, key)
JOIN delegations d ON d.tenant_id = $1 AND d.actor = g.actor AND d.key = g.key AND d.run = 1 AND NOT d.dry_run"""
CANONICAL: LiteralString = "SELECT canonical_id FROM delegations WHERE tenant_id = $1 AND task_id = $2"
RUNS: LiteralString = f"""
SELECT {TASK_COLUMNS}, {_RUN} FROM delegations d JOIN tasks t ON t.tenant_id = d.tenant_id AND t.id = d.task_id
WHERE d.tenant_id = $1 AND d.task_id = $2
UNION ALL
SELECT {TASK_COLUMNS}, {_RUN} FROM delegations d JOIN tasks t ON t.tenant_id = d.tenant_id AND t.id = d.task_id
WHERE d.tenant_id = $1 AND d.canonical_id = $2 AND d.run > 1"""
STEPS: LiteralString = """
SELECT task_id, seq, at, body FROM task_events
WHERE tenant_id = $1 AND task_id = ANY($2::uuid[]) AND body->>'kind' IN ('status', 'refused')
ORDER BY array_position($2::uuid[], task_id), seq"""
LIST: LiteralString = """
SELECT t.id, d.canonical_id, t.state, d.action, coalesce(d.actor, t.owner) AS actor, d.matter, d.correlation_id,
       t.attempt, t.error, t.created_at, t.status_at
FROM tasks t LEFT JOIN delegations d ON d.tenant_id = t.tenant_id AND d.task_id = t.id
WHERE t.tenant_id = $1 AND ($3::uuid IS NULL OR t.id < $3) AND ($4::text IS NULL OR t.state = $4)
  AND ($5::text IS NULL OR d.action = $5) AND ($6::text IS NULL OR d.matter = $6)
  AND ($7::text IS NULL OR coalesce(d.actor, t.owner) = $7) AND ($8::text IS NULL OR d.correlation_id = $8)
  AND ($9::text IS NULL OR t.error->>'code' = $9) AND ($10::timestamptz IS NULL OR t.created_at >= $10)
ORDER BY t.id DESC LIMIT $2"""


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


class TaskViews:
    """What a tenant sees of its delegated tasks."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_keys(
        self, tenant: UUID, asked: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[UUID, bytes]]:
        """The task and the digest of each actor and key that was used."""
        actors, keys = [actor for actor, _ in asked], [key for _, key in asked]
        rows = await self._db.fetch(Scope(tenant), FIND_KEYS, tenant, actors, keys)
        return {(row["actor"], row["key"]): (row["task_id"], row["digest"]) for row in rows}

    async def find_canonical(self, tenant: UUID, task_id: UUID) -> UUID | None:
        """The canonical task of a run; None where it is not one."""
        row = await self._db.find(Scope(tenant), CANONICAL, tenant, task_id)
        return row["canonical_id"] if row else None

    async def runs(self, tenant: UUID, canonical: UUID) -> list[RunRow]:
        """Every run of a task, the first first."""
        rows = await self._db.fetch(Scope(tenant), RUNS, tenant, canonical)
        found = [RunRow(read_task(row, 18), *row[18:]) for row in rows]
        return sorted(found, key=lambda run: run.run)

    async def steps(self, tenant: UUID, task_ids: Sequence[UUID]) -> Sequence[Any]:
        """The steps of these tasks, one task after the other: task_id, seq, at, body."""
        return await self._db.fetch(Scope(tenant), STEPS, tenant, list(task_ids))

    async def page(self, tenant: UUID, limit: int, after: UUID | None, *filters: Any) -> Sequence[Any]:
        """Newest first, one more than the limit; filters: state, action, matter, actor, correlation, error, since."""
        return await self._db.fetch(Scope(tenant), LIST, tenant, limit + 1, after, *filters)
