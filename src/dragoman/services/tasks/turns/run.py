"""One attempt at a turn of a conversation.

A turn begins in memory. What ends within a moment is written once, with its whole history; what reports, asks, lasts,
has an effect or is not waited for is stored first and leased to this process, so that another can take it over.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, cast
from uuid import UUID

import structlog

from dragoman import kit
from dragoman.context import Caller
from dragoman.errors import Conflict, DragomanError, Internal, RateLimited, Unauthenticated, UpstreamUnavailable
from dragoman.infra.deadlines import Deadline, Deadlines
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail
from dragoman.services.tasks import events
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.engine.attempt import Attempt
from dragoman.services.tasks.engine.effects import Ledger, TaskEffects
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.leases import Lease, now
from dragoman.services.tasks.engine.retries import OWN_DATABASE, RetryPolicy, Verdict, is_database_away
from dragoman.services.tasks.engine.steps import Birth, LaneName, Queue, Step
from dragoman.services.tasks.engine.store import Claim
from dragoman.services.tasks.engine.store_keys import KeyClaim, KeyRelease, KeyStore
from dragoman.services.tasks.errors import CallerRefused, EffectBusy, TaskTimedOut
from dragoman.services.tasks.events import TAKEN_OVER, Event, Json, Loggable
from dragoman.services.tasks.identity import caller_json, read_caller
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Task, ToolCall, find_tool_call
from dragoman.services.tasks.turns.event_buffer import EventBuffer
from dragoman.services.tasks.turns.execution import Executor, Job, Outcome, TurnPostponed
from dragoman.services.tasks.turns.records import answered_record, begun_record

_LOG = structlog.get_logger(__name__)
# A single call to another system is not taken to last longer.
_LONGEST_EFFECT_S: Final = 120.0
_ACCEPTED: Final = [events.shared(event) for event in events.accepted()]
_OPENING: Final = events.shared(events.StatusEvent(State.VALIDATED, State.IN_PROGRESS, attempt=1))


@dataclass(frozen=True, slots=True)
class TurnDependencies:
    """What turns ask of others."""

    engine: Engine
    executor: Executor
    ledger: Ledger
    keys: KeyStore
    access: TaskAccess
    trail: AuditTrail
    retries: RetryPolicy
    deadlines: Deadlines
    new_id: Callable[[], UUID]


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn answers: a message to a task, by whom it was sent, and the tool that it names.

    A `fresh` context has nothing said before. With `replies` the turn may end without a task. Where the `outcome` is
    known already there is no work, and the task tells of it. `work` is under way already; its outcome is awaited.
    `age_s` is how long ago the turn began, elsewhere. One that was `claimed` has waited: its caller is checked again.
    """

    caller: Caller
    message: Json
    tool_call: ToolCall | None
    fresh: bool = False
    replies: bool = False
    claim: KeyClaim | None = None
    outcome: Outcome | None = None
    picks: int = 1
    work: "asyncio.Task[Outcome] | None" = None
    age_s: float | None = None
    claimed: bool = False


class TurnLane:
    """The lane of turns: each is run by the agent that this process serves."""

    name = LaneName.TURN

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    def crowded(self) -> Sequence[tuple[UUID | None, str]]:
        """Return nothing: turns do not wait for each other here."""
        return ()

    def take(self, claim: Claim, lease: Lease) -> Attempt:
        """Return an attempt at a turn that waited for its turn or its retry, or that another process left."""
        task = claim.task
        message = next((message for message in reversed(task.history) if message["role"] == "user"), task.history[0])
        caller = read_caller(task.tenant_id, claim.sender or task.caller)
        call = find_tool_call(message)
        turn = Turn(caller, message, call, picks=claim.picks, age_s=claim.age_s, claimed=True)
        run = TurnRun(self._dependencies, task, turn, lease, stored=True)
        reason = TAKEN_OVER if task.state is State.IN_PROGRESS else None
        run.opening = events.opened(task.state, lease.attempt, last=task.attempt, reason=reason)
        return run


class TurnRun(Attempt):
    """One attempt at one turn."""

    lane = LaneName.TURN

    def __init__(self, dependencies: TurnDependencies, task: Task, turn: Turn, lease: Lease, *, stored: bool) -> None:
        super().__init__(task, lease)
        self._on = dependencies
        self._turn = turn
        self._stored = stored
        self._ending = False
        self.stored_seq = task.seq
        self.reply: Json | None = None
        self._started_s = time.time() - (turn.age_s or 0.0)
        self._storing = asyncio.Lock()
        self._known = asyncio.Event()
        self._buffer = EventBuffer(self._write)

    @property
    def stored(self) -> bool:
        """Whether the task is stored; until then only this process knows of it."""
        return self._stored

    async def store(self) -> None:
        """Make the task durable as it stands; nothing when it is already."""
        async with self._storing:
            if self._stored:
                return
            if not self._ending:
                await self._store()
                return
        await asyncio.wait({self.work})  # it has ended, and is being written with its whole history
        self.work.result()

    async def _store(self) -> None:
        task, since = self.task, now()
        log = [*opening_events(task), *await self._buffer.take()]
        # It may be stored although the answer is lost: without one, this process may not go on past the lease.
        self._on.engine.leased(self.lease, since=since)
        try:
            await self._on.engine.add_turn(self._birth(log, queue=True))
        except Conflict:
            self.lease.until = inf
            raise
        task.seq, self._stored, self.stored_seq = len(log), True, len(log)
        self._known.set()
        self._on.engine.notifier.happened(task.id)

    async def ended(self, within_s: float | None) -> bool:
        """Wait for the work to end, but not for longer; return whether it has."""
        return await ended_within(self.work, within_s)

    async def first_sign(self, within_s: float) -> None:
        """Wait until the work has ended or the task was stored, but not for longer."""
        known = asyncio.create_task(self._known.wait())
        await asyncio.wait({self.work, known}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        known.cancel()

    def at_birth(self) -> Task:
        """Return the task as it is right after its birth: what happened later follows from its `seq`."""
        return replace(self.task, seq=self.stored_seq or len(opening_events(self.task)))

    async def perform(self) -> Step | Birth | None:
        """Answer the message; return what is to be written of it."""
        if self.task.alias is not None or self._turn.claim is not None:
            await self.store()  # the one who loses the race for an id or a key must not have done anything
        try:
            outcome = self._turn.outcome or await self._answer()
        finally:
            self._buffer.close()
        return await self._write_outcome(outcome)

    def unstorable(self) -> Step:
        """Return the step of a turn whose outcome cannot be stored."""
        return self._step(failed(Internal()), [])

    def report(self, events: Sequence[Loggable]) -> Step:
        """Return a step that changes nothing but the log."""
        return Step.of(self.lease, self.task.tenant_id, events)

    def finished(self, outcome: Step | Birth | None, *, seq: int) -> None:
        """Update the task to what was written."""
        task = self.task
        if outcome is not None:
            self._stored, task.seq = True, seq
            task.state = State(outcome.state or task.state)
            task.message, task.error, task.slot = outcome.message, outcome.error, outcome.slot
            task.skill, task.status_at = outcome.skill or task.skill, outcome.status_at
            task.artifacts = outcome.artifacts or task.artifacts
            if isinstance(outcome, Step):
                task.history = [*task.history, *outcome.history]
        took_s = time.time() - self._started_s
        self._on.engine.metrics.turned(task.skill, task.state.value, took_s, (task.error or {}).get("code"))

    async def after_parking(self) -> None:
        """Resume the turn if the effect that it asks about was settled meanwhile."""
        if (step := (self.task.slot or {}).get("effect")) is not None:
            await self._on.ledger.tell_if_known(self.task.tenant_id, self.task.id, step)

    async def _answer(self) -> Outcome:
        if self._turn.picks > self._on.retries.max_attempts:
            return _give_up(self._on.retries.max_attempts)
        job = self._job()
        return await self._find_refusal(job) or await self._execute(job)

    async def _execute(self, job: Job) -> Outcome:
        deadline = self._begin_deadline()
        try:
            outcome = await (self._turn.work or self._on.executor.execute(job))
        except kit.EffectUnknown as unknown:
            return _ask_about_effect(unknown, job)
        except TurnPostponed as postponed:
            return self._retry(postponed.cause)
        except asyncio.CancelledError:
            if not deadline.caught():
                raise
            return timed_out(self._on.deadlines, job.task_id, self._on.executor.skill_of(job.tool_call, job.skill))
        except Exception as error:  # noqa: BLE001 - a worker loop: whatever happens, the task ends
            return self._failed(job, error)
        finally:
            deadline.lift()
        away = _find_database_away(outcome)
        return outcome if away is None else self._retry(away)

    async def _find_refusal(self, job: Job) -> Outcome | None:
        """Return the outcome of a turn whose caller would not be let in now; a fresh turn was let in just before."""
        if not self._turn.claimed and job.caller is self._turn.caller:
            return None
        access = self._on.access
        try:
            await access.check_run(job.caller, access.action_of(job.tool_call), self.task)
        except CallerRefused as error:
            return replace(failed(error), state=State.REJECTED, recorded=True)
        except UpstreamUnavailable as error:
            return Outcome(State.QUEUED, delay_s=self._on.retries.delay_s(self._turn.picks, error))
        return None

    def _failed(self, job: Job, error: Exception) -> Outcome:
        if is_database_away(error):
            return self._retry(cast("DragomanError", error))
        skill = self._on.executor.skill_of(job.tool_call, job.skill)
        return outcome_of(error, job.task_id, skill, stored=self._stored)

    def _job(self) -> Job:
        task, turn = self.task, self._turn
        # A turn that asked about an effect is run again as it was.
        restart: Json = (task.slot or {}).get("restart") or {"message": turn.message, "slot": task.slot}
        message, slot = restart["message"], restart["slot"]
        caller = read_caller(task.tenant_id, restart["caller"]) if "caller" in restart else turn.caller
        return Job(
            caller=caller,
            task_id=task.id,
            thread=task.thread,
            skill=task.skill,
            message=message,
            tool_call=turn.tool_call if message is turn.message else find_tool_call(message),
            slot=slot,
            resumed=slot is not None,
            attempt=self.lease.attempt,
            report=self.append,
            note=self._note,
            store=self.store,
            fresh=turn.fresh,
            cancellation=self.cancellation,
            lease=self.lease,
            effects=TaskEffects(
                self._on.ledger, self.lease, task.tenant_id, task.id, min(self._on.deadlines.after_s, _LONGEST_EFFECT_S)
            ),
        )

    def _retry(self, error: DragomanError) -> Outcome:
        """Decide on another attempt; without a stored task there is nothing to try again, and the sender is told."""
        if not self._stored:
            raise error
        retries, picks = self._on.retries, self._turn.picks
        if isinstance(error, EffectBusy):
            return Outcome(State.QUEUED, delay_s=error.busy_s, uncounted=True)
        match retries.judge(error, attempts_left=retries.max_attempts - picks, repeatable=False):
            case Verdict.AGAIN:
                return Outcome(State.QUEUED, delay_s=retries.delay_s(picks, error))
            case Verdict.EXHAUSTED | Verdict.FINAL:
                return replace(failed(error), state=State.DEAD_LETTER)

    async def _write_outcome(self, outcome: Outcome) -> Step | Birth | None:
        task = self.task
        async with self._storing:
            reported = await self._buffer.take()
            if self._stored:
                return self._step(outcome, reported)
            self._ending = True
        step = self._step(outcome, reported)
        if outcome.reply and self._turn.replies:
            self.reply = step.message
            return None
        task.state, task.message, task.error, task.slot = outcome.state, step.message, step.error, step.slot
        task.skill, task.status_at, task.artifacts = outcome.skill or task.skill, step.status_at, step.artifacts or []
        task.history = [*task.history, *step.history]
        return self._birth([*opening_events(task), *step.events])

    def _step(self, outcome: Outcome, reported: Sequence[Loggable]) -> Step:
        task = self.task
        task.once += outcome.once
        message = events.said_by_agent(self._on.new_id, outcome.message) if outcome.message else None
        # What was made is final only when the work is complete.
        artifacts = outcome.artifacts if outcome.state is State.SUCCEEDED else []
        status = events.StatusEvent(
            State.IN_PROGRESS, outcome.state, attempt=self.lease.attempt, message=message, error=outcome.error,
            reason=f"tried again in {outcome.delay_s:.1f} s" if outcome.state is State.QUEUED else None,
            auth=outcome.auth,
        )  # fmt: skip
        unreported = [events.ArtifactEvent(artifact) for artifact in artifacts if artifact["id"] not in outcome.shown]
        queue = {State.QUEUED: Queue.READY, State.INPUT_REQUIRED: Queue.WAIT}.get(outcome.state, Queue.END)
        return Step.of(
            self.lease,
            task.tenant_id,
            [*reported, *unreported, status],
            skill=outcome.skill,
            message=message,
            error=outcome.error,
            slot=task.slot if outcome.state is State.QUEUED else outcome.slot,
            history=[message] if message else [],
            artifacts=artifacts or None,
            queue=queue,
            delay_s=outcome.delay_s,
            more_attempts=1 if outcome.uncounted else 0,
            _release=self._release_of(outcome),
            _records=self._records(outcome, [message] if message else [], artifacts or None),
        )

    def _records(
        self, outcome: Outcome, messages: Sequence[Json], artifacts: Sequence[Json] | None
    ) -> tuple[Line, ...]:
        """Return the record of a turn that was stored before; one that was not has that of its message."""
        if not self._stored or outcome.state is State.QUEUED:
            return ()
        record = answered_record(
            self._on.trail, self._job().caller, self.task, outcome.state, attempt=self.lease.attempt, messages=messages,
            artifacts=artifacts, error=outcome.error, refused=outcome.recorded,
        )  # fmt: skip
        return (record,)

    def _birth(self, log: list[Loggable], *, queue: bool = False) -> Birth:
        record = begun_record(self._on.trail, self._turn.caller, self.task, self._turn.tool_call)
        if not queue:
            return turn_birth(self.task, log, record)
        owner = self._on.engine.owner
        return turn_birth(self.task, log, record, worker=owner, fifo_key=self.lease.fifo_key, claim=self._turn.claim)

    def _release_of(self, outcome: Outcome) -> KeyRelease | None:
        """Return the key of a message that was refused: only a task that was accepted consumes it."""
        message = self._turn.message
        key = message.get("key") if outcome.refused else None
        if key is None or self._on.executor.keepable(message, self._turn.tool_call) != self.task.history[0]:
            return None
        return KeyRelease(self._turn.caller.subject, key)

    def _begin_deadline(self) -> Deadline:
        """Limit how long this turn may go on; its time did not stand still while nobody ran it."""
        if self._turn.age_s is None:
            return self._on.deadlines.begin()
        return Deadlines(self._on.deadlines.after_s - self._turn.age_s).begin()

    async def append(self, event: Event, *, linger: bool = False) -> None:
        """Append to the log of the task, which is stored for it; what may linger goes with what follows soon."""
        self.lease.check()
        await self.store()
        self._buffer.hold(event)
        await (self._buffer.linger() if linger else self._buffer.flush())

    async def _note(self, event: Event) -> None:
        self.lease.check()
        self._buffer.hold(event)
        if self._stored:
            await self._buffer.linger()

    async def _write(self, reported: list[Loggable]) -> None:
        written = await self._on.engine.report(self, reported)
        if written is not None:
            self.task.seq = written.seq
            return
        # Ended or claimed by another: the work stops here, and so does whatever it had in hand.
        self.lease.revoked = True
        await self._on.engine.look_at(self.task.id)
        raise kit.AttemptFenced


def turn_birth(
    task: Task,
    log: list[Loggable],
    record: Line | None,
    *,
    worker: UUID | None = None,
    fifo_key: str | None = None,
    claim: KeyClaim | None = None,
) -> Birth:
    """Return a turn as it is to be stored; with a worker it is to be run, by that one unless another comes first."""
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
        events=log,
        attempt=task.attempt,
        queue=worker is not None,
        worker=worker,
        fifo_key=fifo_key,
        _claim=claim,
        _said=record,
    )


def failed(error: DragomanError, *, skill: str | None = None, refused: bool = False) -> Outcome:
    """Return the outcome of a failed turn, with what may be told of the reason."""
    body = {"code": error.code, "message": error.message, "details": error.details}
    return Outcome(State.FAILED, skill, message=[{"kind": "text", "text": error.message}], error=body, refused=refused)


def outcome_of(error: Exception, task_id: UUID, skill: str | None, *, stored: bool) -> Outcome:
    """Return the outcome of a failure; as long as nothing is stored, it may be the sender's answer instead.

    Raises:
        RateLimited, Unauthenticated: it is not about the task but about who asks.
        UpstreamUnavailable: our own database is away.
    """
    if not stored and (isinstance(error, RateLimited | Unauthenticated) or is_database_away(error)):
        raise error
    if isinstance(error, DragomanError):
        return failed(error, skill=skill, refused=True)
    _LOG.error("turns.work_failed", task_id=str(task_id), skill=skill, exc_info=error)
    return failed(Internal(), skill=skill)


def timed_out(deadlines: Deadlines, task_id: UUID, skill: str | None) -> Outcome:
    """Return the outcome of a turn whose time is over."""
    _LOG.warning("turns.timed_out", task_id=str(task_id), skill=skill)
    return failed(TaskTimedOut(after_s=deadlines.after_s), skill=skill)


async def ended_within(work: "asyncio.Task[Any]", within_s: float | None) -> bool:
    """Wait for a task to end, but not for longer; return whether it has."""
    # What asyncio.wait does, for one task: every message waits here.
    if not work.done():
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake(_: object = None) -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = loop.call_later(within_s, wake) if within_s is not None else None
        work.add_done_callback(wake)
        try:
            await waiter
        finally:
            work.remove_done_callback(wake)
            if timer is not None:
                timer.cancel()
    return work.done()


def opening_events(task: Task) -> list[Loggable]:
    """Return the events with which a turn begins that did not wait."""
    opening = (
        _OPENING if task.attempt == 1 else events.StatusEvent(State.VALIDATED, State.IN_PROGRESS, attempt=task.attempt)
    )
    return [*_ACCEPTED, opening]


def _give_up(attempts: int) -> Outcome:
    error: Json = {"code": Internal.code, "message": f"given up after {attempts} attempts", "details": {}}
    return Outcome(State.DEAD_LETTER, error=error)


def _ask_about_effect(unknown: kit.EffectUnknown, job: Job) -> Outcome:
    """Return the question about an effect that nobody knows the outcome of; with the answer the turn is run again."""
    question = unknown.question()
    # The turn goes on for its first caller: the one who answers only says what became of the effect.
    restart = {"message": job.message, "slot": job.slot, "caller": caller_json(job.caller)}
    slot = question.slot.dump() | {"effect": unknown.step, "restart": restart}
    parts = question.message.model_dump(mode="json", exclude_none=True)["parts"]
    return Outcome(State.INPUT_REQUIRED, job.skill, parts, slot=slot)


def _find_database_away(outcome: Outcome) -> DragomanError | None:
    """Return why a skill failed, where it was our own database."""
    error = outcome.error or {}
    upstream = error.get("details", {}).get("upstream")
    if error.get("code") == UpstreamUnavailable.code and upstream in OWN_DATABASE:
        return UpstreamUnavailable(upstream, retry_after_s=2)
    return None
