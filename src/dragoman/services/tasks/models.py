"""A task as the core keeps it. Every door shows a view of this; messages and parts are JSON as kit writes them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from dragoman.services.tasks.events import Event
from dragoman.services.tasks.lifecycle import RESTING, TERMINAL, State

if TYPE_CHECKING:
    from dragoman.infra.limits import Admitted

Json = dict[str, Any]
# What the idempotency key of a message is called in its metadata.
KEY_NAMES: Final = ("idempotencyKey", "idempotency_key", "idempotency-key")
# What an agent declares on its card that keeps keys as we do.
IDEMPOTENCY_EXTENSION: Final = "urn:dragoman:a2a:idempotency:1"


@dataclass(slots=True)
class Task:
    """How a task stands.

    A message is `{id, role: user|agent, parts, metadata?, key?, withheld?}` (the key is its sender's idempotency key,
    and what is withheld are secrets), an artifact `{id, name, description?, parts}`; a part is one of kit's. The error
    is `{code, message, details}`, the slot of a task that waits `{value, auth?, asks?, answers?, asking?}`: kit's, and
    an id for what is asked.
    """

    tenant_id: UUID
    id: UUID
    alias: str | None
    context_id: str
    owner: str
    skill: str | None
    state: State
    status_at: datetime
    message: Json | None
    error: Json | None
    slot: Json | None
    history: list[Json]
    artifacts: list[Json]
    metadata: Json
    caller: Json
    seq: int
    attempt: int
    created_at: datetime
    # When the work that is under way began; known to whoever took it over.
    started_at: datetime | None = None
    # Whether it is shown to one who sent the same message again under the same key.
    replayed: bool = False
    # Artifacts with secrets, for those who wait for the task or follow it where it runs; they are never stored.
    once: list[Json] = field(default_factory=list[Json], repr=False)

    @property
    def thread(self) -> "ThreadKey":
        """The conversation that the task belongs to."""
        return ThreadKey(self.owner, self.context_id)

    @property
    def terminal(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in TERMINAL

    @property
    def delegated(self) -> bool:
        """Whether it was handed over in an envelope; else it is a turn of a conversation."""
        return "action" in self.metadata

    @property
    def wants_auth(self) -> bool:
        """Whether what it waits for is an authorization."""
        return self.state is State.INPUT_REQUIRED and bool((self.slot or {}).get("auth"))

    @property
    def resting(self) -> bool:
        """Whether nothing happens until somebody does something."""
        return self.state in RESTING


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no task: a message of the agent, of which nothing is kept."""

    context_id: str
    message: Json


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One thing that happened to a task: a status, a message, an artifact, progress, or a line of its log."""

    seq: int
    at: datetime
    event: Event


@dataclass(slots=True)
class ToolCall:
    """The tool that a message names in a data part `{"tool": ..., "arguments": {...}, "idempotency_key"?}`.

    `name` is None where the message has something else than text there: its task fails. `admitted` is set by the door
    that has counted the call.
    """

    name: str | None
    arguments: Any
    key: Any = None
    admitted: "Admitted | None" = None


def find_tool_call(message: Json) -> ToolCall | None:
    """Return the first tool call of a message; done once where a message comes in, and once where it is taken over."""
    for part in message["parts"]:
        if names_tool(part):
            call: Json = part["data"]
            name = call["tool"]
            return ToolCall(
                name if isinstance(name, str) else None, call.get("arguments", {}), call.get("idempotency_key")
            )
    return None


def names_tool(part: Json) -> bool:
    """Return whether a part of a message is a tool call."""
    return part.get("kind") == "data" and isinstance(part.get("data"), dict) and "tool" in part["data"]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message from outside, and what its sender wants of the answer.

    `attach` is called with the task and its last event number before anything comes of the message. `skill` is whose
    work a new task is, where that is known. With `seen`, an answer is one to a task whose last event that was.
    `tool_call` is what `find_tool_call` gives for the message. `opening` gives metadata for the first task of a new
    context; it is not called for a message that names a tool, which begins no conversation.
    """

    message: Json
    context_id: str | None = None
    task_ref: str | None = None
    alias: str | None = None
    metadata: Json | None = None
    idempotency_key: str | None = None
    wait_s: float | None = None
    attach: Callable[[Task, int], Awaitable[object]] | None = None
    skill: str | None = None
    seen: int | None = None
    opening: Callable[[], Awaitable[Json]] | None = None
    tool_call: ToolCall | None = field(kw_only=True)


class Order(Enum):
    """The order of a list: the last created first, or the last changed first."""

    CREATED = "created"
    CHANGED = "changed"


class Cursor(NamedTuple):
    """The last task of a page; in the order of creation its id says all."""

    id: UUID
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks to list, in which order, and where the page begins; filters that are None are left out."""

    limit: int = 50
    order: Order = Order.CHANGED
    after: Cursor | None = None
    context_id: str | None = None
    states: tuple[State, ...] | None = None
    auth: bool | None = None
    action: str | None = None
    matter: str | None = None
    actor: str | None = None
    correlation_id: str | None = None
    error: str | None = None
    created_since: datetime | None = None
    changed_since: datetime | None = None


class AttemptRef(NamedTuple):
    """Which attempt at which task."""

    task_id: UUID
    number: int


class ThreadKey(NamedTuple):
    """Which conversation: a context id is a name that its owner gave, and another's may have the same."""

    owner: str
    id: str

    @property
    def fifo_key(self) -> str:
        """The key by which the turns of one conversation run one after another."""
        return f"context:{self.owner}\n{self.id}"  # the name of an owner has no line break
