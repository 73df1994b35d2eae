"""What is known of a side effect is written down, even when whoever caused it is stopped at that very moment."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from dragoman.infra.db import CORE_ROLE, Database
from dragoman.infra.db.signals import PRESENCE
from dragoman.kit import AttemptFenced, EffectUnknown
from dragoman.services.tasks.engine.effects import Ledger, TaskEffects
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.store_effects import EffectStore
from dragoman.services.tasks.errors import EffectBusy
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio
TENANT, OWNER = uuid4(), uuid4()
LEASE = timedelta(minutes=1)
RUNNING = """
INSERT INTO tasks (tenant_id, id, context_id, owner, skill, state, metadata, caller, seq, attempt)
VALUES ($1, $2, 'c', 'ada', 'task', 'in_progress', '{}', '{}', 1, 1)"""
LEASED = """
INSERT INTO task_queue (task_id, tenant_id, lane, worker, run_at, lease_until, attempt)
VALUES ($2, $1, 'action', $3, now() - interval '1 hour', now() + interval '1 hour', 1)"""
# Long enough for a second attempt to act, if it did not wait.
A_MOMENT_S = 0.5
TAKEN_AWAY = "UPDATE task_queue SET run_at = now(), attempt = 2 WHERE task_id = $1"
BLOCKED = "FROM pg_locks WHERE NOT granted AND relation = 'effects'::regclass"


@pytest.fixture
async def sql(url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection past every lock."""
    opened = await asyncpg.connect(url)
    yield opened
    await opened.close()


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[Ledger]:
    """The ledger of one process."""
    db = Database(url, role=CORE_ROLE, size=4)
    made = Ledger(EffectStore(db, lease=LEASE), backoff_s=0.01)
    yield made
    await made.close()
    await db.stop()


class Sender:
    """Sends, and counts how often."""

    def __init__(self, ledger: Ledger, task_id: UUID) -> None:
        self._ledger = ledger
        self.task_id = task_id
        self.sent = 0
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def attempt(self, number: int) -> dict[str, Any]:
        """One attempt at sending."""
        effects = TaskEffects(self._ledger, Lease(self.task_id, OWNER, number), TENANT, self.task_id, 60)
        return await effects.once("send", {"to": "ada"}, self._send)

    async def _send(self, key: str) -> dict[str, Any]:
        self.sent += 1
        self.begun.set()
        await self.may_end.wait()
        return {"key": key}


@pytest.fixture
async def sender(ledger: Ledger, sql: asyncpg.Connection) -> Sender:
    """Of a task that is in its first attempt."""
    task_id = uuid4()
    await sql.execute(RUNNING, TENANT, task_id)
    await sql.execute(LEASED, TENANT, task_id, OWNER)
    return Sender(ledger, task_id)


@asynccontextmanager
async def closed_book(sql: asyncpg.Connection) -> AsyncGenerator[None]:
    """Nobody can write to the ledger in here."""
    async with sql.transaction():
        await sql.execute("LOCK TABLE effects IN EXCLUSIVE MODE")
        yield


async def stopped(work: asyncio.Task[Any]) -> None:
    """Stop it, and wait until it has."""
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


async def waits_for_the_book(sql: asyncpg.Connection) -> None:
    """Until somebody wants to write to the ledger and cannot."""
    async with asyncio.timeout(PATIENCE_S):
        while not await sql.fetch(f"SELECT 1 {BLOCKED}"):  # noqa: ASYNC110 - it is another's lock
            await asyncio.sleep(0.01)


async def next_attempt(sql: asyncpg.Connection, sender: Sender, ledger: Ledger) -> dict[str, Any]:
    """What a second attempt gets."""
    await ledger.close()
    await sql.execute("UPDATE task_queue SET attempt = 2 WHERE task_id = $1", sender.task_id)
    return await sender.attempt(2)


async def test_an_effect_that_was_had_is_known_though_its_attempt_was_stopped(
    sender: Sender, sql: asyncpg.Connection, ledger: Ledger
) -> None:
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()
    async with closed_book(sql):
        sender.may_end.set()
        await waits_for_the_book(sql)
        await stopped(work)

    outcome = await next_attempt(sql, sender, ledger)

    assert outcome["key"].startswith(str(sender.task_id))
    assert sender.sent == 1


async def test_an_effect_that_was_not_begun_is_had_by_the_next_attempt(
    sender: Sender, sql: asyncpg.Connection, ledger: Ledger
) -> None:
    sender.may_end.set()
    async with closed_book(sql):
        work = asyncio.create_task(sender.attempt(1))
        await waits_for_the_book(sql)
        await stopped(work)

    await next_attempt(sql, sender, ledger)

    assert sender.sent == 1


async def test_an_effect_whose_attempt_was_stopped_in_its_midst_is_for_a_person_to_judge(
    sender: Sender, sql: asyncpg.Connection, ledger: Ledger
) -> None:
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()
    await stopped(work)

    with pytest.raises(EffectUnknown):
        await next_attempt(sql, sender, ledger)
    assert sender.sent == 1


async def test_an_outcome_is_written_once_the_database_is_back(
    sender: Sender, sql: asyncpg.Connection, ledger: Ledger
) -> None:
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()
    async with closed_book(sql):
        sender.may_end.set()
        await waits_for_the_book(sql)
        await sql.execute(f"SELECT pg_terminate_backend(pid) {BLOCKED}")

    assert (await work)["key"]
    assert (await next_attempt(sql, sender, ledger)) == await work
    assert sender.sent == 1


async def test_nobody_is_asked_while_the_earlier_attempt_may_still_act(
    sender: Sender, sql: asyncpg.Connection, ledger: Ledger
) -> None:
    """Its process is there, its time is not over, and it has not said that it stopped: it may only be suspended."""
    await sql.execute(PRESENCE, str(OWNER))
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()

    with pytest.raises(EffectBusy):
        await next_attempt(sql, sender, ledger)
    sender.may_end.set()
    first = await work

    assert await sender.attempt(2) == first
    assert sender.sent == 1


async def test_the_other_side_is_asked_once_the_process_of_the_earlier_attempt_is_gone(
    sender: Sender, sql: asyncpg.Connection, ledger: Ledger
) -> None:
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()

    with pytest.raises(EffectUnknown):
        await next_attempt(sql, sender, ledger)
    await stopped(work)


async def test_an_absent_process_may_still_act_until_its_lease_is_over(sender: Sender, sql: asyncpg.Connection) -> None:
    """Only its connection for presence was lost, and a person took the task away from it just now."""
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()
    await sql.execute(TAKEN_AWAY, sender.task_id)

    done, _ = await asyncio.wait({second := asyncio.create_task(sender.attempt(2))}, timeout=A_MOMENT_S)
    sender.may_end.set()

    assert done == set()
    assert await second == await work
    assert sender.sent == 1


async def test_an_absent_process_is_waited_for_no_longer_than_its_lease(
    sender: Sender, sql: asyncpg.Connection, url: str
) -> None:
    work = asyncio.create_task(sender.attempt(1))
    await sender.begun.wait()
    await sql.execute(TAKEN_AWAY, sender.task_id)
    db = Database(url, role=CORE_ROLE, size=1)
    ledger = Ledger(EffectStore(db, lease=timedelta(seconds=0.5)))

    with pytest.raises(EffectUnknown):
        await Sender(ledger, sender.task_id).attempt(2)

    await stopped(work)
    await db.stop()


async def test_an_attempt_that_lost_its_task_has_no_effect(sender: Sender, sql: asyncpg.Connection) -> None:
    await sql.execute("UPDATE task_queue SET attempt = 2 WHERE task_id = $1", sender.task_id)

    with pytest.raises(AttemptFenced):
        await sender.attempt(1)
    assert sender.sent == 0
