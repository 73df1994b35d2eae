"""The SQL that tells of events: a row for each subscription to an event, in the transaction of what it tells of.

A tenant without subscriptions gets no row: what it costs there is one look into an index.
"""

from collections.abc import Callable, Mapping
from typing import Any, LiteralString
from uuid import UUID

from dragoman.infra.db import Database, Scope, document

_ADD: LiteralString = """
INSERT INTO subscription_deliveries (tenant_id, id, subscription_id, message_id, type, subject, data, occurred_at)"""


def tell(happened: LiteralString) -> LiteralString:
    """Return a statement that tells of what `happened` reads: tenant, message_id, type, subject, data and at."""
    return f"""{_ADD}
SELECT e.tenant, new_delivery_id(), s.id, e.message_id, e.type, e.subject, e.data, e.at
FROM ({happened}) e JOIN subscriptions s ON s.tenant_id = e.tenant AND s.state = 'active'
  AND s.events && ARRAY[e.type, split_part(e.type, '.', 1) || '.*', '*']"""


def tell_of_actions(moved: LiteralString, *, action: LiteralString) -> LiteralString:
    """Return the part of a statement that tells of tasks that have ended or wait for a person.

    `moved` reads tenant, id, seq, state, at and approvals of tasks in such a state. `action` reads canonical, run,
    action, matter, correlation_id and dry_run of the task `m`; it names the subscription `s`, so that it is read for
    subscribers alone.
    """
    return f"""{_ADD}
SELECT m.tenant, new_delivery_id(), s.id, 'msg_' || replace(m.id::text, '-', '') || '_' || m.seq, s.type,
       a.canonical::text, jsonb_strip_nulls(jsonb_build_object(
           'task_id', a.canonical, 'run_id', m.id, 'run', a.run, 'seq', m.seq, 'state', m.state, 'action', a.action,
           'matter_id', a.matter, 'correlation_id', a.correlation_id, 'dry_run', a.dry_run, 'approvals', m.approvals)),
       m.at
FROM ({moved}) m CROSS JOIN LATERAL (
    SELECT s.id, s.tenant_id, w.type FROM subscriptions s CROSS JOIN (
        SELECT CASE WHEN m.state = 'input_required' THEN 'task.input_required' ELSE 'task.finished' END AS type) w
    WHERE s.tenant_id = ANY (ARRAY[m.tenant]) AND s.state = 'active' AND s.events && ARRAY[w.type, 'task.*', '*']
    OFFSET 0
) s CROSS JOIN LATERAL ({action} OFFSET 0) a"""


PUBLISH: LiteralString = tell("""
SELECT $1::uuid AS tenant, $2::text AS message_id, $3::text AS type, $4::text AS subject, $5::text::jsonb AS data,
       now() AS at""")


class Outbox:
    """Publishes events; those of tasks are published by the engine's own statements."""

    def __init__(self, db: Database, *, new_id: Callable[[], UUID]) -> None:
        self._db = db
        self._new_id = new_id

    async def publish(
        self, scope: Scope, tenant: UUID, event_type: str, *, subject: str | None = None, data: Mapping[str, Any]
    ) -> None:
        """Tell the subscribers of a tenant of an event, in the unit of work that is open in this scope."""
        message_id = f"msg_{self._new_id().hex}"
        await self._db.execute(scope, PUBLISH, tenant, message_id, event_type, subject, document(data))
