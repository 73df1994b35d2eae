"""What the operations on tasks take and give."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, ConfigDict, Field, PrivateAttr, model_validator

from dragoman.arguments import read_arguments
from dragoman.operations import Input, ListInput, Output
from dragoman.services.tasks.actions.envelope import Envelope
from dragoman.services.tasks.lifecycle import State

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """The message that an envelope came in, for doors that have one: its task is the task of the conversation."""

    message: Json
    context_id: str | None = None
    alias: str | None = None


class SubmitTask(Input):
    """An action to hand over; the envelope may stand alone."""

    stands_alone: ClassVar[str] = "envelope"
    envelope: Envelope = Field(description="Who asks for which action on what.")
    _origin: Origin | None = PrivateAttr(default=None)

    @property
    def origin(self) -> Origin | None:
        """The message that the envelope came in, if any."""
        return self._origin

    @classmethod
    def sent_in(cls, origin: Origin, envelope: Envelope) -> Self:
        """Return an envelope as it came in a message."""
        submitted = cls(envelope=envelope)
        submitted._origin = origin
        return submitted


@dataclass(frozen=True, slots=True)
class SentArguments:
    """The arguments of `task_submit` as a message has them: the gate reads them, and keeps where they came from."""

    arguments: Any
    origin: Origin

    def read(self, model: type[SubmitTask], /) -> SubmitTask:
        """Return the input.

        Raises:
            InvalidInput: it is wrong; every field that is wrong is named.
        """
        return model.sent_in(self.origin, read_arguments(model, self.arguments).envelope)


class Submitted(Output):
    """The task that an envelope became, or had become before."""

    task_id: UUID
    state: State
    correlation_id: str
    attempt: int
    max_attempts: int
    replayed: bool = Field(description="Whether the same envelope was handed over before.")
    waits_for: list[str] = Field(default_factory=list[str], description="Approvals that must be decided first.")

    @property
    def id(self) -> UUID:
        """Where it is found."""
        return self.task_id


class TaskRef(Input):
    """Which task."""

    task_id: str = Field(min_length=1, max_length=200, description="Its id, that of one of its runs, or its alias.")


class CancelTask(TaskRef):
    """End a task."""

    reason: str | None = Field(None, max_length=500)


class RetryTask(TaskRef):
    """Try a task that failed once more."""

    reason: str | None = Field(None, max_length=500)


class TransitionTask(TaskRef):
    """Move a task by hand."""

    to: State
    reason: str | None = Field(None, max_length=500)
    result: Json | None = Field(None, description="The result, with `succeeded`.")


class EffectAnswer(Input):
    """A person's answer to whether a side effect happened."""

    step: str = Field(min_length=1, max_length=200)
    done: bool
    outcome: Json = Field(default_factory=dict[str, Any], description="The outcome, if it happened.")


class ProvideInput(TaskRef):
    """Answer what a task waits for."""

    input: Json = Field(default_factory=dict[str, Any], description="The answer, as the question asks for it.")
    effect: EffectAnswer | None = Field(None, description="Whether a side effect happened, where the task asks.")


class ListTasks(ListInput):
    """Filters for a list of tasks."""

    state: State | None = Field(None, description="Only tasks in this state.")
    action: str | None = Field(None, max_length=200, description="Only this action.")
    matter: str | None = Field(None, max_length=200, description="Only tasks of this matter.")
    actor: str | None = Field(None, max_length=200, description="Only tasks that this actor submitted.")
    correlation_id: str | None = Field(None, max_length=200)
    error: str | None = Field(None, max_length=100, description="Only tasks that failed with this error code.")
    since: AwareDatetime | None = Field(None, description="Only tasks created at this time or later.")


class ManyTasks(Input):
    """Tasks by what they have in common; at least one filter is needed."""

    action: str | None = Field(None, max_length=200)
    matter: str | None = Field(None, max_length=200)
    actor: str | None = Field(None, max_length=200)
    correlation_id: str | None = Field(None, max_length=200)
    error: str | None = Field(None, max_length=100)
    state: State | None = None
    since: AwareDatetime | None = None
    limit: int = Field(100, ge=1, le=1000, description="How many at most.")
    reason: str | None = Field(None, max_length=500)

    @model_validator(mode="after")
    def _narrowed(self) -> Self:
        if not self.model_fields_set - {"limit", "reason"}:
            raise ValueError("at least one filter is required")
        return self


class ManyDone(Output):
    """The tasks that were changed, and those that were refused."""

    done: list[UUID]
    refused: list[Json] = Field(description="The tasks that were refused, each with its error code.")
    more: bool = Field(description="True if more tasks match than the limit.")


class Step(Output):
    """One step of the lifecycle."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)

    seq: int
    from_: State | None = Field(None, alias="from")
    to: State
    at: datetime
    actor: str
    worker: str | None = None
    attempt: int | None = None
    run: int = 1
    reason: str | None = None
    refused: bool = Field(default=False, description="The lifecycle has no such step; nothing was moved.")


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PARKED = "parked"
    CANCELLED = "cancelled"
    LOST = "lost"


class AttemptView(Output):
    """One attempt, with who made it and what came of it."""

    attempt: int
    run: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None = None
    outcome: AttemptOutcome
    error: Json | None = None


class TaskView(Output):
    """How a task stands, and how it came there."""

    task_id: UUID
    state: State
    attempt: int
    max_attempts: int
    run: int = 1
    correlation_id: str | None = None
    action: str | None = None
    actor: str
    on_behalf_of: str | None = Field(default=None, description="For whom the actor acts.")
    claims: list[str] = Field(default_factory=list[str], description="`on_behalf_of`, where no grant covers it.")
    matter: Json | None = None
    resource: Json | None = None
    deadline: datetime | None = None
    dry_run: bool = False
    created_at: datetime
    updated_at: datetime
    governance: Json = Field(default_factory=dict[str, Any])
    waits_for: list[str] = Field(default_factory=list[str])
    question: Json | None = None
    attempts: list[AttemptView] = Field(default_factory=list[AttemptView])
    error: Json | None = None
    result: Json | None = None
    evidence: list[Json] = Field(default_factory=list[Json])
    history: list[Step] = Field(default_factory=list[Step])


class TaskSummary(Output):
    """A task in a list."""

    id: UUID
    task_id: UUID
    state: State
    action: str | None
    actor: str
    on_behalf_of: str | None = Field(default=None, description="For whom the actor acts.")
    claims: list[str] = Field(default_factory=list[str], description="`on_behalf_of`, where no grant covers it.")
    matter: str | None
    correlation_id: str | None
    attempt: int
    error: Json | None
    created_at: datetime
    updated_at: datetime


class ListEvents(TaskRef):
    """What happened to a task, from an event on."""

    after: int = Field(0, ge=0, description="Begin after this event.")
    limit: int = Field(200, ge=1, le=1000)


class TaskEvent(Output):
    """One thing that happened."""

    seq: int
    at: datetime
    kind: Literal["status", "message", "artifact", "progress", "log", "activity", "refused"]
    body: Json


class TaskEvents(Output):
    """A piece of the log of a task, oldest first."""

    task_id: UUID
    state: State
    events: list[TaskEvent]
    next_after: int = Field(description="Where to go on.")
