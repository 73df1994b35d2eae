"""Controlling tasks: answer, retry, cancel, move by hand, one or many. Each step leaves its record.

All but the bulk operations are one transaction of the core, which the gate opens: with the idempotency key of the
request, the step, and what the caller is shown of it. What has to be looked up elsewhere comes before it: a transaction
never waits for another connection.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import Conflict, DragomanError, UpstreamUnavailable
from dragoman.infra.db import Database, UniqueViolated
from dragoman.services.audit.models import Detail, Outcome
from dragoman.services.audit.rows import Rows, hashed
from dragoman.services.audit.store import Line
from dragoman.services.audit.trail import AuditTrail, Entry
from dragoman.services.tasks import events
from dragoman.services.tasks import shapes as m
from dragoman.services.tasks.actions.actors import Actors, acting_in
from dragoman.services.tasks.actions.envelope import Envelope, fifo_key_of
from dragoman.services.tasks.actions.errors import CapabilityNotFound, NotRetryable, WaitsForApproval
from dragoman.services.tasks.actions.ports import Governance, Phase, Registry
from dragoman.services.tasks.actions.results import result_artifacts
from dragoman.services.tasks.engine.engine import FIFO_INDEX, Engine
from dragoman.services.tasks.engine.retries import RetryPolicy
from dragoman.services.tasks.engine.steps import ActionBirth, LaneName, Queue, Step
from dragoman.services.tasks.engine.store import EngineStore
from dragoman.services.tasks.engine.store_effects import EffectStore
from dragoman.services.tasks.engine.store_rows import OPEN, delegation_columns, task_columns
from dragoman.services.tasks.errors import NotCancelable, TaskBusy, TaskMoved
from dragoman.services.tasks.events import Json
from dragoman.services.tasks.identity import caller_of
from dragoman.services.tasks.lifecycle import TERMINAL, InvalidTransition, State, check_transition
from dragoman.services.tasks.models import Task
from dragoman.services.tasks.store_views import RunRow
from dragoman.services.tasks.views import TaskViews
from dragoman.services.workers.protocol import Performed

# How long one who takes a task by hand has to bring it to its end, before a worker takes it.
_BY_HAND = timedelta(minutes=5)
_TRIES = 10


class TaskControl:
    """What operators, workers and those who were asked may do to a task."""

    def __init__(  # noqa: PLR0913 - what it asks of others, each by its name
        self,
        engine: Engine,
        store: EngineStore,
        effects: EffectStore,
        views: TaskViews,
        *,
        db: Database,
        actors: Actors,
        registry: Registry,
        governance: Governance,
        trail: AuditTrail,
        retries: RetryPolicy,
        new_id: Callable[[], UUID],
    ) -> None:
        self._engine = engine
        self._store = store
        self._effects = effects
        self._views = views
        self._db = db
        self._actors = actors
        self._registry = registry
        self._governance = governance
        self._trail = trail
        self._retries = retries
        self._new_id = new_id

    async def retry(self, caller: Caller, request: m.RetryTask) -> m.TaskView:
        """Open another run of a task that failed; its approvals and its side effects are those of the task.

        Raises:
            NotRetryable: it did not fail.
        """
        run = await self._views.latest(caller, request.task_id)
        before = run.task
        if before.state not in (State.FAILED, State.DEAD_LETTER):
            raise NotRetryable(before.state.value)
        reason = request.reason or f"tried again by {caller.subject}"
        timely = run.deadline is not None and not await self._engine.is_past(run.deadline)
        again = self._new_run(caller, run, reason, deadline=run.deadline if timely else None)
        with _first_of_key():
            added = await self._store.add_actions([again])
        if not added:
            raise NotRetryable("being retried")
        await self._after_commit(again.id)
        return await self._views.view(caller, str(run.canonical))

    def _new_run(self, caller: Caller, run: RunRow, reason: str, *, deadline: datetime | None) -> ActionBirth:
        before = run.task
        queued = events.StatusEvent(before.state, State.QUEUED, by=caller.subject, reason=reason)
        new_id = self._new_id()
        rows: Rows = {
            f"tasks/{new_id}": task_columns(State.QUEUED, owner=before.owner),
            f"delegations/{new_id}": delegation_columns(
                canonical=run.canonical,
                run=run.run + 1,
                actor=run.actor,
                action=run.action,
                matter=run.matter,
                governance=run.governance,
                envelope=run.envelope,
            ),
        }
        return ActionBirth(
            tenant=caller.tenant,
            id=new_id,
            canonical=run.canonical,
            run=run.run + 1,
            context_id=before.context_id,
            owner=before.owner,
            lane=LaneName.ACTION,
            skill="task",
            state=State.QUEUED.value,
            metadata={
                "action": run.action,
                "correlation_id": run.correlation_id,
                "retryOf": str(run.canonical),
                "referenceTaskIds": [str(before.id)],
            },
            caller=before.caller,
            events=[queued],
            history=before.history[:1],
            queue=True,
            fifo_key=fifo_key_of(run.envelope),
            actor=run.actor,
            key=run.envelope["idempotency_key"],
            digest="",
            action=run.action,
            matter=run.matter,
            correlation_id=run.correlation_id,
            attempt=before.attempt,
            max_attempts=before.attempt + self._retries.max_attempts,
            deadline=deadline,
            governance=run.governance,
            envelope=run.envelope,
            _record=self._record(caller, "task.retry", run, before, reason, rows, new_run=run.run + 1),
        )

    async def cancel(self, caller: Caller, request: m.CancelTask) -> m.TaskView:
        """End a task of any kind, in whichever process it runs.

        Raises:
            NotCancelable: it has ended already.
        """
        reason = request.reason or f"cancelled by {caller.subject}"
        for _ in range(_TRIES):  # each time it moved on in between
            run, task = await self._views.found(caller, request.task_id)
            if task.state in TERMINAL:
                raise NotCancelable(task.state.value)
            rows: Rows = {f"tasks/{task.id}": task_columns(State.CANCELLED)}
            record = self._record(caller, "task.cancel", run, task, reason, rows)
            step = _step(caller, run, task, State.CANCELLED, reason, record, queue=Queue.END)
            if await self._write(step):
                return await self._views.view(caller, request.task_id)
        raise TaskBusy(State.IN_PROGRESS.value)

    async def provide_input(self, caller: Caller, request: m.ProvideInput) -> m.TaskView:
        """Answer what a task asked, or what nobody else can know of it.

        Raises:
            TaskBusy: it asks nothing.
            Conflict: what it waits for is an approval, which is decided elsewhere.
        """
        run = await self._views.latest(caller, request.task_id)
        if run.task.state is not State.INPUT_REQUIRED:
            raise TaskBusy(run.task.state.value)
        if run.waits_for:
            raise WaitsForApproval(run.waits_for)
        if (effect := request.effect) is not None:
            self._views.access.check_steering(caller)
            await self._effects.answer(
                caller.tenant, run.canonical, effect.step, done=effect.done, outcome=effect.outcome
            )
        reason = f"answered by {caller.subject}"
        said = request.model_dump(mode="json", include={"input", "effect"}, exclude_none=True)
        about: dict[str, str] = {"answer": hashed(said)}
        if effect is not None:
            about |= {"effect": effect.step, "effect_done": "yes" if effect.done else "no"}
        queued: Rows = {f"tasks/{run.task.id}": task_columns(State.QUEUED)}
        step = _step(
            caller,
            run,
            run.task,
            State.QUEUED,
            reason,
            self._record(caller, "task.provide_input", run, run.task, reason, queued, **about),
            queue=Queue.READY,
            fifo_key=fifo_key_of(run.envelope),
            answer={"by": caller.subject, "at": datetime.now(UTC).isoformat(), **said},
            more_attempts=1,
        )
        if not await self._write(step):
            raise TaskMoved(run.task.state.value)
        return await self._views.view(caller, request.task_id)

    async def effect_settled(self, tenant: UUID, canonical: UUID, step: str) -> None:
        """Resume a task that asks a person what became of an effect: the ledger knows it by now."""
        reason = f"the outcome of the step {step!r} is known"
        for run in await self._views.waiting_for_effect(tenant, canonical, step):
            await self._resume(run, reason, more_attempts=1)
        task = await self._views.find_turn_waiting_for_effect(tenant, canonical, step)
        if task is None:
            return
        rows: Rows = {f"tasks/{task.id}": task_columns(OPEN)}
        record = self._record(caller_of(task), "task.resume", None, task, reason, rows)
        resumed = Step(
            tenant=tenant,
            id=task.id,
            events=[events.StatusEvent(State.INPUT_REQUIRED, State.QUEUED, reason=reason)],
            attempt=task.attempt,
            slot={"restart": (task.slot or {})["restart"]},
            queue=Queue.READY,
            fifo_key=task.thread.fifo_key,
            _records=(record,),
        )
        if await self._engine.write(resumed) is not None:
            self._engine.poke()

    async def approval_decided(self, tenant: UUID, approval_id: str) -> None:
        """Resume the tasks that waited for an approval which is no longer open, and for nothing else."""
        for canonical in await self._store.decided(tenant, approval_id):
            for run in await self._views.waiting_for_approval(tenant, canonical, approval_id):
                await self._resume(run, "approvals are decided", approval=approval_id)

    async def _resume(self, run: RunRow, reason: str, *, more_attempts: int = 0, **details: str) -> None:
        """Queue a parked action again, by itself; nothing when someone else has moved it meanwhile."""
        task = run.task
        rows: Rows = {f"tasks/{task.id}": task_columns(State.QUEUED)}
        record = self._record(caller_of(task), "task.resume", run, task, reason, rows, **details)
        step = Step(
            tenant=task.tenant_id,
            id=task.id,
            events=[events.StatusEvent(State.INPUT_REQUIRED, State.QUEUED, reason=reason)],
            lane=LaneName.ACTION,
            attempt=task.attempt,
            queue=Queue.READY,
            fifo_key=fifo_key_of(run.envelope),
            more_attempts=more_attempts,
            _records=(record,),
        )
        if await self._engine.write(step) is not None:
            self._engine.poke()

    async def check_move(self, caller: Caller, request: m.TransitionTask) -> m.TransitionTask:
        """Refuse, before anything is begun, a move that the lifecycle or a guard does not allow.

        Raises:
            InvalidTransition: the lifecycle does not allow it; the log of the task says that it was tried.
        """
        run, task = await self._views.found(caller, request.task_id)
        self._views.access.check_steering(caller)
        try:
            check_transition(task.state, request.to)
        except InvalidTransition:
            reason = request.reason or "no such transition"
            event = events.RefusedEvent(task.state, request.to, by=caller.subject, reason=reason)
            await self._store.note(caller.tenant, task.id, event)
            self._engine.notifier.happened(task.id)
            raise
        if run is not None and request.to is State.IN_PROGRESS:
            await self._judge(caller, run)
        return request

    async def transition(self, caller: Caller, request: m.TransitionTask) -> m.TaskView:
        """Move a task by hand, as far as the lifecycle goes, after `check_move`.

        Raises:
            InvalidTransition: the lifecycle does not allow it.
        """
        run, task = await self._views.found(caller, request.task_id)
        check_transition(task.state, request.to)
        if request.to is State.CANCELLED:
            return await self.cancel(caller, m.CancelTask(task_id=request.task_id, reason=request.reason))
        if run is None:
            raise Conflict(
                "a turn of a conversation is moved by its agent; it can be cancelled", reason="NOT_DELEGATED"
            )
        if task.state in TERMINAL:
            return await self.retry(caller, m.RetryTask(task_id=request.task_id, reason=request.reason))
        await self._move_by_hand(caller, run, request)
        return await self._views.view(caller, request.task_id)

    async def retry_many(self, caller: Caller, request: m.ManyTasks) -> m.ManyDone:
        """Try again all that fit and failed."""
        states = (request.state,) if request.state else (State.FAILED, State.DEAD_LETTER)
        return await self._many(
            caller, request, states, lambda ref: self.retry(caller, m.RetryTask(task_id=ref, reason=request.reason))
        )

    async def cancel_many(self, caller: Caller, request: m.ManyTasks) -> m.ManyDone:
        """End all that fit and have not ended."""
        open_states = tuple(state for state in State if state not in TERMINAL)
        states = (request.state,) if request.state else open_states
        return await self._many(
            caller, request, states, lambda ref: self.cancel(caller, m.CancelTask(task_id=ref, reason=request.reason))
        )

    async def _move_by_hand(self, caller: Caller, run: RunRow, request: m.TransitionTask) -> None:
        reason = request.reason or f"moved by {caller.subject}"
        error: Json | None = None
        artifacts: list[Json] | None = None
        queue, delay_s, until = Queue.END, 0.0, run.deadline
        match request.to:
            case State.IN_PROGRESS:
                queue, delay_s = Queue.READY, _BY_HAND.total_seconds()
            case State.INPUT_REQUIRED:
                queue = Queue.WAIT
            case State.QUEUED:
                if run.waits_for:
                    raise WaitsForApproval(run.waits_for)
                queue = Queue.READY
            case State.SUCCEEDED:
                artifacts = result_artifacts(run.action, Performed(request.result or {}), run.governance)
            case _:
                error = {"code": "MOVED_BY_HAND", "message": reason, "details": {"by": caller.subject}}
        rows: Rows = {f"tasks/{run.task.id}": task_columns(request.to, artifacts=artifacts)}
        record = self._record(caller, "task.transition", run, run.task, reason, rows, to=request.to.value)
        step = _step(
            caller, run, run.task, request.to, reason, record, queue=queue, delay_s=delay_s, until=until, error=error,
            artifacts=artifacts, fifo_key=fifo_key_of(run.envelope),
        )  # fmt: skip
        if not await self._write(step):
            raise TaskMoved(run.task.state.value)

    async def _judge(self, caller: Caller, run: RunRow) -> None:
        envelope = Envelope.model_validate(run.envelope)
        route = await self._registry.find(caller, run.action)
        if route is None:
            raise CapabilityNotFound(run.action)
        acting = await self._actors.check_again(caller_of(run.task), envelope, run.governance)
        judgment = await self._governance.judge(
            caller, envelope, route.capability, acting=acting, task_id=run.canonical, phase=Phase.EXECUTION
        )
        if judgment.waits_for:
            raise WaitsForApproval(judgment.waits_for)

    async def _write(self, step: Step) -> bool:
        """Write a step in the transaction that is open, and stop the work on the task once that is committed."""
        with _first_of_key():
            (written,), freed = await self._store.step([step])
        if written is None:
            return False
        stops = step.state is not State.QUEUED
        await self._after_commit(step.id, *freed, stopped=step.id if stops else None)
        return True

    async def _after_commit(self, *changed: UUID, stopped: UUID | None = None) -> None:
        async def tell() -> None:
            for task_id in changed:
                self._engine.notifier.happened(task_id)
            if stopped is not None:
                self._engine.cancel(stopped)
            self._engine.poke()

        await self._db.after_commit(tell)

    async def _many(
        self,
        caller: Caller,
        request: m.ManyTasks,
        states: Sequence[State],
        do: Callable[[str], Awaitable[m.TaskView]],
    ) -> m.ManyDone:
        done: list[UUID] = []
        refused: list[Json] = []
        seen: set[UUID] = set()
        more = False
        for state in states:
            query = m.ListTasks(**request.model_dump(exclude={"limit", "reason", "state"}), state=state, limit=200)
            cursor: UUID | None = None
            while page := await self._views.page(caller, query, cursor):
                cursor = page[-1].id
                for task in page:
                    if task.action is None or task.task_id in seen:
                        continue
                    if len(done) >= request.limit:
                        more = True
                        break
                    seen.add(task.task_id)
                    try:
                        await do(str(task.task_id))
                        done.append(task.task_id)
                    except UpstreamUnavailable:
                        raise  # the rest was not tried, so the request as a whole is to be repeated
                    except DragomanError as error:
                        refused.append({"task_id": str(task.task_id), "code": error.code, "message": error.message})
                if more:
                    break
        return m.ManyDone(done=done, refused=refused, more=more)

    def _record(
        self,
        caller: Caller,
        name: str,
        run: RunRow | None,
        task: Task,
        reason: str,
        rows: Rows | None = None,
        **details: str | int,
    ) -> Line:
        about: dict[str, Detail] = {"action": run.action, "actor": run.actor} if run else {"owner": task.owner}
        if run is not None and (acting := acting_in(run.governance, run.envelope)) is not None:
            about |= acting.details()
        resource = str(run.canonical if run else task.id)
        entry = Entry(
            name, Outcome.DONE, resource=resource, reason=reason[:500], details={**about, **details}, rows=rows
        )
        return self._trail.write(caller, entry)


@contextmanager
def _first_of_key() -> Generator[None]:
    """Ask for a repetition when another task of the same key was queued at the same moment."""
    try:
        yield
    except UniqueViolated as error:
        if error.constraint != FIFO_INDEX:
            raise
        raise UpstreamUnavailable("the queue of its key", retry_after_s=1) from error


def _step(
    caller: Caller,
    run: RunRow | None,
    task: Task,
    to: State,
    reason: str,
    record: Line,
    *,
    error: Json | None = None,
    **details: object,
) -> Step:
    """Return a step that somebody takes by hand, from where they saw the task."""
    attempt = task.attempt + 1 if to is State.IN_PROGRESS else None
    event = events.StatusEvent(task.state, to, by=caller.subject, reason=reason, attempt=attempt, error=error)
    return Step(
        tenant=task.tenant_id,
        id=task.id,
        events=[event],
        lane=LaneName.ACTION if run else LaneName.TURN,
        attempt=task.attempt,
        error=error,
        _records=(record,),
        **details,  # pyright: ignore[reportArgumentType] - the fields of a step, each by its name
    )
