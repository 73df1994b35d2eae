"""The rules of the effect ledger over the store in memory: what is performed, found, asked about and left alone."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest

from dragoman.errors import Conflict, UpstreamUnavailable
from dragoman.infra.digests import digest_of
from dragoman.kit import AttemptFenced, EffectUnknown
from dragoman.services.tasks.engine.effects import Find, Ledger, TaskEffects
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.ports import Intent
from dragoman.services.tasks.engine.testing import InMemoryEffectStore
from dragoman.services.tasks.errors import EffectBusy

Json = dict[str, Any]
TENANT, TASK = uuid4(), uuid4()
WITHIN_S = 60.0


@dataclass
class Outside:
    """The other side: does what it is asked, unless it is told to fail, and knows what it did by the key."""

    failures: list[BaseException] = field(default_factory=list[BaseException])
    keys: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    done: dict[str, Json] = field(default_factory=dict[str, Json])

    async def perform(self, key: str) -> Json:
        """Do it."""
        self.keys.append(key)
        if self.failures:
            raise self.failures.pop(0)
        return self.done.setdefault(key, {"receipt": len(self.keys)})

    async def find(self, key: str) -> Json | None:
        """Tell what became of it."""
        self.asked.append(key)
        return self.done.get(key)


class Task:
    """Attempts at one task, each by a process of its own, and the hands of the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = InMemoryEffectStore(now=lambda: self.now)
        self.ledger = Ledger(self.store, backoff_s=0.001)
        self.outside = Outside()
        self.lease = Lease(TASK, uuid4(), 0)

    def next_attempt(self, *, run: UUID = TASK) -> Lease:
        """Let another process take the task over."""
        self.lease = Lease(run, uuid4(), self.lease.attempt + 1)
        self.store.lease(run, self.lease.owner, attempt=self.lease.attempt)
        self.store.present.add(self.lease.owner)
        return self.lease

    async def once(
        self, request: Json | None = None, *, lease: Lease | None = None, find: Find | None = None, **options: bool
    ) -> Json:
        """Have the effect in the latest attempt, or in the one that has this lease."""
        effects = TaskEffects(self.ledger, lease or self.lease, TENANT, TASK, WITHIN_S)
        return await effects.once("send", request or {}, self.outside.perform, find=find, **options)

    async def crash(self) -> None:
        """Let an attempt write its intent, and its process end before anything more of it is known."""
        lease = self.next_attempt()
        digest = digest_of("send", {})
        await self.store.intend([Intent(TENANT, TASK, TASK, "send", digest, lease.attempt, lease.owner, WITHIN_S)])
        self.store.present.discard(lease.owner)


@pytest.fixture
async def task() -> AsyncIterator[Task]:
    """A task that no attempt was made at."""
    made = Task()
    yield made
    await made.ledger.close()


async def test_every_attempt_and_run_gets_the_outcome_of_the_first(task: Task) -> None:
    task.next_attempt()
    first = await task.once()
    task.next_attempt()
    second = await task.once()
    task.next_attempt(run=uuid4())
    other_run = await task.once()

    assert [first, second, other_run] == [{"receipt": 1}] * 3
    assert len(task.outside.keys) == 1


async def test_a_key_is_of_the_task_the_step_and_the_request_whichever_attempt_uses_it(task: Task) -> None:
    failures = [UpstreamUnavailable("the bank"), UpstreamUnavailable("the bank")]
    task.outside.failures += failures
    for _ in failures:
        task.next_attempt()
        with pytest.raises(UpstreamUnavailable):
            await task.once(repeatable=True)
    await task.once({"to": "bob"})
    first, second, other = task.outside.keys

    assert first.startswith(f"{TASK}:send:")
    assert first == second != other


async def test_without_its_lease_an_attempt_neither_writes_nor_performs(task: Task) -> None:
    ended = task.next_attempt()
    ended.revoked = True

    with pytest.raises(AttemptFenced):
        await task.once(lease=ended)
    taken_over = task.next_attempt()
    task.next_attempt()
    with pytest.raises(AttemptFenced):  # its own clock does not know yet, and the store does
        await task.once(lease=taken_over)

    assert task.outside.keys == []
    assert await task.once() == {"receipt": 1}


async def test_an_attempt_that_loses_its_lease_while_the_other_side_is_asked_does_not_perform(task: Task) -> None:
    await task.crash()
    lease = task.next_attempt()

    async def find(key: str) -> None:
        lease.revoked = True

    with pytest.raises(AttemptFenced):
        await task.once(find=find)
    performed = list(task.outside.keys)
    task.next_attempt()

    assert performed == []
    assert await task.once(find=task.outside.find) == {"receipt": 1}  # nor is it waited for


async def test_who_goes_on_with_what_another_began_is_waited_for_in_turn(task: Task) -> None:
    await task.crash()
    began, may_end = asyncio.Event(), asyncio.Event()

    async def perform(key: str) -> Json:
        began.set()
        await may_end.wait()
        raise Conflict("no funds")

    second = TaskEffects(task.ledger, task.next_attempt(), TENANT, TASK, WITHIN_S)
    work = asyncio.create_task(second.once("send", {}, perform, find=task.outside.find))
    await began.wait()
    task.next_attempt()
    with pytest.raises(EffectBusy):
        await task.once(find=task.outside.find)
    may_end.set()
    with pytest.raises(Conflict):
        await work

    assert await task.once() == {"receipt": 1}  # what was refused is known not to be done, by whomever it was begun


async def test_a_person_is_asked_where_nobody_else_can_know(task: Task) -> None:
    await task.crash()
    task.next_attempt()

    with pytest.raises(EffectUnknown) as caught:
        await task.once()

    assert (caught.value.step, task.outside.keys) == ("send", [])


async def test_what_the_other_side_finds_is_the_outcome_from_now_on(task: Task) -> None:
    await task.crash()

    async def find(key: str) -> Json:
        return {"receipt": 7}

    task.next_attempt()
    found = await task.once(find=find)
    task.next_attempt()

    assert [found, await task.once()] == [{"receipt": 7}] * 2
    assert task.outside.keys == []


async def test_what_the_other_side_does_not_find_is_performed_by_who_asked(task: Task) -> None:
    await task.crash()
    task.next_attempt()
    task.outside.failures.append(RuntimeError("cut off"))

    with pytest.raises(RuntimeError):
        await task.once(find=task.outside.find)
    await task.ledger.close()
    task.next_attempt()
    again = await task.once(find=task.outside.find)

    assert again == {"receipt": 2}
    assert task.outside.asked == task.outside.keys == [task.outside.keys[0]] * 2


@pytest.mark.parametrize(("passed_s", "busy_s"), [(0.0, 2.0), (59.0, 1.0)])
async def test_nobody_is_asked_while_an_earlier_attempt_may_act_but_soon_again(
    task: Task, passed_s: float, busy_s: float
) -> None:
    await task.crash()
    task.store.present.add(task.lease.owner)  # its process is there after all: only suspended
    task.next_attempt()
    task.now += passed_s

    with pytest.raises(EffectBusy) as caught:
        await task.once(find=task.outside.find)

    assert (caught.value.busy_s, task.outside.asked) == (busy_s, [])


async def test_an_earlier_attempt_is_waited_for_until_its_time_is_over(task: Task) -> None:
    await task.crash()
    task.store.present.add(task.lease.owner)
    task.next_attempt()
    task.now += WITHIN_S

    assert await task.once(find=task.outside.find) == {"receipt": 1}


async def test_what_does_nothing_twice_waits_for_nobody_and_asks_nobody(task: Task) -> None:
    await task.crash()
    task.store.present.add(task.lease.owner)
    task.next_attempt()

    assert await task.once(find=task.outside.find, repeatable=True) == {"receipt": 1}
    assert task.outside.asked == []


async def test_what_the_other_side_refused_was_not_done_and_is_tried_anew(task: Task) -> None:
    task.outside.failures.append(Conflict("no funds"))
    task.next_attempt()

    with pytest.raises(Conflict):
        await task.once()

    assert await task.once() == {"receipt": 2}


@pytest.mark.parametrize("failure", [UpstreamUnavailable("the bank"), RuntimeError("cut off")])
async def test_after_any_other_failure_nothing_is_known_and_nobody_waits_for_its_attempt(
    task: Task, failure: Exception
) -> None:
    task.outside.failures.append(failure)
    task.next_attempt()

    with pytest.raises(type(failure)):
        await task.once()
    await task.ledger.close()
    task.next_attempt()

    with pytest.raises(EffectUnknown):  # and not EffectBusy, although the process is there
        await task.once()
    assert await task.once(find=task.outside.find) == {"receipt": 2}


async def test_a_store_that_is_away_before_the_effect_lets_nothing_happen(task: Task) -> None:
    task.next_attempt()
    task.store.failures = 1

    with pytest.raises(UpstreamUnavailable):
        await task.once()

    assert task.outside.keys == []
    assert await task.once() == {"receipt": 1}


async def test_an_outcome_waits_for_a_store_that_is_away_and_is_told_of(task: Task) -> None:
    told: list[tuple[UUID, UUID, str]] = []

    async def tell(tenant: UUID, canonical: UUID, step: str) -> None:
        told.append((tenant, canonical, step))

    async def perform(key: str) -> Json:
        task.store.failures = 3
        return {"receipt": 9}

    task.ledger.on_late_outcome(tell)
    task.next_attempt()
    outcome = await TaskEffects(task.ledger, task.lease, TENANT, TASK, WITHIN_S).once("send", {}, perform)
    task.next_attempt()

    assert (outcome, task.store.failures) == ({"receipt": 9}, 0)
    assert told == [(TENANT, TASK, "send")]
    assert await task.once() == {"receipt": 9}


async def test_many_effects_at_one_moment_are_told_apart(task: Task) -> None:
    task.next_attempt()

    outcomes = await asyncio.gather(*(task.once({"n": n}) for n in range(5)))

    assert sorted(one["receipt"] for one in outcomes) == [1, 2, 3, 4, 5]
    assert len(set(task.outside.keys)) == 5


async def test_one_who_asks_a_person_hears_of_an_outcome_that_was_written_just_before() -> None:
    task, heard = Task(), list[tuple[UUID, UUID, str]]()

    async def hear(*about: UUID | str) -> None:
        heard.append(about)  # pyright: ignore[reportArgumentType] - tenant, task and step

    task.ledger.on_late_outcome(hear)
    lease = task.next_attempt()
    intent = Intent(TENANT, TASK, TASK, "send", b"d" * 32, lease.attempt, lease.owner, WITHIN_S)
    await task.ledger.intend(intent)
    await task.ledger.tell_if_known(TENANT, TASK, "send")
    before = list(heard)
    await task.ledger.settle(intent, {"receipt": 1})

    task.store.failures = 2
    await task.ledger.tell_if_known(TENANT, TASK, "send")

    assert (before, heard) == ([], [(TENANT, TASK, "send")])
