"""The contract of the ledger's store: PostgreSQL and the fake that we ship keep the same promises."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID, uuid4

import asyncpg
import pytest

from dragoman.infra.db import CORE_ROLE, Database
from dragoman.infra.db.signals import PRESENCE
from dragoman.services.tasks.engine.ports import Entered, Intent, LedgerStore
from dragoman.services.tasks.engine.store_effects import EffectStore
from dragoman.services.tasks.engine.testing import InMemoryEffectStore

FRESH, UNKNOWN = Entered(None, fresh=True), Entered(None, fresh=False)
LEASE = """
INSERT INTO task_queue (task_id, tenant_id, lane, worker, lease_until, attempt)
VALUES ($1, $2, 'action', $3, now() + interval '1 hour', $4)
ON CONFLICT (task_id) DO UPDATE SET worker = excluded.worker, attempt = excluded.attempt"""


class Surroundings(Protocol):
    """What the store finds: leases, and processes that are there."""

    async def lease(self, intent: Intent) -> None:
        """Give the task to the attempt that means this."""
        ...

    async def arrive(self, worker: UUID) -> None:
        """Let the process of a worker be there."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Of the fake."""

    store: InMemoryEffectStore

    async def lease(self, intent: Intent) -> None:
        """Give the task to the attempt that means this."""
        self.store.lease(intent.task, intent.worker, attempt=intent.attempt)

    async def arrive(self, worker: UUID) -> None:
        """Let the process of a worker be there."""
        self.store.present.add(worker)


@dataclass(frozen=True)
class Stored:
    """Of PostgreSQL."""

    sql: asyncpg.Connection

    async def lease(self, intent: Intent) -> None:
        """Give the task to the attempt that means this."""
        await self.sql.execute(LEASE, intent.task, intent.tenant, intent.worker, intent.attempt)

    async def arrive(self, worker: UUID) -> None:
        """Let the process of a worker be there."""
        await self.sql.execute(PRESENCE, str(worker))


def new_intent(**changes: Any) -> Intent:
    """The first attempt at a new task means to send something."""
    task = uuid4()
    fields: dict[str, Any] = {
        "tenant": uuid4(), "task": task, "canonical": task, "step": "send", "digest": b"d" * 32, "attempt": 1,
        "worker": uuid4(), "within_s": 60.0,
    }  # fmt: skip
    return Intent(**fields | changes)


@dataclass(frozen=True)
class UnderTest:
    """A store, what it finds, and the first attempt of a task of the test's own."""

    store: LedgerStore
    surroundings: Surroundings
    first: Intent = field(default_factory=new_intent)

    async def intend(self, intent: Intent, *, leased: bool = True) -> Entered | None:
        """Let an attempt have its task, and mean to do something."""
        if leased:
            await self.surroundings.lease(intent)
        return (await self.store.intend([intent]))[0]

    @property
    def second(self) -> Intent:
        """The next attempt, by another worker."""
        return replace(self.first, attempt=2, worker=uuid4())


@pytest.fixture(params=["fake", "postgresql"])
async def effects(request: pytest.FixtureRequest) -> AsyncIterator[UnderTest]:
    """The fake, then the store that it stands for."""
    if request.param == "fake":
        fake = InMemoryEffectStore()
        yield UnderTest(fake, InMemory(fake))
        return
    url = request.getfixturevalue("schema_url")
    db, sql = Database(url, role=CORE_ROLE, size=4), await asyncpg.connect(url)
    yield UnderTest(EffectStore(db, lease=timedelta(0)), Stored(sql))
    await sql.close()
    await db.stop()


async def test_the_first_who_means_to_is_fresh_and_the_same_attempt_is_never_in_its_own_way(effects: UnderTest) -> None:
    await effects.surroundings.arrive(effects.first.worker)

    assert await effects.intend(effects.first) == FRESH
    assert await effects.intend(effects.first) == UNKNOWN


async def test_an_attempt_that_does_not_have_its_task_writes_nothing(effects: UnderTest) -> None:
    first, second = effects.first, effects.second

    assert await effects.intend(first, leased=False) is None
    await effects.surroundings.lease(second)
    assert await effects.intend(first, leased=False) is None
    assert await effects.intend(replace(second, worker=first.worker), leased=False) is None
    assert await effects.intend(second, leased=False) == FRESH


async def test_an_outcome_is_given_to_every_later_attempt_and_run_and_the_first_one_stays(effects: UnderTest) -> None:
    first, second = effects.first, effects.second
    run = replace(second, task=uuid4(), attempt=1)
    await effects.intend(first)

    settled = await effects.store.settle([(first, {"receipt": 1})])
    await effects.store.settle([(second, {"receipt": 2})])

    assert settled == [None]
    assert await effects.intend(second) == Entered({"receipt": 1}, fresh=False)
    assert await effects.intend(run) == Entered({"receipt": 1}, fresh=False)
    assert await effects.intend(first, leased=False) is None


async def test_an_empty_outcome_is_an_outcome(effects: UnderTest) -> None:
    await effects.intend(effects.first)

    await effects.store.settle([(effects.first, {})])

    assert await effects.intend(effects.second) == Entered({}, fresh=False)


@pytest.mark.parametrize(
    "change", [{"tenant": uuid4()}, {"canonical": uuid4()}, {"step": "pay"}, {"digest": b"e" * 32}]
)
async def test_another_tenant_task_step_or_request_is_another_effect(
    effects: UnderTest, change: dict[str, Any]
) -> None:
    other = replace(effects.first, task=uuid4(), **change)
    await effects.intend(effects.first)

    assert await effects.intend(other) == FRESH
    await effects.store.settle([(other, {"receipt": 2})])
    await effects.store.withdraw(other)

    assert await effects.intend(effects.first) == UNKNOWN


async def test_an_earlier_attempt_is_busy_while_its_process_is_there_and_its_time_runs(effects: UnderTest) -> None:
    await effects.surroundings.arrive(effects.first.worker)
    await effects.intend(effects.first)

    entered = await effects.intend(effects.second)

    assert entered is not None
    assert (entered.outcome, entered.fresh) == (None, False)
    assert 0 < entered.busy_s <= 60


@pytest.mark.parametrize("end", ["gone", "over", "abandoned", "settled"])
async def test_an_earlier_attempt_is_not_busy_once_it_cannot_act(effects: UnderTest, end: str) -> None:
    first = replace(effects.first, within_s=0.0) if end == "over" else effects.first
    if end != "gone":
        await effects.surroundings.arrive(first.worker)
    await effects.intend(first)
    if end == "abandoned":
        await effects.store.abandon(first)
    if end == "settled":
        await effects.store.settle([(first, {"receipt": 1})])

    entered = await effects.intend(effects.second)

    assert entered is not None
    assert (entered.fresh, entered.busy_s) == (False, 0)


async def test_what_an_attempt_takes_is_its_own(effects: UnderTest) -> None:
    first, second, third = effects.first, effects.second, replace(effects.first, attempt=3)
    await effects.surroundings.arrive(second.worker)
    await effects.intend(first)
    await effects.intend(second)

    await effects.store.take(second)
    await effects.store.abandon(first)
    await effects.store.withdraw(first)
    entered = await effects.intend(third)

    assert entered is not None
    assert (entered.fresh, entered.busy_s > 0) == (False, True)


async def test_a_withdrawn_intent_was_never_meant(effects: UnderTest) -> None:
    await effects.intend(effects.first)

    await effects.store.withdraw(effects.second)
    still = await effects.intend(effects.second)
    await effects.store.withdraw(effects.first)

    assert still == UNKNOWN
    assert await effects.intend(effects.second) == FRESH


async def test_nothing_changes_an_effect_that_has_its_outcome(effects: UnderTest) -> None:
    first, done = effects.first, Entered({"receipt": 1}, fresh=False)
    await effects.intend(first)
    await effects.store.settle([(first, {"receipt": 1})])

    for change in (effects.store.withdraw, effects.store.abandon, effects.store.take):
        await change(first)

    assert await effects.intend(first) == done


async def test_what_was_never_meant_cannot_be_settled_taken_or_abandoned(effects: UnderTest) -> None:
    for change in (effects.store.take, effects.store.abandon, effects.store.withdraw):
        await change(effects.first)
    await effects.store.settle([(effects.first, {"receipt": 1})])

    assert await effects.intend(effects.first) == FRESH


async def test_what_is_written_together_is_told_apart(effects: UnderTest) -> None:
    done, lost, fresh = (new_intent() for _ in range(3))
    await effects.intend(done)
    await effects.store.settle([(done, {"n": 1}), (lost, {"n": 2})])
    await effects.surroundings.lease(fresh)

    entered = await effects.store.intend([fresh, lost, done])

    assert entered == [FRESH, None, Entered({"n": 1}, fresh=False)]
    assert await effects.store.intend([]) == []


async def test_of_many_runs_at_one_moment_one_is_fresh(effects: UnderTest) -> None:
    runs = [replace(effects.first, task=uuid4(), worker=uuid4()) for _ in range(4)]
    for run in runs:
        await effects.surroundings.lease(run)

    entered = await asyncio.gather(*(effects.store.intend([run]) for run in runs))

    assert [one for [one] in entered if one is not None and one.fresh] == [FRESH]


async def test_of_many_outcomes_at_one_moment_one_stays(effects: UnderTest) -> None:
    await effects.intend(effects.first)

    await asyncio.gather(*(effects.store.settle([(effects.first, {"n": n})]) for n in range(4)))
    entered = [await effects.intend(effects.first) for _ in range(2)]

    assert entered[0] == entered[1]
    assert entered[0] is not None
    assert entered[0].outcome in [{"n": n} for n in range(4)]
