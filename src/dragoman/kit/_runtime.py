"""An in-memory host: what scripts, examples and tests run agents with. The server is the durable one."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias

from pydantic import JsonValue

from dragoman.context import Caller
from dragoman.kit._agent import Agent
from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content, ContentLike
from dragoman.kit._context import Context, Host
from dragoman.kit._effects import EffectAnswer, EffectUnknown, InMemoryEffects
from dragoman.kit._lifecycle import TaskState, check_step
from dragoman.kit._ports import Activity, InMemoryState, LogLevel
from dragoman.kit._results import AuthRequired, Completed, Failed, InputRequired, Rejected, Reply
from dragoman.kit._slot import SkillSlot
from dragoman.kit._tasks import (
    ActivityChanged,
    ArtifactShown,
    InMemoryTasks,
    Interrupted,
    Logged,
    ProgressMade,
    StatusChanged,
    TaskError,
    TaskEvent,
    TaskRecord,
    TaskView,
)
from dragoman.kit._thread import Event, Thread
from dragoman.kit._turn import Turn, take_turn

log = logging.getLogger(__name__)
_NewContext: TypeAlias = Callable[[Thread, SkillSlot | None], Context]


class Runtime:
    """Runs an agent's tasks in this process, for one tenant.

    State lives in `tasks`, never in the agent: another Runtime on the same store goes on with the same tasks. Turns of
    one context run one after another, in the order in which they were sent. Each task has a ledger of effects of its
    own, unless `effects` is given for all of them.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        tasks: InMemoryTasks | None = None,
        effects: InMemoryEffects | None = None,
        cancel_grace_s: float = 5.0,
    ) -> None:
        self._agent, self._grace_s, self._effects = agent, cancel_grace_s, effects
        self._tasks = tasks or InMemoryTasks()
        self._running: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        self._changed: dict[str, asyncio.Event] = {}

    async def send(
        self,
        said: ContentLike,
        *,
        context_id: str | None = None,
        task_id: str | None = None,
        caller: Caller | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> TaskView:
        """Begin a task, or answer the question of one, and wait until it is at rest.

        A sender that is cancelled while it waits does not stop the task; `cancel` does.

        Raises:
            TaskNotFound: there is no task of this id.
            InvalidTransition: the task does not wait for input.
            ContextMismatch: the task belongs to another conversation.
        """
        view = await self.start(said, context_id=context_id, task_id=task_id, caller=caller, metadata=metadata)
        running, _ = self._running[view.id]
        await asyncio.wait([running])
        return self._tasks.get(view.id).view()

    async def start(
        self,
        said: ContentLike,
        *,
        context_id: str | None = None,
        task_id: str | None = None,
        caller: Caller | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> TaskView:
        """The same, without waiting; follow it with `subscribe`, or ask with `get`."""
        content = Content.of(said)
        record = self._tasks.open(context_id, task_id)
        self._move(record, TaskState.PROCESSING)
        cancellation = asyncio.Event()
        record.history = record.history.add_event(Event.user(content))
        host = Host(
            InMemoryState(record.values, self._tasks.conversation(record.context_id).values),
            _News(record, self._publish),
            cancellation,
            self._ledger(record),
            metadata=metadata or {},
        )
        driving = self._drive(record, content, partial(self._context, record, host, caller))
        running = asyncio.create_task(driving, name=f"task {record.id}")
        self._running[record.id] = (running, cancellation)
        running.add_done_callback(lambda done: self._forget(record.id, done))
        return record.view()

    async def get(self, task_id: str) -> TaskView:
        """A task as it stands.

        Raises:
            TaskNotFound: there is none of this id.
        """
        return self._tasks.get(task_id).view()

    async def cancel(self, task_id: str) -> TaskView:
        """Stop a task. Its code is cancelled where it awaits; whatever it still returns is thrown away.

        Raises:
            TaskNotFound: there is none of this id.
            InvalidTransition: it has ended already.
        """
        record = self._tasks.get(task_id)
        self._move(record, TaskState.CANCELLED)
        record.slot = None
        record.drafts.clear()
        if (running := self._running.get(task_id)) is not None:
            running[1].set()
            running[0].cancel()
            await asyncio.wait([running[0]], timeout=self._grace_s)
        return record.view()

    async def subscribe(self, task_id: str, *, after: int = 0) -> AsyncGenerator[TaskEvent, None]:
        """Every event of a task after the given `seq`: those of the past, then those to come, until it is at rest.

        Raises:
            TaskNotFound: there is none of this id.
        """
        record = self._tasks.get(task_id)
        seen = after
        while True:
            for event in record.events[seen:]:
                seen = event.seq
                yield event
            if seen >= len(record.events):
                if record.state.at_rest:
                    return
                # Nothing is awaited between the look at the log and here, so no event is slept through.
                await self._changed.setdefault(task_id, asyncio.Event()).wait()

    async def aclose(self) -> None:
        """Cancel what still runs, and wait for it."""
        running = [one for one in self._running.values() if not one[0].done()]
        for task, cancellation in running:
            cancellation.set()
            task.cancel()
        await asyncio.gather(*(task for task, _ in running), return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _drive(self, record: TaskRecord, content: Content, context: _NewContext) -> None:
        try:
            async with self._tasks.conversation(record.context_id).turn:
                turn = await self._take(record, content, context)
                if record.state is TaskState.PROCESSING:
                    self._settle(record, turn)
        except asyncio.CancelledError:
            running = asyncio.current_task()
            if running is not None and running.cancelling():
                if record.state is TaskState.PROCESSING:
                    self._move(record, TaskState.CANCELLED)
                raise
            if record.state is not TaskState.PROCESSING:
                return
            # Nobody cancelled this task: the handler let something of its own be cancelled, and did not mind it.
            log.warning("task %s was not cancelled, but its handler raised CancelledError", record.id, exc_info=True)
            failed = Failed("the skill failed; the log says why", "INTERNAL_ERROR")
            self._settle(record, Turn(failed, record.skill_id))

    async def _take(self, record: TaskRecord, content: Content, context: _NewContext) -> Turn:
        conversation = self._tasks.conversation(record.context_id)
        thread, slot, interrupted = conversation.thread, record.slot, record.interrupted
        conversation.thread = thread.add_event(Event.user(content))
        if interrupted is not None:
            answer = EffectAnswer.find(content, interrupted.step)
            if answer is None:
                return Turn(EffectUnknown(interrupted.step).question(), record.skill_id)
            self._ledger(record).answer(answer)
            content, thread, slot = interrupted.content, interrupted.thread, interrupted.slot
            record.interrupted = None
        ctx = context(thread, slot)
        try:
            return await take_turn(self._agent, ctx, content, skill_id=record.skill_id)
        except EffectUnknown as unknown:
            record.interrupted = Interrupted(unknown.step, content, thread, slot)
            return Turn(unknown.question(), record.skill_id)
        finally:
            record.usage += ctx.usage

    def _context(
        self, record: TaskRecord, host: Host, caller: Caller | None, thread: Thread, slot: SkillSlot | None
    ) -> Context:
        return Context(
            record.id,
            record.context_id,
            host=host,
            llm=self._agent.llm,
            instructions=self._agent.instructions,
            thread=thread,
            slot=slot,
            caller=caller,
        )

    def _ledger(self, record: TaskRecord) -> InMemoryEffects:
        return self._effects or InMemoryEffects(record.effects, task_id=record.id)

    def _forget(self, task_id: str, done: asyncio.Task[None]) -> None:
        # A task can be resumed before the turn that asked is quite gone; that turn's end is not the new one's.
        if (running := self._running.get(task_id)) is not None and running[0] is done:
            del self._running[task_id]

    def _settle(self, record: TaskRecord, turn: Turn) -> None:
        record.skill_id, record.route, record.slot = turn.skill_id, turn.route or record.route, None
        record.auth_required = False
        match turn.result:
            case Completed(message=message, artifacts=artifacts):
                self._finalise(record, artifacts)
                self._end(record, TaskState.COMPLETED, message)
            case InputRequired(message=message, slot=slot):
                record.slot, record.auth_required = slot, isinstance(turn.result, AuthRequired)
                self._end(record, TaskState.INPUT_REQUIRED, message)
            case Reply(message=message):
                self._end(record, TaskState.COMPLETED, message)
            case Failed(error=error, code=code, details=details):
                record.error = TaskError(code or "SKILL_FAILED", error, details)
                self._end(record, TaskState.FAILED, Content.of(error))
            case Rejected(reason=reason):
                record.error = TaskError("SKILL_REJECTED", reason)
                self._end(record, TaskState.REJECTED, Content.of(reason))

    def _finalise(self, record: TaskRecord, artifacts: tuple[Artifact, ...]) -> None:
        for artifact in artifacts:
            record.show(artifact, append=False)
        record.artifacts = tuple(map(Artifact.joined, record.drafts.values()))
        for artifact in record.artifacts:
            self._publish(record, ArtifactShown(record.next_seq, artifact, append=False, last_chunk=True, final=True))

    def _end(self, record: TaskRecord, state: TaskState, message: Content | None) -> None:
        if state.terminal:
            record.drafts.clear()
        if message is not None:
            self._say(record, Event.assistant(message))
        self._move(record, state, message)

    def _say(self, record: TaskRecord, event: Event) -> None:
        conversation = self._tasks.conversation(record.context_id)
        conversation.thread = conversation.thread.add_event(event)
        record.history = record.history.add_event(event)

    def _move(self, record: TaskRecord, state: TaskState, message: Content | None = None) -> None:
        check_step(record.id, record.state, state)
        record.state, record.message = state, message
        self._publish(record, StatusChanged(record.next_seq, state, message))

    def _publish(self, record: TaskRecord, event: TaskEvent) -> None:
        record.events.append(event)
        if (changed := self._changed.pop(record.id, None)) is not None:
            changed.set()


class _News:
    """The progress port of one task; a task that was stopped has no more news."""

    def __init__(self, record: TaskRecord, publish: Callable[[TaskRecord, TaskEvent], None]) -> None:
        self._record, self._publish = record, publish

    async def update(self, text: str, percent: float | None) -> None:
        self._tell(ProgressMade(self._record.next_seq, text, percent))

    async def log(self, text: str, level: LogLevel) -> None:
        self._tell(Logged(self._record.next_seq, text, level))

    async def artifact(self, artifact: Artifact, *, append: bool, last_chunk: bool) -> None:
        if self._record.state is TaskState.PROCESSING:
            self._record.show(artifact, append=append)
        self._tell(ArtifactShown(self._record.next_seq, artifact, append=append, last_chunk=last_chunk, final=False))

    async def activity(self, activity: Activity, tools: tuple[str, ...]) -> None:
        self._tell(ActivityChanged(self._record.next_seq, activity, tools))

    def _tell(self, event: TaskEvent) -> None:
        if self._record.state is TaskState.PROCESSING:
            self._publish(self._record, event)
