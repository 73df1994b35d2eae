"""State of tasks and conversations that several processes change at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any
from uuid import uuid4

import pytest

from dragoman.infra.db import Database
from dragoman.kit import AttemptFenced
from dragoman.services.tasks.errors import StateTooLarge, TaskStateTooLarge
from dragoman.services.tasks.models import AttemptRef, ThreadKey
from dragoman.services.tasks.store import TaskStore, ThreadStore
from tests.infra.databases import superuser

pytestmark = pytest.mark.anyio
TALK = """
INSERT INTO threads (tenant_id, thread_id, owner, context_expires_at, expires_at)
VALUES ($1, 'c', 'ada', now() + interval '1 hour', now() + interval '1 day')"""
# The task is at its second attempt, under way or ended.
AT_WORK = "INSERT INTO task_queue (tenant_id, task_id, attempt) VALUES ($1, $2, 2)"
ENDED = """
INSERT INTO tasks (tenant_id, id, context_id, owner, state, caller, attempt)
VALUES ($1, $2, 'c', 'ada', 'input_required', '{}', 2)"""
LIMIT = 10_000
TALK_OF = ThreadKey("ada", "c")


@pytest.fixture
async def databases(url: str) -> AsyncIterator[list[Database]]:
    """Two, as two processes have them."""
    made = [Database(url, size=4) for _ in range(2)]
    yield made
    for db in made:
        await db.stop()


def with_one_more(value: Any) -> Any:
    return [*(value or []), len(value or [])]


async def test_no_change_of_a_conversation_is_lost_between_two_processes(url: str, databases: list[Database]) -> None:
    tenant, stores = uuid4(), [ThreadStore(db) for db in databases]
    await superuser(url, TALK, tenant)

    await asyncio.gather(*(s.modify(tenant, TALK_OF, "notes", with_one_more, LIMIT) for _ in range(20) for s in stores))

    assert await stores[0].load(tenant, TALK_OF, "notes") == list(range(40))


async def test_no_change_of_a_task_is_lost_between_two_processes(databases: list[Database]) -> None:
    tenant, task_id, stores = uuid4(), uuid4(), [TaskStore(db) for db in databases]

    await asyncio.gather(*(s.modify(tenant, task_id, "notes", with_one_more, LIMIT) for _ in range(20) for s in stores))

    assert await stores[0].load(tenant, task_id, "notes") == list(range(40))


async def test_a_change_that_fails_or_is_too_large_leaves_what_was_there(url: str, databases: list[Database]) -> None:
    tenant, task_id = uuid4(), uuid4()
    threads, tasks = ThreadStore(databases[0]), TaskStore(databases[0])
    await superuser(url, TALK, tenant)
    await threads.modify(tenant, TALK_OF, "k", lambda _: "kept", LIMIT)
    await tasks.modify(tenant, task_id, "k", lambda _: "kept", LIMIT)

    with pytest.raises(StateTooLarge):
        await threads.modify(tenant, TALK_OF, "k", lambda _: "x" * LIMIT, LIMIT)
    with pytest.raises(TaskStateTooLarge):
        await tasks.modify(tenant, task_id, "k", lambda _: "x" * LIMIT, LIMIT)
    with pytest.raises(ZeroDivisionError):
        await tasks.modify(tenant, task_id, "new", lambda _: 1 // 0, LIMIT)

    assert await threads.load(tenant, TALK_OF, "k") == "kept"
    assert await tasks.load(tenant, task_id, "k") == "kept"
    assert await superuser(url, "SELECT key FROM task_data WHERE key = 'new'") == []


async def test_a_value_that_is_replaced_or_removed_gives_its_bytes_back(url: str, databases: list[Database]) -> None:
    tenant, threads = uuid4(), ThreadStore(databases[0])
    await superuser(url, TALK, tenant)

    for _ in range(5):
        await threads.modify(tenant, TALK_OF, "k", lambda _: "x" * (LIMIT // 2), LIMIT)
    await threads.modify(tenant, TALK_OF, "k", lambda _: None, LIMIT)

    assert await threads.load(tenant, TALK_OF, "k") is None
    assert await threads.find(tenant, TALK_OF) == (False, 0)


@pytest.mark.parametrize("row", [AT_WORK, ENDED], ids=["at-work", "ended"])
async def test_an_attempt_that_lost_its_task_changes_nothing_however_late_its_statement_arrives(
    url: str, databases: list[Database], row: str
) -> None:
    """Half-open connections deliver what was sent before the lease ended; the check in the process came before that."""
    tenant, task_id = uuid4(), uuid4()
    threads, tasks = ThreadStore(databases[0]), TaskStore(databases[0])
    first, second = AttemptRef(task_id, 1), AttemptRef(task_id, 2)
    await superuser(url, TALK, tenant)
    await superuser(url, row, tenant, task_id)
    await threads.save(tenant, TALK_OF, "k", "second", LIMIT, attempt=second)
    await tasks.save(tenant, task_id, "k", "second", LIMIT, attempt=2)

    late = [
        threads.save(tenant, TALK_OF, "k", "first", LIMIT, attempt=first),
        threads.modify(tenant, TALK_OF, "k", with_one_more, LIMIT, attempt=first),
        threads.remove(tenant, TALK_OF, "k", attempt=first),
        tasks.save(tenant, task_id, "k", "first", LIMIT, attempt=1),
        tasks.modify(tenant, task_id, "k", with_one_more, LIMIT, attempt=1),
        tasks.remove(tenant, task_id, "k", attempt=1),
    ]
    answers = [await _refused(write) for write in late]

    assert answers == [AttemptFenced] * len(late)
    assert await threads.load(tenant, TALK_OF, "k") == "second"
    assert await tasks.load(tenant, task_id, "k") == "second"


async def _refused(write: Awaitable[object]) -> type[BaseException] | None:
    try:
        await write
    except AttemptFenced as error:
        return type(error)
    return None
