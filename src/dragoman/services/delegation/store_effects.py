"""The SQL of the effect ledger: what was meant to be done outside, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document
from dragoman.services.delegation.workers import Json

# Only the attempt that has the task may mean to do anything. `fresh`: nobody meant to before.
INTEND: LiteralString = """
INSERT INTO effects (tenant_id, canonical_id, step, digest, attempt)
SELECT g.tenant, g.canonical, g.step, decode(g.digest, 'hex'), g.attempt
FROM json_to_recordset($1::text::json)
    AS g (tenant uuid, task uuid, canonical uuid, step text, digest text, attempt int)
CROSS JOIN LATERAL (
    SELECT FROM tasks t
    WHERE t.tenant_id = g.tenant AND t.id = g.task AND t.attempt = g.attempt AND t.state = 'in_progress' LIMIT 1
) running
ON CONFLICT (tenant_id, canonical_id, step, digest) DO UPDATE SET attempt = excluded.attempt
RETURNING tenant_id, canonical_id, step, digest, outcome, xmax = 0 AS fresh"""
# Compared as sets of one: plain equality can be hashed, over all that is stored.
SETTLE: LiteralString = """
UPDATE effects e SET outcome = g.outcome, settled_at = now()
FROM json_to_recordset($1::text::json) AS g (tenant uuid, canonical uuid, step text, digest text, outcome jsonb)
WHERE e.tenant_id = ANY (ARRAY[g.tenant]) AND e.canonical_id = ANY (ARRAY[g.canonical])
  AND e.step = ANY (ARRAY[g.step]) AND e.digest = ANY (ARRAY[decode(g.digest, 'hex')]) AND e.outcome IS NULL"""
WITHDRAW: LiteralString = """
DELETE FROM effects WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND digest = $4 AND attempt = $5
  AND outcome IS NULL"""
WITHDRAW_BY_HAND: LiteralString = """
DELETE FROM effects WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND outcome IS NULL"""
SETTLE_BY_HAND: LiteralString = """
UPDATE effects SET outcome = $4, settled_at = now()
WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND outcome IS NULL"""


@dataclass(frozen=True, slots=True)
class Intent:
    """That a task means to do something outside."""

    tenant: UUID
    task: UUID
    canonical: UUID
    step: str
    digest: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class Entered:
    """How an intent was found: without an outcome it is fresh, or nobody knows."""

    outcome: Json | None
    fresh: bool


class EffectStore:
    """Intents and outcomes of all tenants, many at a time."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._scope = Scope()

    async def intend(self, intents: Sequence[Intent]) -> list[Entered | None]:
        """Note them; None for an attempt that no longer has its task."""
        given = [_given(one) | {"task": one.task, "attempt": one.attempt} for one in intents]
        rows = await self._db.fetch(self._scope, INTEND, document(given))
        found = {
            (row["tenant_id"], row["canonical_id"], row["step"], row["digest"]): Entered(row["outcome"], row["fresh"])
            for row in rows
        }
        return [found.get((one.tenant, one.canonical, one.step, one.digest)) for one in intents]

    async def settle(self, outcomes: Sequence[tuple[Intent, Json]]) -> list[None]:
        """What came of them; the first outcome stays."""
        given = [_given(one) | {"outcome": outcome} for one, outcome in outcomes]
        await self._db.execute(self._scope, SETTLE, document(given))
        return [None] * len(outcomes)

    async def withdraw(self, intent: Intent) -> None:
        """The attempt that meant to knows that it did not, and no other has meant to since."""
        given = intent.tenant, intent.canonical, intent.step, intent.digest, intent.attempt
        await self._db.execute(self._scope, WITHDRAW, *given)

    async def withdraw_by_hand(self, tenant: UUID, canonical: UUID, step: str) -> None:
        """A person says that it was not done."""
        await self._db.execute(self._scope, WITHDRAW_BY_HAND, tenant, canonical, step)

    async def settle_by_hand(self, tenant: UUID, canonical: UUID, step: str, outcome: Json) -> None:
        """A person says that it was done, and what came of it."""
        await self._db.execute(self._scope, SETTLE_BY_HAND, tenant, canonical, step, outcome)


def _given(intent: Intent) -> Json:
    return {
        "tenant": intent.tenant,
        "canonical": intent.canonical,
        "step": intent.step,
        "digest": intent.digest.hex(),
    }
