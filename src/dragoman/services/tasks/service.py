"""Tasks for those who ask: send a message, look, wait, follow, cancel. One task, whichever door shows it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from uuid import UUID

from dragoman.context import Caller
from dragoman.services.tasks.errors import (
    NotCancelable,
    StateTooLarge,
    TaskBusy,
    TaskClosed,
    TaskNotFound,
    ThreadExpired,
    WrongContext,
)
from dragoman.services.tasks.hub import Hub
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Happening, Incoming, Json, Task, Wanted
from dragoman.services.tasks.runs import Run, Runs, caller_json, status_event
from dragoman.services.tasks.store import Change, TaskStore, ThreadStore
from dragoman.services.tasks.writer import TaskWriter

_MOMENT_S = 0.2


class TaskService:
    """What the doors call, through the gate."""

    def __init__(
        self,
        *,
        store: TaskStore,
        threads: ThreadStore,
        writer: TaskWriter,
        hub: Hub,
        runs: Runs,
        worker: UUID,
        new_id: Callable[[], UUID],
        thread_bytes: int,
    ) -> None:
        self._store = store
        self._threads = threads
        self._writer = writer
        self._hub = hub
        self._runs = runs
        self._worker = worker
        self._new_id = new_id
        self._thread_bytes = thread_bytes

    async def send(self, caller: Caller, incoming: Incoming) -> Task:
        """Begin a task, or go on with one that asked; returns when it rests, or when the sender has waited enough.

        Raises:
            TaskNotFound: the task to go on with does not exist, or is another tenant's.
            TaskClosed: it has ended.
            TaskBusy: it has asked nothing.
            ThreadExpired: the conversation was idle for too long.
            StateTooLarge: the conversation would hold too much.
        """
        run = await (self._resume(caller, incoming) if incoming.task_ref else self._begin(caller, incoming))
        if incoming.wait_s == 0:
            await run.store()
            return run.task
        await asyncio.wait({run.work}, timeout=_MOMENT_S)
        if not run.work.done():
            await run.store()
            await asyncio.wait({run.work}, timeout=incoming.wait_s)
        return await self._result(caller, run)

    async def get(self, caller: Caller, ref: str) -> Task:
        """How a task stands, with what it has made so far.

        Raises:
            TaskNotFound: it does not exist, or is another tenant's.
        """
        task = await self._store.find(caller.tenant, ref)
        if task is None:
            raise TaskNotFound(ref)
        if not task.terminal:
            task.artifacts = await self._drafts(task) or task.artifacts
        return task

    async def page(self, caller: Caller, wanted: Wanted) -> tuple[list[Task], int]:
        """Newest first, one more than the limit when there are more, and how many there are in all."""
        return await self._store.page(caller.tenant, wanted), await self._store.count(caller.tenant, wanted)

    async def cancel(self, caller: Caller, ref: str) -> Task:
        """End a task, in whichever process it runs.

        Raises:
            NotCancelable: it has ended already.
        """
        task = await self.get(caller, ref)
        event = status_event(task, State.CANCELLED, reason=f"cancelled by {caller.subject}")
        change = Change(task.tenant_id, task.id, [event], state=State.CANCELLED.value)
        if await self._writer.change(change) is None:
            raise NotCancelable((await self.get(caller, ref)).state.value)
        if (run := self._runs.find(task.id)) is not None:
            run.work.cancel()
        self._hub.happened(task.id)
        return await self.get(caller, ref)

    async def follow(self, caller: Caller, task: Task, after: int) -> AsyncGenerator[Happening]:
        """What has happened since event `after` and what happens from now on, in order, none lost, until it rests."""
        with self._hub.follow(task.id) as signal:
            while True:
                signal.clear()
                happenings = await self._store.events(caller.tenant, task.id, after)
                for happening in happenings:
                    after = happening.seq
                    yield happening
                if happenings and _rests(happenings[-1]):
                    current = await self._store.find(caller.tenant, str(task.id))
                    if current is None or (current.resting and current.seq == after):
                        return
                if not happenings:
                    await signal.wait()

    async def _begin(self, caller: Caller, incoming: Incoming) -> Run:
        context_id = incoming.context_id or str(self._new_id())
        if incoming.context_id is not None:
            await self._check_thread(caller, context_id)
        now = datetime.now(UTC)
        task = Task(
            tenant_id=caller.tenant,
            id=self._new_id(),
            alias=incoming.alias,
            context_id=context_id,
            owner=caller.subject,
            skill=None,
            state=State.IN_PROGRESS,
            status_at=now,
            message=None,
            error=None,
            slot=None,
            history=[incoming.message],
            artifacts=[],
            metadata=incoming.metadata or {},
            caller=caller_json(caller),
            seq=0,
            attempt=1,
            created_at=now,
        )
        return self._runs.start(task, caller, incoming.message, stored=False, fresh=incoming.context_id is None)

    async def _resume(self, caller: Caller, incoming: Incoming) -> Run:
        task = await self._store.find(caller.tenant, incoming.task_ref or "")
        if task is None:
            raise TaskNotFound(incoming.task_ref or "")
        if incoming.context_id is not None and incoming.context_id != task.context_id:
            raise WrongContext.given(incoming.context_id)
        if task.terminal:
            raise TaskClosed(task.state.value)
        await self._check_thread(caller, task.context_id)
        events = [{"kind": "message", "message": incoming.message}, status_event(task, State.IN_PROGRESS)]
        change = Change(
            task.tenant_id,
            task.id,
            events,
            expected=State.INPUT_REQUIRED.value,
            state=State.IN_PROGRESS.value,
            slot=task.slot,
            history=[incoming.message],
            worker=self._worker,
        )
        seq = await self._writer.change(change)
        if seq is None:
            raise TaskBusy(task.state.value)
        task.seq, task.state, task.history = seq, State.IN_PROGRESS, [*task.history, incoming.message]
        self._hub.happened(task.id)
        return self._runs.start(task, caller, incoming.message, stored=True)

    async def _check_thread(self, caller: Caller, thread_id: str) -> None:
        found = await self._threads.find(caller.tenant, thread_id)
        if found is None:
            return
        expired, held = found
        if expired:
            raise ThreadExpired(thread_id)
        if held > self._thread_bytes:
            raise StateTooLarge(limit_bytes=self._thread_bytes)

    async def _result(self, caller: Caller, run: Run) -> Task:
        if run.work.done() and not run.work.cancelled():
            error = run.work.exception()
            if error is not None:
                raise error
            if run.task.resting:
                return run.task
        return await self.get(caller, str(run.task.id))

    async def _drafts(self, task: Task) -> list[Json]:
        drafts: dict[str, Json] = {}
        for happening in await self._store.events(task.tenant_id, task.id, 0, limit=10_000):
            if happening.body["kind"] == "artifact":
                made = happening.body["artifact"]
                if happening.body.get("append") and made["id"] in drafts:
                    drafts[made["id"]] = {**made, "parts": drafts[made["id"]]["parts"] + made["parts"]}
                else:
                    drafts[made["id"]] = made
        return list(drafts.values())


def _rests(happening: Happening) -> bool:
    return happening.body["kind"] == "status" and State(happening.body["to"]) not in (
        State.REQUESTED,
        State.VALIDATED,
        State.QUEUED,
        State.IN_PROGRESS,
    )
