"""The contract of kit's ports for state and effects: what a skill sees in memory is what it sees on the server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Protocol, cast
from uuid import UUID, uuid4

import asyncpg
import pytest
from pydantic import JsonValue

from dragoman.errors import Conflict, UpstreamUnavailable
from dragoman.infra.db import CORE_ROLE, Database
from dragoman.kit import AttemptFenced, EffectAnswer, Effects, EffectUnknown, InMemoryEffects, InMemoryState, StatePort
from dragoman.services.tasks.engine.effects import Ledger, TaskEffects
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.store_effects import EffectStore
from dragoman.services.tasks.models import ThreadKey
from dragoman.services.tasks.store import TaskStore, ThreadStore
from dragoman.services.tasks.turns.execution import Job
from dragoman.services.tasks.turns.host import Sizes, TurnHost
from tests.services.tasks.crew import caller_of

Json = dict[str, Any]
SCOPES = pytest.mark.parametrize("scope", ["task", "session"])
TALK = """
INSERT INTO threads (tenant_id, thread_id, owner, context_expires_at, expires_at)
VALUES ($1, 'c', 'ada', now() + interval '1 hour', now() + interval '1 day')"""
LEASE = """
INSERT INTO task_queue (task_id, tenant_id, lane, worker, lease_until, attempt)
VALUES ($1, $2, 'turn', $3, now() + interval '1 hour', $4)
ON CONFLICT (task_id) DO UPDATE SET worker = excluded.worker, attempt = excluded.attempt"""


class Hosting(Protocol):
    """Hosts turns of the tasks of one conversation."""

    def state(self, task: str = "first") -> StatePort:
        """Return the state that a turn of this task sees."""
        ...

    async def attempt(self) -> Effects:
        """Return the ledger as the next attempt at the first task sees it; earlier attempts have ended."""
        ...

    async def answer(self, answer: EffectAnswer) -> None:
        """Write down what a person knows."""
        ...


class InMemory:
    """As kit's runtime does."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, JsonValue]] = {}
        self._session: dict[str, JsonValue] = {}
        self._entries: dict[tuple[str, str], Json | None] = {}

    def state(self, task: str = "first") -> StatePort:
        """Return the state that a turn of this task sees."""
        return InMemoryState(self._tasks.setdefault(task, {}), self._session)

    async def attempt(self) -> Effects:
        """Return the ledger as the next attempt at the first task sees it."""
        return InMemoryEffects(self._entries)

    async def answer(self, answer: EffectAnswer) -> None:
        """Write down what a person knows."""
        InMemoryEffects(self._entries).answer(answer)


class OnServer:
    """As the server does, on PostgreSQL."""

    def __init__(self, db: Database, core_db: Database, sql: asyncpg.Connection) -> None:
        self._db, self._sql = db, sql
        self._entries = EffectStore(core_db, lease=timedelta(0))
        self.ledger = Ledger(self._entries)
        self._caller = caller_of()
        self._tasks: dict[str, UUID] = {}
        self._attempt = 0

    def state(self, task: str = "first") -> StatePort:
        """Return the state that a turn of this task sees."""
        return self._host(Lease(self._id(task), uuid4(), 1))

    async def attempt(self) -> Effects:
        """Return the ledger as the next attempt at the first task sees it."""
        await self.ledger.close()
        self._attempt += 1
        lease = Lease(self._id("first"), uuid4(), self._attempt)
        await self._sql.execute(LEASE, lease.task_id, self._caller.tenant, lease.owner, lease.attempt)
        return self._host(lease)

    async def answer(self, answer: EffectAnswer) -> None:
        """Write down what a person knows."""
        of = self._caller.tenant, self._id("first"), answer.step
        await self._entries.answer(*of, done=answer.done, outcome=answer.outcome)

    async def begin(self) -> None:
        """Store the conversation."""
        await self._sql.execute(TALK, self._caller.tenant)

    def _id(self, task: str) -> UUID:
        return self._tasks.setdefault(task, uuid4())

    def _host(self, lease: Lease) -> TurnHost:
        async def nothing(*_: object, **__: object) -> None:
            """The task is stored, and nobody follows it."""

        job = Job(
            caller=self._caller, task_id=lease.task_id, thread=ThreadKey("ada", "c"), skill=None, message={},
            tool_call=None,
            slot=None, resumed=False, attempt=lease.attempt, report=nothing, note=nothing, store=nothing, fresh=False,
            cancellation=asyncio.Event(), lease=lease,
            effects=TaskEffects(self.ledger, lease, self._caller.tenant, lease.task_id, 60.0),
        )  # fmt: skip
        return TurnHost(job, TaskStore(self._db), ThreadStore(self._db), Sizes(50_000, 50_000, 50_000))


@pytest.fixture(params=["memory", "server"])
async def hosting(request: pytest.FixtureRequest) -> AsyncIterator[Hosting]:
    """Kit's own, then the server's."""
    if request.param == "memory":
        yield InMemory()
        return
    url = request.getfixturevalue("schema_url")
    db, core_db, sql = Database(url, size=4), Database(url, role=CORE_ROLE, size=2), await asyncpg.connect(url)
    made = OnServer(db, core_db, sql)
    await made.begin()
    yield made
    await made.ledger.close()
    await sql.close()
    await core_db.stop()
    await db.stop()


@SCOPES
@pytest.mark.parametrize("value", [0, False, "", "ä\n", [], {}, 1.5, [{"a": [None, 1]}, "x"], {"b": {"a": 1}}])
async def test_a_value_is_loaded_as_it_was_saved(hosting: Hosting, scope: Any, value: Any) -> None:
    state = hosting.state()

    await state.save(scope, "k", "before")
    await state.save(scope, "k", value)

    assert await state.load(scope, "k") == value
    assert await hosting.state().load(scope, "k") == value


@SCOPES
async def test_what_is_not_there_or_was_removed_is_none(hosting: Hosting, scope: Any) -> None:
    state = hosting.state()
    await state.save(scope, "k", 1)

    await state.remove(scope, "k")
    await state.remove(scope, "never")

    assert (await state.load(scope, "k"), await state.load(scope, "never")) == (None, None)


async def test_a_task_has_values_of_its_own_and_a_conversation_shares_its_own(hosting: Hosting) -> None:
    first, second = hosting.state("first"), hosting.state("second")

    await first.save("task", "k", "mine")
    await first.save("session", "k", "ours")
    await first.save("session", "other", 1)

    assert [await second.load("task", "k"), await second.load("session", "k")] == [None, "ours"]
    assert [await first.load("task", "k"), await first.load("task", "other")] == ["mine", None]


@SCOPES
async def test_a_change_is_given_the_value_and_its_result_is_kept_and_returned(hosting: Hosting, scope: Any) -> None:
    state, seen = hosting.state(), list[JsonValue]()

    def change_to(value: JsonValue) -> Any:
        def change(before: JsonValue) -> JsonValue:
            seen.append(before)
            return value

        return change

    values: list[JsonValue] = [[1], {"a": 2}, None, 3]
    made = [await state.modify(scope, "k", change_to(value)) for value in values]

    assert made == values
    assert seen == [None, [1], {"a": 2}, None]
    assert await state.load(scope, "k") == 3


@SCOPES
async def test_a_change_that_fails_leaves_the_value_whatever_it_did_to_it(hosting: Hosting, scope: Any) -> None:
    state = hosting.state()
    await state.save(scope, "k", [1])

    def spoil(value: JsonValue) -> JsonValue:
        cast("list[int]", value).append(2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await state.modify(scope, "k", spoil)

    assert await state.load(scope, "k") == [1]


@SCOPES
async def test_no_change_is_lost_among_many_at_one_moment(hosting: Hosting, scope: Any) -> None:
    states = [hosting.state() for _ in range(2)]

    def count(value: JsonValue) -> JsonValue:
        return cast("int", value or 0) + 1

    made = await asyncio.gather(*(state.modify(scope, "k", count) for state in states for _ in range(10)))

    assert sorted(cast("list[int]", made)) == list(range(1, 21))
    assert await states[0].load(scope, "k") == 20


@SCOPES
async def test_only_saving_changes_what_is_kept(hosting: Hosting, scope: Any) -> None:
    """A skill that changes what it was given or gave, and forgets to save it, sees that in its tests."""
    state = hosting.state()
    given: list[JsonValue] = [1]

    await state.save(scope, "k", given)
    given.append("given")
    loaded = cast("list[JsonValue]", await state.load(scope, "k"))
    loaded.append("loaded")
    changed = cast("list[JsonValue]", await state.modify(scope, "k", lambda value: value))
    changed.append("changed")

    assert await state.load(scope, "k") == [1]


class Bank:
    """Counts what was charged, and fails as it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.failures, self.keys, self.asked = list(failures), list[str](), list[str]()

    async def charge(self, key: str) -> Json:
        """Charge, once the failures are over."""
        self.keys.append(key)
        if self.failures:
            raise self.failures.pop(0)
        return {"receipt": len(self.keys)}

    async def find_nothing(self, key: str) -> None:
        """Know nothing of it."""
        self.asked.append(key)

    async def find_it(self, key: str) -> Json:
        """Know of it."""
        self.asked.append(key)
        return {"receipt": 77}


async def interrupted(hosting: Hosting, failure: Exception | None = None) -> Bank:
    """Let a first attempt fail in the middle of the step "charge"."""
    bank = Bank(failure or RuntimeError("cut off"))
    with pytest.raises(Exception, match=r".*"):
        await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge)
    return bank


async def test_an_effect_happens_once_for_a_step_and_a_request(hosting: Hosting) -> None:
    bank, first = Bank(), await hosting.attempt()

    outcomes = [await first.once("charge", {"eur": 5, "to": "a"}, bank.charge) for _ in range(2)]
    second = await hosting.attempt()
    again = await second.once("charge", {"to": "a", "eur": 5}, bank.charge)
    others = [await second.once(step, {"eur": eur}, bank.charge) for step, eur in (("charge", 6), ("refund", 5))]

    assert [*outcomes, again] == [{"receipt": 1}] * 3
    assert others == [{"receipt": 2}, {"receipt": 3}]
    assert len(set(bank.keys)) == 3


async def test_an_empty_outcome_is_an_outcome(hosting: Hosting) -> None:
    calls: list[str] = []

    async def perform(key: str) -> Json:
        calls.append(key)
        return {}

    outcomes = [await (await hosting.attempt()).once("s", {}, perform) for _ in range(2)]

    assert (outcomes, len(calls)) == ([{}, {}], 1)


async def test_an_outcome_that_a_skill_changes_stays_as_it_was(hosting: Hosting) -> None:
    bank, effects = Bank(), await hosting.attempt()

    for _ in range(2):
        (await effects.once("charge", {}, bank.charge))["receipt"] = "torn"

    assert await (await hosting.attempt()).once("charge", {}, bank.charge) == {"receipt": 1}


@pytest.mark.parametrize("failure", [RuntimeError("cut off"), UpstreamUnavailable("the bank")])
async def test_after_a_failure_nobody_guesses(hosting: Hosting, failure: Exception) -> None:
    bank = await interrupted(hosting, failure)

    for _ in range(2):
        effects = await hosting.attempt()
        with pytest.raises(EffectUnknown) as caught:
            await effects.once("charge", {"eur": 5}, bank.charge)
        assert caught.value.step == "charge"

    assert len(bank.keys) == 1


async def test_what_the_other_side_refused_was_not_done(hosting: Hosting) -> None:
    bank = await interrupted(hosting, Conflict("no funds"))

    assert await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge) == {"receipt": 2}


async def test_what_the_other_side_finds_is_the_outcome(hosting: Hosting) -> None:
    bank = await interrupted(hosting)

    found = await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge, find=bank.find_it)
    later = await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge, find=bank.find_it)

    assert found == later == {"receipt": 77}
    assert bank.asked == bank.keys


async def test_what_the_other_side_does_not_find_is_performed_under_the_same_key(hosting: Hosting) -> None:
    bank = await interrupted(hosting)

    made = await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge, find=bank.find_nothing)
    later = await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge)

    assert made == later == {"receipt": 2}
    assert bank.keys == bank.asked * 2


async def test_what_may_be_repeated_is_performed_again_and_nobody_asked(hosting: Hosting) -> None:
    bank = await interrupted(hosting)

    made = await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge, find=bank.find_it, repeatable=True)

    assert (made, bank.asked, len(set(bank.keys))) == ({"receipt": 2}, [], 1)


async def test_what_was_taken_up_again_and_refused_was_not_done(hosting: Hosting) -> None:
    bank = await interrupted(hosting)
    bank.failures.append(Conflict("no funds"))
    with pytest.raises(Conflict):
        await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge, repeatable=True)

    assert await (await hosting.attempt()).once("charge", {"eur": 5}, bank.charge) == {"receipt": 3}


@pytest.mark.parametrize(("done", "outcome", "keys"), [(True, {"receipt": 9}, 1), (False, {"receipt": 2}, 2)])
async def test_a_person_settles_what_nobody_else_knows_and_nothing_that_is_known(
    hosting: Hosting, done: bool, outcome: Json, keys: int
) -> None:
    bank, other = await interrupted(hosting), Bank()
    await (await hosting.attempt()).once("charge", {"eur": 6}, other.charge)

    await hosting.answer(EffectAnswer(step="charge", done=done, outcome={"receipt": 9}))
    effects = await hosting.attempt()

    assert await effects.once("charge", {"eur": 5}, bank.charge) == outcome
    assert await effects.once("charge", {"eur": 6}, other.charge) == {"receipt": 1}
    assert len(bank.keys) == keys


@SCOPES
@pytest.mark.parametrize("hosting", ["server"], indirect=True)
async def test_a_turn_that_lost_its_task_keeps_nothing_even_where_its_lease_still_seemed_valid(
    hosting: Hosting, scope: Any
) -> None:
    late = hosting.state()
    for _ in range(2):
        await hosting.attempt()

    for change in (late.save(scope, "k", 1), late.modify(scope, "k", lambda _: 1), late.remove(scope, "k")):
        with pytest.raises(AttemptFenced):
            await change

    assert await hosting.state("second").load("session", "k") is None
