"""The lifecycle under every order of events: whatever is done to tasks, their history is a path of the lifecycle."""

import asyncio
import json
import os
from collections.abc import Awaitable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar
from uuid import UUID

import asyncpg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from dragoman.context import Caller
from dragoman.errors import Conflict, DragomanError, UpstreamUnavailable
from dragoman.infra.db import CORE_ROLE, Database
from dragoman.infra.ids import new_id
from dragoman.infra.telemetry import Metrics, SecurityEvents
from dragoman.services.audit.store import AuditStore
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tasks import shapes as m
from dragoman.services.tasks.access import Action, TaskAccess
from dragoman.services.tasks.actions.actors import Actors
from dragoman.services.tasks.actions.attempt import ActionDependencies, ActionLane
from dragoman.services.tasks.actions.errors import InputNeeded
from dragoman.services.tasks.actions.ports import Bound, Judgment, Phase, Route, Target
from dragoman.services.tasks.actions.service import DelegationService
from dragoman.services.tasks.actions.submission import Submissions
from dragoman.services.tasks.control import TaskControl
from dragoman.services.tasks.engine.effects import Ledger
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.notifier import TaskNotifier
from dragoman.services.tasks.engine.retries import RetryPolicy
from dragoman.services.tasks.engine.store import Durations, EngineStore
from dragoman.services.tasks.engine.store_effects import EffectStore
from dragoman.services.tasks.lifecycle import TERMINAL, TRANSITIONS, State
from dragoman.services.tasks.store import TaskStore
from dragoman.services.tasks.store_views import TaskViewStore
from dragoman.services.workers.protocol import Assignment, Capability, Performed
from tests.patience import PATIENCE_S
from tests.services.tasks.crew import Anything, NoGrants, caller_of
from tests.services.tasks.envelopes import envelope

T = TypeVar("T")
METRICS = Metrics()
# In the suite a few; by hand hundreds: LIFECYCLE_EXAMPLES=400 pytest tests/services/tasks/test_model.py
EXAMPLES = int(os.environ.get("LIFECYCLE_EXAMPLES", "12"))
APPROVAL = "01890a5d-ac96-774b-bcce-b302099a8057"
OUTCOMES = {
    "done": Performed({"done": True}),
    "refused": Conflict("not like this"),
    "nobody there": UpstreamUnavailable("the other side"),
    "a question": InputNeeded("which colour?", worker="puppet"),
}
STEPS = """
SELECT t.id, t.state, t.seq, t.attempt, d.run, d.canonical_id, q.task_id IS NOT NULL AS queued, q.worker,
       q.run_at <= now() AS due, q.fifo_key, coalesce(q.blocked, false) AS blocked,
       (SELECT jsonb_agg(e.body ORDER BY e.seq) FROM task_events e WHERE e.task_id = t.id) AS log
FROM tasks t JOIN delegations d ON d.task_id = t.id LEFT JOIN task_queue q ON q.task_id = t.id
WHERE t.tenant_id = $1 ORDER BY t.id"""


class Puppet:
    """A worker that does what it is told, when it is told; while it is deaf it does not hear that it was stopped."""

    name = "puppet"
    capabilities = (Capability("play.part", "Play a part", Anything, at_once=1000),)

    def __init__(self) -> None:
        self.waiting: dict[tuple[UUID, int], asyncio.Future[str]] = {}
        self.late: dict[tuple[UUID, int], asyncio.Future[str]] = {}
        self.deaf = False

    async def perform(self, assignment: Assignment) -> Performed:
        """Wait for a word."""
        place = assignment.task_id, assignment.attempt
        word = self.waiting[place] = asyncio.get_running_loop().create_future()
        try:
            outcome = OUTCOMES[await self._hear(word, place)]
        finally:
            self.waiting.pop(place, None)
        if isinstance(outcome, DragomanError):
            raise outcome
        return outcome

    async def _hear(self, word: asyncio.Future[str], place: tuple[UUID, int]) -> str:
        while True:
            try:
                return await asyncio.shield(word)
            except asyncio.CancelledError:
                if word.cancelled() or (place in self.waiting and not self.deaf):
                    raise
                self.late[place] = word
                self.waiting.pop(place, None)


class Deciding:
    """Routes everything to the puppet; what belongs to the matter `guarded` waits until the approval is decided."""

    def __init__(self, puppet: Puppet) -> None:
        self._route = Route(puppet, puppet.capabilities[0])
        self.decided = False

    async def find(self, caller: Caller, action: str) -> Route | None:
        """The puppet."""
        del caller, action
        return self._route

    async def judge(
        self, caller: Caller, envelope: Any, capability: Capability, *, acting: Any, task_id: Any, phase: Phase
    ) -> Judgment:
        """Wait, or go on."""
        del caller, capability, acting, task_id, phase
        waits = envelope.matter.id == "guarded" and not self.decided
        return Judgment({}, (APPROVAL,) if waits else ())

    async def bind(self, caller: Caller, target: Target) -> Bound:
        """Know nothing of it."""
        del caller, target
        return Bound()

    async def show(self, caller: Caller, target: Target, *, since: str | None) -> dict[str, Any]:
        """Show nothing of it."""
        del caller, target, since
        return {}


def _permits(caller: Caller, action: Action) -> bool:
    del caller, action
    return True


async def _is_revoked(caller: Caller) -> bool:
    del caller
    return False


class Lifecycle(RuleBasedStateMachine):
    """One process and one tenant; after every rule all that is due is under way."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._url = url
        self._frozen: dict[UUID, tuple[str, int]] = {}
        self._attempts: dict[UUID, int] = {}
        self._do(self._start())

    def _do(self, work: Awaitable[T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(PATIENCE_S):
                return await work

        return self._runner.run(bounded())

    async def _start(self) -> None:
        db, core_db = Database(self._url, size=4), Database(self._url, role=CORE_ROLE, size=6)
        self._dbs = db, core_db
        self._sql = await asyncpg.connect(self._url)
        for kind in ("json", "jsonb"):
            await self._sql.set_type_codec(kind, encoder=str, decoder=json.loads, schema="pg_catalog")
        self.puppet = Puppet()
        self.deciding = deciding = Deciding(self.puppet)
        retries, actors = RetryPolicy(3, 0.001, 0.001), Actors(NoGrants())
        trail = AuditTrail(AuditStore(core_db), core_db, mac_key=b"k" * 32, new_id=new_id, wake=lambda: None)
        lease = timedelta(hours=1)
        store, effects = EngineStore(core_db, trail, Durations(lease=lease)), EffectStore(core_db, lease=lease)
        self._worker = new_id()
        self.engine = engine = Engine(
            store, TaskNotifier(), METRICS.tasks, owner=self._worker, heartbeat_s=0.02, begin_s=0
        )
        access = TaskAccess(_permits, is_revoked=_is_revoked, find_operation={}.get, security=SecurityEvents(METRICS))
        engine.serve(
            ActionLane(
                engine,
                ActionDependencies(
                    actors, deciding, deciding, deciding, Ledger(effects), access, trail, retries, new_id
                ),
            )
        )
        views = TaskViewStore(db)
        submissions = Submissions(
            engine,
            views,
            actors=actors,
            registry=deciding,
            governance=deciding,
            resources=deciding,
            access=access,
            trail=trail,
            retries=retries,
            new_id=new_id,
        )
        self.service = DelegationService(
            submissions,
            views=views,
            tasks=TaskStore(db),
            access=access,
        )
        self.control = TaskControl(
            engine,
            store,
            effects,
            self.service.views,
            db=core_db,
            actors=actors,
            registry=deciding,
            governance=deciding,
            trail=trail,
            retries=retries,
            new_id=new_id,
        )
        self.caller = caller_of(subject="admin")
        self._jobs = [asyncio.create_task(engine.claim_forever()), asyncio.create_task(engine.renew_forever())]

    def teardown(self) -> None:
        """Let go of everything."""

        async def stop() -> None:
            for job in self._jobs:
                job.cancel()
            self.puppet.deaf = False
            for word in self.puppet.late.values():
                word.cancel()
            await asyncio.gather(*self._jobs, return_exceptions=True)
            await self.engine.stop()
            await self._sql.execute("DELETE FROM task_queue")  # else the next example takes over what this one leaves
            await self._sql.close()
            for db in self._dbs:
                await db.stop()

        self._do(stop())
        self._runner.close()

    def _rows(self) -> list[Any]:
        return self._do(self._sql.fetch(STEPS, self.caller.tenant))

    def _settle(self) -> list[Any]:
        """Until all that is due is in the puppet's hands."""

        async def settled() -> list[Any]:
            while True:
                rows = await self._sql.fetch(STEPS, self.caller.tenant)
                held = {(row["canonical_id"], row["attempt"]) for row in rows if row["worker"] == self._worker}
                waits = [row for row in rows if row["state"] == "queued" and not row["blocked"]]
                left = waits + [row for row in rows if row["worker"] not in (None, self._worker)]
                if held == set(self.puppet.waiting) and not left:
                    return rows
                self.engine.poke()
                await asyncio.sleep(0.005)

        return self._do(settled())

    def _pick(self, place: int) -> str | None:
        rows = self._rows()
        return str(rows[place % len(rows)]["canonical_id"]) if rows else None

    def _try(self, work: Awaitable[Any]) -> None:
        """What the lifecycle does not allow is refused, and nothing else is."""
        with suppress(Conflict):
            self._do(work)
        self._settle()

    @rule(
        guarded=st.booleans(),
        dry_run=st.sampled_from([False, False, False, True]),
        queue_key=st.sampled_from([None, "a", "b"]),
        late=st.booleans(),
    )
    def submit(self, *, guarded: bool, dry_run: bool, queue_key: str | None, late: bool) -> None:
        """A new one; handing it over again changes nothing."""
        deadline = (datetime.now(UTC) + timedelta(days=1)).isoformat() if late else None
        given = envelope(
            "play.part",
            matter={"id": "guarded" if guarded else "open"},
            request={"dry_run": dry_run, "queue_key": queue_key, "deadline": deadline},
        )
        asked = m.SubmitTask.model_validate({"envelope": given})
        first = self._do(self.service.submit(self.caller, asked))
        again = self._do(self.service.submit(self.caller, asked))
        assert dry_run or (first.task_id, True) == (again.task_id, again.replayed)
        self._settle()

    @rule(place=st.integers(0, 20), outcome=st.sampled_from(sorted(OUTCOMES)))
    def finish(self, place: int, outcome: str) -> None:
        """The worker ends an attempt."""
        if waiting := sorted(self.puppet.waiting):
            self.puppet.waiting[waiting[place % len(waiting)]].set_result(outcome)
            self._do(asyncio.sleep(0))
            self._settle()

    @rule(place=st.integers(0, 20), outcome=st.sampled_from(sorted(OUTCOMES)))
    def finish_late(self, place: int, outcome: str) -> None:
        """The worker ends an attempt that is no longer the task's."""
        if late := sorted(self.puppet.late):
            self.puppet.late.pop(late[place % len(late)]).set_result(outcome)
            self._settle()

    @rule(place=st.integers(0, 20), deaf=st.booleans())
    def lose(self, place: int, *, deaf: bool) -> None:
        """The lease was another's, and ran out: the task is taken over, even by whom had it before."""
        self.puppet.deaf = deaf
        if waiting := sorted(self.puppet.waiting):
            canonical, attempt = waiting[place % len(waiting)]
            lapse = """
            UPDATE task_queue q SET worker = $3, lease_until = now() - interval '1 s' FROM delegations d, tasks t
            WHERE d.canonical_id = $1 AND d.task_id = q.task_id AND t.id = q.task_id AND t.attempt = $2"""
            self._do(self._sql.execute(lapse, canonical, attempt, new_id()))
            self._settle()

    @rule(place=st.integers(0, 20), deaf=st.booleans())
    def cancel(self, place: int, *, deaf: bool) -> None:
        """Somebody ends it."""
        self.puppet.deaf = deaf
        if ref := self._pick(place):
            self._try(self.control.cancel(self.caller, m.CancelTask(task_id=ref, reason=None)))

    @rule(place=st.integers(0, 20))
    def retry(self, place: int) -> None:
        """Somebody tries it again."""
        if ref := self._pick(place):
            self._try(self.control.retry(self.caller, m.RetryTask(task_id=ref, reason=None)))

    @rule(place=st.integers(0, 20))
    def answer(self, place: int) -> None:
        """Somebody answers what it asked."""
        if ref := self._pick(place):
            said = m.ProvideInput(task_id=ref, input={"answer": "red"}, effect=None)
            self._try(self.control.provide_input(self.caller, said))

    @rule(place=st.integers(0, 20), to=st.sampled_from(State))
    def transition(self, place: int, to: State) -> None:
        """Somebody moves it by hand."""
        if ref := self._pick(place):
            self._try(self._moved(m.TransitionTask(task_id=ref, to=to, reason=None, result=None)))

    async def _moved(self, move: m.TransitionTask) -> None:
        await self.control.transition(self.caller, await self.control.check_move(self.caller, move))

    @rule()
    def decide(self) -> None:
        """The approval is decided: whoever waited goes on."""
        self.deciding.decided = True
        self._do(self.control.approval_decided(self.caller.tenant, APPROVAL))
        self._settle()
        self.deciding.decided = False

    @invariant()
    def every_history_is_a_path_of_the_lifecycle(self) -> None:
        """And the row of each task says what its log says."""
        for row in self._rows():
            log: list[Any] = row["log"]
            steps = [body for body in log if body["kind"] == "status"]
            assert len(log) == row["seq"]
            assert steps[-1]["to"] == row["state"]
            for before, after in pairwise(steps):
                taken_over = after["from"] == after["to"] == "in_progress"
                assert after["from"] == before["to"]
                assert taken_over or State(after["to"]) in TRANSITIONS[State(after["from"])]
                if after["to"] != "in_progress" and "attempt" in after:  # only who has a task says what came of it
                    assert after["attempt"] == before["attempt"]
            attempts = [body["attempt"] for body in steps if body["to"] == "in_progress" and "attempt" in body]
            assert attempts == [*range(row["attempt"] - len(attempts) + 1, row["attempt"] + 1)]
            if row["state"] != State.INPUT_REQUIRED:  # one with a deadline is queued, to be ended in time
                assert row["queued"] is (State(row["state"]) not in TERMINAL)
            assert row["attempt"] >= self._attempts.get(row["id"], 0)
            self._attempts[row["id"]] = row["attempt"]
            if State(row["state"]) in TERMINAL:
                stands = row["state"], len(steps)
                assert self._frozen.setdefault(row["id"], stands) == stands

    @invariant()
    def tasks_of_one_key_run_one_after_another(self) -> None:
        """One of each key has the place, and those that wait for a person do not."""
        rows = [row for row in self._rows() if row["fifo_key"] is not None]
        for key in {row["fifo_key"] for row in rows}:
            assert [row["blocked"] for row in rows if row["fifo_key"] == key].count(False) == 1
        assert not [row for row in rows if row["state"] == State.INPUT_REQUIRED]


def test_whatever_is_done_to_tasks_their_history_is_a_path_of_the_lifecycle(url: str) -> None:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    checked = settings(max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=slow)

    class Here(Lifecycle):
        def __init__(self) -> None:
            super().__init__(url)

    run_state_machine_as_test(Here, settings=checked)
