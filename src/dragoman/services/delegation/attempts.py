"""One attempt at one task: judged again, given to its worker, and what comes of it as a step of the lifecycle."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from pydantic import ValidationError

from dragoman.arguments import invalid
from dragoman.context import Caller
from dragoman.errors import DragomanError, Internal, Kind
from dragoman.operations import Input
from dragoman.services.audit.models import Outcome as Recorded
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.delegation.effects import Ledger, TaskEffects
from dragoman.services.delegation.envelope import Envelope
from dragoman.services.delegation.errors import (
    CapabilityNotFound,
    DeadlinePassed,
    EffectUnknown,
    InputNeeded,
    Superseded,
)
from dragoman.services.delegation.ports import Governance, Phase, Registry, Route
from dragoman.services.delegation.retries import Patience
from dragoman.services.delegation.store import Claimed, Move
from dragoman.services.delegation.workers import Assignment, Capability, Evidence, Json, Performed
from dragoman.services.tasks.errors import TaskTimedOut
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.runs import caller_of, said_by_agent

_LOG = structlog.get_logger(__name__)
NEVER = "infinity"
WAITS_FOR_APPROVAL = "waits for approval"


@dataclass(frozen=True, slots=True)
class Bench:
    """What every attempt needs."""

    registry: Registry
    governance: Governance
    ledger: Ledger
    trail: AuditTrail
    patience: Patience
    new_id: Callable[[], UUID]


class Attempt:
    """One attempt. `assigned` says who is to make it, `made` what came of it."""

    def __init__(self, bench: Bench, claimed: Claimed, *, gate: Callable[[Capability], asyncio.Semaphore]) -> None:
        self._bench = bench
        self._claimed = claimed
        self._gate = gate
        self.caller: Caller = caller_of(claimed.task)
        self._route: Route | None = None
        # Somebody ended the task; else a work that is stopped goes on elsewhere.
        self.cancelled = False
        # The work is done, and what came of it waits to be written.
        self.over = False

    async def assigned(self) -> tuple[Json, Line]:
        """The event and the record of the delegation."""
        one, bench = self._claimed, self._bench
        action: str = one.envelope["action"]
        self._route = route = await bench.registry.find(self.caller, action)
        worker = route.worker.name if route else "none"
        capability = f"{action}@{route.capability.version}" if route else action
        event: Json = {"kind": "status", "from": one.was, "to": "in_progress", "attempt": one.task.attempt}
        event |= {"worker": worker, "capability": capability}
        details = {"actor": one.envelope["actor"]["id"], "action": action, "worker": worker, "capability": capability}
        entry = Entry(
            "task.delegate",
            Recorded.DONE,
            resource=str(one.canonical),
            details={**details, "attempt": one.task.attempt},
        )
        return event, bench.trail.write(self.caller, entry)

    async def made(self) -> tuple[Move, Line]:
        """Do the work; the step that follows from it.

        Raises:
            asyncio.CancelledError: the task was ended, or this process ends.
            Superseded: another attempt has the task.
        """
        one, governance = self._claimed, self._claimed.governance
        try:
            self._check_time()
            if one.task.attempt > one.max_attempts:
                return self._given_up()
            route = self._require_route()
            envelope, given = _read(one.envelope, route.capability)
            judgment = await self._bench.governance.judge(
                self.caller, envelope, route.capability, task_id=one.canonical, phase=Phase.EXECUTION
            )
            governance = judgment.snapshot
            if judgment.waits_for:
                return self._parked(WAITS_FOR_APPROVAL, governance, waits_for=list(judgment.waits_for))
            performed = await self._perform(route, envelope, given, governance)
        except Superseded:
            raise
        except (InputNeeded, EffectUnknown) as question:
            return self._parked(question.message, governance, question=question)
        except DragomanError as error:
            return self._failed(error, governance, again=error.retryable)
        except Exception:  # noqa: BLE001 - a worker loop: whatever happens, the task goes on or ends
            _LOG.exception("delegation.worker_failed", task_id=str(one.task.id), action=one.envelope["action"])
            return self._failed(Internal(), governance, again=True)
        return self._succeeded(performed, governance)

    def unstorable(self) -> tuple[Move, Line]:
        """The step of a task whose outcome cannot be stored."""
        return self._failed(Internal(), self._claimed.governance, again=False)

    async def _perform(self, route: Route, envelope: Envelope, given: Input, governance: Json) -> Performed:
        one = self._claimed
        assignment = Assignment(
            caller=self.caller,
            task_id=one.canonical,
            envelope=envelope,
            input=given,
            attempt=one.task.attempt,
            effects=TaskEffects(self._bench.ledger, one.task.tenant_id, one.task.id, one.canonical, one.task.attempt),
            governance=governance,
            answers=tuple(said["input"] for said in one.answers if "input" in said),
            cancelled=lambda: self.cancelled,
        )
        async with self._gate(route.capability):
            limit = asyncio.timeout(self._left_s(route.capability.timeout_s))
            try:
                async with limit:
                    return await route.worker.perform(assignment)
            except TimeoutError:
                if not limit.expired():
                    raise
                self._check_time()
                raise TaskTimedOut(after_s=route.capability.timeout_s) from None

    def _require_route(self) -> Route:
        if self._route is None:
            raise CapabilityNotFound(self._claimed.envelope["action"])
        return self._route

    def _left_s(self, most_s: float) -> float:
        deadline = self._claimed.deadline
        return most_s if deadline is None else min(most_s, (deadline - datetime.now(UTC)).total_seconds())

    def _check_time(self) -> None:
        deadline = self._claimed.deadline
        if deadline is not None and deadline <= datetime.now(UTC):
            raise DeadlinePassed(deadline.isoformat())

    def _succeeded(self, performed: Performed, governance: Json) -> tuple[Move, Line]:
        artifacts = result_artifacts(self._claimed.envelope["action"], performed, governance)
        move = self._move(State.SUCCEEDED, governance, artifacts=artifacts)
        return move, self._record("task.complete", Recorded.DONE)

    def _given_up(self) -> tuple[Move, Line]:
        error = self._claimed.task.error or {"code": Internal.code, "message": "the worker died", "details": {}}
        move = self._move(
            State.DEAD_LETTER, None, error=error, reason=f"given up after {self._claimed.max_attempts} attempts"
        )
        return move, self._record("task.dead_letter", Recorded.FAILED, error)

    def _failed(self, error: DragomanError, governance: Json, *, again: bool) -> tuple[Move, Line]:
        one = self._claimed
        shown = {"code": error.code, "message": error.message, "details": error.details}
        if again and one.task.attempt < one.max_attempts:
            rest_s = self._bench.patience.rest_s(one.task.attempt)
            reason = f"tried again in {rest_s:.1f} s"
            move = self._move(State.QUEUED, governance, error=shown, reason=reason, run_at=self._later(rest_s))
            return move, self._record("task.retry", Recorded.FAILED, shown)
        if again:
            move = self._move(State.DEAD_LETTER, governance, error=shown, reason="no attempts left")
            return move, self._record("task.dead_letter", Recorded.FAILED, shown)
        refused = error.kind is Kind.FORBIDDEN
        move = self._move(State.REJECTED if refused else State.FAILED, governance, error=shown)
        return move, self._record("task.fail", Recorded.REFUSED if refused else Recorded.FAILED, shown)

    def _parked(
        self,
        why: str,
        governance: Json,
        *,
        waits_for: list[str] | None = None,
        question: DragomanError | None = None,
    ) -> tuple[Move, Line]:
        about: Json = {"details": question.details} if question else {"approvals": waits_for}
        asked, message = asking(self._bench.new_id, why, about)
        move = self._move(State.INPUT_REQUIRED, governance, reason=why, run_at=self._claimed.deadline or NEVER)
        move.waits_for, move.slot = waits_for, {"value": asked}
        move.message = move.events[-1]["message"] = message
        return move, self._record("task.park", Recorded.DONE, reason=why)

    def _later(self, rest_s: float) -> datetime:
        later, deadline = datetime.now(UTC) + timedelta(seconds=rest_s), self._claimed.deadline
        return later if deadline is None else min(later, deadline)

    def _move(
        self,
        to: State,
        governance: Json | None,
        *,
        error: Json | None = None,
        reason: str | None = None,
        run_at: datetime | str | None = None,
        artifacts: list[Json] | None = None,
    ) -> Move:
        task, message = self._claimed.task, None
        events: list[Json] = [{"kind": "artifact", "artifact": made, "last": True} for made in artifacts or ()]
        event: Json = {"kind": "status", "from": "in_progress", "to": to.value, "attempt": task.attempt}
        if self._route is not None:
            event["worker"] = self._route.worker.name
        if error is not None:
            event |= {"error": error, "reason": reason or error["message"]}
            if to is not State.QUEUED:
                message = said_by_agent(self._bench.new_id, [{"kind": "text", "text": str(error["message"])}])
                event["message"] = message
        elif reason is not None:
            event["reason"] = reason
        changed = governance if governance != self._claimed.governance else None
        return Move(
            task.tenant_id,
            task.id,
            State.IN_PROGRESS.value,
            to.value,
            [*events, event],
            attempt=task.attempt,
            message=message,
            error=error,
            artifacts=artifacts,
            run_at=run_at,
            governance=changed,
        )

    def _record(self, name: str, outcome: Recorded, error: Json | None = None, *, reason: str | None = None) -> Line:
        one = self._claimed
        details: dict[str, str | int] = {
            "actor": one.envelope["actor"]["id"],
            "action": one.envelope["action"],
            "attempt": one.task.attempt,
        }
        if self._route is not None:
            details["worker"] = self._route.worker.name
        entry = Entry(
            name,
            outcome,
            resource=str(one.canonical),
            code=error["code"] if error else None,
            reason=(str(error["message"]) if error else reason or "")[:500] or None,
            details=details,
        )
        return self._bench.trail.write(self.caller, entry)


def asking(new_id: Callable[[], UUID], question: str, about: Json) -> tuple[Json, Json]:
    """What a task that waits asks for, as data, and the message that says so."""
    asked: Json = {"question": question, **about}
    parts: list[Json] = [{"kind": "text", "text": question}, {"kind": "data", "data": asked}]
    return asked, said_by_agent(new_id, parts)


def result_artifacts(action: str, performed: Performed, governance: Json) -> list[Json]:
    """What a task made, and what shows that it was done and might be."""
    shown = {"evidence": [evidence_json(one) for one in performed.evidence], "governance": governance}
    return [
        {"id": "result", "name": action, "parts": [{"kind": "data", "data": performed.output}]},
        {"id": "evidence", "name": "evidence", "parts": [{"kind": "data", "data": shown}]},
    ]


def evidence_json(evidence: Evidence) -> Json:
    """As it is kept."""
    return {
        "kind": evidence.kind.value,
        "sha256": evidence.sha256,
        "uri": evidence.uri,
        "captured_at": evidence.captured_at.isoformat(),
    }


def read_input(capability: Capability, given: Json) -> Input:
    """What the capability's model makes of the input of an envelope.

    Raises:
        InvalidInput: it is not what the action takes; every complaint at once, with its path in the envelope.
    """
    try:
        return capability.input.model_validate(given)
    except ValidationError as error:
        raise invalid(error, within="input") from None


def _read(envelope: Json, capability: Capability) -> tuple[Envelope, Input]:
    return Envelope.model_validate(envelope), read_input(capability, envelope["input"])
