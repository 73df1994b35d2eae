"""The SQL of workers and their rules. Every change increments the version of the tenant's registry."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope

_WORKER: LiteralString = (
    "id, name, kind, url, header, secret, actions, enabled, version, created_by, created_at, updated_at"
)
_RULE: LiteralString = "action, worker, allowed, preferred, reason, decided_by, decided_at"

FIND_VERSION: LiteralString = "SELECT version FROM worker_registries WHERE tenant_id = $1"
MOVE_VERSION: LiteralString = """
INSERT INTO worker_registries AS r (tenant_id, version) VALUES ($1, 1)
ON CONFLICT (tenant_id) DO UPDATE SET version = r.version + 1"""
LIST_WORKERS: LiteralString = f"SELECT {_WORKER} FROM workers WHERE tenant_id = $1 ORDER BY name"
LIST_RULES: LiteralString = f"SELECT {_RULE} FROM worker_rules WHERE tenant_id = $1"
ADD_WORKER: LiteralString = f"""
INSERT INTO workers (tenant_id, id, name, kind, url, header, secret, actions, enabled, created_by)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
WHERE (SELECT count(*) FROM workers WHERE tenant_id = $1) < $11 RETURNING {_WORKER}"""
CHANGE_WORKER: LiteralString = f"""
UPDATE workers SET url = $3, header = $4, secret = $5, actions = $6, enabled = $7, version = version + 1,
       updated_at = now()
WHERE tenant_id = $1 AND id = $2 AND version = $8 RETURNING {_WORKER}"""
REMOVE_WORKER: LiteralString = f"DELETE FROM workers WHERE tenant_id = $1 AND name = $2 RETURNING {_WORKER}"
REMOVE_RULES: LiteralString = "DELETE FROM worker_rules WHERE tenant_id = $1 AND worker = $2"
PUT_RULE: LiteralString = """
INSERT INTO worker_rules (tenant_id, action, worker, allowed, preferred, reason, decided_by)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, action, worker) DO UPDATE
SET allowed = excluded.allowed, preferred = excluded.preferred, reason = excluded.reason,
    decided_by = excluded.decided_by, decided_at = now()"""
UNPREFER_OTHERS: LiteralString = """
UPDATE worker_rules SET preferred = false WHERE tenant_id = $1 AND action = $2 AND worker <> $3 AND preferred"""


@dataclass(frozen=True, slots=True)
class Registration:
    """A remote worker as it is stored; `secret` is sealed for `place`."""

    id: UUID
    name: str
    kind: str
    url: str
    header: str
    secret: bytes | None = field(repr=False)
    actions: list[dict[str, Any]]
    enabled: bool
    version: int
    created_by: str
    created_at: datetime
    updated_at: datetime

    def place(self, tenant: UUID) -> str:
        """Return the place that the secret is sealed for."""
        return place_of(tenant, self.id)


@dataclass(frozen=True, slots=True)
class Rule:
    """A tenant's decision about one action of one worker."""

    action: str
    worker: str
    allowed: bool
    preferred: bool = False
    reason: str | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None


def place_of(tenant: UUID, worker_id: UUID) -> str:
    """Return the place that the secret of a worker is sealed for."""
    return f"worker/{tenant}/{worker_id}"


class WorkerStore:
    """Stores the workers and rules of tenants."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find_version(self, scope: Scope) -> int:
        """Return the version of the tenant's registry; 0 when nothing was ever changed."""
        row = await self._db.find(scope, FIND_VERSION, scope.tenant)
        return row["version"] if row else 0

    async def list_workers(self, scope: Scope) -> list[Registration]:
        """List the workers of a tenant by name."""
        return [Registration(*row) for row in await self._db.fetch(scope, LIST_WORKERS, scope.tenant)]

    async def list_rules(self, scope: Scope) -> list[Rule]:
        """List the decisions of a tenant."""
        return [Rule(*row) for row in await self._db.fetch(scope, LIST_RULES, scope.tenant)]

    async def add(self, scope: Scope, new: Registration, *, most: int) -> Registration | None:
        """Add a worker; return None when the tenant has `most` workers already.

        Raises:
            UniqueViolated: the name is taken.
        """
        async with self._db.unit(scope):
            # First: the row lock makes concurrent additions count each other.
            await self._db.execute(scope, MOVE_VERSION, scope.tenant)
            row = await self._db.find(
                scope, ADD_WORKER, scope.tenant, new.id, new.name, new.kind, new.url, new.header, new.secret,
                new.actions, new.enabled, new.created_by, most,
            )  # fmt: skip
        return Registration(*row) if row else None

    async def change(self, scope: Scope, worker: Registration) -> Registration | None:
        """Replace the version of a worker that was read; return None when it was changed or removed since."""
        async with self._db.unit(scope):
            await self._db.execute(scope, MOVE_VERSION, scope.tenant)
            row = await self._db.find(
                scope, CHANGE_WORKER, scope.tenant, worker.id, worker.url, worker.header, worker.secret,
                worker.actions, worker.enabled, worker.version,
            )  # fmt: skip
        return Registration(*row) if row else None

    async def remove(self, scope: Scope, name: str) -> Registration | None:
        """Remove a worker and every decision about it; return None when it does not exist."""
        async with self._db.unit(scope):
            await self._db.execute(scope, MOVE_VERSION, scope.tenant)
            row = await self._db.find(scope, REMOVE_WORKER, scope.tenant, name)
            await self._db.execute(scope, REMOVE_RULES, scope.tenant, name)
        return Registration(*row) if row else None

    async def decide(self, scope: Scope, rules: Sequence[Rule]) -> None:
        """Store decisions in place of earlier ones; a preferred worker replaces the one that was preferred before."""
        async with self._db.unit(scope):
            await self._db.execute(scope, MOVE_VERSION, scope.tenant)
            for rule in rules:
                await self._db.execute(
                    scope, PUT_RULE, scope.tenant, rule.action, rule.worker, rule.allowed, rule.preferred,
                    rule.reason, rule.decided_by,
                )  # fmt: skip
                if rule.preferred:
                    await self._db.execute(scope, UNPREFER_OTHERS, scope.tenant, rule.action, rule.worker)
