"""Steering tasks: answering, trying again, ending, moving by hand, one or many. Each leaves its record."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import Conflict, DragomanError
from dragoman.services.audit.models import Outcome
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import Entry
from dragoman.services.delegation import models as m
from dragoman.services.delegation.attempts import NEVER, result_artifacts
from dragoman.services.delegation.coordinator import Coordinator
from dragoman.services.delegation.envelope import Envelope
from dragoman.services.delegation.errors import CapabilityNotFound, NotRetryable, WaitsForApproval
from dragoman.services.delegation.finding import Finder
from dragoman.services.delegation.ports import Phase
from dragoman.services.delegation.store import Accepted, DelegationStore, Move
from dragoman.services.delegation.store_effects import EffectStore
from dragoman.services.delegation.store_read import RunRow
from dragoman.services.delegation.submission import Entrance
from dragoman.services.delegation.workers import Json, Performed
from dragoman.services.tasks.errors import NotCancelable, TaskBusy
from dragoman.services.tasks.hub import Hub
from dragoman.services.tasks.lifecycle import TERMINAL, InvalidTransition, State, check_transition
from dragoman.services.tasks.models import Task

# How long one who takes a task by hand has to bring it to its end, before a worker takes it.
_BY_HAND = timedelta(minutes=5)
_TRIES = 10


class Conversations(Protocol):
    """The tasks that are turns of a conversation."""

    async def cancel(self, caller: Caller, ref: str) -> Task:
        """End one."""
        ...


class Steering:
    """What operators, workers and those who were asked may do to a task."""

    def __init__(
        self,
        entrance: Entrance,
        store: DelegationStore,
        effects: EffectStore,
        finder: Finder,
        *,
        coordinator: Coordinator,
        hub: Hub,
    ) -> None:
        self._entrance = entrance
        self._store = store
        self._effects = effects
        self._finder = finder
        self._coordinator = coordinator
        self._hub = hub
        # Conversations are built on top of the gate, and the gate on top of this.
        self.conversations: Conversations | None = None

    async def retry(self, caller: Caller, given: m.RetryTask) -> m.TaskView:
        """Open another run of a task that failed; its approvals and its side effects are those of the task.

        Raises:
            NotRetryable: it did not fail.
        """
        run = await self._finder.latest(caller, given.task_id)
        before = run.task
        if before.state not in (State.FAILED, State.DEAD_LETTER):
            raise NotRetryable(before.state.value)
        now, task_id = datetime.now(UTC), self._entrance.new_id()
        reason = given.reason or f"tried again by {caller.subject}"
        step = {"kind": "status", "from": before.state.value, "to": "queued", "by": caller.subject, "reason": reason}
        again = Accepted(
            tenant=caller.tenant,
            id=task_id,
            canonical=run.canonical,
            run=run.run + 1,
            context_id=before.context_id,
            owner=before.owner,
            state=State.QUEUED.value,
            metadata={
                "action": run.action,
                "correlation_id": run.correlation_id,
                "retryOf": str(run.canonical),
                "referenceTaskIds": [str(before.id)],
            },
            caller=before.caller,
            events=[step],
            history=before.history[:1],
            actor=run.actor,
            key=run.envelope["idempotency_key"],
            digest="",
            action=run.action,
            matter=run.matter,
            correlation_id=run.correlation_id,
            attempt=before.attempt,
            max_attempts=before.attempt + self._entrance.patience.max_attempts,
            deadline=run.deadline if run.deadline and run.deadline > now else None,
            governance=run.governance,
            envelope=run.envelope,
            run_at=now,
        )
        line = self._line(caller, "task.retry", run, reason, new_run=again.run)
        if not await self._store.add([(again, line)]):
            raise NotRetryable("being tried again already")
        self._coordinator.poke()
        self._hub.happened(task_id)
        return await self._finder.view(caller, str(run.canonical))

    async def cancel(self, caller: Caller, given: m.CancelTask) -> m.TaskView:
        """End a task, in whichever process it runs.

        Raises:
            NotCancelable: it has ended already.
        """
        task = await self._finder.get(caller, given.task_id)
        if not task.delegated and self.conversations is not None:
            await self.conversations.cancel(caller, given.task_id)
        else:
            await self.end(caller, given.task_id, reason=given.reason)
        return await self._finder.view(caller, given.task_id)

    async def end(self, caller: Caller, ref: str, *, reason: str | None = None) -> Task:
        """End the latest run of a delegated task.

        Raises:
            NotCancelable: it has ended already.
        """
        why = reason or f"cancelled by {caller.subject}"
        for _ in range(_TRIES):  # each time it moved on in between
            run = await self._finder.latest(caller, ref)
            if run.task.state in TERMINAL:
                raise NotCancelable(run.task.state.value)
            line = self._line(caller, "task.cancel", run, why)
            if await self._step(_move(caller, run, State.CANCELLED, why), line):
                self._coordinator.cancel(run.task.id)
                return await self._finder.get(caller, str(run.task.id))
        raise TaskBusy(State.IN_PROGRESS.value)

    async def provide_input(self, caller: Caller, given: m.ProvideInput) -> m.TaskView:
        """Answer what a task asked, or what nobody else can know of it.

        Raises:
            TaskBusy: it asks nothing.
            Conflict: what it waits for is an approval, which is decided elsewhere.
        """
        run = await self._finder.latest(caller, given.task_id)
        if run.task.state is not State.INPUT_REQUIRED:
            raise TaskBusy(run.task.state.value)
        if run.waits_for:
            raise WaitsForApproval(run.waits_for)
        if (effect := given.effect) is not None and effect.done:
            await self._effects.settle_by_hand(caller.tenant, run.canonical, effect.step, effect.outcome)
        elif effect is not None:
            await self._effects.withdraw_by_hand(caller.tenant, run.canonical, effect.step)
        reason = f"answered by {caller.subject}"
        line = self._line(caller, "task.provide_input", run, reason)
        said = given.model_dump(mode="json", include={"input", "effect"}, exclude_none=True)
        answer = {"by": caller.subject, "at": datetime.now(UTC).isoformat(), **said}
        move = _move(caller, run, State.QUEUED, reason)
        move.answer = answer
        if not await self._step(move, line):
            raise TaskBusy("no longer waiting")
        self._coordinator.poke()
        return await self._finder.view(caller, given.task_id)

    async def transition(self, caller: Caller, given: m.TransitionTask) -> m.TaskView:
        """Move a task by hand, as far as the lifecycle goes.

        Raises:
            InvalidTransition: it has no such step; the refusal is kept in the history.
        """
        run, task = await self._finder.found(caller, given.task_id)
        try:
            check_transition(task.state, given.to)
        except InvalidTransition:
            event = {"kind": "refused", "from": task.state.value, "to": given.to.value, "by": caller.subject}
            await self._store.note(caller.tenant, task.id, {**event, "reason": given.reason or "no such step"})
            self._hub.happened(task.id)
            raise
        if run is None:
            if given.to is not State.CANCELLED:
                raise Conflict(
                    "a turn of a conversation is moved by its agent; it can be cancelled", reason="NOT_DELEGATED"
                )
            return await self.cancel(caller, m.CancelTask(task_id=given.task_id, reason=given.reason))
        if given.to is State.CANCELLED:
            return await self.cancel(caller, m.CancelTask(task_id=given.task_id, reason=given.reason))
        if task.state in TERMINAL:
            return await self.retry(caller, m.RetryTask(task_id=given.task_id, reason=given.reason))
        await self._by_hand(caller, run, given)
        return await self._finder.view(caller, given.task_id)

    async def retry_many(self, caller: Caller, given: m.ManyTasks) -> m.ManyDone:
        """Try again all that fit and failed."""
        states = (given.state,) if given.state else (State.FAILED, State.DEAD_LETTER)
        return await self._many(
            caller, given, states, lambda ref: self.retry(caller, m.RetryTask(task_id=ref, reason=given.reason))
        )

    async def cancel_many(self, caller: Caller, given: m.ManyTasks) -> m.ManyDone:
        """End all that fit and have not ended."""
        open_states = tuple(state for state in State if state not in TERMINAL)
        states = (given.state,) if given.state else open_states
        return await self._many(
            caller, given, states, lambda ref: self.cancel(caller, m.CancelTask(task_id=ref, reason=given.reason))
        )

    async def _by_hand(self, caller: Caller, run: RunRow, given: m.TransitionTask) -> None:
        reason = given.reason or f"moved by {caller.subject}"
        move = _move(caller, run, given.to, reason)
        match given.to:
            case State.IN_PROGRESS:
                await self._judged(caller, run)
                move.run_at = datetime.now(UTC) + _BY_HAND
            case State.INPUT_REQUIRED:
                move.run_at = run.deadline or NEVER
            case State.SUCCEEDED:
                move.artifacts = result_artifacts(run.action, Performed(given.result or {}), run.governance)
            case State.QUEUED if run.waits_for:
                raise WaitsForApproval(run.waits_for)
            case State.FAILED | State.REJECTED | State.DEAD_LETTER:
                move.error = {"code": "MOVED_BY_HAND", "message": reason, "details": {"by": caller.subject}}
                move.events[0]["error"] = move.error
            case _:
                pass
        line = self._line(caller, "task.transition", run, reason, to=given.to.value)
        if not await self._step(move, line):
            raise TaskBusy("no longer what it was")
        self._coordinator.cancel(run.task.id)
        self._coordinator.poke()

    async def _judged(self, caller: Caller, run: RunRow) -> None:
        envelope = Envelope.model_validate(run.envelope)
        route = await self._entrance.registry.find(caller, run.action)
        if route is None:
            raise CapabilityNotFound(run.action)
        judgment = await self._entrance.governance.judge(
            caller, envelope, route.capability, task_id=run.canonical, phase=Phase.EXECUTION
        )
        if judgment.waits_for:
            raise WaitsForApproval(judgment.waits_for)

    async def _step(self, move: Move, line: Line) -> bool:
        if await self._store.move([(move, line)]) == [None]:
            return False
        self._hub.happened(move.id)
        return True

    async def _many(
        self,
        caller: Caller,
        given: m.ManyTasks,
        states: Sequence[State],
        do: Callable[[str], Awaitable[m.TaskView]],
    ) -> m.ManyDone:
        done: list[UUID] = []
        refused: list[Json] = []
        seen: set[UUID] = set()
        more = False
        for state in states:
            wanted = m.ListTasks(**given.model_dump(exclude={"limit", "reason", "state"}), state=state, limit=200)
            cursor: UUID | None = None
            while found := await self._finder.page(caller, wanted, 200, cursor):
                cursor = found[-1].id
                for task in found:
                    if task.action is None or task.task_id in seen:
                        continue
                    if len(done) >= given.limit:
                        more = True
                        break
                    seen.add(task.task_id)
                    try:
                        await do(str(task.task_id))
                        done.append(task.task_id)
                    except DragomanError as error:
                        refused.append({"task_id": str(task.task_id), "code": error.code, "message": error.message})
                if more:
                    break
        return m.ManyDone(done=done, refused=refused, more=more)

    def _line(self, caller: Caller, name: str, run: RunRow, reason: str, **details: str | int) -> Line:
        told: dict[str, str | int] = {"action": run.action, "actor": run.actor, **details}
        entry = Entry(name, Outcome.DONE, resource=str(run.canonical), reason=reason[:500], details=told)
        return self._entrance.trail.write(caller, entry)


def _move(caller: Caller, run: RunRow, to: State, reason: str) -> Move:
    """A step that somebody takes by hand, from where they saw the task."""
    task = run.task
    event: Json = {"kind": "status", "from": task.state.value, "to": to.value, "by": caller.subject, "reason": reason}
    if to is State.IN_PROGRESS:
        event["attempt"] = task.attempt + 1
    now = datetime.now(UTC)
    return Move(task.tenant_id, task.id, task.state.value, to.value, [event], attempt=task.attempt, run_at=now)
