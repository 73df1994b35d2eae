"""The SQL of governance: decisions are only ever added."""

import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import orjson

from dragoman.infra.db import Database, Scope
from dragoman.services.governance.models import Suppression

# What is larger than this, compressed, is not kept: the decision is, and cannot be replayed.
_MOST_KEPT = 1_000_000
_AFTER_ALL = UUID(int=2**128 - 1)
Record = dict[str, Any]

_SUPPRESSION: LiteralString = "id, project, policy_id, pattern, path, reason, owner, created_by, created_at, expires_at"
ADD_DECISION: LiteralString = """
INSERT INTO governance_decisions
    (tenant_id, id, kind, subject, project, target_layer, ids, context, asker, policy_version, valid, drift_score,
     breaches, accepted, suppressions)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"""
LIST_DECISIONS: LiteralString = """
SELECT id, at, kind, subject, project, target_layer, policy_version, valid, drift_score,
       jsonb_array_length(breaches) AS violations
FROM governance_decisions WHERE tenant_id = $1 AND id < $3 AND ($4::text IS NULL OR project = $4)
ORDER BY id DESC LIMIT $2"""
LAST_CHECK: LiteralString = """
SELECT at, drift_score, policy_version, breaches, context FROM governance_decisions
WHERE tenant_id = $1 AND project = $2 ORDER BY id DESC LIMIT 1"""
LOCK_PROJECT: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('drift:' || $1::uuid::text || $2, 0))"
# A check of an earlier release that found nothing was accepted; of one that found something it is not known.
LAST_ACCEPTED: LiteralString = """
SELECT at, accepted FROM governance_decisions
WHERE tenant_id = $1 AND project = $2 AND (accepted IS NOT NULL OR valid) ORDER BY id DESC LIMIT 1"""
RECENT: LiteralString = """
SELECT id, at, kind, subject, project, target_layer, ids, context, asker, valid, breaches, suppressions
FROM governance_decisions
WHERE tenant_id = $1 AND ($3::timestamptz IS NULL OR at >= $3) ORDER BY id DESC LIMIT $2"""
ADD_SUPPRESSION: LiteralString = f"""
INSERT INTO governance_suppressions
    (tenant_id, id, project, policy_id, pattern, path, reason, owner, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING {_SUPPRESSION}, lifted_at"""
LIST_SUPPRESSIONS: LiteralString = f"""
SELECT {_SUPPRESSION}, lifted_at FROM governance_suppressions
WHERE tenant_id = $1 AND id < $3 AND ($4::text IS NULL OR project = $4)
  AND ($5 OR (lifted_at IS NULL AND expires_at > now()))
ORDER BY id DESC LIMIT $2"""
LIVE_SUPPRESSIONS: LiteralString = f"""
SELECT {_SUPPRESSION} FROM governance_suppressions
WHERE tenant_id = $1 AND project = $2 AND lifted_at IS NULL AND expires_at > now() ORDER BY id"""
SUPPRESSIONS_THEN: LiteralString = f"""
SELECT {_SUPPRESSION} FROM governance_suppressions
WHERE tenant_id = $1 AND project = $2
  AND CASE WHEN $3::uuid[] IS NULL
      THEN created_at <= $4 AND expires_at > $4 AND (lifted_at IS NULL OR lifted_at > $4)
      ELSE id = ANY($3::uuid[]) END
ORDER BY id"""
LIFT: LiteralString = f"""
UPDATE governance_suppressions SET lifted_at = now() WHERE tenant_id = $1 AND id = $2 AND lifted_at IS NULL
RETURNING {_SUPPRESSION}, lifted_at"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A decision on its way into the record."""

    id: UUID
    kind: str
    subject: str
    project: str | None
    target_layer: str
    ids: dict[str, Any]
    context: dict[str, Any]
    asker: dict[str, Any]
    policy_version: str
    valid: bool
    drift_score: float | None
    breaches: list[dict[str, Any]]
    accepted: dict[str, str | None] | None = None
    suppressions: list[UUID] = field(default_factory=list[UUID])


class GovernanceStore:
    """Decisions and suppressions of a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add_decision(self, scope: Scope, kept: Kept) -> None:
        """Record a decision."""
        packed = zlib.compress(orjson.dumps(kept.context))
        await self._db.execute(
            scope, ADD_DECISION, scope.tenant, kept.id, kept.kind, kept.subject, kept.project, kept.target_layer,
            kept.ids, packed if len(packed) <= _MOST_KEPT else None, kept.asker, kept.policy_version, kept.valid,
            kept.drift_score, kept.breaches, kept.accepted, kept.suppressions,
        )  # fmt: skip

    async def list_decisions(self, scope: Scope, limit: int, before: UUID | None, project: str | None) -> list[Record]:
        """Newest first."""
        rows = await self._db.fetch(scope, LIST_DECISIONS, scope.tenant, limit, before or _AFTER_ALL, project)
        return [dict(row) for row in rows]

    async def find_last_check(self, scope: Scope, project: str) -> Record | None:
        """The last time the drift of a project was measured."""
        row = await self._db.find(scope, LAST_CHECK, scope.tenant, project)
        return dict(row) if row else None

    @asynccontextmanager
    async def alone(self, scope: Scope, project: str) -> AsyncGenerator[None]:
        """Let one check of a project at a time compare itself with what was accepted, in one unit of work."""
        async with self._db.unit(scope):
            await self._db.fetch(scope, LOCK_PROJECT, scope.tenant, project)
            yield

    async def find_accepted(self, scope: Scope, project: str) -> Record | None:
        """Return when a check of a project passed last, and the violations that were accepted then."""
        row = await self._db.find(scope, LAST_ACCEPTED, scope.tenant, project)
        return {"at": row["at"], "accepted": row["accepted"] or {}} if row else None

    async def list_recent(self, scope: Scope, limit: int, since: datetime | None) -> list[Record]:
        """Decisions with all that is needed to decide again."""
        return [dict(row) for row in await self._db.fetch(scope, RECENT, scope.tenant, limit, since)]

    async def add_suppression(self, scope: Scope, new: Suppression) -> Record:
        """Record a suppression."""
        row = await self._db.find(
            scope, ADD_SUPPRESSION, scope.tenant, new.id, new.project, new.policy_id, new.pattern, new.path,
            new.reason, new.owner, new.created_by, new.expires_at,
        )  # fmt: skip
        if row is None:
            raise RuntimeError("an insert gave no row")
        return dict(row)

    async def list_suppressions(
        self, scope: Scope, limit: int, before: UUID | None, project: str | None, *, ended: bool
    ) -> list[Record]:
        """Newest first."""
        rows = await self._db.fetch(scope, LIST_SUPPRESSIONS, scope.tenant, limit, before or _AFTER_ALL, project, ended)
        return [dict(row) for row in rows]

    async def live_suppressions(self, scope: Scope, project: str) -> list[Suppression]:
        """What is suppressed now."""
        rows = await self._db.fetch(scope, LIVE_SUPPRESSIONS, scope.tenant, project)
        return [Suppression.model_validate(dict(row)) for row in rows]

    async def suppressions_then(self, scope: Scope, decision: Record) -> list[Suppression]:
        """Return what was suppressed when a decision on a project was taken."""
        rows = await self._db.fetch(
            scope, SUPPRESSIONS_THEN, scope.tenant, decision["project"], decision["suppressions"], decision["at"]
        )
        return [Suppression.model_validate(dict(row)) for row in rows]

    async def lift(self, scope: Scope, suppression_id: UUID) -> Record | None:
        """End a suppression; None when there is none, or it has been lifted."""
        row = await self._db.find(scope, LIFT, scope.tenant, suppression_id)
        return dict(row) if row else None


def unpacked(context: bytes | None) -> dict[str, Any] | None:
    """What was judged, where it was kept."""
    return None if context is None else orjson.loads(zlib.decompress(context))
