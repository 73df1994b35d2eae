"""Steps that are written together, told apart; and the queue of a key."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from dragoman.infra.db import CORE_ROLE, Database
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import AuditStore
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.tasks import events
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.steps import Birth, Queue, Step
from dragoman.services.tasks.engine.store import Durations, EngineStore
from dragoman.services.tasks.engine.store_keys import KeyRelease
from dragoman.services.tasks.lifecycle import InvalidTransition, State
from tests.infra.databases import superuser
from tests.services.tasks.crew import caller_of

pytestmark = pytest.mark.anyio
RUNNING = """
INSERT INTO tasks (tenant_id, id, context_id, owner, skill, state, metadata, caller, seq, attempt)
VALUES ($1, $2, 'c', 'ada', 'task', 'in_progress', '{}', '{}', 1, 2)"""
LEASED = """
INSERT INTO task_queue (task_id, tenant_id, lane, worker, lease_until, attempt)
VALUES ($2, $1, 'action', $3, now() + interval '1 hour', 2)"""


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    """As the engine has it."""
    opened = Database(url, role=CORE_ROLE, size=2)
    yield opened
    await opened.stop()


def trail_of(db: Database) -> AuditTrail:
    """A trail of its own."""
    return AuditTrail(AuditStore(db), db, mac_key=b"k" * 32, new_id=uuid4, wake=lambda: None)


async def test_of_two_attempts_at_one_moment_only_the_one_that_has_the_task_moves_it_and_is_on_record(
    url: str, db: Database
) -> None:
    caller, task_id, owner = caller_of(), uuid4(), uuid4()
    trail = trail_of(db)
    await superuser(url, RUNNING, caller.tenant, task_id)
    await superuser(url, LEASED, caller.tenant, task_id, owner)

    def step(lease: Lease, state: State, name: str) -> Step:
        event = events.StatusEvent(State.IN_PROGRESS, state, attempt=lease.attempt)
        record = trail.write(caller, Entry(name, Outcome.DONE))
        return Step.of(lease, caller.tenant, [event], lane="action", queue=Queue.END, _records=(record,))

    store = EngineStore(db, trail, Durations())
    late, stranger = Lease(task_id, owner, 1), Lease(task_id, uuid4(), 2)
    written, _ = await store.step([step(late, State.FAILED, "late"), step(stranger, State.FAILED, "stranger")])
    timely, _ = await store.step([step(Lease(task_id, owner, 2), State.SUCCEEDED, "task.complete")])

    assert written == [None, None]
    assert [done.seq if done else None for done in timely] == [2]
    assert [row["operation"] for row in await superuser(url, "SELECT operation FROM audit_records")] == [
        "task.complete"
    ]
    assert [row["state"] for row in await superuser(url, "SELECT state FROM tasks")] == ["succeeded"]
    assert await superuser(url, "SELECT 1 FROM task_queue") == []


async def test_the_key_of_a_refused_message_is_free_once_its_refusal_is_written_and_not_before(
    url: str, db: Database
) -> None:
    caller, task_id, owner = caller_of(), uuid4(), uuid4()
    key, taken = KeyRelease("ada", "k"), "SELECT key FROM task_keys WHERE task_id = $1"
    await superuser(url, RUNNING, caller.tenant, task_id)
    await superuser(url, LEASED, caller.tenant, task_id, owner)
    await superuser(url, "INSERT INTO task_keys VALUES ($1, 'ada', 'k', '', $2)", caller.tenant, task_id)
    store = EngineStore(db, trail_of(db), Durations())

    def refusal(attempt: int) -> Step:
        event = events.StatusEvent(State.IN_PROGRESS, State.FAILED, attempt=attempt)
        return Step.of(Lease(task_id, owner, attempt), caller.tenant, [event], queue=Queue.END, _release=key)

    (fenced,), _ = await store.step([refusal(1)])
    before = await superuser(url, taken, task_id)
    (written,), _ = await store.step([refusal(2)])

    assert (fenced, len(before)) == (None, 1)
    assert written is not None
    assert await superuser(url, taken, task_id) == []


async def test_turns_of_one_key_leave_the_queue_one_after_another(db: Database) -> None:
    caller, owner = caller_of(), uuid4()
    store = EngineStore(db, trail_of(db), Durations())
    ids = [uuid4() for _ in range(3)]

    def birth(task_id: UUID) -> Birth:
        return _birth(caller.tenant, task_id, owner)

    def end(task_id: UUID) -> Step:
        path = [
            events.StatusEvent(State.QUEUED, State.IN_PROGRESS),
            events.StatusEvent(State.IN_PROGRESS, State.SUCCEEDED),
        ]
        return Step.of(Lease(task_id, owner, 1), caller.tenant, path, queue=Queue.END)

    blocked = [await store.add_turns([birth(task_id)]) for task_id in ids]
    refused, none = await store.step([end(ids[1])])
    _, first = await store.step([end(ids[0])])
    claimed = await store.claim(owner, "turn", 10, left=False)
    _, second = await store.step([end(ids[1])])

    assert blocked == [set(), {ids[1]}, {ids[2]}]
    assert (refused, none) == ([None], [])
    assert (first, second) == ([ids[1]], [ids[2]])
    mine = [claim for claim in claimed if claim.task.tenant_id == caller.tenant]
    assert [(claim.task.id, claim.attempt) for claim in mine] == [(ids[1], 1)]


async def test_a_turn_that_is_cancelled_while_it_waits_lets_nobody_past(db: Database) -> None:
    caller, owner, store = caller_of(), uuid4(), EngineStore(db, trail_of(db), Durations())
    first, second, third = (uuid4() for _ in range(3))
    for task_id in (first, second, third):
        await store.add_turns([_birth(caller.tenant, task_id, owner)])
    cancelled = Step(
        tenant=caller.tenant, id=second, events=[events.StatusEvent(State.QUEUED, State.CANCELLED)], queue=Queue.END
    )

    (written,), freed = await store.step([cancelled])

    assert written is not None
    assert freed == []
    claims = await store.claim(owner, "turn", 10, left=False)
    assert [claim for claim in claims if claim.task.tenant_id == caller.tenant] == []


async def test_of_two_turns_of_a_key_at_one_moment_one_is_first(url: str) -> None:
    """The database decides: both see an empty queue, and one is refused."""
    first, second = await asyncpg.connect(url), await asyncpg.connect(url)
    add = """INSERT INTO task_queue (task_id, tenant_id, fifo_key) VALUES ($1, $2, 'k')"""
    tenant = uuid4()
    try:
        await first.execute(add, uuid4(), tenant)
        with pytest.raises(asyncpg.UniqueViolationError, match="task_queue_fifo_head"):
            await second.execute(add, uuid4(), tenant)
    finally:
        await first.close()
        await second.close()


async def test_a_step_that_the_lifecycle_does_not_have_cannot_be_made() -> None:
    event = events.StatusEvent(State.QUEUED, State.SUCCEEDED)

    with pytest.raises(InvalidTransition):
        Step(tenant=uuid4(), id=uuid4(), events=[event])


async def test_a_step_of_an_action_cannot_be_made_without_its_record() -> None:
    event = events.StatusEvent(State.IN_PROGRESS, State.SUCCEEDED)

    with pytest.raises(ValueError, match="audit record"):
        Step(tenant=uuid4(), id=uuid4(), events=[event], lane="action")


def _birth(tenant: UUID, task_id: UUID, owner: UUID) -> Birth:
    return Birth(
        tenant=tenant,
        id=task_id,
        context_id="c",
        owner="ada",
        caller={},
        state="queued",
        events=[*events.accepted(), events.StatusEvent(State.VALIDATED, State.QUEUED)],
        attempt=0,
        queue=True,
        worker=owner,
        fifo_key="context:c",
    )
