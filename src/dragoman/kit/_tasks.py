"""Tasks in memory: the records, their event logs, and what a caller sees of them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import uuid4

from pydantic import JsonValue

from dragoman.kit._artifact import Artifact
from dragoman.kit._content import Content
from dragoman.kit._effects import Json
from dragoman.kit._errors import ContextMismatch, TaskNotFound
from dragoman.kit._lifecycle import TaskState
from dragoman.kit._llm import Usage
from dragoman.kit._ports import Activity, LogLevel
from dragoman.kit._routing import How
from dragoman.kit._slot import SkillSlot
from dragoman.kit._thread import Thread


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why a task failed or was rejected."""

    code: str
    message: str
    details: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class StatusChanged:
    """The task stands elsewhere."""

    seq: int
    state: TaskState
    message: Content | None = None


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """Words on how far it is."""

    seq: int
    text: str
    percent: float | None


@dataclass(frozen=True, slots=True)
class Logged:
    """A line on how it is done."""

    seq: int
    text: str
    level: LogLevel


@dataclass(frozen=True, slots=True)
class ArtifactShown:
    """A draft or a piece of one; with `final`, the artifact of a completed task."""

    seq: int
    artifact: Artifact
    append: bool
    last_chunk: bool
    final: bool


@dataclass(frozen=True, slots=True)
class ActivityChanged:
    """The task waits for tools, or goes on."""

    seq: int
    activity: Activity
    tools: tuple[str, ...]


TaskEvent: TypeAlias = StatusChanged | ProgressMade | Logged | ArtifactShown | ActivityChanged


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its caller sees it at one moment. `artifacts` is empty until the task is completed.

    `auth_required` says that what it waits for is an authorization.
    """

    id: str
    context_id: str
    state: TaskState
    message: Content | None
    artifacts: tuple[Artifact, ...]
    history: Thread
    error: TaskError | None
    skill_id: str | None
    route: How | None
    usage: Usage
    auth_required: bool = False

    @property
    def text(self) -> str:
        """The words of its last message."""
        return "" if self.message is None else self.message.text


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A turn that asks a person about one of its effects, as it is run again: with the same message and slot."""

    step: str
    content: Content
    thread: Thread
    slot: SkillSlot | None


@dataclass(slots=True)
class TaskRecord:
    """A task as the store keeps it: data alone, nothing that runs."""

    id: str
    context_id: str
    state: TaskState = TaskState.IDLE
    skill_id: str | None = None
    slot: SkillSlot | None = None
    route: How | None = None
    message: Content | None = None
    error: TaskError | None = None
    history: Thread = field(default_factory=Thread)
    values: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    drafts: dict[str, list[Artifact]] = field(default_factory=dict[str, list[Artifact]])
    artifacts: tuple[Artifact, ...] = ()
    events: list[TaskEvent] = field(default_factory=list[TaskEvent])
    usage: Usage = field(default_factory=Usage)
    auth_required: bool = False
    effects: dict[tuple[str, str], Json | None] = field(default_factory=dict[tuple[str, str], Json | None])
    interrupted: Interrupted | None = None

    @property
    def next_seq(self) -> int:
        """The number of the next event; they are counted from 1, without gaps."""
        return len(self.events) + 1

    def view(self) -> TaskView:
        """What its caller may see now."""
        return TaskView(
            id=self.id,
            context_id=self.context_id,
            state=self.state,
            message=self.message,
            artifacts=self.artifacts,
            history=self.history,
            error=self.error,
            skill_id=self.skill_id,
            route=self.route,
            usage=self.usage,
            auth_required=self.auth_required,
        )

    def show(self, artifact: Artifact, *, append: bool) -> None:
        """Keep a draft; a piece is added to the draft of its name."""
        if append:
            self.drafts.setdefault(artifact.name, []).append(artifact)
        else:
            self.drafts[artifact.name] = [artifact]


@dataclass(slots=True)
class Conversation:
    """What the tasks of one context share; who holds `turn` has the conversation to itself."""

    thread: Thread = field(default_factory=Thread)
    values: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class InMemoryTasks:
    """All tasks and conversations. A Runtime that is given the store of another goes on where that one stopped."""

    def __init__(self, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._new_id = new_id
        self._tasks: dict[str, TaskRecord] = {}
        self._conversations: dict[str, Conversation] = {}

    def open(self, context_id: str | None, task_id: str | None) -> TaskRecord:
        """The task of this id, or a new one in the given or a new conversation.

        Raises:
            TaskNotFound: there is no task of this id.
            ContextMismatch: it belongs to another conversation.
        """
        if task_id is None:
            record = TaskRecord(self._new_id(), context_id or self._new_id())
            self._tasks[record.id] = record
            return record
        record = self.get(task_id)
        if context_id not in (None, record.context_id):
            raise ContextMismatch(task_id, str(context_id))
        return record

    def get(self, task_id: str) -> TaskRecord:
        """One task.

        Raises:
            TaskNotFound: there is none of this id.
        """
        found = self._tasks.get(task_id)
        if found is None:
            raise TaskNotFound(task_id)
        return found

    def conversation(self, context_id: str) -> Conversation:
        """What the tasks of a context share; made when it is first asked for."""
        return self._conversations.setdefault(context_id, Conversation())
