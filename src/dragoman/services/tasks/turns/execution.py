"""The interface between a turn and the code that does its work.

The core knows tasks; it does not know how agents are written. An executor stands between: it is given a Job and returns
an Outcome, which names the state that the task goes to.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from dragoman import kit
from dragoman.context import Caller, Progress
from dragoman.errors import DragomanError
from dragoman.infra.limits import Admitted
from dragoman.services.tasks.engine.leases import Lease
from dragoman.services.tasks.events import Event
from dragoman.services.tasks.lifecycle import State
from dragoman.services.tasks.models import Json, ThreadKey, ToolCall


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a tool as JSON: `shown` to the caller, `kept` in the task, without secrets."""

    shown: Any
    kept: Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a piece of work ended; `skill` is who did it, to be asked again when the task goes on.

    QUEUED says that the turn is to be tried again, after `delay_s`; an `uncounted` try is not held against it.
    `refused` work was not begun, or left nothing behind: its sender may use the key of its message again.
    `shown` are the ids of artifacts that were reported already just as they are, and need no event of their own.
    With `reply` the message is the whole answer, and there need not be a task at all. `auth` says that what the task
    waits for is an authorization. `once` are the artifacts with the secrets that are shown to who waits, and not kept.
    One that is `recorded` leaves an audit record.
    """

    state: State
    skill: str | None = None
    message: list[Json] | None = None
    artifacts: list[Json] = field(default_factory=list[Json])
    slot: Json | None = None
    error: Json | None = None
    shown: frozenset[str] = frozenset()
    refused: bool = False
    reply: bool = False
    auth: bool = False
    once: list[Json] = field(default_factory=list[Json])
    delay_s: float = 0.0
    uncounted: bool = False
    recorded: bool = False


class TurnPostponed(kit.TurnEnded):
    """The turn cannot go on now, for no fault of its skill: it is run again later."""

    def __init__(self, cause: DragomanError) -> None:
        super().__init__(cause.message)
        self.cause = cause


class Report(Protocol):
    """Tells those who follow a task."""

    async def __call__(self, event: Event, *, linger: bool = False) -> None:
        """Append an event to the log of the task; what may linger goes with what follows within a moment."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work on one task, in one attempt.

    `slot` is what the task was waiting for when this is an answer, else None. `report` appends to the task's log,
    `note` does so with whatever is written next and stores nothing by itself, `store` makes it durable as it stands.
    In a fresh context nothing was said before. `cancellation` is set when someone ended the task, and not when its work
    is merely handed to another process. `tool_call` is the tool that the message names. Without a valid `lease` nothing
    that the work does counts any more. `effects` is the ledger of the task, which has to be stored before it is used.
    """

    caller: Caller
    task_id: UUID
    thread: ThreadKey
    skill: str | None
    message: Json
    tool_call: ToolCall | None
    slot: Json | None
    resumed: bool
    attempt: int
    report: Report
    note: Callable[[Event], Awaitable[None]]
    store: Callable[[], Awaitable[None]]
    fresh: bool
    cancellation: asyncio.Event
    lease: Lease
    effects: kit.Effects


class Executor(Protocol):
    """Runs skills."""

    async def execute(self, job: Job) -> Outcome:
        """Do the work; whatever it raises becomes a failed task, with nothing internal shown."""
        ...

    async def call(self, caller: Caller, call: ToolCall, task_id: UUID, progress: Progress) -> Outcome:
        """Call an operation that is done as a whole, for a task that is not stored; it raises what `execute` does."""
        ...

    def skill_of(self, call: ToolCall | None, skill: str | None) -> str | None:
        """Return the skill of the tool that is called, else `skill`."""
        ...

    def is_direct(self, call: ToolCall | None) -> bool:
        """Check whether the message calls an operation directly, without an agent."""
        ...

    def is_whole(self, call: ToolCall | None) -> bool:
        """Check whether the message calls an operation directly that happens as a whole or not at all."""
        ...

    def reads(self, call: ToolCall) -> bool:
        """Check whether the operation changes nothing."""
        ...

    def keepable(self, message: Json, call: ToolCall | None) -> Json:
        """Return the message without the secrets of the call, marked `withheld` where there were any."""
        ...


class Tools(Protocol):
    """Runs operations through the gate, by the names that they have as tools."""

    def has(self, name: str) -> bool:
        """Check whether there is a tool of this name."""
        ...

    def is_whole(self, name: str) -> bool:
        """Check whether a tool changes nothing, or everything in one transaction with its idempotency key."""
        ...

    def reads(self, name: str) -> bool:
        """Check whether a tool changes nothing."""
        ...

    def keepable(self, name: str, arguments: Any) -> Any:
        """Return the arguments of a tool without their secrets."""
        ...

    async def run(
        self, caller: Caller, name: str, arguments: Any, *, key: str | None, admitted: Admitted | None = None
    ) -> ToolOutput:
        """Return the output of a tool; with `admitted` the call was counted where it came in.

        Raises:
            DragomanError: a guard refused it, the arguments are wrong, or it failed.
        """
        ...

    async def find_done(self, caller: Caller, name: str, arguments: Any, *, key: str) -> ToolOutput | None:
        """Return the output of the run under this key; None when there was none."""
        ...
