"""The SQL by which a tenant looks at its tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope
from dragoman.services.tasks.models import Json, Task
from dragoman.services.tasks.store import TASK_COLUMNS, filtered, read_task

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
SELECT task_id, seq, at, body FROM task_events
WHERE tenant_id = $1 AND task_id = ANY($2::uuid[]) AND body->>'kind' IN ('status', 'refused')
ORDER BY array_position($2::uuid[], task_id), seq"""
_LIST: LiteralString = """
SELECT t.id, d.canonical_id, t.state, d.action, coalesce(d.actor, t.owner) AS actor, d.matter, d.correlation_id,
       t.attempt, t.error, t.created_at, t.status_at
FROM tasks t LEFT JOIN delegations d ON d.tenant_id = t.tenant_id AND d.task_id = t.id
WHERE t.tenant_id = $1"""
# Each is found along an index of its own; what a tenant asks for in all forms at once would be a scan of all it has.
# Who acts is who asked: an envelope whose actor is another than its sender is refused.
_FILTERS: dict[str, LiteralString] = {
    "after": "t.id < {}",
    "state": "t.state = {}",
    "action": "d.action = {}",
    "matter": "d.matter = {}",
    "actor": "t.owner = {}",
    "correlation_id": "d.correlation_id = {}",
    "error": "t.error_code = {}",
    "since": "t.created_at >= {}",
}
_NOT_DONE: LiteralString = " AND t.state <> 'succeeded'"


def list_statement(filters: Mapping[str, Any]) -> LiteralString:
    """The statement for these filters, whose values are its parameters from $3 on.

    They are: after, state, action, matter, actor, correlation_id, error, since.
    """
    statement = filtered(_LIST, _FILTERS, filters)
    if filters.get("state") not in (None, "succeeded"):
        statement += _NOT_DONE  # says to PostgreSQL that the index of the others has them all
    return statement + " ORDER BY t.id DESC LIMIT $2"


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
        """The task and the digest of each actor and key that was used."""
        actors, keys = [actor for actor, _ in asked], [key for _, key in asked]
        rows = await self._db.fetch(self._scope(tenant), FIND_KEYS, tenant, actors, keys)
        return {(row["actor"], row["key"]): (row["task_id"], row["digest"]) for row in rows}

    async def find_canonical(self, tenant: UUID, task_id: UUID) -> UUID | None:
        """The canonical task of a run; None where it is not one."""
        row = await self._db.find(self._scope(tenant), CANONICAL, tenant, task_id)
        return row["canonical_id"] if row else None

    async def runs(self, tenant: UUID, canonical: UUID) -> list[RunRow]:
        """Every run of a task, the first first."""
        rows = await self._db.fetch(self._scope(tenant), RUNS, tenant, canonical)
        found = [RunRow(read_task(row, 18), *row[18:]) for row in rows]
        return sorted(found, key=lambda run: run.run)

    async def steps(self, tenant: UUID, task_ids: Sequence[UUID]) -> Sequence[Any]:
        """The steps of these tasks, one task after the other: task_id, seq, at, body."""
        return await self._db.fetch(self._scope(tenant), STEPS, tenant, list(task_ids))

    async def page(self, tenant: UUID, limit: int, **filters: Any) -> Sequence[Any]:
        """Newest first, one more than the limit; the filters are those of `list_statement`, None for any."""
        given = {name: value for name, value in filters.items() if value is not None}
        return await self._db.fetch(self._scope(tenant), list_statement(given), tenant, limit + 1, *given.values())
