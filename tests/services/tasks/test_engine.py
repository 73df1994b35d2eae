"""The engine when answers of its database are lost, slow or skipped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import Context
from datetime import timedelta
from uuid import UUID, uuid4

import orjson
import pytest

from dragoman.errors import UpstreamUnavailable
from dragoman.infra.db import CORE_ROLE, Database, Scope
from dragoman.infra.telemetry import Metrics
from dragoman.services.tasks import events
from dragoman.services.tasks.engine.attempt import Attempt
from dragoman.services.tasks.engine.effects import Ledger, TaskEffects
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.engine.notifier import TaskNotifier
from dragoman.services.tasks.engine.steps import Birth, LaneName, Queue, Step, Written
from dragoman.services.tasks.engine.store import Claim, Durations, EngineStore
from dragoman.services.tasks.engine.store_effects import EffectStore, Entered, Intent
from dragoman.services.tasks.events import Loggable
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.turns.event_buffer import EventBuffer
from tests.infra.databases import superuser
from tests.patience import PATIENCE_S
from tests.services.tasks.crew import caller_of
from tests.services.tasks.test_store import trail_of

pytestmark = pytest.mark.anyio
METRICS = Metrics()


@pytest.fixture
async def db(url: str) -> AsyncIterator[Database]:
    opened = Database(url, role=CORE_ROLE, size=4)
    yield opened
    await opened.stop()


class ForgetfulStore(EngineStore):
    """Writes what it is asked to; the answers to some writes are lost on their way."""

    lost = 0

    async def step(self, steps: Sequence[Step]) -> tuple[list[Written | None], list[UUID]]:
        """Write steps, and perhaps not tell."""
        written = await super().step(steps)
        if self.lost:
            self.lost -= 1
            raise UpstreamUnavailable("postgresql", retry_after_s=1)
        return written


class Turnstile(Attempt):
    """An attempt that waits until it is let through."""

    lane = LaneName.TURN

    def __init__(self, task: Task, lease: Lease) -> None:
        super().__init__(task, lease)
        self.open = asyncio.Event()
        self.written = asyncio.Event()

    @property
    def stored(self) -> bool:
        """It is."""
        return True

    async def perform(self) -> Step:
        """Wait, then succeed."""
        await self.open.wait()
        event = events.StatusEvent(State.IN_PROGRESS, State.SUCCEEDED, attempt=self.lease.attempt)
        return Step.of(self.lease, self.task.tenant_id, [event], queue=Queue.END)

    def unstorable(self) -> Step:
        """Never needed here."""
        raise AssertionError

    def report(self, events: Sequence[Loggable]) -> Step:
        """Say something."""
        return Step.of(self.lease, self.task.tenant_id, events)

    async def after_parking(self) -> None:
        """Never needed here."""

    def finished(self, outcome: Step | Birth | None, *, seq: int) -> None:
        """Say that it is written."""
        del outcome, seq
        self.written.set()


class Lane:
    """A lane of turnstiles."""

    name = LaneName.TURN

    def __init__(self) -> None:
        self.taken: dict[UUID, Turnstile] = {}

    def crowded(self) -> Sequence[tuple[UUID | None, str]]:
        """Return nothing: there is room."""
        return ()

    def take(self, claim: Claim, lease: Lease) -> Turnstile:
        """Take it."""
        attempt = Turnstile(claim.task, lease)
        attempt.opening = events.opened(claim.task.state, lease.attempt, last=claim.task.attempt)
        self.taken[attempt.task.id] = attempt
        return attempt


def engine_on(store: EngineStore) -> Engine:
    """An engine whose attempts do not say by themselves that they have begun."""
    return Engine(store, TaskNotifier(), METRICS.tasks, owner=uuid4(), heartbeat_s=0.02, begin_s=3600)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of the engine's own state, which sets no event
            await asyncio.sleep(0.01)


def queued(tenant: UUID) -> Birth:
    born = [*events.accepted(), events.StatusEvent(State.VALIDATED, State.QUEUED)]
    return Birth(
        tenant=tenant, id=uuid4(), context_id=str(uuid4()), owner="ada", caller={}, state="queued", events=list(born),
        attempt=0, queue=True,
    )  # fmt: skip


async def claimed(engine: Engine, lane: Lane, store: EngineStore, *births: Birth) -> list[Turnstile]:
    engine.serve(lane)
    await store.add_turns(births)
    jobs = asyncio.create_task(engine.claim_forever())
    await until(lambda: all(birth.id in lane.taken for birth in births))
    jobs.cancel()
    return [lane.taken[birth.id] for birth in births]


async def test_an_outcome_that_waits_to_be_written_takes_no_lease_from_others(db: Database) -> None:
    """Its lease has lapsed long ago, and the renewal of the others is not cut short for it."""
    store = EngineStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, tenant = engine_on(store), caller_of().tenant
    over, working = await claimed(engine, Lane(), store, queued(tenant), queued(tenant))
    over.over, over.lease.until = True, 0.0
    before = working.lease.until

    renewing = asyncio.create_task(engine.renew_forever())
    await until(lambda: working.lease.until > before)
    renewing.cancel()

    assert working.lease.valid
    assert not working.work.done()
    await engine.stop()


async def test_a_lease_whose_row_is_being_changed_does_not_count_as_renewed(db: Database) -> None:
    store = EngineStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, tenant = engine_on(store), caller_of().tenant
    locked, free = await claimed(engine, Lane(), store, queued(tenant), queued(tenant))

    async with db.unit(Scope()):
        await db.fetch(Scope(), "SELECT FROM task_queue WHERE task_id = $1 FOR UPDATE", locked.task.id)
        renewed = await asyncio.create_task(
            store.heartbeat(engine.owner, [locked.task.id, free.task.id]), context=Context()
        )
    again = await store.heartbeat(engine.owner, [locked.task.id])

    assert renewed == {locked.task.id: False, free.task.id: True}
    assert again == {locked.task.id: True}
    await engine.stop()


async def test_an_opening_whose_answer_was_lost_does_not_cost_the_result(url: str, db: Database) -> None:
    store = ForgetfulStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, tenant = engine_on(store), caller_of().tenant
    (attempt,) = await claimed(engine, Lane(), store, queued(tenant))
    store.lost = 1
    with pytest.raises(UpstreamUnavailable):
        await engine.report(attempt, [])

    attempt.open.set()
    async with asyncio.timeout(PATIENCE_S):
        await attempt.written.wait()

    steps = "SELECT body->>'to' AS to FROM task_events WHERE task_id = $1 ORDER BY seq"
    log = await superuser(url, steps, attempt.task.id)
    assert [row["to"] for row in log] == ["requested", "validated", "queued", "in_progress", "succeeded"]
    await engine.stop()


async def test_an_attempt_that_was_lost_before_it_wrote_anything_is_in_the_log(url: str, db: Database) -> None:
    """Its process died in the moment after the claim: the attempt that takes the task over says so."""
    dying = EngineStore(db, trail_of(db), Durations(lease=timedelta()))
    store = EngineStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, lane, birth = engine_on(store), Lane(), queued(caller_of().tenant)
    await store.add_turns([birth])
    await dying.claim(uuid4(), LaneName.TURN, 100, left=False)
    await dying.claim(uuid4(), LaneName.TURN, 100, left=True)

    engine.serve(lane)
    claiming = asyncio.create_task(engine.claim_forever())
    await until(lambda: birth.id in lane.taken)
    claiming.cancel()
    lane.taken[birth.id].open.set()
    async with asyncio.timeout(PATIENCE_S):
        await lane.taken[birth.id].written.wait()

    steps = "SELECT body FROM task_events WHERE task_id = $1 ORDER BY seq OFFSET 3"
    log = [events.decode(orjson.loads(row["body"])) for row in await superuser(url, steps, birth.id)]
    assert log == [
        events.StatusEvent(State.QUEUED, State.IN_PROGRESS, attempt=1),
        events.StatusEvent(State.IN_PROGRESS, State.IN_PROGRESS, attempt=2),
        events.StatusEvent(State.IN_PROGRESS, State.IN_PROGRESS, attempt=3, reason=events.TAKEN_OVER),
        events.StatusEvent(State.IN_PROGRESS, State.SUCCEEDED, attempt=3),
    ]
    await engine.stop()


async def test_what_was_not_begun_is_given_back_without_counting(url: str, db: Database) -> None:
    store = EngineStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, tenant = engine_on(store), caller_of().tenant
    (attempt,) = await claimed(engine, Lane(), store, queued(tenant))

    await engine.stop()
    await engine.release()

    (row,) = await superuser(url, "SELECT worker, attempt FROM task_queue WHERE task_id = $1", attempt.task.id)
    assert (row["worker"], row["attempt"]) == (None, 0)


async def test_events_held_when_a_turn_ends_are_written_with_its_end() -> None:
    """A write is under way and another waits behind it, with what was reported since."""
    written, go = list[Loggable](), asyncio.Event()

    async def write(reported: list[Loggable]) -> None:
        await go.wait()
        written.extend(reported)

    buffer = EventBuffer(write)
    buffer.hold(events.ProgressEvent("one", None))
    first = asyncio.create_task(buffer.flush())
    await asyncio.sleep(0)
    buffer.hold(events.ProgressEvent("two", None))
    second = asyncio.create_task(buffer.flush())
    await asyncio.sleep(0)

    buffer.close()
    taking = asyncio.create_task(buffer.take())
    go.set()
    left = await taking
    await asyncio.gather(first, second)

    assert (len(written), len(left)) == (1, 1)


class ForgetfulEffects(EffectStore):
    """Writes an intent, and loses the answer."""

    lost = 1

    async def intend(self, intents: Sequence[Intent]) -> list[Entered | None]:
        """Write it down, and perhaps not tell."""
        entered = await super().intend(intents)
        if self.lost:
            self.lost -= 1
            raise UpstreamUnavailable("postgresql", retry_after_s=1)
        return entered


async def test_an_intent_whose_answer_was_lost_is_withdrawn_and_nobody_is_asked(db: Database) -> None:
    store = EngineStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, tenant = engine_on(store), caller_of().tenant
    (attempt,) = await claimed(engine, Lane(), store, queued(tenant))
    effects = TaskEffects(
        Ledger(ForgetfulEffects(db, lease=timedelta(minutes=5))), attempt.lease, tenant, attempt.task.id, 60.0
    )
    performed = list[str]()

    async def perform(key: str) -> dict[str, str]:
        performed.append(key)
        return {"done": "yes"}

    with pytest.raises(UpstreamUnavailable):
        await effects.once("pay", {}, perform)
    outcome = await effects.once("pay", {}, perform)

    assert (outcome, len(performed)) == ({"done": "yes"}, 1)
    await engine.stop()


async def test_a_cancelled_effect_may_go_on_in_a_thread_until_its_time_is_over(url: str, db: Database) -> None:
    store = EngineStore(db, trail_of(db), Durations(lease=timedelta(minutes=5)))
    engine, tenant = engine_on(store), caller_of().tenant
    (attempt,) = await claimed(engine, Lane(), store, queued(tenant))
    ledger = Ledger(EffectStore(db, lease=timedelta(minutes=5)))
    effects = TaskEffects(ledger, attempt.lease, tenant, attempt.task.id, 3600.0)
    begun = asyncio.Event()

    async def perform(_: str) -> dict[str, str]:
        begun.set()
        await asyncio.Event().wait()
        return {}

    paying = asyncio.create_task(effects.once("pay", {}, perform))
    await begun.wait()
    paying.cancel()
    await asyncio.wait({paying})
    await ledger.close()

    open_still = "SELECT may_act_until > now() AS open FROM effects WHERE canonical_id = $1"
    assert [row["open"] for row in await superuser(url, open_still, attempt.task.id)] == [True]
    await engine.stop()
