"""One attempt at an action: judged again, given to its worker, and what comes of it as a step of the lifecycle."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from dragoman import kit
from dragoman.context import Caller, progress_to, within_task
from dragoman.errors import DragomanError, Internal, Kind
from dragoman.operations import Input
from dragoman.services.audit.models import Detail
from dragoman.services.audit.models import Outcome as Recorded
from dragoman.services.audit.rows import Rows, hashed
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.tasks import events
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.actions.actors import Actors, acting_in
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.tasks.actions.errors import (
    CapabilityNotFound,
    DeadlinePassed,
    EffectUnknown,
    InputNeeded,
    ResourceMoved,
)
from dragoman.services.tasks.actions.ports import Governance, Judgment, Phase, Registry, Resources, Route, Target
from dragoman.services.tasks.actions.results import asking, read_input, result_artifacts
from dragoman.services.tasks.engine.attempt import Attempt
from dragoman.services.tasks.engine.effects import Ledger, TaskEffects
from dragoman.services.tasks.engine.engine import Engine
from dragoman.services.tasks.engine.leases import Lease, now
from dragoman.services.tasks.engine.retries import RetryPolicy, Verdict
from dragoman.services.tasks.engine.steps import Birth, LaneName, Queue, Step
from dragoman.services.tasks.engine.store import ActionDetails, Claim
from dragoman.services.tasks.engine.store_rows import effect_rows, governance_details, task_columns
from dragoman.services.tasks.errors import EffectBusy, TaskTimedOut
from dragoman.services.tasks.events import Json, Loggable
from dragoman.services.tasks.identity import caller_of
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.operations import SUBMIT
from dragoman.services.workers.protocol import Assignment, Performed

_LOG = structlog.get_logger(__name__)
WAITS_FOR_APPROVAL = "waits for approval"
# As many times what a worker performs at once may wait for it: enough for it never to run dry between two claims.
_MOST_WAITING: Final = 3


@dataclass(frozen=True, slots=True)
class ActionDependencies:
    """What attempts at actions ask of others."""

    actors: Actors
    registry: Registry
    governance: Governance
    resources: Resources
    ledger: Ledger
    access: TaskAccess
    trail: AuditTrail
    retries: RetryPolicy
    new_id: Callable[[], UUID]


class ActionLane:
    """The lane of actions: each attempt is given to the worker that its tenant lets perform it."""

    name = LaneName.ACTION

    def __init__(self, engine: Engine, dependencies: ActionDependencies) -> None:
        self._engine = engine
        self._dependencies = dependencies
        self._slots: WeakValueDictionary[_SlotsKey, _Slots] = WeakValueDictionary()

    def take(self, claim: Claim, lease: Lease) -> Attempt:
        """Return an attempt at an action that was claimed."""
        if claim.action is None:
            raise ValueError("a task of this lane has an envelope")
        return ActionAttempt(self._engine, self._dependencies, claim, claim.action, lease, self._slots_of)

    def crowded(self) -> Sequence[tuple[UUID | None, str]]:
        """Return the actions of which so many wait for their worker that more would only take the place of others."""
        return [
            (key.tenant, key.action)
            for key, slots in self._slots.items()
            if slots.waiting >= _MOST_WAITING * slots.at_once
        ]

    def _slots_of(self, route: Route, tenant: UUID) -> "_Slots":
        """Return the places for an action; a worker of one tenant that hangs holds up no other tenant."""
        capability = route.capability
        key = _SlotsKey(None if route.shared else tenant, route.worker.name, capability.action, capability.at_once)
        slots = self._slots.get(key)
        if slots is None:
            slots = self._slots[key] = _Slots(capability.at_once, self._engine.wake)
        return slots


async def _ungrouped(work: Awaitable[Performed]) -> Performed:
    """Await the work of a worker; of what its task group raises, raise what ends the attempt."""
    try:
        return await work
    except BaseExceptionGroup as group:
        if (end := kit.find_end(group)) is not None:
            raise end from group
        raise


class _SlotsKey(NamedTuple):
    tenant: UUID | None
    worker: str
    action: str
    at_once: int


class _Slots:
    """The places that one worker has for one action in this process; `freed` is called when one is left."""

    def __init__(self, at_once: int, freed: Callable[[], None]) -> None:
        self.at_once = at_once
        self.waiting = 0
        self._free = asyncio.Semaphore(at_once)
        self._freed = freed

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Wait for a place, and hold it."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        try:
            yield
        finally:
            self._free.release()
            if self.waiting == _MOST_WAITING * self.at_once // 2:
                self._freed()


class ActionAttempt(Attempt):
    """One attempt at one action."""

    lane = LaneName.ACTION

    def __init__(
        self,
        engine: Engine,
        dependencies: ActionDependencies,
        claim: Claim,
        action: ActionDetails,
        lease: Lease,
        slots_of: Callable[[Route, UUID], _Slots],
    ) -> None:
        super().__init__(claim.task, lease)
        self._engine = engine
        self._on = dependencies
        self._action = action
        self._slots_of = slots_of
        self._began_s = now()
        self._route: Route | None = None
        self._delegated: Line | None = None
        self._unknown: str | None = None
        self.caller: Caller = caller_of(claim.task)
        self.opening = events.opened(claim.task.state, lease.attempt, last=claim.task.attempt)
        self._governance = action.governance
        self._settled: dict[tuple[str, str], str] = {}
        self._evidence: list[str] = []

    @property
    def stored(self) -> bool:
        """Actions are stored when they are accepted."""
        return True

    async def perform(self) -> Step:
        """Do the work; return the step that follows from it."""
        try:
            with within_task(str(self._action.canonical)), progress_to(self._progress):
                performed = await self._performed()
        except kit.EffectUnknown as unknown:
            self._unknown = unknown.step
            return self._park(EffectUnknown(unknown.step))
        except InputNeeded as question:
            return self._park(question)
        except _WaitsForApproval as waiting:
            return self._park(None, waits_for=waiting.judgment)
        except DragomanError as error:
            return self._fail(error)
        except Exception:  # noqa: BLE001 - a worker loop: whatever happens, the task goes on or ends
            _LOG.exception("actions.worker_failed", task_id=str(self.task.id), action=self._action.envelope["action"])
            return self._fail(None)
        self._evidence = [f"{one.kind.value}:{one.sha256}" for one in performed.evidence]
        artifacts = result_artifacts(self._action.envelope["action"], performed, self._governance)
        return self._step(State.SUCCEEDED, "task.complete", Recorded.DONE, artifacts=artifacts, queue=Queue.END)

    def unstorable(self) -> Step:
        """Return the step of an action whose outcome cannot be stored."""
        return self._end(State.FAILED, "task.fail", _shown(Internal()))

    def report(self, events: Sequence[Loggable]) -> Step:
        """Return a step that changes nothing but the log."""
        return Step.of(self.lease, self.task.tenant_id, events, lane=LaneName.ACTION)

    def opening_record(self) -> Line:
        """Return the audit record of the delegation, made when it was known who performs it."""
        if self._delegated is None:
            worker, capability = self._assigned()
            details: dict[str, Detail] = {"worker": worker, "capability": capability}
            rows = {f"tasks/{self.task.id}": task_columns(State.IN_PROGRESS)}
            self._delegated = self._record("task.delegate", Recorded.DONE, details=details, rows=rows)
        return self._delegated

    def finished(self, outcome: Step | Birth | None, *, seq: int) -> None:
        """Count what came of it."""
        del seq
        if isinstance(outcome, Step) and outcome.state is not None:
            took_s = now() - self._began_s
            self._engine.metrics.turned("task", outcome.state, took_s, (outcome.error or {}).get("code"))

    async def after_parking(self) -> None:
        """Resume the action if the effect that it asks about was settled meanwhile."""
        if self._unknown is not None:
            await self._on.ledger.tell_if_known(self.task.tenant_id, self._action.canonical, self._unknown)

    async def _performed(self) -> Performed:
        await self._find_route()
        self._check_time()
        if self.lease.attempt > self._action.max_attempts:
            raise _GivenUp
        await self._on.access.check_run(self.caller, SUBMIT, self.task)
        if self._route is None:
            raise CapabilityNotFound(self._action.envelope["action"])
        envelope = Envelope.model_validate(self._action.envelope)
        await self._on.access.check_perform(self.caller, envelope.action, self._route.capability.permissions, self.task)
        request = read_input(self._route.capability, self._action.envelope["input"])
        acting = await self._on.actors.check_again(self.caller, envelope, self._action.governance)
        judgment = await self._on.governance.judge(
            self.caller,
            envelope,
            self._route.capability,
            acting=acting,
            task_id=self._action.canonical,
            phase=Phase.EXECUTION,
        )
        self._governance = judgment.snapshot
        if judgment.waits_for:
            raise _WaitsForApproval(judgment)
        # What is approved is what is executed: the worker is given the version and the hash that were judged.
        if judgment.resource is not None:
            envelope = envelope.model_copy(update={"resource": judgment.resource})
        else:
            await self._check_resource(self._route, envelope)
        return await self._give_to_worker(self._route, envelope, request)

    async def _check_resource(self, route: Route, envelope: Envelope) -> None:
        target = Target(
            envelope.action,
            envelope.resource,
            envelope.input,
            route.capability.is_sensitive(envelope.input),
            self._action.canonical,
        )
        await self._on.resources.bind(self.caller, target)

    async def _find_route(self) -> None:
        self._route = await self._on.registry.find(self.caller, self._action.envelope["action"])
        if self.opening:
            worker, capability = self._assigned()
            *lost, opening = self.opening
            self.opening = (*lost, opening.assigned(worker=worker, capability=capability))
            self.opening_record()

    async def _give_to_worker(self, route: Route, envelope: Envelope, request: Input) -> Performed:
        capability = route.capability
        assignment = Assignment(
            caller=self.caller,
            task_id=self._action.canonical,
            envelope=envelope,
            input=request,
            attempt=self.lease.attempt,
            effects=TaskEffects(
                self._on.ledger,
                self.lease,
                self.task.tenant_id,
                self._action.canonical,
                capability.timeout_s,
                self._settled,
            ),
            governance=self._governance,
            answers=tuple(answer["input"] for answer in self._action.answers if "input" in answer),
            cancelled=self.cancellation.is_set,
        )
        async with self._slots_of(route, self.task.tenant_id).held():
            limit = asyncio.timeout(self._left_s(capability.timeout_s))
            try:
                async with limit:
                    return await _ungrouped(route.worker.perform(assignment))
            except TimeoutError:
                if not limit.expired():
                    raise
                self._check_time()
                raise TaskTimedOut(after_s=capability.timeout_s) from None

    async def _progress(self, text: str, percent: float | None) -> None:
        self.lease.check()
        if await self._engine.report(self, [events.ProgressEvent(text, percent)]) is None:
            raise kit.AttemptFenced

    def _left_s(self, most_s: float) -> float:
        """Return the time until the deadline, at most this; the wall clock of this machine is not asked."""
        left_s = self._action.left_s
        return most_s if left_s is None else min(most_s, left_s - (now() - self._began_s))

    def _check_time(self) -> None:
        if (deadline := self._action.deadline) is not None and self._left_s(inf) <= 0:
            raise DeadlinePassed(deadline.isoformat())

    def _assigned(self) -> tuple[str, str]:
        action: str = self._action.envelope["action"]
        if self._route is None:
            return "none", action
        return self._route.worker.name, f"{action}@{self._route.capability.version}"

    def _fail(self, error: DragomanError | None) -> Step:
        if isinstance(error, _GivenUp):
            known = self.task.error or {"code": Internal.code, "message": "the worker died", "details": {}}
            reason = f"given up after {self._action.max_attempts} attempts"
            return self._end(State.DEAD_LETTER, "task.dead_letter", known, reason=reason)
        if isinstance(error, EffectBusy):
            return self._again(error, "task.retry", delay_s=error.busy_s, more_attempts=1)
        left = self._action.max_attempts - self.lease.attempt
        shown = _shown(error or Internal())
        match self._on.retries.judge(error, attempts_left=left, repeatable=True):
            case Verdict.AGAIN:
                delay_s = self._on.retries.delay_s(self.lease.attempt, error)
                return self._again(error or Internal(), "task.retry", delay_s=delay_s)
            case Verdict.EXHAUSTED:
                return self._end(State.DEAD_LETTER, "task.dead_letter", shown, reason="no attempts left")
            case Verdict.FINAL:
                refused = isinstance(error, ResourceMoved) or (error is not None and error.kind is Kind.FORBIDDEN)
                state, outcome = (State.REJECTED, Recorded.REFUSED) if refused else (State.FAILED, Recorded.FAILED)
                return self._end(state, "task.fail", shown, outcome=outcome)

    def _again(self, error: DragomanError, name: str, *, delay_s: float, more_attempts: int = 0) -> Step:
        shown = _shown(error)
        return self._step(
            State.QUEUED,
            name,
            Recorded.FAILED,
            error=shown,
            reason=f"tried again in {delay_s:.1f} s",
            queue=Queue.READY,
            delay_s=delay_s,
            until=self._action.deadline,
            more_attempts=more_attempts,
        )

    def _end(
        self, state: State, name: str, error: Json, *, reason: str | None = None, outcome: Recorded = Recorded.FAILED
    ) -> Step:
        message = events.said_by_agent(self._on.new_id, [{"kind": "text", "text": str(error["message"])}])
        return self._step(state, name, outcome, error=error, reason=reason, message=message, queue=Queue.END)

    def _park(self, question: DragomanError | None, *, waits_for: Judgment | None = None) -> Step:
        why = question.message if question is not None else WAITS_FOR_APPROVAL
        approvals = list(waits_for.waits_for) if waits_for is not None else None
        about: Json = {"details": question.details} if question else {"approvals": approvals}
        about |= {"requests": list(waits_for.asked)} if waits_for is not None else {}
        asked, message = asking(self._on.new_id, why, about)
        return self._step(
            State.INPUT_REQUIRED,
            "task.park",
            Recorded.DONE,
            reason=why,
            message=message,
            slot={"value": asked},
            queue=Queue.WAIT,
            until=self._action.deadline,
            waits_for=approvals,
            # An attempt that had to wait for consent is not held against the task; one that asked counts when answered.
            more_attempts=1 if waits_for else 0,
        )

    def _step(
        self,
        to: State,
        name: str,
        outcome: Recorded,
        *,
        error: Json | None = None,
        reason: str | None = None,
        message: Json | None = None,
        artifacts: list[Json] | None = None,
        **details: object,
    ) -> Step:
        if self.opening:
            self.opening_record()  # what is written first has to come first in the chain
        why = reason or (str(error["message"]) if error else None)
        worker = self._route.worker.name if self._route is not None else None
        log: list[Loggable] = [events.ArtifactEvent(artifact) for artifact in artifacts or ()]
        log.append(
            events.StatusEvent(
                State.IN_PROGRESS,
                to,
                attempt=self.lease.attempt,
                worker=worker,
                error=error,
                reason=why,
                message=message,
            )
        )
        recorded: dict[str, Detail] = {"worker": worker} if worker is not None else {}
        recorded |= governance_details(self._governance)
        if self._evidence:
            recorded["evidence"] = self._evidence
        changed = self._governance if self._governance != self._action.governance else None
        return Step.of(
            self.lease,
            self.task.tenant_id,
            log,
            lane=LaneName.ACTION,
            message=message,
            error=error,
            artifacts=artifacts,
            governance=changed,
            _records=(
                self._record(
                    name, outcome, error, reason=why, details=recorded, rows=self._rows(to, artifacts, changed)
                ),
            ),
            **details,
        )

    def _rows(self, to: State, artifacts: list[Json] | None, governance: Json | None) -> Rows:
        rows = {f"tasks/{self.task.id}": task_columns(to, artifacts=artifacts)}
        if governance is not None:
            rows[f"delegations/{self.task.id}"] = {"governance": hashed(governance)}
        return rows | effect_rows(self._action.canonical, self._settled)

    def _record(
        self,
        name: str,
        outcome: Recorded,
        error: Json | None = None,
        *,
        reason: str | None = None,
        details: dict[str, Detail] | None = None,
        rows: Rows | None = None,
    ) -> Line:
        envelope = self._action.envelope
        acting = acting_in(self._governance, envelope)
        entry = Entry(
            name,
            outcome,
            resource=str(self._action.canonical),
            code=error["code"] if error else None,
            reason=(str(error["message"]) if error else reason or "")[:500] or None,
            details={
                "actor": envelope["actor"]["id"],
                "action": envelope["action"],
                "attempt": self.lease.attempt,
                **(acting.details() if acting is not None else {}),
                **(details or {}),
            },
            rows=rows,
        )
        return self._on.trail.write(self.caller, entry)


class _GivenUp(DragomanError):
    """The task was claimed more often than it may be: its process died each time."""

    def __init__(self) -> None:
        super().__init__("given up")


class _WaitsForApproval(Exception):
    def __init__(self, judgment: Judgment) -> None:
        super().__init__(WAITS_FOR_APPROVAL)
        self.judgment = judgment


def _shown(error: DragomanError) -> Json:
    return {"code": error.code, "message": error.message, "details": error.details}
