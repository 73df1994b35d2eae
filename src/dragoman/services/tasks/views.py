"""Finding tasks, of every kind and by any of their names, and showing how they stand."""

from uuid import UUID

from dragoman.context import Caller
from dragoman.errors import Conflict
from dragoman.services.tasks import shapes as m
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.actions.actors import Acting, acting_in
from dragoman.services.tasks.errors import TaskNotFound
from dragoman.services.tasks.history import attempts_of, steps_of
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Cursor, Json, Order, Task, TaskQuery
from dragoman.services.tasks.store import TaskStore
from dragoman.services.tasks.store_views import RunRow, TaskViewStore


class TaskViews:
    """Reads the tasks of a tenant."""

    def __init__(self, tasks: TaskStore, views: TaskViewStore, access: TaskAccess) -> None:
        self._tasks = tasks
        self._views = views
        self.access = access

    async def get(self, caller: Caller, ref: str) -> Task:
        """Return a task of any kind.

        Raises:
            TaskNotFound: it does not exist, or the caller may not see it.
        """
        task = await self._tasks.find(caller.tenant, ref)
        if task is None:
            raise TaskNotFound(ref)
        self.access.check(caller, task, ref)
        return task

    async def runs(self, caller: Caller, task: Task) -> list[RunRow]:
        """Return every run of an action, and none for a turn."""
        if not task.delegated:
            return []
        canonical = await self._views.find_canonical(caller.tenant, task.id)
        return await self._views.runs(caller.tenant, canonical) if canonical is not None else []

    async def found(self, caller: Caller, ref: str) -> tuple[RunRow | None, Task]:
        """Return the latest run of an action with its task; None and the task for a turn."""
        task = await self.get(caller, ref)
        runs = await self.runs(caller, task)
        return (runs[-1], runs[-1].task) if runs else (None, task)

    async def latest(self, caller: Caller, ref: str) -> RunRow:
        """Return the latest run of an action.

        Raises:
            TaskNotFound: it does not exist, or the caller may not see it.
            Conflict: it was not handed over.
        """
        run, _ = await self.found(caller, ref)
        if run is None:
            raise Conflict(
                "the task is a turn of a conversation: only delegated actions can be retried, moved or answered here",
                reason="NOT_DELEGATED",
            )
        return run

    async def waiting_for_effect(self, tenant: UUID, canonical: UUID, step: str) -> list[RunRow]:
        """Return the latest run of a task, if it waits for a person to say what became of this step."""
        runs = await self._views.runs(tenant, canonical)
        if not runs or runs[-1].task.state is not State.INPUT_REQUIRED:
            return []
        slot: Json = runs[-1].task.slot or {}
        value: Json = slot.get("value") or {}
        asked: Json = value.get("details") or {}
        return runs[-1:] if (asked.get("reason"), asked.get("step")) == ("EFFECT_UNKNOWN", step) else []

    async def find_turn_waiting_for_effect(self, tenant: UUID, task_id: UUID, step: str) -> Task | None:
        """Return the turn of a conversation that asks a person what became of this step."""
        task = await self._tasks.find(tenant, str(task_id))
        if task is None or task.delegated or task.state is not State.INPUT_REQUIRED:
            return None
        return task if (task.slot or {}).get("effect") == step else None

    async def waiting_for_approval(self, tenant: UUID, canonical: UUID, approval_id: str) -> list[RunRow]:
        """Return the latest run of a task, if it waits for this approval."""
        runs = await self._views.runs(tenant, canonical)
        waits = runs and runs[-1].task.state is State.INPUT_REQUIRED and approval_id in (runs[-1].waits_for or ())
        return runs[-1:] if waits else []

    async def page(self, caller: Caller, request: m.ListTasks, cursor: UUID | None) -> list[m.TaskSummary]:
        """Return tasks of every kind, newest first, one more than the limit if there are more."""
        query = TaskQuery(
            limit=request.limit,
            order=Order.CREATED,
            after=Cursor(cursor) if cursor is not None else None,
            states=(request.state,) if request.state is not None else None,
            action=request.action,
            matter=request.matter,
            actor=request.actor,
            correlation_id=request.correlation_id,
            error=request.error,
            created_since=request.since,
        )
        rows = await self._views.page(caller.tenant, query, self.access.visible(caller))
        return [
            m.TaskSummary(
                id=row["id"],
                task_id=row["canonical_id"] or row["id"],
                state=State(row["state"]),
                action=row["action"],
                actor=row["actor"],
                **_acting(Acting(row["on_behalf_of"], row["grant_id"]) if row["on_behalf_of"] else None),
                matter=row["matter"],
                correlation_id=row["correlation_id"],
                attempt=max(row["attempt"], 1),
                error=row["error"],
                created_at=row["created_at"],
                updated_at=row["status_at"],
            )
            for row in rows
        ]

    async def view(self, caller: Caller, ref: str) -> m.TaskView:
        """Return a task with its history and attempts.

        Raises:
            TaskNotFound: it does not exist, or the caller may not see it.
        """
        task = await self.get(caller, ref)
        runs = await self.runs(caller, task)
        if not runs:
            rows = await self._views.steps(caller.tenant, [task.id])
            return _conversation(task, steps_of((), rows, owner=task.owner))
        rows = await self._views.steps(caller.tenant, [run.task.id for run in runs])
        view = _view(runs[-1], first=runs[0])
        steps, attempts = steps_of(runs, rows, owner="dragoman"), attempts_of(runs, rows)
        return view.model_copy(update={"history": steps, "attempts": attempts})


def _view(run: RunRow, *, first: RunRow) -> m.TaskView:
    task = run.task
    made = {artifact["id"]: artifact["parts"][0]["data"] for artifact in task.artifacts if artifact["parts"]}
    queued_again = run.run > 1 and task.attempt == first.task.attempt
    return m.TaskView(
        task_id=run.canonical,
        state=task.state,
        attempt=task.attempt + 1 if queued_again else max(task.attempt, 1),
        max_attempts=run.max_attempts,
        run=run.run,
        correlation_id=run.correlation_id,
        action=run.action,
        actor=run.actor,
        **_acting(acting_in(run.governance, run.envelope)),
        matter=run.envelope["matter"],
        resource=run.envelope["resource"],
        deadline=run.deadline,
        dry_run=run.dry_run,
        created_at=first.task.created_at,
        updated_at=task.status_at,
        governance=run.governance,
        waits_for=run.waits_for or [],
        question=(task.slot or {}).get("value"),
        error=task.error,
        result=made.get("result"),
        evidence=made.get("evidence", {}).get("evidence", []),
    )


def _acting(acting: Acting | None) -> Json:
    return acting.shown() if acting is not None else {}


def _conversation(task: Task, steps: list[m.Step]) -> m.TaskView:
    """Return a turn in the shape of an action, without what only an envelope says."""
    parts = [part for artifact in task.artifacts for part in artifact["parts"]]
    made = next((part["data"] for part in parts if part["kind"] == "data" and isinstance(part["data"], dict)), None)
    return m.TaskView(
        task_id=task.id,
        state=task.state,
        attempt=task.attempt,
        max_attempts=task.attempt,
        actor=task.owner,
        created_at=task.created_at,
        updated_at=task.status_at,
        question=(task.slot or {}).get("value") if isinstance((task.slot or {}).get("value"), dict) else None,
        error=task.error,
        result=made,
        history=steps,
    )
