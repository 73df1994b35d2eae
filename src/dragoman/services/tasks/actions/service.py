"""Delegated tasks for those who ask: hand over, look, list, read the log."""

from dragoman.context import Caller
from dragoman.operations import Page
from dragoman.services.tasks import shapes as m
from dragoman.services.tasks.access import TaskAccess
from dragoman.services.tasks.actions.submission import Submissions
from dragoman.services.tasks.events import kind_of
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.store import TaskStore
from dragoman.services.tasks.store_views import RunRow, TaskViewStore
from dragoman.services.tasks.views import TaskViews


class DelegationService:
    """What the doors call, through the gate."""

    def __init__(
        self,
        submissions: Submissions,
        *,
        views: TaskViewStore,
        tasks: TaskStore,
        access: TaskAccess,
    ) -> None:
        self._submissions = submissions
        self._views = views
        self._tasks = tasks
        self.views = TaskViews(tasks, views, access)

    async def submit(self, caller: Caller, request: m.SubmitTask) -> m.Submitted:
        """Submit an action.

        Raises:
            DragomanError: a guard refused it, and nothing is queued.
        """
        task_id, accepted = await self._submissions.take(caller, request.envelope, request.origin)
        if accepted is None:
            run = (await self._views.runs(caller.tenant, task_id))[-1]
            return _submitted(run, replayed=True)
        return m.Submitted(
            task_id=task_id,
            state=State(accepted.state),
            correlation_id=accepted.correlation_id,
            attempt=1,
            max_attempts=accepted.max_attempts,
            replayed=False,
            waits_for=accepted.waits_for or [],
        )

    async def status(self, caller: Caller, request: m.TaskRef) -> m.TaskView:
        """Return a task with its history and attempts.

        Raises:
            TaskNotFound: it does not exist, or is another tenant's.
        """
        return await self.views.view(caller, request.task_id)

    async def list_tasks(self, caller: Caller, request: m.ListTasks) -> Page[m.TaskSummary]:
        """Return tasks of every kind, newest first."""
        found = await self.views.page(caller, request, request.cursor)
        items = found[: request.limit]
        return Page(items=items, next_cursor=str(items[-1].id) if len(found) > request.limit else None)

    async def events(self, caller: Caller, request: m.ListEvents) -> m.TaskEvents:
        """Return a page of the log of a task; of its latest run, unless a run is named."""
        task = await self.views.get(caller, request.task_id)
        if (runs := await self.views.runs(caller, task)) and task.id == runs[0].canonical:
            task = runs[-1].task
        log = await self._tasks.events(caller.tenant, task.id, request.after, request.limit)
        shown = [
            m.TaskEvent(seq=logged.seq, at=logged.at, kind=kind_of(logged.event), body=logged.event.body())
            for logged in log
        ]
        last = log[-1].seq if log else request.after
        return m.TaskEvents(task_id=task.id, state=task.state, events=shown, next_after=last)


def _submitted(run: RunRow, *, replayed: bool) -> m.Submitted:
    return m.Submitted(
        task_id=run.canonical,
        state=run.task.state,
        correlation_id=run.correlation_id,
        attempt=max(run.task.attempt, 1),
        max_attempts=run.max_attempts,
        replayed=replayed,
        waits_for=run.waits_for or [],
    )
