"""Tasks that ended long ago, as many as are wanted, without performing them."""

from uuid import UUID

import asyncpg

# One in a thousand failed, and belongs to a matter, an action and a sender that are as rare.
STORE = """
WITH made AS (
    INSERT INTO tasks (tenant_id, id, context_id, owner, skill, state, error, metadata, caller, seq)
    SELECT $1, uuidv7(), 'c-' || n, kind.owner, 'task', kind.state, kind.error, '{}', '{}', 1
    FROM generate_series($2::int, $3::int) AS n
    JOIN (VALUES (true, 'rare', 'failed', '{"code": "RARE"}'::jsonb), (false, 'ada', 'succeeded', NULL))
        AS kind (rare, owner, state, error) ON kind.rare = (n % 1000 = 0)
    RETURNING tenant_id, id, context_id, owner, state
), handed AS (
    INSERT INTO delegations (tenant_id, task_id, canonical_id, actor, key, digest, action, matter, correlation_id,
                             max_attempts, envelope)
    SELECT tenant_id, id, id, owner, context_id, '\\x00', owner || '.action', 'matter of ' || owner, context_id, 3, '{}'
    FROM made
)
INSERT INTO task_events (tenant_id, task_id, seq, body)
SELECT tenant_id, id, 1, jsonb_build_object('kind', 'status', 'to', state) FROM made"""
_AT_ONCE = 200_000


async def store(url: str, tenant: UUID, first: int, last: int) -> None:
    """Put tasks of these numbers into the database, and let PostgreSQL tidy up and look at them now, not later."""
    connection = await asyncpg.connect(url)
    try:
        for begin in range(first, last + 1, _AT_ONCE):
            await connection.execute(STORE, tenant, begin, min(begin + _AT_ONCE - 1, last))
        await connection.execute("VACUUM ANALYZE tasks, delegations, task_events, task_queue")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
