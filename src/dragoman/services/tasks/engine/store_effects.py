"""The SQL of the effect ledger: what was meant to be done outside, and what came of it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document
from dragoman.services.tasks.engine.ports import Entered, Intent
from dragoman.services.tasks.models import Json

# A process holds a lock of its name while it listens: see `infra.db.signals`. One that does not may be dead, or may
# have lost that connection alone.
_PRESENT: LiteralString = """
EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND (l.classid::bigint << 32) | l.objid::bigint = hashtextextended(e.worker::text, 0))"""
# Only the attempt that has the task may mean to do anything. `fresh`: nobody meant to before. The row of an earlier
# attempt stays as it is: it says until when that attempt may still be at it. If its process is not present, its lease
# bounds it sooner, which was renewed for the last time before the task became due again: a task that is claimed because
# its lease ended has been due for longer than a lease, one that a person took away from a running attempt has not.
INTEND: LiteralString = f"""
WITH given AS (
    SELECT g.*, leased.run_at FROM json_to_recordset($1::text::json)
        AS g (tenant uuid, task uuid, canonical uuid, step text, digest text, attempt int, worker uuid, within_s float8)
    CROSS JOIN LATERAL (
        SELECT q.run_at FROM task_queue q WHERE q.task_id = g.task AND q.worker = g.worker AND q.attempt = g.attempt
        LIMIT 1
    ) leased
), fresh AS (
    INSERT INTO effects (tenant_id, canonical_id, step, digest, attempt, worker, may_act_until)
    SELECT g.tenant, g.canonical, g.step, decode(g.digest, 'hex'), g.attempt, g.worker,
           now() + make_interval(secs => g.within_s)
    FROM given g ON CONFLICT DO NOTHING
    RETURNING tenant_id, canonical_id, step, digest
)
SELECT tenant_id, canonical_id, step, digest, NULL::jsonb AS outcome, true AS fresh, false AS present,
       0::float8 AS busy_s
FROM fresh
UNION ALL
SELECT e.tenant_id, e.canonical_id, e.step, e.digest, e.outcome, false, p.present,
       CASE WHEN NOT o.open THEN 0
            WHEN p.present THEN extract(epoch FROM e.may_act_until - now())::float8
            ELSE greatest(0, extract(epoch FROM least(e.may_act_until, g.run_at + $2::interval) - now()))::float8 END
FROM given g CROSS JOIN LATERAL (
    SELECT * FROM effects x WHERE x.tenant_id = g.tenant AND x.canonical_id = g.canonical AND x.step = g.step
      AND x.digest = decode(g.digest, 'hex') LIMIT 1
) e CROSS JOIN LATERAL (
    SELECT e.outcome IS NULL AND e.may_act_until > now()
       AND NOT (e.worker = g.worker AND e.attempt = g.attempt) AS open
) o CROSS JOIN LATERAL (
    SELECT CASE WHEN o.open THEN {_PRESENT} ELSE false END AS present OFFSET 0
) p"""
# What an earlier attempt began and can no longer finish is this one's now.
TAKE: LiteralString = """
UPDATE effects SET attempt = $5, worker = $6, may_act_until = now() + make_interval(secs => $7)
WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND digest = $4 AND outcome IS NULL"""
# Compared as sets of one: plain equality can be hashed, over all that is stored.
SETTLE: LiteralString = """
UPDATE effects e SET outcome = g.outcome, settled_at = now()
FROM json_to_recordset($1::text::json) AS g (tenant uuid, canonical uuid, step text, digest text, outcome jsonb)
WHERE e.tenant_id = ANY (ARRAY[g.tenant]) AND e.canonical_id = ANY (ARRAY[g.canonical])
  AND e.step = ANY (ARRAY[g.step]) AND e.digest = ANY (ARRAY[decode(g.digest, 'hex')]) AND e.outcome IS NULL"""
WITHDRAW: LiteralString = """
DELETE FROM effects WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND digest = $4 AND attempt = $5
  AND worker = $6 AND outcome IS NULL"""
ABANDON: LiteralString = """
UPDATE effects SET may_act_until = now()
WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND digest = $4 AND attempt = $5 AND worker = $6
  AND outcome IS NULL"""
SETTLED: LiteralString = """
SELECT bool_and(outcome IS NOT NULL) AS settled FROM effects WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3
HAVING count(*) > 0"""
WITHDRAW_BY_HAND: LiteralString = """
DELETE FROM effects WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND outcome IS NULL"""
SETTLE_BY_HAND: LiteralString = """
UPDATE effects SET outcome = $4, settled_at = now()
WHERE tenant_id = $1 AND canonical_id = $2 AND step = $3 AND outcome IS NULL"""


class EffectStore:
    """Intents and outcomes of all tenants, many at a time. `lease` is that of the engine whose attempts these are."""

    def __init__(self, db: Database, *, lease: timedelta) -> None:
        self._db = db
        self._lease = lease
        self._scope = Scope()

    async def intend(self, intents: Sequence[Intent]) -> list[Entered | None]:
        """Write intents down; None for an attempt that no longer has its task."""
        entered = await self._intend(intents)
        # An intent that another transaction was just writing is neither new nor to be seen yet: it is by now.
        if unseen := [intent for intent in intents if _key(intent) not in entered]:
            entered |= await self._intend(unseen)
        return [entered.get(_key(intent)) for intent in intents]

    async def _intend(self, intents: Sequence[Intent]) -> dict[tuple[UUID, UUID, str, bytes], Entered]:
        rows = await self._db.fetch(
            self._scope,
            INTEND,
            document(
                [
                    _row(intent)
                    | {
                        "task": intent.task,
                        "attempt": intent.attempt,
                        "worker": intent.worker,
                        "within_s": intent.within_s,
                    }
                    for intent in intents
                ]
            ),
            self._lease,
        )
        entered: dict[tuple[UUID, UUID, str, bytes], Entered] = {}
        for row in rows:
            key = (row["tenant_id"], row["canonical_id"], row["step"], row["digest"])
            if key not in entered or row["fresh"]:
                entered[key] = Entered(row["outcome"], row["fresh"], row["present"], row["busy_s"])
        return entered

    async def take(self, intent: Intent) -> None:
        """Write down that this attempt goes on with what an earlier one began."""
        await self._db.execute(self._scope, TAKE, *_key(intent), intent.attempt, intent.worker, intent.within_s)

    async def settle(self, outcomes: Sequence[tuple[Intent, Json]]) -> list[None]:
        """Write outcomes down; the first of an effect stays."""
        given = [_row(one) | {"outcome": outcome} for one, outcome in outcomes]
        await self._db.execute(self._scope, SETTLE, document(given))
        return [None] * len(outcomes)

    async def withdraw(self, intent: Intent) -> None:
        """Remove an intent: the attempt knows that it was not done, and no other has meant to since."""
        await self._db.execute(self._scope, WITHDRAW, *_key(intent), intent.attempt, intent.worker)

    async def is_settled(self, tenant: UUID, canonical: UUID, step: str) -> bool:
        """Check whether a step of a task has an outcome, for every request that it was begun with."""
        row = await self._db.find(self._scope, SETTLED, tenant, canonical, step)
        return row is not None and row["settled"]

    async def abandon(self, intent: Intent) -> None:
        """Write down that the attempt will not go on with it, whatever came of it."""
        await self._db.execute(self._scope, ABANDON, *_key(intent), intent.attempt, intent.worker)

    async def answer(self, tenant: UUID, canonical: UUID, step: str, *, done: bool, outcome: Json) -> None:
        """Write down what a person says of a step: its outcome, or that it was not done."""
        if done:
            await self._db.execute(self._scope, SETTLE_BY_HAND, tenant, canonical, step, outcome)
        else:
            await self._db.execute(self._scope, WITHDRAW_BY_HAND, tenant, canonical, step)


def _row(intent: Intent) -> Json:
    return {
        "tenant": intent.tenant,
        "canonical": intent.canonical,
        "step": intent.step,
        "digest": intent.digest.hex(),
    }


def _key(intent: Intent) -> tuple[UUID, UUID, str, bytes]:
    return intent.tenant, intent.canonical, intent.step, intent.digest
