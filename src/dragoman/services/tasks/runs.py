"""The work that this process has in hand: started, watched, stored, cancelled, handed over.

Work begins in memory. What ends within a moment is written once, with its whole history; what reports, asks, lasts, or
is not waited for is stored first and leased to this process, so that another can take it over.
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import structlog

from dragoman.context import Caller, PrincipalType, Role, TenantId
from dragoman.errors import DragomanError, Internal, RateLimited, Unauthenticated
from dragoman.infra.deadlines import Deadline, Deadlines
from dragoman.infra.telemetry import TaskMetrics
from dragoman.services.tasks.drafts import TAKEN_OVER
from dragoman.services.tasks.errors import TaskTimedOut
from dragoman.services.tasks.hub import Hub
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Event, Json, Task
from dragoman.services.tasks.outbox import Outbox
from dragoman.services.tasks.store import Birth, Change, CoreStore
from dragoman.services.tasks.store_keys import KeyClaim, KeyStore
from dragoman.services.tasks.work import Executor, Job, Outcome
from dragoman.services.tasks.writer import TaskWriter

_LOG = structlog.get_logger(__name__)
_CLAIM = 50
# Counting reads the whole queue, so it is done less often than the rest.
_BEATS_A_COUNT = 4


@dataclass(frozen=True, slots=True)
class Desk:
    """What every run needs."""

    worker: UUID
    core: CoreStore
    writer: TaskWriter
    keys: KeyStore
    hub: Hub
    executor: Executor
    metrics: TaskMetrics
    deadlines: Deadlines
    new_id: Callable[[], UUID]


class Run:
    """One attempt at one task."""

    def __init__(  # noqa: PLR0913 - what a run begins with, each by its name
        self,
        desk: Desk,
        task: Task,
        caller: Caller,
        message: Json,
        *,
        stored: bool,
        fresh: bool,
        replies: bool,
        claim: KeyClaim | None,
        outcome: Outcome | None,
    ) -> None:
        self._desk = desk
        self._known_outcome = outcome
        self.task = task
        self._caller = caller
        self._message = message
        self._stored = stored
        self.stored_seq = task.seq
        self._fresh = fresh
        self._replies = replies
        self._claim = claim
        self.reply: Json | None = None
        self._started_s = task.started_at.timestamp() if task.started_at is not None else time.time()
        self._storing = asyncio.Lock()
        self._known = asyncio.Event()
        self._cancellation = asyncio.Event()
        self._outbox = Outbox(self._write)
        self.work = asyncio.create_task(self._go())

    async def store(self) -> None:
        """Make the task durable as it stands; nothing when it is already."""
        async with self._storing:
            if self._stored:
                return
            task = self.task
            events = [*_begun(task), *await self._outbox.take()]
            await self._desk.writer.add(_birth(task, events, worker=self._desk.worker, claim=self._claim))
            task.seq, self._stored = len(events), True
            self.stored_seq = task.seq
        self._known.set()
        self._desk.hub.happened(task.id)

    def cancel(self) -> None:
        """Stop: someone has ended the task. The work may take a moment to call off what it began elsewhere."""
        if not self._cancellation.is_set():
            self._cancellation.set()
            self.work.cancel()

    async def ended(self, within_s: float | None) -> bool:
        """Wait for the work to end, but not for longer; whether it has."""
        # What asyncio.wait does, for one task: every message waits here.
        if not self.work.done():
            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def wake(_: object = None) -> None:
                if not waiter.done():
                    waiter.set_result(None)

            timer = loop.call_later(within_s, wake) if within_s is not None else None
            self.work.add_done_callback(wake)
            try:
                await waiter
            finally:
                self.work.remove_done_callback(wake)
                if timer is not None:
                    timer.cancel()
        return self.work.done()

    async def first_sign(self, within_s: float) -> None:
        """Wait until the work has ended or the task was stored, but not for longer."""
        known = asyncio.create_task(self._known.wait())
        await asyncio.wait({self.work, known}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        known.cancel()

    def as_born(self) -> Task:
        """The task as it is right after its birth: what happened later follows from its `seq`."""
        return replace(self.task, seq=len(_begun(self.task)))

    async def _go(self) -> None:
        task = self.task
        job = Job(
            caller=self._caller,
            task_id=task.id,
            context_id=task.context_id,
            skill=task.skill,
            message=self._message,
            slot=task.slot,
            resumed=task.slot is not None,
            attempt=task.attempt,
            report=self._report,
            note=self._note,
            store=self.store,
            fresh=self._fresh,
            cancellation=self._cancellation,
        )
        if task.alias is not None or self._claim is not None:
            await self.store()  # the one who loses the race for an id or a key must not have done anything
        try:
            outcome = self._known_outcome or await self._do(job)
        finally:
            self._outbox.close()
        if outcome.refused:
            await self._release_key()
        await self._settle(outcome)
        took_s = time.time() - self._started_s
        self._desk.metrics.turned(task.skill, outcome.state.value, took_s, (outcome.error or {}).get("code"))

    async def _do(self, job: Job) -> Outcome:
        executor, deadline = self._desk.executor, self._begin_deadline()
        try:
            return await executor.execute(job)
        except (RateLimited, Unauthenticated) as error:
            # Not about the task but about who asks: as long as nothing is stored, there is no task to fail.
            if not self._stored:
                raise
            return failed(error, skill=executor.skill_of(job), refused=True)
        except DragomanError as error:
            return failed(error, skill=executor.skill_of(job), refused=True)
        except asyncio.CancelledError:
            if not deadline.caught():
                raise
            _LOG.warning("tasks.timed_out", task_id=str(job.task_id), skill=executor.skill_of(job))
            return failed(TaskTimedOut(after_s=self._desk.deadlines.after_s), skill=executor.skill_of(job))
        except Exception:  # noqa: BLE001 - a worker loop: whatever happens, the task ends
            _LOG.exception("tasks.work_failed", task_id=str(job.task_id), skill=executor.skill_of(job))
            return failed(Internal(), skill=executor.skill_of(job))
        finally:
            deadline.lift()

    async def _release_key(self) -> None:
        """Only a task that was accepted consumes the key of the message that began it."""
        task, key = self.task, self._message.get("key")
        if key is not None and self._desk.executor.keepable(self._message) == task.history[0]:
            await self._desk.keys.release(task.tenant_id, self._caller.subject, key, task.id)

    def _begin_deadline(self) -> Deadline:
        """How long this turn may go on; its time did not stand still while nobody ran it."""
        if self.task.started_at is None:
            return self._desk.deadlines.begin()
        return Deadlines(self._desk.deadlines.after_s - (time.time() - self._started_s)).begin()

    async def _report(self, event: Json, *, linger: bool = False) -> None:
        await self.store()
        self._outbox.hold(event)
        await (self._outbox.linger() if linger else self._outbox.flush())

    async def _note(self, event: Json) -> None:
        self._outbox.hold(event)
        if self._stored:
            await self._outbox.linger()

    async def _write(self, events: list[Event]) -> None:
        task = self.task
        seq = await self._desk.writer.change(Change(task.tenant_id, task.id, events, attempt=task.attempt))
        if seq is None:  # cancelled or taken over: the task is no longer ours
            queued, _ = await self._desk.core.find_worker(task.id)
            (self.work.cancel if queued else self.cancel)()
            return
        task.seq = seq
        self._desk.hub.happened(task.id)

    async def _settle(self, outcome: Outcome) -> None:
        task = self.task
        message = said_by_agent(self._desk.new_id, outcome.message) if outcome.message else None
        # What was made is final only when the work is complete.
        artifacts = outcome.artifacts if outcome.state is State.SUCCEEDED else []
        events: list[Event] = [
            {"kind": "artifact", "artifact": made, "last": True}
            for made in artifacts
            if made["id"] not in outcome.shown
        ]
        events.append(status_event(task, outcome.state, message=message, error=outcome.error, auth=outcome.auth))
        now = datetime.now(UTC)
        task.once += outcome.once
        async with self._storing:
            events = [*await self._outbox.take(), *events]
            if outcome.reply and self._replies and not self._stored:
                self.reply = message
                return
            if self._stored:
                change = Change(
                    task.tenant_id,
                    task.id,
                    events,
                    attempt=task.attempt,
                    state=outcome.state.value,
                    skill=outcome.skill,
                    message=message,
                    error=outcome.error,
                    slot=outcome.slot,
                    history=[message] if message else [],
                    artifacts=artifacts or None,
                    status_at=now,
                )
                seq = await self._desk.writer.change(change)
                if seq is None:
                    _LOG.warning("tasks.late", task_id=str(task.id), attempt=task.attempt, wanted=outcome.state.value)
                    return
                task.seq = seq
            begun = _begun(task)
            task.state, task.message, task.error, task.slot = outcome.state, message, outcome.error, outcome.slot
            task.skill, task.status_at = outcome.skill or task.skill, now
            task.artifacts = artifacts or task.artifacts
            if message:
                task.history = [*task.history, message]
            if not self._stored:
                await self._desk.writer.add(_birth(task, begun + events))
                task.seq, self._stored = len(begun) + len(events), True
                self._desk.hub.wake(task.id)  # nobody could know of it before, but one may have asked to be told
                return
        self._desk.hub.happened(task.id)


class Runs:
    """The runs of this process, and those it takes over from a dead one."""

    def __init__(self, desk: Desk, *, max_attempts: int, takes_over: bool = True, beat_s: float = 1.0) -> None:
        self._desk = desk
        self._max_attempts = max_attempts
        self._takes_over = takes_over
        self._beat_s = beat_s
        self._running: dict[UUID, Run] = {}

    def start(
        self,
        task: Task,
        caller: Caller,
        message: Json,
        *,
        stored: bool,
        fresh: bool = False,
        replies: bool = False,
        claim: KeyClaim | None = None,
        outcome: Outcome | None = None,
    ) -> Run:
        """Begin the work; a stored task is leased to this process already. With `replies` it may end without a task.

        Where the `outcome` is known already there is no work, and the task tells of it.
        """
        run = Run(
            self._desk, task, caller, message, stored=stored, fresh=fresh, replies=replies, claim=claim, outcome=outcome
        )
        self._running[task.id] = run
        run.work.add_done_callback(lambda _: self._ended(run))
        return run

    def _ended(self, run: Run) -> None:
        self._running.pop(run.task.id, None)
        if not run.work.cancelled():
            run.work.exception()  # seen: whoever waits is told of it, and nobody waits for all

    def find(self, task_id: UUID) -> Run | None:
        """The run of a task, when it runs here."""
        return self._running.get(task_id)

    async def look_at(self, task_id: UUID) -> None:
        """Another process changed a task: if it runs here and was ended or taken over there, stop."""
        run = self._running.get(task_id)
        if run is None:
            return
        queued, worker = await self._desk.core.find_worker(task_id)
        if not queued:
            run.cancel()
        elif worker != self._desk.worker:
            run.work.cancel()

    async def beat(self) -> None:
        """Keep the leases, and look for work that is due or was left; runs until it is cancelled."""
        for beat in itertools.count():
            try:
                await self._desk.core.heartbeat(self._desk.worker, list(self._running))
                if self._takes_over:
                    for task in await self._desk.core.claim(self._desk.worker, _CLAIM):
                        await self._take_over(task)
                if beat % _BEATS_A_COUNT == 0:
                    due, running, left = await self._desk.core.depth()
                    self._desk.metrics.queued(due=due, running=running, left=left)
                if followed := self._desk.hub.followed():
                    self._desk.hub.swept(await self._desk.core.seqs(followed))
            except DragomanError as error:
                _LOG.warning("tasks.beat_failed", reason=error.message)
            await asyncio.sleep(self._beat_s)

    async def stop(self) -> None:
        """Stop what runs here and give it back, for others to take at once."""
        running = [run.work for run in self._running.values()]
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._desk.writer.close()
        await self._desk.core.release(self._desk.worker)

    async def _take_over(self, task: Task) -> None:
        dead = task.attempt > self._max_attempts
        to = State.DEAD_LETTER if dead else State.IN_PROGRESS
        error: Json = {"code": Internal.code, "message": f"given up after {self._max_attempts} attempts", "details": {}}
        event = status_event(task, to, error=error if dead else None, reason=TAKEN_OVER)
        change = Change(
            task.tenant_id, task.id, [event], attempt=task.attempt, state=to.value, error=error if dead else None,
            slot=task.slot, worker=None if dead else self._desk.worker,
        )  # fmt: skip
        if await self._desk.writer.change(change) is None or dead:
            self._desk.hub.happened(task.id)
            return
        _LOG.warning("tasks.taken_over", task_id=str(task.id), attempt=task.attempt)
        task.state = to
        last = next((said for said in reversed(task.history) if said["role"] == "user"), task.history[0])
        self.start(task, caller_of(task), last, stored=True)


def status_event(
    task: Task,
    to: State,
    *,
    message: Json | None = None,
    error: Json | None = None,
    reason: str | None = None,
    auth: bool = False,
) -> Json:
    """A step of the lifecycle, for the log."""
    event = {"kind": "status", "from": task.state.value, "to": to.value, "attempt": task.attempt, "message": message,
             "error": error, "reason": reason, "auth": auth or None}  # fmt: skip
    return {name: value for name, value in event.items() if value is not None}


def _begun(task: Task) -> list[Event]:
    """How every task begins."""
    return [
        {"kind": "status", "to": "requested"},
        {"kind": "status", "from": "requested", "to": "validated"},
        {"kind": "status", "from": "validated", "to": "in_progress", "attempt": task.attempt},
    ]


def _birth(task: Task, events: list[Event], *, worker: UUID | None = None, claim: KeyClaim | None = None) -> Birth:
    return Birth(
        tenant=task.tenant_id,
        id=task.id,
        alias=task.alias,
        context_id=task.context_id,
        owner=task.owner,
        caller=task.caller,
        skill=task.skill,
        state=task.state.value,
        status_at=task.status_at,
        message=task.message,
        error=task.error,
        slot=task.slot,
        history=task.history,
        artifacts=task.artifacts,
        metadata=task.metadata,
        events=events,
        worker=worker,
        claim=claim,
    )


def failed(error: DragomanError, *, skill: str | None = None, refused: bool = False) -> Outcome:
    """A failed task, with what may be told of the reason."""
    shown = {"code": error.code, "message": error.message, "details": error.details}
    return Outcome(State.FAILED, skill, message=[{"kind": "text", "text": error.message}], error=shown, refused=refused)


def said_by_agent(new_id: Callable[[], UUID], parts: list[Json]) -> Json:
    """A message of the agent."""
    return {"id": str(new_id()), "role": "agent", "parts": parts}


def caller_json(caller: Caller) -> Json:
    """Who asked, to be kept with the task."""
    return {
        "tenant_slug": caller.tenant_slug,
        "subject": caller.subject,
        "type": caller.type.value,
        "roles": sorted(role.value for role in caller.roles),
        "scopes": sorted(caller.scopes) if caller.scopes is not None else None,
        "credential": caller.credential,
        "issued_at": caller.issued_at,
        "plan": caller.plan,
    }


def caller_of(task: Task) -> Caller:
    """Who asked, for whoever takes the task over."""
    kept = task.caller
    return Caller(
        tenant=TenantId(task.tenant_id),
        tenant_slug=kept["tenant_slug"],
        subject=kept["subject"],
        type=PrincipalType(kept["type"]),
        roles=frozenset(Role(role) for role in kept["roles"]),
        scopes=frozenset(kept["scopes"]) if kept["scopes"] is not None else None,
        credential=kept["credential"],
        issued_at=kept["issued_at"],
        plan=kept["plan"],
    )
