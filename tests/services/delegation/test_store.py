"""Steps that are written together, told apart."""

from datetime import timedelta
from uuid import uuid4

import pytest

from dragoman.infra.db import CORE_ROLE, Database
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import AuditStore
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.delegation.store import DelegationStore, Move
from tests.infra.databases import superuser
from tests.services.delegation.crew import caller_of

pytestmark = pytest.mark.anyio
RUNNING = """
INSERT INTO tasks (tenant_id, id, context_id, owner, skill, state, metadata, caller, seq, attempt)
VALUES ($1, $2, 'c', 'ada', 'task', 'in_progress', '{}', '{}', 1, 2)"""


async def test_of_two_attempts_at_one_moment_only_the_one_that_has_the_task_moves_it_and_is_on_record(url: str) -> None:
    caller, task_id, db = caller_of(), uuid4(), Database(url, role=CORE_ROLE, size=2)
    trail = AuditTrail(AuditStore(db), db, mac_key=b"k" * 32, new_id=uuid4, wake=lambda: None)
    await superuser(url, RUNNING, caller.tenant, task_id)

    def step(attempt: int, state: str) -> Move:
        event = {"kind": "status", "from": "in_progress", "to": state, "attempt": attempt}
        return Move(caller.tenant, task_id, "in_progress", state, [event], attempt=attempt)

    late, timely = step(1, "failed"), step(2, "succeeded")
    lines = [trail.write(caller, Entry(name, Outcome.DONE)) for name in ("task.fail", "task.complete")]
    moved = await DelegationStore(db, trail, lease=timedelta(seconds=5)).move([(late, lines[0]), (timely, lines[1])])
    await db.stop()

    assert moved == [None, 2]
    assert [row["operation"] for row in await superuser(url, "SELECT operation FROM audit_records")] == [
        "task.complete"
    ]
    assert [row["state"] for row in await superuser(url, "SELECT state FROM tasks")] == ["succeeded"]
